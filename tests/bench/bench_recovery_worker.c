/* The worker of bench_recovery: a state of --bytes, an allreduce and a commit
 * in every step, forever. A step changes one byte of the state, with --rewrite
 * all of it. After the first step of each generation, and when it
 * leaves one for the last, it appends a line to STAMPS/<pid>:
 *
 *   t_ns generation rank size first|last steps longest_ns
 *
 * with the steps so far and the longest time from the end of one to the next.
 * With --floor N it is no worker: N processes at once copy the whole state out
 * of their host's vault (a restore) and their part of it into that (a commit),
 * and it prints the nanoseconds until the last has finished, once per round:
 * what no recovery of the same state can beat. --vaults H: they are H hosts.
 *
 * With --commits N it commits the whole state N times, rewritten each time, and
 * by turns copies its part of it with memcpy, both on all ranks at once; rank 0
 * prints the medians. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <regroup/regroup.h>

#define ELEMENTS 4096 /* of the allreduce: 16 KiB of gradients */
#define ROUNDS   9
#define WARM_UP  3 /* commits, so that no page is new when it counts */

typedef struct bench {
    size_t bytes;
    int step_ms, floor, vaults, commits;
    bool rewrites;
    const char *stamps;
    rg_ctx *ctx;
    char *data;      /* registered */
    float *gradient; /* rg_alloc */
    int fd;          /* of the stamps */
} bench;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ worker */

static rg_status step(rg_state *state, bench *b)
{
    rg_status st = rg_allreduce(rg_world(b->ctx), b->gradient, b->gradient,
                                ELEMENTS, RG_F32, RG_AVG);
    if (st != RG_OK)
        return st;
    if (b->rewrites)
        memset(b->data, (int)rg_state_step(state) + 1, b->bytes);
    else
        b->data[rg_state_step(state) % b->bytes]++;
    const struct timespec more = {b->step_ms / 1000,
                                  b->step_ms % 1000 * 1000000L};
    if (b->step_ms > 0)
        nanosleep(&more, NULL);
    return rg_state_commit(state);
}

/* Of one generation. */
typedef struct place {
    uint64_t generation;
    int rank, size;
    uint64_t steps, last_ns, longest_ns;
} place;

static void stamp(const bench *b, const place *p, const char *what)
{
    char line[160];
    const int n =
        snprintf(line, sizeof line,
                 "%" PRIu64 " %" PRIu64 " %d %d %s %" PRIu64 " %" PRIu64 "\n",
                 p->last_ns, p->generation, p->rank, p->size, what, p->steps,
                 p->longest_ns);
    if (write(b->fd, line, (size_t)n) != n)
        perror("bench_recovery_worker: stamp");
}

static void count_step(const bench *b, place *p)
{
    const uint64_t t_ns = now_ns();
    if (p->steps > 0 && t_ns - p->last_ns > p->longest_ns)
        p->longest_ns = t_ns - p->last_ns;
    p->last_ns = t_ns;
    if (++p->steps == 1)
        stamp(b, p, "first");
}

static rg_status train(rg_state *state, void *arg)
{
    bench *b = arg;
    place p = {
        rg_generation(b->ctx), rg_rank(b->ctx), rg_size(b->ctx), 0, 0, 0};
    for (;;) {
        const rg_status st = step(state, b);
        if (st == RG_OK || st == RG_ERR_HOSTS_CHANGED)
            count_step(b, &p);
        if (st != RG_OK) {
            stamp(b, &p, "last");
            return st;
        }
    }
}

/* ----------------------------------------------------------------- commits */

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_ms(uint64_t *ns, int n)
{
    qsort(ns, (size_t)n, sizeof *ns, compare_times);
    return (double)ns[n / 2] / 1e6;
}

/* One of each; all ranks begin together. */
static rg_status commit_and_copy(rg_state *state, bench *b, char *copy,
                                 uint64_t *commit_ns, uint64_t *copy_ns)
{
    const size_t part = b->bytes / (size_t)rg_size(b->ctx);
    memset(b->data, (int)rg_state_step(state) + 1, b->bytes);
    rg_status st = rg_barrier(rg_world(b->ctx));
    const uint64_t began = now_ns();
    if (st == RG_OK)
        st = rg_state_commit(state);
    *commit_ns = now_ns() - began;
    if (st == RG_OK)
        st = rg_barrier(rg_world(b->ctx));
    const uint64_t copied = now_ns();
    memcpy(copy, b->data + part * (size_t)rg_rank(b->ctx), part);
    *copy_ns = now_ns() - copied;
    return st;
}

static rg_status commit_often(rg_state *state, void *arg)
{
    bench *b = arg;
    const int n = b->commits;
    uint64_t *ns = calloc(2 * (size_t)n, sizeof *ns);
    char *copy = malloc(b->bytes);
    rg_status st = ns != NULL && copy != NULL ? RG_OK : RG_ERR_MEMORY;
    if (st == RG_OK)
        memset(copy, 1, b->bytes);
    for (int i = -WARM_UP; i < n && st == RG_OK; i++) {
        const int at = i < 0 ? 0 : i;
        st = commit_and_copy(state, b, copy, &ns[at], &ns[n + at]);
    }
    if (st == RG_OK && rg_rank(b->ctx) == 0)
        printf("commit of %zu bytes on %d ranks: %.2f ms; memcpy of a rank's "
               "part: %.2f ms\n",
               b->bytes, rg_size(b->ctx), median_ms(ns, n),
               median_ms(ns + n, n));
    free(copy);
    free(ns);
    return st;
}

static int open_stamps(bench *b)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", b->stamps, (int)getpid());
    b->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (b->fd < 0)
        perror(path);
    return b->fd < 0 ? -1 : 0;
}

static rg_status work(bench *b)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_state *state = NULL;
    void *gradient = NULL;
    rg_status st = rg_init(&params, &b->ctx);
    if (st == RG_OK)
        st = rg_state_create(b->ctx, NULL, &state);
    if (st == RG_OK)
        st = rg_state_add(state, "state", b->data, b->bytes, NULL);
    if (st == RG_OK)
        st = rg_alloc(b->ctx, ELEMENTS * sizeof(float), NULL, &gradient);
    b->gradient = gradient;
    if (st == RG_OK)
        st = rg_run(state, b->commits > 0 ? commit_often : train, b);
    if (st != RG_OK)
        fprintf(stderr, "bench_recovery_worker: %s: %s\n", rg_status_text(st),
                rg_last_error());
    rg_state_destroy(state);
    rg_finalize(b->ctx);
    return st;
}

/* ------------------------------------------------------------------- floor */

typedef struct meeting {
    _Atomic int arrived, gone;
    _Atomic uint64_t last_ns;
} meeting;

/* As one survivor: all of its vault's copy, then a part of it back. A vault has
 * room for two copies. */
static void copy_once(const bench *b, char *vaults, int i)
{
    const int host = i % b->vaults;
    const int on_host = (b->floor - host + b->vaults - 1) / b->vaults;
    const size_t part = b->bytes / (size_t)on_host;
    const size_t begin = part * (size_t)(i / b->vaults);
    char *vault = vaults + 2 * b->bytes * (size_t)host;
    memcpy(b->data, vault, b->bytes);
    memcpy(vault + b->bytes + begin, b->data + begin, part);
}

static void floor_child(const bench *b, meeting *m, char *vaults, int i)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    copy_once(b, vaults, i); /* so that no page is new when it counts */
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) <= b->floor)
        sched_yield();
    copy_once(b, vaults, i);
    uint64_t last = atomic_load(&m->last_ns);
    const uint64_t mine = now_ns();
    while (last < mine &&
           !atomic_compare_exchange_weak(&m->last_ns, &last, mine))
        continue;
    _exit(0);
}

static uint64_t floor_round(const bench *b, meeting *m, char *vaults)
{
    *m = (meeting){0};
    for (int i = 0; i < b->floor; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            floor_child(b, m, vaults, i);
        if (pid < 0) {
            perror("bench_recovery_worker: floor");
            exit(1); /* its children follow: PR_SET_PDEATHSIG */
        }
    }
    while (atomic_load(&m->arrived) < b->floor)
        sched_yield();
    const uint64_t began = now_ns();
    atomic_fetch_add(&m->arrived, 1);
    while (wait(NULL) > 0)
        continue;
    return atomic_load(&m->last_ns) - began;
}

static int print_floor(const bench *b)
{
    const size_t all = 2 * b->bytes * (size_t)b->vaults;
    char *vaults = mmap(NULL, all + sizeof(meeting), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (vaults == MAP_FAILED) {
        perror("bench_recovery_worker: floor");
        return 1;
    }
    memset(vaults, 1, all);
    meeting *m = (meeting *)(void *)(vaults + all);
    for (int round = 0; round < ROUNDS; round++)
        printf("%" PRIu64 "\n", floor_round(b, m, vaults));
    return 0;
}

/* -------------------------------------------------------------------- main */

static int read_flags(int argc, char **argv, bench *b)
{
    static const struct option flags[] = {
        {"bytes", required_argument, NULL, 'b'},
        {"step-ms", required_argument, NULL, 's'},
        {"rewrite", no_argument, NULL, 'r'},
        {"stamps", required_argument, NULL, 'd'},
        {"floor", required_argument, NULL, 'f'},
        {"vaults", required_argument, NULL, 'v'},
        {"commits", required_argument, NULL, 'c'},
        {0}};
    for (int c; (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (c == 'b')
            b->bytes = strtoull(optarg, NULL, 10);
        else if (c == 's')
            b->step_ms = atoi(optarg);
        else if (c == 'r')
            b->rewrites = true;
        else if (c == 'd')
            b->stamps = optarg;
        else if (c == 'f')
            b->floor = atoi(optarg);
        else if (c == 'v')
            b->vaults = atoi(optarg);
        else if (c == 'c')
            b->commits = atoi(optarg);
        else
            return -1;
    }
    return b->bytes > 0 && b->bytes % 64 == 0 && b->vaults > 0 &&
                   (b->floor >= b->vaults || b->stamps != NULL ||
                    b->commits > 0)
               ? 0
               : -1;
}

int main(int argc, char **argv)
{
    bench b = {.vaults = 1, .fd = -1};
    if (read_flags(argc, argv, &b) != 0) {
        fprintf(stderr,
                "usage: bench_recovery_worker --bytes N (--stamps DIR "
                "[--step-ms N] [--rewrite] | --floor PROCESSES [--vaults N] | "
                "--commits N)\n");
        return 64;
    }
    b.data = aligned_alloc(64, b.bytes);
    if (b.data == NULL) {
        perror("bench_recovery_worker");
        return 1;
    }
    memset(b.data, 0, b.bytes);
    int code = 1;
    if (b.floor > 0)
        code = print_floor(&b);
    else if (b.commits > 0 || open_stamps(&b) == 0)
        code = work(&b) == RG_OK ? 0 : 1;
    free(b.data);
    return code;
}
