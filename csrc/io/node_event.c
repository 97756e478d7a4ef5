/* What a reader is told: whether it holds credit, and how it is disposed of. */
#include "io/internal.h"

#include <string.h>

bool nm_event_holds_credit(const nm_event *event) {
  switch (event->kind) {
  case NM_EVENT_PACKET:
  case NM_EVENT_LINK_PACKET:
  case NM_EVENT_LINK_IDENTIFIED:
  case NM_EVENT_REQUEST:
  case NM_EVENT_RESOURCE_OFFER:
  case NM_EVENT_RESOURCE_IN:
  case NM_EVENT_CHANNEL_DATA:
  case NM_EVENT_STREAM_DATA:
    return true;
  case NM_EVENT_LINK_ACTIVE:
    return !event->initiator;
  default:
    return false;
  }
}

bool nm_node_event_holds_credit(const nm_node_event *event) {
  return event->kind == NM_NODE_MAIL    ? event->u.mail.holds_credit
         : event->kind == NM_NODE_EVENT ? nm_event_holds_credit(&event->u.event)
                                        : false;
}

void nm_node_event_dispose(nm_node_event *event) {
  switch (event->kind) {
  case NM_NODE_REPLY:
    nm_reply_dispose(&event->u.reply);
    break;
  case NM_NODE_EVENT:
    nm_event_dispose(&event->u.event);
    break;
  case NM_NODE_FRAME:
  case NM_NODE_TAP:
    nm_block_drop(event->u.frame.data);
    break;
  case NM_NODE_MAIL:
    nm_mail_dispose(&event->u.mail.mail);
    break;
  case NM_NODE_TROUBLE:
  case NM_NODE_PEER:
  case NM_NODE_CLOSED:
    break;
  }
  memset(event, 0, sizeof(*event));
}
