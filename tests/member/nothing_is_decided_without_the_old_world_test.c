/* Which hosts may decide: one of the world that was decided last, with a commit
 * of the lineage in its vault, or any while no commit has been begun. Without
 * them a leader waits, and then the waiting hosts leave; the job continues
 * elsewhere.
 *
 * Covers: links.c plan.c snapshot.c */
#include "elastic/member/links.h"
#include "tests/member/job.h"

#define ELASTIC (600 * SECOND)

static const rg__commit_id none = {0, 0}, older = {1, 4};
static const rg__member_id world[] = {{1, 0, 1}, {2, 0, 1}};
static const rg__member_id spare[] = {{3, 0, 1}};

/* a and b are the world, c is at the door of a full job. */
static void begin(job *j)
{
    job_begin(j, 1, 2);
    j->snap.begun = 1;
    job_host(j, "a", 1, 1);
    job_host(j, "b", 2, 1);
    job_host(j, "c", 3, 1);
    job_decided(j, 1, world, 2, none);
}

static void check_wait(job *j, const char *awaited)
{
    CHECK_EQ(job_look(j), RG__PLAN_WAIT);
    CHECK_EQ(strcmp(j->plan.awaited, awaited), 0);
}

static void leases_that_end_make_no_generation(void)
{
    job j;
    begin(&j);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.awaited[0], '\0');
    job_lose_record(&j, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.awaited[0], '\0'); /* b speaks for the world */
    job_lose_record(&j, 2);
    job_suspects(&j, 3, 1);
    job_suspects(&j, 3, 2);
    check_wait(&j, "a, b");
    CHECK_EQ(j.plan.look_again_ns, ELASTIC);
    j.now_ns += ELASTIC - 1;
    check_wait(&j, "a, b");
    j.now_ns += 1;
    CHECK_EQ(job_look(&j), RG__PLAN_LEAVE);
    job_end(&j);
}

static void a_world_that_is_back_goes_on_as_it_was(void)
{
    job j;
    begin(&j);
    job_lose_record(&j, 1);
    job_lose_record(&j, 2);
    check_wait(&j, "a, b");
    j.now_ns += ELASTIC / 2;
    job_host(&j, "b", 2, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.awaited[0], '\0');
    job_lose_record(&j, 2);
    j.now_ns += ELASTIC / 2;
    check_wait(&j, "a, b"); /* from the beginning */
    job_end(&j);
}

/* All wait for its ack, too, and then for the world again. */
static void who_comes_lengthens_no_wait(void)
{
    job j;
    begin(&j);
    job_reason(&j, 1, true, "a.0 died");
    job_lose_record(&j, 1);
    job_lose_record(&j, 2);
    job_proposed(&j, 2, spare, 1, false);
    job_ack(&j, 2, "c", NULL, 0);
    check_wait(&j, "a, b");
    j.now_ns += ELASTIC - SECOND;
    job_host(&j, "d", 4, 1);
    job_look(&j);
    job_ack(&j, 2, "d", NULL, 0);
    check_wait(&j, "a, b");
    j.now_ns += SECOND;
    CHECK_EQ(job_look(&j), RG__PLAN_LEAVE);
    job_end(&j);
}

/* A worker of a died, then a and b were cut off. */
static void a_broken_world_out_of_sight_is_no_end(void)
{
    job j;
    begin(&j);
    j.config.min = 2;
    job_reason(&j, 1, true, "a.0 died");
    job_lose_record(&j, 2);
    job_slot(&j, 1, 0)->is_alive = false;
    job_lose_record(&j, 1);
    rg__shut_out_add(&j.clock, 1, j.now_ns + ELASTIC);
    rg__shut_out_add(&j.clock, 2, j.now_ns + ELASTIC);
    check_wait(&j, "a, b");
    j.now_ns += ELASTIC;
    CHECK_EQ(job_look(&j), RG__PLAN_LEAVE);
    job_end(&j);
}

/* Both were started again under their names. */
static void start_again(job *j)
{
    begin(j);
    j->snap.host[0].id = 11;
    j->snap.host[1].id = 12;
    job_proposed(j, 2, spare, 1, false);
    job_ack(j, 2, "a", NULL, 0);
    job_ack(j, 2, "b", NULL, 0);
}

static void restarted_host_is_no_longer_awaited(void)
{
    job j;
    start_again(&j);
    job_ack(&j, 2, "c", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    job_end(&j);
}

/* c has loaded the newest checkpoint and done nothing since; or an older one.
 */
static void who_has_loaded_the_checkpoint_goes_on_from_it(void)
{
    job j;
    start_again(&j);
    job_ack(&j, 2, "c", NULL, 0);
    rg__ack *ack = &j.snap.ack[j.snap.acks - 1];
    ack->loaded = 77;
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST); /* etcd knows of none */
    j.snap.saved = (rg__saved){.serial = 3, .hash = 77, .commit = {1, 4}};
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.generation, 0);
    CHECK_EQ(j.plan.line.source, 0);
    CHECK_EQ(j.plan.line.steps_lost, -1);
    ack->source = 1; /* no such rank */
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    ack->source = 0;
    ack->loaded = 76;
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    job_end(&j);
}

/* c has loaded one whose name was claimed, but not published; or, also
 * a, the one before. */
static void who_has_loaded_what_was_only_claimed_goes_on_from_it(void)
{
    const rg__member_id two[] = {{3, 0, 1}, {11, 0, 1}};
    rg__claim claim = {.serial = 4, .hash = 78, .commit = {1, 6}};
    job j;
    start_again(&j);
    job_proposed(&j, 3, two, 2, false);
    job_ack(&j, 3, "b", NULL, 0);
    job_ack(&j, 3, "c", NULL, 0);
    j.snap.ack[j.snap.acks - 1].loaded = 78;
    job_ack(&j, 3, "a", NULL, 0);
    j.snap.ack[j.snap.acks - 1].loaded = 77;
    j.snap.ack[j.snap.acks - 1].source = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    j.snap.saved = (rg__saved){.serial = 3, .hash = 77, .commit = {1, 4}};
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.source, 1);
    j.snap.claim = &claim;
    j.snap.claims = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.source, 0);
    j.snap.saved.serial = 0;
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.source, 0);
    claim.hash = 79;
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    j.snap.claim = NULL;
    j.snap.claims = 0;
    job_end(&j);
}

/* a and b each hold a shard of {1, 4}; b is away, and may come back with its
 * own. c has loaded the newest checkpoint. */
static void checkpoint_does_not_outrun_a_host_that_may_return(void)
{
    const uint32_t first = 0;
    job j;
    begin(&j);
    j.config.comeback_ns = 10 * SECOND;
    job_lose_record(&j, 2);
    job_proposed(&j, 2, spare, 1, false);
    job_ack(&j, 2, "a", &older, 1);
    job_shards(&j, 2, &first, 1);
    job_ack(&j, 2, "c", NULL, 0);
    j.snap.ack[j.snap.acks - 1].loaded = 77;
    j.snap.saved = (rg__saved){.serial = 3, .hash = 77, .commit = {1, 2}};
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += j.config.comeback_ns;
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.source, 0);
    job_end(&j);
}

/* a begins again and has loaded {1, 4}; c was left out of the world long ago.
 */
static void a_checkpoint_comes_before_an_older_commit(void)
{
    const rg__member_id again[] = {{11, 0, 1}, {3, 0, 1}};
    const rg__commit_id first = {1, 2};
    job j;
    start_again(&j);
    job_proposed(&j, 3, again, 2, false);
    job_ack(&j, 3, "a", NULL, 0);
    j.snap.ack[j.snap.acks - 1].loaded = 77;
    job_ack(&j, 3, "b", NULL, 0);
    job_ack(&j, 3, "c", &first, 1);
    j.snap.saved = (rg__saved){.serial = 3, .hash = 77, .commit = older};
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.generation, 0);
    CHECK_EQ(j.plan.line.source, 0);
    CHECK_EQ(j.plan.line.copies, 0);
    j.snap.saved.commit = (rg__commit_id){1, 1};
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.step, first.step);
    job_end(&j);
}

static void what_a_spare_still_holds_is_gone_on_with(void)
{
    job j;
    start_again(&j);
    job_ack(&j, 2, "c", &older, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.step, older.step);
    CHECK_EQ(j.plan.line.steps_lost, -1); /* no host that knows it is here */
    job_end(&j);
}

/* Of a there is a new incarnation, b may still be there. */
static void restarted_host_does_not_speak_for_the_other(void)
{
    job j;
    begin(&j);
    j.snap.host[0].id = 11;
    job_lose_record(&j, 2);
    job_proposed(&j, 2, spare, 1, false);
    job_ack(&j, 2, "a", NULL, 0);
    job_ack(&j, 2, "c", &older, 1);
    check_wait(&j, "b");
    job_end(&j);
}

/* Not even one of the world, when its vault is empty. */
static void an_empty_vault_is_not_enough(void)
{
    job j;
    begin(&j);
    job_lose_record(&j, 2);
    job_proposed(&j, 2, spare, 1, false);
    job_ack(&j, 2, "a", NULL, 0);
    job_ack(&j, 2, "c", NULL, 0);
    check_wait(&j, "b");
    CHECK(rg__plan_is_here(&j.snap, 1));
    CHECK(rg__plan_is_here(&j.snap, 3));
    CHECK(!rg__plan_is_here(&j.snap, 2));
    job_end(&j);
}

/* a was to resume from {1, 4} and has not got it yet; b has it. */
static void a_commit_older_than_the_worlds_is_not_enough(void)
{
    const rg__commit_id first = {1, 2};
    job j;
    begin(&j);
    job_decided(&j, 2, world, 2, older);
    job_lose_record(&j, 2);
    job_proposed(&j, 3, spare, 1, false);
    job_ack(&j, 3, "a", &first, 1);
    job_ack(&j, 3, "c", &older, 1);
    check_wait(&j, "b");
    j.snap.ack[0].held[0].id = older;
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    job_end(&j);
}

static void before_the_first_commit_anybody_decides(void)
{
    job j;
    begin(&j);
    j.snap.begun = 0;
    job_lose_record(&j, 1);
    job_lose_record(&j, 2);
    job_proposed(&j, 2, spare, 1, false);
    job_ack(&j, 2, "c", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.generation, 0);
    CHECK_EQ(j.plan.line.steps_lost, 0);
    job_end(&j);
}

/* Rank 0's piece and one shard of commit 0 are there, the other is not. */
static void part_of_commit_0_is_no_commit(void)
{
    const rg__commit_id zero = {1, 0};
    const uint32_t first[] = {0};
    job j;
    begin(&j);
    j.snap.begun = 0;
    job_slot(&j, 2, 0)->is_alive = false;
    job_proposed(&j, 2, world, 1, false);
    job_ack(&j, 2, "a", &zero, 1);
    job_shards(&j, 2, first, 1);
    job_ack(&j, 2, "b", NULL, 0);
    job_ack(&j, 2, "c", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.generation, 0);
    j.snap.begun = 1; /* the same once it counts */
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    job_end(&j);
}

static void steps_lost_are_known_to_the_world(void)
{
    job j;
    begin(&j);
    job_proposed(&j, 2, world, 1, false);
    job_ack(&j, 2, "a", &older, 1);
    job_ack(&j, 2, "b", &older, 1);
    job_ack(&j, 2, "c", NULL, 0);
    j.snap.ack[1].step = older.step + 3;
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.steps_lost, 3);
    job_end(&j);
}

static void no_wait_runs_while_etcd_is_away(void)
{
    job j;
    begin(&j);
    job_lose_record(&j, 1);
    job_lose_record(&j, 2);
    check_wait(&j, "a, b");
    const uint64_t away = j.now_ns + ELASTIC / 2;
    j.now_ns = away + 2 * ELASTIC;
    rg__plan_leave_out(&j.clock, away, j.now_ns);
    check_wait(&j, "a, b");
    CHECK_EQ(j.plan.look_again_ns, ELASTIC / 2);
    CHECK_EQ(j.clock.below_min_ns, 0);
    job_end(&j);
}

/* a has given one of two slots up; b is cut off from etcd, and they train. */
static void slots_are_judged_when_the_world_is_broken(void)
{
    const rg__member_id three[] = {{1, 0, 1}, {2, 0, 1}, {2, 1, 1}};
    job j;
    job_begin(&j, 3, 4);
    j.snap.begun = 1;
    rg__host_record *a = job_host(&j, "a", 1, 2);
    a->open = 1;
    a->failed_code = 3;
    strcpy(a->failed, "slot 1 failed too often");
    a->slot[1].is_alive = false;
    job_host(&j, "b", 2, 2);
    job_decided(&j, 1, three, 3, none);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    job_lose_record(&j, 2);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    const uint64_t lost[] = {2};
    j.config.lost = lost; /* by now it is */
    j.config.losts = 1;
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    CHECK_EQ(j.plan.look_again_ns, ELASTIC);
    j.now_ns += ELASTIC;
    CHECK_EQ(job_look(&j), RG__PLAN_GIVE_UP);
    CHECK(j.plan.failed == NULL);
    job_host(&j, "b", 22, 1); /* again, with too few slots */
    CHECK_EQ(job_look(&j), RG__PLAN_GIVE_UP);
    CHECK(j.plan.failed != NULL);
    job_end(&j);
}

int main(void)
{
    leases_that_end_make_no_generation();
    a_world_that_is_back_goes_on_as_it_was();
    who_comes_lengthens_no_wait();
    a_broken_world_out_of_sight_is_no_end();
    restarted_host_is_no_longer_awaited();
    who_has_loaded_the_checkpoint_goes_on_from_it();
    who_has_loaded_what_was_only_claimed_goes_on_from_it();
    checkpoint_does_not_outrun_a_host_that_may_return();
    a_checkpoint_comes_before_an_older_commit();
    what_a_spare_still_holds_is_gone_on_with();
    restarted_host_does_not_speak_for_the_other();
    an_empty_vault_is_not_enough();
    a_commit_older_than_the_worlds_is_not_enough();
    before_the_first_commit_anybody_decides();
    part_of_commit_0_is_no_commit();
    steps_lost_are_known_to_the_world();
    no_wait_runs_while_etcd_is_away();
    slots_are_judged_when_the_world_is_broken();
    return 0;
}
