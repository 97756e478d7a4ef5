/* Known destinations and paths: what the engine learned from announces.
 */
#ifndef NM_STACK_ROUTE_H
#define NM_STACK_ROUTE_H

#include "stack/engine.h"

/* Asks for a path. With |iface| 0 on all interfaces. |tag| NULL makes a fresh
 * one (16 bytes). With |op| the operation ends with NM_EVENT_PATH_RESULT when
 * a path is known or |timeout_us| has passed; requests for one destination
 * share one transmission and are repeated no faster than the back-off allows
 * (20 s at first), but at once on an interface that comes online. Without |op|
 * one request is sent, nothing is waited for. */
int nm_engine_request_path(nm_engine *engine, const nm_destination_hash *hash,
                           nm_iface_id iface, const uint8_t *tag,
                           uint64_t timeout_us, nm_op_id *op, nm_now now);
/* Forgets the path, or only marks it as answering nothing. NM_E(MISSING). */
int nm_engine_drop_path(nm_engine *engine, const nm_destination_hash *hash,
                        nm_now now);
int nm_engine_mark_path(nm_engine *engine, const nm_destination_hash *hash,
                        bool responsive, nm_now now);
/* Hops to a destination, 128 when unknown (RNS 1, 4.9). */
uint8_t nm_engine_hops(const nm_engine *engine,
                       const nm_destination_hash *hash);

/* The interface that the path to a destination leads over; 0 without one. */
nm_iface_id nm_engine_path_iface(const nm_engine *engine,
                                 const nm_destination_hash *hash);

/* The public identity behind a destination, or behind an identity hash; false
 * when unknown. |app_data| may be NULL; else it gets the app data (a span
 * valid until the next call) and |has_app_data| whether there was any. Marks
 * the entry as used. */
bool nm_engine_recall(nm_engine *engine, const nm_destination_hash *hash,
                      nm_identity *identity, nm_span *app_data,
                      bool *has_app_data, nm_now now);
bool nm_engine_recall_identity(nm_engine *engine, const nm_identity_hash *hash,
                               nm_identity *identity, nm_span *app_data,
                               bool *has_app_data, nm_now now);
/* Remembers a destination without an announce. NM_E(MISMATCH) when it is
 * known with another key. */
int nm_engine_remember(nm_engine *engine, const nm_destination_hash *hash,
                       const nm_identity *identity, const nm_span *app_data,
                       nm_now now);
/* Keeps an entry through every cleaning, or lifts that. */
int nm_engine_retain(nm_engine *engine, const nm_destination_hash *hash,
                     bool retain);
/* The ratchet a destination announced; false when none is held or it is older
 * than 30 days. */
bool nm_engine_ratchet_of(const nm_engine *engine,
                          const nm_destination_hash *hash,
                          uint8_t ratchet[NM_KEY_SIZE], nm_now now);

/* Blackholes an identity until a Unix time (0: for ever); its paths go at
 * once. Lifting: NM_E(MISSING) when it was not there. */
int nm_engine_blackhole(nm_engine *engine, const nm_identity_hash *hash,
                        int64_t until_unix_us, nm_span reason, nm_now now);
bool nm_engine_is_blackholed(const nm_engine *engine,
                             const nm_identity_hash *hash);
/* Whether what is known of a destination says that it belongs to a blackholed
 * identity. */
bool nm_engine_is_barred(const nm_engine *engine,
                         const nm_destination_hash *hash);
int nm_engine_unblackhole(nm_engine *engine, const nm_identity_hash *hash);

#endif
