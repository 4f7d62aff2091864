/* What comes before and after NCCL's operation, in the same stream: kernels of
 * scale.cl for averages and scales that NCCL does not compute exactly, and a
 * copy of what an alltoall in place sends.
 *
 * Data scaled before it are written to recv if that has room; else they, and
 * such a copy, go to memory that is taken and given back in stream order, which
 * never waits. Averages of floats are sums that are divided afterwards, since
 * NCCL multiplies each part by a rounded 1/n instead; F16 ones are scaled down
 * by a power of two meanwhile, as a sum may be out of range though its average
 * is not. */
#include "sdk/transport/nccl/device.h"

#include <stdio.h>

#include "sdk/base/fail.h"
#include "sdk/transport/reduce.h"

#define THREADS     256 /* threads of a block */
#define BLOCKS_MOST 1024

static const char *const names[RG_BOOL] = {
    [RG_U8] = "rg_scale_u8",   [RG_I8] = "rg_scale_i8",
    [RG_I32] = "rg_scale_i32", [RG_U32] = "rg_scale_u32",
    [RG_I64] = "rg_scale_i64", [RG_U64] = "rg_scale_u64",
    [RG_F16] = "rg_scale_f16", [RG_BF16] = "rg_scale_bf16",
    [RG_F32] = "rg_scale_f32", [RG_F64] = "rg_scale_f64"};

_Static_assert(RG_BOOL == RG__SCALES, "a kernel for each type before it");

/* ---------------------------------------------------------------- kernels */

static int find_kernels(rg__device *d, rg__cu_module module)
{
    int rc = RG__CU_SUCCESS;
    for (int type = 0; type < RG__SCALES && rc == RG__CU_SUCCESS; type++)
        rc = d->cuda.call.module_function(&d->scale[type], module, names[type]);
    return rc;
}

void rg__scale_load(rg__device *d)
{
    rg__cu_module module = NULL;
    if (rg__scale_ptx[0] == '\0') {
        snprintf(d->scale_why, sizeof d->scale_why,
                 "this Regroup was built without clang, and so without kernels "
                 "of its own");
        return;
    }
    int rc = d->cuda.call.module_load(&module, rg__scale_ptx);
    if (rc == RG__CU_SUCCESS)
        rc = find_kernels(d, module);
    d->has_scale = rc == RG__CU_SUCCESS;
    if (d->has_scale)
        return;
    rg__cuda_fail(&d->cuda.call, RG_ERR_UNSUPPORTED, rc,
                  "the driver refuses Regroup's kernels");
    snprintf(d->scale_why, sizeof d->scale_why, "%s", rg_last_error());
}

/* Does Regroup divide? NCCL divides integers itself. */
static bool divides(const rg__coll *o)
{
    return o->op == RG_AVG && (o->type == RG_F16 || o->type == RG_BF16 ||
                               o->type == RG_F32 || o->type == RG_F64);
}

rg_status rg__scale_check(const rg__device *d, const rg__coll *o)
{
    const bool scales = o->prescale != 0 || o->postscale != 0;
    if (d->has_scale || (!scales && !divides(o)))
        return RG_OK;
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "%s on device memory: there is no %s here, since %s; see "
                    "regroup_cuda.h",
                    rg__kind_name(o->kind),
                    scales ? "prescale or postscale" : "AVG of floats",
                    d->scale_why);
}

/* The factors of one launch; 0: leave it out. */
typedef struct factors {
    double before;
    int over;
    double by;
} factors;

static int launch(rg__device *d, rg__cu_stream stream, rg_type type, void *out,
                  const void *in, uint64_t n, const factors *f)
{
    rg__cu_address to = (uintptr_t)out, from = (uintptr_t)in;
    factors own = *f;
    uint64_t blocks = (n + THREADS - 1) / THREADS;
    void *arguments[] = {&to, &from, &n, &own.before, &own.over, &own.by};
    if (n == 0)
        return RG__CU_SUCCESS;
    if (blocks > BLOCKS_MOST)
        blocks = BLOCKS_MOST;
    return d->cuda.call.launch(d->scale[type], (unsigned)blocks, 1, 1, THREADS,
                               1, 1, 0, stream, arguments, NULL);
}

/* ------------------------------------------------------------------- before */

static uint64_t sent(const rg__lane *lane, const rg__coll *o)
{
    return o->kind == RG__REDUCE_SCATTER ? o->count * (unsigned)lane->n
                                         : o->count;
}

static bool fits_recv(const rg__lane *lane, const rg__coll *o)
{
    return o->kind == RG__ALLREDUCE || lane->n == 1 ||
           (o->kind == RG__REDUCE && o->root == lane->rank);
}

/* The factor by which the parts of a sum are made smaller. */
static double held_down(const rg__lane *lane, const rg__coll *o)
{
    return lane->n == 1 ? 1 : (double)rg__held_down(o, lane->n);
}

static int make_room(rg__device *d, rg__cu_stream stream, uint64_t bytes,
                     rg__scaled *s)
{
    return bytes == 0 ? RG__CU_SUCCESS
                      : d->cuda.call.memory_take(&s->room, bytes, stream);
}

/* In place NCCL would overwrite parts that are not sent yet. */
static bool is_in_its_way(const rg__lane *lane, const rg__coll *o)
{
    return (o->kind == RG__ALLTOALL || o->kind == RG__ALLTOALLV) &&
           o->send == o->recv && lane->n > 1;
}

static uint64_t end_of_parts(const rg__lane *lane, const rg__coll *o)
{
    uint64_t end = 0;
    if (o->kind == RG__ALLTOALL)
        return o->count * (unsigned)lane->n;
    for (int r = 0; r < lane->n; r++)
        if (o->send_places[r] + o->send_counts[r] > end)
            end = o->send_places[r] + o->send_counts[r];
    return end;
}

static int send_a_copy(rg__device *d, const rg__lane *lane,
                       rg__cu_stream stream, rg__scaled *s)
{
    const uint64_t bytes =
        end_of_parts(lane, &s->asked) * rg_type_size(s->asked.type);
    const int rc = make_room(d, stream, bytes, s);
    s->coll.send = (const void *)(uintptr_t)s->room;
    return rc != RG__CU_SUCCESS || bytes == 0
               ? rc
               : d->cuda.call.copy_within(
                     s->room, (rg__cu_address)(uintptr_t)s->asked.send, bytes,
                     stream);
}

int rg__scale_before(rg__device *d, const rg__lane *lane, rg__cu_stream stream,
                     rg__scaled *s)
{
    const rg__coll o = s->asked;
    const double before =
        (o.prescale != 0 ? o.prescale : 1) * held_down(lane, &o);
    const factors f = {.before = before};
    s->coll = o;
    if (is_in_its_way(lane, &o))
        return send_a_copy(d, lane, stream, s);
    if (divides(&o))
        s->coll.op = RG_SUM;
    if (before == 1)
        return RG__CU_SUCCESS;
    int rc = RG__CU_SUCCESS;
    s->coll.send = o.recv;
    if (!fits_recv(lane, &o)) {
        rc = make_room(d, stream, sent(lane, &o) * rg_type_size(o.type), s);
        s->coll.send = (const void *)(uintptr_t)s->room;
    }
    return rc != RG__CU_SUCCESS
               ? rc
               : launch(d, stream, o.type, (void *)(uintptr_t)s->coll.send,
                        o.send, sent(lane, &o), &f);
}

/* ------------------------------------------------------------------- behind */

static uint64_t received(const rg__lane *lane, const rg__coll *o)
{
    if (o->kind == RG__REDUCE_SCATTERV)
        return o->recv_counts[lane->rank];
    return o->kind == RG__REDUCE && o->root != lane->rank ? 0 : o->count;
}

int rg__scale_after(rg__device *d, const rg__lane *lane, rg__cu_stream stream,
                    const rg__scaled *s)
{
    const rg__coll *o = &s->asked;
    const double held = held_down(lane, o);
    const factors f = {.before = held != 1 ? 1 / held : 0,
                       .over = divides(o) && lane->n > 1 ? lane->n : 0,
                       .by = o->postscale};
    int rc = RG__CU_SUCCESS;
    if (f.before != 0 || f.over != 0 || f.by != 0)
        rc =
            launch(d, stream, o->type, o->recv, o->recv, received(lane, o), &f);
    const int given = s->room == 0 ? RG__CU_SUCCESS
                                   : d->cuda.call.memory_give(s->room, stream);
    return rc != RG__CU_SUCCESS ? rc : given;
}
