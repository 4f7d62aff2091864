/* Workers that wait in rg_world_wait get a place in a first world and in no
 * other; while no commit is begun, a world of them that breaks is formed
 * again, of processes that were in none.
 *
 * Covers: plan.c */
#include "tests/member/job.h"

static const rg__member_id three[] = {{1, 0, 1}, {1, 1, 1}, {1, 2, 1}};
static const rg__commit_id none = {0, 0};

/* Three slots whose workers wait; the first two are, or would be, the world. */
static void begin(job *j, int min, int max)
{
    job_begin(j, min, max);
    job_host(j, "a", 1, 3);
    for (uint32_t i = 0; i < 3; i++)
        job_slot(j, 1, i)->waits = true;
}

static void decide_first(job *j, int n)
{
    job_decided(j, 1, three, n, none);
    j->snap.gen[0].is_awaited = true;
}

static void start_again(job *j, uint32_t slot)
{
    job_slot(j, 1, slot)->start++;
    job_slot(j, 1, slot)->is_alive = true;
}

static void a_first_world_takes_them(void)
{
    job j;
    begin(&j, 2, 3);
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    CHECK(j.plan.proposal.is_awaited);
    job_end(&j);
}

static void a_world_that_stands_does_not(void)
{
    job j;
    begin(&j, 1, 3);
    decide_first(&j, 2);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* between rg_world_wait and fn */
    CHECK_EQ(j.plan.look_again_ns, 0);
    j.snap.begun = 1; /* in fn: it has to come to the door of rg_run */
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_slot(&j, 1, 1)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 1);
    CHECK(!j.plan.proposal.is_awaited);
    job_end(&j);
}

static void no_worker_is_in_two_first_worlds(void)
{
    job j;
    begin(&j, 1, 3);
    decide_first(&j, 3);
    job_slot(&j, 1, 2)->is_alive = false;
    job_slot(&j, 1, 0)->waits = false; /* it is in rg_run already */
    CHECK_EQ(job_look(&j),
             RG__PLAN_WAIT); /* for all three, though --min is 1 */
    CHECK_EQ(j.plan.wanted, 3);
    CHECK_EQ(j.plan.alive, 0);
    start_again(&j, 2);
    start_again(&j, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.alive, 2);
    start_again(&j, 0);
    job_slot(&j, 1, 0)->waits = true;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    CHECK_EQ(j.plan.proposal.member[0].start, 2);
    CHECK_EQ(j.plan.proposal.member[0].slot, 0); /* seniority stays */
    CHECK(j.plan.proposal.is_awaited && !j.plan.proposal.is_announced);
    job_end(&j);
}

static void it_does_not_wait_for_those_that_are_given_up(void)
{
    job j;
    begin(&j, 1, 3);
    decide_first(&j, 3);
    job_slot(&j, 1, 2)->is_alive = false;
    j.snap.host[0].open = 2;
    start_again(&j, 0);
    start_again(&j, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2);
    job_end(&j);
}

/* Those that start again are not left behind for spares that are there. */
static void spares_make_up_for_a_lost_host(void)
{
    const rg__member_id both[] = {{1, 0, 1}, {1, 1, 1}, {2, 0, 1}, {2, 1, 1}};
    job j;
    job_begin(&j, 1, 4);
    for (uint64_t h = 1; h <= 3; h++) {
        job_host(&j, h == 1 ? "a" : h == 2 ? "b" : "c", h, 2);
        job_slot(&j, h, 0)->waits = job_slot(&j, h, 1)->waits = true;
    }
    job_decided(&j, 1, both, 4, none);
    j.snap.gen[0].is_awaited = true;
    const uint64_t lost[] = {2};
    j.config.lost = lost;
    j.config.losts = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.wanted, 4);
    CHECK_EQ(j.plan.alive, 2);
    CHECK_EQ(j.plan.ends, 1); /* or host a would not know */
    CHECK_STR(j.plan.cause, "host b is lost");
    job_reason(&j, 1, false, "host b is lost");
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.ends, 0);
    start_again(&j, 0);
    start_again(&j, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 4);
    job_end(&j);
}

/* A spare beside members takes the place of none of them. */
static void a_spare_is_counted_beside_its_host_s_members(void)
{
    const rg__member_id both[] = {{1, 0, 1}, {1, 1, 1}, {2, 0, 1}, {2, 1, 1}};
    job j;
    job_begin(&j, 1, 4);
    job_host(&j, "a", 1, 2);
    job_host(&j, "b", 2, 3);
    for (uint32_t i = 0; i < 3; i++)
        job_slot(&j, 2, i)->waits = true;
    job_decided(&j, 1, both, 4, none);
    j.snap.gen[0].is_awaited = true;
    const uint64_t lost[] = {1};
    j.config.lost = lost;
    j.config.losts = 1;
    job_slot(&j, 2, 0)->start++;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.wanted, 3);
    CHECK_EQ(j.plan.alive, 2);
    job_slot(&j, 2, 1)->start++;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

/* A worker that calls rg_run at once, a drain: whatever was announced. */
static void a_change_that_was_announced_goes_with_it(void)
{
    const rg__member_id four[] = {{1, 0, 1}, {1, 1, 1}, {1, 2, 1}, {2, 0, 1}};
    job j;
    begin(&j, 1, 4);
    decide_first(&j, 3);
    job_host(&j, "b", 2, 1);
    job_proposed(&j, 2, four, 4, true);
    job_slot(&j, 1, 1)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.wanted, 4);
    CHECK_EQ(j.plan.alive, 1);
    for (uint32_t i = 0; i < 3; i++)
        start_again(&j, i);
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 4);
    CHECK(j.plan.proposal.is_awaited);
    job_end(&j);
}

static void it_does_not_wait_for_ever(void)
{
    job j;
    begin(&j, 1, 3);
    decide_first(&j, 3);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 100 * SECOND; /* that counts in no wait */
    job_slot(&j, 1, 2)->is_alive = false;
    start_again(&j, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK(j.plan.look_again_ns > 0 && j.plan.look_again_ns <= 30 * SECOND);
    j.now_ns += 31 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 1);
    job_end(&j);
}

static void once_it_has_begun_its_members_live_on(void)
{
    job j;
    begin(&j, 1, 3);
    decide_first(&j, 3);
    j.snap.begun = 1;
    job_slot(&j, 1, 2)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2);
    CHECK_EQ(j.plan.proposal.member[0].start, 1);
    job_end(&j);
}

/* Commit 0 is in the vault, but is not on record. */
static void what_it_left_behind_does_not_count(void)
{
    const rg__member_id again[] = {{1, 0, 2}, {1, 1, 2}, {1, 2, 2}};
    const rg__commit_id zero = {1, 0};
    job j;
    begin(&j, 1, 3);
    decide_first(&j, 3);
    for (uint32_t i = 0; i < 3; i++)
        start_again(&j, i);
    job_proposed(&j, 2, again, 3, false);
    j.snap.gen[1].is_awaited = true;
    job_ack(&j, 2, "a", &zero, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.generation, 0);
    CHECK_EQ(j.plan.line.source, 0);
    job_end(&j);
}

int main(void)
{
    a_first_world_takes_them();
    a_world_that_stands_does_not();
    no_worker_is_in_two_first_worlds();
    it_does_not_wait_for_those_that_are_given_up();
    spares_make_up_for_a_lost_host();
    a_spare_is_counted_beside_its_host_s_members();
    a_change_that_was_announced_goes_with_it();
    it_does_not_wait_for_ever();
    once_it_has_begun_its_members_live_on();
    what_it_left_behind_does_not_count();
    return 0;
}
