/* Posts between threads, lock-free: many writers, one reader. */
#ifndef NM_IO_POSTBOX_H
#define NM_IO_POSTBOX_H

#include "io/node.h"

typedef struct nm_postbox {
  _Atomic(nm_post *) newest;
} nm_postbox;

typedef enum nm_post_result {
  NM_POST_FIRST, /* the box was empty: wake the reader */
  NM_POST_MORE,
  NM_POST_CLOSED /* not taken */
} nm_post_result;

nm_post_result nm_postbox_put(nm_postbox *box, nm_post *post);
/* Reader: whether there is none now. */
bool nm_postbox_is_empty(const nm_postbox *box);
/* All posts, oldest first; NULL when there are none. */
nm_post *nm_postbox_take(nm_postbox *box);
/* As nm_postbox_take, and refuses all further posts. */
nm_post *nm_postbox_close(nm_postbox *box);

#endif
