#include "wire/control.h"

int nm_path_request_parse(nm_span payload, nm_path_request *request,
                          nm_fault *fault) {
  nm_reader r = nm_reader_of(payload);
  request->destination = nm_reader_take(&r, NM_ADDRESS_SIZE);
  if (r.status != NM_OK) {
    return nm_fault_set(fault, r.status, "destination", 0);
  }
  bool with_transport = payload.len > 2 * NM_ADDRESS_SIZE;
  request->transport_id = with_transport ? nm_reader_take(&r, NM_ADDRESS_SIZE)
                                         : nm_span_of(NULL, 0);
  size_t left = nm_reader_left(&r);
  request->tag_was_cut = left > NM_TAG_SIZE;
  request->tag = nm_reader_take(&r, left > NM_TAG_SIZE ? NM_TAG_SIZE : left);
  return NM_OK;
}

int nm_path_request_write(nm_writer *w, const nm_path_request *request,
                          nm_fault *fault) {
  if (request->destination.len != NM_ADDRESS_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "destination", 0);
  }
  if (request->transport_id.len != 0 &&
      request->transport_id.len != NM_ADDRESS_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "transport_id", NM_ADDRESS_SIZE);
  }
  if (request->tag.len == 0 || request->tag.len > NM_TAG_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "tag",
                        NM_ADDRESS_SIZE + request->transport_id.len);
  }
  nm_writer_span(w, request->destination);
  nm_writer_span(w, request->transport_id);
  nm_writer_span(w, request->tag);
  return w->status == NM_OK ? NM_OK
                            : nm_fault_set(fault, w->status, "output", w->pos);
}

nm_packet nm_path_request_packet(nm_span payload) {
  return nm_packet_of(NM_DATA, NM_PLAIN, NM_CONTEXT_NONE,
                      nm_path_request_address.b, payload);
}

int nm_tunnel_parse(nm_span payload, nm_tunnel *tunnel, nm_fault *fault) {
  if (payload.len != NM_TUNNEL_SIZE) {
    return nm_fault_set(fault, NM_E(LENGTH), "tunnel", payload.len);
  }
  nm_reader r = nm_reader_of(payload);
  tunnel->public_key = nm_reader_take(&r, NM_PUBLIC_SIZE);
  tunnel->interface_hash = nm_reader_take(&r, NM_HASH_SIZE);
  tunnel->random_hash = nm_reader_take(&r, NM_ADDRESS_SIZE);
  tunnel->signature = nm_reader_take(&r, NM_SIGNATURE_SIZE);
  return NM_OK;
}

#define TUNNEL_SIGNED (NM_TUNNEL_SIZE - NM_SIGNATURE_SIZE)

int nm_tunnel_verify(const nm_tunnel *tunnel) {
  uint8_t buf[TUNNEL_SIGNED];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  nm_writer_span(&data, tunnel->public_key);
  nm_writer_span(&data, tunnel->interface_hash);
  nm_writer_span(&data, tunnel->random_hash);
  nm_reader halves = nm_reader_of(tunnel->public_key);
  (void)nm_reader_take(&halves, NM_KEY_SIZE);
  nm_span ed25519 = nm_reader_take(&halves, NM_KEY_SIZE);
  return nm_ed25519_verify(ed25519.ptr, tunnel->signature.ptr,
                           nm_writer_done(&data));
}

int nm_tunnel_write(nm_writer *w, const nm_identity *identity,
                    const uint8_t interface_hash[NM_HASH_SIZE],
                    const uint8_t random_hash[NM_ADDRESS_SIZE]) {
  uint8_t buf[TUNNEL_SIGNED];
  nm_writer data = nm_writer_of(buf, sizeof buf);
  nm_writer_put(&data, identity->public_key, NM_PUBLIC_SIZE);
  nm_writer_put(&data, interface_hash, NM_HASH_SIZE);
  nm_writer_put(&data, random_hash, NM_ADDRESS_SIZE);
  uint8_t signature[NM_SIGNATURE_SIZE];
  int status = nm_identity_sign(identity, signature, nm_writer_done(&data));
  if (status != NM_OK) {
    return status;
  }
  nm_writer_put(w, buf, sizeof buf);
  nm_writer_put(w, signature, sizeof signature);
  return w->status;
}

void nm_tunnel_id(const nm_tunnel *tunnel, uint8_t out[NM_HASH_SIZE]) {
  nm_span parts[2] = {tunnel->public_key, tunnel->interface_hash};
  nm_sha256v(out, parts, 2);
}

nm_packet nm_tunnel_packet(nm_span payload) {
  return nm_packet_of(NM_DATA, NM_PLAIN, NM_CONTEXT_NONE, nm_tunnel_address.b,
                      payload);
}

/* Opens an array of at least |count| elements. */
static int open_array(nm_reader *r, uint32_t count, const char *field,
                      nm_fault *fault) {
  nm_mp_item item;
  int status = nm_mp_read(r, &item);
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  }
  if (status == NM_OK && item.count < count) {
    status = NM_E(LENGTH);
  }
  return status == NM_OK ? NM_OK : nm_fault_set(fault, status, field, 0);
}

/* Reads a byte string of 16 bytes. */
static int read_hash(nm_reader *r, nm_span *hash, const char *field,
                     nm_fault *fault) {
  size_t at = r->pos;
  nm_mp_item item;
  int status = nm_mp_read(r, &item);
  if (status == NM_OK && item.type != NM_MP_BIN) {
    status = NM_E(TYPE);
  }
  if (status == NM_OK && item.data.len != NM_ADDRESS_SIZE) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, field, at);
  }
  *hash = item.data;
  return NM_OK;
}

/* Takes one whole value as it is. */
static int take_value(nm_reader *r, const nm_mp_limits *limits, nm_span *value,
                      nm_fault *fault) {
  nm_reader start = *r;
  int status = nm_mp_skip(r, limits);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "data", start.pos);
  }
  *value = nm_reader_take(&start, r->pos - start.pos);
  return NM_OK;
}

int nm_request_parse(nm_span packed, const nm_mp_limits *limits,
                     nm_request *request, nm_fault *fault) {
  nm_reader r = nm_reader_of(packed);
  int status = open_array(&r, 3, "request", fault);
  if (status != NM_OK) {
    return status;
  }
  size_t at = r.pos;
  status = nm_mp_read_number(&r, &request->timestamp);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "timestamp", at);
  }
  status = read_hash(&r, &request->path_hash, "path_hash", fault);
  return status != NM_OK ? status
                         : take_value(&r, limits, &request->data, fault);
}

/* Writes a value that is packed already; an empty one stands for nil. */
static void put_value(nm_writer *w, nm_span value) {
  if (value.len == 0) {
    nm_mp_nil(w);
  } else {
    nm_writer_span(w, value);
  }
}

static size_t value_size(nm_span value) {
  return value.len == 0 ? 1 : value.len;
}

int nm_request_write(nm_writer *w, const nm_request *request) {
  if (request->path_hash.len != NM_ADDRESS_SIZE) {
    return NM_E(LENGTH);
  }
  nm_mp_array(w, 3);
  nm_mp_float(w, request->timestamp);
  nm_mp_bin(w, request->path_hash);
  put_value(w, request->data);
  return w->status;
}

size_t nm_request_size(const nm_request *request) {
  return 1 + 9 + nm_mp_bin_size(NM_ADDRESS_SIZE) + value_size(request->data);
}

int nm_request_id_of_packet(nm_span raw, uint8_t out[NM_ADDRESS_SIZE],
                            nm_fault *fault) {
  nm_packet_hash hash;
  int status = nm_packet_digest_raw(raw, &hash, fault);
  if (status == NM_OK) {
    nm_reader r = nm_reader_of(nm_span_of(hash.b, NM_HASH_SIZE));
    nm_reader_copy(&r, out, NM_ADDRESS_SIZE);
  }
  return status;
}

void nm_request_id_of_resource(nm_span packed, uint8_t out[NM_ADDRESS_SIZE]) {
  nm_truncated_hash(out, packed);
}

int nm_response_parse(nm_span packed, const nm_mp_limits *limits,
                      nm_response *response, nm_fault *fault) {
  nm_reader r = nm_reader_of(packed);
  int status = open_array(&r, 2, "response", fault);
  if (status == NM_OK) {
    status = read_hash(&r, &response->request_id, "request_id", fault);
  }
  return status != NM_OK ? status
                         : take_value(&r, limits, &response->data, fault);
}

int nm_response_write(nm_writer *w, const nm_response *response) {
  if (response->request_id.len != NM_ADDRESS_SIZE) {
    return NM_E(LENGTH);
  }
  nm_mp_array(w, 2);
  nm_mp_bin(w, response->request_id);
  put_value(w, response->data);
  return w->status;
}

size_t nm_response_size(const nm_response *response) {
  return 1 + nm_mp_bin_size(NM_ADDRESS_SIZE) + value_size(response->data);
}
