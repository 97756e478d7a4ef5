/* CONSTANTS: the numbers that the core was compiled with, by name. */
#include "wire/constants.h"

#include "py/state.h"
#include "wire/lxmf_constants.h"

typedef struct row {
  const char *name;
  long value;
} row;

#define ROW(name)                                                              \
  { "LXMF_" #name, NM_LXMF_##name }

/* What wire/lxmf_constants.h defines; nm_constants has the rest. */
static const row lxmf_rows[] = {
    ROW(HEADER_SIZE),
    ROW(PACKED_MIN),
    ROW(TIMESTAMP_SIZE),
    ROW(STRUCT_OVERHEAD),
    ROW(OVERHEAD),
    ROW(STAMP_SIZE),
    ROW(TICKET_SIZE),
    ROW(ENCRYPTED_PACKET_MDU),
    ROW(ENCRYPTED_PACKET_MAX_CONTENT),
    ROW(LINK_PACKET_MDU),
    ROW(LINK_PACKET_MAX_CONTENT),
    ROW(PLAIN_PACKET_MDU),
    ROW(PLAIN_PACKET_MAX_CONTENT),
    ROW(OPPORTUNISTIC_ACCEPT_MAX),
    ROW(QR_MAX_STORAGE),
    ROW(PAPER_MDU),
    ROW(DELIVERY_LIMIT_KB),
    ROW(PROPAGATION_LIMIT_KB),
    ROW(SYNC_LIMIT_KB),
    ROW(ROUNDS_MESSAGE),
    ROW(ROUNDS_PROPAGATION),
    ROW(ROUNDS_PEERING),
    ROW(COST_TICKET),
    ROW(STAMP_COST_MIN),
    ROW(STAMP_COST_MAX),
    ROW(PROPAGATION_COST),
    ROW(PROPAGATION_COST_MIN),
    ROW(PROPAGATION_COST_FLEX),
    ROW(PEERING_COST),
    ROW(PEERING_COST_MAX),
    ROW(TICKET_EXPIRY_S),
    ROW(TICKET_RENEW_S),
    ROW(TICKET_INTERVAL_S),
    ROW(TICKET_GRACE_S),
    ROW(SF_COMPRESSION),
    {"LXMF_STATE_GENERATING", NM_LXMF_GENERATING},
    {"LXMF_STATE_OUTBOUND", NM_LXMF_OUTBOUND},
    {"LXMF_STATE_SENDING", NM_LXMF_SENDING},
    {"LXMF_STATE_SENT", NM_LXMF_SENT},
    {"LXMF_STATE_DELIVERED", NM_LXMF_DELIVERED},
    {"LXMF_STATE_REJECTED", NM_LXMF_REJECTED},
    {"LXMF_STATE_CANCELLED", NM_LXMF_CANCELLED},
    {"LXMF_STATE_FAILED", NM_LXMF_FAILED},
    ROW(METHOD_UNKNOWN),
    {"LXMF_METHOD_OPPORTUNISTIC", NM_LXMF_OPPORTUNISTIC},
    {"LXMF_METHOD_DIRECT", NM_LXMF_DIRECT},
    {"LXMF_METHOD_PROPAGATED", NM_LXMF_PROPAGATED},
    {"LXMF_METHOD_PAPER", NM_LXMF_PAPER},
    ROW(REPRESENTATION_UNKNOWN),
    {"LXMF_REPRESENTATION_PACKET", NM_LXMF_PACKET},
    {"LXMF_REPRESENTATION_RESOURCE", NM_LXMF_RESOURCE},
    ROW(REPRESENTATION_PAPER),
    ROW(VERIFIED),
    ROW(SOURCE_UNKNOWN),
    ROW(SIGNATURE_INVALID),
    ROW(FIELD_EMBEDDED_LXMS),
    ROW(FIELD_TELEMETRY),
    ROW(FIELD_TELEMETRY_STREAM),
    ROW(FIELD_ICON_APPEARANCE),
    ROW(FIELD_FILE_ATTACHMENTS),
    ROW(FIELD_IMAGE),
    ROW(FIELD_AUDIO),
    ROW(FIELD_THREAD),
    ROW(FIELD_COMMANDS),
    ROW(FIELD_RESULTS),
    ROW(FIELD_GROUP),
    ROW(FIELD_TICKET),
    ROW(FIELD_EVENT),
    ROW(FIELD_RNR_REFS),
    ROW(FIELD_RENDERER),
    ROW(FIELD_REPLY_TO),
    ROW(FIELD_REPLY_QUOTE),
    ROW(FIELD_REACTION),
    ROW(FIELD_COMMENT),
    ROW(FIELD_CONTINUATION),
    ROW(FIELD_CUSTOM_TYPE),
    ROW(FIELD_CUSTOM_DATA),
    ROW(FIELD_CUSTOM_META),
    ROW(FIELD_NON_SPECIFIC),
    ROW(FIELD_DEBUG),
    ROW(REACTION_TO),
    ROW(REACTION_CONTENT),
    ROW(COMMENT_FOR),
    ROW(CONTINUATION_OF),
    ROW(RENDERER_PLAIN),
    ROW(RENDERER_MICRON),
    ROW(RENDERER_MARKDOWN),
    ROW(RENDERER_BBCODE),
    ROW(AM_CODEC2_450PWB),
    ROW(AM_CODEC2_450),
    ROW(AM_CODEC2_700C),
    ROW(AM_CODEC2_1200),
    ROW(AM_CODEC2_1300),
    ROW(AM_CODEC2_1400),
    ROW(AM_CODEC2_1600),
    ROW(AM_CODEC2_2400),
    ROW(AM_CODEC2_3200),
    ROW(AM_OPUS_OGG),
    ROW(AM_OPUS_LBW),
    ROW(AM_OPUS_MBW),
    ROW(AM_OPUS_PTT),
    ROW(AM_OPUS_RT_HDX),
    ROW(AM_OPUS_RT_FDX),
    ROW(AM_OPUS_STANDARD),
    ROW(AM_OPUS_HQ),
    ROW(AM_OPUS_BROADCAST),
    ROW(AM_OPUS_LOSSLESS),
    ROW(AM_CUSTOM),
    ROW(PN_META_VERSION),
    ROW(PN_META_NAME),
    ROW(PN_META_SYNC_STRATUM),
    ROW(PN_META_SYNC_THROTTLE),
    ROW(PN_META_AUTH_BAND),
    ROW(PN_META_UTIL_PRESSURE),
    ROW(PN_META_IMPL_NAME),
    ROW(PN_META_CUSTOM),
    ROW(ERROR_NO_IDENTITY),
    ROW(ERROR_NO_ACCESS),
    ROW(ERROR_INVALID_KEY),
    ROW(ERROR_INVALID_DATA),
    ROW(ERROR_INVALID_STAMP),
    ROW(ERROR_THROTTLED),
    ROW(ERROR_NOT_FOUND),
    ROW(ERROR_TIMEOUT),
};

/* Adds |value|, which is taken over, to |dict|. 0, or -1 with an exception. */
static int put(PyObject *dict, const char *name, PyObject *value) {
  int result = value != NULL ? PyDict_SetItemString(dict, name, value) : -1;
  Py_XDECREF(value);
  return result;
}

static int fill(PyObject *dict) {
  for (size_t i = 0; i < nm_constant_count; i++) {
    const nm_constant *c = &nm_constants[i];
    PyObject *value =
        c->whole ? PyLong_FromDouble(c->value) : PyFloat_FromDouble(c->value);
    if (put(dict, c->name, value) < 0) {
      return -1;
    }
  }
  for (size_t i = 0; i < sizeof lxmf_rows / sizeof lxmf_rows[0]; i++) {
    if (put(dict, lxmf_rows[i].name, PyLong_FromLong(lxmf_rows[i].value)) < 0) {
      return -1;
    }
  }
  return 0;
}

int nm_py_constants_add(PyObject *module, nm_state *state) {
  (void)state;
  PyObject *dict = PyDict_New();
  int result = dict != NULL ? fill(dict) : -1;
  if (result == 0) {
    result = PyModule_AddObjectRef(module, "CONSTANTS", dict);
  }
  Py_XDECREF(dict);
  return result;
}
