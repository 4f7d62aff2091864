/* Hosts go, the one with the most missing links first, until all that stay
 * hear each other; accusations of hosts that have gone no longer count.
 *
 * Covers: links.c */
#include "elastic/member/links.h"
#include "tests/member/job.h"

/* Four hosts 1 .. 4 with two workers each, ranks in their order. */
static void begin_four(job *j)
{
    rg__member_id all[8];
    job_begin(j, 1, 8);
    for (uint64_t h = 1; h <= 4; h++) {
        char name[3] = {'h', (char)('0' + h), '\0'};
        job_host(j, name, h, 2);
        for (uint32_t k = 0; k < 2; k++)
            all[(h - 1) * 2 + k] = (rg__member_id){h, k, 1};
    }
    job_decided(j, 1, all, 8, (rg__commit_id){0, 0});
}

static void check_lost(job *j, const uint64_t *ids, int n)
{
    uint64_t lost[8];
    CHECK_EQ(job_lost(j, lost, 8), n);
    for (int i = 0; i < n; i++)
        CHECK_EQ(lost[i], ids[i]);
    job_end(j);
}

static void no_host_is_accused(void)
{
    job j;
    begin_four(&j);
    check_lost(&j, NULL, 0);
}

static void all_others_accuse_one(void)
{
    job j;
    begin_four(&j);
    for (uint64_t by = 2; by <= 4; by++)
        job_suspects(&j, by, 1); /* rank 0's host, also the leader's */
    check_lost(&j, (uint64_t[]){1}, 1);
}

static void accuser_of_all_is_the_one_cut_off(void)
{
    job j;
    begin_four(&j);
    for (uint64_t host = 1; host <= 3; host++) {
        job_suspects(&j, 4, host);
        job_suspects(&j, host, 4);
    }
    check_lost(&j, (uint64_t[]){4}, 1);
}

/* Living hosts would have accused it, too. */
static void no_silent_host_stays(void)
{
    job j;
    begin_four(&j);
    for (uint64_t host = 1; host <= 3; host++)
        job_suspects(&j, 4, host);
    check_lost(&j, (uint64_t[]){3, 2, 1}, 3);
}

static void one_pair_loses_the_accused_host(void)
{
    job j;
    begin_four(&j);
    job_suspects(&j, 4, 2);
    check_lost(&j, (uint64_t[]){2}, 1);
}

static void of_a_pair_that_accuse_each_other_the_higher_ranks_go(void)
{
    job j;
    begin_four(&j);
    job_suspects(&j, 4, 2);
    job_suspects(&j, 2, 4);
    check_lost(&j, (uint64_t[]){4}, 1);
}

static void of_a_pair_that_accuse_each_other_fewer_workers_go(void)
{
    const rg__member_id three[] = {{1, 0, 1}, {2, 0, 1}, {2, 1, 1}};
    job j;
    job_begin(&j, 1, 3);
    job_host(&j, "a", 1, 1);
    job_host(&j, "b", 2, 2);
    job_decided(&j, 1, three, 3, (rg__commit_id){0, 0});
    job_suspects(&j, 1, 2);
    job_suspects(&j, 2, 1);
    check_lost(&j, (uint64_t[]){1}, 1);
}

static void of_two_halves_one_stays_whole(void)
{
    job j;
    begin_four(&j);
    for (uint64_t a = 1; a <= 2; a++)
        for (uint64_t b = 3; b <= 4; b++) {
            job_suspects(&j, a, b);
            job_suspects(&j, b, a);
        }
    check_lost(&j, (uint64_t[]){4, 3}, 2);
}

static void strangers_and_departed_hosts_do_not_count(void)
{
    job j;
    begin_four(&j);
    job_suspects(&j, 99, 1);
    job_suspects(&j, 1, 1);
    check_lost(&j, NULL, 0);
}

static void outsider_costs_no_host_its_place(void)
{
    const rg__member_id two[] = {{1, 0, 1}, {2, 0, 1}};
    job j;
    job_begin(&j, 1, 4);
    job_host(&j, "a", 1, 1);
    job_host(&j, "b", 2, 1);
    job_host(&j, "c", 3, 1);
    job_host(&j, "d", 4, 1);
    job_decided(&j, 1, two, 2, (rg__commit_id){0, 0});
    job_suspects(&j, 3, 1);
    job_suspects(&j, 4, 1);
    check_lost(&j, (uint64_t[]){3, 4}, 2);
}

/* An agent that does not lead sees no records, and may judge a leader that has
 * no place in the world. */
static void outsiders_count_where_no_record_is_seen(void)
{
    const rg__member_id one[] = {{1, 0, 1}};
    job j;
    job_begin(&j, 1, 4);
    job_host(&j, "a", 1, 1);
    job_decided(&j, 1, one, 1, (rg__commit_id){0, 0});
    job_suspects(&j, 1, 3);
    job_suspects(&j, 4, 3);
    job_suspects(&j, 4, 1);
    uint64_t lost[8];
    CHECK_EQ(job_lost(&j, lost, 8), 0);
    job_lose_record(&j, 1);
    check_lost(&j, (uint64_t[]){3, 4}, 2);
}

/* One accuser names the leader before anybody else has looked; by the end of
 * the round that host accuses it as well, and has more workers. */
static void fresh_accusation_costs_no_host_its_place(void)
{
    const uint64_t round = SECOND / 10;
    uint64_t lost[8], again = 0;
    rg__suspicion before;
    job j;
    begin_four(&j);
    job_suspects(&j, 4, 1);
    rg__links_keep_times(&j.snap, NULL, 0, SECOND);
    CHECK_EQ(rg__links_lost(&j.snap, SECOND, round, lost, 8, &again), 0);
    CHECK_EQ(again, round * 3 / 2);
    before = j.snap.suspicion[0];
    job_suspects(&j, 1, 4);
    rg__links_keep_times(&j.snap, &before, 1, SECOND + round / 2);
    CHECK_EQ(
        rg__links_lost(&j.snap, SECOND + round / 2, round, lost, 8, &again), 0);
    CHECK_EQ(again, round); /* the older one's own time, the newer's is 1.5 */
    CHECK_EQ(
        rg__links_lost(&j.snap, SECOND + 2 * round, round, lost, 8, &again), 1);
    CHECK_EQ(lost[0], 4);
    CHECK_EQ(again, 0);
    job_end(&j);
}

/* Its lease has ended, and with it all that could speak for it; once it has
 * begun again, what was said of it before counts no more. */
static void a_world_that_has_vanished_is_not_lost_on_anybodys_word(void)
{
    const rg__member_id one[] = {{1, 0, 1}};
    job j;
    job_begin(&j, 1, 2);
    job_host(&j, "a", 1, 1);
    job_host(&j, "b", 2, 1);
    job_decided(&j, 1, one, 1, (rg__commit_id){0, 0});
    job_suspects(&j, 2, 1);
    uint64_t lost[2];
    CHECK_EQ(job_lost(&j, lost, 2), 1);
    CHECK_EQ(lost[0], 2);
    job_lose_record(&j, 1);
    CHECK_EQ(job_lost(&j, lost, 2), 1);
    CHECK_EQ(lost[0], 2);
    job_host(&j, "a", 7, 1);
    check_lost(&j, NULL, 0);
}

int main(void)
{
    fresh_accusation_costs_no_host_its_place();
    a_world_that_has_vanished_is_not_lost_on_anybodys_word();
    no_host_is_accused();
    all_others_accuse_one();
    accuser_of_all_is_the_one_cut_off();
    no_silent_host_stays();
    one_pair_loses_the_accused_host();
    of_a_pair_that_accuse_each_other_the_higher_ranks_go();
    of_a_pair_that_accuse_each_other_fewer_workers_go();
    of_two_halves_one_stays_whole();
    strangers_and_departed_hosts_do_not_count();
    outsider_costs_no_host_its_place();
    outsiders_count_where_no_record_is_seen();
    return 0;
}
