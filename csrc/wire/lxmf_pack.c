/* Writing LXMF messages. */
#include "wire/lxmf_message.h"

#include "crypto/hash.h"
#include "wire/lxmf_stamp.h"

static const uint8_t no_fields[1] = {0x80};

static nm_span fields_of(const nm_lxmf_draft *draft) {
  return draft->fields.len > 0 ? draft->fields
                               : nm_span_of(no_fields, sizeof no_fields);
}

size_t nm_lxmf_payload_size(const nm_lxmf_draft *draft) {
  size_t size = 1 + 9 + nm_mp_bin_size(draft->title.len) +
                nm_mp_bin_size(draft->content.len) + fields_of(draft).len;
  if (draft->stamp.len > 0) {
    size += nm_mp_bin_size(draft->stamp.len);
  }
  return size;
}

size_t nm_lxmf_packed_size(const nm_lxmf_draft *draft) {
  return NM_LXMF_HEADER_SIZE + nm_lxmf_payload_size(draft);
}

int nm_lxmf_fields_canonical(nm_span fields, const nm_mp_limits *limits,
                             nm_writer *w, nm_fault *fault) {
  nm_reader r = nm_reader_of(fields);
  nm_reader head = r;
  nm_mp_item item;
  int status = nm_mp_read(&head, &item);
  if (status == NM_OK && item.type != NM_MP_MAP) {
    status = NM_E(TYPE);
  }
  if (status == NM_OK) {
    status = nm_mp_canonical(&r, w, limits);
  }
  if (status == NM_OK && nm_reader_left(&r) > 0) {
    status = NM_E(TRAILING);
  }
  return status == NM_OK ? NM_OK : nm_fault_set(fault, status, "fields", r.pos);
}

/* Elements 0 to 3. */
static void write_elements(const nm_lxmf_draft *draft, nm_writer *w) {
  nm_mp_float(w, draft->timestamp);
  nm_mp_bin(w, draft->title);
  nm_mp_bin(w, draft->content);
  nm_writer_span(w, fields_of(draft));
}

static void write_addresses(const nm_lxmf_draft *draft, nm_writer *w) {
  nm_writer_put(w, draft->destination.b, sizeof draft->destination.b);
  nm_writer_put(w, draft->source.b, sizeof draft->source.b);
}

int nm_lxmf_encode(const nm_lxmf_draft *draft,
                   const uint8_t signature[NM_SIGNATURE_SIZE], nm_writer *w) {
  bool stamped = draft->stamp.len > 0;
  write_addresses(draft, w);
  nm_writer_put(w, signature, NM_SIGNATURE_SIZE);
  nm_mp_array(w, stamped ? 5 : 4);
  write_elements(draft, w);
  if (stamped) {
    nm_mp_bin(w, draft->stamp);
  }
  return w->status;
}

void nm_lxmf_draft_id(const nm_lxmf_draft *draft, uint8_t id[NM_HASH_SIZE]) {
  /* What lies between the spans of the draft: array header, timestamp and the
   * header of title; the header of content. */
  uint8_t before_title[1 + 9 + 5];
  uint8_t before_content[5];
  nm_writer head = nm_writer_of(before_title, sizeof before_title);
  nm_writer middle = nm_writer_of(before_content, sizeof before_content);
  nm_mp_array(&head, 4);
  nm_mp_float(&head, draft->timestamp);
  nm_mp_bin_head(&head, draft->title.len);
  nm_mp_bin_head(&middle, draft->content.len);
  const nm_span pieces[7] = {
      nm_span_of(draft->destination.b, sizeof draft->destination.b),
      nm_span_of(draft->source.b, sizeof draft->source.b),
      nm_writer_done(&head),
      draft->title,
      nm_writer_done(&middle),
      draft->content,
      fields_of(draft)};
  nm_sha256v(id, pieces, 7);
}

/* Writes all but the signature, whose place is at |*slot|, and makes it. */
static int pack_into(const nm_lxmf_draft *draft, const nm_ed25519_sign_key *key,
                     const uint8_t *ticket, nm_writer *w,
                     uint8_t id[NM_HASH_SIZE]) {
  static const uint8_t four_elements[1] = {0x94};
  write_addresses(draft, w);
  uint8_t *slot = nm_writer_reserve(w, NM_SIGNATURE_SIZE);
  nm_mp_array(w, ticket != NULL || draft->stamp.len > 0 ? 5 : 4);
  size_t start = w->pos;
  write_elements(draft, w);
  if (w->status != NM_OK) {
    return w->status;
  }
  nm_span pieces[5] = {
      nm_span_of(draft->destination.b, sizeof draft->destination.b),
      nm_span_of(draft->source.b, sizeof draft->source.b),
      nm_span_of(four_elements, sizeof four_elements),
      nm_span_slice(nm_writer_done(w), start, w->pos - start),
      nm_span_of(id, NM_HASH_SIZE)};
  nm_sha256v(id, pieces, 4);
  uint8_t cheap[NM_LXMF_TICKET_SIZE];
  nm_span stamp = draft->stamp;
  if (ticket != NULL) {
    nm_lxmf_ticket_stamp(ticket, id, cheap);
    stamp = nm_span_of(cheap, sizeof cheap);
  }
  if (stamp.len > 0) {
    nm_mp_bin(w, stamp);
  }
  if (w->status != NM_OK) {
    return w->status;
  }
  return nm_ed25519_signv(slot, key, pieces, 5);
}

int nm_lxmf_pack(const nm_lxmf_draft *draft, const nm_ed25519_sign_key *key,
                 const uint8_t *ticket, nm_writer *w,
                 uint8_t id[NM_HASH_SIZE]) {
  if (ticket != NULL && draft->stamp.len > 0) {
    return NM_E(ARGUMENT);
  }
  nm_writer before = *w;
  int status = pack_into(draft, key, ticket, w, id);
  if (status != NM_OK) {
    *w = before;
  }
  return status;
}

/* --- Another stamp --- */

/* Whether the payload is nothing but the canonical form of four elements, so
 * that the id is the same with and without a fifth. */
static bool is_plain(const nm_lxmf_view *view) {
  return view->canonical && view->count == 4 &&
         view->payload.len == view->elements.len + 1;
}

size_t nm_lxmf_restamped_size(const nm_lxmf_view *view, size_t stamp_len) {
  if (stamp_len == 0 && view->count == 4) {
    return NM_LXMF_HEADER_SIZE + view->payload.len;
  }
  return NM_LXMF_HEADER_SIZE + 1 + view->elements.len +
         (stamp_len > 0 ? nm_mp_bin_size(stamp_len) : 0);
}

int nm_lxmf_restamp(const nm_lxmf_view *view, nm_span stamp, nm_writer *w) {
  bool stamped = view->count > 4;
  bool keeps_id =
      stamp.len > 0 ? stamped || is_plain(view) : !stamped || view->canonical;
  if (!keeps_id) {
    return NM_E(STATE);
  }
  nm_writer_put(w, view->destination.b, sizeof view->destination.b);
  nm_writer_put(w, view->source.b, sizeof view->source.b);
  nm_writer_span(w, view->signature);
  if (stamp.len == 0 && !stamped) {
    nm_writer_span(w, view->payload);
    return w->status;
  }
  nm_mp_array(w, stamp.len > 0 ? 5 : 4);
  nm_writer_span(w, view->elements);
  if (stamp.len > 0) {
    nm_mp_bin(w, stamp);
  }
  return w->status;
}
