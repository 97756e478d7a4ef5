/* What must hold at any time, and at the end.
 */
#include "sim/internal.h"

#include "stack/recorder.h"

#include <stdarg.h>
#include <stdio.h>

/* Records that one call of an engine may write: far above what 64 timers, or
 * one frame, can cause, far below a walk over a full table. */
#define WORK_MAX 16384
#define WORK_PER_IFACE 64
/* Ids are handed out in a row, so sets of them are short; an id beyond this
 * is not one of a row. */
#define BITS_MAX (1u << 28)

void nm_sim_broken(nm_sim *sim, const nm_sim_node *node, const char *format,
                   ...) {
  if (sim->failure[0] != '\0') {
    return;
  }
  int at =
      snprintf(sim->failure, sizeof(sim->failure),
               "at %.6f s%s%s: ", (double)sim->now_ns / 1e9,
               node == NULL ? "" : " node ", node == NULL ? "" : node->name);
  va_list args;
  va_start(args, format);
  vsnprintf(&sim->failure[at], sizeof(sim->failure) - (size_t)at, format, args);
  va_end(args);
  nm_sim_note note = {.kind = NM_SIM_NOTE_FAILURE,
                      .node = node == NULL ? 0 : node->id,
                      .text = sim->failure};
  nm_sim_tell(sim, &note);
}

void nm_sim_no_memory(nm_sim *sim) {
  nm_sim_broken(sim, NULL, "the simulator ran out of memory");
}

const char *nm_sim_failure(const nm_sim *sim) {
  return sim->failure[0] == '\0' ? NULL : sim->failure;
}

void nm_sim_fail(nm_sim *sim, const char *text) {
  nm_sim_broken(sim, NULL, "%s", text);
}

/* ---- sets ---- */

/* Adds |number|; false when it was there. */
static bool bits_add(nm_sim *sim, nm_sim_bits *bits, uint64_t number) {
  if (number >= BITS_MAX) {
    return false;
  }
  size_t word = (size_t)(number / 64);
  if (word >= bits->count) {
    size_t count = word + 16 + word / 2;
    uint64_t *words =
        nm_resize(&sim->own.mem, bits->words, count * sizeof(words[0]));
    if (words == NULL) {
      nm_sim_no_memory(sim);
      return true;
    }
    memset(&words[bits->count], 0, (count - bits->count) * sizeof(words[0]));
    bits->words = words;
    bits->count = count;
  }
  uint64_t mask = (uint64_t)1 << (number % 64);
  bool fresh = (bits->words[word] & mask) == 0;
  bits->words[word] |= mask;
  return fresh;
}

static bool bits_have(const nm_sim_bits *bits, uint64_t number) {
  size_t word = (size_t)(number / 64);
  return number < BITS_MAX && word < bits->count &&
         (bits->words[word] & (uint64_t)1 << (number % 64)) != 0;
}

void nm_sim_bits_dispose(nm_sim *sim, nm_sim_bits *bits) {
  nm_release(&sim->own.mem, bits->words);
  bits->words = NULL;
  bits->count = 0;
}

/* ---- events ---- */

/* A resource that came in ends its operation by the event that brings it. */
static bool ends_operation(const nm_event *event) {
  return event->op != 0 && (event->kind > NM_EVENT_LINK_CLOSED ||
                            event->kind == NM_EVENT_RESOURCE_IN);
}

static void check_link_event(nm_sim *sim, nm_sim_node *node,
                             const nm_event *event) {
  if (event->link == 0) {
    return;
  }
  if (event->kind == NM_EVENT_LINK_CLOSED) {
    if (!bits_add(sim, &node->closed, event->link)) {
      nm_sim_broken(sim, node, "link %llu closed twice",
                    (unsigned long long)event->link);
    }
    return;
  }
  bool late = event->kind >= NM_EVENT_LINK_PACKET &&
              event->kind <= NM_EVENT_STREAM_DATA &&
              bits_have(&node->closed, event->link);
  if (late) {
    nm_sim_broken(sim, node, "%s on link %llu after it closed",
                  nm_event_name(event->kind), (unsigned long long)event->link);
  }
  if (event->kind == NM_EVENT_LINK_ACTIVE &&
      !bits_add(sim, &node->opened, event->link)) {
    nm_sim_broken(sim, node, "link %llu became active twice",
                  (unsigned long long)event->link);
  }
}

void nm_sim_check_event(nm_sim *sim, nm_sim_node *node, const nm_event *event) {
  check_link_event(sim, node, event);
  if (event->kind == NM_EVENT_PROGRESS && bits_have(&node->ended, event->op)) {
    nm_sim_broken(sim, node, "progress of operation %llu after its end",
                  (unsigned long long)event->op);
  }
  if (!ends_operation(event)) {
    return;
  }
  node->boot_ended++;
  node->stats.terminal_events++;
  if (!bits_add(sim, &node->ended, event->op)) {
    nm_sim_broken(sim, node, "operation %llu ended twice, now by %s",
                  (unsigned long long)event->op, nm_event_name(event->kind));
  }
  bool failed = event->status != NM_OK;
  if (failed && event->stage == NM_STAGE_NONE &&
      event->state != NM_RECEIPT_CULLED) {
    nm_sim_broken(sim, node, "operation %llu failed by %s without a stage",
                  (unsigned long long)event->op, nm_event_name(event->kind));
  }
}

/* ---- engines ---- */

void nm_sim_check_work(nm_sim *sim, const nm_sim_node *node,
                       nm_input_seq before) {
  nm_input_seq did = nm_engine_record_last(node->engine) - before;
  if (did > WORK_MAX + WORK_PER_IFACE * node->port_count) {
    nm_sim_broken(sim, node, "one call wrote %llu records",
                  (unsigned long long)did);
  }
}

typedef struct bound {
  const char *what;
  uint64_t is;
  uint64_t most;
} bound;

static void check_bounds(nm_sim *sim, const nm_sim_node *node,
                         const nm_engine_stats *stats) {
  const nm_limits *limits = &node->config.engine.limits;
  const bound bounds[] = {
      {"known destinations", stats->known, limits->known},
      {"paths", stats->paths, limits->paths},
      {"links", stats->links, limits->links},
      {"active links", stats->links_active, stats->links},
      {"receipts", stats->receipts, limits->receipts},
      {"remembered packets", stats->filter_current, limits->filter},
      {"older packets", stats->filter_previous, limits->filter},
      {"jobs", stats->jobs_outstanding, limits->jobs},
  };
  for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
    if (bounds[i].is > bounds[i].most) {
      nm_sim_broken(sim, node, "%llu %s, at most %llu are allowed",
                    (unsigned long long)bounds[i].is, bounds[i].what,
                    (unsigned long long)bounds[i].most);
    }
  }
}

void nm_sim_check_node(nm_sim *sim, const nm_sim_node *node) {
  if (node->engine == NULL) {
    return;
  }
  sim->stats.checks++;
  nm_engine_stats stats;
  nm_engine_stats_read(node->engine, &stats);
  check_bounds(sim, node, &stats);
  uint64_t decided = stats.accepted + stats.dropped;
  if (decided > stats.inputs ||
      stats.inputs - decided > stats.jobs_outstanding) {
    nm_sim_broken(
        sim, node, "%llu inputs, but %llu accepted, %llu dropped, %u jobs",
        (unsigned long long)stats.inputs, (unsigned long long)stats.accepted,
        (unsigned long long)stats.dropped, stats.jobs_outstanding);
  }
  if (stats.operations_begun - stats.operations != node->boot_ended) {
    nm_sim_broken(sim, node,
                  "%llu operations begun, %u open, but %llu have ended",
                  (unsigned long long)stats.operations_begun, stats.operations,
                  (unsigned long long)node->boot_ended);
  }
}

void nm_sim_check_stopped(nm_sim *sim, const nm_sim_node *node) {
  nm_engine_stats stats;
  nm_engine_stats_read(node->engine, &stats);
  if (stats.operations != 0 || stats.links != 0 || stats.receipts != 0) {
    nm_sim_broken(sim, node,
                  "%u operations, %u links, %u receipts after its end",
                  stats.operations, stats.links, stats.receipts);
  }
  if (stats.jobs_outstanding != 0 ||
      stats.inputs != stats.accepted + stats.dropped) {
    nm_sim_broken(sim, node,
                  "%u jobs after its end, %llu inputs, %llu accepted, "
                  "%llu dropped",
                  stats.jobs_outstanding, (unsigned long long)stats.inputs,
                  (unsigned long long)stats.accepted,
                  (unsigned long long)stats.dropped);
  }
}

/* ---- media ---- */

void nm_sim_check_medium(nm_sim *sim, const nm_sim_medium *medium) {
  const nm_sim_medium_stats *s = &medium->stats;
  const uint64_t *fates = s->fates;
  uint64_t gone = fates[NM_SIM_REFUSED_FULL] + fates[NM_SIM_REFUSED_SIZE] +
                  fates[NM_SIM_REFUSED_ACCESS] + fates[NM_SIM_SWEPT];
  if (s->offered != gone + s->sent + s->waiting) {
    nm_sim_broken(sim, NULL,
                  "medium %s was given %llu frames, but %llu are refused, "
                  "%llu sent, %llu waiting",
                  medium->name, (unsigned long long)s->offered,
                  (unsigned long long)gone, (unsigned long long)s->sent,
                  (unsigned long long)s->waiting);
  }
  uint64_t ended = fates[NM_SIM_DELIVERED] + fates[NM_SIM_LOST] +
                   fates[NM_SIM_CUT] + fates[NM_SIM_GONE];
  if (s->copies + s->duplicates != ended + s->in_flight) {
    nm_sim_broken(sim, NULL,
                  "medium %s made %llu copies, but %llu have ended, %llu are "
                  "on their way",
                  medium->name, (unsigned long long)(s->copies + s->duplicates),
                  (unsigned long long)ended, (unsigned long long)s->in_flight);
  }
}

/* ---- the end ---- */

void nm_sim_check_end(nm_sim *sim) {
  for (uint32_t i = 0; i < sim->medium_count; i++) {
    const nm_sim_medium *medium = sim->media[i];
    nm_sim_check_medium(sim, medium);
    if (medium->stats.waiting != 0 || medium->stats.in_flight != 0) {
      nm_sim_broken(sim, NULL, "medium %s still holds %llu frames",
                    medium->name,
                    (unsigned long long)(medium->stats.waiting +
                                         medium->stats.in_flight));
    }
  }
  for (uint32_t i = 0; i < sim->node_count; i++) {
    const nm_sim_node *node = sim->nodes[i];
    if (node->meter.live_blocks != 0) {
      nm_sim_broken(sim, node, "%llu blocks of memory (%llu bytes) are lost",
                    (unsigned long long)node->meter.live_blocks,
                    (unsigned long long)node->meter.live_bytes);
    }
  }
}
