/* Commands on their way: posted, carried out, answered.
 */
#include "io/internal.h"
#include "io/mail_keep.h"
#include "io/port.h"
#include "wire/destination.h"
#include "wire/ratchet_file.h"

#include <stdio.h>
#include <string.h>

#define HEX_NAME_MAX 48
/* Room for a hundred thousand keys; 512 are kept by default. */
#define RATCHET_FILE_MAX (4u << 20)

static const char *const names[] = {
    [NM_COMMAND_LISTEN] = "listen",
    [NM_COMMAND_UNLISTEN] = "unlisten",
    [NM_COMMAND_SET_PROVE] = "set_prove",
    [NM_COMMAND_PAUSE] = "pause",
    [NM_COMMAND_SHELVE] = "shelve",
    [NM_COMMAND_SET_APP_DATA] = "set_app_data",
    [NM_COMMAND_ANNOUNCE] = "announce",
    [NM_COMMAND_SUBSCRIBE] = "subscribe",
    [NM_COMMAND_UNSUBSCRIBE] = "unsubscribe",
    [NM_COMMAND_HANDLE] = "handle",
    [NM_COMMAND_UNHANDLE] = "unhandle",
    [NM_COMMAND_RATCHET_IDS] = "ratchet_ids",
    [NM_COMMAND_RATCHET_STATE] = "ratchet_state",
    [NM_COMMAND_ROTATE] = "rotate",
    [NM_COMMAND_RATCHET_FILE] = "ratchet_file",
    [NM_COMMAND_SEND] = "send",
    [NM_COMMAND_RECEIPT_TIMEOUT] = "receipt_timeout",
    [NM_COMMAND_INJECT] = "inject",
    [NM_COMMAND_FEED] = "feed",
    [NM_COMMAND_PROBE] = "probe",
    [NM_COMMAND_LINK_OPEN] = "link_open",
    [NM_COMMAND_LINK_CLOSE] = "link_close",
    [NM_COMMAND_LINK_IDENTIFY] = "link_identify",
    [NM_COMMAND_LINK_SEND] = "link_send",
    [NM_COMMAND_LINK_TUNE] = "link_tune",
    [NM_COMMAND_LINK_POLICY] = "link_policy",
    [NM_COMMAND_LINK_PROVE] = "link_prove",
    [NM_COMMAND_LINK_PAUSE] = "link_pause",
    [NM_COMMAND_LINK_SHELVE] = "link_shelve",
    [NM_COMMAND_LINK_TRACK] = "link_track",
    [NM_COMMAND_LINK_INFO] = "link_info",
    [NM_COMMAND_LINK_LIST] = "link_list",
    [NM_COMMAND_LINK_BY_ID] = "link_by_id",
    [NM_COMMAND_LINK_SEAL] = "link_seal",
    [NM_COMMAND_LINK_UNSEAL] = "link_unseal",
    [NM_COMMAND_REQUEST] = "request",
    [NM_COMMAND_RESPOND] = "respond",
    [NM_COMMAND_RESPOND_FILE] = "respond_file",
    [NM_COMMAND_RESOURCE_SEND] = "resource_send",
    [NM_COMMAND_TRANSFER_INFO] = "transfer_info",
    [NM_COMMAND_TRANSFER_LIST] = "transfer_list",
    [NM_COMMAND_ACCEPT] = "accept",
    [NM_COMMAND_REFUSE] = "refuse",
    [NM_COMMAND_CANCEL] = "cancel",
    [NM_COMMAND_CHANNEL_OPEN] = "channel_open",
    [NM_COMMAND_CHANNEL_REGISTER] = "channel_register",
    [NM_COMMAND_CHANNEL_SEND] = "channel_send",
    [NM_COMMAND_CHANNEL_PAUSE] = "channel_pause",
    [NM_COMMAND_CHANNEL_INFO] = "channel_info",
    [NM_COMMAND_CHANNEL_SENT] = "channel_sent",
    [NM_COMMAND_CHANNEL_AHEAD] = "channel_ahead",
    [NM_COMMAND_STREAM_WRITE] = "stream_write",
    [NM_COMMAND_STREAM_REPORTS] = "stream_reports",
    [NM_COMMAND_REQUEST_PATH] = "request_path",
    [NM_COMMAND_PATH_FIND] = "path_find",
    [NM_COMMAND_HOPS] = "hops",
    [NM_COMMAND_PATH_GET] = "path_get",
    [NM_COMMAND_PATH_LIST] = "path_list",
    [NM_COMMAND_PATH_PUT] = "path_put",
    [NM_COMMAND_PATH_DROP] = "path_drop",
    [NM_COMMAND_PATH_MARK] = "path_mark",
    [NM_COMMAND_PATH_REQUEST_LIST] = "path_request_list",
    [NM_COMMAND_RECALL] = "recall",
    [NM_COMMAND_RECALL_IDENTITY] = "recall_identity",
    [NM_COMMAND_REMEMBER] = "remember",
    [NM_COMMAND_RETAIN] = "retain",
    [NM_COMMAND_RATCHET_OF] = "ratchet_of",
    [NM_COMMAND_KNOWN_GET] = "known_get",
    [NM_COMMAND_KNOWN_LIST] = "known_list",
    [NM_COMMAND_KNOWN_PUT] = "known_put",
    [NM_COMMAND_KNOWN_DROP] = "known_drop",
    [NM_COMMAND_KNOWN_CLEAN] = "known_clean",
    [NM_COMMAND_BLACKHOLE] = "blackhole",
    [NM_COMMAND_UNBLACKHOLE] = "unblackhole",
    [NM_COMMAND_BLACKHOLE_PUT] = "blackhole_put",
    [NM_COMMAND_BLACKHOLE_LIST] = "blackhole_list",
    [NM_COMMAND_PATH_TAG_PUT] = "path_tag_put",
    [NM_COMMAND_PATH_TAG_LIST] = "path_tag_list",
    [NM_COMMAND_TABLE_LIST] = "table_list",
    [NM_COMMAND_TABLE_PUT] = "table_put",
    [NM_COMMAND_TABLE_DROP] = "table_drop",
    [NM_COMMAND_HELD_RELEASE] = "held_release",
    [NM_COMMAND_RECEIPT_LIST] = "receipt_list",
    [NM_COMMAND_FILTER_SIZE] = "filter_size",
    [NM_COMMAND_FILTER_HAS] = "filter_has",
    [NM_COMMAND_FILTER_PUT] = "filter_put",
    [NM_COMMAND_FILTER_DROP] = "filter_drop",
    [NM_COMMAND_RECORDS] = "records",
    [NM_COMMAND_IFACE_ADD] = "iface_add",
    [NM_COMMAND_IFACE_CHANGE] = "iface_change",
    [NM_COMMAND_IFACE_PAUSE] = "iface_pause",
    [NM_COMMAND_IFACE_RESUME] = "iface_resume",
    [NM_COMMAND_IFACE_REMOVE] = "iface_remove",
    [NM_COMMAND_IFACE_TUNNEL] = "iface_tunnel",
    [NM_COMMAND_IFACE_LIST] = "iface_list",
    [NM_COMMAND_IFACE_DEVICES] = "iface_devices",
    [NM_COMMAND_MAIL_OPEN] = "mail_open",
    [NM_COMMAND_MAIL_CLOSE] = "mail_close",
    [NM_COMMAND_MAIL_DESCRIBE] = "mail_describe",
    [NM_COMMAND_MAIL_PAUSE] = "mail_pause",
    [NM_COMMAND_MAIL_IGNORE] = "mail_ignore",
    [NM_COMMAND_MAIL_SEND] = "mail_send",
    [NM_COMMAND_MAIL_CANCEL] = "mail_cancel",
    [NM_COMMAND_MAIL_SET_NODE] = "mail_set_node",
    [NM_COMMAND_MAIL_SYNC] = "mail_sync",
    [NM_COMMAND_MAIL_SYNC_CANCEL] = "mail_sync_cancel",
    [NM_COMMAND_MAIL_INGEST] = "mail_ingest",
    [NM_COMMAND_MAIL_TICKET] = "mail_ticket",
    [NM_COMMAND_MAIL_ACK] = "mail_ack",
    [NM_COMMAND_MAIL_STATS] = "mail_stats",
    [NM_COMMAND_STATS] = "stats",
    [NM_COMMAND_LIMITS] = "limits",
    [NM_COMMAND_SET_IMPLICIT_PROOFS] = "set_implicit_proofs",
    [NM_COMMAND_TAP] = "tap",
    [NM_COMMAND_PERSIST] = "persist",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == NM_COMMAND_COUNT,
               "every command has a name");

const char *nm_command_name(nm_command_kind kind) {
  return (unsigned)kind < NM_COMMAND_COUNT ? names[kind] : "unknown";
}

/* So that a link may have its memory then: the class of 576 bytes. */
#define LINK_OPEN_SIZE (offsetof(nm_ask, c) + offsetof(nm_command, u))
_Static_assert(sizeof(void *) != 8 ||
                   (LINK_OPEN_SIZE > 512 && LINK_OPEN_SIZE <= 576),
               "a command that opens a link is as large as a link");

size_t nm_command_size(nm_command_kind kind) {
  const nm_command *c = NULL;
  size_t base = offsetof(nm_command, u);
  switch (kind) {
  case NM_COMMAND_LISTEN:
    return base + sizeof(c->u.listen);
  case NM_COMMAND_SEND:
    return base + sizeof(c->u.send);
  case NM_COMMAND_LINK_TUNE:
    return base + sizeof(c->u.tune);
  case NM_COMMAND_LINK_BY_ID:
    return base + sizeof(c->u.link_id);
  case NM_COMMAND_PATH_PUT:
    return base + sizeof(c->u.path);
  case NM_COMMAND_KNOWN_PUT:
    return base + sizeof(c->u.known);
  case NM_COMMAND_BLACKHOLE_PUT:
    return base + sizeof(c->u.blackhole);
  case NM_COMMAND_PATH_TAG_PUT:
  case NM_COMMAND_PATH_TAG_LIST:
    return base + sizeof(c->u.path_tag);
  case NM_COMMAND_TABLE_LIST:
  case NM_COMMAND_TABLE_PUT:
  case NM_COMMAND_TABLE_DROP:
    return base + sizeof(c->u.entry);
  case NM_COMMAND_IFACE_ADD:
    return base + sizeof(c->u.iface);
  case NM_COMMAND_IFACE_CHANGE:
    return base + sizeof(c->u.spec);
  case NM_COMMAND_MAIL_OPEN:
  case NM_COMMAND_MAIL_DESCRIBE:
    return base + sizeof(c->u.mailbox);
  case NM_COMMAND_MAIL_SEND:
    return base + sizeof(c->u.letter);
  case NM_COMMAND_MAIL_SYNC:
    return base + sizeof(c->u.mail_sync);
  default:
    return base;
  }
}

/* Interface properties hold access keys: |size| bytes are wiped. */
static void dispose_command(nm_command *command, size_t size) {
  nm_block_drop(command->data);
  nm_block_drop(command->extra);
  nm_block_drop(command->key);
  nm_source_drop(command->source);
  nm_shelf_drop(command->shelf);
  switch (command->kind) {
  case NM_COMMAND_PATH_PUT:
    nm_path_record_dispose(&command->u.path);
    break;
  case NM_COMMAND_KNOWN_PUT:
    nm_known_record_dispose(&command->u.known);
    break;
  case NM_COMMAND_BLACKHOLE_PUT:
    nm_blackhole_record_dispose(&command->u.blackhole);
    break;
  case NM_COMMAND_TABLE_LIST:
  case NM_COMMAND_TABLE_PUT:
  case NM_COMMAND_TABLE_DROP:
    nm_transport_record_dispose(command->u.entry.table,
                                &command->u.entry.record);
    break;
  case NM_COMMAND_IFACE_ADD:
    if (command->u.iface.medium == NM_MEDIUM_PIPE) {
      nm_fd_close(command->u.iface.fd);
    }
    break;
  default:
    break;
  }
  nm_wipe(command, size);
}

void nm_command_dispose(nm_command *command) {
  dispose_command(command, sizeof(*command));
}

/* ---- records in replies ---- */

static void dispose_rows(nm_command_kind kind, void *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    switch (kind) {
    case NM_COMMAND_PATH_FIND:
    case NM_COMMAND_PATH_GET:
    case NM_COMMAND_PATH_LIST:
      nm_path_record_dispose(&((nm_path_record *)rows)[i]);
      break;
    case NM_COMMAND_KNOWN_GET:
    case NM_COMMAND_KNOWN_LIST:
      nm_known_record_dispose(&((nm_known_record *)rows)[i]);
      break;
    case NM_COMMAND_BLACKHOLE_LIST:
      nm_blackhole_record_dispose(&((nm_blackhole_record *)rows)[i]);
      break;
    case NM_COMMAND_TABLE_LIST: {
      nm_table_entry *entry = &((nm_table_entry *)rows)[i];
      nm_transport_record_dispose(entry->table, &entry->record);
      break;
    }
    default:
      return;
    }
  }
}

void nm_reply_dispose(nm_reply *reply) {
  nm_block_drop(reply->data);
  if (reply->records != NULL) {
    dispose_rows(reply->command, nm_block_bytes(reply->records),
                 reply->record_count);
    nm_block_drop(reply->records);
  }
  memset(reply, 0, sizeof(*reply));
}

void nm_rows_init(nm_rows *rows, const nm_mem *mem, nm_ask *ask, size_t size) {
  nm_buffer_init(&rows->bytes, mem, NULL, 0, 0);
  rows->ask = ask;
  rows->row_size = size;
  rows->count = 0;
  rows->status = NM_OK;
}

bool nm_rows_add(nm_rows *rows, const void *row) {
  if (rows->status == NM_OK) {
    rows->status = nm_buffer_append(&rows->bytes, row, rows->row_size);
    rows->count += rows->status == NM_OK;
  }
  return rows->status == NM_OK;
}

int nm_rows_finish(nm_rows *rows) {
  nm_reply *reply = &rows->ask->reply;
  nm_buffer *bytes = &rows->bytes;
  reply->command = rows->ask->c.kind;
  if (rows->status == NM_OK) {
    reply->records =
        nm_block_copy(bytes->mem, nm_span_of(bytes->ptr, bytes->len));
    rows->status = reply->records == NULL ? NM_E(MEMORY) : NM_OK;
  }
  if (rows->status == NM_OK) {
    reply->record_count = rows->count;
  } else {
    dispose_rows(reply->command, bytes->ptr, rows->count);
  }
  nm_buffer_dispose(bytes);
  return rows->status;
}

/* ---- answers ---- */

void nm_ask_free(const nm_mem *mem, nm_ask *ask) {
  dispose_command(&ask->c, nm_command_size(ask->c.kind));
  if (ask->identity != NULL) {
    nm_identity_wipe(ask->identity);
    nm_release(mem, ask->identity);
  }
  nm_block_drop(ask->ratchet_file);
  nm_mail_load_free(mem, ask->mail_load);
  nm_ticket_free(mem, ask->ticket);
  nm_reply_dispose(&ask->reply);
  nm_release(mem, ask);
}

void nm_ask_reply(nm_node *node, nm_ask *ask, int status) {
  nm_ask_reply_at(node, ask, status, node->loop->now);
}

void nm_ask_reply_at(nm_node *node, nm_ask *ask, int status, nm_now at) {
  ask->reply.command = ask->c.kind;
  ask->reply.status = status < 0 ? status : NM_OK;
  ask->reply.at = at;
  if (ask->ticket != NULL) {
    nm_ticket_free(node->mem, ask->ticket);
    ask->ticket = NULL;
  }
  ask->next = NULL;
  if (node->replies == NULL) {
    node->replies = ask;
  } else {
    node->replies_end->next = ask;
  }
  node->replies_end = ask;
  nm_node_wake(node);
}

void nm_ask_started(nm_node *node, nm_ask *ask, nm_op_id op) {
  ask->reply.op = op;
  if (op != 0) {
    (void)nm_tickets_put_op(&node->tickets, ask->ticket, op);
    ask->ticket = NULL;
  }
}

/* ---- before the post, on the caller's thread ---- */

static bool starts_something(const nm_command *c) {
  switch (c->kind) {
  case NM_COMMAND_ANNOUNCE:
  case NM_COMMAND_SEND:
  case NM_COMMAND_LINK_OPEN:
  case NM_COMMAND_LINK_SEND:
  case NM_COMMAND_REQUEST:
  case NM_COMMAND_RESOURCE_SEND:
  case NM_COMMAND_CHANNEL_SEND:
  case NM_COMMAND_STREAM_WRITE:
  case NM_COMMAND_REQUEST_PATH:
  case NM_COMMAND_PATH_FIND:
    return true;
  default:
    return false;
  }
}

/* Destinations whose keys and times are stored. */
static bool opens_destination(const nm_command *c) {
  return c->kind == NM_COMMAND_LISTEN || c->kind == NM_COMMAND_MAIL_OPEN;
}

static int take_key(nm_node *node, nm_ask *ask) {
  const nm_command *c = &ask->c;
  bool wanted = (opens_destination(c) && c->key != NULL) ||
                c->kind == NM_COMMAND_LINK_IDENTIFY ||
                c->kind == NM_COMMAND_REMEMBER;
  if (!wanted) {
    return NM_OK;
  }
  ask->identity = nm_alloc_zero(node->mem, 1, sizeof(*ask->identity));
  if (ask->identity == NULL) {
    return NM_E(MEMORY);
  }
  nm_span key = nm_block_span(c->key);
  return c->kind == NM_COMMAND_REMEMBER
             ? nm_identity_init_public(ask->identity, key)
             : nm_identity_init_private(ask->identity, key);
}

void nm_store_name(char out[NM_STORE_NAME_MAX], const char *folder,
                   const nm_destination_hash *hash) {
  int len = snprintf(out, NM_STORE_NAME_MAX, "%s/", folder);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    len += snprintf(&out[len], NM_STORE_NAME_MAX - (size_t)len, "%02x",
                    hash->b[i]);
  }
}

static int check_ratchets(nm_span file, const nm_identity *identity) {
  nm_ratchet_file parsed;
  int status = nm_ratchet_file_parse(file, UINT32_MAX, &parsed, NULL);
  return status == NM_OK ? nm_ratchet_file_verify(&parsed, identity) : status;
}

static int check_time(nm_span file) {
  return file.len == sizeof(uint64_t) ? NM_OK : NM_E(LENGTH);
}

/* Sets aside what cannot be used; without memory nothing is decided. */
static int judge(nm_node *node, const char *name, int status, int *aside) {
  if (status == NM_E(MEMORY)) {
    return status;
  }
  if (status != NM_OK && status != NM_E(MISSING)) {
    nm_store_set_aside(node->store, name);
    *aside = status;
  }
  return NM_OK;
}

static int read_ratchets(nm_node *node, nm_ask *ask) {
  char name[NM_STORE_NAME_MAX];
  nm_store_name(name, "ratchets", &ask->c.destination);
  int status =
      nm_store_read(node->store, name, RATCHET_FILE_MAX, &ask->ratchet_file);
  if (status == NM_OK) {
    status = check_ratchets(nm_block_span(ask->ratchet_file), ask->identity);
  }
  if (status != NM_OK) {
    nm_block_drop(ask->ratchet_file);
    ask->ratchet_file = NULL;
  }
  return judge(node, name, status, &ask->ratchets_status);
}

static int read_time(nm_node *node, nm_ask *ask) {
  char name[NM_STORE_NAME_MAX];
  nm_block *bytes = NULL;
  nm_store_name(name, "announced", &ask->c.destination);
  int status = nm_store_read(node->store, name, sizeof(uint64_t), &bytes);
  if (status == NM_OK) {
    status = check_time(nm_block_span(bytes));
  }
  if (status == NM_OK) {
    nm_reader r = nm_reader_of(nm_block_span(bytes));
    ask->last_emitted = nm_reader_u64(&r);
  }
  nm_block_drop(bytes);
  return judge(node, name, status, &ask->time_status);
}

/* What was stored for the destination that is to be listened on. What this
 * process has stored meanwhile is newer and goes first (save.c). */
static int read_stored(nm_node *node, nm_ask *ask) {
  bool mail = ask->c.kind == NM_COMMAND_MAIL_OPEN;
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, mail ? nm_mail_name() : nm_block_span(ask->c.data));
  nm_destination_address(name_hash, &ask->identity->hash, &ask->c.destination);
  bool ratchets = mail || ask->c.u.listen.ratchets;
  int status = ratchets ? read_ratchets(node, ask) : NM_OK;
  return status == NM_OK ? read_time(node, ask) : status;
}

static int prepare(nm_node *node, nm_ask *ask) {
  if ((unsigned)ask->c.kind >= NM_COMMAND_COUNT) {
    return NM_E(ARGUMENT);
  }
  int status = take_key(node, ask);
  if (status != NM_OK) {
    return status == NM_E(LENGTH) ? NM_E(ARGUMENT) : status;
  }
  if (opens_destination(&ask->c) && node->store != NULL && ask->c.key != NULL) {
    status = read_stored(node, ask);
    if (status != NM_OK) {
      return status;
    }
  }
  if (ask->c.kind == NM_COMMAND_MAIL_OPEN && ask->c.on &&
      node->mail_path != NULL && ask->identity != NULL) {
    status = nm_mail_load_read(node, ask);
    if (status != NM_OK) {
      return status;
    }
  }
  if (starts_something(&ask->c)) {
    ask->ticket = nm_ticket_new(node->mem, ask->c.ticket);
    if (ask->ticket == NULL) {
      return NM_E(MEMORY);
    }
    ask->ticket->quiet = ask->c.quiet;
  }
  return NM_OK;
}

/* ---- on the loop ---- */

static nm_command_run *runner(nm_command_kind kind) {
  nm_command_run *run = nm_command_local(kind);
  run = run != NULL ? run : nm_command_links(kind);
  run = run != NULL ? run : nm_command_channels(kind);
  run = run != NULL ? run : nm_command_routes(kind);
  run = run != NULL ? run : nm_command_mail(kind);
  return run != NULL ? run : nm_command_ports(kind);
}

/* A thousand commands may come at once, and each may make a job. Those beyond
 * what a round has room for wait as they are, which takes less memory than
 * links, jobs and packets that wait. Their order stays. */
#define ASKS_PER_ROUND 64
#define JOBS_WAITING_MOST 64

static bool has_room(const nm_node *node) {
  return node->asks_left > 0 &&
         node->waiting.count + node->work_out < JOBS_WAITING_MOST;
}

bool nm_node_may_resume(const nm_node *node) {
  return node->deferred != NULL &&
         node->waiting.count + node->work_out < JOBS_WAITING_MOST;
}

static bool is_deferred(nm_node *node, nm_post *post) {
  if (post == node->resumed) {
    node->resumed = NULL;
    return false;
  }
  if (node->phase != NM_NODE_IS_OPEN ||
      (node->deferred == NULL && has_room(node))) {
    node->asks_left -= node->asks_left > 0;
    return false;
  }
  post->next = NULL;
  if (node->deferred == NULL) {
    node->deferred = post;
  } else {
    node->deferred_end->next = post;
  }
  node->deferred_end = post;
  nm_node_wake(node);
  return true;
}

bool nm_node_resume(nm_node *node, bool all) {
  bool any = false;
  node->asks_left = ASKS_PER_ROUND;
  while (node->deferred != NULL && (all || has_room(node))) {
    nm_post *post = node->deferred;
    node->deferred = post->next;
    node->resumed = post;
    node->asks_left -= node->asks_left > 0;
    post->run(node->loop, post);
    any = true;
  }
  return any;
}

static void on_ask(nm_loop *loop, nm_post *post) {
  nm_ask *ask = (nm_ask *)(void *)post;
  nm_node *node = ask->node;
  if (is_deferred(node, post)) {
    return;
  }
  (void)nm_loop_now(loop);
  atomic_fetch_sub(&node->unrun, 1);
  node->stats.commands++;
  int status = NM_E(STATE);
  if (node->phase == NM_NODE_IS_OPEN) {
    nm_node_grant(node);
    status = runner(ask->c.kind)(node, ask);
  }
  if (status != NM_LATER) {
    nm_ask_reply(node, ask, status);
  }
  nm_node_wake(node);
  nm_node_drop(node);
}

static int post_ask(nm_node *node, nm_ask *ask) {
  atomic_fetch_add(&node->unrun, 1);
  int status = NM_E(STATE);
  if (!atomic_load(&node->closing)) {
    ask->post.run = on_ask;
    (void)nm_node_hold(node);
    status = nm_loop_post(node->loop, &ask->post);
    if (status != NM_OK) {
      nm_node_drop(node);
    }
  }
  if (status != NM_OK) {
    atomic_fetch_sub(&node->unrun, 1);
    nm_node_kick(node); /* a close may have waited for this one */
  }
  return status;
}

int nm_node_command(nm_node *node, nm_command *command) {
  if (nm_loop_is_foreign(node->loop) || atomic_load(&node->closing)) {
    nm_command_dispose(command);
    return NM_E(STATE);
  }
  if (atomic_fetch_add(&node->asks, 1) >= node->asks_max) {
    atomic_fetch_sub(&node->asks, 1);
    nm_command_dispose(command);
    return NM_E(LIMIT);
  }
  size_t size = nm_command_size(command->kind);
  nm_ask *ask = nm_alloc_zero(node->mem, 1, offsetof(nm_ask, c) + size);
  int status = NM_E(MEMORY);
  if (ask != NULL) {
    ask->node = node;
    memcpy(&ask->c, command, size);
    nm_wipe(command, sizeof(*command));
    status = prepare(node, ask);
    if (status == NM_OK) {
      status = post_ask(node, ask);
    }
    if (status != NM_OK) {
      nm_ask_free(node->mem, ask);
    }
  } else {
    nm_command_dispose(command);
  }
  if (status != NM_OK) {
    atomic_fetch_sub(&node->asks, 1);
  }
  return status;
}

/* ---- cancelling ---- */

typedef struct cancel_post {
  nm_post post;
  nm_node *node;
  uint64_t ticket;
} cancel_post;

static void on_cancel(nm_loop *loop, nm_post *post) {
  cancel_post *cancel = (cancel_post *)(void *)post;
  nm_node *node = cancel->node;
  if (is_deferred(node, post)) {
    return;
  }
  nm_op_id op;
  nm_link_ref link;
  nm_now now = nm_loop_now(loop);
  if (node->phase == NM_NODE_IS_OPEN &&
      nm_tickets_find(&node->tickets, cancel->ticket, &op, &link)) {
    if (op != 0) {
      (void)nm_engine_cancel(node->engine, op, now);
    } else {
      (void)nm_engine_link_close(node->engine, link, now);
    }
    nm_node_wake(node);
  } else if (node->phase == NM_NODE_IS_OPEN) {
    nm_mail_cancel_ticket(node, cancel->ticket);
  }
  nm_release(node->mem, cancel);
  nm_node_drop(node);
}

int nm_node_cancel(nm_node *node, uint64_t ticket) {
  if (nm_loop_is_foreign(node->loop) || atomic_load(&node->closing)) {
    return NM_E(STATE);
  }
  cancel_post *cancel = nm_alloc_zero(node->mem, 1, sizeof(*cancel));
  if (cancel == NULL) {
    return NM_E(MEMORY);
  }
  cancel->post.run = on_cancel;
  cancel->node = nm_node_hold(node);
  cancel->ticket = ticket;
  int status = nm_loop_post(node->loop, &cancel->post);
  if (status != NM_OK) {
    nm_node_drop(node);
    nm_release(node->mem, cancel);
  }
  return status;
}
