/* Any bytes as each of the link payloads; the first byte chooses. */
#include "fuzz.h"
#include "wire/link.h"

#include <math.h>

static const nm_link_id id = {{1, 2, 3, 4, 5, 6, 7, 8}};

static void try_request(nm_span in) {
  nm_link_request request;
  nm_fault fault = {0};
  int status = nm_link_request_parse(in, &request, &fault);
  must_name(status, &fault, in.len);
  if (status != NM_OK) {
    return;
  }
  MUST(request.signalling.mtu > 0);
  uint8_t out[NM_LINK_REQUEST_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(out, sizeof out);
  const uint8_t *tail =
      request.signalling.present ? in.ptr + NM_LINK_REQUEST_SIZE : NULL;
  MUST(nm_link_request_write(&w, request.x25519_public.ptr,
                             request.ed25519_public.ptr, tail) == NM_OK);
  MUST(nm_span_equal(nm_writer_done(&w), in));
  nm_link_interface a = {1064, true};
  nm_link_interface b = {8192, true};
  uint32_t mtu = 0;
  if (nm_link_clamp_relayed(&request.signalling, &a, &b, &mtu) ==
      NM_LINK_CLAMP_REPLACE) {
    MUST(mtu == 1064);
  }
}

static void try_proof(nm_span in) {
  nm_link_proof proof;
  nm_fault fault = {0};
  int status = nm_link_proof_parse(in, &proof, &fault);
  must_name(status, &fault, in.len);
  if (status == NM_OK) {
    static const uint8_t key[NM_KEY_SIZE] = {9};
    MUST(lies_in(proof.signature, in) && proof.signalling.mtu > 0);
    (void)nm_link_proof_verify(&proof, &id, key);
  }
}

static void try_rtt(nm_span in) {
  double rtt = 0;
  nm_fault fault = {0};
  int status = nm_link_rtt_parse(in, &rtt, &fault);
  must_name(status, &fault, in.len);
  MUST(status != NM_OK || isfinite(rtt));
}

static void try_identify(nm_span in) {
  nm_span key;
  nm_fault fault = {0};
  must_name(nm_link_identify_check(in, &id, &key, &fault), &fault, in.len);
  (void)nm_link_is_close(in, &id);
}

static void try_packet(nm_span in) {
  nm_packet p;
  nm_link_id link;
  nm_fault fault = {0};
  if (nm_packet_parse(in, &p, NULL) == NM_OK) {
    must_name(nm_link_id_of(&p, &link, &fault), &fault, in.len);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const tries[])(nm_span) = {try_request, try_proof, try_rtt,
                                           try_identify, try_packet};
  if (size > 0) {
    tries[data[0] % 5](nm_span_of(data + 1, size - 1));
  }
  return 0;
}
