/* Commands on channels and streams.
 */
#include "io/internal.h"

/* Rows of a ring that are shown; a window is smaller. */
#define RING_MAX 64

static bool fits(const nm_ask *ask, int64_t most) {
  return ask->c.number >= 0 && ask->c.number <= most;
}

static int run_open(nm_node *node, nm_ask *ask) {
  return nm_engine_channel_open(node->engine, ask->c.link, ask->c.on,
                                node->loop->now);
}

static int run_register(nm_node *node, nm_ask *ask) {
  if (!fits(ask, UINT16_MAX)) {
    return NM_E(RANGE);
  }
  return nm_engine_channel_register(node->engine, ask->c.link,
                                    (uint16_t)ask->c.number);
}

static int run_send(nm_node *node, nm_ask *ask) {
  nm_op_id op = 0;
  uint16_t sequence = 0;
  if (!fits(ask, UINT16_MAX)) {
    return NM_E(RANGE);
  }
  uint16_t msgtype = (uint16_t)ask->c.number;
  int status = ask->c.on
                   ? nm_engine_channel_post(node->engine, ask->c.link, msgtype,
                                            ask->c.data, &op, node->loop->now)
                   : nm_engine_channel_send(node->engine, ask->c.link, msgtype,
                                            nm_block_span(ask->c.data), &op,
                                            &sequence, node->loop->now);
  if (status == NM_OK) {
    ask->reply.number = ask->c.on ? -1 : sequence;
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_pause(nm_node *node, nm_ask *ask) {
  return nm_engine_channel_pause(node->engine, ask->c.link, ask->c.on);
}

static int run_info(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_channel_info info;
  int status = nm_engine_channel_info(node->engine, ask->c.link, &info);
  if (status != NM_OK) {
    return status;
  }
  nm_rows_init(&rows, node->mem, ask, sizeof(info));
  (void)nm_rows_add(&rows, &info);
  return nm_rows_finish(&rows);
}

static int run_sent(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_channel_sent ring[RING_MAX];
  size_t count =
      nm_engine_channel_sent_ring(node->engine, ask->c.link, ring, RING_MAX);
  nm_rows_init(&rows, node->mem, ask, sizeof(ring[0]));
  for (size_t i = 0; i < count && i < RING_MAX; i++) {
    (void)nm_rows_add(&rows, &ring[i]);
  }
  return nm_rows_finish(&rows);
}

static int run_ahead(nm_node *node, nm_ask *ask) {
  uint16_t ring[RING_MAX];
  uint8_t bytes[RING_MAX * sizeof(ring[0])];
  size_t count =
      nm_engine_channel_ahead_ring(node->engine, ask->c.link, ring, RING_MAX);
  nm_writer w = nm_writer_of(bytes, sizeof(bytes));
  for (size_t i = 0; i < count && i < RING_MAX; i++) {
    nm_writer_u16(&w, ring[i]);
  }
  ask->reply.data = nm_block_copy(node->mem, nm_writer_done(&w));
  return ask->reply.data == NULL ? NM_E(MEMORY) : NM_OK;
}

static int run_write(nm_node *node, nm_ask *ask) {
  nm_op_id op = 0;
  if (!fits(ask, NM_STREAM_ID_MAX)) {
    return NM_E(RANGE);
  }
  int status = nm_engine_stream_write(
      node->engine, ask->c.link, (uint16_t)ask->c.number, ask->c.data,
      ask->c.on, ask->c.compression, &op, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_reports(nm_node *node, nm_ask *ask) {
  return nm_engine_stream_reports(node->engine, ask->c.link, ask->c.on);
}

static nm_command_run *const runs[NM_COMMAND_COUNT] = {
    [NM_COMMAND_CHANNEL_OPEN] = run_open,
    [NM_COMMAND_CHANNEL_REGISTER] = run_register,
    [NM_COMMAND_CHANNEL_SEND] = run_send,
    [NM_COMMAND_CHANNEL_PAUSE] = run_pause,
    [NM_COMMAND_CHANNEL_INFO] = run_info,
    [NM_COMMAND_CHANNEL_SENT] = run_sent,
    [NM_COMMAND_CHANNEL_AHEAD] = run_ahead,
    [NM_COMMAND_STREAM_WRITE] = run_write,
    [NM_COMMAND_STREAM_REPORTS] = run_reports,
};

nm_command_run *nm_command_channels(nm_command_kind kind) {
  return runs[kind];
}
