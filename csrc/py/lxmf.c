/* Functions of LXMF: how a message travels, addresses, ticket stamps,
 * propagation containers, paper messages (LXMF 3.2, 7, 8.1, 12).
 */
#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/message.h"
#include "py/propagated.h"
#include "wire/lxmf_paper.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_select.h"
#include "wire/lxmf_stamp.h"

/* --------------------------------------------------------------- selection */

PyDoc_STRVAR(
    representation_doc,
    "representation($module, method, content_size, /)\n--\n\n"
    "How a message travels that is to go by method: (method, representation) "
    "by LXMF 3.2.\n\n"
    "The numbers are those of constants.Method and constants.Representation. "
    "content_size is\nMessage.content_size; for PROPAGATED it is the length of "
    "the container with stamps, for\nPAPER that of lxmf_data. An opportunistic "
    "message that is too large becomes DIRECT.\n\n"
    "Raises EncodeError (\"TOO_LARGE\") for paper above 2210 bytes, ValueError "
    "for another method.\n\n"
    ">>> representation(1, 287), representation(1, 288)\n"
    "((1, 1), (2, 1))\n");

static PyObject *representation(PyObject *module, PyObject *const *args,
                                Py_ssize_t nargs) {
  long long method;
  long long size;
  if (!nm_py_arity("representation", nargs, 2, 2) ||
      nm_py_int(args[0], "representation", "method", 0, 255, &method) < 0 ||
      nm_py_int(args[1], "representation", "content_size", -16, LLONG_MAX,
                &size) < 0) {
    return NULL;
  }
  nm_lxmf_choice choice;
  nm_fault fault = {nm_lxmf_select((nm_lxmf_method)method, size, &choice),
                    "content_size", 0};
  if (fault.status == NM_E(ARGUMENT)) {
    PyErr_Format(PyExc_ValueError,
                 "representation() parameter 'method' must be 0, 1, 2, 3 or 5, "
                 "not %lld",
                 method);
    return NULL;
  }
  return fault.status < 0
             ? nm_py_raise_encode(nm_py_state_of_module(module), &fault, "lxmf")
             : Py_BuildValue("(ii)", (int)choice.method,
                             (int)choice.representation);
}

PyDoc_STRVAR(delivery_hash_doc,
             "delivery_hash($module, identity, /)\n--\n\n"
             "The lxmf.delivery address of an Identity or an IdentityHash: its "
             "DestinationHash.");

static PyObject *delivery_hash(PyObject *module, PyObject *arg) {
  nm_state *state = nm_py_state_of_module(module);
  nm_identity_hash identity;
  if (nm_py_is_identity(state, arg)) {
    const nm_identity *keys =
        nm_py_identity_public(state, arg, "delivery_hash", "identity");
    if (keys == NULL) {
      return NULL;
    }
    identity = keys->hash;
  } else if (nm_py_address(state, arg, NM_PY_IDENTITY_HASH, "delivery_hash",
                           "identity", identity.b) < 0) {
    return NULL;
  }
  nm_destination_hash out;
  nm_py_delivery_address(&identity, &out);
  return nm_py_destination_hash_new(state, out.b);
}

PyDoc_STRVAR(ticket_stamp_doc,
             "ticket_stamp($module, ticket, message_id, /)\n--\n\n"
             "The 16-byte stamp that a 16-byte ticket makes for the message "
             "with this 32-byte id.");

static PyObject *ticket_stamp(PyObject *module, PyObject *const *args,
                              Py_ssize_t nargs) {
  (void)module;
  uint8_t ticket[NM_LXMF_TICKET_SIZE];
  uint8_t id[NM_HASH_SIZE];
  uint8_t stamp[NM_LXMF_TICKET_SIZE];
  if (!nm_py_arity("ticket_stamp", nargs, 2, 2) ||
      nm_py_exact(args[0], "ticket_stamp", "ticket", ticket, sizeof ticket) <
          0 ||
      nm_py_exact(args[1], "ticket_stamp", "message_id", id, sizeof id) < 0) {
    return NULL;
  }
  nm_lxmf_ticket_stamp(ticket, id, stamp);
  nm_wipe(ticket, sizeof ticket);
  return nm_py_bytes(nm_span_of(stamp, sizeof stamp));
}

/* -------------------------------------------------------------- containers */

/* Borrowed elements of a container. */
typedef struct element_list {
  PyObject *items; /* a tuple; strong */
  nm_py_buffer *held;
  nm_lxmf_element *elements;
  size_t count;
} element_list;

static void elements_release(element_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    nm_py_buffer_release(&list->held[i]);
  }
  PyMem_Free(list->held);
  PyMem_Free(list->elements);
  Py_CLEAR(list->items);
}

/* Element |i|: a Propagated with its stamp, or the bytes of a stamped one. */
static int element_take(nm_state *state, element_list *list, size_t i) {
  PyObject *item = PyTuple_GET_ITEM(list->items, (Py_ssize_t)i);
  if (!nm_py_is_propagated(state, item)) {
    if (!PyObject_CheckBuffer(item)) {
      return nm_py_type_error("container_pack", "elements",
                              "a sequence of Propagated or bytes-like objects",
                              item);
    }
    if (nm_py_buffer_get(item, "container_pack", "elements", &list->held[i]) <
        0) {
      return -1;
    }
    list->elements[i].data = list->held[i].span;
    return 0;
  }
  nm_py_propagated *p = (nm_py_propagated *)item;
  if (p->stamp == NULL) {
    nm_py_stamp_missing(state, "container_pack()");
    return -1;
  }
  list->elements[i].data = nm_py_bytes_span(p->data);
  list->elements[i].stamp = nm_py_bytes_span(p->stamp);
  return 0;
}

/* 0, or -1 with an exception and nothing held. */
static int elements_take(nm_state *state, PyObject *obj, element_list *list) {
  memset(list, 0, sizeof *list);
  list->items = nm_py_sequence(obj, "container_pack", "elements",
                               "a sequence of Propagated or bytes-like "
                               "objects");
  if (list->items == NULL) {
    return -1;
  }
  size_t count = (size_t)PyTuple_GET_SIZE(list->items);
  list->held = PyMem_Calloc(count + 1, sizeof *list->held);
  list->elements = PyMem_Calloc(count + 1, sizeof *list->elements);
  int result = 0;
  if (list->held == NULL || list->elements == NULL) {
    PyErr_NoMemory();
    result = -1;
  }
  for (size_t i = 0; i < count && result == 0; i++) {
    result = element_take(state, list, i);
    list->count += result == 0;
  }
  if (result < 0) {
    elements_release(list);
  }
  return result;
}

PyDoc_STRVAR(container_pack_doc,
             "container_pack($module, elements, time, /)\n--\n\n"
             "The container of an upload or a sync: time in Unix seconds and "
             "stamped elements, each a\nPropagated with a stamp or the bytes "
             "of one.\n\n"
             "Raises EncodeError (\"MISSING\") for a Propagated without a "
             "stamp.\n\n"
             ">>> container_pack([bytes(145)], 1.5)[:10].hex()\n"
             "'92cb3ff8000000000000'\n");

static PyObject *container_pack(PyObject *module, PyObject *const *args,
                                Py_ssize_t nargs) {
  nm_state *state = nm_py_state_of_module(module);
  double time;
  element_list list;
  if (!nm_py_arity("container_pack", nargs, 2, 2) ||
      nm_py_real(args[1], "container_pack", "time", &time) < 0 ||
      elements_take(state, args[0], &list) < 0) {
    return NULL;
  }
  PyObject *packed = NULL;
  nm_fault fault = {NM_OK, "elements", 0};
  if (list.count > UINT32_MAX) {
    fault.status = NM_E(TOO_LARGE);
  } else {
    size_t size = nm_lxmf_container_size(list.elements, (uint32_t)list.count);
    uint8_t *out;
    packed = nm_py_bytes_new(size, &out);
    if (packed != NULL) {
      nm_writer w = nm_writer_of(out, size);
      fault.status = nm_lxmf_container_encode(time, list.elements,
                                              (uint32_t)list.count, &w);
    }
  }
  elements_release(&list);
  if (fault.status < 0) {
    Py_CLEAR(packed);
    nm_py_raise_encode(state, &fault, "lxmf");
  }
  return packed;
}

PyDoc_STRVAR(container_unpack_doc,
             "container_unpack($module, data, /, *, messages_max=65536)\n--\n\n"
             "Takes a container apart: (time, list of stamped elements as "
             "bytes); see\nPropagated.from_stamped().\n\n"
             "Raises DecodeError, and LimitError above messages_max "
             "elements.");

/* The elements of an opened |container| as a list. */
static PyObject *container_list(nm_lxmf_container *container) {
  PyObject *list = PyList_New((Py_ssize_t)container->count);
  nm_span message;
  for (Py_ssize_t i = 0;
       list != NULL && nm_lxmf_container_next(container, &message); i++) {
    PyObject *item = nm_py_bytes(message);
    if (item == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, i, item);
    }
  }
  return list;
}

static PyObject *container_unpack(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "container_unpack",
      .count = 2,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_data, NM_STR_messages_max}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *in[2];
  long long max = 65536;
  nm_py_buffer buf;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, in) < 0 ||
      (in[1] != NULL && nm_py_int(in[1], "container_unpack", "messages_max", 0,
                                  UINT32_MAX, &max) < 0) ||
      nm_py_buffer_get(in[0], "container_unpack", "data", &buf) < 0) {
    return NULL;
  }
  nm_lxmf_container container;
  nm_fault fault;
  PyObject *result = NULL;
  if (nm_lxmf_container_open(buf.span, (uint32_t)max, &container, &fault) < 0) {
    nm_py_raise(state, &fault, "lxmf");
  } else {
    PyObject *list = container_list(&container);
    result = list != NULL ? Py_BuildValue("(dN)", container.time, list) : NULL;
  }
  nm_py_buffer_release(&buf);
  return result;
}

/* ------------------------------------------------------------------- paper */

/* The data of the Propagated |arg| when they fit a paper message; borrowed.
 * NULL with an exception. */
static PyObject *paper_data(nm_state *state, PyObject *arg,
                            const char *function) {
  if (!nm_py_is_propagated(state, arg)) {
    nm_py_type_error(function, "propagated", "a Propagated", arg);
    return NULL;
  }
  PyObject *data = ((nm_py_propagated *)arg)->data;
  if (PyBytes_GET_SIZE(data) > NM_LXMF_PAPER_MDU) {
    return nm_py_encode_error(state, NM_E(TOO_LARGE), "lxmf_data",
                              "%s(): the message has %zd bytes, paper holds %d",
                              function, PyBytes_GET_SIZE(data),
                              NM_LXMF_PAPER_MDU);
  }
  return data;
}

PyDoc_STRVAR(paper_pack_doc,
             "paper_pack($module, propagated, /)\n--\n\n"
             "The bytes of a paper message: destination and encrypted message, "
             "no stamp.\n\n"
             "Raises EncodeError (\"TOO_LARGE\") above 2210 bytes.");

static PyObject *paper_pack(PyObject *module, PyObject *arg) {
  return Py_XNewRef(
      paper_data(nm_py_state_of_module(module), arg, "paper_pack"));
}

PyDoc_STRVAR(paper_uri_doc,
             "paper_uri($module, propagated, /)\n--\n\n"
             "The lxm:// URI of a paper message, for a QR code.\n\n"
             "Raises EncodeError (\"TOO_LARGE\") above 2210 bytes.");

static PyObject *paper_uri(PyObject *module, PyObject *arg) {
  nm_state *state = nm_py_state_of_module(module);
  PyObject *data = paper_data(state, arg, "paper_uri");
  if (data == NULL) {
    return NULL;
  }
  nm_span span = nm_py_bytes_span(data);
  size_t size = nm_lxmf_uri_size(span.len);
  PyObject *uri = PyUnicode_New((Py_ssize_t)size, 127);
  if (uri != NULL) {
    nm_writer w = nm_writer_of(PyUnicode_1BYTE_DATA(uri), size);
    nm_fault fault = {nm_lxmf_uri_encode(span, &w), "lxmf_data", 0};
    if (fault.status < 0) {
      Py_CLEAR(uri);
      nm_py_raise_encode(state, &fault, "lxmf");
    }
  }
  return uri;
}

PyDoc_STRVAR(paper_uri_unpack_doc,
             "paper_uri_unpack($module, uri, /)\n--\n\n"
             "Reads the URI of a paper message: the scheme in either case, "
             "slashes anywhere, padding\nor none.\n\n"
             "Raises DecodeError (\"VALUE\", \"LENGTH\", \"TOO_LARGE\").");

static PyObject *paper_uri_unpack(PyObject *module, PyObject *arg) {
  nm_state *state = nm_py_state_of_module(module);
  nm_span uri;
  if (nm_py_text(arg, "paper_uri_unpack", "uri", &uri) < 0) {
    return NULL;
  }
  uint8_t room[NM_LXMF_PAPER_MDU];
  nm_writer w = nm_writer_of(room, sizeof room);
  nm_fault fault;
  if (nm_lxmf_uri_decode(uri, &w, &fault) < 0) {
    return nm_py_raise(state, &fault, "lxmf");
  }
  return nm_py_propagated_new(state, nm_py_bytes(nm_writer_done(&w)), NULL);
}

/* ------------------------------------------------------------------ module */

static PyMethodDef lxmf_functions[] = {
    {"representation", NM_PY_FASTCALL(representation), METH_FASTCALL,
     representation_doc},
    {"delivery_hash", delivery_hash, METH_O, delivery_hash_doc},
    {"ticket_stamp", NM_PY_FASTCALL(ticket_stamp), METH_FASTCALL,
     ticket_stamp_doc},
    {"container_pack", NM_PY_FASTCALL(container_pack), METH_FASTCALL,
     container_pack_doc},
    {"container_unpack", NM_PY_FASTCALL(container_unpack),
     METH_FASTCALL | METH_KEYWORDS, container_unpack_doc},
    {"paper_pack", paper_pack, METH_O, paper_pack_doc},
    {"paper_uri", paper_uri, METH_O, paper_uri_doc},
    {"paper_uri_unpack", paper_uri_unpack, METH_O, paper_uri_unpack_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_lxmf_add(PyObject *module, nm_state *state) {
  (void)state;
  return PyModule_AddFunctions(module, lxmf_functions);
}
