/* netmesh.Packet and the functions on whole packets.
 *
 * A Packet refers to bytes and to a memoryview of them, neither of which can
 * lead back to it, so it is not tracked by the garbage collector: making and
 * dropping packets is a hot path.
 */
#include "py/packet.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/value.h"

static nm_py_packet *self_of(PyObject *self) {
  return (nm_py_packet *)self;
}

/* ------------------------------------------------------- for other classes */

PyObject *nm_py_packet_from_raw(nm_state *state, PyObject *raw) {
  nm_fault fault;
  if (raw == NULL) {
    return NULL;
  }
  nm_py_packet *self = PyObject_New(nm_py_packet, NM_PY_TYPE(state, Packet));
  if (self == NULL) {
    Py_DECREF(raw);
    return NULL;
  }
  self->raw = raw;
  self->payload = NULL;
  nm_span bytes =
      nm_span_of(PyBytes_AS_STRING(raw), (size_t)PyBytes_GET_SIZE(raw));
  if (nm_packet_parse(bytes, &self->view, &fault) != NM_OK) {
    Py_DECREF(self);
    return nm_py_raise(state, &fault, "packet");
  }
  return (PyObject *)self;
}

/* The bytes of |view|. */
static PyObject *pack_view(nm_state *state, const nm_packet *view,
                           nm_packet_role role, size_t mtu) {
  nm_fault fault;
  uint8_t *out;
  size_t len = nm_packet_size(view);
  if (len > mtu) {
    (void)nm_packet_pack_fault(view, role, mtu, mtu, &fault);
    return nm_py_raise_encode(state, &fault, "packet");
  }
  PyObject *raw = nm_py_bytes_new(len, &out);
  if (raw != NULL &&
      nm_packet_pack(view, role, mtu, out, len, &len, &fault) != NM_OK) {
    Py_DECREF(raw);
    return nm_py_raise_encode(state, &fault, "packet");
  }
  return raw;
}

PyObject *nm_py_packet_from_view(nm_state *state, const nm_packet *view,
                                 size_t mtu) {
  return nm_py_packet_from_raw(state,
                               pack_view(state, view, NM_PACKET_RELAY, mtu));
}

PyObject *nm_py_packet_of(nm_state *state, PyObject *obj, const char *function,
                          const char *name) {
  if (nm_py_is_packet(state, obj)) {
    return Py_NewRef(obj);
  }
  if (!PyObject_CheckBuffer(obj)) {
    nm_py_type_error(function, name, "a Packet or a bytes-like object", obj);
    return NULL;
  }
  return nm_py_packet_from_raw(state, nm_py_bytes_of(obj, function, name));
}

/* ------------------------------------------------------------ construction */

enum {
  P_DESTINATION,
  P_PAYLOAD,
  P_PACKET_TYPE,
  P_DESTINATION_TYPE,
  P_HEADER_TYPE,
  P_CONTEXT_FLAG,
  P_TRANSPORT_TYPE,
  P_HOPS,
  P_CONTEXT,
  P_TRANSPORT_ID,
  P_MTU,
  P_COUNT
};

#define PACKET_NAMES                                                           \
  {                                                                            \
    NM_STR_destination, NM_STR_payload, NM_STR_packet_type,                    \
        NM_STR_destination_type, NM_STR_header_type, NM_STR_context_flag,      \
        NM_STR_transport_type, NM_STR_hops, NM_STR_context,                    \
        NM_STR_transport_id, NM_STR_mtu                                        \
  }

/* A packet being put together from arguments. */
typedef struct draft {
  nm_packet view;
  nm_py_buffer payload; /* held when the payload was given */
  uint8_t destination[NM_ADDRESS_SIZE];
  uint8_t transport_id[NM_ADDRESS_SIZE];
  size_t mtu;
} draft;

/* An int argument of 0..|max| for a field of one byte; absent: unchanged. */
static int small(PyObject *obj, const char *function, const char *name,
                 long long max, uint8_t *field) {
  long long value;
  if (obj == NULL) {
    return 0;
  }
  if (nm_py_int(obj, function, name, 0, max, &value) < 0) {
    return -1;
  }
  *field = (uint8_t)value;
  return 0;
}

static int draft_flags(draft *d, PyObject *const *a, const char *function) {
  bool context_flag = d->view.context_flag != 0;
  if (a[P_CONTEXT_FLAG] != NULL &&
      nm_py_bool(a[P_CONTEXT_FLAG], function, "context_flag", &context_flag) <
          0) {
    return -1;
  }
  d->view.context_flag = context_flag;
  if (small(a[P_PACKET_TYPE], function, "packet_type", NM_PROOF,
            &d->view.packet_type) < 0 ||
      small(a[P_DESTINATION_TYPE], function, "destination_type", NM_LINK,
            &d->view.destination_type) < 0 ||
      small(a[P_HEADER_TYPE], function, "header_type", NM_HEADER_2,
            &d->view.header_type) < 0 ||
      small(a[P_TRANSPORT_TYPE], function, "transport_type", NM_TRANSPORT,
            &d->view.transport_type) < 0 ||
      small(a[P_HOPS], function, "hops", NM_HOPS_MAX - 1, &d->view.hops) < 0) {
    return -1;
  }
  return small(a[P_CONTEXT], function, "context", 0xff, &d->view.context);
}

static int draft_addresses(nm_state *state, draft *d, PyObject *const *a,
                           const char *function) {
  if (a[P_DESTINATION] != NULL) {
    if (nm_py_address_field(state, a[P_DESTINATION], NM_PY_DESTINATION_HASH,
                            function, "destination", d->destination) < 0) {
      return -1;
    }
    d->view.destination = nm_span_of(d->destination, NM_ADDRESS_SIZE);
  }
  if (a[P_TRANSPORT_ID] == Py_None) {
    d->view.transport_id = nm_span_of(NULL, 0);
  } else if (a[P_TRANSPORT_ID] != NULL) {
    if (nm_py_address_field(state, a[P_TRANSPORT_ID], NM_PY_IDENTITY_HASH,
                            function, "transport_id", d->transport_id) < 0) {
      return -1;
    }
    d->view.transport_id = nm_span_of(d->transport_id, NM_ADDRESS_SIZE);
  }
  return 0;
}

/* Applies the arguments that are there; the others stay as |d| has them. */
static int draft_apply(nm_state *state, draft *d, PyObject *const *a,
                       const char *function) {
  long long mtu = NM_MTU;
  if (draft_flags(d, a, function) < 0 ||
      draft_addresses(state, d, a, function) < 0 ||
      (a[P_MTU] != NULL &&
       nm_py_int(a[P_MTU], function, "mtu", 0, NM_PY_SIZE_MAX, &mtu) < 0)) {
    return -1;
  }
  d->mtu = (size_t)mtu;
  if (a[P_PAYLOAD] != NULL) {
    if (nm_py_buffer_get(a[P_PAYLOAD], function, "payload", &d->payload) < 0) {
      return -1;
    }
    d->view.payload = d->payload.span;
  }
  return 0;
}

/* The Packet that |d| describes; releases what |d| holds. A hop count tells an
 * originator from a relay: only a relay has a reason to write one. */
static PyObject *draft_finish(nm_state *state, draft *d) {
  nm_packet_role role =
      d->view.hops > 0 ? NM_PACKET_RELAY : NM_PACKET_ORIGINATE;
  PyObject *raw = pack_view(state, &d->view, role, d->mtu);
  nm_py_buffer_release(&d->payload);
  return nm_py_packet_from_raw(state, raw);
}

PyDoc_STRVAR(
    packet_doc,
    "Packet(*, destination, payload, packet_type=0, destination_type=0,\n"
    "       header_type=0, context_flag=False, transport_type=0, hops=0,\n"
    "       context=0, transport_id=None, mtu=500)\n--\n\n"
    "One packet: its header fields, its payload and its bytes (RNS 1, 4).\n\n"
    "The constructor packs, Packet.unpack parses; parsing copies nothing, the "
    "payload is a\nview. destination is 16 bytes: a destination hash, a link "
    "id or a truncated packet\nhash. The type codes are those of "
    "netmesh.constants. A transport_id (16 bytes) goes\nwith header_type 1. "
    "mtu is the largest packet allowed, in bytes.\n\n"
    "Raises EncodeError for a packet above the MTU, an empty payload, a "
    "missing or\nsuperfluous transport id, and for a header of type 1 with 0 "
    "hops on anything but an\nannounce, which only a relay may write; "
    "ValueError for a number out of range.\n\n"
    "Immutable; may be used from any thread.\n\n"
    ">>> p = Packet(destination=bytes(16), payload=b'hello')\n"
    ">>> p\n"
    "<Packet DATA to SINGLE 00000000000000000000000000000000, context 0x00, "
    "0 hops, 5 bytes>\n"
    ">>> Packet.unpack(p.raw) == p and bytes(p.payload) == b'hello'\n"
    "True\n"
    ">>> p.replace(hops=3).hash == p.hash\n"
    "True\n");

static PyObject *packet_construct(PyObject *type, PyObject *const *args,
                                  size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {"Packet", P_COUNT, 2,
                                            0,        0,       PACKET_NAMES};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[P_COUNT];
  draft d;
  d.view = (nm_packet){0};
  nm_py_buffer_init(&d.payload);
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      draft_apply(state, &d, a, "Packet") < 0) {
    return NULL;
  }
  return draft_finish(state, &d);
}

PyDoc_STRVAR(replace_doc,
             "replace($self, /, **fields)\n--\n\n"
             "A packet that differs in the given fields, which are the "
             "arguments of the\nconstructor. mtu is 500 unless given.");

static PyObject *packet_replace(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {"Packet.replace", P_COUNT, 0, 0, 0,
                                            PACKET_NAMES};
  nm_state *state = nm_py_state_of(self);
  PyObject *a[P_COUNT];
  draft d;
  d.view = self_of(self)->view;
  d.view.ifac_flag = 0;
  nm_py_buffer_init(&d.payload);
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      draft_apply(state, &d, a, "Packet.replace") < 0) {
    return NULL;
  }
  return draft_finish(state, &d);
}

PyDoc_STRVAR(unpack_doc,
             "unpack($type, raw, /)\n--\n\n"
             "Parses one packet, access code taken off already.\n\n"
             "Raises DecodeError 'TRUNCATED' when the header is not complete, "
             "'RANGE' for a hop\ncount of 128 and more, 'EMPTY' for a packet "
             "without data. bytes are kept, other\nbuffers are copied.");

static PyObject *packet_unpack(PyObject *cls, PyObject *arg) {
  return nm_py_packet_from_raw(nm_py_state_of_type((PyTypeObject *)cls),
                               nm_py_bytes_of(arg, "Packet.unpack", "raw"));
}

static void packet_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(self_of(self)->payload);
  Py_XDECREF(self_of(self)->raw);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* -------------------------------------------------------------- properties */

PyDoc_STRVAR(pack_doc, "pack($self, /)\n--\n\n"
                       "The bytes of the packet, the same as raw.");

static PyObject *packet_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return Py_NewRef(self_of(self)->raw);
}

static PyObject *packet_raw(PyObject *self, void *Py_UNUSED(closure)) {
  return Py_NewRef(self_of(self)->raw);
}

/* Fields of one byte: the closure is the offset in nm_packet. */
static PyObject *packet_number(PyObject *self, void *closure) {
  const uint8_t *view = (const uint8_t *)&self_of(self)->view;
  return PyLong_FromLong(view[(size_t)(uintptr_t)closure]);
}

static PyObject *packet_context_flag(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(self_of(self)->view.context_flag);
}

static PyObject *packet_transport_id(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_packet *view = &self_of(self)->view;
  if (view->transport_id.len == 0) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(view->transport_id);
}

static PyObject *packet_destination(PyObject *self, void *Py_UNUSED(closure)) {
  return nm_py_bytes(self_of(self)->view.destination);
}

static bool is_released(PyObject *view) {
  return (((PyMemoryViewObject *)view)->flags & _Py_MEMORYVIEW_RELEASED) != 0;
}

/* The view is made once; a caller may have released it since. */
static PyObject *packet_payload(PyObject *self, void *Py_UNUSED(closure)) {
  nm_py_packet *packet = self_of(self);
  if (packet->payload == NULL || is_released(packet->payload)) {
    size_t len = packet->view.payload.len;
    size_t total = (size_t)PyBytes_GET_SIZE(packet->raw);
    PyObject *view = nm_py_view(packet->raw, total - len, len);
    if (view == NULL) {
      return NULL;
    }
    Py_XSETREF(packet->payload, view);
  }
  return Py_NewRef(packet->payload);
}

static PyObject *packet_hashable_part(PyObject *self,
                                      void *Py_UNUSED(closure)) {
  const nm_packet *view = &self_of(self)->view;
  uint8_t *out;
  size_t len = 1 + view->hashable.len;
  PyObject *result = nm_py_bytes_new(len, &out);
  if (result != NULL) {
    nm_writer w = nm_writer_of(out, len);
    nm_writer_u8(&w, nm_packet_hash_flags(view->flags));
    nm_writer_span(&w, view->hashable);
  }
  return result;
}

static PyObject *hash_prefix(PyObject *self, size_t len) {
  nm_packet_hash hash;
  nm_packet_digest(&self_of(self)->view, &hash);
  return nm_py_bytes(nm_span_of(hash.b, len));
}

static PyObject *packet_hash(PyObject *self, void *Py_UNUSED(closure)) {
  return hash_prefix(self, NM_HASH_SIZE);
}

static PyObject *packet_truncated_hash(PyObject *self,
                                       void *Py_UNUSED(closure)) {
  return hash_prefix(self, NM_ADDRESS_SIZE);
}

/* ------------------------------------------------------------------- value */

static const char *const packet_types[] = {"DATA", "ANNOUNCE", "LINKREQUEST",
                                           "PROOF"};
static const char *const destination_types[] = {"SINGLE", "GROUP", "PLAIN",
                                                "LINK"};

static PyObject *packet_repr(PyObject *self) {
  const nm_packet *view = &self_of(self)->view;
  PyObject *hex = nm_py_hex(view->destination);
  if (hex == NULL) {
    return NULL;
  }
  PyObject *text = PyUnicode_FromFormat(
      "<Packet %s to %s %U, context 0x%02x, %d hops, %zu bytes>",
      packet_types[view->packet_type],
      destination_types[view->destination_type], hex, (int)view->context,
      (int)view->hops, view->payload.len);
  Py_DECREF(hex);
  return text;
}

static PyObject *packet_compare(PyObject *self, PyObject *other, int op) {
  if (!Py_IS_TYPE(other, Py_TYPE(self))) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  if (op != Py_EQ && op != Py_NE) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyObject_RichCompare(self_of(self)->raw, self_of(other)->raw, op);
}

static Py_hash_t packet_tp_hash(PyObject *self) {
  return PyObject_Hash(self_of(self)->raw);
}

static PyObject *packet_reduce(PyObject *self, PyObject *Py_UNUSED(unused)) {
  return Py_BuildValue(
      "N(O)", PyObject_GetAttrString((PyObject *)Py_TYPE(self), "unpack"),
      self_of(self)->raw);
}

#define NUMBER(name, doc)                                                      \
  { #name, packet_number, NULL, doc, (void *)offsetof(nm_packet, name) }

static PyGetSetDef packet_getset[] = {
    {"raw", packet_raw, NULL, "The bytes of the whole packet.", NULL},
    NUMBER(flags, "The first byte as it is."),
    NUMBER(hops, "The hop count on the wire, 0 to 127."),
    NUMBER(header_type, "0 without, 1 with a transport id."),
    {"context_flag", packet_context_flag, NULL,
     "Of an announce: whether it carries a ratchet.", NULL},
    NUMBER(transport_type, "0 BROADCAST, 1 TRANSPORT."),
    NUMBER(destination_type, "0 SINGLE, 1 GROUP, 2 PLAIN, 3 LINK."),
    NUMBER(packet_type, "0 DATA, 1 ANNOUNCE, 2 LINKREQUEST, 3 PROOF."),
    {"transport_id", packet_transport_id, NULL,
     "The 16 bytes before the destination, or None.", NULL},
    {"destination", packet_destination, NULL,
     "16 bytes: a destination hash, link id or truncated packet hash.", NULL},
    NUMBER(context, "The context byte."),
    {"payload", packet_payload, NULL, "The data: a view of raw.", NULL},
    {"hashable_part", packet_hashable_part, NULL,
     "What the packet hash covers: the low four flag bits, then all from the "
     "destination on.",
     NULL},
    {"hash", packet_hash, NULL,
     "The packet hash, 32 bytes, the same at every hop.", NULL},
    {"truncated_hash", packet_truncated_hash, NULL,
     "The first 16 bytes of the packet hash.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef packet_methods[] = {
    {"unpack", packet_unpack, METH_O | METH_CLASS, unpack_doc},
    {"pack", packet_pack, METH_NOARGS, pack_doc},
    {"replace", (PyCFunction)(void (*)(void))packet_replace,
     METH_FASTCALL | METH_KEYWORDS, replace_doc},
    {"__reduce__", packet_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot packet_slots[] = {
    {Py_tp_doc, (void *)packet_doc},
    {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)packet_dealloc},
    {Py_tp_repr, (void *)packet_repr},
    {Py_tp_richcompare, (void *)packet_compare},
    {Py_tp_hash, (void *)packet_tp_hash},
    {Py_tp_methods, packet_methods},
    {Py_tp_getset, packet_getset},
    {0, NULL}};

static PyType_Spec packet_spec = {.name = "netmesh._core.Packet",
                                  .basicsize = sizeof(nm_py_packet),
                                  .flags = NM_PY_FLAGS,
                                  .slots = packet_slots};

/* --------------------------------------------------------------- functions */

PyDoc_STRVAR(
    pack_packet_doc,
    "pack_packet($module, destination, payload, /, flags=0, hops=0, "
    "context=0,\n            transport_id=None, mtu=500)\n--\n\n"
    "The bytes of a packet, without an object in between: the fast form.\n\n"
    "flags is the whole first byte (0 to 127). Every header is allowed, as a "
    "relay needs\nit. Errors as those of Packet.\n\n"
    ">>> pack_packet(bytes(16), b'hello') == Packet(destination=bytes(16), "
    "payload=b'hello').raw\n"
    "True\n");

/* The numbers of pack_packet. */
static int pack_numbers(PyObject *const *a, nm_packet *view, size_t *mtu) {
  static const char function[] = "pack_packet";
  uint8_t flags = 0;
  long long limit = NM_MTU;
  if (small(a[2], function, "flags", 0x7f, &flags) < 0 ||
      small(a[3], function, "hops", NM_HOPS_MAX - 1, &view->hops) < 0 ||
      small(a[4], function, "context", 0xff, &view->context) < 0 ||
      (a[6] != NULL &&
       nm_py_int(a[6], function, "mtu", 0, NM_PY_SIZE_MAX, &limit) < 0)) {
    return -1;
  }
  view->header_type = (flags >> 6) & 1;
  view->context_flag = (flags >> 5) & 1;
  view->transport_type = (flags >> 4) & 1;
  view->destination_type = (flags >> 2) & 3;
  view->packet_type = flags & 3;
  *mtu = (size_t)limit;
  return 0;
}

static PyObject *core_pack_packet(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "pack_packet",
      7,
      2,
      7,
      2,
      {NM_STR_destination, NM_STR_payload, NM_STR_flags, NM_STR_hops,
       NM_STR_context, NM_STR_transport_id, NM_STR_mtu}};
  static const char function[] = "pack_packet";
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[7];
  uint8_t destination[NM_ADDRESS_SIZE];
  uint8_t transport_id[NM_ADDRESS_SIZE];
  nm_py_buffer payload;
  nm_packet view = {0};
  size_t mtu;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_address_field(state, a[0], NM_PY_DESTINATION_HASH, function,
                          "destination", destination) < 0 ||
      (!nm_py_absent(a[5]) &&
       nm_py_address_field(state, a[5], NM_PY_IDENTITY_HASH, function,
                           "transport_id", transport_id) < 0) ||
      pack_numbers(a, &view, &mtu) < 0 ||
      nm_py_buffer_get(a[1], function, "payload", &payload) < 0) {
    return NULL;
  }
  view.destination = nm_span_of(destination, NM_ADDRESS_SIZE);
  view.transport_id = nm_py_absent(a[5])
                          ? nm_span_of(NULL, 0)
                          : nm_span_of(transport_id, NM_ADDRESS_SIZE);
  view.payload = payload.span;
  PyObject *raw = pack_view(state, &view, NM_PACKET_RELAY, mtu);
  nm_py_buffer_release(&payload);
  return raw;
}

PyDoc_STRVAR(packet_hash_doc,
             "packet_hash($module, raw, /)\n--\n\n"
             "The packet hash (32 bytes) of complete bytes. Raises DecodeError "
             "as Packet.unpack.");

static PyObject *core_packet_hash(PyObject *module, PyObject *arg) {
  nm_py_buffer raw;
  nm_packet_hash hash;
  nm_fault fault;
  if (nm_py_buffer_get(arg, "packet_hash", "raw", &raw) < 0) {
    return NULL;
  }
  int status = nm_packet_digest_raw(raw.span, &hash, &fault);
  nm_py_buffer_release(&raw);
  return status == NM_OK
             ? nm_py_bytes(nm_span_of(hash.b, NM_HASH_SIZE))
             : nm_py_raise(nm_py_state_of_module(module), &fault, "packet");
}

PyDoc_STRVAR(travels_in_clear_doc,
             "travels_in_clear($module, packet_type, destination_type, context,"
             " /)\n--\n\n"
             "Whether the packet layer leaves the payload of such a packet "
             "unencrypted\n(RNS 1, 4.5).");

static PyObject *core_travels_in_clear(PyObject *module, PyObject *const *args,
                                       Py_ssize_t nargs) {
  static const nm_py_signature signature = {
      "travels_in_clear",
      3,
      3,
      3,
      3,
      {NM_STR_packet_type, NM_STR_destination_type, NM_STR_context}};
  static const char function[] = "travels_in_clear";
  PyObject *a[3];
  uint8_t packet_type = 0;
  uint8_t destination_type = 0;
  uint8_t context = 0;
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, NULL, a) < 0 ||
      small(a[0], function, "packet_type", NM_PROOF, &packet_type) < 0 ||
      small(a[1], function, "destination_type", NM_LINK, &destination_type) <
          0 ||
      small(a[2], function, "context", 0xff, &context) < 0) {
    return NULL;
  }
  return PyBool_FromLong(
      nm_packet_travels_in_clear(packet_type, destination_type, context));
}

static PyMethodDef functions[] = {
    {"pack_packet", (PyCFunction)(void (*)(void))core_pack_packet,
     METH_FASTCALL | METH_KEYWORDS, pack_packet_doc},
    {"packet_hash", core_packet_hash, METH_O, packet_hash_doc},
    {"travels_in_clear", (PyCFunction)(void (*)(void))core_travels_in_clear,
     METH_FASTCALL, travels_in_clear_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_packet_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_Packet, &packet_spec, NULL,
                     packet_construct) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
