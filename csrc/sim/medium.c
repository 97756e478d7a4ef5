/* Frames on media: queued, sent, lost, delayed, heard.
 */
#include "sim/internal.h"

#define NS_PER_US 1000u
#define NS_PER_S 1000000000u
/* The lane that all members share, as a lane's number. */
#define SHARED_LANE UINT32_MAX
#define FLIPS_MAX 4

/* ---- sending ---- */

static nm_sim_lane *lane_at(nm_sim_medium *medium, uint32_t number) {
  return number == SHARED_LANE ? &medium->shared
                               : &medium->members[number].lane;
}

/* Flips one to four bits that |draw| chooses. */
static void corrupt(uint8_t *bytes, size_t len, uint64_t draw) {
  nm_sim_rng rng = {{draw, draw ^ 1, ~draw, 1}};
  uint64_t flips = nm_sim_rng_between(&rng, 1, FLIPS_MAX);
  for (uint64_t i = 0; i < flips; i++) {
    uint64_t bit = nm_sim_rng_between(&rng, 0, len * 8 - 1);
    bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
  }
}

static void put_copy(nm_sim *sim, nm_sim_medium *medium, uint32_t from,
                     uint32_t to, nm_block *bytes, uint64_t time_ns) {
  nm_sim_member *member = &medium->members[to];
  if (medium->config.in_order) {
    if (from >= member->last_count) {
      size_t count = medium->member_count;
      uint64_t *last =
          nm_resize(&sim->own.mem, member->last_from, count * sizeof(last[0]));
      if (last == NULL) {
        nm_sim_no_memory(sim);
        return;
      }
      memset(&last[member->last_count], 0,
             (count - member->last_count) * sizeof(last[0]));
      member->last_from = last;
      member->last_count = count;
    }
    uint64_t *last = &member->last_from[from];
    time_ns = time_ns < *last ? *last : time_ns;
    *last = time_ns;
  }
  nm_sim_item item = {.time_ns = time_ns,
                      .kind = NM_SIM_ITEM_ARRIVAL,
                      .where = medium->id,
                      .to = to,
                      .from = from,
                      .ptr = nm_block_hold(bytes)};
  if (nm_sim_agenda_put(&sim->agenda, &item) != NM_OK) {
    nm_block_drop(bytes);
    nm_sim_no_memory(sim);
    return;
  }
  medium->stats.in_flight++;
}

typedef struct draws {
  bool lost;
  bool doubled;
  bool held_back;
  bool corrupted;
  uint64_t jitter_ns;
  uint64_t double_ns;
  uint64_t held_ns;
  uint64_t flips;
} draws;

/* Always the same number of draws, so that a change of one setting leaves the
 * other choices as they are. */
static draws draw_copy(nm_sim_medium *medium) {
  const nm_sim_medium_config *c = &medium->config;
  nm_sim_rng *rng = &medium->rng;
  uint64_t reorder_ns = c->reorder_us * NS_PER_US;
  draws d;
  d.lost = nm_sim_rng_chance(rng, c->loss_ppm);
  d.doubled = nm_sim_rng_chance(rng, c->duplicate_ppm);
  d.held_back = nm_sim_rng_chance(rng, c->reorder_ppm);
  d.corrupted = nm_sim_rng_chance(rng, c->corrupt_ppm);
  d.jitter_ns = nm_sim_rng_between(rng, 0, c->jitter_us * NS_PER_US);
  d.double_ns = nm_sim_rng_between(rng, 0, reorder_ns);
  d.held_ns = nm_sim_rng_between(rng, 0, reorder_ns);
  d.flips = nm_sim_rng_next(rng);
  return d;
}

static void launch(nm_sim *sim, nm_sim_medium *medium, uint32_t from,
                   uint32_t to, nm_block *bytes) {
  draws d = draw_copy(medium);
  medium->stats.copies++;
  if (d.lost) {
    medium->stats.fates[NM_SIM_LOST]++;
    nm_sim_note note = {.kind = NM_SIM_NOTE_LOSE,
                        .node = medium->members[to].node,
                        .medium = medium->id,
                        .code = NM_SIM_LOST,
                        .bytes = nm_block_span(bytes)};
    nm_sim_tell(sim, &note);
    return;
  }
  nm_block *copy = nm_block_hold(bytes);
  if (d.corrupted) {
    nm_block_drop(copy);
    copy = nm_block_copy(&sim->own.mem, nm_block_span(bytes));
    if (copy == NULL) {
      nm_sim_no_memory(sim);
      medium->stats.copies--;
      return;
    }
    corrupt(nm_block_bytes(copy), nm_block_span(copy).len, d.flips);
    medium->stats.corrupted++;
  }
  uint64_t time_ns = sim->now_ns + medium->config.delay_us * NS_PER_US +
                     d.jitter_ns + (d.held_back ? d.held_ns : 0);
  put_copy(sim, medium, from, to, copy, time_ns);
  if (d.doubled) {
    medium->stats.duplicates++;
    put_copy(sim, medium, from, to, copy, time_ns + d.double_ns);
  }
  nm_block_drop(copy);
}

/* The whole frame is on the medium: it is on its way to all who hear it. */
static void spread(nm_sim *sim, nm_sim_medium *medium, uint32_t from,
                   nm_block *bytes, nm_sim_frame_kind kind) {
  nm_sim_medium_stats *stats = &medium->stats;
  size_t len = nm_block_span(bytes).len;
  stats->sent++;
  stats->sent_bytes += len;
  stats->by_kind[kind]++;
  stats->bytes_by_kind[kind] += len;
  for (uint32_t to = 0; to < medium->member_count; to++) {
    if (to != from && medium->members[to].present) {
      launch(sim, medium, from, to, bytes);
    }
  }
}

static uint64_t air_ns(const nm_sim_medium *medium, size_t len) {
  const nm_sim_medium_config *c = &medium->config;
  uint64_t ns = c->frame_us * NS_PER_US;
  return c->rate_bps == 0 ? ns : ns + len * 8 * NS_PER_S / c->rate_bps;
}

static void report_sent(nm_sim *sim, nm_sim_node *node, uint32_t boot,
                        nm_op_id op, bool ok) {
  if (op != 0 && node->engine != NULL && node->boots == boot) {
    nm_engine_sent(node->engine, op, ok, nm_sim_now(sim, node->id));
  }
}

/* Starts to send the first frame of a lane. */
static nm_sim_node *start(nm_sim *sim, nm_sim_medium *medium, uint32_t number) {
  nm_sim_lane *lane = lane_at(medium, number);
  nm_sim_frame *frame = lane->first;
  nm_sim_node *node = nm_sim_node_at(sim, medium->members[frame->member].node);
  medium->members[frame->member].waiting--;
  lane->busy = true;
  lane->busy_ns = air_ns(medium, nm_block_span(frame->bytes).len);
  nm_sim_item item = {.time_ns = sim->now_ns + lane->busy_ns,
                      .kind = NM_SIM_ITEM_SENT,
                      .where = medium->id,
                      .to = number};
  if (nm_sim_agenda_put(&sim->agenda, &item) != NM_OK) {
    nm_sim_no_memory(sim);
  }
  report_sent(sim, node, frame->boot, frame->op, true);
  return node;
}

nm_sim_node *nm_sim_medium_sent(nm_sim *sim, const nm_sim_item *item) {
  nm_sim_medium *medium = nm_sim_medium_at(sim, item->where);
  nm_sim_lane *lane = lane_at(medium, item->to);
  nm_sim_frame *frame = lane->first;
  lane->busy = false;
  lane->first = frame->next;
  lane->last = lane->first == NULL ? NULL : lane->last;
  medium->stats.waiting--;
  medium->airtime_ns += lane->busy_ns;
  if (frame->swept) {
    medium->stats.fates[NM_SIM_SWEPT]++;
  } else {
    spread(sim, medium, frame->member, frame->bytes, frame->kind);
  }
  nm_block_drop(frame->bytes);
  nm_release(&sim->own.mem, frame);
  nm_sim_node *next = lane->first == NULL ? NULL : start(sim, medium, item->to);
  nm_sim_check_medium(sim, medium);
  return next;
}

static bool enqueue(nm_sim *sim, nm_sim_medium *medium, nm_sim_node *node,
                    uint32_t from, nm_block *bytes, nm_op_id op,
                    nm_sim_frame_kind kind) {
  uint32_t number = medium->config.half_duplex ? SHARED_LANE : from;
  nm_sim_lane *lane = lane_at(medium, number);
  nm_sim_frame *frame = nm_alloc_zero(&sim->own.mem, 1, sizeof(*frame));
  if (frame == NULL) {
    nm_sim_no_memory(sim);
    return false;
  }
  frame->bytes = nm_block_hold(bytes);
  frame->op = op;
  frame->member = from;
  frame->boot = node->boots;
  frame->kind = kind;
  if (lane->last == NULL) {
    lane->first = frame;
  } else {
    lane->last->next = frame;
  }
  lane->last = frame;
  medium->stats.waiting++;
  medium->members[from].waiting++;
  if (!lane->busy) {
    (void)start(sim, medium, number);
  }
  return true;
}

/* The frame with the access code of the interface, or as it is. NULL when that
 * fails. Takes over one reference. */
static nm_block *with_access(nm_sim *sim, const nm_iface_spec *spec,
                             nm_block *packet) {
  if (spec == NULL || !spec->ifac_set) {
    return packet;
  }
  nm_span raw = nm_block_span(packet);
  nm_block *out = nm_block_new(&sim->own.mem, raw.len + spec->ifac.size);
  int len = -1;
  if (out != NULL) {
    nm_mspan room = {nm_block_bytes(out), raw.len + spec->ifac.size};
    len = nm_egress(&spec->ifac, raw, room);
  }
  nm_block_drop(packet);
  if (len < 0) {
    nm_block_drop(out);
    return NULL;
  }
  nm_block_trim(out, (size_t)len);
  return out;
}

static nm_sim_fate fate_of(const nm_sim_medium *medium,
                           const nm_sim_member *member, const nm_block *bytes,
                           bool timed) {
  const nm_sim_medium_config *c = &medium->config;
  if (bytes == NULL) {
    return NM_SIM_REFUSED_ACCESS;
  }
  if (c->mtu != 0 && nm_block_span(bytes).len > c->mtu) {
    return NM_SIM_REFUSED_SIZE;
  }
  return timed && member->waiting >= c->queue_frames ? NM_SIM_REFUSED_FULL
                                                     : NM_SIM_SENT;
}

void nm_sim_medium_send(nm_sim *sim, nm_sim_node *node, const nm_output *out) {
  const nm_sim_port *port =
      out->iface < node->port_count ? &node->ports[out->iface] : NULL;
  nm_sim_medium *medium =
      port == NULL ? NULL : nm_sim_medium_at(sim, port->medium);
  if (medium == NULL) {
    report_sent(sim, node, node->boots, out->op, false);
    nm_block_drop(out->packet);
    return;
  }
  nm_sim_member *member = &medium->members[port->member];
  nm_sim_frame_kind kind = nm_sim_frame_kind_of(nm_block_span(out->packet));
  medium->stats.offered++;
  medium->stats.offered_bytes += nm_block_span(out->packet).len;
  nm_block *bytes =
      with_access(sim, nm_engine_iface(node->engine, out->iface), out->packet);
  bool timed = medium->config.rate_bps != 0 || medium->config.frame_us != 0;
  nm_sim_fate fate = fate_of(medium, member, bytes, timed);
  medium->stats.fates[fate]++;
  node->stats.frames_out++;
  node->stats.bytes_out += nm_block_span(bytes).len;
  nm_sim_note note = {.kind = NM_SIM_NOTE_SEND,
                      .node = node->id,
                      .medium = port->medium,
                      .iface = out->iface,
                      .code = (int)fate,
                      .bytes = nm_block_span(bytes)};
  nm_sim_tell(sim, &note);
  if (fate != NM_SIM_SENT) {
    report_sent(sim, node, node->boots, out->op, false);
  } else if (timed) {
    (void)enqueue(sim, medium, node, port->member, bytes, out->op, kind);
  } else {
    report_sent(sim, node, node->boots, out->op, true);
    spread(sim, medium, port->member, bytes, kind);
  }
  nm_block_drop(bytes);
  nm_sim_check_medium(sim, medium);
}

/* ---- hearing ---- */

static bool is_deaf(const nm_sim_member *member, uint32_t from) {
  size_t word = from / 64;
  return word < member->deaf_words &&
         (member->deaf_to[word] & (uint64_t)1 << (from % 64)) != 0;
}

nm_sim_member *nm_sim_medium_arrival(nm_sim *sim, const nm_sim_item *item) {
  nm_sim_medium *medium = nm_sim_medium_at(sim, item->where);
  nm_sim_member *member = &medium->members[item->to];
  medium->stats.in_flight--;
  nm_sim_fate fate = !member->present || member->iface == 0 ? NM_SIM_GONE
                     : is_deaf(member, item->from)          ? NM_SIM_CUT
                                                            : NM_SIM_DELIVERED;
  medium->stats.fates[fate]++;
  if (fate == NM_SIM_DELIVERED) {
    return member;
  }
  const nm_block *frame = item->ptr;
  nm_sim_note note = {.kind = NM_SIM_NOTE_LOSE,
                      .node = member->node,
                      .medium = item->where,
                      .code = (int)fate,
                      .bytes = nm_block_span(frame)};
  nm_sim_tell(sim, &note);
  nm_sim_check_medium(sim, medium);
  return NULL;
}

/* ---- members that go ---- */

/* Frames of one member that wait in a lane are gone; the one that is being
 * sent is broken off. With |node| their operations are told. */
static void sweep_lane(nm_sim *sim, nm_sim_medium *medium, nm_sim_lane *lane,
                       uint32_t member, nm_sim_node *node) {
  nm_sim_frame **at = &lane->first;
  nm_sim_frame *kept = NULL;
  while (*at != NULL) {
    nm_sim_frame *frame = *at;
    bool sending = lane->busy && frame == lane->first;
    if (frame->member != member || sending) {
      frame->swept = frame->swept || frame->member == member;
      kept = frame;
      at = &frame->next;
      continue;
    }
    *at = frame->next;
    medium->stats.waiting--;
    medium->members[member].waiting--;
    medium->stats.fates[NM_SIM_SWEPT]++;
    if (node != NULL) {
      report_sent(sim, node, frame->boot, frame->op, false);
    }
    nm_block_drop(frame->bytes);
    nm_release(&sim->own.mem, frame);
  }
  lane->last = kept;
}

void nm_sim_member_sweep(nm_sim *sim, nm_sim_medium *medium, uint32_t member,
                         nm_sim_node *node) {
  sweep_lane(sim, medium, &medium->shared, member, node);
  sweep_lane(sim, medium, &medium->members[member].lane, member, node);
  nm_sim_check_medium(sim, medium);
}

nm_sim_member *nm_sim_member_of(const nm_sim_medium *medium,
                                nm_sim_node_id node) {
  for (uint32_t i = 0; medium != NULL && i < medium->member_count; i++) {
    if (medium->members[i].node == node) {
      return &medium->members[i];
    }
  }
  return NULL;
}

void nm_sim_medium_sweep(nm_sim *sim, nm_sim_node *node) {
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    nm_sim_member *member = nm_sim_member_of(sim->media[i], node->id);
    if (member != NULL) {
      uint32_t number = (uint32_t)(member - sim->media[i]->members);
      nm_sim_member_sweep(sim, sim->media[i], number, NULL);
    }
  }
}

static void drop_lane(nm_sim *sim, nm_sim_lane *lane) {
  while (lane->first != NULL) {
    nm_sim_frame *frame = lane->first;
    lane->first = frame->next;
    nm_block_drop(frame->bytes);
    nm_release(&sim->own.mem, frame);
  }
  lane->last = NULL;
}

void nm_sim_media_dispose(nm_sim *sim) {
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    nm_sim_medium *medium = sim->media[i];
    drop_lane(sim, &medium->shared);
    for (uint32_t k = 0; k < medium->member_count; k++) {
      nm_sim_member *member = &medium->members[k];
      drop_lane(sim, &member->lane);
      nm_ifac_wipe(&member->spec.ifac);
      nm_release(&sim->own.mem, member->deaf_to);
      nm_release(&sim->own.mem, member->last_from);
    }
    nm_release(&sim->own.mem, medium->members);
    nm_release(&sim->own.mem, medium);
  }
  nm_release(&sim->own.mem, sim->media);
  sim->media = NULL;
  sim->medium_count = 0;
}
