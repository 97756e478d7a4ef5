/* Own destinations, announce subscriptions and request handlers: the structs
 * behind local.h and what the rest of the room calls.
 */
#ifndef NM_STACK_LOCALS_H
#define NM_STACK_LOCALS_H

#include "base/table.h"
#include "base/timer.h"
#include "stack/local.h"
#include "wire/announce.h"

struct nm_input;
struct nm_op;

typedef struct nm_handler {
  struct nm_handler *next;
  uint8_t path_hash[NM_ADDRESS_SIZE];
  nm_allow allow;
  nm_identity_hash *list;
  size_t list_count;
} nm_handler;

typedef struct nm_local {
  nm_table_link link;
  nm_destination_hash hash;
  nm_dest_type type;
  nm_block *identity; /* NULL for PLAIN */
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_block *name;
  bool has_group_key;
  nm_token_key group_key;
  nm_prove prove;
  bool hold;
  bool accepts_links;
  bool paused; /* takes no packets */
  nm_accept resources;
  bool hold_resources;
  bool channels;
  size_t resource_max;
  size_t request_max;
  nm_shelf *shelf; /* where its links store resources, or NULL: memory */
  uint64_t shelf_max;
  nm_block *app_data;    /* default, or NULL */
  uint64_t last_emitted; /* Unix seconds of the last announce */
  bool ratchets;
  bool enforce_ratchets;
  uint32_t ratchets_retained;
  uint64_t ratchet_interval_us;
  uint64_t rotated_mono_us; /* 0: not since the start */
  uint64_t announcing; /* the one whose store or signature is under way, or 0 */
  nm_block *ratchet_keys; /* 32-byte private keys, newest first, or NULL */
  nm_block *ratchet_ids;  /* 10 bytes each, in the same order */
  uint8_t ratchet_public[NM_KEY_SIZE]; /* of the newest */
  struct nm_answer *answers; /* path responses made lately, newest first */
  nm_handler *handlers;
  nm_timer register_timer; /* path response to the shared instance */
  nm_engine *engine;       /* for the timer */
} nm_local;

/* A path response that is used again for the same tag (RNS 1, 5.6). */
typedef struct nm_answer {
  struct nm_answer *next;
  uint8_t tag[NM_TAG_SIZE];
  uint8_t tag_len;
  uint64_t made_us;
  nm_block *raw;
} nm_answer;

/* An announce under way: stored, signed, sent, one after the other. */
typedef struct nm_announcing {
  nm_table_link link;
  uint64_t id;
  nm_destination_hash hash;
  nm_op_id op; /* 0: nobody waits for it */
  nm_iface_id iface;
  bool path_response;
  bool rotate_only; /* nothing is announced */
  bool waiting;     /* for an earlier one of the same destination */
  uint8_t tag[NM_TAG_SIZE];
  uint8_t tag_len;
  nm_block *app_data; /* NULL: none */
  nm_block *new_keys; /* a rotation that is not durable yet */
  nm_block *new_ids;
  uint8_t new_public[NM_KEY_SIZE];
  uint64_t emitted;
} nm_announcing;

/* A packet whose proof waits for a decision. */
typedef struct nm_held_packet {
  nm_table_link link;
  nm_token_id token;
  nm_packet_hash hash;
  nm_iface_id iface;
  nm_block *identity;
} nm_held_packet;

typedef struct nm_subscription {
  struct nm_subscription *next;
  int id;
  bool all;
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  bool path_responses;
} nm_subscription;

typedef struct nm_locals {
  nm_table table; /* nm_local by destination hash */
  nm_table announcing;
  nm_table held;
  uint64_t next_announcing;
  nm_subscription *subscriptions;
  int next_subscription;
} nm_locals;

int nm_locals_init(nm_engine *engine);
void nm_locals_dispose(nm_engine *engine);
int nm_announcing_init(nm_engine *engine);
void nm_announcing_dispose(nm_engine *engine);
int nm_held_init(nm_engine *engine);
void nm_held_dispose(nm_engine *engine);
/* Loads the private keys of a stored file, newest first. NM_E(SIGNATURE) and
 * the errors of the file. */
int nm_local_load_ratchets(nm_engine *engine, nm_local *local, nm_span file);
/* An own destination went: its announces under way end. */
void nm_announcing_local_gone(nm_engine *engine,
                              const nm_destination_hash *hash);
/* Announces |local| as a path response on |iface|, for no tag. */
void nm_local_register(nm_engine *engine, nm_local *local, nm_iface_id iface);
void nm_local_drop_answers(nm_engine *engine, nm_local *local);

/* Keys with a new one in front, their ids (and the first public key), and the
 * signed file. NULL without memory or entropy. */
nm_block *nm_local_rotated(nm_engine *engine, const nm_local *local);
nm_block *nm_local_rotated_ids(nm_engine *engine, const nm_local *local,
                               const nm_block *keys,
                               uint8_t first_public[NM_KEY_SIZE]);
nm_block *nm_local_ratchet_file(nm_engine *engine, const nm_local *local,
                                const nm_block *keys);
void nm_local_free(nm_engine *engine, nm_local *local);
nm_local *nm_local_next(const nm_engine *engine, const nm_local *local);
nm_local *nm_local_find(const nm_engine *engine,
                        const nm_destination_hash *hash);
/* DATA for a SINGLE, GROUP or PLAIN destination that is registered here
 * (RNS 1, 8.5 step 7): opens it (a job for SINGLE), reserves its event first,
 * proves by strategy. */
nm_drop nm_locals_data(nm_engine *engine, struct nm_input *input,
                       nm_local *local);
/* Answers a path request for |local| on one interface, reusing the announce
 * made for the same tag within 30 s (RNS 1, 5.6). */
void nm_locals_answer(nm_engine *engine, nm_local *local, nm_iface_id iface,
                      nm_span tag);
/* Tells the subscriptions of an accepted announce (RNS 1, 5.7). */
void nm_locals_tell_announce(nm_engine *engine, const nm_announce *announce,
                             const nm_frame *frame, nm_iface_id iface,
                             uint8_t hops, const nm_packet_hash *hash);
/* An interface came online: a connection to a shared instance gets every
 * SINGLE destination announced as a path response (RNS 1, 8.12.1). */
void nm_locals_iface_online(nm_engine *engine, nm_iface_id iface);
/* The handler for |path_hash| and whether |identity| (NULL: not identified)
 * may use it. */
const nm_handler *nm_local_handler(const nm_local *local,
                                   const uint8_t path_hash[NM_ADDRESS_SIZE]);
bool nm_handler_allows(const nm_handler *handler,
                       const nm_identity_hash *identity);
/* An operation of this file's was sent, cancelled or shut down. */
void nm_locals_op_sent(nm_engine *engine, struct nm_op *op, bool ok);
void nm_locals_op_cancel(nm_engine *engine, struct nm_op *op);
/* Accept or refuse a token of this file's (a held packet). NM_E(STATE) when it
 * is not one of its own. */
int nm_locals_decide(nm_engine *engine, nm_token_id token, bool accept);

#endif
