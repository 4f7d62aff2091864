/* A checkpoint is due when a step passes a multiple of so many that the last
 * one asked for had not passed. A roll back to before that multiple makes it
 * due again.
 *
 * Covers: state.c */
#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define EVERY 10 /* steps */

static uint64_t counter;
static rg_ctx *ctx;

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    CHECK_OK(rg_state_commit(st));
    const rg__decided back = {
        .generation = 1, .resume = st->last, .source = -1};
    st->asked_step = EVERY; /* and is rolled back */
    CHECK(!rg__state_is_due(st, EVERY));
    CHECK_OK(rg__state_sync(st, &back));
    CHECK(!rg__state_is_due(st, EVERY - 1));
    CHECK(rg__state_is_due(st, EVERY));
    return RG_OK;
}

int main(void)
{
    rg_state *st;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    CHECK_OK(rg_init(&params, &ctx));
    room_give(ctx);
    snprintf(ctx->checkpoint, sizeof ctx->checkpoint, "/nobody-writes-here");
    ctx->checkpoint_every = (rg__every){.steps = EVERY};
    CHECK_OK(rg_state_create(ctx, NULL, &st));
    CHECK_OK(rg_state_add(st, "counter", &counter, sizeof counter, NULL));
    CHECK_OK(rg_run(st, train, NULL));
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
