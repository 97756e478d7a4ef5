/* netmesh.framing: HDLC-like and KISS frames, whole and in streams. */
#include "py/args.h"
#include "py/errors.h"
#include "wire/constants.h"
#include "wire/hdlc.h"
#include "wire/kiss.h"

/* ------------------------------------------------------------ whole frames */

/* A function that writes |in| in another form, and one that says how long that
 * form is at most. */
typedef int (*transform)(nm_writer *w, nm_span in, nm_fault *fault);
typedef size_t (*transform_size)(nm_span in);

static PyObject *transform_of(PyObject *module, PyObject *arg,
                              const char *function, const char *name,
                              const char *codec, transform_size size,
                              transform run) {
  nm_py_buffer in;
  nm_fault fault = {NM_OK, NULL, 0};
  uint8_t *out;
  if (nm_py_buffer_get(arg, function, name, &in) < 0) {
    return NULL;
  }
  size_t cap = size(in.span);
  PyObject *result = nm_py_bytes_new(cap, &out);
  if (result != NULL) {
    nm_writer w = nm_writer_of(out, cap);
    if (run(&w, in.span, &fault) != NM_OK) {
      Py_CLEAR(result);
      nm_py_raise(nm_py_state_of_module(module), &fault, codec);
    } else if (w.pos != cap) {
      (void)_PyBytes_Resize(&result, (Py_ssize_t)w.pos);
    }
  }
  nm_py_buffer_release(&in);
  return result;
}

static size_t same_size(nm_span in) {
  return in.len;
}

static int run_hdlc_escape(nm_writer *w, nm_span in, nm_fault *fault) {
  return nm_fault_set(fault, nm_hdlc_escape(w, in), "data", 0);
}

static int run_hdlc_frame(nm_writer *w, nm_span in, nm_fault *fault) {
  return nm_fault_set(fault, nm_hdlc_frame(w, in), "data", 0);
}

static int run_kiss_escape(nm_writer *w, nm_span in, nm_fault *fault) {
  return nm_fault_set(fault, nm_kiss_escape(w, in), "data", 0);
}

static int run_kiss_unframe(nm_writer *w, nm_span in, nm_fault *fault) {
  uint8_t command;
  return nm_kiss_unframe(w, in, &command, fault);
}

PyDoc_STRVAR(hdlc_escape_doc, "hdlc_escape($module, data, /)\n--\n\n"
                              "data with 7d written as 7d 5d and 7e as 7d 5e.");

static PyObject *core_hdlc_escape(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "hdlc_escape", "data", "hdlc",
                      nm_hdlc_escaped_size, run_hdlc_escape);
}

PyDoc_STRVAR(hdlc_unescape_doc,
             "hdlc_unescape($module, data, /)\n--\n\n"
             "The inverse of hdlc_escape. Raises DecodeError 'ESCAPE' for a "
             "flag inside and for a\nsequence that is none.");

static PyObject *core_hdlc_unescape(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "hdlc_unescape", "data", "hdlc", same_size,
                      nm_hdlc_unescape);
}

PyDoc_STRVAR(hdlc_frame_doc, "hdlc_frame($module, data, /)\n--\n\n"
                             "data escaped, between two flags (7e).\n\n"
                             ">>> hdlc_frame(b'a~b').hex()\n"
                             "'7e617d5e627e'\n");

static PyObject *core_hdlc_frame(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "hdlc_frame", "data", "hdlc",
                      nm_hdlc_frame_size, run_hdlc_frame);
}

PyDoc_STRVAR(hdlc_unframe_doc,
             "hdlc_unframe($module, frame, /)\n--\n\n"
             "The content of exactly one frame. Raises DecodeError "
             "'TRUNCATED' without both flags,\n'VALUE' when it does not begin "
             "with one, 'TRAILING', 'EMPTY' or 'ESCAPE'.");

static PyObject *core_hdlc_unframe(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "hdlc_unframe", "frame", "hdlc", same_size,
                      nm_hdlc_unframe);
}

PyDoc_STRVAR(kiss_escape_doc, "kiss_escape($module, data, /)\n--\n\n"
                              "data with db written as db dd and c0 as db dc.");

static PyObject *core_kiss_escape(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "kiss_escape", "data", "kiss",
                      nm_kiss_escaped_size, run_kiss_escape);
}

PyDoc_STRVAR(kiss_unescape_doc,
             "kiss_unescape($module, data, /)\n--\n\n"
             "The inverse of kiss_escape. Raises DecodeError 'ESCAPE' for a "
             "delimiter inside and for\na sequence that is none.");

static PyObject *core_kiss_unescape(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "kiss_unescape", "data", "kiss", same_size,
                      nm_kiss_unescape);
}

PyDoc_STRVAR(kiss_unframe_doc,
             "kiss_unframe($module, frame, /)\n--\n\n"
             "The content of exactly one frame, whatever its command. Errors "
             "as those of\nhdlc_unframe.");

static PyObject *core_kiss_unframe(PyObject *module, PyObject *arg) {
  return transform_of(module, arg, "kiss_unframe", "frame", "kiss", same_size,
                      run_kiss_unframe);
}

PyDoc_STRVAR(kiss_frame_doc,
             "kiss_frame($module, data, /, *, command=0)\n--\n\n"
             "data escaped, between two delimiters (c0), after a command byte "
             "that is not escaped.\nValueError when the command is the "
             "delimiter itself.\n\n"
             ">>> kiss_frame(b'a').hex()\n"
             "'c00061c0'\n");

static PyObject *core_kiss_frame(PyObject *module, PyObject *const *args,
                                 Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "kiss_frame", 2, 1, 1, 1, {NM_STR_data, NM_STR_command}};
  nm_state *state = nm_py_state_of_module(module);
  PyObject *a[2];
  long long command = NM_KISS_DATA;
  nm_py_buffer data;
  uint8_t *out;
  if (nm_py_parse(state, &signature, args, (size_t)nargs, kwnames, a) < 0 ||
      (a[1] != NULL &&
       nm_py_int(a[1], "kiss_frame", "command", 0, 0xff, &command) < 0)) {
    return NULL;
  }
  if (command == NM_KISS_FEND) {
    return PyErr_Format(PyExc_ValueError,
                        "kiss_frame() parameter 'command' must not be the "
                        "delimiter 0xc0");
  }
  if (nm_py_buffer_get(a[0], "kiss_frame", "data", &data) < 0) {
    return NULL;
  }
  size_t len = nm_kiss_frame_size(data.span);
  PyObject *frame = nm_py_bytes_new(len, &out);
  if (frame != NULL) {
    nm_writer w = nm_writer_of(out, len);
    int status = nm_kiss_frame(&w, (uint8_t)command, data.span);
    if (status != NM_OK) {
      Py_CLEAR(frame);
      nm_py_raise_status(state, status, "kiss", "data");
    }
  }
  nm_py_buffer_release(&data);
  return frame;
}

/* ------------------------------------------------------------------ streams */

/* Without a limit of its own a decoder gives up a frame at this size. */
#define BUFFER_MAX (1 << 20)

/* Both decoders: which one it is shows in the class. */
typedef struct nm_py_decoder {
  PyObject_HEAD
  uint8_t *storage;
  union {
    nm_hdlc_decoder hdlc;
    nm_kiss_decoder kiss;
  } as;
} nm_py_decoder;

static nm_py_decoder *self_of(PyObject *self) {
  return (nm_py_decoder *)self;
}

/* A decoder with |frame_max| bytes of storage. */
static nm_py_decoder *decoder_alloc(PyTypeObject *type, size_t frame_max) {
  nm_py_decoder *self = (nm_py_decoder *)type->tp_alloc(type, 0);
  if (self != NULL) {
    self->storage = PyMem_RawMalloc(frame_max);
    if (self->storage == NULL) {
      Py_CLEAR(self);
      PyErr_NoMemory();
    }
  }
  return self;
}

static void decoder_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyMem_RawFree(self_of(self)->storage);
  type->tp_free(self);
  Py_DECREF(type);
}

/* Takes the next frame from |in|; false when there is none. */
typedef bool (*next_frame)(nm_py_decoder *self, nm_reader *in, nm_span *frame);

static bool next_hdlc(nm_py_decoder *self, nm_reader *in, nm_span *frame) {
  return nm_hdlc_decoder_next(&self->as.hdlc, in, frame);
}

static bool next_kiss(nm_py_decoder *self, nm_reader *in, nm_span *frame) {
  uint8_t command;
  return nm_kiss_decoder_next(&self->as.kiss, in, &command, frame);
}

/* The list of frames that |data| completes. All input is consumed also when
 * memory runs out, so that the decoder stays in step with the stream. */
static PyObject *feed(PyObject *self, PyObject *data, const char *function,
                      next_frame next) {
  nm_py_buffer buf;
  nm_span frame;
  if (nm_py_buffer_get(data, function, "data", &buf) < 0) {
    return NULL;
  }
  PyObject *frames = PyList_New(0);
  nm_reader in = nm_reader_of(buf.span);
  while (next(self_of(self), &in, &frame)) {
    PyObject *bytes = frames != NULL ? nm_py_bytes(frame) : NULL;
    if (bytes == NULL || PyList_Append(frames, bytes) < 0) {
      Py_CLEAR(frames);
    }
    Py_XDECREF(bytes);
  }
  nm_py_buffer_release(&buf);
  return frames;
}

PyDoc_STRVAR(feed_doc, "feed($self, data, /)\n--\n\n"
                       "Takes the next bytes of the stream and returns the "
                       "list of frames that they complete.\nNever fails: what "
                       "cannot be a frame is counted.");

PyDoc_STRVAR(reset_doc, "reset($self, /)\n--\n\n"
                        "Forgets a partial frame. The counters stay.");

/* ------------------------------------------------------------- HdlcDecoder */

PyDoc_STRVAR(
    hdlc_doc,
    "HdlcDecoder(*, min_bytes=20, max_bytes=262208)\n--\n\n"
    "A streaming decoder of HDLC-like frames: feed bytes, get frames (RNS 1, "
    "7.1).\n\n"
    "One flag may close a frame and open the next. Frames shorter than "
    "min_bytes or longer\nthan max_bytes are counted and dropped; an invalid "
    "escape keeps both bytes. When twice\nmax_bytes wait for a flag they are "
    "given up. max_bytes 0 means no limit beyond 1 MiB.\n\n"
    "Belongs to one thread at a time.\n\n"
    ">>> decoder = HdlcDecoder(min_bytes=1)\n"
    ">>> stream = hdlc_frame(b'one') + hdlc_frame(b'two')\n"
    ">>> decoder.feed(stream[:7]), decoder.feed(stream[7:])\n"
    "([b'one'], [b'two'])\n");

static PyObject *hdlc_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {
      "HdlcDecoder", 2, 0, 0, 0, {NM_STR_min_bytes, NM_STR_max_bytes}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *a[2];
  long long least = NM_HDLC_FRAME_MIN;
  long long most = NM_LOCAL_FRAME_MAX + NM_IFAC_SIZE_MAX;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, a) < 0 ||
      (a[0] != NULL &&
       nm_py_int(a[0], "HdlcDecoder", "min_bytes", 0, INT32_MAX, &least) < 0) ||
      (a[1] != NULL &&
       nm_py_int(a[1], "HdlcDecoder", "max_bytes", 0, INT32_MAX, &most) < 0)) {
    return NULL;
  }
  size_t frame_max = most > 0 ? (size_t)most : BUFFER_MAX;
  nm_py_decoder *self = decoder_alloc((PyTypeObject *)type, frame_max);
  if (self != NULL) {
    nm_hdlc_limits limits = {.frame_min = (size_t)least,
                             .frame_max = frame_max,
                             .buffered_max = 2 * frame_max};
    (void)nm_hdlc_decoder_init(&self->as.hdlc, self->storage, &limits);
  }
  return (PyObject *)self;
}

static PyObject *hdlc_feed(PyObject *self, PyObject *arg) {
  return feed(self, arg, "HdlcDecoder.feed", next_hdlc);
}

static PyObject *hdlc_reset(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_hdlc_decoder_reset(&self_of(self)->as.hdlc);
  Py_RETURN_NONE;
}

static PyObject *hdlc_buffered(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_hdlc_decoder *d = &self_of(self)->as.hdlc;
  return PyLong_FromSize_t(d->open ? d->raw - 1 : 0);
}

static PyObject *hdlc_counters(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_hdlc_counters *c = &self_of(self)->as.hdlc.counters;
  return Py_BuildValue(
      "{s:K,s:K,s:K,s:K}", "frames", (unsigned long long)c->frames, "runts",
      (unsigned long long)c->runts, "oversize", (unsigned long long)c->oversize,
      "discarded_bytes", (unsigned long long)c->discarded_bytes);
}

static PyMethodDef hdlc_methods[] = {
    {"feed", hdlc_feed, METH_O, feed_doc},
    {"reset", hdlc_reset, METH_NOARGS, reset_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef hdlc_getset[] = {
    {"buffered", hdlc_buffered, NULL, "Bytes of the partial frame.", NULL},
    {"counters", hdlc_counters, NULL,
     "A dict: 'frames', 'runts', 'oversize' and 'discarded_bytes'.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot hdlc_slots[] = {{Py_tp_doc, (void *)hdlc_doc},
                                   {Py_tp_new, (void *)nm_py_new},
                                   {Py_tp_dealloc, (void *)decoder_dealloc},
                                   {Py_tp_methods, hdlc_methods},
                                   {Py_tp_getset, hdlc_getset},
                                   {0, NULL}};

static PyType_Spec hdlc_spec = {.name = "netmesh._core.HdlcDecoder",
                                .basicsize = sizeof(nm_py_decoder),
                                .flags = NM_PY_FLAGS,
                                .slots = hdlc_slots};

/* ------------------------------------------------------------- KissDecoder */

/* The longest frame of KISS media: HW MTU 564 and an access code. */
#define KISS_FRAME_MAX (564 + NM_IFAC_SIZE_MAX)

PyDoc_STRVAR(
    kiss_doc,
    "KissDecoder(*, max_bytes=628)\n--\n\n"
    "A streaming decoder of KISS frames: feed bytes, get frames (RNS 1, "
    "7.2).\n\n"
    "Only the low nibble of the command counts: data frames are delivered, "
    "READY frames\ncounted, all others counted as foreign. max_bytes as in "
    "HdlcDecoder.\n\n"
    "Belongs to one thread at a time.\n\n"
    ">>> KissDecoder().feed(kiss_frame(b'one') + kiss_frame(b'two'))\n"
    "[b'one', b'two']\n");

static PyObject *kiss_construct(PyObject *type, PyObject *const *args,
                                size_t nargsf, PyObject *kwnames) {
  static const nm_py_signature signature = {"KissDecoder",     1, 0, 0, 0,
                                            {NM_STR_max_bytes}};
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  PyObject *max_bytes;
  long long most = KISS_FRAME_MAX;
  if (nm_py_parse(state, &signature, args, nargsf, kwnames, &max_bytes) < 0 ||
      (max_bytes != NULL && nm_py_int(max_bytes, "KissDecoder", "max_bytes", 0,
                                      INT32_MAX, &most) < 0)) {
    return NULL;
  }
  size_t frame_max = most > 0 ? (size_t)most : BUFFER_MAX;
  nm_py_decoder *self = decoder_alloc((PyTypeObject *)type, frame_max);
  if (self != NULL) {
    nm_kiss_limits limits = {.frame_max = frame_max};
    (void)nm_kiss_decoder_init(&self->as.kiss, self->storage, &limits);
  }
  return (PyObject *)self;
}

static PyObject *kiss_feed(PyObject *self, PyObject *arg) {
  return feed(self, arg, "KissDecoder.feed", next_kiss);
}

static PyObject *kiss_reset(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_kiss_decoder_reset(&self_of(self)->as.kiss);
  Py_RETURN_NONE;
}

static PyObject *kiss_buffered(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_kiss_decoder *d = &self_of(self)->as.kiss;
  return PyLong_FromSize_t(d->overflow ? 0 : d->len);
}

static PyObject *kiss_counters(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_kiss_counters *c = &self_of(self)->as.kiss.counters;
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K}", "frames",
                       (unsigned long long)c->frames, "oversize",
                       (unsigned long long)c->oversize, "foreign_commands",
                       (unsigned long long)c->foreign_commands, "ready",
                       (unsigned long long)c->ready, "discarded_bytes",
                       (unsigned long long)c->discarded_bytes);
}

static PyMethodDef kiss_methods[] = {
    {"feed", kiss_feed, METH_O, feed_doc},
    {"reset", kiss_reset, METH_NOARGS, reset_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef kiss_getset[] = {
    {"buffered", kiss_buffered, NULL,
     "Bytes of the partial frame; 0 once it is too long to keep.", NULL},
    {"counters", kiss_counters, NULL,
     "A dict: 'frames', 'oversize', 'foreign_commands', 'ready' and "
     "'discarded_bytes'.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot kiss_slots[] = {{Py_tp_doc, (void *)kiss_doc},
                                   {Py_tp_new, (void *)nm_py_new},
                                   {Py_tp_dealloc, (void *)decoder_dealloc},
                                   {Py_tp_methods, kiss_methods},
                                   {Py_tp_getset, kiss_getset},
                                   {0, NULL}};

static PyType_Spec kiss_spec = {.name = "netmesh._core.KissDecoder",
                                .basicsize = sizeof(nm_py_decoder),
                                .flags = NM_PY_FLAGS,
                                .slots = kiss_slots};

#define ONE(name)                                                              \
  { #name, core_##name, METH_O, name##_doc }

static PyMethodDef functions[] = {
    ONE(hdlc_escape),
    ONE(hdlc_unescape),
    ONE(hdlc_frame),
    ONE(hdlc_unframe),
    ONE(kiss_escape),
    ONE(kiss_unescape),
    {"kiss_frame", (PyCFunction)(void (*)(void))core_kiss_frame,
     METH_FASTCALL | METH_KEYWORDS, kiss_frame_doc},
    ONE(kiss_unframe),
    {NULL, NULL, 0, NULL}};

int nm_py_framing_add(PyObject *module, nm_state *state) {
  if (nm_py_type_add(module, state, NM_TYPE_HdlcDecoder, &hdlc_spec, NULL,
                     hdlc_construct) < 0 ||
      nm_py_type_add(module, state, NM_TYPE_KissDecoder, &kiss_spec, NULL,
                     kiss_construct) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}
