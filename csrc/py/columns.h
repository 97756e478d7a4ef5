/* Structs of the core to and from Python by table: which member is which key of
 * a dict, of what kind, in which range. Options that Python gives (an
 * interface's properties, a destination's) and snapshots that it gets go the
 * same way.
 */
#ifndef NM_PY_COLUMNS_H
#define NM_PY_COLUMNS_H

#include "py/args.h"

#include <stddef.h>

typedef enum nm_py_column_kind {
  NM_PY_COL_BOOL,
  NM_PY_COL_TRISTATE, /* int8_t: -1 None, 0 False, 1 True */
  NM_PY_COL_U8,
  NM_PY_COL_I16,
  NM_PY_COL_U16,
  NM_PY_COL_I32,
  NM_PY_COL_U32,
  NM_PY_COL_I64,
  NM_PY_COL_U64,
  NM_PY_COL_SIZE,
  NM_PY_COL_ENUM, /* a C enum, which is as wide as int */
  NM_PY_COL_REAL,
  NM_PY_COL_SIGNAL,      /* int16_t: NM_SIGNAL_NONE is None */
  NM_PY_COL_TEXT,        /* char[]; only read from C */
  NM_PY_COL_NAME_HASH,   /* 10 bytes */
  NM_PY_COL_BYTES_16,    /* 16 bytes of no special kind */
  NM_PY_COL_BYTES_32,    /* 32 bytes */
  NM_PY_COL_PUBLIC,      /* 64 bytes */
  NM_PY_COL_DESTINATION, /* 16 bytes, a DestinationHash */
  NM_PY_COL_IDENTITY,    /* 16 bytes, an IdentityHash; None when all are 0 */
  NM_PY_COL_BLOCK        /* nm_block *: bytes, or None; only read from C */
} nm_py_column_kind;

typedef struct nm_py_column {
  const char *name;
  nm_py_column_kind kind;
  size_t offset;
  long long min; /* of numbers that Python gives */
  long long max;
} nm_py_column;

#define NM_PY_COLUMN(name, kind, type, member)                                 \
  { name, NM_PY_COL_##kind, offsetof(type, member), 0, 0 }
#define NM_PY_COLUMN_IN(name, kind, type, member, min, max)                    \
  { name, NM_PY_COL_##kind, offsetof(type, member), (min), (max) }

/* The largest time that is taken or given: what a float holds exactly. */
#define NM_PY_US_MAX ((long long)1 << 53)

/* Puts each item of the dict |options| into its member of the struct |out|.
 * 0, or -1 with a TypeError (an unknown key, another type) or a ValueError. */
int nm_py_columns_read(nm_state *state, PyObject *options,
                       const nm_py_column *columns, size_t count,
                       const char *function, void *out);

/* Puts the one value |given| into its member of the struct |out|. */
int nm_py_column_read(nm_state *state, const nm_py_column *column,
                      PyObject *given, const char *function, void *out);

/* One value as |column| says, from the struct |in|. New reference or NULL. */
PyObject *nm_py_column_value(nm_state *state, const nm_py_column *column,
                             const void *in);

/* A new dict with a key for each column, or NULL with an exception. */
PyObject *nm_py_columns_dict(nm_state *state, const nm_py_column *columns,
                             size_t count, const void *in);

#define NM_PY_COLUMN_COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

#endif
