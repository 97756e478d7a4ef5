/* The flight recorder: the last few thousand decisions, always on.
 */
#ifndef NM_STACK_RECORDER_H
#define NM_STACK_RECORDER_H

#include "stack/engine.h"

typedef enum nm_record_kind {
  NM_RECORD_INPUT,  /* a frame and its (final) verdict */
  NM_RECORD_OUTPUT, /* a packet handed to an interface */
  NM_RECORD_EVENT,
  NM_RECORD_JOB,
  NM_RECORD_TIMER
} nm_record_kind;

/* Flag of an input whose verdict a job still owes. */
#define NM_RECORD_PENDING 1u

typedef struct nm_record {
  nm_input_seq seq; /* counts all records */
  uint64_t mono_us;
  nm_record_kind kind;
  nm_iface_id iface;
  uint8_t code; /* drop reason, event kind or job kind */
  uint8_t flags;
  uint8_t context;
  uint8_t hops;
  uint32_t bytes;
  uint8_t destination[NM_ADDRESS_SIZE];
  nm_packet_hash hash; /* zeros: there is none */
} nm_record;

/* The record number |seq|, or the oldest kept one after it. False when there
 * is none. */
bool nm_engine_record(const nm_engine *engine, nm_input_seq seq,
                      nm_record *record);
nm_input_seq nm_engine_record_first(const nm_engine *engine);
nm_input_seq nm_engine_record_last(const nm_engine *engine);

#endif
