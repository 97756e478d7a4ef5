/* The Python type of nodes.h. */
#ifndef NB_NODES_MODULE_H
#define NB_NODES_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type Node to the module. 0, or -1 with an exception. */
int nb_add_node_type(PyObject *module);

#endif
