/* A commit with shards is resumed from when each of them lies in some acking
 * vault; every host gets those that overlap with what its workers will have.
 *
 * Covers: resume.c */
#include "tests/member/job.h"

/* 4 workers on a, b, b, c; then b is lost and 3 are left. */
static const rg__member_id four[] = {
    {1, 0, 1}, {2, 0, 1}, {2, 1, 1}, {3, 0, 1}};
static const rg__member_id two[] = {{1, 0, 1}, {3, 0, 1}};
static const rg__commit_id none = {0, 0};
static const rg__commit_id newest = {1, 9}, older = {1, 8};

static void begin(job *j)
{
    job_begin(j, 1, 4);
    job_host(j, "a", 1, 1);
    job_host(j, "c", 3, 1);
    job_decided(j, 1, four, 4, none);
    job_proposed(j, 2, two, 2, false);
}

/* The copy that a host gets from another, or none. */
static const rg__fetch_plan *copy_of(const job *j, uint64_t to, uint64_t from)
{
    for (int i = 0; i < j->plan.line.copies; i++)
        if (j->plan.line.copy[i].to == to && j->plan.line.copy[i].from == from)
            return &j->plan.line.copy[i];
    return NULL;
}

static void copies_on_other_hosts_count(void)
{
    const uint32_t on_a[] = {0, 3}, on_c[] = {1, 2, 3};
    job j;
    begin(&j);
    job_ack(&j, 2, "a", &newest, 1);
    job_shards(&j, 4, on_a, 2);
    job_ack(&j, 2, "c", &newest, 1);
    job_shards(&j, 4, on_c, 3);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.step, 9);
    /* a's worker has the first half now, c's the second, of which it has all */
    CHECK_EQ(j.plan.line.copies, 1);
    const rg__fetch_plan *copy = copy_of(&j, 1, 3);
    CHECK(copy != NULL && !copy->is_whole);
    CHECK_EQ(copy->shards.count, 1);
    CHECK_EQ(copy->shards.index[0], 1);
    job_end(&j);
}

/* c had all of them once, which counts no more. */
static void a_missing_shard_means_an_older_commit(const uint32_t *on_c, int n)
{
    const uint32_t on_a[] = {0}, all[] = {0, 1, 2, 3};
    const rg__commit_id both[] = {newest, older};
    job j;
    begin(&j);
    job_ack(&j, 1, "c", &newest, 1);
    job_shards(&j, 4, all, 4);
    job_ack(&j, 2, "a", both, 2);
    job_shards(&j, 4, on_a, 1); /* of the newest */
    j.snap.ack[j.snap.acks - 1].held[1].shards = 4;
    for (int i = 0; i < 4; i++)
        CHECK(
            rg__shards_add(&j.snap.ack[j.snap.acks - 1].held[1].here, all[i]));
    job_ack(&j, 2, "c", &newest, 1);
    job_shards(&j, 4, on_c, n);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.step, 8);
    const rg__fetch_plan *copy =
        copy_of(&j, 3, 1); /* the whole, and its half */
    CHECK(copy != NULL && copy->is_whole);
    CHECK_EQ(copy->shards.count, 2);
    CHECK_EQ(copy->shards.index[0], 2);
    job_end(&j);
}

static void no_older_one_is_the_end(void)
{
    const uint32_t on_a[] = {0}, on_c[] = {3};
    job j;
    begin(&j);
    job_ack(&j, 2, "a", &newest, 1);
    job_shards(&j, 4, on_a, 1);
    j.snap.begun = 1;
    job_ack(&j, 2, "c", &newest, 1);
    job_shards(&j, 4, on_c, 1);
    CHECK_EQ(job_look(&j), RG__PLAN_STATE_LOST);
    job_end(&j);
}

/* Its lease has ended, and its agent has not written its record again: the
 * world that it was in names its address. */
static void a_holder_without_a_record_sends_what_it_has(void)
{
    const uint32_t on_a[] = {0, 3}, on_c[] = {1, 2, 3};
    job j;
    job_begin(&j, 1, 4);
    job_host(&j, "a", 1, 1);
    job_host(&j, "c", 3, 1);
    job_decided(&j, 1, four, 4, none);
    j.snap.gen[0].host[1].port = 4711;  /* c's */
    job_proposed(&j, 2, two, 1, false); /* a alone */
    job_lose_record(&j, 3);
    job_ack(&j, 2, "a", &newest, 1);
    job_shards(&j, 4, on_a, 2);
    job_ack(&j, 2, "c", &newest, 1);
    job_shards(&j, 4, on_c, 3);
    CHECK_EQ(job_look(&j), RG__PLAN_DECIDE);
    CHECK_EQ(j.plan.line.resume.step, 9);
    const rg__fetch_plan *copy = copy_of(&j, 1, 3);
    CHECK(copy != NULL && copy->port == 4711);
    CHECK_EQ(copy->shards.count, 2); /* 0 and 3 lie on a */
    job_end(&j);
}

int main(void)
{
    a_holder_without_a_record_sends_what_it_has();
    copies_on_other_hosts_count();
    a_missing_shard_means_an_older_commit((const uint32_t[]){3}, 1);
    a_missing_shard_means_an_older_commit((const uint32_t[]){1, 2}, 2);
    no_older_one_is_the_end();
    return 0;
}
