/* The channel of a link: the link is what carries its packets, events are what
 * its messages become (RNS 2, 4).
 */
#include "stack/channel_link.h"

#include <string.h>

/* How long a place in the window is left to an application that was told of it.
 */
#define APP_TURN_US 250000ull
/* How soon something is tried again that could not leave. */
#define STUCK_US 50000ull
/* A peer that was silent for this long is not waited for. */
#define HEARD_MAX_US 60000000ull
#define HEARD_SLACK_US 1000000ull

/* ---- the outlet ---- */

static int outlet_send(void *user, nm_span envelope, nm_packet_hash *key) {
  const nm_link_channel *channel = user;
  nm_block *raw = NULL;
  int status = nm_link_pack(channel->engine, channel->link, NM_DATA,
                            NM_CONTEXT_CHANNEL, envelope, &raw, key);
  if (status != NM_OK) {
    nm_block_drop(raw);
    return status;
  }
  channel->link->last_data = channel->engine->now.mono_us;
  return nm_link_put(channel->engine, channel->link, raw, 0);
}

static void outlet_prove(void *user, const nm_packet_hash *key) {
  const nm_link_channel *channel = user;
  nm_link_prove(channel->engine, channel->link, key);
}

/* What comes in order may take the last credit; what must wait for others may
 * not, or the missing one would find none. */
static nm_event_node *reserve(nm_link_channel *channel, bool ahead,
                              nm_drop *drop) {
  nm_engine *engine = channel->engine;
  if (channel->paused || (ahead && engine->events.credit < 2)) {
    engine->stats.held_for_credit++;
    *drop = NM_DROP_NO_CREDIT;
    return NULL;
  }
  return nm_engine_reserve_event(engine, drop);
}

static void describe(const nm_link_channel *channel,
                     const nm_channel_envelope *envelope, int status,
                     nm_event *event) {
  const nm_frame *frame = channel->input->frame;
  *event = nm_link_event(channel->link, NM_EVENT_CHANNEL_DATA);
  event->status = status;
  event->msgtype = envelope->msgtype;
  event->sequence = envelope->sequence;
  event->packet_hash = frame->hash;
  event->hops = channel->input->hops;
  event->rssi_dbm = frame->rssi_dbm;
  event->snr_cdb = frame->snr_cdb;
  event->quality_pct = frame->quality_pct;
}

static nm_drop fill(nm_link_channel *channel,
                    const nm_channel_envelope *envelope,
                    nm_channel_place *place) {
  if (envelope->msgtype == NM_CHANNEL_STREAM_DATA) {
    return nm_stream_accept(channel, envelope->payload, place);
  }
  nm_event *event = &place->node->event;
  event->data = nm_block_copy(channel->engine->mem, envelope->payload);
  if (event->data == NULL) {
    return NM_DROP_NO_MEMORY;
  }
  nm_block_mark_secret(event->data);
  return NM_DROP_NONE;
}

static nm_drop outlet_accept(void *user, const nm_channel_envelope *envelope,
                             int status, bool ahead, void **out) {
  nm_link_channel *channel = user;
  nm_drop drop = NM_DROP_NONE;
  nm_event_node *node = reserve(channel, ahead, &drop);
  if (node == NULL) {
    return drop;
  }
  nm_channel_place *place = nm_alloc_zero(channel->core.mem, 1, sizeof(*place));
  if (place == NULL) {
    nm_eventq_unreserve(&channel->engine->events, node);
    return NM_DROP_NO_MEMORY;
  }
  place->node = node;
  describe(channel, envelope, status, &node->event);
  drop = fill(channel, envelope, place);
  if (drop != NM_DROP_NONE) {
    nm_channel_place_free(channel, place);
    return drop;
  }
  *out = place;
  return NM_DROP_NONE;
}

static void outlet_deliver(void *user, void *what) {
  nm_link_channel *channel = user;
  nm_channel_place *place = what;
  place->next = NULL;
  if (channel->told_last != NULL) {
    channel->told_last->next = place;
  } else {
    channel->told_first = place;
  }
  channel->told_last = place;
  channel->link->last_data = channel->engine->now.mono_us;
  nm_channel_tell(channel);
}

static void outlet_discard(void *user, void *place) {
  nm_channel_place_free(user, place);
}

static void outlet_ended(void *user, const nm_channel_sent *sent,
                         bool delivered) {
  nm_link_channel *channel = user;
  nm_channel_letter *letter = sent->owner;
  if (letter == NULL) {
    return;
  }
  if (letter->write != NULL) {
    nm_stream_letter_ended(channel, letter, delivered);
    nm_release(channel->engine->mem, letter);
  } else {
    nm_letter_ended(letter, sent, delivered);
  }
}

/* A living peer is heard once in a keepalive interval. */
static bool outlet_hears(void *user) {
  const nm_link_channel *channel = user;
  const nm_link *link = channel->link;
  uint64_t wait = link->keepalive_us + 2 * link->rtt_us + HEARD_SLACK_US;
  wait = wait < HEARD_MAX_US ? wait : HEARD_MAX_US;
  return channel->engine->now.mono_us - link->last_inbound <= wait;
}

static const nm_channel_outlet outlet = {
    .send = outlet_send,
    .prove = outlet_prove,
    .accept = outlet_accept,
    .deliver = outlet_deliver,
    .discard = outlet_discard,
    .ended = outlet_ended,
    .hears = outlet_hears,
};

/* ---- life ---- */

static void take_ready(nm_event_entry *entry, nm_event *event) {
  const nm_link_channel *channel =
      (const nm_link_channel *)(const void *)((char *)entry -
                                              offsetof(nm_link_channel, ready));
  *event = nm_link_event(channel->link, NM_EVENT_CHANNEL_READY);
  event->at = channel->ready_at;
}

int nm_link_channel_open(nm_engine *engine, nm_link *link, bool all_types,
                         void (*fired)(void *user, nm_timer *timer)) {
  if (link->channel != NULL) {
    return NM_OK;
  }
  int status = nm_engine_reserve_timers(engine, 1);
  if (status != NM_OK) {
    return status;
  }
  nm_link_channel *channel = nm_alloc_zero(engine->mem, 1, sizeof(*channel));
  if (channel == NULL) {
    nm_engine_unreserve_timers(engine, 1);
    return NM_E(MEMORY);
  }
  nm_channel_outlet own = outlet;
  own.user = channel;
  nm_channel_init(&channel->core, engine->mem, &own, link->rtt_us,
                  nm_link_mdu_of(link), all_types);
  channel->engine = engine;
  channel->link = link;
  channel->next_serial = 1;
  channel->ready.take = take_ready;
  channel->timer.fire = fired;
  link->channel = channel;
  return NM_OK;
}

void nm_link_channel_close(nm_engine *engine, nm_link *link) {
  nm_link_channel *channel = link->channel;
  if (channel == NULL) {
    return;
  }
  nm_channel_close(&channel->core);
  nm_letters_close(channel);
  nm_streams_tell_rest(channel);
  nm_streams_close(channel);
  nm_timer_disarm(&engine->timers, &channel->timer);
  nm_engine_unreserve_timers(engine, 1);
}

/* ---- after every change ---- */

static void tell_ready(nm_link_channel *channel) {
  if (!channel->wanted || channel->ready.queued || channel->waiting_count > 0 ||
      nm_channel_room(&channel->core) == 0) {
    return;
  }
  channel->wanted = false;
  channel->app_turn_us = channel->engine->now.mono_us + APP_TURN_US;
  channel->ready_at = channel->engine->now;
  nm_engine_emit_entry(channel->engine, &channel->ready, NM_EVENT_CHANNEL_READY,
                       0, &channel->link->destination);
}

static void arm(nm_link_channel *channel) {
  nm_engine *engine = channel->engine;
  uint64_t now = engine->now.mono_us;
  uint64_t due = nm_channel_deadline(&channel->core);
  if (channel->stuck && due > now + STUCK_US) {
    due = now + STUCK_US;
  }
  if (channel->turn_first != NULL && now < channel->app_turn_us &&
      due > channel->app_turn_us) {
    due = channel->app_turn_us;
  }
  if (due == NM_TIMER_NEVER) {
    nm_timer_disarm(&engine->timers, &channel->timer);
  } else {
    nm_engine_arm(engine, &channel->timer, due > now ? due - now : 0);
  }
}

/* Messages and streams in turn, while there is room. */
static void pump(nm_link_channel *channel) {
  bool more = true;
  channel->stuck = false;
  while (more) {
    more = nm_letters_step(channel);
    more = nm_streams_step(channel) || more;
  }
}

void nm_link_channel_settle(nm_link_channel *channel) {
  nm_channel_set_rtt(&channel->core, channel->link->rtt_us);
  tell_ready(channel);
  pump(channel);
  arm(channel);
}

int nm_link_channel_tick(nm_engine *engine, nm_link_channel *channel) {
  nm_channel_set_rtt(&channel->core, channel->link->rtt_us);
  int status = nm_channel_tick(&channel->core, engine->now.mono_us);
  if (status == NM_OK) {
    nm_link_channel_settle(channel);
  }
  return status;
}

nm_link *nm_link_of_channel_timer(nm_timer *timer, nm_link_channel **channel) {
  *channel = (nm_link_channel *)(void *)((char *)timer -
                                         offsetof(nm_link_channel, timer));
  return (*channel)->link;
}

/* ---- packets ---- */

nm_drop nm_link_channel_packet(nm_engine *engine, nm_link *link,
                               nm_block *plain, nm_input *input) {
  nm_link_channel *channel = link->channel;
  if (channel == NULL) {
    return NM_DROP_CHANNEL_CLOSED;
  }
  channel->plain = plain;
  channel->input = input;
  nm_drop drop = nm_channel_receive(&channel->core, &input->frame->hash,
                                    nm_block_span(plain), engine->now.mono_us);
  channel->plain = NULL;
  channel->input = NULL;
  if (channel->core.late_count > 0) {
    arm(channel);
  }
  return drop;
}

bool nm_link_channel_awaits(const nm_link *link, const nm_packet_hash *hash) {
  return link->channel != NULL && nm_channel_awaits(&link->channel->core, hash);
}

bool nm_link_channel_proven(nm_engine *engine, nm_link *link,
                            const nm_packet_hash *hash) {
  nm_link_channel *channel = link->channel;
  if (channel == NULL ||
      !nm_channel_proven(&channel->core, hash, engine->now.mono_us)) {
    return false;
  }
  nm_link_channel_settle(channel);
  return true;
}

/* ---- channel.h ---- */

static nm_link_channel *open_channel(const nm_engine *engine, nm_link_ref ref) {
  const nm_link *link = nm_link_find(engine, ref);
  return link != NULL && link->channel != NULL && link->channel->core.open
             ? link->channel
             : NULL;
}

int nm_engine_channel_register(nm_engine *engine, nm_link_ref ref,
                               uint16_t msgtype) {
  nm_link_channel *channel = open_channel(engine, ref);
  return channel == NULL ? NM_E(STATE)
                         : nm_channel_register(&channel->core, msgtype);
}

int nm_engine_channel_pause(nm_engine *engine, nm_link_ref ref, bool paused) {
  nm_link_channel *channel = open_channel(engine, ref);
  if (channel == NULL) {
    return NM_E(STATE);
  }
  channel->paused = paused;
  return NM_OK;
}

int nm_engine_channel_send(nm_engine *engine, nm_link_ref ref, uint16_t msgtype,
                           nm_span payload, nm_op_id *op, uint16_t *sequence,
                           nm_now now) {
  engine->now = now;
  nm_link_channel *channel = open_channel(engine, ref);
  if (channel == NULL) {
    return NM_E(STATE);
  }
  nm_channel_letter *letter = op == NULL ? NULL : nm_letter_new(channel);
  if (op != NULL && letter == NULL) {
    return NM_E(MEMORY);
  }
  int status = channel->waiting_count > 0
                   ? NM_E(LIMIT)
                   : nm_channel_send(&channel->core, msgtype, &payload, 1,
                                     letter, sequence, now.mono_us);
  if (status == NM_OK) {
    channel->app_turn_us = 0;
    if (op != NULL) {
      *op = letter->op;
    }
  } else if (letter != NULL) {
    nm_letter_scrap(letter);
  }
  channel->wanted = channel->wanted || status == NM_E(LIMIT);
  nm_link_channel_settle(channel);
  return status;
}

static int check_message(const nm_link_channel *channel, uint16_t msgtype,
                         nm_span payload) {
  if (msgtype >= NM_CHANNEL_RESERVED && msgtype != NM_CHANNEL_STREAM_DATA) {
    return NM_E(RESERVED);
  }
  if (payload.len > channel->core.mdu) {
    return NM_E(TOO_LARGE);
  }
  return channel->waiting_count < NM_CHANNEL_WAITING_MAX ? NM_OK : NM_E(LIMIT);
}

int nm_engine_channel_post(nm_engine *engine, nm_link_ref ref, uint16_t msgtype,
                           nm_block *payload, nm_op_id *op, nm_now now) {
  engine->now = now;
  nm_link_channel *channel = open_channel(engine, ref);
  if (channel == NULL) {
    return NM_E(STATE);
  }
  int status = check_message(channel, msgtype, nm_block_span(payload));
  nm_channel_letter *letter = status == NM_OK ? nm_letter_new(channel) : NULL;
  if (letter == NULL) {
    return status == NM_OK ? NM_E(MEMORY) : status;
  }
  *op = letter->op;
  letter->msgtype = msgtype;
  letter->payload = payload == NULL ? NULL : nm_block_hold(payload);
  nm_letter_wait(letter);
  nm_link_channel_settle(channel);
  return NM_OK;
}

void nm_channel_op_cancel(nm_engine *engine, nm_op *op) {
  (void)engine;
  nm_letter_cancel(op->owner);
}

void nm_channel_describe(const nm_channel *channel, nm_channel_info *info) {
  memset(info, 0, sizeof(*info));
  info->open = channel->open;
  info->mdu = (uint32_t)channel->mdu;
  info->window = channel->window;
  info->room = nm_channel_room(channel);
  info->outstanding = channel->out_count;
  info->ahead = channel->in_count;
  info->next_tx = channel->next_tx;
  info->next_rx = channel->next_rx;
  info->rtt_us = channel->rtt_us;
  info->proof_rtt_us = channel->proof_rtt_us;
  info->proof_var_us = channel->proof_var_us;
  info->all_types = channel->all_types;
  info->types = channel->type_count;
  info->counters = channel->counters;
}

int nm_engine_channel_info(const nm_engine *engine, nm_link_ref ref,
                           nm_channel_info *info) {
  memset(info, 0, sizeof(*info));
  const nm_link *link = nm_link_find(engine, ref);
  if (link == NULL || link->channel == NULL) {
    return NM_E(MISSING);
  }
  const nm_link_channel *channel = link->channel;
  nm_channel_describe(&channel->core, info);
  info->rtt_us = link->rtt_us;
  info->paused = channel->paused;
  info->waiting = channel->waiting_count;
  info->streams = channel->stream_count;
  info->writes = channel->write_count;
  return NM_OK;
}

size_t nm_engine_channel_sent_ring(const nm_engine *engine, nm_link_ref ref,
                                   nm_channel_sent *ring, size_t cap) {
  const nm_link_channel *channel = open_channel(engine, ref);
  if (channel == NULL) {
    return 0;
  }
  size_t count = nm_channel_sent_ring(&channel->core, ring, cap);
  for (size_t i = 0; i < count && i < cap; i++) {
    ring[i].owner = NULL;
  }
  return count;
}

size_t nm_engine_channel_ahead_ring(const nm_engine *engine, nm_link_ref ref,
                                    uint16_t *ring, size_t cap) {
  const nm_link_channel *channel = open_channel(engine, ref);
  return channel == NULL ? 0 : nm_channel_ahead_ring(&channel->core, ring, cap);
}
