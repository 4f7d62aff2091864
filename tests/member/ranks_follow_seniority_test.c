/* Survivors keep their order, a replacement in the very next generation keeps
 * the rank, newcomers come last with each host together, and no more than max.
 *
 * Covers: plan.c */
#include "tests/member/job.h"

static const rg__member_id three[] = {{2, 0, 1}, {1, 0, 1}, {1, 1, 1}};

static void check_members(const job *j, const rg__member_id *expected, int n)
{
    CHECK_EQ(j->plan.proposal.size, n);
    for (int r = 0; r < n; r++)
        CHECK(rg__same_member(j->plan.proposal.member[r], expected[r]));
}

static void begin_three(job *j, int min, int max)
{
    job_begin(j, min, max);
    job_host(j, "a", 1, 3);
    job_host(j, "b", 2, 2);
    job_slot(j, 1, 2)->is_at_door = false;
    job_slot(j, 2, 1)->is_at_door = false;
    job_decided(j, 1, three, 3, (rg__commit_id){0, 0});
}

static void survivors_keep_their_order(void)
{
    job j;
    begin_three(&j, 1, 5);
    job_slot(&j, 2, 0)->is_alive = false; /* rank 0 */
    job_reason(&j, 1, true, "b.0 died");
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    check_members(&j, &three[1], 2);
    CHECK(!j.plan.proposal.is_announced);
    CHECK_STR(j.plan.proposal.cause, "b.0 died");
    CHECK_EQ(j.plan.proposal.kind, RG__KIND_DEATH);
    job_end(&j);
}

static void a_replacement_keeps_the_rank(void)
{
    job j;
    begin_three(&j, 3, 3);
    rg__slot_record *slot = job_slot(&j, 2, 0);
    slot->start = 2;
    slot->is_at_door = false;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* below min */
    slot->is_at_door = true;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    const rg__member_id expected[] = {{2, 0, 2}, {1, 0, 1}, {1, 1, 1}};
    check_members(&j, expected, 3);
    job_end(&j);
}

/* Its host was started again under the same name, before anybody noticed. */
static void a_replacement_on_a_new_incarnation_keeps_the_rank(void)
{
    job j;
    begin_three(&j, 1, 5);
    rg__host_record *b = &j.snap.host[1];
    CHECK_STR(b->name, "b");
    b->id = 9;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    const rg__member_id expected[] = {{9, 0, 1}, {1, 0, 1}, {1, 1, 1}};
    check_members(&j, expected, 3);
    job_end(&j);
}

static void newcomers_come_last_and_not_above_max(void)
{
    job j;
    begin_three(&j, 1, 4);
    job_slot(&j, 1, 2)->is_at_door = true;
    job_slot(&j, 2, 1)->is_at_door = true;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* the last call */
    CHECK(j.plan.look_again_ns > 0);
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    const rg__member_id expected[] = {
        {2, 0, 1}, {1, 0, 1}, {1, 1, 1}, {1, 2, 1}};
    check_members(&j, expected, 4);
    CHECK(j.plan.proposal.is_announced);
    CHECK_STR(j.plan.proposal.cause, "a.2 joined");
    CHECK_EQ(j.plan.proposal.kind, RG__KIND_JOIN);
    job_end(&j);
}

int main(void)
{
    survivors_keep_their_order();
    a_replacement_keeps_the_rank();
    a_replacement_on_a_new_incarnation_keeps_the_rank();
    newcomers_come_last_and_not_above_max();
    return 0;
}
