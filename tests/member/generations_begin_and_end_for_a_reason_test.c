/* When the leader proposes, waits, finishes and gives up.
 *
 * Covers: plan.c */
#include "tests/member/job.h"

static const rg__member_id two[] = {{1, 0, 1}, {1, 1, 1}};
static const rg__commit_id none = {0, 0};

static void the_first_world_waits_for_max_or_the_timeout(void)
{
    job j;
    job_begin(&j, 1, 3);
    job_host(&j, "a", 1, 3);
    job_slot(&j, 1, 2)->is_at_door = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK(j.plan.look_again_ns <= 30 * SECOND);
    j.now_ns += 31 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2);
    job_end(&j);
}

static void begin_two(job *j, int min)
{
    job_begin(j, min, 2);
    job_host(j, "a", 1, 2);
    job_decided(j, 1, two, 2, none);
}

static void nothing_happens_without_a_reason(void)
{
    job j;
    begin_two(&j, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, 0);
    job_end(&j);
}

static void a_published_reason_is_enough(void)
{
    job j;
    begin_two(&j, 1);
    job_reason(&j, 1, false, "a.1: the connection broke");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2); /* the same members */
    CHECK(!j.plan.proposal.is_announced);
    job_end(&j);
}

static void below_min_it_waits_and_gives_up(void)
{
    job j;
    begin_two(&j, 2);
    job_slot(&j, 1, 1)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 601 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_GIVE_UP);
    job_end(&j);
}

static void a_slow_start_does_not_shorten_the_wait(void)
{
    job j;
    job_begin(&j, 2, 2);
    job_host(&j, "a", 1, 2);
    job_slot(&j, 1, 1)->is_at_door = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 31 * SECOND; /* past --start-timeout, and below --min */
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_slot(&j, 1, 1)->is_at_door = true;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_decided(&j, 1, two, 2, none);
    j.now_ns += 601 * SECOND;
    job_slot(&j, 1, 1)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* it waits from now on */
    job_end(&j);
}

static void a_lost_lease_is_no_death(void)
{
    job j;
    begin_two(&j, 1);
    free(j.snap.host[0].slot);
    j.snap.hosts = 0; /* the record went with the lease */
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_host(&j, "a", 9, 2); /* another incarnation: it was one */
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_end(&j);
}

static void a_proposal_with_a_dead_member_is_replaced(void)
{
    const rg__member_id three[] = {{1, 0, 1}, {1, 1, 1}, {1, 2, 1}};
    job j;
    job_begin(&j, 1, 3);
    job_host(&j, "a", 1, 3);
    job_decided(&j, 1, two, 2, none);
    job_proposed(&j, 2, three, 3, true);
    job_slot(&j, 1, 2)->is_alive = false; /* the newcomer */
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.generation, 3);
    CHECK_EQ(j.plan.proposal.size, 2);
    CHECK(j.plan.proposal.is_announced);  /* generation 1 is whole */
    job_slot(&j, 1, 0)->is_alive = false; /* and now a member of it */
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 1);
    CHECK(!j.plan.proposal.is_announced);
    job_end(&j);
}

static void done_wins_over_an_announced_change(void)
{
    const rg__member_id three[] = {{1, 0, 1}, {1, 1, 1}, {1, 2, 1}};
    job j;
    job_begin(&j, 1, 3);
    job_host(&j, "a", 1, 3);
    job_decided(&j, 1, two, 2, none);
    job_fin(&j, 1, "a");
    CHECK_EQ(job_look(&j), RG__PLAN_DONE);
    job_proposed(&j, 2, three, 3, true);
    CHECK_EQ(job_look(&j), RG__PLAN_DONE);
    job_reason(&j, 1, true, "a.0 died"); /* before done was written */
    job_slot(&j, 1, 0)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_end(&j);
}

static void a_static_job_never_changes(void)
{
    job j;
    begin_two(&j, 1);
    j.snap.host[0].elastic = 0;
    job_slot(&j, 1, 1)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_end(&j);
}

static void begin_static(job *j)
{
    const rg__member_id over_two[] = {{1, 0, 1}, {2, 0, 1}};
    job_begin(j, 2, 2);
    job_host(j, "a", 1, 1)->elastic = 0;
    job_host(j, "b", 2, 1)->elastic = 0;
    job_host(j, "c", 3, 1)->elastic = 0; /* without a place, and leads */
    job_decided(j, 1, over_two, 2, none);
}

static void a_static_job_is_done_when_its_hosts_have_left(void)
{
    job j;
    begin_static(&j);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.snap.host[0].is_gone = true;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.snap.host[1].is_gone = true;
    CHECK_EQ(job_look(&j), RG__PLAN_DONE);
    job_end(&j);
}

static void a_static_world_without_a_word_is_waited_for(void)
{
    job j;
    begin_static(&j);
    j.snap.host[0].is_gone = true;
    job_lose_record(&j, 2);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_STR(j.plan.awaited, "b");
    j.now_ns += 601 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_LEAVE);
    job_host(&j, "b", 4, 1)->elastic = 0; /* begun again: it is dead */
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 601 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_GIVE_UP);
    job_end(&j);
}

int main(void)
{
    the_first_world_waits_for_max_or_the_timeout();
    nothing_happens_without_a_reason();
    a_published_reason_is_enough();
    below_min_it_waits_and_gives_up();
    a_slow_start_does_not_shorten_the_wait();
    a_lost_lease_is_no_death();
    a_proposal_with_a_dead_member_is_replaced();
    done_wins_over_an_announced_change();
    a_static_job_never_changes();
    a_static_job_is_done_when_its_hosts_have_left();
    a_static_world_without_a_word_is_waited_for();
    return 0;
}
