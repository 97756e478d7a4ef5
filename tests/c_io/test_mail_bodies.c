/* What the mail store does with bodies: compression, attachments, words. */
#include "mail_support.h"
#include "support.h"

#include "base/msgpack.h"
#include "io/mail_db.h"

#include <stdio.h>
#include <string.h>

#define ME 1
#define PEER 2

static nm_mail_write with(const mail_text *text) {
  nm_mail_write w = mail_received(ME, PEER, 0, "");
  w.packed = mail_pack(text, w.id);
  return w;
}

static mail_text plain(const char *title, nm_span content) {
  return (mail_text){.mailbox = mail_hash(ME),
                     .peer = mail_hash(PEER),
                     .timestamp = 1700000000,
                     .title = title,
                     .content = content};
}

/* ---- stored and back ---- */

NM_TEST(mail_bodies_are_deflated_when_that_pays) {
  nm_mail_store *store = mail_open(mail_path());
  static const size_t sizes[] = {0, 1, 900, 1100, 70000, 900000};
  for (size_t i = 0; i < 12; i++) {
    size_t size = sizes[i / 2];
    bool random = i % 2 == 1;
    nm_test_context("size %zu, random %d", size, random);
    uint8_t *bytes = nm_test_scratch(size + 1);
    memset(bytes, 'x', size);
    if (random) {
      nm_test_random_bytes(bytes, size);
    }
    char title[16];
    (void)snprintf(title, sizeof(title), "%zu", i);
    mail_text text = plain(title, nm_span_of(bytes, size));
    nm_mail_write w = with(&text);
    uint64_t before = mail_figures(store).bytes;
    NM_CHECK_OK(mail_apply(store, &w));
    uint64_t stored = mail_figures(store).bytes - before;
    if (random || size < 1000) {
      NM_CHECK_INT(stored, w.packed.len);
    } else {
      NM_CHECK(stored < 400);
    }
    nm_mail_row row;
    NM_CHECK_OK(nm_mail_store_get(store, w.row, true, &row));
    NM_CHECK_SPAN(nm_block_span(row.packed), w.packed);
    nm_mail_row_dispose(&row);
  }
  nm_test_context("%s", "");
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_bodies_that_are_damaged_are_told) {
  nm_mail_store *store = mail_open(mail_path());
  static uint8_t bytes[4000];
  mail_text text = plain("t", nm_span_of(bytes, sizeof(bytes)));
  nm_mail_write w = with(&text);
  NM_CHECK_OK(mail_apply(store, &w));
  static const char *const damages[] = {
      "UPDATE body SET inflated = 4001",
      "UPDATE body SET inflated = -1",
      "UPDATE body SET inflated = 1000000000000",
      "UPDATE body SET inflated = 4000, packed = zeroblob(50)",
      "UPDATE message SET id = x'00'",
  };
  for (size_t i = 0; i < 5; i++) {
    NM_CHECK_OK(nm_mail_exec(store, damages[i]));
    nm_mail_row row;
    NM_CHECK_STATUS(nm_mail_store_get(store, w.row, true, &row), NM_E(STORE));
    const nm_mail_trouble *trouble = nm_mail_store_trouble(store);
    NM_CHECK(trouble->damaged);
    NM_CHECK(strstr(trouble->text, NM_MAIL_FILE) != NULL);
  }
  nm_mail_store_close(store);
}

/* ---- attachments ---- */

/* Two files, an image and audio, and things that are none of these. */
static nm_span make_fields(nm_span big) {
  size_t size = big.len + 1024;
  uint8_t *bytes = nm_test_scratch(size);
  nm_writer w = nm_writer_of(bytes, size);
  char name[300];
  memset(name, 'n', sizeof(name));
  memcpy(&name[254], "\xC3\xA4", 2); /* a letter that lies across the cut */
  nm_mp_map(&w, 4);
  nm_mp_uint(&w, NM_LXMF_FIELD_FILE_ATTACHMENTS);
  nm_mp_array(&w, 4);
  nm_mp_array(&w, 2);
  nm_mp_str(&w, nm_span_of("a.bin", 5));
  nm_mp_bin(&w, big);
  nm_mp_uint(&w, 12);
  nm_mp_array(&w, 1);
  nm_mp_str(&w, nm_span_of("lonely", 6));
  nm_mp_array(&w, 3);
  nm_mp_bin(&w, nm_span_of(name, sizeof(name)));
  nm_mp_bin(&w, nm_span_of(NULL, 0));
  nm_mp_nil(&w);
  nm_mp_uint(&w, NM_LXMF_FIELD_IMAGE);
  nm_mp_array(&w, 2);
  nm_mp_str(&w, nm_span_of("webp", 4));
  nm_mp_bin(&w, nm_span_of("pixels", 6));
  nm_mp_uint(&w, NM_LXMF_FIELD_AUDIO);
  nm_mp_array(&w, 2);
  nm_mp_uint(&w, NM_LXMF_AM_OPUS_OGG);
  nm_mp_bin(&w, nm_span_of("sound", 5));
  nm_mp_uint(&w, NM_LXMF_FIELD_THREAD);
  nm_mp_bin(&w, nm_span_of("thread", 6));
  NM_CHECK_OK(w.status);
  return nm_writer_done(&w);
}

static nm_mail_write with_attachments(bool random) {
  size_t size = 20000;
  uint8_t *bytes = nm_test_scratch(size);
  memset(bytes, 'z', size);
  if (random) {
    nm_test_random_bytes(bytes, size);
  }
  mail_text text = plain(random ? "random" : "even", nm_span_of("", 0));
  text.fields = make_fields(nm_span_of(bytes, size));
  text.words = "with files";
  return with(&text);
}

static void check_bytes(nm_mail_store *store, int64_t row, uint32_t index,
                        nm_span expected) {
  nm_block *bytes = NULL;
  NM_CHECK_OK(nm_mail_store_attachment(store, row, index, &bytes));
  NM_CHECK_SPAN(nm_block_span(bytes), expected);
  nm_block_drop(bytes);
}

static void check_attachments(nm_mail_store *store, const nm_mail_write *w,
                              uint8_t first) {
  nm_mail_attachment found[8];
  size_t count = 0;
  nm_mail_query query = {.cursor = w->row};
  NM_CHECK_OK(nm_mail_store_attachments(store, &query, 0, found, 8, &count));
  NM_CHECK(count >= 3);
  NM_CHECK_INT(found[0].index, 1);
  query.cursor = w->row - 1;
  NM_CHECK_OK(nm_mail_store_attachments(store, &query, -1, found, 4, &count));
  NM_CHECK_INT(count, 4);
  for (uint32_t i = 0; i < 4; i++) {
    NM_CHECK_INT(found[i].row, w->row);
    NM_CHECK_INT(found[i].index, i);
  }
  NM_CHECK_INT(found[0].field, NM_LXMF_FIELD_FILE_ATTACHMENTS);
  NM_CHECK_INT(strcmp(found[0].name, "a.bin"), 0);
  NM_CHECK_INT(found[0].size, 20000);
  NM_CHECK_INT(strlen(found[1].name), 254);
  NM_CHECK_INT(found[1].size, 0);
  NM_CHECK_INT(found[2].field, NM_LXMF_FIELD_IMAGE);
  NM_CHECK_INT(strcmp(found[2].name, "webp"), 0);
  NM_CHECK_INT(found[3].field, NM_LXMF_FIELD_AUDIO);
  NM_CHECK_INT(found[3].audio_mode, NM_LXMF_AM_OPUS_OGG);
  nm_block *bytes = NULL;
  NM_CHECK_OK(nm_mail_store_attachment(store, w->row, 0, &bytes));
  NM_CHECK_INT(nm_block_span(bytes).len, 20000);
  NM_CHECK_INT(nm_block_span(bytes).ptr[0], first);
  nm_block_drop(bytes);
  check_bytes(store, w->row, 1, nm_span_of("", 0));
  check_bytes(store, w->row, 2, nm_span_of("pixels", 6));
  check_bytes(store, w->row, 3, nm_span_of("sound", 5));
  NM_CHECK_STATUS(nm_mail_store_attachment(store, w->row, 4, &bytes),
                  NM_E(MISSING));
}

NM_TEST(mail_attachments_are_listed_and_read_alone) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write even = with_attachments(false);
  nm_mail_write random = with_attachments(true);
  nm_mail_write none = mail_received(ME, PEER, 5, "no files");
  NM_CHECK_OK(mail_apply(store, &even));
  NM_CHECK_OK(mail_apply(store, &none));
  NM_CHECK_OK(mail_apply(store, &random));
  check_attachments(store, &even, 'z');
  nm_mail_row row;
  NM_CHECK_OK(nm_mail_store_get(store, random.row, true, &row));
  nm_block *bytes = NULL;
  NM_CHECK_OK(nm_mail_store_attachment(store, random.row, 0, &bytes));
  check_attachments(store, &random, nm_block_span(bytes).ptr[0]);
  nm_block_drop(bytes);
  nm_mail_row_dispose(&row);

  /* All of them, in pieces of three. */
  nm_mail_attachment found[3];
  nm_mail_query query = {.newest_first = true};
  int64_t after = -1;
  size_t count = 0;
  size_t total = 0;
  do {
    NM_CHECK_OK(
        nm_mail_store_attachments(store, &query, after, found, 3, &count));
    total += count;
    if (count > 0) {
      query.cursor = found[count - 1].row;
      after = found[count - 1].index;
    }
  } while (count > 0);
  NM_CHECK_INT(total, 8);
  nm_destination_hash other = mail_hash(9);
  query = (nm_mail_query){.mailbox = &other};
  NM_CHECK_OK(nm_mail_store_attachments(store, &query, -1, found, 3, &count));
  NM_CHECK_INT(count, 0);

  NM_CHECK_OK(nm_mail_exec(store, "UPDATE attachment SET start = 30000"));
  NM_CHECK_STATUS(nm_mail_store_attachment(store, even.row, 0, &bytes),
                  NM_E(STORE));
  nm_mail_store_close(store);
}

/* ---- words ---- */

NM_TEST(mail_is_found_by_its_words) {
  nm_mail_store *store = mail_open(mail_path());
  static const char *const texts[] = {
      "the quick brown fox", "a Quick hare", "the fox is quick, foxes are",
      "caf\xC3\xA9 noir", "foo-bar AND baz OR NOT \"x\" NEAR(y)"};
  for (uint32_t i = 0; i < 5; i++) {
    nm_mail_write w = mail_received(i == 1 ? 3 : ME, PEER, i, texts[i]);
    NM_CHECK_OK(mail_apply(store, &w));
  }
  nm_mail_write own = mail_letter(ME, PEER, 9, "my own quick words");
  NM_CHECK_OK(mail_apply(store, &own));
  static const struct {
    uint8_t mailbox;
    size_t hits;
    const char *words;
  } cases[] = {
      {0, 4, "quick"},
      {ME, 3, "QUICK"},
      {3, 1, "quick"},
      {9, 0, "quick"},
      {0, 2, "quick fox"},
      {0, 1, "\"quick brown\""},
      {0, 0, "\"brown quick\""},
      {0, 1, "foxes"},
      {0, 3, "fo*"},
      {0, 0, "f*"},
      {0, 1, "cafe"},
      {0, 1, "foo-bar"},
      {0, 1, "AND"},
      {0, 1, "NEAR(y)"},
      {0, 0, "box:b1"},
      {0, 0, "title:quick"},
      {0, 0, "*"},
      {0, 0, "b1"},
      {0, 6, "number"},
      {0, 4, "quick -"},
      {0, 0, "quick^fox*("},
      {0, 4, "quick\"\""},
      {0, 0, "quick\" OR \"a"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    nm_test_context("%s in %d", cases[i].words, cases[i].mailbox);
    NM_CHECK_INT(mail_hits(store, cases[i].mailbox, cases[i].words),
                 cases[i].hits);
  }
  nm_test_context("%s", "");
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_hits_come_with_snippets) {
  nm_mail_store *store = mail_open(mail_path());
  char words[4096] = "";
  for (int i = 0; i < 200; i++) {
    (void)strcat(words, i == 100 ? "needle " : "straw ");
  }
  for (uint32_t i = 0; i < 5; i++) {
    nm_mail_write w = mail_received(ME, PEER, i, words);
    NM_CHECK_OK(mail_apply(store, &w));
  }
  nm_mail_search search = {.text = nm_span_of("needle number", 13),
                           .open_mark = "<b>",
                           .close_mark = "</b>",
                           .words = 5};
  nm_mail_hit hits[2];
  size_t count = 0;
  int64_t last = INT64_MAX;
  size_t total = 0;
  do {
    NM_CHECK_OK(nm_mail_store_search(store, &search, hits, 2, &count));
    for (size_t i = 0; i < count; i++) {
      NM_CHECK(hits[i].row.row < last);
      last = hits[i].row.row;
      char title[64];
      (void)snprintf(title, sizeof(title), "<b>number</b> %lld",
                     (long long)last - 1);
      NM_CHECK_SPAN(nm_block_span(hits[i].title),
                    nm_span_of(title, strlen(title)));
      static const char expected[] =
          "\xE2\x80\xA6straw straw <b>needle</b> straw straw\xE2\x80\xA6";
      NM_CHECK_SPAN(nm_block_span(hits[i].snippet),
                    nm_span_of(expected, sizeof(expected) - 1));
      nm_mail_hit_dispose(&hits[i]);
    }
    total += count;
    search.before = last;
  } while (count > 0);
  NM_CHECK_INT(total, 5);
  nm_mail_store_close(store);
}

NM_TEST(mail_searches_that_cannot_be_are_refused) {
  nm_mail_store *store = mail_open(mail_path());
  static char long_text[1025];
  memset(long_text, 'a', sizeof(long_text));
  static const struct {
    int status;
    size_t len;
    const char *text;
    uint32_t words;
  } cases[] = {
      {NM_E(EMPTY), 0, "", 0},     {NM_E(EMPTY), 3, " \n\t", 0},
      {NM_E(EMPTY), 2, "\"\"", 0}, {NM_E(TOO_LARGE), 1025, long_text, 0},
      {NM_OK, 1024, long_text, 0}, {NM_E(UTF8), 2, "\xC3(", 0},
      {NM_E(UTF8), 3, "a\0b", 0},  {NM_E(RANGE), 1, "a", 65},
      {NM_OK, 1, "a", 64}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    nm_test_context("case %zu", i);
    nm_mail_search search = {.text = nm_span_of(cases[i].text, cases[i].len),
                             .words = cases[i].words};
    nm_mail_hit hit;
    size_t count = 0;
    NM_CHECK_STATUS(nm_mail_store_search(store, &search, &hit, 1, &count),
                    cases[i].status);
  }
  nm_test_context("%s", "");
  nm_mail_store_close(store);
}

/* Text of a peer is whatever it is: the index of words agrees with it after
 * writing, working and deleting, whatever stands in it. */
NM_TEST(mail_text_of_every_kind_is_indexed_and_removed) {
  nm_mail_store *store = mail_open(mail_path());
  int64_t rows[64];
  for (size_t i = 0; i < 64; i++) {
    size_t size = i == 63 ? 200000 : nm_test_below(3000);
    uint8_t *bytes = nm_test_scratch(size + 1);
    nm_test_random_bytes(bytes, size);
    for (size_t k = 0; k < size && i % 2 == 0; k++) {
      bytes[k] = (uint8_t)(bytes[k] % 16 == 0 ? ' ' : 'a' + bytes[k] % 26);
    }
    if (i == 63) {
      memset(bytes, 0xC3, size); /* cut in the middle of nothing valid */
      memcpy(bytes, "beginning ", 10);
    }
    mail_text text =
        plain(i % 3 == 0 ? "\xFF\xFE title" : "title", nm_span_of(bytes, size));
    nm_mail_write w = with(&text);
    NM_CHECK_OK(mail_apply(store, &w));
    rows[i] = w.row;
  }
  mail_check(store);
  NM_CHECK_INT(mail_hits(store, 0, "beginning"), 1);
  NM_CHECK_INT(mail_hits(store, 0, "title"), 64);
  for (size_t i = 0; i < 64; i++) {
    nm_mail_write gone = mail_of_row(NM_MAIL_WRITE_DELETE, rows[i]);
    NM_CHECK_OK(mail_apply(store, &gone));
  }
  mail_check(store);
  NM_CHECK_INT(mail_hits(store, 0, "title"), 0);
  NM_CHECK_INT(mail_figures(store).bytes, 0);
  nm_mail_store_close(store);
}

/* ---- quotas ---- */

static int set_quota(nm_mail_store *store, uint64_t rows, uint64_t bytes) {
  nm_mail_write w = {.kind = NM_MAIL_WRITE_QUOTA, .mailbox = mail_hash(ME)};
  w.u.quota = (nm_mail_quota){.rows = rows, .bytes = bytes};
  return mail_apply(store, &w);
}

NM_TEST(mail_over_the_quota_pushes_out_what_was_read) {
  nm_mail_store *store = mail_open(mail_path());
  NM_CHECK_OK(set_quota(store, 4, 0));
  nm_mail_write batch[7];
  for (uint32_t i = 0; i < 4; i++) {
    batch[i] = i == 0 ? mail_letter(ME, PEER, i, "kept")
                      : mail_received(ME, PEER, i, "kept");
  }
  NM_CHECK_OK(nm_mail_store_apply(store, batch, 4));
  nm_mail_write more = mail_received(ME, PEER, 10, "more");
  NM_CHECK_STATUS(mail_apply(store, &more), NM_E(LIMIT));
  NM_CHECK_INT(more.row, 0);
  nm_mail_write acks[2] = {mail_of_row(NM_MAIL_WRITE_ACK, batch[3].row),
                           mail_of_row(NM_MAIL_WRITE_ACK, batch[2].row)};
  NM_CHECK_OK(nm_mail_store_apply(store, acks, 2));
  NM_CHECK_OK(mail_apply(store, &more));
  nm_mail_row row;
  NM_CHECK_STATUS(nm_mail_store_get(store, batch[2].row, false, &row),
                  NM_E(MISSING));
  NM_CHECK_OK(nm_mail_store_get(store, batch[3].row, false, &row));
  NM_CHECK_STATUS(mail_apply(store, &batch[2]), NM_E(DUPLICATE_KEY));
  /* A letter that has ended may go too; other mailboxes have room. */
  nm_mail_write ended = mail_state(&batch[0], NM_LXMF_FAILED, true);
  NM_CHECK_OK(mail_apply(store, &ended));
  nm_mail_write two[3] = {mail_received(ME, PEER, 11, "more"),
                          mail_received(ME, PEER, 12, "more"),
                          mail_received(9, PEER, 13, "elsewhere")};
  NM_CHECK_OK(nm_mail_store_apply(store, two, 3));
  NM_CHECK_OK(two[0].status);
  NM_CHECK_OK(two[1].status);
  NM_CHECK_OK(two[2].status);
  NM_CHECK_STATUS(nm_mail_store_get(store, batch[0].row, false, &row),
                  NM_E(MISSING));
  NM_CHECK_INT(mail_figures(store).evicted, 3);
  NM_CHECK_INT(mail_figures(store).messages, 5);
  mail_check(store);
  nm_mail_store_close(store);
}

NM_TEST(mail_quota_of_bytes) {
  nm_mail_store *store = mail_open(mail_path());
  nm_mail_write w[4];
  for (uint32_t i = 0; i < 4; i++) {
    w[i] = mail_received(ME, PEER, i, "of the same size");
  }
  uint64_t each = w[0].packed.len;
  NM_CHECK_OK(set_quota(store, 0, 2 * each));
  NM_CHECK_OK(mail_apply(store, &w[0]));
  NM_CHECK_OK(mail_apply(store, &w[1]));
  NM_CHECK_STATUS(mail_apply(store, &w[2]), NM_E(LIMIT));
  nm_mail_write ack = mail_of_row(NM_MAIL_WRITE_ACK, w[0].row);
  NM_CHECK_OK(mail_apply(store, &ack));
  nm_mail_write large = mail_received(ME, PEER, 8,
                                      "larger than all that the quota allows "
                                      "to all messages of the mailbox together,"
                                      " which is not so very much in this test,"
                                      " where two small ones fill it, and this "
                                      "one is certainly longer than they are");
  NM_CHECK_STATUS(mail_apply(store, &large), NM_E(LIMIT));
  NM_CHECK_INT(mail_figures(store).messages, 2);
  NM_CHECK_OK(mail_apply(store, &w[2]));
  NM_CHECK_INT(mail_figures(store).bytes, 2 * each);
  NM_CHECK_STATUS(set_quota(store, UINT64_MAX, 0), NM_E(RANGE));
  NM_CHECK_OK(set_quota(store, 0, 0));
  NM_CHECK_OK(mail_apply(store, &w[3]));
  NM_CHECK_OK(mail_apply(store, &large));
  mail_check(store);
  nm_mail_store_close(store);
}
