/* An agent reads a worker's message and is killed before it acts on it; the
 * next one greets with AGAIN. The worker reports its state and repeats what
 * has no answer yet: a registration, with its number, and the report that
 * its generation is broken, unless it has left that generation. The agent is
 * this test, the worker its child.
 *
 * Covers: segments.c thread.c futex.c shm.c sock.c */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "tests/check.h"
#include "tests/worker/stand_in.h"

#define GENERATION 1

static rg__register registered;

/* ------------------------------------------------------------- the worker */

static uint64_t counter;

static rg_status leave_for_a_reason_of_its_own(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    return RG_ERR_PEER_LOST;
}

/* ------------------------------------------------------------- the claims */

static const rg__stand *hear_stand(void)
{
    const rg__mark again = {{RG__AGAIN, RG__WIRE_VERSION}, 0};
    tell(&again, sizeof again);
    return hear(RG__STAND);
}

static void a_registration_is_asked_again(void)
{
    memcpy(&registered, hear(RG__REGISTER), sizeof registered);
    CHECK_EQ(hear_stand()->is_at_door, 0);
    const rg__register *again = hear(RG__REGISTER);
    CHECK_EQ(memcmp(again, &registered, sizeof registered), 0);
    stand_in_register(&registered);
}

static void a_break_is_said_again(void)
{
    rg__broken broken;
    memcpy(&broken, hear(RG__BROKEN), sizeof broken);
    CHECK_EQ(broken.generation, GENERATION);
    CHECK_EQ(hear_stand()->built, GENERATION);
    CHECK_EQ(memcmp(hear(RG__BROKEN), &broken, sizeof broken), 0);
}

static void a_break_of_what_was_left_is_not(void)
{
    atomic_store(&worker_page->abort, GENERATION);
    ring();
    hear(RG__LEFT);
    CHECK_EQ(hear_stand()->built, 0);
    const rg__text end = {.head = {RG__ENDED, RG__WIRE_VERSION},
                          .text = "the test is over"};
    tell(&end, sizeof end);
    hear(RG__FINALIZE); /* and no BROKEN before it */
}

int main(void)
{
    stand_in_listen();
    const pid_t worker = fork();
    if (worker == 0) {
        stand_in_work(leave_for_a_reason_of_its_own, NULL, &counter);
        exit(0);
    }
    stand_in_meet();
    a_registration_is_asked_again();
    stand_in_propose(GENERATION, ((const rg__door *)hear(RG__DOOR))->port);
    hear(RG__BUILT);
    stand_in_decide_first(GENERATION);
    a_break_is_said_again();
    a_break_of_what_was_left_is_not();
    int status = -1;
    CHECK(waitpid(worker, &status, 0) == worker);
    CHECK_EQ(status, 0);
    return 0;
}
