/* The inside of a job, and the queue of jobs that wait for the driver.
 *
 * A job names its owner by keys, never by pointer: when it comes back the owner
 * may be gone, and then its result is dropped.
 */
#ifndef NM_STACK_JOBS_H
#define NM_STACK_JOBS_H

#include "base/block.h"
#include "crypto/identity.h"
#include "stack/content.h"
#include "stack/queue.h"
#include "wire/announce.h"
#include "wire/resource_build.h"
#include "wire/resource_join.h"
#include "wire/stream.h"

#define NM_STORE_NAME_MAX 63

/* An identity with its private keys, shared by reference. */
nm_block *nm_identity_block(const nm_mem *mem, const nm_identity *identity);
const nm_identity *nm_identity_in(const nm_block *block);

/* Inputs and results by kind. Blocks are references of the job's own. */
typedef struct nm_job_verify_announce {
  nm_block *raw; /* the packet */
  bool signature_only;
  bool has_expected;
  uint8_t expected[NM_PUBLIC_SIZE];
  nm_announce_verdict verdict; /* result */
} nm_job_verify_announce;

typedef struct nm_job_sign_announce {
  nm_block *identity;
  uint8_t name_hash[NM_NAME_HASH_SIZE];
  nm_block *app_data; /* NULL: none */
  bool has_ratchet;
  uint8_t ratchet[NM_KEY_SIZE];
  uint64_t emitted;
  uint8_t random[NM_ANNOUNCE_RANDOM_SIZE];
  uint8_t context;
  nm_block *raw; /* result */
} nm_job_sign_announce;

typedef struct nm_job_prove {
  nm_block *identity; /* or NULL: `sign` */
  nm_ed25519_sign_key sign;
  nm_packet_hash hash;
  bool on_link;
  nm_link_id link_id;
  bool implicit;
  nm_iface_id iface;
  nm_block *raw; /* result: the proof packet */
} nm_job_prove;

typedef struct nm_job_verify_proof {
  nm_block *raw; /* the proof's packet, for the event */
  uint8_t public_key[NM_KEY_SIZE];
  uint8_t signature[NM_SIGNATURE_SIZE];
  nm_packet_hash hash;
} nm_job_verify_proof;

typedef struct nm_job_open_packet {
  nm_block *identity;
  nm_block *ratchets; /* private keys of 32 bytes, newest first; may be NULL */
  bool enforce;
  nm_block *raw; /* the packet */
  nm_packet_hash hash;
  nm_block *plaintext; /* result */
  ptrdiff_t opened_by; /* result */
} nm_job_open_packet;

typedef struct nm_job_seal_packet {
  uint8_t target[NM_KEY_SIZE];
  nm_identity_hash salt;
  uint8_t ephemeral[NM_KEY_SIZE];
  uint8_t iv[NM_AES_BLOCK];
  uint8_t context;
  nm_block *plaintext;
  nm_block *raw; /* result: HEADER_1, hops 0 */
  nm_packet_hash hash;
} nm_job_seal_packet;

typedef struct nm_job_link_keys {
  uint8_t x25519_private[NM_KEY_SIZE];
  uint8_t ed25519_seed[NM_KEY_SIZE];
  uint8_t x25519_public[NM_KEY_SIZE];  /* result */
  uint8_t ed25519_public[NM_KEY_SIZE]; /* result */
} nm_job_link_keys;

typedef struct nm_job_link_accept {
  nm_block *identity;
  nm_link_id link_id;
  uint8_t peer_x25519[NM_KEY_SIZE];
  uint8_t x25519_private[NM_KEY_SIZE];
  uint32_t mtu;
  uint8_t mode;
  nm_token_key key; /* result */
  nm_block *proof;  /* result: the proof packet */
} nm_job_link_accept;

typedef struct nm_job_link_confirm {
  nm_link_id link_id;
  uint8_t x25519_private[NM_KEY_SIZE];
  uint8_t ed25519_public[NM_KEY_SIZE]; /* of the destination */
  nm_block *proof;                     /* the packet */
  uint32_t mtu;                        /* result */
  uint8_t mode;                        /* result */
  nm_token_key key;                    /* result */
} nm_job_link_confirm;

typedef struct nm_job_verify_tunnel {
  uint8_t payload[NM_TUNNEL_SIZE];
  uint8_t id[NM_HASH_SIZE];
} nm_job_verify_tunnel;

typedef struct nm_job_link_identify {
  nm_link_id link_id;
  uint8_t payload[128];
} nm_job_link_identify;

typedef struct nm_job_link_sign_id {
  nm_block *identity;
  nm_link_id link_id;
  uint8_t payload[128]; /* result */
} nm_job_link_sign_id;

typedef struct nm_job_resource_seal {
  nm_block *content; /* or NULL: */
  nm_source *source;
  uint64_t offset; /* the segment's part of the content */
  uint64_t length;
  uint64_t total;     /* bytes of the whole content */
  nm_block *metadata; /* the whole metadata block, or NULL */
  nm_resource_compression compression;
  double rate;    /* what the link carries, bytes a second; 0: unknown */
  bool zstd;      /* the peer takes frames */
  uint64_t index; /* of the segment */
  size_t sdu;
  nm_token_key key;
  uint8_t iv[NM_AES_BLOCK];
  uint8_t prefix[NM_RESOURCE_PREFIX_SIZE];
  uint8_t randoms[8 * NM_RESOURCE_RANDOM_SIZE];
  nm_block *stream;            /* result */
  nm_block *hashmap;           /* result */
  nm_resource_segment segment; /* result; spans into the two blocks */
} nm_job_resource_seal;

typedef struct nm_job_resource_open {
  nm_resource_join join; /* moved into the job, disposed with it */
  nm_token_key key;
  size_t limit;
  nm_block *gathered; /* takes the content at `offset`; or NULL: */
  nm_sink *sink;      /* the same; both NULL: a new block, `data` */
  uint64_t offset;
  nm_block *data;              /* result */
  nm_block *metadata;          /* result: packed, or NULL */
  uint64_t plain;              /* result: bytes of the plaintext */
  uint64_t content;            /* result: of them the content's */
  uint8_t proof[NM_HASH_SIZE]; /* result */
} nm_job_resource_open;

typedef struct nm_job_sink_finish {
  nm_sink *sink;
  uint64_t size;
  nm_block *metadata; /* packed, or NULL */
  nm_block *place;    /* result */
} nm_job_sink_finish;

typedef struct nm_job_sink_check {
  nm_sink *sink;
  uint8_t salt[NM_HASH_SIZE];
  nm_held held; /* result */
} nm_job_sink_check;

typedef struct nm_job_source_check {
  nm_block *content; /* or NULL: */
  nm_source *source;
  uint64_t length; /* of the beginning */
  uint8_t salt[NM_HASH_SIZE];
  uint8_t digest[NM_HASH_SIZE]; /* result */
} nm_job_source_check;

typedef struct nm_job_stream_pack {
  uint16_t stream;
  nm_block *content; /* the write; `bytes` is a part of it */
  nm_span bytes;
  bool eof;
  size_t channel_mdu;
  nm_block *message; /* result: the payload of a channel message */
  nm_stream_written written;
} nm_job_stream_pack;

typedef struct nm_job_stream_open {
  nm_block *plain; /* the packet's plaintext */
  nm_stream_message message;
  nm_block *data; /* result */
} nm_job_stream_open;

typedef struct nm_job_store {
  char name[NM_STORE_NAME_MAX + 1];
  nm_block *bytes;
  bool rotation; /* the bytes are a destination's new ratchets */
} nm_job_store;

struct nm_job {
  nm_job *next;
  const nm_mem *mem;
  nm_job_id id;
  nm_job_kind kind;
  nm_iface_id origin;
  uint32_t cost_us;
  bool taken;       /* the driver has it */
  bool abandoned;   /* the engine went on without it: drop the result */
  int status;       /* result: 0 or an nm_status */
  nm_input_seq seq; /* the input whose verdict it completes, or 0 */
  /* The owner's continuation. May emit outputs, events and jobs. */
  void (*done)(nm_engine *engine, nm_job *job);
  /* Keys of the owner; each kind uses what it needs. */
  nm_destination_hash destination;
  nm_link_ref link;
  nm_op_id op;
  nm_token_id token;
  nm_event_node *node; /* a reserved event, or NULL */
  nm_frame frame;      /* signal values and hops of the input; spans unset */
  /* The last one. Many jobs may wait, so the allocation ends with the member
   * of the job's kind. */
  union {
    nm_job_verify_announce verify_announce;
    nm_job_sign_announce sign_announce;
    nm_job_prove prove;
    nm_job_verify_proof verify_proof;
    nm_job_open_packet open_packet;
    nm_job_seal_packet seal_packet;
    nm_job_link_keys link_keys;
    nm_job_link_accept link_accept;
    nm_job_link_confirm link_confirm; /* VERIFY_LINK_PROOF: without keys */
    nm_job_verify_tunnel verify_tunnel;
    nm_job_link_identify link_identify;
    nm_job_link_sign_id link_sign_id;
    nm_job_resource_seal resource_seal;
    nm_job_resource_open resource_open;
    nm_job_sink_finish sink_finish;
    nm_job_sink_check sink_check;
    nm_job_source_check source_check;
    nm_job_store store;
    nm_job_stream_pack stream_pack;
    nm_job_stream_open stream_open;
  } u;
};

typedef struct nm_jobs {
  const nm_mem *mem;
  nm_job *first; /* waiting for the driver */
  nm_job *last;
  nm_job *taken; /* list of those the driver holds, by `next` */
  uint32_t outstanding;
  uint32_t max;
  uint64_t emitted;
  nm_job_id next_id;
} nm_jobs;

void nm_jobs_init(nm_jobs *jobs, const nm_mem *mem, uint32_t max);
void nm_jobs_dispose(nm_jobs *jobs);
/* A zeroed job of |kind| with its cost filled in, not queued yet. NULL without
 * memory. */
nm_job *nm_job_new(nm_jobs *jobs, nm_job_kind kind);
/* Wipes and releases |job| with everything it holds but its reserved event,
 * which the engine returns first. */
void nm_job_free(nm_job *job);
void nm_jobs_push(nm_jobs *jobs, nm_job *job);
nm_job *nm_jobs_take(nm_jobs *jobs);
/* Takes |job| back from the driver's list; the caller frees it. */
void nm_jobs_return(nm_jobs *jobs, nm_job *job);

#endif
