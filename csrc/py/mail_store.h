/* What the files of the class MailStoreCore share. */
#ifndef NM_PY_MAIL_STORE_H
#define NM_PY_MAIL_STORE_H

#include "io/mail_store.h"
#include "py/state.h"

#include <sys/types.h>

typedef struct nm_py_mail_store {
  PyObject_HEAD
  nm_mail_store *store; /* NULL once closed; only under `lock` */
  PyThread_type_lock lock;
  pid_t owner;
} nm_py_mail_store;

/* Waits for its turn; NULL with a StateError when it is closed. */
nm_mail_store *nm_py_mail_enter(PyObject *self);
void nm_py_mail_leave(PyObject *self);

/* What a call answered that worked on |what|. Returns NULL. */
PyObject *nm_py_mail_raise(nm_state *state, int status, const char *what,
                           const nm_mail_trouble *trouble);

/* Runs |call|, which sets `status`, without the GIL and gives the turn back;
 * `trouble` is what went wrong. */
#define NM_PY_MAIL_CALL(self, store, call)                                     \
  nm_mail_trouble trouble = {0};                                               \
  int status;                                                                  \
  Py_BEGIN_ALLOW_THREADS;                                                      \
  status = (call);                                                             \
  if (status != NM_OK) {                                                       \
    trouble = *nm_mail_store_trouble(store);                                   \
  }                                                                            \
  Py_END_ALLOW_THREADS;                                                        \
  nm_py_mail_leave(self)

/* Makes a list's entry out of place |at| of |entries|. */
typedef PyObject *nm_py_mail_entry(nm_state *state, const void *entries,
                                   size_t at);
PyObject *nm_py_mail_list(nm_state *state, nm_py_mail_entry *make,
                          const void *entries, size_t count);

/* Methods (mail_store_read.c, mail_store_apply.c). */
PyObject *nm_py_mail_store_rows(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs);
PyObject *nm_py_mail_store_get(PyObject *self, PyObject *const *args,
                               Py_ssize_t nargs);
PyObject *nm_py_mail_store_find(PyObject *self, PyObject *const *args,
                                Py_ssize_t nargs);
PyObject *nm_py_mail_store_search(PyObject *self, PyObject *const *args,
                                  Py_ssize_t nargs);
PyObject *nm_py_mail_store_talks(PyObject *self, PyObject *const *args,
                                 Py_ssize_t nargs);
PyObject *nm_py_mail_store_attachments(PyObject *self, PyObject *const *args,
                                       Py_ssize_t nargs);
PyObject *nm_py_mail_store_attachment(PyObject *self, PyObject *const *args,
                                      Py_ssize_t nargs);
PyObject *nm_py_mail_store_boxes(PyObject *self, PyObject *cursor);
PyObject *nm_py_mail_store_ignored(PyObject *self, PyObject *cursor);
PyObject *nm_py_mail_store_apply(PyObject *self, PyObject *given);

#endif
