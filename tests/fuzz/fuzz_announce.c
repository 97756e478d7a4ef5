/* Any bytes as an announce: the cache gives the verdict of the direct check,
 * and remembers only what is valid. */
#include "fuzz.h"
#include "wire/announce_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  nm_packet p;
  nm_announce a;
  nm_fault fault = {0};
  if (nm_packet_parse(in, &p, NULL) != NM_OK) {
    return 0;
  }
  int status = nm_announce_parse(&p, &a, &fault);
  must_name(status, &fault, size > NM_MTU ? size : NM_MTU);
  if (status != NM_OK) {
    return 0;
  }
  MUST(a.ratchet.len == (p.context_flag ? NM_RATCHET_SIZE : 0));
  MUST(lies_in(a.public_key, in) && lies_in(a.signature, in));
  MUST(lies_in(a.app_data, in) && a.emitted <= NM_ANNOUNCE_EMITTED_MAX);
  uint8_t buf[NM_ANNOUNCE_SIGNED_MAX];
  nm_writer w = nm_writer_of(buf, sizeof buf);
  MUST(nm_announce_signed(&w, &a) == NM_OK);
  nm_announce_bucket bucket[2];
  nm_announce_cache cache;
  static const uint8_t key[16] = {1, 2, 3};
  MUST(nm_announce_cache_init(&cache, bucket, 2, key) == NM_OK);
  nm_announce_verdict direct = nm_announce_validate(&a, false, NULL);
  MUST(nm_announce_cache_validate(&cache, &a, NULL, NULL) == direct);
  MUST(cache.count == (direct == NM_ANNOUNCE_VALID));
  MUST(nm_announce_cache_validate(&cache, &a, NULL, NULL) == direct);
  MUST(cache.hits == (direct == NM_ANNOUNCE_VALID));
  return 0;
}
