/* The LXMF message: packed form, payload, id, signature (LXMF 2).
 *
 * Decoding is one pass that makes views into the input: no copy, no hash, no
 * signature check. Encoding writes once into the caller's buffer. The sizes of
 * both are exact and known before.
 */
#ifndef NM_WIRE_LXMF_MESSAGE_H
#define NM_WIRE_LXMF_MESSAGE_H

#include "base/cursor.h"
#include "base/mem.h"
#include "base/msgpack.h"
#include "crypto/curve.h"
#include "wire/lxmf_constants.h"

/* A decoded message. All spans borrow from the input of the decoder. */
typedef struct nm_lxmf_view {
  nm_destination_hash destination;
  nm_destination_hash source;
  nm_span signature; /* 64 bytes */
  nm_span payload;   /* all bytes after the signature, trailing ones included */
  double timestamp;  /* Unix seconds, converted if it was an integer */
  nm_mp_type timestamp_type; /* FLOAT, UINT or INT */
  bool timestamp_float32;    /* FLOAT that came as 32 bits */
  bool title_text;           /* came as str instead of bin */
  bool content_text;
  bool canonical; /* elements 0..3 are in canonical msgpack form */
  nm_span title;
  nm_span content;
  nm_span fields;        /* the encoded map; empty when it came as nil */
  nm_span elements;      /* the encoding of elements 0..3, without the header */
  uint32_t count;        /* elements in the payload array, at least 4 */
  nm_mp_type stamp_type; /* of element 4; NIL when there is none */
  nm_span stamp;         /* its bytes when it is bin; `ptr` NULL otherwise */
  uint64_t timestamp_uint; /* the value when timestamp_type is UINT */
  int64_t timestamp_int;   /* the value when timestamp_type is INT */
} nm_lxmf_view;

/* Reads the packed form: destination || source || signature || payload.
 * Accepts every valid msgpack encoding, an integer timestamp, title and
 * content as str, nil for empty fields, any element 4, and ignores further
 * elements and bytes after the array (LXMF 2.2, 2.4). |limits| NULL means
 * nm_mp_limits_default, for each element. Fields in |fault|:
 * "destination", "source", "signature" (TRUNCATED), "payload" (TRUNCATED, TYPE
 * unless an array, LENGTH below 4 elements), "timestamp", "title", "content",
 * "fields" (TYPE), "stamp", "element" (further ones); and for each of them the
 * errors of nm_mp_skip. */
int nm_lxmf_decode(nm_span packed, const nm_mp_limits *limits,
                   nm_lxmf_view *view, nm_fault *fault);

/* Reads the opportunistic form, which omits the destination (LXMF 4.1): it is
 * given in |destination|. Errors and fields of nm_lxmf_decode; offsets count
 * from the start of |plaintext|. */
int nm_lxmf_decode_opportunistic(nm_span plaintext,
                                 const nm_destination_hash *destination,
                                 const nm_mp_limits *limits, nm_lxmf_view *view,
                                 nm_fault *fault);

/* The opportunistic form of a packed message: all but its first 16 bytes. An
 * empty span when |packed| is shorter. */
nm_span nm_lxmf_opportunistic(nm_span packed);

/* Appends destination || source || P4 to |out| (LXMF 2.3): what the id is the
 * hash of. P4 is the payload as received when it has 4 elements, else the
 * canonical encoding of the first four (LXMF 2.4). NM_E(MEMORY) or an error of
 * nm_mp_canonical. */
int nm_lxmf_hashed_data(const nm_lxmf_view *view, nm_buffer *out);

/* The message id: H of the above. Copies nothing unless the payload must be
 * re-encoded, for which |scratch| is used; it has its former length
 * afterwards. Errors of nm_lxmf_hashed_data. */
int nm_lxmf_message_id(const nm_lxmf_view *view, nm_buffer *scratch,
                       uint8_t id[NM_HASH_SIZE]);

/* Appends what is signed, hashed data || id, to |out| and stores the id.
 * Errors of nm_lxmf_hashed_data. */
int nm_lxmf_signed_data(const nm_lxmf_view *view, nm_buffer *out,
                        uint8_t id[NM_HASH_SIZE]);

/* Checks the signature with the source's Ed25519 public key and stores the id,
 * also when the signature is wrong. 0, NM_E(SIGNATURE), and errors of
 * nm_lxmf_hashed_data. Whether the key belongs to view->source is the caller's
 * to check. |scratch| has its former length afterwards. */
int nm_lxmf_verify(const nm_lxmf_view *view,
                   const uint8_t public_key[NM_KEY_SIZE], nm_buffer *scratch,
                   uint8_t id[NM_HASH_SIZE]);

/* --- Encoding --- */

/* What a message is made of. Spans are borrowed. */
typedef struct nm_lxmf_draft {
  nm_destination_hash destination;
  nm_destination_hash source;
  double timestamp; /* Unix seconds, written as float64 */
  nm_span title;    /* written as bin */
  nm_span content;  /* written as bin */
  nm_span fields;   /* one encoded msgpack map; empty means no fields. It is
                       copied as it is: nm_lxmf_fields_canonical makes sure
                       that it is canonical */
  nm_span stamp;    /* 32-byte stamp, 16-byte ticket stamp, or empty */
} nm_lxmf_draft;

/* Exact size of the payload and of the packed message. */
size_t nm_lxmf_payload_size(const nm_lxmf_draft *draft);
size_t nm_lxmf_packed_size(const nm_lxmf_draft *draft);

/* Checks that |fields| is one complete msgpack map and writes its canonical
 * form to |w|; at most 2 * fields.len + 16 bytes. Field "fields". */
int nm_lxmf_fields_canonical(nm_span fields, const nm_mp_limits *limits,
                             nm_writer *w, nm_fault *fault);

/* Writes the packed message with a signature that is given; hashes nothing.
 * NM_E(TOO_LARGE) when |w| is too small. */
int nm_lxmf_encode(const nm_lxmf_draft *draft,
                   const uint8_t signature[NM_SIGNATURE_SIZE], nm_writer *w);

/* The id of the message that |draft| makes; the stamp plays no part. */
void nm_lxmf_draft_id(const nm_lxmf_draft *draft, uint8_t id[NM_HASH_SIZE]);

/* Makes the whole message: id, signature, then the packed form. |ticket| (16
 * bytes, may be NULL) makes a ticket stamp (LXMF 7); draft->stamp must then be
 * empty, else NM_E(ARGUMENT). Also NM_E(LIBRARY), NM_E(TOO_LARGE); |w| is as it
 * was after an error. The room needed is nm_lxmf_packed_size, with 18 bytes
 * more for a ticket. */
int nm_lxmf_pack(const nm_lxmf_draft *draft, const nm_ed25519_sign_key *key,
                 const uint8_t *ticket, nm_writer *w, uint8_t id[NM_HASH_SIZE]);

/* Exact size of a decoded message once it carries a stamp of |stamp_len|
 * bytes; 0 stands for none. */
size_t nm_lxmf_restamped_size(const nm_lxmf_view *view, size_t stamp_len);

/* Writes a decoded message again with |stamp| as element 4, or without any
 * when |stamp| is empty; elements after it are dropped. Id and signature stay
 * as they are (LXMF 2.3). NM_E(STATE) when they would not, because the payload
 * is not canonical; NM_E(TOO_LARGE). */
int nm_lxmf_restamp(const nm_lxmf_view *view, nm_span stamp, nm_writer *w);

#endif
