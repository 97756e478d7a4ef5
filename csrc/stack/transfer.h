/* Resources on links (RNS 2, 3): sent and received, of any size.
 *
 * Content above one segment goes segment by segment, each advertised after the
 * last one was proven; the next one is prepared meanwhile. What is sent lies in
 * memory or is read from a source; what comes in is gathered in memory, or, on
 * a link with a shelf, given to a sink as soon as a segment is verified.
 */
#ifndef NM_STACK_TRANSFER_H
#define NM_STACK_TRANSFER_H

#include "stack/content.h"
#include "stack/link.h"
#include "wire/resource_build.h"

typedef struct nm_transfer_info {
  nm_op_id op;
  nm_link_ref link;
  bool outgoing;
  nm_resource_state state;
  uint8_t hash[NM_HASH_SIZE];     /* of the segment under way */
  uint8_t original[NM_HASH_SIZE]; /* of the first segment */
  uint64_t segment;               /* from 1; 0: none is ready yet */
  uint64_t segments;
  uint64_t content_bytes;
  uint64_t content_done;   /* proven or verified, and what parts stand for */
  uint64_t resumed_bytes;  /* of it, what was there from an attempt before */
  uint64_t transfer_bytes; /* of the segment under way */
  uint32_t parts;          /* of it */
  uint32_t parts_done;
  uint32_t window;
  uint32_t window_min;
  uint32_t window_max;
  uint32_t retries_left;
  bool compressed; /* the segment under way */
  bool has_metadata;
  bool stored;         /* read from a source, or given to a sink */
  uint64_t requests;   /* part requests sent or served */
  uint64_t wire_bytes; /* bytes of parts sent or received, repeats too */
} nm_transfer_info;

/* Sends |content| (held by reference: |content| gets one more reference) with
 * optional packed |metadata|. Registered before its advertisement leaves. One
 * outgoing resource per link at a time, the next is QUEUED. Ends with
 * NM_EVENT_RESOURCE_OUT. NM_E(TOO_LARGE) when the metadata does not fit the
 * first segment, NM_E(STATE), NM_E(LIMIT), NM_E(MEMORY). */
int nm_engine_resource_send(nm_engine *engine, nm_link_ref link,
                            nm_block *content, nm_span metadata,
                            nm_resource_compression compression,
                            uint64_t timeout_us, nm_op_id *op, nm_now now);
/* The same from a |source|, which gets one more reference and is read one
 * segment ahead. A source that fails ends the transfer with stage STORE. */
int nm_engine_resource_send_from(nm_engine *engine, nm_link_ref link,
                                 nm_source *source, nm_span metadata,
                                 nm_resource_compression compression,
                                 uint64_t timeout_us, nm_op_id *op, nm_now now);
/* Resources that begin on |link| from now on go to sinks of |shelf| (one more
 * reference; NULL: to memory again): only the next one with |once|. Up to
 * |size_max| content bytes are taken (0: any size). Their RESOURCE_IN has
 * `stored` set, and the place of the content as `data`; it comes, and the last
 * segment is proven, after the sink has finished. A sink that fails ends the
 * transfer with stage STORE. Responses and requests are not concerned.
 * NM_E(MISSING). */
int nm_engine_link_shelve(nm_engine *engine, nm_link_ref link, nm_shelf *shelf,
                          bool once, uint64_t size_max);
/* The same for the links that peers open to an own destination from now on.
 * NM_E(MISSING). */
int nm_engine_shelve(nm_engine *engine, const nm_destination_hash *hash,
                     nm_shelf *shelf, uint64_t size_max);
int nm_engine_transfer_info(const nm_engine *engine, nm_op_id op,
                            nm_transfer_info *info);
nm_op_id nm_engine_transfer_next(const nm_engine *engine, nm_link_ref link,
                                 nm_op_id op);

#endif
