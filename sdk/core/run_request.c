/* How a request runs on its comm if it does not simply run as it was started:
 *
 *   fused     a group's small allreduces as one, on packed memory
 *   joined    an allreduce that is begun again because some have joined, and
 *             the part of a joined rank in it, on neutral elements. These are
 *             made and freed piece by piece, since a rank that is busy with
 *             gigabytes at once seems stuck
 *
 * The engine's lock is held in all of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/core/engine_parts.h"
#include "sdk/transport/reduce.h"

#define PIECE ((uint64_t)2 << 20) /* of neutral bytes, made in one go */

struct rg__run {
    rg__coll coll; /* used instead of the request's */
    char *packed;  /* owned, like all pointers below */
    rg_req **fused;
    int n;           /* fused operations */
    bool stands_in;  /* for a rank that has joined */
    char *neutral;   /* mapped pages; NULL: none */
    uint64_t mapped; /* bytes of neutral */
    uint64_t made;   /* bytes filled so far */
    bool is_over;    /* the pages are given back */
};

static rg__run *make_run(rg_req *req)
{
    if (req->run == NULL)
        req->run = calloc(1, sizeof *req->run);
    if (req->run != NULL && !req->run->stands_in && req->run->fused == NULL)
        req->run->coll = req->coll;
    return req->run;
}

void rg__run_free(rg__run *run)
{
    if (run == NULL)
        return;
    if (run->mapped > 0)
        munmap(run->neutral, (size_t)run->mapped);
    free(run->packed);
    free(run->fused);
    free(run);
}

static rg_status fail_memory(void)
{
    return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
}

static uint64_t bytes_of(const rg__coll *o)
{
    return o->count * rg_type_size(o->type);
}

/* -------------------------------------------------------------------- fused */

/* Only the leader is in a queue, so it takes the earliest deadline of all. */
static void take_deadline(rg_req *leader, const rg_req *req)
{
    if (req->deadline_ns == 0 ||
        (leader->deadline_ns != 0 && leader->deadline_ns <= req->deadline_ns))
        return;
    leader->deadline_ns = req->deadline_ns;
    leader->timeout_ms = req->timeout_ms;
}

rg_status rg__run_fuse(rg_req *leader, rg_req *const *fused, int n)
{
    rg__run *run = make_run(leader);
    if (run == NULL)
        return fail_memory();
    run->fused = malloc((size_t)n * sizeof(rg_req *));
    if (run->fused == NULL)
        return fail_memory();
    memcpy(run->fused, fused, (size_t)n * sizeof(rg_req *));
    run->n = n;
    run->coll = leader->coll;
    run->coll.count = 0;
    for (int i = 0; i < n; i++) {
        run->coll.count += fused[i]->coll.count;
        fused[i]->leader = leader;
        take_deadline(leader, fused[i]);
    }
    return RG_OK;
}

void rg__run_set_tag(rg_req *req, uint64_t tag)
{
    req->coll.tag = tag;
    if (req->run != NULL)
        req->run->coll.tag = tag;
}

int rg__run_count_other(const rg_req *req)
{
    return req->run->fused == NULL ? 1 : req->run->n;
}

rg_req *rg__run_at(rg_req *req, int i)
{
    return req->run == NULL || req->run->fused == NULL ? req
                                                       : req->run->fused[i];
}

/* Between the packed memory and that of the fused operations. */
static void copy_each(const rg__run *run, bool is_result)
{
    char *at = run->packed;
    for (int i = 0; i < run->n; i++) {
        const rg__coll *o = &run->fused[i]->coll;
        if (o->count > 0)
            rg__copy(is_result ? o->recv : at, is_result ? at : o->send,
                     (size_t)bytes_of(o));
        at += bytes_of(o);
    }
}

/* ------------------------------------------------------------------- joined */

/* Neutral elements that are scaled are no longer neutral, unless they are 0. */
static bool can_stand_in(const rg__coll *joined)
{
    return joined->prescale == 0 || joined->op == RG_SUM ||
           joined->op == RG_AVG;
}

static rg_status refuse_scale(void)
{
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "while ranks of the set have joined, a prescale goes with "
                    "SUM and AVG only; scale the data before the allreduce");
}

/* A rank that has joined takes part in the others' allreduce, but adds nothing.
 */
static rg_status stand_in(rg_req *req, const rg__coll *joined)
{
    rg__run *run = make_run(req);
    if (run == NULL)
        return fail_memory();
    const uint64_t bytes = bytes_of(joined) + 1;
    void *pages = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return fail_memory();
    madvise(pages, (size_t)bytes, MADV_HUGEPAGE); /* where there are any */
    run->neutral = pages;
    run->mapped = bytes;
    run->coll = *joined;
    run->coll.tag = RG__JOINED_TAG;
    run->coll.send = run->coll.recv = pages;
    run->stands_in = true;
    return RG_IN_PROGRESS;
}

/* The rank has joined before, so it is not the last one. */
static rg_status join_again(rg_req *req)
{
    if (req->run != NULL)
        req->run->is_over = true;
    req->coll.count = 0;
    return RG_IN_PROGRESS;
}

static rg_status make_piece(rg__run *run)
{
    const uint64_t end = bytes_of(&run->coll);
    const uint64_t now = end - run->made < PIECE ? end - run->made : PIECE;
    rg__neutral(run->coll.type, run->coll.op, run->neutral + run->made,
                (size_t)now / rg_type_size(run->coll.type));
    run->made += now;
    return run->made < end ? RG_IN_PROGRESS : RG_OK;
}

static void give_piece_back(rg__run *run)
{
    const uint64_t left = run->mapped > PIECE ? run->mapped - PIECE : 0;
    const uint64_t rest = left / PIECE * PIECE; /* in whole pieces */
    munmap(run->neutral + rest, (size_t)(run->mapped - rest));
    run->mapped = rest;
}

rg_status rg__run_prepare_other(rg_req *req)
{
    rg__run *run = req->run;
    if (run->stands_in && !run->is_over)
        return make_piece(run);
    if (!run->is_over)
        return RG_OK;
    if (run->mapped > 0)
        give_piece_back(run);
    if (run->mapped > 0)
        return RG_IN_PROGRESS;
    rg__run_free(run);
    req->run = NULL;
    return RG_OK;
}

static rg_status after_join(rg_req *req, rg_status st, const rg__coll *joined)
{
    const bool has_stood_in = req->run != NULL && req->run->stands_in;
    if (st == RG__COLL_AGAIN && can_stand_in(joined))
        return stand_in(req, joined);
    if (st == RG__COLL_AGAIN || st == RG_ERR_MISMATCH ||
        (st == RG_OK && has_stood_in))
        return join_again(req);
    if (st == RG_OK && req->last_p != NULL)
        *req->last_p = joined->root;
    return st;
}

static rg_status begin_among_joined(rg_req *req)
{
    rg__run *run = make_run(req);
    if (!can_stand_in(&req->coll))
        return refuse_scale();
    if (run == NULL)
        return fail_memory();
    run->coll.tag = RG__JOINED_TAG;
    return RG_IN_PROGRESS;
}

/* ------------------------------------------------------------- in the whole */

const rg__coll *rg__run_begin_other(rg_req *req)
{
    rg__run *run = req->run;
    if (run->fused != NULL) {
        free(run->packed);
        run->packed = malloc((size_t)bytes_of(&run->coll) + 1);
        if (run->packed == NULL)
            return NULL;
        copy_each(run, false);
        run->coll.send = run->coll.recv = run->packed;
    }
    return &run->coll;
}

rg_status rg__run_end_other(rg_req *req, rg_status st, const rg__coll *joined)
{
    if (req->coll.kind == RG__JOIN)
        return after_join(req, st, joined);
    if (st == RG__COLL_AGAIN)
        return begin_among_joined(req);
    if (st == RG_OK && req->run != NULL && req->run->fused != NULL)
        copy_each(req->run, true);
    return st;
}
