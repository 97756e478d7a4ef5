/* The C tests' harness: registered tests, checks, an allocator that counts and
 * fails, and the test vectors.
 *
 * A test is a function defined with NM_TEST in any file of this folder; the
 * runner finds it by itself. A failed check prints where and what and ends its
 * test; the others go on.
 */
#ifndef NM_TESTS_SUPPORT_H
#define NM_TESTS_SUPPORT_H

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Defines and registers a test. */
#define NM_TEST(name)                                                          \
  static void name(void);                                                      \
  __attribute__((constructor)) static void nm_register_##name(void) {          \
    nm_test_register(__FILE__, #name, name);                                   \
  }                                                                            \
  static void name(void)

void nm_test_register(const char *file, const char *name, void (*run)(void));

/* Checks. The context is a line of text that later failures of this test show
 * ("length 31"), for checks in loops. */
#define NM_CHECK(condition)                                                    \
  ((condition) ? (void)0                                                       \
               : nm_test_fail(__FILE__, __LINE__, "not true: %s", #condition))
#define NM_CHECK_INT(actual, expected)                                         \
  nm_test_int(__FILE__, __LINE__, #actual, (long long)(actual),                \
              (long long)(expected))
/* A status: shown by name. */
#define NM_CHECK_STATUS(actual, expected)                                      \
  nm_test_status(__FILE__, __LINE__, #actual, actual, expected)
#define NM_CHECK_OK(actual) NM_CHECK_STATUS(actual, NM_OK)
#define NM_CHECK_BYTES(actual, expected, len)                                  \
  nm_test_bytes(__FILE__, __LINE__, #actual, nm_span_of(actual, len),          \
                nm_span_of(expected, len))
#define NM_CHECK_SPAN(actual, expected)                                        \
  nm_test_bytes(__FILE__, __LINE__, #actual, actual, expected)
/* Against bytes written as hex text. */
#define NM_CHECK_HEX(actual, hex)                                              \
  nm_test_hex(__FILE__, __LINE__, #actual, actual, hex)

__attribute__((format(printf, 3, 4), noreturn)) void
nm_test_fail(const char *file, int line, const char *format, ...);
void nm_test_int(const char *file, int line, const char *what, long long actual,
                 long long expected);
void nm_test_status(const char *file, int line, const char *what, int actual,
                    int expected);
void nm_test_bytes(const char *file, int line, const char *what, nm_span actual,
                   nm_span expected);
void nm_test_hex(const char *file, int line, const char *what, nm_span actual,
                 const char *hex);
__attribute__((format(printf, 1, 2))) void nm_test_context(const char *format,
                                                           ...);

/* An allocator that counts and that fails when told to. */
typedef struct nm_test_mem {
  nm_mem mem;
  size_t calls;      /* allocations and resizes asked for */
  size_t live;       /* blocks not yet released */
  size_t bytes_live; /* what they add up to */
  size_t bytes_peak;
  size_t fail_at;   /* the call that fails, counted from 1; 0: none */
  size_t fail_from; /* every call from this one on fails; 0: none */
} nm_test_mem;

/* |t| must not move afterwards; its `mem` is the allocator to pass on. */
void nm_test_mem_init(nm_test_mem *t);

/* Runs |run| once with all allocations working, which must not return an
 * error, and then once for each allocation it made, with that one failing: it
 * must then return NM_E(MEMORY). After every run all blocks must be released.
 * |run| does its own set-up. Returns the number of allocations. */
size_t nm_test_fail_each(int (*run)(const nm_mem *mem, void *user), void *user);

/* Reproducible pseudo-random values, for property tests: the same ones in each
 * run, because every test starts from the same state. */
uint64_t nm_test_random(void);
/* 0..below-1; |below| > 0. */
uint32_t nm_test_below(uint32_t below);
void nm_test_random_bytes(void *ptr, size_t len);

/* Bytes from hex text in storage that lives until the end of the test. */
nm_span nm_test_unhex(const char *hex);
/* |len| bytes of such storage. */
void *nm_test_scratch(size_t len);

/* The vectors of tests/vectors, flattened: a field is named by its path
 * ("input.private_key", "output.rows[2].in"). */
typedef enum nm_vector_type {
  NM_VECTOR_TEXT,   /* also all byte strings, as hex */
  NM_VECTOR_NUMBER, /* integers and floats */
  NM_VECTOR_BOOL,
  NM_VECTOR_NULL,
  NM_VECTOR_LIST, /* arrays and objects: number is the count */
} nm_vector_type;

typedef struct nm_vector_field {
  const char *path;
  nm_vector_type type;
  const char *text; /* TEXT; the digits of a NUMBER */
  double number;    /* NUMBER, BOOL (0 or 1), LIST */
} nm_vector_field;

typedef struct nm_vector {
  const char *file; /* "lxmf", "reticulum-core", "reticulum-links" */
  const char *name;
  const char *kind;
  const nm_vector_field *fields;
  size_t field_count;
} nm_vector;

extern const nm_vector nm_vectors[];
extern const size_t nm_vector_count;

/* Calls |run| for every vector of |kind|, with its name as context, and fails
 * the test when there are fewer than |at_least|. |file| NULL: of all files. */
void nm_vectors_each(const char *file, const char *kind, size_t at_least,
                     void (*run)(const nm_vector *v));
/* A field, or NULL. */
const nm_vector_field *nm_vector_find(const nm_vector *v, const char *path);
/* Whether it is there and not null. */
bool nm_vector_has(const nm_vector *v, const char *path);
/* The value; a field that is absent or of another type fails the test. */
nm_span nm_vector_bytes(const nm_vector *v, const char *path);
const char *nm_vector_text(const nm_vector *v, const char *path);
double nm_vector_number(const nm_vector *v, const char *path);
uint64_t nm_vector_u64(const nm_vector *v, const char *path);
bool nm_vector_bool(const nm_vector *v, const char *path);

#endif
