/* netmesh.control: PathRequest and TunnelSynthesis. */
#include "wire/control.h"

#include "py/args.h"
#include "py/errors.h"
#include "py/hashes.h"
#include "py/identity.h"
#include "py/packet.h"
#include "py/value.h"

/* A field that holds bytes, as a span. */
static nm_span span_at(PyObject *self, size_t place) {
  PyObject *bytes = nm_py_record_get(self, place);
  return nm_span_of(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

/* ------------------------------------------------------------- PathRequest */

enum {
  PATH_DESTINATION,
  PATH_TRANSPORT_ID,
  PATH_TAG,
  PATH_TAG_WAS_CUT,
  PATH_FIELDS
};

#define PATH_REQUEST_MAX (3 * NM_ADDRESS_SIZE)

PyDoc_STRVAR(
    path_doc,
    "PathRequest(destination, /, *, transport_id=None, tag=None)\n--\n\n"
    "Asks for the path to a destination (RNS 1, 8.9).\n\n"
    "transport_id is the sender's own when it is a transport node. tag is 1 to "
    "16 bytes,\nrandom if left out. An unpacked request has tag None when it "
    "came without one, which is\nto be ignored, and tag_was_cut tells that it "
    "was longer than 16 bytes.\n\n"
    "Immutable; may be used from any thread.\n\n"
    ">>> request = PathRequest(bytes(16), tag=b'x' * 16)\n"
    ">>> PathRequest.unpack(request.pack()) == request\n"
    "True\n"
    ">>> request.packet().destination.hex()\n"
    "'6b9f66014d9853faab220fba47d02761'\n");

/* Takes over |tag|, which may be NULL with an exception set. |transport_id| is
 * NULL without one. */
static PyObject *path_new(nm_state *state, const uint8_t *destination,
                          const uint8_t *transport_id, PyObject *tag,
                          bool was_cut) {
  PyObject *fields[PATH_FIELDS] = {NULL, NULL, tag, NULL};
  if (tag != NULL) {
    fields[PATH_DESTINATION] = nm_py_destination_hash_new(state, destination);
    fields[PATH_TRANSPORT_ID] =
        transport_id != NULL ? nm_py_identity_hash_new(state, transport_id)
                             : Py_NewRef(Py_None);
    fields[PATH_TAG_WAS_CUT] = PyBool_FromLong(was_cut);
  }
  return nm_py_record_new(NM_PY_TYPE(state, PathRequest), fields);
}

/* The given tag, or a random one. */
static PyObject *tag_of(nm_state *state, PyObject *obj) {
  uint8_t random[NM_TAG_SIZE];
  if (nm_py_absent(obj)) {
    return nm_py_exact_or_random(state, NULL, "PathRequest", "tag", random,
                                 sizeof random) < 0
               ? NULL
               : nm_py_bytes(nm_span_of(random, sizeof random));
  }
  PyObject *tag = nm_py_bytes_of(obj, "PathRequest", "tag");
  if (tag != NULL &&
      (PyBytes_GET_SIZE(tag) < 1 || PyBytes_GET_SIZE(tag) > NM_TAG_SIZE)) {
    nm_py_encode_error(state, NM_E(LENGTH), "tag",
                       "PathRequest() parameter 'tag' must be 1 to 16 bytes "
                       "long, not %zd",
                       PyBytes_GET_SIZE(tag));
    Py_CLEAR(tag);
  }
  return tag;
}

static PyObject *path_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "PathRequest",
      3,
      1,
      1,
      1,
      {NM_STR_destination, NM_STR_transport_id, NM_STR_tag}};
  static const char function[] = "PathRequest";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[3];
  uint8_t destination[NM_ADDRESS_SIZE];
  uint8_t transport_id[NM_ADDRESS_SIZE];
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      nm_py_address_field(state, a[0], NM_PY_DESTINATION_HASH, function,
                          "destination", destination) < 0 ||
      (!nm_py_absent(a[1]) &&
       nm_py_address_field(state, a[1], NM_PY_IDENTITY_HASH, function,
                           "transport_id", transport_id) < 0)) {
    return NULL;
  }
  return path_new(state, destination, nm_py_absent(a[1]) ? NULL : transport_id,
                  tag_of(state, a[2]), false);
}

PyDoc_STRVAR(path_unpack_doc,
             "unpack($type, payload, /)\n--\n\n"
             "Parses the payload of a path request. DecodeError 'TRUNCATED' "
             "below 16 bytes.");

static PyObject *path_unpack(PyObject *cls, PyObject *arg) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  nm_py_buffer payload;
  nm_path_request request;
  nm_fault fault;
  if (nm_py_buffer_get(arg, "PathRequest.unpack", "payload", &payload) < 0) {
    return NULL;
  }
  PyObject *result = NULL;
  if (nm_path_request_parse(payload.span, &request, &fault) != NM_OK) {
    nm_py_raise(state, &fault, "path_request");
  } else {
    PyObject *tag =
        request.tag.len > 0 ? nm_py_bytes(request.tag) : Py_NewRef(Py_None);
    result =
        path_new(state, request.destination.ptr,
                 request.transport_id.len > 0 ? request.transport_id.ptr : NULL,
                 tag, request.tag_was_cut);
  }
  nm_py_buffer_release(&payload);
  return result;
}

/* Writes the payload to |w|. A request that came without a tag is written
 * without one. */
static void path_write(PyObject *self, nm_writer *w) {
  nm_writer_span(w, span_at(self, PATH_DESTINATION));
  if (nm_py_record_get(self, PATH_TRANSPORT_ID) != Py_None) {
    nm_writer_span(w, span_at(self, PATH_TRANSPORT_ID));
  }
  if (nm_py_record_get(self, PATH_TAG) != Py_None) {
    nm_writer_span(w, span_at(self, PATH_TAG));
  }
}

PyDoc_STRVAR(path_pack_doc, "pack($self, /)\n--\n\nThe payload.");

static PyObject *path_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  uint8_t out[PATH_REQUEST_MAX];
  nm_writer w = nm_writer_of(out, sizeof out);
  path_write(self, &w);
  return nm_py_bytes(nm_writer_done(&w));
}

PyDoc_STRVAR(path_packet_doc,
             "packet($self, /)\n--\n\n"
             "The packet that carries it, to rnstransport.path.request.");

static PyObject *path_packet(PyObject *self, PyObject *Py_UNUSED(unused)) {
  uint8_t out[PATH_REQUEST_MAX];
  nm_writer w = nm_writer_of(out, sizeof out);
  path_write(self, &w);
  nm_packet view = nm_path_request_packet(nm_writer_done(&w));
  return nm_py_packet_from_view(nm_py_state_of(self), &view, NM_MTU);
}

static PyMemberDef path_members[] = {
    NM_PY_FIELD("destination", PATH_DESTINATION, "Whose path is wanted."),
    NM_PY_FIELD("transport_id", PATH_TRANSPORT_ID,
                "The IdentityHash of the asking transport node, or None."),
    NM_PY_FIELD("tag", PATH_TAG, "1 to 16 bytes, or None."),
    NM_PY_FIELD("tag_was_cut", PATH_TAG_WAS_CUT,
                "Whether the tag was longer than 16 bytes."),
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef path_methods[] = {
    {"unpack", path_unpack, METH_O | METH_CLASS, path_unpack_doc},
    {"pack", path_pack, METH_NOARGS, path_pack_doc},
    {"packet", path_packet, METH_NOARGS, path_packet_doc},
    {NULL, NULL, 0, NULL}};

static PyType_Slot path_slots[] = {{Py_tp_doc, (void *)path_doc},
                                   {Py_tp_new, (void *)nm_py_new},
                                   {Py_tp_members, path_members},
                                   {Py_tp_methods, path_methods},
                                   NM_PY_RECORD_SLOTS,
                                   {0, NULL}};

static PyType_Spec path_spec = {.name = "netmesh._core.PathRequest",
                                .basicsize = NM_PY_RECORD_SIZE(PATH_FIELDS),
                                .flags = NM_PY_RECORD_FLAGS,
                                .slots = path_slots};

/* --------------------------------------------------------- TunnelSynthesis */

enum {
  TUNNEL_PUBLIC_KEY,
  TUNNEL_INTERFACE_HASH,
  TUNNEL_RANDOM_HASH,
  TUNNEL_SIGNATURE,
  TUNNEL_FIELDS
};

PyDoc_STRVAR(
    tunnel_doc,
    "Restores the paths behind a client whose connection was made anew (RNS 1, "
    "8.11).\n\n"
    "TunnelSynthesis.create signs one, TunnelSynthesis.unpack parses one; "
    "verify() checks\nit. Immutable; may be used from any thread.\n\n"
    ">>> tunnel = TunnelSynthesis.create(Identity(), bytes(32))\n"
    ">>> TunnelSynthesis.unpack(tunnel.pack()).verify()\n"
    "True\n");

static PyObject *tunnel_new(nm_state *state, const nm_tunnel *tunnel) {
  PyObject *fields[TUNNEL_FIELDS] = {
      nm_py_bytes(tunnel->public_key), nm_py_bytes(tunnel->interface_hash),
      nm_py_bytes(tunnel->random_hash), nm_py_bytes(tunnel->signature)};
  return nm_py_record_new(NM_PY_TYPE(state, TunnelSynthesis), fields);
}

/* The object for a payload. */
static PyObject *tunnel_parse(nm_state *state, nm_span payload) {
  nm_tunnel tunnel;
  nm_fault fault;
  return nm_tunnel_parse(payload, &tunnel, &fault) == NM_OK
             ? tunnel_new(state, &tunnel)
             : nm_py_raise(state, &fault, "tunnel");
}

PyDoc_STRVAR(
    tunnel_create_doc,
    "create($type, identity, interface_hash, /, *, random=None)\n--\n\n"
    "Signs one for the 32-byte hash of an interface. random is the 16-byte "
    "random hash.\nReleases the GIL.");

static PyObject *tunnel_create(PyObject *cls, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "TunnelSynthesis.create",
      3,
      2,
      2,
      2,
      {NM_STR_identity, NM_STR_interface_hash, NM_STR_random}};
  static const char function[] = "TunnelSynthesis.create";
  nm_state *state = nm_py_state_of_type((PyTypeObject *)cls);
  PyObject *a[3];
  uint8_t interface_hash[NM_HASH_SIZE];
  uint8_t random[NM_ADDRESS_SIZE];
  uint8_t out[NM_TUNNEL_SIZE];
  int status;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      nm_py_exact(a[1], function, "interface_hash", interface_hash,
                  sizeof interface_hash) < 0 ||
      nm_py_exact_or_random(state, a[2], function, "random", random,
                            sizeof random) < 0) {
    return NULL;
  }
  const nm_identity *identity =
      nm_py_identity_private(state, a[0], function, "identity");
  if (identity == NULL) {
    return NULL;
  }
  nm_writer w = nm_writer_of(out, sizeof out);
  Py_BEGIN_ALLOW_THREADS;
  status = nm_tunnel_write(&w, identity, interface_hash, random);
  Py_END_ALLOW_THREADS;
  return status == NM_OK
             ? tunnel_parse(state, nm_writer_done(&w))
             : nm_py_raise_status(state, status, "tunnel", "signature");
}

PyDoc_STRVAR(tunnel_unpack_doc,
             "unpack($type, payload, /)\n--\n\n"
             "Parses the payload of a tunnel synthesis. DecodeError 'LENGTH' "
             "unless it has 176 bytes.");

static PyObject *tunnel_unpack(PyObject *cls, PyObject *arg) {
  nm_py_buffer payload;
  if (nm_py_buffer_get(arg, "TunnelSynthesis.unpack", "payload", &payload) <
      0) {
    return NULL;
  }
  PyObject *result =
      tunnel_parse(nm_py_state_of_type((PyTypeObject *)cls), payload.span);
  nm_py_buffer_release(&payload);
  return result;
}

static nm_tunnel tunnel_of(PyObject *self) {
  nm_tunnel tunnel = {.public_key = span_at(self, TUNNEL_PUBLIC_KEY),
                      .interface_hash = span_at(self, TUNNEL_INTERFACE_HASH),
                      .random_hash = span_at(self, TUNNEL_RANDOM_HASH),
                      .signature = span_at(self, TUNNEL_SIGNATURE)};
  return tunnel;
}

PyDoc_STRVAR(tunnel_verify_doc,
             "verify($self, /)\n--\n\n"
             "Whether it is signed by the key that it names. Releases the "
             "GIL.");

static PyObject *tunnel_verify(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_tunnel tunnel = tunnel_of(self);
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nm_tunnel_verify(&tunnel);
  Py_END_ALLOW_THREADS;
  return PyBool_FromLong(status == NM_OK);
}

static nm_span tunnel_write(PyObject *self, uint8_t out[NM_TUNNEL_SIZE]) {
  nm_writer w = nm_writer_of(out, NM_TUNNEL_SIZE);
  for (size_t place = 0; place < TUNNEL_FIELDS; place++) {
    nm_writer_span(&w, span_at(self, place));
  }
  return nm_writer_done(&w);
}

PyDoc_STRVAR(tunnel_pack_doc, "pack($self, /)\n--\n\nThe payload, 176 bytes.");

static PyObject *tunnel_pack(PyObject *self, PyObject *Py_UNUSED(unused)) {
  uint8_t out[NM_TUNNEL_SIZE];
  return nm_py_bytes(tunnel_write(self, out));
}

PyDoc_STRVAR(tunnel_packet_doc,
             "packet($self, /)\n--\n\n"
             "The packet that carries it, to rnstransport.tunnel.synthesize.");

static PyObject *tunnel_packet(PyObject *self, PyObject *Py_UNUSED(unused)) {
  uint8_t out[NM_TUNNEL_SIZE];
  nm_packet view = nm_tunnel_packet(tunnel_write(self, out));
  return nm_py_packet_from_view(nm_py_state_of(self), &view, NM_MTU);
}

static PyObject *tunnel_id(PyObject *self, void *Py_UNUSED(closure)) {
  nm_tunnel tunnel = tunnel_of(self);
  uint8_t id[NM_HASH_SIZE];
  nm_tunnel_id(&tunnel, id);
  return nm_py_bytes(nm_span_of(id, sizeof id));
}

static PyMemberDef tunnel_members[] = {
    NM_PY_FIELD("public_key", TUNNEL_PUBLIC_KEY, "64 public bytes."),
    NM_PY_FIELD("interface_hash", TUNNEL_INTERFACE_HASH, "32 bytes."),
    NM_PY_FIELD("random_hash", TUNNEL_RANDOM_HASH, "16 bytes."),
    NM_PY_FIELD("signature", TUNNEL_SIGNATURE, "64 bytes."),
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef tunnel_methods[] = {
    {"create", (PyCFunction)(void (*)(void))tunnel_create,
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS, tunnel_create_doc},
    {"unpack", tunnel_unpack, METH_O | METH_CLASS, tunnel_unpack_doc},
    {"verify", tunnel_verify, METH_NOARGS, tunnel_verify_doc},
    {"pack", tunnel_pack, METH_NOARGS, tunnel_pack_doc},
    {"packet", tunnel_packet, METH_NOARGS, tunnel_packet_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef tunnel_getset[] = {
    {"tunnel_id", tunnel_id, NULL,
     "The hash of public key and interface hash, 32 bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot tunnel_slots[] = {{Py_tp_doc, (void *)tunnel_doc},
                                     {Py_tp_members, tunnel_members},
                                     {Py_tp_methods, tunnel_methods},
                                     {Py_tp_getset, tunnel_getset},
                                     NM_PY_RECORD_SLOTS,
                                     {0, NULL}};

static PyType_Spec tunnel_spec = {.name = "netmesh._core.TunnelSynthesis",
                                  .basicsize = NM_PY_RECORD_SIZE(TUNNEL_FIELDS),
                                  .flags = NM_PY_RECORD_FLAGS |
                                           Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  .slots = tunnel_slots};

int nm_py_control_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_PathRequest, &path_spec, NULL,
                     path_construct) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_TunnelSynthesis, &tunnel_spec,
                        NULL, NULL);
}
