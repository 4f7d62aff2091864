/* The data follow from the operation's seed, so each member can tell what the
 * others bring: a pattern of elements for each member, or of bytes for each
 * pair of members where data are only moved. */
#include <math.h>

#include "tests/lib/elements.h"
#include "tests/lib/mix_op.h"

/* -------------------------------------------------------------------- parts */

/* Elements from one member to another where counts are uneven. */
static uint64_t uneven(const mix_op *op, int from, int to)
{
    const int low = from < to ? from : to, high = from < to ? to : from;
    const int a = op->is_symmetric ? low : from;
    const int b = op->is_symmetric ? high : to;
    const uint64_t h =
        dice_seed(op->seed, (uint64_t)(100 + a * MIX_MEMBERS + b));
    if (h % 4 == 0)
        return 0;
    return h % 4 == 1 ? op->count : h / 4 % (op->count + 1);
}

static uint64_t count_of(const mix_op *op, int from, int to)
{
    return mix_has_one_count(op) ? op->count : uneven(op, from, to);
}

static void add(mix_side *s, mix_part part)
{
    s->part[s->parts++] = part;
    if (part.count > 0 && part.place + part.count > s->end)
        s->end = part.place + part.count;
}

/* A single part, at the beginning. */
static void add_one(mix_side *s, uint64_t count, uint64_t first, int from,
                    int to)
{
    add(s, (mix_part){.count = count, .first = first, .from = from, .to = to});
}

/* Where each member's part begins: one behind the other, or in reverse with
 * gaps. */
static void place_parts(mix_side *s, int n, bool has_places)
{
    uint64_t at = 0;
    s->has_places = has_places;
    for (int i = 0; i < n; i++) {
        const int m = has_places ? n - 1 - i : i;
        s->places[m] = at;
        at += s->counts[m] + (has_places ? (uint64_t)m : 0);
    }
}

/* A part for each member, from or to it. */
static void add_parts(mix_side *s, const mix_op *op, int from, int to,
                      bool has_places)
{
    for (int m = 0; m < op->n; m++)
        s->counts[m] = count_of(op, from < 0 ? m : from, to < 0 ? m : to);
    place_parts(s, op->n, has_places && !mix_has_one_count(op));
    for (int m = 0; m < op->n; m++)
        add(s, (mix_part){.place = s->places[m],
                          .count = s->counts[m],
                          .from = from < 0 ? m : from,
                          .to = to < 0 ? m : to});
}

/* In a reduce_scatter, part m of the whole is member m's. */
static void know_slices(const mix_op *op, mix_side *s)
{
    for (int m = 0; m < op->n; m++)
        s->counts[m] = count_of(op, 0, m);
    place_parts(s, op->n, false);
}

static uint64_t whole_of(const mix_op *op, const mix_side *s)
{
    return s->places[op->n - 1] + s->counts[op->n - 1];
}

void mix_lay_out(mix_run *run, bool has_places)
{
    const mix_op *op = &run->op;
    const bool is_root = run->rank == op->root;
    switch (op->kind) {
    case MIX_ALLREDUCE:
    case MIX_REDUCE:
        add_one(&run->out, op->count, 0, run->rank, 0);
        break;
    case MIX_REDUCE_SCATTER:
    case MIX_REDUCE_SCATTERV:
        know_slices(op, &run->out);
        add_one(&run->out, whole_of(op, &run->out), 0, run->rank, 0);
        break;
    case MIX_BROADCAST:
        if (is_root)
            add_one(&run->out, op->count, 0, run->rank, 0);
        break;
    case MIX_ALLGATHER:
    case MIX_ALLGATHERV:
    case MIX_GATHER:
    case MIX_GATHERV:
        add_one(&run->out, count_of(op, run->rank, 0), 0, run->rank, 0);
        break;
    case MIX_SCATTER:
    case MIX_SCATTERV:
        if (is_root)
            add_parts(&run->out, op, run->rank, -1, has_places);
        break;
    case MIX_ALLTOALL:
    case MIX_ALLTOALLV:
        add_parts(&run->out, op, run->rank, -1, has_places);
        break;
    case MIX_BARRIER:
    case MIX_JOIN:
        break;
    }
}

void mix_lay_in(mix_run *run, bool has_places)
{
    const mix_op *op = &run->op;
    const bool is_root = run->rank == op->root;
    const int me = run->rank;
    switch (op->kind) {
    case MIX_ALLREDUCE:
        add_one(&run->in, op->count, 0, -1, 0);
        break;
    case MIX_REDUCE:
        if (is_root)
            add_one(&run->in, op->count, 0, -1, 0);
        break;
    case MIX_REDUCE_SCATTER:
    case MIX_REDUCE_SCATTERV:
        know_slices(op, &run->in);
        add_one(&run->in, run->in.counts[me], run->in.places[me], -1, 0);
        break;
    case MIX_BROADCAST:
        if (!is_root)
            add_one(&run->in, op->count, 0, op->root, 0);
        break;
    case MIX_GATHER:
    case MIX_GATHERV:
        if (!is_root)
            break;
        add_parts(&run->in, op, -1, 0, has_places);
        break;
    case MIX_ALLGATHER:
    case MIX_ALLGATHERV:
        add_parts(&run->in, op, -1, 0, has_places);
        break;
    case MIX_SCATTER:
    case MIX_SCATTERV:
        add_one(&run->in, count_of(op, op->root, me), 0, op->root, me);
        break;
    case MIX_ALLTOALL:
    case MIX_ALLTOALLV:
        add_parts(&run->in, op, -1, me, has_places);
        break;
    case MIX_BARRIER:
    case MIX_JOIN:
        break;
    }
}

/* -------------------------------------------------------------------- data */

/* So small that every sum and product is exact in the type; not 0, of which
 * there are two. */
static double value_of(const mix_op *op, int from, int i)
{
    const uint64_t h = dice_seed(op->seed, (uint64_t)((from + 1) * 1000 + i));
    const uint64_t n = (uint64_t)op->n;
    const size_t bytes = rg_type_size(op->type);
    const double sign = is_signed(op->type) && h / 256 % 2 ? -1 : 1;
    const uint64_t most[] = {
        0, 30 / n, 65 / n, 0, 1000000 / n, 0, 0, 0, (UINT64_C(1) << 42) / n};
    if (op->op == RG_PROD)
        return sign * (h % 3 == 0 && from < 5 ? 2 : 1);
    if (op->type == RG_BOOL || (op->op >= RG_LAND && op->op <= RG_LXOR))
        return (double)(h % 3);
    if (op->op >= RG_BAND)
        return (double)(h % (bytes == 1 ? 128 : (uint64_t)1 << 30));
    return sign * (double)(1 + h / 512 % most[bytes]);
}

static double result_of(const mix_op *op, int i)
{
    double x[MIX_MEMBERS];
    char one[8];
    int n = 0;
    for (int m = 0; m < op->n; m++) {
        if (op->joined >> m & 1)
            continue;
        put(op->type, one, 0, value_of(op, m, i));
        x[n++] = scaled(op->type, get(op->type, one, 0), op->prescale);
    }
    double all = computed(op->type, op->op == RG_AVG ? RG_SUM : op->op, x, n);
    if (op->op == RG_AVG) /* by all members, joined ones too */
        all = is_float(op->type) ? all / op->n : trunc(all / op->n);
    return scaled(op->type, all, op->postscale);
}

static pattern pattern_of_part(const mix_op *op, const mix_part *p)
{
    double values[PATTERN_PERIOD];
    if (!mix_adds(op))
        return pattern_of_bytes(
            dice_seed(op->seed, (uint64_t)(p->from * MIX_MEMBERS + p->to)));
    for (int i = 0; i < PATTERN_PERIOD; i++)
        values[i] = p->from < 0 ? result_of(op, i) : value_of(op, p->from, i);
    return pattern_of(op->type, values);
}

static void paint_part(const mix_op *op, const mix_part *p, char *at)
{
    const size_t element = rg_type_size(op->type);
    const pattern r = pattern_of_part(op, p);
    const uint64_t each =
        element / r.element; /* of the pattern, in an element */
    pattern_write(&r, at + p->place * element, p->first * each,
                  p->count * each);
}

void mix_paint(const mix_op *op, const mix_side *side, char *at)
{
    for (int k = 0; k < side->parts; k++)
        paint_part(op, &side->part[k], at);
}
