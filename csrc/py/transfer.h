/* The second half of the lists of py/state.h: resources, channels, LXMF, stamps
 * and decisions. A name stands in one of the two halves only.
 */
#ifndef NM_PY_TRANSFER_H
#define NM_PY_TRANSFER_H

#define NM_PY_TRANSFER_TYPES(X)                                                \
  X(Advertisement)                                                             \
  X(PartRequest)                                                               \
  X(HashmapUpdate)                                                             \
  X(Segmenter)                                                                 \
  X(Assembler)                                                                 \
  X(Assembled)                                                                 \
  X(Envelope)                                                                  \
  X(StreamData)                                                                \
  X(Message)                                                                   \
  X(Propagated)                                                                \
  X(DeliveryAppData)                                                           \
  X(PropagationAppData)                                                        \
  X(Workblock)                                                                 \
  X(StampCancel)                                                               \
  X(Stamp)                                                                     \
  X(WindowProfile)

#define NM_PY_TRANSFER_PARTS(X)                                                \
  X(constants)                                                                 \
  X(advertisement)                                                             \
  X(part_request)                                                              \
  X(hashmap_update)                                                            \
  X(resource)                                                                  \
  X(segmenter)                                                                 \
  X(assembler)                                                                 \
  X(envelope)                                                                  \
  X(stream_data)                                                               \
  X(message)                                                                   \
  X(propagated)                                                                \
  X(lxmf)                                                                      \
  X(delivery_app_data)                                                         \
  X(propagation_app_data)                                                      \
  X(stamp)                                                                     \
  X(workblock)                                                                 \
  X(decisions)                                                                 \
  X(decide_paths)                                                              \
  X(decide_mail)                                                               \
  X(window_profile)

#define NM_PY_TRANSFER_STRINGS(X)                                              \
  X(active)                                                                    \
  X(address_type)                                                              \
  X(advertisement)                                                             \
  X(after_path_request)                                                        \
  X(announce_blob)                                                             \
  X(announce_hops)                                                             \
  X(attempts)                                                                  \
  X(attempts_max)                                                              \
  X(bitrate)                                                                   \
  X(cancel)                                                                    \
  X(channel_mdu)                                                               \
  X(compressed)                                                                \
  X(compression)                                                               \
  X(content)                                                                   \
  X(cost)                                                                      \
  X(data_bytes)                                                                \
  X(display_name)                                                              \
  X(encrypted)                                                                 \
  X(eof)                                                                       \
  X(existing_blobs)                                                            \
  X(existing_expired)                                                          \
  X(existing_gravity)                                                          \
  X(existing_hops)                                                             \
  X(fast_rounds)                                                               \
  X(fields)                                                                    \
  X(flexibility)                                                               \
  X(from_internal)                                                             \
  X(functionality)                                                             \
  X(gravity)                                                                   \
  X(group_id)                                                                  \
  X(has_metadata)                                                              \
  X(has_path)                                                                  \
  X(hash)                                                                      \
  X(hashes)                                                                    \
  X(hashmap)                                                                   \
  X(implementation)                                                            \
  X(initiator)                                                                 \
  X(is_response)                                                               \
  X(jitter)                                                                    \
  X(last_map_hash)                                                             \
  X(local)                                                                     \
  X(lxmf_data)                                                                 \
  X(material)                                                                  \
  X(messages_max)                                                              \
  X(metadata)                                                                  \
  X(msgtype)                                                                   \
  X(name)                                                                      \
  X(original_hash)                                                             \
  X(other_bitrate)                                                             \
  X(other_emitted)                                                             \
  X(other_gravity)                                                             \
  X(other_hops)                                                                \
  X(out_mode)                                                                  \
  X(packed)                                                                    \
  X(part)                                                                      \
  X(parts)                                                                     \
  X(peering_cost)                                                              \
  X(prefix)                                                                    \
  X(progress)                                                                  \
  X(random_hash)                                                               \
  X(recipient)                                                                 \
  X(recursive)                                                                 \
  X(request)                                                                   \
  X(request_id)                                                                \
  X(resource_hash)                                                             \
  X(response)                                                                  \
  X(rounds)                                                                    \
  X(scope)                                                                     \
  X(sdu)                                                                       \
  X(segment)                                                                   \
  X(segments)                                                                  \
  X(sent_on_path)                                                              \
  X(sequence)                                                                  \
  X(source)                                                                    \
  X(source_mode)                                                               \
  X(source_to_internal)                                                        \
  X(split)                                                                     \
  X(stamp)                                                                     \
  X(stamp_cost)                                                                \
  X(start)                                                                     \
  X(stream_id)                                                                 \
  X(sync_limit_kb)                                                             \
  X(ticket)                                                                    \
  X(tickets)                                                                   \
  X(time)                                                                      \
  X(timeout_s)                                                                 \
  X(timestamp)                                                                 \
  X(title)                                                                     \
  X(transfer_bytes)                                                            \
  X(transfer_limit_kb)                                                         \
  X(unresponsive)                                                              \
  X(verify)                                                                    \
  X(version)                                                                   \
  X(very_slow_rounds)                                                          \
  X(window)                                                                    \
  X(window_max)                                                                \
  X(window_min)

#endif
