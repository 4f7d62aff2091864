/* Times collectives on sets, with the bare MPI call beside them where the
 * program was built with MPI and mpirun started it; rank 0 prints a table.
 * tests/bench/README.md says what its columns are, --help how to ask. */
#include <stdio.h>

#include "tests/bench/collectives/layout.h"
#include "tests/bench/collectives/table.h"

#define WRONG_USAGE 64

static int run(const plan *p, rg_ctx *ctx)
{
    bench b = {.plan = p, .ctx = ctx, .mpi = peer_name(ctx)};
    if (!plan_fits(p, rg_size(ctx)))
        return WRONG_USAGE;
    if (b.mpi != NULL)
        b.world = peer_open(rg_world(ctx));
    table_begin(&b);
    layout_run(&b);
    table_end(&b);
    peer_close(b.world);
    if (b.wrong > 0 && rg_rank(ctx) == 0)
        fprintf(stderr, "bench_collectives: %llu elements were wrong\n",
                (unsigned long long)b.wrong);
    return b.wrong > 0;
}

int main(int argc, char **argv)
{
    plan p;
    rg_ctx *ctx = NULL;
    const int end = plan_read(&p, argc, argv);
    if (end != 0)
        return end - 1;
    if (!peer_begin(p.level)) {
        fprintf(stderr,
                "bench_collectives: MPI can't be initialised with "
                "--thread-level %s; take single, funneled, serialized or "
                "multiple, and the program that was built with MPI\n",
                p.level);
        return WRONG_USAGE;
    }
    need(rg_init(NULL, &ctx), "rg_init");
    const int code = run(&p, ctx);
    need(rg_finalize(ctx), "rg_finalize");
    peer_end();
    return code;
}
