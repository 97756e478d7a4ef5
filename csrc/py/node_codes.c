/* NODE_CODES: the codes of the io room by name: commands, kinds of events,
 * media, troubles.
 */
#include "py/node.h"

typedef struct row {
  const char *name;
  int value;
} row;

#define ROW(prefix, name)                                                      \
  { #name, prefix##name }

static const row events[] = {
    ROW(NM_NODE_, REPLY), ROW(NM_NODE_, EVENT),   ROW(NM_NODE_, FRAME),
    ROW(NM_NODE_, TAP),   ROW(NM_NODE_, TROUBLE), ROW(NM_NODE_, PEER),
    ROW(NM_NODE_, MAIL),  ROW(NM_NODE_, CLOSED),
};

static const row mails[] = {
    ROW(NM_MAIL_, RECEIVED),
    ROW(NM_MAIL_, STATE),
    ROW(NM_MAIL_, SYNC),
    ROW(NM_MAIL_, DROPPED),
};

static const row ports[] = {
    {"NONE", NM_PORT_NO_TROUBLE}, ROW(NM_PORT_, RESOLVE),
    ROW(NM_PORT_, CONNECT),       ROW(NM_PORT_, TIMEOUT),
    ROW(NM_PORT_, CLOSED),        ROW(NM_PORT_, LISTEN),
    ROW(NM_PORT_, ACCEPT),        ROW(NM_PORT_, GAVE_UP),
    ROW(NM_PORT_, CARRIER),
};

static const row troubles[] = {
    ROW(NM_TROUBLE_, IFACE),
    ROW(NM_TROUBLE_, STORE_WRITE),
    ROW(NM_TROUBLE_, STORE_DAMAGED),
    ROW(NM_TROUBLE_, STORE_READ),
};

static const row drops[] = {
    ROW(NM_MAIL_DROP_, DUPLICATE),     ROW(NM_MAIL_DROP_, MALFORMED),
    ROW(NM_MAIL_DROP_, UNDECRYPTABLE), ROW(NM_MAIL_DROP_, BLACKHOLED),
    ROW(NM_MAIL_DROP_, IGNORED),       ROW(NM_MAIL_DROP_, UNSTAMPED),
    ROW(NM_MAIL_DROP_, CROWDED),
};

/* Adds |value| under |name| to |dict|, which goes when that fails; |dict| may
 * be NULL. */
static PyObject *with(PyObject *dict, const char *name, PyObject *value) {
  if (dict != NULL &&
      (value == NULL || PyDict_SetItemString(dict, name, value) < 0)) {
    Py_CLEAR(dict);
  }
  Py_XDECREF(value);
  return dict;
}

static PyObject *rows_dict(const row *rows, size_t count) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; i < count; i++) {
    dict = with(dict, rows[i].name, PyLong_FromLong(rows[i].value));
  }
  return dict;
}

static PyObject *commands_dict(void) {
  PyObject *dict = PyDict_New();
  for (int i = 0; i < NM_COMMAND_COUNT; i++) {
    dict = with(dict, nm_command_name((nm_command_kind)i), PyLong_FromLong(i));
  }
  return dict;
}

static PyObject *media_dict(void) {
  PyObject *dict = PyDict_New();
  for (int i = 0; i <= NM_MEDIUM_USER; i++) {
    dict = with(dict, nm_medium_name((nm_medium)i), PyLong_FromLong(i));
  }
  return dict;
}

#define ROWS(rows) rows_dict(rows, sizeof(rows) / sizeof((rows)[0]))

int nm_py_node_codes_add(PyObject *module, nm_state *state) {
  (void)state;
  PyObject *codes = PyDict_New();
  codes = with(codes, "commands", commands_dict());
  codes = with(codes, "media", media_dict());
  codes = with(codes, "events", ROWS(events));
  codes = with(codes, "mail", ROWS(mails));
  codes = with(codes, "drops", ROWS(drops));
  codes = with(codes, "ports", ROWS(ports));
  codes = with(codes, "troubles", ROWS(troubles));
  if (codes == NULL) {
    return -1;
  }
  int result = PyModule_AddObjectRef(module, "NODE_CODES", codes);
  Py_DECREF(codes);
  return result;
}
