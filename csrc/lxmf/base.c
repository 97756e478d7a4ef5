/* What every file of the room uses: tables, timers and chance, what the engine
 * knows, jobs, and whose an operation or a link is.
 */
#include "lxmf/internal.h"

#include <string.h>

/* ---- tables ---- */

int nm_router_table(nm_router *router, nm_table *table, size_t capacity,
                    size_t key_size, size_t key_offset,
                    void (*dispose)(void *user, nm_table_link *entry)) {
  nm_table_config config = {.capacity = capacity,
                            .key_size = key_size,
                            .key_offset = key_offset,
                            .user = router,
                            .dispose = dispose};
  int status = nm_entropy_fill(&router->entropy, config.hash_key,
                               sizeof(config.hash_key));
  return status != NM_OK ? status : nm_table_init(table, router->mem, &config);
}

void nm_router_dispose_plain(void *user, nm_table_link *entry) {
  nm_router *router = user;
  nm_release(router->mem, entry);
}

/* ---- time and chance ---- */

int nm_router_reserve_timers(nm_router *router, size_t more) {
  int status =
      nm_timers_reserve(&router->timers, router->timers_reserved + more);
  if (status == NM_OK) {
    router->timers_reserved += more;
  }
  return status;
}

void nm_router_arm(nm_router *router, nm_timer *timer, uint64_t due_us) {
  /* Room was reserved when the owner was made. */
  (void)nm_timer_arm(&router->timers, timer, due_us);
}

void nm_router_disarm(nm_router *router, nm_timer *timer) {
  nm_timer_disarm(&router->timers, timer);
}

uint32_t nm_router_random(nm_router *router) {
  uint32_t value = 0;
  /* Without entropy the jitter is none: nothing else depends on it. */
  return nm_entropy_fill(&router->entropy, &value, sizeof(value)) == NM_OK
             ? value
             : 0;
}

/* ---- what the engine knows ---- */

void nm_router_medium(const nm_router *router, nm_lxmf_medium *medium) {
  uint64_t lowest = 0;
  for (nm_iface_id id = nm_engine_iface_next(router->engine, 0); id != 0;
       id = nm_engine_iface_next(router->engine, id)) {
    const nm_iface_spec *spec = nm_engine_iface(router->engine, id);
    if (spec->online && (lowest == 0 || spec->bitrate < lowest)) {
      lowest = spec->bitrate;
    }
  }
  nm_lxmf_medium_of(lowest, medium);
}

bool nm_router_has_path(const nm_router *router,
                        const nm_destination_hash *target) {
  return nm_engine_path_iface(router->engine, target) != 0;
}

uint64_t nm_router_round_trip(const nm_router *router,
                              const nm_destination_hash *target) {
  nm_iface_id id = nm_engine_path_iface(router->engine, target);
  if (id != 0) {
    const nm_iface_spec *spec = nm_engine_iface(router->engine, id);
    return nm_lxmf_round_trip_us(spec != NULL ? spec->bitrate : 0);
  }
  nm_lxmf_medium medium;
  nm_router_medium(router, &medium);
  return medium.timeout_us;
}

static bool announced_by(nm_router *router, const nm_destination_hash *hash,
                         nm_span *data) {
  nm_identity identity;
  bool has_data = false;
  return nm_engine_recall(router->engine, hash, &identity, data, &has_data,
                          router->now) &&
         has_data;
}

bool nm_router_knows(nm_router *router, const nm_destination_hash *hash) {
  nm_identity identity;
  return nm_engine_recall(router->engine, hash, &identity, NULL, NULL,
                          router->now);
}

bool nm_router_delivery_of(nm_router *router,
                           const nm_destination_hash *recipient,
                           nm_lxmf_delivery *delivery) {
  nm_span data;
  nm_fault fault;
  return announced_by(router, recipient, &data) &&
         nm_lxmf_delivery_decode(data, delivery, &fault) == NM_OK;
}

bool nm_router_node_of(nm_router *router, nm_lxmf_node *node) {
  nm_span data;
  nm_fault fault;
  return announced_by(router, &router->node, &data) &&
         nm_lxmf_node_decode(data, node, &fault) == NM_OK;
}

/* ---- jobs ---- */

nm_mail_job *nm_router_new_work(nm_router *router, nm_mail_job_kind kind,
                                void *owner) {
  nm_mail_job *work = nm_alloc_zero(router->mem, 1, sizeof(*work));
  if (work != NULL) {
    work->mem = router->mem;
    work->kind = kind;
    work->owner = owner;
  }
  return work;
}

void nm_router_submit(nm_router *router, nm_mail_job *work) {
  work->next = NULL;
  if (router->work_last != NULL) {
    router->work_last->next = work;
  } else {
    router->work_first = work;
  }
  router->work_last = work;
}

/* ---- whose an event is ---- */

int nm_router_own_op(nm_router *router, nm_op_id op, const nm_letter *letter,
                     bool over_link) {
  nm_errand_op *entry = nm_alloc_zero(router->mem, 1, sizeof(*entry));
  if (entry != NULL) {
    entry->op = op;
    entry->over_link = over_link;
    memcpy(entry->letter, letter->id, sizeof(entry->letter));
    if (nm_table_insert(&router->ops, &entry->link) == NM_OK) {
      return NM_OK;
    }
    nm_release(router->mem, entry);
  }
  (void)nm_engine_cancel(router->engine, op, router->now);
  return NM_E(MEMORY);
}

void nm_router_drop_op(nm_router *router, nm_op_id op) {
  nm_table_link *entry = nm_table_find(&router->ops, &op);
  if (entry != NULL) {
    nm_table_remove(&router->ops, entry);
    nm_release(router->mem, entry);
    (void)nm_engine_cancel(router->engine, op, router->now);
  }
}

nm_line *nm_line_find(const nm_router *router, nm_link_ref ref) {
  return (nm_line *)(void *)nm_table_find(&router->lines, &ref);
}

int nm_router_own_line(nm_router *router, nm_link_ref ref, bool initiator,
                       const nm_destination_hash *mailbox,
                       const nm_destination_hash *target) {
  nm_line *line = nm_alloc_zero(router->mem, 1, sizeof(*line));
  if (line == NULL) {
    return NM_E(MEMORY);
  }
  line->ref = ref;
  line->initiator = initiator;
  if (mailbox != NULL) {
    line->mailbox = *mailbox;
  }
  if (target != NULL) {
    line->target = *target;
  }
  int status = nm_table_insert(&router->lines, &line->link);
  if (status != NM_OK) {
    nm_release(router->mem, line);
  }
  return status;
}

void nm_mail_dispose(nm_mail *mail) {
  nm_block_drop(mail->packed);
  nm_block_drop(mail->sealed);
  nm_wipe(mail, sizeof(*mail));
}
