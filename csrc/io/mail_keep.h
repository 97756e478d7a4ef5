/* Mailboxes that keep: what is to be on disk before it is promised. Only files
 * of this room include it; all belongs to the loop's thread unless it says
 * otherwise.
 *
 * Notes wait in one line and are written on the storage thread, all that wait
 * as one transaction; while it is written the next ones gather. What a note is
 * for happens when it is on disk: a message is proven and told, a letter
 * begins, an end is told. When it cannot be written the message is refused, the
 * command fails; an end is told all the same.
 */
#ifndef NM_IO_MAIL_KEEP_H
#define NM_IO_MAIL_KEEP_H

#include "io/mail.h"
#include "io/mail_store.h"

/* Of one transaction. */
#define NM_MAIL_BATCH 256

typedef struct nm_mail_note {
  struct nm_mail_note *next;
  nm_mail_write write; /* its spans are those of the blocks */
  nm_block *packed;
  nm_block *sealed;
  nm_mail mail;         /* RECEIVED: what will be told */
  nm_ask *ask;          /* to be answered, or NULL */
  nm_mail_entry *entry; /* LETTER and STATE: whose it is */
} nm_mail_note;

/* A mailbox that keeps. */
typedef struct nm_mail_kept_box {
  struct nm_mail_kept_box *next;
  nm_destination_hash hash;
  int64_t missed_row; /* there was no room to tell of it; or 0 */
} nm_mail_kept_box;

/* What a mailbox has in the store when it is opened. */
typedef struct nm_mail_load {
  nm_buffer letters;    /* nm_mail_letter, owned */
  nm_buffer tickets;    /* nm_ticket_record */
  nm_buffer deliveries; /* nm_ticket_record */
  nm_buffer seen;       /* ids, newest first */
  nm_buffer ignored;    /* nm_destination_hash */
} nm_mail_load;

typedef struct nm_mail_keep {
  nm_errand errand;
  nm_node *node;
  nm_mail_store *store; /* the storage thread's while `writing` */
  nm_mail_kept_box *boxes;
  nm_mail_note *first; /* that wait */
  nm_mail_note *last;
  size_t bytes; /* of received messages among them and in the batch */
  bool writing;
  bool closing;
  bool closed;
  nm_mail_note *batch[NM_MAIL_BATCH];
  nm_mail_write writes[NM_MAIL_BATCH];
  size_t count;
  int status; /* of the batch, or of opening the store */
  nm_mail_trouble trouble;
  nm_buffer seen; /* ids that the router is yet to be told */
} nm_mail_keep;

/* mail_entries.c. NULL without memory. */
nm_mail_note *nm_mail_note_new(nm_node *node, nm_mail_write_kind kind);

/* mail_load.c. On the caller's thread: reads what MAIL_OPEN needs. */
int nm_mail_load_read(nm_node *node, nm_ask *ask);
/* NULL is allowed. */
void nm_mail_load_free(const nm_mem *mem, nm_mail_load *load);
/* Gives tickets and ids of an earlier run to the router. */
void nm_mail_load_apply(nm_node *node, nm_mail_load *load);
/* Some more of the ids; whether any are left. */
bool nm_mail_load_more(nm_node *node);

/* mail_keep.c */
static inline bool nm_mail_keeps(const nm_node *node) {
  return node->mail != NULL && node->mail->keep != NULL;
}
int nm_mail_keep_start(nm_node *node, nm_ask *ask);
/* The mailbox of |ask| was opened: it keeps, its letters go on. */
int nm_mail_keep_box(nm_node *node, nm_ask *ask);
void nm_mail_keep_no_box(nm_node *node, const nm_destination_hash *hash);
nm_mail_kept_box *nm_mail_box_of(const nm_node *node,
                                 const nm_destination_hash *mailbox);

/* Has |note| written; it is taken over. */
void nm_mail_keep_put(nm_node *node, nm_mail_note *note);

/* A message for a mailbox that keeps, taken over. */
void nm_mail_keep_received(nm_node *node, nm_mail *mail);
/* |mail| is a WORKED of a kept letter; its blocks stay the caller's. */
void nm_mail_keep_worked(nm_node *node, const nm_mail *mail);
/* A kept letter has ended: its end is told once it is on disk. */
void nm_mail_keep_end(nm_node *node, nm_mail_entry *entry);
/* Messages that there was no room to tell of; false: there is still none. */
bool nm_mail_keep_tell_missed(nm_node *node);
/* Of a node that closes: whether all is written and the store is closed. */
bool nm_mail_has_settled(nm_node *node);

#endif
