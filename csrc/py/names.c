/* netmesh.destination: names and the addresses made from them. */
#include "py/names.h"
#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/value.h"

#include "wire/destination.h"

/* One part of a name: text without a dot. */
static int check_part(PyObject *part, const char *function, const char *name) {
  if (!PyUnicode_Check(part)) {
    return nm_py_type_error(function, name, "a str", part);
  }
  Py_ssize_t at =
      PyUnicode_FindChar(part, '.', 0, PyUnicode_GET_LENGTH(part), 1);
  if (at >= 0) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter '%s' must not contain a dot: %R", function,
                 name, part);
  }
  return at == -1 ? 0 : -1;
}

/* The parts |args|, application name first, joined by dots. */
static PyObject *join(PyObject *const *args, Py_ssize_t count,
                      const char *function) {
  if (count < 1) {
    return PyErr_Format(PyExc_TypeError, "%s() needs parameter 'app'",
                        function);
  }
  PyObject *dot = PyUnicode_FromString(".");
  PyObject *parts = dot != NULL ? PyTuple_New(count) : NULL;
  for (Py_ssize_t i = 0; parts != NULL && i < count; i++) {
    if (check_part(args[i], function, i == 0 ? "app" : "aspects") < 0) {
      Py_CLEAR(parts);
    } else {
      PyTuple_SET_ITEM(parts, i, Py_NewRef(args[i]));
    }
  }
  PyObject *name = parts != NULL ? PyUnicode_Join(dot, parts) : NULL;
  Py_XDECREF(parts);
  Py_XDECREF(dot);
  return name;
}

PyObject *nm_py_name_expand(PyObject *name, const uint8_t identity_hash[16]) {
  PyObject *hex = nm_py_hex(nm_span_of(identity_hash, NM_ADDRESS_SIZE));
  PyObject *full =
      hex != NULL ? PyUnicode_FromFormat("%U.%U", name, hex) : NULL;
  Py_XDECREF(hex);
  return full;
}

PyDoc_STRVAR(split_name_doc,
             "split_name($module, name, /)\n--\n\n"
             "The application name and the aspects of a dotted name.\n\n"
             ">>> split_name('lxmf.delivery')\n"
             "('lxmf', ('delivery',))\n");

static PyObject *core_split_name(PyObject *Py_UNUSED(module), PyObject *arg) {
  nm_span text;
  if (nm_py_text(arg, "split_name", "name", &text) < 0) {
    return NULL;
  }
  PyObject *dot = PyUnicode_FromString(".");
  PyObject *parts = dot != NULL ? PyUnicode_Split(arg, dot, -1) : NULL;
  PyObject *aspects =
      parts != NULL ? PyList_GetSlice(parts, 1, PyList_GET_SIZE(parts)) : NULL;
  PyObject *result = NULL;
  if (aspects != NULL) {
    result =
        Py_BuildValue("ON", PyList_GET_ITEM(parts, 0), PyList_AsTuple(aspects));
  }
  Py_XDECREF(aspects);
  Py_XDECREF(parts);
  Py_XDECREF(dot);
  return result;
}

PyDoc_STRVAR(join_name_doc,
             "join_name($module, app, /, *aspects)\n--\n\n"
             "The dotted name of an application name and its aspects. "
             "ValueError when one of\nthem contains a dot.\n\n"
             ">>> join_name('lxmf', 'delivery')\n"
             "'lxmf.delivery'\n");

static PyObject *core_join_name(PyObject *Py_UNUSED(module),
                                PyObject *const *args, Py_ssize_t nargs) {
  return join(args, nargs, "join_name");
}

PyDoc_STRVAR(expand_name_doc,
             "expand_name($module, identity_hash, app, /, *aspects)\n--\n\n"
             "The full name that people see: the dotted name, then the "
             "hexadecimal identity hash\nunless it is None. It is never "
             "hashed.\n\n"
             ">>> expand_name(IdentityHash(bytes(16)), 'app', 'a')\n"
             "'app.a.00000000000000000000000000000000'\n");

static PyObject *core_expand_name(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs) {
  static const char function[] = "expand_name";
  uint8_t hash[NM_ADDRESS_SIZE];
  if (nargs < 2) {
    return PyErr_Format(PyExc_TypeError, "expand_name() needs parameter '%s'",
                        nargs == 0 ? "identity_hash" : "app");
  }
  if (args[0] != Py_None &&
      nm_py_address(nm_py_state_of_module(module), args[0], NM_PY_IDENTITY_HASH,
                    function, "identity_hash", hash) < 0) {
    return NULL;
  }
  PyObject *name = join(args + 1, nargs - 1, function);
  if (name == NULL || args[0] == Py_None) {
    return name;
  }
  PyObject *full = nm_py_name_expand(name, hash);
  Py_DECREF(name);
  return full;
}

int nm_py_name_hash_of(PyObject *name, const char *function,
                       uint8_t out[NM_NAME_HASH_SIZE]) {
  if (!PyUnicode_Check(name)) {
    if (!PyObject_CheckBuffer(name)) {
      return nm_py_type_error(function, "name", "a str or a name hash", name);
    }
    return nm_py_exact(name, function, "name", out, NM_NAME_HASH_SIZE);
  }
  nm_span text;
  if (nm_py_text(name, function, "name", &text) < 0) {
    return -1;
  }
  nm_name_hash(out, text);
  return 0;
}

PyDoc_STRVAR(
    destination_hash_doc,
    "destination_hash($module, identity_hash, name, /)\n--\n\n"
    "The address of a destination (RNS 1, 3.2): a DestinationHash.\n\n"
    "identity_hash is an IdentityHash or its 16 bytes, or None for a PLAIN "
    "destination;\nname is the dotted name, or its name hash of 10 bytes.\n\n"
    ">>> destination_hash(None, 'rnstransport.path.request').hex()\n"
    "'6b9f66014d9853faab220fba47d02761'\n");

static PyObject *core_destination_hash(PyObject *module, PyObject *const *args,
                                       Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "destination_hash", 2, 2, 2, 2, {NM_STR_identity_hash, NM_STR_name}};
  static const char function[] = "destination_hash";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  nm_identity_hash identity;
  nm_destination_hash address;
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, NULL, a) < 0 ||
      (a[0] != Py_None &&
       nm_py_address(state, a[0], NM_PY_IDENTITY_HASH, function,
                     "identity_hash", identity.b) < 0) ||
      nm_py_name_hash_of(a[1], function, name_hash) < 0) {
    return NULL;
  }
  nm_destination_address(name_hash, a[0] != Py_None ? &identity : NULL,
                         &address);
  return nm_py_destination_hash_new(state, address.b);
}

PyDoc_STRVAR(path_hash_doc, "path_hash($module, path, /)\n--\n\n"
                            "The 16 bytes that stand for a request path.\n\n"
                            ">>> path_hash('/status').hex()\n"
                            "'ae4267a01f1269fbbf4824d26cf3bb22'\n");

static PyObject *core_path_hash(PyObject *Py_UNUSED(module), PyObject *arg) {
  nm_span path;
  uint8_t out[NM_ADDRESS_SIZE];
  if (nm_py_text(arg, "path_hash", "path", &path) < 0) {
    return NULL;
  }
  nm_request_path_hash(path, out);
  return nm_py_bytes(nm_span_of(out, sizeof out));
}

PyDoc_STRVAR(
    check_request_handler_doc,
    "check_request_handler($module, path, /, *, policy=0, allowed=None)\n"
    "--\n\n"
    "Checks the arguments of a request handler and returns the 16-byte hash of "
    "its path.\n\n"
    "policy is 0 nobody, 1 everybody, 2 the identities in allowed: a sequence "
    "of IdentityHash\nor 16 bytes, which must be given with policy 2 and with "
    "no other. Raises ValueError for\nan empty path, an unknown policy and a "
    "list in the wrong place.\n\n"
    ">>> check_request_handler('/status', policy=2, "
    "allowed=[bytes(16)]).hex()\n"
    "'ae4267a01f1269fbbf4824d26cf3bb22'\n");

/* Checks that |allowed| holds addresses of identities; their bytes in all, or
 * -1 with an exception. */
static long long allowed_size(nm_state *state, PyObject *allowed) {
  static const char function[] = "check_request_handler";
  uint8_t address[NM_ADDRESS_SIZE];
  PyObject *items = nm_py_sequence(allowed, function, "allowed",
                                   "a sequence of IdentityHash");
  if (items == NULL) {
    return -1;
  }
  Py_ssize_t count = PyTuple_GET_SIZE(items);
  for (Py_ssize_t i = 0; i < count; i++) {
    if (nm_py_address(state, PyTuple_GET_ITEM(items, i), NM_PY_IDENTITY_HASH,
                      function, "allowed", address) < 0) {
      count = -1;
    }
  }
  Py_DECREF(items);
  return count < 0 ? -1 : (long long)count * NM_ADDRESS_SIZE;
}

static PyObject *core_check_request_handler(PyObject *module,
                                            PyObject *const *args,
                                            Py_ssize_t nargs,
                                            PyObject *kwnames) {
  static const nm_py_signature signature = {
      "check_request_handler",
      3,
      1,
      1,
      1,
      {NM_STR_path, NM_STR_policy, NM_STR_allowed}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[3];
  nm_span path;
  long long policy = NM_ALLOW_NONE;
  long long size = 0;
  nm_fault fault;
  uint8_t hash[NM_ADDRESS_SIZE];
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_text(a[0], "check_request_handler", "path", &path) < 0 ||
      (a[1] != NULL && nm_py_int(a[1], "check_request_handler", "policy",
                                 NM_ALLOW_NONE, NM_ALLOW_LIST, &policy) < 0)) {
    return NULL;
  }
  if (!nm_py_absent(a[2])) {
    size = allowed_size(state, a[2]);
    if (size < 0) {
      return NULL;
    }
  }
  if (nm_request_handler_check(path, (int)policy, !nm_py_absent(a[2]),
                               (size_t)size, &fault) != NM_OK) {
    return PyErr_Format(PyExc_ValueError,
                        "check_request_handler() parameter '%s' %s",
                        fault.field, nm_status_text(fault.status));
  }
  nm_request_path_hash(path, hash);
  return nm_py_bytes(nm_span_of(hash, sizeof hash));
}

#define FASTCALL(name)                                                         \
  { #name, (PyCFunction)(void (*)(void))core_##name, METH_FASTCALL, name##_doc }

static PyMethodDef functions[] = {
    {"split_name", core_split_name, METH_O, split_name_doc},
    FASTCALL(join_name),
    FASTCALL(expand_name),
    FASTCALL(destination_hash),
    {"path_hash", core_path_hash, METH_O, path_hash_doc},
    {"check_request_handler",
     (PyCFunction)(void (*)(void))core_check_request_handler,
     METH_FASTCALL | METH_KEYWORDS, check_request_handler_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_names_add(PyObject *module, nm_state *Py_UNUSED(state)) {
  return PyModule_AddFunctions(module, functions);
}
