/* When the first request for a segment is repeated early (RNS 2, 3.14): its
 * sender may have sent the advertisement before it was ready to serve, and then
 * the request is lost. How soon depends on what is known of the sender. A
 * repeat that was needed makes the next one come sooner, one that brought the
 * same parts twice makes it come later. So a peer that loses the race now and
 * then costs a few milliseconds, and one that never does is not asked twice.
 */
#include "stack/link_state.h"

#define EARLY_MIN_US 2000u
#define EARLY_MAX_US 60000000u
/* Before anything is known. */
#define EARLY_START_US 10000u

enum { NOTHING, REPEATED, ANSWERED };

static uint64_t at_least(uint64_t us, uint64_t least) {
  return us > least ? us : least;
}

/* One and a half round trips; a request and a part take longer than the
 * handshake by which the round trip was measured. */
static uint64_t by_handshake(const nm_transfer_in *t) {
  const nm_link *link = t->link;
  uint64_t part = t->join.sdu < NM_MTU ? t->join.sdu : NM_MTU;
  uint64_t bytes = t->request_bytes + part;
  uint64_t shook = link->establish_bytes == 0 ? 1 : link->establish_bytes;
  uint64_t us = link->rtt_us * 3 / 2;
  return bytes > shook ? us * bytes / shook : us;
}

uint64_t nm_transfer_early_wait(const nm_transfer_in *t) {
  const nm_link_learned *learned = t->link->learned;
  if (learned->early_us == 0) {
    return at_least(by_handshake(t), EARLY_START_US);
  }
  uint64_t answer =
      learned->in_answer_us != 0 ? learned->in_answer_us : t->link->rtt_us;
  return at_least(learned->early_us, at_least(answer * 3 / 2, EARLY_MIN_US));
}

void nm_transfer_early_begin(nm_link *link) {
  nm_link_learned *learned = link->learned;
  if (learned->early_state == ANSWERED) {
    learned->early_us = (uint32_t)at_least(learned->early_us / 2, EARLY_MIN_US);
  }
  learned->early_state = NOTHING;
}

void nm_transfer_early_repeated(const nm_transfer_in *t) {
  nm_link_learned *learned = t->link->learned;
  if (learned->early_us == 0) {
    uint64_t us = nm_transfer_early_wait(t);
    learned->early_us = us < EARLY_MAX_US ? (uint32_t)us : EARLY_MAX_US;
  }
  learned->early_state = REPEATED;
}

void nm_transfer_early_answered(const nm_transfer_in *t, uint64_t took_us) {
  nm_link_learned *learned = t->link->learned;
  if (learned->early_state == REPEATED) {
    learned->early_state = ANSWERED;
  } else if (t->early_repeats == 0 && took_us < EARLY_MAX_US &&
             (learned->in_answer_us == 0 || took_us < learned->in_answer_us)) {
    learned->in_answer_us = took_us == 0 ? 1 : (uint32_t)took_us;
  }
}

void nm_transfer_early_in_vain(nm_link *link) {
  nm_link_learned *learned = link->learned;
  if (learned != NULL && learned->early_state == ANSWERED) {
    learned->early_us = learned->early_us < EARLY_MAX_US / 2
                            ? learned->early_us * 2
                            : EARLY_MAX_US;
    learned->early_state = NOTHING;
  }
}
