/* A job's keys for tests of the leader's rules: hosts, generations and what
 * was published, put together call by call. */
#ifndef TESTS_MEMBER_JOB_H
#define TESTS_MEMBER_JOB_H

#include "elastic/member/plan.h"
#include "tests/check.h"

#define SECOND UINT64_C(1000000000)

typedef struct job {
    rg__snapshot snap;
    rg__plan_config config;
    rg__plan_clock clock;
    uint64_t now_ns;
    rg__plan plan; /* of the last look */
} job;

/* min, max; 30 s start timeout, 600 s elastic timeout, 20 ms last call. */
void job_begin(job *j, int min, int max);
/* The same, and a, b and c with a slot each, ids from 1. */
void job_of_three(job *j);
void job_end(job *j);

/* A host with that many slots, all alive and at the door with start 1. */
rg__host_record *job_host(job *j, const char *name, uint64_t id, int slots);
rg__slot_record *job_slot(job *j, uint64_t host, uint32_t slot);

/* The world of generation g: members "host.slot.start" by rank. */
void job_decided(job *j, uint64_t g, const rg__member_id *member, int n,
                 rg__commit_id resume);
void job_proposed(job *j, uint64_t g, const rg__member_id *member, int n,
                  bool is_announced);
void job_reason(job *j, uint64_t g, bool is_death, const char *text);
void job_ack(job *j, uint64_t g, const char *host, const rg__commit_id *held,
             int n);
/* The newest ack's first commit has shards, of which these lie there. */
void job_shards(job *j, uint32_t of, const uint32_t *here, int n);
/* Its lease has ended. */
void job_lose_record(job *j, uint64_t host);
void job_fin(job *j, uint64_t g, const char *host);

/* `by` does not hear `host`. */
void job_suspects(job *j, uint64_t by, uint64_t host);
/* Hosts to go on without once all suspicions count. */
int job_lost(const job *j, uint64_t *lost, int room);
/* A connection between two hosts broke in generation g. */
void job_link(job *j, uint64_t g, const char *by, const char *link);

/* One look of the leader; returns the plan's kind. */
rg__plan_kind job_look(job *j);

#endif
