#include "support.h"

#include <string.h>

NM_TEST(every_status_has_its_name_and_a_text) {
  NM_CHECK(strcmp(nm_status_name(NM_OK), "OK") == 0);
  NM_CHECK(strcmp(nm_status_name(NM_E(TRUNCATED)), "TRUNCATED") == 0);
  NM_CHECK(strcmp(nm_status_name(NM_E(ARGUMENT)), "ARGUMENT") == 0);
  NM_CHECK(strcmp(nm_status_text(NM_E(AUTH)), "fails authentication") == 0);
  for (int ordinal = 0; ordinal < (int)NM_STATUS_COUNT; ordinal++) {
    NM_CHECK(strcmp(nm_status_name(-ordinal), "UNKNOWN") != 0);
    NM_CHECK(strlen(nm_status_text(-ordinal)) > 0);
    for (int other = 0; other < ordinal; other++) {
      NM_CHECK(strcmp(nm_status_name(-ordinal), nm_status_name(-other)) != 0);
    }
  }
}

NM_TEST(numbers_outside_the_list_are_unknown) {
  NM_CHECK(strcmp(nm_status_name(1), "UNKNOWN") == 0);
  NM_CHECK(strcmp(nm_status_name(-(int)NM_STATUS_COUNT), "UNKNOWN") == 0);
  NM_CHECK(strlen(nm_status_text(-100000)) > 0);
}

NM_TEST(a_fault_is_recorded_and_its_status_passed_on) {
  nm_fault fault = {0, NULL, 0};
  NM_CHECK_STATUS(nm_fault_set(&fault, NM_E(VALUE), "hops", 1), NM_E(VALUE));
  NM_CHECK_STATUS(fault.status, NM_E(VALUE));
  NM_CHECK(strcmp(fault.field, "hops") == 0);
  NM_CHECK_INT(fault.offset, 1);
  NM_CHECK_STATUS(nm_fault_set(NULL, NM_E(VALUE), "hops", 1), NM_E(VALUE));
}
