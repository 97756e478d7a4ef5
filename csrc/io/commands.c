/* Commands on their way: posted, carried out, answered.
 */
#include "io/internal.h"
#include "io/mail_keep.h"
#include "wire/destination.h"
#include "wire/ratchet_file.h"

#include <string.h>

#define HEX_NAME_MAX 48
/* Room for a hundred thousand keys; 512 are kept by default. */
#define RATCHET_FILE_MAX (4u << 20)

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
