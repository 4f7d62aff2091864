/* If shards are copied to other hosts, a commit may be overwritten only when
 * all copies of a later one are stored, not when its own are. The page says
 * what is stored, and this test writes the page.
 *
 * Covers: state.c */
#include "elastic/state/state.h"
#include "tests/check.h"

static char shards[4096];
static rg_ctx *ctx;

/* Stored are the copies of all commits before the one of this step. */
static void stored_before(uint64_t step)
{
    atomic_store(&ctx->page->copied_generation, ctx->now.generation);
    atomic_store(&ctx->page->copied, step);
}

static void claim_live(const rg_state *st, uint64_t first, uint64_t last)
{
    CHECK_EQ(st->lives, (int)(last - first) + 1);
    for (int i = 0; i < st->lives; i++)
        CHECK_EQ(st->live[i].id.step, first + (uint64_t)i);
}

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    ctx->now.host_count = 2; /* so there is another host for copies */
    stored_before(0);
    CHECK_OK(rg_state_commit(st));
    CHECK_OK(rg_state_commit(st));
    claim_live(st, 0, 2);
    stored_before(1); /* those of commit 0 */
    CHECK_OK(rg_step_end(st));
    claim_live(st, 0, 2);
    stored_before(2);
    CHECK_OK(rg_step_end(st));
    claim_live(st, 1, 2);
    stored_before(3);
    CHECK_OK(rg_step_end(st));
    claim_live(st, 2, 2);
    ctx->now.host_count = 1;
    return RG_OK;
}

int main(void)
{
    rg_state *st;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    const rg_buffer_params copied = {
        .size = sizeof copied, .kind = RG_SHARDED, .replicas = 1};
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_state_create(ctx, NULL, &st));
    CHECK_OK(rg_state_add(st, "shards", shards, sizeof shards, &copied));
    CHECK_OK(rg_run(st, train, NULL));
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
