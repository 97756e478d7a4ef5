/* Two engines with a link between them, for tests of channels and streams. */
#ifndef NM_TESTS_CHANNEL_DUO_H
#define NM_TESTS_CHANNEL_DUO_H

#include "engine_net.h"

typedef struct duo {
  net *n;
  nm_link_ref a; /* engine 0, the initiator */
  nm_link_ref b;
} duo;

/* Engine 1 listens, engine 0 opens a link over interfaces of |kind|. */
duo duo_link_as(const char *kind, void (*adjust)(nm_dest_spec *spec));
duo duo_link(const char *kind);
/* And the channel is open at both ends. */
duo duo_join(const char *kind);

nm_span duo_text(const char *s);
nm_channel_info duo_info(const duo *d, int engine);
/* A message from engine 0 to engine 1. */
int duo_send(duo *d, uint16_t msgtype, const char *what, nm_op_id *op);
/* The kept event number |which| of |kind|; none fails the test. */
const nm_event *duo_event(const net *n, int engine, nm_event_kind kind,
                          int which);

/* What a wire does to packets; duo_blow as its `fate` does it. */
typedef struct duo_weather {
  uint32_t loss_pct;
  uint32_t double_pct;
  uint64_t delay_us;
  uint64_t spread_us;
} duo_weather;

void duo_blow(void *user, int from, nm_span raw, net_fate *fate);

/* Writes |content| to stream 5 at engine 0 and compares what engine 1 reads. */
void duo_check_stream(duo *d, nm_span content);

#endif
