/* Fetching messages from a propagation node (LXMF 10).
 *
 * Each fetch has a link of its own, on which the mailbox identifies itself: a
 * link that carries uploads never says whose they are. What is acknowledged,
 * and so deleted by the node, is durable here or will never be wanted; what
 * could not be decrypted stays there.
 */
#include "lxmf/internal.h"

#include "wire/lxmf_propagation.h"

#include <string.h>

#define PATH_WAIT_MIN_US 10000000u
/* Ids that are asked for at once; the rest comes with the next fetch. */
#define WANT_MAX 16384
/* A medium that reorders or loses brings the request before, or without, the
 * packet that says who asks. Both are sent again after some round trips of the
 * link, each time twice as many. */
#define UNKNOWN_MAX 4
#define AGAIN_MIN_US 250000u
#define AGAIN_MAX_US 30000000u

static void ask_list(nm_sync *sync) {
  nm_lxmf_get get = {.want = {.nil = true}, .have = {.nil = true}};
  sync->stage = NM_SYNC_LISTING;
  if (nm_sync_request(sync, &get)) {
    nm_sync_set(sync, NM_LXMF_SYNC_REQUEST_SENT);
  }
}

static int keep_id(nm_buffer *ids, nm_span id) {
  return nm_buffer_append(ids, id.ptr, id.len);
}

/* Those that were delivered already may go, the others are wanted. */
static int sort_ids(nm_sync *sync, nm_lxmf_get_answer *answer,
                    nm_buffer *want) {
  uint32_t most =
      sync->most != 0 && sync->most < WANT_MAX ? sync->most : WANT_MAX;
  uint32_t wanted = 0;
  int status = NM_OK;
  nm_span id;
  while (status == NM_OK && nm_lxmf_answer_next(answer, &id)) {
    bool durable = false;
    if (id.len != NM_HASH_SIZE) {
      continue;
    }
    if (nm_seen_has(sync->router, id.ptr, &durable)) {
      sync->duplicates++;
      status = durable ? keep_id(&sync->have, id) : NM_OK;
    } else if (wanted < most) {
      wanted++;
      status = keep_id(want, id);
    }
  }
  return status;
}

static void ask_messages(nm_sync *sync, nm_lxmf_get_answer *answer) {
  uint32_t listed = answer->count;
  nm_buffer want;
  nm_buffer_init(&want, sync->router->mem, NULL, 0, 0);
  int status = sort_ids(sync, answer, &want);
  nm_lxmf_get get = {.want = nm_sync_ids(&want),
                     .have = nm_sync_ids(&sync->have),
                     .has_limit = true,
                     .limit_kb = sync->limit_kb};
  if (sync->retain) {
    get.have = (nm_lxmf_id_list){0};
  }
  sync->stage = NM_SYNC_FETCHING;
  if (status != NM_OK) {
    nm_sync_end(sync, NM_LXMF_SYNC_TRANSFER_FAILED);
  } else if (listed == 0) {
    nm_sync_end(sync, NM_LXMF_SYNC_COMPLETE);
  } else {
    (void)nm_sync_request(sync, &get);
  }
  sync->have.len = 0;
  nm_buffer_dispose(&want);
}

static void take_messages(nm_sync *sync, nm_lxmf_get_answer *answer) {
  nm_span data;
  sync->stage = NM_SYNC_SORTING;
  sync->sorting = true;
  while (nm_lxmf_answer_next(answer, &data)) {
    int status = nm_parcel_ingest(sync->router, data, NM_LXMF_PROPAGATED, sync);
    uint8_t transient[NM_HASH_SIZE];
    nm_lxmf_transient_id(data, transient);
    if (status == NM_OK) {
      sync->parcels++;
    } else if (status == NM_E(DUPLICATE_KEY)) {
      sync->duplicates++;
      (void)nm_buffer_append(&sync->have, transient, sizeof(transient));
    }
  }
  sync->sorting = false;
  sync->progress = 1.0;
  nm_sync_set(sync, NM_LXMF_SYNC_RESPONSE_RECEIVED);
  if (sync->parcels == 0) {
    nm_sync_acknowledge(sync);
  }
}

/* ---- what comes ---- */

static void ask_again_later(nm_sync *sync) {
  nm_router *router = sync->router;
  nm_link_info info;
  uint64_t wait = AGAIN_MIN_US;
  if (nm_engine_link_info(router->engine, sync->ref, &info) == NM_OK &&
      info.rtt_us > wait) {
    wait = info.rtt_us < AGAIN_MAX_US ? info.rtt_us : AGAIN_MAX_US;
  }
  nm_router_arm(router, &sync->timer,
                router->now.mono_us + (wait << sync->unknown));
  sync->unknown++;
}

static void refused(nm_sync *sync, uint64_t error) {
  if (error == NM_LXMF_ERROR_NO_IDENTITY && sync->unknown < UNKNOWN_MAX &&
      sync->stage == NM_SYNC_LISTING) {
    ask_again_later(sync);
    return;
  }
  nm_sync_end(sync, error == NM_LXMF_ERROR_NO_IDENTITY
                        ? NM_LXMF_SYNC_NO_IDENTITY
                    : error == NM_LXMF_ERROR_NO_ACCESS ? NM_LXMF_SYNC_NO_ACCESS
                                                       : NM_LXMF_SYNC_FAILED);
}

static void answered(nm_sync *sync, nm_span data) {
  nm_lxmf_get_answer answer;
  nm_fault fault;
  if (nm_lxmf_get_answer_decode(data, &answer, &fault) != NM_OK) {
    nm_sync_end(sync, NM_LXMF_SYNC_TRANSFER_FAILED);
  } else if (answer.is_error) {
    refused(sync, answer.error);
  } else if (sync->stage == NM_SYNC_LISTING) {
    ask_messages(sync, &answer);
  } else if (sync->stage == NM_SYNC_FETCHING) {
    take_messages(sync, &answer);
  } else {
    nm_sync_end(sync, NM_LXMF_SYNC_COMPLETE);
  }
}

static void progressed(nm_sync *sync, const nm_event *event) {
  if (sync->stage == NM_SYNC_FETCHING && event->total_bytes > 0) {
    sync->progress = (double)event->done_bytes / (double)event->total_bytes;
    nm_sync_set(sync, NM_LXMF_SYNC_RECEIVING);
    nm_sync_tell(sync);
  }
}

static void introduce(nm_sync *sync) {
  nm_router *router = sync->router;
  const nm_mailbox *mailbox = nm_mailbox_find(router, &sync->mailbox);
  if (mailbox == NULL) {
    nm_sync_end(sync, NM_LXMF_SYNC_FAILED);
    return;
  }
  (void)nm_engine_link_identify_now(router->engine, sync->ref,
                                    nm_mailbox_identity(mailbox), router->now);
  ask_list(sync);
}

void nm_sync_event(nm_sync *sync, const nm_event *event) {
  switch (event->kind) {
  case NM_EVENT_PROGRESS:
    progressed(sync, event);
    break;
  case NM_EVENT_LINK_ACTIVE:
    nm_sync_set(sync, NM_LXMF_SYNC_LINK_ESTABLISHED);
    introduce(sync);
    break;
  case NM_EVENT_RESPONSE:
    sync->op = 0;
    if (event->status == NM_OK && event->data != NULL) {
      answered(sync, nm_block_span(event->data));
    } else {
      nm_sync_end(sync, NM_LXMF_SYNC_TRANSFER_FAILED);
    }
    break;
  case NM_EVENT_LINK_CLOSED:
    sync->ref = 0;
    nm_sync_end(sync, sync->stage == NM_SYNC_LINKING
                          ? NM_LXMF_SYNC_LINK_FAILED
                          : NM_LXMF_SYNC_TRANSFER_FAILED);
    break;
  default:
    break;
  }
}

/* ---- the beginning ---- */

static void open_link(nm_sync *sync) {
  nm_router *router = sync->router;
  nm_router_disarm(router, &sync->timer);
  sync->stage = NM_SYNC_LINKING;
  if (nm_engine_link_open(router->engine, &sync->node, 0, &sync->ref,
                          router->now) != NM_OK) {
    sync->ref = 0;
    nm_sync_end(sync, NM_LXMF_SYNC_LINK_FAILED);
    return;
  }
  router->stats.links_opened++;
  nm_sync_set(sync, NM_LXMF_SYNC_LINK_ESTABLISHING);
}

void nm_syncs_path(nm_router *router, const nm_destination_hash *node) {
  for (nm_sync *sync = router->syncs; sync != NULL; sync = sync->next) {
    if (!sync->ended && sync->stage == NM_SYNC_FINDING &&
        memcmp(&sync->node, node, sizeof(*node)) == 0) {
      open_link(sync);
    }
  }
}

void nm_syncs_online(nm_router *router, nm_iface_id iface) {
  for (nm_sync *sync = router->syncs; sync != NULL; sync = sync->next) {
    nm_lane *lane = nm_lane_find(router, &sync->node);
    if (!sync->ended && sync->stage == NM_SYNC_FINDING && lane != NULL) {
      nm_gate_online(lane, iface);
    }
  }
}

static void waited(void *user, nm_timer *timer) {
  (void)user;
  nm_sync *sync = (nm_sync *)(void *)((char *)timer - offsetof(nm_sync, timer));
  if (sync->stage == NM_SYNC_FINDING) {
    nm_sync_end(sync, NM_LXMF_SYNC_NO_PATH);
  } else {
    introduce(sync);
  }
}

static void find_path(nm_sync *sync) {
  nm_router *router = sync->router;
  nm_lane *lane = nm_lane_of(router, &sync->node);
  nm_lxmf_medium medium;
  nm_router_medium(router, &medium);
  if (lane != NULL) {
    nm_gate_ask(lane);
  }
  uint64_t wait = medium.path_wait_us > PATH_WAIT_MIN_US ? medium.path_wait_us
                                                         : PATH_WAIT_MIN_US;
  nm_router_arm(router, &sync->timer, router->now.mono_us + wait);
  nm_sync_set(sync, NM_LXMF_SYNC_PATH_REQUESTED);
}

static nm_sync *find_sync(const nm_router *router,
                          const nm_destination_hash *mailbox) {
  nm_sync *sync = router->syncs;
  while (sync != NULL && (sync->ended || memcmp(&sync->mailbox, mailbox,
                                                sizeof(*mailbox)) != 0)) {
    sync = sync->next;
  }
  return sync;
}

int nm_router_sync(nm_router *router, const nm_destination_hash *mailbox,
                   const nm_destination_hash *node, uint32_t most, bool retain,
                   nm_now now) {
  router->now = now;
  const nm_mailbox *box = nm_mailbox_find(router, mailbox);
  if (box == NULL || (node == NULL && !router->has_node)) {
    return NM_E(MISSING);
  }
  if (find_sync(router, mailbox) != NULL) {
    return NM_E(STATE);
  }
  if (nm_router_reserve_timers(router, NM_SYNC_TIMERS) != NM_OK) {
    return NM_E(MEMORY);
  }
  nm_sync *sync = nm_alloc_zero(router->mem, 1, sizeof(*sync));
  if (sync == NULL) {
    router->timers_reserved -= NM_SYNC_TIMERS;
    return NM_E(MEMORY);
  }
  sync->router = router;
  sync->mailbox = *mailbox;
  sync->node = node != NULL ? *node : router->node;
  sync->most = most;
  sync->retain = retain;
  sync->limit_kb = box->limit_kb;
  sync->response_max = (size_t)box->limit_kb * 1000 + NM_MTU;
  sync->timer.fire = waited;
  nm_buffer_init(&sync->have, router->mem, NULL, 0, 0);
  sync->next = router->syncs;
  router->syncs = sync;
  if (nm_router_has_path(router, &sync->node)) {
    open_link(sync);
  } else {
    find_path(sync);
  }
  return NM_OK;
}

int nm_router_sync_cancel(nm_router *router, const nm_destination_hash *mailbox,
                          nm_now now) {
  router->now = now;
  nm_sync *sync = find_sync(router, mailbox);
  if (sync == NULL) {
    return NM_E(STATE);
  }
  nm_sync_end(sync, NM_LXMF_SYNC_IDLE);
  return NM_OK;
}
