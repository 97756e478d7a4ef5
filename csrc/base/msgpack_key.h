/* The order of map keys, for finding repeated ones. Private to msgpack.
 */
#ifndef NM_BASE_MSGPACK_KEY_H
#define NM_BASE_MSGPACK_KEY_H

#include "base/msgpack.h"

/* Looks among the keys that begin at the |n| offsets |at| of |in|, all of them
 * valid, for the first that repeats an earlier one. Returns its offset, or
 * SIZE_MAX. Reorders |at|. */
size_t nm_mp_find_duplicate(nm_span in, size_t *at, size_t n);

#endif
