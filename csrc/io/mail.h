/* The node's mail: a router above the engine, made by the first MAIL_OPEN, with
 * what the reader is yet to be told. Only files of this room include it; all
 * belongs to the loop's thread, or to the reader once the node is handed over.
 *
 * Nothing is told later for want of memory: a letter has its entry from the
 * start, which keeps its newest state until there is room in the ring. A
 * received message that finds no credit or no room waits unproven.
 */
#ifndef NM_IO_MAIL_H
#define NM_IO_MAIL_H

#include "io/internal.h"
#include "lxmf/router.h"
#include "lxmf/tickets.h"

/* States in between of quiet letters are told this late at most. */
#define NM_MAIL_LATE_US 50000u
/* Bytes of messages that wait for credit; more are refused. */
#define NM_MAIL_WAITING_MAX (64u << 20)

typedef enum nm_mail_queue {
  NM_MAIL_NOT_QUEUED,
  NM_MAIL_QUEUED_LATE, /* until the timer, or the end */
  NM_MAIL_QUEUED_NOW
} nm_mail_queue;

/* A letter or a fetch that a command began. */
typedef struct nm_mail_entry {
  nm_table_link by_id; /* letters: until the end */
  uint8_t id[NM_HASH_SIZE];
  nm_table_link by_ticket;
  uint64_t ticket;
  bool findable; /* is in the second table */
  bool is_sync;
  bool kept;      /* of a mailbox that keeps */
  bool starting;  /* on its way to the disk, not begun */
  bool cancelled; /* meanwhile */
  bool carries_ticket;
  bool quiet; /* as the command */
  bool ended; /* final; it goes when it was told */
  nm_mail_queue queued;
  struct nm_mail_entry *next; /* of its queue */
  struct nm_mail_entry *prev;
  struct nm_mail_entry *next_sync;
  nm_mail news;              /* its newest state; no blocks */
  struct nm_mail_note *note; /* for its writes; kept ones have it */
} nm_mail_entry;

typedef struct nm_mail_list {
  nm_mail_entry *first;
  nm_mail_entry *last;
} nm_mail_list;

/* A received message that waits for credit or room. */
typedef struct nm_mail_waiting {
  struct nm_mail_waiting *next;
  nm_mail mail;
} nm_mail_waiting;

typedef struct nm_mail_host {
  nm_router *router;
  nm_table letters;   /* by id */
  nm_table by_ticket; /* letters and fetches */
  nm_mail_entry *syncs;
  nm_mail_list told; /* to be told now */
  nm_mail_list late; /* to be told by the timer */
  nm_mail_waiting *waiting_first;
  nm_mail_waiting *waiting_last;
  size_t waiting_bytes;
  uint32_t waiting_proven; /* of them proven ahead; they stand first */
  uint64_t credit;
  unsigned credited;         /* of `mail_drained` */
  nm_mail_job *stamps_first; /* searches that wait for a worker */
  nm_mail_job *stamps_last;
  uint32_t stamps_out;
  struct nm_mail_keep *keep; /* or NULL: no mailbox keeps */
  bool moved; /* since the last look: the node needs another round */
} nm_mail_host;

/* mail_entries.c */
/* The name of mailboxes, "lxmf.delivery". */
nm_span nm_mail_name(void);
/* An entry without a command; |kept|: with a note for its writes. NULL without
 * memory. */
nm_mail_entry *nm_mail_entry_new(nm_node *node, bool kept);
void nm_mail_entry_free(nm_node *node, nm_mail_entry *entry);
/* The letter goes on its way; on errors |entry| stays the caller's. */
int nm_mail_begin(nm_node *node, const nm_ask *ask, nm_mail_entry *entry);
int nm_mail_begin_spec(nm_node *node, const nm_letter_spec *spec,
                       nm_mail_entry *entry);
nm_mail_entry *nm_mail_entry_of_ticket(nm_table_link *by_ticket);
/* NULL is allowed. */
void nm_mail_note_free(nm_node *node, struct nm_mail_note *note);
/* Puts |entry| at the end of a queue, out of the one that it is in. */
void nm_mail_join_queue(nm_mail_host *host, nm_mail_entry *entry,
                        nm_mail_queue queue);
void nm_mail_leave_queue(nm_mail_host *host, nm_mail_entry *entry);
/* The end of a kept letter is on disk, or cannot be put there. */
void nm_mail_tell_end(nm_node *node, nm_mail_entry *entry);
/* A received message is neither proven nor told of. */
void nm_mail_refuse(nm_node *node, nm_mail *mail);
void nm_mail_put_event(nm_node_event *slot, uint64_t ticket,
                       const nm_mail *mail);
/* Who its sender is. */
void nm_mail_put_source(nm_node *node, nm_node_mail *told);
void nm_mail_late_due(void *user, nm_timer *timer);
/* Releases all entries and messages that wait. */
void nm_mail_entries_dispose(nm_node *node);

/* mail.c */
/* Makes the host if there is none. NM_E(MEMORY), NM_E(LIBRARY). */
int nm_mail_start(nm_node *node);
/* NULL is allowed. The engine must still be there. */
void nm_mail_free(nm_node *node);
/* An event of the engine: true when it was the router's. */
bool nm_mail_input(nm_node *node, nm_event *event);
/* Runs what is due. */
void nm_mail_turn(nm_node *node);
/* Whether nm_mail_take_job would have something to look at. */
bool nm_mail_has_job(const nm_node *node);
/* A job of the router's to be run now; searches for stamps are set aside. NULL:
 * there is none. */
nm_mail_job *nm_mail_take_job(nm_node *node);
/* A search to be run beside others, or NULL: enough of them are out. */
nm_mail_job *nm_mail_take_stamp(nm_node *node);
/* Whether anything happened since the last call. */
bool nm_mail_moved(nm_node *node);
uint64_t nm_mail_deadline(const nm_node *node);
/* Gives a job back that ran; |out|: on the pool, or by nm_mail_take_stamp. */
void nm_mail_job_done(nm_node *node, nm_mail_job *job, bool out);
/* The close begins: letters end. */
void nm_mail_shut(nm_node *node);

/* Begins a letter or a fetch for |ask|. */
int nm_mail_send(nm_node *node, nm_ask *ask);
int nm_mail_sync_start(nm_node *node, nm_ask *ask);
/* Cancels what |ticket| started; quiet when there is nothing. */
void nm_mail_cancel_ticket(nm_node *node, uint64_t ticket);

/* mail_keep.c, whose header has the rest */
bool nm_mail_is_kept(const nm_node *node, const nm_destination_hash *mailbox);
/* Begins a letter of a mailbox that keeps. NM_LATER, or an error. */
int nm_mail_keep_letter(nm_node *node, nm_ask *ask, nm_mail_entry *entry);
/* Once a turn: writes what waits. */
void nm_mail_keep_step(nm_node *node);
void nm_mail_keep_free(nm_node *node);

/* mail_told.c */
/* Moves what the router tells into the ring; false when some is left for want
 * of room. */
bool nm_mail_deliver(nm_node *node);
/* The reader's: what is left of a node that was handed over. */
bool nm_mail_rest(nm_node *node, nm_node_event *event);
/* Nobody reads any more. */
void nm_mail_discard(nm_node *node);

#endif
