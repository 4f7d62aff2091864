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
    char *data;    /* the caller's, or in its bucket, or own */
    char *own;     /* a compressed tensor without memory of the caller */
    bool is_view;  /* the caller has no memory for it */
    bool is_ready; /* in this step */
    uint64_t count;
    rg_type type;
    rg_compression wire; /* NONE: as it is */
    uint64_t kept;       /* TOP_K: elements that travel */
    void *residual;      /* what has not travelled yet; owned; NULL: nothing */
    int bucket;
    char *slot; /* in the bucket; data itself where nothing is copied */
} rg__tensor;

typedef struct rg__bucket {
    char *at;
    uint64_t bytes; /* of this rank, gaps included */
    uint64_t count; /* elements of the allreduce */
    rg_type type;
    rg_compression wire;
    int *tensor;  /* indexes, in r->placed */
    uint64_t tag; /* which tensors these are */
    int n;
    int missing; /* tensors that are not ready */
    rg_req *req;
    bool is_started, is_copied;
} rg__bucket;

typedef struct rg__vector {
    void *data;
    uint64_t count;
    rg_type type;
} rg__vector;

typedef struct rg__tuning {
    bool is_on;   /* for this reducer */
    bool is_over; /* `now` is kept */
    int nth, looks;
    int64_t least_ns, best_ns; /* of all ranks together */
    uint64_t now, best;        /* bytes of a bucket */
} rg__tuning;

struct rg_reducer {
    rg_set *set;
    rg_reducer_params params;
    rg__tensor *tensor; /* owned, as what follows */
    int n;
    bool is_laid_out; /* tensors that live in buckets have their places */
    char *views;      /* memory of those, from rg_alloc; NULL: none */
    char *copies;     /* of all other buckets, likewise */
    uint64_t copies_bytes;
    rg__bucket *bucket; /* in the order in which they start */
    int buckets;
    int *placed; /* the tensors of the buckets */

    pthread_mutex_t lock;
    pthread_cond_t quiet; /* the last of `putting` has ended */
    int putting;          /* calls of rg_reducer_ready that copy */
    bool is_in_step;
    uint64_t generation; /* of the last step; 0: there was none */
    bool is_compared;    /* the lists of all ranks, in that generation */
    uint64_t id;         /* of the set's reducers, equal on all ranks */
    int next;            /* bucket to be started */
    int64_t ready_ns;    /* in rg_reducer_ready, in this step */
    int64_t spent_ns;    /* there and in rg_reducer_finish, in the last one */
    rg__tuning tuning;
    rg_status st; /* of the first start that failed */
    char why[RG__TEXT_MAX];
    int *order, *former; /* tensors as they became ready, now and before */
    int ordered;
    rg__vector *vector; /* the tensors, for Adasum */
    bool has_plan;      /* of this generation */
    int *plan;          /* the order that buckets were made from */
    int others;         /* steps in a row with another order, the same one */
    rg_reducer_info info;
};

/* buckets.c: give tensors that live in buckets their places, for good; and put
 * all tensors into buckets, in that order of tensors. */
rg_status rg__reducer_place_views(rg_reducer *r);
rg_status rg__reducer_lay_out(rg_reducer *r, const int *order);
void rg__reducer_free_buckets(rg_reducer *r);

/* compression.c: what a tensor is in its bucket. */
rg_status rg__reducer_check(const rg_reducer_params *params);
/* Say how a tensor travels; its residual is made with its first bucket. */
void rg__tensor_choose(const rg_reducer *r, rg__tensor *t,
                       rg_compression compression);
rg_status rg__tensor_prepare(const rg_reducer *r, rg__tensor *t);
void rg__tensor_free(rg__tensor *t);
/* In a new generation nothing is left of former steps. */
void rg__tensor_forget(rg__tensor *t);
uint64_t rg__tensor_bytes(const rg__tensor *t);
/* An allreduce of a whole bucket, and where each tensor begins in it. */
rg_type rg__bucket_type(const rg__bucket *b);
/* From data to the slot; and what the ranks sent, back. */
void rg__tensor_put(rg__tensor *t);
rg_status rg__tensor_get(const rg_reducer *r, const rg__bucket *b,
                         const rg__tensor *t);

/* adasum.c: each vector in place; collective. A scale of 0 is 1. */
rg_status rg__adasum(rg_set *set, rg__vector *vector, int n, double scale);

/* tuning.c: for a new reducer; after a step, true: there is another way now;
 * collective, in the first plan of a generation. */
void rg__tuning_create(rg_reducer *r);
bool rg__tuning_look(rg_reducer *r, int64_t ns);
rg_status rg__tuning_share(rg_reducer *r);

/* agreed.c; collective over the set. What each rank had to make by itself, such
 * as memory for `what`, is there on all of them (*ranks_p, those that have
 * joined are not asked; may be NULL), or the call fails on all of them. A tag
 * other than 0 stands for what ranks must give alike. */
rg_status rg__agree_made(rg_set *set, rg_status mine, const char *what,
                         uint64_t tag, int *ranks_p);
/* Do all ranks have equal tensors? Those that have joined are not asked. */
uint64_t rg__reducer_digest(const rg__tensor *t);
rg_status rg__reducer_compare(rg_reducer *r);
/* The end of a step: `missing` (-1: none) is this rank's first tensor that was
 * not ready, wants_plan is rank 0's. *plan_p: a new plan is to be made, and no
 * rank is absent. */
#define RG__VERDICT_SUMS 4
typedef struct rg__reducer_verdict {
    int64_t sum[RG__VERDICT_SUMS];
    int missing;
    rg_req *req;
} rg__reducer_verdict;
rg_status rg__reducer_verdict_start(rg_reducer *r, int missing, bool wants_plan,
                                    rg__reducer_verdict *v);
rg_status rg__reducer_verdict_wait(rg_reducer *r, rg__reducer_verdict *v,
                                   bool *plan_p);
/* What all ranks spent in the step before; -1: a rank was absent. */
int64_t rg__reducer_spent(const rg_reducer *r, const rg__reducer_verdict *v);
/* Rank 0's order of this step, in r->order on all ranks. */
rg_status rg__reducer_share_order(rg_reducer *r);

#endif
