#include "wire/destination.h"

#include "base/msgpack.h"

/* The length of |name| up to its first dot, or all of it. */
static size_t part_length(nm_span name) {
  nm_reader r = nm_reader_of(name);
  while (nm_reader_left(&r) > 0) {
    if (nm_reader_u8(&r) == '.') {
      return r.pos - 1;
    }
  }
  return name.len;
}

int nm_name_part_check(nm_span part) {
  if (part_length(part) != part.len) {
    return NM_E(VALUE);
  }
  return nm_utf8_valid(part) ? NM_OK : NM_E(UTF8);
}

int nm_name_join(nm_writer *w, nm_span app, const nm_span *aspects,
                 size_t count) {
  int status = nm_name_part_check(app);
  nm_writer_span(w, app);
  for (size_t i = 0; i < count && status == NM_OK; i++) {
    status = nm_name_part_check(aspects[i]);
    nm_writer_u8(w, '.');
    nm_writer_span(w, aspects[i]);
  }
  return status != NM_OK ? status : w->status;
}

bool nm_name_next(nm_span *rest, nm_span *part) {
  if (rest->ptr == NULL) {
    return false;
  }
  nm_reader r = nm_reader_of(*rest);
  *part = nm_reader_take(&r, part_length(*rest));
  bool dot = nm_reader_left(&r) > 0;
  if (dot) {
    (void)nm_reader_u8(&r);
    *rest = nm_span_of(r.base + r.pos, nm_reader_left(&r));
  } else {
    *rest = nm_span_of(NULL, 0);
  }
  return true;
}

int nm_name_expand(nm_writer *w, nm_span name,
                   const nm_identity_hash *identity) {
  static const char digits[] = "0123456789abcdef";
  nm_writer_span(w, name);
  nm_writer_u8(w, '.');
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    nm_writer_u8(w, (uint8_t)digits[identity->b[i] >> 4]);
    nm_writer_u8(w, (uint8_t)digits[identity->b[i] & 15]);
  }
  return w->status;
}

void nm_destination_address(const uint8_t name_hash[NM_NAME_HASH_SIZE],
                            const nm_identity_hash *identity,
                            nm_destination_hash *out) {
  nm_span parts[2] = {nm_span_of(name_hash, NM_NAME_HASH_SIZE)};
  size_t n = 1;
  if (identity != NULL) {
    parts[n++] = nm_span_of(identity->b, NM_ADDRESS_SIZE);
  }
  nm_truncated_hashv(out->b, parts, n);
}

int nm_destination_check(int direction, int type, bool has_identity,
                         nm_fault *fault) {
  if (direction != NM_DIRECTION_IN && direction != NM_DIRECTION_OUT) {
    return nm_fault_set(fault, NM_E(VALUE), "direction", 0);
  }
  if (type != NM_SINGLE && type != NM_GROUP && type != NM_PLAIN) {
    return nm_fault_set(fault, NM_E(VALUE), "type", 0);
  }
  if (type == NM_PLAIN) {
    return has_identity ? nm_fault_set(fault, NM_E(STATE), "identity", 0)
                        : NM_DESTINATION_OK;
  }
  if (has_identity) {
    return NM_DESTINATION_OK;
  }
  return direction == NM_DIRECTION_IN
             ? NM_DESTINATION_NEW_IDENTITY
             : nm_fault_set(fault, NM_E(MISSING), "identity", 0);
}

bool nm_destination_announces(int direction, int type) {
  return direction == NM_DIRECTION_IN && type == NM_SINGLE;
}

int nm_proof_strategy_check(int strategy) {
  return strategy == NM_PROVE_NONE || strategy == NM_PROVE_APP ||
                 strategy == NM_PROVE_ALL
             ? NM_OK
             : NM_E(VALUE);
}

int nm_request_handler_check(nm_span path, int policy, bool has_allowed,
                             size_t allowed_len, nm_fault *fault) {
  if (path.len == 0) {
    return nm_fault_set(fault, NM_E(EMPTY), "path", 0);
  }
  if (policy != NM_ALLOW_NONE && policy != NM_ALLOW_ALL &&
      policy != NM_ALLOW_LIST) {
    return nm_fault_set(fault, NM_E(VALUE), "policy", 0);
  }
  if (policy != NM_ALLOW_LIST) {
    return has_allowed ? nm_fault_set(fault, NM_E(STATE), "allowed", 0) : NM_OK;
  }
  if (!has_allowed) {
    return nm_fault_set(fault, NM_E(MISSING), "allowed", 0);
  }
  return allowed_len % NM_ADDRESS_SIZE == 0
             ? NM_OK
             : nm_fault_set(fault, NM_E(LENGTH), "allowed", allowed_len);
}

void nm_request_path_hash(nm_span path, uint8_t out[NM_ADDRESS_SIZE]) {
  nm_truncated_hash(out, path);
}

void nm_interface_hash(nm_span display_name, uint8_t out[NM_HASH_SIZE]) {
  nm_sha256(out, display_name);
}
