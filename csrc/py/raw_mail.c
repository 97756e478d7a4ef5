/* The class RawMail: a received message, or how far a letter or a fetch is. */
#include "py/identity.h"
#include "py/message.h"
#include "py/node.h"
#include "py/raw_event.h"

typedef struct raw_mail {
  PyObject_HEAD
  nm_node_event event; /* a NM_NODE_MAIL */
  PyObject *message;   /* made when it is first asked for; owned */
} raw_mail;

static raw_mail *self_of(PyObject *self) {
  return (raw_mail *)self;
}

static const nm_node_mail *mail_of(PyObject *self) {
  return &self_of(self)->event.u.mail;
}

PyDoc_STRVAR(mail_doc,
             "One event of a node's mail, as it left the core.\n\n"
             "Which attributes mean something depends on the kind, the others "
             "are zero or None.\nImmutable.\n");

#define MAIL_COLUMNS(X)                                                        \
  X(kind, ENUM, mail.kind, "What happened: NODE_CODES['mail'].")               \
  X(mono_us, U64, mail.at.mono_us,                                             \
    "When, on the monotonic clock, microseconds.")                             \
  X(unix_us, I64, mail.at.unix_us, "When, on the Unix clock, microseconds.")   \
  X(id, BYTES_32, mail.id, "The id of the message.")                           \
  X(mailbox, DESTINATION, mail.mailbox, "The own mailbox.")                    \
  X(peer, DESTINATION, mail.peer,                                              \
    "The source, the recipient, or the node of a fetch.")                      \
  X(method, ENUM, mail.method, "How it came or goes, a constants.Method.")     \
  X(representation, ENUM, mail.representation,                                 \
    "As what, a constants.Representation.")                                    \
  X(unverified, ENUM, mail.unverified,                                         \
    "Why a message is not verified, a constants.Unverified; 0: it is.")        \
  X(stamp_checked, BOOL, mail.stamp_checked,                                   \
    "Whether the mailbox asks for stamps.")                                    \
  X(stamp_valid, BOOL, mail.stamp_valid, "Whether the stamp is worth it.")     \
  X(stamp_value, U32, mail.stamp_value, "What the stamp is worth, in bits.")   \
  X(packet_hash, BYTES_32, mail.packet_hash,                                   \
    "The hash of the packet or resource it came in, or zero bytes.")           \
  X(iface, U32, mail.iface, "The interface it came by, or 0.")                 \
  X(rssi_dbm, SIGNAL, mail.rssi_dbm, "Signal strength in dBm, or None.")       \
  X(snr_cdb, SIGNAL, mail.snr_cdb,                                             \
    "Signal to noise ratio in hundredths of a decibel, or None.")              \
  X(quality_pct, SIGNAL, mail.quality_pct,                                     \
    "Link quality in percent, or "                                             \
    "None.")                                                                   \
  X(state, ENUM, mail.state,                                                   \
    "The state of an outgoing message, a constants.MessageState.")             \
  X(progress, REAL, mail.progress, "From 0 to 1.")                             \
  X(stage, ENUM, mail.stage, "Where it failed, a records.Stage.")              \
  X(attempts, U32, mail.attempts, "How often this way was tried.")             \
  X(rtt_us, U64, mail.rtt_us,                                                  \
    "From sending to the proof in microseconds; 0: not measured.")             \
  X(sync_state, ENUM, mail.sync_state,                                         \
    "The state of a fetch, a constants.SyncState.")                            \
  X(sync_received, U32, mail.sync_received, "Messages that a fetch brought.")  \
  X(sync_duplicates, U32, mail.sync_duplicates,                                \
    "Messages that it brought again.")                                         \
  X(row, I64, row,                                                             \
    "Of a message that its mailbox keeps: its row of the store, else 0.")      \
  X(holds_credit, BOOL, holds_credit,                                          \
    "Whether mail_credit has to give its credit back.")

#define ENUM_OF(name, kind, member, text) COLUMN_##name,
enum { MAIL_COLUMNS(ENUM_OF) };

#define COLUMN_OF(name, kind, member, text)                                    \
  NM_PY_COLUMN(#name, kind, nm_node_mail, member),
static const nm_py_column columns[] = {MAIL_COLUMNS(COLUMN_OF)};

static PyObject *mail_get(PyObject *self, void *closure) {
  const nm_py_column *column = closure;
  return nm_py_column_value(nm_py_state_of(self), column, mail_of(self));
}

static const char *name_of(nm_mail_kind kind) {
  switch (kind) {
  case NM_MAIL_RECEIVED:
    return "RECEIVED";
  case NM_MAIL_STATE:
    return "STATE";
  case NM_MAIL_SYNC:
    return "SYNC";
  case NM_MAIL_DROPPED:
    return "DROPPED";
  case NM_MAIL_WORKED: /* is not told */
    break;
  }
  return "WORKED";
}

static PyObject *mail_kind_name(PyObject *self, void *Py_UNUSED(closure)) {
  return PyUnicode_FromString(name_of(mail_of(self)->mail.kind));
}

static PyObject *mail_ticket(PyObject *self, void *Py_UNUSED(closure)) {
  return PyLong_FromUnsignedLongLong(self_of(self)->event.ticket);
}

static PyObject *mail_final(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_mail *mail = &mail_of(self)->mail;
  return PyBool_FromLong(mail->ended || mail->sync_ended);
}

static PyObject *mail_transient_id(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_mail *mail = &mail_of(self)->mail;
  if (mail->kind != NM_MAIL_RECEIVED ||
      (mail->method != NM_LXMF_PROPAGATED && mail->method != NM_LXMF_PAPER)) {
    Py_RETURN_NONE;
  }
  return nm_py_bytes(nm_span_of(mail->transient_id, NM_HASH_SIZE));
}

static PyObject *mail_source(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_node_mail *told = mail_of(self);
  if (!told->source_known) {
    Py_RETURN_NONE;
  }
  return nm_py_identity_from_public(nm_py_state_of(self), told->source_key);
}

static PyObject *mail_dropped(PyObject *self, void *Py_UNUSED(closure)) {
  const nm_mail *mail = &mail_of(self)->mail;
  if (mail->kind != NM_MAIL_DROPPED) {
    Py_RETURN_NONE;
  }
  PyObject *counts = PyTuple_New(NM_MAIL_DROPS);
  for (int i = 0; counts != NULL && i < NM_MAIL_DROPS; i++) {
    PyObject *count = PyLong_FromUnsignedLong(mail->dropped[i]);
    if (count == NULL) {
      Py_CLEAR(counts);
    } else {
      PyTuple_SET_ITEM(counts, i, count);
    }
  }
  return counts;
}

/* One object for all who ask: it is parsed once. */
static PyObject *mail_message(PyObject *self, void *Py_UNUSED(closure)) {
  raw_mail *raw = self_of(self);
  nm_block *packed = mail_of(self)->mail.packed;
  if (packed == NULL) {
    Py_RETURN_NONE;
  }
  if (raw->message == NULL) {
    PyObject *made = nm_py_message_from_packed(
        nm_py_state_of(self), nm_py_bytes(nm_block_span(packed)));
    if (made == NULL) {
      return NULL;
    }
    Py_XSETREF(raw->message, made); /* another thread may have been here */
  }
  return Py_NewRef(raw->message);
}

static PyObject *mail_repr(PyObject *self) {
  return PyUnicode_FromFormat("<RawMail %s>",
                              name_of(mail_of(self)->mail.kind));
}

static void mail_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  nm_node_event_dispose(&self_of(self)->event);
  Py_XDECREF(self_of(self)->message);
  type->tp_free(self);
  Py_DECREF(type);
}

#define GETTER_OF(name, kind, member, text)                                    \
  {#name, mail_get, NULL, text, (void *)&columns[COLUMN_##name]},

static PyGetSetDef mail_getset[] = {
    MAIL_COLUMNS(GETTER_OF){"kind_name", mail_kind_name, NULL,
                            "The name of kind.", NULL},
    {"ticket", mail_ticket, NULL,
     "The ticket of the command that began it, or 0.", NULL},
    {"final", mail_final, NULL,
     "Whether nothing follows about this letter or fetch.", NULL},
    {"transient_id", mail_transient_id, NULL,
     "The id of the encrypted form, of PROPAGATED and PAPER ones; else None.",
     NULL},
    {"source", mail_source, NULL,
     "The identity that a message says it is from, or None when that is not "
     "known.",
     NULL},
    {"dropped", mail_dropped, NULL,
     "How many a mailbox has dropped, for each reason of NODE_CODES['drops']; "
     "or None.",
     NULL},
    {"message", mail_message, NULL, "The message that came in, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot mail_slots[] = {{Py_tp_doc, (void *)mail_doc},
                                   {Py_tp_dealloc, (void *)mail_dealloc},
                                   {Py_tp_repr, (void *)mail_repr},
                                   {Py_tp_getset, mail_getset},
                                   {0, NULL}};

static PyType_Spec mail_spec = {.name = "netmesh._core.RawMail",
                                .basicsize = sizeof(raw_mail),
                                .flags = NM_PY_FLAGS |
                                         Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = mail_slots};

PyObject *nm_py_raw_mail_new(nm_state *state, nm_node_event *event) {
  PyTypeObject *type = NM_PY_TYPE(state, RawMail);
  raw_mail *self = (raw_mail *)type->tp_alloc(type, 0);
  if (self == NULL) {
    nm_node_event_dispose(event);
    return NULL;
  }
  self->event = *event;
  return (PyObject *)self;
}

int nm_py_raw_mail_add(PyObject *module, nm_state *state) {
  return nm_py_type_add(module, state, NM_TYPE_RawMail, &mail_spec, NULL, NULL);
}
