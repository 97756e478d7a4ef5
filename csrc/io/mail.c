/* The router in a node: its life, its jobs, its clock, and what commands begin.
 */
#include "io/mail.h"

#include <string.h>

/* Letters of one node that are on their way; more than routers have. */
#define LETTERS_MAX (1u << 20)

/* ---- life ---- */

static void forget_nothing(void *user, nm_table_link *entry) {
  (void)user;
  (void)entry;
}

static void free_entry(void *user, nm_table_link *link) {
  nm_mail_entry_free(user, (nm_mail_entry *)(void *)link);
}

static int init_tables(nm_node *node, nm_mail_host *host) {
  nm_table_config config = {
      .capacity = LETTERS_MAX,
      .key_size = NM_HASH_SIZE,
      .key_offset = offsetof(nm_mail_entry, id),
      .user = node,
      .dispose = free_entry,
  };
  int status = nm_entropy_fill(&node->entropy_source, config.hash_key,
                               sizeof(config.hash_key));
  if (status == NM_OK) {
    status = nm_table_init(&host->letters, node->mem, &config);
  }
  config.key_size = sizeof(uint64_t);
  config.key_offset =
      offsetof(nm_mail_entry, ticket) - offsetof(nm_mail_entry, by_ticket);
  config.dispose = forget_nothing;
  return status == NM_OK ? nm_table_init(&host->by_ticket, node->mem, &config)
                         : status;
}

int nm_mail_start(nm_node *node) {
  if (node->mail != NULL) {
    return NM_OK;
  }
  nm_mail_host *host = nm_alloc_zero(node->mem, 1, sizeof(*host));
  if (host == NULL) {
    return NM_E(MEMORY);
  }
  int status = init_tables(node, host);
  if (status == NM_OK) {
    nm_router_config config = {.hold = true};
    host->router = nm_router_new(node->mem, &node->entropy_source, node->engine,
                                 &config, node->loop->now, &status);
  }
  host->credit = node->mail_credit;
  host->credited = atomic_load(&node->mail_drained);
  node->mail = host;
  if (status != NM_OK) {
    nm_mail_free(node);
  }
  return status;
}

void nm_mail_free(nm_node *node) {
  nm_mail_host *host = node->mail;
  if (host == NULL) {
    return;
  }
  nm_mail_entries_dispose(node);
  nm_mail_keep_free(node);
  nm_table_dispose(&host->letters); /* which leave the other */
  nm_table_dispose(&host->by_ticket);
  nm_router_free(host->router);
  nm_release(node->mem, host);
  node->mail = NULL;
}

/* ---- the engine's events ---- */

/* How many messages are sure to be told of, however much else comes. */
static uint32_t expected(const nm_node *node) {
  const nm_mail_host *host = node->mail;
  uint64_t room = nm_ring_room(&node->ring) / 2;
  if (host->waiting_first != NULL || node->phase != NM_NODE_IS_OPEN) {
    return 0;
  }
  return (uint32_t)(host->credit < room ? host->credit : room);
}

bool nm_mail_input(nm_node *node, nm_event *event) {
  nm_mail_host *host = node->mail;
  bool holds = nm_event_holds_credit(event);
  nm_router_expect(host->router, expected(node));
  if (!nm_router_input(host->router, event, node->loop->now)) {
    return false;
  }
  if (holds) {
    nm_engine_credit(node->engine, 1, node->loop->now);
  }
  host->moved = true;
  return true;
}

/* ---- jobs and time ---- */

void nm_mail_job_done(nm_node *node, nm_mail_job *job, bool pooled) {
  nm_mail_host *host = node->mail;
  host->stamps_out -= pooled && job->kind == NM_MAIL_JOB_STAMP;
  nm_router_job_done(host->router, job, nm_loop_now(node->loop));
  host->moved = true;
}

static nm_mail_job *next_stamp(nm_mail_host *host) {
  nm_mail_job *job = host->stamps_first;
  if (job != NULL) {
    host->stamps_first = job->next;
    host->stamps_last = job->next == NULL ? NULL : host->stamps_last;
    job->next = NULL;
  }
  return job;
}

static void queue_stamp(nm_mail_host *host, nm_mail_job *job) {
  if (host->stamps_last != NULL) {
    host->stamps_last->next = job;
  } else {
    host->stamps_first = job;
  }
  host->stamps_last = job;
}

void nm_mail_turn(nm_node *node) {
  nm_mail_host *host = node->mail;
  if (host == NULL) {
    return;
  }
  nm_mail_keep_step(node);
  if (node->phase == NM_NODE_IS_OPEN &&
      nm_router_deadline(host->router) <= node->loop->now.mono_us) {
    nm_router_tick(host->router, node->loop->now);
    host->moved = true;
  }
}

bool nm_mail_has_job(const nm_node *node) {
  return node->mail != NULL && nm_router_has_job(node->mail->router);
}

nm_mail_job *nm_mail_take_job(nm_node *node) {
  nm_mail_host *host = node->mail;
  nm_mail_job *job = NULL;
  if (host == NULL || node->phase != NM_NODE_IS_OPEN) {
    return NULL;
  }
  while ((job = nm_router_job(host->router)) != NULL &&
         job->kind == NM_MAIL_JOB_STAMP) {
    queue_stamp(host, job);
  }
  return job;
}

/* Searches wait for each other, so that they leave workers to the rest. */
nm_mail_job *nm_mail_take_stamp(nm_node *node) {
  nm_mail_host *host = node->mail;
  uint32_t workers = node->loop->pool.worker_max;
  if (host == NULL || node->phase != NM_NODE_IS_OPEN ||
      host->stamps_out >= (workers > 1 ? workers - 1 : 1)) {
    return NULL;
  }
  nm_mail_job *job = next_stamp(host);
  host->stamps_out += job != NULL;
  return job;
}

/* Letters end here: their router does not outlive the node. */
void nm_mail_shut(nm_node *node) {
  nm_mail_host *host = node->mail;
  if (host == NULL) {
    return;
  }
  for (nm_table_link *link = nm_table_next(&host->letters, NULL); link != NULL;
       link = nm_table_next(&host->letters, link)) {
    const nm_mail_entry *entry = (const nm_mail_entry *)(void *)link;
    if (!entry->kept) {
      (void)nm_router_cancel(host->router, entry->id, node->loop->now);
    }
  }
  for (nm_mail_entry *sync = host->syncs; sync != NULL;
       sync = sync->next_sync) {
    (void)nm_router_sync_cancel(host->router, &sync->news.mailbox,
                                node->loop->now);
  }
  /* Searches that nobody waits for any more. */
  nm_mail_job *job;
  while ((job = next_stamp(host)) != NULL) {
    nm_router_job_done(host->router, job, node->loop->now);
  }
  host->moved = true;
}

bool nm_mail_moved(nm_node *node) {
  bool moved = node->mail != NULL && node->mail->moved;
  if (moved) {
    node->mail->moved = false;
  }
  return moved;
}

uint64_t nm_mail_deadline(const nm_node *node) {
  return node->mail == NULL || node->phase != NM_NODE_IS_OPEN
             ? NM_TIMER_NEVER
             : nm_router_deadline(node->mail->router);
}

/* ---- letters and fetches ---- */

static nm_mail_entry *new_entry(nm_node *node, const nm_ask *ask, bool kept) {
  nm_mail_entry *entry = nm_mail_entry_new(node, kept);
  if (entry != NULL) {
    entry->ticket = ask->c.ticket;
    entry->quiet = ask->c.quiet;
  }
  return entry;
}

/* Where a cancel finds it. */
static void make_findable(nm_mail_host *host, nm_mail_entry *entry) {
  entry->findable =
      nm_table_find(&host->by_ticket, &entry->ticket) == NULL &&
      nm_table_insert(&host->by_ticket, &entry->by_ticket) == NM_OK;
}

int nm_mail_send(nm_node *node, nm_ask *ask) {
  const nm_letter_spec *spec = &ask->c.u.letter;
  bool kept = !spec->bare && nm_mail_is_kept(node, &spec->mailbox);
  nm_mail_entry *entry = new_entry(node, ask, kept);
  if (entry == NULL) {
    return NM_E(MEMORY);
  }
  int status = kept ? nm_mail_keep_letter(node, ask, entry)
                    : nm_mail_begin(node, ask, entry);
  if (status < 0) {
    nm_mail_entry_free(node, entry);
    return status;
  }
  make_findable(node->mail, entry);
  memcpy(ask->reply.hash.b, entry->id, sizeof(entry->id));
  return status;
}

int nm_mail_sync_start(nm_node *node, nm_ask *ask) {
  nm_mail_host *host = node->mail;
  const nm_mail_sync *spec = &ask->c.u.mail_sync;
  nm_mail_entry *entry = new_entry(node, ask, false);
  if (entry == NULL) {
    return NM_E(MEMORY);
  }
  int status = nm_router_sync(host->router, &ask->c.destination,
                              spec->has_node ? &spec->node : NULL, spec->most,
                              spec->retain, node->loop->now);
  if (status != NM_OK) {
    nm_mail_entry_free(node, entry);
    return status;
  }
  host->moved = true;
  entry->is_sync = true;
  entry->news.mailbox = ask->c.destination;
  entry->next_sync = host->syncs;
  host->syncs = entry;
  make_findable(host, entry);
  return NM_OK;
}

void nm_mail_cancel_ticket(nm_node *node, uint64_t ticket) {
  nm_mail_host *host = node->mail;
  nm_table_link *link =
      host == NULL ? NULL : nm_table_find(&host->by_ticket, &ticket);
  if (link == NULL) {
    return;
  }
  nm_mail_entry *entry = nm_mail_entry_of_ticket(link);
  if (entry->is_sync) {
    (void)nm_router_sync_cancel(host->router, &entry->news.mailbox,
                                node->loop->now);
  } else if (entry->starting) {
    entry->cancelled = true;
  } else {
    (void)nm_router_cancel(host->router, entry->id, node->loop->now);
  }
  host->moved = true;
  nm_node_wake(node);
}
