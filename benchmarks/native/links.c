/* The link handshake, both sides in one process, over wire bytes. */
#include "bench.h"
#include "fixtures.h"

#include "wire/destination.h"
#include "wire/link.h"

#include <string.h>

#define NAME "example_utilities.announcesample.fruits"
#define RTT_S 0.01
#define PROBE_SIZE 32

typedef struct frame {
  uint8_t raw[NM_MTU];
  size_t len;
} frame;

/* One side of a link. */
typedef struct end {
  uint8_t x25519_private[NM_KEY_SIZE];
  uint8_t x25519_public[NM_KEY_SIZE];
  nm_ed25519_sign_key sign; /* of the initiator; the responder has its owner */
  nm_link_id id;
  nm_token_key key;
  bool active;
} end;

typedef struct links {
  size_t count;
  nm_identity owners[NB_COUNT];
  nm_destination_hash destinations[NB_COUNT];
  nm_cipher cipher;
  nm_entropy_pool random;
  end initiator;
  end responder;
  frame request;
  frame proof;
  frame rtt;
  uint8_t probe[PROBE_SIZE];
  uint8_t sealed[PROBE_SIZE + 64];
  uint8_t opened[PROBE_SIZE + 64];
} links;

static int prepare(const nb_row *row, void **state) {
  links *s = nb_state(state, sizeof *s);
  if (s == NULL) {
    return NM_E(MEMORY);
  }
  s->count = row->inputs;
  uint8_t name[NM_NAME_HASH_SIZE];
  nm_name_hash(name, nm_span_of(NAME, sizeof NAME - 1));
  int status = nb_random_open(&s->random);
  for (size_t i = 0; i < s->count && status == NM_OK; i++) {
    status = nb_identity(&s->owners[i], "link.owner", i);
    nm_destination_address(name, &s->owners[i].hash, &s->destinations[i]);
  }
  return status == NM_OK ? nm_cipher_open(&s->cipher, NULL) : status;
}

static void dispose(void *state) {
  links *s = (links *)state;
  nm_cipher_close(&s->cipher);
  nm_entropy_pool_wipe(&s->random);
  nm_release(&nm_mem_system, s);
}

/* A fresh ephemeral X25519 pair. */
static inline int fresh_pair(links *s, end *e) {
  int status = nm_entropy_pool_fill(&s->random, e->x25519_private, NM_KEY_SIZE);
  return status == NM_OK ? nm_x25519_public(e->x25519_public, e->x25519_private)
                         : status;
}

/* Derives the session key of one side and makes it ready for use. */
static inline int agree(end *e, const uint8_t *peer) {
  uint8_t key[NM_TOKEN_KEY_SIZE];
  size_t len = 0;
  int status = nm_link_derive(e->x25519_private, peer, &e->id,
                              NM_MODE_AES256_CBC, key, &len);
  if (status == NM_OK) {
    status = nm_token_key_init(&e->key, nm_span_of(key, len));
  }
  nm_wipe(key, sizeof key);
  return status;
}

static inline int pack(const nm_packet *packet, frame *out) {
  return nm_packet_pack(packet, NM_PACKET_ORIGINATE, NM_MTU, out->raw,
                        sizeof out->raw, &out->len, NULL);
}

static inline int parse(const frame *in, nm_packet *packet) {
  return nm_packet_parse(nm_span_of(in->raw, in->len), packet, NULL);
}

/* Initiator: two new key pairs, the request, and the id of the link. */
static int ask(links *s, size_t i) {
  end *me = &s->initiator;
  uint8_t seed[NM_KEY_SIZE];
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint8_t payload[2 * NM_KEY_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof payload);
  int status = fresh_pair(s, me);
  if (status == NM_OK) {
    status = nm_entropy_pool_fill(&s->random, seed, sizeof seed);
  }
  if (status == NM_OK) {
    status = nm_ed25519_sign_key_init(&me->sign, seed);
  }
  if (status == NM_OK) {
    status = nm_link_signalling_pack(NM_MTU, NM_MODE_AES256_CBC, signalling);
  }
  if (status == NM_OK) {
    status = nm_link_request_write(&w, me->x25519_public, me->sign.public_key,
                                   signalling);
  }
  nm_wipe(seed, sizeof seed);
  nm_packet packet = nm_packet_of(NM_LINKREQUEST, NM_SINGLE, NM_CONTEXT_NONE,
                                  s->destinations[i].b, nm_writer_done(&w));
  if (status == NM_OK) {
    status = pack(&packet, &s->request);
  }
  nm_packet sent;
  if (status == NM_OK) {
    status = parse(&s->request, &sent);
  }
  return status == NM_OK ? nm_link_id_of(&sent, &me->id, NULL) : status;
}

/* Responder: reads the request, makes a key pair, agrees, signs the proof. */
static int accept_request(links *s, size_t i) {
  end *me = &s->responder;
  nm_packet packet;
  nm_link_request request;
  uint8_t signalling[NM_SIGNALLING_SIZE];
  uint8_t payload[NM_SIGNATURE_SIZE + NM_KEY_SIZE + NM_SIGNALLING_SIZE];
  nm_writer w = nm_writer_of(payload, sizeof payload);
  int status = parse(&s->request, &packet);
  if (status == NM_OK) {
    status = nm_link_request_parse(packet.payload, &request, NULL);
  }
  if (status == NM_OK) {
    status = nm_link_id_of(&packet, &me->id, NULL);
  }
  if (status == NM_OK) {
    status = fresh_pair(s, me);
  }
  if (status == NM_OK) {
    status = agree(me, request.x25519_public.ptr);
  }
  if (status == NM_OK) {
    status = nm_link_signalling_pack(request.signalling.mtu,
                                     request.signalling.mode, signalling);
  }
  if (status == NM_OK) {
    status = nm_link_proof_write(&w, &s->owners[i], &me->id, me->x25519_public,
                                 signalling);
  }
  nm_packet proof = nm_packet_of(NM_PROOF, NM_LINK, NM_CONTEXT_LRPROOF,
                                 me->id.b, nm_writer_done(&w));
  return status == NM_OK ? pack(&proof, &s->proof) : status;
}

/* Initiator: checks the proof, agrees, and sends the sealed round-trip time. */
static int take_proof(links *s, size_t i) {
  end *me = &s->initiator;
  nm_packet packet;
  nm_link_proof proof;
  uint8_t rtt[NM_LINK_RTT_SIZE];
  uint8_t iv[NM_AES_BLOCK];
  uint8_t sealed[NM_LINK_RTT_SIZE + 64];
  nm_writer w = nm_writer_of(rtt, sizeof rtt);
  int status = parse(&s->proof, &packet);
  if (status == NM_OK) {
    status = nm_link_proof_parse(packet.payload, &proof, NULL);
  }
  if (status == NM_OK) {
    status = nm_link_proof_verify(&proof, &me->id,
                                  s->owners[i].public_key + NM_KEY_SIZE);
  }
  if (status == NM_OK) {
    status = agree(me, proof.x25519_public.ptr);
  }
  if (status == NM_OK) {
    status = nm_link_rtt_write(&w, RTT_S);
  }
  if (status == NM_OK) {
    status = nm_entropy_pool_fill(&s->random, iv, sizeof iv);
  }
  if (status == NM_OK) {
    status =
        nm_token_seal(&s->cipher, &me->key, iv, nm_writer_done(&w), sealed);
  }
  nm_packet out =
      nm_packet_of(NM_DATA, NM_LINK, NM_CONTEXT_LRRTT, me->id.b,
                   nm_span_of(sealed, nm_token_size(NM_LINK_RTT_SIZE)));
  me->active = status == NM_OK;
  return status == NM_OK ? pack(&out, &s->rtt) : status;
}

/* Responder: opens the round-trip time, after which both sides are active. */
static int take_rtt(links *s) {
  end *me = &s->responder;
  nm_packet packet;
  uint8_t plain[64];
  size_t len = 0;
  double rtt = 0;
  int status = parse(&s->rtt, &packet);
  if (status == NM_OK) {
    status = packet.payload.len <= sizeof plain ? NM_OK : NM_E(TOO_LARGE);
  }
  if (status == NM_OK) {
    status = nm_token_open(&s->cipher, &me->key, packet.payload, plain, &len);
  }
  if (status == NM_OK) {
    status = nm_link_rtt_parse(nm_span_of(plain, len), &rtt, NULL);
  }
  me->active = status == NM_OK && rtt == RTT_S;
  return status;
}

static int handshake_once(links *s, size_t i) {
  int status = ask(s, i);
  if (status == NM_OK) {
    status = accept_request(s, i);
  }
  if (status == NM_OK) {
    status = take_proof(s, i);
  }
  if (status == NM_OK) {
    status = take_rtt(s);
  }
  nb_use(s);
  return status;
}

NB_RUN(handshake_run, links, handshake_once);

/* Both sides are active, and what one seals the other opens. */
static int check_handshake(void *state, size_t i, nm_span *evidence) {
  links *s = (links *)state;
  uint8_t iv[NM_AES_BLOCK] = {0};
  size_t len = 0;
  if (!s->initiator.active || !s->responder.active ||
      memcmp(&s->initiator.id, &s->responder.id, NM_ADDRESS_SIZE) != 0) {
    return NM_E(STATE);
  }
  nb_stream("link.probe", i, s->probe, sizeof s->probe);
  int status = nm_token_seal(&s->cipher, &s->initiator.key, iv,
                             nm_span_of(s->probe, sizeof s->probe), s->sealed);
  if (status == NM_OK) {
    nm_span sealed = nm_span_of(s->sealed, nm_token_size(PROBE_SIZE));
    status =
        nm_token_open(&s->cipher, &s->responder.key, sealed, s->opened, &len);
  }
  *evidence = nm_span_of(s->opened, len);
  return status;
}

#define NOTE                                                                   \
  "both sides until both are active, over wire bytes: two new key pairs and "  \
  "the request packet; request parsed, new key pair, key agreement, signed "   \
  "proof packet; proof parsed and verified, key agreement, sealed RTT "        \
  "packet; "                                                                   \
  "RTT packet parsed and opened; 64 destinations"

const nb_row nb_link_rows[] = {
    {.id = "link.handshake.both",
     .note = NOTE,
     .inputs = NB_COUNT,
     .prepare = prepare,
     .run = handshake_run,
     .check = check_handshake,
     .dispose = dispose},
    {.id = NULL},
};
