/* The life of a router, its clock and its jobs, and what the engine's events
 * mean to it.
 */
#include "lxmf/internal.h"

#include <string.h>

static const nm_router_limits DEFAULTS = {
    .mailboxes = 256,
    .letters = 65536,
    .lanes = 16384,
    .in_flight = 64,
    .in_flight_all = 512,
    .parcels = 4096,
    .seen = 100000,
    .tickets = 16384,
    .ignored = 65536,
};

/* Timers that one tick fires at most. */
#define TICK_BUDGET 256

static void resolve(uint32_t *limit, uint32_t value) {
  if (*limit == 0) {
    *limit = value;
  }
}

static void resolve_limits(nm_router_limits *limits) {
  resolve(&limits->mailboxes, DEFAULTS.mailboxes);
  resolve(&limits->letters, DEFAULTS.letters);
  resolve(&limits->lanes, DEFAULTS.lanes);
  resolve(&limits->in_flight, DEFAULTS.in_flight);
  resolve(&limits->in_flight_all, DEFAULTS.in_flight_all);
  resolve(&limits->parcels, DEFAULTS.parcels);
  resolve(&limits->seen, DEFAULTS.seen);
  resolve(&limits->tickets, DEFAULTS.tickets);
  resolve(&limits->ignored, DEFAULTS.ignored);
}

static void dispose_letter(void *user, nm_table_link *entry) {
  nm_letter_free(user, (nm_letter *)(void *)entry);
}

static int init_tables(nm_router *router) {
  const nm_router_limits *limits = &router->limits;
  int status = nm_mailboxes_init(router);
  if (status == NM_OK) {
    status =
        nm_router_table(router, &router->letters, limits->letters, NM_HASH_SIZE,
                        offsetof(nm_letter, id), dispose_letter);
  }
  if (status == NM_OK) {
    status = nm_lanes_init(router);
  }
  if (status == NM_OK) {
    status = nm_router_table(
        router, &router->ops, (size_t)limits->letters * NM_LETTER_PACKETS,
        sizeof(nm_op_id), offsetof(nm_errand_op, op), nm_router_dispose_plain);
  }
  if (status == NM_OK) {
    status = nm_router_table(
        router, &router->lines, nm_engine_limits(router->engine)->links,
        sizeof(nm_link_ref), offsetof(nm_line, ref), nm_router_dispose_plain);
  }
  if (status == NM_OK) {
    status = nm_parcels_init(router);
  }
  if (status == NM_OK) {
    status = nm_tickets_table_init(router);
  }
  return status == NM_OK ? nm_seen_init(router) : status;
}

nm_router *nm_router_new(const nm_mem *mem, const nm_entropy *entropy,
                         nm_engine *engine, const nm_router_config *config,
                         nm_now now, int *status) {
  nm_router *router = nm_alloc_zero(mem, 1, sizeof(*router));
  if (router == NULL) {
    *status = NM_E(MEMORY);
    return NULL;
  }
  router->mem = mem;
  router->entropy = *entropy;
  router->engine = engine;
  router->config = *config;
  router->limits = config->limits;
  resolve_limits(&router->limits);
  router->now = now;
  nm_timers_init(&router->timers, mem);
  *status = init_tables(router);
  if (*status != NM_OK) {
    nm_router_free(router);
    return NULL;
  }
  return router;
}

void nm_router_free(nm_router *router) {
  if (router == NULL) {
    return;
  }
  while (router->work_first != NULL) {
    nm_mail_job *work = router->work_first;
    router->work_first = work->next;
    if (work->kind == NM_MAIL_JOB_INSPECT || work->kind == NM_MAIL_JOB_OPEN) {
      nm_parcel *parcel = work->owner;
      parcel->work = NULL;
      nm_parcel_free(router, parcel);
    } else if (work->owner != NULL) {
      nm_letter *letter = work->owner;
      letter->work = NULL;
    }
    nm_mail_job_free(work);
  }
  while (router->mail_first != NULL) {
    nm_parcel *parcel = router->mail_first;
    router->mail_first = parcel->next;
    nm_parcel_free(router, parcel);
  }
  nm_syncs_free(router);
  nm_table_dispose(&router->letters);
  nm_table_dispose(&router->parcels);
  nm_table_dispose(&router->ops);
  nm_table_dispose(&router->lines);
  nm_table_dispose(&router->lanes);
  nm_table_dispose(&router->mailboxes);
  nm_table_dispose(&router->seen);
  nm_table_dispose(&router->ignored);
  nm_table_dispose(&router->purses);
  nm_timers_dispose(&router->timers);
  nm_release(router->mem, router);
}

/* ---- time and chance ---- */

void nm_router_tick(nm_router *router, nm_now now) {
  router->now = now;
  (void)nm_timers_run(&router->timers, now.mono_us, router, TICK_BUDGET);
  nm_router_settle(router);
}

uint64_t nm_router_deadline(const nm_router *router) {
  return nm_timers_next(&router->timers);
}

/* ---- jobs ---- */

bool nm_router_has_job(const nm_router *router) {
  return router->work_first != NULL;
}

nm_mail_job *nm_router_job(nm_router *router) {
  nm_mail_job *work = router->work_first;
  if (work != NULL) {
    router->work_first = work->next;
    if (work->next == NULL) {
      router->work_last = NULL;
    }
    work->next = NULL;
  }
  return work;
}

void nm_router_job_done(nm_router *router, nm_mail_job *work, nm_now now) {
  router->now = now;
  if (work->kind == NM_MAIL_JOB_INSPECT || work->kind == NM_MAIL_JOB_OPEN) {
    nm_parcel_worked(work->owner, work);
  } else if (work->owner != NULL) {
    nm_letter_worked(work->owner, work);
  } else {
    nm_mail_job_free(work); /* its letter has ended */
  }
  nm_router_settle(router);
}

/* ---- the engine's events ---- */

static void on_link_active(nm_router *router, const nm_event *event) {
  nm_line *line = nm_line_find(router, event->link);
  if (line != NULL && line->initiator) {
    nm_lane *lane = nm_lane_find(router, &line->target);
    if (lane != NULL) {
      nm_lane_active(lane, event->link);
    }
  } else if (line == NULL && !event->initiator) {
    /* Without memory it is a link that is served, but not used to answer. */
    (void)nm_router_own_line(router, event->link, false, &event->destination,
                             NULL);
  }
}

/* A peer said who it is on a link to one of our mailboxes: the link leads to
 * its own (LXMF 4.4). */
static void on_identified(nm_router *router, const nm_event *event) {
  nm_line *line = nm_line_find(router, event->link);
  if (line == NULL || line->initiator) {
    return;
  }
  nm_destination_hash peer;
  nm_mailbox_address(&event->identity, &peer);
  nm_lane *lane = nm_lane_of(router, &peer);
  if (lane != NULL) {
    line->target = peer;
    lane->back = event->link;
    nm_lane_wake(lane);
  }
}

static void on_closed(nm_router *router, nm_line *line, const nm_event *event) {
  nm_lane *lane = nm_lane_find(router, &line->target);
  nm_table_remove(&router->lines, &line->link);
  nm_release(router->mem, line);
  if (lane != NULL) {
    nm_lane_closed(lane, event->link);
  }
}

static void on_op(nm_router *router, nm_errand_op *errand, nm_event *event) {
  nm_letter *letter = nm_letter_find(router, errand->letter);
  bool over_link = errand->over_link;
  nm_table_remove(&router->ops, &errand->link);
  nm_release(router->mem, errand);
  if (letter == NULL || letter->ended) {
    return;
  }
  if (over_link) {
    nm_delivery_done(letter, event);
  } else {
    nm_opportunistic_receipt(letter, event);
  }
}

static void on_progress(nm_router *router, const nm_errand_op *errand,
                        const nm_event *event) {
  nm_letter *letter = nm_letter_find(router, errand->letter);
  if (letter != NULL && !letter->ended && event->total_bytes > 0) {
    double part = (double)event->done_bytes / (double)event->total_bytes;
    nm_letter_set(letter, letter->state, 0.1 + 0.9 * part);
  }
}

/* Something on a link that is the router's: to a mailbox, or one of ours. */
static void on_line(nm_router *router, nm_line *line, nm_event *event) {
  nm_mailbox *mailbox = nm_mailbox_find(router, &line->mailbox);
  switch (event->kind) {
  case NM_EVENT_LINK_PACKET:
  case NM_EVENT_RESOURCE_IN:
    if (mailbox != NULL) {
      nm_parcel_receive(router, mailbox, event, NM_LXMF_DIRECT);
    } else if (event->data != NULL) {
      nm_lane *lane = nm_lane_find(router, &line->target);
      if (lane != NULL) {
        nm_delivery_signal(lane, nm_block_span(event->data));
      }
    }
    break;
  case NM_EVENT_LINK_IDENTIFIED:
    on_identified(router, event);
    break;
  case NM_EVENT_LINK_ACTIVE:
    on_link_active(router, event);
    break;
  case NM_EVENT_LINK_CLOSED:
    on_closed(router, line, event);
    break;
  default: /* offers refused by themselves, progress of what comes in */
    break;
  }
}

static bool is_ours(const nm_router *router, const nm_event *event) {
  return nm_mailbox_find(router, &event->destination) != NULL;
}

static bool input(nm_router *router, nm_event *event) {
  nm_errand_op *errand =
      event->op == 0
          ? NULL
          : (nm_errand_op *)(void *)nm_table_find(&router->ops, &event->op);
  nm_line *line = event->link == 0 ? NULL : nm_line_find(router, event->link);
  nm_sync *sync = nm_sync_of_op(router, event->op);
  if (sync == NULL) {
    sync = nm_sync_of_link(router, event->link);
  }
  if (sync != NULL) {
    nm_sync_event(sync, event);
  } else if (errand != NULL && event->kind == NM_EVENT_PROGRESS) {
    on_progress(router, errand, event);
  } else if (errand != NULL) {
    on_op(router, errand, event);
  } else if (line != NULL) {
    on_line(router, line, event);
  } else if (event->kind == NM_EVENT_LINK_ACTIVE && is_ours(router, event)) {
    on_link_active(router, event);
  } else if (event->kind == NM_EVENT_PACKET && is_ours(router, event)) {
    nm_parcel_receive(router, nm_mailbox_find(router, &event->destination),
                      event, NM_LXMF_OPPORTUNISTIC);
  } else {
    if (event->kind == NM_EVENT_PATH && event->status == NM_OK) {
      nm_lane *lane = nm_lane_find(router, &event->destination);
      if (lane != NULL) {
        nm_lane_path(lane);
      }
      nm_syncs_path(router, &event->destination);
    } else if (event->kind == NM_EVENT_IFACE &&
               (event->state == NM_IFACE_ONLINE ||
                event->state == NM_IFACE_ADDED)) {
      nm_lanes_online(router, event->iface);
      nm_syncs_online(router, event->iface);
    }
    return false;
  }
  return true;
}

bool nm_router_input(nm_router *router, nm_event *event, nm_now now) {
  router->now = now;
  bool taken = input(router, event);
  if (taken) {
    nm_event_dispose(event);
  }
  nm_router_settle(router);
  return taken;
}

/* ---- what the router tells ---- */

static void mail_of_letter(nm_router *router, nm_letter *letter,
                           nm_mail *mail) {
  memset(mail, 0, sizeof(*mail));
  mail->kind = letter->worked ? NM_MAIL_WORKED : NM_MAIL_STATE;
  mail->at = router->now;
  memcpy(mail->id, letter->id, sizeof(mail->id));
  mail->mailbox = letter->mailbox;
  mail->peer = letter->recipient;
  mail->method = letter->method;
  mail->representation = letter->representation;
  mail->state = letter->state;
  mail->ended = letter->ended && !letter->worked;
  mail->progress = letter->progress;
  mail->stage = letter->stage;
  mail->attempts = letter->attempts;
  mail->rtt_us = letter->rtt_us;
  if (letter->worked) {
    mail->packed = nm_block_hold(letter->packed);
    mail->sealed =
        letter->sealed != NULL ? nm_block_hold(letter->sealed) : NULL;
  }
}

static bool letter_news(nm_router *router, nm_mail *mail) {
  nm_letter *letter = router->news_first;
  if (letter == NULL) {
    return false;
  }
  mail_of_letter(router, letter, mail);
  if (letter->worked && letter->ended) {
    letter->worked = false; /* the end follows */
    return true;
  }
  letter->worked = false;
  router->news_first = letter->news_next;
  if (letter->news_next == NULL) {
    router->news_last = NULL;
  }
  letter->news_next = NULL;
  letter->has_news = false;
  if (letter->ended) {
    nm_table_remove(&router->letters, &letter->link);
    nm_letter_free(router, letter);
  }
  return true;
}

bool nm_router_event(nm_router *router, nm_mail *mail) {
  nm_parcel *parcel = router->mail_first;
  if (parcel == NULL) {
    return letter_news(router, mail) || nm_sync_news(router, mail) ||
           nm_mailbox_news(router, mail);
  }
  router->mail_first = parcel->next;
  if (parcel->next == NULL) {
    router->mail_last = NULL;
  }
  parcel->next = NULL;
  *mail = parcel->mail;
  parcel->mail.packed = NULL; /* handed over */
  if (parcel->token == 0) {
    nm_parcel_free(router, parcel);
  }
  return true;
}

void nm_router_stats_read(const nm_router *router, nm_router_stats *stats) {
  *stats = router->stats;
  stats->letters = (uint32_t)router->letters.count;
  stats->lanes = (uint32_t)router->lanes.count;
  stats->parcels = router->parcel_count;
  stats->seen = (uint32_t)router->seen.count;
  stats->tickets = (uint32_t)router->purses.count;
}
