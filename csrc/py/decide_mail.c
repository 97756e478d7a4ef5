/* Decision functions on messages on their way out: how long they wait, and what
 * their next attempt does (LXMF 4.6).
 */
#include "py/args.h"
#include "wire/lxmf_timing.h"

#include <math.h>

/* What is longer ago than this is as good as for ever. */
#define AGO_MAX_S 1e9

/* |obj| as whole bit/s; None is an unknown rate, which is 0. */
static int optional_rate(PyObject *obj, const char *function, const char *name,
                         uint64_t *out) {
  long long rate = 0;
  if (obj != Py_None &&
      nm_py_int(obj, function, name, 0, INT64_MAX, &rate) < 0) {
    return -1;
  }
  *out = (uint64_t)rate;
  return 0;
}

static PyObject *seconds(uint64_t us) {
  return PyFloat_FromDouble((double)us / 1e6);
}

/* ------------------------------------------------------------------ waiting */

PyDoc_STRVAR(round_trip_doc,
             "mail_round_trip($module, bitrate, /)\n--\n\n"
             "Seconds that a message and its proof may take over a next hop "
             "with this many bit/s:\n6 when that is None, and more the slower "
             "it is.");

static PyObject *mail_round_trip(PyObject *Py_UNUSED(module), PyObject *arg) {
  uint64_t bitrate;
  return optional_rate(arg, "mail_round_trip", "bitrate", &bitrate) < 0
             ? NULL
             : seconds(nm_lxmf_round_trip_us(bitrate));
}

PyDoc_STRVAR(slow_path_doc,
             "mail_slow_path($module, bitrate, /)\n--\n\n"
             "Is a path slow whose next hop has this many bit/s (None: "
             "unknown)? Over slow paths one\nmessage is sent at a time.");

static PyObject *mail_slow_path(PyObject *Py_UNUSED(module), PyObject *arg) {
  uint64_t bitrate;
  return optional_rate(arg, "mail_slow_path", "bitrate", &bitrate) < 0
             ? NULL
             : PyBool_FromLong(
                   nm_lxmf_is_slow_path(nm_lxmf_round_trip_us(bitrate)));
}

PyDoc_STRVAR(path_wait_doc,
             "mail_path_wait($module, lowest_bitrate, /)\n--\n\n"
             "Seconds that a path request may take when the slowest interface "
             "has this many bit/s\n(None: unknown): the medium's time-out, 7 "
             "at least.");

static PyObject *mail_path_wait(PyObject *Py_UNUSED(module), PyObject *arg) {
  uint64_t lowest;
  nm_lxmf_medium medium;
  if (optional_rate(arg, "mail_path_wait", "lowest_bitrate", &lowest) < 0) {
    return NULL;
  }
  nm_lxmf_medium_of(lowest, &medium);
  return seconds(medium.path_wait_us);
}

PyDoc_STRVAR(path_request_doc,
             "mail_path_request($module, since, lowest_bitrate, /)\n--\n\n"
             "(due, pending): may a path be asked for since seconds after the "
             "last request for the same\ndestination (None: there was none), "
             "and may that one still be answered?\n\n"
             "lowest_bitrate is that of the slowest interface, None: unknown. "
             "Below 2000 bit/s a\nrequest is repeated after 60 seconds, else "
             "after mail_path_wait().");

/* |obj| as microseconds ago. */
static int ago(PyObject *obj, const char *function, uint64_t *out) {
  double since;
  if (nm_py_real(obj, function, "since", &since) < 0) {
    return -1;
  }
  if (since < 0) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter 'since' must be 0 or more, not %R", function,
                 obj);
    return -1;
  }
  *out = (uint64_t)llround(fmin(since, AGO_MAX_S) * 1e6);
  return 0;
}

static PyObject *mail_path_request(PyObject *Py_UNUSED(module),
                                   PyObject *const *args, Py_ssize_t nargs) {
  const char *function = "mail_path_request";
  uint64_t since = 0;
  uint64_t lowest;
  nm_lxmf_medium medium;
  if (!nm_py_arity(function, nargs, 2, 2) ||
      (args[0] != Py_None && ago(args[0], function, &since) < 0) ||
      optional_rate(args[1], function, "lowest_bitrate", &lowest) < 0) {
    return NULL;
  }
  nm_lxmf_medium_of(lowest, &medium);
  bool first = args[0] == Py_None;
  bool due = first || nm_lxmf_path_request_due(&medium, since);
  bool pending = !first && nm_lxmf_path_request_pending(&medium, since);
  return Py_BuildValue("(OO)", due ? Py_True : Py_False,
                       pending ? Py_True : Py_False);
}

PyDoc_STRVAR(
    schedule_doc,
    "mail_schedule($module, bitrate, attempts, /, *,\n"
    "              after_path_request=False, jitter=0.0)\n--\n\n"
    "(wait, attempts_max, receipt_timeout): seconds until the next attempt, "
    "how many there may be,\nand seconds for the proof of a packet, None: "
    "receipt_timeout() of its path.\n\n"
    "bitrate is that of the next hop or, after a path request and without a "
    "path, of the slowest\ninterface; None: unknown. attempts counts this one "
    "in. jitter is a random number from 0 to 1,\nwhich spreads the attempts of "
    "many on slow media.");

static PyObject *mail_schedule(PyObject *module, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "mail_schedule",
      .count = 4,
      .required = 2,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_bitrate, NM_STR_attempts, NM_STR_after_path_request,
                NM_STR_jitter}};
  PyObject *in[4];
  uint64_t bitrate;
  long long attempts;
  double jitter = 0;
  nm_lxmf_attempt attempt = {0};
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      optional_rate(in[0], signature.function, "bitrate", &bitrate) < 0 ||
      nm_py_int(in[1], signature.function, "attempts", 0, UINT32_MAX,
                &attempts) < 0 ||
      (in[2] != NULL &&
       nm_py_bool(in[2], signature.function, "after_path_request",
                  &attempt.after_path_request) < 0) ||
      (in[3] != NULL &&
       nm_py_real(in[3], signature.function, "jitter", &jitter) < 0)) {
    return NULL;
  }
  if (!(jitter >= 0 && jitter <= 1)) {
    PyErr_Format(PyExc_ValueError,
                 "%s() parameter 'jitter' must be from 0 to 1, not %R",
                 signature.function, in[3]);
    return NULL;
  }
  nm_lxmf_medium medium;
  nm_lxmf_medium_of(bitrate, &medium);
  attempt.round_trip_us = attempt.after_path_request
                              ? medium.timeout_us
                              : nm_lxmf_round_trip_us(bitrate);
  attempt.attempts = (uint32_t)attempts;
  attempt.jitter = (uint32_t)(jitter * UINT32_MAX);
  nm_lxmf_schedule schedule;
  nm_lxmf_schedule_attempt(&attempt, &schedule);
  PyObject *receipt = schedule.receipt_timeout_us != 0
                          ? seconds(schedule.receipt_timeout_us)
                          : Py_NewRef(Py_None);
  return Py_BuildValue("(dIN)", (double)schedule.wait_us / 1e6,
                       (unsigned)schedule.attempts_max, receipt);
}

/* ----------------------------------------------------------------- attempts */

static PyObject *step_text(nm_lxmf_step step) {
  static const char *const texts[] = {
      [NM_LXMF_STEP_FAIL] = "fail",
      [NM_LXMF_STEP_PATH] = "request path",
      [NM_LXMF_STEP_REDISCOVER] = "rediscover",
      [NM_LXMF_STEP_SEND] = "send packet",
      [NM_LXMF_STEP_LINK] = "open link",
  };
  return PyUnicode_FromString(texts[step]);
}

/* 0, or -1 with an exception; |in| as the signatures below have it. */
static int parse_standing(PyObject *const *in, const char *function,
                          nm_lxmf_standing *standing) {
  long long attempts;
  long long most;
  if (nm_py_int(in[0], function, "attempts", 0, UINT32_MAX, &attempts) < 0 ||
      nm_py_int(in[1], function, "attempts_max", 0, UINT32_MAX, &most) < 0 ||
      nm_py_bool(in[2], function, "has_path", &standing->has_path) < 0) {
    return -1;
  }
  standing->attempts = (uint32_t)attempts;
  standing->attempts_max = (uint32_t)most;
  return 0;
}

PyDoc_STRVAR(
    packet_step_doc,
    "mail_packet_step($module, attempts, attempts_max, /, *, has_path,\n"
    "                 sent_on_path=False)\n--\n\n"
    "What an opportunistic message does when its next attempt is due: "
    "\"fail\", "
    "\"request path\",\n\"rediscover\" (drop the path, ask for another half a "
    "second later) or \"send packet\".\n\n"
    "attempts have been made; sent_on_path: the last of them sent a packet on "
    "a known path.");

static PyObject *mail_packet_step(PyObject *module, PyObject *const *args,
                                  Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "mail_packet_step",
      .count = 4,
      .required = 3,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_attempts, NM_STR_attempts_max, NM_STR_has_path,
                NM_STR_sent_on_path}};
  PyObject *in[4];
  nm_lxmf_standing standing = {0};
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      parse_standing(in, signature.function, &standing) < 0 ||
      (in[3] != NULL && nm_py_bool(in[3], signature.function, "sent_on_path",
                                   &standing.sent_on_path) < 0)) {
    return NULL;
  }
  return step_text(nm_lxmf_packet_step(&standing));
}

PyDoc_STRVAR(
    link_step_doc,
    "mail_link_step($module, attempts, attempts_max, /, *, has_path)\n--\n\n"
    "What a direct or propagated message without a link does when its next "
    "attempt is due:\n\"fail\", \"request path\" or \"open link\". attempts "
    "counts this one in.");

static PyObject *mail_link_step(PyObject *module, PyObject *const *args,
                                Py_ssize_t nargs, PyObject *kwnames) {
  static const nm_py_signature signature = {
      .function = "mail_link_step",
      .count = 3,
      .required = 3,
      .positional = 2,
      .positional_only = 2,
      .names = {NM_STR_attempts, NM_STR_attempts_max, NM_STR_has_path}};
  PyObject *in[3];
  nm_lxmf_standing standing = {0};
  if (nm_py_parse(nm_py_state_of_module(module), &signature, args,
                  (size_t)nargs, kwnames, in) < 0 ||
      parse_standing(in, signature.function, &standing) < 0) {
    return NULL;
  }
  return step_text(nm_lxmf_link_step(&standing));
}

static PyMethodDef functions[] = {
    {"mail_round_trip", mail_round_trip, METH_O, round_trip_doc},
    {"mail_slow_path", mail_slow_path, METH_O, slow_path_doc},
    {"mail_path_wait", mail_path_wait, METH_O, path_wait_doc},
    {"mail_path_request", NM_PY_FASTCALL(mail_path_request), METH_FASTCALL,
     path_request_doc},
    {"mail_schedule", NM_PY_FASTCALL(mail_schedule),
     METH_FASTCALL | METH_KEYWORDS, schedule_doc},
    {"mail_packet_step", NM_PY_FASTCALL(mail_packet_step),
     METH_FASTCALL | METH_KEYWORDS, packet_step_doc},
    {"mail_link_step", NM_PY_FASTCALL(mail_link_step),
     METH_FASTCALL | METH_KEYWORDS, link_step_doc},
    {NULL, NULL, 0, NULL}};

int nm_py_decide_mail_add(PyObject *module, nm_state *state) {
  (void)state;
  return PyModule_AddFunctions(module, functions);
}
