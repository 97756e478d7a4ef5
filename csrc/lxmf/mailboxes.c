/* Own mailboxes: lxmf.delivery destinations, and sources that are ignored. */
#include "lxmf/internal.h"

#include "wire/destination.h"
#include "wire/lxmf_appdata.h"

#include <string.h>

static const char NAME[] = "lxmf.delivery";

static nm_span name_of(void) {
  return nm_span_of(NAME, sizeof(NAME) - 1);
}

void nm_mailbox_address(const nm_identity_hash *identity,
                        nm_destination_hash *address) {
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_name_hash(name_hash, name_of());
  nm_destination_address(name_hash, identity, address);
}

static void dispose_mailbox(void *user, nm_table_link *entry) {
  nm_router *router = user;
  nm_mailbox *mailbox = (nm_mailbox *)(void *)entry;
  nm_block_drop(mailbox->identity);
  nm_block_drop(mailbox->name);
  nm_release(router->mem, mailbox);
}

int nm_mailboxes_init(nm_router *router) {
  int status = nm_router_table(router, &router->mailboxes,
                               router->limits.mailboxes, NM_ADDRESS_SIZE,
                               offsetof(nm_mailbox, hash), dispose_mailbox);
  return status != NM_OK
             ? status
             : nm_router_table(router, &router->ignored, router->limits.ignored,
                               NM_ADDRESS_SIZE, offsetof(nm_ignored, source),
                               nm_router_dispose_plain);
}

nm_mailbox *nm_mailbox_find(const nm_router *router,
                            const nm_destination_hash *hash) {
  return (nm_mailbox *)(void *)nm_table_find(&router->mailboxes, hash);
}

const nm_identity *nm_mailbox_identity(const nm_mailbox *mailbox) {
  return (const nm_identity *)(const void *)nm_block_span(mailbox->identity)
      .ptr;
}

void nm_mailbox_spec_default(nm_mailbox_spec *spec) {
  memset(spec, 0, sizeof(*spec));
  spec->limit_kb = NM_LXMF_DELIVERY_LIMIT_KB;
  spec->ratchets = true;
}

/* ---- what its announces say ---- */

/* App data is always set, so that path responses tell the cost too (LXMF
 * 5.1). */
static int announce_data(nm_router *router, const nm_mailbox *mailbox) {
  static const uint64_t FUNCTIONS[] = {NM_LXMF_SF_COMPRESSION};
  nm_lxmf_delivery_draft draft = {
      .has_name = mailbox->name != NULL,
      .name = mailbox->name != NULL ? nm_block_span(mailbox->name)
                                    : nm_span_of(NULL, 0),
      .has_cost = mailbox->stamp_cost > 0,
      .cost = mailbox->stamp_cost,
      .functions = FUNCTIONS,
      .function_count = 1,
  };
  size_t size = nm_lxmf_delivery_size(&draft);
  nm_block *data = nm_block_new(router->mem, size);
  if (data == NULL) {
    return NM_E(MEMORY);
  }
  nm_writer w = nm_writer_of(nm_block_bytes(data), size);
  int status = nm_lxmf_delivery_encode(&draft, &w);
  if (status == NM_OK) {
    status = nm_engine_set_app_data(router->engine, &mailbox->hash, true,
                                    nm_block_span(data));
  }
  nm_block_drop(data);
  return status;
}

static int describe(nm_router *router, nm_mailbox *mailbox, nm_span name,
                    uint32_t stamp_cost, bool enforce) {
  if (stamp_cost > NM_LXMF_STAMP_COST_MAX) {
    return NM_E(RANGE);
  }
  nm_block *copy = name.ptr == NULL ? NULL : nm_block_copy(router->mem, name);
  if (name.ptr != NULL && copy == NULL) {
    return NM_E(MEMORY);
  }
  nm_mailbox before = *mailbox;
  mailbox->name = copy;
  mailbox->stamp_cost = stamp_cost;
  mailbox->enforce_stamps = enforce;
  int status = announce_data(router, mailbox);
  if (status != NM_OK) {
    *mailbox = before;
    nm_block_drop(copy);
    return status;
  }
  nm_block_drop(before.name);
  return NM_OK;
}

/* ---- opening and closing ---- */

static int listen(nm_router *router, const nm_mailbox_spec *spec,
                  uint32_t limit_kb, nm_destination_hash *hash, nm_now now) {
  nm_dest_spec dest;
  nm_dest_spec_default(&dest);
  dest.type = NM_SINGLE;
  dest.identity = spec->identity;
  dest.name = name_of();
  dest.prove = NM_PROVE_ALL;
  dest.hold = true;
  dest.accepts_links = true;
  dest.resources = NM_ACCEPT_ALL;
  dest.hold_resources = true;
  dest.resource_max = (size_t)limit_kb * 1000;
  dest.ratchets = spec->ratchets;
  dest.enforce_ratchets = spec->enforce_ratchets;
  dest.last_emitted = spec->last_emitted;
  dest.ratchet_file = spec->ratchet_file;
  return nm_engine_listen(router->engine, &dest, hash, now);
}

int nm_router_open(nm_router *router, const nm_mailbox_spec *spec,
                   nm_destination_hash *hash, nm_now now) {
  router->now = now;
  if (router->mailboxes.count >= router->limits.mailboxes) {
    return NM_E(LIMIT);
  }
  nm_mailbox *mailbox = nm_alloc_zero(router->mem, 1, sizeof(*mailbox));
  if (mailbox == NULL) {
    return NM_E(MEMORY);
  }
  mailbox->limit_kb =
      spec->limit_kb != 0 ? spec->limit_kb : NM_LXMF_DELIVERY_LIMIT_KB;
  mailbox->enforce_ratchets = spec->enforce_ratchets;
  mailbox->durable = spec->durable;
  mailbox->identity = nm_block_copy(
      router->mem, nm_span_of(spec->identity, sizeof(*spec->identity)));
  int status =
      mailbox->identity == NULL
          ? NM_E(MEMORY)
          : listen(router, spec, mailbox->limit_kb, &mailbox->hash, now);
  if (status != NM_OK) {
    dispose_mailbox(router, &mailbox->link);
    return status;
  }
  nm_block_mark_secret(mailbox->identity);
  status = describe(router, mailbox, spec->display_name, spec->stamp_cost,
                    spec->enforce_stamps);
  if (status == NM_OK) {
    status = nm_table_insert(&router->mailboxes, &mailbox->link);
  }
  if (status != NM_OK) {
    (void)nm_engine_unlisten(router->engine, &mailbox->hash, now);
    dispose_mailbox(router, &mailbox->link);
    return status;
  }
  *hash = mailbox->hash;
  return NM_OK;
}

int nm_router_close(nm_router *router, const nm_destination_hash *hash,
                    nm_now now) {
  router->now = now;
  nm_mailbox *mailbox = nm_mailbox_find(router, hash);
  if (mailbox == NULL) {
    return NM_E(MISSING);
  }
  nm_table_remove(&router->mailboxes, &mailbox->link);
  router->drop_news -= mailbox->has_news;
  int status = nm_engine_unlisten(router->engine, hash, now);
  dispose_mailbox(router, &mailbox->link);
  return status;
}

int nm_router_describe(nm_router *router, const nm_destination_hash *hash,
                       nm_span display_name, uint32_t stamp_cost,
                       bool enforce_stamps) {
  nm_mailbox *mailbox = nm_mailbox_find(router, hash);
  return mailbox == NULL ? NM_E(MISSING)
                         : describe(router, mailbox, display_name, stamp_cost,
                                    enforce_stamps);
}

int nm_router_pause(nm_router *router, const nm_destination_hash *hash,
                    bool paused) {
  nm_mailbox *mailbox = nm_mailbox_find(router, hash);
  if (mailbox == NULL) {
    return NM_E(MISSING);
  }
  mailbox->paused = paused;
  return NM_OK;
}

/* ---- what was dropped ---- */

void nm_mailbox_dropped(nm_router *router, nm_mailbox *mailbox,
                        nm_mail_drop why) {
  mailbox->dropped[why]++;
  router->drop_news += !mailbox->has_news;
  mailbox->has_news = true;
}

bool nm_mailbox_news(nm_router *router, nm_mail *mail) {
  nm_table_link *entry = NULL;
  while (router->drop_news > 0 &&
         (entry = nm_table_next(&router->mailboxes, entry)) != NULL) {
    nm_mailbox *mailbox = (nm_mailbox *)(void *)entry;
    if (mailbox->has_news) {
      mailbox->has_news = false;
      router->drop_news--;
      memset(mail, 0, sizeof(*mail));
      mail->kind = NM_MAIL_DROPPED;
      mail->at = router->now;
      mail->mailbox = mailbox->hash;
      memcpy(mail->dropped, mailbox->dropped, sizeof(mail->dropped));
      return true;
    }
  }
  return false;
}

/* ---- ignored sources ---- */

bool nm_is_ignored(const nm_router *router, const nm_destination_hash *source) {
  return nm_table_find(&router->ignored, source) != NULL;
}

int nm_router_ignore(nm_router *router, const nm_destination_hash *source,
                     bool on) {
  nm_table_link *found = nm_table_find(&router->ignored, source);
  if (!on) {
    if (found != NULL) {
      nm_table_remove(&router->ignored, found);
      nm_release(router->mem, found);
    }
    return NM_OK;
  }
  if (found != NULL) {
    return NM_OK;
  }
  if (router->ignored.count >= router->limits.ignored) {
    return NM_E(LIMIT);
  }
  nm_ignored *entry = nm_alloc_zero(router->mem, 1, sizeof(*entry));
  if (entry == NULL) {
    return NM_E(MEMORY);
  }
  entry->source = *source;
  int status = nm_table_insert(&router->ignored, &entry->link);
  if (status != NM_OK) {
    nm_release(router->mem, entry);
  }
  return status;
}
