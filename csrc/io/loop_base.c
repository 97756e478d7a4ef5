/* What every thread and every file of the room uses of a loop: posts, its clock
 * and timers, its nodes.
 */
#include "io/internal.h"

#include <unistd.h>

bool nm_loop_is_foreign(const nm_loop *loop) {
  return loop->pid != getpid();
}

nm_loop *nm_loop_hold(nm_loop *loop) {
  atomic_fetch_add(&loop->holders, 1);
  return loop;
}

void nm_loop_drop(nm_loop *loop) {
  if (atomic_fetch_sub(&loop->holders, 1) == 1) {
    nm_release(loop->mem, loop);
  }
}

nm_now nm_loop_now(nm_loop *loop) {
  loop->now = nm_clock_now();
  return loop->now;
}

/* ---- posts ---- */

static bool put(nm_loop *loop, nm_post *post) {
  /* The loop closes its wake-up handle only when nobody is in here. */
  atomic_fetch_add(&loop->posters, 1);
  nm_post_result result = nm_postbox_put(&loop->posts, post);
  /* A thread that is awake looks into the box before it sleeps. */
  if (result == NM_POST_FIRST && atomic_load(&loop->asleep)) {
    (void)uv_async_send(&loop->wake);
  }
  atomic_fetch_sub(&loop->posters, 1);
  return result != NM_POST_CLOSED;
}

int nm_loop_post(nm_loop *loop, nm_post *post) {
  if (nm_loop_is_foreign(loop) || !put(loop, post)) {
    return NM_E(STATE);
  }
  return NM_OK;
}

void nm_loop_return(nm_loop *loop, nm_post *post) {
  (void)put(loop, post);
}

/* ---- timers ---- */

int nm_loop_reserve_timers(nm_loop *loop, size_t more) {
  int status = nm_timers_reserve(&loop->timers, loop->timers_reserved + more);
  if (status == NM_OK) {
    loop->timers_reserved += more;
  }
  return status;
}

void nm_loop_unreserve_timers(nm_loop *loop, size_t less) {
  loop->timers_reserved -= less;
}

void nm_loop_arm(nm_loop *loop, nm_timer *timer, uint64_t due_us) {
  (void)nm_timer_arm(&loop->timers, timer, due_us);
}

/* ---- nodes ---- */

void nm_loop_add_node(nm_loop *loop, nm_node *node) {
  node->prev = NULL;
  node->next = loop->nodes;
  if (loop->nodes != NULL) {
    loop->nodes->prev = node;
  }
  loop->nodes = node;
  atomic_fetch_add(&loop->node_count, 1);
}

void nm_loop_remove_node(nm_loop *loop, nm_node *node) {
  if (node->prev != NULL) {
    node->prev->next = node->next;
  } else {
    loop->nodes = node->next;
  }
  if (node->next != NULL) {
    node->next->prev = node->prev;
  }
  atomic_fetch_sub(&loop->node_count, 1);
}
