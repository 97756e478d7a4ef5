/* What links hold until the application decides: tokens.
 */
#include "stack/link_state.h"

#define TOKENS_MAX 65536
#define TOKENS_PER_LINK 1024

static void dispose_token(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_link_token *token = (nm_link_token *)(void *)entry;
  nm_link_token **at = &token->link->tokens;
  while (*at != token) {
    at = &(*at)->next;
  }
  *at = token->next;
  token->link->token_count--;
  nm_release(engine->mem, token);
}

/* An unproven packet may be forgotten: its sender will try again. */
static bool may_evict_token(void *user, nm_table_link *entry) {
  (void)user;
  return ((const nm_link_token *)(const void *)entry)->kind == NM_TOKEN_PACKET;
}

int nm_link_tokens_init(nm_engine *engine) {
  const nm_table_config config = {
      .capacity = TOKENS_MAX,
      .key_size = sizeof(nm_token_id),
      .key_offset = offsetof(nm_link_token, token),
      .may_evict = may_evict_token,
      .dispose = dispose_token,
  };
  return nm_engine_table(engine, &engine->links.tokens, &config);
}

nm_link_token *nm_link_token_new(nm_engine *engine, nm_link *link,
                                 nm_token_kind kind) {
  if (link->token_count >= TOKENS_PER_LINK) {
    return NULL;
  }
  nm_link_token *token = nm_alloc_zero(engine->mem, 1, sizeof(*token));
  if (token == NULL) {
    return NULL;
  }
  token->token = nm_engine_new_token(engine);
  token->kind = kind;
  token->link = link;
  token->next = link->tokens;
  link->tokens = token;
  link->token_count++;
  if (nm_table_insert(&engine->links.tokens, &token->entry) != NM_OK) {
    dispose_token(engine, &token->entry);
    return NULL;
  }
  return token;
}

nm_link_token *nm_link_token_find(const nm_engine *engine, nm_token_id token) {
  return (nm_link_token *)(void *)nm_table_find(&engine->links.tokens, &token);
}

void nm_link_token_drop(nm_engine *engine, nm_link_token *token) {
  nm_table_remove(&engine->links.tokens, &token->entry);
  dispose_token(engine, &token->entry);
}

void nm_link_tokens_close(nm_engine *engine, nm_link *link) {
  while (link->tokens != NULL) {
    nm_link_token_drop(engine, link->tokens);
  }
}
