#include "stack/types.h"

const char *nm_drop_name(nm_drop reason) {
  switch (reason) {
#define CASE(name, text)                                                       \
  case NM_DROP_##name:                                                         \
    return #name;
    NM_DROP_LIST(CASE)
#undef CASE
  case NM_DROP_NONE:
  case NM_DROP_COUNT:
    break;
  }
  return "NONE";
}

const char *nm_drop_text(nm_drop reason) {
  switch (reason) {
#define CASE(name, text)                                                       \
  case NM_DROP_##name:                                                         \
    return text;
    NM_DROP_LIST(CASE)
#undef CASE
  case NM_DROP_NONE:
  case NM_DROP_COUNT:
    break;
  }
  return "accepted";
}
