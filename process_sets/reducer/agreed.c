/* What the ranks of a reducer agree on, all of it by allreduces, which a rank
 * that has joined takes part in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_sets/reducer/reducer.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"
#include "sdk/transport/names.h"

#define LINE_MAX  112
#define RANK_BITS 20

enum { RANKS, MISSING, WANTS_PLAN, SPENT }; /* what the verdict adds up */

rg_status rg__agree_made(rg_set *set, rg_status mine, const char *what,
                         uint64_t tag, int *ranks_p)
{
    const rg_op_params params = {.size = sizeof params, .tag = tag};
    int64_t v[2] = {1, mine != RG_OK};
    char why[RG__TEXT_MAX];
    rg_req *req = NULL;
    snprintf(why, sizeof why, "%s", mine == RG_OK ? "" : rg_last_error());
    rg_status st =
        rg_allreduce_start(set, v, v, 2, RG_I64, RG_SUM, &params, &req);
    if (st == RG_OK)
        st = rg_wait(&req, -1);
    if (mine != RG_OK)
        return rg__fail(mine, "%s", why);
    if (st == RG_ERR_MISMATCH && tag != 0)
        return rg__fail(st, "ranks differ in the arguments of %s: %s", what,
                        rg_last_error());
    if (st != RG_OK)
        return st;
    if (v[1] > 0)
        return rg__fail(RG_ERR_MEMORY,
                        "%d of %d ranks have no memory for %s; their errors "
                        "say more",
                        (int)v[1], (int)v[0], what);
    if (ranks_p != NULL)
        *ranks_p = (int)v[0];
    return RG_OK;
}

/* ------------------------------------------------------------ equal tensors */

uint64_t rg__reducer_digest(const rg__tensor *t)
{
    uint64_t hash = rg__mix_bytes(RG__MIX_BEGIN, t->name, strlen(t->name));
    hash = rg__mix_bytes(hash, &t->count, sizeof t->count);
    const uint64_t kind =
        (uint64_t)t->wire << 8 | (uint64_t)t->type << 1 | t->is_view;
    hash = rg__mix_bytes(hash, &t->kept, sizeof t->kept);
    return rg__mix_bytes(hash, &kind, sizeof kind);
}

static uint64_t digest_of_all(const rg_reducer *r)
{
    const rg_reducer_params *p = &r->params;
    uint64_t hash = RG__MIX_BEGIN;
    for (int i = 0; i < r->n; i++) {
        const uint64_t one = rg__reducer_digest(&r->tensor[i]);
        hash = rg__mix_bytes(hash, &one, sizeof one);
    }
    hash = rg__mix_bytes(hash, &p->sum, sizeof p->sum);
    hash = rg__mix_bytes(hash, &p->may_miss, sizeof p->may_miss);
    hash = rg__mix_bytes(hash, &p->bucket_bytes, sizeof p->bucket_bytes);
    hash = rg__mix_bytes(hash, &p->own_bytes, sizeof p->own_bytes);
    hash = rg__mix_bytes(hash, &r->tuning.is_on, sizeof r->tuning.is_on);
    hash = rg__mix_bytes(hash, &p->deterministic, sizeof p->deterministic);
    hash = rg__mix_bytes(hash, &p->adasum, sizeof p->adasum);
    hash = rg__mix_bytes(hash, &p->error_feedback, sizeof p->error_feedback);
    return rg__mix_bytes(hash, &p->scale, sizeof p->scale);
}

static void describe(const rg_reducer *r, int i, char line[LINE_MAX])
{
    static const char *const way[] = {"", " as f16", " as bf16", " as top k"};
    if (i >= r->n)
        snprintf(line, LINE_MAX, "missing");
    else
        snprintf(line, LINE_MAX, "\"%s\", %llu of %s%s%s", r->tensor[i].name,
                 (unsigned long long)r->tensor[i].count,
                 rg__type_name(r->tensor[i].type), way[r->tensor[i].wire],
                 r->tensor[i].is_view ? ", in its bucket" : "");
}

/* Finds the first tensor that differs; `most` if none does. */
static rg_status find_difference(const rg_reducer *r, int most, int *first_p)
{
    uint64_t *all = calloc((size_t)most, 2 * sizeof *all);
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare tensors");
    for (int i = 0; i < most; i++) {
        all[2 * i] = i < r->n ? rg__reducer_digest(&r->tensor[i]) : 0;
        all[2 * i + 1] = ~all[2 * i];
    }
    const rg_status st =
        rg_allreduce(r->set, all, all, 2 * (uint64_t)most, RG_U64, RG_MAX);
    int i = 0;
    while (i < most && all[2 * i] == ~all[2 * i + 1])
        i++;
    *first_p = i;
    free(all);
    return st;
}

/* The first rank behind `from` that has not joined; n: there is none. */
static int find_line(const char *all, int n, int from)
{
    while (from < n && all[from * LINE_MAX] == '\0')
        from++;
    return from;
}

/* The sentence is the same on all ranks. Each has a line of its own, and those
 * of ranks that have joined stay empty. */
static rg_status fail_different(const rg_reducer *r, int first)
{
    const int n = rg_set_size(r->set);
    char *all = calloc((size_t)n, LINE_MAX);
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to compare tensors");
    describe(r, first, all + rg_set_rank(r->set) * LINE_MAX);
    rg_status st =
        rg_allreduce(r->set, all, all, (uint64_t)n * LINE_MAX, RG_U8, RG_BOR);
    const int one = find_line(all, n, 0);
    int other = find_line(all, n, one + 1);
    while (other < n &&
           strcmp(all + one * LINE_MAX, all + other * LINE_MAX) == 0)
        other = find_line(all, n, other + 1);
    if (st == RG_OK && other < n)
        st = rg__fail(RG_ERR_MISMATCH,
                      "the tensors of a reducer differ: tensor %d is %s on "
                      "rank %d and %s on rank %d; add the same tensors in the "
                      "same order on all ranks",
                      first, all + one * LINE_MAX, one, all + other * LINE_MAX,
                      other);
    else if (st == RG_OK)
        st = rg__fail(RG_ERR_MISMATCH,
                      "the parameters of a reducer differ between ranks; pass "
                      "equal rg_reducer_params on all of them");
    free(all);
    return st;
}

/* Two reducers with equal tensors stay apart: each has its own number. */
rg_status rg__reducer_compare(rg_reducer *r)
{
    uint64_t v[4] = {digest_of_all(r), 0, (uint64_t)r->n,
                     r->set->reducers_seen + 1};
    v[1] = ~v[0];
    rg_status st = rg_allreduce(r->set, v, v, 4, RG_U64, RG_MAX);
    if (st != RG_OK)
        return st;
    r->id = r->set->reducers_seen = v[3];
    if (v[0] == ~v[1])
        return RG_OK;
    int first = 0;
    st = find_difference(r, (int)v[2], &first);
    return st == RG_OK ? fail_different(r, first) : st;
}

/* ------------------------------------------------------------------ a step */

rg_status rg__reducer_verdict_start(rg_reducer *r, int missing, bool wants_plan,
                                    rg__reducer_verdict *v)
{
    const bool is_first = rg_set_rank(r->set) == 0;
    v->missing = missing;
    v->sum[RANKS] = 1;
    v->sum[MISSING] = missing >= 0;
    v->sum[WANTS_PLAN] = is_first && wants_plan;
    v->sum[SPENT] = r->spent_ns;
    v->req = NULL;
    return rg_allreduce_start(r->set, v->sum, v->sum, RG__VERDICT_SUMS, RG_I64,
                              RG_SUM, NULL, &v->req);
}

/* Collective. Names the last of these tensors, and a rank that lacked it. */
static rg_status fail_missing(const rg_reducer *r, int missing)
{
    const int64_t rank = rg_set_rank(r->set);
    int64_t last = missing < 0 ? 0 : (int64_t)(missing + 1) << RANK_BITS | rank;
    const rg_status st = rg_allreduce(r->set, &last, &last, 1, RG_I64, RG_MAX);
    const int64_t i = (last >> RANK_BITS) - 1;
    if (st != RG_OK)
        return st;
    return rg__fail(RG_ERR_INVALID,
                    "tensor %d (\"%s\") was not ready on rank %d when it ended "
                    "the step; call rg_reducer_ready for each, or set may_miss",
                    (int)i, i < 0 || i >= r->n ? "?" : r->tensor[i].name,
                    (int)(last & ((1 << RANK_BITS) - 1)));
}

rg_status rg__reducer_verdict_wait(rg_reducer *r, rg__reducer_verdict *v,
                                   bool *plan_p)
{
    const rg_status st = rg_wait(&v->req, -1);
    if (st != RG_OK)
        return st;
    *plan_p = v->sum[WANTS_PLAN] == 1 && v->sum[RANKS] == rg_set_size(r->set);
    return v->sum[MISSING] == 0 ? RG_OK : fail_missing(r, v->missing);
}

int64_t rg__reducer_spent(const rg_reducer *r, const rg__reducer_verdict *v)
{
    return v->sum[RANKS] == rg_set_size(r->set) ? v->sum[SPENT] : -1;
}

rg_status rg__reducer_share_order(rg_reducer *r)
{
    if (rg_set_rank(r->set) != 0)
        memset(r->order, 0, (size_t)r->n * sizeof *r->order);
    return rg_allreduce(r->set, r->order, r->order, (uint64_t)r->n, RG_I32,
                        RG_SUM);
}
