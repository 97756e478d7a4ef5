/* The inside of a link's channel: what waits in it beside the rings of the
 * state machine, and what its files call in each other.
 *
 * channel_core.c; buffer_in.c, buffer_out.c (streams); channel_out.c (messages
 * that leave); channel.c (the link's outlet, life, verbs), buffer.c (verbs and
 * jobs of streams).
 */
#ifndef NM_STACK_CHANNEL_LINK_H
#define NM_STACK_CHANNEL_LINK_H

#include "stack/buffer.h"
#include "stack/link_state.h"

struct nm_link_channel;

/* An accepted message: its event, and whether that must still be inflated. */
typedef struct nm_channel_place {
  struct nm_channel_place *next;           /* in order, not told yet */
  struct nm_channel_place *next_inflating; /* of those in the hands of jobs */
  nm_event_node *node;
  bool waiting; /* for its job */
  uint64_t serial;
  nm_block *plain; /* while it is waiting: what `message` lies in */
  nm_stream_message message;
} nm_channel_place;

typedef struct nm_write_out {
  struct nm_write_out *next; /* of the same stream */
  struct nm_link_channel *channel;
  nm_op_id op; /* 0: nobody wants to know */
  uint16_t stream;
  nm_block *content; /* may be NULL */
  bool eof;
  nm_resource_compression compression;
  size_t made;      /* bytes that are in messages */
  bool all_made;    /* and the end, if asked for */
  bool failed;      /* a message was not proven */
  uint32_t letters; /* outstanding messages */
  size_t proven;    /* bytes */
  uint64_t wire_bytes;
} nm_write_out;

/* Whose message one is; NULL for a message whose end nobody wants to know. */
typedef struct nm_channel_letter {
  struct nm_link_channel *channel;
  nm_op_id op; /* of a message */
  nm_write_out *write;
  size_t taken; /* bytes of the write in it */
  /* While it waits for the window. */
  struct nm_channel_letter *next;
  bool waiting;
  uint16_t msgtype;
  nm_block *payload; /* NULL: no bytes */
} nm_channel_letter;

/* The writing half of a stream. */
typedef struct nm_stream_out {
  struct nm_stream_out *next; /* of the channel */
  struct nm_stream_out *next_turn;
  uint16_t id;
  bool ended;          /* its end was written */
  bool queued;         /* waits for its turn */
  nm_write_out *first; /* not all made yet */
  nm_write_out *last;
  uint64_t packing;         /* serial of the job under way, or 0 */
  nm_block *packed;         /* a message made by a job, not sent yet */
  nm_stream_written result; /* what it says of `packed` */
  bool plain_next;          /* the job failed: send the bytes as they are */
  uint32_t vain;            /* trials in a row that did not help */
  uint32_t skip;            /* messages before the next trial */
} nm_stream_out;

typedef struct nm_link_channel {
  nm_channel core;
  nm_link *link;
  nm_engine *engine;
  nm_timer timer;
  nm_event_entry ready; /* made when it is read */
  nm_now ready_at;
  bool wanted; /* a send was refused */
  /* The application was told: until then one place is left to it. */
  uint64_t app_turn_us;
  bool paused;
  bool reports;
  bool stuck; /* a message could not leave: tried again soon */
  uint64_t next_serial;

  /* While a packet is being received. */
  nm_block *plain;
  nm_input *input;

  nm_channel_place *told_first; /* in order, held up by an inflation */
  nm_channel_place *told_last;
  nm_channel_place *inflating;

  nm_channel_letter *waiting_first; /* for the window */
  nm_channel_letter *waiting_last;
  uint32_t waiting_count;

  nm_stream_out *streams;
  uint32_t stream_count;
  nm_stream_out *turn_first;
  nm_stream_out *turn_last;
  uint32_t write_count; /* that have not ended */
} nm_link_channel;

/* ---- buffer_in.c ---- */

/* Fills in the event of |place| from a stream message, at once or by a job.
 * NM_DROP_NONE, or why it cannot be taken. */
nm_drop nm_stream_accept(nm_link_channel *channel, nm_span payload,
                         nm_channel_place *place);
/* Tells what has come in order, up to what is still being inflated. */
void nm_channel_tell(nm_link_channel *channel);
/* Returns an untold place with its credit. */
void nm_channel_place_free(nm_link_channel *channel, nm_channel_place *place);
/* The link ends: inflates the rest here and tells it. */
void nm_streams_tell_rest(nm_link_channel *channel);
/* A job's end. */
void nm_stream_opened(nm_engine *engine, nm_job *job);

/* ---- buffer_out.c ---- */

nm_stream_out *nm_stream_out_find(const nm_link_channel *channel, uint16_t id);
/* Makes one message of the stream whose turn it is, or has it made by a job.
 * False when nothing more can be made now. */
bool nm_streams_step(nm_link_channel *channel);
/* A message of a write was proven, or will not be. */
void nm_stream_letter_ended(nm_link_channel *channel, nm_channel_letter *letter,
                            bool delivered);
/* Puts |stream| in the queue if it has something to make. */
void nm_stream_queue(nm_link_channel *channel, nm_stream_out *stream);
/* Ends |write| when nothing of it is left to do; it is gone then. */
void nm_stream_write_settle(nm_link_channel *channel, nm_write_out *write);
/* Ends the operation of a write, which lives on. */
void nm_stream_write_end_op(nm_link_channel *channel, nm_write_out *write,
                            int status, nm_stage stage);
void nm_streams_close(nm_link_channel *channel);

/* ---- channel_out.c ---- */

/* The owner of a message that becomes an operation; NULL without memory. */
nm_channel_letter *nm_letter_new(nm_link_channel *channel);
/* Takes it back before its operation is known to anybody. */
void nm_letter_scrap(nm_channel_letter *letter);
/* A message was proven, or will not be. |letter| is gone afterwards. */
void nm_letter_ended(nm_channel_letter *letter, const nm_channel_sent *sent,
                     bool delivered);
/* The end of its operation: what is on its way stays in the sequence. */
void nm_letter_cancel(nm_channel_letter *letter);
/* Puts |letter| behind those that wait. */
void nm_letter_wait(nm_channel_letter *letter);
/* Sends the first that waits. False when there is none, or no room. */
bool nm_letters_step(nm_link_channel *channel);
/* The channel ends: those that wait end undelivered. */
void nm_letters_close(nm_link_channel *channel);

/* ---- channel.c ---- */

/* After every change: tells readiness, makes messages, arms the timer. */
void nm_link_channel_settle(nm_link_channel *channel);

/* ---- buffer.c ---- */

void nm_stream_packed(nm_engine *engine, nm_job *job);

#endif
