#include "stack/ingress.h"

#include <string.h>

/* The first bytes of a frame that is no packet: RNS 1, 6.4 step 1. */
#define RUNT_MAX 2

static nm_drop drop_of_ifac(nm_ifac_verdict verdict) {
  switch (verdict) {
  case NM_IFAC_OK:
    return NM_DROP_NONE;
  case NM_IFAC_NO_FLAG:
    return NM_DROP_IFAC_MISSING;
  case NM_IFAC_TOO_SHORT:
    return NM_DROP_IFAC_SHORT;
  case NM_IFAC_UNEXPECTED:
    return NM_DROP_IFAC_UNEXPECTED;
  case NM_IFAC_WRONG_CODE:
  case NM_IFAC_FAILED:
    break;
  }
  return NM_DROP_IFAC_WRONG;
}

static nm_drop drop_of_parse(const nm_fault *fault) {
  if (fault->status == NM_E(EMPTY)) {
    return NM_DROP_EMPTY;
  }
  return fault->status == NM_E(RANGE) ? NM_DROP_HOPS : NM_DROP_MALFORMED;
}

static nm_drop take_code(const nm_ingress_config *config, nm_span data,
                         nm_mspan scratch, nm_span *raw) {
  if (data.len <= RUNT_MAX) {
    return NM_DROP_RUNT;
  }
  *raw = data;
  size_t code = config->ifac == NULL ? 0 : config->ifac->size;
  if (config->hw_mtu != 0 && data.len > config->hw_mtu + code) {
    return NM_DROP_OVERSIZE;
  }
  if (config->ifac == NULL) {
    return drop_of_ifac(nm_ifac_absent(data));
  }
  if (scratch.len < data.len) {
    return NM_DROP_NO_MEMORY;
  }
  size_t len = 0;
  nm_ifac_verdict verdict =
      nm_ifac_unmask(config->ifac, data, scratch.ptr, &len);
  *raw = nm_span_of(scratch.ptr, len);
  return drop_of_ifac(verdict);
}

/* All but the hash; false when the frame is refused. */
static bool take_frame(const nm_ingress_config *config, nm_span data,
                       nm_mspan scratch, nm_frame *frame) {
  memset(frame, 0, sizeof(*frame));
  frame->rssi_dbm = NM_SIGNAL_NONE;
  frame->snr_cdb = NM_SIGNAL_NONE;
  frame->quality_pct = NM_SIGNAL_NONE;
  frame->drop = take_code(config, data, scratch, &frame->raw);
  if (frame->drop != NM_DROP_NONE) {
    return false;
  }
  nm_fault fault = {0};
  if (nm_packet_parse(frame->raw, &frame->packet, &fault) != NM_OK) {
    frame->drop = drop_of_parse(&fault);
    return false;
  }
  return true;
}

/* Whether |frame| is to be hashed, which it notes. */
static bool wants_hash(const nm_ingress_config *config, nm_frame *frame) {
  frame->unhashed = config->parts_unhashed && nm_packet_is_part(&frame->packet);
  return !frame->unhashed;
}

void nm_ingress(const nm_ingress_config *config, nm_span data, nm_mspan scratch,
                nm_frame *frame) {
  if (take_frame(config, data, scratch, frame) && wants_hash(config, frame)) {
    nm_packet_digest(&frame->packet, &frame->hash);
  }
}

void nm_ingress_many(const nm_ingress_config *config, const nm_span *data,
                     size_t count, nm_mspan scratch, nm_frame *frames) {
  const nm_packet *packets[NM_DIGEST_BATCH];
  nm_packet_hash *hashes[NM_DIGEST_BATCH];
  size_t waiting = 0;
  for (size_t i = 0; i < count; i++) {
    if (take_frame(config, data[i], scratch, &frames[i]) &&
        wants_hash(config, &frames[i])) {
      packets[waiting] = &frames[i].packet;
      hashes[waiting++] = &frames[i].hash;
    }
    if (config->ifac != NULL) {
      size_t used = data[i].len < scratch.len ? data[i].len : scratch.len;
      scratch.ptr += used;
      scratch.len -= used;
    }
    if (waiting == NM_DIGEST_BATCH || i + 1 == count) {
      nm_packet_digest_many(packets, waiting, hashes);
      waiting = 0;
    }
  }
}

int nm_egress(const nm_ifac *ifac, nm_span raw, nm_mspan out) {
  if (ifac != NULL) {
    size_t len = 0;
    int status = nm_ifac_mask(ifac, raw, out.ptr, out.len, &len, NULL);
    return status == NM_OK ? (int)len : status;
  }
  if (out.len < raw.len) {
    return NM_E(TOO_LARGE);
  }
  if (raw.len > 0) {
    memcpy(out.ptr, raw.ptr, raw.len);
  }
  return (int)raw.len;
}
