/* Any text as a paper URI, and any data made into one. */
#include "fuzz.h"
#include "wire/lxmf_paper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nm_span in = nm_span_of(data, size);
  size_t room = nm_lxmf_uri_data_bound(size);
  uint8_t *out = (uint8_t *)malloc(room + 1);
  MUST(out != NULL);
  nm_writer w = nm_writer_of(out, room);
  nm_fault fault = {0};
  int status = nm_lxmf_uri_decode(in, &w, &fault);
  must_name(status, &fault, size);
  MUST(status != NM_E(TOO_LARGE));
  nm_span sources[2] = {in, nm_writer_done(&w)};
  for (size_t i = 0; i < (status == NM_OK ? 2u : 1u); i++) {
    uint8_t uri[4000];
    uint8_t back[4000];
    nm_writer u = nm_writer_of(uri, sizeof uri);
    nm_writer b = nm_writer_of(back, sizeof back);
    if (nm_lxmf_uri_encode(sources[i], &u) == NM_OK) {
      MUST(u.pos == nm_lxmf_uri_size(sources[i].len));
      MUST(nm_lxmf_uri_decode(nm_writer_done(&u), &b, NULL) == NM_OK);
      MUST(nm_span_equal(nm_writer_done(&b), sources[i]));
    } else {
      MUST(sources[i].len < 112 || sources[i].len > NM_LXMF_PAPER_MDU);
    }
  }
  free(out);
  return 0;
}
