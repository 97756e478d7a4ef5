/* Decision functions that take a number or a few (RNS 1, 7.3, 7.5, 8; RNS 2,
 * 1, 2.4, 4.2, 5). Those about announces and path requests are in
 * decide_paths.c, those about messages in decide_mail.c.
 */
#include "wire/decisions.h"

#include "py/args.h"
#include "wire/channel.h"
#include "wire/destination.h"
#include "wire/resource.h"

/* |obj| as a number; None is an unknown one, which is 0. */
static int optional_real(PyObject *obj, const char *function, const char *name,
                         double *out) {
  *out = 0;
  return obj == Py_None ? 0 : nm_py_real(obj, function, name, out);
}

/* |obj| as a number of hops; None is an unknown one. */
static int optional_hops(PyObject *obj, const char *function, uint32_t *out) {
  long long hops = NM_HOPS_UNKNOWN;
  if (obj != Py_None &&
      nm_py_int(obj, function, "hops", 0, UINT32_MAX, &hops) < 0) {
    return -1;
  }
  *out = (uint32_t)hops;
  return 0;
}

/* A function of one number, which None leaves unknown. */
static PyObject *of_optional(PyObject *arg, const char *function,
                             const char *name, double (*decide)(double)) {
  double value;
  return optional_real(arg, function, name, &value) < 0
             ? NULL
             : PyFloat_FromDouble(decide(value));
}

/* A function of one known number. */
static PyObject *of_real(PyObject *arg, const char *function, const char *name,
                         double (*decide)(double)) {
  double value;
  return nm_py_real(arg, function, name, &value) < 0
             ? NULL
             : PyFloat_FromDouble(decide(value));
}

/* ------------------------------------------------------------------- sizes */

PyDoc_STRVAR(mtu_for_bitrate_doc,
             "mtu_for_bitrate($module, bitrate, /)\n--\n\n"
             "The hardware MTU of an automatic interface with this many bit/s; "
             "None: no limit.");

static PyObject *mtu_for_bitrate(PyObject *Py_UNUSED(module), PyObject *arg) {
  double bitrate;
  if (nm_py_real(arg, "mtu_for_bitrate", "bitrate", &bitrate) < 0) {
    return NULL;
  }
  uint32_t mtu = nm_mtu_for_bitrate(bitrate);
  return mtu != 0 ? PyLong_FromUnsignedLong(mtu) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(link_mdu_doc,
             "link_mdu($module, mtu, /)\n--\n\n"
             "Plaintext bytes of one packet on a link with this MTU; 0 when "
             "not even a header fits.");

static PyObject *link_mdu(PyObject *Py_UNUSED(module), PyObject *arg) {
  long long mtu;
  return nm_py_int(arg, "link_mdu", "mtu", 0, UINT32_MAX, &mtu) < 0
             ? NULL
             : PyLong_FromSize_t(nm_link_mdu((size_t)mtu));
}

PyDoc_STRVAR(resource_sdu_doc,
             "resource_sdu($module, mtu, /)\n--\n\n"
             "The size of a resource part on a link with this MTU: mtu - 36, "
             "never below 0.");

static PyObject *resource_sdu(PyObject *Py_UNUSED(module), PyObject *arg) {
  long long mtu;
  return nm_py_int(arg, "resource_sdu", "mtu", 0, UINT32_MAX, &mtu) < 0
             ? NULL
             : PyLong_FromSize_t(nm_resource_sdu((size_t)mtu));
}

PyDoc_STRVAR(
    interface_defaults_doc,
    "interface_defaults($module, kind, /)\n--\n\n"
    "What an interface of a kind assumes (RNS 1, 7.3), a read-only mapping: "
    "hw_mtu in bytes,\nmtu_mode (\"auto\", \"fixed\" or \"none\"), bitrate in "
    "bit/s or None, ifac_bytes and\ningress_limit.\n\n"
    "Kinds are tcp, backbone, local, udp, auto, i2p, pipe, serial, kiss, ax25, "
    "rnode and\nweave; another one is a ValueError. With mtu_mode \"auto\" "
    "mtu_for_bitrate() replaces\nhw_mtu once the bitrate is known.");

static PyObject *interface_defaults(PyObject *Py_UNUSED(module),
                                    PyObject *arg) {
  static const char *const modes[] = {
      [NM_MTU_NONE] = "none", [NM_MTU_AUTO] = "auto", [NM_MTU_FIXED] = "fixed"};
  nm_span kind;
  if (nm_py_text(arg, "interface_defaults", "kind", &kind) < 0) {
    return NULL;
  }
  const nm_interface_defaults *row = nm_interface_defaults_named(kind);
  if (row == NULL) {
    PyErr_Format(PyExc_ValueError,
                 "interface_defaults() parameter 'kind' must be a kind of "
                 "interface, not %R",
                 arg);
    return NULL;
  }
  PyObject *bitrate =
      row->bitrate > 0 ? PyFloat_FromDouble(row->bitrate) : Py_NewRef(Py_None);
  PyObject *dict =
      Py_BuildValue("{s:I,s:s,s:N,s:i,s:O}", "hw_mtu", (unsigned)row->hw_mtu,
                    "mtu_mode", modes[row->mtu_mode], "bitrate", bitrate,
                    "ifac_bytes", (int)row->ifac_bytes, "ingress_limit",
                    row->ingress_limit ? Py_True : Py_False);
  PyObject *proxy = dict != NULL ? PyDictProxy_New(dict) : NULL;
  Py_XDECREF(dict);
  return proxy;
}

PyDoc_STRVAR(rnode_bitrate_doc,
             "rnode_bitrate($module, spreading_factor, coding_rate, bandwidth, "
             "/)\n--\n\n"
             "Bit/s of a LoRa radio; bandwidth in Hz. 0 for a factor outside 5 "
             "to 12 or a rate\noutside 5 to 8.");

static PyObject *rnode_bitrate(PyObject *Py_UNUSED(module),
                               PyObject *const *args, Py_ssize_t nargs) {
  const char *function = "rnode_bitrate";
  long long factor;
  long long rate;
  double bandwidth;
  if (!nm_py_arity(function, nargs, 3, 3) ||
      nm_py_int(args[0], function, "spreading_factor", 0, UINT32_MAX, &factor) <
          0 ||
      nm_py_int(args[1], function, "coding_rate", 0, UINT32_MAX, &rate) < 0 ||
      nm_py_real(args[2], function, "bandwidth", &bandwidth) < 0) {
    return NULL;
  }
  return PyFloat_FromDouble(
      nm_rnode_bitrate((uint32_t)factor, (uint32_t)rate, bandwidth));
}

/* --------------------------------------------------------------- time-outs */

PyDoc_STRVAR(keepalive_doc,
             "keepalive_interval($module, rtt, /)\n--\n\n"
             "Seconds between keepalives on a link: 5 to 360 by its RTT; 360 "
             "when that is None.");

static PyObject *keepalive_interval(PyObject *Py_UNUSED(module),
                                    PyObject *arg) {
  return of_optional(arg, "keepalive_interval", "rtt", nm_keepalive_interval);
}

PyDoc_STRVAR(stale_doc, "stale_time($module, rtt, /)\n--\n\n"
                        "Seconds of silence after which a link is stale: two "
                        "keepalive intervals.");

static PyObject *stale_time(PyObject *Py_UNUSED(module), PyObject *arg) {
  return of_optional(arg, "stale_time", "rtt", nm_stale_time);
}

PyDoc_STRVAR(first_hop_doc,
             "first_hop_timeout($module, bitrate, /)\n--\n\n"
             "Seconds that a packet may take to the next hop: 6, and the time "
             "of 500 bytes at\nbitrate when that is not None.");

static PyObject *first_hop_timeout(PyObject *Py_UNUSED(module), PyObject *arg) {
  return of_optional(arg, "first_hop_timeout", "bitrate", nm_first_hop_timeout);
}

PyDoc_STRVAR(
    establishment_doc,
    "establishment_timeout($module, hops, bitrate, /, *, initiator=True)\n"
    "--\n\n"
    "Seconds until a link must be up, over hops hops (None: unknown) with this "
    "bitrate of the\nnext hop (None: unknown); for its initiator or its "
    "responder.");

static PyObject *establishment_timeout(PyObject *module, PyObject *const *args,
                                       Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "establishment_timeout",
      .count = 3,
      .required = 2,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_hops, NM_STR_bitrate, NM_STR_initiator}};
  PyObject *in[3];
  uint32_t hops;
  double bitrate;
  bool initiator = true;
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      optional_hops(in[0], signature.function, &hops) < 0 ||
      optional_real(in[1], signature.function, "bitrate", &bitrate) < 0 ||
      (in[2] != NULL &&
       nm_py_bool(in[2], signature.function, "initiator", &initiator) < 0)) {
    return NULL;
  }
  return PyFloat_FromDouble(initiator ? nm_establishment_timeout(hops, bitrate)
                                      : nm_responder_timeout(hops));
}

PyDoc_STRVAR(receipt_doc,
             "receipt_timeout($module, hops, bitrate, /)\n--\n\n"
             "Seconds until a packet counts as lost that goes over hops hops "
             "(None: unknown), with\nthis bitrate of the next hop (None: "
             "unknown).");

static PyObject *receipt_timeout(PyObject *Py_UNUSED(module),
                                 PyObject *const *args, Py_ssize_t nargs) {
  uint32_t hops;
  double bitrate;
  if (!nm_py_arity("receipt_timeout", nargs, 2, 2) ||
      optional_hops(args[0], "receipt_timeout", &hops) < 0 ||
      optional_real(args[1], "receipt_timeout", "bitrate", &bitrate) < 0) {
    return NULL;
  }
  return PyFloat_FromDouble(nm_receipt_timeout(hops, bitrate));
}

PyDoc_STRVAR(link_receipt_doc,
             "link_receipt_timeout($module, rtt, /)\n--\n\n"
             "Seconds until a packet on a link counts as lost: rtt * 6, 0.005 "
             "at least.");

static PyObject *link_receipt_timeout(PyObject *Py_UNUSED(module),
                                      PyObject *arg) {
  return of_real(arg, "link_receipt_timeout", "rtt", nm_link_receipt_timeout);
}

PyDoc_STRVAR(request_doc, "request_timeout($module, rtt, /)\n--\n\n"
                          "Seconds to wait for a response: rtt * 6 + 11.25.");

static PyObject *request_timeout(PyObject *Py_UNUSED(module), PyObject *arg) {
  return of_real(arg, "request_timeout", "rtt", nm_request_timeout);
}

PyDoc_STRVAR(medium_doc,
             "medium_path_timeout($module, lowest_bitrate, /)\n--\n\n"
             "Seconds to wait for a path over the slowest interface; 0 when no "
             "bitrate is known.");

static PyObject *medium_path_timeout(PyObject *Py_UNUSED(module),
                                     PyObject *arg) {
  return of_optional(arg, "medium_path_timeout", "lowest_bitrate",
                     nm_medium_path_timeout);
}

PyDoc_STRVAR(discovery_doc,
             "discovery_timeout($module, lowest_bitrate, /)\n--\n\n"
             "Seconds that a search for an unknown path is kept: the medium's "
             "time-out, 15 at least.");

static PyObject *discovery_timeout(PyObject *Py_UNUSED(module), PyObject *arg) {
  return of_optional(arg, "discovery_timeout", "lowest_bitrate",
                     nm_discovery_timeout);
}

/* ---------------------------------------------------------------- channels */

PyDoc_STRVAR(channel_timeout_doc,
             "channel_timeout($module, rtt, tries, ring, /)\n--\n\n"
             "Seconds until try number tries (from 1) of an envelope counts as "
             "lost, with ring\nenvelopes outstanding.");

static PyObject *channel_timeout(PyObject *Py_UNUSED(module),
                                 PyObject *const *args, Py_ssize_t nargs) {
  double rtt;
  long long tries;
  long long ring;
  if (!nm_py_arity("channel_timeout", nargs, 3, 3) ||
      nm_py_real(args[0], "channel_timeout", "rtt", &rtt) < 0 ||
      nm_py_int(args[1], "channel_timeout", "tries", 0, UINT32_MAX, &tries) <
          0 ||
      nm_py_int(args[2], "channel_timeout", "ring", 0, UINT32_MAX, &ring) < 0) {
    return NULL;
  }
  return PyFloat_FromDouble(
      nm_channel_timeout(rtt, (uint32_t)tries, (uint32_t)ring));
}

PyDoc_STRVAR(channel_window_doc,
             "channel_window($module, rtt, /)\n--\n\n"
             "The window of a channel at its opening: (window, max, min, "
             "flexibility).");

static PyObject *channel_window(PyObject *Py_UNUSED(module), PyObject *arg) {
  double rtt;
  if (nm_py_real(arg, "channel_window", "rtt", &rtt) < 0) {
    return NULL;
  }
  nm_channel_window w = nm_channel_window_open(rtt);
  return Py_BuildValue("(IIII)", (unsigned)w.window, (unsigned)w.window_max,
                       (unsigned)w.window_min, (unsigned)w.flexibility);
}

PyDoc_STRVAR(channel_delivered_doc,
             "channel_window_delivered($module, window, rtt, /)\n--\n\n"
             "A channel's window after a delivery: (window, max, min, "
             "flexibility, fast rounds,\nmedium rounds), as it takes them.");
PyDoc_STRVAR(channel_timed_out_doc,
             "channel_window_timed_out($module, window, /)\n--\n\n"
             "A channel's window after a time-out: (window, max, min, "
             "flexibility, fast rounds,\nmedium rounds), as it takes them.");

/* The six numbers of a window. */
static int read_window(PyObject *obj, const char *function,
                       nm_channel_window *w) {
  static const size_t places[] = {
      offsetof(nm_channel_window, window),
      offsetof(nm_channel_window, window_max),
      offsetof(nm_channel_window, window_min),
      offsetof(nm_channel_window, flexibility),
      offsetof(nm_channel_window, fast_rounds),
      offsetof(nm_channel_window, medium_rounds),
  };
  if (!PyTuple_Check(obj) || PyTuple_GET_SIZE(obj) != 6) {
    PyErr_Format(PyExc_TypeError,
                 "%s() argument 'window' must be a tuple of 6 numbers",
                 function);
    return -1;
  }
  for (Py_ssize_t i = 0; i < 6; i++) {
    long long number;
    if (nm_py_int(PyTuple_GET_ITEM(obj, i), function, "window", 0,
                  NM_CHANNEL_PAYLOAD_MAX, &number) < 0) {
      return -1;
    }
    *(uint32_t *)(void *)((char *)w + places[i]) = (uint32_t)number;
  }
  return 0;
}

static PyObject *window_tuple(nm_channel_window w) {
  return Py_BuildValue("(IIIIII)", (unsigned)w.window, (unsigned)w.window_max,
                       (unsigned)w.window_min, (unsigned)w.flexibility,
                       (unsigned)w.fast_rounds, (unsigned)w.medium_rounds);
}

static PyObject *channel_window_delivered(PyObject *Py_UNUSED(module),
                                          PyObject *const *args,
                                          Py_ssize_t nargs) {
  nm_channel_window w;
  double rtt;
  if (!nm_py_arity("channel_window_delivered", nargs, 2, 2) ||
      read_window(args[0], "channel_window_delivered", &w) < 0 ||
      nm_py_real(args[1], "channel_window_delivered", "rtt", &rtt) < 0) {
    return NULL;
  }
  return window_tuple(nm_channel_window_delivered(w, rtt));
}

static PyObject *channel_window_timed_out(PyObject *Py_UNUSED(module),
                                          PyObject *arg) {
  nm_channel_window w;
  if (read_window(arg, "channel_window_timed_out", &w) < 0) {
    return NULL;
  }
  return window_tuple(nm_channel_window_timed_out(w));
}

/* ----------------------------------------------------- automatic discovery */

/* The optional argument |obj| as one character; |out| keeps its value when it
 * is absent. */
static int one_character(PyObject *obj, const char *name, char *out) {
  nm_span text;
  if (obj == NULL) {
    return 0;
  }
  if (nm_py_text(obj, "multicast_group", name, &text) < 0) {
    return -1;
  }
  *out = text.len == 1 ? (char)text.ptr[0] : '?';
  return 0;
}

PyDoc_STRVAR(
    multicast_group_doc,
    "multicast_group($module, group_id, /, *, scope='2', address_type='1')\n"
    "--\n\n"
    "The IPv6 multicast address of a discovery group as peers write it.\n\n"
    "scope is 2 link, 4 admin, 5 site, 8 organisation or e global; "
    "address_type 0 permanent or\n1 temporary; others are a ValueError.\n\n"
    ">>> multicast_group('reticulum')\n"
    "'ff12:0:d70b:fb1c:16e4:5e39:485e:31e1'\n");

static PyObject *multicast_group(PyObject *module, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "multicast_group",
      .count = 3,
      .required = 1,
      .positional = 1,
      .positional_only = 1,
      .names = {NM_STR_group_id, NM_STR_scope, NM_STR_address_type}};
  PyObject *in[3];
  nm_span group;
  char scope = '2';
  char type = '1';
  char text[NM_GROUP_TEXT_MAX];
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      nm_py_text(in[0], "multicast_group", "group_id", &group) < 0 ||
      one_character(in[1], "scope", &scope) < 0 ||
      one_character(in[2], "address_type", &type) < 0) {
    return NULL;
  }
  if (nm_group_text(group, scope, type, text) < 0) {
    PyErr_SetString(PyExc_ValueError,
                    "multicast_group() takes scope '2', '4', '5', '8' or 'e' "
                    "and address_type '0' or '1'");
    return NULL;
  }
  return PyUnicode_FromString(text);
}

PyDoc_STRVAR(discovery_token_doc,
             "discovery_token($module, group_id, link_local, /)\n--\n\n"
             "The 32-byte datagram with which the owner of a link-local "
             "address makes itself known;\nsee descope().");

static PyObject *discovery_token(PyObject *Py_UNUSED(module),
                                 PyObject *const *args, Py_ssize_t nargs) {
  nm_span group;
  nm_span address;
  uint8_t token[NM_HASH_SIZE];
  if (!nm_py_arity("discovery_token", nargs, 2, 2) ||
      nm_py_text(args[0], "discovery_token", "group_id", &group) < 0 ||
      nm_py_text(args[1], "discovery_token", "link_local", &address) < 0) {
    return NULL;
  }
  nm_discovery_token(group, address, token);
  return nm_py_bytes(nm_span_of(token, sizeof token));
}

PyDoc_STRVAR(descope_doc,
             "descope($module, link_local, /)\n--\n\n"
             "A link-local address without its scope, as tokens are made "
             "from.\n\n"
             ">>> descope('fe80::1%eth0'), descope('fe80:4::1')\n"
             "('fe80::1', 'fe80::1')\n");

static PyObject *descope(PyObject *Py_UNUSED(module), PyObject *arg) {
  nm_span address;
  if (nm_py_text(arg, "descope", "link_local", &address) < 0) {
    return NULL;
  }
  char *room = PyMem_Malloc(address.len + 1);
  if (room == NULL) {
    return PyErr_NoMemory();
  }
  size_t len = nm_descope(address, room);
  PyObject *text = PyUnicode_DecodeUTF8(room, (Py_ssize_t)len, "replace");
  PyMem_Free(room);
  return text;
}

PyDoc_STRVAR(interface_hash_doc,
             "interface_hash($module, name, /)\n--\n\n"
             "The 32-byte hash of an interface, of its display string.");

static PyObject *interface_hash(PyObject *Py_UNUSED(module), PyObject *arg) {
  nm_span name;
  uint8_t hash[NM_HASH_SIZE];
  if (nm_py_text(arg, "interface_hash", "name", &name) < 0) {
    return NULL;
  }
  nm_interface_hash(name, hash);
  return nm_py_bytes(nm_span_of(hash, sizeof hash));
}

/* ------------------------------------------------------------------ module */

#define FAST(name, flags, doc)                                                 \
  { #name, NM_PY_FASTCALL(name), METH_FASTCALL | (flags), doc }

static PyMethodDef functions[] = {
    {"mtu_for_bitrate", mtu_for_bitrate, METH_O, mtu_for_bitrate_doc},
    {"link_mdu", link_mdu, METH_O, link_mdu_doc},
    {"resource_sdu", resource_sdu, METH_O, resource_sdu_doc},
    {"interface_defaults", interface_defaults, METH_O, interface_defaults_doc},
    FAST(rnode_bitrate, 0, rnode_bitrate_doc),
    {"keepalive_interval", keepalive_interval, METH_O, keepalive_doc},
    {"stale_time", stale_time, METH_O, stale_doc},
    {"first_hop_timeout", first_hop_timeout, METH_O, first_hop_doc},
    FAST(establishment_timeout, METH_KEYWORDS, establishment_doc),
    FAST(receipt_timeout, 0, receipt_doc),
    {"link_receipt_timeout", link_receipt_timeout, METH_O, link_receipt_doc},
    {"request_timeout", request_timeout, METH_O, request_doc},
    {"medium_path_timeout", medium_path_timeout, METH_O, medium_doc},
    {"discovery_timeout", discovery_timeout, METH_O, discovery_doc},
    FAST(channel_timeout, 0, channel_timeout_doc),
    {"channel_window", channel_window, METH_O, channel_window_doc},
    FAST(channel_window_delivered, 0, channel_delivered_doc),
    {"channel_window_timed_out", channel_window_timed_out, METH_O,
     channel_timed_out_doc},
    FAST(multicast_group, METH_KEYWORDS, multicast_group_doc),
    FAST(discovery_token, 0, discovery_token_doc),
    {"descope", descope, METH_O, descope_doc},
    {"interface_hash", interface_hash, METH_O, interface_hash_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_decisions_add(PyObject *module, nm_state *state) {
  (void)state;
  return PyModule_AddFunctions(module, functions);
}
