/* What stamp a letter gets, and the results of the work for it (LXMF 6, 8). The
 * work is done once, whatever becomes of the attempts, and the driver is told,
 * so that a restart goes on with the same bytes.
 */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"

static int put_message_stamp(nm_letter *letter, nm_span stamp) {
  nm_lxmf_view view;
  nm_fault fault;
  int status =
      nm_lxmf_decode(nm_block_span(letter->packed), NULL, &view, &fault);
  if (status != NM_OK) {
    return status;
  }
  size_t size = nm_lxmf_restamped_size(&view, stamp.len);
  nm_block *block = nm_block_new(letter->router->mem, size);
  if (block == NULL) {
    return NM_E(MEMORY);
  }
  nm_writer w = nm_writer_of(nm_block_bytes(block), size);
  status = nm_lxmf_restamp(&view, stamp, &w);
  if (status != NM_OK) {
    nm_block_drop(block);
    return status;
  }
  nm_block_drop(letter->packed);
  letter->packed = block;
  letter->stamp_cost = 0;
  return NM_OK;
}

void nm_letter_set_stamp(nm_letter *letter, const nm_letter_spec *spec,
                         bool has_stamp) {
  nm_lxmf_delivery delivery;
  uint8_t ticket_stamp[NM_LXMF_TICKET_SIZE];
  letter->stamp_cost = 0;
  if (has_stamp) {
    return;
  }
  if (spec->stamp_cost > 0) {
    letter->stamp_cost = spec->stamp_cost;
  } else if (!spec->stamp_auto) {
    return;
  } else if (nm_ticket_stamp_for(letter->router, &letter->recipient, letter->id,
                                 ticket_stamp)) {
    /* Without memory it goes without. */
    (void)put_message_stamp(letter,
                            nm_span_of(ticket_stamp, sizeof(ticket_stamp)));
  } else if (nm_router_delivery_of(letter->router, &letter->recipient,
                                   &delivery) &&
             delivery.has_cost) {
    letter->stamp_cost = delivery.cost;
  }
}

/* ---- results ---- */

static int put_node_stamp(nm_letter *letter, nm_span stamp) {
  nm_span data = nm_block_span(letter->data);
  nm_block *block = nm_block_new(letter->router->mem, data.len + stamp.len);
  if (block == NULL) {
    return NM_E(MEMORY);
  }
  nm_writer w = nm_writer_of(nm_block_bytes(block), data.len + stamp.len);
  nm_writer_span(&w, data);
  nm_writer_span(&w, stamp);
  letter->sealed = block;
  return NM_OK;
}

static int take(nm_letter *letter, nm_mail_job *work) {
  nm_span stamp = nm_span_of(work->search.stamp, NM_STAMP_SIZE);
  if (work->status != NM_OK) {
    return work->status;
  }
  if (work->kind == NM_MAIL_JOB_SEAL) {
    letter->data = work->out;
    work->out = NULL;
    return NM_OK;
  }
  return letter->stamp_cost > 0 ? put_message_stamp(letter, stamp)
                                : put_node_stamp(letter, stamp);
}

void nm_letter_worked(nm_letter *letter, nm_mail_job *work) {
  if (work->kind == NM_MAIL_JOB_STAMP && work->status == NM_OK &&
      !work->found) {
    nm_router_submit(letter->router, work); /* the next slice */
    return;
  }
  letter->work = NULL;
  letter->wait = NM_WAIT_NOTHING;
  int status = take(letter, work);
  bool stamped = work->kind == NM_MAIL_JOB_STAMP;
  nm_mail_job_free(work);
  if (status != NM_OK) {
    letter->stage = NM_STAGE_NONE;
    nm_letter_exhausted(letter);
    return;
  }
  if (stamped) {
    nm_letter_tell(letter, true);
  }
  nm_policy_go_on(letter);
}
