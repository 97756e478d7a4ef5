#include "support.h"

#include "crypto/init.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TESTS_MAX 2000

typedef struct test {
  const char *file;
  const char *name;
  void (*run)(void);
} test;

static test tests[TESTS_MAX];
static size_t test_count;
static size_t failures;
static jmp_buf leave_test;
static char context[256];
static uint64_t random_state;

/* Storage that is released after each test. */
typedef struct scratch {
  struct scratch *next;
  _Alignas(16) uint8_t bytes[];
} scratch;
static scratch *scratch_list;

void nm_test_register(const char *file, const char *name, void (*run)(void)) {
  if (test_count == TESTS_MAX) {
    fprintf(stderr, "more than %d tests\n", TESTS_MAX);
    exit(2);
  }
  const char *slash = strrchr(file, '/');
  test t = {slash != NULL ? slash + 1 : file, name, run};
  tests[test_count++] = t;
}

static void begin_failure(const char *file, int line) {
  fprintf(stderr, "%s:%d: ", file, line);
  if (context[0] != '\0') {
    fprintf(stderr, "[%s] ", context);
  }
}

__attribute__((noreturn)) static void end_failure(void) {
  fputc('\n', stderr);
  failures++;
  longjmp(leave_test, 1);
}

void nm_test_fail(const char *file, int line, const char *format, ...) {
  va_list arguments;
  begin_failure(file, line);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  end_failure();
}

void nm_test_int(const char *file, int line, const char *what, long long actual,
                 long long expected) {
  if (actual != expected) {
    nm_test_fail(file, line, "%s is %lld, expected %lld", what, actual,
                 expected);
  }
}

void nm_test_status(const char *file, int line, const char *what, int actual,
                    int expected) {
  if (actual != expected) {
    nm_test_fail(file, line, "%s is %s (%d), expected %s (%d)", what,
                 nm_status_name(actual), actual, nm_status_name(expected),
                 expected);
  }
}

static void print_hex(const char *label, nm_span s) {
  fprintf(stderr, "\n  %s (%zu): ", label, s.len);
  for (size_t i = 0; i < s.len && i < 96; i++) {
    fprintf(stderr, "%02x", s.ptr[i]);
  }
  if (s.len > 96) {
    fputs("...", stderr);
  }
}

void nm_test_bytes(const char *file, int line, const char *what, nm_span actual,
                   nm_span expected) {
  if (!nm_span_equal(actual, expected)) {
    begin_failure(file, line);
    fprintf(stderr, "%s differs", what);
    print_hex("actual", actual);
    print_hex("expected", expected);
    end_failure();
  }
}

void nm_test_hex(const char *file, int line, const char *what, nm_span actual,
                 const char *hex) {
  nm_test_bytes(file, line, what, actual, nm_test_unhex(hex));
}

void nm_test_context(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context, sizeof context, format, arguments);
  va_end(arguments);
}

/* Each block carries its size in front. */
#define BLOCK_HEAD 16

static bool refuses(nm_test_mem *t) {
  t->calls++;
  return t->calls == t->fail_at ||
         (t->fail_from != 0 && t->calls >= t->fail_from);
}

static void count_in(nm_test_mem *t, size_t size) {
  t->live++;
  t->bytes_live += size;
  if (t->bytes_live > t->bytes_peak) {
    t->bytes_peak = t->bytes_live;
  }
}

static size_t block_size(void *ptr) {
  size_t size;
  memcpy(&size, (uint8_t *)ptr - BLOCK_HEAD, sizeof size);
  return size;
}

static void count_out(nm_test_mem *t, void *ptr) {
  t->live--;
  t->bytes_live -= block_size(ptr);
}

static void *test_alloc(void *user, size_t size) {
  nm_test_mem *t = (nm_test_mem *)user;
  if (refuses(t)) {
    return NULL;
  }
  uint8_t *block = malloc(BLOCK_HEAD + size);
  if (block == NULL) {
    return NULL;
  }
  memcpy(block, &size, sizeof size);
  /* New memory is never zero by luck. */
  memset(block + BLOCK_HEAD, 0xa5, size);
  count_in(t, size);
  return block + BLOCK_HEAD;
}

static void test_release(void *user, void *ptr) {
  if (ptr != NULL) {
    count_out((nm_test_mem *)user, ptr);
    free((uint8_t *)ptr - BLOCK_HEAD);
  }
}

/* Always moves, so that a stale pointer shows. */
static void *test_resize(void *user, void *ptr, size_t size) {
  void *moved = test_alloc(user, size);
  if (moved != NULL && ptr != NULL) {
    size_t old = block_size(ptr);
    memcpy(moved, ptr, old < size ? old : size);
    test_release(user, ptr);
  }
  return moved;
}

void nm_test_mem_init(nm_test_mem *t) {
  memset(t, 0, sizeof *t);
  t->mem.user = t;
  t->mem.alloc = test_alloc;
  t->mem.resize = test_resize;
  t->mem.release = test_release;
}

size_t nm_test_fail_each(int (*run)(const nm_mem *mem, void *user),
                         void *user) {
  nm_test_mem t;
  nm_test_mem_init(&t);
  int status = run(&t.mem, user);
  if (status < 0) {
    nm_test_fail(__FILE__, __LINE__, "returns %s with all allocations working",
                 nm_status_name(status));
  }
  NM_CHECK_INT(t.live, 0);
  size_t calls = t.calls;
  for (size_t i = 1; i <= calls; i++) {
    nm_test_context("allocation %zu of %zu fails", i, calls);
    nm_test_mem_init(&t);
    t.fail_at = i;
    NM_CHECK_STATUS(run(&t.mem, user), NM_E(MEMORY));
    NM_CHECK_INT(t.live, 0);
  }
  nm_test_context("%s", "");
  return calls;
}

/* splitmix64 */
uint64_t nm_test_random(void) {
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t nm_test_below(uint32_t below) {
  return (uint32_t)(nm_test_random() % below);
}

void nm_test_random_bytes(void *ptr, size_t len) {
  uint8_t *bytes = (uint8_t *)ptr;
  for (size_t i = 0; i < len; i++) {
    bytes[i] = (uint8_t)nm_test_random();
  }
}

void *nm_test_scratch(size_t len) {
  scratch *s = malloc(sizeof *s + len);
  if (s == NULL) {
    fputs("out of memory\n", stderr);
    exit(2);
  }
  s->next = scratch_list;
  scratch_list = s;
  return s->bytes;
}

static void scratch_clear(void) {
  while (scratch_list != NULL) {
    scratch *next = scratch_list->next;
    free(scratch_list);
    scratch_list = next;
  }
}

static unsigned digit_of(char c) {
  return (unsigned)(c <= '9' ? c - '0' : tolower(c) - 'a' + 10);
}

nm_span nm_test_unhex(const char *hex) {
  size_t digits = strlen(hex);
  if (digits % 2 != 0 || strspn(hex, "0123456789abcdefABCDEF") != digits) {
    nm_test_fail(__FILE__, __LINE__, "not hex: %.60s", hex);
  }
  uint8_t *bytes = nm_test_scratch(digits / 2);
  for (size_t i = 0; i < digits / 2; i++) {
    bytes[i] = (uint8_t)(digit_of(hex[2 * i]) << 4 | digit_of(hex[2 * i + 1]));
  }
  return nm_span_of(bytes, digits / 2);
}

void nm_vectors_each(const char *file, const char *kind, size_t at_least,
                     void (*run)(const nm_vector *v)) {
  size_t seen = 0;
  for (size_t i = 0; i < nm_vector_count; i++) {
    const nm_vector *v = &nm_vectors[i];
    if (strcmp(v->kind, kind) == 0 &&
        (file == NULL || strcmp(v->file, file) == 0)) {
      nm_test_context("%s", v->name);
      run(v);
      seen++;
    }
  }
  nm_test_context("vectors of kind %s", kind);
  NM_CHECK(seen >= at_least);
  nm_test_context("%s", "");
}

const nm_vector_field *nm_vector_find(const nm_vector *v, const char *path) {
  for (size_t i = 0; i < v->field_count; i++) {
    if (strcmp(v->fields[i].path, path) == 0) {
      return &v->fields[i];
    }
  }
  return NULL;
}

bool nm_vector_has(const nm_vector *v, const char *path) {
  const nm_vector_field *f = nm_vector_find(v, path);
  return f != NULL && f->type != NM_VECTOR_NULL;
}

static const nm_vector_field *field_of(const nm_vector *v, const char *path,
                                       nm_vector_type type) {
  const nm_vector_field *f = nm_vector_find(v, path);
  if (f == NULL || f->type != type) {
    nm_test_fail(__FILE__, __LINE__, "vector %s has no such field: %s", v->name,
                 path);
  }
  return f;
}

nm_span nm_vector_bytes(const nm_vector *v, const char *path) {
  return nm_test_unhex(nm_vector_text(v, path));
}

const char *nm_vector_text(const nm_vector *v, const char *path) {
  return field_of(v, path, NM_VECTOR_TEXT)->text;
}

double nm_vector_number(const nm_vector *v, const char *path) {
  return field_of(v, path, NM_VECTOR_NUMBER)->number;
}

uint64_t nm_vector_u64(const nm_vector *v, const char *path) {
  return strtoull(field_of(v, path, NM_VECTOR_NUMBER)->text, NULL, 10);
}

bool nm_vector_bool(const nm_vector *v, const char *path) {
  return field_of(v, path, NM_VECTOR_BOOL)->number != 0;
}

/* Whether it passed. */
static bool run_test(const test *t, bool verbose) {
  if (verbose) {
    printf("%s %s\n", t->file, t->name);
    fflush(stdout);
  }
  context[0] = '\0';
  random_state = 1;
  size_t failed_before = failures;
  if (setjmp(leave_test) == 0) {
    t->run();
  } else {
    fprintf(stderr, "FAILED %s %s\n", t->file, t->name);
  }
  scratch_clear();
  return failures == failed_before;
}

static size_t unsteady;

/* With NM_TEST_AGAIN=1 a failed test runs a second time, and is told of as
 * unsteady if it passes then: for runs on machines whose time is not their
 * own. */
static void run_wanted(const test *t, bool verbose) {
  const char *again = getenv("NM_TEST_AGAIN");
  if (run_test(t, verbose) || again == NULL || strcmp(again, "1") != 0) {
    return;
  }
  if (run_test(t, verbose)) {
    failures--;
    unsteady++;
    printf("UNSTEADY %s %s: passed when run again\n", t->file, t->name);
  }
}

/* By file, then in the order of the file. Constructors of one file run in
 * order, so that a stable sort will do. */
static void sort_tests(void) {
  for (size_t i = 1; i < test_count; i++) {
    test t = tests[i];
    size_t j = i;
    for (; j > 0 && strcmp(tests[j - 1].file, t.file) > 0; j--) {
      tests[j] = tests[j - 1];
    }
    tests[j] = t;
  }
}

/* run [-v] [WORD...]: all tests, or those whose file or name contains a word.
 */
int main(int argc, char **argv) {
  bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
  int first = verbose ? 2 : 1;
  size_t ran = 0;
  if (nm_crypto_init() != NM_OK) {
    fputs("the libraries do not start\n", stderr);
    return 2;
  }
  sort_tests();
  for (size_t i = 0; i < test_count; i++) {
    bool wanted = first >= argc;
    for (int a = first; a < argc; a++) {
      wanted = wanted || strstr(tests[i].file, argv[a]) != NULL ||
               strstr(tests[i].name, argv[a]) != NULL;
    }
    if (wanted) {
      run_wanted(&tests[i], verbose);
      ran++;
    }
  }
  printf("%zu tests, %zu failed\n", ran, failures);
  int status = failures == 0 && ran > 0 ? 0 : 1;
  if (unsteady > 0) {
    /* What was left where a test was abandoned is no leak of what it tests. */
    printf("not looked for leaks: %zu unsteady\n", unsteady);
    fflush(stdout);
    _exit(status);
  }
  return status;
}
