/* Bodies: the packed messages as they are stored, the text in them that is
 * searched, and where their attachments lie.
 */
#include "io/mail_db.h"

#include "crypto/zstd.h"
#include "wire/lxmf_fields.h"
#include "wire/lxmf_message.h"

#include <string.h>

#define DEFLATE_FROM 1024
#define DEFLATE_LEVEL 3
#define ATTACHMENTS_MAX 1024

/* ---- stored and back ---- */

/* A frame pays when it saves an eighth: attachments in a message that is kept
 * as it came can be read alone. */
int nm_mail_body_pack(nm_mail_store *store, nm_span packed, nm_buffer *room,
                      nm_span *stored, int64_t *inflated) {
  *stored = packed;
  *inflated = 0;
  if (packed.len <= DEFLATE_FROM) {
    return NM_OK;
  }
  room->len = 0;
  int status = nm_zstd_compress(nm_span_of(NULL, 0), packed, DEFLATE_LEVEL,
                                packed.len - packed.len / 8, room);
  if (status == NM_E(LIMIT)) {
    return NM_OK;
  }
  if (status != NM_OK) {
    return nm_mail_fail(store, status, "a message could not be deflated");
  }
  *stored = nm_span_of(room->ptr, room->len);
  *inflated = (int64_t)packed.len;
  return NM_OK;
}

int nm_mail_body_unpack(nm_mail_store *store, nm_span stored, int64_t inflated,
                        nm_block **packed) {
  static const char broken[] = "a message does not inflate";
  *packed = NULL;
  if (inflated < 0 || inflated > NM_MAIL_PACKED_MAX) {
    return nm_mail_damaged(store, broken);
  }
  if (inflated == 0) {
    *packed = nm_block_copy(store->mem, stored);
    return *packed != NULL ? NM_OK
                           : nm_mail_fail(store, NM_E(MEMORY), "out of memory");
  }
  nm_block *block = nm_block_new(store->mem, (size_t)inflated);
  if (block == NULL) {
    return nm_mail_fail(store, NM_E(MEMORY), "out of memory");
  }
  nm_buffer out;
  nm_buffer_init(&out, store->mem, nm_block_bytes(block), (size_t)inflated, 0);
  int status = nm_zstd_decompress(stored, (size_t)inflated, &out);
  bool whole = status == NM_OK && out.len == (size_t)inflated;
  nm_buffer_dispose(&out);
  if (!whole) {
    nm_block_drop(block);
    return status == NM_E(MEMORY) ? nm_mail_fail(store, status, "out of memory")
                                  : nm_mail_damaged(store, broken);
  }
  *packed = block;
  return NM_OK;
}

/* ---- text ---- */

static nm_span cut_text(nm_span text, size_t size_max) {
  size_t len = text.len < size_max ? text.len : size_max;
  while (len > 0 && len < text.len && (text.ptr[len] & 0xC0) == 0x80) {
    len--;
  }
  return nm_span_of(text.ptr, len);
}

int nm_mail_text(nm_span text, nm_buffer *room, nm_span *clean) {
  *clean = cut_text(text, NM_MAIL_TEXT_MAX);
  bool valid = nm_utf8_valid(*clean);
  if (valid && (clean->len == 0 || memchr(clean->ptr, 0, clean->len) == NULL)) {
    return NM_OK;
  }
  room->len = 0;
  int status = nm_buffer_append(room, clean->ptr, clean->len);
  if (status != NM_OK) {
    return status;
  }
  for (size_t i = 0; i < room->len; i++) {
    if (room->ptr[i] == 0 || (!valid && room->ptr[i] >= 0x80)) {
      room->ptr[i] = ' ';
    }
  }
  *clean = nm_span_of(room->ptr, room->len);
  return NM_OK;
}

static int text_result(sqlite3_context *context, nm_mail_store *store,
                       nm_span packed, bool content) {
  nm_lxmf_view view;
  nm_span clean;
  int status = nm_lxmf_decode(packed, NULL, &view, NULL);
  if (status != NM_OK) {
    return status;
  }
  nm_buffer room;
  nm_buffer_init(&room, store->mem, NULL, 0, 0);
  status = nm_mail_text(content ? view.content : view.title, &room, &clean);
  if (status == NM_OK) {
    sqlite3_result_text64(context, clean.len > 0 ? (const char *)clean.ptr : "",
                          clean.len, SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  nm_buffer_dispose(&room);
  return status;
}

/* nm_mail_text(packed, inflated, 0: title, 1: content) */
static void text_function(sqlite3_context *context, int count,
                          sqlite3_value **values) {
  (void)count;
  nm_mail_store *store = sqlite3_user_data(context);
  const void *bytes = sqlite3_value_blob(values[0]);
  int len = sqlite3_value_bytes(values[0]);
  int64_t inflated = sqlite3_value_int64(values[1]);
  bool content = sqlite3_value_int(values[2]) != 0;
  nm_span stored = nm_span_of(bytes, bytes != NULL ? (size_t)len : 0);
  nm_block *block = NULL;
  int status = inflated == 0
                   ? NM_OK
                   : nm_mail_body_unpack(store, stored, inflated, &block);
  if (status == NM_OK) {
    nm_span packed = block != NULL ? nm_block_span(block) : stored;
    status = text_result(context, store, packed, content);
  }
  nm_block_drop(block);
  if (status == NM_E(MEMORY)) {
    sqlite3_result_error_nomem(context);
  } else if (status != NM_OK) {
    sqlite3_result_error_code(context, SQLITE_CORRUPT);
  }
}

int nm_mail_body_functions(nm_mail_store *store) {
  int code = sqlite3_create_function_v2(store->db, "nm_mail_text", 3,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC |
                                            SQLITE_INNOCUOUS,
                                        store, text_function, NULL, NULL, NULL);
  return code == SQLITE_OK ? NM_OK : nm_mail_failed(store, code);
}

/* ---- attachments ---- */

typedef struct scan {
  nm_mail_store *store;
  int64_t row;
  nm_span packed;
  uint32_t count;
} scan;

static int note(scan *s, nm_lxmf_field field, nm_span name, uint64_t mode,
                nm_span data) {
  static const char sql[] =
      "INSERT INTO attachment (row, place, field, name, audio_mode, start,"
      " size) VALUES (?, ?, ?, ?, ?, ?, ?)";
  nm_mail_stmt stmt = nm_mail_use(s->store, sql);
  size_t start = data.len > 0 ? (size_t)(data.ptr - s->packed.ptr) : 0;
  nm_mail_bind_int(&stmt, s->row);
  nm_mail_bind_int(&stmt, s->count++);
  nm_mail_bind_int(&stmt, (int64_t)field);
  nm_mail_bind_bytes(&stmt, cut_text(name, NM_MAIL_ATTACHMENT_NAME_MAX));
  nm_mail_bind_int(&stmt, (int64_t)(mode & UINT32_MAX));
  nm_mail_bind_int(&stmt, (int64_t)start);
  nm_mail_bind_int(&stmt, (int64_t)data.len);
  return nm_mail_run(&stmt);
}

static bool is_text(const nm_mp_item *item) {
  return item->type == NM_MP_STR ||
         (item->type == NM_MP_BIN && nm_utf8_valid(item->data));
}

/* [name, bytes], for audio [mode, bytes]; other shapes are no attachment, and
 * stay in the message as they are. */
static int note_pair(scan *s, nm_lxmf_field field, nm_reader *r) {
  nm_mp_item head = {0};
  nm_mp_item first = {0};
  nm_mp_item data = {0};
  nm_reader at = *r;
  (void)nm_mp_skip(r, NULL);
  if (nm_mp_read(&at, &head) != NM_OK || head.type != NM_MP_ARRAY ||
      head.count < 2 || nm_mp_read(&at, &first) != NM_OK ||
      nm_mp_read(&at, &data) != NM_OK ||
      (data.type != NM_MP_BIN && data.type != NM_MP_STR) ||
      s->count >= ATTACHMENTS_MAX) {
    return NM_OK;
  }
  bool audio = field == NM_LXMF_FIELD_AUDIO;
  if (audio ? first.type != NM_MP_UINT : !is_text(&first)) {
    return NM_OK;
  }
  return note(s, field, audio ? nm_span_of(NULL, 0) : first.data,
              audio ? first.uint : 0, data.data);
}

static int note_files(scan *s, nm_span value) {
  nm_reader r = nm_reader_of(value);
  nm_mp_item list = {0};
  int status = NM_OK;
  if (nm_mp_read(&r, &list) != NM_OK || list.type != NM_MP_ARRAY) {
    return NM_OK;
  }
  for (uint32_t i = 0; i < list.count && status == NM_OK; i++) {
    status = note_pair(s, NM_LXMF_FIELD_FILE_ATTACHMENTS, &r);
    if (r.status != NM_OK) {
      break;
    }
  }
  return status;
}

int nm_mail_note_attachments(nm_mail_store *store, int64_t row, nm_span packed,
                             nm_span fields, bool again) {
  static const char drop[] = "DELETE FROM attachment WHERE row = ?";
  scan s = {.store = store, .row = row, .packed = packed};
  int status = NM_OK;
  if (again) {
    nm_mail_stmt stmt = nm_mail_use(store, drop);
    nm_mail_bind_int(&stmt, row);
    status = nm_mail_run(&stmt);
  }
  nm_span value;
  if (status == NM_OK &&
      nm_lxmf_field_find(fields, NM_LXMF_FIELD_FILE_ATTACHMENTS, &value) ==
          NM_OK) {
    status = note_files(&s, value);
  }
  static const nm_lxmf_field single[] = {NM_LXMF_FIELD_IMAGE,
                                         NM_LXMF_FIELD_AUDIO};
  for (size_t i = 0; i < 2 && status == NM_OK; i++) {
    if (nm_lxmf_field_find(fields, single[i], &value) == NM_OK) {
      nm_reader r = nm_reader_of(value);
      status = note_pair(&s, single[i], &r);
    }
  }
  return status;
}
