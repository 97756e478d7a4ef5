#include "wire_data.h"

#include "crypto/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nm_span nm_wire_rule_data(const char *label, size_t len) {
  uint8_t *out = (uint8_t *)nm_test_scratch(len + NM_HASH_SIZE);
  char text[100];
  for (size_t i = 0; i * NM_HASH_SIZE < len; i++) {
    int n = snprintf(text, sizeof text, "%s/%zu", label, i);
    nm_sha256(out + i * NM_HASH_SIZE, nm_span_of(text, (size_t)n));
  }
  return nm_span_of(out, len);
}

static nm_span from_rule(const char *rule, size_t len) {
  char label[80];
  const char *begin = strstr(rule, "ascii('");
  NM_CHECK(begin != NULL);
  begin += strlen("ascii('");
  const char *end = strstr(begin, "/0')");
  NM_CHECK(end != NULL && (size_t)(end - begin) < sizeof label);
  memcpy(label, begin, (size_t)(end - begin));
  label[end - begin] = '\0';
  return nm_wire_rule_data(label, len);
}

static nm_span from_pattern(const char *pattern, size_t len) {
  const char *end = strchr(pattern + 1, '\'');
  NM_CHECK(pattern[0] == '\'' && end != NULL && end[1] == '*');
  size_t unit = (size_t)(end - pattern) - 1;
  NM_CHECK_INT(unit * (size_t)strtol(end + 2, NULL, 10), len);
  uint8_t *out = (uint8_t *)nm_test_scratch(len);
  for (size_t i = 0; i < len; i++) {
    out[i] = (uint8_t)pattern[1 + i % unit];
  }
  return nm_span_of(out, len);
}

nm_span nm_wire_vector_data(const nm_vector *v) {
  nm_span data;
  if (nm_vector_has(v, "input.data")) {
    data = nm_vector_bytes(v, "input.data");
  } else {
    size_t len = (size_t)nm_vector_u64(v, "input.data_length");
    data = nm_vector_has(v, "input.data_rule")
               ? from_rule(nm_vector_text(v, "input.data_rule"), len)
               : from_pattern(nm_vector_text(v, "input.data_pattern"), len);
  }
  if (nm_vector_has(v, "input.data_sha256")) {
    uint8_t digest[NM_HASH_SIZE];
    nm_sha256(digest, data);
    NM_CHECK_SPAN(nm_span_of(digest, sizeof digest),
                  nm_vector_bytes(v, "input.data_sha256"));
  }
  return data;
}

size_t nm_wire_vector_count(const nm_vector *v, const char *path) {
  const nm_vector_field *field = nm_vector_find(v, path);
  NM_CHECK(field != NULL && field->type == NM_VECTOR_LIST);
  return (size_t)field->number;
}

void nm_wire_identity(const char *name, nm_identity *id) {
  for (size_t i = 0; i < nm_vector_count; i++) {
    const nm_vector *v = &nm_vectors[i];
    if (strcmp(v->file, "lxmf") == 0 && strcmp(v->name, name) == 0) {
      NM_CHECK_OK(nm_identity_init_private(
          id, nm_vector_bytes(v, "input.private_key")));
      return;
    }
  }
  nm_test_fail(__FILE__, __LINE__, "no identity vector %s", name);
}
