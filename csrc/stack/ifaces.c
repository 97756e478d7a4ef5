/* Packets on their way to interfaces (RNS 1, 8.3 B).
 */
#include "stack/internal.h"

#include <string.h>

/* What is longer than the medium carries would be dropped by the peer. */
static bool fits(const nm_iface *iface, nm_span raw) {
  return iface->spec.hw_mtu == 0 || raw.len <= iface->spec.hw_mtu;
}

static bool is_path_request(const nm_packet *p) {
  return p->packet_type == NM_DATA && p->destination_type == NM_PLAIN &&
         memcmp(p->destination.ptr, nm_path_request_address.b,
                NM_ADDRESS_SIZE) == 0;
}

/* Writes it down, and counts what is counted by kind. */
static void record_output(nm_engine *engine, nm_iface *iface, nm_span raw) {
  nm_record *record =
      nm_flight_add(engine, NM_RECORD_OUTPUT, iface->id, NM_DROP_NONE);
  nm_packet parsed = {0};
  record->bytes = (uint32_t)raw.len;
  if (nm_packet_parse(raw, &parsed, NULL) != NM_OK) {
    return;
  }
  record->hops = parsed.hops;
  record->context = parsed.context;
  memcpy(record->destination, parsed.destination.ptr, NM_ADDRESS_SIZE);
  if (parsed.packet_type == NM_ANNOUNCE) {
    iface->tally.announces_out++;
    iface->tally.announce_tx_bytes += raw.len;
  } else if (is_path_request(&parsed)) {
    iface->tally.path_requests_out++;
    iface->tally.path_request_tx_bytes += raw.len;
  }
}

static int put(nm_engine *engine, nm_iface *iface, nm_outbox *box,
               nm_block *packet, nm_op_id op) {
  nm_span raw = nm_block_span(packet);
  int status = NM_OK;
  nm_drop reason = NM_DROP_QUEUE_FULL;
  if (!nm_iface_can_send(iface)) {
    status = NM_E(STATE);
    reason = NM_DROP_IFACE_OFFLINE;
  } else if (!fits(iface, raw)) {
    status = NM_E(TOO_LARGE);
    reason = NM_DROP_OVERSIZE;
  } else {
    status = nm_outbox_push(box, iface->id, packet, op);
  }
  nm_op *owner = op == 0 ? NULL : nm_op_find(&engine->ops, op);
  if (owner != NULL && status == NM_OK) {
    owner->outputs++;
  }
  if (status != NM_OK) {
    nm_engine_count_drop(engine, iface, reason);
    nm_block_drop(packet);
    return status;
  }
  iface->tally.tx_packets++;
  iface->tally.tx_bytes += raw.len;
  engine->stats.outputs++;
  record_output(engine, iface, raw);
  return NM_OK;
}

int nm_iface_send(nm_engine *engine, nm_iface *iface, nm_block *packet,
                  nm_op_id op) {
  return put(engine, iface, &engine->outbox, packet, op);
}

int nm_iface_relay(nm_engine *engine, nm_iface *iface, nm_block *packet) {
  return put(engine, iface, &engine->relays, packet, 0);
}

size_t nm_iface_broadcast(nm_engine *engine, nm_block *packet,
                          bool (*wanted)(const nm_iface *iface), nm_op_id op) {
  size_t taken = 0;
  uint64_t below = UINT64_MAX;
  for (;;) {
    /* The next lower bitrate, then every interface that has it. */
    uint64_t level = 0;
    bool found = false;
    nm_iface *iface = NULL;
    while ((iface = nm_iface_after(engine, iface)) != NULL) {
      if (iface->spec.bitrate < below && iface->spec.bitrate >= level) {
        level = iface->spec.bitrate;
        found = true;
      }
    }
    if (!found) {
      break;
    }
    while ((iface = nm_iface_after(engine, iface)) != NULL) {
      if (iface->spec.bitrate == level && nm_iface_can_send(iface) &&
          (wanted == NULL || wanted(iface)) &&
          nm_iface_send(engine, iface, nm_block_hold(packet), op) == NM_OK) {
        taken++;
      }
    }
    below = level;
  }
  nm_block_drop(packet);
  return taken;
}
