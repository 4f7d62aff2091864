#include "tests/bench/collectives/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TIMES_LEAST 11
#define TIMES_MOST  2000

void need(rg_status st, const char *what)
{
    if (st == RG_OK)
        return;
    fprintf(stderr, "bench_collectives: %s: %s\n", what, rg_last_error());
    exit(1);
}

void run_in_turn(const trial *t)
{
    for (int i = 0; i < t->n; i++)
        need(work_run(t->works[i]), kind_names[t->works[i]->kind]);
}

void run_together(const trial *t)
{
    rg_req *reqs[PEER_MOST];
    for (int i = 0; i < t->n; i++)
        need(work_start(t->works[i], &reqs[i]), kind_names[t->works[i]->kind]);
    need(rg_wait_all(reqs, t->n, -1), "rg_wait_all");
}

void run_mpi_in_turn(const trial *t)
{
    for (int i = 0; i < t->n; i++)
        peer_run(t->works[i]);
}

void run_mpi_together(const trial *t)
{
    peer_run_all(t->works, t->n);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Ranks without work are to sleep meanwhile, so that MPI's barrier is only for
 * the one set, where no rank waits for long. */
static void meet(const bench *b)
{
    if (b->world != NULL && b->plan->layout == ONE)
        peer_barrier(b->world);
    else
        need(rg_barrier(rg_world(b->ctx)), "rg_barrier");
}

/* Several barriers, so that threads that wake up are spread over processors. */
static void line_up(const trial *t)
{
    const struct timespec quiet = {t->quiet_ns / 1000000000,
                                   t->quiet_ns % 1000000000};
    if (t->line == NULL || t->n == 0)
        return;
    nanosleep(&quiet, NULL);
    for (int i = 0; i < 10; i++)
        need(rg_barrier(t->line), "rg_barrier");
}

static double once(bench *b, trial *t)
{
    const uint64_t round = b->round++;
    for (int i = 0; i < t->n; i++)
        work_write(t->works[i], round);
    meet(b);
    if (t->before != NULL)
        t->before(t);
    line_up(t);
    const double begin = now_us();
    t->run(t);
    const double took = now_us() - begin;
    if (t->after != NULL)
        t->after(t);
    meet(b);
    for (int i = 0; i < t->n; i++)
        t->got.wrong += (int64_t)work_wrong(t->works[i], round, t->by_mpi);
    return t->n > 0 ? took : 0;
}

/* Every trial once, times[trial][i]. */
static void one_round(bench *b, trial *trials, int n, double *times, int i)
{
    for (int k = 0; k < n; k++) {
        const int at = (i + k) % n;
        times[at * TIMES_MOST + i] = once(b, &trials[at]);
    }
}

static int warm_up(bench *b, trial *trials, int n, double *times)
{
    double rounds = b->plan->times, begin = 0;
    for (int i = 0; i < b->plan->warmups; i++) {
        begin = now_us();
        one_round(b, trials, n, times, i % TIMES_MOST);
    }
    if (b->plan->times == 0)
        rounds = b->plan->seconds * 1e6 / (now_us() - begin);
    need(rg_allreduce(rg_world(b->ctx), &rounds, &rounds, 1, RG_F64, RG_MIN),
         "rounds");
    if (b->plan->times == 0 && rounds < TIMES_LEAST)
        return TIMES_LEAST;
    return rounds > TIMES_MOST ? TIMES_MOST : (int)rounds;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(bench *b, trial *t, double *times, int n)
{
    rg_set *world = rg_world(b->ctx);
    need(rg_allreduce(world, times, times, (uint64_t)n, RG_F64, RG_MAX),
         "times");
    need(rg_allreduce(world, &t->got.wrong, &t->got.wrong, 1, RG_I64, RG_SUM),
         "wrong");
    qsort(times, (size_t)n, sizeof *times, by_size);
    t->got.times = n;
    t->got.p10 = times[n / 10];
    t->got.p50 = times[n / 2];
    b->wrong += (uint64_t)t->got.wrong;
}

void measure(bench *b, trial *trials, int n)
{
    double *times = calloc((size_t)n * TIMES_MOST, sizeof *times);
    if (times == NULL) {
        fprintf(stderr, "bench_collectives: no memory for the times\n");
        exit(1);
    }
    const int rounds = warm_up(b, trials, n, times);
    for (int i = 0; i < rounds; i++)
        one_round(b, trials, n, times, i);
    for (int i = 0; i < n; i++)
        sum_up(b, &trials[i], times + i * TIMES_MOST, rounds);
    free(times);
}
