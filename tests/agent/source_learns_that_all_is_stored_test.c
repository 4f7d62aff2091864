/* A host that sends a commit learns from the other host's agent that all of it
 * is stored there: so a host that leaves does not have to guess how long to
 * stay.
 *
 * Covers: fetch.c */
#include "tests/agent/agents.h"

static const rg__commit_id older = {1, 4}, resume = {2, 7};

static bool has_heard(void *agent_arg)
{
    const rg__agent *from = agent_arg;
    return from->store->served.stored > 0;
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    vault_add(from, "weights", 1 << 20);
    vault_add(to, "weights", 1 << 20);
    vault_commit(from, 1, resume, 2);
    decide_before(to, 2, older);
    decide(to, from, 3, resume);
    loop_until(loop, is_copied, to);
    loop_until(loop, has_heard, from);
    CHECK_EQ(from->store->served.generation, 3);
    CHECK_EQ(from->store->served.sent, 1);
    CHECK_EQ(from->store->served.stored, 1);
    agent_free(to);
    agent_free(from);
    rg__loop_destroy(loop);
    return 0;
}
