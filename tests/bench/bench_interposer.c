/* Collectives of MPI beside the same calls interposed, by turns in one run: an
 * MPI program that knows nothing about Regroup, started with the interposer
 * preloaded and all:always (docs/interposer.md). Each rank writes its data
 * before each call, as a program would have.
 *
 *   bench_interposer [BLOCKS [OP]]
 *
 * Medians of the blocks, and of their ratios with the tenth and ninetieth
 * percentile; the time of a call is that of the slowest rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES  ((size_t)1 << 20) /* of one member's part */
#define BLOCKS_MOST 400

static char *give, *take;
static int rank, size, blocks = 30;

typedef int (*run_fn)(int is_interposed, int bytes);

#define EITHER(call) (is_interposed ? MPI_##call : PMPI_##call)
#define WORLD        MPI_COMM_WORLD

static int allreduce(int is_interposed, int bytes)
{
    return EITHER(Allreduce)(give, take, bytes / 8, MPI_DOUBLE, MPI_SUM, WORLD);
}

static int reduce(int is_interposed, int bytes)
{
    return EITHER(Reduce)(give, take, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, WORLD);
}

static int reduce_scatter_block(int is_interposed, int bytes)
{
    return EITHER(Reduce_scatter_block)(give, take, bytes / 8, MPI_DOUBLE,
                                        MPI_SUM, WORLD);
}

static int bcast(int is_interposed, int bytes)
{
    return EITHER(Bcast)(rank == 0 ? give : take, bytes / 8, MPI_DOUBLE, 0,
                         WORLD);
}

static int allgather(int is_interposed, int bytes)
{
    return EITHER(Allgather)(give, bytes / 8, MPI_DOUBLE, take, bytes / 8,
                             MPI_DOUBLE, WORLD);
}

static int gather(int is_interposed, int bytes)
{
    return EITHER(Gather)(give, bytes / 8, MPI_DOUBLE, take, bytes / 8,
                          MPI_DOUBLE, 0, WORLD);
}

static int scatter(int is_interposed, int bytes)
{
    return EITHER(Scatter)(give, bytes / 8, MPI_DOUBLE, take, bytes / 8,
                           MPI_DOUBLE, 0, WORLD);
}

static int alltoall(int is_interposed, int bytes)
{
    return EITHER(Alltoall)(give, bytes / 8, MPI_DOUBLE, take, bytes / 8,
                            MPI_DOUBLE, WORLD);
}

static int barrier(int is_interposed, int bytes)
{
    (void)bytes;
    return EITHER(Barrier)(WORLD);
}

static const struct timed {
    const char *name;
    run_fn run;
} all[] = {{"allreduce", allreduce},
           {"reduce", reduce},
           {"reduce_scatter_block", reduce_scatter_block},
           {"bcast", bcast},
           {"allgather", allgather},
           {"gather", gather},
           {"scatter", scatter},
           {"alltoall", alltoall},
           {"barrier", barrier}};

/* Microseconds of one call. */
static double time_block(const struct timed *t, int is_interposed, int bytes,
                         int calls)
{
    double spent = 0, most = 0;
    PMPI_Barrier(WORLD);
    for (int i = 0; i < calls; i++) {
        for (int at = 0; at < bytes; at += 64)
            give[at]++;
        const double since = MPI_Wtime();
        t->run(is_interposed, bytes);
        spent += MPI_Wtime() - since;
    }
    PMPI_Allreduce(&spent, &most, 1, MPI_DOUBLE, MPI_MAX, WORLD);
    return most * 1e6 / calls;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double at(double *sorted, double part)
{
    return sorted[(int)(part * (blocks - 1))];
}

static void compare(const struct timed *t, int bytes)
{
    static double mpi[BLOCKS_MOST], interposed[BLOCKS_MOST], ratio[BLOCKS_MOST];
    const int calls = bytes <= 4096 ? 200 : bytes <= 65536 ? 40 : 8;
    for (int i = 0; i < 10; i++) /* until its set is made */
        t->run(1, bytes);
    for (int b = 0; b < blocks; b++) {
        mpi[b] = time_block(t, 0, bytes, calls);
        interposed[b] = time_block(t, 1, bytes, calls);
        ratio[b] = interposed[b] / mpi[b];
    }
    qsort(mpi, (size_t)blocks, sizeof *mpi, by_size);
    qsort(interposed, (size_t)blocks, sizeof *mpi, by_size);
    qsort(ratio, (size_t)blocks, sizeof *mpi, by_size);
    if (rank == 0)
        printf("%-20s %8d %10.2f %10.2f   %5.2f (%.2f to %.2f)\n", t->name,
               bytes, at(mpi, 0.5), at(interposed, 0.5), at(ratio, 0.5),
               at(ratio, 0.1), at(ratio, 0.9));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    if (argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) <= BLOCKS_MOST)
        blocks = atoi(argv[1]);
    give = calloc((size_t)size, MOST_BYTES);
    take = calloc((size_t)size, MOST_BYTES);
    if (rank == 0)
        printf("# %d ranks\n# %-18s %8s %10s %10s   ratio\n", size, "op",
               "bytes", "mpi us", "native us");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (argc > 2 && strcmp(argv[2], all[i].name) != 0)
            continue;
        for (int bytes = 8; bytes <= (int)MOST_BYTES; bytes *= 8) {
            compare(&all[i], bytes);
            if (all[i].run == barrier)
                break;
        }
    }
    free(give);
    free(take);
    MPI_Finalize();
    return 0;
}
