/* LXMF messages with 21, 2048 and 16384 bytes of content. */
#include "bench.h"
#include "fixtures.h"

#include "wire/lxmf_message.h"

#include <string.h>

#define FIRST_TIME 1700000000.5
/* Room for the largest message and for what is signed of it. */
#define ROOM (NB_LARGE + 512)

/* What decoding into memory of one's own leaves behind. */
typedef struct owned {
  nm_destination_hash destination;
  nm_destination_hash source;
  uint8_t signature[NM_SIGNATURE_SIZE];
  double timestamp;
  nm_span title; /* all three point into `arena` */
  nm_span content;
  nm_span fields;
  uint8_t arena[ROOM];
} owned;

typedef struct messages {
  size_t count;
  nm_lxmf_draft parts[NB_COUNT];
  uint8_t signatures[NB_COUNT][NM_SIGNATURE_SIZE];
  uint8_t *contents[NB_COUNT];
  uint8_t *wires[NB_COUNT];
  size_t wire_len;
  nm_identity signer;
  nm_lxmf_view view;
  owned own;
  uint8_t id[NM_HASH_SIZE];
  uint8_t out[ROOM];
  size_t out_len;
  nm_buffer scratch;
  uint8_t scratch_room[ROOM];
} messages;

/* The titles of the published report; its encoded message of 12 bytes has one
 * of its own. */
static const char *title_of(size_t size) {
  if (size == 12) {
    return "wire-title";
  }
  if (size < 256) {
    return "bench-title";
  }
  return size < 4096 ? "bench-large-title" : "bench-resource-title";
}

/* Makes message |i|; with |sign| its signature is the signer's, else a
 * constant that fits no key. */
static int make_message(messages *m, size_t i, size_t size, bool sign) {
  nm_lxmf_draft *draft = &m->parts[i];
  nb_stream("lxmf.destination", i, draft->destination.b, NM_ADDRESS_SIZE);
  nb_stream("lxmf.source", i, draft->source.b, NM_ADDRESS_SIZE);
  nb_stream("lxmf.signature", i, m->signatures[i], NM_SIGNATURE_SIZE);
  m->contents[i] = nb_stream_new("lxmf.content", i, size);
  m->wires[i] = nm_alloc(&nm_mem_system, ROOM);
  if (m->contents[i] == NULL || m->wires[i] == NULL) {
    return NM_E(MEMORY);
  }
  const char *title = title_of(size);
  draft->timestamp = FIRST_TIME + (double)i;
  draft->title = nm_span_of(title, strlen(title));
  draft->content = nm_span_of(m->contents[i], size);
  nm_writer w = nm_writer_of(m->wires[i], ROOM);
  int status = sign ? nm_lxmf_pack(draft, &m->signer.sign, NULL, &w, m->id)
                    : nm_lxmf_encode(draft, m->signatures[i], &w);
  m->wire_len = nm_writer_done(&w).len;
  return status;
}

static int prepare_all(const nb_row *row, void **state, bool sign) {
  messages *m = nb_state(state, sizeof *m);
  if (m == NULL) {
    return NM_E(MEMORY);
  }
  m->count = row->inputs;
  nm_buffer_init(&m->scratch, &nm_mem_system, m->scratch_room, ROOM, 0);
  int status = nb_identity(&m->signer, "identity", 0);
  for (size_t i = 0; i < m->count && status == NM_OK; i++) {
    status = make_message(m, i, row->size, sign);
  }
  return status;
}

static int prepare_constant(const nb_row *row, void **state) {
  return prepare_all(row, state, false);
}

static int prepare_signed(const nb_row *row, void **state) {
  return prepare_all(row, state, true);
}

static void dispose(void *state) {
  messages *m = (messages *)state;
  for (size_t i = 0; i < NB_COUNT; i++) {
    nm_release(&nm_mem_system, m->contents[i]);
    nm_release(&nm_mem_system, m->wires[i]);
  }
  nm_buffer_dispose(&m->scratch);
  nm_release(&nm_mem_system, m);
}

static nm_span wire_of(const messages *m, size_t i) {
  return nm_span_of(m->wires[i], m->wire_len);
}

/* Whether the last decoded message is |i|. */
static int check_view(void *state, size_t i, nm_span *evidence) {
  messages *m = (messages *)state;
  const nm_lxmf_draft *d = &m->parts[i];
  const nm_lxmf_view *v = &m->view;
  bool same = memcmp(&v->destination, &d->destination, NM_ADDRESS_SIZE) == 0 &&
              memcmp(&v->source, &d->source, NM_ADDRESS_SIZE) == 0 &&
              nm_span_equal(v->signature, nm_span_slice(wire_of(m, i), 32,
                                                        NM_SIGNATURE_SIZE)) &&
              v->timestamp == d->timestamp &&
              nm_span_equal(v->title, d->title) && v->count == 4;
  *evidence = v->content;
  return same ? NM_OK : NM_E(MISMATCH);
}

static inline int view_once(messages *m, size_t i) {
  int status = nm_lxmf_decode(wire_of(m, i), NULL, &m->view, NULL);
  nb_use(&m->view);
  return status;
}

NB_RUN(view_run, messages, view_once);

/* Copies |from| to the arena's end, which moves. */
static inline nm_span keep(owned *own, size_t *used, nm_span from) {
  uint8_t *to = own->arena + *used;
  memcpy(to, from.ptr, from.len);
  *used += from.len;
  return nm_span_of(to, from.len);
}

static inline int owned_once(messages *m, size_t i) {
  nm_lxmf_view view;
  int status = nm_lxmf_decode(wire_of(m, i), NULL, &view, NULL);
  owned *own = &m->own;
  if (status != NM_OK ||
      view.title.len + view.content.len + view.fields.len > sizeof own->arena) {
    return status != NM_OK ? status : NM_E(TOO_LARGE);
  }
  size_t used = 0;
  own->destination = view.destination;
  own->source = view.source;
  memcpy(own->signature, view.signature.ptr, NM_SIGNATURE_SIZE);
  own->timestamp = view.timestamp;
  own->title = keep(own, &used, view.title);
  own->content = keep(own, &used, view.content);
  own->fields = keep(own, &used, view.fields);
  nb_use(own);
  return NM_OK;
}

NB_RUN(owned_run, messages, owned_once);

static int check_owned(void *state, size_t i, nm_span *evidence) {
  messages *m = (messages *)state;
  const nm_lxmf_draft *d = &m->parts[i];
  const owned *own = &m->own;
  bool same =
      memcmp(&own->destination, &d->destination, NM_ADDRESS_SIZE) == 0 &&
      memcmp(&own->source, &d->source, NM_ADDRESS_SIZE) == 0 &&
      memcmp(own->signature, m->signatures[i], NM_SIGNATURE_SIZE) == 0 &&
      own->timestamp == d->timestamp && nm_span_equal(own->title, d->title) &&
      own->fields.len == 1;
  *evidence = own->content;
  return same ? NM_OK : NM_E(MISMATCH);
}

static inline int verify_once(messages *m, size_t i) {
  int status = nm_lxmf_decode(wire_of(m, i), NULL, &m->view, NULL);
  if (status == NM_OK) {
    status = nm_lxmf_verify(&m->view, m->signer.public_key + NM_KEY_SIZE,
                            &m->scratch, m->id);
  }
  nb_use(m->id);
  return status;
}

NB_RUN(verify_run, messages, verify_once);

/* Also that a forged message is refused. */
static int check_verify(void *state, size_t i, nm_span *evidence) {
  messages *m = (messages *)state;
  m->wires[i][m->wire_len - 2] ^= 1;
  int forged = verify_once(m, i);
  m->wires[i][m->wire_len - 2] ^= 1;
  int status = verify_once(m, i);
  if (status == NM_OK && forged != NM_E(SIGNATURE)) {
    status = NM_E(SIGNATURE);
  }
  return status == NM_OK ? check_view(m, i, evidence) : status;
}

/* A message from its parts, as an application makes one. */
static inline nm_lxmf_draft compose(const nm_lxmf_draft *parts) {
  nm_lxmf_draft draft = {.destination = parts->destination,
                         .source = parts->source,
                         .timestamp = parts->timestamp,
                         .title = parts->title,
                         .content = parts->content};
  return draft;
}

static inline int encode_once(messages *m, size_t i) {
  nm_lxmf_draft draft = compose(&m->parts[i]);
  nm_writer w = nm_writer_of(m->out, sizeof m->out);
  int status = nm_lxmf_encode(&draft, m->signatures[i], &w);
  m->out_len = nm_writer_done(&w).len;
  nb_use(m->out);
  return status;
}

NB_RUN(encode_run, messages, encode_once);

static int check_encode(void *state, size_t i, nm_span *evidence) {
  messages *m = (messages *)state;
  *evidence = nm_span_of(m->out, m->out_len);
  return nm_span_equal(*evidence, wire_of(m, i)) ? NM_OK : NM_E(MISMATCH);
}

static inline int sign_once(messages *m, size_t i) {
  nm_lxmf_draft draft = compose(&m->parts[i]);
  nm_writer w = nm_writer_of(m->out, sizeof m->out);
  int status = nm_lxmf_pack(&draft, &m->signer.sign, NULL, &w, m->id);
  m->out_len = nm_writer_done(&w).len;
  nb_use(m->out);
  return status;
}

NB_RUN(sign_run, messages, sign_once);

static int check_sign(void *state, size_t i, nm_span *evidence) {
  messages *m = (messages *)state;
  nm_span wire = nm_span_of(m->out, m->out_len);
  *evidence = nm_span_slice(wire, 2 * NM_ADDRESS_SIZE, NM_SIGNATURE_SIZE);
  return nm_span_equal(wire, wire_of(m, i)) ? NM_OK : NM_E(MISMATCH);
}

#define VIEW_NOTE                                                              \
  "nm_lxmf_decode: views into the wire bytes; no message id, no verification"
#define OWNED_NOTE                                                             \
  "nm_lxmf_decode, then hashes, signature, title, content and fields are "     \
  "copied into memory of their own (an arena); no message id, no verification"
#define VERIFY_NOTE                                                            \
  "nm_lxmf_decode and nm_lxmf_verify: message id and Ed25519 check with the "  \
  "source's key at hand"
#define ENCODE_NOTE                                                            \
  "nm_lxmf_encode from the parts into a given buffer, constant signature; no " \
  "message id, no signing"
#define SIGN_NOTE                                                              \
  "nm_lxmf_pack from the parts into a given buffer: message id and Ed25519 "   \
  "signature with an expanded key"

#define ROW(row_id, text, bytes, number, make, does, checks)                   \
  {                                                                            \
    .id = row_id, .note = text, .size = bytes, .inputs = number,               \
    .prepare = make, .run = does, .check = checks, .dispose = dispose          \
  }
#define VIEW(id, size, n)                                                      \
  ROW(id, VIEW_NOTE, size, n, prepare_constant, view_run, check_view)
#define OWNED(id, size, n)                                                     \
  ROW(id, OWNED_NOTE, size, n, prepare_constant, owned_run, check_owned)
#define VERIFY(id, size, n)                                                    \
  ROW(id, VERIFY_NOTE, size, n, prepare_signed, verify_run, check_verify)
#define ENCODE(id, size, n)                                                    \
  ROW(id, ENCODE_NOTE, size, n, prepare_constant, encode_run, check_encode)
#define SIGN(id, size, n)                                                      \
  ROW(id, SIGN_NOTE, size, n, prepare_signed, sign_run, check_sign)

const nb_row nb_message_rows[] = {
    VIEW("lxmf.decode.view.21", 21, NB_COUNT),
    VIEW("lxmf.decode.view.2k", 2048, NB_COUNT),
    VIEW("lxmf.decode.view.16k", NB_LARGE, NB_COUNT),
    OWNED("lxmf.decode.owned.21", 21, NB_COUNT),
    OWNED("lxmf.decode.owned.2k", 2048, NB_COUNT),
    OWNED("lxmf.decode.owned.16k", NB_LARGE, NB_COUNT),
    VERIFY("lxmf.decode.verify.21", 21, NB_COUNT),
    VERIFY("lxmf.decode.verify.2k", 2048, NB_COUNT),
    VERIFY("lxmf.decode.verify.16k", NB_LARGE, NB_COUNT),
    ENCODE("lxmf.encode.codec.21", 21, NB_COUNT),
    ENCODE("lxmf.encode.codec.2k", 2048, NB_COUNT),
    ENCODE("lxmf.encode.codec.16k", NB_LARGE, NB_COUNT),
    SIGN("lxmf.encode.sign.21", 21, NB_COUNT),
    SIGN("lxmf.encode.sign.2k", 2048, NB_COUNT),
    SIGN("lxmf.encode.sign.16k", NB_LARGE, NB_COUNT),
    /* What the published Rust figures timed: one message, over and over. */
    OWNED("published.lxmf.decode", 21, 1),
    ENCODE("published.lxmf.encode", 12, 1),
    OWNED("published.lxmf.decode.large", 2048, 1),
    ENCODE("published.lxmf.encode.large", 2048, 1),
    OWNED("published.lxmf.decode.resource", NB_LARGE, 1),
    ENCODE("published.lxmf.encode.resource", NB_LARGE, 1),
    {.id = NULL},
};
