#include "io/postbox.h"

/* Stands in a closed box: an address that no post has. */
static nm_post *closed_mark(const nm_postbox *box) {
  return (nm_post *)(uintptr_t)box;
}

/* In one order with what its callers do: the reader that says that it sleeps
 * looks here once more, and who puts looks whether it does. */
nm_post_result nm_postbox_put(nm_postbox *box, nm_post *post) {
  nm_post *newest = atomic_load_explicit(&box->newest, memory_order_relaxed);
  do {
    if (newest == closed_mark(box)) {
      return NM_POST_CLOSED;
    }
    post->next = newest;
  } while (!atomic_compare_exchange_weak_explicit(
      &box->newest, &newest, post, memory_order_seq_cst, memory_order_relaxed));
  return newest == NULL ? NM_POST_FIRST : NM_POST_MORE;
}

static nm_post *oldest_first(const nm_postbox *box, nm_post *newest) {
  nm_post *oldest = NULL;
  while (newest != NULL && newest != closed_mark(box)) {
    nm_post *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

bool nm_postbox_is_empty(const nm_postbox *box) {
  return atomic_load(&box->newest) == NULL;
}

nm_post *nm_postbox_take(nm_postbox *box) {
  if (nm_postbox_is_empty(box)) {
    return NULL;
  }
  return oldest_first(
      box, atomic_exchange_explicit(&box->newest, NULL, memory_order_acq_rel));
}

nm_post *nm_postbox_close(nm_postbox *box) {
  return oldest_first(box,
                      atomic_exchange_explicit(&box->newest, closed_mark(box),
                                               memory_order_acq_rel));
}
