/* The propagation node of a mail_world: takes uploads, answers /get. */
#ifndef NM_TESTS_WORLD_NODE_H
#define NM_TESTS_WORLD_NODE_H

#include "mail_world.h"

/* Listens with |identity|, and announces itself. */
void world_node_open(world *w, const nm_identity *identity);
/* An event of its engine; stays the caller's. */
void world_node_event(world *w, const nm_event *event);

#endif
