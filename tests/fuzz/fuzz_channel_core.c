/* Two channels over a medium that the input moves: what is sent, lost, doubled,
 * late, forged, proven, and how time passes. Messages are delivered in the
 * order of their numbers, each once; nothing is proven that was not accepted;
 * every message ends once.
 */
#include "fuzz.h"
#include "stack/channel_core.h"

#include <string.h>

#define PACKETS 64
#define BYTES 80

typedef struct packet {
  nm_packet_hash key;
  uint8_t bytes[BYTES];
  size_t len;
} packet;

typedef struct side {
  nm_channel channel;
  packet sent[PACKETS];
  uint32_t sent_count; /* the newest PACKETS are kept */
  nm_packet_hash proofs[PACKETS];
  uint32_t proof_count;
  uint32_t keys;
  uint16_t expected; /* the next to be delivered */
  uint32_t given;
  uint32_t ended;
  bool refuses;
  bool broken;
} side;

static int on_send(void *user, nm_span envelope, nm_packet_hash *key) {
  side *s = user;
  if (s->broken) {
    return NM_E(STATE);
  }
  MUST(envelope.len <= BYTES);
  packet *p = &s->sent[s->sent_count++ % PACKETS];
  memset(p, 0, sizeof *p);
  s->keys++;
  memcpy(p->key.b, &s->keys, sizeof s->keys);
  memcpy(p->bytes, envelope.ptr, envelope.len);
  p->len = envelope.len;
  *key = p->key;
  return NM_OK;
}

static void on_prove(void *user, const nm_packet_hash *key) {
  side *s = user;
  s->proofs[s->proof_count++ % PACKETS] = *key;
}

static nm_drop on_accept(void *user, const nm_channel_envelope *envelope,
                         int status, bool ahead, void **place) {
  side *s = user;
  (void)status;
  (void)ahead;
  if (s->refuses) {
    return NM_DROP_NO_CREDIT;
  }
  uint16_t *sequence = nm_alloc(&nm_mem_system, sizeof *sequence);
  MUST(sequence != NULL);
  *sequence = envelope->sequence;
  *place = sequence;
  return NM_DROP_NONE;
}

static void on_deliver(void *user, void *place) {
  side *s = user;
  MUST(*(uint16_t *)place == s->expected);
  s->expected++;
  nm_release(&nm_mem_system, place);
}

static void on_discard(void *user, void *place) {
  (void)user;
  nm_release(&nm_mem_system, place);
}

static void on_ended(void *user, const nm_channel_sent *sent, bool delivered) {
  side *s = user;
  (void)delivered;
  MUST(sent->owner == s && sent->tries >= 1);
  MUST(sent->tries <= NM_CHANNEL_TRIES_MAX);
  s->ended++;
}

static bool on_hears(void *user) {
  return ((side *)user)->refuses;
}

static void open_side(side *s, uint64_t rtt_us, uint16_t first, bool all) {
  nm_channel_outlet outlet = {.user = s,
                              .send = on_send,
                              .prove = on_prove,
                              .accept = on_accept,
                              .deliver = on_deliver,
                              .discard = on_discard,
                              .ended = on_ended,
                              .hears = on_hears};
  memset(s, 0, sizeof *s);
  nm_channel_init(&s->channel, &nm_mem_system, &outlet, rtt_us, BYTES, all);
  s->channel.next_tx = first;
  s->channel.next_rx = first;
  s->expected = first;
}

static void check(const side *s) {
  const nm_channel *c = &s->channel;
  MUST(c->window.window >= 1 && c->window.window <= NM_CHANNEL_AHEAD_MAX);
  MUST(c->out_count <= NM_CHANNEL_AHEAD_MAX);
  MUST(c->in_count <= NM_CHANNEL_AHEAD_MAX);
  MUST(c->late_count <= NM_CHANNEL_LATE_MAX);
  MUST(s->given - s->ended == c->out_count);
  MUST(c->next_rx == s->expected);
  MUST(c->counters.ordered + c->in_count == c->counters.received || !c->open);
}

/* What byte |pick| chooses among the newest of |count|. */
static uint32_t chosen(uint32_t count, uint8_t pick) {
  uint32_t kept = count < PACKETS ? count : PACKETS;
  return (count - 1 - pick % kept) % PACKETS;
}

static void step(side *from, side *to, uint8_t what, uint8_t how, nm_reader *r,
                 uint64_t *now) {
  nm_span payload;
  nm_packet_hash forged = {{0xFF, how}};
  switch (what) {
  case 0:
    payload = nm_reader_take(r, how % 32);
    from->given += nm_channel_send(&from->channel, how, &payload, 1, from, NULL,
                                   *now) == NM_OK;
    break;
  case 1:
    if (from->sent_count > 0) {
      const packet *p = &from->sent[chosen(from->sent_count, how)];
      (void)nm_channel_receive(&to->channel, &p->key,
                               nm_span_of(p->bytes, p->len), *now);
    }
    break;
  case 2:
    if (to->proof_count > 0) {
      (void)nm_channel_proven(&from->channel,
                              &to->proofs[chosen(to->proof_count, how)], *now);
    }
    break;
  case 3:
    *now += (uint64_t)how * how * 1000;
    if (nm_channel_tick(&from->channel, *now) != NM_OK) {
      nm_channel_close(&from->channel);
    }
    break;
  case 4:
    payload = nm_reader_take(r, how % 16);
    (void)nm_channel_receive(&to->channel, &forged, payload, *now);
    break;
  case 5:
    (void)nm_channel_register(&to->channel, how);
    nm_channel_set_rtt(&from->channel, (uint64_t)how * 10000);
    break;
  case 6:
    to->refuses = (how & 1) != 0;
    from->broken = (how & 2) != 0;
    break;
  default:
    (void)nm_channel_proven(&from->channel, &forged, *now);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static side sides[2];
  nm_reader r = nm_reader_of(nm_span_of(data, size));
  uint8_t rtt = nm_reader_u8(&r);
  uint16_t first = nm_reader_u16(&r);
  uint64_t now = 1000000;
  open_side(&sides[0], (uint64_t)rtt * 10000, first, true);
  open_side(&sides[1], (uint64_t)rtt * 10000, first, (rtt & 1) != 0);
  while (r.status == NM_OK) {
    uint8_t op = nm_reader_u8(&r);
    uint8_t how = nm_reader_u8(&r);
    if (r.status != NM_OK) {
      break;
    }
    int from = (op & 8) != 0;
    step(&sides[from], &sides[!from], op & 7, how, &r, &now);
    check(&sides[0]);
    check(&sides[1]);
  }
  for (int i = 0; i < 2; i++) {
    nm_channel_close(&sides[i].channel);
    MUST(sides[i].given == sides[i].ended);
  }
  return 0;
}
