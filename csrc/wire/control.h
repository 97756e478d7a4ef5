/* Control payloads: path requests, tunnel synthesis, requests and responses
 * (RNS 1, 8.9.1, 8.9.2, 8.11; RNS 2, 2.1, 2.3).
 */
#ifndef NM_WIRE_CONTROL_H
#define NM_WIRE_CONTROL_H

#include "base/msgpack.h"
#include "crypto/identity.h"
#include "wire/packet.h"

typedef struct nm_path_request {
  nm_span destination;  /* 16 bytes: whose path is wanted */
  nm_span transport_id; /* 16 bytes, or empty */
  nm_span tag;          /* 1..16 bytes; empty: tagless, to be ignored */
  bool tag_was_cut;     /* it was longer: a violation, but answered */
} nm_path_request;

/* Reads a path request payload. NM_E(TRUNCATED) "destination" below 16 bytes.
 * Exactly 16 bytes give no tag; 17..32 a tag of the rest; more than 32 a
 * transport id and a tag cut to 16 bytes. */
int nm_path_request_parse(nm_span payload, nm_path_request *request,
                          nm_fault *fault);
/* Writes it: 32 or 48 bytes. NM_E(LENGTH) for a destination or transport id
 * that is not 16 bytes and for a tag that is not 1..16 bytes, NM_E(TOO_LARGE);
 * |fault| names the field.
 */
int nm_path_request_write(nm_writer *w, const nm_path_request *request,
                          nm_fault *fault);
/* The PLAIN packet that carries |payload|, which is borrowed. */
nm_packet nm_path_request_packet(nm_span payload);

typedef struct nm_tunnel {
  nm_span public_key;     /* 64 */
  nm_span interface_hash; /* 32 */
  nm_span random_hash;    /* 16 */
  nm_span signature;      /* 64 */
} nm_tunnel;

/* Reads a tunnel synthesis payload. NM_E(LENGTH) "tunnel" unless 176 bytes. */
int nm_tunnel_parse(nm_span payload, nm_tunnel *tunnel, nm_fault *fault);
/* 0 or NM_E(SIGNATURE): is it signed by the key that it names? */
int nm_tunnel_verify(const nm_tunnel *tunnel);
/* Writes the payload of |identity|'s tunnel. NM_E(NO_KEY), NM_E(TOO_LARGE),
 * NM_E(LIBRARY). */
int nm_tunnel_write(nm_writer *w, const nm_identity *identity,
                    const uint8_t interface_hash[NM_HASH_SIZE],
                    const uint8_t random_hash[NM_ADDRESS_SIZE]);
/* H(public key | interface hash). */
void nm_tunnel_id(const nm_tunnel *tunnel, uint8_t out[NM_HASH_SIZE]);
/* The PLAIN packet that carries |payload|, which is borrowed. */
nm_packet nm_tunnel_packet(nm_span payload);

typedef struct nm_request {
  double timestamp;  /* Unix seconds */
  nm_span path_hash; /* 16 bytes */
  nm_span data;      /* one MessagePack value, as it is on the wire */
} nm_request;

/* Reads [timestamp, path hash, data]. Further elements and bytes after the
 * array are ignored, the timestamp may be any number. NM_E(TYPE), NM_E(LENGTH),
 * NM_E(TRUNCATED) and the errors of nm_mp_skip; |fault| names "request",
 * "timestamp", "path_hash" or "data". |limits| NULL means the default. Only
 * data with a map of many keys makes nm_mp_skip allocate, from limits->mem. */
int nm_request_parse(nm_span packed, const nm_mp_limits *limits,
                     nm_request *request, nm_fault *fault);
/* Writes it; `data` is copied as it is and must be one whole value (empty
 * stands for nil). NM_E(LENGTH) for a path hash that is not 16 bytes,
 * NM_E(TOO_LARGE). */
int nm_request_write(nm_writer *w, const nm_request *request);
size_t nm_request_size(const nm_request *request);

/* The id of a request sent in a packet: its truncated packet hash. Errors of
 * nm_packet_parse. */
int nm_request_id_of_packet(nm_span raw, uint8_t out[NM_ADDRESS_SIZE],
                            nm_fault *fault);
/* The id of a request sent as a resource: T(packed). */
void nm_request_id_of_resource(nm_span packed, uint8_t out[NM_ADDRESS_SIZE]);

typedef struct nm_response {
  nm_span request_id; /* 16 bytes */
  nm_span data;       /* one MessagePack value */
} nm_response;

/* Reads [request id, response]; as nm_request_parse, naming "response",
 * "request_id" or "data". */
int nm_response_parse(nm_span packed, const nm_mp_limits *limits,
                      nm_response *response, nm_fault *fault);
/* Writes it; as nm_request_write. */
int nm_response_write(nm_writer *w, const nm_response *response);
size_t nm_response_size(const nm_response *response);

#endif
