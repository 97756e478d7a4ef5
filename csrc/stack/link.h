/* Links (RNS 2, 1): opened, accepted, watched, closed.
 */
#ifndef NM_STACK_LINK_H
#define NM_STACK_LINK_H

#include "stack/local.h"

/* Everything readable about a link, also after it closed until it is
 * forgotten (E7). Times are monotonic microseconds, 0: never. */
typedef struct nm_link_info {
  nm_link_ref ref;
  nm_link_id id;
  nm_destination_hash destination;
  nm_link_state state;
  nm_close_reason reason;
  bool initiator;
  bool identified;
  nm_identity_hash remote_identity;
  nm_iface_id iface;
  uint32_t mtu;
  uint32_t mdu;
  uint8_t mode;
  uint8_t hops;
  uint64_t rtt_us;
  uint64_t keepalive_us;
  uint64_t stale_us;
  uint64_t requested_at;
  uint64_t activated_at;
  uint64_t last_inbound;
  uint64_t last_outbound;
  uint64_t last_data;
  uint64_t last_keepalive;
  uint64_t last_proof;
  bool holds_ephemeral; /* which secrets are still in memory */
  bool holds_session_key;
  uint32_t requests_pending;
  uint32_t transfers_in;
  uint32_t transfers_out;
  bool channel_open;
  bool signal_tracked;
  int16_t rssi_dbm;
  int16_t snr_cdb;
  int16_t quality_pct;
} nm_link_info;

/* Opens a link to a SINGLE destination whose identity is known. |timeout_us| 0
 * means RNS 2, 1.8. Ends with NM_EVENT_LINK_ACTIVE, or NM_EVENT_LINK_CLOSED.
 * NM_E(MISSING), NM_E(LIMIT), NM_E(STATE) when nothing can carry it. */
int nm_engine_link_open(nm_engine *engine, const nm_destination_hash *hash,
                        uint64_t timeout_us, nm_link_ref *link, nm_now now);
/* Closes with LINKCLOSE when active; quiet on a closed link. */
int nm_engine_link_close(nm_engine *engine, nm_link_ref link, nm_now now);
/* Says who we are; initiator only. Quiet (0, nothing sent) on a link that is
 * not active yet or not ours, as upstream does. */
int nm_engine_link_identify(nm_engine *engine, nm_link_ref link,
                            const nm_identity *identity, nm_now now);
/* The same before it returns, some 15 us later: what is sent next comes behind
 * it. */
int nm_engine_link_identify_now(nm_engine *engine, nm_link_ref link,
                                const nm_identity *identity, nm_now now);
/* Sends data; with |receipt| an operation that ends with NM_EVENT_RECEIPT. The
 * packet's hash goes to |hash| (may be NULL). NM_E(TOO_LARGE) above the MDU,
 * NM_E(STATE) unless active. */
int nm_engine_link_send(nm_engine *engine, nm_link_ref link, nm_span payload,
                        bool receipt, uint64_t timeout_us, nm_op_id *op,
                        nm_packet_hash *hash, nm_now now);
/* Overrides what the handshake measured. 0 leaves a value as it is. */
int nm_engine_link_tune(nm_engine *engine, nm_link_ref link, uint64_t rtt_us,
                        uint64_t keepalive_us, uint64_t stale_us, nm_now now);
int nm_engine_link_policy(nm_engine *engine, nm_link_ref link,
                          nm_accept resources, bool hold, size_t resource_max);
/* What an initiator proves of the peer's packets: nothing unless it is told
 * here (a responder goes by its destination). |hold|: with NM_PROVE_ALL the
 * proof waits for nm_engine_accept. NM_E(MISSING), NM_E(STATE) for a link that
 * the peer opened. */
int nm_engine_link_set_prove(nm_engine *engine, nm_link_ref link,
                             nm_prove prove, bool hold);
/* While a link is paused, |packets| or new |resources| on it are neither
 * delivered nor proven (NO_CREDIT), as without credit. NM_E(MISSING). */
int nm_engine_link_pause(nm_engine *engine, nm_link_ref link, bool packets,
                         bool resources);
int nm_engine_link_track_signal(nm_engine *engine, nm_link_ref link, bool on);
/* NM_E(MISSING) when the link was forgotten. */
int nm_engine_link_info(const nm_engine *engine, nm_link_ref link,
                        nm_link_info *info);
nm_link_ref nm_engine_link_by_id(const nm_engine *engine, const nm_link_id *id);
nm_link_ref nm_engine_link_next(const nm_engine *engine, nm_link_ref link);

/* Crafting (E8): seals |payload| with any context and packet type under the
 * link's key and returns the raw packet without sending it; opens one. */
int nm_engine_link_seal(nm_engine *engine, nm_link_ref link,
                        uint8_t packet_type, uint8_t context, nm_span payload,
                        nm_block **raw);
int nm_engine_link_unseal(nm_engine *engine, nm_link_ref link, nm_span raw,
                          nm_block **plaintext);

#endif
