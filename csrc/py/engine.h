/* EngineCore: an engine of the stack room with Python as its driver. One file
 * for each group of its methods:
 *   engine.c         life, settings, running jobs
 *   engine_verbs.c   clocks, input, outputs, events, decisions, jobs
 *   engine_figures.c statistics and the flight recorder
 *   engine_ifaces.c  interfaces
 *   engine_locals.c  own destinations, announces, handlers, ratchets
 *   engine_routes.c  paths, known destinations, blackholes, single packets
 *   engine_tables.c  snapshots and the duplicate filter
 *   engine_transport.c the tables of a transport node
 *   engine_links.c   links, requests, resources
 *   engine_channels.c channels and streams
 */
#ifndef NM_PY_ENGINE_H
#define NM_PY_ENGINE_H

#include "crypto/entropy.h"
#include "py/columns.h"
#include "stack/engine.h"

#include <sys/types.h>

/* Where the engine of an EngineCore is when it is not its own: in a simulation,
 * whose clocks it shows and who does what follows from calls. */
typedef struct nm_py_engine_host {
  /* The engine number |place| and what its clocks show now; NULL with an
   * exception. */
  nm_engine *(*engine)(PyObject *owner, uint32_t place, nm_now *now);
  /* To be called after calls of it. */
  void (*settle)(PyObject *owner, uint32_t place);
} nm_py_engine_host;

typedef struct nm_py_engine {
  PyObject_HEAD
  nm_engine *engine; /* NULL while it is being made; borrowed with a host */
  const nm_py_engine_host *host; /* NULL: it is this object's own */
  PyObject *owner;               /* for the host */
  uint32_t place;
  nm_entropy_pool pool;
  nm_entropy entropy; /* the pool, or the program's `source` */
  nm_cipher cipher;
  bool cipher_open;
  nm_now now;
  bool inline_jobs;
  bool unlimited;   /* credit follows what is drained */
  bool closed;      /* shut down: may be read and drained */
  bool busy;        /* a call is under way */
  pid_t process;    /* the one that made it */
  PyObject *store;  /* or NULL */
  PyObject *source; /* gives random bytes, or NULL */
  PyObject *raised; /* what `source` raised in the call under way */
  nm_job **held;    /* stepwise: taken from the engine, not run yet */
  size_t held_count;
  size_t held_cap;
} nm_py_engine;

static inline nm_py_engine *nm_py_engine_of(PyObject *self) {
  return (nm_py_engine *)self;
}

/* Begins a call that changes something. NULL with a StateError when the engine
 * is closed, belongs to another process, or has a call under way. What it
 * returns must reach nm_py_engine_end. */
nm_py_engine *nm_py_engine_begin(PyObject *self);
/* The same for a closed engine as well. */
nm_py_engine *nm_py_engine_drain(PyObject *self);
/* Ends the call: runs jobs if that is done inline, then returns |result| (taken
 * over), or raises what |status| says about |what| ("link", "path"). |result|
 * may be NULL with an exception set. */
PyObject *nm_py_engine_end(nm_py_engine *self, int status, const char *what,
                           PyObject *result);
/* Ends a call that gives nothing back. */
PyObject *nm_py_engine_done(nm_py_engine *self, int status, const char *what);
/* Ends a call that gives the id |id| back when it succeeds. */
PyObject *nm_py_engine_done_id(nm_py_engine *self, int status, const char *what,
                               uint64_t id);

/* The engine for a function that reads only, and ends before anything else
 * happens. NULL with a StateError. */
nm_engine *nm_py_engine_read(PyObject *self);

/* A new EngineCore for an engine that |owner| has, or NULL with an exception.
 * Time, jobs, outputs and events are the owner's alone. */
PyObject *nm_py_engine_hosted(nm_state *state, const nm_py_engine_host *host,
                              PyObject *owner, uint32_t place);
/* Whether |self| has a host, in which case a StateError is set. */
bool nm_py_engine_refuse_hosted(PyObject *self);

/* Raises what |status| says about |what|; returns NULL. */
PyObject *nm_py_engine_raise(nm_state *state, int status, const char *what);

/* Runs |job| and gives it back; every job that waits if that is done inline. 0,
 * or -1 with an exception that is to be passed on, such as KeyboardInterrupt;
 * what such a call leaves waiting runs with the next one. */
int nm_py_engine_run(nm_py_engine *self, nm_job *job);
int nm_py_engine_settle(nm_py_engine *self);

/* The arguments "mono_us" and "unix_us". */
int nm_py_engine_clock(PyObject *mono, PyObject *unix_time,
                       const char *function, nm_now *now);

/* An id, a time or a size: an int in 0..2**53. */
int nm_py_engine_u64(PyObject *obj, const char *function, const char *name,
                     uint64_t *out);
int nm_py_engine_iface(PyObject *obj, const char *function, nm_iface_id *out);

/* Bytes or None; |present| tells. Release |buf| afterwards. */
int nm_py_engine_optional(PyObject *obj, const char *function, const char *name,
                          nm_py_buffer *buf, bool *present);

/* A block from the item |name| of |dict|, which it loses: bytes, or None or no
 * item for NULL. */
int nm_py_engine_block(PyObject *dict, const char *function, const char *name,
                       nm_block **block);

/* Methods of the other files, each table ending in a zero row. */
extern PyMethodDef nm_py_engine_verb_methods[];
extern PyMethodDef nm_py_engine_figure_methods[];
extern PyMethodDef nm_py_engine_iface_methods[];
extern PyMethodDef nm_py_engine_local_methods[];
extern PyMethodDef nm_py_engine_route_methods[];
extern PyMethodDef nm_py_engine_table_methods[];
extern PyMethodDef nm_py_engine_transport_methods[];
extern PyMethodDef nm_py_engine_link_methods[];
extern PyMethodDef nm_py_engine_channel_methods[];

/* A row of such a table for a METH_FASTCALL function. */
#define NM_PY_ENGINE_METHOD(name, function, doc)                               \
  { name, NM_PY_FASTCALL(function), METH_FASTCALL, doc }

#endif
