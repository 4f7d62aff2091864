/* The engine: queues of operations, and the threads that advance them.
 *
 * One lock guards everything, user buffers included: a thread that advances an
 * operation holds it, for one bounded piece of work per channel. A thread that
 * only helps takes it by trylock and gives way to threads that want to change
 * something.
 *
 * The Regroup thread advances nothing while a user thread waits: the waiting
 * thread saves a context switch, and two would only fight for the lock. When
 * the last waiting thread leaves and operations are still in flight, it wakes
 * the Regroup thread, which is asleep on page->wake (sleep.c).
 *
 * Aborted generations: once page->abort has reached the generation no
 * operation is advanced any more; waiting user threads end their own requests,
 * and rg__engine_leave ends the rest. */
#include "sdk/core/engine_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/nvtx.h"

/* ------------------------------------------------------------ life and lock */

rg_status rg__engine_create(rg__page *page, rg__engine **engine_p)
{
    rg__engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an engine");
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->turn, NULL);
    e->page = page;
    atomic_init(&e->references, 1);
    atomic_init(&e->wait, &rg__wait_usual);
    rg__watchdog_configure(e);
    rg__nvtx_open();
    *engine_p = e;
    return RG_OK;
}

void rg__engine_ref(rg__engine *e)
{
    atomic_fetch_add(&e->references, 1);
}

void rg__engine_unref(rg__engine *e)
{
    if (atomic_fetch_sub(&e->references, 1) != 1)
        return;
    pthread_mutex_destroy(&e->turn);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Waits until all threads have counted themselves out, which they must do now.
 */
static void await_zero(_Atomic uint32_t *count)
{
    for (uint32_t round = 0;;) {
        const uint32_t seen = atomic_load(count);
        if (seen == 0)
            return;
        const rg__word word = {count, seen};
        if (!rg__spin(&rg__wait_usual, round++))
            rg__futex_wait_any(&word, 1, RG__MS);
    }
}

void rg__engine_destroy(rg__engine *e)
{
    if (e == NULL)
        return;
    rg__engine_leave(e, RG_ERR_INVALID, "rg_finalize was called");
    await_zero(&e->helpers); /* they look at the page, which is unmapped next */
    rg__engine_unref(e);
}

/* A plain mutex is unfair: a running thread gets it again and again while
 * another one is still being woken. `turn` makes it fair: later arrivals queue
 * behind the thread that waits. */
bool rg__engine_trylock(rg__engine *e)
{
    if (atomic_load_explicit(&e->wanting, memory_order_relaxed) != 0 ||
        pthread_mutex_trylock(&e->lock) != 0)
        return false;
    rg__engine_queue_left(e);
    return true;
}

void rg__engine_lock(rg__engine *e)
{
    if (rg__engine_trylock(e))
        return;
    atomic_fetch_add(&e->wanting, 1);
    pthread_mutex_lock(&e->turn);
    pthread_mutex_lock(&e->lock);
    pthread_mutex_unlock(&e->turn);
    atomic_fetch_sub(&e->wanting, 1);
    rg__engine_queue_left(e);
}

void rg__engine_unlock(rg__engine *e)
{
    pthread_mutex_unlock(&e->lock);
}

void rg__engine_record(rg__engine *e, rg__record *record)
{
    rg__engine_lock(e);
    e->record = record;
    rg__engine_unlock(e);
}

void rg__engine_on_overdue(rg__engine *e, rg__overdue_fn fn, void *arg)
{
    rg__engine_lock(e);
    e->overdue_fn = fn;
    e->overdue_arg = arg;
    rg__engine_unlock(e);
}

rg__mappings *rg__engine_mappings(rg__engine *e)
{
    return &e->mappings;
}

uint64_t rg__engine_generation(const rg__engine *e)
{
    return atomic_load(&e->generation);
}

uint64_t rg__engine_timeout_ms(const rg__engine *e)
{
    return e->timeout_ms;
}

uint64_t rg__engine_stall_ms(const rg__engine *e)
{
    return e->stall_ns / RG__MS;
}

bool rg__engine_is_aborted(const rg__engine *e)
{
    const uint64_t generation =
        atomic_load_explicit(&e->generation, memory_order_relaxed);
    return generation != 0 &&
           atomic_load_explicit(&e->page->abort, memory_order_acquire) >=
               generation;
}

/* --------------------------------------------------------------- channels */

static void close_comm(rg__channel *ch)
{
    if (ch->comm != NULL)
        ch->comm->transport->close(ch->comm);
    ch->comm = NULL;
}

rg_status rg__channel_create(rg__engine *e, rg__channel **channel_p)
{
    rg__channel *ch = calloc(1, sizeof *ch);
    if (ch == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    ch->engine = e;
    rg__channel_set_reason(
        ch, RG_ERR_INVALID,
        "there is no world before rg_run; call it inside rg_run's fn, or in "
        "the first world, which rg_world_wait forms");
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

void rg__channel_hush(rg__channel *ch)
{
    rg__engine_lock(ch->engine);
    ch->is_hushed = true;
    rg__engine_unlock(ch->engine);
}

void rg__channel_close(rg__channel *ch, rg_status st, const char *why)
{
    rg__engine_lock(ch->engine);
    rg__channel_shut(ch, st, why);
    rg__messages *messages = rg__engine_messages(ch->engine);
    if (messages != NULL && ch->comm != NULL)
        rg__messages_forget(messages, ch->id);
    close_comm(ch);
    rg__record_closed(ch);
    rg__engine_unlock(ch->engine);
}

/* Lock held. */
static void forget(rg__channel *ch)
{
    rg__channel **at = &ch->engine->channels;
    while (*at != ch)
        at = &(*at)->next;
    *at = ch->next;
    at = &ch->engine->busy;
    while (*at != NULL && *at != ch)
        at = &(*at)->next_busy;
    if (*at == ch)
        *at = ch->next_busy;
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
    forget(ch);
    rg__engine_unlock(e);
    free(ch->close_why);
    free(ch);
}

/* Lock held. */
static rg_status check_generation(const rg__engine *e, uint64_t generation)
{
    return e->world != NULL && atomic_load(&e->generation) == generation
               ? RG_OK
               : rg__fail(RG_ERR_PEER_LOST, "the generation was left; return "
                                            "this status from fn");
}

/* Lock held, but released while this waits, unless only threads inside a call
 * may use the transport. */
static rg_status rendezvous(rg__engine *e, uint64_t generation,
                            const int *ranks, int n, uint32_t id,
                            rg__comm **comm_p)
{
    const rg__transport *t = e->transport;
    rg__comm *world = e->world->comm;
    if (!t->is_for_all(world))
        return t->rendezvous(world, ranks, n, id, comm_p);
    rg__engine_unlock(e);
    rg_status st = t->rendezvous(world, ranks, n, id, comm_p);
    rg__engine_lock(e);
    if (st != RG_OK)
        return st;
    st = check_generation(e, generation);
    if (st != RG_OK)
        t->close(*comm_p);
    return st;
}

rg_status rg__channel_open(rg__channel *ch, uint64_t generation,
                           const int *ranks, int n, uint32_t id)
{
    rg__engine *e = ch->engine;
    rg__comm *comm = NULL;
    rg__engine_lock(e);
    rg_status st = check_generation(e, generation);
    if (st == RG_OK && e->transport->rendezvous != NULL)
        st = rendezvous(e, generation, ranks, n, id, &comm);
    if (st == RG_OK)
        st = e->transport->split(e->world->comm, ranks, n, id, &comm);
    if (st == RG_OK) {
        ch->comm = comm;
        ch->close_st = RG_OK;
        ch->id = id;
        rg__record_members(ch, ranks, n, e->rank);
        if (rg__engine_messages(e) != NULL)
            rg__messages_remember(rg__engine_messages(e), id);
    }
    rg__engine_unlock(e);
    return st;
}

bool rg__engine_is_vacant(rg__engine *e, uint32_t place)
{
    rg__engine_lock(e);
    const bool is_vacant = e->world == NULL ||
                           e->transport->is_vacant == NULL ||
                           e->transport->is_vacant(e->world->comm, place);
    rg__engine_unlock(e);
    return is_vacant;
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
        world->id = 0;
        e->world = world;
        e->transport = transport;
        e->bell = transport->bell(comm);
        e->rank = boot->rank;
        rg__record_enter(e, boot->generation, boot->rank, boot->size);
        e->is_admitted = false;
        atomic_store(&e->is_left_alone, transport->is_for_all != NULL &&
                                            !transport->is_for_all(comm));
        atomic_store(&e->wait, transport->wait.sleep_ns != 0 ? &transport->wait
                                                             : &rg__wait_usual);
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
        e->is_shut = false;
        e->world->close_st = RG_OK;
    }
    rg__engine_unlock(e);
}

/* Lock held. */
static void shut_all(rg__engine *e, rg_status st, const char *why)
{
    for (rg__channel *ch = e->channels; ch != NULL; ch = ch->next)
        rg__channel_shut(ch, st, why);
    e->is_admitted = false;
}

/* Lock held. */
static void shut(rg__engine *e, rg_status st, const char *why)
{
    shut_all(e, st, why);
    e->is_shut = true;
}

void rg__engine_shut(rg__engine *e, rg_status st, const char *why)
{
    rg__engine_lock(e);
    shut(e, st, why);
    rg__engine_unlock(e);
}

void rg__engine_shut_in(rg__engine *e, uint64_t generation, rg_status st,
                        const char *why)
{
    rg__engine_lock(e);
    if (atomic_load(&e->generation) == generation)
        shut(e, st, why);
    rg__engine_unlock(e);
}

/* Lock held: every thread that sleeps on the bell has counted itself. */
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

/* Lock held. From now on every call returns ERR_INVALID. */
static void say_goodbye(rg__engine *e, rg_status st)
{
    if (st == RG_ERR_INVALID && e->world != NULL && e->world->comm != NULL &&
        e->transport->goodbye != NULL)
        e->transport->goodbye(e->world->comm);
}

void rg__engine_goodbye(rg__engine *e)
{
    rg__engine_lock(e);
    say_goodbye(e, RG_ERR_INVALID);
    rg__engine_unlock(e);
}

void rg__engine_lose(rg__engine *e, int rank)
{
    rg__engine_lock(e);
    if (e->world != NULL && e->world->comm != NULL &&
        e->transport->lost != NULL)
        e->transport->lost(e->world->comm, rank);
    rg__engine_unlock(e);
}

void rg__engine_leave(rg__engine *e, rg_status st, const char *why)
{
    rg__engine_lock(e);
    say_goodbye(e, st);
    if (!e->is_shut) /* otherwise it has its reason already */
        shut_all(e, st, why);
    e->left_st = st;
    snprintf(e->left_why, sizeof e->left_why, "%s", why);
    e->bell = NULL;
    rg__engine_unlock(e);
    await_zero(&e->bell_users); /* their requests have ended, so they wake up */
    rg__engine_lock(e);
    close_comms(e);
    atomic_store(&e->generation, 0);
    rg__engine_unlock(e);
}
