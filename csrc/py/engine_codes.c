/* ENGINE_CODES: the codes of the stack room by name, for the enums of
 * netmesh.records to be held against, and the sentences of the drop reasons.
 */
#include "py/state.h"
#include "stack/event.h"
#include "stack/job.h"
#include "stack/local.h"
#include "stack/recorder.h"
#include "wire/resource_build.h"

typedef struct row {
  const char *name;
  int value;
} row;

#define DROP_ROW(name, text) {#name, NM_DROP_##name},
static const row drops[] = {{"NONE", NM_DROP_NONE}, NM_DROP_LIST(DROP_ROW)};

#define ROW(prefix, name)                                                      \
  { #name, prefix##name }

static const row stages[] = {
    ROW(NM_STAGE_, NONE),    ROW(NM_STAGE_, PATH),    ROW(NM_STAGE_, IDENTITY),
    ROW(NM_STAGE_, LINK),    ROW(NM_STAGE_, SEND),    ROW(NM_STAGE_, PROOF),
    ROW(NM_STAGE_, REQUEST), ROW(NM_STAGE_, HANDLER), ROW(NM_STAGE_, TRANSFER),
    ROW(NM_STAGE_, REFUSED), ROW(NM_STAGE_, STORE),   ROW(NM_STAGE_, CANCELLED),
};

static const row closes[] = {
    ROW(NM_CLOSE_, NONE),      ROW(NM_CLOSE_, TIMEOUT),
    ROW(NM_CLOSE_, INITIATOR), ROW(NM_CLOSE_, DESTINATION),
    ROW(NM_CLOSE_, NO_PATH),   ROW(NM_CLOSE_, IFACE_GONE),
    ROW(NM_CLOSE_, PROTOCOL),  ROW(NM_CLOSE_, BLACKHOLED),
    ROW(NM_CLOSE_, REFUSED),   ROW(NM_CLOSE_, NO_MEMORY),
    ROW(NM_CLOSE_, SHUTDOWN),  ROW(NM_CLOSE_, CHANNEL),
};

static const row roles[] = {
    ROW(NM_ROLE_, ORDINARY),
    ROW(NM_ROLE_, LOCAL_CLIENT),
    ROW(NM_ROLE_, SHARED_CONNECTION),
};

static const row changes[] = {
    ROW(NM_IFACE_, ADDED),   ROW(NM_IFACE_, CHANGED), ROW(NM_IFACE_, ONLINE),
    ROW(NM_IFACE_, OFFLINE), ROW(NM_IFACE_, REMOVED),
};

static const row mtu_modes[] = {
    ROW(NM_MTU_, NONE),
    ROW(NM_MTU_, AUTO),
    ROW(NM_MTU_, FIXED),
};

static const row jobs[] = {
    ROW(NM_JOB_, VERIFY_ANNOUNCE),
    ROW(NM_JOB_, SIGN_ANNOUNCE),
    ROW(NM_JOB_, PROVE),
    ROW(NM_JOB_, VERIFY_PROOF),
    ROW(NM_JOB_, OPEN_PACKET),
    ROW(NM_JOB_, SEAL_PACKET),
    ROW(NM_JOB_, LINK_KEYS),
    ROW(NM_JOB_, LINK_ACCEPT),
    ROW(NM_JOB_, LINK_CONFIRM),
    ROW(NM_JOB_, LINK_IDENTIFY),
    ROW(NM_JOB_, LINK_SIGN_ID),
    ROW(NM_JOB_, RESOURCE_SEAL),
    ROW(NM_JOB_, RESOURCE_OPEN),
    ROW(NM_JOB_, STORE),
    ROW(NM_JOB_, STREAM_PACK),
    ROW(NM_JOB_, STREAM_OPEN),
    ROW(NM_JOB_, VERIFY_LINK_PROOF),
    ROW(NM_JOB_, VERIFY_TUNNEL),
    ROW(NM_JOB_, SINK_FINISH),
};

static const row records[] = {
    ROW(NM_RECORD_, INPUT), ROW(NM_RECORD_, OUTPUT), ROW(NM_RECORD_, EVENT),
    ROW(NM_RECORD_, JOB),   ROW(NM_RECORD_, TIMER),
};

static const row accepts[] = {
    ROW(NM_ACCEPT_, NONE),
    ROW(NM_ACCEPT_, APP),
    ROW(NM_ACCEPT_, ALL),
};

static const row compressions[] = {
    {"OFF", NM_RESOURCE_COMPRESS_OFF},
    {"WHEN_SMALLER", NM_RESOURCE_COMPRESS_WHEN_SMALLER},
    {"AUTOMATIC", NM_RESOURCE_COMPRESS_AUTOMATIC},
};

#define LIST(name, rows)                                                       \
  { name, rows, sizeof(rows) / sizeof((rows)[0]) }

static const struct list {
  const char *name;
  const row *rows;
  size_t count;
} lists[] = {
    LIST("DropReason", drops),
    LIST("Stage", stages),
    LIST("CloseReason", closes),
    LIST("InterfaceRole", roles),
    LIST("InterfaceChange", changes),
    LIST("MtuMode", mtu_modes),
    LIST("JobKind", jobs),
    LIST("RecordKind", records),
    LIST("AcceptPolicy", accepts),
    LIST("Compression", compressions),
};

/* Puts |value|, which is taken over and may be NULL, into |dict|. */
static int put(PyObject *dict, const char *name, PyObject *value) {
  int result = value != NULL ? PyDict_SetItemString(dict, name, value) : -1;
  Py_XDECREF(value);
  return result;
}

static PyObject *list_dict(const struct list *list) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < list->count; i++) {
    if (put(dict, list->rows[i].name, PyLong_FromLong(list->rows[i].value)) <
        0) {
      Py_CLEAR(dict);
    }
  }
  return dict;
}

/* The kinds of events have their names in the core. */
static PyObject *event_dict(void) {
  PyObject *dict = PyDict_New();
  for (int i = 0; dict != NULL && i <= NM_EVENT_STREAM_MADE; i++) {
    if (put(dict, nm_event_name((nm_event_kind)i), PyLong_FromLong(i)) < 0) {
      Py_CLEAR(dict);
    }
  }
  return dict;
}

static PyObject *drop_texts(void) {
  PyObject *dict = PyDict_New();
  for (int i = 0; dict != NULL && i < NM_DROP_COUNT; i++) {
    if (put(dict, nm_drop_name((nm_drop)i),
            PyUnicode_FromString(nm_drop_text((nm_drop)i))) < 0) {
      Py_CLEAR(dict);
    }
  }
  return dict;
}

static int fill(PyObject *codes) {
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    if (put(codes, lists[i].name, list_dict(&lists[i])) < 0) {
      return -1;
    }
  }
  return put(codes, "EventKind", event_dict());
}

int nm_py_engine_codes_add(PyObject *module, nm_state *state) {
  (void)state;
  PyObject *codes = PyDict_New();
  PyObject *texts = drop_texts();
  int result = -1;
  if (codes != NULL && texts != NULL && fill(codes) == 0 &&
      PyModule_AddObjectRef(module, "ENGINE_CODES", codes) == 0) {
    result = PyModule_AddObjectRef(module, "DROP_TEXTS", texts);
  }
  Py_XDECREF(codes);
  Py_XDECREF(texts);
  return result;
}
