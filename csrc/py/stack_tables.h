/* The structs of the stack room by column, for all classes that show them:
 * each table is defined beside the EngineCore methods that use it.
 */
#ifndef NM_PY_STACK_TABLES_H
#define NM_PY_STACK_TABLES_H

#include "py/columns.h"
#include "stack/engine.h"
#include "stack/snapshot.h"
#include "stack/transport_tables.h"

typedef struct nm_py_table {
  const nm_py_column *columns;
  size_t count;
} nm_py_table;

#define NM_PY_TABLE_OF(columns)                                                \
  { columns, NM_PY_COLUMN_COUNT(columns) }

extern const nm_py_table nm_py_dest_table;         /* nm_dest_spec */
extern const nm_py_table nm_py_link_table;         /* nm_link_info */
extern const nm_py_table nm_py_transfer_table;     /* nm_transfer_info */
extern const nm_py_table nm_py_path_table;         /* nm_path_record */
extern const nm_py_table nm_py_known_table;        /* nm_known_record */
extern const nm_py_table nm_py_receipt_table;      /* nm_receipt_record */
extern const nm_py_table nm_py_path_request_table; /* nm_path_request_record */
extern const nm_py_table nm_py_blackhole_table;    /* nm_blackhole_record */
extern const nm_py_table nm_py_path_tag_table;     /* nm_path_tag */
extern const nm_py_table nm_py_ratchet_table;      /* nm_ratchet_state */
extern const nm_py_table nm_py_limits_table;       /* nm_limits */
extern const nm_py_table nm_py_record_table;       /* nm_record */
extern const nm_py_table nm_py_engine_stats_table; /* nm_engine_stats */
extern const nm_py_table nm_py_channel_table;      /* nm_channel_info */
extern const nm_py_table nm_py_channel_sent_table; /* nm_channel_sent */

static inline PyObject *
nm_py_table_dict(nm_state *state, const nm_py_table *table, const void *in) {
  return nm_py_columns_dict(state, table->columns, table->count, in);
}
static inline int nm_py_table_read(nm_state *state, PyObject *options,
                                   const nm_py_table *table,
                                   const char *function, void *out) {
  return nm_py_columns_read(state, options, table->columns, table->count,
                            function, out);
}

/* A record from a dict as nm_py_table_dict makes it; |record| is to be disposed
 * of in both cases. 0, or -1 with an exception. */
int nm_py_path_record_read(nm_state *state, PyObject *dict,
                           const char *function, nm_path_record *record);
int nm_py_known_record_read(nm_state *state, PyObject *dict,
                            const char *function, nm_known_record *record);
int nm_py_blackhole_record_read(nm_state *state, PyObject *dict,
                                const char *function,
                                nm_blackhole_record *record);

/* The columns of a table of a transport node; its number from its name; a
 * record of it, to be disposed of in both cases. 0, or -1 with an exception. */
const nm_py_table *nm_py_transport_table(nm_transport_table table);
int nm_py_transport_table_read(PyObject *obj, const char *function,
                               nm_transport_table *table);
int nm_py_transport_record_read(nm_state *state, nm_transport_table table,
                                PyObject *given, const char *function,
                                nm_transport_record *record);

/* (sequence, reason, pending, hash or None, remembered), or NULL. */
PyObject *nm_py_verdict_tuple(const nm_verdict *verdict);

/* The settings and limits of an engine from two dicts. 0, or -1 with an
 * exception. */
int nm_py_engine_config_read(nm_state *state, PyObject *config,
                             PyObject *limits, const char *function,
                             nm_engine_config *out);

#endif
