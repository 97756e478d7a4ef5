/* Media: what carries frames between the nodes of a simulation.
 *
 * A medium has any number of members; a frame that one sends reaches all
 * others, each with its own chance of loss, duplication, delay and corruption.
 * Two members make a cable. All chance comes from the medium's own stream,
 * named by the medium, and the same number of draws is taken for each frame
 * and receiver whatever the settings are: a change of the loss rate changes
 * which frames are lost and nothing else.
 */
#ifndef NM_SIM_MEDIUM_H
#define NM_SIM_MEDIUM_H

#include "sim/frames.h"
#include "stack/iface.h"

#define NM_SIM_NAME_MAX 63

typedef struct nm_sim nm_sim;

/* Numbers of nodes and media, from 1 in the order of adding; 0: none. */
typedef uint32_t nm_sim_node_id;
typedef uint32_t nm_sim_medium_id;

typedef struct nm_sim_medium_config {
  uint64_t rate_bps;      /* 0: a frame takes no time to send */
  uint64_t frame_us;      /* and each frame this much more (preamble) */
  uint64_t delay_us;      /* propagation */
  uint64_t jitter_us;     /* and up to this much more */
  uint32_t loss_ppm;      /* chances in millionths, per frame and receiver */
  uint32_t duplicate_ppm; /* arrives a second time, up to `reorder_us` later */
  uint32_t reorder_ppm;   /* held back by up to `reorder_us` */
  uint32_t corrupt_ppm;   /* one to four of its bits are flipped */
  uint64_t reorder_us;
  bool half_duplex; /* one queue for all members, first come, first sent; else
                       each member sends when it likes */
  bool in_order;    /* frames of one sender do not overtake each other at a
                       receiver, in spite of jitter (a stream) */
  uint32_t queue_frames; /* waiting per member, without the one being sent;
                            more are refused [256] */
  uint32_t mtu; /* longer frames, with their access code, are refused; 0: any */
} nm_sim_medium_config;

/* An ideal medium: no delay, no limit of rate, no faults. */
void nm_sim_medium_config_default(nm_sim_medium_config *config);

/* Adds a medium; names as of nodes, unique among media. NM_E(ARGUMENT),
 * NM_E(DUPLICATE_KEY), NM_E(MEMORY). */
int nm_sim_medium_add(nm_sim *sim, const char *name,
                      const nm_sim_medium_config *config, nm_sim_medium_id *id);
/* Applies to frames that are sent from now on. NM_E(ARGUMENT). */
int nm_sim_medium_change(nm_sim *sim, nm_sim_medium_id medium,
                         const nm_sim_medium_config *config);
/* NULL for an id that is not there. */
const nm_sim_medium_config *nm_sim_medium_read(const nm_sim *sim,
                                               nm_sim_medium_id medium);
const char *nm_sim_medium_name(const nm_sim *sim, nm_sim_medium_id medium);
nm_sim_medium_id nm_sim_medium_named(const nm_sim *sim, const char *name);

/* Makes a running node a member by a new interface with |spec| (its access
 * code included); the engine's id of it goes to |iface|. A node has one
 * interface on a medium at most. The errors of nm_engine_iface_add;
 * NM_E(ARGUMENT) for an unknown node or medium, NM_E(DUPLICATE_KEY). */
int nm_sim_connect(nm_sim *sim, nm_sim_node_id node, nm_sim_medium_id medium,
                   const nm_iface_spec *spec, nm_iface_id *iface);
/* Takes the interface away; frames that wait in its queue are gone, those on
 * their way to it are lost. NM_E(MISSING). */
int nm_sim_disconnect(nm_sim *sim, nm_sim_node_id node,
                      nm_sim_medium_id medium);
/* Applies a changed spec to a member; its waiting frames stay. NM_E(MISSING),
 * the errors of nm_engine_iface_change. */
int nm_sim_reconnect(nm_sim *sim, nm_sim_node_id node, nm_sim_medium_id medium,
                     const nm_iface_spec *spec);
/* The interface of a member, 0 when it is none. */
nm_iface_id nm_sim_iface_of(const nm_sim *sim, nm_sim_node_id node,
                            nm_sim_medium_id medium);

/* Cuts what |from| sends off from |to|, or heals it; 0 means every member. A
 * frame is lost when the cut is in force at the moment of its arrival. A later
 * call overrides an earlier one for the pairs it names. NM_E(ARGUMENT) for
 * what is no member. */
int nm_sim_cut(nm_sim *sim, nm_sim_medium_id medium, nm_sim_node_id from,
               nm_sim_node_id to, bool cut);

/* What became of a frame on a medium. */
typedef enum nm_sim_fate {
  NM_SIM_SENT,           /* taken into the queue */
  NM_SIM_DELIVERED,      /* handed to a receiver */
  NM_SIM_LOST,           /* by chance */
  NM_SIM_CUT,            /* receiver and sender were cut off */
  NM_SIM_GONE,           /* the receiver is down or has left */
  NM_SIM_REFUSED_FULL,   /* the queue was full */
  NM_SIM_REFUSED_SIZE,   /* longer than the medium's MTU */
  NM_SIM_REFUSED_ACCESS, /* its access code could not be made */
  NM_SIM_SWEPT,          /* its sender went down while it waited */
  NM_SIM_FATE_COUNT
} nm_sim_fate;
/* "sent", ... Never NULL. */
const char *nm_sim_fate_name(nm_sim_fate fate);

typedef struct nm_sim_medium_stats {
  uint32_t members;
  uint64_t offered; /* frames that engines gave to it */
  uint64_t offered_bytes;
  uint64_t sent;       /* frames whose transmission is over */
  uint64_t sent_bytes; /* with access codes */
  uint64_t airtime_us; /* during which something was sent, summed over
                          members where they do not share it */
  uint64_t copies;     /* of frames that were sent, one per receiver */
  uint64_t duplicates; /* copies made by duplication */
  uint64_t corrupted;  /* copies with flipped bits */
  uint64_t waiting;    /* frames in queues and being sent, now */
  uint64_t in_flight;  /* copies on their way, now */
  uint64_t fates[NM_SIM_FATE_COUNT];
  uint64_t by_kind[NM_SIM_FRAME_KIND_COUNT]; /* frames sent */
  uint64_t bytes_by_kind[NM_SIM_FRAME_KIND_COUNT];
} nm_sim_medium_stats;

/* False for a medium that is not there. */
bool nm_sim_medium_stats_read(const nm_sim *sim, nm_sim_medium_id medium,
                              nm_sim_medium_stats *stats);

#endif
