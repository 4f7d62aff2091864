/* Reducers: tensors are added, steps begin and end, and buckets start in the
 * same order on all ranks as soon as they are complete. */
#include "process_sets/reducer/reducer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/hash.h"
#include "sdk/base/log.h"
#include "sdk/base/params.h"
#include "sdk/transport/nccl/nccl.h"

#define OTHERS_MAX 8 /* steps in another order make it the plan */

/* -------------------------------------------------------------------- life */

rg_status rg_reducer_create(rg_set *set, const rg_reducer_params *params,
                            rg_reducer **reducer_p)
{
    rg_reducer_params p = {0};
    if (set == NULL || reducer_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_create needs a set and a place for the "
                        "reducer");
    rg_status st = rg__params_read("rg_reducer_params", params,
                                   RG__PARAMS_UP_TO(rg_reducer_params, scale),
                                   &p, sizeof p);
    if (st == RG_OK)
        st = rg__reducer_check(&p);
    if (st != RG_OK)
        return st;
    rg_reducer *r = calloc(1, sizeof *r);
    if (r == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a reducer");
    r->set = set;
    r->params = p;
    rg__tuning_create(r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->quiet, NULL);
    atomic_fetch_add(&set->reducers, 1);
    *reducer_p = r;
    return RG_OK;
}

/* From now on no tensor becomes ready, nor is any being copied. */
static void close_step(rg_reducer *r)
{
    pthread_mutex_lock(&r->lock);
    r->is_in_step = false;
    while (r->putting > 0)
        pthread_cond_wait(&r->quiet, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void wait_all(rg_reducer *r)
{
    for (int b = 0; b < r->buckets; b++)
        if (r->bucket[b].req != NULL)
            rg_wait(&r->bucket[b].req, -1);
}

void rg_reducer_destroy(rg_reducer *r)
{
    if (r == NULL)
        return;
    close_step(r);
    wait_all(r);
    rg__reducer_free_buckets(r);
    rg_free(r->set->ctx, r->views);
    rg_free(r->set->ctx, r->copies);
    for (int i = 0; i < r->n; i++)
        rg__tensor_free(&r->tensor[i]);
    atomic_fetch_sub(&r->set->reducers, 1);
    pthread_cond_destroy(&r->quiet);
    pthread_mutex_destroy(&r->lock);
    free(r->tensor);
    free(r->order);
    free(r->former);
    free(r->plan);
    free(r->vector);
    free(r);
}

rg_status rg_reducer_add(rg_reducer *r, const char *name, void *data,
                         uint64_t count, rg_type type, int *index_p)
{
    if (r == NULL || name == NULL || count == 0 || !rg__type_is_float(type) ||
        strlen(name) >= RG__TENSOR_NAME_MAX || count > PTRDIFF_MAX / 16)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_add needs a reducer, a name of at most 63 "
                        "bytes, elements, and a type of floats");
    if (r->is_laid_out || r->is_in_step)
        return rg__fail(RG_ERR_INVALID,
                        "tensor \"%s\" can't be added: the reducer has placed "
                        "its tensors; add all before the first step, and "
                        "before rg_reducer_tensor",
                        name);
    if (data != NULL && rg__device_owns(data))
        return rg__fail(RG_ERR_INVALID,
                        "tensor \"%s\" is in memory of a device, and a reducer "
                        "takes host memory; reduce it by rg_allreduce_start "
                        "with memory = RG_DEVICE",
                        name);
    rg__tensor *t = rg__grow(&r->tensor, (size_t)r->n, sizeof *t);
    if (t == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a tensor");
    *t = (rg__tensor){
        .data = data, .is_view = data == NULL, .count = count, .type = type};
    memcpy(t->name, name, strlen(name) + 1);
    rg__tensor_choose(r, t, r->params.compression);
    if (index_p != NULL)
        *index_p = r->n;
    r->info.tensors = ++r->n;
    return RG_OK;
}

rg_status rg_reducer_compress(rg_reducer *r, int index,
                              rg_compression compression)
{
    if (r == NULL || index < 0 || index >= r->n || r->is_laid_out ||
        (unsigned)compression > RG_COMPRESS_TOP_K)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_compress needs a compression and a tensor "
                        "of the reducer, before its first step and before "
                        "rg_reducer_tensor");
    rg__tensor_choose(r, &r->tensor[index], compression);
    return RG_OK;
}

/* -------------------------------------------------------------------- plans */

static rg_status make_orders(rg_reducer *r)
{
    const size_t n = (size_t)r->n;
    if (r->vector != NULL)
        return RG_OK;
    free(r->order);
    free(r->former);
    free(r->plan);
    r->order = calloc(n, sizeof *r->order);
    r->former = calloc(n, sizeof *r->former);
    r->plan = calloc(n, sizeof *r->plan);
    r->vector = calloc(n, sizeof *r->vector);
    return r->order == NULL || r->former == NULL || r->plan == NULL ||
                   r->vector == NULL
               ? rg__fail(RG_ERR_MEMORY, "no memory for a plan")
               : RG_OK;
}

/* Lays out the first plan, from the last tensor to the first. */
static rg_status lay_out_first(rg_reducer *r)
{
    const rg_status st = make_orders(r);
    if (st != RG_OK)
        return st;
    for (int i = 0; i < r->n; i++)
        r->plan[i] = r->n - 1 - i;
    r->others = 0;
    r->has_plan = false;
    r->tuning.now = r->params.bucket_bytes; /* as newcomers do */
    return rg__reducer_lay_out(r, r->plan);
}

/* Allocates nothing, because all ranks must find the same. */
static bool is_order(const rg_reducer *r, int *seen)
{
    memset(seen, 0, (size_t)r->n * sizeof *seen);
    for (int i = 0; i < r->n; i++)
        if (r->order[i] < 0 || r->order[i] >= r->n || seen[r->order[i]]++ > 0)
            return false;
    return true;
}

/* Have enough steps had the same order, and another one than the plan? */
static bool wants_plan(rg_reducer *r)
{
    const size_t bytes = (size_t)r->n * sizeof *r->order;
    const bool is_full = r->ordered == r->n;
    if (r->params.deterministic)
        return false;
    if (!r->has_plan)
        return is_full;
    const bool is_other = is_full && memcmp(r->order, r->plan, bytes) != 0;
    const bool is_same = is_full && memcmp(r->order, r->former, bytes) == 0;
    r->others = !is_other ? 0 : is_same ? r->others + 1 : 1;
    memcpy(r->former, r->order, bytes);
    return r->others >= OTHERS_MAX;
}

/* Collective. The buckets count if all ranks could make them; otherwise all
 * ranks go back to the first plan. */
static rg_status lay_out_again(rg_reducer *r)
{
    const rg_status st = rg__agree_made(r->set, rg__reducer_lay_out(r, r->plan),
                                        "buckets", 0, NULL);
    r->is_compared = r->is_compared && st == RG_OK;
    return st;
}

/* Collective. */
static rg_status make_plan(rg_reducer *r)
{
    const size_t bytes = (size_t)r->n * sizeof *r->order;
    const bool is_first = !r->has_plan;
    rg_status st = rg__reducer_share_order(r);
    if (st == RG_OK && is_first)
        st = rg__tuning_share(r);
    if (st != RG_OK)
        return st;
    r->has_plan = true;
    r->others = 0;
    if (!is_order(r, r->former) || memcmp(r->order, r->plan, bytes) == 0)
        return is_first && r->tuning.is_on ? lay_out_again(r) : RG_OK;
    memcpy(r->plan, r->order, bytes);
    r->info.plans++;
    rg__log(RG__INFO, "reducer",
            "%d tensors are reduced in another order from now on, plan %llu",
            r->n, (unsigned long long)r->info.plans);
    return lay_out_again(r);
}

rg_status rg_reducer_tensor(rg_reducer *r, int index, void **data_p)
{
    if (r == NULL || data_p == NULL || index < 0 || index >= r->n)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_tensor: the reducer has no tensor %d",
                        index);
    const rg_status st =
        r->tensor[index].is_view ? rg__reducer_place_views(r) : RG_OK;
    if (st == RG_OK)
        *data_p = r->tensor[index].data;
    return st;
}

/* -------------------------------------------------------------------- steps */

static rg_status enter_generation(rg_reducer *r)
{
    const uint64_t now = rg_generation(r->set->ctx);
    int ranks = 0;
    if (r->is_compared && r->generation == now && now != 0)
        return RG_OK;
    r->is_compared = false;
    rg_status st = rg__reducer_compare(r);
    if (st == RG_OK)
        st = rg__agree_made(r->set, lay_out_first(r), "buckets", 0, &ranks);
    if (st != RG_OK)
        return st;
    for (int i = 0; i < r->n && now != r->generation; i++)
        rg__tensor_forget(&r->tensor[i]);
    r->generation = now;
    r->is_compared = ranks == rg_set_size(r->set);
    return RG_OK;
}

/* Gives up a step whose generation has been left: fn runs again from its top.
 */
static rg_status end_former(rg_reducer *r)
{
    if (!r->is_in_step)
        return RG_OK;
    if (r->generation == rg_generation(r->set->ctx))
        return rg__fail(RG_ERR_INVALID,
                        "a step of the reducer has begun already; end it with "
                        "rg_reducer_finish");
    close_step(r);
    wait_all(r);
    return RG_OK;
}

/* Other ranks' parts are zeros. */
static void begin_bucket(rg__bucket *b)
{
    b->missing = b->n;
    b->is_started = b->is_copied = false;
    if (b->wire == RG_COMPRESS_TOP_K)
        memset(b->at, 0, b->count * rg_type_size(RG_U32));
}

rg_status rg_reducer_start_step(rg_reducer *r)
{
    if (r == NULL || r->n == 0)
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_start_step needs a reducer with tensors");
    rg_status st = end_former(r);
    if (st == RG_OK)
        st = enter_generation(r);
    if (st != RG_OK)
        return st;
    for (int i = 0; i < r->n; i++)
        r->tensor[i].is_ready = false;
    for (int b = 0; b < r->buckets; b++)
        begin_bucket(&r->bucket[b]);
    pthread_mutex_lock(&r->lock);
    r->next = r->ordered = 0;
    r->ready_ns = 0;
    r->st = RG_OK;
    r->is_in_step = true;
    pthread_mutex_unlock(&r->lock);
    return RG_OK;
}

/* A step keeps its first failure. */
static void note(rg_reducer *r, rg_status st)
{
    if (st == RG_OK || r->st != RG_OK)
        return;
    r->st = st;
    snprintf(r->why, sizeof r->why, "%s", rg_last_error());
}

/* Lock held. */
static void start_bucket(rg_reducer *r, rg__bucket *b)
{
    const bool is_or = b->wire == RG_COMPRESS_TOP_K;
    const rg_op_params params = {.size = sizeof params,
                                 .postscale = is_or ? 0 : r->params.scale,
                                 .tag = rg__mix(b->tag, r->id)};
    b->is_started = true;
    const rg_op op = is_or ? RG_BOR : r->params.sum ? RG_SUM : RG_AVG;
    note(r, rg_allreduce_start(r->set, b->at, b->at, b->count,
                               rg__bucket_type(b), op, &params, &b->req));
}

static bool has_left(const rg_reducer *r)
{
    return r->generation != rg_generation(r->set->ctx);
}

/* Lock held. Adasum begins once all tensors are there; a step that has been
 * left starts nothing in the next generation. */
static void start_complete(rg_reducer *r)
{
    if (r->params.adasum || has_left(r))
        return;
    while (r->next < r->buckets && r->bucket[r->next].missing == 0)
        start_bucket(r, &r->bucket[r->next++]);
}

static rg_status fail_late(const rg_reducer *r)
{
    return rg__fail(RG_ERR_PEER_LOST,
                    "the reducer's step belongs to generation %llu, which has "
                    "ended; return this status from fn",
                    (unsigned long long)r->generation);
}

/* Lock held. Claims the tensor for this step. */
static rg_status claim(rg_reducer *r, int index)
{
    if (!r->is_in_step)
        return rg__fail(RG_ERR_INVALID, "no step of the reducer has begun; "
                                        "call rg_reducer_start_step first");
    if (index < 0 || index >= r->n)
        return rg__fail(RG_ERR_INVALID,
                        "the reducer has no tensor %d; it has %d", index, r->n);
    if (r->tensor[index].is_ready)
        return rg__fail(RG_ERR_INVALID,
                        "tensor %d (\"%s\") is ready for the second time in a "
                        "step; to accumulate gradients, call rg_reducer_ready "
                        "in the last backward only",
                        index, r->tensor[index].name);
    if (has_left(r))
        return fail_late(r);
    r->tensor[index].is_ready = true;
    r->putting++;
    return RG_OK;
}

rg_status rg_reducer_ready(rg_reducer *r, int index)
{
    if (r == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_reducer_ready needs a reducer");
    const uint64_t begin = rg__now_ns();
    pthread_mutex_lock(&r->lock);
    rg_status st = claim(r, index);
    pthread_mutex_unlock(&r->lock);
    if (st != RG_OK)
        return st;
    rg__tensor *t = &r->tensor[index];
    if (!r->params.adasum)
        rg__tensor_put(t);
    pthread_mutex_lock(&r->lock);
    r->order[r->ordered++] = index;
    r->bucket[t->bucket].missing--;
    start_complete(r);
    r->ready_ns += (int64_t)(rg__now_ns() - begin);
    if (--r->putting == 0)
        pthread_cond_signal(&r->quiet);
    st = r->st == RG_OK ? RG_OK : rg__fail(r->st, "%s", r->why);
    pthread_mutex_unlock(&r->lock);
    return st;
}

static void make_zero(const rg_reducer *r, const rg__tensor *t)
{
    memset(r->params.adasum ? t->data : t->slot, 0,
           (size_t)rg__tensor_bytes(t));
}

/* Tensors that are not ready count as zeros. Returns the first one, or -1. */
static int end_with_zeros(rg_reducer *r)
{
    int first = -1;
    close_step(r);
    pthread_mutex_lock(&r->lock);
    for (int i = r->n - 1; i >= 0; i--)
        if (!r->tensor[i].is_ready) {
            first = i;
            make_zero(r, &r->tensor[i]);
            r->bucket[r->tensor[i].bucket].missing--;
        }
    start_complete(r);
    pthread_mutex_unlock(&r->lock);
    return r->params.may_miss ? -1 : first;
}

static void copy_back(rg_reducer *r, const rg__bucket *b)
{
    for (int k = 0; k < b->n; k++)
        note(r, rg__tensor_get(r, b, &r->tensor[b->tensor[k]]));
}

static void end_bucket(rg_reducer *r, rg__bucket *b)
{
    if (!b->is_started || b->is_copied)
        return;
    if (b->req != NULL)
        note(r, rg_wait(&b->req, -1));
    b->is_copied = true;
    if (r->st == RG_OK)
        copy_back(r, b);
}

/* Ends buckets in their order, also after a failure. */
static void end_buckets(rg_reducer *r)
{
    for (int b = 0; b < r->buckets; b++)
        end_bucket(r, &r->bucket[b]);
}

static rg_status add_adaptively(rg_reducer *r)
{
    for (int i = 0; i < r->n; i++) {
        const rg__tensor *t = &r->tensor[i];
        r->vector[i] = (rg__vector){t->data, t->count, t->type};
    }
    return rg__adasum(r->set, r->vector, r->n, r->params.scale);
}

/* The next step may have other buckets. */
static rg_status prepare_next(rg_reducer *r, bool is_plan_due, int64_t spent_ns)
{
    if (is_plan_due)
        return make_plan(r);
    if (!r->has_plan || spent_ns < 0 || !rg__tuning_look(r, spent_ns))
        return RG_OK;
    return lay_out_again(r);
}

rg_status rg_reducer_finish(rg_reducer *r)
{
    rg__reducer_verdict verdict = {0};
    bool is_plan_due = false;
    if (r == NULL || !r->is_in_step)
        return rg__fail(RG_ERR_INVALID, "no step of the reducer has begun; "
                                        "call rg_reducer_start_step first");
    if (has_left(r)) {
        close_step(r);
        return fail_late(r);
    }
    const uint64_t begin = rg__now_ns();
    const int missing = end_with_zeros(r);
    rg_status judged =
        rg__reducer_verdict_start(r, missing, wants_plan(r), &verdict);
    note(r, judged);
    if (r->params.adasum)
        note(r, add_adaptively(r));
    end_buckets(r);
    if (judged == RG_OK)
        note(r, judged = rg__reducer_verdict_wait(r, &verdict, &is_plan_due));
    r->spent_ns = r->ready_ns + (int64_t)(rg__now_ns() - begin);
    /* All ranks do what the verdict asks for, or others would wait. */
    if (judged == RG_OK)
        note(r, prepare_next(r, is_plan_due, rg__reducer_spent(r, &verdict)));
    if (r->st != RG_OK)
        return rg__fail(r->st, "%s", r->why);
    r->info.steps++;
    return RG_OK;
}

rg_status rg_reducer_info_get(const rg_reducer *r, rg_reducer_info *info)
{
    if (r == NULL || info == NULL ||
        info->size < RG__PARAMS_UP_TO(rg_reducer_info, plans))
        return rg__fail(RG_ERR_INVALID,
                        "rg_reducer_info_get needs a reducer and an info whose "
                        "size is sizeof(rg_reducer_info)");
    const size_t size = info->size;
    *info = r->info;
    info->size = size;
    return RG_OK;
}
