/* The part of reception that has no state: access code, header, hash. These
 * functions are pure, so a driver may run them on any thread and hand the
 * result to nm_engine_input.
 */
#ifndef NM_STACK_INGRESS_H
#define NM_STACK_INGRESS_H

#include "stack/types.h"
#include "wire/ifac.h"
#include "wire/packet.h"

/* A frame that passed (or failed) the stateless stage. `raw` and the spans of
 * `packet` borrow from the caller's buffers. */
typedef struct nm_frame {
  nm_drop drop;     /* NM_DROP_NONE, or why the frame is refused */
  nm_span raw;      /* the packet without its access code */
  nm_packet packet; /* hops as on the wire, not yet incremented */
  nm_packet_hash hash;
  bool unhashed;       /* `hash` is not computed: see nm_ingress_config */
  int16_t rssi_dbm;    /* NM_SIGNAL_NONE when the interface gave none */
  int16_t snr_cdb;     /* hundredths of a decibel, or NM_SIGNAL_NONE */
  int16_t quality_pct; /* or NM_SIGNAL_NONE */
} nm_frame;

#define NM_SIGNAL_NONE INT16_MIN

/* What the stateless stage needs to know of an interface. */
typedef struct nm_ingress_config {
  const nm_ifac *ifac; /* NULL: the interface has no access code */
  size_t hw_mtu;       /* 0: no limit (RNS 1, 7.3: "treat none as no limit") */
  /* Parts of resources come without a hash: none is looked up or proven by it
   * (RNS 1, 8.4), and to compute it is a quarter of what a part takes. */
  bool parts_unhashed;
} nm_ingress_config;

/* Runs the stage over one deframed packet (RNS 1, 8.5 steps 1 and 2 without
 * the filter). |scratch| takes the unmasked packet and must hold |data|.len
 * bytes; it is used only with an access code. Always fills |frame|. */
void nm_ingress(const nm_ingress_config *config, nm_span data, nm_mspan scratch,
                nm_frame *frame);

/* The same over |count| packets of one interface: frames[i] is what nm_ingress
 * makes of data[i]. Their hashes are computed side by side, which takes half
 * the time. |scratch| must hold all of |data| together; a packet for which it
 * has no room is dropped (NO_MEMORY). */
void nm_ingress_many(const nm_ingress_config *config, const nm_span *data,
                     size_t count, nm_mspan scratch, nm_frame *frames);

/* The counterpart for output: writes |raw| with its access code (or as it is)
 * into |out|. Returns the length, or NM_E(TOO_LARGE). */
int nm_egress(const nm_ifac *ifac, nm_span raw, nm_mspan out);

#endif
