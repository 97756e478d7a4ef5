/* Field maps and the ticket field. */
#include "wire/lxmf_fields.h"

/* Whether a map key equals |key|; 1, 1.0 and true are one key (LXMF 1). */
static bool is_key(const nm_mp_item *item, uint64_t key) {
  switch (item->type) {
  case NM_MP_UINT:
    return item->uint == key;
  case NM_MP_FLOAT:
    return item->real == (double)key;
  case NM_MP_BOOL:
    return key == (item->boolean ? 1 : 0);
  default:
    return false;
  }
}

int nm_lxmf_field_find(nm_span fields, uint64_t key, nm_span *value) {
  if (fields.len == 0) {
    return NM_E(MISSING);
  }
  nm_reader r = nm_reader_of(fields);
  nm_mp_item map;
  int status = nm_mp_read(&r, &map);
  if (status == NM_OK && map.type != NM_MP_MAP) {
    status = NM_E(TYPE);
  }
  for (uint32_t left = map.count; status == NM_OK && left > 0; left--) {
    nm_reader head = r;
    nm_mp_item item;
    status = nm_mp_read(&head, &item);
    if (status == NM_OK) {
      status = nm_mp_skip(&r, NULL);
    }
    size_t start = r.pos;
    if (status == NM_OK) {
      status = nm_mp_skip(&r, NULL);
    }
    if (status == NM_OK && is_key(&item, key)) {
      *value = nm_span_slice(fields, start, r.pos - start);
      return NM_OK;
    }
  }
  return status == NM_OK ? NM_E(MISSING) : status;
}

int nm_lxmf_ticket_decode(nm_span value, nm_lxmf_ticket *ticket,
                          nm_fault *fault) {
  nm_reader r = nm_reader_of(value);
  nm_mp_item item;
  int status = nm_mp_read(&r, &item);
  if (status == NM_OK && item.type != NM_MP_ARRAY) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && item.count < 2) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "ticket", 0);
  }
  status = nm_mp_read_number(&r, &ticket->expires);
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "ticket.expires", r.pos);
  }
  size_t at = r.pos;
  status = nm_mp_read(&r, &item);
  if (status == NM_OK && item.type != NM_MP_BIN) {
    status = NM_E(TYPE);
  } else if (status == NM_OK && item.data.len != NM_LXMF_TICKET_SIZE) {
    status = NM_E(LENGTH);
  }
  if (status != NM_OK) {
    return nm_fault_set(fault, status, "ticket.ticket", at);
  }
  memcpy(ticket->ticket, item.data.ptr, NM_LXMF_TICKET_SIZE);
  return NM_OK;
}

int nm_lxmf_ticket_encode(const nm_lxmf_ticket *ticket, nm_writer *w) {
  nm_mp_array(w, 2);
  nm_mp_float(w, ticket->expires);
  nm_mp_bin(w, nm_span_of(ticket->ticket, sizeof ticket->ticket));
  return w->status;
}

nm_lxmf_ticket_choice nm_lxmf_ticket_choose(double now,
                                            const double *existing_expires,
                                            const double *last_delivery) {
  if (last_delivery != NULL &&
      now - *last_delivery < NM_LXMF_TICKET_INTERVAL_S) {
    return NM_LXMF_TICKET_WITHHOLD;
  }
  if (existing_expires != NULL &&
      *existing_expires - now > NM_LXMF_TICKET_RENEW_S) {
    return NM_LXMF_TICKET_REUSE;
  }
  return NM_LXMF_TICKET_NEW;
}
