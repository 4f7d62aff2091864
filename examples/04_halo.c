/* An MPI program that goes on as it is, with its reductions on a Regroup set.
 *
 * It solves a one-dimensional heat equation: each rank has a piece of the rod,
 * exchanges the cells at its ends with its neighbours (MPI_Sendrecv, blocking,
 * as ever), and every few steps all agree on the residual. That reduction is
 * the only thing that changes: build it without WITH_REGROUP and it is MPI
 * alone; with it, the lines between #ifdef and #endif start the reduction on a
 * set, and the next steps go on while it travels. Here that set is the world;
 * rg_set_create_mpi makes one of any communicator of the program.
 *
 *   mpirun -n 4 build/dev/bin/halo-openmpi      (or halo-mpich)
 *
 * prints, and so does halo-mpi-openmpi, which is the same without Regroup:
 *
 *   step 500: residual 4.8396e-02
 *   step 3000: residual 8.0655e-03
 *   sum 3040.579871041 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WITH_REGROUP
#include <regroup/regroup_mpi.h>
#endif

#define CELLS 240 /* of the whole rod, and the most ranks */
#define STEPS 3000
#define EVERY 500

typedef struct rod {
    double cell[CELLS + 2], next[CELLS + 2]; /* 1 .. n are this rank's */
    int n, rank, size;
} rod;

static void exchange_ends(rod *r)
{
    const int left = r->rank == 0 ? MPI_PROC_NULL : r->rank - 1;
    const int right = r->rank == r->size - 1 ? MPI_PROC_NULL : r->rank + 1;
    MPI_Sendrecv(&r->cell[1], 1, MPI_DOUBLE, left, 0, &r->cell[r->n + 1], 1,
                 MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&r->cell[r->n], 1, MPI_DOUBLE, right, 0, &r->cell[0], 1,
                 MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One step; returns the largest change of a cell. */
static double step(rod *r)
{
    double change = 0;
    exchange_ends(r);
    for (int i = 1; i <= r->n; i++) {
        r->next[i] = r->cell[i] +
                     0.25 * (r->cell[i - 1] - 2 * r->cell[i] + r->cell[i + 1]);
        change = fmax(change, fabs(r->next[i] - r->cell[i]));
    }
    for (int i = 1; i <= r->n; i++)
        r->cell[i] = r->next[i];
    return change;
}

static void begin(rod *r)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->size);
    r->n = CELLS / r->size + (r->rank < CELLS % r->size);
    for (int i = 0; i <= r->n + 1; i++)
        r->cell[i] = 0;
    if (r->rank == 0)
        r->cell[0] = 100; /* the hot end */
}

static void show(const rod *r, int at, double residual)
{
    if (r->rank == 0)
        printf("step %d: residual %.4e\n", at, residual);
}

#ifdef WITH_REGROUP
static void check(rg_status st)
{
    if (st == RG_OK)
        return;
    fprintf(stderr, "%s\n", rg_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#endif

int main(int argc, char **argv)
{
    static rod r;
    int level = 0;
    double mine = 0, residual = 0, sum = 0, total = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    begin(&r);
#ifdef WITH_REGROUP
    rg_ctx *ctx = NULL;
    rg_req *req = NULL;
    check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx));
    rg_set *all = rg_world(ctx);
#endif
    for (int at = 1; at <= STEPS; at++) {
        const double change = step(&r);
#ifdef WITH_REGROUP
        if (req != NULL && at % EVERY == EVERY / 10) { /* it had time */
            check(rg_wait(&req, -1));
            show(&r, at - at % EVERY, residual);
        }
        if (at % EVERY == 0) {
            mine = change;
            check(rg_allreduce_start(all, &mine, &residual, 1, RG_F64, RG_MAX,
                                     NULL, &req));
        }
#else
        if (at % EVERY == 0) {
            mine = change;
            MPI_Allreduce(&mine, &residual, 1, MPI_DOUBLE, MPI_MAX,
                          MPI_COMM_WORLD);
            show(&r, at, residual);
        }
#endif
    }
    for (int i = 1; i <= r.n; i++)
        sum += r.cell[i];
#ifdef WITH_REGROUP
    check(rg_wait(&req, -1));
    show(&r, STEPS, residual);
    check(rg_allreduce(all, &sum, &total, 1, RG_F64, RG_SUM));
    check(rg_finalize(ctx));
#else
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#endif
    if (r.rank == 0)
        printf("sum %.9f\n", total);
    MPI_Finalize();
    return 0;
}
