/* A node's turn: jobs, outputs, events, the deadline.
 */
#include "io/internal.h"
#include "io/mail.h"
#include "io/port.h"

#define ROUNDS_PER_TURN 16
#define OUTPUTS_PER_ROUND 512
/* Relayed announces, which let data go ahead. */
#define RELAYS_PER_TURN 256

/* ---- outputs ---- */

static bool pump_outputs(nm_node *node) {
  nm_output out;
  int count = 0;
  while (count < OUTPUTS_PER_ROUND &&
         (node->relays_left > 0 || nm_engine_output_urges(node->engine)) &&
         nm_engine_output(node->engine, &out)) {
    node->relays_left -= out.patient;
    nm_port *port = nm_port_find(node, out.iface);
    if (port != NULL) {
      nm_port_output(port, &out);
    } else if (out.op != 0) {
      nm_engine_sent(node->engine, out.op, false, node->loop->now);
    }
    nm_block_drop(out.packet);
    count++;
  }
  return count > 0;
}

/* ---- a turn ---- */

static void tick_if_due(nm_node *node) {
  nm_loop *loop = node->loop;
  if (nm_engine_deadline(node->engine) <= loop->now.mono_us) {
    nm_engine_tick(node->engine, loop->now);
  }
}

static void arm_deadline(nm_node *node) {
  if (node->without_timers) {
    return;
  }
  uint64_t next = nm_engine_deadline(node->engine);
  uint64_t mail = nm_mail_deadline(node);
  next = mail < next ? mail : next;
  if (next == NM_TIMER_NEVER) {
    nm_timer_disarm(&node->loop->timers, &node->deadline);
  } else if (!nm_timer_armed(&node->deadline) ||
             node->deadline.due_us != next) {
    nm_loop_arm(node->loop, &node->deadline, next);
  }
}

void nm_node_pump(nm_node *node) {
  if (node->phase == NM_NODE_IS_GONE) {
    return;
  }
  nm_node_grant(node);
  bool moved = true;
  node->relays_left = RELAYS_PER_TURN;
  tick_if_due(
      node); /* once: what comes in meanwhile waits for the turn's end */
  for (int round = 0; moved && round < ROUNDS_PER_TURN; round++) {
    nm_node_collect_jobs(node);
    nm_node_dispatch_jobs(node);
    moved = pump_outputs(node);
    if (node->loop->dirty != NULL && nm_mail_has_job(node)) {
      nm_conn_flush_all(node->loop); /* a proof need not wait for it */
    }
    moved = nm_node_collect_mail(node) || moved;
    moved = nm_node_resume(node, false) || moved;
    nm_node_publish(node); /* who reads an event finds it in the figures */
    (void)nm_node_deliver(node);
    moved = nm_mail_moved(node) || moved;
  }
  if (nm_save_is_ready(node)) {
    nm_save_step(node);
  }
  if (nm_orphans_are_called(node)) {
    nm_orphans_step(node);
  }
  arm_deadline(node);
  if (moved || node->relays_left == 0 || nm_save_is_ready(node) ||
      nm_orphans_are_called(node) || nm_node_may_resume(node)) {
    nm_node_wake(node);
  }
  nm_node_publish(node);
  nm_node_publish_ifaces(node);
  if (node->loop->dirty == NULL && node->loop->wet == NULL) {
    nm_loop_wake_readers(node->loop); /* no output that would wait for it */
  }
  if (!moved) {
    nm_node_proceed(node);
  }
}
