/* Any bytes as the app data of a delivery destination and of a node. */
#include "fuzz.h"
#include "wire/lxmf_appdata.h"

static void delivery(nm_span in) {
  nm_lxmf_delivery d;
  nm_fault fault = {0};
  must_name(nm_lxmf_delivery_decode(in, &d, &fault), &fault, in.len);
  MUST(lies_in(d.name, in) && lies_in(d.functions, in));
  if (!d.has_name) {
    return;
  }
  MUST(nm_utf8_valid(d.name));
  uint8_t *clean = (uint8_t *)malloc(d.name.len + 1);
  MUST(clean != NULL);
  nm_writer w = nm_writer_of(clean, d.name.len);
  MUST(nm_lxmf_name_clean(d.name, &w) == NM_OK);
  MUST(nm_utf8_valid(nm_writer_done(&w)));
  nm_lxmf_delivery_draft draft = {.has_name = true,
                                  .name = nm_writer_done(&w),
                                  .has_cost = d.has_cost,
                                  .cost = d.cost};
  size_t size = nm_lxmf_delivery_size(&draft);
  uint8_t *out = (uint8_t *)malloc(size);
  MUST(out != NULL);
  nm_writer again = nm_writer_of(out, size);
  MUST(nm_lxmf_delivery_encode(&draft, &again) == NM_OK);
  MUST(again.pos == size);
  nm_lxmf_delivery back;
  MUST(nm_lxmf_delivery_decode(nm_writer_done(&again), &back, NULL) == NM_OK);
  MUST(back.has_name && nm_span_equal(back.name, draft.name));
  free(out);
  free(clean);
}

static void node(nm_span in) {
  nm_lxmf_node n;
  nm_fault fault = {0};
  int status = nm_lxmf_node_decode(in, &n, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  MUST(lies_in(n.metadata, in) && n.metadata.len > 0);
  nm_lxmf_node_draft draft = {.timebase = n.timebase,
                              .active = n.active,
                              .transfer_limit_kb = n.transfer_limit_kb,
                              .sync_limit_kb = n.sync_limit_kb,
                              .limits_float = true,
                              .metadata = n.metadata};
  size_t size = nm_lxmf_node_size(&draft);
  uint8_t *out = (uint8_t *)malloc(size);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, size);
  MUST(nm_lxmf_node_encode(&draft, &w) == NM_OK && w.pos == size);
  nm_lxmf_node back;
  MUST(nm_lxmf_node_decode(nm_writer_done(&w), &back, NULL) == NM_OK);
  MUST(back.timebase == n.timebase && back.active == n.active);
  MUST(back.has_name == n.has_name && nm_span_equal(back.name, n.name));
  free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  delivery(in);
  node(in);
  return 0;
}
