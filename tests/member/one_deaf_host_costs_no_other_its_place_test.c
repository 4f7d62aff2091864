/* Accusations come in batches, as a deaf host expects one beat before the other
 * and others look only when they are asked to: no host goes before the round is
 * complete, and then it is the deaf one.
 *
 * Covers: links.c */
#include "elastic/member/links.h"
#include "tests/member/job.h"

#define MS    UINT64_C(1000000)
#define ROUND (100 * MS) /* of a budget of 500 ms */
#define HOSTS 8

typedef struct scene {
    job job;
    uint64_t begin_ns;
} scene;

/* Hosts 1 .. n with two workers each, ranks in their order. */
static void begin(scene *s, int n)
{
    rg__member_id all[2 * HOSTS];
    job_begin(&s->job, 1, 2 * n);
    s->begin_ns = s->job.now_ns;
    for (int h = 1; h <= n; h++) {
        const char name[] = {'h', (char)('0' + h), '\0'};
        job_host(&s->job, name, (uint64_t)h, 2);
        for (int k = 0; k < 2; k++)
            all[(h - 1) * 2 + k] = (rg__member_id){(uint64_t)h, (uint32_t)k, 1};
    }
    job_decided(&s->job, 1, all, 2 * n, (rg__commit_id){0, 0});
}

static void at(scene *s, uint64_t ms, uint64_t by, uint64_t host)
{
    job_suspects(&s->job, by, host);
    s->job.snap.suspicion[s->job.snap.suspicions - 1].since_ns =
        s->begin_ns + ms * MS;
}

static int look(scene *s, uint64_t ms, uint64_t lost[HOSTS], uint64_t *again)
{
    return rg__links_lost(&s->job.snap, s->begin_ns + ms * MS, ROUND, lost,
                          HOSTS, again);
}

static void check_none(scene *s, uint64_t ms)
{
    uint64_t lost[HOSTS], again = 0;
    CHECK_EQ(look(s, ms, lost, &again), 0);
    CHECK(again != 0); /* the wait ends by itself */
}

static void check_goes(scene *s, uint64_t ms, uint64_t host)
{
    uint64_t lost[HOSTS], again = 0;
    CHECK_EQ(look(s, ms, lost, &again), 1);
    CHECK_EQ(lost[0], host);
}

/* Its second batch is a round later, and so are the hosts that look at it. */
static void first_it_misses_one_and_then_all(void)
{
    scene s;
    begin(&s, 4);
    at(&s, 0, 2, 1);
    check_none(&s, 99);
    at(&s, 100, 2, 3);
    at(&s, 100, 2, 4);
    at(&s, 110, 1, 2);
    check_none(&s, 160); /* 0.1.0 drops h1 here */
    at(&s, 170, 3, 2);
    at(&s, 180, 4, 2);
    check_none(&s, 329);
    check_goes(&s, 330, 2);
    job_end(&s.job);
}

static void first_it_misses_two(void)
{
    scene s;
    begin(&s, 4);
    at(&s, 0, 2, 1);
    at(&s, 0, 2, 3);
    check_none(&s, 99);
    at(&s, 100, 2, 4);
    at(&s, 105, 1, 2);
    at(&s, 105, 3, 2);
    at(&s, 105, 4, 2);
    check_none(&s, 200);
    check_goes(&s, 260, 2);
    job_end(&s.job);
}

/* The others are slow to look: they have the budget for it. */
static void others_may_be_slow_to_look(void)
{
    scene s;
    begin(&s, 4);
    for (uint64_t host = 1; host <= 4; host++)
        at(&s, 0, 2, host);
    check_none(&s, 490);
    at(&s, 300, 1, 2);
    at(&s, 400, 3, 2);
    at(&s, 450, 4, 2);
    check_none(&s, 590);
    check_goes(&s, 600, 2);
    job_end(&s.job);
}

/* Of two, the one that hears no other goes; h1 hears it. */
static void of_two_the_deaf_one_goes(void)
{
    scene s;
    begin(&s, 2);
    at(&s, 0, 2, 1);
    at(&s, 100, 2, 2);
    at(&s, 105, 1, 2);
    check_none(&s, 200);
    check_goes(&s, 255, 2);
    job_end(&s.job);
}

static void the_deaf_one_may_have_the_lowest_ranks(void)
{
    scene s;
    begin(&s, 2);
    at(&s, 0, 1, 2);
    at(&s, 100, 1, 1);
    at(&s, 105, 2, 1);
    check_goes(&s, 255, 1);
    job_end(&s.job);
}

/* Nothing is to be waited for when most miss a host that says nothing. */
static void a_dead_host_is_left_within_the_budget(void)
{
    scene s;
    begin(&s, 4);
    at(&s, 0, 2, 3);
    at(&s, 10, 4, 3);
    check_none(&s, 150);
    check_goes(&s, 160, 3);
    at(&s, 110, 1, 3);
    check_goes(&s, 160, 3);
    job_end(&s.job);
}

/* The only one that is left hears no other, and says so; none contradicts. */
static void the_last_of_three_stays(void)
{
    scene s;
    uint64_t lost[HOSTS], again = 0;
    begin(&s, 3);
    at(&s, 0, 1, 2);
    at(&s, 20, 1, 3);
    at(&s, 120, 1, 1);
    check_none(&s, 600);
    CHECK_EQ(look(&s, 620, lost, &again), 2);
    CHECK_EQ(lost[0], 3);
    CHECK_EQ(lost[1], 2);
    job_end(&s.job);
}

/* A host outside of the world holds up no judgement about those inside. */
static void an_outsider_delays_nothing(void)
{
    scene s;
    begin(&s, 3);
    job_host(&s.job, "new", 9, 1);
    at(&s, 0, 1, 2);
    at(&s, 0, 3, 2);
    at(&s, 149, 9, 2);
    at(&s, 149, 9, 1);
    check_goes(&s, 150, 2);
    job_end(&s.job);
}

int main(void)
{
    first_it_misses_one_and_then_all();
    first_it_misses_two();
    others_may_be_slow_to_look();
    of_two_the_deaf_one_goes();
    the_deaf_one_may_have_the_lowest_ranks();
    a_dead_host_is_left_within_the_budget();
    the_last_of_three_stays();
    an_outsider_delays_nothing();
    return 0;
}
