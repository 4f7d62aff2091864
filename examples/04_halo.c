/* An MPI program that keeps its own calls, and survives the loss of machines
 * that it runs on.
 *
 * It solves a one-dimensional heat equation: each rank has a piece of the rod,
 * exchanges the cells at its ends with its neighbours (blocking MPI_Sendrecv,
 * as before), and every few steps all agree on the residual. Built without
 * WITH_REGROUP it uses MPI alone. The lines between #ifdef and #endif
 *
 *   - start that reduction on a set, and run the next steps while it travels.
 *     Here the set is the world; rg_set_create_mpi makes one from any
 *     communicator of the program;
 *   - commit each rank's piece of the rod now and then, as a local buffer, and
 *     resume from the newest commit. docs/mpi.md explains them line by line.
 *
 *   mpirun -n 4 build/dev/bin/halo-openmpi      (or halo-mpich)
 *   regroup run --mpi -n 4 build/dev/bin/halo-openmpi
 *
 * prints the following, and so does halo-mpi-openmpi, built without Regroup:
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

/* The number of ranks has changed: cut the rod again. The old parts in order
 * are the rod; this rank's cells begin where those of lower ranks end. */
static rg_status cut_again(rg_state *state, const rg_parts *parts, void *arg)
{
    rod *r = arg;
    const size_t least = (size_t)(CELLS / r->size);
    const size_t more = (size_t)(CELLS % r->size);
    const size_t rank = (size_t)r->rank, cell = sizeof *r->cell;
    const size_t begin = (least * rank + (rank < more ? rank : more)) * cell;
    const size_t end = begin + (size_t)r->n * cell;
    size_t at = 0, bytes = 0;
    rg_status st = RG_OK;
    (void)state; /* r->n cells are already registered */
    for (int i = 0; i < rg_parts_count(parts) && st == RG_OK; i++) {
        st = rg_parts_bytes(parts, i, &bytes);
        const size_t from = at > begin ? at : begin;
        const size_t to = at + bytes < end ? at + bytes : end;
        if (st == RG_OK && from < to)
            st = rg_parts_read(parts, i, from - at, to - from,
                               (char *)&r->cell[1] + (from - begin));
        at += bytes;
    }
    return st;
}
#endif

int main(int argc, char **argv)
{
    static rod r;
    int level = 0, at = 0;
    double mine = 0, residual = 0, sum = 0, total = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    const int steps = argc > 1 ? atoi(argv[1]) : STEPS;
    begin(&r);
#ifdef WITH_REGROUP
    rg_ctx *ctx = NULL;
    rg_req *req = NULL;
    rg_state *state = NULL;
    uint64_t commits = 0;
    const rg_buffer_params local = {.size = sizeof local,
                                    .kind = RG_LOCAL,
                                    .replicas = 1,
                                    .redistribute = cut_again,
                                    .redistribute_arg = &r};
    check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx));
    rg_set *all = rg_world(ctx);
    check(rg_state_create(ctx, NULL, &state));
    check(rg_state_add(state, "at", &at, sizeof at, NULL));
    check(rg_state_add(state, "cells", &r.cell[1], (size_t)r.n * sizeof *r.cell,
                       &local));
    rg_status st = rg_state_resume(state, &commits);
    if (st != RG_ERR_NOT_FOUND) /* nothing committed yet: at is 0 */
        check(st);
#endif
    while (at < steps) {
        const double change = step(&r);
        at++;
#ifdef WITH_REGROUP
        if (req != NULL && at % EVERY == EVERY / 10) { /* it had time */
            check(rg_wait(&req, -1));
            show(&r, at - at % EVERY, residual);
            st = rg_state_commit(state); /* nothing is in flight here */
            if (st == RG_ERR_HOSTS_CHANGED)
                break; /* the step is saved; the launch ends */
            check(st);
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
    if (at < steps) { /* the next launch goes on */
        check(rg_finalize(ctx));
        MPI_Finalize();
        return 0;
    }
    check(rg_wait(&req, -1));
    show(&r, steps, residual);
    check(rg_allreduce(all, &sum, &total, 1, RG_F64, RG_SUM));
#else
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#endif
    if (r.rank == 0)
        printf("sum %.9f\n", total);
#ifdef WITH_REGROUP
    rg_state_destroy(state);
    check(rg_finalize(ctx));
#endif
    MPI_Finalize();
    return 0;
}
