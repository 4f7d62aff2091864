/* Times a collective of float32 over the world, in ordinary and in rg_alloc
 * memory; rank 0 prints a table. The size is that of one rank's data.
 *
 *   bench_collectives [--op allreduce|broadcast|allgather] [--sizes 8,64K,1M]
 *                     [--seconds S] [--json]
 *
 * Before each operation every rank rewrites its whole buffer and a barrier
 * takes the skew away; the time of an operation is the maximum over the ranks;
 * every result is checked at some places. p10 is what it takes undisturbed. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "regroup/regroup.h"

#define TIMES_MAX 2000
#define SIZES_MAX 32

static void need(rg_status st, const char *what)
{
    if (st == RG_OK)
        return;
    fprintf(stderr, "bench_collectives: %s: %s\n", what, rg_last_error());
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t read_size(const char *text, char **end)
{
    uint64_t n = strtoull(text, end, 10);
    if (**end == 'K')
        n <<= 10;
    else if (**end == 'M')
        n <<= 20;
    if (**end == 'K' || **end == 'M')
        ++*end;
    return n;
}

typedef enum op { ALLREDUCE, BROADCAST, ALLGATHER, OPS } op;
static const char *const op_names[OPS] = {"allreduce", "broadcast",
                                          "allgather"};

typedef struct plan {
    op op;
    uint64_t sizes[SIZES_MAX];
    int count;
    double seconds; /* per row */
    bool is_json;
} plan;

static bool read_sizes(plan *p, const char *text)
{
    p->count = 0;
    while (p->count < SIZES_MAX) {
        char *end;
        p->sizes[p->count] = read_size(text, &end);
        if (end == text || p->sizes[p->count] < 4)
            return false;
        p->count++;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
    return false;
}

static bool read_op(plan *p, const char *text)
{
    for (int i = 0; i < OPS; i++)
        if (strcmp(text, op_names[i]) == 0) {
            p->op = (op)i;
            return true;
        }
    return false;
}

static bool read_plan(plan *p, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            p->is_json = true;
        else if (strcmp(argv[i], "--sizes") == 0 && i + 1 < argc) {
            if (!read_sizes(p, argv[++i]))
                return false;
        } else if (strcmp(argv[i], "--op") == 0 && i + 1 < argc) {
            if (!read_op(p, argv[++i]))
                return false;
        } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            p->seconds = strtod(argv[++i], NULL);
        else
            return false;
    }
    return p->seconds > 0;
}

static void touch(float *data, uint64_t count, int rank)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = (float)(rank + 1);
}

static int wrong(const float *data, uint64_t count, float want)
{
    int bad = 0;
    for (uint64_t i = 0; i < count; i += 1 + count / 97)
        bad += data[i] != want;
    return bad + (data[count - 1] != want);
}

static int all_wrong(const plan *p, rg_ctx *ctx, const float *data,
                     uint64_t count)
{
    const int n = rg_size(ctx);
    int bad = 0;
    if (p->op == ALLREDUCE)
        return wrong(data, count, (float)(n * (n + 1)) / 2);
    if (p->op == BROADCAST)
        return wrong(data, count, 1);
    for (int r = 0; r < n; r++)
        bad += wrong(data + (uint64_t)r * count, count, (float)(r + 1));
    return bad;
}

static rg_status collective(const plan *p, rg_ctx *ctx, float *data,
                            float *mine, uint64_t count)
{
    rg_set *world = rg_world(ctx);
    if (p->op == ALLREDUCE)
        return rg_allreduce(world, data, data, count, RG_F32, RG_SUM);
    if (p->op == BROADCAST)
        return rg_broadcast(world, data, count, RG_F32, 0);
    return rg_allgather(world, mine, data, count, RG_F32);
}

typedef struct row {
    double p10, median;
    int64_t wrong;
    int times;
} row;

static double once(rg_ctx *ctx, const plan *p, float *data, uint64_t count,
                   int64_t *bad)
{
    /* an allgather in place */
    float *mine =
        data + (p->op == ALLGATHER ? (uint64_t)rg_rank(ctx) * count : 0);
    touch(mine, count, rg_rank(ctx));
    need(rg_barrier(rg_world(ctx)), "rg_barrier");
    const double begin = now_us();
    need(collective(p, ctx, data, mine, count), op_names[p->op]);
    const double took = now_us() - begin;
    *bad += all_wrong(p, ctx, data, count);
    return took;
}

static row measure(rg_ctx *ctx, const plan *p, float *data, uint64_t bytes)
{
    static double times[TIMES_MAX];
    const uint64_t count = bytes / sizeof *data;
    row r = {0};
    double first = 0;
    for (int i = 0; i < 3; i++)
        first = once(ctx, p, data, count, &r.wrong);
    double n = p->seconds * 1e6 / (first + 20);
    need(rg_allreduce(rg_world(ctx), &n, &n, 1, RG_F64, RG_MIN), "times");
    r.times = n < 11 ? 11 : n > TIMES_MAX ? TIMES_MAX : (int)n;
    for (int i = 0; i < r.times; i++)
        times[i] = once(ctx, p, data, count, &r.wrong);
    need(rg_allreduce(rg_world(ctx), times, times, (uint64_t)r.times, RG_F64,
                      RG_MAX),
         "times");
    need(rg_allreduce(rg_world(ctx), &r.wrong, &r.wrong, 1, RG_I64, RG_SUM),
         "wrong");
    qsort(times, (size_t)r.times, sizeof *times, by_size);
    r.p10 = times[r.times / 10];
    r.median = times[r.times / 2];
    return r;
}

static void print_row(const plan *p, uint64_t bytes, row user, row own)
{
    if (p->is_json)
        printf("{\"bytes\": %llu, \"user_p10_us\": %.2f, \"user_us\": %.2f, "
               "\"alloc_p10_us\": %.2f, \"alloc_us\": %.2f, \"wrong\": %lld}\n",
               (unsigned long long)bytes, user.p10, user.median, own.p10,
               own.median, (long long)(user.wrong + own.wrong));
    else
        printf("%12llu %10.1f %10.1f %8.3f %10.1f %10.1f %8.3f %6lld\n",
               (unsigned long long)bytes, user.p10, user.median,
               (double)bytes / user.p10 / 1e3, own.p10, own.median,
               (double)bytes / own.p10 / 1e3,
               (long long)(user.wrong + own.wrong));
    fflush(stdout);
}

static void run(rg_ctx *ctx, const plan *p)
{
    uint64_t most = 0;
    for (int i = 0; i < p->count; i++)
        most = p->sizes[i] > most ? p->sizes[i] : most;
    if (p->op == ALLGATHER)
        most *= (uint64_t)rg_size(ctx);
    float *user = malloc(most);
    void *own = NULL;
    need(user == NULL ? RG_ERR_MEMORY : rg_alloc(ctx, most, NULL, &own),
         "memory");
    if (rg_rank(ctx) == 0 && !p->is_json)
        printf("# %d ranks on %d hosts, %s of float32 in place\n"
               "#       size   user:p10     median     GB/s  alloc:p10     "
               "median     GB/s  wrong\n",
               rg_size(ctx), rg_host_count(ctx), op_names[p->op]);
    for (int i = 0; i < p->count; i++) {
        const row a = measure(ctx, p, user, p->sizes[i]);
        const row b = measure(ctx, p, own, p->sizes[i]);
        if (rg_rank(ctx) == 0)
            print_row(p, p->sizes[i], a, b);
    }
    need(rg_free(ctx, own), "rg_free");
    free(user);
}

int main(int argc, char **argv)
{
    plan p = {.sizes = {8, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20,
                        4 << 20, 16 << 20},
              .count = 8,
              .seconds = 0.5};
    rg_ctx *ctx = NULL;
    if (!read_plan(&p, argc, argv)) {
        fprintf(stderr,
                "bench_collectives [--op allreduce|broadcast|allgather] "
                "[--sizes 8,64K,1M] [--seconds S] [--json]\n");
        return 64;
    }
    need(rg_init(NULL, &ctx), "rg_init");
    run(ctx, &p);
    need(rg_finalize(ctx), "rg_finalize");
    return 0;
}
