/* The payloads of a resource transfer, and transfers in which the input decides
 * what is sent, lost and repeated. The first byte chooses. */
#include "fuzz.h"
#include "wire/resource_join.h"
#include "wire/resource_window.h"

#define SDU 16
#define PARTS 300
#define STREAM (PARTS * SDU - 5)

static void advertisement(nm_span in) {
  nm_resource_adv adv;
  nm_resource_adv again;
  nm_fault fault = {0};
  int status = nm_resource_adv_parse(in, &adv, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  MUST(lies_in(adv.hash, in) && lies_in(adv.hashmap, in));
  static uint8_t out[1 << 16];
  nm_writer w = nm_writer_of(out, sizeof out);
  MUST(nm_resource_adv_encode(&adv, &w) == NM_OK);
  MUST(w.pos == nm_resource_adv_size(&adv));
  MUST(nm_resource_adv_parse(nm_writer_done(&w), &again, NULL) == NM_OK);
  MUST(again.transfer_size == adv.transfer_size && again.flags == adv.flags);
  MUST(nm_span_equal(again.hashmap, adv.hashmap));
  MUST((again.request_id.ptr == NULL) == (adv.request_id.ptr == NULL));
  nm_resource_join join;
  status = nm_resource_join_init(&join, &adv, 64, &nm_mem_system, &fault);
  must_name(status, &fault, in.len);
  if (status == NM_OK) {
    MUST(nm_resource_adv_check(&adv, NULL) == NM_OK);
    MUST(join.stream.len == adv.transfer_size && join.height <= join.parts);
    nm_writer request = nm_writer_of(out, sizeof out);
    MUST(nm_resource_join_request(&join, 75, &request) == NM_OK);
    nm_resource_request req;
    MUST(nm_resource_request_decode(nm_writer_done(&request), &req, NULL) ==
         NM_OK);
    MUST(req.wanted.len == 4 * (size_t)join.outstanding);
  }
  nm_resource_join_dispose(&join);
}

static void small_payloads(nm_span in) {
  nm_fault fault = {0};
  nm_resource_request req;
  int status = nm_resource_request_decode(in, &req, &fault);
  must_name(status, &fault, in.len);
  MUST(status != NM_OK || nm_resource_request_size(&req) == in.len);
  nm_resource_hmu hmu;
  status = nm_resource_hmu_decode(in, &hmu, &fault);
  must_name(status, &fault, in.len);
  MUST(status != NM_OK || (lies_in(hmu.hashmap, in) && hmu.hashmap.len <= 296));
  nm_resource_proof proof;
  must_name(nm_resource_proof_decode(in, &proof, &fault), &fault, in.len);
  nm_span hash;
  must_name(nm_resource_cancel_decode(in, &hash, &fault), &fault, in.len);
  nm_span packed;
  nm_span data;
  status = nm_resource_metadata_split(in, &packed, &data, &fault);
  must_name(status, &fault, in.len);
  MUST(status != NM_OK || packed.len + data.len + 3 == in.len);
}

static void finish(nm_span in, bool compressed, bool metadata) {
  nm_resource_terms terms = {
      .compressed = compressed, .has_metadata = metadata, .limit = 100000};
  nm_fault fault = {0};
  nm_resource_result result;
  nm_buffer out;
  nm_buffer_init(&out, &nm_mem_system, NULL, 0, 1);
  /* The hash is that of what comes out, as far as it can be known. */
  nm_span body = nm_span_slice(in, 4, in.len > 4 ? in.len - 4 : 0);
  const nm_span hashed[2] = {body, nm_span_of(terms.random, 4)};
  nm_sha256v(terms.hash, hashed, 2);
  must_name(
      nm_resource_finish(in, &terms, &nm_mem_system, &out, &result, &fault),
      &fault, in.len);
  MUST(out.len <= 100000);
  nm_buffer_dispose(&out);
}

/* --- Transfers --- */

typedef struct transfer {
  uint8_t stream[STREAM];
  uint8_t map[4 * PARTS];
  uint8_t sent[PARTS / 8 + 1];
  nm_resource_server server;
  nm_resource_join join;
  nm_resource_tx tx[NM_RESOURCE_GUARD];
  nm_resource_answer answer;
} transfer;

static void transfer_init(transfer *t) {
  static const uint8_t hash[32] = {7};
  static const uint8_t random[4] = {1};
  for (size_t i = 0; i < STREAM; i++) {
    t->stream[i] = (uint8_t)(i * i / 7 + i / 256);
  }
  nm_span stream = nm_span_of(t->stream, STREAM);
  nm_resource_map_hashes(stream, SDU, random, t->map);
  nm_resource_adv adv = {
      .transfer_size = STREAM,
      .parts = PARTS,
      .hash = nm_span_of(hash, 32),
      .random = nm_span_of(random, 4),
      .original = nm_span_of(hash, 32),
      .segment = 1,
      .segments = 1,
      .flags = NM_RESOURCE_ENCRYPTED,
      .hashmap = nm_resource_hmu_slice(nm_span_of(t->map, sizeof t->map), 0)};
  MUST(nm_resource_join_init(&t->join, &adv, SDU, &nm_mem_system, NULL) ==
       NM_OK);
  MUST(nm_resource_server_init(&t->server, stream,
                               nm_span_of(t->map, sizeof t->map), SDU, hash,
                               (nm_mspan){t->sent, sizeof t->sent}) == NM_OK);
}

static void check_join(const nm_resource_join *join) {
  uint32_t have = 0;
  for (uint32_t i = 0; i < join->parts; i++) {
    have += nm_resource_join_has(join, i) ? 1 : 0;
  }
  MUST(have == join->received);
  MUST(join->first_missing <= join->parts && join->height <= join->parts);
  MUST(!nm_resource_join_has(join, join->first_missing));
  MUST(join->outstanding <= 75);
}

/* One request; |mask| says which of its parts arrive. */
static void round_trip(transfer *t, uint32_t window, uint8_t mask) {
  uint8_t request[40 + 4 * 75];
  nm_writer w = nm_writer_of(request, sizeof request);
  MUST(nm_resource_join_request(&t->join, window, &w) == NM_OK);
  MUST(nm_resource_serve(&t->server, nm_writer_done(&w), t->tx,
                         NM_RESOURCE_GUARD, &t->answer, NULL) == NM_OK);
  MUST(t->answer.unknown == 0 && t->answer.count == t->join.outstanding);
  for (uint32_t i = 0; i < t->answer.count; i++) {
    uint32_t index;
    if ((mask >> (i % 8) & 1) != 0) {
      MUST(nm_resource_join_part(&t->join,
                                 nm_span_of(t->tx[i].ptr, t->tx[i].len), window,
                                 &index) == NM_OK);
      MUST(index == t->tx[i].index);
    }
  }
  if (t->answer.send_update && (mask & 0x80) != 0) {
    nm_resource_hmu hmu = {
        nm_span_of(t->server.hash, 32), t->answer.update_segment,
        nm_resource_hmu_slice(t->server.hashmap, t->answer.update_segment)};
    MUST(nm_resource_join_update(&t->join, &hmu, NULL) == NM_OK);
  }
}

static void play(nm_span in) {
  static transfer t;
  transfer_init(&t);
  nm_reader r = nm_reader_of(in);
  while (nm_reader_left(&r) > 0 && !nm_resource_join_complete(&t.join)) {
    uint8_t op = nm_reader_u8(&r);
    if (op < 200) {
      round_trip(&t, op % 75 + 1, nm_reader_u8(&r));
    } else if (op < 220) {
      /* Bytes from elsewhere. */
      uint32_t index;
      (void)nm_resource_join_part(
          &t.join,
          nm_reader_take(&r, op % 20 < nm_reader_left(&r) ? op % 20 : 0), 0,
          &index);
    } else {
      nm_fault fault = {0};
      size_t n = nm_reader_left(&r) < 80 ? nm_reader_left(&r) : 80;
      nm_span request = nm_reader_take(&r, n);
      must_name(
          nm_resource_serve(&t.server, request, t.tx, 224, &t.answer, &fault),
          &fault, request.len);
    }
    check_join(&t.join);
  }
  for (int i = 0; i < 1000 && !nm_resource_join_complete(&t.join); i++) {
    round_trip(&t, 75, 0xFF);
  }
  MUST(nm_resource_join_complete(&t.join) && t.answer.all_sent);
  MUST(memcmp(t.join.stream.ptr, t.stream, STREAM) == 0);
  nm_resource_join_dispose(&t.join);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  nm_span in = nm_span_of(data + 1, size - 1);
  switch (data[0] % 6) {
  case 0:
    advertisement(in);
    break;
  case 1:
    small_payloads(in);
    break;
  case 2:
    play(in);
    break;
  case 3:
    finish(in, true, true);
    break;
  case 4:
    finish(in, false, true);
    break;
  default:
    finish(in, false, false);
    break;
  }
  return 0;
}
