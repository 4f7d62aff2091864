/* The gradients of a model, reduced by a reducer, by a loop of rg_allreduce and
 * by MPI, by turns in one run, under mpirun:
 *
 *   mpirun -n 2 bench_gradients-openmpi [--rounds N] [--backward-ms N]
 *                                       [--model resnet50|gpt2]
 *                                       [--thread-level multiple]
 *                                       [--bucket-bytes N] [--only way,way]
 *
 *   views    a reducer whose tensors live in its buckets
 *   copied   a reducer of tensors in ordinary memory
 *   registered  the same, registered from 64 KiB on, and not copied
 *   loop     rg_allreduce of each tensor, in ordinary memory
 *   mpi      MPI_Allreduce of each tensor
 *   pack     one MPI_Allreduce of all, copied in and out
 *   floor    a plain loop over memory that the ranks share: each adds up its
 *            part of all of theirs, and writes it to all; on one host
 *
 * For each: the time to reduce all tensors when they are ready at once, and the
 * exposed time, that is what a step takes longer than its backward, which
 * sleeps between tensors. Parts of it: ready, in rg_reducer_ready, and after,
 * behind the backward of the last rank; the rest is ranks that end theirs at
 * different times. With 13 rounds or more, reducers have tried all sizes of
 * buckets before the first (--bucket-bytes gives one). Before each step all
 * tensors are written; a time is the maximum of all ranks. wrong: elements that
 * are not the sum. barrier: the shortest of some in each round, the least and
 * the greatest of all rounds: it tells whether the ranks' processors shared a
 * cache. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "regroup/regroup_mpi.h"
#include "tests/bench/models.h"

#define ROUNDS_MAX       200
#define WARM             13 /* rounds in which a reducer tries its sizes */
#define RANKS_MAX        64
#define BLOCK            ((uint64_t)2048)   /* elements that stay in L1 */
#define REGISTERED_LEAST ((size_t)64 << 10) /* smaller ones are copied */

typedef enum way {
    VIEWS,
    REGISTERED,
    COPIED,
    LOOP,
    MPI,
    PACK,
    FLOOR,
    WAYS
} way;
static const char *const names[] = {"views", "registered", "copied", "loop",
                                    "mpi",   "pack",       "floor"};

static model all;
static int rank, size;
static float *own[MODEL_TENSORS_MAX], *view[MODEL_TENSORS_MAX], *packed;
static float *registered[MODEL_TENSORS_MAX];
static float *shared[RANKS_MAX];       /* all tensors of each rank */
static float *part[MODEL_TENSORS_MAX]; /* of its own */
static rg_ctx *ctx;
static rg_reducer *of_views, *of_copies, *of_registered;

static void need(rg_status st)
{
    if (st == RG_OK)
        return;
    fprintf(stderr, "bench_gradients: %s\n", rg_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void pause_ms(double ms)
{
    const struct timespec t = {(time_t)(ms / 1e3),
                               (long)((ms - 1e3 * (int)(ms / 1e3)) * 1e6)};
    nanosleep(&t, NULL);
}

/* ---------------------------------------------------------------- reducing */

static float *data_of(way w, int i)
{
    return w == VIEWS        ? view[i]
           : w == REGISTERED ? registered[i]
           : w == FLOOR      ? part[i]
                             : own[i];
}

static void write_all(way w)
{
    for (int i = 0; i < all.tensors; i++)
        for (uint64_t k = 0; k < all.count[i]; k++)
            data_of(w, i)[k] = (float)(rank + 1 + (int)(k % 7));
}

static uint64_t count_wrong(way w)
{
    uint64_t wrong = 0;
    for (int i = 0; i < all.tensors; i++)
        for (uint64_t k = 0; k < all.count[i]; k++)
            wrong += data_of(w, i)[k] !=
                     (float)(size * (size + 1) / 2 + size * (int)(k % 7));
    return wrong;
}

static void reduce_by_mpi(float *data, uint64_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void pack_and_reduce(void)
{
    float *at = packed;
    for (int i = 0; i < all.tensors; at += all.count[i++])
        memcpy(at, own[i], all.count[i] * sizeof *at);
    reduce_by_mpi(packed, all.total);
    at = packed;
    for (int i = 0; i < all.tensors; at += all.count[i++])
        memcpy(own[i], at, all.count[i] * sizeof *at);
}

static void sum_block(uint64_t at, uint64_t n)
{
    float *restrict mine = shared[rank] + at;
    for (int i = 1; i < size; i++) {
        const float *restrict theirs = shared[(rank + i) % size] + at;
        for (uint64_t k = 0; k < n; k++)
            mine[k] += theirs[k];
    }
    for (int i = 1; i < size; i++)
        memcpy(shared[(rank + i) % size] + at, mine, n * sizeof *mine);
}

static void sum_in_place(void)
{
    const uint64_t end = all.total * (uint64_t)(rank + 1) / (uint64_t)size;
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint64_t at = all.total * (uint64_t)rank / (uint64_t)size; at < end;
         at += BLOCK)
        sum_block(at, end - at < BLOCK ? end - at : BLOCK);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void reduce_after(way w)
{
    if (w == FLOOR) {
        sum_in_place();
        return;
    }
    if (w == PACK) {
        pack_and_reduce();
        return;
    }
    for (int i = all.tensors - 1; i >= 0; i--)
        if (w == LOOP)
            need(rg_allreduce(rg_world(ctx), own[i], own[i], all.count[i],
                              RG_F32, RG_SUM));
        else
            reduce_by_mpi(own[i], all.count[i]);
}

/* The part of backward that comes before a tensor, in steps of at least half a
 * millisecond. */
static double sleep_for(double *due, double backward_ms, int i)
{
    *due += backward_ms * (double)all.count[i] / (double)all.total;
    if (*due < 0.5)
        return 0;
    const double begin = now_ms();
    pause_ms(*due);
    *due = 0;
    return now_ms() - begin;
}

static double greatest(double mine)
{
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return mine;
}

typedef struct parts {
    double ready, after;
} parts;

/* What the step took beyond its sleep; parts of it: in rg_reducer_ready, and
 * behind all backwards. */
static double step(way w, double backward_ms, parts *p)
{
    rg_reducer *const of[WAYS] = {
        [VIEWS] = of_views, [REGISTERED] = of_registered, [COPIED] = of_copies};
    rg_reducer *r = of[w];
    double due = 0, slept = 0, ready = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now_ms();
    if (r != NULL)
        need(rg_reducer_start_step(r));
    for (int i = all.tensors - 1; i >= 0; i--) {
        slept += backward_ms > 0 ? sleep_for(&due, backward_ms, i) : 0;
        const double called = now_ms();
        if (r != NULL)
            need(rg_reducer_ready(r, i));
        ready += now_ms() - called;
    }
    const double backward = now_ms() - begin;
    if (r != NULL)
        need(rg_reducer_finish(r));
    else
        reduce_after(w);
    const double whole = now_ms() - begin;
    p->ready = greatest(ready);
    p->after = greatest(whole) - greatest(backward);
    return greatest(whole - slept);
}

static double shortest_barrier_us(void)
{
    double least = 1e9;
    for (int i = 0; i < 300; i++) {
        const double begin = now_ms();
        need(rg_barrier(rg_world(ctx)));
        const double took = (now_ms() - begin) * 1e3;
        least = took < least ? took : least;
    }
    return least;
}

/* -------------------------------------------------------------------- table */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const parts *p, int rounds, size_t offset)
{
    double of[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++)
        memcpy(&of[i], (const char *)&p[i] + offset, sizeof of[i]);
    qsort(of, (size_t)rounds, sizeof *of, compare);
    return of[rounds / 2];
}

static void print_row(way w, double *at_once, double *exposed, const parts *p,
                      int rounds, uint64_t wrong)
{
    qsort(at_once, (size_t)rounds, sizeof *at_once, compare);
    qsort(exposed, (size_t)rounds, sizeof *exposed, compare);
    printf("%-10s %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %6llu\n", names[w],
           at_once[rounds / 10], at_once[rounds / 2], exposed[rounds / 10],
           exposed[rounds / 2], median_of(p, rounds, offsetof(parts, ready)),
           median_of(p, rounds, offsetof(parts, after)),
           (unsigned long long)wrong);
}

static void make_buffers(uint64_t bucket_bytes)
{
    const rg_reducer_params params = {
        .size = sizeof params, .sum = 1, .bucket_bytes = bucket_bytes};
    need(rg_reducer_create(rg_world(ctx), &params, &of_views));
    need(rg_reducer_create(rg_world(ctx), &params, &of_copies));
    const rg_reducer_params in_place = {.size = sizeof in_place,
                                        .sum = 1,
                                        .bucket_bytes = bucket_bytes,
                                        .own_bytes = REGISTERED_LEAST};
    need(rg_reducer_create(rg_world(ctx), &in_place, &of_registered));
    packed = malloc(all.total * sizeof *packed);
    for (int i = 0; i < all.tensors; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        own[i] = malloc(all.count[i] * sizeof(float));
        registered[i] = malloc(all.count[i] * sizeof(float));
        if (all.count[i] * sizeof(float) >= REGISTERED_LEAST)
            need(rg_register(ctx, registered[i], all.count[i] * sizeof(float)));
        need(rg_reducer_add(of_registered, name, registered[i], all.count[i],
                            RG_F32, NULL));
        need(rg_reducer_add(of_views, name, NULL, all.count[i], RG_F32, NULL));
        need(rg_reducer_add(of_copies, name, own[i], all.count[i], RG_F32,
                            NULL));
    }
    for (int i = 0; i < all.tensors; i++) {
        void *at = NULL;
        need(rg_reducer_tensor(of_views, i, &at));
        view[i] = at;
    }
}

static void share_memory(void)
{
    float *at;
    MPI_Win window;
    if (size > RANKS_MAX) {
        fprintf(stderr, "bench_gradients: at most %d ranks\n", RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_allocate_shared((MPI_Aint)(all.total * sizeof *at), sizeof *at,
                            MPI_INFO_NULL, MPI_COMM_WORLD, &at, &window);
    for (int i = 0; i < all.tensors; at += all.count[i++])
        part[i] = at;
    for (int i = 0; i < size; i++) {
        MPI_Aint bytes;
        int unit;
        MPI_Win_shared_query(window, i, &bytes, &unit, &shared[i]);
    }
}

static const char *flag(int argc, char **argv, const char *name,
                        const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

int main(int argc, char **argv)
{
    static double at_once[WAYS][ROUNDS_MAX], exposed[WAYS][ROUNDS_MAX];
    static parts of[WAYS][ROUNDS_MAX];
    uint64_t wrong[WAYS] = {0};
    const int asked = atoi(flag(argc, argv, "--rounds", "20"));
    const int rounds = asked < 1 ? 1 : asked > ROUNDS_MAX ? ROUNDS_MAX : asked;
    const double backward = atof(flag(argc, argv, "--backward-ms", "30"));
    const char *model_name = flag(argc, argv, "--model", "resnet50");
    const char *only = flag(argc, argv, "--only",
                            "views,registered,copied,loop,mpi,pack,floor");
    const char *level = flag(argc, argv, "--thread-level", "single");
    int got = 0;
    MPI_Init_thread(&argc, &argv,
                    strcmp(level, "multiple") == 0 ? MPI_THREAD_MULTIPLE
                                                   : MPI_THREAD_SINGLE,
                    &got);
    need(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    if (strcmp(model_name, "gpt2") == 0)
        model_gpt2(&all);
    else
        model_resnet50(&all);
    make_buffers(strtoull(flag(argc, argv, "--bucket-bytes", "0"), NULL, 10));
    share_memory();
    double near = 1e9, far = 0;
    for (int k = rounds < WARM ? -1 : -WARM; k < rounds; k++) {
        const double barrier = shortest_barrier_us();
        near = barrier < near ? barrier : near;
        far = k >= 0 && barrier > far ? barrier : far;
        for (int w = 0; w < WAYS; w++) {
            if (strstr(only, names[w]) == NULL || (w > COPIED && k < -1))
                continue;
            const int at = k < 0 ? 0 : k;
            write_all((way)w);
            at_once[w][at] = step((way)w, 0, &of[w][at]);
            wrong[w] += count_wrong((way)w);
            write_all((way)w);
            exposed[w][at] = step((way)w, backward, &of[w][at]);
        }
    }
    const double before = cpu_ms();
    pause_ms(500);
    const double idle = cpu_ms() - before;
    if (rank == 0) {
        printf("# %s: %d tensors, %.1f MB, np %d, backward %.0f ms, %d "
               "rounds\n# way           p10    median   exposed    median     "
               "ready     after  wrong (ms)\n",
               model_name, all.tensors, (double)all.total * 4e-6, size,
               backward, rounds);
        for (int w = 0; w < WAYS; w++)
            if (strstr(only, names[w]) != NULL)
                print_row((way)w, at_once[w], exposed[w], of[w], rounds,
                          wrong[w]);
        printf("# barrier: %.2f to %.2f us\n# idle for 500 ms: %.2f ms of "
               "CPU\n",
               near, far, idle);
    }
    rg_reducer_destroy(of_views);
    rg_reducer_destroy(of_copies);
    rg_reducer_destroy(of_registered);
    need(rg_finalize(ctx));
    MPI_Finalize();
    return 0;
}
