/* Properties and counters of interfaces as Python dicts. */
#ifndef NM_PY_IFACE_SPEC_H
#define NM_PY_IFACE_SPEC_H

#include "py/columns.h"
#include "py/state.h"
#include "stack/iface.h"

/* What an interface was told, as columns of |type|, which names these members
 * as nm_iface_spec does; the ranges are those of what Python may give. */
#define NM_PY_IFACE_COLUMNS(type)                                              \
  NM_PY_COLUMN_IN("role", ENUM, type, role, NM_ROLE_ORDINARY,                  \
                  NM_ROLE_SHARED_CONNECTION),                                  \
      NM_PY_COLUMN_IN("mode", U8, type, mode, NM_IF_FULL, NM_IF_INTERNAL),     \
      NM_PY_COLUMN_IN("mtu_mode", ENUM, type, mtu_mode, NM_MTU_NONE,           \
                      NM_MTU_FIXED),                                           \
      NM_PY_COLUMN_IN("hw_mtu", SIZE, type, hw_mtu, 0, UINT32_MAX),            \
      NM_PY_COLUMN_IN("bitrate", U64, type, bitrate, 0, (long long)1 << 53),   \
      NM_PY_COLUMN("receives", BOOL, type, receives),                          \
      NM_PY_COLUMN("sends", BOOL, type, sends),                                \
      NM_PY_COLUMN("online", BOOL, type, online),                              \
      NM_PY_COLUMN("tunnels", BOOL, type, tunnels),                            \
      NM_PY_COLUMN("announce_cap", REAL, type, announce_cap),                  \
      NM_PY_COLUMN_IN("rate_target_s", U32, type, rate_target_s, 0,            \
                      UINT32_MAX),                                             \
      NM_PY_COLUMN_IN("rate_grace", U32, type, rate_grace, 0, UINT32_MAX),     \
      NM_PY_COLUMN_IN("rate_penalty_s", U32, type, rate_penalty_s, 0,          \
                      UINT32_MAX),                                             \
      NM_PY_COLUMN("ingress_control", BOOL, type, ingress_control),            \
      NM_PY_INGRESS(type, new_us, U64, (long long)NM_INGRESS_TIME_MAX_US),     \
      NM_PY_INGRESS(type, announce_rate_new, REAL, 0),                         \
      NM_PY_INGRESS(type, announce_rate, REAL, 0),                             \
      NM_PY_INGRESS(type, request_rate_new, REAL, 0),                          \
      NM_PY_INGRESS(type, request_rate, REAL, 0),                              \
      NM_PY_INGRESS(type, hold_us, U64, (long long)NM_INGRESS_TIME_MAX_US),    \
      NM_PY_INGRESS(type, penalty_us, U64, (long long)NM_INGRESS_TIME_MAX_US), \
      NM_PY_INGRESS(type, release_us, U64, (long long)NM_INGRESS_TIME_MAX_US), \
      NM_PY_INGRESS(type, held_max, SIZE, NM_INGRESS_HELD_MAX),                \
      NM_PY_COLUMN("egress_limit", REAL, type, egress_limit),                  \
      NM_PY_COLUMN_IN("gravity", I32, type, gravity, INT32_MIN, INT32_MAX),    \
      NM_PY_COLUMN("recursive_prs", BOOL, type, recursive_prs),                \
      NM_PY_COLUMN("announces_from_internal", BOOL, type,                      \
                   announces_from_internal),                                   \
      NM_PY_COLUMN("announces_to_internal", TRISTATE, type,                    \
                   announces_to_internal)

#define NM_PY_INGRESS(type, field, kind, max)                                  \
  NM_PY_COLUMN_IN("ingress_" #field, kind, type, ingress.field, 0, max)

/* Puts the options in the dict |options| into |spec|: the members of
 * nm_iface_spec by name but `name` and `ifac_set`; "ifac" is an Ifac or None.
 * 0, or -1 with an exception and |spec| in an undefined state. */
int nm_py_iface_spec_apply(nm_state *state, PyObject *options,
                           const char *function, nm_iface_spec *spec);

/* A new dict with all of |spec|, or NULL. */
PyObject *nm_py_iface_spec_dict(nm_state *state, const nm_iface_spec *spec);

/* A new dict with all of |counters|, or NULL; "drops" is a dict from the number
 * of a reason to its count, without those that never happened. */
PyObject *nm_py_iface_counters_dict(nm_state *state,
                                    const nm_iface_counters *counters);

/* The same for a bare array of counts by drop reason. */
PyObject *nm_py_drops_dict(const uint64_t drops[NM_DROP_COUNT]);

#endif
