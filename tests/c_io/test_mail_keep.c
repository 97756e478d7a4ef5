/* Mail of nodes that keep it: durable, then promised. */
#include "faults.h"
#include "host_pair.h"
#include "io/mail_store.h"
#include "support.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- two nodes with storage ---- */

typedef struct site {
  host_pair p;
  const char *folder_a;
  const char *folder_b;
  uint16_t port;
} site;

static nm_destination_hash open_kept(io_node *n, uint8_t seed) {
  uint8_t keys[NM_PRIVATE_SIZE];
  host_keys(seed, keys);
  nm_command c = {.kind = NM_COMMAND_MAIL_OPEN,
                  .key = io_block(keys, sizeof(keys)),
                  .on = true};
  nm_mailbox_spec_default(&c.u.mailbox);
  nm_node_event reply = io_ask(n, &c);
  NM_CHECK_OK(reply.u.reply.status);
  nm_destination_hash hash = reply.u.reply.destination;
  io_done(&reply);
  return hash;
}

static void meet(site *s) {
  io_announce(&s->p.a, &s->p.box_a);
  io_announce(&s->p.b, &s->p.box_b);
  io_await_path(&s->p.a, &s->p.box_b);
  io_await_path(&s->p.b, &s->p.box_a);
}

static void begin(site *s) {
  s->folder_a = io_folder();
  s->folder_b = io_folder();
  s->p.loop = io_loop(0);
  io_open(&s->p.a, s->p.loop, s->folder_a);
  io_open(&s->p.b, s->p.loop, s->folder_b);
  io_join(&s->p.a, &s->p.b);
  s->p.box_a = open_kept(&s->p.a, 1);
  s->p.box_b = open_kept(&s->p.b, 2);
  meet(s);
}

static void reopen(site *s) {
  io_close(&s->p.a);
  io_close(&s->p.b);
  io_open(&s->p.a, s->p.loop, s->folder_a);
  io_open(&s->p.b, s->p.loop, s->folder_b);
  io_join(&s->p.a, &s->p.b);
}

/* What is in the mail of a folder, read by another connection. */
static nm_mail_figures figures(const char *folder) {
  nm_mail_store *store;
  nm_mail_figures f;
  NM_CHECK_OK(nm_mail_store_open(&nm_mem_system, io_path(folder, NM_MAIL_FILE),
                                 NULL, &store, NULL));
  NM_CHECK_OK(nm_mail_store_figures(store, &f));
  nm_mail_store_close(store);
  return f;
}

static nm_node_mail received(io_node *n) {
  nm_node_mail got = host_event(n, NM_MAIL_RECEIVED, 0);
  nm_block_drop(got.mail.packed);
  got.mail.packed = NULL;
  return got;
}

NM_TEST(a_kept_message_is_in_both_stores_when_it_was_told_of) {
  site s;
  begin(&s);
  static const nm_lxmf_method methods[] = {NM_LXMF_DIRECT,
                                           NM_LXMF_OPPORTUNISTIC};
  for (int i = 0; i < 2; i++) {
    nm_command c = host_letter(&s.p, 20, methods[i]);
    uint64_t ticket = host_post(&s.p.a, &c, NULL);
    NM_CHECK_INT(figures(s.folder_a).messages, i + 1); /* with the reply */
    nm_node_mail got = received(&s.p.b);
    NM_CHECK_INT(got.row, i + 1);
    NM_CHECK(!got.holds_credit && got.source_known);
    NM_CHECK_INT(figures(s.folder_b).messages, i + 1);
    NM_CHECK_INT(host_final(&s.p.a, ticket).mail.state, NM_LXMF_DELIVERED);
    NM_CHECK_INT(figures(s.folder_a).unfinished, 0);
  }
  NM_CHECK_INT(figures(s.folder_b).unread, 2);
  nm_command ack = {.kind = NM_COMMAND_MAIL_ACK, .cursor = 1};
  NM_CHECK_OK(io_status(&s.p.b, &ack));
  host_end(&s.p);
  NM_CHECK_INT(figures(s.folder_b).unread, 1); /* the close wrote it */
}

NM_TEST(only_a_node_with_storage_keeps) {
  nm_loop *loop = io_loop(0);
  io_node n;
  io_open(&n, loop, NULL);
  nm_command c = {.kind = NM_COMMAND_MAIL_OPEN,
                  .key = nm_block_new(&nm_mem_system, NM_PRIVATE_SIZE),
                  .on = true};
  host_keys(1, nm_block_bytes(c.key));
  NM_CHECK_STATUS(io_status(&n, &c), NM_E(STATE));
  (void)host_open(&n, 1, 0);
  nm_command ack = {.kind = NM_COMMAND_MAIL_ACK, .cursor = 1};
  NM_CHECK_STATUS(io_status(&n, &ack), NM_E(STATE));
  io_close(&n);
  NM_CHECK_OK(nm_loop_stop(loop));
}

NM_TEST(unfinished_letters_go_on_after_a_restart) {
  site s;
  begin(&s);
  uint8_t id[NM_HASH_SIZE];
  nm_command c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  c.u.letter.stamp_cost = 60; /* not found before the close */
  (void)host_post(&s.p.a, &c, id);
  nm_destination_hash box = s.p.box_b;
  memset(s.p.box_b.b, 7, sizeof(s.p.box_b.b)); /* nobody */
  uint8_t late[NM_HASH_SIZE];
  c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  c.u.letter.timeout_us = 1;
  nm_node_mail end = host_final(&s.p.a, host_post(&s.p.a, &c, late));
  NM_CHECK_INT(end.mail.state, NM_LXMF_FAILED);
  s.p.box_b = box;
  reopen(&s);
  NM_CHECK_INT(figures(s.folder_a).unfinished, 1);
  s.p.box_b = open_kept(&s.p.b, 2);
  s.p.box_a = open_kept(&s.p.a, 1);
  nm_command cancel = {.kind = NM_COMMAND_MAIL_CANCEL};
  memcpy(cancel.hash.b, id, sizeof(id));
  NM_CHECK_OK(io_status(&s.p.a, &cancel)); /* it was on its way again */
  end = host_final(&s.p.a, 0);
  NM_CHECK_INT(end.mail.state, NM_LXMF_CANCELLED);
  NM_CHECK_BYTES(end.mail.id, id, NM_HASH_SIZE);
  NM_CHECK_INT(figures(s.folder_a).unfinished, 0);
  host_end(&s.p);
}

NM_TEST(a_letter_to_one_who_was_away_arrives_after_both_restarted) {
  site s;
  begin(&s);
  io_close(&s.p.b);
  nm_command c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  uint8_t id[NM_HASH_SIZE];
  (void)host_post(&s.p.a, &c, id);
  io_close(&s.p.a);
  io_open(&s.p.a, s.p.loop, s.folder_a);
  io_open(&s.p.b, s.p.loop, s.folder_b);
  io_join(&s.p.a, &s.p.b);
  s.p.box_b = open_kept(&s.p.b, 2);
  s.p.box_a = open_kept(&s.p.a, 1);
  meet(&s);
  nm_node_mail got = received(&s.p.b);
  NM_CHECK_BYTES(got.mail.id, id, NM_HASH_SIZE);
  NM_CHECK_INT(host_final(&s.p.a, 0).mail.state, NM_LXMF_DELIVERED);
  host_end(&s.p);
  NM_CHECK_INT(figures(s.folder_a).unfinished, 0);
  NM_CHECK_INT(figures(s.folder_b).messages, 1);
}

NM_TEST(tickets_and_ignored_sources_outlive_a_restart) {
  site s;
  begin(&s);
  nm_command give = {.kind = NM_COMMAND_MAIL_TICKET, .destination = s.p.box_b};
  nm_node_event first = io_ask(&s.p.a, &give);
  NM_CHECK_OK(first.u.reply.status);
  nm_command ignore = {
      .kind = NM_COMMAND_MAIL_IGNORE, .destination = s.p.box_a, .on = true};
  NM_CHECK_OK(io_status(&s.p.b, &ignore));
  reopen(&s);
  s.p.box_a = open_kept(&s.p.a, 1);
  s.p.box_b = open_kept(&s.p.b, 2);
  meet(&s);
  give = (nm_command){.kind = NM_COMMAND_MAIL_TICKET, .destination = s.p.box_b};
  nm_node_event again = io_ask(&s.p.a, &give);
  NM_CHECK_SPAN(nm_block_span(again.u.reply.data),
                nm_block_span(first.u.reply.data));
  io_done(&first);
  io_done(&again);
  nm_command c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  NM_CHECK_INT(host_final(&s.p.a, host_post(&s.p.a, &c, NULL)).mail.state,
               NM_LXMF_DELIVERED);
  host_end(&s.p);
  NM_CHECK_INT(figures(s.folder_b).messages, 0);
}

NM_TEST(many_letters_are_written_together) {
  site s;
  begin(&s);
  enum { COUNT = 300 };
  uint64_t tickets[COUNT];
  uint64_t before = io_stats(&s.p.b).saves;
  for (int i = 0; i < COUNT; i++) {
    nm_command c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
    c.quiet = true;
    tickets[i] = io_post(&s.p.a, &c);
  }
  for (int i = 0; i < COUNT; i++) {
    NM_CHECK(received(&s.p.b).row > 0);
    NM_CHECK_INT(host_final(&s.p.a, tickets[i]).mail.state, NM_LXMF_DELIVERED);
  }
  NM_CHECK(io_stats(&s.p.b).saves - before < COUNT);
  host_end(&s.p);
  NM_CHECK_INT(figures(s.folder_a).messages, COUNT);
  NM_CHECK_INT(figures(s.folder_b).messages, COUNT);
}

NM_TEST(who_reads_slowly_is_told_of_the_newest_row) {
  site s;
  begin(&s);
  enum { COUNT = 700 }; /* more than the ring has room for */
  int64_t newest = 0;
  uint64_t tickets[COUNT];
  for (int i = 0; i < COUNT; i++) {
    nm_command c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
    c.quiet = true;
    tickets[i] = io_post(&s.p.a, &c);
  }
  for (int i = 0; i < COUNT; i++) { /* b does not read */
    NM_CHECK_INT(host_final(&s.p.a, tickets[i]).mail.state, NM_LXMF_DELIVERED);
  }
  while (newest < COUNT) {
    nm_node_mail got = host_event(&s.p.b, NM_MAIL_RECEIVED, 0);
    NM_CHECK(got.row > newest);
    newest = got.row;
    nm_mail_dispose(&got.mail);
  }
  host_end(&s.p);
}

/* ---- what cannot be written ---- */

/* While |on|, files cannot grow. */
static void full_device(bool on) {
  static rlim_t before;
  struct rlimit limit;
  NM_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  if (on) {
    before = limit.rlim_cur;
    (void)signal(SIGXFSZ, SIG_IGN);
  }
  limit.rlim_cur = on ? 5 : before;
  NM_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

NM_TEST(what_cannot_be_written_is_neither_proven_nor_told) {
  site s;
  begin(&s);
  nm_command c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  (void)host_final(&s.p.a, host_post(&s.p.a, &c, NULL));
  (void)received(&s.p.b);
  c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  c.u.letter.timeout_us = 600000;
  c.u.letter.bare = true; /* a's own store is not the matter here */
  full_device(true);
  uint64_t ticket = host_post(&s.p.a, &c, NULL);
  nm_trouble trouble = io_trouble(&s.p.b, NM_TROUBLE_STORE_WRITE);
  NM_CHECK(strcmp(trouble.file, NM_MAIL_FILE) == 0);
  NM_CHECK_INT(host_final(&s.p.a, ticket).mail.state, NM_LXMF_FAILED);
  NM_CHECK(!host_sees(&s.p.b, NM_MAIL_RECEIVED, 0));
  nm_command lost = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  NM_CHECK(io_status(&s.p.a, &lost) < 0); /* of a mailbox that keeps */
  full_device(false);
  c = host_letter(&s.p, 20, NM_LXMF_DIRECT);
  ticket = host_post(&s.p.a, &c, NULL);
  (void)received(&s.p.b);
  NM_CHECK_INT(host_final(&s.p.a, ticket).mail.state, NM_LXMF_DELIVERED);
  host_end(&s.p);
  NM_CHECK_INT(figures(s.folder_b).messages, 2);
}

/* ---- a process that is killed ---- */

#define IDS_MOST 4096

typedef struct ids {
  uint8_t id[IDS_MOST][NM_HASH_SIZE];
  int count;
} ids;

/* What a process has to know of the other one. */
typedef struct place {
  uint16_t port;
  nm_destination_hash box;
} place;

static void tell(int fd, const void *bytes, size_t len) {
  if (write(fd, bytes, len) != (ssize_t)len) {
    _exit(1);
  }
}

static bool hear(int fd, void *bytes, size_t len) {
  return read(fd, bytes, len) == (ssize_t)len;
}

static void hear_ids(int fd, ids *all) {
  while (all->count < IDS_MOST && hear(fd, all->id[all->count], NM_HASH_SIZE)) {
    all->count++;
  }
}

/* Sends until it is killed, and tells of each letter that was promised. */
static void send_until_killed(const char *folder, int in, int out) {
  place to;
  if (!hear(in, &to, sizeof(to))) {
    _exit(1);
  }
  host_pair p = {.loop = io_loop(1), .box_b = to.box};
  io_open(&p.a, p.loop, folder);
  (void)io_connect(&p.a, to.port);
  p.box_a = open_kept(&p.a, 1);
  io_await_path(&p.a, &to.box);
  for (;;) {
    uint8_t id[NM_HASH_SIZE];
    nm_command c = host_letter(&p, 20, NM_LXMF_DIRECT);
    (void)host_post(&p.a, &c, id);
    tell(out, id, sizeof(id));
  }
}

static void know(io_node *n, uint8_t seed, const nm_destination_hash *box) {
  uint8_t keys[NM_PRIVATE_SIZE];
  nm_identity identity;
  host_keys(seed, keys);
  NM_CHECK_OK(
      nm_identity_init_private(&identity, nm_span_of(keys, sizeof(keys))));
  nm_command c = {.kind = NM_COMMAND_REMEMBER,
                  .destination = *box,
                  .key = io_block(identity.public_key, NM_PUBLIC_SIZE)};
  NM_CHECK_OK(io_status(n, &c));
}

/* Whether or not anybody is there to hear it. */
static void say_where(io_node *n, const nm_destination_hash *box) {
  nm_command c = {.kind = NM_COMMAND_ANNOUNCE, .destination = *box};
  NM_CHECK_OK(io_status(n, &c));
}

/* Goes on where the process was killed, until nothing is unfinished. */
static void finish(const char *folder, io_node *b, const place *to) {
  host_pair p = {.loop = io_loop(1), .box_b = to->box};
  uint64_t until = io_now_us() + (uint64_t)IO_PATIENCE_MS * 1000;
  io_open(&p.a, p.loop, folder);
  (void)io_connect(&p.a, to->port);
  know(&p.a, 2, &to->box);
  (void)open_kept(&p.a, 1);
  say_where(b, &to->box);
  while (figures(folder).unfinished > 0) {
    NM_CHECK(io_now_us() < until);
    (void)host_sees(&p.a, NM_MAIL_STATE, 100);
  }
  io_close(&p.a);
  NM_CHECK_OK(nm_loop_stop(p.loop));
}

static void check_stored(const char *folder, const nm_destination_hash *box,
                         const ids *all) {
  nm_mail_store *store;
  NM_CHECK_OK(nm_mail_store_open(&nm_mem_system, io_path(folder, NM_MAIL_FILE),
                                 NULL, &store, NULL));
  for (int i = 0; i < all->count; i++) {
    nm_mail_row row;
    NM_CHECK_OK(nm_mail_store_find(store, box, all->id[i], false, &row));
    nm_mail_row_dispose(&row);
  }
  nm_mail_store_close(store);
}

static int kills_wanted(void) {
  const char *wanted = getenv("NM_KILLS");
  return wanted == NULL ? 10 : atoi(wanted);
}

/* Waits for the death of |child| some time after the pipe has told of some. */
static void kill_some_time(pid_t child) {
  usleep(nm_test_below(5000));
  kill(child, SIGKILL);
  NM_CHECK(waitpid(child, NULL, 0) == child);
}

static pid_t start(void (*run)(const char *folder, int in, int out),
                   const char *folder, int *to, int *from) {
  int in[2];
  int out[2];
  NM_CHECK(pipe(in) == 0 && pipe(out) == 0);
  pid_t child = fork();
  NM_CHECK(child >= 0);
  if (child == 0) {
    close(in[1]);
    close(out[0]);
    run(folder, in[0], out[1]);
    _exit(0);
  }
  close(in[0]);
  close(out[1]);
  *to = in[1];
  *from = out[0];
  return child;
}

NM_TEST(a_sender_that_is_killed_loses_no_letter_that_was_promised) {
  const char *folder_a = io_folder();
  const char *folder_b = io_folder();
  ids *promised = nm_test_scratch(sizeof(*promised));
  promised->count = 0;
  for (int round = 0; round < kills_wanted(); round++) {
    int to;
    int from;
    pid_t child = start(send_until_killed, folder_a, &to, &from);
    place here;
    host_pair p = {.loop = io_loop(1)};
    io_open(&p.b, p.loop, folder_b);
    (void)io_serve(&p.b, &here.port);
    here.box = open_kept(&p.b, 2);
    tell(to, &here, sizeof(here));
    /* It hears of the mailbox when it is there. */
    NM_CHECK(promised->count < IDS_MOST / 2);
    int before = promised->count;
    while (promised->count < before + 1 + (int)nm_test_below(4)) {
      struct pollfd fd = {.fd = from, .events = POLLIN};
      say_where(&p.b, &here.box);
      if (poll(&fd, 1, 50) > 0) {
        NM_CHECK(hear(from, promised->id[promised->count], NM_HASH_SIZE));
        promised->count++;
      }
    }
    kill_some_time(child);
    hear_ids(from, promised);
    close(from);
    close(to);
    finish(folder_a, &p.b, &here);
    io_close(&p.b);
    NM_CHECK_OK(nm_loop_stop(p.loop));
    check_stored(folder_b, &here.box, promised);
    /* Each once: more only by letters whose promise was not heard. */
    NM_CHECK_INT(figures(folder_a).messages, figures(folder_b).messages);
  }
}

/* Receives until it is killed, and tells of each message it was told of. */
static void receive_until_killed(const char *folder, int in, int out) {
  place here;
  host_pair p = {.loop = io_loop(1)};
  (void)in;
  io_open(&p.b, p.loop, folder);
  (void)io_serve(&p.b, &here.port);
  here.box = open_kept(&p.b, 2);
  tell(out, &here, sizeof(here));
  for (;;) {
    nm_node_mail got = host_event(&p.b, NM_MAIL_RECEIVED, 0);
    tell(out, got.mail.id, sizeof(got.mail.id));
    nm_mail_dispose(&got.mail);
  }
}

NM_TEST(a_receiver_that_is_killed_has_all_that_it_has_proven) {
  const char *folder = io_folder();
  ids *proven = nm_test_scratch(sizeof(*proven));
  ids *told = nm_test_scratch(sizeof(*told));
  proven->count = 0;
  told->count = 0;
  for (int round = 0; round < kills_wanted(); round++) {
    int to;
    int from;
    pid_t child = start(receive_until_killed, folder, &to, &from);
    place there;
    NM_CHECK(hear(from, &there, sizeof(there)));
    host_pair p = {.loop = io_loop(1), .box_b = there.box};
    io_open(&p.a, p.loop, NULL);
    (void)io_connect(&p.a, there.port);
    p.box_a = host_open(&p.a, 1, 0);
    know(&p.a, 2, &there.box);
    int before = proven->count;
    int enough = before + 1 + (int)nm_test_below(5);
    for (int i = 0; i < 12; i++) {
      nm_command c = host_letter(&p, 20, NM_LXMF_DIRECT);
      (void)io_post(&p.a, &c);
    }
    while (proven->count < enough) {
      nm_node_mail end = host_final(&p.a, 0);
      NM_CHECK_INT(end.mail.state, NM_LXMF_DELIVERED);
      memcpy(proven->id[proven->count++], end.mail.id, NM_HASH_SIZE);
    }
    kill_some_time(child);
    hear_ids(from, told);
    close(from);
    close(to);
    nm_node_close(p.a.node);
    nm_mail proven_mail;
    while (host_take_final(&p.a, &proven_mail)) {
      if (proven_mail.state == NM_LXMF_DELIVERED) {
        memcpy(proven->id[proven->count++], proven_mail.id, NM_HASH_SIZE);
      }
    }
    io_close(&p.a);
    NM_CHECK_OK(nm_loop_stop(p.loop));
    check_stored(folder, &there.box, proven);
    check_stored(folder, &there.box, told);
  }
  for (int i = 0; i < told->count; i++) { /* and told of once */
    for (int k = i + 1; k < told->count; k++) {
      NM_CHECK(memcmp(told->id[i], told->id[k], NM_HASH_SIZE) != 0);
    }
  }
}
