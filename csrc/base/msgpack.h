/* MessagePack as Reticulum and LXMF use it (RNS 2, 0.3; LXMF 1).
 *
 * The encoder emits the canonical form only: shortest integers, float64 only,
 * distinct str and bin. The decoder accepts every valid encoding (non-minimal
 * integers, float32, ext) within limits of depth and element count, and walks
 * without recursion.
 */
#ifndef NM_BASE_MSGPACK_H
#define NM_BASE_MSGPACK_H

#include "base/cursor.h"
#include "base/mem.h"

typedef enum nm_mp_type {
  NM_MP_NIL,
  NM_MP_BOOL,
  NM_MP_UINT,  /* value >= 0 */
  NM_MP_INT,   /* value < 0 */
  NM_MP_FLOAT, /* float32 is widened */
  NM_MP_STR,
  NM_MP_BIN,
  NM_MP_ARRAY, /* `count` elements follow */
  NM_MP_MAP,   /* `count` pairs follow */
  NM_MP_EXT
} nm_mp_type;

/* One item header or scalar. Spans borrow from the reader's input. */
typedef struct nm_mp_item {
  nm_mp_type type;
  bool boolean;
  int8_t ext_type;
  uint32_t count; /* ARRAY, MAP */
  uint64_t uint;  /* UINT */
  int64_t sint;   /* INT */
  double real;    /* FLOAT */
  nm_span data;   /* STR, BIN, EXT */
} nm_mp_item;

/* Deepest nesting that any limits can allow. */
#define NM_MP_DEPTH_CAP 256

/* Most arrays and most numbers (booleans among them) among the keys of one map.
 * Readers that put keys into hash tables know no secret hash for these: a peer
 * could choose arrays that all collide, and numbers of which each is looked for
 * along a long row of taken places.
 */
#define NM_MP_ARRAY_KEYS_MAX 64
#define NM_MP_NUMBER_KEYS_MAX 4096

typedef struct nm_mp_limits {
  uint32_t depth_max; /* nesting of arrays and maps; above the cap: the cap */
  uint32_t elements_max; /* items in one value, containers included */
  /* Serves maps with many keys (more than 64 open at once): 8 bytes per key,
   * released before the call returns. Not NULL. */
  const nm_mem *mem;
} nm_mp_limits;

/* depth 64, elements 1,000,000, nm_mem_system. */
extern const nm_mp_limits nm_mp_limits_default;

/* Whether |s| is UTF-8: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
bool nm_utf8_valid(nm_span s);

/* Reads one item (a container's header only). 0, NM_E(TRUNCATED),
 * NM_E(RESERVED) for 0xc1, NM_E(UTF8) for a bad str. A failure is latched in
 * the reader, at the position where the item began. */
int nm_mp_read(nm_reader *r, nm_mp_item *item);

/* Skips one whole value, validating it: the errors of nm_mp_read; NM_E(DEPTH)
 * for a container nested too deeply, empty ones included; NM_E(LIMIT) as soon
 * as more than elements_max items are announced, and at a key that is one array
 * or number too many (NM_MP_ARRAY_KEYS_MAX, NM_MP_NUMBER_KEYS_MAX); NM_E(TYPE)
 * for a map key that is a map or contains one; NM_E(DUPLICATE_KEY) at the first
 * key that repeats an earlier one, found when its map has been read;
 * NM_E(MEMORY). Keys are equal as LXMF 1 says: 1, 1.0 and true are one key, so
 * are 0, -0.0 and false; arrays compare by element; no NaN equals another. Time
 * grows with n log n in the number of keys, whatever they are. |limits| NULL
 * means the default. */
int nm_mp_skip(nm_reader *r, const nm_mp_limits *limits);

/* Copies one whole value from |r| to |w| in canonical form: map order kept,
 * float32 widened, over-long integers and lengths shrunk, ext reproduced
 * (LXMF 2.4). Errors of nm_mp_skip, and NM_E(TOO_LARGE) of the writer. The
 * output is never longer than 2 * input + 16 bytes. */
int nm_mp_canonical(nm_reader *r, nm_writer *w, const nm_mp_limits *limits);

/* Reads a number of any msgpack width as a double (RNS 2, 1.7: peers encode
 * numbers in other widths). NM_E(TYPE) for anything that is not a number. */
int nm_mp_read_number(nm_reader *r, double *value);

/* Writers; failures latch in |w| (NM_E(TOO_LARGE)). */
void nm_mp_nil(nm_writer *w);
void nm_mp_bool(nm_writer *w, bool v);
void nm_mp_uint(nm_writer *w, uint64_t v);
void nm_mp_int(nm_writer *w, int64_t v);
void nm_mp_float(nm_writer *w, double v);
void nm_mp_str(nm_writer *w, nm_span s);
void nm_mp_bin(nm_writer *w, nm_span s);
/* The header of a bin alone; |len| bytes are to follow. */
void nm_mp_bin_head(nm_writer *w, size_t len);
void nm_mp_array(nm_writer *w, uint32_t count);
void nm_mp_map(nm_writer *w, uint32_t count);
void nm_mp_ext(nm_writer *w, int8_t type, nm_span data);

/* Encoded sizes, for exact pre-computation. */
size_t nm_mp_uint_size(uint64_t v);
size_t nm_mp_bin_size(size_t len);
size_t nm_mp_str_size(size_t len);
size_t nm_mp_count_size(uint32_t count); /* array or map header */

#endif
