/* Any bytes as each of the control payloads and ratchet files; the first byte
 * chooses. What is accepted is written again and read back the same. */
#include "fuzz.h"
#include "wire/control.h"
#include "wire/destination.h"
#include "wire/proof.h"
#include "wire/ratchet_file.h"

#define INPUT_MAX 4096

static void try_path_request(nm_span in) {
  nm_path_request a;
  nm_fault fault = {0};
  int status = nm_path_request_parse(in, &a, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK || a.tag.len == 0) {
    return;
  }
  uint8_t out[3 * NM_ADDRESS_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  MUST(nm_path_request_write(&w, &a, &fault) == NM_OK);
  MUST(memcmp(out, in.ptr, w.pos) == 0);
  MUST(a.tag_was_cut == (w.pos != in.len));
}

static void try_tunnel(nm_span in) {
  nm_tunnel tunnel;
  nm_fault fault = {0};
  int status = nm_tunnel_parse(in, &tunnel, &fault);
  must_name(status, &fault, in.len);
  if (status == NM_OK) {
    uint8_t tunnel_id[NM_HASH_SIZE];
    nm_tunnel_id(&tunnel, tunnel_id);
    (void)nm_tunnel_verify(&tunnel);
  }
}

static void try_request(nm_span in) {
  static const nm_mp_limits tight = {8, 256, &nm_mem_system};
  nm_request a;
  nm_request b;
  nm_fault fault = {0};
  int status = nm_request_parse(in, &tight, &a, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  static uint8_t out[INPUT_MAX + 64];
  nm_writer w = nm_writer_of(out, sizeof out);
  MUST(nm_request_write(&w, &a) == NM_OK && w.pos == nm_request_size(&a));
  MUST(nm_request_parse(nm_writer_done(&w), &tight, &b, NULL) == NM_OK);
  MUST(nm_span_equal(a.data, b.data));
  MUST(memcmp(&a.timestamp, &b.timestamp, sizeof a.timestamp) == 0);
}

static void try_response(nm_span in) {
  static const nm_mp_limits tight = {8, 256, &nm_mem_system};
  nm_response a;
  nm_fault fault = {0};
  int status = nm_response_parse(in, &tight, &a, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  static uint8_t out[INPUT_MAX + 64];
  nm_writer w = nm_writer_of(out, sizeof out);
  MUST(nm_response_write(&w, &a) == NM_OK && w.pos == nm_response_size(&a));
  MUST(lies_in(a.data, in) && a.request_id.len == NM_ADDRESS_SIZE);
}

static void try_ratchets(nm_span in) {
  nm_ratchet_file file;
  nm_fault fault = {0};
  int status = nm_ratchet_file_parse(in, 16, &file, &fault);
  must_name(status, &fault, in.len);
  for (uint32_t i = 0; status == NM_OK && i < file.count; i++) {
    nm_span key = nm_ratchet_file_key(&file, i);
    MUST(key.len == NM_KEY_SIZE && lies_in(key, file.packed));
  }
  MUST(status != NM_OK || nm_ratchet_file_key(&file, file.count).len == 0);
}

static void try_memory(nm_span in) {
  nm_ratchet_memory memory;
  nm_fault fault = {0};
  int status = nm_ratchet_memory_parse(in, &memory, &fault);
  must_name(status, &fault, in.len);
  if (status == NM_OK) {
    uint8_t out[NM_RATCHET_MEMORY_SIZE];
    nm_writer w = nm_writer_of(out, sizeof out);
    MUST(nm_ratchet_memory_write(&w, &memory) == NM_OK);
    MUST(w.pos == sizeof out);
  }
}

static void try_proof(nm_span in) {
  nm_proof proof;
  nm_fault fault = {0};
  int status = nm_proof_parse(in, in.len & 1, &proof, &fault);
  must_name(status, &fault, in.len);
  if (status == NM_OK) {
    static const nm_packet_hash hash = {{1}};
    static const uint8_t key[NM_KEY_SIZE] = {9};
    (void)nm_proof_verify(&proof, &hash, key);
  }
}

static void try_name(nm_span in) {
  nm_span rest = in;
  nm_span part;
  size_t parts = 0;
  size_t bytes = 0;
  while (nm_name_next(&rest, &part)) {
    MUST(nm_name_part_check(part) != NM_E(VALUE) && lies_in(part, in));
    parts++;
    bytes += part.len;
  }
  MUST(parts == 0 || bytes + parts - 1 == in.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const tries[])(nm_span) = {
      try_path_request, try_tunnel, try_request, try_response,
      try_ratchets,     try_memory, try_proof,   try_name};
  if (size > 0 && size <= INPUT_MAX) {
    tries[data[0] % 8](nm_span_of(data + 1, size - 1));
  }
  return 0;
}
