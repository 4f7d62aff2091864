/* A rank for bench_relaunch: an allreduce of MPI's own and a commit in every
 * step. It appends when it got where to FILE, "<ns> <pid> <rank> <what>", by
 * CLOCK_MONOTONIC.
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

static int out, rank = -1;

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static void stamp(uint64_t ns, const char *what)
{
    char line[80];
    const int n = snprintf(line, sizeof line, "%llu %d %d %s\n",
                           (unsigned long long)ns, (int)getpid(), rank, what);
    if (write(out, line, (size_t)n) != n)
        exit(1);
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

static void resume(rg_state *state)
{
    uint64_t step = 0;
    const rg_status st = rg_state_resume(state, &step);
    if (st != RG_ERR_NOT_FOUND)
        check(st, "rg_state_resume");
    stamp(now(), "restore");
}

/* Until a rank is lost; state NULL: none. */
static void work(MPI_Comm comm, rg_state *state)
{
    int64_t mine = 1, all = 0;
    for (uint64_t step = 0;; step++) {
        if (MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, comm) !=
            MPI_SUCCESS)
            return;
        if (step == 0)
            stamp(now(), "collective");
        const rg_status st = state != NULL ? rg_state_commit(state) : RG_OK;
        if (st == RG_ERR_PEER_LOST)
            return;
        check(st, "rg_state_commit");
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    }
}

int main(int argc, char **argv)
{
    const uint64_t begun = now();
    rg_ctx *ctx = NULL;
    rg_state *state = NULL;
    const size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    void *memory = bytes > 0 ? calloc(1, bytes) : NULL;
    out = argc > 2 ? open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (out < 0 || memory == NULL)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    stamp(begun, "launch");
    stamp(now(), "mpi_init");
    const int is_bare = argc > 3 && strcmp(argv[3], "--bare") == 0;
    const int is_ulfm = argc > 3 && !is_bare;
    if (!is_bare) {
        check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx), "rg_init_mpi");
        stamp(now(), "rg_init");
        state = make_state(ctx, memory, bytes);
        resume(state);
    }
    if (!is_ulfm)
        work(MPI_COMM_WORLD, state);
    for (; is_ulfm; resume(state)) {
        MPI_Comm comm;
        const rg_status st = rg_set_mpi_comm(rg_world(ctx), &comm);
        if (st == RG_OK)
            work(comm, state);
        else if (st != RG_ERR_PEER_LOST)
            check(st, "rg_set_mpi_comm");
    }
    return 1;
}
