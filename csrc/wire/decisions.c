#include "wire/decisions.h"

#include "base/cursor.h"
#include "crypto/token.h"

/* ------------------------------------------------------------------ sizes */

uint32_t nm_mtu_for_bitrate(double bitrate) {
  static const struct {
    double bitrate;
    uint32_t mtu;
  } steps[] = {{1e9, 524288},  {750e6, 262144}, {400e6, 131072}, {200e6, 65536},
               {100e6, 32768}, {10e6, 16384},   {5e6, 8192},     {2e6, 4096},
               {1e6, 2048},    {62500, 1024}};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    if (bitrate >= steps[i].bitrate) {
      return steps[i].mtu;
    }
  }
  return 0;
}

size_t nm_link_mdu(size_t mtu) {
  size_t overhead = NM_IFAC_SIZE_MIN + NM_HEADER_1_SIZE + NM_TOKEN_OVERHEAD;
  if (mtu < overhead + NM_AES_BLOCK) {
    return 0;
  }
  return (mtu - overhead) / NM_AES_BLOCK * NM_AES_BLOCK - 1;
}

static const nm_interface_defaults interfaces[NM_INTERFACE_COUNT] = {
    [NM_INTERFACE_TCP] = {"tcp", 262144, 16384, NM_MTU_AUTO, 10e6, 16, true},
    [NM_INTERFACE_BACKBONE] = {"backbone", 1048576, 32768, NM_MTU_AUTO, 100e6,
                               16, true},
    /* Applications keep the large MTU: the shared instance clamps links to the
     * real next hop (RNS 2, 5.8). */
    [NM_INTERFACE_LOCAL] = {"local", 262144, 262144, NM_MTU_AUTO, 1e9, 0,
                            false},
    [NM_INTERFACE_UDP] = {"udp", 1064, 1064, NM_MTU_NONE, 10e6, 16, true},
    [NM_INTERFACE_AUTO] = {"auto", 1196, 1196, NM_MTU_FIXED, 10e6, 16, true},
    [NM_INTERFACE_I2P] = {"i2p", 1064, 1064, NM_MTU_NONE, 256e3, 16, true},
    [NM_INTERFACE_PIPE] = {"pipe", 1064, 1064, NM_MTU_NONE, 1e6, 8, true},
    [NM_INTERFACE_SERIAL] = {"serial", 564, 564, NM_MTU_NONE, 0, 8, false},
    [NM_INTERFACE_KISS] = {"kiss", 564, 564, NM_MTU_NONE, 1200, 8, false},
    [NM_INTERFACE_AX25] = {"ax25", 564, 564, NM_MTU_NONE, 1200, 8, false},
    [NM_INTERFACE_RNODE] = {"rnode", 508, 508, NM_MTU_NONE, 0, 8, false},
    [NM_INTERFACE_WEAVE] = {"weave", 1024, 1024, NM_MTU_FIXED, 250e3, 16,
                            true}};

const nm_interface_defaults *nm_interface_defaults_of(nm_interface_type type) {
  return (unsigned)type < NM_INTERFACE_COUNT ? &interfaces[type] : NULL;
}

const nm_interface_defaults *nm_interface_defaults_named(nm_span name) {
  for (size_t i = 0; i < NM_INTERFACE_COUNT; i++) {
    const char *text = interfaces[i].name;
    if (nm_span_equal(name, nm_span_of(text, strlen(text)))) {
      return &interfaces[i];
    }
  }
  return NULL;
}

double nm_rnode_bitrate(uint32_t sf, uint32_t cr, double bandwidth) {
  if (sf < 5 || sf > 12 || cr < 5 || cr > 8 || !(bandwidth > 0)) {
    return 0;
  }
  double symbols = (double)(1u << sf) / (bandwidth / 1000);
  return (double)sf * ((4.0 / (double)cr) / symbols) * 1000;
}

/* -------------------------------------------------------------- time-outs */

static double larger(double a, double b) {
  return a > b ? a : b;
}

static double smaller(double a, double b) {
  return a < b ? a : b;
}

/* Seconds that a packet of full size takes at |bitrate|; 0 when unknown. */
static double packet_time(double bitrate) {
  return bitrate > 0 ? NM_MTU * 8 / bitrate : 0;
}

static double hop_time(uint32_t hops) {
  return NM_PER_HOP_TIMEOUT * (double)(hops > 1 ? hops : 1);
}

double nm_first_hop_timeout(double bitrate) {
  return packet_time(bitrate) + NM_PER_HOP_TIMEOUT;
}

double nm_receipt_timeout(uint32_t hops, double bitrate) {
  return nm_first_hop_timeout(bitrate) + NM_PER_HOP_TIMEOUT * (double)hops;
}

double nm_link_receipt_timeout(double rtt) {
  return larger(rtt * NM_TRAFFIC_TIMEOUT_FACTOR, NM_LINK_RECEIPT_MIN);
}

double nm_establishment_timeout(uint32_t hops, double bitrate) {
  return nm_first_hop_timeout(bitrate) + hop_time(hops);
}

double nm_responder_timeout(uint32_t hops) {
  return hop_time(hops) + NM_RESPONDER_GRACE;
}

double nm_relayed_proof_timeout(uint32_t path_hops, double bitrate) {
  return hop_time(path_hops) + packet_time(bitrate);
}

double nm_request_timeout(double rtt) {
  return rtt * NM_TRAFFIC_TIMEOUT_FACTOR +
         NM_RESPONSE_TIME_MAX * NM_RESPONSE_TIME_FACTOR;
}

double nm_channel_timeout(double rtt, uint32_t tries, uint32_t ring) {
  double backoff = 1;
  for (uint32_t i = 1; i < tries && i < 64; i++) {
    backoff *= 1.5;
  }
  return backoff * larger(rtt * 2.5, 0.025) * ((double)ring + 1.5);
}

double nm_keepalive_interval(double rtt) {
  if (!(rtt > 0)) {
    return NM_KEEPALIVE_MAX;
  }
  double scaled = rtt * (NM_KEEPALIVE_MAX / NM_KEEPALIVE_RTT_MAX);
  return larger(smaller(scaled, NM_KEEPALIVE_MAX), NM_KEEPALIVE_MIN);
}

double nm_stale_time(double rtt) {
  return NM_STALE_FACTOR * nm_keepalive_interval(rtt);
}

double nm_medium_path_timeout(double lowest_bitrate) {
  if (!(lowest_bitrate > 0)) {
    return 0;
  }
  double bitrate = larger(lowest_bitrate, NM_BITRATE_MIN);
  return 2 * packet_time(bitrate) + NM_PER_HOP_TIMEOUT;
}

double nm_discovery_timeout(double lowest_bitrate) {
  return larger(NM_PATH_REQUEST_TIMEOUT,
                nm_medium_path_timeout(lowest_bitrate));
}

/* ---------------------------------------------------------------- windows */

nm_channel_window nm_channel_window_open(double rtt) {
  if (rtt > NM_CHANNEL_RTT_SLOW) {
    return (nm_channel_window){1, 1, 1, 1, 0, 0};
  }
  return (nm_channel_window){NM_CHANNEL_WINDOW,
                             NM_CHANNEL_WINDOW_MAX_SLOW,
                             NM_CHANNEL_WINDOW_MIN,
                             NM_CHANNEL_WINDOW_FLEXIBILITY,
                             0,
                             0};
}

nm_channel_window nm_channel_window_delivered(nm_channel_window w, double rtt) {
  w.window += w.window < w.window_max;
  if (!(rtt > 0)) {
    return w; /* not known: no verdict on the link's speed */
  }
  if (rtt > NM_CHANNEL_RTT_FAST) {
    w.fast_rounds = 0;
    if (rtt > NM_CHANNEL_RTT_MEDIUM) {
      w.medium_rounds = 0;
      return w;
    }
    w.medium_rounds++;
    if (w.medium_rounds == NM_CHANNEL_RATE_ROUNDS &&
        w.window_max < NM_CHANNEL_WINDOW_MAX_MEDIUM) {
      w.window_max = NM_CHANNEL_WINDOW_MAX_MEDIUM;
      w.window_min = NM_CHANNEL_WINDOW_MIN_MEDIUM;
    }
    return w;
  }
  w.fast_rounds++;
  if (w.fast_rounds == NM_CHANNEL_RATE_ROUNDS &&
      w.window_max < NM_CHANNEL_WINDOW_MAX_FAST) {
    w.window_max = NM_CHANNEL_WINDOW_MAX_FAST;
    w.window_min = NM_CHANNEL_WINDOW_MIN_FAST;
  }
  return w;
}

nm_channel_window nm_channel_window_timed_out(nm_channel_window w) {
  if (w.window > w.window_min) {
    w.window--;
    w.window_max -= w.window_max > w.window_min + w.flexibility;
  }
  return w;
}

/* ------------------------------------------------------------------ paths */

double nm_path_lifetime(int mode) {
  if (mode == NM_IF_ACCESS_POINT) {
    return NM_PATH_LIFE_ACCESS_POINT;
  }
  return mode == NM_IF_ROAMING ? NM_PATH_LIFE_ROAMING : NM_PATH_LIFE;
}

double nm_announce_cap_delay(size_t bytes, double bitrate, double cap) {
  if (!(bitrate > 0) || !(cap > 0)) {
    return 0;
  }
  return (double)bytes * 8 / bitrate / cap;
}

uint64_t nm_blob_emitted(const uint8_t blob[NM_RANDOM_BLOB_SIZE]) {
  nm_reader r = nm_reader_of(nm_span_of(blob, NM_RANDOM_BLOB_SIZE));
  (void)nm_reader_take(&r, 5);
  uint64_t high = nm_reader_u8(&r);
  return (high << 32) | nm_reader_u32(&r);
}

/* What the blobs of a path say about an announce. */
typedef struct blob_facts {
  bool seen;        /* its blob is among them */
  uint64_t newest;  /* the newest emission time */
  uint64_t reached; /* the running maximum that stops once it is not below the
                       announce's own time (RNS 1, 8.5.1 step 8) */
} blob_facts;

static blob_facts look_at_blobs(const nm_announce_situation *s,
                                uint64_t emitted) {
  blob_facts facts = {0};
  nm_span own = nm_span_of(s->blob, NM_RANDOM_BLOB_SIZE);
  nm_reader r = nm_reader_of(
      nm_span_of(s->path_blobs, s->path_blob_count * NM_RANDOM_BLOB_SIZE));
  bool stopped = false;
  for (size_t i = 0; i < s->path_blob_count; i++) {
    nm_span blob = nm_reader_take(&r, NM_RANDOM_BLOB_SIZE);
    uint64_t time = nm_blob_emitted(blob.ptr);
    facts.seen |= nm_span_equal(blob, own);
    facts.newest = time > facts.newest ? time : facts.newest;
    if (!stopped) {
      facts.reached = facts.newest;
      stopped = facts.reached >= emitted;
    }
  }
  return facts;
}

nm_announce_decision nm_announce_decide(const nm_announce_situation *s) {
  if (!s->has_path) {
    return NM_ANNOUNCE_NEW;
  }
  uint64_t emitted = nm_blob_emitted(s->blob);
  blob_facts facts = look_at_blobs(s, emitted);
  if (s->hops <= s->path_hops) {
    if (!facts.seen && emitted > facts.newest) {
      return NM_ANNOUNCE_NEWER;
    }
    return emitted == facts.newest && s->gravity > s->path_gravity
               ? NM_ANNOUNCE_GRAVITY
               : NM_ANNOUNCE_REFUSED;
  }
  if (s->path_expired) {
    return facts.seen ? NM_ANNOUNCE_REFUSED : NM_ANNOUNCE_EXPIRED;
  }
  if (emitted > facts.reached) {
    return facts.seen ? NM_ANNOUNCE_REFUSED : NM_ANNOUNCE_FARTHER;
  }
  return emitted == facts.reached && s->path_unresponsive
             ? NM_ANNOUNCE_UNRESPONSIVE
             : NM_ANNOUNCE_REFUSED;
}

bool nm_way_preferred(const nm_way_choice *a, const nm_way_choice *b) {
  if (a->emitted != b->emitted) {
    return a->emitted > b->emitted;
  }
  if (a->hops != b->hops) {
    return a->hops < b->hops;
  }
  if (a->gravity != b->gravity) {
    return a->gravity > b->gravity;
  }
  return a->bitrate > b->bitrate;
}

static nm_propagation_verdict allow_if(bool allowed) {
  return allowed ? NM_PROPAGATE_ALLOW : NM_PROPAGATE_BLOCK;
}

nm_propagation_verdict nm_announce_propagation(const nm_propagation *p) {
  int source = p->source_mode;
  if (!p->local && !p->has_path) {
    return NM_PROPAGATE_BLOCK;
  }
  if (!p->local && !p->out_from_internal && source == NM_IF_INTERNAL) {
    return NM_PROPAGATE_BLOCK;
  }
  switch (p->out_mode) {
  case NM_IF_ACCESS_POINT:
    return NM_PROPAGATE_BLOCK;
  case NM_IF_INTERNAL:
    if (!p->local) {
      return allow_if(source != 0 && (p->source_to_internal == NM_YES ||
                                      source != NM_IF_BOUNDARY));
    }
    break;
  case NM_IF_ROAMING:
    return allow_if(p->local || (source != 0 && source != NM_IF_ROAMING &&
                                 source != NM_IF_BOUNDARY));
  case NM_IF_BOUNDARY:
    return allow_if(p->local || (source != 0 && source != NM_IF_ROAMING));
  default:
    break;
  }
  return p->hops == 0 ? NM_PROPAGATE_ALLOW : NM_PROPAGATE_CAP;
}

/* Whether requesters on an interface in |mode| are searched for everywhere. */
static bool searches_everywhere(int mode, bool recursive) {
  return recursive || mode == NM_IF_ACCESS_POINT || mode == NM_IF_GATEWAY ||
         mode == NM_IF_ROAMING || mode == NM_IF_INTERNAL;
}

bool nm_path_search_starts(int mode, bool recursive) {
  return searches_everywhere(mode, recursive) || mode == NM_IF_BOUNDARY;
}

bool nm_path_search_uses(int mode, bool recursive, int out_mode) {
  if (searches_everywhere(mode, recursive)) {
    return true;
  }
  return mode == NM_IF_BOUNDARY &&
         (out_mode == NM_IF_BOUNDARY || out_mode == NM_IF_GATEWAY);
}

bool nm_announce_rate_blocks(nm_announce_rate *rate, double now, double target,
                             uint32_t grace, double penalty) {
  if (!rate->known) {
    *rate = (nm_announce_rate){.known = true, .last = now};
    return false;
  }
  if (!(now > rate->blocked_until)) {
    return true;
  }
  if (now - rate->last < target) {
    rate->violations += rate->violations < UINT32_MAX;
  } else {
    rate->violations -= rate->violations > 0;
  }
  if (rate->violations > grace) {
    rate->blocked_until = rate->last + target + penalty;
    return true;
  }
  rate->last = now;
  return false;
}

nm_link_forwarding nm_link_forward(const nm_link_route *route,
                                   uint32_t interface, uint32_t hops) {
  if (!route->validated) {
    return NM_LINK_FORWARD_UNPROVEN;
  }
  if (route->next_hop_interface == route->received_interface) {
    /* Both neighbours are on one medium: hops alone tell them apart. */
    return hops == route->remaining_hops || hops == route->taken_hops
               ? NM_LINK_FORWARD_NEXT
               : NM_LINK_FORWARD_NOT_OURS;
  }
  if (interface == route->next_hop_interface && hops == route->remaining_hops) {
    return NM_LINK_FORWARD_RECEIVED;
  }
  return interface == route->received_interface && hops == route->taken_hops
             ? NM_LINK_FORWARD_NEXT
             : NM_LINK_FORWARD_NOT_OURS;
}

/* -------------------------------------------------- automatic discovery */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int check_group(char scope, char address_type) {
  bool known_scope = scope == '2' || scope == '4' || scope == '5' ||
                     scope == '8' || scope == 'e';
  bool known_type = address_type == '0' || address_type == '1';
  return known_scope && known_type ? NM_OK : NM_E(VALUE);
}

int nm_group_address(nm_span group_id, char scope, char address_type,
                     uint8_t out[NM_GROUP_ADDRESS_SIZE]) {
  if (check_group(scope, address_type) != NM_OK) {
    return NM_E(VALUE);
  }
  uint8_t g[NM_HASH_SIZE];
  nm_sha256(g, group_id);
  nm_reader r = nm_reader_of(nm_span_of(g, sizeof g));
  (void)nm_reader_take(&r, 2);
  nm_writer w = nm_writer_of(out, NM_GROUP_ADDRESS_SIZE);
  nm_writer_u8(&w, 0xff);
  nm_writer_u8(&w, (uint8_t)(hex_digit(address_type) << 4 | hex_digit(scope)));
  nm_writer_u16(&w, 0);
  nm_writer_span(&w, nm_reader_take(&r, 12));
  return NM_OK;
}

/* Writes |v| in hexadecimal, at least two digits. */
static void put_group(nm_writer *w, uint16_t v) {
  static const char digits[] = "0123456789abcdef";
  for (unsigned shift = 12;; shift -= 4) {
    if (shift <= 4 || v >> shift != 0) {
      nm_writer_u8(w, (uint8_t)digits[(v >> shift) & 15]);
    }
    if (shift == 0) {
      return;
    }
  }
}

int nm_group_text(nm_span group_id, char scope, char address_type,
                  char out[NM_GROUP_TEXT_MAX]) {
  uint8_t address[NM_GROUP_ADDRESS_SIZE];
  int status = nm_group_address(group_id, scope, address_type, address);
  if (status != NM_OK) {
    return status;
  }
  char text[NM_GROUP_TEXT_MAX] = {0};
  nm_reader r = nm_reader_of(nm_span_of(address, sizeof address));
  (void)nm_reader_take(&r, 4);
  nm_writer w = nm_writer_of(text, sizeof text - 1);
  nm_writer_put(&w, "ff", 2);
  nm_writer_u8(&w, (uint8_t)address_type);
  nm_writer_u8(&w, (uint8_t)scope);
  nm_writer_put(&w, ":0", 2);
  for (int i = 0; i < 6; i++) {
    nm_writer_u8(&w, ':');
    put_group(&w, nm_reader_u16(&r));
  }
  memcpy(out, text, sizeof text);
  return w.status;
}

void nm_discovery_token(nm_span group_id, nm_span link_local,
                        uint8_t out[NM_HASH_SIZE]) {
  nm_span parts[2] = {group_id, link_local};
  nm_sha256v(out, parts, 2);
}

size_t nm_descope(nm_span in, char *out) {
  nm_reader r = nm_reader_of(in);
  nm_span text = nm_reader_until(&r, '%');
  nm_writer w = nm_writer_of(out, in.len);
  nm_reader t = nm_reader_of(text);
  nm_span head = nm_reader_take(&t, 5);
  if (t.status == NM_OK && nm_span_equal(head, nm_span_of("fe80:", 5))) {
    nm_reader look = t;
    nm_span zone = nm_reader_until(&look, ':');
    bool hex = zone.len > 0;
    for (size_t i = 0; i < zone.len; i++) {
      hex = hex && hex_digit((char)zone.ptr[i]) >= 0;
    }
    nm_span colons = nm_reader_take(&look, 2);
    if (hex && nm_span_equal(colons, nm_span_of("::", 2))) {
      nm_writer_put(&w, "fe80:", 5);
      (void)nm_reader_take(&t, zone.len + 1);
      nm_writer_span(&w, nm_reader_rest(&t));
      return w.pos;
    }
  }
  nm_writer_span(&w, text);
  return w.pos;
}
