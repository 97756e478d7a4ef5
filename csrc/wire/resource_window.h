/* Serving part requests, and the receiver's window as a value (RNS 2, 3.4,
 * 3.8, 3.9).
 */
#ifndef NM_WIRE_RESOURCE_WINDOW_H
#define NM_WIRE_RESOURCE_WINDOW_H

#include "wire/resource.h"

/* --- Sender --- */

/* What a sender needs to answer requests. All memory is the caller's. */
typedef struct nm_resource_server {
  nm_span stream;
  nm_span hashmap; /* 4 bytes for each part */
  size_t sdu;
  uint32_t parts;
  uint32_t floor;    /* k: the receiver's minimum consecutive height */
  uint32_t expected; /* where the next request probably begins */
  uint32_t repeated; /* where it begins if it repeats the last one */
  uint32_t sent;     /* distinct parts sent */
  nm_mspan sent_map; /* bit i: part i was sent at least once */
  uint8_t hash[NM_HASH_SIZE];
} nm_resource_server;

/* Bytes of the bitmap for |parts| parts. */
size_t nm_resource_sent_size(uint64_t parts);

/* Starts serving. |sent_map| has nm_resource_sent_size bytes, which are
 * cleared. NM_E(ARGUMENT) when the sizes do not agree. */
int nm_resource_server_init(nm_resource_server *server, nm_span stream,
                            nm_span hashmap, size_t sdu,
                            const uint8_t hash[NM_HASH_SIZE],
                            nm_mspan sent_map);

/* One part to transmit. */
typedef struct nm_resource_tx {
  const uint8_t *ptr;
  uint32_t len;
  uint32_t index;
} nm_resource_tx;

typedef struct nm_resource_answer {
  uint32_t count;   /* descriptors filled */
  uint32_t unknown; /* map hashes that match no part in reach */
  bool send_update; /* a hashmap update is due as well */
  uint32_t update_segment;
  bool all_sent; /* every part was sent at least once by now */
} nm_resource_answer;

/* Answers a decrypted part request: fills |tx| in index order with every part
 * in [floor, floor + 224) whose map hash is listed. A request that repeats is
 * served again; ignoring repeated packets is the caller's (by packet hash).
 * With the exhausted form also finds the hashmap segment to send and moves the
 * floor. Errors change nothing:
 *   those of nm_resource_request_decode
 *   MISMATCH "request.hash"        another resource
 *   MISMATCH "request.last_known"  no such map hash in reach, its index + 1 is
 *                                  not a multiple of 74, or no hashes follow:
 *                                  a sequencing error, cancel the transfer
 *   LIMIT    "request.wanted"      more than 224 hashes
 *   TOO_LARGE "request.wanted"     |cap| is too small; 224 is always enough */
int nm_resource_serve(nm_resource_server *server, nm_span request,
                      nm_resource_tx *tx, size_t cap,
                      nm_resource_answer *answer, nm_fault *fault);

/* --- Receiver (RNS 2, 3.8): every step takes a profile and returns the next */

typedef struct nm_resource_profile {
  uint32_t window;
  uint32_t window_min;
  uint32_t window_max;
  uint32_t fast_rounds;
  uint32_t very_slow_rounds;
} nm_resource_profile;

/* The profile at the start; |window| is the window at the end of the previous
 * resource received on the link, 0 when there was none. */
nm_resource_profile nm_resource_profile_start(uint32_t window);

/* The first part after a request came: |rate| = (request bytes + part bytes) /
 * response time, in bytes a second. */
nm_resource_profile nm_resource_profile_first_part(nm_resource_profile p,
                                                   double rate);

/* All requested parts are in and the resource is not complete: |data_rate| =
 * bytes received since the request / time since it. */
nm_resource_profile nm_resource_profile_round(nm_resource_profile p,
                                              double data_rate);

/* A time-out with retries left. The maximum shrinks only together with the
 * window, as in the reference. */
nm_resource_profile nm_resource_profile_timeout(nm_resource_profile p);

/* The round-trip estimate after a response time of |sample_s|: |link_rtt_s|
 * when there is no estimate (|rtt_s| <= 0), else |rtt_s| moved by at most 5 %
 * towards the sample. */
double nm_resource_rtt(double rtt_s, double sample_s, double link_rtt_s);

/* Expected in-flight rate in bits a second (RNS 2, 3.9): from the data rate of
 * the last round in bytes a second, else from the previous resource's rate,
 * else from what establishing the link cost. Non-positive means unknown. */
double nm_resource_eifr(double data_rate, double previous_eifr,
                        double establishment_bytes, double link_rtt_s);

/* Seconds from the last activity until a receiver times out (RNS 2, 3.9).
 * |responded| says whether the first response time is known. Infinite when
 * the rate is not positive. */
double nm_resource_receive_timeout(bool responded, uint32_t outstanding,
                                   bool waiting_for_hashmap, size_t sdu,
                                   double eifr, uint32_t retries_used);

/* Seconds from the advertisement, the last activity and the last part until a
 * sender acts. */
double nm_resource_adv_timeout(double link_rtt_s);
double nm_resource_send_timeout(double rtt_s);
double nm_resource_proof_timeout(double rtt_s);

#endif
