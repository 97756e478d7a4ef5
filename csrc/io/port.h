/* Ports: interfaces as the driver sees them. The engine's interface has the
 * same id. A port goes in two steps: nm_port_remove takes it out of the engine
 * and closes its handles, and the last handle to close frees it.
 */
#ifndef NM_IO_PORT_H
#define NM_IO_PORT_H

#include "io/internal.h"
#include "wire/hdlc.h"
#include "wire/kiss.h"

typedef struct nm_conn_counters {
  uint64_t discarded;
  uint64_t runts;
  uint64_t oversize;
} nm_conn_counters;

typedef struct nm_port_ops {
  /* Begins to work, after the engine knows the port. 0, NM_LATER (the ask is
   * kept and answered), or a failure. */
  int (*start)(nm_port *port);
  /* Puts one packet, access code included, on the medium or its queue. */
  bool (*send)(nm_port *port, nm_span packet);
  /* Takes frames again, or no more. */
  void (*pause)(nm_port *port, bool on);
  /* Closes handles; each calls nm_port_handle_closed. */
  void (*stop)(nm_port *port);
  /* The properties changed. */
  void (*change)(nm_port *port);
  /* Those of ports that are more than a connection; NULL otherwise. */

  /* Jobs of the port were done. */
  void (*relieve)(nm_port *port);
  /* What waits to be sent, of this port alone. */
  uint32_t (*waiting)(const nm_port *port, size_t *bytes);
  /* Adds what was read and thrown away. */
  void (*discarded)(const nm_port *port, nm_conn_counters *sum);
  /* The last handle has closed: frees what the port has beside itself. */
  void (*dispose)(nm_port *port);
} nm_port_ops;

/* A port with this many unfinished jobs is not read on, until it is down to
 * half: the engine would drop what exceeds its share. */
#define NM_PORT_JOBS_HIGH 64
#define NM_PORT_JOBS_LOW 32

/* A stream and its framing. */
struct nm_conn {
  nm_port *port;
  nm_conn *next_dirty;
  nm_conn *next_hungry;
  nm_conn_line *line; /* of the loop's two, or NULL */
  nm_conn *next_in_line;
  nm_conn *prev_in_line;
  uint64_t relayed_us; /* when it came to `resting`, or was written last */
  bool is_dirty;
  bool is_hungry;
  bool starved; /* waits for jobs of its port to finish */
  bool sated;   /* has had its share of this turn; waits for the next one */
  bool reading;
  bool writing; /* a uv_write is under way */
  bool closing;
  bool is_pipe;
  bool kiss;
  union {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } u;
  union {
    uv_connect_t connect; /* before anything is written */
    uv_write_t write;
  } request;
  union {
    nm_hdlc_decoder hdlc;
    nm_kiss_decoder kiss;
  } d;
  size_t frame_max;
  nm_buffer partial; /* the decoder's, while a frame is under way */
  nm_buffer filling; /* encoded, not yet given to libuv */
  nm_buffer flying;  /* of the uv_write under way */
  nm_buffer parts;   /* of resources, encoded; wait for all others */
  size_t parts_at;   /* where those begin that are not written yet */
  nm_block **later;  /* a ring of parts that wait to be encoded */
  uint32_t later_cap;
  uint32_t later_first;
  uint32_t later_count;
  size_t later_bytes;
  uint32_t filling_packets;
  uint32_t flying_packets;
  uint32_t parts_packets;
  bool parts_turn; /* one part goes before the others now */
  nm_buffer stash; /* read, not yet decoded: the port has too many jobs */
  size_t stash_at;
  uint32_t reads; /* in the turn number `read_turn` */
  uint64_t read_turn;
  uint64_t opened_us;
  nm_flap_key from; /* of an accepted one */
  bool fed;         /* a good frame came in */
  /* Told when the stream ended by itself, with a libuv error. */
  void (*ended)(nm_port *port, int error);
};

/* The set-up of a port. The accepted connections of one server share theirs
 * until one of them is changed: `host`, `port` and the spec's `name` are not a
 * child's own there, and `online` is nobody's. The engine knows them. */
typedef struct nm_shared_setup {
  uint32_t holders;
  nm_iface_setup is;
} nm_shared_setup;

/* An accepting socket. */
typedef struct nm_listener {
  uv_poll_t poll;
  bool polling;
  bool open;
  int fd;
  int reserve_fd;
  uint32_t backoff_ms;
  nm_flaps flaps;
} nm_listener;

struct nm_port {
  nm_table_link link;
  nm_iface_id id;
  nm_node *node;
  const nm_port_ops *ops;
  nm_iface_setup *setup; /* of `shared` */
  nm_shared_setup *shared;
  nm_shared_setup *for_children; /* a server's; NULL until there is one */
  uint8_t hash[NM_HASH_SIZE];
  nm_port *parent;
  nm_port *first_child;
  nm_port *next_sibling;
  nm_port *prev_sibling;
  bool wants_sends; /* a server: its children send */
  bool wants_receives;
  bool
      deaf; /* a medium without a way in: receives whatever is wanted nothing */
  bool mute;       /* without a way out */
  nm_block *part;  /* the packet being sent, if it is one of a resource's */
  bool is_patient; /* it is a relayed announce */
  bool up;         /* the medium is there */
  bool heard;      /* a packet that came in could be read */
  bool paused;     /* by command */
  bool gone;       /* taken out; waits for its handles */
  bool listening;
  uint16_t port;    /* bound or remote */
  uint32_t handles; /* open ones, requests under way too */
  uint32_t jobs;    /* taken from the engine, not yet done */
  nm_ask *ask;      /* IFACE_ADD that waits for the start */
  nm_timer timer;   /* retry, connect time-out, accept back-off */
  nm_conn *conn;
  nm_listener *listener;          /* of a server, or NULL */
  struct nm_resolve *resolve;     /* under way, or NULL */
  struct nm_addresses *addresses; /* still to be tried, or NULL */
  bool connecting;
  struct nm_udp_port *udp;
  struct nm_auto *automatic; /* of an AUTO port; a peer's: its parent's */
  struct nm_auto_peer *peer;
  nm_port *next_user; /* with frames waiting */
  bool is_user_ready;
  struct nm_user_frame *frames;
  struct nm_user_frame *frames_end;
  uint32_t frames_count;
  size_t frames_bytes;
  nm_port_trouble trouble;
  int os_error;
  uint32_t tries;
  uint32_t connections;
  uint64_t opened;
  uint64_t refusals[NM_PORT_REFUSED_COUNT];
  uint64_t wire_rx;
  uint64_t wire_tx;
  uint64_t discarded;
  uint64_t runts;
  uint64_t oversize;
  uint64_t echoes;
  uint64_t strangers;
  uint64_t net_errors;
  uint64_t drops[NM_PORT_DROP_COUNT];
  nm_iface_counters *past; /* a parent's: of children that are gone */
};

static inline nm_port *nm_port_of_timer(nm_timer *timer) {
  unsigned char *at = (unsigned char *)timer;
  return (nm_port *)(void *)(at - offsetof(nm_port, timer));
}

extern const nm_port_ops nm_port_tcp_client;
extern const nm_port_ops nm_port_tcp_server;
extern const nm_port_ops nm_port_tcp_child;
extern const nm_port_ops nm_port_pipe;
extern const nm_port_ops nm_port_local;
extern const nm_port_ops nm_port_udp;
extern const nm_port_ops nm_port_auto;
extern const nm_port_ops nm_port_auto_peer;
extern const nm_port_ops nm_port_user;

/* port.c */
int nm_ports_init(nm_node *node, const uint8_t hash_key[16]);
/* Adds a port to the node and the engine, offline. |actual| is the port of the
 * display name, |ops| are those of its medium. Errors of nm_engine_iface_add,
 * NM_E(TOO_LARGE). */
int nm_port_add(nm_node *node, const nm_iface_setup *setup, uint16_t actual,
                const nm_port_ops *ops, nm_port *parent, nm_port **port);
nm_port *nm_port_find(nm_node *node, nm_iface_id id);
nm_port *nm_port_next(nm_node *node, const nm_port *port);
/* Everything a child takes from its server or AUTO port (RNS 2, 5.1). */
void nm_port_inherit(const nm_port *parent, nm_iface_setup *child);
void nm_port_remove(nm_port *port);
void nm_port_remove_all(nm_node *node);
int nm_port_change(nm_port *port, const nm_iface_spec *spec);
void nm_port_pause(nm_port *port, bool on);
/* The medium came or went; tells the engine. */
void nm_port_set_up(nm_port *port, bool up);
void nm_port_trouble_set(nm_port *port, nm_port_trouble trouble, int error);
/* The same as the matter of one network device. */
void nm_port_trouble_at(nm_port *port, nm_port_trouble trouble, int error,
                        const char *device);
/* The longest frame that the port takes, access code included. */
size_t nm_port_frame_max(const nm_port *port);
/* Jobs of the port were done. */
void nm_port_relieve(nm_port *port);
bool nm_port_is_flushed(const nm_port *port);
/* Sends a packet of the engine's; |op| is reported. */
void nm_port_output(nm_port *port, const nm_output *out);
void nm_port_count_drop(nm_port *port, nm_port_drop reason);
/* A deframed packet came in. */
void nm_port_input(nm_port *port, nm_span data, nm_verdict *verdict);
/* Several at once, at most NM_PORT_BATCH of at most NM_PORT_BATCH_FRAME bytes;
 * their bytes may lie where nm_port_room says. */
#define NM_PORT_BATCH 32
#define NM_PORT_BATCH_FRAME 1536
#define NM_PORT_ROOM (NM_PORT_BATCH * NM_PORT_BATCH_FRAME)
void nm_port_input_many(nm_port *port, const nm_span *data, size_t count);
/* NM_PORT_ROOM bytes for frames that wait for that; any other input uses them
 * too. */
uint8_t *nm_port_room(nm_port *port);
/* The stateless stage over a frame, up to NM_FRAME_MAX bytes; |frame| is valid
 * until the next call. */
void nm_port_ingress(nm_port *port, nm_span data, nm_frame *frame);
void nm_port_handle_closed(nm_port *port);
/* The row of a port; a parent's has what its children counted too. */
void nm_port_row(const nm_port *port, nm_iface_info *row);
/* The rows of all, |count| of them. NULL without memory. */
nm_block *nm_port_list(nm_node *node, size_t *count);

/* conn.c */

/* What ports with a connection have in common. */
#define NM_PORT_OF_STREAM                                                      \
  .relieve = nm_conn_port_relieve, .waiting = nm_conn_port_waiting,            \
  .discarded = nm_conn_port_discarded
void nm_conn_port_relieve(nm_port *port);
void nm_conn_port_discarded(const nm_port *port, nm_conn_counters *sum);
/* What waits for the system to take it (conn_out.c). */
uint32_t nm_conn_port_waiting(const nm_port *port, size_t *bytes);
/* A connection for |port|, its stream initialised, or NULL. */
nm_conn *nm_conn_new(nm_port *port, bool is_pipe);
/* Starts to read and write. */
int nm_conn_start(nm_conn *conn, void (*ended)(nm_port *port, int error));
bool nm_conn_send(nm_conn *conn, nm_span packet);
/* Empties |buf|; the larger one of it and |spare| is the loop's spare one from
 * then on, unless it is larger than |keep_max|. */
void nm_conn_let_go(nm_conn *conn, nm_buffer *buf, nm_buffer *spare,
                    size_t keep_max);
/* The spare one in the place of a |buf| without memory. */
void nm_conn_take_spare(nm_conn *conn, nm_buffer *buf, nm_buffer *spare);
void nm_conn_pause(nm_conn *conn, bool on);
/* Limits follow the port's properties. */
void nm_conn_change(nm_conn *conn);
/* Closes the handle; what waits to be written is given up. */
void nm_conn_close(nm_conn *conn);
/* Writes what the system takes now (conn_out.c). */
void nm_conn_flush(nm_conn *conn);
/* Stands at the end of |line|, or in none (conn.c). */
void nm_conn_join_line(nm_conn *conn, nm_conn_line *line);
void nm_conn_leave_line(nm_conn *conn);
/* The timer of those that rest. */
void nm_conn_rested(void *user, nm_timer *timer);
/* The stream has failed: tells whoever is to know, once. */
void nm_conn_fail(nm_conn *conn, int error);
void nm_conn_flush_all(nm_loop *loop);
/* Lets connections read on that had to wait. */
void nm_conn_feed_all(nm_loop *loop);

/* port_server.c: adds a server once it listens; the ask's errors. */
int nm_port_serve(nm_node *node, nm_ask *ask);
/* port_udp.c: the same for a UDP port. */
int nm_port_udp_add(nm_node *node, nm_ask *ask);
/* port_auto.c: adds an AUTO port; the ask's errors. */
int nm_port_auto_add(nm_node *node, nm_ask *ask);
/* Lists the devices of an AUTO port as rows of nm_device_info. */
int nm_port_auto_devices(const nm_port *port, nm_ask *ask);

/* port_tcp.c: what the client shares with the local client. */

/* The pause after |tries| failures in a row. The first one is short, for peers
 * that only restart; then whole seconds, doubling up to the setup's longest.
 * |random| makes it up to a quarter shorter or longer, which keeps crowds
 * apart. */
uint64_t nm_port_pause_us(const nm_iface_setup *setup, uint32_t tries,
                          uint16_t random);
/* Gives the attempt up and makes another one later. */
void nm_port_retry(nm_port *port, nm_port_trouble trouble, int error);
/* The attempt succeeded with |port->conn|. */
void nm_port_connected(nm_port *port);
/* The local client's attempt over its socket: 0, or a libuv error. */
int nm_port_local_attempt(nm_port *port);

/* port_user.c: moves waiting frames into the ring. */
bool nm_port_user_deliver(nm_node *node);

#endif
