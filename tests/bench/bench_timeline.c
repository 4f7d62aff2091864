/* bench_timeline: what a timeline costs a training step, with and without one
 * by turns in one run:
 *
 *   regroup run -n 2 bench_timeline [--turns N] [--steps N] [--step-ms MS]
 *
 * A step is a fixed amount of work that fills --step-ms (5) together with its
 * operations, so that what the agent and the writer of the timeline take from
 * the ranks' processors counts too. The operations, on ResNet-50's gradients
 * divided by 64:
 *
 *   buckets  by a reducer, in as many buckets as the whole ones have
 *   calls    an rg_allreduce for each
 *
 * Rank 0 begins and ends timelines (`regroup timeline`) in a file that it
 * removes. Two turns of few steps, one with a timeline, are a pair, the first
 * of them in turn the one and the other, so that what comes and goes on the
 * machine meets both. Prints the median step without, what the pairs' other
 * turns take more (the mean of the middle half of the differences, and its
 * standard error), and the processor time that agent and writer take more. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "tests/bench/models.h"

#define PART         64
#define BUCKET_BYTES (((uint64_t)4 << 20) / PART)
#define TURNS_MAX    2000
#define WARM         3 /* steps of a turn that do not count */

typedef enum way { BUCKETS, CALLS, WAYS } way;
static const char *const names[] = {"buckets", "calls"};

static rg_ctx *ctx;
static rg_reducer *reducer;
static model all;
static float *own[MODEL_TENSORS_MAX];
static uint64_t work;
static volatile double sink;

static void need(bool is_well, const char *what)
{
    if (is_well)
        return;
    fprintf(stderr, "bench_timeline: %s\n", what);
    exit(1);
}

static void need_ok(rg_status st)
{
    need(st == RG_OK, rg_last_error());
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double cpu_ms_of(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool is_child_named(const char *pid, pid_t parent, const char *name)
{
    char path[64], word[32] = "";
    int its_parent = 0;
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    FILE *file = fopen(path, "r");
    const bool is_read = file != NULL && fscanf(file, "%*d (%31[^)]) %*c %d",
                                                word, &its_parent) == 2;
    if (file != NULL)
        fclose(file);
    return is_read && its_parent == parent && strcmp(word, name) == 0;
}

/* Of this worker's agent and its writer. */
static double agent_ms(void)
{
    const pid_t agent = getppid();
    double ms = cpu_ms_of(agent);
    DIR *proc = opendir("/proc");
    need(proc != NULL, "there is no /proc");
    for (const struct dirent *e; (e = readdir(proc)) != NULL;)
        if (isdigit((unsigned char)e->d_name[0]) &&
            is_child_named(e->d_name, agent, "regroup"))
            ms += cpu_ms_of(atoi(e->d_name)); /* NOLINT: digits */
    closedir(proc);
    return ms;
}

static void compute(uint64_t n)
{
    double x = 0.5;
    for (uint64_t i = 0; i < n; i++)
        x = x * 0.999 + 1e-3;
    sink = x;
}

/* ------------------------------------------------------------------- steps */

static void reduce(way w)
{
    if (w == BUCKETS)
        need_ok(rg_reducer_start_step(reducer));
    for (int i = all.tensors - 1; i >= 0; i--)
        need_ok(w == BUCKETS ? rg_reducer_ready(reducer, i)
                             : rg_allreduce(rg_world(ctx), own[i], own[i],
                                            all.count[i], RG_F32, RG_MAX));
    if (w == BUCKETS)
        need_ok(rg_reducer_finish(reducer));
}

/* What a step takes, and of its agent. */
typedef struct cost {
    double ms, agent_ms;
} cost;

static cost steps(way w, int n)
{
    cost begin = {0, 0};
    for (int i = -WARM; i < n; i++) {
        if (i == 0) {
            begin.agent_ms = rg_rank(ctx) == 0 ? agent_ms() : 0;
            need_ok(rg_barrier(rg_world(ctx)));
            begin.ms = now_ms();
        }
        compute(work);
        reduce(w);
    }
    const double ms = now_ms() - begin.ms;
    return (cost){ms / n,
                  rg_rank(ctx) == 0 ? (agent_ms() - begin.agent_ms) / n : 0};
}

static double shortest_ms(way w)
{
    double least = steps(w, 50).ms;
    for (int i = 0; i < 4; i++)
        least = fmin(least, steps(w, 50).ms);
    return least;
}

/* The same on all ranks: a step of the slowest is long enough. */
static void choose_work(way w, double step_ms)
{
    const uint64_t tried = 1000000;
    work = 0;
    const double left_ms = step_ms - shortest_ms(w);
    const double begin = now_ms();
    compute(tried);
    const double one_ms = (now_ms() - begin) / (double)tried;
    work = left_ms > 0 ? (uint64_t)(left_ms / one_ms) : 0;
    need_ok(rg_allreduce(rg_world(ctx), &work, &work, 1, RG_U64, RG_MAX));
}

/* --------------------------------------------------------------- timelines */

static void begin_or_end(const char *arguments)
{
    char self[PATH_MAX] = "", command[2 * PATH_MAX];
    need(readlink("/proc/self/exe", self, sizeof self - 1) > 0,
         "it does not know where it is");
    char *name = strrchr(self, '/');
    *name = '\0';
    snprintf(command, sizeof command, "%s/regroup timeline %s >&2", self,
             arguments);
    need(system(command) == 0, command); /* NOLINT: no input of others */
}

static void trace(bool is_traced)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "start /tmp/bench_timeline.%d.json",
             (int)getpid());
    if (rg_rank(ctx) == 0)
        begin_or_end(is_traced ? arguments : "stop");
    need_ok(rg_barrier(rg_world(ctx)));
}

static cost turn(way w, int n, bool is_traced)
{
    if (is_traced)
        trace(true);
    cost c = steps(w, n);
    if (is_traced)
        trace(false);
    need_ok(rg_allreduce(rg_world(ctx), &c, &c, 2, RG_F64, RG_MAX));
    return c;
}

/* ------------------------------------------------------------------- table */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int n)
{
    qsort(of, (size_t)n, sizeof *of, by_size);
    return n % 2 == 1 ? of[n / 2] : (of[n / 2 - 1] + of[n / 2]) / 2;
}

/* The mean of the middle half; *error_p: its standard error, for which what was
 * cut off counts as the nearest that was not. */
static double middle(double *of, int n, double *error_p)
{
    const int cut = n / 4, kept = n - 2 * cut;
    double sum = 0, clipped = 0, squares = 0;
    qsort(of, (size_t)n, sizeof *of, by_size);
    for (int i = 0; i < n; i++) {
        const double x = of[i < cut ? cut : i >= n - cut ? n - cut - 1 : i];
        clipped += x;
        squares += x * x;
        sum += i >= cut && i < n - cut ? x : 0;
    }
    const double variance =
        n > 1 ? (squares - clipped * clipped / n) / (n - 1) : 0;
    *error_p = sqrt(fmax(variance, 0) / n) * n / kept;
    return sum / kept;
}

static void measure(way w, int turns, int n, double step_ms)
{
    static double without[TURNS_MAX], more[TURNS_MAX], agent[TURNS_MAX];
    double error, agent_error;
    choose_work(w, step_ms);
    for (int i = 0; i < turns; i++) {
        cost bare = {0, 0}, traced;
        if (i % 2 == 0)
            bare = turn(w, n, false);
        traced = turn(w, n, true);
        if (i % 2 == 1)
            bare = turn(w, n, false);
        without[i] = bare.ms;
        more[i] = traced.ms - bare.ms;
        agent[i] = traced.agent_ms - bare.agent_ms;
    }
    const double typical = median(without, turns);
    const double longer = middle(more, turns, &error);
    if (rg_rank(ctx) == 0)
        printf("%-8s %9.3f %9.4f %9.4f %8.2f%% %8.2f%% %9.4f\n", names[w],
               typical, longer, error, 100 * longer / typical,
               100 * error / typical, middle(agent, turns, &agent_error));
    fflush(stdout);
}

static void make_tensors(void)
{
    const rg_reducer_params params = {.size = sizeof params,
                                      .bucket_bytes = BUCKET_BYTES};
    model_resnet50(&all);
    need_ok(rg_reducer_create(rg_world(ctx), &params, &reducer));
    for (int i = 0; i < all.tensors; i++) {
        all.count[i] = (all.count[i] + PART - 1) / PART;
        need_ok(rg_reducer_add(reducer, "", NULL, all.count[i], RG_F32, NULL));
        own[i] = calloc(all.count[i], sizeof *own[i]);
        need(own[i] != NULL, "no memory for a tensor");
    }
}

static double flag(int argc, char **argv, const char *name, double otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return atof(argv[i + 1]); /* NOLINT: limited by those that ask */
    return otherwise;
}

static int limited(double asked, int most)
{
    return asked < 1 ? 1 : asked > most ? most : (int)asked;
}

int main(int argc, char **argv)
{
    const int turns = limited(flag(argc, argv, "--turns", 40), TURNS_MAX);
    const int n = limited(flag(argc, argv, "--steps", 40), 100000);
    const double step_ms = flag(argc, argv, "--step-ms", 5);
    need_ok(rg_init(NULL, &ctx));
    make_tensors();
    if (rg_rank(ctx) == 0)
        printf(
            "# np %d, %d tensors, %d pairs of turns of %d steps (ms)\n# way "
            "    without      more     error      more     error     agent\n",
            rg_size(ctx), all.tensors, turns, n);
    for (int w = 0; w < WAYS; w++)
        measure((way)w, turns, n, step_ms);
    rg_reducer_destroy(reducer);
    need_ok(rg_finalize(ctx));
    return 0;
}
