/* Paper messages as URIs, and the choice of method and representation. */
#include "wire/lxmf_paper.h"

#include "support.h"
#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_select.h"
#include "wire_data.h"

#include <ctype.h>
#include <string.h>

static nm_span span_of_text(const char *text) {
  return nm_span_of(text, strlen(text));
}

static nm_span decode(nm_span uri) {
  size_t room = nm_lxmf_uri_data_bound(uri.len);
  uint8_t *out = (uint8_t *)nm_test_scratch(room + 1);
  nm_writer w = nm_writer_of(out, room);
  NM_CHECK_OK(nm_lxmf_uri_decode(uri, &w, NULL));
  return nm_writer_done(&w);
}

static void run_paper(const nm_vector *v) {
  nm_span data = nm_vector_bytes(v, "output.paper_packed");
  nm_span uri = span_of_text(nm_vector_text(
      v, nm_vector_has(v, "output.uri") ? "output.uri" : "input.uri"));
  NM_CHECK_SPAN(decode(uri), data);
  NM_CHECK_INT(nm_lxmf_uri_size(data.len), uri.len);
  uint8_t *out = (uint8_t *)nm_test_scratch(uri.len);
  nm_writer w = nm_writer_of(out, uri.len);
  NM_CHECK_OK(nm_lxmf_uri_encode(data, &w));
  NM_CHECK_SPAN(nm_writer_done(&w), uri);
  uint8_t id[32];
  nm_lxmf_transient_id(data, id);
  NM_CHECK_SPAN(nm_span_of(id, 32), nm_vector_bytes(v, "output.transient_id"));
}

NM_TEST(papers_of_the_vectors_are_read_and_written) {
  nm_vectors_each("lxmf", "paper", 3, run_paper);
  nm_vectors_each("lxmf", "paper_decode", 1, run_paper);
}

static void run_paper_sealed(const nm_vector *v) {
  nm_identity bob;
  nm_cipher cipher;
  NM_CHECK_OK(nm_identity_init_private(
      &bob, nm_vector_bytes(v, "input.destination_private_key")));
  NM_CHECK_OK(nm_cipher_open(&cipher, NULL));
  nm_encrypt_params params = {
      .target = bob.public_key,
      .salt = &bob.hash,
      .ephemeral = nm_vector_bytes(v, "input.ephemeral_private_key").ptr,
      .iv = nm_vector_bytes(v, "input.iv").ptr};
  nm_span packed = nm_vector_bytes(v, "output.packed");
  size_t size = nm_lxmf_data_size(packed.len);
  uint8_t *out = (uint8_t *)nm_test_scratch(size);
  NM_CHECK_OK(nm_lxmf_data_seal(&cipher, &params, packed, out));
  NM_CHECK_SPAN(nm_span_of(out, size),
                nm_vector_bytes(v, "output.paper_packed"));
  nm_cipher_close(&cipher);
}

NM_TEST(papers_of_the_vectors_are_sealed) {
  nm_vectors_each("lxmf", "paper", 3, run_paper_sealed);
}

NM_TEST(data_of_every_length_survive_the_uri) {
  nm_span noise = nm_wire_rule_data("uri", 2210);
  for (size_t len = 112; len <= 2210; len += len < 130 ? 1 : 97) {
    nm_span data = nm_span_slice(noise, 0, len);
    size_t size = nm_lxmf_uri_size(len);
    uint8_t *out = (uint8_t *)nm_test_scratch(size);
    nm_writer w = nm_writer_of(out, size);
    NM_CHECK_OK(nm_lxmf_uri_encode(data, &w));
    NM_CHECK_INT(w.pos, size);
    NM_CHECK_SPAN(decode(nm_writer_done(&w)), data);
    w = nm_writer_of(out, size - 1);
    NM_CHECK_STATUS(nm_lxmf_uri_encode(data, &w), NM_E(TOO_LARGE));
  }
  uint8_t out[4000];
  nm_writer w = nm_writer_of(out, sizeof out);
  NM_CHECK_STATUS(nm_lxmf_uri_encode(nm_span_slice(noise, 0, 111), &w),
                  NM_E(LENGTH));
  NM_CHECK_STATUS(nm_lxmf_uri_encode(nm_span_of(noise.ptr, 2211), &w),
                  NM_E(TOO_LARGE));
  NM_CHECK_INT(w.pos, 0);
}

/* The URI of 113 bytes as text, with room to change it. */
static char *sample_uri(nm_span *data) {
  *data = nm_wire_rule_data("sample", 113);
  char *out = (char *)nm_test_scratch(600);
  nm_writer w = nm_writer_of(out, 599);
  NM_CHECK_OK(nm_lxmf_uri_encode(*data, &w));
  out[w.pos] = '\0';
  return out;
}

NM_TEST(schemes_of_either_case_slashes_and_padding_are_accepted) {
  nm_span data;
  char *uri = sample_uri(&data);
  char *changed = (char *)nm_test_scratch(600);
  static const char *const schemes[] = {"LXM://", "Lxm://", "lxM://"};
  for (size_t i = 0; i < 3; i++) {
    (void)strcpy(changed, schemes[i]);
    (void)strcat(changed, uri + 6);
    NM_CHECK_SPAN(decode(span_of_text(changed)), data);
  }
  (void)strcat(strcpy(changed, uri), "=");
  NM_CHECK_SPAN(decode(span_of_text(changed)), data);
  (void)strcat(changed, "=");
  NM_CHECK_SPAN(decode(span_of_text(changed)), data);
  (void)strcat(changed, "/");
  NM_CHECK_SPAN(decode(span_of_text(changed)), data);
  size_t len = 0;
  for (const char *c = uri; *c != '\0'; c++) {
    changed[len++] = *c;
    if (c - uri > 6 && (c - uri) % 10 == 0) {
      changed[len++] = '/';
    }
  }
  NM_CHECK_SPAN(decode(nm_span_of(changed, len)), data);
}

NM_TEST(what_is_no_paper_uri_is_named) {
  nm_span data;
  char *uri = sample_uri(&data);
  uint8_t out[600];
  nm_writer w = nm_writer_of(out, sizeof out);
  nm_fault fault = {0};
  static const char *const others[] = {"",        "lxm:/", "lxn://AAAA",
                                       "http://", "AAAA",  " lxm://"};
  for (size_t i = 0; i < 6; i++) {
    NM_CHECK_STATUS(nm_lxmf_uri_decode(span_of_text(others[i]), &w, &fault),
                    NM_E(VALUE));
    NM_CHECK(strcmp(fault.field, "uri") == 0);
  }
  for (unsigned c = 0; c < 256; c++) {
    char saved = uri[50];
    uri[50] = (char)c;
    bool good = isalnum((int)c) || c == '-' || c == '_';
    w = nm_writer_of(out, sizeof out);
    int status =
        nm_lxmf_uri_decode(nm_span_of(uri, strlen(uri + 51) + 51), &w, &fault);
    if (c == '/') {
      /* One character fewer: 150 are 112 bytes and some spare bits. */
      NM_CHECK_OK(status);
      NM_CHECK_INT(w.pos, 112);
    } else if (good) {
      NM_CHECK_OK(status);
    } else {
      NM_CHECK_STATUS(status, NM_E(VALUE));
      NM_CHECK_INT(fault.offset, c == '=' ? 51 : 50);
    }
    uri[50] = saved;
  }
  size_t whole = strlen(uri);
  for (size_t len = 6; len < whole; len++) {
    w = nm_writer_of(out, sizeof out);
    NM_CHECK_STATUS(nm_lxmf_uri_decode(nm_span_of(uri, len), &w, &fault),
                    len - 6 == 150 ? NM_OK : NM_E(LENGTH));
  }
  w = nm_writer_of(out, 112);
  NM_CHECK_STATUS(nm_lxmf_uri_decode(nm_span_of(uri, whole), &w, &fault),
                  NM_E(TOO_LARGE));
}

/* --- Method and representation --- */

static nm_lxmf_draft sized_draft(const nm_vector *v, nm_span stamp) {
  size_t len = (size_t)nm_vector_u64(v, "input.content_len");
  uint8_t *content = (uint8_t *)nm_test_scratch(len + 1);
  memset(content, 'z', len);
  nm_lxmf_draft draft = {.content = nm_span_of(content, len), .stamp = stamp};
  return draft;
}

static void check_choice(const nm_vector *v, nm_lxmf_method desired,
                         int64_t size) {
  nm_lxmf_choice choice;
  NM_CHECK_OK(nm_lxmf_select(desired, size, &choice));
  NM_CHECK_INT(choice.method, nm_vector_u64(v, "output.method"));
  if (nm_vector_has(v, "output.representation")) {
    NM_CHECK_INT(choice.representation,
                 nm_vector_u64(v, "output.representation"));
  }
}

static void run_representation(const nm_vector *v) {
  nm_span stamp = nm_vector_has(v, "input.stamp")
                      ? nm_vector_bytes(v, "input.stamp")
                      : nm_span_of(NULL, 0);
  nm_lxmf_draft draft = sized_draft(v, stamp);
  nm_lxmf_method desired =
      (nm_lxmf_method)nm_vector_u64(v, "input.desired_method");
  NM_CHECK_INT(nm_lxmf_packed_size(&draft),
               nm_vector_u64(v, "output.packed_len"));
  if (desired == NM_LXMF_PROPAGATED) {
    nm_lxmf_element element = {
        .data = {NULL, nm_lxmf_data_size(nm_lxmf_packed_size(&draft))},
        .stamp = {NULL, NM_LXMF_STAMP_SIZE}};
    size_t size = nm_lxmf_container_size(&element, 1);
    NM_CHECK_INT(size, nm_vector_u64(v, "output.propagation_packed_len"));
    check_choice(v, desired, (int64_t)size);
    return;
  }
  int64_t size = nm_lxmf_content_size(nm_lxmf_payload_size(&draft));
  NM_CHECK_INT(size, nm_vector_number(v, "output.content_size"));
  check_choice(v, desired, size);
}

NM_TEST(representations_are_those_of_the_vectors) {
  nm_vectors_each("lxmf", "representation", 28, run_representation);
  nm_vectors_each("lxmf", "representation_stamped", 2, run_representation);
}

static void run_opportunistic_size(const nm_vector *v) {
  nm_lxmf_draft draft = sized_draft(v, nm_span_of(NULL, 0));
  int64_t size = nm_lxmf_content_size(nm_lxmf_payload_size(&draft));
  NM_CHECK_INT(size, nm_vector_number(v, "output.content_size"));
  NM_CHECK_INT(nm_lxmf_packed_size(&draft) - 16,
               nm_vector_u64(v, "output.plaintext_len"));
  check_choice(v, NM_LXMF_OPPORTUNISTIC, size);
}

NM_TEST(opportunistic_sizes_end_where_the_vectors_say) {
  nm_vectors_each("lxmf", "opportunistic_size", 6, run_opportunistic_size);
}

static void run_paper_limit(const nm_vector *v) {
  nm_lxmf_choice choice;
  size_t largest = (size_t)nm_vector_u64(v, "output.largest_content_len");
  for (size_t len = largest; len <= largest + 1; len++) {
    nm_lxmf_draft draft = {.content = {NULL, len}};
    size_t size = nm_lxmf_data_size(nm_lxmf_packed_size(&draft));
    if (len == largest) {
      NM_CHECK_INT(size, nm_vector_u64(v, "output.largest_paper_packed"));
    }
    NM_CHECK_STATUS(nm_lxmf_select(NM_LXMF_PAPER, (int64_t)size, &choice),
                    len == largest ? NM_OK : NM_E(TOO_LARGE));
  }
  NM_CHECK_INT(NM_LXMF_PAPER_MDU, nm_vector_u64(v, "output.PAPER_MDU"));
  NM_CHECK_OK(nm_lxmf_select(NM_LXMF_PAPER, 2210, &choice));
  NM_CHECK_INT(choice.representation, NM_LXMF_REPRESENTATION_PAPER);
}

NM_TEST(paper_ends_where_the_vector_says) {
  nm_vectors_each("lxmf", "paper_limit", 1, run_paper_limit);
}

NM_TEST(no_method_means_direct_and_others_are_refused) {
  nm_lxmf_choice choice;
  NM_CHECK_OK(nm_lxmf_select(NM_LXMF_METHOD_UNKNOWN, 320, &choice));
  NM_CHECK_INT(choice.method, NM_LXMF_DIRECT);
  NM_CHECK_INT(choice.representation, NM_LXMF_RESOURCE);
  NM_CHECK_STATUS(nm_lxmf_select((nm_lxmf_method)4, 1, &choice),
                  NM_E(ARGUMENT));
}

static void run_message_constants(const nm_vector *v) {
  static const struct {
    const char *path;
    uint64_t value;
  } rows[] = {
      {"output.CANCELLED", NM_LXMF_CANCELLED},
      {"output.COST_TICKET", NM_LXMF_COST_TICKET},
      {"output.DELIVERED", NM_LXMF_DELIVERED},
      {"output.DIRECT", NM_LXMF_DIRECT},
      {"output.ENCRYPTED_PACKET_MAX_CONTENT",
       NM_LXMF_ENCRYPTED_PACKET_MAX_CONTENT},
      {"output.ENCRYPTED_PACKET_MDU", NM_LXMF_ENCRYPTED_PACKET_MDU},
      {"output.FAILED", NM_LXMF_FAILED},
      {"output.GENERATING", NM_LXMF_GENERATING},
      {"output.LINK_PACKET_MAX_CONTENT", NM_LXMF_LINK_PACKET_MAX_CONTENT},
      {"output.LINK_PACKET_MDU", NM_LXMF_LINK_PACKET_MDU},
      {"output.LXMF_OVERHEAD", NM_LXMF_OVERHEAD},
      {"output.OPPORTUNISTIC", NM_LXMF_OPPORTUNISTIC},
      {"output.OUTBOUND", NM_LXMF_OUTBOUND},
      {"output.PACKET", NM_LXMF_PACKET},
      {"output.PAPER", NM_LXMF_PAPER},
      {"output.PAPER_MDU", NM_LXMF_PAPER_MDU},
      {"output.PLAIN_PACKET_MAX_CONTENT", NM_LXMF_PLAIN_PACKET_MAX_CONTENT},
      {"output.PLAIN_PACKET_MDU", NM_LXMF_PLAIN_PACKET_MDU},
      {"output.PROPAGATED", NM_LXMF_PROPAGATED},
      {"output.QR_MAX_STORAGE", NM_LXMF_QR_MAX_STORAGE},
      {"output.REJECTED", NM_LXMF_REJECTED},
      {"output.RESOURCE", NM_LXMF_RESOURCE},
      {"output.SENDING", NM_LXMF_SENDING},
      {"output.SENT", NM_LXMF_SENT},
      {"output.SIGNATURE_INVALID", NM_LXMF_SIGNATURE_INVALID},
      {"output.SOURCE_UNKNOWN", NM_LXMF_SOURCE_UNKNOWN},
      {"output.STRUCT_OVERHEAD", NM_LXMF_STRUCT_OVERHEAD},
      {"output.TICKET_EXPIRY", NM_LXMF_TICKET_EXPIRY_S},
      {"output.TICKET_GRACE", NM_LXMF_TICKET_GRACE_S},
      {"output.TICKET_INTERVAL", NM_LXMF_TICKET_INTERVAL_S},
      {"output.TICKET_LENGTH", NM_LXMF_TICKET_SIZE},
      {"output.TICKET_RENEW", NM_LXMF_TICKET_RENEW_S},
      {"output.TIMESTAMP_SIZE", NM_LXMF_TIMESTAMP_SIZE},
  };
  if (strcmp(nm_vector_text(v, "input.group"), "message") != 0) {
    return;
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    nm_test_context("%s", rows[i].path);
    NM_CHECK_INT(nm_vector_u64(v, rows[i].path), rows[i].value);
  }
}

NM_TEST(message_constants_are_those_of_the_vectors) {
  nm_vectors_each("lxmf", "constants", 4, run_message_constants);
}
