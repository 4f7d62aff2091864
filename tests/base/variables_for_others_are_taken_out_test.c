/* What a program that is started must not see is taken out of the environment;
 * an entry that is no variable, and a name longer than any of ours, stay and
 * hold nothing up.
 *
 * Covers: child.c */
#include "sdk/base/child.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

static bool is_ours(const char *name)
{
    return strncmp(name, "OURS", 4) == 0;
}

int main(void)
{
    char bare[] = "OURS_BARE", other[] = "OTHER=1", first[] = "OURS=1",
         last[] = "OURS_LAST=2", large[300];
    memset(large, 'x', sizeof large);
    memcpy(large, "OURS", 4);
    large[200] = '=';
    large[sizeof large - 1] = '\0';
    char *entries[] = {first, bare, large, other, last, NULL};
    environ = entries;
    rg__child_unset(is_ours);
    CHECK(getenv("OURS") == NULL);
    CHECK(getenv("OURS_LAST") == NULL);
    CHECK(getenv("OTHER") != NULL);
    CHECK(environ[0] == bare && environ[1] == large && environ[2] == other);
    CHECK(environ[3] == NULL);
    return 0;
}
