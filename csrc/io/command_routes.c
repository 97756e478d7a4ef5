/* Commands on paths, known destinations, the blackhole list and other tables.
 */
#include "io/internal.h"

#include <string.h>

#define PAGE_DEFAULT 64
#define PAGE_MAX 1024
/* How old a path over a node of upstream is before it is used: such a node
 * passes an announce on before the path is in its own table, and drops what
 * comes back for it meanwhile (releases up to 1.5.7). */
#define PATH_SETTLE_US 20000

static nm_span data_of(const nm_ask *ask) {
  return nm_block_span(ask->c.data);
}

static uint32_t page_of(const nm_ask *ask) {
  uint32_t max = ask->c.max == 0 ? PAGE_DEFAULT : ask->c.max;
  return max > PAGE_MAX ? PAGE_MAX : max;
}

/* ---- paths ---- */

static int run_request_path(nm_node *node, nm_ask *ask) {
  nm_span tag = data_of(ask);
  nm_op_id op = 0;
  if (ask->c.data != NULL && tag.len != NM_ADDRESS_SIZE) {
    return NM_E(ARGUMENT);
  }
  int status = nm_engine_request_path(node->engine, &ask->c.destination,
                                      ask->c.iface, tag.ptr, ask->c.timeout_us,
                                      ask->c.on ? &op : NULL, node->loop->now);
  if (status == NM_OK) {
    nm_ask_started(node, ask, op);
  }
  return status;
}

bool nm_path_settled(const nm_node *node, const nm_destination_hash *hash,
                     nm_path_record *record) {
  if (!nm_engine_path_peek(node->engine, hash, record)) {
    return false;
  }
  return memcmp(record->next_hop, hash->b, NM_ADDRESS_SIZE) == 0 ||
         node->loop->now.mono_us >= record->updated_mono_us + PATH_SETTLE_US;
}

/* The reply comes when the operation ends; meanwhile the ticket has the ask. */
static int run_path_find(nm_node *node, nm_ask *ask) {
  nm_op_id op = 0;
  int status =
      nm_engine_request_path(node->engine, &ask->c.destination, ask->c.iface,
                             NULL, ask->c.timeout_us, &op, node->loop->now);
  if (status != NM_OK) {
    return status;
  }
  nm_ticket *ticket = ask->ticket;
  ask->ticket = NULL;
  ticket->waiting = ask;
  if (!nm_tickets_put_op(&node->tickets, ticket, op)) {
    (void)nm_engine_cancel(node->engine, op, node->loop->now);
    return NM_E(MEMORY);
  }
  atomic_fetch_sub(&node->asks, 1); /* operations have a bound of their own */
  return NM_LATER;
}

static int put_path(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_path_record record;
  if (!nm_engine_path_get(node->engine, &ask->c.destination, &record)) {
    return NM_E(MISSING);
  }
  nm_rows_init(&rows, node->mem, ask, sizeof(record));
  if (!nm_rows_add(&rows, &record)) {
    nm_path_record_dispose(&record);
  }
  return nm_rows_finish(&rows);
}

void nm_path_found(nm_node *node, nm_ask *ask, const nm_event *event) {
  int status = event->status == NM_OK ? put_path(node, ask) : event->status;
  ask->reply.number = status == NM_OK ? 0 : NM_NO_PATH;
  atomic_fetch_add(&node->asks, 1);
  nm_ask_reply_at(node, ask, status, event->at);
}

static int run_hops(nm_node *node, nm_ask *ask) {
  ask->reply.number = nm_engine_hops(node->engine, &ask->c.destination);
  return NM_OK;
}

static int run_path_get(nm_node *node, nm_ask *ask) {
  return put_path(node, ask);
}

static void add_path(void *user, nm_path_record *record) {
  if (!nm_rows_add(user, record)) {
    nm_path_record_dispose(record);
  }
}

static int run_path_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  uint64_t cursor = ask->c.cursor;
  nm_rows_init(&rows, node->mem, ask, sizeof(nm_path_record));
  do {
    cursor = nm_engine_path_scan(node->engine, cursor, add_path, &rows);
  } while (cursor != 0 && rows.count < page_of(ask) && rows.status == NM_OK);
  ask->reply.cursor = cursor;
  return nm_rows_finish(&rows);
}

static int run_path_put(nm_node *node, nm_ask *ask) {
  return nm_engine_path_put(node->engine, &ask->c.u.path);
}

static int run_path_drop(nm_node *node, nm_ask *ask) {
  return nm_engine_drop_path(node->engine, &ask->c.destination,
                             node->loop->now);
}

static int run_path_mark(nm_node *node, nm_ask *ask) {
  return nm_engine_mark_path(node->engine, &ask->c.destination, ask->c.on,
                             node->loop->now);
}

static int run_path_request_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_path_request_record record;
  const nm_destination_hash *after = NULL;
  nm_rows_init(&rows, node->mem, ask, sizeof(record));
  while (nm_engine_path_request_next(node->engine, after, &record) &&
         nm_rows_add(&rows, &record)) {
    ask->c.destination = record.destination;
    after = &ask->c.destination;
  }
  return nm_rows_finish(&rows);
}

/* ---- known destinations ---- */

static int recalled(nm_node *node, nm_ask *ask, bool found,
                    const nm_identity *identity, nm_span app_data, bool has) {
  if (!found) {
    return NM_E(MISSING);
  }
  memcpy(ask->reply.public_key, identity->public_key, NM_PUBLIC_SIZE);
  ask->reply.number = nm_engine_is_blackholed(node->engine, &identity->hash);
  ask->reply.has_data = has;
  if (has) {
    ask->reply.data = nm_block_copy(node->mem, app_data);
    return ask->reply.data == NULL ? NM_E(MEMORY) : NM_OK;
  }
  return NM_OK;
}

static int run_recall(nm_node *node, nm_ask *ask) {
  nm_identity identity;
  nm_span app_data = nm_span_of(NULL, 0);
  bool has = false;
  bool found = nm_engine_recall(node->engine, &ask->c.destination, &identity,
                                &app_data, &has, node->loop->now);
  return recalled(node, ask, found, &identity, app_data, has);
}

static int run_recall_identity(nm_node *node, nm_ask *ask) {
  nm_identity identity;
  nm_span app_data = nm_span_of(NULL, 0);
  bool has = false;
  bool found =
      nm_engine_recall_identity(node->engine, &ask->c.identity, &identity,
                                &app_data, &has, node->loop->now);
  return recalled(node, ask, found, &identity, app_data, has);
}

static int run_remember(nm_node *node, nm_ask *ask) {
  nm_span app_data = data_of(ask);
  return nm_engine_remember(node->engine, &ask->c.destination, ask->identity,
                            ask->c.data != NULL ? &app_data : NULL,
                            node->loop->now);
}

static int run_retain(nm_node *node, nm_ask *ask) {
  return nm_engine_retain(node->engine, &ask->c.destination, ask->c.on);
}

static int run_ratchet_of(nm_node *node, nm_ask *ask) {
  uint8_t ratchet[NM_KEY_SIZE];
  if (!nm_engine_ratchet_of(node->engine, &ask->c.destination, ratchet,
                            node->loop->now)) {
    return NM_E(MISSING);
  }
  ask->reply.data =
      nm_block_copy(node->mem, nm_span_of(ratchet, sizeof(ratchet)));
  return ask->reply.data == NULL ? NM_E(MEMORY) : NM_OK;
}

static int run_known_get(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_known_record record;
  if (!nm_engine_known_get(node->engine, &ask->c.destination, &record)) {
    return NM_E(MISSING);
  }
  nm_rows_init(&rows, node->mem, ask, sizeof(record));
  if (!nm_rows_add(&rows, &record)) {
    nm_known_record_dispose(&record);
  }
  return nm_rows_finish(&rows);
}

static void add_known(void *user, nm_known_record *record) {
  if (!nm_rows_add(user, record)) {
    nm_known_record_dispose(record);
  }
}

static int run_known_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  uint64_t cursor = ask->c.cursor;
  nm_rows_init(&rows, node->mem, ask, sizeof(nm_known_record));
  do {
    cursor = nm_engine_known_scan(node->engine, cursor, add_known, &rows);
  } while (cursor != 0 && rows.count < page_of(ask) && rows.status == NM_OK);
  ask->reply.cursor = cursor;
  return nm_rows_finish(&rows);
}

static int run_known_put(nm_node *node, nm_ask *ask) {
  return nm_engine_known_put(node->engine, &ask->c.u.known);
}

static int run_known_drop(nm_node *node, nm_ask *ask) {
  return nm_engine_known_drop(node->engine, &ask->c.destination);
}

static int run_known_clean(nm_node *node, nm_ask *ask) {
  ask->reply.number =
      (int64_t)nm_engine_known_clean(node->engine, node->loop->now);
  return NM_OK;
}

/* ---- the blackhole list ---- */

static int run_blackhole(nm_node *node, nm_ask *ask) {
  return nm_engine_blackhole(node->engine, &ask->c.identity,
                             ask->c.until_unix_us, data_of(ask),
                             node->loop->now);
}

static int run_unblackhole(nm_node *node, nm_ask *ask) {
  return nm_engine_unblackhole(node->engine, &ask->c.identity);
}

static int run_blackhole_put(nm_node *node, nm_ask *ask) {
  return nm_engine_blackhole_put(node->engine, &ask->c.u.blackhole,
                                 node->loop->now);
}

static int run_blackhole_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_blackhole_record record;
  const nm_identity_hash *after = NULL;
  nm_rows_init(&rows, node->mem, ask, sizeof(record));
  while (nm_engine_blackhole_next(node->engine, after, &record)) {
    ask->c.identity = record.identity;
    after = &ask->c.identity;
    if (!nm_rows_add(&rows, &record)) {
      nm_blackhole_record_dispose(&record);
      break;
    }
  }
  return nm_rows_finish(&rows);
}

/* ---- path requests of others ---- */

static int run_path_tag_put(nm_node *node, nm_ask *ask) {
  return nm_engine_path_tag_set(node->engine, &ask->c.u.path_tag, ask->c.on);
}

static int run_path_tag_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_path_tag tag;
  const nm_path_tag *after = NULL;
  nm_rows_init(&rows, node->mem, ask, sizeof(tag));
  while (rows.count < PAGE_MAX &&
         nm_engine_path_tag_next(node->engine, after, &tag) &&
         nm_rows_add(&rows, &tag)) {
    ask->c.u.path_tag = tag;
    after = &ask->c.u.path_tag;
  }
  return nm_rows_finish(&rows);
}

/* ---- the tables of a transport node ---- */

static int run_table_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_transport_table table = ask->c.u.entry.table;
  nm_table_entry entry = {.table = table};
  const nm_transport_record *after = ask->c.on ? &ask->c.u.entry.record : NULL;
  nm_transport_record_dispose(table, &ask->c.u.entry.record); /* not its keys */
  nm_rows_init(&rows, node->mem, ask, sizeof(entry));
  while (rows.count < PAGE_MAX &&
         nm_engine_table_next(node->engine, table, after, &entry.record)) {
    if (!nm_rows_add(&rows, &entry)) {
      nm_transport_record_dispose(table, &entry.record);
      break;
    }
    ask->c.u.entry.record = entry.record; /* its keys; the row has the blocks */
    after = &ask->c.u.entry.record;
  }
  memset(&ask->c.u.entry.record, 0, sizeof(ask->c.u.entry.record));
  return nm_rows_finish(&rows);
}

static int run_table_put(nm_node *node, nm_ask *ask) {
  return nm_engine_table_put(node->engine, ask->c.u.entry.table,
                             &ask->c.u.entry.record, node->loop->now);
}

static int run_table_drop(nm_node *node, nm_ask *ask) {
  return nm_engine_table_drop(node->engine, ask->c.u.entry.table,
                              &ask->c.u.entry.record);
}

static int run_held_release(nm_node *node, nm_ask *ask) {
  nm_waiting_key key = {.iface = ask->c.iface,
                        .destination = ask->c.destination};
  return nm_engine_held_release(node->engine, &key, node->loop->now);
}

/* ---- receipts, the filter, the recorder ---- */

static int run_receipt_list(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_receipt_record record;
  const nm_packet_hash *after = NULL;
  nm_rows_init(&rows, node->mem, ask, sizeof(record));
  while (nm_engine_receipt_next(node->engine, after, &record) &&
         nm_rows_add(&rows, &record)) {
    ask->c.hash = record.hash;
    after = &ask->c.hash;
  }
  return nm_rows_finish(&rows);
}

static int run_filter_size(nm_node *node, nm_ask *ask) {
  ask->reply.number = (int64_t)nm_engine_filter_size(node->engine);
  return NM_OK;
}

static int run_filter_has(nm_node *node, nm_ask *ask) {
  ask->reply.number = nm_engine_filter_has(node->engine, &ask->c.hash);
  return NM_OK;
}

static int run_filter_put(nm_node *node, nm_ask *ask) {
  nm_engine_filter_put(node->engine, &ask->c.hash);
  return NM_OK;
}

static int run_filter_drop(nm_node *node, nm_ask *ask) {
  nm_engine_filter_drop(node->engine, &ask->c.hash);
  return NM_OK;
}

static int run_records(nm_node *node, nm_ask *ask) {
  nm_rows rows;
  nm_record record;
  nm_input_seq seq = ask->c.cursor;
  bool more = true;
  nm_rows_init(&rows, node->mem, ask, sizeof(record));
  while (rows.count < page_of(ask) &&
         (more = nm_engine_record(node->engine, seq, &record)) &&
         nm_rows_add(&rows, &record)) {
    seq = record.seq + 1;
  }
  ask->reply.cursor =
      more && seq <= nm_engine_record_last(node->engine) ? seq : 0;
  return nm_rows_finish(&rows);
}

static nm_command_run *const runs[NM_COMMAND_COUNT] = {
    [NM_COMMAND_REQUEST_PATH] = run_request_path,
    [NM_COMMAND_PATH_FIND] = run_path_find,
    [NM_COMMAND_HOPS] = run_hops,
    [NM_COMMAND_PATH_GET] = run_path_get,
    [NM_COMMAND_PATH_LIST] = run_path_list,
    [NM_COMMAND_PATH_PUT] = run_path_put,
    [NM_COMMAND_PATH_DROP] = run_path_drop,
    [NM_COMMAND_PATH_MARK] = run_path_mark,
    [NM_COMMAND_PATH_REQUEST_LIST] = run_path_request_list,
    [NM_COMMAND_RECALL] = run_recall,
    [NM_COMMAND_RECALL_IDENTITY] = run_recall_identity,
    [NM_COMMAND_REMEMBER] = run_remember,
    [NM_COMMAND_RETAIN] = run_retain,
    [NM_COMMAND_RATCHET_OF] = run_ratchet_of,
    [NM_COMMAND_KNOWN_GET] = run_known_get,
    [NM_COMMAND_KNOWN_LIST] = run_known_list,
    [NM_COMMAND_KNOWN_PUT] = run_known_put,
    [NM_COMMAND_KNOWN_DROP] = run_known_drop,
    [NM_COMMAND_KNOWN_CLEAN] = run_known_clean,
    [NM_COMMAND_BLACKHOLE] = run_blackhole,
    [NM_COMMAND_UNBLACKHOLE] = run_unblackhole,
    [NM_COMMAND_BLACKHOLE_PUT] = run_blackhole_put,
    [NM_COMMAND_BLACKHOLE_LIST] = run_blackhole_list,
    [NM_COMMAND_PATH_TAG_PUT] = run_path_tag_put,
    [NM_COMMAND_PATH_TAG_LIST] = run_path_tag_list,
    [NM_COMMAND_TABLE_LIST] = run_table_list,
    [NM_COMMAND_TABLE_PUT] = run_table_put,
    [NM_COMMAND_TABLE_DROP] = run_table_drop,
    [NM_COMMAND_HELD_RELEASE] = run_held_release,
    [NM_COMMAND_RECEIPT_LIST] = run_receipt_list,
    [NM_COMMAND_FILTER_SIZE] = run_filter_size,
    [NM_COMMAND_FILTER_HAS] = run_filter_has,
    [NM_COMMAND_FILTER_PUT] = run_filter_put,
    [NM_COMMAND_FILTER_DROP] = run_filter_drop,
    [NM_COMMAND_RECORDS] = run_records,
};

nm_command_run *nm_command_routes(nm_command_kind kind) {
  return runs[kind];
}
