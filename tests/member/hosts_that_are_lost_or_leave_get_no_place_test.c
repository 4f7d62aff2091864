/* Which hosts the leader goes on without, and whether that is announced.
 *
 * Covers: links.c plan.c */
#include "elastic/member/links.h"
#include "tests/member/job.h"

static const rg__member_id three[] = {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}};
static const rg__commit_id none = {0, 0};

static void begin_three(job *j)
{
    job_of_three(j);
    job_decided(j, 1, three, 3, none);
}

static void check_without(job *j, uint64_t host, bool is_announced)
{
    CHECK_EQ(job_look(j), RG__PLAN_PROPOSE);
    CHECK_EQ(j->plan.proposal.is_announced, is_announced);
    CHECK_EQ(j->plan.proposal.size, 2);
    for (int r = 0; r < 2; r++)
        CHECK(j->plan.proposal.member[r].host != host);
}

static void a_lost_host_is_left_out_at_once(void)
{
    const uint64_t lost[] = {2};
    job j;
    begin_three(&j);
    j.config.lost = lost;
    j.config.losts = 1;
    check_without(&j, 2, false);
    CHECK_STR(j.plan.proposal.cause, "host b is lost");
    CHECK_EQ(j.plan.proposal.kind, RG__KIND_HOST);
    job_end(&j);
}

static void a_lost_hosts_ack_is_not_waited_for(void)
{
    const uint64_t lost[] = {2};
    const rg__member_id two[] = {{1, 0, 1}, {3, 0, 1}};
    job j;
    begin_three(&j);
    job_proposed(&j, 2, two, 2, false);
    job_ack(&j, 2, "a", NULL, 0);
    job_ack(&j, 2, "c", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.config.lost = lost;
    j.config.losts = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    job_end(&j);
}

static void a_host_that_drains_leaves_announced(void)
{
    job j;
    begin_three(&j);
    j.snap.host[2].is_draining = true;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* the last call */
    j.now_ns += SECOND;
    check_without(&j, 3, true);
    CHECK_STR(j.plan.proposal.cause, "host c leaves");
    CHECK_EQ(j.plan.proposal.kind, RG__KIND_DRAIN);
    job_end(&j);
}

/* It was to leave at a step end, and dies first: that step never ends. */
static void a_host_that_is_lost_while_it_drains_is_left_at_once(void)
{
    const uint64_t lost[] = {3};
    job j;
    begin_three(&j);
    j.snap.host[2].is_draining = true;
    job_proposed(&j, 2, three, 2, true);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.config.lost = lost;
    j.config.losts = 1;
    check_without(&j, 3, false);
    CHECK_EQ(j.plan.proposal.generation, 3);
    CHECK_STR(j.plan.proposal.cause, "host c is lost");
    job_end(&j);
}

/* Its deadline has passed, or it can't go on. */
static void a_host_that_has_left_is_not_called_lost(void)
{
    for (int is_draining = 0; is_draining <= 1; is_draining++) {
        job j;
        begin_three(&j);
        j.snap.host[2].is_draining = is_draining;
        j.snap.host[2].is_gone = true;
        check_without(&j, 3, false);
        CHECK_STR(j.plan.proposal.cause, is_draining
                                             ? "host c has left before a commit"
                                             : "host c has left");
        CHECK_EQ(j.plan.proposal.kind, RG__KIND_HOST);
        job_end(&j);
    }
}

static void no_host_drains_below_min(void)
{
    job j;
    begin_three(&j);
    j.config.min = 3;
    j.snap.host[2].is_draining = true;
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_end(&j);
}

static void a_host_that_has_gone_needs_no_lease_to_end(void)
{
    job j;
    begin_three(&j);
    j.snap.host[0].is_gone = true;
    check_without(&j, 1, false);
    job_end(&j);
}

/* Of a change, but not of the world: training goes on without etcd. */
static void a_host_without_etcd_holds_up_no_change(void)
{
    const uint64_t no_etcd[] = {3};
    job j;
    begin_three(&j);
    j.config.no_etcd = no_etcd;
    j.config.no_etcds = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_slot(&j, 1, 0)->is_alive = false;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 1);
    CHECK_EQ(j.plan.proposal.member[0].host, 2);
    job_end(&j);
}

/* It would not ack; it is in once etcd answers it. */
static void a_newcomer_without_etcd_is_not_let_in(void)
{
    const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
    const uint64_t no_etcd[] = {3};
    job j;
    job_of_three(&j);
    job_decided(&j, 1, two, 2, none);
    j.config.no_etcd = no_etcd;
    j.config.no_etcds = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, 0);
    j.config.no_etcds = 0;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, j.config.last_call_ns);
    j.now_ns += j.config.last_call_ns;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

static void an_ack_that_never_comes_is_not_waited_for_for_ever(void)
{
    job j;
    begin_three(&j);
    job_reason(&j, 1, false, "x");
    job_proposed(&j, 2, three, 3, false);
    job_ack(&j, 2, "a", NULL, 0);
    job_ack(&j, 2, "b", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 21 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* c is shut out from now on */
    CHECK(j.plan.look_again_ns != 0 && j.plan.look_again_ns < SECOND);
    check_without(&j, 3, false);
    job_end(&j);
}

static void no_break_shuts_no_host_out(void)
{
    job j;
    begin_three(&j);
    job_reason(&j, 1, false, "x");
    job_proposed(&j, 2, three, 3, false);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 21 * SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    for (int i = 0; i < 3; i++)
        job_ack(&j, 2, i == 0 ? "a" : i == 1 ? "b" : "c", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    job_end(&j);
}

/* A member's host of an announced proposal loses its etcd. */
static void a_host_without_etcd_holds_up_no_announced_change(void)
{
    const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
    const uint64_t no_etcd[] = {3};
    job j;
    job_of_three(&j);
    job_decided(&j, 1, two, 2, none);
    job_proposed(&j, 2, three, 3, true);
    j.config.no_etcd = no_etcd;
    j.config.no_etcds = 1;
    check_without(&j, 3, true);
    job_end(&j);
}

static void who_vanishes_from_a_proposal_is_lost_all_the_same(void)
{
    const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
    uint64_t lost[2];
    job j;
    job_of_three(&j);
    job_decided(&j, 1, two, 2, none);
    job_proposed(&j, 2, three, 3, true);
    free(j.snap.host[--j.snap.hosts].slot); /* c's lease has ended */
    job_suspects(&j, 1, 3);
    CHECK_EQ(job_lost(&j, lost, 2), 1);
    CHECK_EQ(lost[0], 3);
    job_end(&j);
}

/* ------------------------------------------------------ broken connections */

static void first_broken_link_removes_no_host(void)
{
    job j;
    begin_three(&j);
    job_link(&j, 1, "a", "b");
    job_link(&j, 1, "b", "a");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

static void break_twice(job *j, uint64_t wait_ns)
{
    begin_three(j);
    job_link(j, 1, "a", "b");
    CHECK_EQ(job_look(j), RG__PLAN_PROPOSE);
    job_decided(j, 2, three, 3, none);
    j->now_ns += wait_ns;
    job_link(j, 2, "c", "a");
    job_link(j, 2, "b", "a");
    CHECK_EQ(job_look(j), RG__PLAN_PROPOSE);
}

static void the_second_removes_whom_more_accuse(void)
{
    job j;
    break_twice(&j, 10 * SECOND);
    CHECK_EQ(j.plan.proposal.size, 2);
    CHECK_EQ(j.plan.proposal.member[0].host, 2); /* b and c accuse a */
    CHECK_EQ(j.plan.proposal.member[1].host, 3);
    job_end(&j);
}

/* Both of a's connections broke, and a was the first to say so. */
static void second_break_removes_the_host_with_more_broken_links(void)
{
    job j;
    begin_three(&j);
    job_link(&j, 1, "a", "b");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_decided(&j, 2, three, 3, none);
    job_link(&j, 2, "a", "c");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_decided(&j, 3, three, 3, none);
    job_link(&j, 3, "b", "a");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 2);
    CHECK_EQ(j.plan.proposal.member[0].host, 2);
    CHECK_EQ(j.plan.proposal.member[1].host, 3);
    job_end(&j);
}

/* b was lost in between: that is why the connection broke. */
static void a_link_to_a_lost_host_does_not_count(void)
{
    const rg__member_id two[] = {{1, 0, 1}, {3, 0, 1}};
    job j;
    begin_three(&j);
    job_link(&j, 1, "a", "b");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_decided(&j, 2, two, 2, none);
    job_decided(&j, 3, three, 3, none);
    job_link(&j, 3, "a", "b");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

static void a_new_leader_judges_no_old_reports(void)
{
    job j;
    begin_three(&j);
    job_link(&j, 1, "a", "b");
    job_decided(&j, 2, three, 3, none);
    job_link(&j, 2, "a", "b");
    job_decided(&j, 3, three, 3, none);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_end(&j);
}

static void a_shut_out_ends_by_itself(void)
{
    const rg__member_id two[] = {{2, 0, 1}, {3, 0, 1}};
    job j;
    break_twice(&j, 10 * SECOND);
    job_decided(&j, 3, two, 2, none);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK(j.plan.look_again_ns != 0 && j.plan.look_again_ns <= 60 * SECOND);
    j.now_ns += 61 * SECOND;
    job_look(&j);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

/* b died behind its ack, and started again. */
static void a_link_to_another_incarnation_does_not_count(void)
{
    const rg__member_id two[] = {{1, 0, 1}, {3, 0, 1}};
    const rg__member_id again[] = {{1, 0, 1}, {3, 0, 1}, {4, 0, 1}};
    job j;
    begin_three(&j);
    job_link(&j, 1, "a", "b");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    job_decided(&j, 2, three, 3, none);
    job_decided(&j, 3, two, 2, none);
    j.snap.host[1].id = 4;
    job_decided(&j, 4, again, 3, none);
    job_link(&j, 4, "a", "b");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

static void after_a_minute_it_is_a_first_one(void)
{
    job j;
    break_twice(&j, 61 * SECOND);
    CHECK_EQ(j.plan.proposal.size, 3);
    job_end(&j);
}

int main(void)
{
    a_lost_host_is_left_out_at_once();
    a_lost_hosts_ack_is_not_waited_for();
    a_host_that_drains_leaves_announced();
    a_host_that_is_lost_while_it_drains_is_left_at_once();
    a_host_that_has_left_is_not_called_lost();
    no_host_drains_below_min();
    a_host_that_has_gone_needs_no_lease_to_end();
    a_host_without_etcd_holds_up_no_change();
    a_newcomer_without_etcd_is_not_let_in();
    an_ack_that_never_comes_is_not_waited_for_for_ever();
    no_break_shuts_no_host_out();
    a_host_without_etcd_holds_up_no_announced_change();
    who_vanishes_from_a_proposal_is_lost_all_the_same();
    a_new_leader_judges_no_old_reports();
    a_shut_out_ends_by_itself();
    first_broken_link_removes_no_host();
    the_second_removes_whom_more_accuse();
    second_break_removes_the_host_with_more_broken_links();
    a_link_to_a_lost_host_does_not_count();
    a_link_to_another_incarnation_does_not_count();
    after_a_minute_it_is_a_first_one();
    return 0;
}
