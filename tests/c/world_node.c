#include "world_node.h"

#include "stack/local.h"
#include "stack/request.h"
#include "stack/send.h"
#include "stack/transfer.h"
#include "support.h"
#include "wire/lxmf_appdata.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_stamp.h"

#include <string.h>

#define COST 2
#define ANSWER_MAX 1000000

static nm_engine *engine_of(const world *w) {
  return nm_sim_engine(w->sim, w->node);
}

static nm_now now_of(const world *w) {
  return nm_sim_now(w->sim, w->node);
}

void world_node_open(world *w, const nm_identity *identity) {
  nm_dest_spec spec;
  nm_op_id op;
  uint8_t bytes[128];
  nm_writer out = nm_writer_of(bytes, sizeof(bytes));
  nm_lxmf_node_draft draft = {.timebase = 1700000000,
                              .active = true,
                              .transfer_limit_kb = 256,
                              .sync_limit_kb = 10240,
                              .stamp_cost = COST,
                              .peering_cost = 18};
  nm_dest_spec_default(&spec);
  spec.identity = identity;
  spec.name = nm_span_of("lxmf.propagation", 16);
  spec.accepts_links = true;
  spec.prove = NM_PROVE_APP;
  spec.resources = NM_ACCEPT_ALL;
  spec.hold_resources = true;
  NM_CHECK_OK(nm_engine_listen(engine_of(w), &spec, &w->node_hash, now_of(w)));
  NM_CHECK_OK(nm_engine_handle(engine_of(w), &w->node_hash,
                               nm_span_of("/get", 4), NM_ALLOW_ALL, NULL, 0));
  NM_CHECK_OK(nm_lxmf_node_encode(&draft, &out));
  NM_CHECK_OK(nm_engine_set_app_data(engine_of(w), &w->node_hash, true,
                                     nm_writer_done(&out)));
  NM_CHECK_OK(nm_engine_announce(engine_of(w), &w->node_hash, NULL, 0, false,
                                 &op, now_of(w)));
  nm_sim_touch(w->sim, w->node);
}

static bool is_stored(const world *w, const uint8_t transient[NM_HASH_SIZE]) {
  for (int i = 0; i < w->stored_count; i++) {
    uint8_t id[NM_HASH_SIZE];
    nm_lxmf_transient_id(nm_block_span(w->stored[i]), id);
    if (memcmp(id, transient, sizeof(id)) == 0) {
      return true;
    }
  }
  return false;
}

static void on_upload(world *w, const nm_event *event) {
  nm_lxmf_container in;
  nm_fault fault;
  nm_span element;
  NM_CHECK_OK(
      nm_lxmf_container_open(nm_block_span(event->data), 64, &in, &fault));
  while (nm_lxmf_container_next(&in, &element)) {
    nm_lxmf_stamped stamped;
    uint8_t transient[NM_HASH_SIZE];
    uint32_t value;
    NM_CHECK_OK(nm_lxmf_stamped_check(element, COST, &stamped, transient,
                                      &value, &fault));
    if (!is_stored(w, transient)) {
      NM_CHECK(w->stored_count < WORLD_LETTERS);
      w->stored[w->stored_count++] =
          nm_block_copy(&nm_mem_system, stamped.data);
    }
  }
  /* The link may have ended meanwhile. */
  int status = nm_engine_accept(engine_of(w), event->token, now_of(w));
  NM_CHECK(status == NM_OK || status == NM_E(STATE));
}

static const world_box *who_asks(const world *w, const nm_event *event) {
  for (int i = 0; i < w->boxes; i++) {
    if (memcmp(w->box[i].identity.hash.b, event->identity.b,
               sizeof(event->identity.b)) == 0) {
      return &w->box[i];
    }
  }
  return NULL;
}

static bool is_listed(nm_lxmf_id_list list, nm_span data) {
  uint8_t transient[NM_HASH_SIZE];
  nm_span id;
  nm_lxmf_transient_id(data, transient);
  while (nm_lxmf_id_list_next(&list, &id)) {
    if (memcmp(id.ptr, transient, NM_HASH_SIZE) == 0) {
      return true;
    }
  }
  return false;
}

static bool is_for(const world_box *box, nm_span data) {
  return memcmp(data.ptr, box->hash.b, sizeof(box->hash.b)) == 0;
}

static void forget(world *w, const world_box *box, const nm_lxmf_get *get) {
  int kept = 0;
  for (int i = 0; i < w->stored_count; i++) {
    nm_span data = nm_block_span(w->stored[i]);
    if (is_for(box, data) && is_listed(get->have, data)) {
      nm_block_drop(w->stored[i]);
    } else {
      w->stored[kept++] = w->stored[i];
    }
  }
  w->stored_count = kept;
}

static bool is_wanted(const world_box *box, const nm_lxmf_get *get,
                      nm_span data) {
  bool lists = get->want.nil && get->have.nil;
  return is_for(box, data) && (lists || is_listed(get->want, data));
}

static void bin(nm_writer *out, nm_span bytes) {
  nm_writer_u8(out, 0xc5);
  nm_writer_u16(out, (uint16_t)bytes.len);
  nm_writer_span(out, bytes);
}

static void answer(world *w, const nm_event *event, nm_span data) {
  int status =
      nm_engine_respond(engine_of(w), event->token, data, false, now_of(w));
  NM_CHECK(status == NM_OK || status == NM_E(STATE));
}

static void on_get(world *w, const nm_event *event) {
  nm_lxmf_get get;
  nm_fault fault;
  uint8_t *bytes = nm_test_scratch(ANSWER_MAX);
  nm_writer out = nm_writer_of(bytes, ANSWER_MAX);
  const world_box *box = who_asks(w, event);
  if (box == NULL) { /* the packet that says who asks was lost, or is late */
    w->unknown++;
    nm_writer_u8(&out, 0xcc);
    nm_writer_u8(&out, NM_LXMF_ERROR_NO_IDENTITY);
    answer(w, event, nm_writer_done(&out));
    return;
  }
  NM_CHECK_OK(nm_lxmf_get_decode(nm_block_span(event->data), &get, &fault));
  forget(w, box, &get);
  uint16_t count = 0;
  for (int i = 0; i < w->stored_count; i++) {
    count =
        (uint16_t)(count + is_wanted(box, &get, nm_block_span(w->stored[i])));
  }
  nm_writer_u8(&out, 0xdc);
  nm_writer_u16(&out, count);
  for (int i = 0; i < w->stored_count; i++) {
    nm_span data = nm_block_span(w->stored[i]);
    if (!is_wanted(box, &get, data)) {
      continue;
    }
    uint8_t transient[NM_HASH_SIZE];
    nm_lxmf_transient_id(data, transient);
    bin(&out, get.want.nil ? nm_span_of(transient, sizeof(transient)) : data);
  }
  answer(w, event, nm_writer_done(&out));
}

void world_node_event(world *w, const nm_event *event) {
  if (event->kind == NM_EVENT_LINK_PACKET ||
      event->kind == NM_EVENT_RESOURCE_IN) {
    on_upload(w, event);
  } else if (event->kind == NM_EVENT_REQUEST) {
    on_get(w, event);
  }
  nm_sim_touch(w->sim, w->node);
}
