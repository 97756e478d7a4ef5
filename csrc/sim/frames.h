/* What a frame on a medium carries, read from its header. */
#ifndef NM_SIM_FRAMES_H
#define NM_SIM_FRAMES_H

#include "base/bytes.h"

/* Kinds of frames by what stands in their header. */
typedef enum nm_sim_frame_kind {
  NM_SIM_FRAME_ANNOUNCE,
  NM_SIM_FRAME_PATH_RESPONSE,
  NM_SIM_FRAME_PATH_REQUEST,
  NM_SIM_FRAME_DATA,
  NM_SIM_FRAME_PROOF,
  NM_SIM_FRAME_LINK_REQUEST,
  NM_SIM_FRAME_LINK_PROOF,
  NM_SIM_FRAME_LINK_RTT,
  NM_SIM_FRAME_LINK_IDENTIFY,
  NM_SIM_FRAME_LINK_CLOSE,
  NM_SIM_FRAME_KEEPALIVE,
  NM_SIM_FRAME_LINK_DATA,
  NM_SIM_FRAME_REQUEST,
  NM_SIM_FRAME_RESPONSE,
  NM_SIM_FRAME_RESOURCE,         /* a part */
  NM_SIM_FRAME_RESOURCE_CONTROL, /* advertisement, part request, cancel, ... */
  NM_SIM_FRAME_CHANNEL,
  NM_SIM_FRAME_OTHER, /* masked by an access code, or no packet */
  NM_SIM_FRAME_KIND_COUNT
} nm_sim_frame_kind;
/* "announce", ... Never NULL. */
const char *nm_sim_frame_name(nm_sim_frame_kind kind);

/* The kind of a packet without its access code. */
nm_sim_frame_kind nm_sim_frame_kind_of(nm_span raw);

#endif
