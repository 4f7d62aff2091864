/* A rank for bench_relaunch: an allreduce of MPI's own and a commit in every
 * step. It appends when it got where to FILE, "<ns> <pid> <launch> <what>", by
 * CLOCK_MONOTONIC. The step that it has committed last is in FILE.RANK, and a
 * launch that resumes from an earlier one says how many were lost.
 *
 *   bench_relaunch_worker FILE BYTES [--bare | --ulfm]
 *
 *   --bare  without Regroup
 *   --ulfm  ranks that are left go on in place, and say so again */
#include <mpi.h>
#include <regroup/regroup_mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 5000000
#define REST_NS  100000000

static int out, steps, rank = -1;
static char rests[4096];
static const char *launch = "-";

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static void stamp(uint64_t ns, const char *what)
{
    char line[120];
    const int n = snprintf(line, sizeof line, "%llu %d %s %s\n",
                           (unsigned long long)ns, (int)getpid(), launch, what);
    if (write(out, line, (size_t)n) != n)
        exit(1);
}

static void open_steps(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", path, rank);
    steps = open(name, O_RDWR | O_CREAT, 0600);
}

/* Of this rank, in any launch. */
static void count_lost(uint64_t resumed)
{
    char what[40];
    uint64_t step = 0;
    if (pread(steps, &step, sizeof step, 0) != sizeof step || resumed >= step)
        return;
    snprintf(what, sizeof what, "lost %llu",
             (unsigned long long)(step - resumed));
    stamp(now(), what);
}

static void check(rg_status st, const char *what)
{
    if (st == RG_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, rg_last_error());
    exit(1);
}

static rg_state *make_state(rg_ctx *ctx, void *memory, size_t bytes)
{
    rg_state *state = NULL;
    check(rg_state_create(ctx, NULL, &state), "rg_state_create");
    check(rg_state_add(state, "memory", memory, bytes, NULL), "rg_state_add");
    return state;
}

static uint64_t resume(rg_state *state)
{
    uint64_t step = 0;
    const rg_status st = rg_state_resume(state, &step);
    if (st != RG_ERR_NOT_FOUND)
        check(st, "rg_state_resume");
    stamp(now(), "restore");
    count_lost(step);
    return step;
}

/* Until a rank is lost; state NULL: none. While it is another job's turn, and
 * FILE.rests there, a step is rare: some MPIs' ranks spin in each. */
static void work(MPI_Comm comm, rg_state *state, uint64_t from)
{
    int64_t all = 0;
    for (uint64_t step = from;;) {
        const int64_t mine = access(rests, F_OK) == 0;
        if (MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, comm) !=
            MPI_SUCCESS)
            return;
        if (step == from)
            stamp(now(), "collective");
        const rg_status st = state != NULL ? rg_state_commit(state) : RG_OK;
        if (st == RG_ERR_PEER_LOST)
            return;
        check(st, "rg_state_commit");
        step++;
        if (pwrite(steps, &step, sizeof step, 0) != sizeof step)
            exit(1);
        nanosleep(&(struct timespec){.tv_nsec = all > 0 ? REST_NS : PAUSE_NS},
                  NULL);
    }
}

int main(int argc, char **argv)
{
    const uint64_t begun = now();
    rg_ctx *ctx = NULL;
    rg_state *state = NULL;
    const size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    void *memory = bytes > 0 ? calloc(1, bytes) : NULL;
    snprintf(rests, sizeof rests, "%s.rests", argc > 1 ? argv[1] : "");
    out = argc > 2 ? open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (out < 0 || memory == NULL)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    open_steps(argv[1]);
    if (getenv("REGROUP_RESTART") != NULL)
        launch = getenv("REGROUP_RESTART");
    stamp(begun, "launch");
    stamp(now(), "mpi_init");
    const int is_bare = argc > 3 && strcmp(argv[3], "--bare") == 0;
    const int is_ulfm = argc > 3 && !is_bare;
    uint64_t step = 0;
    if (!is_bare) {
        check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx), "rg_init_mpi");
        stamp(now(), "rg_init");
        state = make_state(ctx, memory, bytes);
        step = resume(state);
    }
    if (!is_ulfm)
        work(MPI_COMM_WORLD, state, step);
    for (; is_ulfm; step = resume(state)) {
        MPI_Comm comm;
        const rg_status st = rg_set_mpi_comm(rg_world(ctx), &comm);
        if (st == RG_OK)
            work(comm, state, step);
        else if (st != RG_ERR_PEER_LOST)
            check(st, "rg_set_mpi_comm");
    }
    return 1;
}
