/* An MPI program without fn, for jobs under `regroup run --mpi`: its value
 * after k steps is known, whatever happens meanwhile (launching.py computes the
 * same), and it ends when a file is there.
 *
 *   solver UNTIL-FILE [--exit-at STEP CODE RANK | --stay RANK [CODE] | --read |
 *                      --hang-at STEP | --no-steps | --return CODE RANK |
 *                      --end CODE RANK | --ballast MB]
 *
 * --hang-at: there rank 0 waits for a message that no rank sends; in the first
 * launch only, unless STEP is 0. --no-steps: it has no state. --return: from
 * main; --end: behind rg_finalize, without MPI_Finalize. --stay: until SIGUSR1,
 * and then it returns from main. --ballast: memory that a
 * core dump has to write. */
#include <mpi.h>
#include <regroup/regroup_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CELLS 4096

static struct field {
    uint64_t value, sum;
    uint64_t cell[CELLS];
} field;

static int rank, size;

static void check(rg_status st, const char *what)
{
    if (st == RG_OK)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, rg_last_error());
    exit(1);
}

/* Beyond 128: by a signal; below 0: by MPI_Abort, which may return. */
static void end(int code)
{
    if (code < 0)
        MPI_Abort(MPI_COMM_WORLD, -code);
    if (code > 128)
        kill(getpid(), code - 128);
    exit(code < 0 ? -code : code);
}

/* A blocking collective of the program's own MPI. */
static void step(uint64_t k)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    uint64_t mine = (uint64_t)(rank + 1) * (k + 1), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    field.value = field.value * 31 + all;
    field.cell[k % CELLS] += field.value;
    nanosleep(&pause, NULL);
}

static void await_signal(void)
{
    sigset_t one;
    int signum;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    fprintf(stderr, "rank %d stays\n", rank);
    sigwait(&one, &signum);
}

static void hang(uint64_t at)
{
    const char *restart = getenv("REGROUP_RESTART");
    int never;
    if (rank == 0 && (at == 0 || (restart != NULL && atoi(restart) == 0)))
        MPI_Recv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void take_ballast(size_t megabytes)
{
    static char *volatile ballast; /* or the compiler leaves it out */
    ballast = malloc(megabytes << 20);
    if (ballast != NULL)
        memset(ballast, 1, megabytes << 20);
}

static void print_input(void)
{
    char line[100];
    while (fgets(line, sizeof line, stdin) != NULL)
        printf("rank %d reads %s", rank, line);
}

static int is_finished(const char *path)
{
    int finished = rank == 0 && access(path, F_OK) == 0;
    MPI_Bcast(&finished, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return finished;
}

int main(int argc, char **argv)
{
    uint64_t at = 0;
    int world = 0, code = 0, fails = -1;
    uint64_t exit_at = UINT64_MAX, hang_at = UINT64_MAX;
    rg_ctx *ctx = NULL;
    rg_state *state = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 5 && strcmp(argv[2], "--exit-at") == 0) {
        exit_at = strtoull(argv[3], NULL, 10);
        code = atoi(argv[4]);
        fails = atoi(argv[5]);
    }
    if (argc > 3 && strcmp(argv[2], "--hang-at") == 0)
        hang_at = strtoull(argv[3], NULL, 10);
    if (argc > 3 && strcmp(argv[2], "--ballast") == 0)
        take_ballast(strtoul(argv[3], NULL, 10));
    if (rank == 0 && argc > 2 && strcmp(argv[2], "--read") == 0)
        print_input();
    check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx), "rg_init_mpi");
    world = rg_rank(ctx);
    if (world != rank || rg_size(ctx) != size) {
        fprintf(stderr, "rank %d of MPI is rank %d of Regroup\n", rank, world);
        return 3;
    }
    if (argc > 2 && strcmp(argv[2], "--no-steps") == 0) {
        while (!is_finished(argv[1]))
            step(at++);
        check(rg_finalize(ctx), "rg_finalize");
        return MPI_Finalize();
    }
    check(rg_state_create(ctx, NULL, &state), "rg_state_create");
    check(rg_state_add(state, "field", &field, sizeof field, NULL),
          "rg_state_add");
    const rg_status st = rg_state_resume(state, &at);
    if (st != RG_ERR_NOT_FOUND)
        check(st, "rg_state_resume");
    while (!is_finished(argv[1])) {
        if (rank == fails && at == exit_at)
            end(code);
        if (at == hang_at)
            hang(at);
        step(at++);
        const rg_status made = rg_state_commit(state);
        if (made == RG_ERR_HOSTS_CHANGED) {
            fprintf(stderr, "rank %d ends at step %llu\n", rank,
                    (unsigned long long)at);
            break;
        }
        check(made, "rg_state_commit");
    }
    if (rank == 0)
        printf("final step %llu value %016llx of %d\n", (unsigned long long)at,
               (unsigned long long)field.value, size);
    fflush(stdout);
    check(rg_finalize(ctx), "rg_finalize");
    rg_state_destroy(state);
    if (argc > 3 && strcmp(argv[2], "--stay") == 0 && rank == atoi(argv[3]))
        await_signal(); /* and the others wait for it in MPI_Finalize */
    if (argc > 4 && strcmp(argv[2], "--end") == 0 && rank == atoi(argv[4]))
        end(atoi(argv[3]));
    MPI_Finalize();
    if (argc > 4 && strcmp(argv[2], "--stay") == 0 && rank == atoi(argv[3]))
        return atoi(argv[4]);
    return argc > 4 && strcmp(argv[2], "--return") == 0 && rank == atoi(argv[4])
               ? atoi(argv[3])
               : 0;
}
