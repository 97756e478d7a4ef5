/* Life of a node: opened on the caller's thread, handed to the loop, closed in
 * steps that wait for what is under way, handed to the reader.
 */
#include "io/internal.h"
#include "io/mail_keep.h"
#include "io/port.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING_DEFAULT 512
#define CREDIT_DEFAULT 1024
#define ASKS_DEFAULT 16384
#define SAVE_DEFAULT_S 60
/* Memory that a node keeps for its next packets. */
#define STOCK_DEFAULT (512u << 10)
/* What a close grants its connections to write what is queued. */
#define FLUSH_LIMIT_US 250000
/* Deadline, flush limit, save, publish, mail. */
#define NODE_TIMERS 6

void nm_node_config_default(nm_node_config *config) {
  memset(config, 0, sizeof(*config));
  nm_engine_config_default(&config->engine);
}

/* Everything that does not belong to the loop any more. */
static void free_node(nm_node *node) {
  const nm_mem *mem = node->mem;
  nm_ring_dispose(&node->ring, mem);
  while (node->replies != NULL) {
    nm_ask *ask = node->replies;
    node->replies = ask->next;
    nm_ask_free(mem, ask);
  }
  nm_mail_free(node);
  nm_engine_free(node->engine);
  nm_save_dispose(node);
  nm_store_close(node->store);
  nm_release(mem, node->mail_path);
  nm_tickets_dispose(&node->tickets);
  nm_table_dispose(&node->ports);
  nm_entropy_pool_wipe(&node->entropy);
  nm_published_dispose(&node->stats_out, mem);
  nm_block_drop(node->ifaces_out);
  pthread_mutex_destroy(&node->ifaces_lock);
  nm_waker_close(&node->waker);
  nm_loop *loop = node->loop;
  nm_stock_free(node->stock);
  nm_wipe(node, sizeof(*node));
  nm_release(loop->mem, node);
  nm_loop_drop(loop);
}

/* ---- opening ---- */

static int open_storage(nm_node *node, const nm_node_config *config,
                        nm_engine_config *engine, nm_identity *identity,
                        nm_node_fault *fault) {
  if (config->storage == NULL) {
    return NM_OK;
  }
  int status = nm_store_open(node->mem, config->storage, &node->store, fault);
  if (status != NM_OK || engine->identity != NULL) {
    return status;
  }
  uint8_t keys[NM_PRIVATE_SIZE];
  status =
      nm_store_identity(node->store, keys, &node->aside[NM_KEPT_TABLES], fault);
  if (status == NM_OK) {
    status = nm_identity_init_private(identity, nm_span_of(keys, sizeof(keys)));
    engine->identity = identity;
  }
  nm_wipe(keys, sizeof(keys));
  return status;
}

/* Where its mail goes, whatever folder the process works in later. */
static int find_mail(nm_node *node, const nm_node_config *config,
                     nm_node_fault *fault) {
  char folder[PATH_MAX];
  if (config->storage == NULL) {
    return NM_OK;
  }
  if (realpath(config->storage, folder) == NULL) {
    fault->os_error = errno;
    return NM_E(LIBRARY);
  }
  size_t size = strlen(folder) + sizeof("/" NM_MAIL_FILE);
  node->mail_path = nm_alloc_zero(node->mem, 1, size);
  if (node->mail_path == NULL) {
    return NM_E(MEMORY);
  }
  (void)snprintf(node->mail_path, size, "%s/%s", folder, NM_MAIL_FILE);
  return NM_OK;
}

static int make_engine(nm_node *node, const nm_node_config *config,
                       nm_node_fault *fault) {
  nm_engine_config engine = config->engine;
  node->save.carries = engine.transport;
  nm_identity identity = {0};
  int status = open_storage(node, config, &engine, &identity, fault);
  status = status == NM_OK ? find_mail(node, config, fault) : status;
  if (status == NM_OK) {
    node->engine = nm_engine_new(node->mem, &node->entropy_source, &engine,
                                 nm_clock_now(), &status);
  }
  nm_identity_wipe(&identity);
  if (status != NM_OK) {
    return status;
  }
  const nm_identity *own = nm_engine_identity(node->engine);
  return nm_identity_init_public(&node->identity,
                                 nm_span_of(own->public_key, NM_PUBLIC_SIZE));
}

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
  return value != 0 ? value : otherwise;
}

/* Parts that free_node undoes in any state. */
static int make_parts(nm_node *node, const nm_node_config *config) {
  uint8_t hash_key[16];
  int status = nm_entropy_pool_init(&node->entropy, &nm_entropy_system);
  if (status != NM_OK) {
    return status;
  }
  node->entropy_source = nm_entropy_pool_source(&node->entropy);
  status = nm_entropy_fill(&node->entropy_source, hash_key, sizeof(hash_key));
  if (status != NM_OK ||
      (status = nm_ring_init(&node->ring, node->mem,
                             or_default(config->ring, RING_DEFAULT))) !=
          NM_OK ||
      (status = nm_published_init(&node->stats_out, node->mem,
                                  sizeof(nm_node_stats))) != NM_OK ||
      (status = nm_tickets_init(&node->tickets, node->mem, hash_key)) !=
          NM_OK ||
      (status = nm_ports_init(node, hash_key)) != NM_OK) {
    return status;
  }
  status = nm_save_init(node, hash_key);
  if (status == NM_OK && nm_waker_open(&node->waker) != 0) {
    status = NM_E(LIBRARY);
  }
  return status;
}

static void on_deadline(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  (void)user;
  nm_node_wake((nm_node *)(void *)(at - offsetof(nm_node, deadline)));
}

static void on_flush_limit(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  (void)user;
  nm_node_wake((nm_node *)(void *)(at - offsetof(nm_node, flush_limit)));
}

static void on_publish(void *user, nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  (void)user;
  nm_node_wake((nm_node *)(void *)(at - offsetof(nm_node, publish_timer)));
}

static void tell_start(nm_node *node) {
  for (int i = 0; i <= NM_KEPT_TABLES; i++) {
    const char *name = i == NM_KEPT_TABLES
                           ? "identity"
                           : nm_store_table_name((nm_kept_table)i);
    if (node->aside[i] != NM_OK) {
      nm_node_tell_aside(node, name, node->aside[i]);
    }
  }
  for (int i = 0; i < NM_KEPT_TABLES; i++) {
    if (node->aside_changes[i] != NM_OK) {
      nm_node_tell_aside(node, nm_store_changes_name((nm_kept_table)i),
                         node->aside_changes[i]);
    }
  }
}

static void on_attach(nm_loop *loop, nm_post *post) {
  unsigned char *at = (unsigned char *)post;
  nm_node *node = (nm_node *)(void *)(at - offsetof(nm_node, attach_post));
  (void)nm_loop_now(loop);
  nm_loop_add_node(loop, node);
  tell_start(node);
  if (nm_loop_reserve_timers(loop, NODE_TIMERS) != NM_OK) {
    atomic_store(&node->closing, true);
    nm_engine_shutdown(node->engine, loop->now);
    node->phase = NM_NODE_IS_LEAVING;
    node->ports_removed = true;
    node->without_timers = true;
  } else if (loop->stopping) {
    nm_node_begin_close(node);
  } else if (node->store != NULL) {
    nm_loop_arm(loop, &node->save_timer,
                loop->now.mono_us + node->save_interval_us);
  }
  nm_node_ifaces_changed(node, true);
  nm_node_wake(node);
}

static nm_node *new_node(nm_loop *loop, const nm_node_config *config) {
  nm_node *node = nm_alloc_zero(loop->mem, 1, sizeof(*node));
  if (node == NULL) {
    return NULL;
  }
  node->stock =
      nm_stock_new(loop->mem, or_default(config->stock_bytes, STOCK_DEFAULT));
  if (node->stock == NULL) {
    nm_release(loop->mem, node);
    return NULL;
  }
  node->mem = nm_stock_mem(node->stock);
  node->loop = nm_loop_hold(loop);
  node->asks_max = or_default(config->commands_max, ASKS_DEFAULT);
  node->manual_credit = config->manual_credit;
  node->credit = or_default(config->credit, CREDIT_DEFAULT);
  node->mail_credit = or_default(config->mail_credit, node->credit);
  atomic_init(&node->follows, NM_FOLLOW_ARRIVALS | NM_FOLLOW_PATHS);
  node->save_interval_us =
      (uint64_t)or_default(config->save_interval_s, SAVE_DEFAULT_S) * 1000000;
  node->waker.read_fd = -1;
  node->waker.write_fd = -1;
  node->deadline.fire = on_deadline;
  node->flush_limit.fire = on_flush_limit;
  node->publish_timer.fire = on_publish;
  node->save_timer.fire = nm_save_due;
  node->save_rest.fire = nm_save_go_on;
  node->mail_timer.fire = nm_mail_late_due;
  node->attach_post.run = on_attach;
  node->dispose = free_node;
  atomic_init(&node->holders, 2); /* the owner and the loop */
  if (pthread_mutex_init(&node->ifaces_lock, NULL) != 0) {
    nm_stock_free(node->stock);
    nm_release(loop->mem, node);
    nm_loop_drop(loop);
    return NULL;
  }
  return node;
}

int nm_node_open(nm_loop *loop, const nm_node_config *given, nm_node **out,
                 nm_node_fault *fault) {
  nm_node_config config;
  nm_node_fault ignored;
  *out = NULL;
  fault = fault != NULL ? fault : &ignored;
  memset(fault, 0, sizeof(*fault));
  if (given != NULL) {
    config = *given;
  } else {
    nm_node_config_default(&config);
  }
  nm_node *node = nm_loop_is_foreign(loop) ? NULL : new_node(loop, &config);
  if (node == NULL) {
    fault->status = nm_loop_is_foreign(loop) ? NM_E(STATE) : NM_E(MEMORY);
    return fault->status;
  }
  int status = make_parts(node, &config);
  if (status == NM_OK) {
    status = make_engine(node, &config, fault);
  }
  if (status == NM_OK) {
    nm_engine_credit(node->engine, node->credit, nm_clock_now());
    if (node->store != NULL) {
      nm_save_load(node);
    }
    status = nm_loop_post(loop, &node->attach_post);
  }
  if (status != NM_OK) {
    fault->status = status;
    free_node(node);
    return status;
  }
  *out = node;
  return NM_OK;
}

const nm_identity *nm_node_identity(const nm_node *node) {
  return &node->identity;
}

/* ---- closing ---- */

void nm_node_begin_close(nm_node *node) {
  if (node->phase != NM_NODE_IS_OPEN) {
    return;
  }
  atomic_store(&node->closing, true);
  (void)nm_node_resume(node, true); /* they came before the close */
  nm_mail_shut(node);
  node->phase = NM_NODE_IS_SAVING;
  nm_engine_shutdown(node->engine, node->loop->now);
  if (node->store != NULL) {
    nm_save_start(node, NULL);
  }
  nm_node_wake(node);
}

static bool all_flushed(nm_node *node) {
  nm_port *port = NULL;
  while ((port = nm_port_next(node, port)) != NULL) {
    if (port->up && !nm_port_is_flushed(port)) {
      return false;
    }
  }
  return true;
}

static bool is_saving(const nm_node *node) {
  return node->save.running || node->save.writes > 0;
}

static void unlink_active(nm_node *node) {
  nm_node **at = &node->loop->active;
  while (*at != NULL && *at != node) {
    at = &(*at)->next_active;
  }
  if (*at == node) {
    *at = node->next_active;
  }
  node->is_active = false;
}

/* The loop lets go: what has not been read is the reader's to take. */
static void hand_over(nm_node *node) {
  nm_loop *loop = node->loop;
  (void)nm_node_deliver(node);
  nm_node_publish(node);
  nm_timer_disarm(&loop->timers, &node->deadline);
  nm_timer_disarm(&loop->timers, &node->flush_limit);
  nm_timer_disarm(&loop->timers, &node->save_timer);
  nm_timer_disarm(&loop->timers, &node->save_rest);
  nm_timer_disarm(&loop->timers, &node->publish_timer);
  nm_timer_disarm(&loop->timers, &node->mail_timer);
  if (!node->without_timers) {
    nm_loop_unreserve_timers(loop, NODE_TIMERS);
  }
  node->phase = NM_NODE_IS_GONE;
  unlink_active(node);
  nm_loop_remove_node(loop, node);
  nm_save_dispose(node);
  nm_store_close(node->store);
  node->store = NULL;
  atomic_store(&node->handed, true);
  if (atomic_exchange(&node->asleep, false)) {
    nm_waker_signal(&node->waker);
  }
  nm_node_drop(node);
}

void nm_node_proceed(nm_node *node) {
  nm_loop *loop = node->loop;
  if (node->phase == NM_NODE_IS_SAVING && !is_saving(node) &&
      nm_mail_has_settled(node)) {
    node->phase = NM_NODE_IS_LEAVING;
    nm_loop_arm(loop, &node->flush_limit, loop->now.mono_us + FLUSH_LIMIT_US);
  }
  if (node->phase != NM_NODE_IS_LEAVING) {
    return;
  }
  if (!node->ports_removed &&
      (all_flushed(node) || !nm_timer_armed(&node->flush_limit))) {
    node->ports_removed = true;
    nm_port_remove_all(node);
  }
  if (node->ports_removed && node->port_count == 0 && node->work_out == 0 &&
      node->waiting.count == 0 && atomic_load(&node->unrun) == 0) {
    hand_over(node);
  }
}

static void on_close(nm_loop *loop, nm_post *post) {
  unsigned char *at = (unsigned char *)post;
  nm_node *node = (nm_node *)(void *)(at - offsetof(nm_node, close_post));
  (void)nm_loop_now(loop);
  nm_node_begin_close(node);
  nm_node_drop(node);
}

void nm_node_close(nm_node *node) {
  if (nm_loop_is_foreign(node->loop)) {
    return;
  }
  atomic_store(&node->closing, true);
  if (atomic_exchange(&node->close_asked, true)) {
    return;
  }
  node->close_post.run = on_close;
  (void)nm_node_hold(node);
  if (nm_loop_post(node->loop, &node->close_post) != NM_OK) {
    nm_node_drop(node);
  }
}

void nm_node_release(nm_node *node) {
  if (node == NULL || nm_loop_is_foreign(node->loop)) {
    return;
  }
  atomic_store(&node->released, true);
  nm_node_close(node);
  nm_node_drop(node);
}
