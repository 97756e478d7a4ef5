/* Announcing own destinations: rotate, make durable, sign, send (RNS 1, 3.5,
 * 5). What an announce promises is on disk before it leaves.
 */
#include "stack/internal.h"

#include <stdio.h>
#include <string.h>

#define ANNOUNCING_MAX 4096
#define ANSWERS_MAX 16
#define ANSWER_LIFE_US 30000000ull

/* ---- announces under way ---- */

static void dispose_announcing(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_announcing *a = (nm_announcing *)(void *)entry;
  nm_block_drop(a->app_data);
  nm_block_drop(a->new_keys);
  nm_block_drop(a->new_ids);
  nm_release(engine->mem, a);
}

int nm_announcing_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = ANNOUNCING_MAX,
      .key_size = sizeof(uint64_t),
      .key_offset = offsetof(nm_announcing, id),
      .may_evict = nm_table_keep,
      .dispose = dispose_announcing,
  };
  engine->locals.next_announcing = 1;
  return nm_engine_table(engine, &engine->locals.announcing, &config);
}

void nm_announcing_dispose(nm_engine *engine) {
  nm_table_dispose(&engine->locals.announcing);
}

static nm_announcing *find_announcing(const nm_engine *engine, uint64_t id) {
  return (nm_announcing *)(void *)nm_table_find(&engine->locals.announcing,
                                                &id);
}

/* Ends |a|, with its operation if somebody waits for that. */
static void finish(nm_engine *engine, nm_announcing *a, int status,
                   nm_stage stage) {
  nm_op *op = a->op == 0 ? NULL : nm_op_find(&engine->ops, a->op);
  if (op != NULL) {
    nm_event event = nm_engine_event_of(engine, NM_EVENT_ANNOUNCED);
    event.destination = a->hash;
    event.iface = a->iface;
    event.status = status;
    event.stage = (uint8_t)stage;
    event.path_response = a->path_response;
    event.wire_time_us = (int64_t)a->emitted * 1000000;
    nm_engine_end(engine, op, &event);
  }
  nm_table_remove(&engine->locals.announcing, &a->link);
  dispose_announcing(engine, &a->link);
}

static bool carries_own_announces(const nm_iface *iface) {
  nm_propagation p = {
      .out_mode = iface->spec.mode, .local = true, .out_from_internal = true};
  return nm_announce_propagation(&p) != NM_PROPAGATE_BLOCK;
}

/* Puts the finished announce on its way. NM_E(STATE) when no interface takes
 * it. Takes over one reference. */
static int put_out(nm_engine *engine, const nm_announcing *a, nm_block *raw) {
  if (a->iface == 0) {
    size_t taken =
        nm_iface_broadcast(engine, raw, carries_own_announces, a->op);
    return taken > 0 ? NM_OK : NM_E(STATE);
  }
  nm_iface *iface = nm_iface_find(engine, a->iface);
  if (iface == NULL) {
    nm_block_drop(raw);
    return NM_E(STATE);
  }
  return nm_iface_send(engine, iface, raw, a->op);
}

static void keep_answer(nm_engine *engine, nm_local *local,
                        const nm_announcing *a, nm_block *raw) {
  nm_answer *answer = nm_alloc_zero(engine->mem, 1, sizeof(*answer));
  if (answer == NULL) {
    return; /* only means that a repetition is signed again */
  }
  memcpy(answer->tag, a->tag, sizeof(answer->tag));
  answer->tag_len = a->tag_len;
  answer->made_us = engine->now.mono_us;
  answer->raw = nm_block_hold(raw);
  answer->next = local->answers;
  local->answers = answer;
  nm_answer **at = &local->answers;
  for (int i = 0; i < ANSWERS_MAX && *at != NULL; i++) {
    at = &(*at)->next;
  }
  if (*at != NULL) {
    nm_block_drop((*at)->raw);
    nm_release(engine->mem, *at);
    *at = NULL;
  }
}

static void resume(nm_engine *engine, nm_local *local, uint64_t done);

static void signed_now(nm_engine *engine, nm_job *job) {
  nm_announcing *a = find_announcing(engine, job->token);
  nm_local *local = nm_local_find(engine, &job->destination);
  if (a != NULL && (job->status != NM_OK || local == NULL)) {
    finish(engine, a, local == NULL ? NM_E(MISSING) : job->status,
           NM_STAGE_SEND);
  } else if (a != NULL) {
    nm_block *raw = job->u.sign_announce.raw;
    if (a->tag_len > 0) {
      keep_answer(engine, local, a, raw);
    }
    int status = put_out(engine, a, nm_block_hold(raw));
    if (status != NM_OK) {
      finish(engine, a, status, NM_STAGE_SEND);
    } else if (a->op == 0) {
      finish(engine, a, NM_OK, NM_STAGE_NONE);
    }
  } /* else: cancelled meanwhile */
  if (local != NULL) {
    resume(engine, local, job->token);
  }
}

static int sign(nm_engine *engine, nm_local *local, const nm_announcing *a) {
  nm_drop drop;
  nm_job *job = nm_engine_new_job(engine, NM_JOB_SIGN_ANNOUNCE, NULL, &drop);
  if (job == NULL) {
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  nm_job_sign_announce *j = &job->u.sign_announce;
  job->done = signed_now;
  job->token = a->id;
  job->destination = a->hash;
  j->identity = nm_block_hold(local->identity);
  j->app_data = a->app_data == NULL ? NULL : nm_block_hold(a->app_data);
  j->has_ratchet = local->ratchet_keys != NULL;
  memcpy(j->ratchet, local->ratchet_public, NM_KEY_SIZE);
  memcpy(j->name_hash, local->name_hash, NM_NAME_HASH_SIZE);
  j->emitted = a->emitted;
  j->context = a->path_response ? NM_CONTEXT_PATH_RESPONSE : NM_CONTEXT_NONE;
  int status = nm_engine_random(engine, j->random, sizeof(j->random));
  if (status != NM_OK) {
    nm_engine_scrap_job(engine, job);
    return status;
  }
  nm_engine_submit(engine, job);
  return NM_OK;
}

/* ---- durable first ---- */

static int advance(nm_engine *engine, nm_local *local, nm_announcing *a);
static int go(nm_engine *engine, nm_local *local, nm_announcing *a);

/* The ratchets of |a| are durable: they are the destination's from now on. */
static void take_keys(nm_engine *engine, nm_local *local, nm_announcing *a) {
  nm_block_drop(local->ratchet_keys);
  nm_block_drop(local->ratchet_ids);
  local->ratchet_keys = a->new_keys;
  local->ratchet_ids = a->new_ids;
  memcpy(local->ratchet_public, a->new_public, NM_KEY_SIZE);
  local->rotated_mono_us = engine->now.mono_us == 0 ? 1 : engine->now.mono_us;
  a->new_keys = NULL;
  a->new_ids = NULL;
}

static nm_announcing *next_announcing(const nm_engine *engine,
                                      const nm_announcing *a) {
  const nm_table_link *link = a == NULL ? NULL : &a->link;
  return (nm_announcing *)(void *)nm_table_next(&engine->locals.announcing,
                                                link);
}

/* One at a time: a rotation starts from the keys of the one before, or it would
 * lose a ratchet that was announced; and no announce overtakes an earlier one,
 * or emission times would go backwards on the wire. The job of announce |done|
 * is back, and it has no other one. */
static void resume(nm_engine *engine, nm_local *local, uint64_t done) {
  if (local->announcing == done) {
    local->announcing = 0;
  }
  nm_announcing *a = next_announcing(engine, NULL);
  while (a != NULL && local->announcing == 0) {
    nm_announcing *next = next_announcing(engine, a);
    if (a->waiting && memcmp(a->hash.b, local->hash.b, NM_ADDRESS_SIZE) == 0) {
      a->waiting = false;
      int status = go(engine, local, a);
      if (status != NM_OK) {
        finish(engine, a, status, NM_STAGE_SEND);
      }
    }
    a = next;
  }
}

static void stored(nm_engine *engine, nm_job *job) {
  nm_announcing *a = find_announcing(engine, job->token);
  nm_local *local = nm_local_find(engine, &job->destination);
  bool goes_on = false;
  if (a != NULL && (local == NULL || job->status != NM_OK)) {
    finish(engine, a, local == NULL ? NM_E(MISSING) : NM_E(LIBRARY),
           NM_STAGE_STORE);
  } else if (a != NULL) {
    if (job->u.store.rotation) {
      take_keys(engine, local, a);
    } else {
      local->last_emitted = a->emitted;
    }
    int status = a->rotate_only ? NM_OK : advance(engine, local, a);
    goes_on = status == NM_OK && !a->rotate_only;
    if (!goes_on) {
      finish(engine, a, status,
             status == NM_OK ? NM_STAGE_NONE : NM_STAGE_SEND);
    }
  }
  if (local != NULL && !goes_on) {
    resume(engine, local, job->token);
  }
}

void nm_announcing_local_gone(nm_engine *engine,
                              const nm_destination_hash *hash) {
  nm_announcing *a = next_announcing(engine, NULL);
  while (a != NULL) {
    nm_announcing *next = next_announcing(engine, a);
    if (memcmp(a->hash.b, hash->b, NM_ADDRESS_SIZE) == 0) {
      finish(engine, a, NM_E(MISSING), NM_STAGE_SEND);
    }
    a = next;
  }
}

static int store(nm_engine *engine, const nm_announcing *a, const char *kind,
                 nm_block *bytes) {
  nm_drop drop = NM_DROP_NO_MEMORY;
  nm_job *job = bytes == NULL
                    ? NULL
                    : nm_engine_new_job(engine, NM_JOB_STORE, NULL, &drop);
  if (job == NULL) {
    nm_block_drop(bytes);
    return drop == NM_DROP_NO_MEMORY ? NM_E(MEMORY) : NM_E(LIMIT);
  }
  job->done = stored;
  job->token = a->id;
  job->destination = a->hash;
  nm_job_store *s = &job->u.store;
  s->rotation = a->new_keys != NULL;
  int len = snprintf(s->name, sizeof(s->name), "%s/", kind);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    len += snprintf(&s->name[len], sizeof(s->name) - (size_t)len, "%02x",
                    a->hash.b[i]);
  }
  s->bytes = bytes;
  nm_engine_submit(engine, job);
  return NM_OK;
}

static int store_time(nm_engine *engine, const nm_announcing *a) {
  nm_block *bytes = nm_block_new(engine->mem, sizeof(uint64_t));
  if (bytes != NULL) {
    nm_writer w = nm_writer_of(nm_block_bytes(bytes), sizeof(uint64_t));
    nm_writer_u64(&w, a->emitted);
  }
  return store(engine, a, "announced", bytes);
}

/* The next step: a pending rotation, then the emission time, then the
 * signature. */
static int advance(nm_engine *engine, nm_local *local, nm_announcing *a) {
  if (a->new_keys != NULL) {
    return store(engine, a, "ratchets",
                 nm_local_ratchet_file(engine, local, a->new_keys));
  }
  return local->last_emitted < a->emitted ? store_time(engine, a)
                                          : sign(engine, local, a);
}

static bool rotation_due(const nm_engine *engine, const nm_local *local) {
  return local->ratchets &&
         (local->ratchet_keys == NULL || local->rotated_mono_us == 0 ||
          engine->now.mono_us >
              local->rotated_mono_us + local->ratchet_interval_us);
}

static int prepare_rotation(nm_engine *engine, nm_local *local,
                            nm_announcing *a) {
  a->new_keys = nm_local_rotated(engine, local);
  if (a->new_keys != NULL) {
    a->new_ids =
        nm_local_rotated_ids(engine, local, a->new_keys, a->new_public);
  }
  return a->new_ids == NULL ? NM_E(MEMORY) : NM_OK;
}

/* How far ahead of the clock many announces at once may take the time, and path
 * responses, which others cause: they leave room for the program's own. */
#define AHEAD_MAX_S 5
#define ANSWER_AHEAD_MAX_S 2

/* Never earlier than the last one, whatever the wall clock does. It is later,
 * so that peers take it also when it comes in the same second as another
 * (RNS 1, 8.5.1 step 8) or when the clock has gone back, but when the last one
 * is too far ahead. A relay that does not take a path response asks no more for
 * 45 s (RNS 1, 8.9.4). */
static uint64_t emission_time(const nm_engine *engine, const nm_local *local,
                              bool path_response) {
  int64_t now = engine->now.unix_us / 1000000;
  uint64_t seconds = now < 0 ? 0 : (uint64_t)now;
  uint64_t last = local->last_emitted;
  uint64_t ahead = path_response ? ANSWER_AHEAD_MAX_S : AHEAD_MAX_S;
  if (seconds > last) {
    return seconds;
  }
  /* Past the limit a step back of the clock may have brought it. */
  bool free_to_rise =
      path_response ? last < seconds + ahead : last != seconds + ahead;
  return free_to_rise ? last + 1 : last;
}

static nm_announcing *begin(nm_engine *engine, const nm_local *local,
                            nm_iface_id iface, bool path_response) {
  nm_announcing *a = nm_alloc_zero(engine->mem, 1, sizeof(*a));
  if (a == NULL) {
    return NULL;
  }
  a->id = engine->locals.next_announcing++;
  a->hash = local->hash;
  a->iface = iface;
  a->path_response = path_response;
  if (nm_table_insert(&engine->locals.announcing, &a->link) != NM_OK) {
    nm_release(engine->mem, a);
    return NULL;
  }
  return a;
}

/* The first step, after a rotation if one is due, once it is its turn. */
static int go(nm_engine *engine, nm_local *local, nm_announcing *a) {
  if (local->announcing != 0) {
    a->waiting = true;
    return NM_OK;
  }
  int status = NM_OK;
  a->emitted = emission_time(engine, local, a->path_response);
  if (a->rotate_only || rotation_due(engine, local)) {
    status = prepare_rotation(engine, local, a);
  }
  if (status == NM_OK) {
    status = advance(engine, local, a);
  }
  local->announcing = status == NM_OK ? a->id : 0;
  return status;
}

/* Why nothing was begun: memory, or too much under way. */
static int no_room(const nm_engine *engine) {
  return engine->locals.announcing.count >= ANNOUNCING_MAX ? NM_E(LIMIT)
                                                           : NM_E(MEMORY);
}

/* Starts |a| after everything optional is set. On failure |a| is gone, its
 * operation with it. */
static int launch(nm_engine *engine, nm_local *local, nm_announcing *a) {
  int status = go(engine, local, a);
  if (status != NM_OK) {
    nm_op *op = a->op == 0 ? NULL : nm_op_find(&engine->ops, a->op);
    if (op != NULL) {
      nm_op_abandon(&engine->ops, op);
    }
    nm_table_remove(&engine->locals.announcing, &a->link);
    dispose_announcing(engine, &a->link);
  }
  return status;
}

int nm_engine_announce(nm_engine *engine, const nm_destination_hash *hash,
                       const nm_span *app_data, nm_iface_id iface,
                       bool path_response, nm_op_id *id, nm_now now) {
  engine->now = now;
  nm_local *local = engine->closing ? NULL : nm_local_find(engine, hash);
  if (local == NULL) {
    return engine->closing ? NM_E(STATE) : NM_E(MISSING);
  }
  if (local->type != NM_SINGLE) {
    return NM_E(TYPE);
  }
  if (app_data != NULL && app_data->len > NM_ANNOUNCE_APP_DATA_MAX) {
    return NM_E(TOO_LARGE);
  }
  if (iface != 0 && nm_iface_find(engine, iface) == NULL) {
    return NM_E(MISSING);
  }
  nm_announcing *a = begin(engine, local, iface, path_response);
  nm_op *op = a == NULL ? NULL : nm_op_begin(&engine->ops, NM_OP_ANNOUNCE, a);
  if (app_data != NULL && op != NULL) {
    a->app_data = nm_block_copy(engine->mem, *app_data);
  } else if (op != NULL && local->app_data != NULL) {
    a->app_data = nm_block_hold(local->app_data);
  }
  if (op == NULL || (app_data != NULL && a->app_data == NULL)) {
    if (op != NULL) {
      nm_op_abandon(&engine->ops, op);
    }
    if (a != NULL) {
      nm_table_remove(&engine->locals.announcing, &a->link);
      dispose_announcing(engine, &a->link);
    }
    return a == NULL ? no_room(engine) : NM_E(MEMORY);
  }
  a->op = op->id;
  *id = op->id;
  return launch(engine, local, a);
}

static void answer(nm_engine *engine, nm_local *local, nm_iface_id iface,
                   nm_span tag) {
  nm_announcing *a = begin(engine, local, iface, true);
  if (a == NULL) {
    return;
  }
  a->app_data = local->app_data == NULL ? NULL : nm_block_hold(local->app_data);
  if (tag.len > 0) {
    memcpy(a->tag, tag.ptr, tag.len);
    a->tag_len = (uint8_t)tag.len;
  }
  (void)launch(engine, local, a);
}

void nm_local_register(nm_engine *engine, nm_local *local, nm_iface_id iface) {
  answer(engine, local, iface, nm_span_of(NULL, 0));
}

void nm_locals_answer(nm_engine *engine, nm_local *local, nm_iface_id iface,
                      nm_span tag) {
  for (const nm_answer *made = local->answers; made != NULL;
       made = made->next) {
    bool fresh = engine->now.mono_us < made->made_us + ANSWER_LIFE_US;
    if (fresh && nm_span_equal(tag, nm_span_of(made->tag, made->tag_len))) {
      nm_iface *out = nm_iface_find(engine, iface);
      (void)nm_iface_send(engine, out, nm_block_hold(made->raw), 0);
      return;
    }
  }
  answer(engine, local, iface, tag);
}

int nm_engine_rotate(nm_engine *engine, const nm_destination_hash *hash,
                     nm_now now) {
  engine->now = now;
  nm_local *local = nm_local_find(engine, hash);
  if (local == NULL) {
    return NM_E(MISSING);
  }
  if (!local->ratchets) {
    return NM_E(STATE);
  }
  nm_announcing *a = begin(engine, local, 0, false);
  if (a == NULL) {
    return no_room(engine);
  }
  a->rotate_only = true;
  return launch(engine, local, a);
}

void nm_locals_op_sent(nm_engine *engine, nm_op *op, bool ok) {
  finish(engine, op->owner, ok ? NM_OK : NM_E(STATE),
         ok ? NM_STAGE_NONE : NM_STAGE_SEND);
}

void nm_locals_op_cancel(nm_engine *engine, nm_op *op) {
  finish(engine, op->owner, NM_E(CANCELLED), NM_STAGE_CANCELLED);
}
