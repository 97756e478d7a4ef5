/* The last datagrams that passed, so that one which comes a second time is
 * known (RNS 2, 5.7).
 */
#ifndef NM_IO_RECENT_H
#define NM_IO_RECENT_H

#include "base/bytes.h"

#define NM_RECENT_COUNT 48
#define NM_RECENT_US UINT64_C(750000)

typedef struct nm_recent {
  uint8_t key[16]; /* random */
  struct {
    uint64_t hash;
    uint64_t at_us;
    uint32_t place; /* where it passed; 0: empty */
  } ring[NM_RECENT_COUNT];
  size_t next;
} nm_recent;

/* Whether |data| passed at another place than |place| (not 0) within the last
 * NM_RECENT_US. A datagram that did not is remembered. */
bool nm_recent_seen(nm_recent *recent, nm_span data, uint32_t place,
                    uint64_t now_us);

#endif
