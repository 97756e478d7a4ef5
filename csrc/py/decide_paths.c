/* Decision functions on paths, announces and path requests (RNS 1, 8.5.1, 8.7
 * to 8.9, 8.13).
 */
#include "base/cursor.h"
#include "py/args.h"
#include "wire/announce.h"
#include "wire/decisions.h"

/* |obj| as an interface mode (RNS 1, 8.14). */
static int parse_mode(PyObject *obj, const char *function, const char *name,
                      int *out) {
  long long mode;
  if (nm_py_int(obj, function, name, NM_IF_FULL, NM_IF_INTERNAL, &mode) < 0) {
    return -1;
  }
  *out = (int)mode;
  return 0;
}

/* |obj| as a truth value; |out| keeps its value when it is absent. */
static int parse_bool(PyObject *obj, const char *function, const char *name,
                      bool *out) {
  return obj == NULL ? 0 : nm_py_bool(obj, function, name, out);
}

PyDoc_STRVAR(lifetime_doc,
             "path_lifetime($module, mode, /)\n--\n\n"
             "Seconds that an unused path lives which was learnt on an "
             "interface in this mode\n(constants.InterfaceMode).");

static PyObject *path_lifetime(PyObject *Py_UNUSED(module), PyObject *arg) {
  int mode;
  return parse_mode(arg, "path_lifetime", "mode", &mode) < 0
             ? NULL
             : PyFloat_FromDouble(nm_path_lifetime(mode));
}

PyDoc_STRVAR(cap_delay_doc,
             "announce_cap_delay($module, packet_bytes, bitrate, cap=0.02, /)\n"
             "--\n\n"
             "Seconds until the next relayed announce may follow one of "
             "packet_bytes bytes, when\nannounces may use the fraction cap of "
             "bitrate; 0 when either is not positive.");

static PyObject *announce_cap_delay(PyObject *Py_UNUSED(module),
                                    PyObject *const *args, Py_ssize_t nargs) {
  const char *function = "announce_cap_delay";
  long long size;
  double bitrate;
  double cap = NM_ANNOUNCE_CAP;
  if (!nm_py_arity(function, nargs, 2, 3) ||
      nm_py_int(args[0], function, "packet_bytes", 0, PY_SSIZE_T_MAX, &size) <
          0 ||
      nm_py_real(args[1], function, "bitrate", &bitrate) < 0 ||
      (nargs > 2 && nm_py_real(args[2], function, "cap", &cap) < 0)) {
    return NULL;
  }
  return PyFloat_FromDouble(nm_announce_cap_delay((size_t)size, bitrate, cap));
}

/* --------------------------------------------------------------- accepting */

PyDoc_STRVAR(
    accepted_doc,
    "announce_accepted($module, /, *, announce_hops, announce_blob,\n"
    "                  existing_hops, existing_blobs=(),\n"
    "                  existing_expired=False, unresponsive=False, gravity=0,\n"
    "                  existing_gravity=0)\n--\n\n"
    "Does an announce replace the known path (RNS 1, 8.5.1 step 8)?\n\n"
    "announce_hops is counted after the increment; existing_hops None means "
    "that there is no\npath. Blobs are the 10-byte random hashes of announces, "
    "the known ones oldest first.\ngravity is that of the receiving "
    "interface.");

enum {
  ACC_HOPS,
  ACC_BLOB,
  ACC_EXISTING_HOPS,
  ACC_BLOBS,
  ACC_EXPIRED,
  ACC_UNRESPONSIVE,
  ACC_GRAVITY,
  ACC_EXISTING_GRAVITY,
  ACC_COUNT
};

/* The known blobs, one after the other: a new array of |*count| of them, or
 * NULL with an exception. */
static uint8_t *take_blobs(PyObject *obj, size_t *count) {
  nm_py_buffers blobs;
  if (nm_py_buffers_get(obj, "announce_accepted", "existing_blobs", &blobs) <
      0) {
    return NULL;
  }
  uint8_t *out = PyMem_Malloc(blobs.count * NM_RANDOM_BLOB_SIZE + 1);
  if (out == NULL) {
    PyErr_NoMemory();
  }
  nm_writer w = nm_writer_of(out, blobs.count * NM_RANDOM_BLOB_SIZE);
  for (size_t i = 0; i < blobs.count && out != NULL; i++) {
    if (blobs.spans[i].len != NM_RANDOM_BLOB_SIZE) {
      nm_py_length_error("announce_accepted", "existing_blobs",
                         NM_RANDOM_BLOB_SIZE, blobs.spans[i].len);
      PyMem_Free(out);
      out = NULL;
    } else {
      nm_writer_span(&w, blobs.spans[i]);
    }
  }
  *count = blobs.count;
  nm_py_buffers_release(&blobs);
  return out;
}

/* The numbers and truth values. 0, or -1 with an exception. */
static int parse_situation(PyObject *const *in, nm_announce_situation *s) {
  const char *function = "announce_accepted";
  long long hops;
  long long known = 0;
  long long gravity = 0;
  long long existing = 0;
  s->has_path = in[ACC_EXISTING_HOPS] != Py_None;
  if (nm_py_int(in[ACC_HOPS], function, "announce_hops", 0, UINT32_MAX, &hops) <
          0 ||
      (s->has_path && nm_py_int(in[ACC_EXISTING_HOPS], function,
                                "existing_hops", 0, UINT32_MAX, &known) < 0) ||
      parse_bool(in[ACC_EXPIRED], function, "existing_expired",
                 &s->path_expired) < 0 ||
      parse_bool(in[ACC_UNRESPONSIVE], function, "unresponsive",
                 &s->path_unresponsive) < 0 ||
      (in[ACC_GRAVITY] != NULL &&
       nm_py_int(in[ACC_GRAVITY], function, "gravity", INT_MIN, INT_MAX,
                 &gravity) < 0) ||
      (in[ACC_EXISTING_GRAVITY] != NULL &&
       nm_py_int(in[ACC_EXISTING_GRAVITY], function, "existing_gravity",
                 INT_MIN, INT_MAX, &existing) < 0)) {
    return -1;
  }
  s->hops = (uint32_t)hops;
  s->path_hops = (uint32_t)known;
  s->gravity = (int)gravity;
  s->path_gravity = (int)existing;
  return 0;
}

static PyObject *announce_accepted(PyObject *module, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "announce_accepted",
      .count = ACC_COUNT,
      .required = 3,
      .names = {NM_STR_announce_hops, NM_STR_announce_blob,
                NM_STR_existing_hops, NM_STR_existing_blobs,
                NM_STR_existing_expired, NM_STR_unresponsive, NM_STR_gravity,
                NM_STR_existing_gravity}};
  PyObject *in[ACC_COUNT];
  uint8_t blob[NM_RANDOM_BLOB_SIZE];
  nm_announce_situation s = {.blob = blob};
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      nm_py_exact(in[ACC_BLOB], signature.function, "announce_blob", blob,
                  sizeof blob) < 0 ||
      parse_situation(in, &s) < 0) {
    return NULL;
  }
  uint8_t *blobs = NULL;
  if (in[ACC_BLOBS] != NULL) {
    blobs = take_blobs(in[ACC_BLOBS], &s.path_blob_count);
    if (blobs == NULL) {
      return NULL;
    }
    s.path_blobs = blobs;
  }
  bool accepted = nm_announce_decide(&s) != NM_ANNOUNCE_REFUSED;
  PyMem_Free(blobs);
  return PyBool_FromLong(accepted);
}

/* ------------------------------------------------------------ several ways */

PyDoc_STRVAR(preferred_doc,
             "way_preferred($module, /, *, emitted, hops, other_emitted,\n"
             "              other_hops, gravity=0, other_gravity=0,\n"
             "              bitrate=0.0, other_bitrate=0.0)\n--\n\n"
             "Is one way to a destination tried before the other when the one "
             "in use fails?\n\n"
             "What a newer announce came by comes first (emitted: its time in "
             "Unix seconds), then the\nshorter way, the interface with more "
             "gravity, the faster one. False for equal ones.");

enum {
  PREF_EMITTED,
  PREF_HOPS,
  PREF_OTHER_EMITTED,
  PREF_OTHER_HOPS,
  PREF_GRAVITY,
  PREF_OTHER_GRAVITY,
  PREF_BITRATE,
  PREF_OTHER_BITRATE,
  PREF_COUNT
};

/* One of the two, its values at |in| by the distances of its enumerators. 0, or
 * -1 with an exception. */
static int parse_way(PyObject *const *in, int other, nm_way_choice *way) {
  static const char *const names[] = {
      "emitted", "hops",          "other_emitted", "other_hops",
      "gravity", "other_gravity", "bitrate",       "other_bitrate"};
  const char *function = "way_preferred";
  long long emitted;
  long long hops;
  long long gravity = 0;
  int at = other ? PREF_OTHER_EMITTED : PREF_EMITTED;
  int weight = other ? PREF_OTHER_GRAVITY : PREF_GRAVITY;
  int speed = other ? PREF_OTHER_BITRATE : PREF_BITRATE;
  if (nm_py_int(in[at], function, names[at], 0, NM_ANNOUNCE_EMITTED_MAX,
                &emitted) < 0 ||
      nm_py_int(in[at + 1], function, names[at + 1], 0, UINT32_MAX, &hops) <
          0 ||
      (in[weight] != NULL && nm_py_int(in[weight], function, names[weight],
                                       INT_MIN, INT_MAX, &gravity) < 0) ||
      (in[speed] != NULL &&
       nm_py_real(in[speed], function, names[speed], &way->bitrate) < 0)) {
    return -1;
  }
  way->emitted = (uint64_t)emitted;
  way->hops = (uint32_t)hops;
  way->gravity = (int)gravity;
  return 0;
}

static PyObject *way_preferred(PyObject *module, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "way_preferred",
      .count = PREF_COUNT,
      .required = 4,
      .names = {NM_STR_emitted, NM_STR_hops, NM_STR_other_emitted,
                NM_STR_other_hops, NM_STR_gravity, NM_STR_other_gravity,
                NM_STR_bitrate, NM_STR_other_bitrate}};
  PyObject *in[PREF_COUNT];
  nm_way_choice one = {0};
  nm_way_choice other = {0};
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      parse_way(in, 0, &one) < 0 || parse_way(in, 1, &other) < 0) {
    return NULL;
  }
  return PyBool_FromLong(nm_way_preferred(&one, &other));
}

/* ------------------------------------------------------------- propagating */

PyDoc_STRVAR(
    propagates_doc,
    "announce_propagates($module, /, *, out_mode, source_mode, local,\n"
    "                    has_path=True, from_internal=True,\n"
    "                    source_to_internal=None, hops=1)\n--\n\n"
    "What becomes of an announce on an output interface (RNS 1, 8.7): "
    "\"block\", \"allow\" or\n\"cap\", which is allowed within the announce "
    "cap.\n\n"
    "Modes are constants.InterfaceMode; source_mode is that of the path's "
    "interface, None when\nit has none. local: the destination is registered "
    "in this process. from_internal is the\noutput interface's option "
    "announces_from_internal, source_to_internal the source's\n"
    "announces_to_internal.");

enum {
  PROP_OUT,
  PROP_SOURCE,
  PROP_LOCAL,
  PROP_HAS_PATH,
  PROP_FROM_INTERNAL,
  PROP_TO_INTERNAL,
  PROP_HOPS,
  PROP_COUNT
};

/* 0, or -1 with an exception. */
static int parse_propagation(PyObject *const *in, nm_propagation *p) {
  const char *function = "announce_propagates";
  long long hops = 1;
  bool to_internal = false;
  if (parse_mode(in[PROP_OUT], function, "out_mode", &p->out_mode) < 0 ||
      (in[PROP_SOURCE] != Py_None &&
       parse_mode(in[PROP_SOURCE], function, "source_mode", &p->source_mode) <
           0) ||
      nm_py_bool(in[PROP_LOCAL], function, "local", &p->local) < 0 ||
      parse_bool(in[PROP_HAS_PATH], function, "has_path", &p->has_path) < 0 ||
      parse_bool(in[PROP_FROM_INTERNAL], function, "from_internal",
                 &p->out_from_internal) < 0 ||
      (in[PROP_HOPS] != NULL &&
       nm_py_int(in[PROP_HOPS], function, "hops", 0, UINT32_MAX, &hops) < 0)) {
    return -1;
  }
  if (!nm_py_absent(in[PROP_TO_INTERNAL])) {
    if (nm_py_bool(in[PROP_TO_INTERNAL], function, "source_to_internal",
                   &to_internal) < 0) {
      return -1;
    }
    p->source_to_internal = to_internal ? NM_YES : NM_NO;
  }
  p->hops = (uint32_t)hops;
  return 0;
}

static PyObject *announce_propagates(PyObject *module, PyObject *const *args,
                                     Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "announce_propagates",
      .count = PROP_COUNT,
      .required = 3,
      .names = {NM_STR_out_mode, NM_STR_source_mode, NM_STR_local,
                NM_STR_has_path, NM_STR_from_internal,
                NM_STR_source_to_internal, NM_STR_hops}};
  static const char *const verdicts[] = {[NM_PROPAGATE_BLOCK] = "block",
                                         [NM_PROPAGATE_ALLOW] = "allow",
                                         [NM_PROPAGATE_CAP] = "cap"};
  PyObject *in[PROP_COUNT];
  nm_propagation p = {.has_path = true,
                      .out_from_internal = true,
                      .source_to_internal = NM_UNSET};
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      parse_propagation(in, &p) < 0) {
    return NULL;
  }
  return PyUnicode_FromString(verdicts[nm_announce_propagation(&p)]);
}

/* --------------------------------------------------------------- searching */

PyDoc_STRVAR(
    searches_doc,
    "searches_unknown_path($module, /, *, mode, recursive=False,\n"
    "                      out_mode=None)\n--\n\n"
    "Does a path request on an interface in mode make a transport node search "
    "(RNS 1, 8.9.4)?\n\n"
    "recursive is that interface's option recursive_prs. With out_mode: does "
    "it search on an\ninterface in that mode?");

static PyObject *searches_unknown_path(PyObject *module, PyObject *const *args,
                                       Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "searches_unknown_path",
      .count = 3,
      .required = 1,
      .names = {NM_STR_mode, NM_STR_recursive, NM_STR_out_mode}};
  PyObject *in[3];
  int mode;
  int out_mode = 0;
  bool recursive = false;
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      parse_mode(in[0], signature.function, "mode", &mode) < 0 ||
      parse_bool(in[1], signature.function, "recursive", &recursive) < 0 ||
      (!nm_py_absent(in[2]) &&
       parse_mode(in[2], signature.function, "out_mode", &out_mode) < 0)) {
    return NULL;
  }
  return PyBool_FromLong(nm_py_absent(in[2])
                             ? nm_path_search_starts(mode, recursive)
                             : nm_path_search_uses(mode, recursive, out_mode));
}

static PyMethodDef functions[] = {
    {"path_lifetime", path_lifetime, METH_O, lifetime_doc},
    {"announce_cap_delay", NM_PY_FASTCALL(announce_cap_delay), METH_FASTCALL,
     cap_delay_doc},
    {"announce_accepted", NM_PY_FASTCALL(announce_accepted),
     METH_FASTCALL | METH_KEYWORDS, accepted_doc},
    {"way_preferred", NM_PY_FASTCALL(way_preferred),
     METH_FASTCALL | METH_KEYWORDS, preferred_doc},
    {"announce_propagates", NM_PY_FASTCALL(announce_propagates),
     METH_FASTCALL | METH_KEYWORDS, propagates_doc},
    {"searches_unknown_path", NM_PY_FASTCALL(searches_unknown_path),
     METH_FASTCALL | METH_KEYWORDS, searches_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_decide_paths_add(PyObject *module, nm_state *state) {
  (void)state;
  return PyModule_AddFunctions(module, functions);
}
