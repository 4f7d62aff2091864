/* An agent that has no descriptor for its loop ends with a code and a sentence,
 * and not as one that was killed, which another would follow.
 *
 * Covers: agent.c */
#include <sys/resource.h>

#include "elastic/agent/agent.h"
#include "elastic/agent/base/exits.h"
#include "tests/check.h"

int main(void)
{
    const struct rlimit few = {3, 3};
    const rg__agent_params params = {.job = "j", .host = "h", .slots = 1};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_EQ(rg__agent_run(&params, NULL), RG__EXIT_SYSTEM);
    return 0;
}
