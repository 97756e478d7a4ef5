/* Requests and responses on links (RNS 2, 2).
 */
#ifndef NM_STACK_REQUEST_H
#define NM_STACK_REQUEST_H

#include "stack/content.h"
#include "stack/link.h"

/* Sends a request: a packet when it fits the link's MDU, else a resource.
 * |data| is one packed msgpack value (empty: nil). |timeout_us| 0 means RNS 2,
 * 2.4; |response_max| 0 means the engine's resource limit. Ends with
 * NM_EVENT_RESPONSE: state READY and `data` the packed response (or the file
 * of a response with metadata), else FAILED with the stage. */
int nm_engine_request(nm_engine *engine, nm_link_ref link, nm_span path,
                      nm_span data, uint64_t timeout_us, size_t response_max,
                      nm_op_id *op, nm_now now);
/* Answers NM_EVENT_REQUEST's token with one packed value. A token is answered
 * once; nm_engine_refuse leaves the request without an answer. NM_E(STATE)
 * when the link has ended meanwhile. */
int nm_engine_respond(nm_engine *engine, nm_token_id token, nm_span data,
                      bool compress, nm_now now);
/* Answers with file content and packed metadata (RNS 2, 2.3: a file response
 * must carry metadata to be understood). */
int nm_engine_respond_file(nm_engine *engine, nm_token_id token,
                           nm_span content, nm_span metadata, bool compress,
                           nm_now now);
/* The same from a |source|, which gets one more reference. */
int nm_engine_respond_file_from(nm_engine *engine, nm_token_id token,
                                nm_source *source, nm_span metadata,
                                bool compress, nm_now now);

#endif
