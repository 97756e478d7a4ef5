/* The files of a node's tables: any bytes as a file, and any body under a head
 * that is right. What is read must pack to a record that reads the same. */
#include "fuzz.h"
#include "io/store.h"

#include <string.h>

static void read_known(nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  for (uint32_t i = 0; i < count && i < 64; i++) {
    nm_known_record record;
    nm_known_record again;
    nm_buffer packed;
    if (nm_known_unpack(&r, &nm_mem_system, &record) != NM_OK) {
      return;
    }
    nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
    MUST(nm_known_pack(&packed, &record) == NM_OK);
    nm_reader back = nm_reader_of(nm_span_of(packed.ptr, packed.len));
    MUST(nm_known_unpack(&back, &nm_mem_system, &again) == NM_OK);
    MUST(nm_reader_left(&back) == 0);
    MUST(memcmp(again.destination.b, record.destination.b, NM_ADDRESS_SIZE) ==
         0);
    MUST(again.has_app_data == record.has_app_data);
    nm_known_record_dispose(&again);
    nm_known_record_dispose(&record);
    nm_buffer_dispose(&packed);
  }
}

/* False when it cannot be read. */
static bool read_way(nm_reader *r) {
  nm_alternative_record record;
  nm_alternative_record again;
  uint8_t iface[NM_HASH_SIZE];
  uint8_t same[NM_HASH_SIZE];
  nm_buffer packed;
  if (nm_alternative_unpack(r, &record, iface) != NM_OK) {
    return false;
  }
  nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
  MUST(nm_alternative_pack(&packed, &record, iface) == NM_OK);
  nm_reader back = nm_reader_of(nm_span_of(packed.ptr, packed.len));
  MUST(nm_alternative_unpack(&back, &again, same) == NM_OK);
  MUST(nm_reader_left(&back) == 0);
  MUST(memcmp(iface, same, sizeof(iface)) == 0);
  MUST(again.hops == record.hops);
  nm_buffer_dispose(&packed);
  return true;
}

static void read_paths(nm_span body, uint32_t count) {
  nm_reader r = nm_reader_of(body);
  for (uint32_t i = 0; i < count && i < 64; i++) {
    nm_path_record record;
    nm_path_record again;
    uint8_t iface[NM_HASH_SIZE];
    uint8_t same[NM_HASH_SIZE];
    nm_buffer packed;
    nm_store_next next;
    if (nm_store_peek(&r, NM_ADDRESS_SIZE, &next) != NM_OK) {
      return;
    }
    if (next.fields == 0) {
      MUST(lies_in(next.key, body) && next.key.len == NM_ADDRESS_SIZE);
      continue;
    }
    if (next.fields == NM_ALTERNATIVE_FIELDS) {
      if (!read_way(&r)) {
        return;
      }
      continue;
    }
    if (nm_path_unpack(&r, &nm_mem_system, &record, iface) != NM_OK) {
      return;
    }
    nm_buffer_init(&packed, &nm_mem_system, NULL, 0, 0);
    MUST(nm_path_pack(&packed, &record, iface) == NM_OK);
    nm_reader back = nm_reader_of(nm_span_of(packed.ptr, packed.len));
    MUST(nm_path_unpack(&back, &nm_mem_system, &again, same) == NM_OK);
    MUST(nm_reader_left(&back) == 0);
    MUST(memcmp(iface, same, sizeof(iface)) == 0);
    MUST(again.hops == record.hops);
    nm_path_record_dispose(&again);
    nm_path_record_dispose(&record);
    nm_buffer_dispose(&packed);
  }
}

static void read_file(nm_kept_table table, nm_span file) {
  uint32_t count = 0;
  nm_span body;
  int status = nm_store_unseal(table, file, &count, &body);
  if (status != NM_OK) {
    MUST(status < 0);
    return;
  }
  MUST(lies_in(body, file));
  if (table == NM_KEPT_KNOWN) {
    read_known(body, count);
  } else {
    read_paths(body, count);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t sealed[NM_STORE_HEAD_SIZE + 8192];
  if (size < 2 || size > 8192) {
    return 0;
  }
  nm_kept_table table = data[0] & 1 ? NM_KEPT_PATHS : NM_KEPT_KNOWN;
  nm_span rest = nm_span_of(data + 2, size - 2);
  if ((data[0] & 2) != 0) {
    read_file(table, rest);
    return 0;
  }
  nm_store_seal(table, data[1], rest, sealed);
  if (rest.len > 0) {
    memcpy(&sealed[NM_STORE_HEAD_SIZE], rest.ptr, rest.len);
  }
  read_file(table, nm_span_of(sealed, NM_STORE_HEAD_SIZE + rest.len));
  return 0;
}
