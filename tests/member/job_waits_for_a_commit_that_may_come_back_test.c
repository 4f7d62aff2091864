/* The leader waits for a commit that may only be on a host which is away: for
 * --elastic-timeout if no host of its world is here, else for a shorter time;
 * it does not wait for one that other hosts hold as well, or that is gone for
 * good.
 *
 * Covers: plan.c */
#include "tests/member/job.h"

#define COMEBACK (10 * SECOND)
#define ELASTIC  (600 * SECOND)

static const rg__commit_id older = {1, 4}, newer = {2, 9};
static const rg__member_id both[] = {{1, 0, 1}, {2, 0, 1}};

static void begin_with_both(job *j)
{
    job_begin(j, 1, 2);
    j->snap.begun = 1;
    j->config.comeback_ns = COMEBACK;
    job_host(j, "a", 1, 1);
    job_host(j, "b", 2, 1);
    job_decided(j, 1, both, 2, (rg__commit_id){0, 0});
}

/* a alone was the world of generation 2, which began with a commit of 1; b has
 * that still, and is proposed alone. */
static void begin(job *j)
{
    begin_with_both(j);
    job_decided(j, 2, both, 1, older);
    job_reason(j, 2, false, "x");
    job_proposed(j, 3, both + 1, 1, false);
    job_ack(j, 3, "b", &older, 1);
}

static const uint64_t away[] = {1};

static void wait_for_a(job *j)
{
    CHECK_EQ(job_look(j), RG__PLAN_WAIT);
    CHECK_EQ(strcmp(j->plan.awaited, "a"), 0);
    CHECK_EQ(j->plan.look_again_ns, ELASTIC);
}

static void check_resume(job *j, rg__commit_id id)
{
    CHECK_EQ(job_look(j), RG__PLAN_DECIDE);
    CHECK_EQ(j->plan.line.resume.generation, id.generation);
    CHECK_EQ(j->plan.line.resume.step, id.step);
    job_end(j);
}

static void a_host_that_is_cut_off_comes_back_with_it(void)
{
    job j;
    begin(&j);
    j.config.lost = away;
    j.config.losts = 1;
    wait_for_a(&j);
    j.config.losts = 0;
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* for its ack, like anybody's */
    job_ack(&j, 3, "a", &newer, 1);
    check_resume(&j, newer);
}

static void a_host_without_etcd_comes_back_with_it(void)
{
    job j;
    begin(&j);
    j.config.no_etcd = away;
    j.config.no_etcds = 1;
    wait_for_a(&j);
    job_ack(&j, 3, "a", &newer, 1);
    check_resume(&j, newer);
}

static void nothing_older_is_decided_when_it_stays_away(void)
{
    job j;
    begin(&j);
    j.config.lost = away;
    j.config.losts = 1;
    wait_for_a(&j);
    j.now_ns += ELASTIC;
    CHECK_EQ(job_look(&j), RG__PLAN_LEAVE);
    CHECK_EQ(strcmp(j.plan.awaited, "a"), 0);
    job_end(&j);
}

/* Its lease has ended as well: it may be cut off all the same. */
static void a_host_without_a_record_may_come_back(void)
{
    job j;
    begin(&j);
    job_lose_record(&j, 1);
    j.config.lost = away;
    j.config.losts = 1;
    wait_for_a(&j);
    job_end(&j);
}

static void who_has_left_does_not_come_back(void)
{
    job j;
    begin(&j);
    j.snap.host[0].is_gone = true;
    check_resume(&j, older);
}

static void restarted_host_holds_nothing(void)
{
    job j;
    begin(&j);
    j.snap.host[0].id = 7;
    job_ack(&j, 3, "a", NULL, 0);
    check_resume(&j, older);
}

/* a was cut off; b was started again, and knows nothing of their world. */
static void report_of_a_restarted_host_is_not_enough(void)
{
    const rg__member_id again[] = {{7, 0, 1}};
    job j;
    begin_with_both(&j);
    j.snap.host[1].id = 7;
    job_proposed(&j, 2, again, 1, false);
    job_ack(&j, 2, "b", NULL, 0);
    j.config.lost = away;
    j.config.losts = 1;
    wait_for_a(&j);
    job_ack(&j, 2, "a", &older, 1);
    j.config.losts = 0;
    check_resume(&j, older);
}

static void what_another_member_holds_is_not_waited_for(void)
{
    const uint64_t lost[] = {2};
    job j;
    begin_with_both(&j);
    job_proposed(&j, 2, both, 1, false);
    job_ack(&j, 2, "a", &older, 1);
    j.config.lost = lost;
    j.config.losts = 1;
    check_resume(&j, older);
}

/* b was in the world and has acked; a's shards lie nowhere else. */
static void shard_of_an_absent_host_is_awaited(void)
{
    const uint32_t second[] = {1};
    job j;
    begin_with_both(&j);
    job_proposed(&j, 2, both + 1, 1, false);
    job_ack(&j, 2, "b", &older, 1);
    job_shards(&j, 2, second, 1);
    j.config.lost = away;
    j.config.losts = 1;
    wait_for_a(&j);
    CHECK(j.plan.awaits_parts);
    j.now_ns += COMEBACK;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += ELASTIC - COMEBACK;
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    job_end(&j);
}

/* b went on alone from a's shard, and lost it again before it had made a commit
 * of its own. a has neither a place nor a record any more; it may have had a
 * place in a proposal that was never decided. */
static void a_holder_outside_of_the_newest_world_is_waited_for(bool was_to_join)
{
    const uint64_t now = was_to_join ? 4 : 3;
    const uint32_t first[] = {0}, second[] = {1};
    job j;
    begin_with_both(&j);
    job_decided(&j, 2, both + 1, 1, older);
    if (was_to_join)
        job_proposed(&j, 3, both, 2, false);
    job_lose_record(&j, 1);
    job_reason(&j, 2, false, "b got no copy from a");
    job_proposed(&j, now, both + 1, 1, false);
    job_ack(&j, now, "b", &older, 1);
    job_shards(&j, 2, second, 1);
    wait_for_a(&j);
    CHECK(j.plan.awaits_parts);
    job_ack(&j, now, "a", &older, 1);
    job_shards(&j, 2, first, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.copies, 1);
    CHECK_EQ(j.plan.line.copy[0].from, 1);
    job_end(&j);
}

/* What the newest world has made lies on its own hosts. */
static void a_host_of_an_older_world_is_not_waited_for(void)
{
    const uint32_t second[] = {1};
    job j;
    job_begin(&j, 1, 2);
    j.snap.begun = 1;
    job_host(&j, "a", 1, 1);
    job_host(&j, "b", 2, 1);
    job_decided(&j, 1, both, 2, (rg__commit_id){0, 0});
    job_decided(&j, 2, both + 1, 1, older);
    job_decided(&j, 3, both + 1, 1, newer);
    job_lose_record(&j, 1);
    job_reason(&j, 3, false, "x");
    job_proposed(&j, 4, both + 1, 1, false);
    job_ack(&j, 4, "b", &newer, 1);
    job_shards(&j, 2, second, 1); /* it lacks one: that is lost */
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    job_end(&j);
}

int main(void)
{
    a_holder_outside_of_the_newest_world_is_waited_for(false);
    a_holder_outside_of_the_newest_world_is_waited_for(true);
    a_host_of_an_older_world_is_not_waited_for();
    a_host_that_is_cut_off_comes_back_with_it();
    a_host_without_etcd_comes_back_with_it();
    nothing_older_is_decided_when_it_stays_away();
    a_host_without_a_record_may_come_back();
    who_has_left_does_not_come_back();
    restarted_host_holds_nothing();
    report_of_a_restarted_host_is_not_enough();
    what_another_member_holds_is_not_waited_for();
    shard_of_an_absent_host_is_awaited();
    return 0;
}
