/* Packets with 128 bytes of payload, HEADER_1 and HEADER_2. */
#include "bench.h"
#include "fixtures.h"

#include "wire/packet.h"

#include <string.h>

#define DATA_SIZE 128
#define RELAYED_FLAGS 0x50 /* HEADER_2, in transport */

typedef struct parts {
  uint8_t hops;
  uint8_t transport_id[NM_ADDRESS_SIZE];
  uint8_t destination[NM_ADDRESS_SIZE];
  size_t data_len; /* DATA_SIZE, where the compiler does not know it */
  uint8_t data[DATA_SIZE];
  uint8_t raw[NM_HEADER_2_SIZE + DATA_SIZE];
} parts;

typedef struct packets {
  size_t count;
  bool relayed;
  size_t raw_len;
  nm_packet parsed;
  nm_packet_hash hash;
  uint8_t out[NM_MTU];
  size_t out_len;
  parts all[NB_COUNT];
} packets;

static void make_packet(packets *p, size_t i) {
  parts *part = &p->all[i];
  part->hops = (uint8_t)(i % 16);
  part->data_len = nb_opaque(DATA_SIZE);
  nb_stream("packet.transport", i, part->transport_id, NM_ADDRESS_SIZE);
  nb_stream("packet.destination", i, part->destination, NM_ADDRESS_SIZE);
  nb_stream("packet.data", i, part->data, DATA_SIZE);
  nm_writer w = nm_writer_of(part->raw, sizeof part->raw);
  nm_writer_u8(&w, p->relayed ? RELAYED_FLAGS : 0);
  nm_writer_u8(&w, part->hops);
  if (p->relayed) {
    nm_writer_put(&w, part->transport_id, NM_ADDRESS_SIZE);
  }
  nm_writer_put(&w, part->destination, NM_ADDRESS_SIZE);
  nm_writer_u8(&w, NM_CONTEXT_NONE);
  nm_writer_put(&w, part->data, DATA_SIZE);
  p->raw_len = nm_writer_done(&w).len;
}

static int prepare(const nb_row *row, void **state) {
  packets *p = nb_state(state, sizeof *p);
  if (p == NULL) {
    return NM_E(MEMORY);
  }
  p->count = row->inputs;
  p->relayed = row->size == NM_HEADER_2_SIZE;
  for (size_t i = 0; i < p->count; i++) {
    make_packet(p, i);
  }
  return NM_OK;
}

static void dispose(void *state) {
  nm_release(&nm_mem_system, state);
}

static nm_span raw_of(const packets *p, size_t i) {
  return nm_span_of(p->all[i].raw, p->raw_len);
}

static inline int pack_once(packets *p, size_t i) {
  const parts *part = &p->all[i];
  nm_packet packet =
      nm_packet_of(NM_DATA, NM_SINGLE, NM_CONTEXT_NONE, part->destination,
                   nm_span_of(part->data, part->data_len));
  packet.hops = part->hops;
  if (p->relayed) {
    packet.header_type = NM_HEADER_2;
    packet.transport_type = NM_TRANSPORT;
    packet.transport_id = nm_span_of(part->transport_id, NM_ADDRESS_SIZE);
  }
  int status = nm_packet_pack(&packet, NM_PACKET_RELAY, NM_MTU, p->out,
                              sizeof p->out, &p->out_len, NULL);
  nb_use(p->out);
  return status;
}

NB_RUN(pack_run, packets, pack_once);

static int check_pack(void *state, size_t i, nm_span *evidence) {
  packets *p = (packets *)state;
  *evidence = nm_span_of(p->out, p->out_len);
  return nm_span_equal(*evidence, raw_of(p, i)) ? NM_OK : NM_E(MISMATCH);
}

static inline int unpack_once(packets *p, size_t i) {
  int status = nm_packet_parse(raw_of(p, i), &p->parsed, NULL);
  nb_use(&p->parsed);
  return status;
}

NB_RUN(unpack_run, packets, unpack_once);

static int check_unpack(void *state, size_t i, nm_span *evidence) {
  packets *p = (packets *)state;
  const parts *part = &p->all[i];
  const nm_packet *seen = &p->parsed;
  nm_span id = nm_span_of(part->transport_id, NM_ADDRESS_SIZE);
  nm_span destination = nm_span_of(part->destination, NM_ADDRESS_SIZE);
  bool same = seen->hops == part->hops && seen->context == NM_CONTEXT_NONE &&
              seen->packet_type == NM_DATA &&
              seen->destination_type == NM_SINGLE &&
              nm_span_equal(seen->destination, destination) &&
              (p->relayed ? nm_span_equal(seen->transport_id, id)
                          : seen->transport_id.len == 0);
  *evidence = seen->payload;
  return same ? NM_OK : NM_E(MISMATCH);
}

static inline int hash_once(packets *p, size_t i) {
  int status = nm_packet_parse(raw_of(p, i), &p->parsed, NULL);
  if (status == NM_OK) {
    nm_packet_digest(&p->parsed, &p->hash);
  }
  nb_use(&p->hash);
  return status;
}

NB_RUN(hash_run, packets, hash_once);

static int check_hash(void *state, size_t i, nm_span *evidence) {
  packets *p = (packets *)state;
  int status = check_unpack(p, i, evidence);
  *evidence = nm_span_of(p->hash.b, NM_HASH_SIZE);
  return status;
}

#define PACK_NOTE                                                              \
  "nm_packet_pack from the fields into a given buffer; no packet hash"
#define UNPACK_NOTE                                                            \
  "nm_packet_parse: every field as a value or a view; no packet hash"
#define HASH_NOTE "nm_packet_parse, then nm_packet_digest (SHA-256)"

#define ROW(row_id, text, header, number, does, checks)                        \
  {                                                                            \
    .id = row_id, .note = text, .size = header, .inputs = number,              \
    .prepare = prepare, .run = does, .check = checks, .dispose = dispose       \
  }
#define PACK(id, header, n) ROW(id, PACK_NOTE, header, n, pack_run, check_pack)
#define UNPACK(id, header, n)                                                  \
  ROW(id, UNPACK_NOTE, header, n, unpack_run, check_unpack)
#define HASH(id, header, n) ROW(id, HASH_NOTE, header, n, hash_run, check_hash)

const nb_row nb_packet_rows[] = {
    PACK("packet.pack", NM_HEADER_1_SIZE, NB_COUNT),
    PACK("packet.pack.h2", NM_HEADER_2_SIZE, NB_COUNT),
    UNPACK("packet.unpack", NM_HEADER_1_SIZE, NB_COUNT),
    UNPACK("packet.unpack.h2", NM_HEADER_2_SIZE, NB_COUNT),
    HASH("packet.unpack+hash", NM_HEADER_1_SIZE, NB_COUNT),
    HASH("packet.unpack+hash.h2", NM_HEADER_2_SIZE, NB_COUNT),
    /* The same operation for the control row that compares netmesh with
     * itself. */
    HASH("control.aa", NM_HEADER_1_SIZE, NB_COUNT),
    PACK("published.packet.pack", NM_HEADER_1_SIZE, 1),
    UNPACK("published.packet.unpack", NM_HEADER_1_SIZE, 1),
    {.id = NULL},
};
