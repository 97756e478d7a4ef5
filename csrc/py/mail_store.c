/* The class MailStoreCore: one connection to a store of messages, for the
 * caller's threads. Every query runs without the GIL, one at a time.
 */
#include "py/mail_store.h"

#include "py/columns.h"
#include "py/errors.h"

#include <string.h>
#include <unistd.h>

static nm_py_mail_store *self_of(PyObject *self) {
  return (nm_py_mail_store *)self;
}

/* ------------------------------------------------------------------ errors */

/* StoreError with what the trouble says. Returns NULL. */
static PyObject *raise_trouble(nm_state *state,
                               const nm_mail_trouble *trouble) {
  PyObject *type = state->errors[NM_ERROR_StoreError];
  PyObject *text = PyUnicode_DecodeUTF8(
      trouble->text, (Py_ssize_t)strlen(trouble->text), "replace");
  PyObject *args = text != NULL ? PyTuple_Pack(1, text) : NULL;
  PyObject *facts = Py_BuildValue(
      "{s:s,s:s,s:O,s:N}", "reason", nm_status_name(trouble->status), "stage",
      "STORE", "damaged", trouble->damaged ? Py_True : Py_False, "os_error",
      trouble->os_error != 0 ? PyLong_FromLong(trouble->os_error)
                             : Py_NewRef(Py_None));
  PyObject *error =
      args != NULL && facts != NULL ? PyObject_Call(type, args, facts) : NULL;
  if (error != NULL) {
    PyErr_SetObject(type, error);
  }
  Py_XDECREF(error);
  Py_XDECREF(facts);
  Py_XDECREF(args);
  Py_XDECREF(text);
  return NULL;
}

PyObject *nm_py_mail_raise(nm_state *state, int status, const char *what,
                           const nm_mail_trouble *trouble) {
  bool told = trouble->status != NM_OK && status == trouble->status;
  switch (status) {
  case NM_E(MEMORY):
    return PyErr_NoMemory();
  case NM_E(MISSING):
    return nm_py_simple_error(
        state, NM_ERROR_NotFoundError, status, "mail store: %s%s",
        told ? trouble->text : "there is no such ", told ? "" : what);
  case NM_E(STATE):
    return nm_py_simple_error(state, NM_ERROR_StateError, status,
                              "mail store: %s",
                              told ? trouble->text
                                   : "it belongs to the process that this one "
                                     "was forked from");
  default:
    return told ? raise_trouble(state, trouble)
                : nm_py_encode_error(state, status, what,
                                     "mail store: the %s %s", what,
                                     nm_status_text(status));
  }
}

/* -------------------------------------------------------------- one at a time
 */

nm_mail_store *nm_py_mail_enter(PyObject *obj) {
  nm_py_mail_store *self = self_of(obj);
  nm_state *state = nm_py_state_of(obj);
  /* Another thread of the parent may have held the lock when it forked. */
  if (getpid() != self->owner) {
    (void)nm_py_simple_error(state, NM_ERROR_StateError, NM_E(STATE),
                             "mail store: it belongs to the process that this "
                             "one was forked from");
    return NULL;
  }
  if (PyThread_acquire_lock(self->lock, NOWAIT_LOCK) != PY_LOCK_ACQUIRED) {
    Py_BEGIN_ALLOW_THREADS;
    (void)PyThread_acquire_lock(self->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS;
  }
  if (self->store == NULL) {
    PyThread_release_lock(self->lock);
    (void)nm_py_simple_error(state, NM_ERROR_StateError, NM_E(STATE),
                             "mail store: it is closed");
    return NULL;
  }
  return self->store;
}

void nm_py_mail_leave(PyObject *obj) {
  PyThread_release_lock(self_of(obj)->lock);
}

PyObject *nm_py_mail_list(nm_state *state, nm_py_mail_entry *make,
                          const void *entries, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; i < count && list != NULL; i++) {
    PyObject *entry = make(state, entries, i);
    if (entry == NULL) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, (Py_ssize_t)i, entry);
    }
  }
  return list;
}

/* ------------------------------------------------------------ construction */

static const nm_py_column option_columns[] = {
    NM_PY_COLUMN_IN("read_only", BOOL, nm_mail_options, read_only, 0, 0),
    NM_PY_COLUMN_IN("must_exist", BOOL, nm_mail_options, must_exist, 0, 0),
    NM_PY_COLUMN_IN("busy_ms", U32, nm_mail_options, busy_ms, 0, INT32_MAX),
    NM_PY_COLUMN_IN("cache_kb", U32, nm_mail_options, cache_kb, 0, 1 << 20),
};

static PyObject *open_file(nm_state *state, nm_py_mail_store *self,
                           const char *path, const nm_mail_options *options) {
  nm_mail_trouble trouble = {0};
  int status;
  self->lock = PyThread_allocate_lock();
  if (self->lock == NULL) {
    return PyErr_NoMemory();
  }
  Py_BEGIN_ALLOW_THREADS;
  status =
      nm_mail_store_open(&nm_mem_system, path, options, &self->store, &trouble);
  Py_END_ALLOW_THREADS;
  return status == NM_OK ? (PyObject *)self
                         : nm_py_mail_raise(state, status, "file", &trouble);
}

static PyObject *store_construct(PyObject *type, PyObject *const *args,
                                 size_t nargsf, PyObject *kwnames) {
  nm_state *state = nm_py_state_of_type((PyTypeObject *)type);
  nm_mail_options options = {0};
  PyObject *path = NULL;
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
    return PyErr_Format(PyExc_TypeError, "MailStoreCore() takes no keywords");
  }
  if (!nm_py_arity("MailStoreCore", PyVectorcall_NARGS(nargsf), 2, 2) ||
      nm_py_columns_read(state, args[1], option_columns,
                         NM_PY_COLUMN_COUNT(option_columns), "MailStoreCore",
                         &options) < 0 ||
      PyUnicode_FSConverter(args[0], &path) == 0) {
    return NULL;
  }
  nm_py_mail_store *self = (nm_py_mail_store *)((PyTypeObject *)type)
                               ->tp_alloc((PyTypeObject *)type, 0);
  if (self != NULL) {
    self->owner = getpid();
  }
  if (self != NULL &&
      open_file(state, self, PyBytes_AS_STRING(path), &options) == NULL) {
    Py_CLEAR(self);
  }
  Py_DECREF(path);
  return (PyObject *)self;
}

static void close_file(nm_py_mail_store *self) {
  nm_mail_store *store = self->store;
  self->store = NULL;
  Py_BEGIN_ALLOW_THREADS;
  nm_mail_store_close(store);
  Py_END_ALLOW_THREADS;
}

static PyObject *store_close(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_py_mail_store *own = self_of(self);
  if (getpid() != own->owner) {
    Py_RETURN_NONE;
  }
  Py_BEGIN_ALLOW_THREADS;
  (void)PyThread_acquire_lock(own->lock, WAIT_LOCK);
  Py_END_ALLOW_THREADS;
  close_file(own);
  nm_py_mail_leave(self);
  Py_RETURN_NONE;
}

static void store_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  close_file(self_of(self));
  if (self_of(self)->lock != NULL) {
    PyThread_free_lock(self_of(self)->lock);
  }
  type->tp_free(self);
  Py_DECREF(type);
}

#define FIGURE(name) NM_PY_COLUMN(#name, U64, nm_mail_figures, name)

static const nm_py_column figure_columns[] = {
    FIGURE(messages),   FIGURE(unread),
    FIGURE(unfinished), FIGURE(bytes),
    FIGURE(file_bytes), FIGURE(free_bytes),
    FIGURE(evicted),    NM_PY_COLUMN("layout", U32, nm_mail_figures, layout),
};

static PyObject *store_figures(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_state *state = nm_py_state_of(self);
  nm_mail_figures figures;
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    return NULL;
  }
  NM_PY_MAIL_CALL(self, store, nm_mail_store_figures(store, &figures));
  return status == NM_OK
             ? nm_py_columns_dict(state, figure_columns,
                                  NM_PY_COLUMN_COUNT(figure_columns), &figures)
             : nm_py_mail_raise(state, status, "figures", &trouble);
}

/* What a check found, as lines: empty when all is well. */
static PyObject *store_check(PyObject *self, PyObject *Py_UNUSED(unused)) {
  nm_buffer report;
  nm_mail_store *store = nm_py_mail_enter(self);
  if (store == NULL) {
    return NULL;
  }
  nm_buffer_init(&report, &nm_mem_system, NULL, 0, 0);
  NM_PY_MAIL_CALL(self, store, nm_mail_store_check(store, &report));
  PyObject *text =
      status == NM_OK || (status == NM_E(STORE) && report.len > 0)
          ? PyUnicode_DecodeUTF8((const char *)report.ptr,
                                 (Py_ssize_t)report.len, "replace")
          : nm_py_mail_raise(nm_py_state_of(self), status, "check", &trouble);
  nm_buffer_dispose(&report);
  return text;
}

/* ------------------------------------------------------------------- class */

static PyObject *store_closed(PyObject *self, void *Py_UNUSED(closure)) {
  return PyBool_FromLong(self_of(self)->store == NULL);
}

static PyObject *set_aside(PyObject *module, PyObject *given) {
  nm_state *state = nm_py_state_of_module(module);
  PyObject *path = NULL;
  char aside[4096];
  if (PyUnicode_FSConverter(given, &path) == 0) {
    return NULL;
  }
  int status =
      nm_mail_store_set_aside(PyBytes_AS_STRING(path), aside, sizeof(aside));
  Py_DECREF(path);
  if (status == NM_OK) {
    return PyUnicode_DecodeFSDefault(aside);
  }
  nm_mail_trouble trouble = {.status = NM_E(STORE),
                             .text = "a message store cannot be renamed"};
  return nm_py_mail_raise(state, status, "file", &trouble);
}

static PyMethodDef functions[] = {
    {"mail_set_aside", set_aside, METH_O,
     "mail_set_aside($module, path, /)\n--\n\n"
     "Renames a store that nobody has open; its new name."},
    {NULL, NULL, 0, NULL}};

PyDoc_STRVAR(store_doc,
             "MailStoreCore(path, options, /)\n--\n\n"
             "One connection to a store of messages; "
             "netmesh.mailstore.MailStore is its facade.\n"
             "options is a dict with read_only, must_exist, busy_ms and "
             "cache_kb.\n\n"
             "May be used from any thread: calls wait for each other, without "
             "the GIL.");

#define METHOD(name, flags, text)                                              \
  { #name, NM_PY_FASTCALL(nm_py_mail_store_##name), (flags), (text) }

static PyMethodDef store_methods[] = {
    METHOD(rows, METH_FASTCALL,
           "rows($self, query, max, /)\n--\n\nMessages as dicts."),
    METHOD(get, METH_FASTCALL,
           "get($self, row, body, /)\n--\n\nThe message of a row."),
    METHOD(find, METH_FASTCALL,
           "find($self, mailbox, id, body, /)\n--\n\nThe message with an id."),
    METHOD(search, METH_FASTCALL,
           "search($self, mailbox, text, before, open_mark, close_mark, "
           "words, max, /)\n--\n\n"
           "Hits as tuples of a message, its title and a snippet."),
    METHOD(talks, METH_FASTCALL,
           "talks($self, mailbox, before, max, /)\n--\n\nConversations."),
    METHOD(attachments, METH_FASTCALL,
           "attachments($self, query, after_index, max, /)\n--\n\n"
           "Attachments as tuples of row, index, field, name, audio mode and "
           "size."),
    METHOD(attachment, METH_FASTCALL,
           "attachment($self, row, index, /)\n--\n\nThe bytes of one."),
    {"boxes", nm_py_mail_store_boxes, METH_O,
     "boxes($self, cursor, /)\n--\n\nMailboxes, and the next cursor or 0."},
    {"ignored", nm_py_mail_store_ignored, METH_O,
     "ignored($self, cursor, /)\n--\n\nIgnored sources, and the next cursor "
     "or 0."},
    {"figures", store_figures, METH_NOARGS,
     "figures($self, /)\n--\n\nCounts and sizes as a dict."},
    {"check", store_check, METH_NOARGS,
     "check($self, /)\n--\n\nWhat a check found, a line each."},
    {"apply", nm_py_mail_store_apply, METH_O,
     "apply($self, writes, /)\n--\n\n"
     "Applies (kind, members, details, packed) in one transaction; (reason or "
     "None, row)\nfor each."},
    {"close", store_close, METH_NOARGS,
     "close($self, /)\n--\n\nCloses the connection; quiet when repeated."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef store_getset[] = {
    {"closed", store_closed, NULL, "Whether close was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot store_slots[] = {
    {Py_tp_doc, (void *)store_doc},         {Py_tp_new, (void *)nm_py_new},
    {Py_tp_dealloc, (void *)store_dealloc}, {Py_tp_methods, store_methods},
    {Py_tp_getset, store_getset},           {0, NULL}};

static PyType_Spec store_spec = {.name = "netmesh._core.MailStoreCore",
                                 .basicsize = sizeof(nm_py_mail_store),
                                 .flags = NM_PY_FLAGS,
                                 .slots = store_slots};

int nm_py_mail_store_add(PyObject *module, nm_state *state) {
  if (PyModule_AddFunctions(module, functions) < 0) {
    return -1;
  }
  return nm_py_type_add(module, state, NM_TYPE_MailStoreCore, &store_spec, NULL,
                        store_construct);
}
