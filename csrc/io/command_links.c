/* Commands on links, requests, resources, tokens.
 */
#include "io/internal.h"

#include <string.h>

static nm_span data_of(const nm_ask *ask) {
  return nm_block_span(ask->c.data);
}

static nm_span extra_of(const nm_ask *ask) {
  return nm_block_span(ask->c.extra);
}

static int run_open(nm_node *node, nm_ask *ask) {
  nm_link_ref link = 0;
  nm_path_record path;
  uint64_t timeout_us = ask->c.timeout_us;
  if (ask->c.on) {
    if (!nm_path_settled(node, &ask->c.destination, &path)) {
      ask->reply.number = NM_NO_PATH;
      return NM_E(MISSING);
    }
    timeout_us = path.hops < ask->c.max ? timeout_us / 2 : timeout_us;
  }
  int status = nm_engine_link_open(node->engine, &ask->c.destination,
                                   timeout_us, &link, node->loop->now);
  if (status == NM_OK) {
    ask->reply.link = link;
    nm_tickets_put_link(&node->tickets, ask->ticket, link);
    ask->ticket = NULL;
  }
  return status;
}

static int run_close(nm_node *node, nm_ask *ask) {
  return nm_engine_link_close(node->engine, ask->c.link, node->loop->now);
}

static int run_identify(nm_node *node, nm_ask *ask) {
  return nm_engine_link_identify(node->engine, ask->c.link, ask->identity,
                                 node->loop->now);
}

static int run_send(nm_node *node, nm_ask *ask) {
  nm_op_id op = 0;
  int status = nm_engine_link_send(node->engine, ask->c.link, data_of(ask),
                                   ask->c.on, ask->c.timeout_us, &op,
                                   &ask->reply.hash, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_tune(nm_node *node, nm_ask *ask) {
  const nm_tune *tune = &ask->c.u.tune;
  return nm_engine_link_tune(node->engine, ask->c.link, tune->rtt_us,
                             tune->keepalive_us, tune->stale_us,
                             node->loop->now);
}

static int run_policy(nm_node *node, nm_ask *ask) {
  return nm_engine_link_policy(node->engine, ask->c.link, ask->c.accept,
                               ask->c.on, ask->c.size_max);
}

static int run_prove(nm_node *node, nm_ask *ask) {
  return nm_engine_link_set_prove(node->engine, ask->c.link, ask->c.prove,
                                  ask->c.on);
}

static int run_pause(nm_node *node, nm_ask *ask) {
  return nm_engine_link_pause(node->engine, ask->c.link, ask->c.on,
                              ask->c.number != 0);
}

static int run_track(nm_node *node, nm_ask *ask) {
  return nm_engine_link_track_signal(node->engine, ask->c.link, ask->c.on);
}

static int run_info(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_link_info info;
  int status = nm_engine_link_info(node->engine, ask->c.link, &info);
  if (status != NM_OK) {
    return status;
  }
  nm_rows_init(&rows, node->mem, ask, sizeof(info));
  (void)nm_rows_add(&rows, &info);
  return nm_rows_finish(&rows);
}

static int run_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_link_info info;
  nm_link_ref link = 0;
  nm_rows_init(&rows, node->mem, ask, sizeof(info));
  while ((link = nm_engine_link_next(node->engine, link)) != 0) {
    if (nm_engine_link_info(node->engine, link, &info) == NM_OK) {
      (void)nm_rows_add(&rows, &info);
    }
  }
  return nm_rows_finish(&rows);
}

static int run_by_id(nm_node *node, nm_ask *ask) {
  ask->reply.link = nm_engine_link_by_id(node->engine, &ask->c.u.link_id);
  return ask->reply.link == 0 ? NM_E(MISSING) : NM_OK;
}

static int run_seal(nm_node *node, nm_ask *ask) {
  return nm_engine_link_seal(node->engine, ask->c.link, ask->c.packet_type,
                             ask->c.context, data_of(ask), &ask->reply.data);
}

static int run_unseal(nm_node *node, nm_ask *ask) {
  return nm_engine_link_unseal(node->engine, ask->c.link, data_of(ask),
                               &ask->reply.data);
}

/* ---- requests and resources ---- */

static int run_request(nm_node *node, nm_ask *ask) {
  nm_op_id op = 0;
  int status = nm_engine_request(node->engine, ask->c.link, extra_of(ask),
                                 data_of(ask), ask->c.timeout_us,
                                 ask->c.size_max, &op, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_respond(nm_node *node, nm_ask *ask) {
  return nm_engine_respond(node->engine, ask->c.token, data_of(ask), ask->c.on,
                           node->loop->now);
}

static int run_respond_file(nm_node *node, nm_ask *ask) {
  if (ask->c.source != NULL) {
    return nm_engine_respond_file_from(node->engine, ask->c.token,
                                       ask->c.source, extra_of(ask), ask->c.on,
                                       node->loop->now);
  }
  return nm_engine_respond_file(node->engine, ask->c.token, data_of(ask),
                                extra_of(ask), ask->c.on, node->loop->now);
}

static int run_resource_send(nm_node *node, nm_ask *ask) {
  nm_op_id op = 0;
  const nm_command *c = &ask->c;
  if (c->data == NULL && c->source == NULL) {
    return NM_E(ARGUMENT);
  }
  int status =
      c->source != NULL
          ? nm_engine_resource_send_from(node->engine, c->link, c->source,
                                         extra_of(ask), c->compression,
                                         c->timeout_us, &op, node->loop->now)
          : nm_engine_resource_send(node->engine, c->link, c->data,
                                    extra_of(ask), c->compression,
                                    c->timeout_us, &op, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

static int run_shelve(nm_node *node, nm_ask *ask) {
  return nm_engine_link_shelve(node->engine, ask->c.link, ask->c.shelf,
                               ask->c.on, ask->c.size_max);
}

static int run_shelve_all(nm_node *node, nm_ask *ask) {
  return nm_engine_shelve(node->engine, &ask->c.destination, ask->c.shelf,
                          ask->c.size_max);
}

static int run_transfer_info(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_transfer_info info;
  int status = nm_engine_transfer_info(node->engine, ask->c.op, &info);
  if (status != NM_OK) {
    return status;
  }
  nm_rows_init(&rows, node->mem, ask, sizeof(info));
  (void)nm_rows_add(&rows, &info);
  return nm_rows_finish(&rows);
}

static int run_transfer_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_transfer_info info;
  nm_op_id op = 0;
  nm_rows_init(&rows, node->mem, ask, sizeof(info));
  while ((op = nm_engine_transfer_next(node->engine, ask->c.link, op)) != 0) {
    if (nm_engine_transfer_info(node->engine, op, &info) == NM_OK) {
      (void)nm_rows_add(&rows, &info);
    }
  }
  return nm_rows_finish(&rows);
}

static int run_accept(nm_node *node, nm_ask *ask) {
  return nm_engine_accept(node->engine, ask->c.token, node->loop->now);
}

static int run_refuse(nm_node *node, nm_ask *ask) {
  return nm_engine_refuse(node->engine, ask->c.token, node->loop->now);
}

static int run_cancel(nm_node *node, nm_ask *ask) {
  return nm_engine_cancel(node->engine, ask->c.op, node->loop->now);
}

static nm_command_run *const runs[NM_COMMAND_COUNT] = {
    [NM_COMMAND_LINK_OPEN] = run_open,
    [NM_COMMAND_LINK_CLOSE] = run_close,
    [NM_COMMAND_LINK_IDENTIFY] = run_identify,
    [NM_COMMAND_LINK_SEND] = run_send,
    [NM_COMMAND_LINK_TUNE] = run_tune,
    [NM_COMMAND_LINK_POLICY] = run_policy,
    [NM_COMMAND_LINK_PROVE] = run_prove,
    [NM_COMMAND_LINK_PAUSE] = run_pause,
    [NM_COMMAND_LINK_TRACK] = run_track,
    [NM_COMMAND_LINK_SHELVE] = run_shelve,
    [NM_COMMAND_SHELVE] = run_shelve_all,
    [NM_COMMAND_LINK_INFO] = run_info,
    [NM_COMMAND_LINK_LIST] = run_list,
    [NM_COMMAND_LINK_BY_ID] = run_by_id,
    [NM_COMMAND_LINK_SEAL] = run_seal,
    [NM_COMMAND_LINK_UNSEAL] = run_unseal,
    [NM_COMMAND_REQUEST] = run_request,
    [NM_COMMAND_RESPOND] = run_respond,
    [NM_COMMAND_RESPOND_FILE] = run_respond_file,
    [NM_COMMAND_RESOURCE_SEND] = run_resource_send,
    [NM_COMMAND_TRANSFER_INFO] = run_transfer_info,
    [NM_COMMAND_TRANSFER_LIST] = run_transfer_list,
    [NM_COMMAND_ACCEPT] = run_accept,
    [NM_COMMAND_REFUSE] = run_refuse,
    [NM_COMMAND_CANCEL] = run_cancel,
};

nm_command_run *nm_command_links(nm_command_kind kind) {
  return runs[kind];
}
