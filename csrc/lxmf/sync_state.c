/* The state of a fetch, its requests, and its end. */
#include "lxmf/internal.h"

#include "wire/lxmf_propagation.h"

#include <string.h>

static const char GET[] = "/get";

void nm_sync_tell(nm_sync *sync) {
  nm_router *router = sync->router;
  if (!sync->has_news) {
    sync->has_news = true;
    sync->next_told = router->syncs_told;
    router->syncs_told = sync;
  }
}

void nm_sync_set(nm_sync *sync, nm_lxmf_sync_state state) {
  if (sync->state != state) {
    sync->state = state;
    nm_sync_tell(sync);
  }
}

void nm_sync_end(nm_sync *sync, nm_lxmf_sync_state state) {
  nm_router *router = sync->router;
  if (sync->ended) {
    return;
  }
  sync->ended = true;
  nm_sync_set(sync, state);
  nm_router_disarm(router, &sync->timer);
  if (sync->op != 0) {
    (void)nm_engine_cancel(router->engine, sync->op, router->now);
    sync->op = 0;
  }
  if (sync->ref != 0) {
    (void)nm_engine_link_close(router->engine, sync->ref, router->now);
    sync->ref = 0;
  }
}

/* Goes once it was told of and no parcel speaks of it any more. */
static void maybe_free(nm_sync *sync) {
  nm_router *router = sync->router;
  if (!sync->ended || sync->has_news || sync->parcels > 0) {
    return;
  }
  nm_sync **at = &router->syncs;
  while (*at != sync) {
    at = &(*at)->next;
  }
  *at = sync->next;
  router->timers_reserved -= NM_SYNC_TIMERS;
  nm_buffer_dispose(&sync->have);
  nm_release(router->mem, sync);
}

void nm_syncs_free(nm_router *router) {
  while (router->syncs != NULL) {
    nm_sync *sync = router->syncs;
    sync->ended = true;
    sync->has_news = false;
    sync->parcels = 0;
    nm_router_disarm(router, &sync->timer);
    maybe_free(sync);
  }
}

bool nm_sync_news(nm_router *router, nm_mail *mail) {
  nm_sync *sync = router->syncs_told;
  if (sync == NULL) {
    return false;
  }
  router->syncs_told = sync->next_told;
  sync->has_news = false;
  memset(mail, 0, sizeof(*mail));
  mail->kind = NM_MAIL_SYNC;
  mail->at = router->now;
  mail->mailbox = sync->mailbox;
  mail->peer = sync->node;
  mail->sync_state = sync->state;
  mail->sync_ended = sync->ended;
  mail->progress = sync->progress;
  mail->sync_received = sync->received;
  mail->sync_duplicates = sync->duplicates;
  maybe_free(sync);
  return true;
}

nm_sync *nm_sync_of_link(const nm_router *router, nm_link_ref ref) {
  nm_sync *sync = router->syncs;
  while (sync != NULL && (sync->ref != ref || ref == 0)) {
    sync = sync->next;
  }
  return sync;
}

nm_sync *nm_sync_of_op(const nm_router *router, nm_op_id op) {
  nm_sync *sync = router->syncs;
  while (sync != NULL && (sync->op != op || op == 0)) {
    sync = sync->next;
  }
  return sync;
}

bool nm_sync_request(nm_sync *sync, const nm_lxmf_get *get) {
  nm_router *router = sync->router;
  size_t size = nm_lxmf_get_size(get);
  nm_buffer bytes;
  nm_buffer_init(&bytes, router->mem, NULL, 0, 0);
  int status = nm_buffer_reserve(&bytes, size);
  if (status == NM_OK) {
    nm_writer w = nm_writer_of(bytes.ptr, size);
    status = nm_lxmf_get_encode(get, &w);
  }
  if (status == NM_OK) {
    status = nm_engine_request(router->engine, sync->ref,
                               nm_span_of(GET, sizeof(GET) - 1),
                               nm_span_of(bytes.ptr, size), 0,
                               sync->response_max, &sync->op, router->now);
  }
  nm_buffer_dispose(&bytes);
  if (status != NM_OK) {
    nm_sync_end(sync, NM_LXMF_SYNC_TRANSFER_FAILED);
  }
  return status == NM_OK;
}

nm_lxmf_id_list nm_sync_ids(const nm_buffer *ids) {
  nm_lxmf_id_list list = {.count = (uint32_t)(ids->len / NM_HASH_SIZE),
                          .ids = nm_span_of(ids->ptr, ids->len)};
  return list;
}

void nm_sync_acknowledge(nm_sync *sync) {
  nm_lxmf_get get = {.want = {.nil = true}, .have = nm_sync_ids(&sync->have)};
  sync->stage = NM_SYNC_ACKNOWLEDGING;
  if (sync->retain || sync->have.len == 0) {
    nm_sync_end(sync, NM_LXMF_SYNC_COMPLETE);
  } else {
    (void)nm_sync_request(sync, &get);
  }
}

void nm_sync_parcel_done(nm_sync *sync, const nm_parcel *parcel, bool final) {
  sync->parcels--;
  if (!sync->ended && final &&
      nm_buffer_append(&sync->have, parcel->mail.transient_id, NM_HASH_SIZE) !=
          NM_OK) {
    final = false; /* it is fetched again */
  }
  if (!sync->ended && sync->parcels == 0 && !sync->sorting) {
    nm_sync_acknowledge(sync);
  }
  maybe_free(sync);
}
