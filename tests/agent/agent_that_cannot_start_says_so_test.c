/* An agent that has no descriptor for its loop ends with a code and a sentence,
 * and not like a killed agent, which another one would follow.
 *
 * Covers: agent.c */
#include <sys/resource.h>

#include "elastic/agent/agent.h"
#include "tests/check.h"

int main(void)
{
    struct rlimit all, few;
    const rg__agent_params params = {.job = "j", .host = "h", .slots = 1};
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = (struct rlimit){3, all.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_EQ(rg__agent_run(&params, NULL), RG__EXIT_SYSTEM);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0); /* a sanitizer needs some */
    return 0;
}
