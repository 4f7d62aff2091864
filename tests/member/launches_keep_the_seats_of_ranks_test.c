/* Under --mpi: all ranks of one launch are proposed at once, in their order; a
 * loss ends the launch; the next one begins when every host that lives has
 * swept it, with each rank in its seat, or in a free one where that is lost. A
 * lost host counts as such, whatever its MPI does to ranks of the others.
 *
 * Covers: plan.c records.c */
#include "tests/member/job.h"

#include <stdlib.h>

static const rg__commit_id none = {0, 0};

/* What the host's record says between two launches. */
static void set_free(job *j, uint64_t host, bool is_free)
{
    for (int i = 0; i < j->snap.hosts; i++)
        for (int k = 0;
             j->snap.host[i].id == host && k < j->snap.host[i].slot_count;
             k++) {
            rg__slot_record *slot = &j->snap.host[i].slot[k];
            slot->is_free = is_free;
            slot->is_alive = slot->is_at_door = !is_free;
            j->snap.host[i].open = j->snap.host[i].slot_count;
        }
}

static void sweep(job *j, int host, uint64_t number)
{
    j->snap.host[host].swept = number;
    set_free(j, j->snap.host[host].id, true);
}

static void begin(job *j)
{
    job_begin(j, 4, 4);
    j->config.is_mpi = true;
    j->config.launch_timeout_ns = 60 * SECOND;
    job_host(j, "a", 1, 2);
    job_host(j, "b", 2, 2);
    job_host(j, "c", 3, 2);
    for (uint64_t id = 1; id <= 3; id++)
        set_free(j, id, true);
}

/* The plan's launch, as if it were written. */
static void take_launch(job *j)
{
    CHECK_EQ(job_look(j), RG__PLAN_LAUNCH);
    free(j->snap.mpirun.seat);
    j->snap.mpirun = j->plan.launch;
    j->plan.launch.seat = NULL;
}

static void check_seats(const job *j, const uint64_t hosts[4])
{
    for (int r = 0; r < 4; r++) {
        CHECK_EQ(j->snap.mpirun.seat[r].host, hosts[r]);
        CHECK_EQ(j->snap.mpirun.seat[r].slot, (uint32_t)r % 2);
    }
}

static void decide_first(job *j)
{
    static const rg__member_id four[] = {
        {1, 0, 1}, {1, 1, 1}, {2, 0, 1}, {2, 1, 1}};
    take_launch(j);
    CHECK_EQ(j->snap.mpirun.number, 1);
    check_seats(j, (const uint64_t[]){1, 1, 2, 2});
    set_free(j, 1, false);
    CHECK_EQ(job_look(j), RG__PLAN_WAIT); /* b's are not at the door */
    set_free(j, 2, false);
    CHECK_EQ(job_look(j), RG__PLAN_PROPOSE);
    CHECK_EQ(j->plan.proposal.launch, 1);
    CHECK_EQ(j->plan.proposal.size, 4);
    CHECK_EQ(j->plan.proposal.member[2].host, 2);
    job_decided(j, 1, four, 4, none);
    j->snap.gen[0].launch = 1;
}

static void a_dead_rank_is_a_launch(void)
{
    job j;
    begin(&j);
    decide_first(&j);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.snap.host[1].broke = 1;
    snprintf(j.snap.host[1].broke_why, RG__CAUSE_MAX, "b.1 died");
    take_launch(&j);
    CHECK(j.snap.mpirun.is_over);
    CHECK_STR(j.snap.mpirun.why, "b.1 died");
    sweep(&j, 1, 1);
    sweep(&j, 2, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* ranks may live on a */
    set_free(&j, 1, true);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* or daemons */
    sweep(&j, 0, 1);
    take_launch(&j);
    CHECK_EQ(j.snap.mpirun.number, 2);
    check_seats(&j, (const uint64_t[]){1, 1, 2, 2});
    job_end(&j);
}

static void a_lost_host_gives_its_seats_away(void)
{
    static const uint64_t lost[] = {1};
    job j;
    begin(&j);
    decide_first(&j);
    job_reason(&j, 1, true, "b.0 died"); /* its MPI has killed it */
    j.config.lost = lost;
    j.config.losts = 1;
    take_launch(&j);
    CHECK(j.snap.mpirun.is_over);
    CHECK_STR(j.snap.mpirun.why, "host a is lost");
    sweep(&j, 1, 1);
    sweep(&j, 2, 1);
    take_launch(&j);
    check_seats(&j, (const uint64_t[]){3, 3, 2, 2});
    set_free(&j, 2, false);
    set_free(&j, 3, false);
    CHECK_EQ(job_look(&j), RG__PLAN_PROPOSE);
    CHECK_EQ(j.plan.proposal.kind, RG__KIND_HOST); /* no death of a launch */
    job_end(&j);
}

static void set_address(job *j, int host, const char *text)
{
    snprintf(j->snap.host[host].address.text,
             sizeof j->snap.host[host].address.text, "%s", text);
}

/* It would be the mpirun's other one. */
static void a_newcomer_with_a_seated_hosts_address_leaves(void)
{
    static const uint64_t lost[] = {1};
    rg__drain told = {.host = "c", .code = 64};
    job j;
    begin(&j);
    set_address(&j, 0, "10.0.0.1");
    set_address(&j, 1, "10.0.0.2");
    set_address(&j, 2, "10.0.0.2");
    decide_first(&j);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT); /* nothing that runs is disturbed */
    job_reason(&j, 1, true, "b.0 died");
    j.config.lost = lost;
    j.config.losts = 1;
    j.config.min = 2;
    take_launch(&j);
    sweep(&j, 1, 1);
    sweep(&j, 2, 1);
    const int slots = j.snap.host[2].slot_count;
    j.snap.host[2].slot_count = 0; /* the launcher's: it gets no rank */
    CHECK(job_look(&j) != RG__PLAN_REFUSE);
    j.snap.host[2].slot_count = slots;
    CHECK_EQ(job_look(&j), RG__PLAN_REFUSE);
    CHECK_STR(j.plan.refused->name, "c");
    CHECK_STR(j.plan.twin, "b");
    j.snap.drain = &told;
    j.snap.drains = 1;
    take_launch(&j);
    CHECK_EQ(j.snap.mpirun.size, 2);
    CHECK_EQ(j.snap.mpirun.seat[0].host, 2);
    j.snap.drain = NULL;
    j.snap.drains = 0;
    job_end(&j);
}

/* What a host says has ended its part of the launch. */
static void break_at(job *j, int host, rg__broke_by by, const char *why)
{
    j->snap.host[host].broke = 1;
    j->snap.host[host].broke_by = by;
    snprintf(j->snap.host[host].broke_why, RG__CAUSE_MAX, "%s", why);
}

static void sweep_all(job *j)
{
    for (int i = 0; i < 3; i++)
        sweep(j, i, 1);
}

/* mpirun ends after its ranks, and is heard of first. */
static void the_first_cause_is_named(void)
{
    job j;
    begin(&j);
    decide_first(&j);
    break_at(&j, 0, RG__BROKE_BY_MPI, "mpirun exited with code 7");
    take_launch(&j);
    CHECK_STR(j.snap.mpirun.why, "mpirun exited with code 7");
    break_at(&j, 1, RG__BROKE_BY_RANK, "b.1 exited with code 7");
    sweep_all(&j);
    take_launch(&j);
    CHECK_EQ(j.snap.mpirun.number, 2);
    CHECK_STR(j.snap.mpirun.why, "b.1 exited with code 7");
    CHECK_EQ(j.snap.mpirun.excused, 0);
    job_end(&j);
}

static void a_host_that_leaves_at_its_deadline_ends_the_launch(void)
{
    job j;
    begin(&j);
    decide_first(&j);
    j.snap.host[0].is_draining = true;
    j.snap.host[0].is_gone = true;
    take_launch(&j);
    CHECK(j.snap.mpirun.is_over);
    CHECK_STR(j.snap.mpirun.why, "host a has left before a commit");
    job_end(&j);
}

/* b's rank has ended, and then it turns out why. */
static void is_excused(job *j, const char *why)
{
    take_launch(j);
    CHECK(j->snap.mpirun.is_over);
    CHECK_STR(j->snap.mpirun.why, why);
    CHECK_EQ(j->snap.mpirun.excused, 1);
    sweep_all(j);
    take_launch(j);
    CHECK_EQ(j->snap.mpirun.number, 2);
    CHECK_STR(j->snap.mpirun.why, why);
    CHECK_EQ(j->snap.mpirun.excused, 1);
    job_end(j);
}

static void ranks_that_others_have_ended_are_excused(void)
{
    static const uint64_t lost[] = {1};
    job j;
    begin(&j);
    decide_first(&j);
    break_at(&j, 1, RG__BROKE_BY_RANK, "b.1 exited with code 1");
    take_launch(&j);
    CHECK_EQ(j.snap.mpirun.excused, 0);
    j.config.lost = lost;
    j.config.losts = 1;
    is_excused(&j, "host a is lost");
    begin(&j);
    decide_first(&j);
    break_at(&j, 1, RG__BROKE_BY_RANK, "b.1 exited with code 1");
    take_launch(&j);
    break_at(&j, 2, RG__BROKE_BY_OTHERS, "a daemon was ended by signal 9");
    is_excused(&j, "a daemon was ended by signal 9");
}

/* c has room for all of a's, which is a moment late. */
static void a_slot_that_is_free_in_a_moment_keeps_its_rank(void)
{
    job j;
    begin(&j);
    decide_first(&j);
    break_at(&j, 1, RG__BROKE_BY_RANK, "b.1 exited with code 1");
    take_launch(&j);
    sweep_all(&j);
    set_free(&j, 1, false);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    set_free(&j, 1, true);
    take_launch(&j);
    check_seats(&j, (const uint64_t[]){1, 1, 2, 2});
    job_end(&j);
}

static void a_launch_that_hangs_is_over(void)
{
    job j;
    begin(&j);
    take_launch(&j);
    CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
    j.now_ns += 61 * SECOND;
    take_launch(&j);
    CHECK(j.snap.mpirun.is_over);
    CHECK_STR(j.snap.mpirun.why,
              "rank 0 has not called rg_init within --launch-timeout");
    job_end(&j);
}

/* The first two follow at once. code: of the rank that has ended each. */
static void too_many_in_vain_end_the_job(int code)
{
    job j;
    begin(&j);
    for (uint64_t number = 1; number <= 5; number++) {
        if (number > 2) {
            CHECK_EQ(job_look(&j), RG__PLAN_WAIT);
            j.now_ns += SECOND / 4 << (number - 3);
        }
        take_launch(&j);
        j.snap.host[0].broke = number;
        j.snap.host[0].broke_code = code;
        take_launch(&j);
        for (int host = 0; host < 3; host++)
            sweep(&j, host, number);
    }
    CHECK_EQ(job_look(&j), RG__PLAN_LAUNCH_FAILED);
    CHECK_EQ(j.plan.code, code);
    job_end(&j);
}

/* A second world resumes from step 7, and dies; the one before it has ended so,
 * too, or otherwise. */
static rg__plan_kind look_after_deaths(rg__cause_kind before, int max_deaths)
{
    static const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
    static const rg__commit_id seventh = {1, 7};
    job j;
    begin(&j);
    job_lose_record(&j, 3);
    j.snap.begun = 1;
    j.snap.mpirun.number = 3;
    set_free(&j, 1, false);
    set_free(&j, 2, false);
    j.config.max_deaths = max_deaths;
    job_decided(&j, 1, two, 2, none);
    job_decided(&j, 2, two, 2, seventh);
    j.snap.line[1].kind = before;
    j.snap.gen[1].launch = 2;
    job_reason(&j, 2, true, "b.0 died");
    j.snap.host[1].broke = 2;
    j.snap.host[1].broke_code = 139;
    job_proposed(&j, 3, two, 2, false);
    j.snap.gen[2].kind = RG__KIND_DEATH;
    job_ack(&j, 3, "a", &seventh, 1);
    job_ack(&j, 3, "b", &seventh, 1);
    const rg__plan_kind kind = job_look(&j);
    if (kind == RG__PLAN_STUCK)
        CHECK_EQ(j.plan.code, 139);
    job_end(&j);
    return kind;
}

static void deaths_at_one_step_end_the_job(void)
{
    CHECK_EQ(look_after_deaths(RG__KIND_DEATH, 1), RG__PLAN_STUCK);
    CHECK_EQ(look_after_deaths(RG__KIND_DEATH, 2), RG__PLAN_DECIDE);
    CHECK_EQ(look_after_deaths(RG__KIND_HOST, 1), RG__PLAN_DECIDE);
}

int main(void)
{
    deaths_at_one_step_end_the_job();
    a_dead_rank_is_a_launch();
    a_lost_host_gives_its_seats_away();
    a_host_that_leaves_at_its_deadline_ends_the_launch();
    a_newcomer_with_a_seated_hosts_address_leaves();
    the_first_cause_is_named();
    a_slot_that_is_free_in_a_moment_keeps_its_rank();
    ranks_that_others_have_ended_are_excused();
    a_launch_that_hangs_is_over();
    too_many_in_vain_end_the_job(0);
    too_many_in_vain_end_the_job(127);
    return 0;
}
