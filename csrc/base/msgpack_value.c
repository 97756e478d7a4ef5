/* Whole values: one walk that validates, and copies when asked to. */
#include "base/msgpack.h"
#include "base/msgpack_key.h"

const nm_mp_limits nm_mp_limits_default = {64, 1000000, &nm_mem_system};

/* An open array or map. */
typedef struct frame {
  uint64_t left;       /* items still to come, keys and values both counted */
  size_t first_key;    /* a map's keys begin here in the stack of keys */
  uint32_t array_keys; /* how many of them are arrays */
  uint32_t number_keys;
  bool map;
} frame;

#define KEYS_LOCAL 64

/* The offsets of the keys of all open maps. Those of one map are contiguous,
 * because the maps inside its values have gone when its next key is pushed. */
typedef struct key_stack {
  size_t *at;
  size_t count;
  size_t cap;
  size_t local[KEYS_LOCAL];
} key_stack;

typedef struct walker {
  nm_reader *r;
  nm_writer *w; /* NULL: only validate */
  const nm_mp_limits *limits;
  uint32_t depth_max;
  uint32_t depth;
  uint32_t elements_left;
  uint32_t key_depth; /* depth of the array that is a map key, or 0 */
  key_stack keys;
  frame frames[NM_MP_DEPTH_CAP];
} walker;

static int keys_push(walker *k, size_t at) {
  key_stack *s = &k->keys;
  if (s->count == s->cap) {
    size_t cap = s->cap * 2;
    bool local = s->at == s->local;
    size_t *grown = (size_t *)nm_resize(k->limits->mem, local ? NULL : s->at,
                                        cap * sizeof *grown);
    if (grown == NULL) {
      return NM_E(MEMORY);
    }
    if (local) {
      memcpy(grown, s->local, sizeof s->local);
    }
    s->at = grown;
    s->cap = cap;
  }
  s->at[s->count++] = at;
  return NM_OK;
}

static void emit(nm_writer *w, const nm_mp_item *item) {
  switch (item->type) {
  case NM_MP_NIL:
    nm_mp_nil(w);
    break;
  case NM_MP_BOOL:
    nm_mp_bool(w, item->boolean);
    break;
  case NM_MP_UINT:
    nm_mp_uint(w, item->uint);
    break;
  case NM_MP_INT:
    nm_mp_int(w, item->sint);
    break;
  case NM_MP_FLOAT:
    nm_mp_float(w, item->real);
    break;
  case NM_MP_STR:
    nm_mp_str(w, item->data);
    break;
  case NM_MP_BIN:
    nm_mp_bin(w, item->data);
    break;
  case NM_MP_ARRAY:
    nm_mp_array(w, item->count);
    break;
  case NM_MP_MAP:
    nm_mp_map(w, item->count);
    break;
  case NM_MP_EXT:
    nm_mp_ext(w, item->ext_type, item->data);
    break;
  }
}

static bool is_container(const nm_mp_item *item) {
  return item->type == NM_MP_ARRAY || item->type == NM_MP_MAP;
}

static bool is_number(const nm_mp_item *item) {
  return item->type == NM_MP_BOOL || item->type == NM_MP_UINT ||
         item->type == NM_MP_INT || item->type == NM_MP_FLOAT;
}

/* Whether the next item is a key: an even number of items is left. */
static bool expects_key(const walker *k) {
  const frame *top = &k->frames[k->depth - 1];
  return top->map && top->left % 2 == 0;
}

static int open_container(walker *k, const nm_mp_item *item) {
  bool map = item->type == NM_MP_MAP;
  uint64_t items = map ? 2 * (uint64_t)item->count : item->count;
  if (k->depth >= k->depth_max) {
    return NM_E(DEPTH);
  }
  if (items > k->elements_left) {
    return NM_E(LIMIT);
  }
  k->elements_left -= (uint32_t)items;
  frame *top = &k->frames[k->depth++];
  top->left = items;
  top->first_key = k->keys.count;
  top->array_keys = 0;
  top->number_keys = 0;
  top->map = map;
  return NM_OK;
}

/* Counts the item that was just completed, and closes every container that it
 * completes. Sets |*at| to the key when it returns NM_E(DUPLICATE_KEY). */
static int close_finished(walker *k, size_t *at) {
  while (k->depth > 0 && k->frames[k->depth - 1].left == 0) {
    frame *top = &k->frames[k->depth - 1];
    if (top->map) {
      key_stack *s = &k->keys;
      nm_span in = nm_span_of(k->r->base, k->r->len);
      *at = nm_mp_find_duplicate(in, s->at + top->first_key,
                                 s->count - top->first_key);
      if (*at != SIZE_MAX) {
        return NM_E(DUPLICATE_KEY);
      }
      s->count = top->first_key;
    }
    if (k->depth == k->key_depth) {
      k->key_depth = 0;
    }
    k->depth--;
  }
  return NM_OK;
}

/* Notes the map key |item|, which is at |at|. */
static int open_key(walker *k, const nm_mp_item *item, size_t at) {
  if (item->type == NM_MP_MAP) {
    return NM_E(TYPE);
  }
  if (k->key_depth != 0) {
    return NM_OK;
  }
  frame *top = &k->frames[k->depth - 1];
  if (item->type == NM_MP_ARRAY) {
    if (++top->array_keys > NM_MP_ARRAY_KEYS_MAX) {
      return NM_E(LIMIT);
    }
    k->key_depth = k->depth + 1;
  } else if (is_number(item) && ++top->number_keys > NM_MP_NUMBER_KEYS_MAX) {
    return NM_E(LIMIT);
  }
  return keys_push(k, at);
}

/* Reads and checks one item and what it completes. On failure |*at| is where
 * the reader is to stand. */
static int step(walker *k, size_t *at) {
  nm_mp_item item;
  *at = k->r->pos;
  int status = nm_mp_read(k->r, &item);
  if (status != NM_OK) {
    return status;
  }
  if (item.type == NM_MP_MAP && k->key_depth != 0) {
    return NM_E(TYPE);
  }
  if (k->depth > 0) {
    status = expects_key(k) ? open_key(k, &item, *at) : NM_OK;
    if (status != NM_OK) {
      return status;
    }
    k->frames[k->depth - 1].left--;
  }
  if (k->w != NULL) {
    emit(k->w, &item);
    if (k->w->status != NM_OK) {
      return k->w->status;
    }
  }
  if (is_container(&item)) {
    status = open_container(k, &item);
    if (status != NM_OK) {
      return status;
    }
  }
  return close_finished(k, at);
}

static int walk(nm_reader *r, nm_writer *w, const nm_mp_limits *limits) {
  walker k;
  k.r = r;
  k.w = w;
  k.limits = limits;
  k.depth_max =
      limits->depth_max < NM_MP_DEPTH_CAP ? limits->depth_max : NM_MP_DEPTH_CAP;
  k.depth = 0;
  k.elements_left = limits->elements_max;
  k.key_depth = 0;
  k.keys.at = k.keys.local;
  k.keys.count = 0;
  k.keys.cap = KEYS_LOCAL;
  size_t at = r->pos;
  int status = r->status;
  if (status == NM_OK && k.elements_left == 0) {
    status = NM_E(LIMIT);
  }
  if (status == NM_OK) {
    k.elements_left--;
    do {
      status = step(&k, &at);
    } while (status == NM_OK && k.depth > 0);
  }
  if (k.keys.at != k.keys.local) {
    nm_release(limits->mem, k.keys.at);
  }
  if (status != NM_OK && r->status == NM_OK) {
    r->pos = at;
    r->status = status;
  }
  return status;
}

int nm_mp_skip(nm_reader *r, const nm_mp_limits *limits) {
  const nm_mp_limits *l = limits != NULL ? limits : &nm_mp_limits_default;
  size_t start = r->pos;
  nm_mp_item item;
  if (l->elements_max > 0) {
    int status = nm_mp_read(r, &item);
    if (status != NM_OK) {
      return status;
    }
    /* A single item, such as the empty map of most messages, needs no walk. */
    if (!is_container(&item) || (item.count == 0 && l->depth_max > 0)) {
      return NM_OK;
    }
    r->pos = start;
  }
  return walk(r, NULL, l);
}

int nm_mp_canonical(nm_reader *r, nm_writer *w, const nm_mp_limits *limits) {
  if (w->status != NM_OK) {
    return w->status;
  }
  return walk(r, w, limits != NULL ? limits : &nm_mp_limits_default);
}
