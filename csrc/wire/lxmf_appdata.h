/* Announce app data of delivery destinations and propagation nodes, in every
 * version found on the network (LXMF 5).
 */
#ifndef NM_WIRE_LXMF_APPDATA_H
#define NM_WIRE_LXMF_APPDATA_H

#include "base/cursor.h"
#include "base/msgpack.h"
#include "wire/lxmf_constants.h"

/* --- Delivery (LXMF 5.1) --- */

typedef enum nm_lxmf_support {
  NM_LXMF_SUPPORT_UNKNOWN, /* no app data: senders then compress */
  NM_LXMF_SUPPORT_NO,
  NM_LXMF_SUPPORT_YES
} nm_lxmf_support;

typedef enum nm_lxmf_delivery_form {
  NM_LXMF_DELIVERY_ABSENT, /* none or empty */
  NM_LXMF_DELIVERY_LEGACY, /* the name alone, before 0.5.0 */
  NM_LXMF_DELIVERY_ARRAY   /* current */
} nm_lxmf_delivery_form;

/* What a delivery announce says. Spans borrow from the input. */
typedef struct nm_lxmf_delivery {
  nm_lxmf_delivery_form form;
  bool has_name;
  /* UTF-8 that was checked. In the array form it is to be shown cleaned
   * (nm_lxmf_name_clean), the legacy form as it is. */
  nm_span name;
  bool has_cost;
  uint32_t cost; /* 1..254 in practice */
  nm_lxmf_support compression;
  uint32_t function_count;
  nm_span functions; /* encoded elements of the list; may be empty */
} nm_lxmf_delivery;

/* Reads app data; |in.ptr| NULL or a length of 0 means absent. Tolerant as the
 * network demands: 0 also when parts are undecodable, which then are unknown.
 * An element 1 that is no integer from 0 to 2^32 - 1 counts as no cost. Only
 * broken msgpack is refused: the errors of nm_mp_skip, field
 * "delivery_app_data", with |out| left as "nothing known". */
int nm_lxmf_delivery_decode(nm_span in, nm_lxmf_delivery *out, nm_fault *fault);

/* Writes the name of |in| without NUL characters and without white space (as
 * Unicode has it) at its ends. NM_E(TOO_LARGE). */
int nm_lxmf_name_clean(nm_span name, nm_writer *w);

typedef struct nm_lxmf_delivery_draft {
  bool has_name; /* false writes nil */
  nm_span name;
  bool has_cost; /* a cost outside 1..254 is written as nil (LXMF 5.1) */
  uint32_t cost;
  const uint64_t *functions; /* functionality codes */
  uint32_t function_count;
} nm_lxmf_delivery_draft;

size_t nm_lxmf_delivery_size(const nm_lxmf_delivery_draft *draft);
/* NM_E(UTF8) for the name, NM_E(TOO_LARGE). */
int nm_lxmf_delivery_encode(const nm_lxmf_delivery_draft *draft, nm_writer *w);

/* --- Propagation node (LXMF 5.2) --- */

/* What a propagation announce says. Spans borrow from the input. */
typedef struct nm_lxmf_node {
  int64_t timebase; /* Unix seconds */
  bool active;
  double transfer_limit_kb; /* as sent; receivers use whole kB */
  double sync_limit_kb;
  int64_t stamp_cost;
  int64_t flexibility;
  int64_t peering_cost;
  nm_span metadata; /* the encoded map */
  bool has_name;
  nm_span name; /* UTF-8; only when it came as bin */
  bool has_version;
  nm_span version; /* text */
  bool has_implementation;
  nm_span implementation; /* text */
} nm_lxmf_node;

/* Reads and validates: all rules of LXMF 5.2. Numbers may be integers, floats
 * (cut to integers where one is wanted) or decimal text. Fields: "node"
 * (TYPE, LENGTH below 7), "node.timebase", "node.active",
 * "node.transfer_limit", "node.sync_limit" (TYPE, VALUE for text that is no
 * number, RANGE), "node.costs" (TYPE, LENGTH below 3), "node.stamp_cost",
 * "node.flexibility", "node.peering_cost", "node.metadata" (TYPE). */
int nm_lxmf_node_decode(nm_span in, nm_lxmf_node *out, nm_fault *fault);

typedef struct nm_lxmf_node_draft {
  int64_t timebase;
  bool active;
  double transfer_limit_kb;
  double sync_limit_kb;
  bool limits_float; /* write the limits as float64, else as integers */
  uint32_t stamp_cost;
  uint32_t flexibility;
  uint32_t peering_cost;
  /* Metadata in the order they are written; `ptr` NULL leaves one out. */
  nm_span implementation; /* text */
  nm_span version;        /* text */
  nm_span name;           /* written as bin */
  /* An encoded map that takes the place of the three above. */
  nm_span metadata;
} nm_lxmf_node_draft;

size_t nm_lxmf_node_size(const nm_lxmf_node_draft *draft);
/* NM_E(RANGE) for a limit that is to be an integer and is none or that is no
 * int64, NM_E(UTF8),
 * NM_E(TOO_LARGE). */
int nm_lxmf_node_encode(const nm_lxmf_node_draft *draft, nm_writer *w);

#endif
