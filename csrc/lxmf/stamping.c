/* Work for letters: the stamp that the recipient asks for, the encrypted form
 * and the stamp that a node asks for (LXMF 6, 8). It is done once, whatever
 * becomes of the attempts, and the driver is told, so that a restart goes on
 * with the same bytes.
 */
#include "lxmf/internal.h"

#include "wire/lxmf_message.h"
#include "wire/lxmf_propagation.h"

#include <string.h>

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

/* What the node asks for; false when it is not known. */
static bool node_cost(nm_router *router, uint32_t *cost) {
  nm_lxmf_node node;
  *cost = router->node_cost;
  if (*cost > 0) {
    return true;
  }
  if (!nm_router_node_of(router, &node) || node.stamp_cost < 0 ||
      node.stamp_cost > NM_STAMP_COST_MAX) {
    return false;
  }
  *cost = (uint32_t)node.stamp_cost;
  return true;
}

/* ---- starting ---- */

static bool submit(nm_letter *letter, nm_mail_job *work) {
  letter->work = work;
  letter->wait = NM_WAIT_WORK;
  nm_router_submit(letter->router, work);
  return true;
}

/* The step cannot be begun: it ends with the letter in it. */
static bool give_up(nm_letter *letter, nm_stage stage) {
  letter->stage = stage;
  nm_letter_exhausted(letter);
  return true;
}

static bool start_stamp(nm_letter *letter, const uint8_t material[NM_HASH_SIZE],
                        uint32_t cost, uint32_t rounds) {
  nm_router *router = letter->router;
  nm_mail_job *work = nm_router_new_work(router, NM_MAIL_JOB_STAMP, letter);
  if (work == NULL || nm_entropy_fill(&router->entropy, work->search.prefix,
                                      sizeof(work->search.prefix)) != NM_OK) {
    nm_mail_job_free(work);
    return give_up(letter, NM_STAGE_NONE);
  }
  memcpy(work->id, material, NM_HASH_SIZE);
  work->cost = cost;
  work->rounds = rounds;
  return submit(letter, work);
}

static bool start_seal(nm_letter *letter) {
  nm_router *router = letter->router;
  nm_identity identity;
  nm_span data;
  bool has_data = false;
  if (!nm_engine_recall(router->engine, &letter->recipient, &identity, &data,
                        &has_data, router->now)) {
    return give_up(letter, NM_STAGE_IDENTITY);
  }
  nm_mail_job *work = nm_router_new_work(router, NM_MAIL_JOB_SEAL, letter);
  if (work != NULL) {
    work->identity =
        nm_block_copy(router->mem, nm_span_of(&identity, sizeof(identity)));
    work->bytes = nm_block_hold(letter->packed);
    work->has_ratchet = nm_engine_ratchet_of(router->engine, &letter->recipient,
                                             work->ratchet, router->now);
  }
  if (work == NULL || work->identity == NULL ||
      nm_entropy_fill(&router->entropy, work->ephemeral,
                      sizeof(work->ephemeral)) != NM_OK ||
      nm_entropy_fill(&router->entropy, work->iv, sizeof(work->iv)) != NM_OK) {
    nm_mail_job_free(work);
    return give_up(letter, NM_STAGE_NONE);
  }
  return submit(letter, work);
}

/* The node's cost is asked for with its path, as often as a path would be. */
static bool ask_cost(nm_letter *letter) {
  if (!nm_letter_due(letter)) {
    nm_letter_arm(letter);
    return true;
  }
  letter->attempts++;
  if (letter->attempts >= letter->attempts_max) {
    return give_up(letter, NM_STAGE_PATH);
  }
  nm_gate_ask(letter->lane);
  nm_letter_schedule(letter, true);
  nm_letter_arm(letter);
  return true;
}

static bool start_node_work(nm_letter *letter) {
  uint32_t cost;
  uint8_t transient[NM_HASH_SIZE];
  if (letter->sealed != NULL) {
    return false;
  }
  if (letter->data == NULL) {
    return start_seal(letter);
  }
  if (!node_cost(letter->router, &cost)) {
    return ask_cost(letter);
  }
  nm_lxmf_transient_id(nm_block_span(letter->data), transient);
  return start_stamp(letter, transient, cost, NM_LXMF_ROUNDS_PROPAGATION);
}

bool nm_letter_start_work(nm_letter *letter) {
  if (letter->work != NULL) {
    return true;
  }
  if (letter->stamp_cost > 0) {
    return start_stamp(letter, letter->id, letter->stamp_cost,
                       NM_LXMF_ROUNDS_MESSAGE);
  }
  return letter->method == NM_LXMF_PROPAGATED && start_node_work(letter);
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
    (void)give_up(letter, NM_STAGE_NONE);
    return;
  }
  if (stamped) {
    nm_letter_tell(letter, true);
  }
  if (!nm_letter_start_work(letter)) {
    nm_letter_set(letter, NM_LXMF_OUTBOUND, letter->progress);
    nm_letter_begin_way(letter);
  }
}
