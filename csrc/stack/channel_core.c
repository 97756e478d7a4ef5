/* The state machine of a channel: both rings, tries, windows (RNS 2, 4.2).
 */
#include "stack/channel_core.h"

#include <string.h>

#define NEVER UINT64_MAX
/* A try lasts at least this long, times 1.5 for each further one. */
#define TRY_MIN_US 1000000ull
/* A peer's own time is taken as at least this, as the wire's formula does. */
#define EARLY_MIN_US 25000ull
#define SPREAD_MIN_US 10000ull
/* A message that seems to be late only is repeated this power of two later. */
#define LATE_DOUBLINGS 2u
/* How late the proofs for a peer are that repeats what was proven; how many
 * messages it must not repeat for them to be half as late. */
#define LATE_MIN_US 2000u
#define LATE_MAX_US 16000u
#define PUNCTUAL 256u
/* What is repeated sooner than this after it was accepted met its proof on the
 * way. */
#define MET_US 150000u
/* Differences from here on lie behind, below it ahead. */
#define BEHIND 0x8000u

struct nm_channel_out {
  nm_channel_out *next;
  nm_channel_sent sent;
  uint64_t try_us; /* when the try under way began */
  uint32_t early;  /* repetitions in it */
  uint32_t keys;   /* packets so far; the newest NM_CHANNEL_KEYS are known */
  nm_packet_hash key[NM_CHANNEL_KEYS];
  uint64_t key_us[NM_CHANNEL_KEYS];
  size_t len;
  uint8_t envelope[];
};

struct nm_channel_in {
  nm_channel_in *next;
  uint16_t sequence;
  void *place;
};

static double seconds(uint64_t us) {
  return (double)us / 1e6;
}

static uint16_t distance(uint16_t from, uint16_t to) {
  return (uint16_t)(to - from);
}

/* ---- life ---- */

void nm_channel_init(nm_channel *channel, const nm_mem *mem,
                     const nm_channel_outlet *outlet, uint64_t rtt_us,
                     size_t link_mdu, bool all_types) {
  memset(channel, 0, sizeof(*channel));
  channel->mem = mem;
  channel->outlet = *outlet;
  channel->open = true;
  channel->mdu = nm_channel_mdu(link_mdu);
  channel->rtt_us = rtt_us;
  channel->window = nm_channel_window_open(seconds(rtt_us));
  channel->all_types = all_types;
}

static void free_out(nm_channel *channel, nm_channel_out *out) {
  nm_wipe(out, sizeof(*out) + out->len);
  nm_release(channel->mem, out);
}

void nm_channel_close(nm_channel *channel) {
  if (!channel->open) {
    return;
  }
  channel->open = false;
  while (channel->out != NULL) {
    nm_channel_out *out = channel->out;
    channel->out = out->next;
    channel->out_count--;
    channel->outlet.ended(channel->outlet.user, &out->sent, false);
    free_out(channel, out);
  }
  channel->out_last = NULL;
  while (channel->in != NULL) {
    nm_channel_in *in = channel->in;
    channel->in = in->next;
    channel->in_count--;
    channel->outlet.discard(channel->outlet.user, in->place);
    nm_release(channel->mem, in);
  }
  nm_release(channel->mem, channel->late);
  channel->late = NULL;
  channel->late_count = 0;
  nm_release(channel->mem, channel->types);
  channel->types = NULL;
  channel->type_count = 0;
  channel->type_cap = 0;
}

void nm_channel_set_rtt(nm_channel *channel, uint64_t rtt_us) {
  channel->rtt_us = rtt_us;
}

/* ---- types ---- */

/* Where |msgtype| is or belongs. */
static uint32_t type_at(const nm_channel *channel, uint16_t msgtype) {
  uint32_t low = 0;
  uint32_t high = channel->type_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (channel->types[middle] < msgtype) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool nm_channel_registered(const nm_channel *channel, uint16_t msgtype) {
  if (msgtype >= NM_CHANNEL_RESERVED) {
    return msgtype == NM_CHANNEL_STREAM_DATA;
  }
  uint32_t at = type_at(channel, msgtype);
  return channel->all_types ||
         (at < channel->type_count && channel->types[at] == msgtype);
}

static int grow_types(nm_channel *channel) {
  if (channel->type_count < channel->type_cap) {
    return NM_OK;
  }
  uint32_t cap = channel->type_cap == 0 ? 8 : channel->type_cap * 2;
  uint16_t *types =
      nm_resize(channel->mem, channel->types, cap * sizeof(*types));
  if (types == NULL) {
    return NM_E(MEMORY);
  }
  channel->types = types;
  channel->type_cap = cap;
  return NM_OK;
}

int nm_channel_register(nm_channel *channel, uint16_t msgtype) {
  if (!channel->open) {
    return NM_E(STATE);
  }
  if (msgtype >= NM_CHANNEL_RESERVED) {
    return NM_E(RESERVED);
  }
  uint32_t at = type_at(channel, msgtype);
  if (at < channel->type_count && channel->types[at] == msgtype) {
    return NM_OK;
  }
  if (channel->type_count == NM_CHANNEL_TYPES_MAX) {
    return NM_E(LIMIT);
  }
  int status = grow_types(channel);
  if (status == NM_OK) {
    memmove(&channel->types[at + 1], &channel->types[at],
            (channel->type_count - at) * sizeof(channel->types[0]));
    channel->types[at] = msgtype;
    channel->type_count++;
  }
  return status;
}

static int type_status(const nm_channel *channel, uint16_t msgtype) {
  if (nm_channel_registered(channel, msgtype)) {
    return NM_OK;
  }
  return msgtype >= NM_CHANNEL_RESERVED ? NM_E(RESERVED) : NM_E(TYPE);
}

/* ---- times ---- */

uint64_t nm_channel_try_us(const nm_channel *channel, uint32_t tries) {
  uint64_t rtt = channel->rtt_us > channel->proof_rtt_us
                     ? channel->rtt_us
                     : channel->proof_rtt_us;
  double asked = nm_channel_timeout(seconds(rtt), tries, channel->out_count);
  uint64_t wait = asked > 3600 ? 3600000000ull : (uint64_t)(asked * 1e6 + 0.5);
  uint64_t least = TRY_MIN_US;
  for (uint32_t i = 1; i < tries && i < NM_CHANNEL_TRIES_MAX; i++) {
    least += least / 2;
  }
  return wait > least ? wait : least;
}

/* Whether |out| seems to be lost rather than late: a message after it was
 * proven, or it is the oldest. */
static bool seems_lost(const nm_channel *channel, const nm_channel_out *out) {
  return out == channel->out ||
         (channel->counters.delivered > 0 &&
          distance(out->sent.sequence, channel->proven_tx) < BEHIND);
}

/* When |out| is repeated within its try: after the time that proofs take here,
 * twice that, and so on. When proofs are late for all that is under way, the
 * oldest message alone asks for that, and the others only much later. */
static uint64_t early_due(const nm_channel *channel,
                          const nm_channel_out *out) {
  if (channel->proof_rtt_us == 0 || out->early >= NM_CHANNEL_EARLY_MAX) {
    return NEVER;
  }
  uint32_t doublings = out->early + out->sent.tries - 1u;
  doublings += seems_lost(channel, out) ? 0 : LATE_DOUBLINGS;
  uint64_t spread = 4 * channel->proof_var_us;
  uint64_t wait =
      channel->proof_rtt_us + (spread > SPREAD_MIN_US ? spread : SPREAD_MIN_US);
  wait = wait > EARLY_MIN_US ? wait : EARLY_MIN_US;
  return out->sent.sent_us + (wait << doublings);
}

/* RFC 6298, section 2. Each packet has a key of its own, so a proof says which
 * sending it answers. */
static void measure(nm_channel *channel, uint64_t took_us) {
  took_us = took_us == 0 ? 1 : took_us;
  if (channel->proof_rtt_us == 0) {
    channel->proof_rtt_us = took_us;
    channel->proof_var_us = took_us / 2;
    return;
  }
  uint64_t mean = channel->proof_rtt_us;
  uint64_t off = mean > took_us ? mean - took_us : took_us - mean;
  channel->proof_var_us = (3 * channel->proof_var_us + off) / 4;
  mean = (7 * mean + took_us) / 8;
  channel->proof_rtt_us = mean == 0 ? 1 : mean;
}

/* More messages are under way: every try lasts longer (RNS 2, 4.2). */
static void raise_dues(nm_channel *channel) {
  for (nm_channel_out *out = channel->out; out != NULL; out = out->next) {
    uint64_t due = out->try_us + nm_channel_try_us(channel, out->sent.tries);
    out->sent.due_us = due > out->sent.due_us ? due : out->sent.due_us;
  }
}

uint64_t nm_channel_deadline(const nm_channel *channel) {
  uint64_t next = channel->late_count > 0 ? channel->late[0].due_us : NEVER;
  for (const nm_channel_out *out = channel->out; out != NULL; out = out->next) {
    uint64_t early = early_due(channel, out);
    uint64_t due = early < out->sent.due_us ? early : out->sent.due_us;
    next = due < next ? due : next;
  }
  return next;
}

/* ---- sending ---- */

uint32_t nm_channel_room(const nm_channel *channel) {
  if (!channel->open || channel->out_count >= channel->window.window) {
    return 0;
  }
  uint32_t room = channel->window.window - channel->out_count;
  if (channel->out != NULL) {
    uint32_t ahead = distance(channel->out->sent.sequence, channel->next_tx);
    uint32_t reach =
        ahead < NM_CHANNEL_AHEAD_MAX ? NM_CHANNEL_AHEAD_MAX - ahead : 0;
    room = room < reach ? room : reach;
  }
  return room;
}

static int transmit(nm_channel *channel, nm_channel_out *out, uint64_t now_us) {
  uint32_t slot = out->keys % NM_CHANNEL_KEYS;
  nm_packet_hash key;
  out->sent.sent_us = now_us;
  int status = channel->outlet.send(channel->outlet.user,
                                    nm_span_of(out->envelope, out->len), &key);
  if (status == NM_OK) {
    out->key[slot] = key;
    out->key_us[slot] = now_us;
    out->keys++;
    out->sent.sendings++;
  }
  return status;
}

static size_t size_of(const nm_span *parts, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++) {
    size = parts[i].len > SIZE_MAX - size ? SIZE_MAX : size + parts[i].len;
  }
  return size;
}

static nm_channel_out *make_out(nm_channel *channel, uint16_t msgtype,
                                const nm_span *parts, size_t count,
                                size_t size) {
  size_t len = NM_CHANNEL_HEADER_SIZE + size;
  nm_channel_out *out = nm_alloc(channel->mem, sizeof(*out) + len);
  if (out == NULL) {
    return NULL;
  }
  memset(out, 0, sizeof(*out));
  out->len = len;
  out->sent.msgtype = msgtype;
  out->sent.sequence = channel->next_tx;
  out->sent.bytes = size;
  out->sent.tries = 1;
  nm_writer w = nm_writer_of(out->envelope, len);
  nm_writer_u16(&w, msgtype);
  nm_writer_u16(&w, channel->next_tx);
  nm_writer_u16(&w, (uint16_t)size);
  for (size_t i = 0; i < count; i++) {
    nm_writer_span(&w, parts[i]);
  }
  return out;
}

static void append(nm_channel *channel, nm_channel_out *out) {
  if (channel->out_last != NULL) {
    channel->out_last->next = out;
  } else {
    channel->out = out;
  }
  channel->out_last = out;
  channel->out_count++;
}

int nm_channel_send(nm_channel *channel, uint16_t msgtype, const nm_span *parts,
                    size_t count, void *owner, uint16_t *sequence,
                    uint64_t now_us) {
  if (!channel->open) {
    return NM_E(STATE);
  }
  if (msgtype >= NM_CHANNEL_RESERVED && msgtype != NM_CHANNEL_STREAM_DATA) {
    return NM_E(RESERVED);
  }
  size_t size = size_of(parts, count);
  if (size > channel->mdu) {
    return NM_E(TOO_LARGE);
  }
  if (nm_channel_room(channel) == 0) {
    return NM_E(LIMIT);
  }
  nm_channel_out *out = make_out(channel, msgtype, parts, count, size);
  if (out == NULL) {
    return NM_E(MEMORY);
  }
  int status = transmit(channel, out, now_us);
  if (status != NM_OK) {
    free_out(channel, out);
    return status;
  }
  out->sent.owner = owner;
  out->sent.first_sent_us = now_us;
  out->try_us = now_us;
  append(channel, out);
  raise_dues(channel);
  channel->next_tx++;
  channel->counters.sent++;
  channel->counters.sent_bytes += size;
  if (sequence != NULL) {
    *sequence = out->sent.sequence;
  }
  return NM_OK;
}

/* ---- proofs ---- */

/* The place of |key| among the packets of |out|, or NM_CHANNEL_KEYS. */
static uint32_t key_at(const nm_channel_out *out, const nm_packet_hash *key) {
  uint32_t known = out->keys < NM_CHANNEL_KEYS ? out->keys : NM_CHANNEL_KEYS;
  for (uint32_t i = 0; i < known; i++) {
    if (memcmp(out->key[i].b, key->b, sizeof(key->b)) == 0) {
      return i;
    }
  }
  return NM_CHANNEL_KEYS;
}

bool nm_channel_awaits(const nm_channel *channel, const nm_packet_hash *key) {
  for (const nm_channel_out *out = channel->out; out != NULL; out = out->next) {
    if (key_at(out, key) < NM_CHANNEL_KEYS) {
      return true;
    }
  }
  return false;
}

static void unlink_out(nm_channel *channel, nm_channel_out *before,
                       nm_channel_out *out) {
  if (before != NULL) {
    before->next = out->next;
  } else {
    channel->out = out->next;
  }
  if (channel->out_last == out) {
    channel->out_last = before;
  }
  channel->out_count--;
}

bool nm_channel_proven(nm_channel *channel, const nm_packet_hash *key,
                       uint64_t now_us) {
  nm_channel_out *before = NULL;
  nm_channel_out *out = channel->out;
  uint32_t at = NM_CHANNEL_KEYS;
  while (out != NULL && (at = key_at(out, key)) == NM_CHANNEL_KEYS) {
    before = out;
    out = out->next;
  }
  if (out == NULL) {
    return false;
  }
  measure(channel, now_us - out->key_us[at]);
  if (channel->counters.delivered == 0 ||
      distance(channel->proven_tx, out->sent.sequence) < BEHIND) {
    channel->proven_tx = out->sent.sequence;
  }
  unlink_out(channel, before, out);
  channel->window =
      nm_channel_window_delivered(channel->window, seconds(channel->rtt_us));
  channel->counters.delivered++;
  channel->outlet.ended(channel->outlet.user, &out->sent, true);
  free_out(channel, out);
  return true;
}

/* ---- tries ---- */

static void repeat(nm_channel *channel, nm_channel_out *out, uint64_t now_us) {
  channel->counters.repeated++;
  /* What cannot leave now is as good as lost: it is repeated later. */
  (void)transmit(channel, out, now_us);
}

/* One loss makes the window smaller once, not once for each message that was
 * under way with it. */
static void repeat_early(nm_channel *channel, nm_channel_out *out,
                         uint64_t now_us) {
  out->early++;
  if (out->early == 1 && now_us - channel->shrunk_us >= channel->proof_rtt_us) {
    channel->shrunk_us = now_us;
    channel->window = nm_channel_window_timed_out(channel->window);
  }
  repeat(channel, out, now_us);
}

/* Whether the peer takes nothing more, but is there: it proved messages before
 * and other things still come from it. */
static bool peer_is_behind(const nm_channel *channel) {
  return channel->counters.delivered > 0 && channel->outlet.hears != NULL &&
         channel->outlet.hears(channel->outlet.user);
}

static int next_try(nm_channel *channel, nm_channel_out *out, uint64_t now_us) {
  channel->counters.timeouts++;
  if (out->sent.tries < NM_CHANNEL_TRIES_MAX) {
    out->sent.tries++;
  } else if (!peer_is_behind(channel)) {
    return NM_E(TIMEOUT);
  }
  out->early = 0;
  out->try_us = now_us;
  out->sent.due_us = now_us;
  channel->window = nm_channel_window_timed_out(channel->window);
  repeat(channel, out, now_us);
  raise_dues(channel);
  return NM_OK;
}

static void prove_due(nm_channel *channel, uint64_t now_us) {
  uint32_t count = 0;
  while (count < channel->late_count && channel->late[count].due_us <= now_us) {
    channel->outlet.prove(channel->outlet.user, &channel->late[count].key);
    count++;
  }
  channel->late_count -= count;
  if (count > 0 && channel->late_count > 0) {
    memmove(&channel->late[0], &channel->late[count],
            channel->late_count * sizeof(channel->late[0]));
  }
}

int nm_channel_tick(nm_channel *channel, uint64_t now_us) {
  int status = NM_OK;
  prove_due(channel, now_us);
  for (nm_channel_out *out = channel->out; status == NM_OK && out != NULL;
       out = out->next) {
    if (now_us >= out->sent.due_us) {
      status = next_try(channel, out, now_us);
    } else if (now_us >= early_due(channel, out)) {
      repeat_early(channel, out, now_us);
    }
  }
  return status;
}

/* ---- receiving ---- */

/* Proves the packet |key|: at once, or late for a peer that repeats. */
static void prove(nm_channel *channel, const nm_packet_hash *key,
                  uint64_t now_us) {
  if (channel->late == NULL && channel->late_us > 0) {
    channel->late =
        nm_alloc(channel->mem, NM_CHANNEL_LATE_MAX * sizeof(channel->late[0]));
  }
  if (channel->late == NULL || channel->late_us == 0 ||
      channel->late_count == NM_CHANNEL_LATE_MAX) {
    channel->outlet.prove(channel->outlet.user, key);
    return;
  }
  uint64_t due = now_us + channel->late_us;
  uint32_t at = channel->late_count++;
  while (at > 0 && channel->late[at - 1].due_us > due) {
    channel->late[at] = channel->late[at - 1];
    at--;
  }
  channel->late[at].key = *key;
  channel->late[at].due_us = due;
}

/* Whether |sequence| was accepted a moment ago. */
static bool just_taken(const nm_channel *channel, uint16_t sequence,
                       uint64_t now_us) {
  const nm_channel_taken *taken = &channel->taken[sequence % NM_CHANNEL_TAKEN];
  return taken->at_us != 0 && taken->sequence == sequence &&
         now_us - taken->at_us < MET_US;
}

/* A peer that has not seen the proof for long gets the next ones later. */
static nm_drop again(nm_channel *channel, const nm_packet_hash *key,
                     uint16_t sequence, uint64_t now_us) {
  channel->counters.duplicates++;
  if (!just_taken(channel, sequence, now_us)) {
    uint64_t later = channel->late_us == 0 ? LATE_MIN_US : channel->late_us * 2;
    channel->late_us = later < LATE_MAX_US ? later : LATE_MAX_US;
    channel->punctual = 0;
  }
  prove(channel, key, now_us);
  return NM_DROP_DUPLICATE;
}

static void note_taken(nm_channel *channel, uint16_t sequence,
                       uint64_t now_us) {
  nm_channel_taken *taken = &channel->taken[sequence % NM_CHANNEL_TAKEN];
  taken->sequence = sequence;
  taken->at_us = now_us == 0 ? 1 : now_us;
}

static void note_punctual(nm_channel *channel) {
  if (channel->late_us > 0 && ++channel->punctual >= PUNCTUAL) {
    channel->punctual = 0;
    channel->late_us /= 2;
    channel->late_us = channel->late_us < LATE_MIN_US ? 0 : channel->late_us;
  }
}

/* Where a message that is |ahead| of the next one belongs; with |*there| it is
 * waiting already. */
static nm_channel_in **place_of(nm_channel *channel, uint16_t sequence,
                                bool *there) {
  uint16_t ahead = distance(channel->next_rx, sequence);
  nm_channel_in **at = &channel->in;
  while (*at != NULL && distance(channel->next_rx, (*at)->sequence) < ahead) {
    at = &(*at)->next;
  }
  *there = *at != NULL && (*at)->sequence == sequence;
  return at;
}

/* Delivers |place|, and everything that waited for it alone. */
static void deliver_run(nm_channel *channel, void *place) {
  for (;;) {
    channel->next_rx++;
    channel->counters.ordered++;
    channel->outlet.deliver(channel->outlet.user, place);
    nm_channel_in *in = channel->in;
    if (in == NULL || in->sequence != channel->next_rx) {
      return;
    }
    channel->in = in->next;
    channel->in_count--;
    place = in->place;
    nm_release(channel->mem, in);
  }
}

static nm_drop take(nm_channel *channel, const nm_channel_envelope *envelope,
                    nm_channel_in **at, const nm_packet_hash *key,
                    uint64_t now_us) {
  bool ahead = envelope->sequence != channel->next_rx;
  nm_channel_in *in =
      ahead ? nm_alloc_zero(channel->mem, 1, sizeof(*in)) : NULL;
  if (ahead && in == NULL) {
    channel->counters.refused++;
    return NM_DROP_NO_MEMORY;
  }
  int status = type_status(channel, envelope->msgtype);
  void *place = NULL;
  nm_drop drop = channel->outlet.accept(channel->outlet.user, envelope, status,
                                        ahead, &place);
  if (drop != NM_DROP_NONE) {
    nm_release(channel->mem, in);
    channel->counters.refused++;
    return drop;
  }
  channel->counters.received++;
  channel->counters.received_bytes += envelope->payload.len;
  channel->counters.unregistered += status != NM_OK;
  note_punctual(channel);
  note_taken(channel, envelope->sequence, now_us);
  prove(channel, key, now_us);
  if (ahead) {
    in->sequence = envelope->sequence;
    in->place = place;
    in->next = *at;
    *at = in;
    channel->in_count++;
  } else {
    deliver_run(channel, place);
  }
  return NM_DROP_NONE;
}

nm_drop nm_channel_receive(nm_channel *channel, const nm_packet_hash *key,
                           nm_span plaintext, uint64_t now_us) {
  if (!channel->open) {
    return NM_DROP_CHANNEL_CLOSED;
  }
  nm_channel_envelope envelope;
  if (nm_channel_decode(plaintext, &envelope, NULL) != NM_OK) {
    return NM_DROP_LINK_PAYLOAD;
  }
  uint16_t ahead = distance(channel->next_rx, envelope.sequence);
  if (ahead >= BEHIND) {
    return again(channel, key, envelope.sequence, now_us);
  }
  if (ahead > NM_CHANNEL_AHEAD_MAX) {
    channel->counters.beyond++;
    return NM_DROP_CHANNEL_WINDOW;
  }
  bool there = false;
  nm_channel_in **at = place_of(channel, envelope.sequence, &there);
  return there ? again(channel, key, envelope.sequence, now_us)
               : take(channel, &envelope, at, key, now_us);
}

/* ---- rings ---- */

size_t nm_channel_sent_ring(const nm_channel *channel, nm_channel_sent *ring,
                            size_t cap) {
  size_t count = 0;
  for (const nm_channel_out *out = channel->out; out != NULL; out = out->next) {
    if (count < cap) {
      ring[count] = out->sent;
    }
    count++;
  }
  return count;
}

size_t nm_channel_ahead_ring(const nm_channel *channel, uint16_t *ring,
                             size_t cap) {
  size_t count = 0;
  for (const nm_channel_in *in = channel->in; in != NULL; in = in->next) {
    if (count < cap) {
      ring[count] = in->sequence;
    }
    count++;
  }
  return count;
}
