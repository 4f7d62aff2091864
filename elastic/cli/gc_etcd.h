/* What dead jobs have left in etcd.
 *
 * A job lives while any of its keys is under a lease: those of its agents are.
 * One that has ended may go at once. Nobody knows how long a job without an end
 * has been dead: the first look notes the time in /regroup/gc/<job>, and a
 * later look that finds nothing changed removes the job when that was long
 * enough ago.
 *
 * Threads:   one.
 * Waiting:   ten seconds for each answer of etcd. */
#ifndef RG_ELASTIC_GC_ETCD_H
#define RG_ELASTIC_GC_ETCD_H

#include <stdbool.h>
#include <stdint.h>

#include "elastic/etcd/etcd.h"
#include "regroup/regroup.h"

typedef struct rg__gc_counts {
    int removed, kept;
} rg__gc_counts;

/* Look at every job there, and say on standard output what was removed and what
 * will be. is_dry: write nothing. ERR_STORE. */
rg_status rg__gc_etcd(const rg__etcd_params *params, uint64_t older_than_ms,
                      bool is_dry, rg__gc_counts *counts_p);

#endif
