/* The state of a letter, who is told of it, and what counts as in flight. */
#include "lxmf/internal.h"

nm_letter *nm_letter_find(const nm_router *router,
                          const uint8_t id[NM_HASH_SIZE]) {
  return (nm_letter *)(void *)nm_table_find(&router->letters, id);
}

void nm_letter_tell(nm_letter *letter, bool worked) {
  nm_router *router = letter->router;
  letter->worked = letter->worked || worked;
  if (letter->has_news) {
    return;
  }
  letter->has_news = true;
  letter->news_next = NULL;
  if (router->news_last != NULL) {
    router->news_last->news_next = letter;
  } else {
    router->news_first = letter;
  }
  router->news_last = letter;
}

void nm_letter_set(nm_letter *letter, nm_lxmf_state state, double progress) {
  if (letter->state != state || letter->progress < progress) {
    letter->state = state;
    letter->progress = progress;
    nm_letter_tell(letter, false);
  }
}

/* ---- in flight ---- */

void nm_letter_flies(nm_letter *letter) {
  if (!letter->in_flight) {
    letter->in_flight = true;
    letter->lane->in_flight++;
    letter->lane->flying = letter;
    letter->router->in_flight_all++;
    if (letter->sent_on_slow_path) {
      letter->counts_slow = true;
      letter->router->slow_in_flight++;
    }
  }
}

void nm_letter_landed(nm_letter *letter) {
  if (letter->in_flight) {
    letter->in_flight = false;
    letter->lane->in_flight--;
    if (letter->lane->flying == letter) {
      letter->lane->flying = NULL;
    }
    letter->router->in_flight_all--;
  }
  if (letter->counts_slow) {
    letter->counts_slow = false;
    letter->router->slow_in_flight--;
    letter->router->slow_freed = true;
  }
}
