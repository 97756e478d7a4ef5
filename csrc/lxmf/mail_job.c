#include "lxmf/mail_job.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"
#include "wire/lxmf_stamp.h"

#include <string.h>

/* Rough costs on a slow core, in microseconds. */
#define VERIFY_US 90
#define STAMP_CHECK_US 1500
#define OPEN_US 90
#define SEAL_US 120
#define SLICE_US 5000
#define US_PER_KIB 4

static void inspect_stamp(nm_mail_job *work, nm_span stamp) {
  const uint8_t *tickets[NM_MAIL_JOB_TICKETS_MAX];
  for (uint32_t i = 0; i < work->ticket_count; i++) {
    tickets[i] = work->tickets[i];
  }
  work->stamp_valid = nm_lxmf_message_stamp_check(stamp, work->id, work->cost,
                                                  tickets, work->ticket_count,
                                                  &work->stamp_value) == NM_OK;
}

static void inspect(nm_mail_job *work) {
  nm_lxmf_view view;
  nm_fault fault;
  nm_buffer scratch;
  work->status =
      nm_lxmf_decode(nm_block_span(work->bytes), NULL, &view, &fault);
  if (work->status != NM_OK) {
    return;
  }
  nm_buffer_init(&scratch, work->mem, NULL, 0, 0);
  if (work->source_known) {
    int status = nm_lxmf_verify(&view, work->source_key, &scratch, work->id);
    if (status == NM_E(SIGNATURE)) {
      work->unverified = NM_LXMF_SIGNATURE_INVALID;
    } else {
      work->status = status;
    }
  } else {
    work->unverified = NM_LXMF_SOURCE_UNKNOWN;
    work->status = nm_lxmf_message_id(&view, &scratch, work->id);
  }
  nm_buffer_dispose(&scratch);
  if (work->status == NM_OK && work->cost > 0) {
    inspect_stamp(work, view.stamp);
  }
}

static nm_identity *identity_of(const nm_mail_job *work) {
  return (nm_identity *)(void *)nm_block_bytes(work->identity);
}

static void open_data(nm_mail_job *work, nm_cipher *cipher) {
  nm_span data = nm_block_span(work->bytes);
  nm_identity *identity = identity_of(work);
  nm_span ratchets = work->ratchets != NULL ? nm_block_span(work->ratchets)
                                            : nm_span_of(NULL, 0);
  size_t count = ratchets.len / NM_KEY_SIZE;
  const uint8_t **keys =
      nm_alloc_zero(work->mem, count + 1, sizeof(const uint8_t *));
  work->out = nm_block_new(work->mem, data.len);
  if (keys == NULL || work->out == NULL) {
    nm_release(work->mem, keys);
    work->status = NM_E(MEMORY);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    keys[i] = nm_span_slice(ratchets, i * NM_KEY_SIZE, NM_KEY_SIZE).ptr;
  }
  nm_decrypt_keys with = {.ratchets = keys,
                          .ratchet_count = count,
                          .identity =
                              work->enforce ? NULL : identity->private_key,
                          .salt = &identity->hash};
  size_t len = 0;
  nm_fault fault;
  work->status = nm_lxmf_data_open(
      cipher, &with, data, nm_block_bytes(work->out), &len, NULL, &fault);
  nm_block_trim(work->out, work->status == NM_OK ? len : 0);
  nm_release(work->mem, keys);
}

static void seal_data(nm_mail_job *work, nm_cipher *cipher) {
  nm_span packed = nm_block_span(work->bytes);
  nm_identity *identity = identity_of(work);
  nm_encrypt_params params = {
      .target = work->has_ratchet ? work->ratchet : identity->public_key,
      .salt = &identity->hash,
      .ephemeral = work->ephemeral,
      .iv = work->iv,
  };
  work->out = nm_block_new(work->mem, nm_lxmf_data_size(packed.len));
  work->status = work->out == NULL
                     ? NM_E(MEMORY)
                     : nm_lxmf_data_seal(cipher, &params, packed,
                                         nm_block_bytes(work->out));
}

static void search_stamp(nm_mail_job *work) {
  if (!work->have_midstate) {
    nm_workblock_midstate(&work->midstate, nm_span_of(work->id, NM_HASH_SIZE),
                          work->rounds);
    work->have_midstate = true;
  }
  work->search.mid = &work->midstate;
  work->search.cost = work->cost;
  work->search.cancel = &work->stop;
  work->search.tries_max = NM_MAIL_JOB_SLICE_TRIES;
  int found = nm_stamp_search(&work->search);
  work->found = found == 1;
  work->status = found < 0 ? found : NM_OK;
}

void nm_mail_job_run(nm_mail_job *work, nm_cipher *cipher) {
  switch (work->kind) {
  case NM_MAIL_JOB_INSPECT:
    inspect(work);
    break;
  case NM_MAIL_JOB_OPEN:
    open_data(work, cipher);
    break;
  case NM_MAIL_JOB_SEAL:
    seal_data(work, cipher);
    break;
  case NM_MAIL_JOB_STAMP:
    search_stamp(work);
    break;
  }
}

uint32_t nm_mail_job_cost_us(const nm_mail_job *work) {
  size_t kib = work->bytes != NULL ? nm_block_span(work->bytes).len >> 10 : 0;
  uint32_t size_us = (uint32_t)(kib * US_PER_KIB);
  switch (work->kind) {
  case NM_MAIL_JOB_INSPECT:
    return (work->source_known ? VERIFY_US : 0u) +
           (work->cost > 0 ? STAMP_CHECK_US : 0u) + size_us;
  case NM_MAIL_JOB_OPEN:
    return OPEN_US + size_us;
  case NM_MAIL_JOB_SEAL:
    return SEAL_US + size_us;
  case NM_MAIL_JOB_STAMP:
    return SLICE_US;
  }
  return 0;
}

void nm_mail_job_free(nm_mail_job *work) {
  if (work == NULL) {
    return;
  }
  nm_block_drop(work->bytes);
  nm_block_drop(work->out);
  nm_block_drop(work->identity);
  nm_block_drop(work->ratchets);
  const nm_mem *mem = work->mem;
  nm_wipe(work, sizeof(*work));
  nm_release(mem, work);
}
