/* Messages and stores for the tests of the mail store. */
#ifndef NM_TESTS_MAIL_SUPPORT_H
#define NM_TESTS_MAIL_SUPPORT_H

#include "io/mail_store.h"

/* The place of a store in a new folder, kept until the end of the test. */
const char *mail_path(void);
/* |path| with something after it, likewise. */
const char *mail_beside(const char *path, const char *suffix);

/* A hash of which every byte is |number|. */
nm_destination_hash mail_hash(uint8_t number);

typedef struct mail_text {
  nm_destination_hash mailbox;
  nm_destination_hash peer;
  bool outgoing;
  double timestamp;
  const char *title;
  nm_span content; /* ptr NULL: `words` */
  const char *words;
  nm_span fields;
} mail_text;

/* A packed message (with a made-up signature) in storage that lives until the
 * end of the test, and its id. */
nm_span mail_pack(const mail_text *text, uint8_t id[NM_HASH_SIZE]);

/* Message number |n| from |peer| to |mailbox|, as a write. */
nm_mail_write mail_received(uint8_t mailbox, uint8_t peer, uint32_t n,
                            const char *words);
/* The like on its way out: opportunistic for a minute, then direct. */
nm_mail_write mail_letter(uint8_t mailbox, uint8_t peer, uint32_t n,
                          const char *words);
nm_mail_write mail_state(const nm_mail_write *letter, nm_lxmf_state state,
                         bool final);
nm_mail_write mail_of_row(nm_mail_write_kind kind, int64_t row);

nm_mail_store *mail_open(const char *path);
/* Applies one write and checks that the transaction worked; its own status. */
int mail_apply(nm_mail_store *store, nm_mail_write *write);
/* How many rows a query finds, at most 4096. */
size_t mail_count(nm_mail_store *store, const nm_mail_query *query);
size_t mail_hits(nm_mail_store *store, uint8_t mailbox, const char *words);
/* Fails the test unless the store is as it should be. */
void mail_check(nm_mail_store *store);
nm_mail_figures mail_figures(nm_mail_store *store);

#endif
