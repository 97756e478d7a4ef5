/* Method and representation from the size. */
#include "wire/lxmf_select.h"

static void choose(nm_lxmf_choice *choice, nm_lxmf_method method,
                   nm_lxmf_representation representation) {
  choice->method = method;
  choice->representation = representation;
}

int nm_lxmf_select(nm_lxmf_method desired, int64_t size,
                   nm_lxmf_choice *choice) {
  nm_lxmf_representation by_link = size <= NM_LXMF_LINK_PACKET_MAX_CONTENT
                                       ? NM_LXMF_PACKET
                                       : NM_LXMF_RESOURCE;
  switch (desired) {
  case NM_LXMF_OPPORTUNISTIC:
    if (size <= NM_LXMF_ENCRYPTED_PACKET_MAX_CONTENT) {
      choose(choice, NM_LXMF_OPPORTUNISTIC, NM_LXMF_PACKET);
      return NM_OK;
    }
    choose(choice, NM_LXMF_DIRECT, by_link);
    return NM_OK;
  case NM_LXMF_METHOD_UNKNOWN:
  case NM_LXMF_DIRECT:
    choose(choice, NM_LXMF_DIRECT, by_link);
    return NM_OK;
  case NM_LXMF_PROPAGATED:
    choose(choice, NM_LXMF_PROPAGATED, by_link);
    return NM_OK;
  case NM_LXMF_PAPER:
    if (size > NM_LXMF_PAPER_MDU) {
      return NM_E(TOO_LARGE);
    }
    choose(choice, NM_LXMF_PAPER, NM_LXMF_REPRESENTATION_PAPER);
    return NM_OK;
  default:
    return NM_E(ARGUMENT);
  }
}
