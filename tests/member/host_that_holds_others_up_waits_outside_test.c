/* A newcomer that does not build while the world waits is left out after a
 * moment, for a pause that doubles; so is one that etcd answers only now and
 * then.
 *
 * Covers: links.c */
#include "elastic/member/links.h"
#include "tests/member/job.h"

static const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
static const rg__member_id three[] = {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}};
static const rg__commit_id none = {0, 0};

/* a and b train, c is at the door. */
static void begin(job *j)
{
    job_of_three(j);
    job_decided(j, 1, two, 2, none);
}

static void announce(job *j)
{
    begin(j);
    job_proposed(j, 2, three, 3, true);
}

static void members_that_compute_are_waited_for(void)
{
    job j;
    announce(&j);
    job_ack(&j, 2, "a", NULL, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
        j.now_ns += 60 * SECOND;
    }
    CHECK(!rg__shut_out_is(&j.clock, 2, j.now_ns));
    CHECK(!rg__shut_out_is(&j.clock, 3, j.now_ns));
    job_end(&j);
}

static void a_newcomer_has_a_moment_once_all_stand(void)
{
    job j;
    announce(&j);
    job_ack(&j, 2, "a", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 60 * SECOND;
    job_ack(&j, 2, "b", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, j.config.newcomer_timeout_ns);
    j.now_ns += j.config.newcomer_timeout_ns;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* it is shut out from now on */
    CHECK(rg__shut_out_is(&j.clock, 3, j.now_ns));
    CHECK(!rg__shut_out_is(&j.clock, 2, j.now_ns));
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2);
    job_end(&j);
}

/* The world goes on without it as often as it comes and goes. */
static void a_newcomer_that_etcd_answers_now_and_then_is_left_out(void)
{
    const uint64_t no_etcd[] = {3};
    job j;
    announce(&j);
    j.config.no_etcd = no_etcd;
    j.config.no_etcds = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2);
    job_decided(&j, 3, two, 2, none);
    j.config.no_etcds = 0;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK(j.plan.look_again_ns > 4 * SECOND);
    job_end(&j);
}

static uint64_t pause_of(rg__plan_clock *clock, uint64_t now_ns)
{
    uint64_t s = 0;
    rg__shut_out_add(clock, 7, now_ns);
    rg__shut_out_add(clock, 7, now_ns + SECOND); /* the same one, once more */
    while (rg__shut_out_is(clock, 7, now_ns + s * SECOND))
        s++;
    return s;
}

static void pauses_double_and_are_forgiven(void)
{
    rg__plan_clock clock = {0};
    uint64_t now = 1000 * SECOND;
    for (uint64_t s = 5; s <= 640; s *= 2) {
        CHECK_EQ(pause_of(&clock, now), s);
        now += (s + 60) * SECOND;
    }
    CHECK_EQ(pause_of(&clock, now), 640);
    now += (640 + 601) * SECOND;
    CHECK_EQ(pause_of(&clock, now), 5);
    rg__plan_clock_reset(&clock);
}

static void any_number_of_hosts_is_shut_out(void)
{
    rg__plan_clock clock = {0};
    for (uint64_t host = 1; host <= 300; host++)
        rg__shut_out_add(&clock, host, SECOND);
    for (uint64_t host = 1; host <= 300; host++)
        CHECK(rg__shut_out_is(&clock, host, 2 * SECOND));
    rg__shut_out_add(&clock, 1, 10000 * SECOND);
    CHECK_EQ(clock.shut_outs, 1); /* and they are forgotten */
    rg__plan_clock_reset(&clock);
}

int main(void)
{
    members_that_compute_are_waited_for();
    a_newcomer_has_a_moment_once_all_stand();
    a_newcomer_that_etcd_answers_now_and_then_is_left_out();
    pauses_double_and_are_forgiven();
    any_number_of_hosts_is_shut_out();
    return 0;
}
