/* SimCore: a simulation with Python as its director. */
#ifndef NM_PY_SIM_H
#define NM_PY_SIM_H

#include "py/columns.h"
#include "sim/sim.h"

typedef struct nm_py_sim {
  PyObject_HEAD
  nm_sim *sim;
  bool busy;   /* it runs, without the GIL */
  char *trace; /* lines not taken yet */
  size_t trace_len;
  size_t trace_cap;
  bool trace_lost; /* a line found no memory */
} nm_py_sim;

static inline nm_py_sim *nm_py_sim_of(PyObject *self) {
  return (nm_py_sim *)self;
}

/* The simulation, or NULL with a StateError while it runs in another
 * thread. */
nm_sim *nm_py_sim_read(PyObject *self);
/* |result| (taken over), or what |status| says about |what| as an
 * exception. */
PyObject *nm_py_sim_done(PyObject *self, int status, const char *what,
                         PyObject *result);
/* The number of a node or medium. */
int nm_py_sim_id(PyObject *obj, const char *function, const char *name,
                 uint32_t *out);
/* A text without zero bytes; it lives as long as |obj|. */
int nm_py_sim_name(PyObject *obj, const char *function, const char *name,
                   const char **out);

/* Methods of the other file, ending in a zero row. */
extern PyMethodDef nm_py_sim_medium_methods[];

#endif
