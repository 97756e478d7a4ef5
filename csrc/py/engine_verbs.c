/* Methods of EngineCore: clocks, input, outputs, events, decisions, jobs. */
#include "py/engine.h"
#include "py/raw_event.h"
#include "py/stack_tables.h"
#include "stack/recorder.h"
#include "stack/snapshot.h"

#include <string.h>

/* Frames up to this size are unmasked on the C stack. */
#define SCRATCH_SMALL 2048

/* ------------------------------------------------------------------ clocks */

static PyObject *engine_set_now(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs) {
  nm_now now;
  if (!nm_py_arity("set_now", nargs, 2, 2) ||
      nm_py_engine_clock(args[0], args[1], "set_now", &now) < 0) {
    return NULL;
  }
  nm_py_engine *e =
      nm_py_engine_refuse_hosted(self) ? NULL : nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  if (now.mono_us < e->now.mono_us) {
    e->busy = false;
    return PyErr_Format(PyExc_ValueError,
                        "set_now() parameter 'mono_us' must not go back: %llu "
                        "after %llu",
                        (unsigned long long)now.mono_us,
                        (unsigned long long)e->now.mono_us);
  }
  e->now = now;
  return nm_py_engine_done(e, NM_OK, "");
}

/* Runs all that is due now. */
static int run_due(nm_py_engine *e) {
  do {
    nm_engine_tick(e->engine, e->now);
    if (nm_py_engine_settle(e) < 0) {
      return -1;
    }
  } while (nm_engine_deadline(e->engine) <= e->now.mono_us);
  return 0;
}

static PyObject *engine_tick(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_py_engine *e =
      nm_py_engine_refuse_hosted(self) ? NULL : nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  PyObject *result = run_due(e) < 0 ? NULL : Py_NewRef(Py_None);
  return nm_py_engine_end(e, NM_OK, "", result);
}

static PyObject *engine_advance(PyObject *self, PyObject *arg) {
  uint64_t us;
  if (nm_py_engine_u64(arg, "advance", "us", &us) < 0) {
    return NULL;
  }
  nm_py_engine *e =
      nm_py_engine_refuse_hosted(self) ? NULL : nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  uint64_t until = e->now.mono_us + us;
  PyObject *result = Py_NewRef(Py_None);
  uint64_t due;
  while (result != NULL && (due = nm_engine_deadline(e->engine)) <= until) {
    if (due > e->now.mono_us) {
      e->now.unix_us += (int64_t)(due - e->now.mono_us);
      e->now.mono_us = due;
    }
    if (run_due(e) < 0) {
      Py_CLEAR(result);
    }
  }
  if (result != NULL) {
    e->now.unix_us += (int64_t)(until - e->now.mono_us);
    e->now.mono_us = until;
  }
  return nm_py_engine_end(e, NM_OK, "", result);
}

/* ------------------------------------------------------------------- input */

static int read_signal(PyObject *obj, const char *function, const char *name,
                       int16_t *out) {
  long long value = NM_SIGNAL_NONE;
  if (obj != Py_None &&
      nm_py_int(obj, function, name, INT16_MIN + 1, INT16_MAX, &value) < 0) {
    return -1;
  }
  *out = (int16_t)value;
  return 0;
}

/* A frame in the hands of one call: what it borrows. */
typedef struct frame_input {
  nm_iface_id iface;
  nm_py_buffer data;
  nm_frame frame;
  uint8_t small[SCRATCH_SMALL];
  uint8_t *scratch;
} frame_input;

static void release_input(frame_input *in) {
  if (in->scratch != in->small) {
    PyMem_Free(in->scratch);
  }
  nm_py_buffer_release(&in->data);
}

/* The stateless stage. Call it between begin and end, for the interface's
 * access code. 0, or -1 with MemoryError. */
static int take_frame(nm_py_engine *e, frame_input *in) {
  nm_span span = in->data.span;
  const nm_iface_spec *spec = nm_engine_iface(e->engine, in->iface);
  nm_ingress_config config = {
      .ifac = spec != NULL && spec->ifac_set ? &spec->ifac : NULL,
      .hw_mtu = spec == NULL ? 0 : spec->hw_mtu};
  if (config.ifac != NULL && span.len > sizeof in->small) {
    in->scratch = PyMem_Malloc(span.len);
    if (in->scratch == NULL) {
      in->scratch = in->small;
      PyErr_NoMemory();
      return -1;
    }
  }
  nm_mspan scratch = {in->scratch, config.ifac == NULL ? 0 : span.len};
  PyThreadState *released =
      nm_py_gil_release(config.ifac != NULL || span.len >= NM_PY_LONG_INPUT);
  nm_ingress(&config, span, scratch, &in->frame);
  nm_py_gil_take(released);
  return 0;
}

/* (sequence, reason, pending, hash or None, remembered). */
PyObject *nm_py_verdict_tuple(const nm_verdict *v) {
  PyObject *hash = v->hashed ? nm_py_bytes(nm_span_of(v->hash.b, NM_HASH_SIZE))
                             : Py_NewRef(Py_None);
  return Py_BuildValue("(KiNNN)", (unsigned long long)v->seq, (int)v->drop,
                       PyBool_FromLong(v->pending), hash,
                       PyBool_FromLong(v->remembered));
}

/* What the jobs made of it, when they have run. */
static void finish_verdict(const nm_py_engine *e, nm_verdict *v) {
  nm_record record;
  if (v->pending && nm_engine_record(e->engine, v->seq, &record) &&
      record.seq == v->seq && (record.flags & NM_RECORD_PENDING) == 0) {
    v->pending = false;
    v->drop = (nm_drop)record.code;
  }
}

static PyObject *engine_input(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs) {
  frame_input in;
  int16_t signal[3];
  if (!nm_py_arity("input", nargs, 5, 5) ||
      nm_py_engine_iface(args[0], "input", &in.iface) < 0 ||
      read_signal(args[2], "input", "rssi_dbm", &signal[0]) < 0 ||
      read_signal(args[3], "input", "snr_cdb", &signal[1]) < 0 ||
      read_signal(args[4], "input", "quality_pct", &signal[2]) < 0 ||
      nm_py_buffer_get(args[1], "input", "data", &in.data) < 0) {
    return NULL;
  }
  in.scratch = in.small;
  nm_py_engine *e = nm_py_engine_begin(self);
  PyObject *result = NULL;
  if (e != NULL && take_frame(e, &in) == 0) {
    in.frame.rssi_dbm = signal[0];
    in.frame.snr_cdb = signal[1];
    in.frame.quality_pct = signal[2];
    nm_verdict v = nm_engine_input(e->engine, in.iface, &in.frame, e->now);
    if (nm_py_engine_settle(e) == 0) {
      finish_verdict(e, &v);
      v.remembered = v.hashed && nm_engine_filter_has(e->engine, &v.hash);
      result = nm_py_verdict_tuple(&v);
    }
  }
  release_input(&in);
  return e == NULL ? NULL : nm_py_engine_end(e, NM_OK, "", result);
}

static PyObject *engine_probe(PyObject *self, PyObject *const *args,
                              Py_ssize_t nargs) {
  frame_input in;
  bool remember;
  if (!nm_py_arity("probe", nargs, 3, 3) ||
      nm_py_engine_iface(args[0], "probe", &in.iface) < 0 ||
      nm_py_bool(args[2], "probe", "remember", &remember) < 0 ||
      nm_py_buffer_get(args[1], "probe", "data", &in.data) < 0) {
    return NULL;
  }
  in.scratch = in.small;
  nm_py_engine *e = nm_py_engine_begin(self);
  PyObject *result = NULL;
  if (e != NULL && take_frame(e, &in) == 0) {
    nm_verdict v =
        nm_engine_probe(e->engine, in.iface, &in.frame, remember, e->now);
    v.remembered = v.hashed && nm_engine_filter_has(e->engine, &v.hash);
    result = nm_py_verdict_tuple(&v);
  }
  release_input(&in);
  return e == NULL ? NULL : nm_py_engine_end(e, NM_OK, "", result);
}

/* ------------------------------------------------------ outputs and events */

/* The frame of |out| as it goes on its interface. NULL with an exception, or
 * without one when it cannot be masked. */
static PyObject *frame_of(nm_py_engine *e, const nm_output *out) {
  nm_span raw = nm_block_span(out->packet);
  const nm_iface_spec *spec = nm_engine_iface(e->engine, out->iface);
  if (spec == NULL || !spec->ifac_set) {
    return nm_py_bytes(raw);
  }
  uint8_t *bytes;
  PyObject *frame = nm_py_bytes_new(raw.len + spec->ifac.size, &bytes);
  if (frame == NULL) {
    return NULL;
  }
  nm_mspan room = {bytes, raw.len + spec->ifac.size};
  int len;
  Py_BEGIN_ALLOW_THREADS;
  len = nm_egress(&spec->ifac, raw, room);
  Py_END_ALLOW_THREADS;
  if (len < 0) {
    Py_CLEAR(frame);
  }
  return frame;
}

/* Appends (iface, frame, op) to |list|. */
static int take_output(nm_py_engine *e, nm_output *out, bool report,
                       PyObject *list) {
  PyObject *frame = frame_of(e, out);
  nm_block_drop(out->packet);
  if (frame == NULL && PyErr_Occurred()) {
    return -1;
  }
  if (out->op != 0 && (report || frame == NULL)) {
    nm_engine_sent(e->engine, out->op, frame != NULL, e->now);
  }
  if (frame == NULL) {
    return 0;
  }
  PyObject *item = Py_BuildValue("(INK)", (unsigned int)out->iface, frame,
                                 (unsigned long long)out->op);
  int result = item == NULL ? -1 : PyList_Append(list, item);
  Py_XDECREF(item);
  return result;
}

static PyObject *engine_outputs(PyObject *self, PyObject *arg) {
  bool report;
  if (nm_py_bool(arg, "outputs", "report", &report) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  PyObject *list = PyList_New(0);
  nm_output out;
  while (list != NULL && nm_engine_output(e->engine, &out)) {
    if (take_output(e, &out, report, list) < 0) {
      Py_CLEAR(list);
    }
  }
  return nm_py_engine_end(e, NM_OK, "", list);
}

static PyObject *engine_events(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_py_engine *e = nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  nm_state *state = nm_py_state_of(self);
  PyObject *list = PyList_New(0);
  nm_event event;
  uint32_t drained = 0;
  while (list != NULL && nm_engine_event(e->engine, &event)) {
    PyObject *item = nm_py_raw_event_new(state, &event);
    drained++;
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  if (e->unlimited) {
    nm_engine_credit(e->engine, drained, e->now);
  }
  return nm_py_engine_end(e, NM_OK, "", list);
}

static PyObject *engine_sent(PyObject *self, PyObject *const *args,
                             Py_ssize_t nargs) {
  uint64_t op;
  bool ok;
  if (!nm_py_arity("sent", nargs, 2, 2) ||
      nm_py_engine_u64(args[0], "sent", "op", &op) < 0 ||
      nm_py_bool(args[1], "sent", "ok", &ok) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  nm_engine_sent(e->engine, op, ok, e->now);
  return nm_py_engine_done(e, NM_OK, "");
}

static PyObject *engine_credit(PyObject *self, PyObject *arg) {
  long long count;
  if (nm_py_int(arg, "credit", "count", 0, UINT32_MAX, &count) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  if (e == NULL) {
    return NULL;
  }
  nm_engine_credit(e->engine, (uint32_t)count, e->now);
  return nm_py_engine_done(e, NM_OK, "");
}

/* --------------------------------------------------------------- decisions */

typedef int (*decide)(nm_engine *engine, uint64_t id, nm_now now);

static PyObject *decide_on(PyObject *self, PyObject *arg, const char *function,
                           const char *what, decide call) {
  uint64_t id;
  if (nm_py_engine_u64(arg, function, what, &id) < 0) {
    return NULL;
  }
  nm_py_engine *e = nm_py_engine_begin(self);
  return e == NULL ? NULL
                   : nm_py_engine_done(e, call(e->engine, id, e->now), what);
}

static PyObject *engine_accept(PyObject *self, PyObject *arg) {
  return decide_on(self, arg, "accept", "token", nm_engine_accept);
}

static PyObject *engine_refuse(PyObject *self, PyObject *arg) {
  return decide_on(self, arg, "refuse", "token", nm_engine_refuse);
}

static PyObject *engine_cancel(PyObject *self, PyObject *arg) {
  return decide_on(self, arg, "cancel", "operation", nm_engine_cancel);
}

/* -------------------------------------------------------------------- jobs */

/* Takes every waiting job from the engine. 0, or -1 with MemoryError. */
static int hold_jobs(nm_py_engine *e) {
  for (;;) {
    if (e->held_count == e->held_cap) {
      size_t cap = e->held_cap == 0 ? 16 : e->held_cap * 2;
      nm_job **grown = PyMem_Realloc(e->held, cap * sizeof(nm_job *));
      if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
      }
      e->held = grown;
      e->held_cap = cap;
    }
    nm_job *job = nm_engine_job(e->engine);
    if (job == NULL) {
      return 0;
    }
    e->held[e->held_count++] = job;
  }
}

static PyObject *job_tuple(const nm_job *job) {
  return Py_BuildValue(
      "(KiII)", (unsigned long long)nm_job_id_of(job), (int)nm_job_kind_of(job),
      (unsigned int)nm_job_cost_us(job), (unsigned int)nm_job_origin(job));
}

static PyObject *engine_pending_jobs(PyObject *self,
                                     PyObject *Py_UNUSED(unused)) {
  nm_py_engine *e =
      nm_py_engine_refuse_hosted(self) ? NULL : nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  PyObject *list = !e->inline_jobs && hold_jobs(e) < 0 ? NULL : PyList_New(0);
  for (size_t i = 0; list != NULL && i < e->held_count; i++) {
    PyObject *item = job_tuple(e->held[i]);
    if (item == NULL || PyList_Append(list, item) < 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return nm_py_engine_end(e, NM_OK, "", list);
}

static PyObject *engine_run_job(PyObject *self, PyObject *arg) {
  long long place;
  if (nm_py_int(arg, "run_job", "place", 0, UINT32_MAX, &place) < 0) {
    return NULL;
  }
  nm_py_engine *e =
      nm_py_engine_refuse_hosted(self) ? NULL : nm_py_engine_drain(self);
  if (e == NULL) {
    return NULL;
  }
  PyObject *result = NULL;
  if ((e->inline_jobs || hold_jobs(e) == 0) && (size_t)place >= e->held_count) {
    PyErr_Format(PyExc_IndexError, "run_job(): there are %zu jobs",
                 e->held_count);
  } else if (!PyErr_Occurred()) {
    nm_job *job = e->held[place];
    e->held_count--;
    memmove(&e->held[place], &e->held[place + 1],
            (e->held_count - (size_t)place) * sizeof(nm_job *));
    result = job_tuple(job);
    if (nm_py_engine_run(e, job) < 0) {
      Py_CLEAR(result);
    }
  }
  return nm_py_engine_end(e, NM_OK, "", result);
}

PyMethodDef nm_py_engine_verb_methods[] = {
    NM_PY_ENGINE_METHOD("set_now", engine_set_now,
                        "set_now($self, mono_us, unix_us, /)\n--\n\n"
                        "Sets both clocks; the monotonic one never goes back."),
    {"tick", engine_tick, METH_NOARGS,
     "tick($self, /)\n--\n\nRuns everything that is due."},
    {"advance", engine_advance, METH_O,
     "advance($self, us, /)\n--\n\n"
     "Lets time pass, stopping at every deadline on the way."},
    NM_PY_ENGINE_METHOD(
        "input", engine_input,
        "input($self, iface, data, rssi_dbm, snr_cdb, quality_pct, /)\n--\n\n"
        "One frame from an interface. (sequence, reason, pending, hash or "
        "None, remembered)."),
    NM_PY_ENGINE_METHOD("probe", engine_probe,
                        "probe($self, iface, data, remember, /)\n--\n\n"
                        "Would the frame be accepted? As input."),
    {"outputs", engine_outputs, METH_O,
     "outputs($self, report, /)\n--\n\n"
     "A list of (iface, frame, op): what is to be sent."},
    {"events", engine_events, METH_NOARGS,
     "events($self, /)\n--\n\nA list of RawEvents: what happened."},
    NM_PY_ENGINE_METHOD("sent", engine_sent,
                        "sent($self, op, ok, /)\n--\n\n"
                        "Reports that an output was handed on, or not."),
    {"credit", engine_credit, METH_O,
     "credit($self, count, /)\n--\n\nRoom for more reliable events."},
    {"accept", engine_accept, METH_O,
     "accept($self, token, /)\n--\n\nAccepts what is held under a token."},
    {"refuse", engine_refuse, METH_O,
     "refuse($self, token, /)\n--\n\nRefuses what is held under a token."},
    {"cancel", engine_cancel, METH_O,
     "cancel($self, op, /)\n--\n\nCancels an operation."},
    {"pending_jobs", engine_pending_jobs, METH_NOARGS,
     "pending_jobs($self, /)\n--\n\n"
     "The waiting jobs as (id, kind, cost_us, iface), oldest first."},
    {"run_job", engine_run_job, METH_O,
     "run_job($self, place, /)\n--\n\n"
     "Runs the job at a place of pending_jobs() and gives it back."},
    {NULL, NULL, 0, NULL}};
