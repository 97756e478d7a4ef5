/* Workblock: what a proof of work is made against (LXMF 6). */
#include "crypto/entropy.h"
#include "py/args.h"
#include "py/backend.h"
#include "py/errors.h"
#include "py/parallel.h"
#include "py/stamp.h"

/* Most rounds of a work block: 256 MiB of it. */
#define ROUNDS_MAX (1 << 20)

typedef struct workblock {
  PyObject_HEAD
  PyObject *material; /* bytes; owned */
  uint32_t rounds;
  nm_sha256_midstate mid;
} workblock;

static workblock *workblock_of(PyObject *self) {
  return (workblock *)self;
}

static void workblock_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(workblock_of(self)->material);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *workblock_construct(PyObject *callable, PyObject *const *args,
                                     size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Workblock",
      .count = 2,
      .required = 1,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_material, NM_STR_rounds}};
  PyTypeObject *type = (PyTypeObject *)callable;
  PyObject *in[2];
  long long rounds = 3000;
  if (nm_py_parse(nm_py_state_of_type(type), &signature, args, nargsf, kwnames,
                  in) < 0 ||
      (in[1] != NULL &&
       nm_py_int(in[1], "Workblock", "rounds", 1, ROUNDS_MAX, &rounds) < 0)) {
    return NULL;
  }
  PyObject *material = nm_py_bytes_of(in[0], "Workblock", "material");
  PyObject *self = material != NULL ? type->tp_alloc(type, 0) : NULL;
  if (self == NULL) {
    Py_XDECREF(material);
    return NULL;
  }
  workblock *b = workblock_of(self);
  b->material = material;
  b->rounds = (uint32_t)rounds;
  Py_BEGIN_ALLOW_THREADS;
  nm_workblock_midstate(&b->mid, nm_py_bytes_span(material), b->rounds);
  Py_END_ALLOW_THREADS;
  return self;
}

static PyObject *get_material(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(workblock_of(self)->material);
}

static PyObject *get_rounds(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLong(workblock_of(self)->rounds);
}

PyDoc_STRVAR(to_bytes_doc,
             "to_bytes($self, /)\n--\n\n"
             "The work block itself, 256 bytes for each round; built anew by "
             "each call.");

static PyObject *to_bytes(PyObject *self, PyObject *Py_UNUSED(unused)) {
  workblock *b = workblock_of(self);
  uint8_t *out;
  PyObject *block =
      nm_py_bytes_new((size_t)b->rounds * NM_WORKBLOCK_ROUND, &out);
  if (block != NULL) {
    Py_BEGIN_ALLOW_THREADS;
    nm_workblock_build(out, nm_py_bytes_span(b->material), b->rounds);
    Py_END_ALLOW_THREADS;
  }
  return block;
}

/* The digest of the work block and the stamp |arg|. 0, or -1. */
static int digest_of(PyObject *self, PyObject *arg, const char *function,
                     uint8_t digest[NM_HASH_SIZE]) {
  nm_py_buffer stamp;
  if (nm_py_buffer_get(arg, function, "stamp", &stamp) < 0) {
    return -1;
  }
  nm_stamp_digest(digest, &workblock_of(self)->mid, stamp.span);
  nm_py_buffer_release(&stamp);
  return 0;
}

PyDoc_STRVAR(digest_doc,
             "digest($self, stamp, /)\n--\n\n"
             "H(work block | stamp), 32 bytes; stamp may have any length.");

static PyObject *workblock_digest(PyObject *self, PyObject *arg) {
  uint8_t digest[NM_HASH_SIZE];
  if (digest_of(self, arg, "Workblock.digest", digest) < 0) {
    return NULL;
  }
  return nm_py_bytes(nm_span_of(digest, sizeof digest));
}

PyDoc_STRVAR(value_doc,
             "value($self, stamp, /)\n--\n\n"
             "What stamp is worth: the leading zero bits of its digest.");

static PyObject *workblock_value(PyObject *self, PyObject *arg) {
  uint8_t digest[NM_HASH_SIZE];
  if (digest_of(self, arg, "Workblock.value", digest) < 0) {
    return NULL;
  }
  return PyLong_FromUnsignedLong(nm_stamp_digest_value(digest));
}

PyDoc_STRVAR(valid_doc,
             "valid($self, stamp, cost, /)\n--\n\n"
             "Is the digest of stamp at most 2**(256 - cost)? Cost 0 accepts "
             "everything; it is at\nmost 256.");

static PyObject *workblock_valid(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs) {
  uint8_t digest[NM_HASH_SIZE];
  long long cost;
  if (!nm_py_arity("Workblock.valid", nargs, 2, 2) ||
      nm_py_int(args[1], "Workblock.valid", "cost", 0, NM_STAMP_COST_MAX,
                &cost) < 0 ||
      digest_of(self, args[0], "Workblock.valid", digest) < 0) {
    return NULL;
  }
  return PyBool_FromLong(nm_stamp_digest_meets(digest, (uint32_t)cost));
}

PyDoc_STRVAR(
    search_doc,
    "search($self, cost, /, *, threads=1, start=None, timeout_s=None,\n"
    "       cancel=None, progress=None, backend=None)\n--\n\n"
    "Looks for a stamp worth cost or more (0 to 256): 2**cost tries on "
    "average.\n\n"
    "Uses threads threads, the calling one included; the interpreter lock is "
    "released. start,\n32 bytes, is the first candidate (random by default): "
    "with one thread the result is\nreproducible. progress(tries) is called on "
    "this thread about ten times a second; an\nexception in it ends the search "
    "and comes out, as does KeyboardInterrupt. backend is a\nname from "
    "sha256_backends().\n\n"
    "Raises CancelledError with reason \"TIMEOUT\" after timeout_s seconds, "
    "\"CANCELLED\" when the\nStampCancel was used, both within 50 ms.");

enum {
  SEARCH_COST,
  SEARCH_THREADS,
  SEARCH_START,
  SEARCH_TIMEOUT,
  SEARCH_CANCEL,
  SEARCH_PROGRESS,
  SEARCH_BACKEND,
  SEARCH_COUNT
};

/* The first candidate: given, or random. */
static int parse_start(nm_state *state, PyObject *obj, nm_py_search *search) {
  if (!nm_py_absent(obj)) {
    return nm_py_exact(obj, "Workblock.search", "start", search->start,
                       sizeof search->start);
  }
  int status =
      nm_entropy_fill(&nm_entropy_system, search->start, sizeof search->start);
  if (status < 0) {
    nm_py_raise_status(state, status, "stamp", "start");
    return -1;
  }
  return 0;
}

static int parse_search(nm_state *state, PyObject *const *in,
                        nm_py_search *search) {
  const char *function = "Workblock.search";
  long long cost;
  long long threads = 1;
  if (nm_py_int(in[SEARCH_COST], function, "cost", 0, NM_STAMP_COST_MAX,
                &cost) < 0 ||
      (in[SEARCH_THREADS] != NULL &&
       nm_py_int(in[SEARCH_THREADS], function, "threads", 1, NM_PY_THREADS_MAX,
                 &threads) < 0) ||
      parse_start(state, in[SEARCH_START], search) < 0 ||
      (!nm_py_absent(in[SEARCH_TIMEOUT]) &&
       nm_py_real(in[SEARCH_TIMEOUT], function, "timeout_s",
                  &search->timeout_s) < 0) ||
      nm_py_backend(in[SEARCH_BACKEND], function, &search->lanes) < 0) {
    return -1;
  }
  if (search->timeout_s < 0 && !nm_py_absent(in[SEARCH_TIMEOUT])) {
    search->timeout_s = 0;
  }
  if (!nm_py_absent(in[SEARCH_CANCEL])) {
    if (!Py_IS_TYPE(in[SEARCH_CANCEL], NM_PY_TYPE(state, StampCancel))) {
      return nm_py_type_error(function, "cancel", "a StampCancel",
                              in[SEARCH_CANCEL]);
    }
    search->cancel = (nm_py_stamp_cancel *)in[SEARCH_CANCEL];
  }
  if (!nm_py_absent(in[SEARCH_PROGRESS])) {
    if (!PyCallable_Check(in[SEARCH_PROGRESS])) {
      return nm_py_type_error(function, "progress", "a callable",
                              in[SEARCH_PROGRESS]);
    }
    search->progress = in[SEARCH_PROGRESS];
  }
  search->cost = (uint32_t)cost;
  search->threads = (size_t)threads;
  return 0;
}

static PyObject *workblock_search(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "Workblock.search",
      .count = SEARCH_COUNT,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_cost, NM_STR_threads, NM_STR_start, NM_STR_timeout_s,
                NM_STR_cancel, NM_STR_progress, NM_STR_backend}};
  nm_state *state = nm_py_state_of(self);
  PyObject *in[SEARCH_COUNT];
  nm_py_search search = {.mid = &workblock_of(self)->mid, .timeout_s = -1};
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      parse_search(state, in, &search) < 0) {
    return NULL;
  }
  return nm_py_stamp_search(state, &search);
}

static PyGetSetDef workblock_getters[] = {
    {"material", get_material, NULL, "What the work block is made from, bytes.",
     NULL},
    {"rounds", get_rounds, NULL, "Rounds of 256 bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef workblock_methods[] = {
    {"to_bytes", to_bytes, METH_NOARGS, to_bytes_doc},
    {"digest", workblock_digest, METH_O, digest_doc},
    {"value", workblock_value, METH_O, value_doc},
    {"valid", NM_PY_FASTCALL(workblock_valid), METH_FASTCALL, valid_doc},
    {"search", NM_PY_FASTCALL(workblock_search), METH_FASTCALL | METH_KEYWORDS,
     search_doc},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(
    workblock_doc,
    "Workblock(material, rounds=3000, /)\n--\n\n"
    "The work that a stamp is made against, reduced to a hash state.\n\n"
    "material is the message id (3000 rounds), the transient id (1000), or "
    "receiver and\nofferer identity hashes (25); rounds is 1 to 1048576. "
    "Building 3000 rounds takes about\n1 ms without the interpreter lock. "
    "Immutable; may be used from any thread.\n\n"
    ">>> block = Workblock(bytes(32), 20)\n"
    ">>> found = block.search(10, start=bytes(32))\n"
    ">>> found.stamp == block.search(10, start=bytes(32)).stamp\n"
    "True\n"
    ">>> block.value(found.stamp) == found.value >= 10\n"
    "True\n");

static PyType_Slot workblock_slots[] = {
    {Py_tp_doc, (void *)workblock_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)workblock_dealloc},
    {Py_tp_getset, workblock_getters},
    {Py_tp_methods, workblock_methods},
    {0, NULL}};

static PyType_Spec workblock_spec = {
    .name = "netmesh._core.Workblock",
    .basicsize = sizeof(workblock),
    .flags = NM_PY_FLAGS,
    .slots = workblock_slots,
};

int nm_py_workblock_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_Workblock, &workblock_spec, NULL,
                        workblock_construct);
}
