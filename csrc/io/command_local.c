/* Commands on own destinations and on packets outside links.
 */
#include "io/internal.h"
#include "io/port.h"

#include <string.h>

static nm_span data_of(const nm_ask *ask) {
  return nm_block_span(ask->c.data);
}

static nm_span extra_of(const nm_ask *ask) {
  return nm_block_span(ask->c.extra);
}

static void tell_aside(nm_node *node, const nm_ask *ask, const char *folder,
                       int status) {
  char name[NM_STORE_NAME_MAX];
  if (status != NM_OK) {
    nm_store_name(name, folder, &ask->c.destination);
    nm_node_tell_aside(node, name, status);
  }
}

/* What this process wrote is newer than what was read from the file. */
static void prefer_written(nm_node *node, nm_ask *ask) {
  char name[NM_STORE_NAME_MAX];
  nm_store_name(name, "ratchets", &ask->c.destination);
  const nm_block *newer = nm_save_written(node, name);
  if (newer != NULL) {
    nm_block_drop(ask->ratchet_file);
    ask->ratchet_file = nm_block_copy(node->mem, nm_block_span(newer));
  }
  nm_store_name(name, "announced", &ask->c.destination);
  newer = nm_save_written(node, name);
  if (newer != NULL) {
    nm_reader r = nm_reader_of(nm_block_span(newer));
    uint64_t seconds = nm_reader_u64(&r);
    ask->last_emitted =
        seconds > ask->last_emitted ? seconds : ask->last_emitted;
  }
}

void nm_ask_settle_stored(nm_node *node, nm_ask *ask) {
  tell_aside(node, ask, "ratchets", ask->ratchets_status);
  tell_aside(node, ask, "announced", ask->time_status);
  if (node->store != NULL && ask->c.key != NULL) {
    prefer_written(node, ask);
  }
}

static int run_listen(nm_node *node, nm_ask *ask) {
  nm_dest_spec spec = ask->c.u.listen;
  nm_ask_settle_stored(node, ask);
  spec.identity = ask->identity;
  spec.name = data_of(ask);
  spec.last_emitted = ask->last_emitted;
  if (spec.type != NM_SINGLE) {
    spec.group_key = extra_of(ask);
  } else if (spec.ratchets) {
    spec.ratchet_file = ask->ratchet_file != NULL
                            ? nm_block_span(ask->ratchet_file)
                            : extra_of(ask);
  }
  return nm_engine_listen(node->engine, &spec, &ask->reply.destination,
                          node->loop->now);
}

static int run_unlisten(nm_node *node, nm_ask *ask) {
  return nm_engine_unlisten(node->engine, &ask->c.destination, node->loop->now);
}

static int run_set_prove(nm_node *node, nm_ask *ask) {
  return nm_engine_set_prove(node->engine, &ask->c.destination, ask->c.prove,
                             ask->c.on);
}

static int run_pause(nm_node *node, nm_ask *ask) {
  return nm_engine_pause(node->engine, &ask->c.destination, ask->c.on);
}

static int run_set_app_data(nm_node *node, nm_ask *ask) {
  return nm_engine_set_app_data(node->engine, &ask->c.destination,
                                ask->c.data != NULL, data_of(ask));
}

static int run_announce(nm_node *node, nm_ask *ask) {
  nm_span app_data = data_of(ask);
  nm_op_id op = 0;
  int status = nm_engine_announce(
      node->engine, &ask->c.destination, ask->c.data != NULL ? &app_data : NULL,
      ask->c.iface, ask->c.on, &op, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_subscribe(nm_node *node, nm_ask *ask) {
  nm_span name = data_of(ask);
  int id = nm_engine_subscribe(node->engine, ask->c.data != NULL ? &name : NULL,
                               ask->c.on);
  ask->reply.number = id;
  return id < 0 ? id : NM_OK;
}

static int run_unsubscribe(nm_node *node, nm_ask *ask) {
  if (ask->c.number <= 0 || ask->c.number > INT32_MAX) {
    return NM_E(MISSING);
  }
  return nm_engine_unsubscribe(node->engine, (int)ask->c.number);
}

static int run_handle(nm_node *node, nm_ask *ask) {
  nm_span list = extra_of(ask);
  if (list.len % sizeof(nm_identity_hash) != 0) {
    return NM_E(ARGUMENT);
  }
  return nm_engine_handle(node->engine, &ask->c.destination, data_of(ask),
                          ask->c.allow,
                          (const nm_identity_hash *)(const void *)list.ptr,
                          list.len / sizeof(nm_identity_hash));
}

static int run_unhandle(nm_node *node, nm_ask *ask) {
  return nm_engine_unhandle(node->engine, &ask->c.destination, data_of(ask));
}

static int run_ratchet_ids(nm_node *node, nm_ask *ask) {
  int count = nm_engine_ratchet_ids(node->engine, &ask->c.destination, NULL, 0);
  if (count < 0) {
    return count;
  }
  nm_block *ids = nm_block_new(node->mem, (size_t)count * NM_NAME_HASH_SIZE);
  if (ids == NULL) {
    return NM_E(MEMORY);
  }
  ask->reply.data = ids;
  ask->reply.number = nm_engine_ratchet_ids(
      node->engine, &ask->c.destination,
      (uint8_t(*)[NM_NAME_HASH_SIZE])(void *)nm_block_bytes(ids),
      (size_t)count);
  return NM_OK;
}

static int run_ratchet_state(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_ratchet_state state;
  int status =
      nm_engine_ratchet_state(node->engine, &ask->c.destination, &state);
  if (status != NM_OK) {
    return status;
  }
  nm_rows_init(&rows, node->mem, ask, sizeof(state));
  (void)nm_rows_add(&rows, &state);
  return nm_rows_finish(&rows);
}

static int run_rotate(nm_node *node, nm_ask *ask) {
  return nm_engine_rotate(node->engine, &ask->c.destination, node->loop->now);
}

static int run_ratchet_file(nm_node *node, nm_ask *ask) {
  return nm_engine_ratchet_file(node->engine, &ask->c.destination,
                                &ask->reply.data);
}

/* ---- packets ---- */

static int run_send(nm_node *node, nm_ask *ask) {
  nm_send_spec spec = ask->c.u.send;
  nm_op_id op = 0;
  nm_path_record path;
  if (ask->c.on && !nm_path_settled(node, &spec.destination, &path)) {
    ask->reply.number = NM_NO_PATH;
    return NM_E(MISSING);
  }
  spec.payload = data_of(ask);
  spec.group_key = extra_of(ask);
  int status = nm_engine_send(node->engine, &spec, &op, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_receipt_timeout(nm_node *node, nm_ask *ask) {
  return nm_engine_receipt_timeout(node->engine, ask->c.op, ask->c.timeout_us,
                                   node->loop->now);
}

static int run_inject(nm_node *node, nm_ask *ask) {
  return nm_engine_inject(node->engine, ask->c.iface, data_of(ask),
                          node->loop->now);
}

static int run_feed(nm_node *node, nm_ask *ask) {
  nm_port *port = nm_port_find(node, ask->c.iface);
  if (port == NULL) {
    return NM_E(MISSING);
  }
  if (data_of(ask).len > NM_FRAME_MAX) {
    return NM_E(TOO_LARGE);
  }
  nm_port_input(port, data_of(ask), &ask->reply.verdict);
  return NM_OK;
}

static int run_probe(nm_node *node, nm_ask *ask) {
  nm_port *port = nm_port_find(node, ask->c.iface);
  nm_frame frame;
  if (port == NULL) {
    return NM_E(MISSING);
  }
  if (data_of(ask).len > NM_FRAME_MAX) {
    return NM_E(TOO_LARGE);
  }
  nm_port_ingress(port, data_of(ask), &frame);
  ask->reply.verdict = nm_engine_probe(node->engine, ask->c.iface, &frame,
                                       ask->c.on, node->loop->now);
  return NM_OK;
}

static nm_command_run *const runs[NM_COMMAND_COUNT] = {
    [NM_COMMAND_LISTEN] = run_listen,
    [NM_COMMAND_UNLISTEN] = run_unlisten,
    [NM_COMMAND_SET_PROVE] = run_set_prove,
    [NM_COMMAND_PAUSE] = run_pause,
    [NM_COMMAND_SET_APP_DATA] = run_set_app_data,
    [NM_COMMAND_ANNOUNCE] = run_announce,
    [NM_COMMAND_SUBSCRIBE] = run_subscribe,
    [NM_COMMAND_UNSUBSCRIBE] = run_unsubscribe,
    [NM_COMMAND_HANDLE] = run_handle,
    [NM_COMMAND_UNHANDLE] = run_unhandle,
    [NM_COMMAND_RATCHET_IDS] = run_ratchet_ids,
    [NM_COMMAND_RATCHET_STATE] = run_ratchet_state,
    [NM_COMMAND_ROTATE] = run_rotate,
    [NM_COMMAND_RATCHET_FILE] = run_ratchet_file,
    [NM_COMMAND_SEND] = run_send,
    [NM_COMMAND_RECEIPT_TIMEOUT] = run_receipt_timeout,
    [NM_COMMAND_INJECT] = run_inject,
    [NM_COMMAND_FEED] = run_feed,
    [NM_COMMAND_PROBE] = run_probe,
};

nm_command_run *nm_command_local(nm_command_kind kind) {
  return runs[kind];
}
