/* Interfaces that the user writes: frames out wait in a bounded queue for the
 * reader, frames in come by command.
 */
#include "io/port.h"

#include <string.h>

typedef struct nm_user_frame {
  struct nm_user_frame *next;
  nm_block *data;
} nm_user_frame;

static void be_ready(nm_port *port) {
  nm_node *node = port->node;
  if (!port->is_user_ready && !port->gone) {
    port->is_user_ready = true;
    port->next_user = node->user_ports;
    node->user_ports = port;
  }
}

static bool put(nm_port *port, nm_span packet) {
  const nm_iface_setup *setup = port->setup;
  if (port->frames_count >= setup->queue_packets) {
    nm_port_count_drop(port, NM_PORT_DROP_PACKETS);
    return false;
  }
  if (port->frames_count > 0 &&
      port->frames_bytes + packet.len > setup->queue_bytes) {
    nm_port_count_drop(port, NM_PORT_DROP_BYTES);
    return false;
  }
  const nm_mem *mem = port->node->mem;
  nm_user_frame *frame = nm_alloc_zero(mem, 1, sizeof(*frame));
  if (frame != NULL) {
    frame->data = nm_block_copy(mem, packet);
  }
  if (frame == NULL || frame->data == NULL) {
    nm_release(mem, frame);
    nm_port_count_drop(port, NM_PORT_DROP_MEMORY);
    return false;
  }
  if (port->frames == NULL) {
    port->frames = frame;
  } else {
    port->frames_end->next = frame;
  }
  port->frames_end = frame;
  port->frames_count++;
  port->frames_bytes += packet.len;
  be_ready(port);
  return true;
}

/* The first frame's data, which the caller owns. */
static nm_block *take(nm_port *port) {
  nm_user_frame *frame = port->frames;
  nm_block *data = frame->data;
  port->frames = frame->next;
  port->frames_count--;
  port->frames_bytes -= nm_block_span(data).len;
  nm_release(port->node->mem, frame);
  return data;
}

bool nm_port_user_deliver(nm_node *node) {
  while (node->user_ports != NULL) {
    nm_port *port = node->user_ports;
    while (port->frames != NULL) {
      nm_node_event *slot = nm_node_slot(node, 0);
      if (slot == NULL) {
        return false;
      }
      size_t len = nm_block_span(port->frames->data).len;
      slot->kind = NM_NODE_FRAME;
      slot->ticket = 0;
      slot->u.frame.iface = port->id;
      slot->u.frame.incoming = false;
      slot->u.frame.at = node->loop->now;
      slot->u.frame.data = take(port);
      port->wire_tx += len;
      nm_node_push(node);
    }
    node->user_ports = port->next_user;
    port->next_user = NULL;
    port->is_user_ready = false;
  }
  return true;
}

static int start(nm_port *port) {
  port->opened = 1;
  nm_port_set_up(port, true);
  return NM_OK;
}

static void pause_port(nm_port *port, bool on) {
  (void)port;
  (void)on;
}

static void stop(nm_port *port) {
  nm_port **at = &port->node->user_ports;
  while (*at != NULL && *at != port) {
    at = &(*at)->next_user;
  }
  if (*at == port) {
    *at = port->next_user;
  }
  while (port->frames != NULL) {
    port->node->stats.frames_lost++;
    nm_block_drop(take(port));
  }
}

static void change(nm_port *port) {
  (void)port;
}

const nm_port_ops nm_port_user = {.start = start,
                                  .send = put,
                                  .pause = pause_port,
                                  .stop = stop,
                                  .change = change};
