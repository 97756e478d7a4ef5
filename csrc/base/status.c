#include "base/status.h"

int nm_fault_set(nm_fault *fault, int status, const char *field,
                 size_t offset) {
  if (fault != NULL) {
    fault->status = status;
    fault->field = field;
    fault->offset = offset;
  }
  return status;
}

static const char *const names[] = {"OK",
#define NM_STATUS_NAME(name, text) #name,
                                    NM_STATUS_LIST(NM_STATUS_NAME)
#undef NM_STATUS_NAME
};

static const char *const texts[] = {"succeeded",
#define NM_STATUS_TEXT(name, text) text,
                                    NM_STATUS_LIST(NM_STATUS_TEXT)
#undef NM_STATUS_TEXT
};

static int is_known(int status) {
  return status <= 0 && status > -(int)NM_STATUS_COUNT;
}

const char *nm_status_name(int status) {
  return is_known(status) ? names[-status] : "UNKNOWN";
}

const char *nm_status_text(int status) {
  return is_known(status) ? texts[-status] : "failed for an unknown reason";
}
