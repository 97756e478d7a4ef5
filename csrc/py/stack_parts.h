/* The third part of the lists of py/state.h: the engine, the simulator and the
 * node. A name stands in one part only.
 */
#ifndef NM_PY_STACK_PARTS_H
#define NM_PY_STACK_PARTS_H

#define NM_PY_STACK_TYPES(X)                                                   \
  X(BlockOwner)                                                                \
  X(RawEvent)                                                                  \
  X(EngineCore)                                                                \
  X(ChannelCore)                                                               \
  X(SimCore)                                                                   \
  X(LoopCore)                                                                  \
  X(NodeCore)                                                                  \
  X(RawReply)                                                                  \
  X(MailStoreCore)                                                             \
  X(RawMail)

#define NM_PY_STACK_PARTS(X)                                                   \
  X(frozen)                                                                    \
  X(raw_event)                                                                 \
  X(engine_codes)                                                              \
  X(engine)                                                                    \
  X(channel)                                                                   \
  X(sim)                                                                       \
  X(loop)                                                                      \
  X(node)                                                                      \
  X(node_codes)                                                                \
  X(node_reply)                                                                \
  X(mail_store)                                                                \
  X(raw_mail)

#endif
