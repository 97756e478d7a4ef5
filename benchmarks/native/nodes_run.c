/* The client's samples, by the engine's stamps: from the moment at which it
 * carried out the command to the event that ends it. What a message takes to be
 * packed and signed is added. */
#include "nodes_internal.h"

#include "wire/lxmf_message.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE_ROOM 512 /* above the content */
/* Packets on their way whose replies are not read yet. */
#define REPLIES_MOST 32

/* A sample that is being taken. */
typedef struct sample {
  nb_node *n;
  const nb_run *run;
  nm_span payload;
  uint64_t number;
  uint64_t deadline_ns;
  uint64_t start_ns;
  uint64_t spent_ns;
} sample;

/* Posts a command, waits for its reply and for the event that ends what it
 * began, and counts the time between the two. The caller owns |event|. */
static int step(sample *s, nm_command *c, nm_event_kind kind, nm_event *event) {
  uint64_t ticket;
  nm_reply reply;
  nm_node_event next;
  int status = nb_post(s->n, c, &ticket);
  if (status == NM_OK) {
    status = nb_reply(s->n, ticket, s->deadline_ns, &reply);
  }
  if (status != NM_OK) {
    return status;
  }
  while (nb_next(s->n, &next, s->deadline_ns)) {
    bool mine = next.kind == NM_NODE_EVENT && next.ticket == ticket;
    if (mine && next.u.event.kind == NM_EVENT_LINK_CLOSED) {
      nm_node_event_dispose(&next);
      return NM_E(STATE);
    }
    if (mine && next.u.event.kind == kind) {
      *event = next.u.event;
      if (s->start_ns == 0) {
        s->start_ns = reply.at.mono_us * 1000u;
      }
      s->spent_ns += (event->at.mono_us - reply.at.mono_us) * 1000u;
      return event->status;
    }
    nm_node_event_dispose(&next);
  }
  return NM_E(TIMEOUT);
}

/* The same where nothing of the event is wanted. */
static int step_only(sample *s, nm_command *c, nm_event_kind kind) {
  nm_event event = {0};
  int status = step(s, c, kind, &event);
  bool unproven = kind == NM_EVENT_RECEIPT && status == NM_OK &&
                  event.state != NM_RECEIPT_DELIVERED;
  nm_event_dispose(&event);
  return unproven ? NM_E(AUTH) : status;
}

static int open_link(sample *s, nm_link_ref *link) {
  nm_event event = {0};
  nm_command c = {.kind = NM_COMMAND_LINK_OPEN,
                  .destination = s->run->hashes[0]};
  int status = step(s, &c, NM_EVENT_LINK_ACTIVE, &event);
  *link = event.link;
  nm_event_dispose(&event);
  return status;
}

/* Outside the clock. */
static int close_link(sample *s, nm_link_ref link) {
  nm_node_event event;
  uint64_t ticket;
  nm_command c = {.kind = NM_COMMAND_LINK_CLOSE, .link = link};
  int status = nb_post(s->n, &c, &ticket);
  while (status == NM_OK && nb_next(s->n, &event, s->deadline_ns)) {
    bool closed = event.kind == NM_NODE_EVENT &&
                  event.u.event.kind == NM_EVENT_LINK_CLOSED &&
                  event.u.event.link == link;
    nm_node_event_dispose(&event);
    if (closed) {
      return NM_OK;
    }
  }
  return status != NM_OK ? status : NM_E(TIMEOUT);
}

static int discovery(sample *s) {
  nm_reply reply;
  const nm_destination_hash *wanted = &s->run->hashes[s->number];
  nm_command before = {.kind = NM_COMMAND_RECALL, .destination = *wanted};
  nm_command after = before;
  if (s->number >= s->run->hash_count || nb_ask(s->n, &before, &reply) >= 0) {
    return NM_E(STATE);
  }
  nm_command c = {.kind = NM_COMMAND_REQUEST_PATH,
                  .destination = *wanted,
                  .timeout_us = (uint64_t)s->run->timeout_ms * 1000u,
                  .on = true};
  int status = step_only(s, &c, NM_EVENT_PATH_RESULT);
  return status != NM_OK ? status : nb_ask(s->n, &after, &reply);
}

static int one_link(sample *s) {
  nm_link_ref link;
  int status = open_link(s, &link);
  return status != NM_OK ? status : close_link(s, link);
}

/* The response has the request's bytes in reverse order. */
static bool is_reverse(nm_span response, nm_span payload) {
  if (response.len != payload.len + 2 || response.ptr[0] != 0xc4) {
    return false;
  }
  for (size_t i = 0; i < payload.len; i++) {
    if (response.ptr[2 + i] != payload.ptr[payload.len - 1 - i]) {
      return false;
    }
  }
  return true;
}

static int request(sample *s) {
  nm_event event = {0};
  uint8_t data[2 + 255] = {0xc4, (uint8_t)s->payload.len};
  if (s->payload.len > 255) {
    return NM_E(TOO_LARGE);
  }
  memcpy(data + 2, s->payload.ptr, s->payload.len);
  nm_command c = {.kind = NM_COMMAND_REQUEST,
                  .link = s->n->link,
                  .extra = nb_block_of(NB_PATH, sizeof(NB_PATH) - 1),
                  .data = nb_block_of(data, s->payload.len + 2)};
  int status = step(s, &c, NM_EVENT_RESPONSE, &event);
  if (status == NM_OK && (event.data == NULL ||
                          !is_reverse(nm_block_span(event.data), s->payload))) {
    status = NM_E(MISMATCH);
  }
  nm_event_dispose(&event);
  return status;
}

static int send_packet(sample *s, nm_span payload) {
  nm_command c = {.kind = NM_COMMAND_SEND,
                  .data = nb_block_of(payload.ptr, payload.len)};
  nm_send_spec_default(&c.u.send);
  c.u.send.destination = s->run->hashes[0];
  c.u.send.receipt = true;
  return step_only(s, &c, NM_EVENT_RECEIPT);
}

static int send_on_link(sample *s, nm_link_ref link, nm_span payload) {
  nm_command c = {.kind = NM_COMMAND_LINK_SEND,
                  .link = link,
                  .on = true,
                  .data = nb_block_of(payload.ptr, payload.len)};
  return step_only(s, &c, NM_EVENT_RECEIPT);
}

static int send_resource(sample *s, nm_span payload) {
  nm_command c = {.kind = NM_COMMAND_RESOURCE_SEND,
                  .link = s->n->link,
                  .compression = s->run->compress
                                     ? NM_RESOURCE_COMPRESS_AUTOMATIC
                                     : NM_RESOURCE_COMPRESS_OFF,
                  .data = nb_block_of(payload.ptr, payload.len)};
  return step_only(s, &c, NM_EVENT_RESOURCE_OUT);
}

static int packet(sample *s) {
  return send_packet(s, s->payload);
}

static int resource(sample *s) {
  return send_resource(s, s->payload);
}

static int send_message(sample *s, nm_span packed) {
  nm_link_ref link;
  switch (s->n->kind) {
  case NB_OPPORTUNISTIC:
    return send_packet(s, nm_lxmf_opportunistic(packed));
  case NB_DELIVER:
    return send_resource(s, packed);
  case NB_DIRECT:
    return send_on_link(s, s->n->link, packed);
  default: {
    int status = open_link(s, &link);
    if (status == NM_OK) {
      status = send_on_link(s, link, packed);
    }
    return status != NM_OK ? status : close_link(s, link);
  }
  }
}

static int message(sample *s) {
  uint8_t id[NM_HASH_SIZE];
  struct timespec unix_time;
  size_t room = s->payload.len + MESSAGE_ROOM;
  uint8_t *packed = malloc(room);
  if (packed == NULL) {
    return NM_E(MEMORY);
  }
  s->start_ns = nb_now_ns();
  clock_gettime(CLOCK_REALTIME, &unix_time);
  nm_lxmf_draft draft = {.destination = s->run->hashes[0],
                         .source = s->n->own,
                         .timestamp = (double)unix_time.tv_sec +
                                      (double)unix_time.tv_nsec / 1e9,
                         .content = s->payload};
  nm_writer w = nm_writer_of(packed, room);
  int status = nm_lxmf_pack(&draft, &s->n->identity.sign, NULL, &w, id);
  s->spent_ns = nb_now_ns() - s->start_ns;
  if (status == NM_OK) {
    status = send_message(s, nm_writer_done(&w));
  }
  free(packed);
  return status;
}

static int by_channel(sample *s,
                      int (*work)(nb_node *n, const nb_run *run,
                                  uint64_t number, uint64_t deadline_ns,
                                  nb_span_ns *took)) {
  nb_span_ns took = {0, 0};
  int status = work(s->n, s->run, s->number, s->deadline_ns, &took);
  s->start_ns = took.start_ns;
  s->spent_ns = took.end_ns - took.start_ns;
  return status;
}

static int messages(sample *s) {
  return by_channel(s, nb_channel_messages);
}

static int stream(sample *s) {
  return by_channel(s, nb_channel_stream);
}

static int (*const samplers[NB_KIND_COUNT])(sample *s) = {
    [NB_DISCOVERY] = discovery,   [NB_LINK] = one_link,
    [NB_REQUEST] = request,       [NB_PACKET] = packet,
    [NB_DIRECT] = message,        [NB_COLD] = message,
    [NB_OPPORTUNISTIC] = message, [NB_DELIVER] = message,
    [NB_RESOURCE] = resource,     [NB_CHANNEL] = messages,
    [NB_BUFFER] = stream,
};

/* ---- many links at once ---- */

/* Opens all, and waits for all to be active. */
static int open_many(sample *s, uint64_t count, nm_link_ref *links) {
  uint64_t ticket;
  uint64_t first = 0;
  uint64_t active = 0;
  nm_reply reply;
  nm_node_event event;
  for (uint64_t i = 0; i < count; i++) {
    nm_command c = {.kind = NM_COMMAND_LINK_OPEN,
                    .destination = s->run->hashes[0]};
    int status = nb_post(s->n, &c, &ticket);
    if (status != NM_OK) {
      return status;
    }
    first = i == 0 ? ticket : first;
  }
  int status = nb_reply(s->n, first, s->deadline_ns, &reply);
  s->start_ns = reply.at.mono_us * 1000u;
  while (status == NM_OK && active < count) {
    if (!nb_next(s->n, &event, s->deadline_ns)) {
      return NM_E(TIMEOUT);
    }
    if (event.kind == NM_NODE_REPLY) {
      status = event.u.reply.status;
    } else if (event.kind == NM_NODE_EVENT &&
               event.u.event.kind == NM_EVENT_LINK_ACTIVE) {
      links[active++] = event.u.event.link;
      s->spent_ns = event.u.event.at.mono_us * 1000u - s->start_ns;
    } else if (event.kind == NM_NODE_EVENT &&
               event.u.event.kind == NM_EVENT_LINK_CLOSED) {
      status = NM_E(STATE);
    }
    nm_node_event_dispose(&event);
  }
  return status;
}

/* Reads what came up to the reply to |ticket|. */
static int read_to(sample *s, uint64_t ticket) {
  nm_reply reply;
  return nb_reply(s->n, ticket, s->deadline_ns, &reply);
}

/* A packet with a number of its own over each. Their replies are read a few at
 * a time: those that wait would count as memory of the links. */
static int number_links(sample *s, const nm_link_ref *links, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t ticket;
    uint8_t number[16] = {0};
    uint64_t value = s->n->numbers++;
    for (size_t at = sizeof(number); value > 0; value >>= 8) {
      number[--at] = (uint8_t)value;
    }
    nm_command c = {.kind = NM_COMMAND_LINK_SEND,
                    .link = links[i],
                    .data = nb_block_of(number, sizeof(number))};
    int status = nb_post(s->n, &c, &ticket);
    if (status == NM_OK && (i % REPLIES_MOST == 0 || i + 1 == count)) {
      status = read_to(s, ticket);
    }
    if (status != NM_OK) {
      return status;
    }
  }
  return NM_OK;
}

static int many_links(sample *s) {
  nm_link_ref *links = malloc(s->run->count * sizeof(*links));
  if (links == NULL) {
    return NM_E(MEMORY);
  }
  int status = open_many(s, s->run->count, links);
  if (status == NM_OK) {
    status = number_links(s, links, s->run->count);
  }
  free(links);
  return status;
}

/* ---- runs ---- */

static void sleep_until(uint64_t ns) {
  const struct timespec t = {(time_t)(ns / 1000000000u),
                             (long)(ns % 1000000000u)};
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void take(nb_node *n, nb_run *run, uint64_t index,
                 int (*sampler)(sample *s)) {
  sample s = {.n = n, .run = run, .number = run->first + index};
  if (run->items > 0) {
    size_t at = (size_t)(s.number % run->items) * run->size;
    s.payload = nm_span_of(run->payloads.ptr + at, run->size);
  }
  s.deadline_ns = nb_now_ns() + (uint64_t)run->timeout_ms * 1000000u;
  int status = sampler(&s);
  if (status == NM_OK) {
    run->starts_ns[run->taken] = s.start_ns;
    run->samples_ns[run->taken++] = s.spent_ns;
  } else if (run->failed++ == 0) {
    run->error = status;
  }
}

/* The link that the samples of a kind presuppose. */
static int presuppose(nb_node *n, const nb_run *run) {
  bool channel = n->kind == NB_CHANNEL || n->kind == NB_BUFFER;
  bool wanted = n->kind == NB_REQUEST || n->kind == NB_DIRECT ||
                n->kind == NB_DELIVER || n->kind == NB_RESOURCE || channel;
  if (!wanted || n->link != 0) {
    return NM_OK;
  }
  sample s = {.n = n, .run = run, .deadline_ns = nb_now_ns() + NB_PATIENCE_NS};
  int status = open_link(&s, &n->link);
  return status == NM_OK && channel ? nb_channel_open(n) : status;
}

int nb_node_run(nb_node *n, nb_run *run) {
  int status = presuppose(n, run);
  if (status != NM_OK) {
    return status;
  }
  if (n->kind == NB_IDLE) {
    sleep_until(nb_now_ns() + run->count * 1000000u);
    return NM_OK;
  }
  if (n->kind == NB_LINKS) {
    take(n, run, 0, many_links);
    return NM_OK;
  }
  uint64_t next_ns = nb_now_ns();
  for (uint64_t i = 0; i < run->count; i++) {
    sleep_until(next_ns);
    uint64_t now_ns = nb_now_ns();
    next_ns = (now_ns > next_ns ? now_ns : next_ns) + run->pace_us * 1000u;
    take(n, run, i, samplers[n->kind]);
  }
  return NM_OK;
}
