/* Own destinations: what this engine listens on, announces and proves.
 */
#ifndef NM_STACK_LOCAL_H
#define NM_STACK_LOCAL_H

#include "stack/engine.h"

typedef enum nm_accept {
  NM_ACCEPT_NONE, /* resources are refused, which their sender sees at once */
  NM_ACCEPT_APP,  /* an offer event with a token; refused after offer_wait */
  NM_ACCEPT_ALL
} nm_accept;

typedef struct nm_dest_spec {
  nm_dest_type type;
  const nm_identity *identity; /* SINGLE: private keys; copied. GROUP: may be
                                  NULL when the hash has none */
  nm_span name;                /* dotted; copied */
  nm_span group_key;           /* GROUP: 32 or 64 bytes */
  nm_prove prove; /* NM_PROVE_APP: the packet event carries a token */
  bool hold;      /* a packet's proof waits for nm_engine_accept
                     even with PROVE_ALL: durable, then promised */
  bool accepts_links;
  nm_accept resources; /* default for its links */
  bool hold_resources; /* the resource proof waits as well */
  bool channels; /* each link's channel is opened when it becomes active, for
                    messages of all types */
  size_t resource_max; /* content bytes; 0: the engine's limit */
  size_t request_max;  /* bytes of a request; 0: no limit */
  bool ratchets;
  bool enforce_ratchets;
  uint32_t ratchets_retained;  /* 512 */
  uint32_t ratchet_interval_s; /* 1800 */
  uint64_t last_emitted;       /* Unix seconds, from what was stored earlier */
  nm_span ratchet_file;        /* what was stored earlier, or empty */
} nm_dest_spec;

void nm_dest_spec_default(nm_dest_spec *spec);

/* Registers a destination; its hash goes to |hash|. NM_E(ARGUMENT) for a rule
 * of P6, NM_E(DUPLICATE_KEY) when it exists, NM_E(SIGNATURE) for a ratchet
 * file that is not by this identity, NM_E(LIMIT), NM_E(MEMORY). An engine
 * attached to a shared instance announces it as a path response after 0.25 s
 * (RNS 1, 8.12.1). */
int nm_engine_listen(nm_engine *engine, const nm_dest_spec *spec,
                     nm_destination_hash *hash, nm_now now);
/* Closes its links, forgets its handlers. */
int nm_engine_unlisten(nm_engine *engine, const nm_destination_hash *hash,
                       nm_now now);
int nm_engine_set_prove(nm_engine *engine, const nm_destination_hash *hash,
                        nm_prove prove, bool hold);
/* While a destination is paused, packets for it are neither delivered nor
 * proven (NO_CREDIT): a program that is behind here slows the peers of this
 * destination alone. NM_E(MISSING). */
int nm_engine_pause(nm_engine *engine, const nm_destination_hash *hash,
                    bool paused);
/* The app data of announces that name none, and of path responses. An empty
 * span with |set| is different from none. */
int nm_engine_set_app_data(nm_engine *engine, const nm_destination_hash *hash,
                           bool set, nm_span app_data);

/* Announces an own SINGLE destination: |app_data| NULL uses the default;
 * |iface| 0 means every interface. With ratchets a due rotation comes first
 * and is made durable (NM_JOB_STORE) before the announce leaves. The emission
 * time never goes backwards, whatever the wall clock does, and is later than
 * the last one: many announces at once take it up to 5 s ahead of the clock,
 * and while the clock is further behind each is a second later than the last.
 * The operation ends with NM_EVENT_ANNOUNCED. */
int nm_engine_announce(nm_engine *engine, const nm_destination_hash *hash,
                       const nm_span *app_data, nm_iface_id iface,
                       bool path_response, nm_op_id *op, nm_now now);

/* Subscribes to announces: |name| NULL matches all, else the announces of that
 * name. Returns an id (> 0), or NM_E(LIMIT), NM_E(MEMORY). */
int nm_engine_subscribe(nm_engine *engine, const nm_span *name,
                        bool path_responses);
int nm_engine_unsubscribe(nm_engine *engine, int id);

/* Registers a request handler: matching requests become NM_EVENT_REQUEST.
 * |list| holds |count| identity hashes for NM_ALLOW_LIST; copied. */
int nm_engine_handle(nm_engine *engine, const nm_destination_hash *hash,
                     nm_span path, nm_allow allow, const nm_identity_hash *list,
                     size_t count);
int nm_engine_unhandle(nm_engine *engine, const nm_destination_hash *hash,
                       nm_span path);

/* Own ratchets (E12). Copies up to |max| ids (newest first) and returns how
 * many there are; NM_E(MISSING) without such a destination. */
int nm_engine_ratchet_ids(const nm_engine *engine,
                          const nm_destination_hash *hash,
                          uint8_t (*ids)[NM_NAME_HASH_SIZE], size_t max);
/* Rotates now, whatever the interval; made durable by a job. */
int nm_engine_rotate(nm_engine *engine, const nm_destination_hash *hash,
                     nm_now now);
/* Settings and times of own ratchets and announces. */
typedef struct nm_ratchet_state {
  bool enabled;
  bool enforced;
  uint32_t retained;
  uint64_t interval_us;
  uint64_t rotated_mono_us; /* 0: not since the start */
  uint64_t last_emitted;    /* Unix seconds of the last announce */
} nm_ratchet_state;
/* NM_E(MISSING). */
int nm_engine_ratchet_state(const nm_engine *engine,
                            const nm_destination_hash *hash,
                            nm_ratchet_state *out);
/* The private keys that open what was encrypted to the destination's ratchets,
 * newest first, 32 bytes each, secret: one more reference in |*keys|, NULL
 * when it has none. NM_E(MISSING). */
int nm_engine_ratchet_keys(const nm_engine *engine,
                           const nm_destination_hash *hash, nm_block **keys);
/* The signed ratchet file as it would be stored; the caller drops the block. */
int nm_engine_ratchet_file(const nm_engine *engine,
                           const nm_destination_hash *hash, nm_block **file);

#endif
