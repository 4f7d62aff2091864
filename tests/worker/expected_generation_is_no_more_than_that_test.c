/* A worker restores what its agent expects to be decided, and takes that for no
 * decision: not when it has missed an earlier one, nor when a later one comes
 * before its thread has looked. Until the record is there fn and the function
 * of rg_state_on_reset are not called, and what was given up is no fault of the
 * worker's. The agent is this test, the worker its child; the failpoint holds
 * the worker's thread up before it looks.
 *
 * Covers: door.c thread.c run.c state.c */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"
#include "tests/check.h"
#include "tests/worker/stand_in.h"

#define PATIENCE_NS (20000 * RG__MS)

/* Generations of which the worker's functions have heard, and what fn found. */
typedef struct seen {
    _Atomic uint64_t fn, reset; /* the newest */
    _Atomic uint64_t step;      /* of memory, in fn */
    _Atomic uint64_t leaves;    /* fn returns in this generation */
} seen;

static seen *shared;
static pid_t worker;
static uint32_t port;

/* ------------------------------------------------------------- the worker */

static uint64_t counter;

static rg_status reset(rg_state *st, void *ctx)
{
    (void)st;
    atomic_store(&shared->reset, rg_generation(ctx));
    return RG_OK;
}

static rg_status wait_to_leave(rg_state *st, void *ctx)
{
    const uint64_t generation = rg_generation(ctx);
    while (counter < 2 && generation == 1) {
        counter++;
        CHECK_OK(rg_state_commit(st));
    }
    atomic_store(&shared->step, counter);
    atomic_store(&shared->fn, generation);
    while (atomic_load(&shared->leaves) < generation)
        usleep(1000);
    return RG_ERR_PEER_LOST;
}

/* -------------------------------------------------------------- the agent */

static void wait_for(_Atomic uint64_t *what, uint64_t value)
{
    const uint64_t end = rg__now_ns() + PATIENCE_NS;
    while (atomic_load(what) < value && rg__now_ns() < end)
        usleep(1000);
    CHECK_EQ(atomic_load(what), value);
}

static void propose(uint64_t generation)
{
    stand_in_propose(generation, port);
    hear(RG__BUILT);
}

static void break_off(uint64_t generation)
{
    atomic_store(&worker_page->abort, generation);
    ring();
    CHECK_EQ(((const rg__mark *)hear(RG__LEFT))->generation, generation);
}

static void decide(uint64_t generation, uint64_t step, bool is_expected)
{
    const rg__decided m = {.head = {RG__DECIDED, RG__WIRE_VERSION},
                           .generation = generation,
                           .resume = {.generation = 1, .step = step},
                           .source = -1,
                           .is_expected = is_expected};
    tell(&m, sizeof m);
}

/* The worker has restored, and stands before the wait for the decision. */
static void await_restored(void)
{
    const uint64_t end = rg__now_ns() + PATIENCE_NS;
    int status = 0;
    while (waitpid(worker, &status, WUNTRACED | WNOHANG) == 0 &&
           rg__now_ns() < end)
        usleep(1000);
    CHECK(WIFSTOPPED(status));
    CHECK(kill(worker, SIGCONT) == 0);
}

/* ------------------------------------------------------------- the claims */

static void begin(void)
{
    const rg__register asked = *(const rg__register *)hear(RG__REGISTER);
    stand_in_register(&asked);
    port = ((const rg__door *)hear(RG__DOOR))->port;
    propose(1);
    stand_in_decide_first(1);
    wait_for(&shared->fn, 1);
    CHECK_EQ(atomic_load(&shared->step), 2);
}

/* Generation 2 has come and gone while fn was in generation 1. */
static void a_missed_decision_is_not_this_one(void)
{
    break_off(1);
    propose(2);
    decide(2, 2, false);
    break_off(2);
    propose(3);
    decide(3, 1, true);
    atomic_store(&shared->leaves, 1);
    await_restored();
    CHECK_EQ(atomic_load(&shared->reset), 1);
    decide(3, 1, false);
    wait_for(&shared->fn, 3);
    CHECK_EQ(atomic_load(&shared->step), 1);
}

/* Generation `given_up` is expected, and the next one is there before the
 * worker's thread looks. */
static void a_later_one_is_not_this_one(uint64_t given_up, bool is_expected)
{
    break_off(given_up - 1);
    propose(given_up);
    decide(given_up, 1, true);
    atomic_store(&shared->leaves, given_up - 1);
    await_restored();
    stand_in_propose(given_up + 1, port);
    CHECK_EQ(((const rg__mark *)hear(RG__LEFT))->generation, given_up);
    hear(RG__BUILT);
    decide(given_up + 1, 1, is_expected);
    if (is_expected) {
        await_restored();
        CHECK_EQ(atomic_load(&shared->reset), given_up - 1);
        decide(given_up + 1, 1, false);
    }
    wait_for(&shared->fn, given_up + 1);
}

static void end(void)
{
    const rg__text m = {.head = {RG__ENDED, RG__WIRE_VERSION},
                        .text = "the test is over"};
    int status = -1;
    break_off(7);
    tell(&m, sizeof m);
    atomic_store(&shared->leaves, UINT64_MAX);
    hear(RG__FINALIZE); /* and no BROKEN before it */
    CHECK(waitpid(worker, &status, 0) == worker);
    CHECK_EQ(status, 0);
}

int main(void)
{
#ifndef RG_FAILPOINTS
    SKIP("this build has no failpoints");
#endif
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    setenv("REGROUP_FAILPOINT",
           "restored:gen3:stop,restored:gen4:stop,restored:gen4:sleep500,"
           "restored:gen6:stop,restored:gen6:sleep500,restored:gen7:stop",
           1);
    stand_in_listen();
    worker = fork();
    if (worker == 0) {
        stand_in_work(wait_to_leave, reset, &counter);
        exit(0);
    }
    stand_in_meet();
    begin();
    a_missed_decision_is_not_this_one();
    a_later_one_is_not_this_one(4, false);
    a_later_one_is_not_this_one(6, true);
    end();
    return 0;
}
