/* Counting requests in, and ending them. The engine's lock is held. */
#include <string.h>

#include "sdk/core/engine_parts.h"

void rg__req_count_in(rg__channel *ch, int n)
{
    rg__count_add(&ch->engine->in_flight, n);
    rg__count_add(&ch->engine->starts, 1);
}

void rg__req_finish(rg__engine *e, rg_req *req, rg_status st, const char *why)
{
    rg__record_ended(e, req, st);
    req->st = st;
    req->why = st == RG_OK || why == NULL ? NULL : strdup(why);
    req->channel = NULL;
    rg__count_add(&e->in_flight, -1);
    /* A thread takes the lock before it says that it sleeps. */
    const uint32_t state =
        atomic_load_explicit(&req->state, memory_order_relaxed);
    atomic_store_explicit(&req->state, RG__REQ_DONE, memory_order_release);
    if (state == RG__REQ_SLEPT_ON)
        rg__futex_wake(&req->state);
}
