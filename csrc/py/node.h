/* LoopCore and NodeCore: a node of the io room with Python as its owner. One
 * file for each part: loop.c          the class LoopCore node.c          life
 * of a node, its descriptor, its events node_command.c  from keywords to
 * commands node_iface.c    interfaces: how to open one, what is readable of one
 *   node_reply.c    the class RawReply: answers to commands, tables as dicts
 *   node_mail.c     what commands of mail are given and answer
 *   raw_mail.c      the class RawMail: messages and how far they are
 */
#ifndef NM_PY_NODE_H
#define NM_PY_NODE_H

#include "io/node.h"
#include "py/columns.h"

/* The loop behind |obj|, borrowed from it; NULL with a TypeError when it is no
 * LoopCore, with a StateError when it has stopped. */
nm_loop *nm_py_loop_of(nm_state *state, PyObject *obj, const char *function,
                       const char *name);

/* Fills |command| from the keywords of a METH_FASTCALL | METH_KEYWORDS call.
 * `kind` is set. 0, or -1 with an exception; the command is to be given to the
 * node or disposed of in both cases. */
int nm_py_node_command_fill(nm_state *state, nm_command *command,
                            PyObject *const *values, PyObject *kwnames);

/* Fills |setup| from the dict |options|: "medium" and "label", the members of
 * nm_iface_setup by name, and "spec", a dict as nm_py_iface_spec_apply takes
 * it. 0, or -1 with an exception. */
int nm_py_iface_setup_read(nm_state *state, PyObject *options,
                           const char *function, nm_iface_setup *setup);
/* A new dict with all of |info|, or NULL. */
PyObject *nm_py_iface_info_dict(nm_state *state, const nm_iface_info *info);
PyObject *nm_py_device_info_dict(nm_state *state, const nm_device_info *info);
/* A new dict with all of |stats|, or NULL. */
PyObject *nm_py_node_stats_dict(nm_state *state, const nm_node_stats *stats);

/* A new RawReply with the content of |event|, which is a NM_NODE_REPLY and is
 * taken over in every case. NULL with an exception. */
PyObject *nm_py_raw_reply_new(nm_state *state, nm_node_event *event);

/* The same of a NM_NODE_MAIL: a new RawMail. */
PyObject *nm_py_raw_mail_new(nm_state *state, nm_node_event *event);

/* Fills the member of |command|'s union that a command of mail has from what
 * "spec" is given. 0, or -1 with an exception. */
int nm_py_mail_spec_read(nm_state *state, PyObject *given, nm_command *command);
/* A new dict with all of |stats|, or NULL. */
PyObject *nm_py_router_stats_dict(nm_state *state,
                                  const nm_router_stats *stats);

#endif
