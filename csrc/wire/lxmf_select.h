/* How a message travels: method and representation from its size (LXMF 3.2).
 */
#ifndef NM_WIRE_LXMF_SELECT_H
#define NM_WIRE_LXMF_SELECT_H

#include "wire/lxmf_constants.h"

#include "base/status.h"

/* len(payload, stamp included) - 16; negative for the smallest payloads. */
static inline int64_t nm_lxmf_content_size(size_t payload_len) {
  return (int64_t)payload_len - 16;
}

typedef struct nm_lxmf_choice {
  nm_lxmf_method method;
  nm_lxmf_representation representation;
} nm_lxmf_choice;

/* Chooses for |desired| (UNKNOWN means DIRECT). |size| is the content size for
 * OPPORTUNISTIC and DIRECT, the length of the container with stamps for
 * PROPAGATED, the length of lxmf_data for PAPER. An opportunistic message that
 * is too large becomes DIRECT. NM_E(TOO_LARGE) for paper above 2210,
 * NM_E(ARGUMENT) for another method. */
int nm_lxmf_select(nm_lxmf_method desired, int64_t size,
                   nm_lxmf_choice *choice);

#endif
