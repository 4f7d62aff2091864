/* Small sums whose ranks arrive one after another: one of them, another each
 * time, computes for so long before each call, while the others wait. MPI's
 * allreduce and the same call interposed, by turns in one run: a program that
 * knows nothing about Regroup, started with the interposer preloaded and
 * all:always (docs/interposer.md).
 *
 *   bench_skew [BLOCKS [DOUBLES]]
 *
 * In each row the time of a step beyond its computing, and the processor time
 * of all ranks in a step beyond that, in microseconds: medians of the blocks,
 * and of their ratios with the tenth and ninetieth percentile. The computing is
 * a number of rounds measured while the others sleep, so a rank that waits on
 * the processor of the one that computes shows. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS_MOST  200
#define DOUBLES_MOST 1024
#define WORLD        MPI_COMM_WORLD

typedef struct cost {
    double step, cpu; /* microseconds */
} cost;

static int rank, size, blocks = 15, doubles = 1;
static double rounds_per_us;
static volatile double sink;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void compute(double rounds)
{
    double x = sink;
    for (long i = (long)rounds; i > 0; i--)
        x = x * 0.999999 + 1e-9;
    sink = x;
}

/* One rank after the other, so that each has a processor. */
static void calibrate(void)
{
    const double rounds = 2e6;
    double most = 0, mine = 0;
    for (int r = 0; r < size; r++) {
        if (r == rank) {
            const double since = seconds(CLOCK_THREAD_CPUTIME_ID);
            compute(rounds);
            mine = seconds(CLOCK_THREAD_CPUTIME_ID) - since;
        }
        PMPI_Barrier(WORLD);
    }
    PMPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, WORLD);
    rounds_per_us = rounds / (most * 1e6);
}

static cost time_block(int is_interposed, double skew_us, int calls)
{
    static double give[DOUBLES_MOST], take[DOUBLES_MOST];
    double mine[2], most = 0, sum = 0;
    PMPI_Barrier(WORLD);
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double since = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < calls; i++) {
        if (i % size == rank)
            compute(skew_us * rounds_per_us);
        give[0] += 1;
        if (is_interposed)
            MPI_Allreduce(give, take, doubles, MPI_DOUBLE, MPI_SUM, WORLD);
        else
            PMPI_Allreduce(give, take, doubles, MPI_DOUBLE, MPI_SUM, WORLD);
    }
    mine[0] = seconds(CLOCK_MONOTONIC) - since;
    mine[1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    PMPI_Allreduce(&mine[0], &most, 1, MPI_DOUBLE, MPI_MAX, WORLD);
    PMPI_Allreduce(&mine[1], &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD);
    return (cost){most * 1e6 / calls - skew_us, sum * 1e6 / calls - skew_us};
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double at(double *values, double part)
{
    qsort(values, (size_t)blocks, sizeof *values, by_size);
    return values[(int)(part * (blocks - 1))];
}

static void compare(int skew_us)
{
    static double step[2][BLOCKS_MOST], cpu[2][BLOCKS_MOST], ratio[BLOCKS_MOST];
    const int most = 40000 / (skew_us + 20); /* 40 ms a block */
    const int calls = (most / size + 1) * size;
    for (int b = 0; b < blocks; b++) {
        for (int which = 0; which < 2; which++) {
            const cost c = time_block(which, skew_us, calls);
            step[which][b] = c.step;
            cpu[which][b] = c.cpu;
        }
        ratio[b] = (step[1][b] + skew_us) / (step[0][b] + skew_us);
    }
    if (rank == 0)
        printf("%8d %10.2f %10.2f %10.2f %10.2f   %5.2f (%.2f to %.2f)\n",
               skew_us, at(step[0], 0.5), at(step[1], 0.5), at(cpu[0], 0.5),
               at(cpu[1], 0.5), at(ratio, 0.5), at(ratio, 0.1), at(ratio, 0.9));
    fflush(stdout);
}

static int number(const char *text, int most, int otherwise)
{
    const int n = atoi(text);
    return n > 0 && n <= most ? n : otherwise;
}

int main(int argc, char **argv)
{
    static const int skews[] = {0, 10, 100, 1000, 10000};
    double one = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    if (argc > 1)
        blocks = number(argv[1], BLOCKS_MOST, blocks);
    if (argc > 2)
        doubles = number(argv[2], DOUBLES_MOST, doubles);
    calibrate();
    for (int i = 0; i < 10; i++) /* until its set is made */
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD);
    if (rank == 0)
        printf("# %d ranks, %d doubles; beyond the skew, in us\n"
               "# %6s %10s %10s %10s %10s   steps\n# %6s %10s %10s %10s %10s\n",
               size, doubles, "skew", "mpi", "native", "mpi CPU", "native CPU",
               "us", "us", "us", "us", "us");
    for (size_t i = 0; i < sizeof skews / sizeof *skews; i++)
        compare(skews[i]);
    MPI_Finalize();
    return 0;
}
