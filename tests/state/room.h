/* A vault for a worker alone, which has none: for tests that look into it. */
#ifndef RG_TESTS_STATE_ROOM_H
#define RG_TESTS_STATE_ROOM_H

#include "elastic/state/state.h"
#include "sdk/base/shm.h"
#include "tests/check.h"

static inline rg_status room_reserve(rg_ctx *ctx, const rg__register *what,
                                     int *fd_p, uint64_t *place_p)
{
    static uint64_t end;
    static int fd = -1;
    (void)ctx;
    if (fd < 0)
        CHECK_OK(rg__shm_create_growing("vault", RG__PAGE_BYTES, &fd));
    *place_p = end;
    *fd_p = fd;
    end += rg__vault_stride(what->bytes) * what->slots;
    return rg__shm_grow(fd, what->name, end);
}

/* Between rg_init and the first rg_state_add. */
static inline void room_give(rg_ctx *ctx)
{
    static rg__hooks hooks;
    hooks = *ctx->hooks;
    hooks.reserve = room_reserve;
    ctx->hooks = &hooks;
}

/* Of a worker alone, which registers its buffers next. */
static inline rg_state *room_begin(rg_ctx **ctx_p)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_state *st = NULL;
    CHECK_OK(rg_init(&params, ctx_p));
    room_give(*ctx_p);
    CHECK_OK(rg_state_create(*ctx_p, NULL, &st));
    return st;
}

static inline void room_end(rg_ctx *ctx, rg_state *st)
{
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
}

#endif
