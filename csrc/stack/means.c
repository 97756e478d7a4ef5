/* What the engine gives its state machines: timers, tables, entropy.
 */
#include "stack/internal.h"

#include <string.h>

void nm_engine_arm(nm_engine *engine, nm_timer *timer, uint64_t delay_us) {
  (void)nm_timer_arm(&engine->timers, timer, engine->now.mono_us + delay_us);
}

int nm_engine_reserve_timers(nm_engine *engine, size_t more) {
  int status =
      nm_timers_reserve(&engine->timers, engine->timers_reserved + more);
  if (status == NM_OK) {
    engine->timers_reserved += more;
  }
  return status;
}

void nm_engine_unreserve_timers(nm_engine *engine, size_t less) {
  engine->timers_reserved -= less;
}

int nm_engine_table(nm_engine *engine, nm_table *table,
                    const nm_table_config *config) {
  nm_table_config own = *config;
  own.user = engine;
  memcpy(own.hash_key, engine->hash_key, sizeof(own.hash_key));
  return nm_table_init(table, engine->mem, &own);
}

void nm_engine_release_entry(void *user, nm_table_link *entry) {
  nm_engine *engine = user;
  nm_release(engine->mem, entry);
}

int nm_engine_random(nm_engine *engine, void *ptr, size_t len) {
  return nm_entropy_fill(engine->entropy, ptr, len);
}
