/* The node itself, what a server does with its events, and messages. */
#include "nodes_internal.h"

#include "wire/lxmf_message.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAKE_MS 50
/* How long an announce is waited for before its path is asked for. */
#define ASK_MS 500
#define PATIENCE_MS 10000u

const char *nb_kind_name(nb_kind kind) {
  static const char *const names[NB_KIND_COUNT] = {
      [NB_DISCOVERY] = "discovery",
      [NB_LINK] = "link",
      [NB_REQUEST] = "request",
      [NB_PACKET] = "packet",
      [NB_DIRECT] = "direct",
      [NB_COLD] = "cold",
      [NB_OPPORTUNISTIC] = "opportunistic",
      [NB_DELIVER] = "deliver",
      [NB_RESOURCE] = "resource",
      [NB_LINKS] = "links",
      [NB_CHANNEL] = "channel",
      [NB_BUFFER] = "buffer",
      [NB_IDLE] = "idle",
  };
  return kind < NB_KIND_COUNT ? names[kind] : "unknown";
}

uint64_t nb_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

nm_block *nb_block_of(const void *bytes, size_t len) {
  return nm_block_copy(&nm_mem_system, nm_span_of(bytes, len));
}

/* ---- commands and events, for the thread that reads ---- */

int nb_post(nb_node *n, nm_command *c, uint64_t *ticket) {
  c->ticket = atomic_fetch_add(&n->tickets, 1) + 1;
  *ticket = c->ticket;
  return nm_node_command(n->node, c);
}

bool nb_next(nb_node *n, nm_node_event *event, uint64_t deadline_ns) {
  while (!nm_node_next(n->node, event)) {
    uint64_t now = nb_now_ns();
    if (now >= deadline_ns) {
      return false;
    }
    uint64_t left_ms = (deadline_ns - now) / 1000000u + 1;
    (void)nm_node_wait(n->node, (int)(left_ms < 1000 ? left_ms : 1000));
  }
  return true;
}

static void hear(nb_node *n, const nm_event *announce) {
  if (announce->public_key == NULL) {
    return;
  }
  pthread_mutex_lock(&n->lock);
  if (n->heard_count < NB_HEARD_MAX) {
    nb_heard *heard = &n->heard[n->heard_count++];
    heard->hash = announce->destination;
    memcpy(heard->key, nm_block_span(announce->public_key).ptr, NM_PUBLIC_SIZE);
  }
  pthread_mutex_unlock(&n->lock);
}

static bool find_heard(nb_node *n, const nm_destination_hash *hash,
                       nb_heard *out) {
  bool found = false;
  pthread_mutex_lock(&n->lock);
  for (size_t i = 0; i < n->heard_count && !found; i++) {
    if (memcmp(n->heard[i].hash.b, hash->b, NM_ADDRESS_SIZE) == 0) {
      *out = n->heard[i];
      found = true;
    }
  }
  pthread_mutex_unlock(&n->lock);
  return found;
}

int nb_reply(nb_node *n, uint64_t ticket, uint64_t deadline_ns, nm_reply *out) {
  nm_node_event event;
  while (nb_next(n, &event, deadline_ns)) {
    bool mine = event.kind == NM_NODE_REPLY && event.ticket == ticket;
    if (mine) {
      *out = event.u.reply;
      int status = out->status;
      nm_node_event_dispose(&event);
      out->data = NULL;
      out->records = NULL;
      return status;
    }
    if (event.kind == NM_NODE_EVENT &&
        event.u.event.kind == NM_EVENT_ANNOUNCE) {
      hear(n, &event.u.event);
    }
    nm_node_event_dispose(&event);
  }
  return NM_E(TIMEOUT);
}

int nb_ask(nb_node *n, nm_command *c, nm_reply *reply) {
  uint64_t ticket;
  int status = nb_post(n, c, &ticket);
  return status != NM_OK
             ? status
             : nb_reply(n, ticket, nb_now_ns() + NB_PATIENCE_NS, reply);
}

/* ---- life ---- */

static int add_interface(nb_node *n, bool server, uint16_t port) {
  nm_reply reply;
  nm_command c = {.kind = NM_COMMAND_IFACE_ADD};
  int status = nm_iface_setup_default(
      &c.u.iface, server ? NM_MEDIUM_TCP_SERVER : NM_MEDIUM_TCP_CLIENT,
      "bench");
  if (status != NM_OK) {
    return status;
  }
  memcpy(c.u.iface.host, "127.0.0.1", sizeof("127.0.0.1"));
  c.u.iface.port = port;
  return nb_ask(n, &c, &reply);
}

static int wait_online(nb_node *n) {
  nm_node_event event;
  while (nb_next(n, &event, nb_now_ns() + NB_PATIENCE_NS)) {
    bool online = event.kind == NM_NODE_EVENT &&
                  event.u.event.kind == NM_EVENT_IFACE &&
                  event.u.event.state == NM_IFACE_ONLINE;
    nm_node_event_dispose(&event);
    if (online) {
      return NM_OK;
    }
  }
  return NM_E(TIMEOUT);
}

static int start(nb_node *n, bool server, uint16_t port) {
  nm_reply reply;
  nm_command subscribe = {.kind = NM_COMMAND_SUBSCRIBE, .on = true};
  int status = nm_loop_start(NULL, &n->loop);
  if (status == NM_OK) {
    status = nm_node_open(n->loop, NULL, &n->node, NULL);
  }
  if (status == NM_OK) {
    status = nb_ask(n, &subscribe, &reply);
  }
  if (status == NM_OK) {
    status = add_interface(n, server, port);
  }
  return status == NM_OK && !server ? wait_online(n) : status;
}

int nb_node_open(bool server, uint16_t port, nb_kind kind, nb_node **node) {
  nb_node *n = calloc(1, sizeof(*n));
  if (n == NULL) {
    return NM_E(MEMORY);
  }
  n->kind = kind;
  nm_buffer_init(&n->stream, &nm_mem_system, NULL, 0, 0);
  (void)pthread_mutex_init(&n->lock, NULL);
  int status = start(n, server, port);
  if (status != NM_OK) {
    nb_node_close(n);
    return status;
  }
  *node = n;
  return NM_OK;
}

void nb_node_close(nb_node *n) {
  if (n == NULL) {
    return;
  }
  if (n->serving) {
    atomic_store(&n->stop, true);
    (void)pthread_join(n->thread, NULL);
  }
  nm_node_release(n->node);
  (void)nm_loop_stop(n->loop);
  nb_arrivals_free(n->arrivals, n->arrival_count);
  nm_buffer_dispose(&n->stream);
  nm_identity_wipe(&n->identity);
  (void)pthread_mutex_destroy(&n->lock);
  free(n);
}

int nb_node_listen(nb_node *n, const char *name, const uint8_t *private_key,
                   nm_destination_hash *hash) {
  nm_reply reply;
  int status = nm_identity_init_private(
      &n->identity, nm_span_of(private_key, NM_PRIVATE_SIZE));
  nm_command c = {.kind = NM_COMMAND_LISTEN,
                  .key = nb_block_of(private_key, NM_PRIVATE_SIZE),
                  .data = nb_block_of(name, strlen(name))};
  nm_dest_spec_default(&c.u.listen);
  c.u.listen.prove = NM_PROVE_ALL;
  c.u.listen.resources = NM_ACCEPT_ALL;
  c.u.listen.channels = n->kind == NB_CHANNEL || n->kind == NB_BUFFER;
  if (status == NM_OK) {
    status = nb_ask(n, &c, &reply);
  } else {
    nm_command_dispose(&c);
  }
  if (status != NM_OK) {
    return status;
  }
  n->own = *hash = reply.destination;
  nm_command handle = {.kind = NM_COMMAND_HANDLE,
                       .destination = n->own,
                       .allow = NM_ALLOW_ALL,
                       .data = nb_block_of(NB_PATH, sizeof(NB_PATH) - 1)};
  return nb_ask(n, &handle, &reply);
}

int nb_node_announce(nb_node *n) {
  uint64_t ticket;
  nm_command c = {.kind = NM_COMMAND_ANNOUNCE, .destination = n->own};
  return nb_post(n, &c, &ticket);
}

/* A moment in which an announce may come. */
static void listen_a_moment(nb_node *n) {
  nm_node_event event;
  if (n->serving) {
    const struct timespec moment = {0, 1000000};
    (void)nanosleep(&moment, NULL);
  } else if (nb_next(n, &event, nb_now_ns() + WAKE_MS * 1000000u)) {
    if (event.kind == NM_NODE_EVENT &&
        event.u.event.kind == NM_EVENT_ANNOUNCE) {
      hear(n, &event.u.event);
    }
    nm_node_event_dispose(&event);
  }
}

int nb_node_meet(nb_node *n, const nm_destination_hash *hash, int timeout_ms) {
  nb_heard heard;
  uint64_t ticket;
  uint64_t now = nb_now_ns();
  uint64_t deadline = now + (uint64_t)timeout_ms * 1000000u;
  uint64_t ask = now + ASK_MS * 1000000u;
  while (!find_heard(n, hash, &heard)) {
    now = nb_now_ns();
    if (now > deadline) {
      return NM_E(TIMEOUT);
    }
    if (now > ask) {
      /* It may have been announced before we were connected. */
      nm_command c = {.kind = NM_COMMAND_REQUEST_PATH, .destination = *hash};
      (void)nb_post(n, &c, &ticket);
      ask = now + PATIENCE_MS * 1000000u;
    }
    listen_a_moment(n);
  }
  return NM_OK;
}

/* ---- what a server does ---- */

/* Takes |block| over. */
static void arrive(nb_node *n, uint64_t at_ns, nm_block *block,
                   nm_span payload) {
  pthread_mutex_lock(&n->lock);
  if (n->arrival_count == n->arrival_cap) {
    size_t cap = n->arrival_cap == 0 ? 256 : 2 * n->arrival_cap;
    nb_arrival *grown = realloc(n->arrivals, cap * sizeof(*grown));
    if (grown != NULL) {
      n->arrivals = grown;
      n->arrival_cap = cap;
    } else {
      n->fault = NM_E(MEMORY);
    }
  }
  if (n->arrival_count < n->arrival_cap) {
    n->arrivals[n->arrival_count++] =
        (nb_arrival){.at_ns = at_ns, .block = block, .payload = payload};
    block = NULL;
  }
  pthread_mutex_unlock(&n->lock);
  nm_block_drop(block);
}

static bool is_message(nb_kind kind) {
  return kind == NB_DIRECT || kind == NB_COLD || kind == NB_OPPORTUNISTIC ||
         kind == NB_DELIVER;
}

/* Decodes and verifies a message: its content. */
static int open_message(nb_node *n, nm_span packed, nm_span *content) {
  nb_heard heard;
  nm_lxmf_view view;
  nm_fault fault;
  uint8_t id[NM_HASH_SIZE];
  nm_buffer scratch;
  int status =
      n->kind == NB_OPPORTUNISTIC
          ? nm_lxmf_decode_opportunistic(packed, &n->own, NULL, &view, &fault)
          : nm_lxmf_decode(packed, NULL, &view, &fault);
  if (status != NM_OK) {
    return status;
  }
  if (!find_heard(n, &view.source, &heard)) {
    return NM_E(NO_KEY);
  }
  nm_buffer_init(&scratch, &nm_mem_system, NULL, 0, 0);
  status = nm_lxmf_verify(&view, heard.key + NM_KEY_SIZE, &scratch, id);
  nm_buffer_dispose(&scratch);
  *content = view.content;
  return status;
}

static void take_data(nb_node *n, nm_event *e) {
  nm_block *block = e->data;
  if (block == NULL) {
    return;
  }
  e->data = NULL;
  nm_span payload = nm_block_span(block);
  int status = is_message(n->kind) ? open_message(n, payload, &payload) : NM_OK;
  if (status != NM_OK) {
    n->fault = status;
  }
  arrive(n, nb_now_ns(), block, payload);
}

/* Answers with the bytes of a msgpack bin in reverse order. */
static void answer(nb_node *n, nm_event *e) {
  uint8_t out[2 + 255];
  uint64_t ticket;
  nm_span data = nm_block_span(e->data);
  if (data.len < 2 || data.ptr[0] != 0xc4 || data.len != data.ptr[1] + 2u) {
    n->fault = NM_E(TYPE);
    return;
  }
  size_t len = data.len - 2;
  memcpy(out, data.ptr, 2);
  for (size_t i = 0; i < len; i++) {
    out[2 + i] = data.ptr[1 + len - i];
  }
  nm_command c = {.kind = NM_COMMAND_RESPOND,
                  .token = e->token,
                  .data = nb_block_of(out, 2 + len)};
  (void)nb_post(n, &c, &ticket);
  nm_block *block = e->data;
  e->data = NULL;
  arrive(n, nb_now_ns(), block, nm_span_of(data.ptr + 2, len));
}

/* Bytes of a stream that came in: at its end the whole, which was answered;
 * else NULL. */
static nm_block *collect(nb_node *n, const nm_event *e) {
  uint64_t ticket;
  nm_span bytes =
      e->data == NULL ? nm_span_of(NULL, 0) : nm_block_span(e->data);
  if (nm_buffer_append(&n->stream, bytes.ptr, bytes.len) != NM_OK) {
    n->fault = NM_E(MEMORY);
    return NULL;
  }
  if (!e->eof) {
    return NULL;
  }
  nm_command c = {.kind = NM_COMMAND_STREAM_WRITE,
                  .link = e->link,
                  .number = e->stream - 1,
                  .on = true,
                  .compression = NM_RESOURCE_COMPRESS_OFF,
                  .data = nb_block_of("!", 1)};
  (void)nb_post(n, &c, &ticket);
  nm_block *whole = nb_block_of(n->stream.ptr, n->stream.len);
  n->stream.len = 0;
  return whole;
}

static void handle(nb_node *n, nm_event *e) {
  switch (e->kind) {
  case NM_EVENT_ANNOUNCE:
    hear(n, e);
    break;
  case NM_EVENT_LINK_ACTIVE:
    if (n->kind == NB_LINK || n->kind == NB_LINKS) {
      arrive(n, nb_now_ns(), NULL, nm_span_of(NULL, 0));
    }
    break;
  case NM_EVENT_PACKET:
  case NM_EVENT_LINK_PACKET:
  case NM_EVENT_RESOURCE_IN:
  case NM_EVENT_CHANNEL_DATA:
    take_data(n, e);
    break;
  case NM_EVENT_STREAM_DATA: {
    nm_block *whole = collect(n, e);
    if (whole != NULL) {
      arrive(n, nb_now_ns(), whole, nm_block_span(whole));
    }
    break;
  }
  case NM_EVENT_REQUEST:
    answer(n, e);
    break;
  default:
    break;
  }
}

static void *serve(void *argument) {
  nb_node *n = argument;
  nm_node_event event;
  while (!atomic_load(&n->stop)) {
    if (!nm_node_next(n->node, &event)) {
      (void)nm_node_wait(n->node, NB_IDLE_MS);
      continue;
    }
    if (event.kind == NM_NODE_EVENT) {
      handle(n, &event.u.event);
    }
    nm_node_event_dispose(&event);
  }
  return NULL;
}

int nb_node_serve(nb_node *n) {
  if (pthread_create(&n->thread, NULL, serve, n) != 0) {
    return NM_E(LIBRARY);
  }
  n->serving = true;
  return NM_OK;
}

int nb_node_take(nb_node *n, nb_arrival **arrivals, size_t *count) {
  pthread_mutex_lock(&n->lock);
  *arrivals = n->arrivals;
  *count = n->arrival_count;
  n->arrivals = NULL;
  n->arrival_count = 0;
  n->arrival_cap = 0;
  int fault = n->fault;
  pthread_mutex_unlock(&n->lock);
  return fault;
}

void nb_arrivals_free(nb_arrival *arrivals, size_t count) {
  for (size_t i = 0; i < count; i++) {
    nm_block_drop(arrivals[i].block);
  }
  free(arrivals);
}
