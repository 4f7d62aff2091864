/* Hosts that drain by a notice: the leader waits for others that have one as
 * long as each can afford, and ends the job when all have.
 *
 * Covers: plan.c */
#include "tests/member/job.h"

#define MS UINT64_C(1000000)

static const rg__member_id three[] = {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}};
static const rg__commit_id none = {0, 0};

static void begin_three(job *j)
{
    job_of_three(j);
    job_decided(j, 1, three, 3, none);
}

static void notice(job *j, int host, int ms)
{
    j->snap.host[host].is_draining = true;
    j->snap.host[host].notice_ms = ms;
}

static void two_leave_in_one_change(void)
{
    job j;
    begin_three(&j);
    notice(&j, 2, 2000);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, 2000 * MS);
    j.now_ns += 1500 * MS;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    notice(&j, 1, 2000);
    j.now_ns += 400 * MS;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 200 * MS;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK(j.plan.proposal.is_announced);
    CHECK_EQ(j.plan.proposal.size, 1);
    CHECK_EQ(j.plan.proposal.kind, RG__KIND_DRAIN);
    CHECK_STR(j.plan.proposal.cause, "host b and 1 more leave");
    job_end(&j);
}

static void who_has_least_time_is_waited_for(void)
{
    job j;
    begin_three(&j);
    notice(&j, 2, 2000);
    notice(&j, 1, 300);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, 300 * MS);
    job_end(&j);
}

/* A person asks for that, or a plain SIGTERM: no other host is expected. */
static void drain_without_a_notice_waits_for_no_host(void)
{
    job j;
    begin_three(&j);
    notice(&j, 2, 2000);
    notice(&j, 1, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, 20 * MS);
    job_end(&j);
}

static void all_are_the_jobs_end(void)
{
    job j;
    begin_three(&j);
    for (int host = 0; host < 3; host++)
        notice(&j, host, 1000);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* a replacement may come */
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_STOP);
    job_end(&j);
}

static void so_are_all_that_drain_at_once_without_one(void)
{
    job j;
    begin_three(&j);
    for (int host = 0; host < 3; host++)
        notice(&j, host, 0);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_STOP);
    job_end(&j);
}

static void in_a_broken_world_too(void)
{
    job j;
    begin_three(&j);
    job_reason(&j, 1, true, "a.0 died");
    for (int host = 0; host < 3; host++)
        notice(&j, host, 1000);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_STOP);
    job_end(&j);
}

static void a_host_that_stays_goes_on(void)
{
    job j;
    begin_three(&j);
    job_host(&j, "d", 4, 1); /* at the door */
    for (int host = 0; host < 3; host++)
        notice(&j, host, 1000);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 1);
    CHECK_EQ(j.plan.proposal.member[0].host, 4);
    job_end(&j);
}

/* The agent of a launcher: it is asked, and runs nothing. */
static void a_host_without_slots_can_not_go_on(void)
{
    const rg__member_id one[] = {{1, 0, 1}};
    job j;
    job_begin(&j, 1, 3);
    job_host(&j, "a", 1, 1);
    job_host(&j, "launcher", 9, 0);
    job_decided(&j, 1, one, 1, none);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    notice(&j, 0, 0);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_STOP);
    job_end(&j);
}

/* Its lease has ended, so it may be training. */
static void a_host_that_may_come_back_keeps_the_job(void)
{
    job j;
    begin_three(&j);
    job_lose_record(&j, 3);
    for (int host = 0; host < 2; host++)
        notice(&j, host, 1000);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK(job_look(&j) != RG__PLAN_STOP);
    job_end(&j);
}

/* It leaves by itself, with code 0, as usual; after a notice it is a stop. */
static void one_alone_is_stopped_by_a_notice_only(void)
{
    const rg__member_id one[] = {{1, 0, 1}};
    job j;
    job_begin(&j, 1, 3);
    job_host(&j, "a", 1, 1);
    job_decided(&j, 1, one, 1, none);
    notice(&j, 0, 0);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    notice(&j, 0, 100);
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_STOP);
    job_end(&j);
}

int main(void)
{
    two_leave_in_one_change();
    who_has_least_time_is_waited_for();
    drain_without_a_notice_waits_for_no_host();
    all_are_the_jobs_end();
    so_are_all_that_drain_at_once_without_one();
    in_a_broken_world_too();
    a_host_that_stays_goes_on();
    a_host_without_slots_can_not_go_on();
    a_host_that_may_come_back_keeps_the_job();
    one_alone_is_stopped_by_a_notice_only();
    return 0;
}
