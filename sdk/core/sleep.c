/* How user threads that wait, and the Regroup thread, sleep and are woken. */
#include "sdk/core/engine_parts.h"

#include "sdk/base/clock.h"
#include "sdk/base/least.h"

#define POLL_ROUNDS 5
/* After this many prompt waits, long operations wake no thread. Counting goes
 * on to the second number, so that one late wait does not end that. */
#define PROMPT_WAITS      8
#define PROMPT_WAITS_MOST (2 * PROMPT_WAITS)
#define AT_ONCE_NS        (20 * RG__MS / 1000) /* what waking a thread takes */
#define POLL_NS           RG__MS /* a wait that may be shorter only looks */

static uint32_t prompt_waits(const rg__engine *e)
{
    return atomic_load_explicit(&e->prompt_waits, memory_order_relaxed);
}

bool rg__engine_is_waited_for(const rg__engine *e)
{
    return prompt_waits(e) >= PROMPT_WAITS;
}

/* Did the caller of a long operation wait for it at once? */
static void note_wait(rg__engine *e, bool is_at_once)
{
    const uint32_t now = prompt_waits(e);
    const uint32_t more = now < PROMPT_WAITS_MOST ? now + 1 : now;
    atomic_store_explicit(&e->prompt_waits, is_at_once ? more : now / 2,
                          memory_order_relaxed);
}

/* No thread waited for the last one: it has ended by itself, or is still going.
 */
static void note_long(rg__engine *e)
{
    const uint64_t now = rg__now_ns();
    const uint64_t before =
        atomic_load_explicit(&e->long_ns, memory_order_relaxed);
    if (before != 0 && now - before > AT_ONCE_NS)
        note_wait(e, false);
    atomic_store_explicit(&e->long_ns, now, memory_order_relaxed);
}

static bool has_work(const rg__engine *e)
{
    return atomic_load(&e->in_flight) != 0 || atomic_load(&e->left) != NULL;
}

/* A waiting user thread or the Regroup thread must advance what is in flight. A
 * thread that polls looks again soon, and is woken for long operations only;
 * not even for those if the program waits at once anyway, since the two threads
 * would only take turns at the lock and at a processor. A thread that sleeps on
 * the bell has been handed everything in flight. */
void rg__engine_wake(rg__engine *e, uint64_t bytes)
{
    if (!has_work(e) || atomic_load(&e->is_left_alone))
        return;
    atomic_thread_fence(memory_order_seq_cst); /* pairs with sleep_on_wake */
    if (atomic_load(&e->helpers) != 0)
        return;
    const uint32_t sleep = atomic_load(&e->sleep);
    const bool is_long = bytes >= RG__RING_BYTES;
    if (sleep == RG__SLEEPS ||
        (sleep == RG__POLLS && is_long && !rg__engine_is_waited_for(e)))
        rg__page_ring(e->page);
    if (is_long)
        note_long(e);
}

/* The thread that has the lock may not look again, so ring: the Regroup thread
 * sleeps no longer while a request is left, and waiting threads wake up. */
void rg__engine_leave_behind(rg__engine *e, rg_req *req)
{
    req->next = atomic_load(&e->left);
    while (!atomic_compare_exchange_weak(&e->left, &req->next, req))
        ;
    rg__page_ring(e->page);
    note_long(e);
}

/* --------------------------------------------------------------- the bell */

static bool is_anybody_awake(const rg__engine *e)
{
    return atomic_load(&e->helpers) % RG__HELPER != 0;
}

/* Lock held: a bit for each set that has operations. */
static uint32_t busy_bits(const rg__engine *e)
{
    uint32_t bits = 0;
    for (const rg__channel *ch = e->busy; ch != NULL; ch = ch->next_busy)
        if (rg__channel_has_work(ch))
            bits |= rg__set_bit(ch->id);
    return bits;
}

/* Lock held. Peers ring while a thread sleeps on the bell and no user thread is
 * awake (which would look at all sets), and only for what was started here. */
static void set_ringing(rg__engine *e)
{
    if (e->bell == NULL)
        return;
    const bool rings = atomic_load(&e->bell_users) != 0 && !is_anybody_awake(e);
    const uint32_t bits = rings ? busy_bits(e) : 0;
    if (atomic_load_explicit(&e->bell->wants, memory_order_relaxed) != bits)
        atomic_store(&e->bell->wants, bits);
}

/* Lock held, and the bell rings from now on: whatever came before is seen here,
 * whatever comes later rings. */
static bool look(rg__engine *e)
{
    if (e->bell != NULL && e->transport->arm != NULL)
        e->transport->arm(e->world->comm);
    atomic_thread_fence(memory_order_seq_cst);
    return rg__engine_advance(e);
}

/* No thread of this process polls any more: from now on peers must ring, and a
 * thread that sleeps on the bell goes on with what is left here. */
void rg__engine_hand_over(rg__engine *e)
{
    if (atomic_load(&e->bell_users) == 0)
        return;
    set_ringing(e);
    if (!is_anybody_awake(e) && look(e) && e->bell != NULL)
        rg__bell_ring(e->bell);
}

static uint64_t sleep_ns(const rg__engine *e)
{
    return atomic_load_explicit(&e->wait, memory_order_acquire)->sleep_ns;
}

/* Lock held: counts this thread in as a sleeper on the bell, and adds the bell
 * to the words that it will sleep on. True: something has moved, so look again.
 */
static bool take_bell(rg__engine *e, rg__word *words, int *n)
{
    if (e->bell != NULL) {
        atomic_fetch_add(&e->bell_users, 1);
        words[(*n)++] = (rg__word){&e->bell->seq, atomic_load(&e->bell->seq)};
    }
    set_ringing(e);
    return look(e);
}

static void give_bell(rg__engine *e)
{
    rg__engine_lock(e);
    atomic_fetch_sub(&e->bell_users, 1);
    set_ringing(e);
    rg__engine_unlock(e);
}

/* ------------------------------------------------------------- user threads */

static bool is_wait_at_once(uint64_t started, uint64_t deadline)
{
    const uint64_t now = rg__now_ns();
    return now - started < AT_ONCE_NS && deadline >= now + POLL_NS;
}

void rg__engine_enter_help(rg__engine *e, uint64_t deadline)
{
    atomic_fetch_add(&e->helpers, RG__HELPER + 1);
    const uint64_t started =
        atomic_load_explicit(&e->long_ns, memory_order_relaxed);
    if (started != 0) {
        note_wait(e, is_wait_at_once(started, deadline));
        atomic_store_explicit(&e->long_ns, 0, memory_order_relaxed);
    }
    if (atomic_load(&e->bell_users) == 0 ||
        pthread_mutex_trylock(&e->lock) != 0)
        return;
    set_ringing(e);
    pthread_mutex_unlock(&e->lock);
}

/* A thread that leaves hands over to a sleeping user or the Regroup thread. */
void rg__engine_leave_help(rg__engine *e)
{
    atomic_fetch_sub(&e->helpers, RG__HELPER + 1);
    if (!has_work(e))
        return;
    if (atomic_load(&e->bell_users) != 0) {
        rg__engine_lock(e);
        rg__engine_hand_over(e);
        rg__engine_unlock(e);
    }
    rg__engine_wake(e, 0);
}

static bool take_bell_for(rg__engine *e, rg__word *words, int *n)
{
    rg__engine_lock(e);
    atomic_fetch_sub(&e->helpers, 1);
    const bool has_moved = take_bell(e, words, n);
    rg__engine_unlock(e);
    return has_moved;
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
    if (!take_bell_for(e, words, &n) && !rg__engine_is_aborted(e)) {
        rg__watchdog_look(e);
        if (!rg__req_is_done(req))
            rg__futex_wait_any(words, n, rg__least(timeout_ns, sleep_ns(e)));
    }
    atomic_fetch_add(&e->helpers, 1);
    if (n > 2)
        give_bell(e);
}

/* ------------------------------------------------------ the Regroup thread */

static bool is_responsible(const rg__engine *e)
{
    return (atomic_load(&e->left) != NULL || (atomic_load(&e->in_flight) != 0 &&
                                              atomic_load(&e->helpers) == 0)) &&
           !atomic_load(&e->is_left_alone) && !rg__engine_is_aborted(e);
}

bool rg__engine_progress(rg__engine *e)
{
    if (is_responsible(e)) {
        if (rg__engine_help(e))
            e->fruitless = 0;
        else
            e->fruitless++;
    }
    return has_work(e);
}

/* How the Regroup thread sleeps while it has operations to advance. */
static uint32_t sleep_of(const rg__engine *e)
{
    if (e->bell != NULL)
        return RG__ON_BELL;
    return sleep_ns(e) <= POLL_NS ? RG__POLLS : RG__SLEEPS;
}

static void sleep_on_bell(rg__engine *e, rg__word wake, uint64_t timeout_ns)
{
    rg__word words[2] = {wake};
    int n = 1;
    rg__engine_lock(e);
    atomic_store(&e->sleep, sleep_of(e));
    const bool has_moved = take_bell(e, words, &n);
    rg__engine_unlock(e);
    rg__watchdog_look(e);
    if (has_moved)
        e->fruitless = 0;
    else
        rg__futex_wait_any(words, n, rg__least(timeout_ns, sleep_ns(e)));
    atomic_store(&e->sleep, RG__AWAKE);
    if (n > 1)
        give_bell(e);
}

/* After a burst of operations the thread looks again by itself for a few
 * milliseconds, so that the next start need not wake it. */
static bool polls(rg__engine *e)
{
    const uint32_t starts = atomic_load(&e->starts);
    if (atomic_load(&e->is_left_alone))
        return false;
    if (starts != e->starts_seen) {
        e->starts_seen = starts;
        e->polls_left = POLL_ROUNDS;
    }
    if (e->polls_left == 0)
        return false;
    e->polls_left--;
    return true;
}

static void sleep_on_wake(rg__engine *e, rg__word wake, uint64_t timeout_ns)
{
    const bool is_short = polls(e);
    atomic_store(&e->sleep, is_short ? RG__POLLS : RG__SLEEPS);
    /* a start after this store rings; one before it is seen here */
    if (!is_responsible(e))
        rg__futex_wait_any(
            &wake, 1, is_short ? rg__least(timeout_ns, POLL_NS) : timeout_ns);
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
    if (!rg__spin(&rg__wait_usual, round < e->fruitless ? round : e->fruitless))
        sleep_on_bell(e, wake, timeout_ns);
}
