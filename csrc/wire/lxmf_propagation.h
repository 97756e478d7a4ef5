/* Propagated messages: the encrypted form, its id and stamp, the container of
 * uploads and syncs, and the payloads of a client's download (LXMF 8, 10.1).
 */
#ifndef NM_WIRE_LXMF_PROPAGATION_H
#define NM_WIRE_LXMF_PROPAGATION_H

#include "base/cursor.h"
#include "base/msgpack.h"
#include "crypto/identity.h"
#include "wire/lxmf_constants.h"

/* A stamped element must be longer than this (LXMF 8.3). */
#define NM_LXMF_STAMPED_MIN 144
/* The least bytes of lxmf_data that a node or a paper reader takes. */
#define NM_LXMF_DATA_MIN 112

/* --- One element --- */

/* Size of the encrypted form of a packed message; 0 when |packed_len| is below
 * 16. */
size_t nm_lxmf_data_size(size_t packed_len);

/* Writes lxmf_data = destination || encrypt(packed[16:]), nm_lxmf_data_size
 * bytes, to |out|. Encrypt once and keep the bytes: another encryption is
 * another transient id. NM_E(TRUNCATED) when |packed| is shorter than a
 * message, and the errors of nm_identity_encrypt. */
int nm_lxmf_data_seal(nm_cipher *cipher, const nm_encrypt_params *params,
                      nm_span packed, uint8_t *out);

/* Opens lxmf_data to the packed message, destination included. |out| has room
 * for data.len bytes. Fields: "lxmf_data" (TRUNCATED below 112 bytes), else
 * "lxmf_data.token" with the errors of nm_identity_decrypt. |*opened_by| as
 * there; may be NULL. */
int nm_lxmf_data_open(nm_cipher *cipher, const nm_decrypt_keys *keys,
                      nm_span data, uint8_t *out, size_t *out_len,
                      ptrdiff_t *opened_by, nm_fault *fault);

/* H(lxmf_data). */
void nm_lxmf_transient_id(nm_span data, uint8_t id[NM_HASH_SIZE]);

/* A stamped element taken apart. Spans borrow from the input. */
typedef struct nm_lxmf_stamped {
  nm_span data;  /* lxmf_data */
  nm_span stamp; /* its last 32 bytes, unconditionally */
  nm_destination_hash destination;
} nm_lxmf_stamped;

/* Field "stamped": LENGTH at 144 bytes or less. */
int nm_lxmf_stamped_split(nm_span stamped, nm_lxmf_stamped *out,
                          nm_fault *fault);

/* Splits and checks the stamp against |cost| as a node does: stores transient
 * id and stamp value. LENGTH as above, VALUE "stamped.stamp" when the stamp is
 * too weak, in which case id and value are still set. About 0.3 ms. */
int nm_lxmf_stamped_check(nm_span stamped, uint32_t cost, nm_lxmf_stamped *out,
                          uint8_t transient_id[NM_HASH_SIZE], uint32_t *value,
                          nm_fault *fault);

/* --- The container: [time, [stamped, ...]] --- */

/* An element to write: lxmf_data and its stamp one after the other; either may
 * be empty, so that a whole stamped element can be given as `data`. */
typedef struct nm_lxmf_element {
  nm_span data;
  nm_span stamp;
} nm_lxmf_element;

size_t nm_lxmf_container_size(const nm_lxmf_element *elements, uint32_t count);
/* NM_E(TOO_LARGE). */
int nm_lxmf_container_encode(double time, const nm_lxmf_element *elements,
                             uint32_t count, nm_writer *w);

/* A container being walked. */
typedef struct nm_lxmf_container {
  double time;    /* the sender's clock; its value means nothing */
  uint32_t count; /* messages */
  uint32_t taken;
  nm_reader reader;
} nm_lxmf_container;

/* Reads the head and checks that all messages are there and are bin. Fields:
 * "container" (TYPE unless an array, LENGTH below 2 elements),
 * "container.time" (TYPE), "container.messages" (TYPE unless an array, LIMIT
 * above |count_max|), "container.message" (TYPE). Bytes after it are ignored.
 */
int nm_lxmf_container_open(nm_span in, uint32_t count_max,
                           nm_lxmf_container *container, nm_fault *fault);
/* The next message, as it came; false after the last. */
bool nm_lxmf_container_next(nm_lxmf_container *container, nm_span *message);

/* --- The signal of a node: [code] (LXMF 8.2) --- */

/* Writes [code]: 91 cc f5 for an invalid stamp. NM_E(TOO_LARGE). */
int nm_lxmf_signal_encode(uint64_t code, nm_writer *w);
/* Field "signal": TYPE unless an array, LENGTH when it is empty, TYPE unless
 * its first element is an unsigned integer. */
int nm_lxmf_signal_decode(nm_span in, uint64_t *code, nm_fault *fault);

/* --- Client download, data of a request to /get (LXMF 10.1) --- */

/* A list of 32-byte ids, or nil. Decoded lists borrow the encoded elements. */
typedef struct nm_lxmf_id_list {
  bool nil;
  uint32_t count;
  nm_span ids; /* encoding: count elements of 32 bytes one after the other;
                  decoding: the encoded elements, for nm_lxmf_id_list_next */
} nm_lxmf_id_list;

typedef struct nm_lxmf_get {
  nm_lxmf_id_list want;
  nm_lxmf_id_list have;
  bool has_limit;
  bool limit_float; /* write the limit as float64 */
  double limit_kb;  /* units of 1000 bytes */
} nm_lxmf_get;

size_t nm_lxmf_get_size(const nm_lxmf_get *get);
/* Writes [want, have] or [want, have, limit]: list is [nil, nil], fetch [want,
 * have, limit], acknowledge [nil, have]. NM_E(RANGE) for a limit that is to be
 * an integer and is none, NM_E(ARGUMENT) for a list whose bytes are not 32 for
 * each id, NM_E(TOO_LARGE). */
int nm_lxmf_get_encode(const nm_lxmf_get *get, nm_writer *w);
/* Field "get" (TYPE, LENGTH below 2), "get.want" and "get.have" (TYPE unless
 * nil or an array). A limit that is no number counts as none (LXMF 10.1). Ids
 * that are not bin of 32 are left in the list: no message has them. */
int nm_lxmf_get_decode(nm_span in, nm_lxmf_get *get, nm_fault *fault);

/* Walks a decoded list: the next element that is bin of 32, skipping others;
 * false after the last. Advances |list|. */
bool nm_lxmf_id_list_next(nm_lxmf_id_list *list, nm_span *id);

/* What a node answers: a list of ids or of messages, or an error number. */
typedef struct nm_lxmf_get_answer {
  bool is_error;
  uint64_t error; /* NM_LXMF_ERROR_NO_IDENTITY and so on */
  uint32_t count;
  nm_span elements; /* encoded, for nm_lxmf_answer_next */
} nm_lxmf_get_answer;

/* Field "get_answer": TYPE unless an array of bin or an unsigned integer. */
int nm_lxmf_get_answer_decode(nm_span in, nm_lxmf_get_answer *answer,
                              nm_fault *fault);
/* The next element; false after the last. Advances |answer|. */
bool nm_lxmf_answer_next(nm_lxmf_get_answer *answer, nm_span *element);

#endif
