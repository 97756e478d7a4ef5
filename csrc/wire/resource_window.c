/* Serving part requests, and the receiver's window as a value. */
#include "wire/resource_window.h"

#include <math.h>

#define HASH_SIZE NM_RESOURCE_MAP_HASH_SIZE

/* --- Sender --- */

size_t nm_resource_sent_size(uint64_t parts) {
  return (size_t)(parts / 8 + (parts % 8 != 0 ? 1 : 0));
}

int nm_resource_server_init(nm_resource_server *server, nm_span stream,
                            nm_span hashmap, size_t sdu,
                            const uint8_t hash[NM_HASH_SIZE],
                            nm_mspan sent_map) {
  uint64_t parts = nm_resource_part_count(stream.len, sdu);
  if (parts == 0 || parts > UINT32_MAX || stream.len > UINT32_MAX ||
      hashmap.len != parts * HASH_SIZE ||
      sent_map.len < nm_resource_sent_size(parts)) {
    return NM_E(ARGUMENT);
  }
  memset(server, 0, sizeof *server);
  server->stream = stream;
  server->hashmap = hashmap;
  server->sdu = sdu;
  server->parts = (uint32_t)parts;
  server->sent_map = sent_map;
  memset(sent_map.ptr, 0, nm_resource_sent_size(parts));
  memcpy(server->hash, hash, NM_HASH_SIZE);
  return NM_OK;
}

/* The map hash at the front of |s| as a word, for comparisons only. */
static inline uint32_t word_of(nm_span s) {
  uint32_t word = 0;
  if (s.len >= HASH_SIZE) {
    memcpy(&word, s.ptr, HASH_SIZE);
  }
  return word;
}

static inline nm_span map_hash_run(const nm_resource_server *server,
                                   uint32_t index, uint32_t count) {
  return nm_span_slice(server->hashmap, (size_t)index * HASH_SIZE,
                       (size_t)count * HASH_SIZE);
}

/* The first position behind what the receiver may ask for. */
static inline uint32_t reach_end(const nm_resource_server *server) {
  return server->parts - server->floor > NM_RESOURCE_GUARD
             ? server->floor + NM_RESOURCE_GUARD
             : server->parts;
}

/* Map hashes that are compared with another one at once. */
#define CHUNK 16

/* The position of |word| among the map hashes in |run|; their number when it
 * is not there. Chunks are compared as a whole, which compilers do in vector
 * registers. */
static uint32_t position_of(nm_span run, uint32_t word) {
  uint32_t count = (uint32_t)(run.len / HASH_SIZE);
  uint32_t at = 0;
  for (; count - at >= CHUNK; at += CHUNK) {
    uint32_t words[CHUNK];
    uint32_t hits = 0;
    memcpy(words, nm_span_slice(run, (size_t)at * HASH_SIZE, sizeof words).ptr,
           sizeof words);
    for (uint32_t i = 0; i < CHUNK; i++) {
      hits |= words[i] == word ? 1u << i : 0;
    }
    if (hits != 0) {
      return at + (uint32_t)__builtin_ctz(hits);
    }
  }
  while (at < count && word_of(nm_span_slice(run, (size_t)at * HASH_SIZE,
                                             HASH_SIZE)) != word) {
    at++;
  }
  return at;
}

/* The index of the part in reach whose map hash is |word|, UINT32_MAX when
 * there is none. The search begins where the last request did: the next one is
 * seldom far from it. Map hashes in reach are distinct. */
static uint32_t locate(const nm_resource_server *server, uint32_t word) {
  uint32_t end = reach_end(server);
  uint32_t from = server->repeated >= server->floor && server->repeated < end
                      ? server->repeated
                      : server->floor;
  uint32_t at =
      from + position_of(map_hash_run(server, from, end - from), word);
  if (at < end) {
    return at;
  }
  uint32_t before = from - server->floor;
  at = server->floor +
       position_of(map_hash_run(server, server->floor, before), word);
  return at < from ? at : UINT32_MAX;
}

static inline void describe(const nm_resource_server *server, uint32_t index,
                            nm_resource_tx *tx) {
  size_t at = (size_t)index * server->sdu;
  size_t left = server->stream.len - at;
  nm_span part = nm_span_slice(server->stream, at,
                               left < server->sdu ? left : server->sdu);
  tx->ptr = part.ptr;
  tx->len = (uint32_t)part.len;
  tx->index = index;
}

/* Notes that the parts |bits| of the eight from 8 * |byte| on were sent. */
static inline void mark_sent(nm_resource_server *server, uint32_t byte,
                             uint32_t bits) {
  uint32_t fresh = bits & ~(uint32_t)server->sent_map.ptr[byte];
  server->sent_map.ptr[byte] |= (uint8_t)bits;
  for (; fresh != 0; fresh &= fresh - 1) {
    server->sent++;
  }
}

/* Which parts a request names. */
typedef struct selection {
  uint32_t run;   /* begin of a contiguous run, if `is_run` */
  uint32_t count; /* parts selected */
  uint32_t unknown;
  bool is_run;
  uint64_t bits[(NM_RESOURCE_GUARD + 63) / 64]; /* from the floor, else */
} selection;

/* The general case: any hashes in any order. */
static void select_each(const nm_resource_server *server, nm_span wanted,
                        selection *sel) {
  memset(sel, 0, sizeof *sel);
  uint32_t end = reach_end(server);
  nm_reader r = nm_reader_of(wanted);
  uint32_t next = server->floor; /* the part that follows the last match */
  while (nm_reader_left(&r) >= HASH_SIZE) {
    uint32_t word = word_of(nm_reader_take(&r, HASH_SIZE));
    uint32_t at = next;
    if (at >= end || word_of(map_hash_run(server, at, 1)) != word) {
      at = locate(server, word);
    }
    if (at == UINT32_MAX) {
      sel->unknown++;
      continue;
    }
    uint32_t bit = at - server->floor;
    uint64_t mask = (uint64_t)1 << (bit % 64);
    next = at + 1;
    sel->count += (sel->bits[bit / 64] & mask) == 0 ? 1 : 0;
    sel->bits[bit / 64] |= mask;
  }
}

/* Whether |wanted| lists the parts from |at| on, all of them in reach. The
 * first one tells mostly, without a call. */
static inline bool is_run_at(const nm_resource_server *server, nm_span wanted,
                             uint32_t at) {
  uint32_t end = reach_end(server);
  uint32_t count = (uint32_t)(wanted.len / HASH_SIZE);
  if (at < server->floor || at >= end || count > end - at) {
    return false;
  }
  nm_span run = map_hash_run(server, at, count);
  return word_of(run) == word_of(wanted) &&
         memcmp(run.ptr, wanted.ptr, wanted.len) == 0;
}

/* The common case is a run of consecutive parts: where the last request ended,
 * where it began when it is repeated, or elsewhere when the receiver has moved
 * on by less. */
static void select_parts(const nm_resource_server *server, nm_span wanted,
                         selection *sel) {
  if (wanted.len > 0) {
    uint32_t at = server->expected;
    bool is_run = is_run_at(server, wanted, at);
    if (!is_run) {
      at = server->repeated;
      is_run = is_run_at(server, wanted, at);
    }
    if (!is_run) {
      at = locate(server, word_of(wanted));
      is_run = at != UINT32_MAX && is_run_at(server, wanted, at);
    }
    if (is_run) {
      sel->run = at;
      sel->is_run = true;
      sel->count = (uint32_t)(wanted.len / HASH_SIZE);
      sel->unknown = 0;
      return;
    }
  }
  select_each(server, wanted, sel);
}

static void emit_run(nm_resource_server *server, const selection *sel,
                     nm_resource_tx *tx) {
  uint32_t end = sel->run + sel->count;
  for (uint32_t i = 0; i < sel->count; i++) {
    describe(server, sel->run + i, &tx[i]);
  }
  for (uint32_t at = sel->run; at < end;) {
    uint32_t stop = (at / 8 + 1) * 8 < end ? (at / 8 + 1) * 8 : end;
    uint32_t ones = (1u << (stop - at)) - 1;
    mark_sent(server, at / 8, ones << (at % 8));
    at = stop;
  }
  server->repeated = sel->run;
  server->expected = end;
}

static void emit_selection(nm_resource_server *server, const selection *sel,
                           nm_resource_tx *tx) {
  if (sel->is_run) {
    emit_run(server, sel, tx);
    return;
  }
  uint32_t filled = 0;
  for (uint32_t bit = 0; filled < sel->count; bit++) {
    if ((sel->bits[bit / 64] >> (bit % 64) & 1) == 0) {
      continue;
    }
    uint32_t index = server->floor + bit;
    describe(server, index, &tx[filled]);
    mark_sent(server, index / 8, 1u << (index % 8));
    server->repeated = filled == 0 ? index : server->repeated;
    server->expected = index + 1;
    filled++;
  }
}

/* The hashmap segment that follows the last known map hash. */
static int find_update(const nm_resource_server *server, nm_span last_known,
                       uint32_t *next) {
  uint32_t at = locate(server, word_of(last_known));
  if (at == UINT32_MAX || (at + 1) % NM_RESOURCE_HASHMAP_MAX != 0 ||
      at + 1 >= server->parts) {
    return NM_E(MISMATCH);
  }
  *next = at + 1;
  return NM_OK;
}

int nm_resource_serve(nm_resource_server *server, nm_span request,
                      nm_resource_tx *tx, size_t cap,
                      nm_resource_answer *answer, nm_fault *fault) {
  nm_resource_request req;
  int status = nm_resource_request_decode(request, &req, fault);
  if (status != NM_OK) {
    return status;
  }
  if (memcmp(req.hash.ptr, server->hash, NM_HASH_SIZE) != 0) {
    return nm_fault_set(fault, NM_E(MISMATCH), "request.hash", 1);
  }
  size_t at = request.len - req.wanted.len;
  if (req.wanted.len > NM_RESOURCE_GUARD * HASH_SIZE) {
    return nm_fault_set(fault, NM_E(LIMIT), "request.wanted", at);
  }
  uint32_t next = 0;
  if (req.exhausted) {
    status = find_update(server, req.last_known, &next);
    if (status != NM_OK) {
      return nm_fault_set(fault, status, "request.last_known", 1);
    }
  }
  selection sel;
  sel.is_run = false;
  select_parts(server, req.wanted, &sel);
  if (sel.count > cap) {
    return nm_fault_set(fault, NM_E(TOO_LARGE), "request.wanted", at);
  }
  emit_selection(server, &sel, tx);
  answer->count = sel.count;
  answer->unknown = sel.unknown;
  answer->send_update = req.exhausted;
  answer->update_segment = next / NM_RESOURCE_HASHMAP_MAX;
  if (req.exhausted) {
    server->floor = next > NM_RESOURCE_WINDOW_MAX_FAST + 1
                        ? next - 1 - NM_RESOURCE_WINDOW_MAX_FAST
                        : 0;
  }
  answer->all_sent = server->sent == server->parts;
  return NM_OK;
}

/* --- Receiver --- */

nm_resource_profile nm_resource_profile_start(uint32_t window) {
  nm_resource_profile p = {
      .window = window != 0 ? window : NM_RESOURCE_WINDOW,
      .window_min = NM_RESOURCE_WINDOW_MIN,
      .window_max = NM_RESOURCE_WINDOW_MAX_SLOW,
  };
  return p;
}

static void count_fast_round(nm_resource_profile *p) {
  p->fast_rounds++;
  if (p->fast_rounds == NM_RESOURCE_FAST_ROUNDS) {
    p->window_max = NM_RESOURCE_WINDOW_MAX_FAST;
  }
}

nm_resource_profile nm_resource_profile_first_part(nm_resource_profile p,
                                                   double rate) {
  if (rate > NM_RESOURCE_RATE_FAST && p.fast_rounds < NM_RESOURCE_FAST_ROUNDS) {
    count_fast_round(&p);
  }
  return p;
}

nm_resource_profile nm_resource_profile_round(nm_resource_profile p,
                                              double data_rate) {
  if (p.window < p.window_max) {
    p.window++;
    if (p.window >= p.window_min + NM_RESOURCE_WINDOW_FLEXIBILITY) {
      p.window_min++;
    }
  }
  if (data_rate > NM_RESOURCE_RATE_FAST &&
      p.fast_rounds < NM_RESOURCE_FAST_ROUNDS) {
    count_fast_round(&p);
  }
  if (p.fast_rounds == 0 && data_rate < NM_RESOURCE_RATE_VERY_SLOW &&
      p.very_slow_rounds < NM_RESOURCE_VERY_SLOW_ROUNDS) {
    p.very_slow_rounds++;
    if (p.very_slow_rounds == NM_RESOURCE_VERY_SLOW_ROUNDS) {
      p.window_max = NM_RESOURCE_WINDOW_MAX_VERY_SLOW;
    }
  }
  return p;
}

nm_resource_profile nm_resource_profile_timeout(nm_resource_profile p) {
  if (p.window > p.window_min) {
    p.window--;
    if (p.window_max > p.window_min) {
      p.window_max--;
      if (p.window_max >= p.window + NM_RESOURCE_WINDOW_FLEXIBILITY) {
        p.window_max--;
      }
    }
  }
  return p;
}

double nm_resource_rtt(double rtt_s, double sample_s, double link_rtt_s) {
  if (!(rtt_s > 0.0)) {
    return link_rtt_s;
  }
  double step = rtt_s * 0.05;
  if (sample_s < rtt_s) {
    return rtt_s - step > sample_s ? rtt_s - step : sample_s;
  }
  return rtt_s + step < sample_s ? rtt_s + step : sample_s;
}

double nm_resource_eifr(double data_rate, double previous_eifr,
                        double establishment_bytes, double link_rtt_s) {
  if (data_rate > 0.0) {
    return 8.0 * data_rate;
  }
  if (previous_eifr > 0.0) {
    return previous_eifr;
  }
  return link_rtt_s > 0.0 ? 8.0 * establishment_bytes / link_rtt_s : 0.0;
}

#define RETRY_GRACE_S 0.25
#define PER_RETRY_S 0.5
#define PROCESSING_GRACE_S 1.0
#define SENDER_GRACE_S 10.0
#define TRAFFIC_FACTOR 6.0 /* link round trips until a link gives up */
#define PROOF_FACTOR 3.0
#define PART_FACTOR_FIRST 4.0
#define PART_FACTOR 2.0
#define HASHMAP_FACTOR 3.5

double nm_resource_receive_timeout(bool responded, uint32_t outstanding,
                                   bool waiting_for_hashmap, size_t sdu,
                                   double eifr, uint32_t retries_used) {
  double extra = RETRY_GRACE_S + PER_RETRY_S * (double)retries_used;
  if (!(eifr > 0.0)) {
    return INFINITY;
  }
  if (!responded) {
    return PART_FACTOR_FIRST * (3.0 * (double)sdu / eifr) + extra;
  }
  double part_s = (double)sdu * 8.0 / eifr;
  double hashmap_s =
      waiting_for_hashmap || outstanding == 0 ? part_s * HASHMAP_FACTOR : 0.0;
  return PART_FACTOR * (double)outstanding * part_s + hashmap_s + extra;
}

double nm_resource_adv_timeout(double link_rtt_s) {
  return link_rtt_s * TRAFFIC_FACTOR + PROCESSING_GRACE_S;
}

double nm_resource_send_timeout(double rtt_s) {
  double retries = NM_RESOURCE_RETRIES;
  return rtt_s * TRAFFIC_FACTOR * retries + SENDER_GRACE_S +
         PER_RETRY_S * retries * (retries + 1.0) / 2.0;
}

double nm_resource_proof_timeout(double rtt_s) {
  return rtt_s * PROOF_FACTOR + SENDER_GRACE_S;
}
