/* Marks and notes of what a driver keeps on disk.
 */
#include "stack/kept.h"

#include "stack/internal.h"

static const size_t key_sizes[NM_KEPT_TABLES] = {
    [NM_KEPT_BLACKHOLES] = NM_ADDRESS_SIZE,   [NM_KEPT_KNOWN] = NM_ADDRESS_SIZE,
    [NM_KEPT_PATHS] = NM_ADDRESS_SIZE,        [NM_KEPT_TUNNELS] = NM_HASH_SIZE,
    [NM_KEPT_TUNNEL_PATHS] = NM_KEPT_KEY_MAX,
};

void nm_kept_init(nm_engine *engine) {
  for (int i = 0; i < NM_KEPT_TABLES; i++) {
    nm_buffer_init(&engine->kept.notes[i].removed, engine->mem, NULL, 0, 0);
  }
}

void nm_kept_dispose(nm_engine *engine) {
  engine->kept.keeps = false;
  for (int i = 0; i < NM_KEPT_TABLES; i++) {
    nm_buffer_dispose(&engine->kept.notes[i].removed);
  }
}

void nm_kept_mark(nm_engine *engine, nm_kept_table table, bool *changed) {
  if (!*changed && !engine->kept.loading) {
    *changed = true;
    engine->kept.notes[table].changed++;
  }
}

bool nm_kept_gives(const nm_kept_walk *walk, bool changed) {
  return walk->all || changed;
}

void nm_kept_given(const nm_kept_walk *walk, bool *changed) {
  if (*changed) {
    *changed = false;
    walk->engine->kept.notes[walk->table].changed--;
  }
}

void nm_kept_gone(nm_engine *engine, nm_kept_table table, bool changed,
                  const void *key) {
  nm_kept_notes *notes = &engine->kept.notes[table];
  notes->changed -= changed;
  if (!engine->kept.keeps || notes->lost) {
    return;
  }
  size_t size = key_sizes[table];
  if (notes->removed.len >= NM_KEPT_REMOVED_MAX * size ||
      nm_buffer_append(&notes->removed, key, size) != NM_OK) {
    notes->lost = true;
  }
}

/* ---- kept.h ---- */

void nm_engine_keep(nm_engine *engine) {
  engine->kept.keeps = true;
}

void nm_engine_kept_loading(nm_engine *engine, bool loading) {
  engine->kept.loading = loading;
  engine->filter.kept_already = loading;
}

uint64_t nm_engine_kept_changes(const nm_engine *engine, nm_kept_table table) {
  const nm_kept_notes *notes = &engine->kept.notes[table];
  if (table == NM_KEPT_FILTER) {
    return nm_filter_unkept(&engine->filter) + engine->filter.kept_lost;
  }
  return notes->changed + notes->lost +
         (notes->removed.len - notes->taken) / key_sizes[table];
}

bool nm_engine_kept_is_lost(const nm_engine *engine, nm_kept_table table) {
  return table == NM_KEPT_FILTER ? engine->filter.kept_lost
                                 : engine->kept.notes[table].lost;
}

static void forget_keys(nm_kept_notes *notes) {
  notes->removed.len = 0;
  notes->taken = 0;
}

void nm_engine_kept_restart(nm_engine *engine, nm_kept_table table) {
  forget_keys(&engine->kept.notes[table]);
  engine->kept.notes[table].lost = false;
  if (table == NM_KEPT_FILTER) {
    engine->filter.kept_lost = false;
  }
}

size_t nm_engine_kept_removed(nm_engine *engine, nm_kept_table table,
                              size_t most,
                              void (*visit)(void *user, nm_span key),
                              void *user) {
  nm_kept_notes *notes = &engine->kept.notes[table];
  size_t size = key_sizes[table];
  size_t count = 0;
  for (; count < most && notes->taken < notes->removed.len; count++) {
    visit(user, nm_span_of(&notes->removed.ptr[notes->taken], size));
    notes->taken += size;
  }
  if (notes->taken == notes->removed.len) {
    forget_keys(notes);
  }
  return count;
}
