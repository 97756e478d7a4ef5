/* Native timing loops of the comparison report: the module netmesh._bench.
 *
 * A row is one operation. `prepare` builds its inputs and buffers, `run` does
 * the whole operation a number of times over rotating inputs, `check` looks at
 * the last output outside the clock and gives the bytes that prove it; the
 * report compares their fingerprint with a value that was computed without
 * this code. Nothing of an operation is moved into `prepare` that its name
 * promises: a row that signs makes the digest, a row that needs random bytes
 * or the time draws them.
 */
#ifndef NB_BENCH_H
#define NB_BENCH_H

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdint.h>

#define NB_COUNT 64     /* inputs of a row, unless it says otherwise */
#define NB_COLD 4096    /* identities of the cold announce rows */
#define NB_BATCH 64     /* announces in one call of a batch row */
#define NB_LARGE 16384u /* bytes that are cut, joined or made a resource */

typedef struct nb_row nb_row;

struct nb_row {
  const char *id;
  const char *note;    /* what one call does */
  size_t size;         /* of the content, the window; the row's own meaning */
  size_t inputs;       /* that calls rotate through */
  const char *option;  /* the row's own meaning; NULL for most */
  uint64_t calls_each; /* calls in one entry of the histogram; 0 means 1 */
  /* Makes |*state|, which `dispose` releases, also after a failure. 0 or a
   * negative status. */
  int (*prepare)(const nb_row *row, void **state);
  /* Does the operation |calls| times, starting with input |first|. 0, or the
   * negative status of a call that failed. */
  int (*run)(void *state, uint64_t calls, size_t first);
  /* Checks the output of the last call, which used |input|, and points
   * |evidence| at the bytes that prove it. 0 or a negative status. */
  int (*check)(void *state, size_t input, nm_span *evidence);
  void (*dispose)(void *state);
  /* Called before the clock of a run of |calls| starts, for inputs that are
   * used up; NULL for most rows. */
  int (*refill)(void *state, uint64_t calls);
};

/* The rows of each file; an entry without an id ends the list. */
extern const nb_row nb_control_rows[];
extern const nb_row nb_message_rows[];
extern const nb_row nb_packet_rows[];
extern const nb_row nb_segment_rows[];
extern const nb_row nb_resource_rows[];
extern const nb_row nb_announce_rows[];
extern const nb_row nb_identity_rows[];
extern const nb_row nb_link_rows[];
extern const nb_row nb_stamp_rows[];
extern const nb_row nb_transport_rows[];
/* What the linked libraries take for the same work, called directly. */
extern const nb_row nb_library_rows[];

/* --- The loop ---------------------------------------------------------- */

/* Hides a value from the optimiser: it can neither be known before nor left
 * out. Sizes and other parameters of an operation go through here or through
 * the state, or the compiler would specialise the core for this file. */
static inline size_t nb_opaque(size_t value) {
  __asm__ volatile("" : "+r"(value));
  return value;
}

/* Makes everything at |ptr|, and all memory, count as read. */
static inline void nb_use(const void *ptr) {
  __asm__ volatile("" : : "r"(ptr) : "memory");
}

/* Defines the run function |name| of a state |type| with a member `count`:
 * calls `once(state, input)` for each call, input after input. */
#define NB_RUN(name, type, once)                                               \
  static int name(void *opaque, uint64_t calls, size_t first) {                \
    type *state = (type *)opaque;                                              \
    size_t at = first;                                                         \
    for (uint64_t i = 0; i < calls; i++) {                                     \
      int status = once(state, nb_opaque(at));                                 \
      if (status != NM_OK) {                                                   \
        return status;                                                         \
      }                                                                        \
      at = at + 1 == state->count ? 0 : at + 1;                                \
    }                                                                          \
    return NM_OK;                                                              \
  }                                                                            \
  static int name(void *opaque, uint64_t calls, size_t first)

/* Zeroed memory for a state; stores it in |*state| and returns it. */
void *nb_state(void **state, size_t size);

#endif
