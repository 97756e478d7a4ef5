/* What a mailbox finds in the store when it is opened.
 */
#include "io/mail_keep.h"

#include <string.h>

#define AT_ONCE 64
/* As many ids as a router remembers; a few at a time, so that no turn takes
 * long. */
#define SEEN_MOST 100000
#define SEEN_PER_TURN 256

static void init(nm_mail_load *load, const nm_mem *mem) {
  nm_buffer_init(&load->letters, mem, NULL, 0, 0);
  nm_buffer_init(&load->tickets, mem, NULL, 0, 0);
  nm_buffer_init(&load->deliveries, mem, NULL, 0, 0);
  nm_buffer_init(&load->seen, mem, NULL, 0, 0);
  nm_buffer_init(&load->ignored, mem, NULL, 0, 0);
}

void nm_mail_load_free(const nm_mem *mem, nm_mail_load *load) {
  if (load == NULL) {
    return;
  }
  nm_mail_letter *letters = (nm_mail_letter *)(void *)load->letters.ptr;
  for (size_t i = 0; i < load->letters.len / sizeof(*letters); i++) {
    nm_mail_letter_dispose(&letters[i]);
  }
  nm_buffer_dispose(&load->letters);
  nm_buffer_dispose(&load->tickets);
  nm_buffer_dispose(&load->deliveries);
  nm_buffer_dispose(&load->seen);
  nm_buffer_dispose(&load->ignored);
  nm_release(mem, load);
}

/* ---- reading ---- */

static int read_letters(nm_mail_store *store, nm_mail_load *load,
                        const nm_destination_hash *mailbox) {
  nm_mail_letter some[AT_ONCE];
  int64_t after = 0;
  size_t count = 0;
  int status;
  do {
    status =
        nm_mail_store_letters(store, mailbox, after, some, AT_ONCE, &count);
    if (status == NM_OK && count > 0) {
      after = some[count - 1].row;
      status = nm_buffer_append(&load->letters, some, count * sizeof(some[0]));
      for (size_t i = 0; status != NM_OK && i < count; i++) {
        nm_mail_letter_dispose(&some[i]);
      }
    }
  } while (status == NM_OK && count == AT_ONCE);
  return status;
}

static int read_tickets(nm_mail_store *store, nm_mail_load *load,
                        double now_s) {
  nm_ticket_record some[AT_ONCE];
  int64_t cursor = 0;
  size_t count;
  int status;
  do {
    status =
        nm_mail_store_tickets(store, now_s, &cursor, some, AT_ONCE, &count);
    if (status == NM_OK) {
      status = nm_buffer_append(&load->tickets, some, count * sizeof(some[0]));
    }
  } while (status == NM_OK && cursor != 0);
  while (status == NM_OK) {
    status =
        nm_mail_store_ticket_deliveries(store, &cursor, some, AT_ONCE, &count);
    if (status == NM_OK) {
      status =
          nm_buffer_append(&load->deliveries, some, count * sizeof(some[0]));
    }
    if (cursor == 0) {
      break;
    }
  }
  nm_wipe(some, sizeof(some));
  return status;
}

static int read_hashes(nm_mail_store *store, nm_mail_load *load) {
  uint8_t ids[AT_ONCE][NM_HASH_SIZE];
  nm_destination_hash sources[AT_ONCE];
  int64_t cursor = 0;
  size_t count;
  int status;
  do {
    status = nm_mail_store_seen(store, &cursor, ids, AT_ONCE, &count);
    if (status == NM_OK) {
      status = nm_buffer_append(&load->seen, ids, count * sizeof(ids[0]));
    }
  } while (status == NM_OK && cursor != 0 &&
           load->seen.len < (size_t)SEEN_MOST * NM_HASH_SIZE);
  cursor = 0;
  while (status == NM_OK) {
    status = nm_mail_store_ignored(store, &cursor, sources, AT_ONCE, &count);
    if (status == NM_OK) {
      status =
          nm_buffer_append(&load->ignored, sources, count * sizeof(sources[0]));
    }
    if (cursor == 0) {
      break;
    }
  }
  return status;
}

int nm_mail_load_read(nm_node *node, nm_ask *ask) {
  nm_mail_store *store = NULL;
  nm_mail_load *load = nm_alloc_zero(node->mem, 1, sizeof(*load));
  if (load == NULL) {
    return NM_E(MEMORY);
  }
  init(load, node->mem);
  ask->mail_load = load;
  int status =
      nm_mail_store_open(node->mem, node->mail_path, NULL, &store, NULL);
  if (status == NM_OK) {
    status = read_letters(store, load, &ask->c.destination);
  }
  if (status == NM_OK) {
    status = read_tickets(store, load, (double)nm_clock_now().unix_us / 1e6);
  }
  if (status == NM_OK) {
    status = read_hashes(store, load);
  }
  nm_mail_store_close(store);
  return status;
}

/* ---- to the router ---- */

void nm_mail_load_apply(nm_node *node, nm_mail_load *load) {
  nm_router *router = node->mail->router;
  nm_now now = node->loop->now;
  const nm_ticket_record *record = (const void *)load->tickets.ptr;
  for (size_t i = 0; i < load->tickets.len / sizeof(*record); i++) {
    (void)nm_router_ticket_put(router, &record[i], now);
  }
  record = (const void *)load->deliveries.ptr;
  for (size_t i = 0; i < load->deliveries.len / sizeof(*record); i++) {
    (void)nm_router_ticket_delivered(router, &record[i].peer,
                                     record[i].expires);
  }
  const nm_destination_hash *source = (const void *)load->ignored.ptr;
  for (size_t i = 0; i < load->ignored.len / sizeof(*source); i++) {
    (void)nm_router_ignore(router, &source[i], true);
  }
  nm_buffer_dispose(&node->mail->keep->seen);
  node->mail->keep->seen = load->seen;
  nm_buffer_init(&load->seen, node->mem, NULL, 0, 0);
}

/* The oldest first, so that those are forgotten first. */
bool nm_mail_load_more(nm_node *node) {
  nm_buffer *seen = &node->mail->keep->seen;
  for (int i = 0; i < SEEN_PER_TURN && seen->len >= NM_HASH_SIZE; i++) {
    seen->len -= NM_HASH_SIZE;
    nm_router_seen(node->mail->router, &seen->ptr[seen->len]);
  }
  if (seen->len == 0 && seen->ptr != NULL) {
    nm_buffer_dispose(seen);
    nm_buffer_init(seen, node->mem, NULL, 0, 0);
  }
  return seen->len > 0;
}
