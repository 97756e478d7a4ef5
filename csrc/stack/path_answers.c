/* Path requests for destinations that are elsewhere (RNS 1, 8.9.4 cases 2
 * to 6).
 */
#include "stack/internal.h"

#include <string.h>

#define SECOND_US 1000000ull
#define ANSWER_US (SECOND_US * 2 / 5)
#define ROAMING_GRACE_US (SECOND_US * 3 / 2)

/* One request on its way to an answer. */
typedef struct asking {
  nm_destination_hash hash;
  const nm_path_request *asked;
  nm_iface *iface;
  bool client; /* it came from a local client */
  bool limited;
} asking;

static bool is_client(const nm_iface *iface) {
  return iface->spec.role == NM_ROLE_LOCAL_CLIENT;
}

/* The lowest bitrate of what is online; 0: nothing is known. */
static double lowest_bitrate(const nm_engine *engine) {
  uint64_t lowest = 0;
  const nm_iface *iface = NULL;
  while ((iface = nm_iface_after(engine, iface)) != NULL) {
    uint64_t bitrate = iface->spec.bitrate;
    if (iface->spec.online && bitrate > 0 &&
        (lowest == 0 || bitrate < lowest)) {
      lowest = bitrate;
    }
  }
  return (double)lowest;
}

static uint64_t search_life(const nm_engine *engine) {
  return nm_us(nm_discovery_timeout(lowest_bitrate(engine)));
}

/* ---- case 2 ---- */

static nm_drop answer(nm_engine *engine, const asking *a, const nm_path *path) {
  nm_iface *by = nm_iface_find(engine, path->iface);
  nm_search_answered(engine, &a->hash);
  bool roaming = a->iface->spec.mode == NM_IF_ROAMING;
  nm_span next_hop = nm_span_of(path->next_hop, NM_ADDRESS_SIZE);
  if (path->announce == NULL || (roaming && by == a->iface) ||
      nm_span_equal(a->asked->transport_id, next_hop)) {
    return NM_DROP_PATH_REQUEST_NO_ANSWER;
  }
  uint64_t delay = a->client || is_client(by)
                       ? 0
                       : ANSWER_US + (roaming ? ROAMING_GRACE_US : 0);
  nm_rebroadcast_answer(engine, path, a->iface, delay);
  return NM_DROP_NONE;
}

/* ---- cases 3 to 5 ---- */

static void put(nm_engine *engine, nm_iface *out, nm_block *raw) {
  nm_control_request_out(engine, out);
  (void)nm_iface_send(engine, out, nm_block_hold(raw), 0);
}

/* A client asks: everybody else is asked, with one fresh tag. */
static nm_drop ask_for_client(nm_engine *engine, const asking *a) {
  nm_block *raw = nm_asks_fresh_packet(engine, &a->hash);
  if (raw == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  nm_iface *out = NULL;
  while ((out = nm_iface_after(engine, out)) != NULL) {
    if (out != a->iface && nm_iface_can_send(out)) {
      put(engine, out, raw);
    }
  }
  nm_block_drop(raw);
  return NM_DROP_NONE;
}

/* Clients are asked, a fresh tag for each. */
static nm_drop ask_clients(nm_engine *engine, const asking *a) {
  nm_iface *out = NULL;
  while ((out = nm_iface_after(engine, out)) != NULL) {
    if (!is_client(out) || !nm_iface_can_send(out)) {
      continue;
    }
    nm_block *raw = nm_asks_fresh_packet(engine, &a->hash);
    if (raw == NULL) {
      return NM_DROP_NO_MEMORY;
    }
    put(engine, out, raw);
    nm_block_drop(raw);
  }
  return NM_DROP_NONE;
}

static bool may_search_on(nm_engine *engine, const asking *a, nm_iface *out,
                          size_t bytes) {
  const nm_iface_spec *from = &a->iface->spec;
  return out != a->iface && nm_iface_can_send(out) &&
         nm_path_search_uses(from->mode, from->recursive_prs, out->spec.mode) &&
         !nm_control_exceeds(engine, out) && nm_cap_spend(engine, out, bytes);
}

/* Case 4: the same tag goes on, so that the search ends where it has been. */
static nm_drop search(nm_engine *engine, const asking *a) {
  const nm_search *waiting = nm_search_find(engine, &a->hash);
  if (waiting != NULL && waiting->engaged) {
    return NM_DROP_PATH_REQUEST_SEEN;
  }
  if (a->limited) {
    nm_search_answered(engine, &a->hash); /* the next try is heard */
    return NM_DROP_PATH_REQUEST_LIMITED;
  }
  nm_search *begun =
      nm_search_join(engine, &a->hash, a->iface->id, search_life(engine));
  nm_block *raw =
      begun == NULL ? NULL : nm_asks_packet(engine, &a->hash, a->asked->tag);
  if (raw == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  begun->engaged = true;
  nm_iface *out = NULL;
  while ((out = nm_iface_after(engine, out)) != NULL) {
    if (may_search_on(engine, a, out, nm_block_span(raw).len)) {
      put(engine, out, raw);
    }
  }
  nm_block_drop(raw);
  return NM_DROP_NONE;
}

nm_drop nm_path_request_elsewhere(nm_engine *engine, nm_input *input,
                                  const nm_path_request *asked, bool limited) {
  asking a = {.asked = asked,
              .iface = input->iface,
              .client = is_client(input->iface),
              .limited = limited};
  memcpy(a.hash.b, asked->destination.ptr, NM_ADDRESS_SIZE);
  nm_path *path = nm_path_find(engine, &a.hash);
  if (path != NULL && path->hops == 0 &&
      is_client(nm_iface_find(engine, path->iface))) {
    nm_search_ask_client(engine, &a.hash, a.iface->id);
  }
  bool searches =
      engine->transport &&
      nm_path_search_starts(a.iface->spec.mode, a.iface->spec.recursive_prs);
  const nm_request_flight *flight = nm_search_in_flight(engine, &a.hash);
  if (flight != NULL && !(flight->fruitless && (searches || a.client))) {
    if (!a.limited) {
      (void)nm_search_join(engine, &a.hash, a.iface->id, search_life(engine));
    }
    return NM_DROP_PATH_REQUEST_SEEN;
  }
  nm_search_passed_on(engine, &a.hash);
  if (path != NULL && (engine->transport || a.client)) {
    return answer(engine, &a, path);
  }
  if (a.client) {
    return ask_for_client(engine, &a);
  }
  if (searches) {
    return search(engine, &a);
  }
  if (engine->carried.clients > 0) {
    return ask_clients(engine, &a);
  }
  nm_search_led_nowhere(engine, &a.hash);
  return NM_DROP_PATH_REQUEST_UNKNOWN;
}
