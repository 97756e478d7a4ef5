/* Commands, their replies, and what both own.
 */
#include "io/internal.h"
#include "io/mail_keep.h"

#include <stdio.h>
#include <string.h>

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

/* ---- tickets ---- */

nm_ticket *nm_ticket_new(const nm_mem *mem, uint64_t ticket) {
  nm_ticket *made = nm_alloc_zero(mem, 1, sizeof(*made));
  if (made != NULL) {
    made->ticket = ticket;
  }
  return made;
}

void nm_ticket_free(const nm_mem *mem, nm_ticket *ticket) {
  nm_release(mem, ticket);
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

void nm_store_name(char out[NM_STORE_NAME_MAX], const char *folder,
                   const nm_destination_hash *hash) {
  int len = snprintf(out, NM_STORE_NAME_MAX, "%s/", folder);
  for (size_t i = 0; i < NM_ADDRESS_SIZE; i++) {
    len += snprintf(&out[len], NM_STORE_NAME_MAX - (size_t)len, "%02x",
                    hash->b[i]);
  }
}
