/* Waiting for requests: the waiting thread helps, then sleeps. */
#include "sdk/core/engine_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/base/nvtx.h"

#define FOREVER UINT64_MAX

static uint64_t left_until(uint64_t deadline)
{
    if (deadline == FOREVER)
        return FOREVER;
    const uint64_t now = rg__now_ns();
    return now < deadline ? deadline - now : 0;
}

#define LOOK_ROUNDS       32
#define WAKE_NS           (RG__MS / 20)
#define COPY_BYTES_PER_NS 4 /* at least */
#define POLL_MOST_NS      (4 * RG__MS)
#define LONG_YIELD_NS     (RG__MS / 50)

static const rg__wait_policy *policy_of(const rg__engine *e)
{
    return atomic_load_explicit(&e->wait, memory_order_acquire);
}

/* For how long a thread polls on, with yields: as long as waking it takes, and
 * as others may take to copy its data. */
static uint64_t poll_ns(const rg_req *req)
{
    const rg__wait_policy *policy = policy_of(req->engine);
    const uint64_t bytes = req->coll.count * rg_type_size(req->coll.type);
    if (policy->poll_ns != 0)
        return policy->poll_ns;
    return rg__least(WAKE_NS + bytes / COPY_BYTES_PER_NS, POLL_MOST_NS);
}

/* Poll on instead of sleeping? Short waits count as one. */
static bool still_polls(rg_req *req)
{
    const uint64_t now = rg__now_ns();
    if (req->still_ns == 0)
        req->still_ns = now;
    return now - req->still_ns < poll_ns(req);
}

/* Nothing has moved for several rounds. */
static void yield_or_sleep(rg_req *req, uint64_t left)
{
    if (!still_polls(req)) {
        rg__engine_sleep_for(req->engine, req, left);
        return;
    }
    const rg__wait_policy *policy = policy_of(req->engine);
    const uint64_t before = rg__now_ns();
    rg__rest(policy);
    if (policy->poll_ns == 0 && rg__now_ns() - before > LONG_YIELD_NS)
        req->still_ns = 1; /* others compute: it has polled for long enough */
    rg__watchdog_look(req->engine);
}

#define UNTIMED_ROUNDS                                                         \
    16 /* so short a wait is not worth a clock, unless
                              others want the processor */

typedef struct wait_note {
    uint64_t began_ns, range; /* 0: the wait was short */
} wait_note;

/* Waiting times show how long a program computes, and which rank is late. */
static void count_wait(rg__engine *e, const wait_note *wait)
{
    const uint64_t began_ns = wait->began_ns;
    if (began_ns == 0)
        return;
    rg__nvtx_end(wait->range);
    const uint64_t now_ns = rg__now_ns();
    atomic_fetch_add_explicit(&e->page->waited_ns, now_ns - began_ns,
                              memory_order_relaxed);
    if (!rg__record_traces(e->record))
        return;
    const rg__span span = {.span = RG__SPAN_WAIT,
                           .begun_ns = began_ns,
                           .ended_ns = now_ns,
                           .number = (uint32_t)atomic_load(&e->page->step),
                           .generation = (uint32_t)atomic_load(&e->generation)};
    rg__record_span(e->record, &span);
}

/* Helps until the request is done or the deadline has passed. Every call looks
 * once, even after its deadline. */
static void help(rg_req *req, uint64_t deadline, wait_note *wait)
{
    rg__engine *e = req->engine;
    uint32_t round = 0, rounds = 0;
    while (!rg__req_is_done(req)) {
        if (rg__engine_is_aborted(e)) {
            rg__engine_give_up(e, req);
            continue;
        }
        const bool moved = rg__engine_help(e);
        const uint64_t left = left_until(deadline);
        if (wait->began_ns == 0 &&
            (++rounds == UNTIMED_ROUNDS || rg__is_crowded(policy_of(e))))
            *wait = (wait_note){rg__now_ns(), rg__nvtx_begin("wait", "")};
        if (left == 0) { /* perhaps no other thread looks */
            rg__watchdog_look(e);
            return;
        }
        if (moved) {
            round = 0;
            req->still_ns = 0;
        } else if (!rg__spin(policy_of(e), round++)) {
            yield_or_sleep(req, left);
        } else if (round % LOOK_ROUNDS ==
                   0) { /* rounds are long on a busy host */
            rg__watchdog_look(e);
        }
    }
}

static void help_until_done(rg_req *req, uint64_t deadline)
{
    wait_note wait = {0};
    help(req, deadline, &wait);
    count_wait(req->engine, &wait);
}

/* Needs no lock: only the waiting thread ends the request. */
static bool await_device(rg_req *req, uint64_t deadline)
{
    const rg_status st = rg__ticket_wait(req->device, &req->ticket, deadline);
    if (st == RG_IN_PROGRESS)
        return false;
    req->st = st;
    req->why = st == RG_OK ? NULL : strdup(rg_last_error());
    atomic_store(&req->state, RG__REQ_DONE);
    return true;
}

/* False: the request is still in flight at the deadline. */
static bool await(rg_req *req, uint64_t deadline)
{
    if (rg__req_is_done(req))
        return true;
    if (atomic_load(&req->state) == RG__REQ_NOTED)
        return false; /* its group is open, so it is not in flight */
    if (req->device != NULL)
        return await_device(req, deadline);
    rg__engine_enter_help(req->engine, deadline);
    help_until_done(req, deadline);
    rg__engine_leave_help(req->engine);
    return rg__req_is_done(req);
}

/* The outcome of one that is done; its sentence becomes this thread's. */
static rg_status outcome_of(const rg_req *req)
{
    return req->st == RG_OK
               ? RG_OK
               : rg__fail(req->st, "%s",
                          req->why != NULL ? req->why
                                           : rg_status_text(req->st));
}

static rg_status take(rg_req *req)
{
    const rg_status st = outcome_of(req);
    rg__req_free(req);
    return st;
}

/* The engine outlives the request while its lock is held. */
static void await_others(rg_req *req)
{
    rg__engine *e = req->engine;
    rg__engine_ref(e);
    rg__engine_hand_over(e);
    rg__engine_unlock(e);
    await(req, FOREVER);
    rg__engine_unref(e);
}

rg_status rg__channel_complete(rg__channel *ch, const rg__start *start)
{
    rg__engine *e = ch->engine;
    rg_req req;
    rg__req_set(&req, ch, start);
    req.coll.is_awaited = true;
    rg__engine_lock(e);
    rg_status st = rg__channel_check_start(ch);
    if (st == RG_OK) {
        rg__channel_append(ch, &req);
        rg__channel_go_alone(ch, &req);
    }
    if (st == RG_OK && !rg__req_is_done(&req))
        await_others(&req);
    else
        rg__engine_unlock(e);
    if (st == RG_OK)
        st = outcome_of(&req);
    rg__req_clear(&req);
    return st;
}

rg_status rg__channel_run(rg__channel *ch, const rg__coll *coll,
                          size_t send_bytes, size_t recv_bytes)
{
    const size_t send_words = (send_bytes + 7) / 8;
    rg__start start = {.coll = *coll};
    start.coll.is_awaited = true;
    start.arrays = malloc(8 * send_words + recv_bytes + 1);
    if (start.arrays == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    void *recv = start.arrays + send_words;
    if (send_bytes > 0)
        memcpy(start.arrays, coll->send, send_bytes);
    if (coll->send == NULL && recv_bytes > 0)
        memcpy(recv, coll->recv, recv_bytes);
    start.coll.send = coll->send == NULL ? NULL : start.arrays;
    start.coll.recv = coll->recv == NULL ? NULL : recv;
    rg_req *req = NULL;
    const rg_status st = rg__channel_begin(ch, &start, &req);
    if (st != RG_OK)
        return st;
    await(req, FOREVER);
    if (req->st == RG_OK && recv_bytes > 0)
        memcpy(coll->recv, recv, recv_bytes);
    return take(req);
}

rg_status rg__req_of_device(rg__engine *e, rg__device *device,
                            const rg__ticket *ticket, rg_req **req_p)
{
    rg_req *req = malloc(sizeof *req);
    if (req == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a request");
    *req = (rg_req){.engine = e, .device = device, .ticket = *ticket};
    rg__device_ref(device);
    rg__engine_ref(e);
    *req_p = req;
    return RG_OK;
}

rg_status rg__req_note_device(rg__channel *ch, rg__device *device,
                              rg_req **req_p)
{
    const rg__ticket none = {0};
    const rg_status st = rg__req_of_device(ch->engine, device, &none, req_p);
    if (st != RG_OK)
        return st;
    (*req_p)->channel = ch;
    atomic_store(&(*req_p)->state, RG__REQ_NOTED);
    atomic_fetch_add(&ch->noted, 1);
    return RG_OK;
}

void rg__req_launched(rg_req *req, rg_status st, const rg__ticket *ticket)
{
    atomic_fetch_sub(&req->channel->noted, 1);
    req->st = st;
    if (st == RG_OK)
        req->ticket = *ticket;
    else
        req->why = strdup(rg_last_error());
    atomic_store(&req->state, st == RG_OK ? RG__REQ_RUNS : RG__REQ_DONE);
}

rg_status rg_wait(rg_req **req_p, int timeout_ms)
{
    if (req_p == NULL || *req_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "there is no request to wait for; each is waited for "
                        "once");
    if (!await(*req_p, rg__deadline_ns(timeout_ms)))
        return RG_IN_PROGRESS;
    rg_req *req = *req_p;
    *req_p = NULL;
    return take(req);
}

rg_status rg_test(rg_req **req_p)
{
    return rg_wait(req_p, 0);
}

rg_status rg_wait_all(rg_req **reqs, int n, int timeout_ms)
{
    if (n < 0 || (n > 0 && reqs == NULL))
        return rg__fail(RG_ERR_INVALID, "rg_wait_all needs %d requests", n);
    const uint64_t deadline = rg__deadline_ns(timeout_ms);
    bool is_all = true;
    for (int i = 0; i < n; i++)
        if (reqs[i] != NULL && !await(reqs[i], deadline))
            is_all = false;
    if (!is_all)
        return RG_IN_PROGRESS;
    rg_req *failed = NULL; /* taken last, so that its sentence remains */
    for (int i = 0; i < n; i++) {
        rg_req *req = reqs[i];
        reqs[i] = NULL;
        if (req == NULL)
            continue;
        if (req->st != RG_OK && failed == NULL)
            failed = req;
        else
            take(req);
    }
    return failed == NULL ? RG_OK : take(failed);
}
