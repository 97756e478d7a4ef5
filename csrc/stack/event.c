#include "stack/event.h"

#include <string.h>

bool nm_event_is_lossy(nm_event_kind kind) {
  return kind <= NM_EVENT_PATH || kind == NM_EVENT_STREAM_MADE;
}

const char *nm_event_name(nm_event_kind kind) {
  static const char *const names[] = {
      [NM_EVENT_ANNOUNCE] = "ANNOUNCE",
      [NM_EVENT_PROGRESS] = "PROGRESS",
      [NM_EVENT_IFACE] = "IFACE",
      [NM_EVENT_PATH] = "PATH",
      [NM_EVENT_PACKET] = "PACKET",
      [NM_EVENT_LINK_PACKET] = "LINK_PACKET",
      [NM_EVENT_LINK_ACTIVE] = "LINK_ACTIVE",
      [NM_EVENT_LINK_IDENTIFIED] = "LINK_IDENTIFIED",
      [NM_EVENT_REQUEST] = "REQUEST",
      [NM_EVENT_RESOURCE_OFFER] = "RESOURCE_OFFER",
      [NM_EVENT_RESOURCE_IN] = "RESOURCE_IN",
      [NM_EVENT_CHANNEL_DATA] = "CHANNEL_DATA",
      [NM_EVENT_STREAM_DATA] = "STREAM_DATA",
      [NM_EVENT_LINK_CLOSED] = "LINK_CLOSED",
      [NM_EVENT_RECEIPT] = "RECEIPT",
      [NM_EVENT_ANNOUNCED] = "ANNOUNCED",
      [NM_EVENT_PATH_RESULT] = "PATH_RESULT",
      [NM_EVENT_RESPONSE] = "RESPONSE",
      [NM_EVENT_RESOURCE_OUT] = "RESOURCE_OUT",
      [NM_EVENT_RESOURCE_IN_FAILED] = "RESOURCE_IN_FAILED",
      [NM_EVENT_CHANNEL_SENT] = "CHANNEL_SENT",
      [NM_EVENT_STREAM_SENT] = "STREAM_SENT",
      [NM_EVENT_CHANNEL_READY] = "CHANNEL_READY",
      [NM_EVENT_STREAM_MADE] = "STREAM_MADE",
  };
  size_t count = sizeof(names) / sizeof(names[0]);
  return (size_t)kind < count ? names[kind] : "UNKNOWN";
}

void nm_event_dispose(nm_event *event) {
  nm_block_drop(event->data);
  nm_block_drop(event->metadata);
  nm_block_drop(event->public_key);
  memset(event, 0, sizeof(*event));
}
