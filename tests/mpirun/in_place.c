/* An MPI program whose ranks outlive others, for jobs under --mpi=ulfm. Its
 * value after k steps is known: it adds what all ranks of each committed world
 * have counted, so each commit says how many they were. MPI's results count
 * once they are committed: one that is wrong must not be.
 *
 *   in_place UNTIL-FILE [--bare | --sets | --late FILE | --last RANK |
 *                        --stay RANK]
 *
 * --late: in the first world of 3 or more the last rank commits step LATE
 * before the others, which do so when FILE is there, and then have got a wrong
 * sum. --last: in the first launch that rank never comes to rg_finalize.
 * --stay: that one never leaves it for MPI_Finalize. */
#include <mpi.h>
#include <regroup/regroup_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CELLS 4096
#define LATE  20

static struct field {
    uint64_t steps, ranks, check; /* ended; the sum of worlds' sizes by step */
    uint64_t cell[CELLS];
} field;

static rg_ctx *ctx;
static rg_state *state;
static int is_bare, has_sets;
static const char *late; /* a file's name; NULL: none */

static void die(const char *what)
{
    fprintf(stderr, "process %d: %s: %s\n", (int)getpid(), what,
            rg_last_error());
    exit(1);
}

static void check(rg_status st, const char *what)
{
    if (st != RG_OK)
        die(what);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A rule: rows of two. */
static int row_of(rg_ctx *in, void *arg)
{
    (void)arg;
    return rg_rank(in) / 2;
}

/* A set of a communicator of the program's own, for as long as this world. */
static rg_status make_halves(MPI_Comm all, rg_set **halves_p)
{
    MPI_Comm half;
    if (MPI_Comm_split(all, rg_rank(ctx) % 2, 0, &half) != MPI_SUCCESS)
        return RG_ERR_PEER_LOST;
    return rg_set_create_mpi(ctx, half, NULL, halves_p);
}

static rg_status count_half(rg_set *half)
{
    int64_t mine = 1, all = 0;
    const rg_status st = rg_allreduce(half, &mine, &all, 1, RG_I64, RG_SUM);
    if (st == RG_OK && all != rg_set_size(half))
        die("a half's sum is wrong");
    return st;
}

/* A blocking collective of the program's own MPI: 0, or a rank is lost. */
static int add(MPI_Comm comm, uint64_t mine, uint64_t *all)
{
    return MPI_Allreduce(&mine, all, 1, MPI_UINT64_T, MPI_SUM, comm) ==
           MPI_SUCCESS;
}

static void pause_until(const char *path)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    while (access(path, F_OK) != 0)
        nanosleep(&pause, NULL);
}

/* true: the sum that this rank has is wrong, as after a death in the call. */
static int is_late(void)
{
    if (late == NULL || field.steps != LATE || rg_generation(ctx) > 1)
        return 0;
    const int waits = rg_rank(ctx) < rg_size(ctx) - 1;
    printf("process %d %s at step %d\n", (int)getpid(),
           waits ? "waits" : "commits", LATE);
    fflush(stdout);
    if (waits)
        pause_until(late);
    return waits;
}

static rg_status step(MPI_Comm all, MPI_Comm row, int row_size)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    const uint64_t k = field.steps + 1;
    uint64_t n = 0, in_row = 0;
    if (!add(all, k, &n) || (has_sets && !add(row, 1, &in_row)))
        return RG_ERR_PEER_LOST;
    int is_wrong = n != k * (uint64_t)rg_size(ctx) ||
                   (has_sets && in_row != (uint64_t)row_size);
    field.steps = k;
    field.ranks += n / k;
    field.check = field.check * 31 + k;
    field.cell[k % CELLS] = field.check;
    nanosleep(&pause, NULL);
    is_wrong |= is_late();
    const rg_status st = rg_state_commit(state);
    if (is_wrong && (st == RG_OK || st == RG_ERR_HOSTS_CHANGED))
        die("a wrong sum is committed");
    return st;
}

static int is_finished(MPI_Comm all, const char *path, int *finished)
{
    *finished = rg_rank(ctx) == 0 && access(path, F_OK) == 0;
    return MPI_Bcast(finished, 1, MPI_INT, 0, all) == MPI_SUCCESS;
}

/* Until the file is there, or a rank is lost. */
static rg_status work(const char *path, rg_set *rows)
{
    MPI_Comm all = MPI_COMM_WORLD, row = MPI_COMM_NULL;
    int finished = 0, n = 0;
    rg_set *half = NULL;
    rg_status st = RG_OK;
    if (!is_bare || rg_generation(ctx) > 1)
        st = rg_set_mpi_comm(rg_world(ctx), &all);
    if (st == RG_OK && has_sets)
        st = rg_set_mpi_comm(rows, &row);
    if (st == RG_OK && has_sets)
        st = make_halves(all, &half);
    if (st != RG_OK)
        return st;
    MPI_Comm_size(all, &n);
    if (n != rg_size(ctx))
        die("the communicator has another size than the world");
    printf("process %d is rank %d of %d, step %llu, at %.3f\n", (int)getpid(),
           rg_rank(ctx), rg_size(ctx), (unsigned long long)field.steps,
           now_ms());
    fflush(stdout);
    while (st == RG_OK) {
        if (!is_finished(all, path, &finished))
            st = RG_ERR_PEER_LOST;
        if (finished || st != RG_OK)
            break;
        st = step(all, row, has_sets ? rg_set_size(rows) : 0);
        if (st == RG_OK && has_sets)
            st = count_half(half);
    }
    rg_set_destroy(half);
    return st;
}

/* This rank stays there, if argv names it for that. */
static void stay(int argc, char **argv, const char *how, int rank)
{
    if (argc > 3 && strcmp(argv[2], how) == 0 && rank == atoi(argv[3])) {
        printf("process %d stays\n", (int)getpid());
        fflush(stdout);
        pause();
    }
}

static int is_first_launch(void)
{
    const char *restart = getenv("REGROUP_RESTART");
    return restart != NULL && atoi(restart) == 0;
}

int main(int argc, char **argv)
{
    uint64_t at = 0;
    int size = 0, rank = 0;
    rg_set *rows = NULL;
    rg_status st = RG_OK;
    MPI_Init(&argc, &argv);
    is_bare = argc > 2 && strcmp(argv[2], "--bare") == 0;
    has_sets = argc > 2 && strcmp(argv[2], "--sets") == 0;
    if (argc > 3 && strcmp(argv[2], "--late") == 0)
        late = argv[3];
    check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx), "rg_init_mpi");
    check(rg_state_create(ctx, NULL, &state), "rg_state_create");
    check(rg_state_add(state, "field", &field, sizeof field, NULL),
          "rg_state_add");
    if (has_sets)
        check(rg_set_create_by(ctx, row_of, NULL, NULL, &rows),
              "rg_set_create_by");
    do {
        st = rg_state_resume(state, &at);
        if (st == RG_ERR_NOT_FOUND)
            st = RG_OK;
        check(st, "rg_state_resume");
        st = work(argv[1], rows);
    } while (st == RG_ERR_PEER_LOST);
    if (st != RG_ERR_HOSTS_CHANGED)
        check(st, "work");
    size = rg_size(ctx);
    rank = rg_rank(ctx);
    if (rank == 0)
        printf("final step %llu value %016llx of %d, worlds %llu\n",
               (unsigned long long)field.steps, (unsigned long long)field.check,
               size, (unsigned long long)field.ranks);
    fflush(stdout);
    if (is_first_launch())
        stay(argc, argv, "--last", rank);
    check(rg_finalize(ctx), "rg_finalize");
    rg_state_destroy(state);
    stay(argc, argv, "--stay", rank);
    MPI_Finalize();
    return 0;
}
