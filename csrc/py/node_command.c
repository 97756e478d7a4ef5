/* Keywords of NodeCore.command: the members of nm_command by name, and "spec",
 * a dict with what the kind's member of the union holds.
 */
#include "io/files.h"
#include "py/identity.h"
#include "py/node.h"
#include "py/stack_tables.h"

#include <errno.h>
#include <string.h>

/* Bytes of this size and more are copied without the GIL. */
#define LONG_COPY ((size_t)1 << 18)

#define FIELD(name, kind, min, max)                                            \
  NM_PY_COLUMN_IN(#name, kind, nm_command, name, min, max)

static const nm_py_column fields[] = {
    FIELD(link, U64, 0, NM_PY_US_MAX),
    FIELD(timeout_us, U64, 0, NM_PY_US_MAX),
    FIELD(on, BOOL, 0, 0),
    FIELD(quiet, BOOL, 0, 0),
    FIELD(token, U64, 0, NM_PY_US_MAX),
    FIELD(destination, DESTINATION, 0, 0),
    FIELD(op, U64, 0, NM_PY_US_MAX),
    FIELD(iface, U32, 0, UINT32_MAX),
    FIELD(size_max, SIZE, 0, NM_PY_US_MAX),
    FIELD(identity, IDENTITY, 0, 0),
    FIELD(hash, BYTES_32, 0, 0),
    FIELD(cursor, U64, 0, NM_PY_US_MAX),
    FIELD(max, U32, 0, UINT32_MAX),
    FIELD(number, I64, -NM_PY_US_MAX, NM_PY_US_MAX),
    FIELD(until_unix_us, I64, 0, NM_PY_US_MAX),
    FIELD(prove, U8, NM_PROVE_NONE, NM_PROVE_ALL),
    FIELD(allow, U8, NM_ALLOW_NONE, NM_ALLOW_LIST),
    FIELD(accept, ENUM, NM_ACCEPT_NONE, NM_ACCEPT_ALL),
    FIELD(compression, ENUM, NM_RESOURCE_COMPRESS_OFF,
          NM_RESOURCE_COMPRESS_AUTOMATIC),
    FIELD(packet_type, U8, NM_DATA, NM_PROOF),
    FIELD(context, U8, 0, 255),
};

/* --------------------------------------------------------------- the blocks */

static int copy_block(nm_span bytes, nm_block **block) {
  nm_block_drop(*block);
  PyThreadState *released = nm_py_gil_release(bytes.len >= LONG_COPY);
  *block = nm_block_copy(&nm_mem_system, bytes);
  nm_py_gil_take(released);
  if (*block == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  return 0;
}

/* |given| is text, bytes-like or None. */
static int take_block(PyObject *given, const char *name, nm_block **block) {
  nm_py_buffer buf;
  if (given == Py_None) {
    return 0;
  }
  nm_py_buffer_init(&buf);
  int result = nm_py_text_or_buffer(given, "command", name, &buf);
  if (result == 0) {
    result = copy_block(buf.span, block);
  }
  nm_py_buffer_release(&buf);
  return result;
}

/* "key" is an Identity: its private half, or for REMEMBER its public one. */
static int take_key(nm_state *state, PyObject *given, nm_command *command) {
  if (given == Py_None) {
    return 0;
  }
  bool public_half = command->kind == NM_COMMAND_REMEMBER;
  const nm_identity *identity =
      public_half ? nm_py_identity_public(state, given, "command", "key")
                  : nm_py_identity_private(state, given, "command", "key");
  if (identity == NULL) {
    return -1;
  }
  const uint8_t *bytes =
      public_half ? identity->public_key : identity->private_key;
  if (copy_block(nm_span_of(bytes, NM_PRIVATE_SIZE), &command->key) < 0) {
    return -1;
  }
  if (!public_half) {
    nm_block_mark_secret(command->key);
  }
  return 0;
}

/* ----------------------------------------------------------------- the files
 */

static int raise_os(int error) {
  errno = -error;
  PyErr_SetFromErrno(PyExc_OSError);
  return -1;
}

/* "file" is (descriptor, offset, size); the descriptor is duplicated. */
static int take_file(PyObject *given, nm_command *command) {
  int fd;
  long long offset;
  long long size;
  int error = 0;
  if (given == Py_None) {
    return 0;
  }
  if (!PyTuple_Check(given) ||
      !PyArg_ParseTuple(given,
                        "iLL;command() argument 'file' must be "
                        "(descriptor, offset, size)",
                        &fd, &offset, &size)) {
    return -1;
  }
  if (offset < 0 || size < 0) {
    PyErr_SetString(PyExc_ValueError,
                    "command() argument 'file' has a negative number");
    return -1;
  }
  nm_source_drop(command->source);
  command->source = nm_file_source(&nm_mem_system, fd, (uint64_t)offset,
                                   (uint64_t)size, &error);
  return command->source == NULL ? raise_os(error) : 0;
}

/* "folder" is (path, file name, resume); an empty name leaves it to the
 * metadata. */
static int take_folder(PyObject *given, nm_command *command) {
  const char *folder;
  const char *name;
  Py_ssize_t name_len;
  int resume;
  int error = 0;
  if (given == Py_None) {
    return 0;
  }
  if (!PyTuple_Check(given) ||
      !PyArg_ParseTuple(given,
                        "yy#p;command() argument 'folder' must be (path, "
                        "name, resume)",
                        &folder, &name, &name_len, &resume)) {
    return -1;
  }
  nm_shelf_drop(command->shelf);
  PyThreadState *released = nm_py_gil_release(true);
  command->shelf =
      nm_file_shelf(&nm_mem_system, folder, nm_span_of(name, (size_t)name_len),
                    resume != 0, &error);
  nm_py_gil_take(released);
  return command->shelf == NULL ? raise_os(error) : 0;
}

/* ---------------------------------------------------------------- the union */

#define SEND(name, kind, min, max)                                             \
  NM_PY_COLUMN_IN(#name, kind, nm_send_spec, name, min, max)

static const nm_py_column send_columns[] = {
    NM_PY_COLUMN("destination", DESTINATION, nm_send_spec, destination),
    SEND(type, U8, NM_SINGLE, NM_PLAIN),
    SEND(context, U8, 0, 255),
    SEND(receipt, BOOL, 0, 0),
    SEND(timeout_us, U64, 0, NM_PY_US_MAX),
    SEND(use_ratchet, BOOL, 0, 0),
};

#define TUNE(name) NM_PY_COLUMN_IN(#name, U64, nm_tune, name, 0, NM_PY_US_MAX)

static const nm_py_column tune_columns[] = {
    TUNE(rtt_us),
    TUNE(keepalive_us),
    TUNE(stale_us),
};

/* A changed interface is described whole; only its properties are used. */
static int take_change(nm_state *state, PyObject *given, nm_command *command) {
  nm_iface_setup setup;
  int result = nm_py_iface_setup_read(state, given, "command", &setup);
  if (result == 0) {
    command->u.spec = setup.spec;
  }
  nm_wipe(&setup, sizeof setup);
  return result;
}

/* A table's name, or (name, record). */
static int take_entry(nm_state *state, PyObject *given, nm_command *command) {
  nm_table_entry *entry = &command->u.entry;
  if (command->kind == NM_COMMAND_TABLE_LIST && !PyTuple_Check(given)) {
    return nm_py_transport_table_read(given, "command", &entry->table);
  }
  if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 2) {
    return nm_py_type_error("command", "spec", "(table, record)", given);
  }
  return nm_py_transport_table_read(PyTuple_GET_ITEM(given, 0), "command",
                                    &entry->table) < 0
             ? -1
             : nm_py_transport_record_read(state, entry->table,
                                           PyTuple_GET_ITEM(given, 1),
                                           "command", &entry->record);
}

static int take_spec(nm_state *state, PyObject *given, nm_command *command) {
  switch (command->kind) {
  case NM_COMMAND_LISTEN:
    nm_dest_spec_default(&command->u.listen);
    return nm_py_table_read(state, given, &nm_py_dest_table, "command",
                            &command->u.listen);
  case NM_COMMAND_SEND:
    nm_send_spec_default(&command->u.send);
    return nm_py_columns_read(state, given, send_columns,
                              NM_PY_COLUMN_COUNT(send_columns), "command",
                              &command->u.send);
  case NM_COMMAND_LINK_TUNE:
    return nm_py_columns_read(state, given, tune_columns,
                              NM_PY_COLUMN_COUNT(tune_columns), "command",
                              &command->u.tune);
  case NM_COMMAND_LINK_BY_ID:
    return nm_py_exact(given, "command", "spec", command->u.link_id.b,
                       sizeof command->u.link_id.b);
  case NM_COMMAND_PATH_PUT:
    return nm_py_path_record_read(state, given, "command", &command->u.path);
  case NM_COMMAND_KNOWN_PUT:
    return nm_py_known_record_read(state, given, "command", &command->u.known);
  case NM_COMMAND_BLACKHOLE_PUT:
    return nm_py_blackhole_record_read(state, given, "command",
                                       &command->u.blackhole);
  case NM_COMMAND_PATH_TAG_PUT:
    return nm_py_table_read(state, given, &nm_py_path_tag_table, "command",
                            &command->u.path_tag);
  case NM_COMMAND_TABLE_LIST:
  case NM_COMMAND_TABLE_PUT:
  case NM_COMMAND_TABLE_DROP:
    return take_entry(state, given, command);
  case NM_COMMAND_IFACE_ADD:
    return nm_py_iface_setup_read(state, given, "command", &command->u.iface);
  case NM_COMMAND_IFACE_CHANGE:
    return take_change(state, given, command);
  case NM_COMMAND_MAIL_OPEN:
  case NM_COMMAND_MAIL_DESCRIBE:
  case NM_COMMAND_MAIL_SEND:
  case NM_COMMAND_MAIL_SYNC:
    return nm_py_mail_spec_read(state, given, command);
  default:
    PyErr_Format(PyExc_TypeError, "command() '%s' takes no 'spec'",
                 nm_command_name(command->kind));
    return -1;
  }
}

static bool needs_spec(nm_command_kind kind) {
  switch (kind) {
  case NM_COMMAND_LISTEN:
  case NM_COMMAND_SEND:
  case NM_COMMAND_LINK_TUNE:
  case NM_COMMAND_LINK_BY_ID:
  case NM_COMMAND_PATH_PUT:
  case NM_COMMAND_KNOWN_PUT:
  case NM_COMMAND_BLACKHOLE_PUT:
  case NM_COMMAND_PATH_TAG_PUT:
  case NM_COMMAND_TABLE_LIST:
  case NM_COMMAND_TABLE_PUT:
  case NM_COMMAND_TABLE_DROP:
  case NM_COMMAND_IFACE_ADD:
  case NM_COMMAND_IFACE_CHANGE:
  case NM_COMMAND_MAIL_OPEN:
  case NM_COMMAND_MAIL_DESCRIBE:
  case NM_COMMAND_MAIL_SEND:
  case NM_COMMAND_MAIL_SYNC:
    return true;
  default:
    return false;
  }
}

/* ------------------------------------------------------------------ the call
 */

static bool is(PyObject *name, const char *text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

static int take_field(nm_state *state, PyObject *name, PyObject *given,
                      nm_command *command) {
  for (size_t i = 0; i < NM_PY_COLUMN_COUNT(fields); i++) {
    if (is(name, fields[i].name)) {
      return nm_py_column_read(state, &fields[i], given, "command", command);
    }
  }
  PyErr_Format(PyExc_TypeError, "command() got an unexpected keyword %R", name);
  return -1;
}

int nm_py_node_command_fill(nm_state *state, nm_command *command,
                            PyObject *const *values, PyObject *kwnames) {
  Py_ssize_t count = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
  bool has_spec = false;
  int result = 0;
  for (Py_ssize_t i = 0; result == 0 && i < count; i++) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, i);
    if (is(name, "data")) {
      result = take_block(values[i], "data", &command->data);
    } else if (is(name, "extra")) {
      result = take_block(values[i], "extra", &command->extra);
    } else if (is(name, "file")) {
      result = take_file(values[i], command);
    } else if (is(name, "folder")) {
      result = take_folder(values[i], command);
    } else if (is(name, "key")) {
      result = take_key(state, values[i], command);
    } else if (is(name, "spec")) {
      has_spec = true;
      result = take_spec(state, values[i], command);
    } else {
      result = take_field(state, name, values[i], command);
    }
  }
  if (result == 0 && !has_spec && needs_spec(command->kind)) {
    PyErr_Format(PyExc_TypeError, "command() '%s' needs 'spec'",
                 nm_command_name(command->kind));
    result = -1;
  }
  return result;
}
