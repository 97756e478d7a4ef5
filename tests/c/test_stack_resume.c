/* What two netmesh ends settle by notes: going on where a resource was
 * interrupted, zstd frames; and ends that lie about it or know nothing of it.
 */
#include "engine_net.h"

#include "crypto/hash.h"
#include "support.h"
#include "wire/resource_note.h"

#include <string.h>

#define SEGMENT NM_RESOURCE_SEGMENT_MAX
#define LEN (4 * SEGMENT + 17)

static nm_span text(const char *s) {
  return nm_span_of(s, strlen(s));
}

static nm_span none(void) {
  return nm_span_of(NULL, 0);
}

static void accept_all(nm_dest_spec *spec) {
  spec->resources = NM_ACCEPT_ALL;
}

/* ---- a shelf that keeps what was interrupted ---- */

typedef struct shelf {
  nm_shelf base;
  uint8_t *bytes;
  uint64_t cap;
  uint64_t len;
  uint64_t begun; /* where the first write of the last sink was */
  int placed;
  int checked;
  int finished;
  int kept;
  bool lies; /* about the hash of what it holds */
} shelf;

typedef struct sink {
  nm_sink base;
  shelf *on;
  bool begun;
  bool done;
} sink;

static int check_sink(nm_sink *base, nm_span salt, nm_held *held) {
  shelf *s = ((sink *)(void *)base)->on;
  nm_sha256_ctx ctx;
  s->checked++;
  held->bytes = s->len;
  nm_sha256_init(&ctx);
  nm_sha256_update(&ctx, salt);
  nm_sha256_update(&ctx, nm_span_of(s->bytes, (size_t)s->len));
  nm_sha256_final(&ctx, held->digest);
  held->digest[0] ^= s->lies;
  return NM_OK;
}

static int write_sink(nm_sink *base, uint64_t offset, nm_span bytes) {
  sink *k = (sink *)(void *)base;
  shelf *s = k->on;
  if (!k->begun) {
    k->begun = true;
    s->begun = offset;
    NM_CHECK(offset == 0 || offset == s->len);
    s->len = offset;
  }
  NM_CHECK_INT(offset, s->len);
  NM_CHECK(offset + bytes.len <= s->cap);
  memcpy(&s->bytes[offset], bytes.ptr, bytes.len);
  s->len += bytes.len;
  return NM_OK;
}

static int finish_sink(nm_sink *base, uint64_t size, nm_span metadata,
                       nm_block **place) {
  sink *k = (sink *)(void *)base;
  NM_CHECK_INT(size, k->on->len);
  NM_CHECK_SPAN(metadata, text("\xa4name"));
  k->done = true;
  k->on->finished++;
  *place = nm_block_copy(&nm_mem_system, text("here"));
  return NM_OK;
}

static void release_sink(nm_sink *base) {
  sink *k = (sink *)(void *)base;
  k->on->kept += !k->done && base->keep;
  if (!k->done && !base->keep) {
    k->on->len = 0;
  }
  nm_release(&nm_mem_system, k);
}

static nm_sink *place(nm_shelf *base, const uint8_t hash[NM_HASH_SIZE],
                      uint64_t size, nm_span peer) {
  (void)hash;
  (void)size;
  NM_CHECK_INT(peer.len, NM_ADDRESS_SIZE);
  sink *k = nm_alloc_zero(&nm_mem_system, 1, sizeof(*k));
  atomic_init(&k->base.references, 1);
  k->base.check = check_sink;
  k->base.write = write_sink;
  k->base.finish = finish_sink;
  k->base.release = release_sink;
  k->on = (shelf *)(void *)base;
  k->on->placed++;
  return &k->base;
}

static void release_shelf(nm_shelf *base) {
  (void)base;
}

static shelf *new_shelf(void) {
  shelf *s = nm_test_scratch(sizeof(*s));
  memset(s, 0, sizeof(*s));
  atomic_init(&s->base.references, 1);
  s->base.place = place;
  s->base.release = release_shelf;
  s->cap = LEN + SEGMENT;
  s->bytes = nm_test_scratch(s->cap);
  return s;
}

/* ---- two ends ---- */

typedef struct pair {
  net *n;
  nm_destination_hash hash;
  nm_link_ref ends[2];
  nm_op_id op;
} pair;

static void link_again(pair *p, shelf *s) {
  net_forget(p->n);
  p->ends[0] = net_link(p->n, 0, &p->hash);
  nm_event *active = net_find(p->n, 1, NM_EVENT_LINK_ACTIVE);
  NM_CHECK(p->ends[0] != 0 && active != NULL);
  p->ends[1] = active->link;
  if (s != NULL) {
    NM_CHECK_OK(nm_engine_link_shelve(p->n->engines[1], p->ends[1], &s->base,
                                      false, 0));
  }
}

static pair linked(shelf *s) {
  pair p = {.n = nm_test_scratch(sizeof(net))};
  NM_CHECK_OK(net_init(p.n, &nm_mem_system, 2));
  NM_CHECK_INT(net_join(p.n, 0, 1, "tcp"), 0);
  NM_CHECK_OK(net_listen(p.n, 1, 7, "test.sink", accept_all, &p.hash));
  NM_CHECK_OK(net_announce(p.n, 1, &p.hash));
  link_again(&p, s);
  return p;
}

static nm_block *random_block(size_t len) {
  nm_block *block = nm_block_new(&nm_mem_system, len);
  nm_test_random_bytes(nm_block_bytes(block), len);
  return block;
}

static void send_it(pair *p, nm_block *content, nm_resource_compression how) {
  NM_CHECK_OK(nm_engine_resource_send(p->n->engines[0], p->ends[0], content,
                                      text("\xa4name"), how, 0, &p->op,
                                      p->n->now));
}

static void slow(void *user, int from, nm_span raw, net_fate *fate) {
  (void)user;
  (void)from;
  (void)raw;
  fate->copies = 1;
  fate->delay_us[0] = 1000;
}

/* Content on its way to a shelf. */
typedef struct trial {
  shelf *s;
  pair p;
  nm_block *content;
} trial;

static trial new_trial(void) {
  trial t = {.s = new_shelf(), .content = random_block(LEN)};
  t.p = linked(t.s);
  return t;
}

static void send_content(trial *t) {
  send_it(&t->p, t->content, NM_RESOURCE_COMPRESS_OFF);
}

/* Sends until |segments| are stored, then the link ends; there is another. */
static trial interrupted(int segments) {
  trial t = new_trial();
  net *n = t.p.n;
  n->wires[0].fate = slow;
  send_content(&t);
  while (t.s->len < (uint64_t)segments * SEGMENT - 100) {
    net_pass(n, 500);
  }
  NM_CHECK_OK(nm_engine_link_close(n->engines[0], t.p.ends[0], n->now));
  net_pass(n, 10000);
  n->wires[0].fate = NULL;
  net_settle(n);
  NM_CHECK_INT(t.s->kept, 1);
  NM_CHECK_INT(t.s->finished, 0);
  link_again(&t.p, t.s);
  return t;
}

static void end_trial(const trial *t) {
  nm_block_drop(t->content);
  net_dispose(t->p.n);
}

static nm_engine_stats stats_of(const pair *p, int engine) {
  nm_engine_stats stats;
  nm_engine_stats_read(p->n->engines[engine], &stats);
  return stats;
}

/* All of |content| is there, at both ends, and nothing is left over. */
static nm_event *arrived(const trial *t) {
  const pair *p = &t->p;
  const shelf *s = t->s;
  const nm_block *content = t->content;
  nm_event *in = net_find(p->n, 1, NM_EVENT_RESOURCE_IN);
  nm_event *out = net_find(p->n, 0, NM_EVENT_RESOURCE_OUT);
  size_t len = nm_block_span(content).len;
  NM_CHECK(in != NULL && out != NULL);
  NM_CHECK(in->stored);
  NM_CHECK_INT(out->state, NM_RESOURCE_COMPLETE);
  NM_CHECK_SPAN(nm_span_of(s->bytes, (size_t)s->len), nm_block_span(content));
  NM_CHECK_SPAN(nm_block_span(in->metadata), text("\xa4name"));
  NM_CHECK_INT(in->done_bytes, len);
  NM_CHECK_INT(in->total_bytes, len);
  NM_CHECK_INT(out->done_bytes, len);
  NM_CHECK_INT(out->total_bytes, len);
  NM_CHECK(memcmp(in->packet_hash.b, out->packet_hash.b, NM_HASH_SIZE) == 0);
  NM_CHECK_INT(s->finished, 1);
  NM_CHECK_INT(stats_of(p, 1).resource_memory, 0);
  return out;
}

NM_TEST(an_interrupted_resource_goes_on_where_it_was) {
  for (int segments = 1; segments <= 4; segments++) {
    nm_test_context("after %d segments", segments);
    trial t = interrupted(segments);
    uint64_t held = t.s->len;
    send_content(&t);
    net_settle(t.p.n);
    nm_event *out = arrived(&t);
    NM_CHECK_INT(t.s->begun, held);
    NM_CHECK(out->wire_bytes < LEN - held + 5000);
    NM_CHECK_INT(stats_of(&t.p, 0).resources_resumed, 1);
    NM_CHECK_INT(stats_of(&t.p, 1).resources_resumed, 1);
    NM_CHECK_INT(stats_of(&t.p, 1).partials_kept, 1);
    end_trial(&t);
  }
}

NM_TEST(what_is_there_but_for_its_end_is_finished) {
  trial t = new_trial();
  memcpy(t.s->bytes, nm_block_bytes(t.content), LEN);
  t.s->len = LEN;
  send_content(&t);
  net_settle(t.p.n);
  NM_CHECK(arrived(&t)->wire_bytes < 1000);
  end_trial(&t);
}

NM_TEST(progress_starts_at_what_was_there) {
  trial t = interrupted(3);
  uint64_t held = t.s->len;
  t.p.n->wires[0].fate = slow;
  send_content(&t);
  uint64_t last[2] = {0, 0};
  int looks = 0;
  while (net_count(t.p.n, 0, NM_EVENT_RESOURCE_OUT) == 0) {
    for (int i = 0; i < 2; i++) {
      nm_transfer_info info;
      nm_op_id op = nm_engine_transfer_next(t.p.n->engines[i], t.p.ends[i], 0);
      if (op != 0 &&
          nm_engine_transfer_info(t.p.n->engines[i], op, &info) == NM_OK &&
          info.resumed_bytes > 0) {
        NM_CHECK_INT(info.resumed_bytes, held);
        NM_CHECK(info.content_done >= held && info.content_done >= last[i]);
        NM_CHECK(info.content_done < LEN);
        last[i] = info.content_done;
        looks++;
      }
    }
    net_pass(t.p.n, 500);
  }
  NM_CHECK(looks > 10);
  for (int i = 0; i < t.p.n->event_count[1]; i++) {
    const nm_event *event = &t.p.n->events[1][i];
    NM_CHECK(event->kind != NM_EVENT_PROGRESS || event->done_bytes >= held);
  }
  arrived(&t);
  end_trial(&t);
}

/* A second attempt that has to begin anew. */
static void begins_anew(trial *t) {
  send_content(t);
  net_settle(t->p.n);
  arrived(t);
  NM_CHECK_INT(t->s->begun, 0);
  NM_CHECK_INT(stats_of(&t->p, 0).resources_resumed, 0);
  NM_CHECK_INT(stats_of(&t->p, 0).resumes_declined, 1);
  NM_CHECK_INT(stats_of(&t->p, 1).resumes_declined, 1);
}

NM_TEST(content_that_has_changed_begins_anew) {
  static const size_t places[] = {0, SEGMENT, 2 * SEGMENT - 100};
  for (size_t i = 0; i < 3; i++) {
    trial t = interrupted(2);
    nm_block_bytes(t.content)[places[i]] ^= 1;
    begins_anew(&t);
    end_trial(&t);
  }
}

NM_TEST(content_that_has_changed_behind_what_is_there_goes_on) {
  trial t = interrupted(2);
  nm_block_bytes(t.content)[LEN - 1] ^= 1;
  send_content(&t);
  net_settle(t.p.n);
  arrived(&t);
  NM_CHECK(t.s->begun > 0);
  end_trial(&t);
}

NM_TEST(what_was_damaged_meanwhile_begins_anew) {
  trial t = interrupted(3);
  t.s->bytes[SEGMENT + 5] ^= 0x80;
  begins_anew(&t);
  end_trial(&t);
}

NM_TEST(a_receiver_that_lies_about_its_hash_gets_all_of_it) {
  trial t = interrupted(2);
  t.s->lies = true;
  begins_anew(&t);
  end_trial(&t);
}

/* ---- notes and answers that are lost ---- */

typedef struct loss {
  uint8_t context;
  int from;
  int skip; /* of the packets with that context */
  int lose;
} loss;

static bool lose_some(void *user, int from, nm_span raw) {
  loss *l = user;
  nm_packet packet;
  if (from != l->from || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      packet.context != l->context) {
    return true;
  }
  if (l->skip > 0) {
    l->skip--;
    return true;
  }
  return l->lose-- <= 0;
}

static void resumes_without(loss l) {
  nm_test_context("context %d from %d", l.context, l.from);
  trial t = interrupted(2);
  t.p.n->wires[0].filter = lose_some;
  t.p.n->wires[0].user = &l;
  send_content(&t);
  net_pass(t.p.n, 60000000);
  arrived(&t);
  NM_CHECK(l.lose <= 0);
  NM_CHECK(t.s->begun > 0);
  end_trial(&t);
}

NM_TEST(lost_notes_and_answers_are_made_up_for) {
  resumes_without((loss){NM_CONTEXT_RESOURCE_ADV, 0, 0, 3});
  resumes_without((loss){NM_CONTEXT_RESOURCE_REQ, 1, 0, 3});
  resumes_without((loss){NM_CONTEXT_RESOURCE_ADV, 0, 1, 3});
}

NM_TEST(a_sender_that_does_not_answer_is_asked_for_the_whole) {
  trial t = interrupted(2);
  /* All four notes; the fifth packet asks for parts. */
  loss l = {NM_CONTEXT_RESOURCE_REQ, 1, 0, 4};
  t.p.n->wires[0].filter = lose_some;
  t.p.n->wires[0].user = &l;
  send_content(&t);
  net_pass(t.p.n, 60000000);
  arrived(&t);
  NM_CHECK_INT(t.s->begun, 0);
  end_trial(&t);
}

/* ---- forged notes ---- */

static nm_drop feed_note(pair *p, const nm_resource_note *note, size_t cut) {
  uint8_t payload[NM_RESOURCE_NOTE_SIZE_MAX];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  nm_block *raw;
  NM_CHECK_OK(nm_resource_note_encode(note, &w));
  nm_span whole = nm_writer_done(&w);
  NM_CHECK_OK(nm_engine_link_seal(
      p->n->engines[1], p->ends[1], NM_DATA, NM_CONTEXT_RESOURCE_REQ,
      nm_span_slice(whole, 0, whole.len - cut), &raw));
  nm_verdict verdict =
      net_feed(p->n, 0, p->n->wires[0].ends[0].iface, nm_block_span(raw));
  nm_block_drop(raw);
  return verdict.drop;
}

static bool lose_all(void *user, int from, nm_span raw) {
  (void)user;
  (void)raw;
  return from == 0;
}

/* A sender that has advertised and hears from the test alone. */
static nm_transfer_info advertised(pair *p, nm_block *content) {
  nm_transfer_info info;
  p->n->wires[0].filter = lose_all;
  send_it(p, content, NM_RESOURCE_COMPRESS_OFF);
  net_settle(p->n);
  NM_CHECK_OK(nm_engine_transfer_info(p->n->engines[0], p->op, &info));
  NM_CHECK_INT(info.state, NM_RESOURCE_ADVERTISED);
  return info;
}

NM_TEST(forged_notes_are_dropped_for_their_reasons) {
  pair p = linked(NULL);
  nm_block *content = random_block(2 * SEGMENT);
  nm_transfer_info info = advertised(&p, content);
  uint8_t other[NM_HASH_SIZE] = {1};
  nm_resource_note note = {.hash = nm_span_of(info.hash, NM_HASH_SIZE),
                           .held = SEGMENT,
                           .digest = nm_span_of(other, NM_HASH_SIZE)};
  for (size_t cut = 1; cut < NM_RESOURCE_NOTE_SIZE_MAX; cut++) {
    NM_CHECK_INT(feed_note(&p, &note, cut), NM_DROP_RESOURCE_MALFORMED);
  }
  nm_resource_note stray = note;
  stray.hash = nm_span_of(other, NM_HASH_SIZE);
  NM_CHECK_INT(feed_note(&p, &stray, 0), NM_DROP_RESOURCE_UNKNOWN);
  nm_resource_note waits = note;
  waits.held = 0;
  waits.digest = none();
  waits.pending = true;
  for (int i = 0; i < 60; i++) {
    NM_CHECK_INT(feed_note(&p, &waits, 0), NM_DROP_NONE);
  }
  /* Nobody waits for a receiver without end. */
  NM_CHECK_INT(feed_note(&p, &waits, 0), NM_DROP_DUPLICATE);
  nm_block_drop(content);
  net_dispose(p.n);
}

static void declined(uint64_t held) {
  nm_test_context("%llu bytes held", (unsigned long long)held);
  pair p = linked(NULL);
  nm_block *content = random_block(2 * SEGMENT);
  nm_transfer_info before = advertised(&p, content);
  uint8_t digest[NM_HASH_SIZE] = {1};
  nm_resource_note note = {.hash = nm_span_of(before.hash, NM_HASH_SIZE),
                           .held = held,
                           .digest = nm_span_of(digest, NM_HASH_SIZE)};
  NM_CHECK_INT(feed_note(&p, &note, 0), NM_DROP_NONE);
  net_settle(p.n);
  nm_transfer_info after;
  NM_CHECK_OK(nm_engine_transfer_info(p.n->engines[0], p.op, &after));
  NM_CHECK_INT(after.state, NM_RESOURCE_ADVERTISED);
  NM_CHECK_INT(after.resumed_bytes, 0);
  NM_CHECK_INT(after.content_bytes, 2 * SEGMENT);
  NM_CHECK(memcmp(before.hash, after.hash, NM_HASH_SIZE) != 0);
  NM_CHECK(memcmp(before.original, after.original, NM_HASH_SIZE) == 0);
  /* Once: a peer cannot have it read without end. */
  note.hash = nm_span_of(after.hash, NM_HASH_SIZE);
  NM_CHECK_INT(feed_note(&p, &note, 0), NM_DROP_DUPLICATE);
  nm_block_drop(content);
  net_dispose(p.n);
}

NM_TEST(claims_that_cannot_be_are_answered_with_the_whole) {
  declined(SEGMENT);
  declined(2 * SEGMENT);
  declined(2 * SEGMENT + 1);
  declined(UINT64_MAX);
}

/* ---- forged answers ---- */

typedef struct liar {
  pair *p;
  void (*twist)(nm_resource_adv *adv);
  int seen;
  nm_drop drop;
} liar;

static void twist_size(nm_resource_adv *adv) {
  adv->data_size -= 1;
}

static void twist_segment(nm_resource_adv *adv) {
  adv->segment = 2;
}

static void twist_segments(nm_resource_adv *adv) {
  adv->segments = 100;
}

static void twist_metadata(nm_resource_adv *adv) {
  adv->flags ^= NM_RESOURCE_HAS_METADATA;
}

/* Replaces the second advertisement, which is the answer. */
static bool tell_lie(void *user, int from, nm_span raw) {
  liar *l = user;
  nm_packet packet;
  if (from != 0 || nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      packet.context != NM_CONTEXT_RESOURCE_ADV || ++l->seen != 2) {
    return true;
  }
  net *n = l->p->n;
  nm_block *plain;
  nm_block *forged;
  nm_resource_adv adv;
  NM_CHECK_OK(nm_engine_link_unseal(n->engines[0], l->p->ends[0], raw, &plain));
  NM_CHECK_OK(nm_resource_adv_decode(nm_block_span(plain), &adv, NULL));
  NM_CHECK((adv.flags & NM_RESOURCE_EXTENDED) != 0);
  l->twist(&adv);
  uint8_t payload[512];
  nm_writer w = nm_writer_of(payload, sizeof(payload));
  NM_CHECK_OK(nm_resource_adv_encode(&adv, &w));
  NM_CHECK_OK(nm_engine_link_seal(n->engines[0], l->p->ends[0], NM_DATA,
                                  NM_CONTEXT_RESOURCE_ADV, nm_writer_done(&w),
                                  &forged));
  l->drop =
      net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(forged)).drop;
  nm_block_drop(forged);
  nm_block_drop(plain);
  return false;
}

static void answered_with_a_lie(void (*twist)(nm_resource_adv *adv)) {
  trial t = interrupted(2);
  liar l = {.p = &t.p, .twist = twist};
  t.p.n->wires[0].filter = tell_lie;
  t.p.n->wires[0].user = &l;
  send_content(&t);
  net_settle(t.p.n);
  NM_CHECK_INT(l.seen, 2);
  NM_CHECK_INT(l.drop, NM_DROP_RESOURCE_SEGMENT);
  NM_CHECK_INT(net_find(t.p.n, 0, NM_EVENT_RESOURCE_OUT)->state,
               NM_RESOURCE_REJECTED);
  NM_CHECK_INT(net_count(t.p.n, 1, NM_EVENT_RESOURCE_IN), 0);
  NM_CHECK_INT(net_count(t.p.n, 1, NM_EVENT_RESOURCE_IN_FAILED), 1);
  NM_CHECK_INT(t.s->finished, 0);
  end_trial(&t);
}

NM_TEST(answers_that_do_not_fit_are_refused) {
  answered_with_a_lie(twist_size);
  answered_with_a_lie(twist_segment);
  answered_with_a_lie(twist_segments);
  answered_with_a_lie(twist_metadata);
}

/* ---- cancelling ---- */

NM_TEST(a_cancelled_resource_is_not_kept) {
  for (int who = 0; who < 2; who++) {
    trial t = new_trial();
    t.p.n->wires[0].fate = slow;
    send_content(&t);
    while (t.s->len < SEGMENT / 2) {
      net_pass(t.p.n, 500);
    }
    nm_op_id op =
        who == 0 ? t.p.op
                 : nm_engine_transfer_next(t.p.n->engines[1], t.p.ends[1], 0);
    NM_CHECK_OK(nm_engine_cancel(t.p.n->engines[who], op, t.p.n->now));
    net_pass(t.p.n, 1000000);
    NM_CHECK_INT(t.s->kept, 0);
    NM_CHECK_INT(t.s->len, 0);
    NM_CHECK_INT(stats_of(&t.p, 1).partials_kept, 0);
    end_trial(&t);
  }
}

NM_TEST(a_cancel_is_final_while_an_attempt_is_compared) {
  for (int packets = 0; packets < 8; packets++) {
    for (int who = 0; who < 2; who++) {
      nm_test_context("side %d after %d steps", who, packets);
      trial t = interrupted(2);
      t.p.n->wires[0].fate = slow;
      send_content(&t);
      net_pass(t.p.n, (uint64_t)packets * 500);
      nm_op_id op =
          who == 0 ? t.p.op
                   : nm_engine_transfer_next(t.p.n->engines[1], t.p.ends[1], 0);
      if (op != 0) {
        NM_CHECK_OK(nm_engine_cancel(t.p.n->engines[who], op, t.p.n->now));
      }
      net_pass(t.p.n, 200000000);
      NM_CHECK_INT(net_count(t.p.n, 0, NM_EVENT_RESOURCE_OUT), 1);
      NM_CHECK_INT(net_count(t.p.n, 1, NM_EVENT_RESOURCE_IN), op == 0);
      NM_CHECK_INT(stats_of(&t.p, 1).resource_memory, 0);
      end_trial(&t);
    }
  }
}

/* ---- ends that know nothing of it ---- */

typedef struct plain_sender {
  pair *p;
  int notes;
} plain_sender;

/* Takes the bit out of what is advertised, and looks what comes back. */
static bool as_upstream(void *user, int from, nm_span raw) {
  plain_sender *w = user;
  net *n = w->p->n;
  nm_packet packet;
  nm_block *plain;
  if (nm_packet_parse(raw, &packet, NULL) != NM_OK ||
      (packet.context != NM_CONTEXT_RESOURCE_ADV &&
       packet.context != NM_CONTEXT_RESOURCE_REQ)) {
    return true;
  }
  NM_CHECK_OK(
      nm_engine_link_unseal(n->engines[from], w->p->ends[from], raw, &plain));
  if (from == 1) {
    w->notes += nm_resource_is_note(nm_block_span(plain));
    nm_block_drop(plain);
    return true;
  }
  nm_resource_adv adv;
  nm_block *changed;
  uint8_t payload[512];
  nm_writer out = nm_writer_of(payload, sizeof(payload));
  NM_CHECK_OK(nm_resource_adv_decode(nm_block_span(plain), &adv, NULL));
  adv.flags &= ~(uint64_t)NM_RESOURCE_EXTENDED;
  NM_CHECK_OK(nm_resource_adv_encode(&adv, &out));
  NM_CHECK_OK(nm_engine_link_seal(n->engines[0], w->p->ends[0], NM_DATA,
                                  NM_CONTEXT_RESOURCE_ADV, nm_writer_done(&out),
                                  &changed));
  (void)net_feed(n, 1, n->wires[0].ends[1].iface, nm_block_span(changed));
  nm_block_drop(changed);
  nm_block_drop(plain);
  return false;
}

NM_TEST(a_sender_without_the_bit_sees_no_notes) {
  trial t = interrupted(2);
  t.s->checked = 0;
  plain_sender w = {.p = &t.p};
  t.p.n->wires[0].filter = as_upstream;
  t.p.n->wires[0].user = &w;
  send_content(&t);
  net_settle(t.p.n);
  arrived(&t);
  NM_CHECK_INT(w.notes, 0);
  NM_CHECK_INT(t.s->checked, 0);
  NM_CHECK_INT(t.s->begun, 0);
  end_trial(&t);
}

/* ---- frames ---- */

typedef struct reader {
  pair *p;
  int notes;
  int zstd; /* of them, those that welcome frames */
} reader;

static bool count_notes(void *user, int from, nm_span raw) {
  reader *r = user;
  nm_packet packet;
  nm_block *plain;
  nm_resource_note note;
  if (from == 1 && nm_packet_parse(raw, &packet, NULL) == NM_OK &&
      packet.context == NM_CONTEXT_RESOURCE_REQ) {
    NM_CHECK_OK(
        nm_engine_link_unseal(r->p->n->engines[1], r->p->ends[1], raw, &plain));
    if (nm_resource_is_note(nm_block_span(plain))) {
      NM_CHECK_OK(nm_resource_note_decode(nm_block_span(plain), &note, NULL));
      r->notes++;
      r->zstd += note.zstd;
    }
    nm_block_drop(plain);
  }
  return true;
}

/* Bytes on the wire of |len| bytes of text, on a link that is fast. */
static uint64_t wire_bytes_of(pair *p, size_t len) {
  nm_block *content = nm_block_new(&nm_mem_system, len);
  for (size_t i = 0; i < len; i++) {
    nm_block_bytes(content)[i] = (uint8_t)('a' + nm_test_below(4));
  }
  net_forget(p->n);
  send_it(p, content, NM_RESOURCE_COMPRESS_AUTOMATIC);
  while (net_count(p->n, 0, NM_EVENT_RESOURCE_OUT) == 0) {
    net_pass(p->n, 1000);
  }
  nm_event *in = net_find(p->n, 1, NM_EVENT_RESOURCE_IN);
  NM_CHECK(in != NULL);
  NM_CHECK_SPAN(nm_block_span(in->data), nm_block_span(content));
  nm_block_drop(content);
  return in->wire_bytes;
}

/* Some 50 MB a second: too fast for bzip2. */
static void fast(void *user, int from, nm_span raw, net_fate *fate) {
  (void)user;
  (void)from;
  (void)raw;
  fate->copies = 1;
  fate->delay_us[0] = 2000;
}

NM_TEST(frames_are_sent_to_those_that_welcome_them) {
  pair p = linked(NULL);
  reader r = {.p = &p};
  p.n->wires[0].filter = count_notes;
  p.n->wires[0].fate = fast;
  p.n->wires[0].user = &r;
  /* A single segment does not ask for one. */
  NM_CHECK(wire_bytes_of(&p, SEGMENT / 2) > SEGMENT / 2);
  NM_CHECK_INT(r.notes, 0);
  /* The first segment goes before anything is known. */
  uint64_t first = wire_bytes_of(&p, 4 * SEGMENT);
  NM_CHECK(first < 3 * SEGMENT);
  NM_CHECK_INT(r.notes, 1);
  NM_CHECK_INT(r.zstd, 1);
  uint64_t next = wire_bytes_of(&p, 4 * SEGMENT);
  NM_CHECK(next < first - SEGMENT / 2);
  /* Now the peer is known, and small content profits as well. */
  NM_CHECK(wire_bytes_of(&p, SEGMENT / 2) < SEGMENT / 4);
  NM_CHECK_INT(r.notes, 2);
  NM_CHECK_INT(stats_of(&p, 1).resource_memory, 0);
  net_dispose(p.n);
}
