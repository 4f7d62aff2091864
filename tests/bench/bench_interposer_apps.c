/* The inner loops of MPI programs, with MPI's collectives and with the same
 * calls interposed, by turns in one run: a program that knows nothing about
 * Regroup, started with the interposer preloaded (docs/interposer.md).
 *
 *   bench_interposer_apps [BLOCKS]
 *
 * Microseconds of a step, medians of the blocks, and of their ratios with the
 * tenth and ninetieth percentile. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST        (1 << 18) /* elements of a rank */
#define BLOCKS_MOST 200
#define WORLD       MPI_COMM_WORLD

static int rank, size, blocks = 15, is_interposed;
static double *x, *p, *q, *r;

#define EITHER(call) (is_interposed ? MPI_##call : PMPI_##call)

static double sum(double part)
{
    double all = 0;
    EITHER(Allreduce)(&part, &all, 1, MPI_DOUBLE, MPI_SUM, WORLD);
    return all;
}

static double dot(const double *a, const double *b, int n)
{
    double part = 0;
    for (int i = 1; i <= n; i++)
        part += a[i] * b[i];
    return part;
}

/* The cells beside ours, of the neighbours in a ring. */
static void exchange_halo(double *at, int n)
{
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Sendrecv(&at[n], 1, MPI_DOUBLE, right, 0, &at[0], 1, MPI_DOUBLE, left,
                 0, WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&at[1], 1, MPI_DOUBLE, left, 1, &at[n + 1], 1, MPI_DOUBLE,
                 right, 1, WORLD, MPI_STATUS_IGNORE);
}

/* A step of conjugate gradients on a rod. */
static void conjugate_gradients(int n)
{
    exchange_halo(p, n);
    for (int i = 1; i <= n; i++)
        q[i] = 2.01 * p[i] - p[i - 1] - p[i + 1];
    const double before = sum(dot(r, r, n)) + 1e-9;
    const double alpha = before / (sum(dot(p, q, n)) + 1);
    for (int i = 1; i <= n; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
    }
    const double beta = sum(dot(r, r, n)) / before;
    for (int i = 1; i <= n; i++)
        p[i] = r[i] + (beta < 1 ? beta : 0.5) * p[i];
}

/* A step of Jacobi: a halo, and a norm at every tenth. */
static void halo(int n)
{
    static int step;
    exchange_halo(p, n);
    for (int i = 1; i <= n; i++)
        q[i] = 0.5 * (p[i - 1] + p[i + 1]);
    if (step++ % 10 == 0)
        x[0] = sum(dot(q, q, n));
    for (int i = 1; i <= n; i++)
        p[i] = q[i];
}

/* Gradients that all ranks add up. */
static void gradients(int n)
{
    for (int i = 0; i < n; i++)
        p[i] = q[i] * 0.9;
    EITHER(Allreduce)(p, q, n, MPI_DOUBLE, MPI_SUM, WORLD);
}

/* A transposition between two passes over a matrix. */
static void transposition(int n)
{
    for (int i = 0; i < n; i++)
        p[i] = p[i] * 0.5 + 1;
    EITHER(Alltoall)(p, n / size, MPI_DOUBLE, q, n / size, MPI_DOUBLE, WORLD);
}

/* A root hands out parameters and collects results: little data. */
static void root_and_workers(int n)
{
    double result = 0;
    EITHER(Bcast)(x, 8, MPI_DOUBLE, 0, WORLD);
    result = dot(p, q, n);
    EITHER(Gather)(&result, 1, MPI_DOUBLE, x, 1, MPI_DOUBLE, 0, WORLD);
}

static const struct program {
    const char *name;
    void (*step)(int n);
    int n;
} all[] = {{"conjugate gradients", conjugate_gradients, 1000},
           {"conjugate gradients", conjugate_gradients, 100000},
           {"halo, norm at 10th", halo, 1000},
           {"gradients", gradients, 10000},
           {"gradients", gradients, MOST},
           {"transposition", transposition, 4096},
           {"transposition", transposition, MOST},
           {"root and workers", root_and_workers, 1000}};

static double time_block(const struct program *a, int calls)
{
    PMPI_Barrier(WORLD);
    const double since = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        a->step(a->n);
    double spent = MPI_Wtime() - since, most = 0;
    PMPI_Allreduce(&spent, &most, 1, MPI_DOUBLE, MPI_MAX, WORLD);
    return most * 1e6 / calls;
}

static int by_size(const void *a, const void *b)
{
    const double u = *(const double *)a, v = *(const double *)b;
    return u < v ? -1 : u > v;
}

static void compare(const struct program *a)
{
    static double time[3][BLOCKS_MOST];
    const int calls = a->n > 50000 ? 10 : 200;
    is_interposed = 1;
    for (int i = 0; i < 10; i++)
        a->step(a->n);
    for (int b = 0; b < blocks; b++) {
        for (is_interposed = 0; is_interposed < 2; is_interposed++)
            time[is_interposed][b] = time_block(a, calls);
        time[2][b] = time[1][b] / time[0][b];
    }
    for (int i = 0; i < 3; i++)
        qsort(time[i], (size_t)blocks, sizeof **time, by_size);
    if (rank == 0)
        printf("%-20s %7d %10.1f %10.1f   %5.2f (%.2f to %.2f)\n", a->name,
               a->n, time[0][blocks / 2], time[1][blocks / 2],
               time[2][blocks / 2], time[2][blocks / 10],
               time[2][blocks * 9 / 10]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    if (argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) <= BLOCKS_MOST)
        blocks = atoi(argv[1]);
    x = calloc(MOST + 2, sizeof *x);
    p = calloc(MOST + 2, sizeof *p);
    q = calloc(MOST + 2, sizeof *q);
    r = calloc(MOST + 2, sizeof *r);
    for (int i = 0; i < MOST + 2; i++)
        p[i] = r[i] = 1.0 / (i + 1);
    if (rank == 0)
        printf("# %d ranks\n# %-18s %7s %10s %10s   ratio\n", size, "program",
               "n", "mpi us", "both us");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        compare(&all[i]);
    free(x);
    free(p);
    free(q);
    free(r);
    MPI_Finalize();
    return 0;
}
