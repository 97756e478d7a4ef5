/* Any bytes as a packed message: decoded, hashed, written again, stamped. */
#include "crypto/hash.h"
#include "fuzz.h"
#include "wire/lxmf_fields.h"
#include "wire/lxmf_message.h"

static void id_of(const nm_lxmf_view *view, uint8_t id[32]) {
  nm_buffer scratch;
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  MUST(nm_lxmf_message_id(view, &scratch, id) == NM_OK);
  uint8_t other[32];
  MUST(nm_lxmf_signed_data(view, &scratch, other) == NM_OK);
  MUST(memcmp(id, other, 32) == 0);
  nm_buffer_dispose(&scratch);
}

/* Writes the message again from its parts; a canonical one keeps its id. */
static void write_again(const nm_lxmf_view *view, const uint8_t id[32]) {
  nm_lxmf_draft draft = {.destination = view->destination,
                         .source = view->source,
                         .timestamp = view->timestamp,
                         .title = view->title,
                         .content = view->content,
                         .fields = view->fields,
                         .stamp = view->stamp};
  size_t size = nm_lxmf_packed_size(&draft);
  uint8_t *out = (uint8_t *)malloc(size);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, size);
  MUST(nm_lxmf_encode(&draft, view->signature.ptr, &w) == NM_OK);
  MUST(w.pos == size);
  nm_lxmf_view again;
  MUST(nm_lxmf_decode(nm_writer_done(&w), NULL, &again, NULL) == NM_OK);
  MUST(nm_span_equal(again.title, view->title));
  MUST(nm_span_equal(again.content, view->content));
  uint8_t own[32];
  nm_lxmf_draft_id(&draft, own);
  bool same = view->canonical && view->fields.len > 0 && !view->title_text &&
              !view->content_text && view->timestamp_type == NM_MP_FLOAT &&
              (view->count > 4 || view->payload.len == view->elements.len + 1);
  if (same) {
    MUST(memcmp(own, id, 32) == 0);
    uint8_t back[32];
    id_of(&again, back);
    MUST(memcmp(back, id, 32) == 0);
  }
  free(out);
}

static void stamp_again(const nm_lxmf_view *view, const uint8_t id[32],
                        nm_span stamp) {
  size_t size = nm_lxmf_restamped_size(view, stamp.len);
  uint8_t *out = (uint8_t *)malloc(size);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, size);
  int status = nm_lxmf_restamp(view, stamp, &w);
  MUST(status == NM_OK || status == NM_E(STATE));
  if (status == NM_OK) {
    MUST(w.pos == size);
    nm_lxmf_view again;
    uint8_t own[32];
    MUST(nm_lxmf_decode(nm_writer_done(&w), NULL, &again, NULL) == NM_OK);
    id_of(&again, own);
    MUST(memcmp(own, id, 32) == 0);
  }
  free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  nm_lxmf_view view;
  nm_fault fault = {0};
  int status = nm_lxmf_decode(in, NULL, &view, &fault);
  must_name(status, &fault, size);
  if (status != NM_OK) {
    return 0;
  }
  MUST(lies_in(view.title, in) && lies_in(view.content, in));
  MUST(lies_in(view.fields, in) && lies_in(view.stamp, in));
  MUST(lies_in(view.elements, view.payload) && view.count >= 4);
  uint8_t id[32];
  id_of(&view, id);
  nm_lxmf_view short_form;
  MUST(nm_lxmf_decode_opportunistic(nm_lxmf_opportunistic(in),
                                    &view.destination, NULL, &short_form,
                                    NULL) == NM_OK);
  uint8_t other[32];
  id_of(&short_form, other);
  MUST(memcmp(id, other, 32) == 0);
  write_again(&view, id);
  stamp_again(&view, id, nm_span_of("thirty-two bytes of some stamp..", 32));
  stamp_again(&view, id, nm_span_of(NULL, 0));
  nm_span value;
  if (nm_lxmf_field_find(view.fields, NM_LXMF_FIELD_TICKET, &value) == NM_OK) {
    nm_lxmf_ticket ticket;
    MUST(lies_in(value, view.fields));
    must_name(nm_lxmf_ticket_decode(value, &ticket, &fault), &fault, value.len);
  }
  return 0;
}
