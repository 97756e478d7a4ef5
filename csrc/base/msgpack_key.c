/* Keys are sorted in place by a total order and neighbours compared: n log n
 * steps whatever a peer chooses, and no memory beyond the offsets.
 *
 * The order: nil < numbers (booleans among them) < str < bin < arrays < ext;
 * numbers by exact value, strings by bytes, arrays by length and then element
 * by element. A NaN comes after all numbers and differs from each other NaN, so
 * two of them are ordered by their place in the input.
 */
#include "base/msgpack_key.h"

#include <math.h>

static int rank(nm_mp_type type) {
  switch (type) {
  case NM_MP_NIL:
    return 0;
  case NM_MP_BOOL:
  case NM_MP_UINT:
  case NM_MP_INT:
  case NM_MP_FLOAT:
    return 1;
  case NM_MP_STR:
    return 2;
  case NM_MP_BIN:
    return 3;
  case NM_MP_ARRAY:
    return 4;
  default:
    return 5;
  }
}

static int order_u64(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

static int order_bytes(nm_span a, nm_span b) {
  size_t common = a.len < b.len ? a.len : b.len;
  int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);
  return order != 0 ? order : order_u64(a.len, b.len);
}

/* A number as sign and magnitude, or a float that is not an integer of that
 * range. */
typedef struct number {
  bool negative;
  uint64_t magnitude;
  double fraction; /* what is left of a float, towards its sign */
  int size;        /* -1, +1: below or above every such integer; 2: NaN */
} number;

static number number_of(const nm_mp_item *item) {
  number n = {false, 0, 0.0, 0};
  double real = item->real;
  switch (item->type) {
  case NM_MP_BOOL:
    n.magnitude = item->boolean ? 1 : 0;
    return n;
  case NM_MP_UINT:
    n.magnitude = item->uint;
    return n;
  case NM_MP_INT:
    n.negative = true;
    n.magnitude = (uint64_t)(-(item->sint + 1)) + 1;
    return n;
  default:
    break;
  }
  if (isnan(real)) {
    n.size = 2;
  } else if (real >= 0x1p64 || real <= -0x1p64) {
    n.size = real > 0 ? 1 : -1;
    n.fraction = fabs(real);
    n.negative = real < 0;
  } else {
    n.magnitude = (uint64_t)fabs(real);
    n.fraction = fabs(real) - (double)n.magnitude;
    /* -0.0 is 0 */
    n.negative = real < 0;
  }
  return n;
}

static int order_numbers(const nm_mp_item *a, const nm_mp_item *b) {
  number x = number_of(a);
  number y = number_of(b);
  if (x.size != y.size) {
    return x.size < y.size ? -1 : 1;
  }
  if (x.negative != y.negative) {
    return x.negative ? -1 : 1;
  }
  int order = order_u64(x.magnitude, y.magnitude);
  if (order == 0) {
    order = (x.fraction > y.fraction) - (x.fraction < y.fraction);
  }
  return x.negative ? -order : order;
}

static bool is_nan(const nm_mp_item *item) {
  return item->type == NM_MP_FLOAT && isnan(item->real);
}

static int order_items(const nm_mp_item *a, const nm_mp_item *b) {
  int order = rank(a->type) - rank(b->type);
  if (order != 0) {
    return order;
  }
  switch (a->type) {
  case NM_MP_NIL:
    return 0;
  case NM_MP_STR:
  case NM_MP_BIN:
    return order_bytes(a->data, b->data);
  case NM_MP_ARRAY:
    return order_u64(a->count, b->count);
  case NM_MP_EXT:
    order = a->ext_type - b->ext_type;
    return order != 0 ? order : order_bytes(a->data, b->data);
  default:
    return order_numbers(a, b);
  }
}

/* The order of the keys at two offsets; 0 only for equal keys. */
static int order_keys(nm_span in, size_t at, size_t bt) {
  nm_reader a = nm_reader_of(in);
  nm_reader b = nm_reader_of(in);
  a.pos = at;
  b.pos = bt;
  uint64_t left = 1;
  for (; left > 0; left--) {
    nm_mp_item x;
    nm_mp_item y;
    if (nm_mp_read(&a, &x) != NM_OK || nm_mp_read(&b, &y) != NM_OK) {
      break; /* not reached: the keys were read before */
    }
    int order = order_items(&x, &y);
    if (order != 0) {
      return order;
    }
    if (is_nan(&x)) {
      return order_u64(at, bt);
    }
    if (x.type == NM_MP_ARRAY) {
      left += x.count;
    }
  }
  return 0;
}

/* The same, with equal keys in their order in the input. */
static bool is_before(nm_span in, size_t at, size_t bt) {
  int order = order_keys(in, at, bt);
  return order < 0 || (order == 0 && at < bt);
}

static void sift_down(nm_span in, size_t *at, size_t root, size_t n) {
  for (;;) {
    size_t child = 2 * root + 1;
    if (child >= n) {
      return;
    }
    if (child + 1 < n && is_before(in, at[child], at[child + 1])) {
      child++;
    }
    if (!is_before(in, at[root], at[child])) {
      return;
    }
    size_t swap = at[root];
    at[root] = at[child];
    at[child] = swap;
    root = child;
  }
}

static void heap_sort(nm_span in, size_t *at, size_t n) {
  for (size_t root = n / 2; root > 0; root--) {
    sift_down(in, at, root - 1, n);
  }
  for (size_t last = n - 1; last > 0; last--) {
    size_t swap = at[0];
    at[0] = at[last];
    at[last] = swap;
    sift_down(in, at, 0, last);
  }
}

/* For the usual handful of keys comparing all pairs is quickest. */
#define PAIRWISE_MAX 8

size_t nm_mp_find_duplicate(nm_span in, size_t *at, size_t n) {
  size_t found = SIZE_MAX;
  if (n <= PAIRWISE_MAX) {
    for (size_t i = 1; i < n; i++) {
      for (size_t j = 0; j < i; j++) {
        if (order_keys(in, at[j], at[i]) == 0) {
          return at[i];
        }
      }
    }
    return found;
  }
  heap_sort(in, at, n);
  for (size_t i = 1; i < n; i++) {
    if (at[i] < found && order_keys(in, at[i - 1], at[i]) == 0) {
      found = at[i];
    }
  }
  return found;
}
