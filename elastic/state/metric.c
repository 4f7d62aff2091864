/* Metrics of steps. They are reduced over the world before the step counts, and
 * rank 0 then puts them into its record, from which the agent takes them. So
 * each step that counts has its rows, and a step that does not count after all
 * may have some, too; when it is done again, its rows are replaced
 * (elastic/agent/scalars). */
#include "elastic/state/state.h"

#include <math.h>
#include <string.h>

#include "process_sets/sets.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

rg_status rg_metric(rg_state *state, const char *name, double value, rg_op op)
{
    const rg_status st = rg__state_check_in_fn(state, "rg_metric");
    if (st != RG_OK)
        return st;
    if (name == NULL || !rg__is_scalar_name(name) || (unsigned)op > RG_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "rg_metric needs a name of 1 to 63 letters, digits and "
                        "_ . - / and RG_SUM, RG_AVG, RG_MIN or RG_MAX");
    int i = 0;
    while (i < state->metrics && strcmp(state->metric[i].name, name) != 0)
        i++;
    if (i == RG__SCALARS_OF_STEP)
        return rg__fail(RG_ERR_INVALID,
                        "metric %s is one too many; a step has at most %d",
                        name, i);
    rg__metric *m = &state->metric[i];
    memcpy(m->name, name, strlen(name) + 1);
    m->value = value;
    m->op = op;
    state->metrics += i == state->metrics;
    return RG_OK;
}

static bool is_extreme(const rg__metric *m)
{
    return m->op == RG_MIN || m->op == RG_MAX;
}

static uint64_t tag_of(const rg_state *state)
{
    uint64_t tag = RG__MIX_BEGIN;
    for (int i = 0; i < state->metrics; i++) {
        const rg__metric *m = &state->metric[i];
        tag = rg__mix(rg__mix_bytes(tag, m->name, strlen(m->name)), m->op);
    }
    return tag;
}

/* One operation for sums, one for maxima; minima are maxima of negatives. */
static rg_status reduce(rg_state *state, double v[2][RG__SCALARS_OF_STEP])
{
    const uint64_t tag = tag_of(state);
    uint64_t n[2] = {0};
    rg_status st = RG_OK;
    for (int i = 0; i < state->metrics; i++) {
        const rg__metric *m = &state->metric[i];
        const bool is_max = is_extreme(m);
        v[is_max][n[is_max]++] = m->op == RG_MIN ? -m->value : m->value;
    }
    for (int k = 0; k < 2 && st == RG_OK; k++)
        if (n[k] > 0)
            st = rg__world_reduce(state->ctx, "rg_metric", tag, v[k], n[k],
                                  k == 0 ? RG_SUM : RG_MAX);
    return st;
}

/* A NaN loses its sign, since no reader of the files takes "-nan". */
static double result_of(const rg__metric *m, double x, int size)
{
    if (isnan(x))
        return (double)NAN;
    return m->op == RG_MIN ? -x : m->op == RG_AVG ? x / size : x;
}

/* Rank 0 shows them all at once. */
static void show(const rg_state *state, uint64_t step,
                 const double v[2][RG__SCALARS_OF_STEP])
{
    rg__scalar row[RG__SCALARS_OF_STEP] = {0};
    const rg__membership *now = &state->ctx->now;
    const uint64_t wall_ms = (uint64_t)rg__wall_ms();
    int n[2] = {0};
    if (now->rank != 0 || state->ctx->record == NULL)
        return;
    for (int i = 0; i < state->metrics; i++) {
        const rg__metric *m = &state->metric[i];
        const bool is_max = is_extreme(m);
        const double x = v[is_max][n[is_max]++];
        row[i] = (rg__scalar){.step = step,
                              .wall_ms = wall_ms,
                              .value = result_of(m, x, now->size),
                              .generation = (uint32_t)now->generation,
                              .count = (uint32_t)state->metrics};
        memcpy(row[i].name, m->name, sizeof row[i].name);
    }
    rg__record_scalars(state->ctx->record, row, state->metrics);
}

rg_status rg__state_reduce_metrics(rg_state *state, uint64_t step)
{
    double v[2][RG__SCALARS_OF_STEP];
    if (state->metrics == 0)
        return RG_OK;
    const rg_status st = reduce(state, v);
    if (st == RG_OK)
        show(state, step, v);
    const int n = state->metrics;
    state->metrics = 0;
    return st != RG_ERR_MISMATCH
               ? st
               : rg__fail(st,
                          "ranks differ in the metrics of step %llu, of which "
                          "this one has %d, from %s on; give the same ones in "
                          "the same order on all ranks, in each step: %s",
                          (unsigned long long)step, n, state->metric[0].name,
                          rg_last_error());
}
