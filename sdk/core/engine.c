/* The engine: queues of operations, and who makes them progress.
 *
 * One lock guards everything, user buffers included: whoever advances an
 * operation holds it, for one bounded piece of work per channel. Who only
 * helps takes it by trylock and gives way to who wants to change something.
 *
 * The Regroup thread does not progress while a user thread waits: the waiting
 * thread is quicker by a switch, and two would only fight for the lock. When
 * the last waiting thread leaves and operations are still in flight, it wakes
 * the Regroup thread, which is asleep on page->wake.
 *
 * Aborted generations: once page->abort has reached the generation no
 * operation is advanced any more; waiting user threads end their own requests,
 * and rg__engine_leave ends the rest. */
#include "sdk/core/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

#define SLEEP_NS       (5 * RG__MS) /* a safety net below every sleep */
#define LINGER_NS      (1 * RG__MS)
#define LINGER_ROUNDS  5
#define RING_BYTES     ((uint64_t)64 << 10) /* worth waking who lingers, but */
#define STREAK         8  /* not behind so many that were waited for */
#define DONE_PER_ROUND 16 /* operations of one channel */

/* ------------------------------------------------------------ life and lock */

rg_status rg__engine_create(rg__page *page, rg__engine **engine_p)
{
    rg__engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an engine");
    pthread_mutex_init(&e->lock, NULL);
    e->page = page;
    atomic_init(&e->references, 1);
    atomic_init(&e->nap_ns, SLEEP_NS);
    rg__late_configure(e);
    *engine_p = e;
    return RG_OK;
}

void rg__engine_unref(rg__engine *e)
{
    if (atomic_fetch_sub(&e->references, 1) != 1)
        return;
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Until those who count themselves out have done so; they were told to. */
static void await_zero(_Atomic uint32_t *count)
{
    for (uint32_t round = 0;;) {
        const uint32_t seen = atomic_load(count);
        if (seen == 0)
            return;
        const rg__word word = {count, seen};
        if (!rg__spin(round++))
            rg__futex_wait_any(&word, 1, RG__MS);
    }
}

void rg__engine_destroy(rg__engine *e)
{
    if (e == NULL)
        return;
    rg__engine_leave(e, RG_ERR_INVALID, "rg_finalize was called");
    await_zero(&e->helpers); /* they look at the page, which goes next */
    rg__engine_unref(e);
}

void rg__engine_lock(rg__engine *e)
{
    atomic_fetch_add(&e->wanting, 1);
    pthread_mutex_lock(&e->lock);
    atomic_fetch_sub(&e->wanting, 1);
}

void rg__engine_unlock(rg__engine *e)
{
    pthread_mutex_unlock(&e->lock);
}

void rg__engine_on_late(rg__engine *e, rg__late_fn fn, void *arg)
{
    rg__engine_lock(e);
    e->late_fn = fn;
    e->late_arg = arg;
    rg__engine_unlock(e);
}

rg__mappings *rg__engine_mappings(rg__engine *e)
{
    return &e->mappings;
}

void rg__page_ring(rg__page *page)
{
    atomic_fetch_add(&page->wake, 1);
    rg__futex_wake(&page->wake);
}

bool rg__engine_is_aborted(const rg__engine *e)
{
    const uint64_t generation =
        atomic_load_explicit(&e->generation, memory_order_relaxed);
    return generation != 0 &&
           atomic_load_explicit(&e->page->abort, memory_order_acquire) >=
               generation;
}

/* ------------------------------------------------------- ending requests */

bool rg__req_is_done(const rg_req *req)
{
    return atomic_load_explicit(&req->state, memory_order_acquire) ==
           RG__REQ_DONE;
}

/* why is copied. */
static void finish_one(rg__engine *e, rg_req *req, rg_status st,
                       const char *why)
{
    req->st = st;
    req->why = st == RG_OK || why == NULL ? NULL : strdup(why);
    req->channel = NULL;
    atomic_fetch_sub(&e->in_flight, 1);
    if (atomic_exchange(&req->state, RG__REQ_DONE) == RG__REQ_SLEPT_ON)
        rg__futex_wake(&req->state);
}

/* Those that ran with it end as it does, itself last. */
void rg__req_finish(rg__engine *e, rg_req *req, rg_status st, const char *why)
{
    for (int i = rg__run_count(req) - 1; i >= 0; i--)
        finish_one(e, rg__run_at(req, i), st, why);
}

void rg__req_fail_noted(rg__engine *e, rg_req *req, rg_status st,
                        const char *why)
{
    atomic_fetch_add(&e->in_flight, 1); /* it never was, and now is not again */
    finish_one(e, req, st, why);
}

static rg_req *pop(rg__channel *ch)
{
    rg_req *req = ch->head;
    ch->head = req->next;
    if (ch->head == NULL)
        ch->tail = NULL;
    ch->has_begun = false;
    return req;
}

static void finish_all(rg__channel *ch, rg_status st, const char *why)
{
    while (ch->head != NULL)
        rg__req_finish(ch->engine, pop(ch), st, why);
}

/* All or none: what comes behind in the group fails as its first has. */
static void finish_group(rg__channel *ch, uint64_t group, rg_status st,
                         const char *why)
{
    if (group == 0 || st == RG_OK)
        return;
    while (ch->head != NULL && ch->head->group == group)
        rg__req_finish(ch->engine, pop(ch), st, why);
}

static void unlink_request(rg__channel *ch, rg_req *req)
{
    rg_req *before = NULL, *at = ch->head;
    while (at != req) {
        before = at;
        at = at->next;
    }
    if (before == NULL)
        ch->head = req->next;
    else
        before->next = req->next;
    if (ch->tail == req)
        ch->tail = before;
}

/* Lock held. */
static rg_status fail_aborted(const rg__engine *e)
{
    if (e->late_generation == atomic_load(&e->generation))
        return rg__fail(RG_ERR_PEER_LOST,
                        "the generation has ended: %s; return this status "
                        "from fn",
                        e->late_why);
    return rg__fail(RG_ERR_PEER_LOST,
                    "generation %llu has ended because a peer is lost; return "
                    "this status from fn",
                    (unsigned long long)atomic_load(&e->generation));
}

void rg__engine_give_up(rg__engine *e, rg_req *req)
{
    rg__engine_lock(e);
    if (!rg__req_is_done(req) && rg__engine_is_aborted(e)) {
        rg_req *queued = req->leader != NULL ? req->leader : req;
        fail_aborted(e);
        unlink_request(queued->channel, queued);
        rg__req_finish(e, queued, RG_ERR_PEER_LOST, rg_last_error());
    }
    rg__engine_unlock(e);
}

/* --------------------------------------------------------------- progress */

/* The comm goes on after these; after others it is only good for close. */
static bool leaves_comm_usable(rg_status st)
{
    return st == RG_OK || st == RG_ERR_MISMATCH || st == RG_ERR_INVALID ||
           st == RG_ERR_UNSUPPORTED;
}

/* Lock held. */
static bool is_let_in(const rg__engine *e)
{
    return e->world == NULL || e->transport->admits == NULL ||
           e->transport->admits(e->world->comm);
}

static void close_comm(rg__channel *ch)
{
    if (ch->comm != NULL)
        ch->comm->transport->close(ch->comm);
    ch->comm = NULL;
}

static void set_reason(rg__channel *ch, rg_status st, const char *why)
{
    char *copy = strdup(why); /* first: why may be the old reason */
    free(ch->close_why);
    ch->close_why = copy;
    ch->close_st = st;
}

static rg_status advance(rg__channel *ch)
{
    if (!ch->has_begun) {
        rg__failpoint("coll.start", ch->engine->rank,
                      atomic_load(&ch->engine->page->step),
                      atomic_load(&ch->engine->generation));
        const rg__coll *coll = rg__run_begin(ch->head);
        if (coll == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
        const rg_status st = ch->comm->transport->start(ch->comm, coll);
        if (st != RG_OK && st != RG_IN_PROGRESS)
            return st;
        ch->has_begun = true;
    }
    const uint64_t before = ch->comm->moves;
    const rg_status st = ch->comm->transport->test(ch->comm);
    if (st == RG_IN_PROGRESS && ch->comm->moves != before)
        rg__failpoint("coll.middle", ch->engine->rank,
                      atomic_load(&ch->engine->page->step),
                      atomic_load(&ch->engine->generation));
    return st;
}

/* Lock held. One piece of work on the first operation, and on the next ones
 * when it was the last piece; true if anything moved. */
static bool progress_channel(rg__channel *ch)
{
    if (ch->head == NULL || ch->comm == NULL)
        return false;
    const uint64_t before = ch->comm->moves;
    for (int i = 0; i < DONE_PER_ROUND && ch->head != NULL; i++) {
        rg_status st = advance(ch);
        if (st == RG_IN_PROGRESS)
            return ch->comm->moves != before;
        st = rg__run_end(ch->head, st, &ch->comm->joined);
        if (st == RG_IN_PROGRESS) {
            ch->has_begun = false;
            ch->comm->moves++;
            continue;
        }
        const char *why = st == RG_OK ? NULL : rg_last_error();
        const uint64_t group = ch->head->group;
        rg__req_finish(ch->engine, pop(ch), st, why);
        finish_group(ch, group, st, why);
        if (!leaves_comm_usable(st)) {
            set_reason(ch, st, why);
            finish_all(ch, st, ch->close_why);
            break;
        }
    }
    return true;
}

static bool is_open(const rg__channel *ch)
{
    return ch->comm != NULL && ch->close_st == RG_OK;
}

/* Lock held. */
static bool progress(rg__engine *e)
{
    bool moved = false;
    if (rg__engine_is_aborted(e) || !is_let_in(e))
        return false;
    for (rg__channel *ch = e->channels; ch != NULL; ch = ch->next)
        if (is_open(ch))
            moved |= progress_channel(ch);
    return moved;
}

bool rg__engine_help(rg__engine *e)
{
    if (atomic_load_explicit(&e->wanting, memory_order_relaxed) != 0 ||
        pthread_mutex_trylock(&e->lock) != 0)
        return false;
    const bool moved = progress(e);
    pthread_mutex_unlock(&e->lock);
    return moved;
}

/* --------------------------------------------------------------- channels */

rg_status rg__channel_create(rg__engine *e, rg__channel **channel_p)
{
    rg__channel *ch = calloc(1, sizeof *ch);
    if (ch == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    ch->engine = e;
    set_reason(ch, RG_ERR_INVALID,
               "the set has no generation before the door; call it inside "
               "rg_run's fn");
    rg__engine_lock(e);
    ch->next = e->channels;
    e->channels = ch;
    rg__engine_unlock(e);
    *channel_p = ch;
    return RG_OK;
}

void rg__channel_name(rg__channel *ch, const char *name)
{
    rg__engine_lock(ch->engine);
    snprintf(ch->name, sizeof ch->name, "%s", name);
    rg__engine_unlock(ch->engine);
}

void rg__channel_shut(rg__channel *ch, rg_status st, const char *why)
{
    set_reason(ch, st, why);
    finish_all(ch, st, why);
    ch->has_begun = false; /* also when the first one was given up */
}

void rg__channel_close(rg__channel *ch, rg_status st, const char *why)
{
    rg__engine_lock(ch->engine);
    rg__channel_shut(ch, st, why);
    close_comm(ch);
    rg__engine_unlock(ch->engine);
}

void rg__channel_destroy(rg__channel *ch)
{
    if (ch == NULL)
        return;
    rg__engine *e = ch->engine;
    rg__engine_lock(e);
    const bool is_world = e->world == ch;
    rg__engine_unlock(e);
    if (is_world)
        rg__engine_leave(e, RG_ERR_INVALID, "rg_finalize was called");
    rg__channel_close(ch, RG_ERR_INVALID, "the set was destroyed");
    rg__engine_lock(e);
    rg__channel **at = &e->channels;
    while (*at != ch)
        at = &(*at)->next;
    *at = ch->next;
    rg__engine_unlock(e);
    free(ch->close_why);
    free(ch);
}

rg_status rg__channel_open(rg__channel *ch, const int *ranks, int n,
                           uint32_t id)
{
    rg__engine *e = ch->engine;
    rg__engine_lock(e);
    rg_status st;
    if (e->world == NULL)
        st = rg__fail(RG_ERR_PEER_LOST,
                      "the generation was left; return this status from fn");
    else
        st = e->transport->split(e->world->comm, ranks, n, id, &ch->comm);
    if (st == RG_OK)
        ch->close_st = RG_OK;
    rg__engine_unlock(e);
    return st;
}

/* ------------------------------------------------------------- generations */

rg_status rg__engine_enter(rg__engine *e, rg__channel *world,
                           const rg__transport *transport, const rg__boot *boot)
{
    rg__engine_lock(e);
    rg__comm *comm = NULL;
    const rg_status st = transport->open(boot, &comm);
    if (st == RG_OK) {
        world->comm = comm;
        e->world = world;
        e->transport = transport;
        e->bell = transport->bell(comm);
        e->rank = boot->rank;
        e->is_admitted = false;
        atomic_store(&e->is_left_alone, transport->is_for_all != NULL &&
                                            !transport->is_for_all(comm));
        atomic_store(&e->patience_ns, transport->patience_ns);
        atomic_store(&e->nap_ns,
                     transport->nap_ns != 0 ? transport->nap_ns : SLEEP_NS);
        atomic_store(&e->generation, boot->generation);
    }
    rg__engine_unlock(e);
    return st;
}

void rg__engine_admit(rg__engine *e)
{
    rg__engine_lock(e);
    if (e->world != NULL) {
        e->is_admitted = true;
        e->world->close_st = RG_OK;
    }
    rg__engine_unlock(e);
}

/* Lock held: nobody sleeps on the bell that hasn't counted itself yet. */
static void close_comms(rg__engine *e)
{
    for (rg__channel *ch = e->channels; ch != NULL; ch = ch->next)
        if (ch != e->world)
            close_comm(ch);
    if (e->world != NULL)
        close_comm(e->world);
    e->world = NULL;
    e->transport = NULL;
}

void rg__engine_leave(rg__engine *e, rg_status st, const char *why)
{
    rg__engine_lock(e);
    for (rg__channel *ch = e->channels; ch != NULL; ch = ch->next)
        rg__channel_shut(ch, st, why);
    e->is_admitted = false;
    e->bell = NULL;
    rg__engine_unlock(e);
    await_zero(&e->bell_users); /* their requests have ended: they wake up */
    rg__engine_lock(e);
    close_comms(e);
    atomic_store(&e->generation, 0);
    rg__engine_unlock(e);
}

/* ------------------------------------------------------------------- start */

rg_status rg__channel_check_start(const rg__channel *ch)
{
    if (rg__engine_is_aborted(ch->engine) && ch->engine->is_admitted)
        return fail_aborted(ch->engine);
    if (ch->close_st != RG_OK)
        return rg__fail(ch->close_st, "%s",
                        ch->close_why != NULL ? ch->close_why : "");
    if (!is_let_in(ch->engine))
        return rg__fail(RG_ERR_INVALID,
                        "transport %s came up without support for threads: "
                        "only the thread that began it may start operations",
                        ch->engine->transport->name);
    return RG_OK;
}

rg_status rg__channel_check(rg__channel *ch)
{
    rg__engine_lock(ch->engine);
    const rg_status st = rg__channel_check_start(ch);
    rg__engine_unlock(ch->engine);
    return st;
}

rg_req *rg__req_create(rg__channel *ch, const rg__start *start)
{
    rg_req *req = malloc(sizeof *req);
    if (req == NULL) {
        free(start->arrays);
        return NULL;
    }
    *req = (rg_req){.engine = ch->engine,
                    .channel = ch,
                    .coll = start->coll,
                    .arrays = start->arrays,
                    .last_p = start->last_p,
                    .deadline_ns =
                        rg__late_deadline(ch->engine, start->timeout_ms)};
    atomic_fetch_add(&ch->engine->references, 1);
    return req;
}

/* Not in a queue any more. */
void rg__req_free(rg_req *req)
{
    rg__engine_unref(req->engine);
    rg__run_free(req->run);
    free(req->arrays);
    free(req->why);
    free(req);
}

void rg__channel_append(rg__channel *ch, rg_req *req)
{
    const uint32_t n = (uint32_t)rg__run_count(req);
    if (ch->tail == NULL)
        ch->head = req;
    else
        ch->tail->next = req;
    ch->tail = req;
    atomic_fetch_add(&ch->engine->in_flight, n);
    atomic_fetch_add(&ch->engine->starts, n);
}

/* Somebody must advance what is in flight: a waiting user thread does, or the
 * Regroup thread does. Who lingers looks by itself soon, and is only woken for
 * what takes long; not even then in a program that waits for each operation
 * anyway. */
static void wake_regroup_thread(rg__engine *e, uint64_t bytes)
{
    if (atomic_load(&e->in_flight) == 0 || atomic_load(&e->helpers) != 0)
        return;
    const uint32_t sleep = atomic_load(&e->sleep);
    const bool is_long =
        bytes >= RING_BYTES && atomic_load(&e->streak) < STREAK;
    if (sleep == RG__SLEEPS || (sleep == RG__LINGERS && is_long))
        rg__page_ring(e->page);
}

rg_status rg__channel_begin(rg__channel *ch, const rg__start *start,
                            rg_req **req_p)
{
    rg__engine *e = ch->engine;
    rg_req *req = rg__req_create(ch, start);
    if (req == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a request");
    rg__engine_lock(e);
    const rg_status st = rg__channel_check_start(ch);
    if (st == RG_OK) {
        rg__channel_append(ch, req);
        progress_channel(ch);
    }
    rg__engine_unlock(e);
    if (st != RG_OK) {
        rg__req_free(req);
        return st;
    }
    wake_regroup_thread(e, start->coll.count * rg_type_size(start->coll.type));
    *req_p = req;
    return RG_OK;
}

void rg__channel_wake(rg__channel *ch, uint64_t bytes)
{
    wake_regroup_thread(ch->engine, bytes);
}

rg_status rg__channel_start(rg__channel *ch, const rg__coll *coll,
                            rg_req **req_p)
{
    const rg__start start = {.coll = *coll};
    return rg__channel_begin(ch, &start, req_p);
}

rg_status rg__channel_run(rg__channel *ch, const rg__coll *coll)
{
    rg_req *req = NULL;
    const rg_status st = rg__channel_start(ch, coll, &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

/* ---------------------------------------------------------------- sleeping */

/* Count myself in as a sleeper on the bell, and add it to the words that I am
 * going to sleep on; NULL when there is none. */
static rg__bell *take_bell(rg__engine *e, rg__word *words, int *n)
{
    rg__engine_lock(e);
    rg__bell *bell = e->bell;
    if (bell != NULL) {
        atomic_fetch_add(&e->bell_users, 1);
        atomic_fetch_add(&bell->waiters, 1);
        words[(*n)++] = (rg__word){&bell->seq, atomic_load(&bell->seq)};
        if (e->transport->arm != NULL)
            e->transport->arm(e->world->comm);
    }
    rg__engine_unlock(e);
    return bell;
}

static void give_bell(rg__engine *e, rg__bell *bell)
{
    if (bell == NULL)
        return;
    atomic_fetch_sub(&bell->waiters, 1);
    atomic_fetch_sub(&e->bell_users, 1);
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t nap(const rg__engine *e)
{
    return atomic_load_explicit(&e->nap_ns, memory_order_relaxed);
}

void rg__engine_enter_help(rg__engine *e, bool is_blocking)
{
    atomic_fetch_add(&e->helpers, 1);
    const uint32_t streak = atomic_load(&e->streak);
    if (is_blocking && streak < STREAK)
        atomic_store(&e->streak, streak + 1);
}

/* Who leaves hands over: to a user thread that sleeps, or to the Regroup
 * thread. */
void rg__engine_leave_help(rg__engine *e)
{
    if (atomic_load(&e->in_flight) != 0) {
        rg__engine_lock(e);
        if (e->bell != NULL)
            rg__bell_ring(e->bell);
        rg__engine_unlock(e);
    }
    if (atomic_fetch_sub(&e->helpers, 1) == 1)
        wake_regroup_thread(e, 0);
}

void rg__engine_sleep_for(rg__engine *e, rg_req *req, uint64_t timeout_ns)
{
    uint32_t runs = RG__REQ_RUNS;
    if (!atomic_compare_exchange_strong(&req->state, &runs, RG__REQ_SLEPT_ON) &&
        runs == RG__REQ_DONE)
        return;
    rg__word words[3] = {{&req->state, RG__REQ_SLEPT_ON},
                         {&e->page->wake, atomic_load(&e->page->wake)}};
    int n = 2;
    rg__bell *bell = take_bell(e, words, &n);
    /* look again, now that posters know of a sleeper */
    if (!rg__engine_is_aborted(e) && !rg__engine_help(e)) {
        rg__late_look(e);
        if (!rg__req_is_done(req))
            rg__futex_wait_any(words, n, at_most(timeout_ns, nap(e)));
    }
    give_bell(e, bell);
}

/* ------------------------------------------------------ the Regroup thread */

static bool is_responsible(const rg__engine *e)
{
    return atomic_load(&e->in_flight) != 0 && atomic_load(&e->helpers) == 0 &&
           !atomic_load(&e->is_left_alone) && !rg__engine_is_aborted(e);
}

bool rg__engine_progress(rg__engine *e)
{
    if (is_responsible(e)) {
        if (rg__engine_help(e)) {
            e->fruitless = 0;
            atomic_store(&e->streak, 0);
        } else {
            e->fruitless++;
        }
    }
    return atomic_load(&e->in_flight) != 0;
}

/* Operations are this thread's to advance: sleep on the bell as well. */
static void sleep_on_bell(rg__engine *e, rg__word wake, uint64_t timeout_ns)
{
    rg__word words[2] = {wake};
    int n = 1;
    rg__bell *bell = take_bell(e, words, &n);
    atomic_store(&e->sleep, RG__SLEEPS);
    rg__late_look(e);
    if (rg__engine_help(e))
        e->fruitless = 0;
    else
        rg__futex_wait_any(words, n, at_most(timeout_ns, nap(e)));
    atomic_store(&e->sleep, RG__AWAKE);
    give_bell(e, bell);
}

/* After a burst of operations, look again by itself for a few milliseconds, so
 * that the next start need not wake this thread. */
static bool lingers(rg__engine *e)
{
    const uint32_t starts = atomic_load(&e->starts);
    if (starts != e->starts_seen) {
        e->starts_seen = starts;
        e->linger = LINGER_ROUNDS;
    }
    if (e->linger == 0)
        return false;
    e->linger--;
    return true;
}

static void sleep_on_wake(rg__engine *e, rg__word wake, uint64_t timeout_ns)
{
    const bool is_short = lingers(e);
    atomic_store(&e->sleep, is_short ? RG__LINGERS : RG__SLEEPS);
    /* who starts something after this store rings; who did before is seen */
    if (!is_responsible(e))
        rg__futex_wait_any(
            &wake, 1, is_short ? at_most(timeout_ns, LINGER_NS) : timeout_ns);
    atomic_store(&e->sleep, RG__AWAKE);
}

void rg__engine_sleep(rg__engine *e, uint32_t wake_seen, uint32_t round,
                      uint64_t timeout_ns)
{
    const rg__word wake = {&e->page->wake, wake_seen};
    if (!is_responsible(e)) {
        e->fruitless = 0;
        sleep_on_wake(e, wake, timeout_ns);
        return;
    }
    if (!rg__spin(round < e->fruitless ? round : e->fruitless))
        sleep_on_bell(e, wake, timeout_ns);
}
