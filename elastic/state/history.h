/* What one worker process did, for the checker of tests/checker: JSON lines,
 * one write() each, in DIR/<host>.<slot>.<start>.jsonl. Every line has
 *
 *   t_ns        CLOCK_MONOTONIC
 *   host        name of the host         worker  <host>.<slot>, as "h1.2"
 *   pid         of the process
 *   generation, rank, size               of the worker when it wrote
 *   event       load join step commit stored restore sync leave decide
 *   step        steps ended on the lineage
 *   hash        16 hex digits, XXH3_64 of replicated memory; or null
 *
 * `stored` replaces `commit` if shards are copied to other hosts: the commit of
 * that step can no longer be lost; it comes some steps later.
 *
 * and besides, `step` lines "samples":[epoch,first,count], the positions of the
 * epoch that this rank took (count may be 0), where a sampler noted them;
 * `decide` lines "job":"its id in etcd, another for each job", "resume":
 * [generation,step] or null, and "sets":{name:[ranks]}.
 *
 * Threads:   any, one line is one write to a file opened with O_APPEND.
 * Ownership: texts are borrowed for the call. With a history of NULL every call
 * does nothing. */
#ifndef RG_ELASTIC_HISTORY_H
#define RG_ELASTIC_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "regroup/regroup.h"
#include "sdk/base/hash.h"
#include "sdk/base/page.h"

typedef struct rg__history rg__history;

typedef struct rg__history_samples {
    uint64_t epoch, first, count;
} rg__history_samples;

typedef struct rg__history_set {
    const char *name;
    const int *ranks; /* in the world of the decide line's generation */
    int count;
} rg__history_set;

/* Start the history of a process; dir "" or NULL keeps none, *h_p is NULL.
 * *start_p: the number in the file's name; a new file takes the next free
 * number from there on, else the existing file is continued. ERR_SYSTEM: the
 * file can't be made. */
rg_status rg__history_open(const char *dir, const char *host, int slot,
                           uint32_t *start_p, bool is_new, rg__history **h_p);
void rg__history_close(rg__history *h);

/* hash NULL: none was computed. */
void rg__history_event(rg__history *h, const char *event, uint64_t generation,
                       int rank, int size, uint64_t step, const char *hash);

/* samples NULL: no sampler noted any. */
void rg__history_step(rg__history *h, uint64_t generation, int rank, int size,
                      uint64_t step, const char *hash,
                      const rg__history_samples *samples);

/* resume {0, 0}: the generation has no commit to go back to. */
void rg__history_decide(rg__history *h, const char *job, uint64_t generation,
                        int rank, int size, rg__commit_id resume,
                        const rg__history_set *sets, int set_count);

#endif
