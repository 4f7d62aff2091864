/* The resume commit: the newest that any acking host holds whole, made in a
 * decided generation and not later than what later generations resumed from.
 *
 * Covers: resume.c */
#include "tests/member/job.h"

#include "elastic/member/resume.h"

static const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
static const rg__commit_id none = {0, 0};

static void begin_two(job *j)
{
    job_begin(j, 1, 2);
    job_host(j, "a", 1, 1);
    job_host(j, "b", 2, 1);
}

static void check_decision(job *j, rg__commit_id resume, int copies)
{
    CHECK_EQ(job_look(j), RG__PLAN_DECIDE);
    CHECK_EQ(j->plan.line.resume.generation, resume.generation);
    CHECK_EQ(j->plan.line.resume.step, resume.step);
    CHECK_EQ(j->plan.line.source, resume.generation == 0 ? 0 : -1);
    CHECK_EQ(j->plan.line.copies, copies);
}

static void the_first_has_none(void)
{
    job j;
    begin_two(&j);
    job_proposed(&j, 1, two, 2, false);
    job_ack(&j, 1, "a", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* b has not acked */
    job_ack(&j, 1, "b", NULL, 0);
    check_decision(&j, none, 0);
    job_end(&j);
}

static void the_newest_on_any_host_counts(void)
{
    const rg__commit_id a[] = {{1, 3}, {1, 4}}, b[] = {{1, 3}, {1, 2}};
    job j;
    begin_two(&j);
    job_decided(&j, 1, two, 2, none);
    job_proposed(&j, 2, two, 2, false);
    job_ack(&j, 2, "a", a, 2);
    job_ack(&j, 2, "b", b, 2);
    check_decision(&j, (rg__commit_id){1, 4}, 1); /* b gets it from a */
    CHECK_EQ(j.plan.line.copy[0].to, 2);
    CHECK_EQ(j.plan.line.copy[0].from, 1);
    job_end(&j);
}

static const rg__member_id three[] = {{1, 0, 1}, {2, 0, 1}, {3, 0, 1}};

/* b lacks what the others hold, so no rank can have reported that; in world 2,
 * which resumed from 1.3. */
static void begin_with(job *j, rg__commit_id newest, const rg__commit_id *b,
                       int n)
{
    const rg__commit_id a[] = {{2, 5}, newest};
    job_of_three(j);
    j->config.repeats = 2;
    job_decided(j, 1, three, 3, none);
    job_decided(j, 2, three, 3, (rg__commit_id){1, 3});
    job_proposed(j, 3, three, 3, false);
    job_ack(j, 3, "a", a, 2);
    job_ack(j, 3, "c", a, 2);
    job_ack(j, 3, "b", b, n);
}

static void begin_short_steps(job *j, const rg__commit_id *b, int n)
{
    begin_with(j, (rg__commit_id){2, 6}, b, n);
}

static void a_short_step_is_done_again_and_nothing_fetched(void)
{
    const rg__commit_id b[] = {{1, 4}, {2, 5}}, off[] = {{1, 4}},
                        newest[] = {{2, 6}};
    job j;
    begin_short_steps(&j, b, 2);
    check_decision(&j, (rg__commit_id){2, 5}, 0);
    job_end(&j);
    begin_short_steps(&j, b, 2);
    j.config.repeats = 0; /* 2.6 comes sooner than it is computed */
    check_decision(&j, (rg__commit_id){2, 6}, 1);
    job_end(&j);
    begin_short_steps(&j, newest, 1); /* all have it: it may be reported */
    check_decision(&j, (rg__commit_id){2, 6}, 0);
    job_end(&j);
    begin_short_steps(&j, off, 1); /* 1.3 is in no vault */
    check_decision(&j, (rg__commit_id){2, 6}, 1);
    job_end(&j);
}

/* Where commits are rarer than steps. */
static void no_more_steps_are_done_again_than_a_fetch_takes(void)
{
    const rg__commit_id newest = {2, 9}, b[] = {{2, 5}};
    job j;
    begin_with(&j, newest, b, 1);
    j.config.repeats = 4;
    check_decision(&j, b[0], 0);
    job_end(&j);
    begin_with(&j, newest, b, 1);
    j.config.repeats = 3;
    check_decision(&j, newest, 1);
    job_end(&j);
}

static void a_vault_that_began_again_says_nothing_of_what_counts(void)
{
    const rg__commit_id b[] = {{2, 5}};
    job j;
    begin_short_steps(&j, b, 1);
    for (int i = 0; i < j.snap.gens; i++) /* b was another one then */
        for (int k = 0; k < j.snap.gen[i].host_count; k++)
            if (j.snap.gen[i].generation == 2 && j.snap.gen[i].host[k].id == 2)
                j.snap.gen[i].host[k].id = 4;
    check_decision(&j, (rg__commit_id){2, 6}, 1);
    job_end(&j);
}

static void what_was_left_behind_does_not_count(void)
{
    /* generation 2 resumed from 1.3, so 1.4 is off; 3 was never decided */
    const rg__commit_id a[] = {{1, 4}, {2, 5}}, b[] = {{3, 9}, {2, 5}};
    job j;
    begin_two(&j);
    job_decided(&j, 1, two, 2, none);
    job_decided(&j, 2, two, 2, (rg__commit_id){1, 3});
    job_proposed(&j, 4, two, 2, false);
    job_ack(&j, 4, "a", a, 2);
    job_ack(&j, 4, "b", b, 2);
    check_decision(&j, (rg__commit_id){2, 5}, 0); /* both hold it */
    job_end(&j);
    const rg__commit_id off[] = {{1, 4}};
    begin_two(&j);
    job_decided(&j, 1, two, 2, none);
    job_decided(&j, 2, two, 2, (rg__commit_id){1, 3});
    job_proposed(&j, 3, two, 2, false);
    job_ack(&j, 3, "a", off, 1);
    job_ack(&j, 3, "b", NULL, 0);
    check_decision(&j, none, 0);
    job_end(&j);
}

static void a_host_without_members_acks_too(void)
{
    const rg__commit_id a[] = {{1, 4}};
    job j;
    begin_two(&j);
    job_decided(&j, 1, two, 2, none);
    job_slot(&j, 1, 0)->is_alive = false;
    job_proposed(&j, 2, &two[1], 1, false);
    job_ack(&j, 2, "b", NULL, 0);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* a has a vault that counts */
    job_ack(&j, 2, "a", a, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.step, 4);
    CHECK_EQ(j.plan.line.copies, 1); /* and b gets it from there */
    CHECK_EQ(j.plan.line.copy[0].from, 1);
    job_end(&j);
}

/* As many generations as are kept, and more. */
static void go_on_for_long(job *j)
{
    job_decided(j, 1, two, 2, none);
    for (uint64_t g = 2; g <= 200; g++) {
        rg__snapshot *s = &j->snap;
        int n = 0;
        for (int i = 0; i < s->lines; i++)
            if (rg__resume_needs_line(s, &s->line[i]))
                s->line[n++] = s->line[i];
        s->lines = n;
        job_decided(j, g, two, 2, (rg__commit_id){g - 1, 10 * g});
    }
    CHECK(j->snap.lines <= RG__LINES_KEPT + RG__VAULT_SLOTS);
}

static void a_vault_that_was_away_for_long_counts_as_none(void)
{
    const rg__commit_id new[] = {{200, 2005}}, old[] = {{3, 40}};
    job j;
    begin_two(&j);
    go_on_for_long(&j);
    job_proposed(&j, 201, two, 2, false);
    job_ack(&j, 201, "a", new, 1);
    job_ack(&j, 201, "b", old, 1);
    check_decision(&j, new[0], 1); /* b gets it from a */
    CHECK_EQ(j.plan.line.copy[0].to, 2);
    job_end(&j);
    begin_two(&j);
    go_on_for_long(&j);
    job_proposed(&j, 201, two, 2, false);
    job_ack(&j, 201, "a", NULL, 0);
    job_ack(&j, 201, "b", old, 1);
    job_look(&j);
    CHECK_EQ(j.plan.line.resume.generation, 0);
    job_end(&j);
}

int main(void)
{
    the_first_has_none();
    the_newest_on_any_host_counts();
    a_short_step_is_done_again_and_nothing_fetched();
    no_more_steps_are_done_again_than_a_fetch_takes();
    a_vault_that_began_again_says_nothing_of_what_counts();
    what_was_left_behind_does_not_count();
    a_host_without_members_acks_too();
    a_vault_that_was_away_for_long_counts_as_none();
    return 0;
}
