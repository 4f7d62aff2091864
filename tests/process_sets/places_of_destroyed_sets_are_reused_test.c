/* A control segment has room for 4094 sets of a program, and a set has the
 * lowest place that is free: many follow each other in one, with a set that
 * lives on; what a former set left in the place is never taken for the present
 * one's. A rank that gives back later than others proposes another place, and
 * still all agree. Ranks that have no free place in common hear of it, and two
 * threads never take one. A set that a rank has no memory to open leaves its
 * place, too, and uses its id up.
 *
 * Covers: table.c among.c open.c */
#include "process_sets/among.h"
#include "tests/lib/world.h"

#include <sys/resource.h>

#define SETS   700
#define FAILED 20

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CAN_LIMIT false /* a sanitizer needs memory itself */
#else
#define CAN_LIMIT true
#endif

static void use(rg_set *set, int round)
{
    static char data[20000];
    const uint64_t count = round % 3 == 0 ? 1 : round % 3 == 1 ? 1000 : 20000;
    memset(data, round % 50, count);
    CHECK_OK(rg_allreduce(set, data, data, count, RG_U8, RG_SUM));
    CHECK_EQ(data[0], 2 * (round % 50));
    CHECK_EQ(data[count - 1], 2 * (round % 50));
}

static void one_after_another(world *w)
{
    const int there[2] = {0, 1}, back[2] = {1, 0};
    rg_set *stays = NULL, *late = NULL;
    CHECK_OK(rg_set_create(w->ctx, there, 2, NULL, &stays));
    for (int i = 0; i < SETS; i++) {
        rg_set *set = NULL;
        CHECK_OK(rg_set_create(w->ctx, i % 2 ? there : back, 2, NULL, &set));
        use(set, i);
        CHECK(rg_set_id(set) % RG__SETS_MAX < 10);
        if (i % 100 == 0)
            use(stays, i);
        if (w->index == 0) {
            rg_set_destroy(set);
        } else { /* one turn later */
            rg_set_destroy(late);
            late = set;
        }
    }
    rg_set_destroy(late);
    use(stays, 1);
    CHECK_OK(rg_set_destroy(stays));
}

static void too_many(world *w)
{
    const int both[2] = {0, 1};
    const rg_set_params named = {sizeof named, "named"};
    static rg_set *set[RG__SETS_PROGRAM + 1];
    for (int i = 0; i < RG__SETS_PROGRAM; i++)
        CHECK_OK(
            rg_set_create(w->ctx, both, 2, i == 7 ? &named : NULL, &set[i]));
    CHECK_STATUS(rg_set_create(w->ctx, both, 2, NULL, &set[RG__SETS_PROGRAM]),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "4094 sets live already"));
    CHECK_OK(rg_set_create(w->ctx, both, 2, &named, &set[RG__SETS_PROGRAM]));
    CHECK(set[7] == set[RG__SETS_PROGRAM]); /* no other is needed for that */
    CHECK_OK(rg_set_destroy(set[100]));
    CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set[100]));
    use(set[100], 2);
    use(set[254], 4);
}

/* Members that agree: one alone, and both. */
static rg_status alone(void *arg, const int64_t in[RG__AMONG],
                       int64_t out[RG__AMONG])
{
    (void)arg;
    memcpy(out, in, RG__AMONG * sizeof *in);
    return RG_OK;
}

static rg_status together(void *ctx, const int64_t in[RG__AMONG],
                          int64_t out[RG__AMONG])
{
    return rg_allreduce(rg_world(ctx), in, out, RG__AMONG, RG_I64, RG_MAX);
}

static rg_set *make_alone(const world *w, rg__among_fn fn, void *arg)
{
    rg_set *set = NULL;
    CHECK_OK(
        rg__set_create_among(w->ctx, RG_OK, &w->index, 1, NULL, fn, arg, &set));
    return set;
}

/* Each rank has room for many more. */
static void no_place_in_common(world *w)
{
    enum { LOW = 128 };
    const int both[2] = {0, 1};
    static rg_set *mine[RG__SETS_PROGRAM];
    const int n = w->index == 0 ? LOW : RG__SETS_PROGRAM;
    rg_set *set = NULL;
    world_meet(w); /* all have left what was given back */
    for (int i = 0; i < n; i++)
        mine[i] = make_alone(w, alone, NULL);
    for (int i = 0; i < LOW && w->index == 1; i++)
        CHECK_OK(rg_set_destroy(mine[i]));
    CHECK_STATUS(rg_set_create(w->ctx, both, 2, NULL, &set), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "free on all of its ranks") != NULL);
    CHECK_STATUS(rg__set_create_among(w->ctx, RG_OK, both, 2, NULL, together,
                                      w->ctx, &set),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "free on all of its ranks") != NULL);
    CHECK_OK(rg_set_destroy(mine[n - 1]));
    CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set));
    use(set, 1);
    CHECK_OK(rg_set_destroy(set));
    for (int i = w->index == 0 ? 0 : LOW; i < n - 1; i++)
        CHECK_OK(rg_set_destroy(mine[i]));
}

/* While one set is agreed on, another thread makes one. */
typedef struct meeting {
    world *w;
    rg_set *other;
} meeting;

static rg_status make_other(void *arg, const int64_t in[RG__AMONG],
                            int64_t out[RG__AMONG])
{
    meeting *m = arg;
    if (m->other == NULL)
        m->other = make_alone(m->w, alone, NULL);
    return alone(NULL, in, out);
}

static void threads_take_places_of_their_own(world *w)
{
    meeting m = {.w = w};
    rg_set *set = make_alone(w, make_other, &m);
    CHECK(rg_set_id(set) % RG__SETS_MAX != rg_set_id(m.other) % RG__SETS_MAX);
    CHECK_OK(rg_set_destroy(set));
    CHECK_OK(rg_set_destroy(m.other));
}

/* On: this process can map nothing more. */
static void limit_memory(bool is_on)
{
    struct rlimit memory;
    CHECK(getrlimit(RLIMIT_AS, &memory) == 0);
    memory.rlim_cur = is_on ? 1 << 20 : memory.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &memory) == 0);
}

static void place_of_one_that_failed(world *w, void *arg)
{
    const int both[2] = {0, 1};
    rg_set *set = NULL;
    (void)arg;
    CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set));
    uint32_t last = rg_set_id(set);
    CHECK_OK(rg_set_destroy(set));
    for (int i = 0; i < 2 * FAILED; i++) {
        world_meet(w); /* all have left what was given back */
        limit_memory(w->index == 1);
        const rg_status st = rg_set_create(w->ctx, both, 2, NULL, &set);
        limit_memory(false);
        CHECK(st != RG_OK);
        if (i % 2 == 1)
            continue;
        world_meet(w);
        CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set));
        CHECK_EQ(rg_set_id(set) % RG__SETS_MAX, last % RG__SETS_MAX);
        CHECK(rg_set_id(set) >= last + 2 * RG__SETS_MAX); /* one is used up */
        last = rg_set_id(set);
        use(set, i);
        CHECK_OK(rg_set_destroy(set));
    }
    CHECK_EQ(w->broken, 0);
}

static void all(world *w, void *arg)
{
    (void)arg;
    one_after_another(w);
    threads_take_places_of_their_own(w);
    no_place_in_common(w);
    too_many(w);
}

int main(void)
{
    world_of(2, all, NULL);
    if (CAN_LIMIT) {
        world_on("00", place_of_one_that_failed, NULL);
        world_on("01", place_of_one_that_failed, NULL);
    }
    return 0;
}
