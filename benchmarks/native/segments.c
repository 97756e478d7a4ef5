/* Cutting 16 KiB into 43 parts of up to 383 bytes, and joining them. No
 * encryption, no hashes: resource.build.16k is the honest row for those.
 */
#include "bench.h"
#include "fixtures.h"

#include "wire/constants.h"
#include "wire/resource.h"

#define PART 383
#define PARTS ((NB_LARGE + PART - 1) / PART)
/* A prepared packet buffer: room for a header, then the part. */
#define STRIDE 512

typedef struct segments {
  size_t count;
  uint8_t *data[NB_COUNT];
  uint8_t *packets[NB_COUNT];        /* received parts, scattered, */
  nm_span received[NB_COUNT][PARTS]; /* and where each lies */
  nm_span cut[PARTS];
  size_t size; /* PART and STRIDE, where the compiler does not know them */
  size_t stride;
  int parts;
  uint8_t prepared[PARTS * STRIDE];
  uint8_t joined[NB_LARGE];
  size_t joined_len;
} segments;

static int cut_into(const segments *s, size_t i, uint8_t *packets) {
  nm_span stream = nm_span_of(s->data[i], NB_LARGE);
  return nm_resource_parts_copy(stream, s->size, packets + NM_HEADER_1_SIZE,
                                s->stride, PARTS * STRIDE - NM_HEADER_1_SIZE);
}

/* The parts as they lie in received packets. */
static inline void scattered(const segments *s, const uint8_t *packets,
                             nm_span parts[PARTS]) {
  size_t left = NB_LARGE;
  for (size_t i = 0; i < PARTS; i++) {
    size_t len = left < s->size ? left : s->size;
    parts[i] = nm_span_of(packets + i * s->stride + NM_HEADER_1_SIZE, len);
    left -= len;
  }
}

static int prepare(const nb_row *row, void **state) {
  segments *s = nb_state(state, sizeof *s);
  if (s == NULL) {
    return NM_E(MEMORY);
  }
  s->count = row->inputs;
  s->size = nb_opaque(PART);
  s->stride = nb_opaque(STRIDE);
  for (size_t i = 0; i < s->count; i++) {
    s->data[i] = nb_stream_new("segment.data", i, NB_LARGE);
    s->packets[i] = nm_alloc(&nm_mem_system, PARTS * STRIDE);
    if (s->data[i] == NULL || s->packets[i] == NULL) {
      return NM_E(MEMORY);
    }
    int status = cut_into(s, i, s->packets[i]);
    if (status < 0) {
      return status;
    }
    scattered(s, s->packets[i], s->received[i]);
  }
  return NM_OK;
}

static void dispose(void *state) {
  segments *s = (segments *)state;
  for (size_t i = 0; i < NB_COUNT; i++) {
    nm_release(&nm_mem_system, s->data[i]);
    nm_release(&nm_mem_system, s->packets[i]);
  }
  nm_release(&nm_mem_system, s);
}

/* Joins |parts| to be compared. */
static int evidence_of(segments *s, const nm_span *parts, nm_span *evidence) {
  nm_writer w = nm_writer_of(s->joined, sizeof s->joined);
  int status = nm_resource_parts_join(parts, PARTS, &w);
  *evidence = nm_writer_done(&w);
  return status;
}

static inline int view_once(segments *s, size_t i) {
  nm_span stream = nm_span_of(s->data[i], NB_LARGE);
  s->parts = nm_resource_parts(stream, s->size, s->cut, PARTS);
  nb_use(s->cut);
  return s->parts < 0 ? s->parts : NM_OK;
}

NB_RUN(view_run, segments, view_once);

static int check_view(void *state, size_t i, nm_span *evidence) {
  segments *s = (segments *)state;
  if (s->parts != PARTS || s->cut[0].ptr != s->data[i]) {
    return NM_E(MISMATCH);
  }
  return evidence_of(s, s->cut, evidence);
}

static inline int copy_once(segments *s, size_t i) {
  s->parts = cut_into(s, i, s->prepared);
  nb_use(s->prepared);
  return s->parts < 0 ? s->parts : NM_OK;
}

NB_RUN(copy_run, segments, copy_once);

static int check_copy(void *state, size_t i, nm_span *evidence) {
  segments *s = (segments *)state;
  nm_span parts[PARTS];
  (void)i;
  scattered(s, s->prepared, parts);
  return s->parts == PARTS ? evidence_of(s, parts, evidence) : NM_E(MISMATCH);
}

static inline int join_once(segments *s, size_t i) {
  nm_writer w = nm_writer_of(s->joined, sizeof s->joined);
  int status = nm_resource_parts_join(s->received[i], nb_opaque(PARTS), &w);
  s->joined_len = nm_writer_done(&w).len;
  nb_use(s->joined);
  return status;
}

NB_RUN(join_run, segments, join_once);

static int check_join(void *state, size_t i, nm_span *evidence) {
  segments *s = (segments *)state;
  *evidence = nm_span_of(s->joined, s->joined_len);
  nm_span wanted = nm_span_of(s->data[i], NB_LARGE);
  return nm_span_equal(*evidence, wanted) ? NM_OK : NM_E(MISMATCH);
}

#define VIEW_NOTE                                                              \
  "nm_resource_parts: 16384 bytes as 43 descriptors of up to 383 bytes; no "   \
  "copy"
#define COPY_NOTE                                                              \
  "nm_resource_parts_copy: 43 parts copied into prepared packet buffers with " \
  "room for headers"
#define JOIN_NOTE                                                              \
  "nm_resource_parts_join: 43 parts that lie scattered in packet buffers "     \
  "into "                                                                      \
  "16384 bytes of a given buffer"

#define ROW(row_id, text, number, does, checks)                                \
  {                                                                            \
    .id = row_id, .note = text, .inputs = number, .prepare = prepare,          \
    .run = does, .check = checks, .dispose = dispose                           \
  }

const nb_row nb_segment_rows[] = {
    ROW("segment.desc", VIEW_NOTE, NB_COUNT, view_run, check_view),
    ROW("segment.copy", COPY_NOTE, NB_COUNT, copy_run, check_copy),
    ROW("reassemble.copy", JOIN_NOTE, NB_COUNT, join_run, check_join),
    ROW("published.segment", COPY_NOTE, 1, copy_run, check_copy),
    ROW("published.reassemble", JOIN_NOTE, 1, join_run, check_join),
    {.id = NULL},
};
