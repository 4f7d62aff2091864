/* A program with a local buffer: the cells of one array, of which each rank has
 * as many as its weight says (rank 1 of more than two has none), and which
 * other ranks get out of their parts. Each rank knows what its cells must be.
 *
 *   rods UNTIL-FILE redistribute|fixed REPLICAS [--load]
 *
 * fixed: every rank has FIXED cells, and no function for other ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "regroup/regroup.h"

#define CELLS 5000
#define FIXED 300

static rg_ctx *ctx;
static uint64_t step;
static uint64_t cell[CELLS]; /* this rank's come first */
static int is_fixed;
static const char *until;

/* Where the cells of a rank begin: weights 1, 0, 3, 4, ... */
static size_t begin_of(int rank, int size)
{
    size_t before = 0, all = 0;
    if (is_fixed)
        return (size_t)rank * FIXED;
    for (int r = 0; r < size; r++) {
        const size_t weight = r == 1 && size > 2 ? 0 : (size_t)r + 1;
        before += r < rank ? weight : 0;
        all += weight;
    }
    return CELLS * before / all;
}

static size_t first(void)
{
    return begin_of(rg_rank(ctx), rg_size(ctx));
}

static size_t count(void)
{
    return begin_of(rg_rank(ctx) + 1, rg_size(ctx)) - first();
}

/* Of cell i after k steps. */
static uint64_t value(size_t i, uint64_t k)
{
    return (i + 1) * 1000003 + k * (i + 7);
}

static rg_status redistribute(rg_state *state, const rg_parts *parts, void *arg)
{
    size_t at = 0, bytes = 0; /* of the array */
    const size_t begin = first() * sizeof *cell;
    const size_t end = begin + count() * sizeof *cell;
    (void)arg;
    if (step == 0) /* a commit from before they had any */
        return RG_OK;
    rg_status st = rg_state_resize(state, "cells", cell, end - begin);
    if (st == RG_OK && rg_parts_count(parts) == rg_size(ctx))
        return rg_parts_read(parts, rg_rank(ctx), 0, end - begin, cell);
    for (int i = 0; i < rg_parts_count(parts) && st == RG_OK; i++) {
        st = rg_parts_bytes(parts, i, &bytes);
        const size_t from = at > begin ? at : begin;
        const size_t to = at + bytes < end ? at + bytes : end;
        if (st == RG_OK && from < to)
            st = rg_parts_read(parts, i, from - at, to - from,
                               (char *)cell + (from - begin));
        at += bytes;
    }
    printf("dealt %d parts to %d\n", rg_parts_count(parts), rg_size(ctx));
    return st;
}

static int are_right(void)
{
    for (size_t i = 0; i < count(); i++)
        if (cell[i] != value(first() + i, step))
            return 0;
    return 1;
}

static rg_status train(rg_state *state, void *arg)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    rg_status st = RG_OK;
    (void)arg;
    if (step == 0 && !is_fixed)
        st = rg_state_resize(state, "cells", cell, count() * sizeof *cell);
    for (size_t i = 0; i < count() && step == 0; i++)
        cell[i] = value(first() + i, 0);
    while (st == RG_OK) {
        int64_t ends = rg_rank(ctx) == 0 && access(until, F_OK) == 0;
        if (!are_right()) {
            fprintf(stderr, "rank %d has wrong cells at step %llu\n",
                    rg_rank(ctx), (unsigned long long)step);
            exit(9);
        }
        st = rg_broadcast(rg_world(ctx), &ends, 1, RG_I64, 0);
        if (st != RG_OK || ends)
            break;
        nanosleep(&pause, NULL);
        step++;
        for (size_t i = 0; i < count(); i++)
            cell[i] = value(first() + i, step);
        st = rg_state_commit(state);
    }
    return st;
}

static int fail(const char *what)
{
    fprintf(stderr, "rods: %s: %s\n", what, rg_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_buffer_params local = {.size = sizeof local, .kind = RG_LOCAL};
    rg_state *state = NULL;
    uint64_t at = 0;
    if (argc < 4)
        return 64;
    until = argv[1];
    is_fixed = strcmp(argv[2], "fixed") == 0;
    local.replicas = atoi(argv[3]);
    if (!is_fixed)
        local.redistribute = redistribute;
    if (rg_init(&params, &ctx) != RG_OK ||
        rg_state_create(ctx, NULL, &state) != RG_OK)
        return fail("rg_init");
    if (rg_state_add(state, "step", &step, sizeof step, NULL) != RG_OK ||
        rg_state_add(state, "cells", cell, is_fixed ? FIXED * sizeof *cell : 0,
                     &local) != RG_OK)
        return fail("rg_state_add");
    rg_status st =
        argc > 4 ? rg_state_load(state, NULL, &at) : RG_ERR_NOT_FOUND;
    if (st != RG_OK && st != RG_ERR_NOT_FOUND)
        return fail("rg_state_load");
    if (st == RG_OK)
        printf("loaded step %llu\n", (unsigned long long)at);
    st = rg_run(state, train, NULL);
    if (st != RG_OK)
        fail("rg_run");
    else
        printf("ended with right cells on rank %d of %d at step %llu\n",
               rg_rank(ctx), rg_size(ctx), (unsigned long long)step);
    rg_state_destroy(state);
    rg_finalize(ctx);
    return st == RG_OK ? 0 : rg_exit_code(st);
}
