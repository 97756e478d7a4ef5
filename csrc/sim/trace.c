/* What happened: a running digest, and each fact as a line of text.
 */
#include "sim/internal.h"

#include "base/cursor.h"

#include <stdarg.h>
#include <stdio.h>

#define FIXED_MAX 400

static void put_span(nm_sim *sim, nm_span bytes) {
  uint8_t len[4];
  nm_writer w = nm_writer_of(len, sizeof(len));
  nm_writer_u32(&w, (uint32_t)bytes.len);
  nm_sha256_update(&sim->digest, nm_writer_done(&w));
  nm_sha256_update(&sim->digest, bytes);
}

static void put_event(nm_sim *sim, const nm_event *event) {
  uint8_t fixed[FIXED_MAX];
  nm_writer w = nm_writer_of(fixed, sizeof(fixed));
  nm_writer_u64(&w, event->op);
  nm_writer_u64(&w, event->token);
  nm_writer_u64(&w, event->link);
  nm_writer_u64(&w, event->at.mono_us);
  nm_writer_u64(&w, (uint64_t)event->at.unix_us);
  nm_writer_u8(&w, event->state);
  nm_writer_u8(&w, event->close_reason);
  nm_writer_u8(&w, event->stage);
  nm_writer_u32(&w, (uint32_t)event->status);
  nm_writer_u8(&w, (uint8_t)(event->initiator | event->path_response << 1 |
                             event->was_link << 2 | event->has_ratchet_id << 3 |
                             event->has_app_data << 4));
  nm_writer_u8(&w, event->context);
  nm_writer_u8(&w, event->hops);
  nm_writer_u16(&w, event->msgtype);
  nm_writer_put(&w, event->destination.b, NM_ADDRESS_SIZE);
  nm_writer_put(&w, event->identity.b, NM_ADDRESS_SIZE);
  nm_writer_put(&w, event->packet_hash.b, NM_HASH_SIZE);
  nm_writer_put(&w, event->link_id.b, NM_ADDRESS_SIZE);
  nm_writer_put(&w, event->path_hash, NM_ADDRESS_SIZE);
  nm_writer_put(&w, event->request_id, NM_ADDRESS_SIZE);
  nm_writer_put(&w, event->ratchet_id, NM_NAME_HASH_SIZE);
  nm_writer_u64(&w, (uint64_t)event->wire_time_us);
  nm_writer_u64(&w, event->rtt_us);
  nm_writer_u64(&w, event->done_bytes);
  nm_writer_u64(&w, event->total_bytes);
  nm_writer_u64(&w, event->wire_bytes);
  nm_sha256_update(&sim->digest, nm_writer_done(&w));
  put_span(sim, nm_block_span(event->metadata));
  put_span(sim, nm_block_span(event->public_key));
}

void nm_sim_tell(nm_sim *sim, nm_sim_note *note) {
  note->time_ns = sim->now_ns;
  sim->stats.notes++;
  uint8_t fixed[32];
  nm_writer w = nm_writer_of(fixed, sizeof(fixed));
  nm_writer_u8(&w, (uint8_t)note->kind);
  nm_writer_u8(&w, note->pending);
  nm_writer_u64(&w, note->time_ns);
  nm_writer_u32(&w, note->node);
  nm_writer_u32(&w, note->medium);
  nm_writer_u32(&w, note->iface);
  nm_writer_u32(&w, (uint32_t)note->code);
  nm_writer_u32(&w, (uint32_t)note->bytes.len);
  nm_sha256_update(&sim->digest, nm_writer_done(&w));
  nm_sha256_update(&sim->digest, note->bytes);
  if (note->text != NULL) {
    put_span(sim, nm_span_of(note->text, strlen(note->text)));
  }
  if (note->event != NULL) {
    put_event(sim, note->event);
  }
  if (sim->sink != NULL) {
    sim->sink(sim->sink_user, sim, note);
  }
}

void nm_sim_digest(const nm_sim *sim, uint8_t out[NM_HASH_SIZE]) {
  nm_sha256_ctx copy = sim->digest;
  nm_sha256_final(&copy, out);
}

void nm_sim_trace(nm_sim *sim, nm_sim_sink sink, void *user) {
  sim->sink = sink;
  sim->sink_user = user;
}

/* ---- text ---- */

typedef struct line {
  char *out;
  size_t cap;
  size_t len;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l,
                                                      const char *format, ...) {
  if (l->len + 1 >= l->cap) {
    return;
  }
  va_list args;
  va_start(args, format);
  int wrote = vsnprintf(&l->out[l->len], l->cap - l->len, format, args);
  va_end(args);
  if (wrote > 0) {
    size_t room = l->cap - l->len - 1;
    l->len += (size_t)wrote < room ? (size_t)wrote : room;
  }
}

static void add_hex(line *l, nm_span bytes, size_t most) {
  for (size_t i = 0; i < bytes.len && i < most; i++) {
    add(l, "%02x", bytes.ptr[i]);
  }
}

static const char *job_name(int kind) {
  static const char *const names[] = {
      [NM_JOB_VERIFY_ANNOUNCE] = "VERIFY_ANNOUNCE",
      [NM_JOB_SIGN_ANNOUNCE] = "SIGN_ANNOUNCE",
      [NM_JOB_PROVE] = "PROVE",
      [NM_JOB_VERIFY_PROOF] = "VERIFY_PROOF",
      [NM_JOB_OPEN_PACKET] = "OPEN_PACKET",
      [NM_JOB_SEAL_PACKET] = "SEAL_PACKET",
      [NM_JOB_LINK_KEYS] = "LINK_KEYS",
      [NM_JOB_LINK_ACCEPT] = "LINK_ACCEPT",
      [NM_JOB_LINK_CONFIRM] = "LINK_CONFIRM",
      [NM_JOB_LINK_IDENTIFY] = "LINK_IDENTIFY",
      [NM_JOB_LINK_SIGN_ID] = "LINK_SIGN_ID",
      [NM_JOB_RESOURCE_SEAL] = "RESOURCE_SEAL",
      [NM_JOB_RESOURCE_OPEN] = "RESOURCE_OPEN",
      [NM_JOB_STORE] = "STORE",
      [NM_JOB_SINK_FINISH] = "SINK_FINISH",
      [NM_JOB_SINK_CHECK] = "SINK_CHECK",
      [NM_JOB_SOURCE_CHECK] = "SOURCE_CHECK",
  };
  size_t count = sizeof(names) / sizeof(names[0]);
  return (size_t)kind < count && names[kind] != NULL ? names[kind] : "OTHER";
}

/* Enough to tell frames and data apart, not enough to fill a screen. */
#define SHOWN_BYTES 24

static void add_bytes(line *l, nm_span bytes) {
  uint8_t digest[NM_HASH_SIZE];
  nm_sha256(digest, bytes);
  add(l, " %zu bytes #", bytes.len);
  add_hex(l, nm_span_of(digest, sizeof(digest)), 4);
  add(l, " ");
  add_hex(l, bytes, SHOWN_BYTES);
}

static void add_event(line *l, const nm_event *event) {
  add(l, " %s", nm_event_name(event->kind));
  if (event->op != 0) {
    add(l, " op=%llu", (unsigned long long)event->op);
  }
  if (event->link != 0) {
    add(l, " link=%llu", (unsigned long long)event->link);
  }
  if (event->token != 0) {
    add(l, " token=%llu", (unsigned long long)event->token);
  }
  add(l, " state=%u stage=%u reason=%u status=%s hops=%u to=", event->state,
      event->stage, event->close_reason, nm_status_name(event->status),
      event->hops);
  add_hex(l, nm_span_of(event->destination.b, NM_ADDRESS_SIZE), 4);
  if (event->total_bytes != 0) {
    add(l, " done=%llu/%llu", (unsigned long long)event->done_bytes,
        (unsigned long long)event->total_bytes);
  }
  if (event->data != NULL) {
    add_bytes(l, nm_block_span(event->data));
  }
}

static void add_detail(line *l, const nm_sim_note *note) {
  static const char *const changes[] = {"started", "crashed", "stopped"};
  switch (note->kind) {
  case NM_SIM_NOTE_NODE:
    add(l, " %s", changes[note->code]);
    break;
  case NM_SIM_NOTE_SEND:
    add(l, " send %s", nm_sim_fate_name((nm_sim_fate)note->code));
    add_bytes(l, note->bytes);
    break;
  case NM_SIM_NOTE_RECEIVE:
    add(l, " receive %s%s", nm_drop_name((nm_drop)note->code),
        note->pending ? " (a job decides)" : "");
    add_bytes(l, note->bytes);
    break;
  case NM_SIM_NOTE_LOSE:
    add(l, " lose %s", nm_sim_fate_name((nm_sim_fate)note->code));
    add_bytes(l, note->bytes);
    break;
  case NM_SIM_NOTE_JOB:
    add(l, " job %s", job_name(note->code));
    break;
  case NM_SIM_NOTE_STORE:
    add(l, " store %s %s", note->text, note->code ? "durable" : "failed");
    break;
  case NM_SIM_NOTE_EVENT:
    add_event(l, note->event);
    break;
  case NM_SIM_NOTE_FAILURE:
    add(l, " failure: %s", note->text);
    break;
  }
}

size_t nm_sim_note_text(const nm_sim *sim, const nm_sim_note *note, char *out,
                        size_t cap) {
  line l = {out, cap, 0};
  add(&l, "%llu.%09llu", (unsigned long long)(note->time_ns / 1000000000u),
      (unsigned long long)(note->time_ns % 1000000000u));
  if (note->node != 0) {
    add(&l, " %s", nm_sim_node_name(sim, note->node));
  }
  if (note->medium != 0) {
    add(&l, "@%s", nm_sim_medium_name(sim, note->medium));
  }
  add_detail(&l, note);
  return l.len;
}
