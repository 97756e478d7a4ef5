/* Messages of a link's channel that leave: operations, and those that wait for
 * the window (RNS 2, 4.2).
 */
#include "stack/channel_link.h"

nm_channel_letter *nm_letter_new(nm_link_channel *channel) {
  nm_engine *engine = channel->engine;
  nm_channel_letter *letter = nm_alloc_zero(engine->mem, 1, sizeof(*letter));
  nm_op *op =
      letter == NULL ? NULL : nm_op_begin(&engine->ops, NM_OP_CHANNEL, letter);
  if (op == NULL) {
    nm_release(engine->mem, letter);
    return NULL;
  }
  letter->channel = channel;
  letter->op = op->id;
  return letter;
}

static void free_letter(nm_channel_letter *letter) {
  nm_block_drop(letter->payload);
  nm_release(letter->channel->engine->mem, letter);
}

void nm_letter_scrap(nm_channel_letter *letter) {
  nm_ops *ops = &letter->channel->engine->ops;
  nm_op_abandon(ops, nm_op_find(ops, letter->op));
  free_letter(letter);
}

/* Ends the operation of |letter|, if it has one still. */
static void end_op(nm_channel_letter *letter, nm_event *event) {
  nm_engine *engine = letter->channel->engine;
  nm_op *op = letter->op == 0 ? NULL : nm_op_find(&engine->ops, letter->op);
  letter->op = 0;
  if (op != NULL) {
    event->total_bytes = letter->channel->core.window.window;
    nm_engine_end(engine, op, event);
  }
}

static nm_event undelivered(const nm_channel_letter *letter, int status,
                            nm_stage stage) {
  nm_event event = nm_link_event(letter->channel->link, NM_EVENT_CHANNEL_SENT);
  event.state = NM_RECEIPT_FAILED;
  event.status = status;
  event.stage = (uint8_t)stage;
  event.msgtype = letter->msgtype;
  return event;
}

void nm_letter_ended(nm_channel_letter *letter, const nm_channel_sent *sent,
                     bool delivered) {
  nm_event event = undelivered(letter, NM_E(STATE), NM_STAGE_LINK);
  if (delivered) {
    event.state = NM_RECEIPT_DELIVERED;
    event.status = NM_OK;
    event.stage = NM_STAGE_NONE;
    event.rtt_us = letter->channel->engine->now.mono_us - sent->first_sent_us;
  }
  event.msgtype = sent->msgtype;
  event.sequence = sent->sequence;
  event.tries = sent->tries;
  end_op(letter, &event);
  free_letter(letter);
}

/* ---- those that wait ---- */

void nm_letter_wait(nm_channel_letter *letter) {
  nm_link_channel *channel = letter->channel;
  letter->waiting = true;
  if (channel->waiting_last != NULL) {
    channel->waiting_last->next = letter;
  } else {
    channel->waiting_first = letter;
  }
  channel->waiting_last = letter;
  channel->waiting_count++;
}

/* Takes |letter|, which waits after |before| (NULL: first), out. */
static void leave(nm_channel_letter *letter, nm_channel_letter *before) {
  nm_link_channel *channel = letter->channel;
  if (before != NULL) {
    before->next = letter->next;
  } else {
    channel->waiting_first = letter->next;
  }
  if (channel->waiting_last == letter) {
    channel->waiting_last = before;
  }
  channel->waiting_count--;
  letter->next = NULL;
  letter->waiting = false;
}

static nm_channel_letter *before_of(const nm_channel_letter *letter) {
  nm_channel_letter *before = letter->channel->waiting_first;
  while (before != NULL && before->next != letter) {
    before = before->next;
  }
  return before;
}

bool nm_letters_step(nm_link_channel *channel) {
  nm_channel_letter *letter = channel->waiting_first;
  if (letter == NULL || channel->stuck ||
      nm_channel_room(&channel->core) == 0) {
    return false;
  }
  nm_span payload = nm_block_span(letter->payload);
  int status = nm_channel_send(&channel->core, letter->msgtype, &payload, 1,
                               letter, NULL, channel->engine->now.mono_us);
  if (status != NM_OK) {
    channel->stuck = true; /* tried again; its place in the window is free */
    return false;
  }
  leave(letter, NULL);
  nm_block_drop(letter->payload);
  letter->payload = NULL;
  return true;
}

void nm_letter_cancel(nm_channel_letter *letter) {
  nm_event event = undelivered(letter, NM_E(CANCELLED), NM_STAGE_CANCELLED);
  end_op(letter, &event);
  if (letter->waiting) {
    leave(letter, before_of(letter));
    free_letter(letter);
  }
}

void nm_letters_close(nm_link_channel *channel) {
  while (channel->waiting_first != NULL) {
    nm_channel_letter *letter = channel->waiting_first;
    nm_event event = undelivered(letter, NM_E(STATE), NM_STAGE_LINK);
    leave(letter, NULL);
    end_op(letter, &event);
    free_letter(letter);
  }
}
