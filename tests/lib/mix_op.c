/* Drawing an operation, and another one in its place. */
#include "tests/lib/mix_op.h"

const char *const mix_kind_names[] = {
    "allreduce", "reduce",     "reduce_scatter", "reduce_scatterv", "broadcast",
    "allgather", "allgatherv", "gather",         "gatherv",         "scatter",
    "scatterv",  "alltoall",   "alltoallv",      "barrier",         "join"};

bool mix_adds(const mix_op *op)
{
    return op->kind <= MIX_REDUCE_SCATTERV;
}

bool mix_has_root(const mix_op *op)
{
    return op->kind == MIX_REDUCE || op->kind == MIX_BROADCAST ||
           (op->kind >= MIX_GATHER && op->kind <= MIX_SCATTERV);
}

bool mix_has_one_count(const mix_op *op)
{
    return op->kind < MIX_BARRIER && op->kind != MIX_REDUCE_SCATTERV &&
           op->kind != MIX_ALLGATHERV && op->kind != MIX_GATHERV &&
           op->kind != MIX_SCATTERV && op->kind != MIX_ALLTOALLV;
}

/* Does one member have a part for each? */
static bool has_parts(const mix_op *op)
{
    return op->kind != MIX_ALLREDUCE && op->kind != MIX_REDUCE &&
           op->kind != MIX_BROADCAST;
}

/* ----------------------------------------------------------------- drawing */

static size_t draw_bytes(dice *d, size_t most)
{
    static const size_t tops[] = {0,    1,    16,   80,    120,   2048,
                                  4096, 8192, 9000, 40000, 70000, 140000};
    const size_t tops_n = sizeof tops / sizeof *tops;
    const size_t large = (size_t)1 << 20;
    const size_t top = dice_once_in(d, 30) ? large << dice_roll(d, 3)
                                           : tops[dice_roll(d, tops_n)];
    const size_t bytes = dice_once_in(d, 2) ? top : dice_roll(d, top + 1);
    return bytes > most ? most : bytes;
}

static rg_type draw_type(dice *d)
{
    return (rg_type)dice_roll(d, RG_BOOL + 1);
}

static rg_op draw_op(dice *d, rg_type type)
{
    rg_op op;
    do
        op = (rg_op)dice_roll(d, RG_BXOR + 1);
    while (!rg_op_has(op, type));
    return op;
}

static double draw_scale(dice *d)
{
    static const double scales[] = {0, 0, 0, 1, 0.5, 2};
    return scales[dice_roll(d, 6)];
}

static void draw_scales(mix_op *op, dice *d)
{
    const double pre = draw_scale(d), post = draw_scale(d);
    const bool has_range =
        op->op != RG_PROD || (op->n <= 5 && rg_type_size(op->type) > 1);
    if (op->op > RG_PROD || op->type == RG_BOOL || !has_range)
        return;
    op->prescale = pre;
    op->postscale = post;
}

void mix_op_draw(mix_op *op, dice *d, int n, size_t most)
{
    *op = (mix_op){.n = n, .seed = dice_roll(d, UINT64_MAX)};
    op->kind = (mix_kind)dice_roll(d, MIX_JOIN);
    op->type = draw_type(d);
    op->op = draw_op(d, op->type);
    op->root = (int)dice_roll(d, (uint64_t)n);
    op->is_symmetric = dice_once_in(d, 2);
    draw_scales(op, d);
    const size_t parts = has_parts(op) ? (size_t)n : 1;
    const size_t bytes = draw_bytes(d, most) / parts;
    const size_t element = rg_type_size(op->type);
    op->count = bytes == 0 ? 0 : (bytes + element - 1) / element;
}

void mix_op_draw_small(mix_op *op, dice *d, int n)
{
    static const rg_type types[] = {RG_F32, RG_F16, RG_I32, RG_U8};
    mix_op_draw(op, d, n, 3000);
    op->kind = MIX_ALLREDUCE;
    op->type = types[dice_roll(d, 4)];
    op->op = dice_once_in(d, 3) ? RG_AVG : RG_SUM;
    op->prescale = 0;
    op->postscale = dice_once_in(d, 3) ? 2 : 0;
}

static bool vary_type(mix_op *op)
{
    const rg_type type = op->type == RG_I32 ? RG_U32 : RG_I32;
    if (op->kind == MIX_BARRIER || (mix_adds(op) && !rg_op_has(op->op, type)))
        return false;
    op->type = type;
    return true;
}

static bool vary_op(mix_op *op)
{
    const rg_op other = op->op == RG_MIN ? RG_MAX : RG_MIN;
    if (mix_adds(op))
        op->op = other;
    return mix_adds(op);
}

static bool vary_root(mix_op *op)
{
    if (mix_has_root(op))
        op->root = (op->root + 1) % op->n;
    return mix_has_root(op);
}

static bool vary_scale(mix_op *op)
{
    if (mix_adds(op))
        op->prescale = 0.25;
    return mix_adds(op);
}

static bool vary_count(mix_op *op)
{
    if (mix_has_one_count(op))
        op->count++;
    return mix_has_one_count(op);
}

static bool vary_kind(mix_op *op)
{
    op->kind = op->kind == MIX_ALLREDUCE ? MIX_ALLTOALL : MIX_BARRIER;
    return true;
}

void mix_op_vary(mix_op *op, dice *d)
{
    static bool (*const ways[])(mix_op *) = {vary_type,  vary_op,    vary_root,
                                             vary_scale, vary_count, vary_kind};
    if (op->kind == MIX_BARRIER) {
        op->kind = MIX_BROADCAST;
        return;
    }
    while (!ways[dice_roll(d, 6)](op))
        continue;
}
