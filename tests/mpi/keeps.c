/* What the ranks of an mpirun without agents keep: replicated, sharded and
 * local buffers, through rg_state_commit, or at the end by rg_state_save. Each
 * rank knows what must be in them after `at` steps.
 *
 *   keeps STEPS [refuse]
 *
 * refuse: there is no function for parts of other ranks. */
#include <mpi.h>
#include <regroup/regroup_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE  100
#define SHARDS 1000
#define LOCAL  1200 /* the most cells of a rank */

static uint64_t late, at, table[TABLE], shard[SHARDS], local[LOCAL];
static rg_ctx *ctx;
static rg_state *state;

static void fail(const char *what)
{
    fprintf(stderr, "keeps: rank %d: %s: %s\n", rg_rank(ctx), what,
            rg_last_error());
    exit(1);
}

static void check(rg_status st, const char *what)
{
    if (st != RG_OK)
        fail(what);
}

/* Rank 1 has none. */
static size_t cells(int rank)
{
    return rank == 1 ? 0 : 100 * (size_t)(rank + 1);
}

static uint64_t value(size_t i, uint64_t k)
{
    return i * 1000003 + k;
}

static void fill_local(void)
{
    for (size_t i = 0; i < cells(rg_rank(ctx)); i++)
        local[i] = value((size_t)rg_rank(ctx) * LOCAL + i, at);
}

static rg_status redistribute(rg_state *st, const rg_parts *parts, void *arg)
{
    (void)st;
    (void)arg;
    for (int i = 0; i < rg_parts_count(parts); i++) {
        size_t bytes = 0;
        check(rg_parts_bytes(parts, i, &bytes), "rg_parts_bytes");
        if (bytes != cells(i) * sizeof *local)
            fail("a part of another size");
        check(rg_parts_read(parts, i, 0, bytes, local), "rg_parts_read");
        for (size_t k = 0; k < cells(i); k++)
            if (local[k] != value((size_t)i * LOCAL + k, at))
                fail("a part of another rank");
    }
    fill_local();
    printf("dealt %d parts\n", rg_parts_count(parts));
    return RG_OK;
}

static void slice(size_t *first, size_t *last)
{
    check(rg_state_slice(state, "shard", first, last), "rg_state_slice");
    *first /= sizeof *shard;
    *last /= sizeof *shard;
}

static void change(void)
{
    size_t first, last;
    slice(&first, &last);
    at++;
    for (size_t i = 0; i < TABLE; i++)
        table[i] = value(i, at);
    for (size_t i = first; i < last; i++)
        shard[i] = value(i, at);
    fill_local();
}

static void look(void)
{
    size_t first, last;
    slice(&first, &last);
    for (size_t i = 0; i < TABLE; i++)
        if (table[i] != value(i, at))
            fail("the table is wrong");
    for (size_t i = first; i < last; i++)
        if (shard[i] != value(i, at))
            fail("the shard is wrong");
    for (size_t i = 0; i < cells(rg_rank(ctx)); i++)
        if (local[i] != value((size_t)rg_rank(ctx) * LOCAL + i, at))
            fail("the local buffer is wrong");
}

int main(int argc, char **argv)
{
    const rg_buffer_params sharded = {
        .size = sizeof sharded, .kind = RG_SHARDED, .align = sizeof *shard};
    rg_buffer_params own = {.size = sizeof own, .kind = RG_LOCAL};
    const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t step = 0;
    MPI_Init(&argc, &argv);
    if (argc < 3)
        own.redistribute = redistribute;
    check(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx), "rg_init_mpi");
    check(rg_state_create(ctx, NULL, &state), "rg_state_create");
    check(rg_state_add(state, "at", &at, sizeof at, NULL), "rg_state_add");
    check(rg_state_add(state, "table", table, sizeof table, NULL), "add");
    check(rg_state_add(state, "shard", shard, sizeof shard, &sharded), "add");
    check(rg_state_add(state, "local", local,
                       cells(rg_rank(ctx)) * sizeof *local, &own),
          "rg_state_add");
    const rg_status st = rg_state_resume(state, &step);
    if (st != RG_ERR_NOT_FOUND) {
        check(st, "rg_state_resume");
        look();
    }
    if (rg_state_add(state, "late", &late, sizeof late, NULL) != RG_ERR_INVALID)
        fail("a buffer is registered behind rg_state_resume");
    if (step != at || step != rg_state_step(state))
        fail("another step");
    if (rg_rank(ctx) == 0)
        printf("resumed at %llu\n", (unsigned long long)at);
    while (at < steps) {
        change();
        check(rg_state_commit(state), "rg_state_commit");
    }
    change();
    check(rg_state_save(state, NULL, NULL), "rg_state_save");
    if (rg_rank(ctx) == 0 && rg_state_saved(state, &step) == RG_OK)
        printf("saved %llu\n", (unsigned long long)step);
    rg_state_destroy(state);
    check(rg_finalize(ctx), "rg_finalize");
    MPI_Finalize();
    return 0;
}
