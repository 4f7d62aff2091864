/* A host that drains stays while others fetch the commit from it. If
 * everything was sent but no host has said that it is stored, it stays for
 * the budget; if the world that fetched it has ended, it stays until the
 * next decision, which may name this host again, as there may be no other.
 * Covers: drain.c fetch.c */
#include "tests/agent/agents.h"

#include <stdlib.h>

#include "sdk/base/clock.h"

static void decide_from(rg__agent *a, uint64_t generation, bool names_it)
{
    a->view.line =
        realloc(a->view.line, sizeof(rg__line) * (size_t)(a->view.lines + 1));
    rg__line *line = &a->view.line[a->view.lines++];
    *line = (rg__line){.generation = generation, .resume = {1, 7}};
    if (!names_it)
        return;
    line->copy = calloc(1, sizeof *line->copy);
    line->copies = 1;
    line->copy[0] = (rg__fetch_plan){.to = 2, .from = a->id, .is_whole = true};
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    decide_from(a, 2, true);
    CHECK(rg__drain_is_needed(a)); /* no host has fetched it yet */
    a->store->served =
        (rg__served){.generation = 2, .sent = 1, .at_ns = rg__now_ns()};
    CHECK(rg__drain_is_needed(a)); /* it may be asked for again */
    a->store->served.at_ns = 1;
    CHECK(!rg__drain_is_needed(a));
    a->aborted = 2;
    CHECK(rg__drain_is_needed(a));
    a->store->served.stored = 1;
    CHECK(!rg__drain_is_needed(a));
    a->store->served.stored = 0;
    decide_from(a, 3, false);
    CHECK(!rg__drain_is_needed(a)); /* the next decision does without it */
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
