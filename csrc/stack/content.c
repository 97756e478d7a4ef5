#include "stack/content.h"

static bool was_last(atomic_uint *references) {
  return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

static void one_more(atomic_uint *references) {
  atomic_fetch_add_explicit(references, 1, memory_order_relaxed);
}

void nm_source_init(nm_source *source, uint64_t size,
                    int (*read)(nm_source *source, uint64_t offset,
                                uint8_t *into, size_t len),
                    void (*release)(nm_source *source)) {
  atomic_init(&source->references, 1);
  source->size = size;
  source->read = read;
  source->release = release;
}

nm_source *nm_source_hold(nm_source *source) {
  one_more(&source->references);
  return source;
}

void nm_source_drop(nm_source *source) {
  if (source != NULL && was_last(&source->references)) {
    source->release(source);
  }
}

nm_sink *nm_sink_hold(nm_sink *sink) {
  one_more(&sink->references);
  return sink;
}

void nm_sink_drop(nm_sink *sink) {
  if (sink != NULL && was_last(&sink->references)) {
    sink->release(sink);
  }
}

nm_shelf *nm_shelf_hold(nm_shelf *shelf) {
  one_more(&shelf->references);
  return shelf;
}

void nm_shelf_drop(nm_shelf *shelf) {
  if (shelf != NULL && was_last(&shelf->references)) {
    shelf->release(shelf);
  }
}
