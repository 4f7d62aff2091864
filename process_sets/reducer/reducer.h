/* A reducer's tensors and the buckets that they are put in.
 *
 * Threads: `lock` guards what rg_reducer_ready changes; the rest belongs to the
 * thread that begins and ends steps. */
#ifndef RG_REDUCER_REDUCER_H
#define RG_REDUCER_REDUCER_H

#include <pthread.h>
#include <stdbool.h>

#include "process_sets/sets_parts.h"

#define RG__TENSOR_NAME_MAX 64

typedef struct rg__tensor {
    char name[RG__TENSOR_NAME_MAX];
    char *data;    /* the caller's, or in its bucket */
    bool is_view;  /* the latter */
    bool is_ready; /* in this step */
    uint64_t count;
    rg_type type;
    int bucket;
    char *slot; /* in the bucket; data itself where nothing is copied */
} rg__tensor;

typedef struct rg__bucket {
    char *at;
    uint64_t count; /* elements, gaps included */
    rg_type type;
    int *tensor;  /* indexes; owned */
    uint64_t tag; /* which tensors these are */
    int n;
    int missing; /* tensors that are not ready */
    rg_req *req;
} rg__bucket;

struct rg_reducer {
    rg_set *set;
    rg_reducer_params params;
    rg__tensor *tensor; /* owned, as what follows */
    int n, room;
    bool is_laid_out; /* tensors have their buckets */
    bool has_views;
    char *memory; /* of all buckets, from rg_alloc; NULL: none */
    uint64_t memory_bytes;
    rg__bucket *bucket; /* in the order in which they start */
    int buckets;

    pthread_mutex_t lock;
    bool is_in_step;
    uint64_t generation; /* of the last step; 0: there was none */
    bool is_compared;    /* the lists of all ranks, in that generation */
    int next;            /* bucket to be started */
    rg_status st;        /* of the first start that failed */
    char why[RG__TEXT_MAX];
    int *order, *former; /* tensors as they became ready, now and before */
    int ordered;
    bool has_plan; /* of this generation */
    int *plan;     /* the order that buckets were made from */
    int others;    /* steps in a row with another order, the same one */
    rg_reducer_info info;
};

/* buckets.c: put tensors into buckets, in that order of tensors. */
rg_status rg__reducer_lay_out(rg_reducer *r, const int *order);
void rg__reducer_free_buckets(rg_reducer *r);
void rg__reducer_free_memory(rg_reducer *r);

/* agreed.c; collective over the set. Do all ranks have equal tensors? Those
 * that have joined are not asked: *are_all_p. */
uint64_t rg__reducer_digest(const rg__tensor *t);
rg_status rg__reducer_compare(rg_reducer *r, bool *are_all_p);
/* The end of a step: `missing` (-1: none) is this rank's first tensor that was
 * not ready, wants_plan is rank 0's. *plan_p: a new plan is to be made, and no
 * rank is absent. */
#define RG__VERDICT_SUMS 3
typedef struct rg__reducer_verdict {
    int64_t sum[RG__VERDICT_SUMS];
    int missing;
    rg_req *req;
} rg__reducer_verdict;
rg_status rg__reducer_verdict_start(rg_reducer *r, int missing, bool wants_plan,
                                    rg__reducer_verdict *v);
rg_status rg__reducer_verdict_wait(rg_reducer *r, rg__reducer_verdict *v,
                                   bool *plan_p);
/* Rank 0's order of this step, in r->order on all ranks. */
rg_status rg__reducer_share_order(rg_reducer *r);

#endif
