/* Requests in flight when the generation is left, when the context goes, and
 * when the transport breaks: each ends with the status and sentence of the
 * reason, waiting threads return, and a request may be taken afterwards. A
 * blocking call whose peers answer soon keeps the lock, so it counts as no
 * helper. The transport of this test never finishes anything by itself.
 *
 * Covers: engine.c core/group.c progress.c core/request.c */
#include <sched.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/core/engine_parts.h"
#include "tests/check.h"

static rg__engine *engine;
static int open_comms;
static rg_status answer;  /* of test; RG_IN_PROGRESS: stuck */
static bool fails_once;   /* answer is that of one operation */
static int looks, helped; /* until the peers answer; those of a helper */
static bool holds;        /* what is given up is used by others still */
static rg__bell bell;

static rg_status stuck_split(rg__comm *world, const int *ranks, int n,
                             uint32_t id, rg__comm **comm_p);
static rg_status stuck_open(const rg__boot *boot, rg__comm **comm_p);

static rg_status stuck_start(rg__comm *comm, const rg__coll *coll)
{
    (void)comm;
    return coll->root == 7 ? rg__fail(RG_ERR_INVALID, "root 7 is refused")
                           : RG_OK;
}

static rg_status stuck_test(rg__comm *comm)
{
    (void)comm;
    helped += atomic_load(&engine->helpers) != 0;
    if (looks > 0)
        return --looks > 0 ? RG_IN_PROGRESS : RG_OK;
    const rg_status st = answer;
    if (fails_once)
        answer = RG_OK;
    return st == RG_OK || st == RG_IN_PROGRESS
               ? st
               : rg__fail(st, "the wire is broken");
}

static rg__bell *stuck_bell(rg__comm *world)
{
    (void)world;
    return &bell;
}

static bool stuck_holds(rg__comm *comm)
{
    (void)comm;
    return holds;
}

static void stuck_close(rg__comm *comm)
{
    open_comms--;
    free(comm);
}

static const rg__transport stuck = {.size = sizeof stuck,
                                    .name = "stuck",
                                    .open = stuck_open,
                                    .split = stuck_split,
                                    .start = stuck_start,
                                    .test = stuck_test,
                                    .bell = stuck_bell,
                                    .holds = stuck_holds,
                                    .close = stuck_close};

static rg_status stuck_open(const rg__boot *boot, rg__comm **comm_p)
{
    (void)boot;
    *comm_p = calloc(1, sizeof **comm_p);
    CHECK(*comm_p != NULL);
    (*comm_p)->transport = &stuck;
    open_comms++;
    return RG_OK;
}

static rg_status stuck_split(rg__comm *world, const int *ranks, int n,
                             uint32_t id, rg__comm **comm_p)
{
    (void)world, (void)ranks, (void)n, (void)id;
    return stuck_open(NULL, comm_p);
}

/* ----------------------------------------------------------------- the cases
 */

static rg__page page;
static rg__channel *world, *set;
static const rg__coll barrier = {.kind = RG__BARRIER};
static const int rank = 0;

static void begin(void)
{
    const rg__boot boot = {.size = 1, .generation = 3};
    answer = RG_IN_PROGRESS;
    atomic_store(&page.abort, 0);
    CHECK_OK(rg__engine_create(&page, &engine));
    CHECK_OK(rg__channel_create(engine, &world));
    CHECK_OK(rg__channel_create(engine, &set));
    CHECK_OK(rg__engine_enter(engine, world, &stuck, &boot));
    rg__engine_admit(engine);
    CHECK_OK(rg__channel_open(set, 3, &rank, 1, 1));
}

static void end(void)
{
    rg__channel_destroy(set);
    rg__channel_destroy(world);
    rg__engine_destroy(engine);
    CHECK_EQ(open_comms, 0);
}

/* A thread computed through the change between the agreement on a set and its
 * opening: its ranks are those of a world that is no more. */
static void left_before_the_set_was_opened(void)
{
    const rg__boot next = {.size = 1, .generation = 4};
    begin();
    rg__engine_leave(engine, RG_ERR_HOSTS_CHANGED, "a host came");
    CHECK_STATUS(rg__channel_open(set, 3, &rank, 1, 1), RG_ERR_PEER_LOST);
    CHECK_OK(rg__engine_enter(engine, world, &stuck, &next));
    CHECK_STATUS(rg__channel_open(set, 3, &rank, 1, 1), RG_ERR_PEER_LOST);
    rg__engine_admit(engine);
    CHECK_STATUS(rg__channel_open(set, 3, &rank, 1, 1), RG_ERR_PEER_LOST);
    CHECK_OK(rg__channel_open(set, 4, &rank, 1, 1));
    end();
}

static void *wait_for_it(void *arg)
{
    rg_req *req = arg;
    const rg_status st = rg_wait(&req, -1);
    CHECK(req == NULL);
    return (void *)(intptr_t)st;
}

static rg_status join(pthread_t thread)
{
    void *st = NULL;
    pthread_join(thread, &st);
    return (rg_status)(intptr_t)st;
}

static pthread_t wait_in_thread(rg_req *req)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_it, req), 0);
    while (atomic_load(&engine->helpers) == 0)
        sched_yield();
    return thread;
}

static void left_while_a_thread_waits(void)
{
    begin();
    rg_req *waited = NULL, *queued = NULL;
    CHECK_OK(rg__channel_start(world, &barrier, &waited));
    CHECK_OK(rg__channel_start(world, &barrier, &queued));
    const pthread_t thread = wait_in_thread(waited);
    rg__engine_leave(engine, RG_ERR_HOSTS_CHANGED, "a host came");
    CHECK_EQ(join(thread), RG_ERR_HOSTS_CHANGED);
    CHECK_STATUS(rg_wait(&queued, -1), RG_ERR_HOSTS_CHANGED);
    CHECK_STR(rg_last_error(), "a host came");
    CHECK_STATUS(rg__channel_start(set, &barrier, &queued),
                 RG_ERR_HOSTS_CHANGED);
    CHECK_EQ(open_comms, 0);
    end();
}

static void finalized_while_a_thread_waits(void)
{
    begin();
    rg_req *waited = NULL, *later = NULL;
    CHECK_OK(rg__channel_start(world, &barrier, &waited));
    CHECK_OK(rg__channel_start(set, &barrier, &later));
    const pthread_t thread = wait_in_thread(waited);
    end();
    CHECK_EQ(join(thread), RG_ERR_INVALID);
    CHECK_STATUS(rg_wait(&later, -1), RG_ERR_INVALID);
}

/* The word is the highest generation that was aborted. */
static void aborted_before_any_worker_leaves(uint64_t word)
{
    begin();
    rg_req *req = NULL, *second = NULL;
    CHECK_OK(rg__channel_start(world, &barrier, &req));
    CHECK_OK(rg__channel_start(world, &barrier, &second));
    atomic_store(&page.abort, 2); /* another generation's */
    CHECK_STATUS(rg_wait(&req, 20), RG_IN_PROGRESS);
    const pthread_t thread = wait_in_thread(req);
    atomic_store(&page.abort, word);
    CHECK_EQ(join(thread), RG_ERR_PEER_LOST);
    answer = RG_OK; /* what is aborted is not advanced any more */
    CHECK(rg__engine_progress(engine));
    CHECK(!rg__req_is_done(second));
    CHECK_STATUS(rg_wait(&second, -1), RG_ERR_PEER_LOST);
    CHECK_STATUS(rg__channel_start(set, &barrier, &req), RG_ERR_PEER_LOST);
    end();
}

static void broken_transport(void)
{
    begin();
    rg_req *req = NULL, *queued = NULL;
    CHECK_OK(rg__channel_start(set, &barrier, &req));
    CHECK_OK(rg__channel_start(set, &barrier, &queued));
    answer = RG_ERR_SYSTEM;
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_SYSTEM);
    CHECK_STATUS(rg_wait(&queued, -1), RG_ERR_SYSTEM);
    CHECK_STR(rg_last_error(), "the wire is broken");
    CHECK_STATUS(rg__channel_start(set, &barrier, &req), RG_ERR_SYSTEM);
    end();
}

/* Is memory of an operation that ends with st left alone? */
static bool keeps_memory(rg_status st)
{
    rg_req *req = NULL;
    begin();
    CHECK_OK(rg__channel_start(set, &barrier, &req));
    answer = st;
    rg__engine_progress(engine);
    CHECK(rg__req_is_done(req));
    const bool is_kept = req->is_held;
    CHECK_STATUS(rg_wait(&req, -1), st);
    end();
    return is_kept;
}

/* MPI may use memory of an operation that has failed, until it ends. */
static void memory_in_use_is_kept(void)
{
    holds = true;
    CHECK(keeps_memory(RG_ERR_PEER_LOST));
    CHECK(keeps_memory(RG_ERR_MISMATCH));
    CHECK(!keeps_memory(RG_OK));
    holds = false;
    CHECK(!keeps_memory(RG_ERR_PEER_LOST));
}

/* Only a caller that polls makes progress. */
static void polled_past_its_deadline(void)
{
    const rg__start start = {.coll = barrier, .timeout_ms = 1};
    const uint64_t end_ns = rg__now_ns() + 5000 * RG__MS;
    rg_req *req = NULL;
    rg_status st = RG_IN_PROGRESS;
    begin();
    CHECK_OK(rg__channel_begin(set, &start, &req));
    while (st == RG_IN_PROGRESS && rg__now_ns() < end_ns)
        st = rg_test(&req);
    CHECK_STATUS(st, RG_ERR_TIMEOUT);
    end();
}

static void refused_operations(void)
{
    begin();
    const rg__coll bad = {.kind = RG__BARRIER, .root = 7};
    answer = RG_OK;
    CHECK_STATUS(rg__channel_run(world, &bad, 0, 0), RG_ERR_INVALID);
    CHECK_STR(rg_last_error(), "root 7 is refused");
    CHECK_OK(rg__channel_run(world, &barrier, 0, 0));
    end();
}

static int helped_of_blocking_call(int n)
{
    const rg__start start = {.coll = barrier};
    looks = n;
    helped = 0;
    CHECK_OK(rg__channel_complete(set, &start));
    CHECK_EQ(looks, 0);
    return helped;
}

/* On a crowded machine it looks once, unless threads keep their processors. */
static void blocking_call_keeps_the_lock(void)
{
    rg__wait_policy policy = rg__wait_usual;
    policy.keeps_processor = true;
    begin();
    atomic_store(&engine->wait, &policy);
    CHECK_EQ(helped_of_blocking_call(20), 0);
    CHECK(helped_of_blocking_call(1000) > 0); /* others may have it then */
    end();
}

static void before_and_between_generations(void)
{
    rg_req *req = NULL;
    const rg__boot boot = {.size = 1, .generation = 3};
    CHECK_OK(rg__engine_create(&page, &engine));
    CHECK_OK(rg__channel_create(engine, &world));
    CHECK_OK(rg__channel_create(engine, &set));
    atomic_store(&page.abort, 0);
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "before rg_run") != NULL);
    CHECK_OK(rg__engine_enter(engine, world, &stuck, &boot));
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_INVALID);
    rg__engine_leave(engine, RG_ERR_PEER_LOST, "never decided");
    CHECK_OK(rg__engine_enter(engine, world, &stuck, &boot));
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_PEER_LOST);
    CHECK_STR(rg_last_error(), "never decided");
    rg__engine_admit(engine);
    answer = RG_OK;
    CHECK_OK(rg__channel_run(world, &barrier, 0, 0));
    end();
}

/* rg_run has returned: that is the reason until it is admitted again, also when
 * the others have left meanwhile. */
static void shut_until_admitted_again(void)
{
    const rg__boot next = {.size = 1, .generation = 4};
    begin();
    rg_req *waited = NULL, *req = NULL;
    CHECK_OK(rg__channel_start(world, &barrier, &waited));
    const pthread_t thread = wait_in_thread(waited);
    rg__engine_shut(engine, RG_ERR_INVALID, "outside");
    CHECK_EQ(join(thread), RG_ERR_INVALID);
    CHECK_STATUS(rg__channel_start(set, &barrier, &req), RG_ERR_INVALID);
    atomic_store(&page.abort, 3);
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_INVALID);
    rg__engine_leave(engine, RG_ERR_PEER_LOST, "a peer is lost");
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_INVALID);
    CHECK_STR(rg_last_error(), "outside");
    CHECK_OK(rg__engine_enter(engine, world, &stuck, &next));
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_INVALID);
    rg__engine_admit(engine);
    answer = RG_OK;
    CHECK_OK(rg__channel_run(world, &barrier, 0, 0));
    rg__engine_leave(engine, RG_ERR_PEER_LOST, "a peer is lost");
    CHECK_STATUS(rg__channel_start(world, &barrier, &req), RG_ERR_PEER_LOST);
    end();
}

static rg_req *note(void)
{
    const rg__start start = {.coll = barrier};
    rg_req *req = NULL;
    CHECK_OK(rg__channel_note(set, &start, &req));
    return req;
}

static void open_next(uint64_t generation)
{
    const rg__boot next = {.size = 1, .generation = generation};
    CHECK_OK(rg__engine_enter(engine, world, &stuck, &next));
    rg__engine_admit(engine);
    CHECK_OK(rg__channel_open(set, generation, &rank, 1, 1));
}

/* A group that a thread has kept through a change is not started behind it. */
static void noted_before_a_change(void)
{
    begin();
    rg_req *req = note();
    rg__engine_leave(engine, RG_ERR_HOSTS_CHANGED, "a host came");
    open_next(4);
    answer = RG_OK;
    CHECK_STATUS(rg__engine_start_group(engine, &req, 1, RG_OK, ""),
                 RG_ERR_HOSTS_CHANGED);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_HOSTS_CHANGED);
    CHECK_STR(rg_last_error(), "a host came");
    req = note();
    CHECK_OK(rg__engine_start_group(engine, &req, 1, RG_OK, ""));
    CHECK_OK(rg_wait(&req, -1));
    end();
}

/* All or none: what follows the first that fails does not run. */
static void failed_first_of_a_group(void)
{
    begin();
    rg_req *group[2] = {note(), note()}, *behind = NULL;
    CHECK_OK(rg__engine_start_group(engine, group, 2, RG_OK, ""));
    CHECK_OK(rg__channel_start(set, &barrier, &behind));
    fails_once = true;
    answer = RG_ERR_MISMATCH;
    CHECK_STATUS(rg_wait(&group[0], -1), RG_ERR_MISMATCH);
    CHECK_STATUS(rg_wait(&group[1], -1), RG_ERR_MISMATCH);
    CHECK_OK(rg_wait(&behind, -1));
    fails_once = false;
    end();
}

static void noted_before_the_door(void)
{
    CHECK_OK(rg__engine_create(&page, &engine));
    CHECK_OK(rg__channel_create(engine, &world));
    CHECK_OK(rg__channel_create(engine, &set));
    atomic_store(&page.abort, 0);
    rg_req *req = note();
    open_next(3);
    CHECK_STATUS(rg__engine_start_group(engine, &req, 1, RG_OK, ""),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "before rg_run"));
    end();
}

int main(void)
{
    for (int i = 0; i < 20; i++) {
        left_while_a_thread_waits();
        finalized_while_a_thread_waits();
    }
    aborted_before_any_worker_leaves(3);
    aborted_before_any_worker_leaves(4);
    broken_transport();
    memory_in_use_is_kept();
    polled_past_its_deadline();
    refused_operations();
    blocking_call_keeps_the_lock();
    before_and_between_generations();
    left_before_the_set_was_opened();
    shut_until_admitted_again();
    noted_before_a_change();
    failed_first_of_a_group();
    noted_before_the_door();
    rg__engine_destroy(NULL);
    rg__channel_destroy(NULL);
    return 0;
}
