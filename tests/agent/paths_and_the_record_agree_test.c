/* Whether workers of a host that wait at the door may be taken in follows from
 * its place and from its paths to the world. The record is written again with
 * each change of that: when the host leaves the world, and also when it comes
 * back before it has proved a path.
 *
 * Covers: paths.c */
#include "tests/agent/agents.h"

enum { ME = 1, OTHER = 2 };

static rg__proposal_host host[] = {{.id = OTHER, .address = {"127.0.0.1"}},
                                   {.id = ME, .address = {"127.0.0.1"}}};
static rg__proposal world = {.generation = 1, .host = host};
static bool is_recorded; /* as proved */

static void record(rg__agent *a)
{
    CHECK(is_recorded != rg__paths_are_proved(a)); /* not for nothing */
    is_recorded = rg__paths_are_proved(a);
}

static void follow(rg__agent *a, bool is_inside)
{
    world.host_count = is_inside ? 2 : 1;
    rg__paths_follow(a);
    CHECK_EQ(rg__paths_are_proved(a), is_inside);
    CHECK_EQ(is_recorded, is_inside);
}

int main(void)
{
    rg__loop *loop;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, ME);
    rg__events on = rg__agent_events;
    on.paths_judged = record;
    a->on = &on;
    decide_before(a, 1, (rg__commit_id){1, 0});
    a->view.gen = &world;
    a->view.gens = 1;
    CHECK_OK(rg__paths_create(a));
    follow(a, false);
    follow(a, true);
    follow(a, true);
    follow(a, false);
    follow(a, false);
    follow(a, true);
    rg__paths_destroy(a);
    a->view.gen = NULL;
    a->view.gens = 0;
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
