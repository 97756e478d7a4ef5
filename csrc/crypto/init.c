#include "crypto/init.h"

#include "base/status.h"

#include <sodium.h>

int nm_crypto_init(void) {
  return sodium_init() < 0 ? NM_E(LIBRARY) : NM_OK;
}
