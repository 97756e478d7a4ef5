/* The router's jobs: work that is too long for a step of a state machine. A
 * job owns what it needs, so it can run on any thread; a search for a stamp
 * comes in slices, so that none holds a thread for long and all can be
 * cancelled.
 */
#ifndef NM_LXMF_MAIL_JOB_H
#define NM_LXMF_MAIL_JOB_H

#include "base/block.h"
#include "crypto/identity.h"
#include "crypto/stamp.h"
#include "stack/types.h"
#include "wire/lxmf_constants.h"

#define NM_MAIL_JOB_TICKETS_MAX 8
/* Tries of one slice: some milliseconds. */
#define NM_MAIL_JOB_SLICE_TRIES 65536u

typedef enum nm_mail_job_kind {
  NM_MAIL_JOB_INSPECT, /* a received message: id, signature, stamp */
  NM_MAIL_JOB_OPEN,    /* a propagated or paper message: decrypt */
  NM_MAIL_JOB_SEAL,    /* an outgoing one: encrypt for a node */
  NM_MAIL_JOB_STAMP    /* a slice of a search */
} nm_mail_job_kind;

/* The parts that apply to the kind are set; the rest is zero. */
typedef struct nm_mail_job {
  struct nm_mail_job *next;
  nm_mail_job_kind kind;
  void *owner; /* the router's */
  int status;  /* out: 0 or an nm_status */
  const nm_mem *mem;

  nm_block *bytes; /* in: INSPECT: packed; OPEN: lxmf_data; SEAL: packed */
  nm_block *out;   /* out: OPEN: packed; SEAL: lxmf_data */

  /* INSPECT */
  bool source_known;
  uint8_t source_key[NM_KEY_SIZE]; /* Ed25519 */
  uint32_t cost; /* 0: no stamp is looked at; STAMP: the aim */
  uint8_t tickets[NM_MAIL_JOB_TICKETS_MAX][NM_LXMF_TICKET_SIZE];
  uint32_t ticket_count;
  uint8_t id[NM_HASH_SIZE]; /* out; STAMP: in, the material */
  nm_lxmf_unverified unverified;
  bool stamp_valid;
  uint32_t stamp_value;

  /* OPEN: the recipient's; SEAL: of the recipient, public */
  nm_block *identity; /* an nm_identity, secret */
  nm_block *ratchets; /* 32-byte private keys, newest first, or NULL */
  bool enforce;
  bool has_ratchet;
  uint8_t ratchet[NM_KEY_SIZE];
  uint8_t ephemeral[NM_KEY_SIZE]; /* SEAL: entropy from the router */
  uint8_t iv[16];

  /* STAMP */
  uint32_t rounds;
  bool have_midstate;
  nm_sha256_midstate midstate; /* kept from slice to slice */
  nm_stamp_search_args search;
  atomic_bool stop; /* the router's: the search ends with NM_E(CANCELLED) */
  bool found;
} nm_mail_job;

/* Runs any kind. Touches the job and |cipher| (the calling thread's) alone. */
void nm_mail_job_run(nm_mail_job *work, nm_cipher *cipher);
/* A guess of its run time in microseconds. */
uint32_t nm_mail_job_cost_us(const nm_mail_job *work);
/* Releases it with all it owns, wiped. NULL is allowed. */
void nm_mail_job_free(nm_mail_job *work);

#endif
