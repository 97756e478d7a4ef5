#include "stack/jobs.h"

#include <string.h>

nm_block *nm_identity_block(const nm_mem *mem, const nm_identity *identity) {
  nm_block *block = nm_block_copy(mem, nm_span_of(identity, sizeof(*identity)));
  if (block != NULL) {
    nm_block_mark_secret(block);
  }
  return block;
}

const nm_identity *nm_identity_in(const nm_block *block) {
  return (const nm_identity *)(const void *)nm_block_span(block).ptr;
}

/* Microseconds on a 2023 server core; only a driver's choice depends on it. */
static const uint32_t costs_us[] = {
    [NM_JOB_VERIFY_ANNOUNCE] = 40,
    [NM_JOB_SIGN_ANNOUNCE] = 15,
    [NM_JOB_PROVE] = 15,
    [NM_JOB_VERIFY_PROOF] = 40,
    [NM_JOB_OPEN_PACKET] = 35,
    [NM_JOB_SEAL_PACKET] = 50,
    [NM_JOB_LINK_KEYS] = 30,
    [NM_JOB_LINK_ACCEPT] = 65,
    [NM_JOB_LINK_CONFIRM] = 75,
    [NM_JOB_LINK_IDENTIFY] = 40,
    [NM_JOB_LINK_SIGN_ID] = 15,
    [NM_JOB_RESOURCE_SEAL] = 100,
    [NM_JOB_RESOURCE_OPEN] = 100,
    [NM_JOB_STORE] = 5000,
    [NM_JOB_STREAM_PACK] = 3000,
    [NM_JOB_STREAM_OPEN] = 500,
    [NM_JOB_VERIFY_LINK_PROOF] = 40,
    [NM_JOB_VERIFY_TUNNEL] = 40,
    [NM_JOB_SINK_FINISH] = 20000,
    [NM_JOB_SINK_CHECK] = 20000,
    [NM_JOB_SOURCE_CHECK] = 1000,
};

#define SIZE_OF(member)                                                        \
  (offsetof(nm_job, u) + sizeof(((const nm_job *)NULL)->u.member))

static const size_t sizes[] = {
    [NM_JOB_VERIFY_ANNOUNCE] = SIZE_OF(verify_announce),
    [NM_JOB_SIGN_ANNOUNCE] = SIZE_OF(sign_announce),
    [NM_JOB_PROVE] = SIZE_OF(prove),
    [NM_JOB_VERIFY_PROOF] = SIZE_OF(verify_proof),
    [NM_JOB_OPEN_PACKET] = SIZE_OF(open_packet),
    [NM_JOB_SEAL_PACKET] = SIZE_OF(seal_packet),
    [NM_JOB_LINK_KEYS] = SIZE_OF(link_keys),
    [NM_JOB_LINK_ACCEPT] = SIZE_OF(link_accept),
    [NM_JOB_LINK_CONFIRM] = SIZE_OF(link_confirm),
    [NM_JOB_LINK_IDENTIFY] = SIZE_OF(link_identify),
    [NM_JOB_LINK_SIGN_ID] = SIZE_OF(link_sign_id),
    [NM_JOB_RESOURCE_SEAL] = SIZE_OF(resource_seal),
    [NM_JOB_RESOURCE_OPEN] = SIZE_OF(resource_open),
    [NM_JOB_STORE] = SIZE_OF(store),
    [NM_JOB_STREAM_PACK] = SIZE_OF(stream_pack),
    [NM_JOB_STREAM_OPEN] = SIZE_OF(stream_open),
    [NM_JOB_VERIFY_LINK_PROOF] = SIZE_OF(link_confirm),
    [NM_JOB_VERIFY_TUNNEL] = SIZE_OF(verify_tunnel),
    [NM_JOB_SINK_FINISH] = SIZE_OF(sink_finish),
    [NM_JOB_SINK_CHECK] = SIZE_OF(sink_check),
    [NM_JOB_SOURCE_CHECK] = SIZE_OF(source_check),
};
_Static_assert(sizeof(sizes) / sizeof(sizes[0]) ==
                   sizeof(costs_us) / sizeof(costs_us[0]),
               "every kind has a size and a cost");

void nm_jobs_init(nm_jobs *jobs, const nm_mem *mem, uint32_t max) {
  memset(jobs, 0, sizeof(*jobs));
  jobs->mem = mem;
  jobs->max = max;
  jobs->next_id = 1;
}

static void free_list(nm_job *job) {
  while (job != NULL) {
    nm_job *next = job->next;
    nm_event_node_free(job->mem, job->node);
    nm_job_free(job);
    job = next;
  }
}

void nm_jobs_dispose(nm_jobs *jobs) {
  free_list(jobs->first);
  free_list(jobs->taken);
  memset(jobs, 0, sizeof(*jobs));
}

nm_job *nm_job_new(nm_jobs *jobs, nm_job_kind kind) {
  nm_job *job = nm_alloc_zero(jobs->mem, 1, sizes[kind]);
  if (job == NULL) {
    return NULL;
  }
  job->mem = jobs->mem;
  job->id = jobs->next_id++;
  job->kind = kind;
  job->cost_us = costs_us[kind];
  return job;
}

static void drop_seal(nm_job_resource_seal *j) {
  nm_block_drop(j->content);
  nm_source_drop(j->source);
  nm_block_drop(j->metadata);
  nm_block_drop(j->stream);
  nm_block_drop(j->hashmap);
}

static void drop_open(nm_job_resource_open *j) {
  nm_resource_join_dispose(&j->join);
  nm_block_drop(j->gathered);
  nm_sink_drop(j->sink);
  nm_block_drop(j->data);
  nm_block_drop(j->metadata);
}

static void drop_finish(nm_job_sink_finish *j) {
  nm_sink_drop(j->sink);
  nm_block_drop(j->metadata);
  nm_block_drop(j->place);
}

static void drop_source_check(nm_job_source_check *j) {
  nm_block_drop(j->content);
  nm_source_drop(j->source);
}

static void drop_blocks(nm_job *job) {
  switch (job->kind) {
  case NM_JOB_VERIFY_ANNOUNCE:
    nm_block_drop(job->u.verify_announce.raw);
    break;
  case NM_JOB_SIGN_ANNOUNCE:
    nm_block_drop(job->u.sign_announce.identity);
    nm_block_drop(job->u.sign_announce.app_data);
    nm_block_drop(job->u.sign_announce.raw);
    break;
  case NM_JOB_PROVE:
    nm_block_drop(job->u.prove.identity);
    nm_block_drop(job->u.prove.raw);
    break;
  case NM_JOB_OPEN_PACKET:
    nm_block_drop(job->u.open_packet.identity);
    nm_block_drop(job->u.open_packet.ratchets);
    nm_block_drop(job->u.open_packet.raw);
    nm_block_drop(job->u.open_packet.plaintext);
    break;
  case NM_JOB_SEAL_PACKET:
    nm_block_drop(job->u.seal_packet.plaintext);
    nm_block_drop(job->u.seal_packet.raw);
    break;
  case NM_JOB_LINK_ACCEPT:
    nm_block_drop(job->u.link_accept.identity);
    nm_block_drop(job->u.link_accept.proof);
    break;
  case NM_JOB_LINK_CONFIRM:
  case NM_JOB_VERIFY_LINK_PROOF:
    nm_block_drop(job->u.link_confirm.proof);
    break;
  case NM_JOB_LINK_SIGN_ID:
    nm_block_drop(job->u.link_sign_id.identity);
    break;
  case NM_JOB_RESOURCE_SEAL:
    drop_seal(&job->u.resource_seal);
    break;
  case NM_JOB_RESOURCE_OPEN:
    drop_open(&job->u.resource_open);
    break;
  case NM_JOB_SINK_FINISH:
    drop_finish(&job->u.sink_finish);
    break;
  case NM_JOB_SINK_CHECK:
    nm_sink_drop(job->u.sink_check.sink);
    break;
  case NM_JOB_SOURCE_CHECK:
    drop_source_check(&job->u.source_check);
    break;
  case NM_JOB_STORE:
    nm_block_drop(job->u.store.bytes);
    break;
  case NM_JOB_STREAM_PACK:
    nm_block_drop(job->u.stream_pack.content);
    nm_block_drop(job->u.stream_pack.message);
    break;
  case NM_JOB_STREAM_OPEN:
    nm_block_drop(job->u.stream_open.plain);
    nm_block_drop(job->u.stream_open.data);
    break;
  case NM_JOB_VERIFY_PROOF:
    nm_block_drop(job->u.verify_proof.raw);
    break;
  case NM_JOB_LINK_KEYS:
  case NM_JOB_LINK_IDENTIFY:
  case NM_JOB_VERIFY_TUNNEL:
    break;
  }
}

void nm_job_free(nm_job *job) {
  drop_blocks(job);
  const nm_mem *mem = job->mem;
  nm_wipe(job, sizes[job->kind]);
  nm_release(mem, job);
}

void nm_jobs_push(nm_jobs *jobs, nm_job *job) {
  job->next = NULL;
  if (jobs->last != NULL) {
    jobs->last->next = job;
  } else {
    jobs->first = job;
  }
  jobs->last = job;
  jobs->outstanding++;
  jobs->emitted++;
}

nm_job *nm_jobs_take(nm_jobs *jobs) {
  nm_job *job = jobs->first;
  if (job == NULL) {
    return NULL;
  }
  jobs->first = job->next;
  if (jobs->first == NULL) {
    jobs->last = NULL;
  }
  job->taken = true;
  job->next = jobs->taken;
  jobs->taken = job;
  return job;
}

void nm_jobs_return(nm_jobs *jobs, nm_job *job) {
  nm_job **at = &jobs->taken;
  while (*at != job) {
    at = &(*at)->next;
  }
  *at = job->next;
  job->next = NULL;
  job->taken = false;
  jobs->outstanding--;
}

nm_job_id nm_job_id_of(const nm_job *job) {
  return job->id;
}

nm_job_kind nm_job_kind_of(const nm_job *job) {
  return job->kind;
}

uint32_t nm_job_cost_us(const nm_job *job) {
  return job->cost_us;
}

nm_iface_id nm_job_origin(const nm_job *job) {
  return job->origin;
}

const char *nm_job_store_name(const nm_job *job) {
  return job->u.store.name;
}

nm_span nm_job_store_bytes(const nm_job *job) {
  return nm_block_span(job->u.store.bytes);
}

void nm_job_store_result(nm_job *job, bool ok) {
  job->status = ok ? NM_OK : NM_E(LIBRARY);
}
