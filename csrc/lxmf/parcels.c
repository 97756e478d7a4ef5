/* What comes in: decrypted where it has to be, looked at by a job, told of once
 * (LXMF 2.4, 4.5).
 *
 * Nothing is proven before it is known to be a message: what is malformed or
 * cannot be decrypted gets no proof. Who signed it may be found out later.
 * Duplicates, messages of ignored or blackholed sources and those without the
 * stamp that is asked for get theirs, or their senders would go on sending.
 */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"

#include <string.h>

static void dispose_parcel(void *user, nm_table_link *entry) {
  nm_parcel_free(user, (nm_parcel *)(void *)entry);
}

int nm_parcels_init(nm_router *router) {
  return nm_router_table(router, &router->parcels, router->limits.parcels,
                         sizeof(uint64_t), offsetof(nm_parcel, token),
                         dispose_parcel);
}

void nm_parcel_free(nm_router *router, nm_parcel *parcel) {
  if (parcel->work != NULL) {
    nm_mail_job_free(parcel->work);
  }
  router->ahead_count -= parcel->ahead;
  nm_mail_dispose(&parcel->mail);
  nm_release(router->mem, parcel);
  router->parcel_count--;
}

static void decide(nm_router *router, nm_token_id held, bool accept) {
  if (held == 0) {
    return;
  }
  /* A link that has closed meanwhile took its token with it. */
  if (accept) {
    (void)nm_engine_accept(router->engine, held, router->now);
  } else {
    (void)nm_engine_refuse(router->engine, held, router->now);
  }
}

/* It was decided on: |accept| proves it, |final| says that it is not wanted
 * again. */
static void conclude(nm_router *router, nm_parcel *parcel, bool accept,
                     bool final) {
  decide(router, parcel->held, accept);
  parcel->held = 0;
  if (parcel->sync != NULL) {
    nm_sync *sync = parcel->sync;
    parcel->sync = NULL;
    nm_sync_parcel_done(sync, parcel, final);
  }
}

static void count_drop(nm_router *router, nm_mailbox *mailbox,
                       nm_mail_drop why) {
  nm_router_stats *stats = &router->stats;
  uint64_t *counters[NM_MAIL_DROPS] = {
      [NM_MAIL_DROP_DUPLICATE] = &stats->duplicates,
      [NM_MAIL_DROP_MALFORMED] = &stats->malformed,
      [NM_MAIL_DROP_UNDECRYPTABLE] = &stats->undecryptable,
      [NM_MAIL_DROP_BLACKHOLED] = &stats->blackholed,
      [NM_MAIL_DROP_IGNORED] = &stats->ignored,
      [NM_MAIL_DROP_UNSTAMPED] = &stats->unstamped,
      [NM_MAIL_DROP_CROWDED] = &stats->crowded,
  };
  *counters[why] += 1;
  if (mailbox != NULL) {
    nm_mailbox_dropped(router, mailbox, why);
  }
}

/* The parcel ends here. */
static void drop(nm_router *router, nm_parcel *parcel, nm_mail_drop why,
                 bool prove) {
  bool again = why == NM_MAIL_DROP_UNDECRYPTABLE ||
               why == NM_MAIL_DROP_CROWDED ||
               (why == NM_MAIL_DROP_DUPLICATE && !prove);
  count_drop(router, nm_mailbox_find(router, &parcel->mail.mailbox), why);
  if (parcel->sync != NULL && why == NM_MAIL_DROP_DUPLICATE) {
    parcel->sync->duplicates++;
  }
  conclude(router, parcel, prove, !again);
  nm_parcel_free(router, parcel);
}

/* It is for no mailbox here, or not any more. */
static void misaddressed(nm_router *router, nm_parcel *parcel) {
  router->stats.misaddressed++;
  conclude(router, parcel, false, true);
  nm_parcel_free(router, parcel);
}

static nm_parcel *new_parcel(nm_router *router, nm_lxmf_method method) {
  if (router->parcel_count >= router->limits.parcels) {
    return NULL;
  }
  nm_parcel *parcel = nm_alloc_zero(router->mem, 1, sizeof(*parcel));
  if (parcel != NULL) {
    parcel->mail.kind = NM_MAIL_RECEIVED;
    parcel->router = router;
    parcel->mail.method = method;
    router->parcel_count++;
  }
  return parcel;
}

/* ---- looking at a message ---- */

static void know_source(nm_router *router, nm_mail_job *work,
                        const nm_destination_hash *source,
                        nm_identity_hash *identity) {
  nm_identity found;
  nm_span data;
  bool has_data = false;
  work->source_known = nm_engine_recall(router->engine, source, &found, &data,
                                        &has_data, router->now);
  if (work->source_known) {
    nm_span key = nm_span_slice(nm_span_of(found.public_key, NM_PUBLIC_SIZE),
                                NM_KEY_SIZE, NM_KEY_SIZE);
    memcpy(work->source_key, key.ptr, NM_KEY_SIZE);
    *identity = found.hash;
  }
}

/* It and its encrypted form are known for duplicates from now on. */
static void see(nm_router *router, const nm_parcel *parcel) {
  nm_seen_put(router, parcel->mail.id, true);
  if (parcel->encrypted) {
    nm_seen_put(router, parcel->mail.transient_id, true);
  }
}

void nm_router_expect(nm_router *router, uint32_t count) {
  router->ahead_max = count;
}

uint32_t nm_router_ahead(const nm_router *router) {
  return router->ahead_count;
}

/* Whether it will be told of whatever its signature is; its id then. */
static bool may_prove_ahead(nm_router *router, const nm_mailbox *mailbox,
                            nm_parcel *parcel) {
  nm_mail *mail = &parcel->mail;
  nm_lxmf_view view;
  nm_fault fault;
  nm_buffer scratch;
  bool durable;
  if (!router->config.hold || router->ahead_count >= router->ahead_max ||
      mailbox->durable || mailbox->stamp_cost > 0 || parcel->held == 0 ||
      mail->representation != NM_LXMF_PACKET ||
      nm_is_ignored(router, &mail->peer) ||
      nm_lxmf_decode(nm_block_span(mail->packed), NULL, &view, &fault) !=
          NM_OK) {
    return false;
  }
  nm_buffer_init(&scratch, router->mem, NULL, 0, 0);
  int status = nm_lxmf_message_id(&view, &scratch, mail->id);
  nm_buffer_dispose(&scratch);
  return status == NM_OK && !nm_seen_has(router, mail->id, &durable);
}

/* |packed| is taken over. */
static void inspect(nm_router *router, nm_parcel *parcel, nm_block *packed) {
  nm_span bytes = nm_block_span(packed);
  nm_span head = nm_span_slice(bytes, 0, 2 * NM_ADDRESS_SIZE);
  nm_mail_job *work = nm_router_new_work(router, NM_MAIL_JOB_INSPECT, parcel);
  parcel->mail.packed = packed;
  if (head.ptr == NULL || work == NULL) {
    nm_mail_job_free(work);
    drop(router, parcel, NM_MAIL_DROP_MALFORMED, false);
    return;
  }
  memcpy(&parcel->mail.mailbox, head.ptr, NM_ADDRESS_SIZE);
  memcpy(&parcel->mail.peer,
         nm_span_slice(head, NM_ADDRESS_SIZE, NM_ADDRESS_SIZE).ptr,
         NM_ADDRESS_SIZE);
  const nm_mailbox *mailbox = nm_mailbox_find(router, &parcel->mail.mailbox);
  if (mailbox == NULL) {
    nm_mail_job_free(work);
    misaddressed(router, parcel);
    return;
  }
  nm_identity_hash source;
  know_source(router, work, &parcel->mail.peer, &source);
  if (work->source_known && nm_engine_is_blackholed(router->engine, &source)) {
    nm_mail_job_free(work);
    drop(router, parcel, NM_MAIL_DROP_BLACKHOLED, true);
    return;
  }
  work->bytes = nm_block_hold(packed);
  work->cost = mailbox->stamp_cost;
  nm_tickets_for_check(router, &parcel->mail.peer, work);
  if (may_prove_ahead(router, mailbox, parcel)) {
    parcel->ahead = true;
    router->ahead_count++;
    see(router, parcel);
    conclude(router, parcel, true, true);
  }
  parcel->work = work;
  nm_router_submit(router, work);
}

static void tell(nm_router *router, nm_parcel *parcel) {
  parcel->mail.at = router->now;
  router->stats.received++;
  if (parcel->sync != NULL) {
    parcel->sync->received++;
  }
  if (router->mail_last != NULL) {
    router->mail_last->next = parcel;
  } else {
    router->mail_first = parcel;
  }
  router->mail_last = parcel;
}

/* Told of once; proven at once, or when the driver has it (LXMF 4.5). */
static void deliver(nm_router *router, nm_parcel *parcel) {
  if (parcel->ahead) {
    tell(router, parcel);
    return;
  }
  if (!router->config.hold) {
    see(router, parcel);
    tell(router, parcel);
    conclude(router, parcel, true, true);
    return;
  }
  parcel->token = ++router->next_token;
  parcel->mail.token = parcel->token;
  if (nm_table_insert(&router->parcels, &parcel->link) != NM_OK) {
    parcel->token = 0;
    drop(router, parcel, NM_MAIL_DROP_CROWDED, false);
    return;
  }
  nm_seen_put(router, parcel->mail.id, false);
  tell(router, parcel);
}

static void judge(nm_router *router, nm_parcel *parcel,
                  const nm_mail_job *work) {
  const nm_mailbox *mailbox = nm_mailbox_find(router, &parcel->mail.mailbox);
  nm_mail *mail = &parcel->mail;
  memcpy(mail->id, work->id, sizeof(mail->id));
  mail->unverified = work->unverified;
  mail->stamp_checked = work->cost > 0;
  mail->stamp_valid = work->stamp_valid;
  mail->stamp_value = work->stamp_value;
  if (mailbox != NULL && mail->unverified == NM_LXMF_VERIFIED) {
    nm_ticket_received(router, mail);
  }
  bool durable = false;
  if (mailbox == NULL) {
    misaddressed(router, parcel);
  } else if (mail->stamp_checked && !mail->stamp_valid &&
             mailbox->enforce_stamps && mail->method != NM_LXMF_PAPER) {
    drop(router, parcel, NM_MAIL_DROP_UNSTAMPED, true);
  } else if (nm_is_ignored(router, &mail->peer)) {
    drop(router, parcel, NM_MAIL_DROP_IGNORED, true);
  } else if (!parcel->ahead && nm_seen_has(router, mail->id, &durable)) {
    /* Proven only once the first of them is durable. */
    drop(router, parcel, NM_MAIL_DROP_DUPLICATE, durable);
  } else {
    deliver(router, parcel);
  }
}

/* ---- arrivals ---- */

/* What an opportunistic packet leaves out (LXMF 4.1). */
static nm_block *with_destination(nm_router *router, const nm_mailbox *mailbox,
                                  nm_span rest) {
  nm_block *block = nm_block_new(router->mem, NM_ADDRESS_SIZE + rest.len);
  if (block != NULL) {
    nm_writer w =
        nm_writer_of(nm_block_bytes(block), NM_ADDRESS_SIZE + rest.len);
    nm_writer_put(&w, mailbox->hash.b, NM_ADDRESS_SIZE);
    nm_writer_span(&w, rest);
  }
  return block;
}

void nm_parcel_receive(nm_router *router, nm_mailbox *mailbox, nm_event *event,
                       nm_lxmf_method method) {
  nm_parcel *parcel = mailbox->paused ? NULL : new_parcel(router, method);
  nm_block *packed = NULL;
  if (parcel != NULL && event->data != NULL) {
    packed = method == NM_LXMF_OPPORTUNISTIC
                 ? with_destination(router, mailbox, nm_block_span(event->data))
                 : nm_block_hold(event->data);
  }
  if (parcel == NULL || packed == NULL) {
    count_drop(router, mailbox, NM_MAIL_DROP_CROWDED);
    decide(router, event->token, false);
    nm_block_drop(packed);
    if (parcel != NULL) {
      nm_parcel_free(router, parcel);
    }
    return;
  }
  parcel->held = event->token;
  parcel->mail.mailbox = mailbox->hash;
  parcel->mail.packet_hash = event->packet_hash;
  parcel->mail.representation =
      event->kind == NM_EVENT_RESOURCE_IN ? NM_LXMF_RESOURCE : NM_LXMF_PACKET;
  parcel->mail.iface = event->iface;
  parcel->mail.rssi_dbm = event->rssi_dbm;
  parcel->mail.snr_cdb = event->snr_cdb;
  parcel->mail.quality_pct = event->quality_pct;
  inspect(router, parcel, packed);
}

static int open_with(nm_router *router, nm_mail_job *work,
                     const nm_mailbox *mailbox, nm_span data) {
  work->bytes = nm_block_copy(router->mem, data);
  work->identity = nm_block_hold(mailbox->identity);
  work->enforce = mailbox->enforce_ratchets;
  if (work->bytes == NULL) {
    return NM_E(MEMORY);
  }
  return nm_engine_ratchet_keys(router->engine, &mailbox->hash,
                                &work->ratchets);
}

int nm_router_ingest(nm_router *router, nm_span data, nm_lxmf_method method,
                     nm_now now) {
  router->now = now;
  return nm_parcel_ingest(router, data, method, NULL);
}

int nm_parcel_ingest(nm_router *router, nm_span data, nm_lxmf_method method,
                     nm_sync *sync) {
  uint8_t transient[NM_HASH_SIZE];
  nm_destination_hash to;
  bool durable = false;
  if (data.len < NM_LXMF_DATA_MIN) {
    return NM_E(TRUNCATED);
  }
  memcpy(&to, data.ptr, sizeof(to));
  const nm_mailbox *mailbox = nm_mailbox_find(router, &to);
  if (mailbox == NULL) {
    return NM_E(MISSING);
  }
  nm_lxmf_transient_id(data, transient);
  if (nm_seen_has(router, transient, &durable)) {
    router->stats.duplicates++;
    return durable ? NM_E(DUPLICATE_KEY) : NM_E(STATE);
  }
  nm_parcel *parcel = new_parcel(router, method);
  nm_mail_job *work =
      parcel == NULL ? NULL
                     : nm_router_new_work(router, NM_MAIL_JOB_OPEN, parcel);
  int status = parcel == NULL ? NM_E(LIMIT)
               : work == NULL ? NM_E(MEMORY)
                              : open_with(router, work, mailbox, data);
  if (status != NM_OK) {
    nm_mail_job_free(work);
    if (parcel != NULL) {
      nm_parcel_free(router, parcel);
    }
    return status;
  }
  memcpy(parcel->mail.transient_id, transient, sizeof(transient));
  parcel->encrypted = true;
  parcel->sync = sync;
  parcel->work = work;
  nm_router_submit(router, work);
  return NM_OK;
}

void nm_parcel_worked(nm_parcel *parcel, nm_mail_job *work) {
  nm_router *router = parcel->router;
  parcel->work = NULL;
  if (work->kind == NM_MAIL_JOB_OPEN) {
    nm_block *packed = work->out;
    work->out = NULL;
    if (work->status != NM_OK) {
      nm_block_drop(packed);
      drop(router, parcel, NM_MAIL_DROP_UNDECRYPTABLE, false);
    } else {
      inspect(router, parcel, packed);
    }
  } else if (work->status != NM_OK && !parcel->ahead) {
    drop(router, parcel, NM_MAIL_DROP_MALFORMED, false);
  } else {
    if (work->status != NM_OK) { /* no memory to check what was proven */
      work->unverified = NM_LXMF_SIGNATURE_INVALID;
      memcpy(work->id, parcel->mail.id, sizeof(work->id));
    }
    judge(router, parcel, work);
  }
  nm_mail_job_free(work);
}

int nm_router_taken(nm_router *router, uint64_t token, bool ok, nm_now now) {
  router->now = now;
  nm_parcel *parcel =
      (nm_parcel *)(void *)nm_table_find(&router->parcels, &token);
  if (parcel == NULL) {
    return NM_E(STATE);
  }
  nm_table_remove(&router->parcels, &parcel->link);
  if (ok) {
    see(router, parcel);
  } else {
    nm_seen_drop(router, parcel->mail.id);
    router->stats.refused++;
  }
  conclude(router, parcel, ok, ok);
  nm_parcel_free(router, parcel);
  nm_router_settle(router);
  return NM_OK;
}
