/* bench_recorder: what the flight recorder and a timeline cost an operation.
 * A process alone calls barriers, by turns: noted nowhere; in a record, as in
 * each job; and in a record from which spans are taken, as for a timeline
 * (emptied here as an agent does, so that none is dropped).
 *
 *   bench_recorder [TURNS]
 *
 * Prints nanoseconds for each operation: medians of the turns, and of what they
 * have more than the turn before them. */
#include <stdio.h>
#include <stdlib.h>

#include "regroup/regroup.h"
#include "sdk/base/clock.h"
#include "sdk/base/record.h"
#include "sdk/core/context.h"
#include "sdk/core/engine.h"

#define CALLS     4000 /* fewer than spans that a record has room for */
#define ROUNDS    50
#define TURNS     21
#define TURNS_MAX 1001

static rg__record record;

/* 0: it has failed. */
static double turn_ns(rg_ctx *ctx, rg__record *r, bool is_traced)
{
    uint64_t ns = 0;
    rg__engine_record(ctx->engine, r);
    atomic_store(&record.traces, is_traced);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t begin = rg__now_ns();
        for (int k = 0; k < CALLS; k++)
            if (rg_barrier(rg_world(ctx)) != RG_OK)
                return 0;
        ns += rg__now_ns() - begin;
        atomic_store(&record.read, atomic_load(&record.written));
    }
    rg__engine_record(ctx->engine, NULL);
    return (double)ns / ROUNDS / CALLS;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int n)
{
    qsort(of, (size_t)n, sizeof *of, by_size);
    return of[n / 2];
}

int main(int argc, char **argv)
{
    static double bare[TURNS_MAX], noted[TURNS_MAX], traced[TURNS_MAX];
    static double note[TURNS_MAX], span[TURNS_MAX];
    rg_ctx *ctx = NULL;
    const int n = argc > 1 ? atoi(argv[1]) : TURNS; /* NOLINT: checked */
    if (n < 1 || n > TURNS_MAX) {
        fprintf(stderr, "bench_recorder: 1 to %d turns\n", TURNS_MAX);
        return 64;
    }
    if (rg_init(NULL, &ctx) != RG_OK)
        return 1;
    for (int i = 0; i < n; i++) {
        bare[i] = turn_ns(ctx, NULL, false);
        noted[i] = turn_ns(ctx, &record, false);
        traced[i] = turn_ns(ctx, &record, true);
        note[i] = noted[i] - bare[i];
        span[i] = traced[i] - noted[i];
        if (bare[i] == 0 || noted[i] == 0 || traced[i] == 0)
            return 1;
    }
    printf("# ns for each operation, of %d turns with %d calls\n", n,
           CALLS * ROUNDS);
    printf("%-10s %8.1f\n", "bare", median(bare, n));
    printf("%-10s %8.1f %+8.1f\n", "recorded", median(noted, n),
           median(note, n));
    printf("%-10s %8.1f %+8.1f\n", "timeline", median(traced, n),
           median(span, n));
    printf("# spans that found no room: %llu\n",
           (unsigned long long)atomic_load(&record.dropped));
    return rg_finalize(ctx) == RG_OK && atomic_load(&record.dropped) == 0 &&
                   atomic_load(&record.written) > 0
               ? 0
               : 1;
}
