/* Jobs: work that takes longer than an engine step may. The engine emits a
 * job, goes on, and takes the result back as an input. A job owns everything
 * it needs, so it can run on any thread while the engine does other things.
 */
#ifndef NM_STACK_JOB_H
#define NM_STACK_JOB_H

#include "crypto/aes.h"
#include "stack/types.h"

typedef enum nm_job_kind {
  NM_JOB_VERIFY_ANNOUNCE,
  NM_JOB_SIGN_ANNOUNCE,
  NM_JOB_PROVE, /* sign a packet proof */
  NM_JOB_VERIFY_PROOF,
  NM_JOB_OPEN_PACKET,       /* decrypt a single packet with ratchets and key */
  NM_JOB_SEAL_PACKET,       /* encrypt a single packet */
  NM_JOB_LINK_KEYS,         /* make an initiator's two key pairs */
  NM_JOB_LINK_ACCEPT,       /* responder: key pair, exchange, signature */
  NM_JOB_LINK_CONFIRM,      /* initiator: verify the proof, exchange */
  NM_JOB_LINK_IDENTIFY,     /* verify an identification */
  NM_JOB_LINK_SIGN_ID,      /* make one */
  NM_JOB_RESOURCE_SEAL,     /* read, compress, encrypt, hash, map a segment */
  NM_JOB_RESOURCE_OPEN,     /* decrypt, inflate, check, write a segment */
  NM_JOB_STORE,             /* make bytes durable, then report */
  NM_JOB_STREAM_PACK,       /* compress bytes of a stream into a message */
  NM_JOB_STREAM_OPEN,       /* inflate a message of a stream */
  NM_JOB_VERIFY_LINK_PROOF, /* of a transported link */
  NM_JOB_VERIFY_TUNNEL,
  NM_JOB_SINK_FINISH, /* make what a sink was given durable; may block long */
  NM_JOB_SINK_CHECK,  /* read what is there of a resource from before */
  NM_JOB_SOURCE_CHECK /* hash the beginning of what is sent */
} nm_job_kind;

typedef struct nm_job nm_job;

/* The id and kind of |job|. */
nm_job_id nm_job_id_of(const nm_job *job);
nm_job_kind nm_job_kind_of(const nm_job *job);
/* A guess of its run time in microseconds, for the driver's choice between
 * inline and pool. */
uint32_t nm_job_cost_us(const nm_job *job);
/* The interface whose traffic caused it (for a fair share), 0 for own work. */
nm_iface_id nm_job_origin(const nm_job *job);

/* Runs every kind but NM_JOB_STORE. Touches the job and |cipher|, which belongs
 * to the calling thread, alone, and calls the source or sink of its transfer.
 */
void nm_job_run(nm_job *job, nm_cipher *cipher);

/* For NM_JOB_STORE: what to make durable. The name is one of a fixed set
 * ("ratchets/<hex>", "announced/<hex>"); the driver writes beside, syncs and
 * renames, then sets the result. */
const char *nm_job_store_name(const nm_job *job);
nm_span nm_job_store_bytes(const nm_job *job);
void nm_job_store_result(nm_job *job, bool ok);

#endif
