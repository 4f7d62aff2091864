/* The times of the newest changes are kept, those of older ones only as what
 * metrics count of them.
 *
 * Covers: changes.c */
#include "tests/agent/agents.h"

#include "sdk/base/clock.h"

enum { MANY = 10 * RG__CHANGES_MAX };

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    for (uint64_t g = 1; g <= MANY; g++) {
        rg__change *c = rg__change_of(a, g);
        CHECK(c != NULL && rg__change_of(a, g) == c);
        c->detected = 1;
        c->stepped = 1 + 20 * RG__MS;
    }
    CHECK_EQ(a->generation->changes, RG__CHANGES_MAX);
    CHECK_EQ(rg__change_find(a, MANY)->generation, MANY);
    CHECK(rg__change_find(a, MANY - RG__CHANGES_MAX) == NULL);
    rg__recoveries all = a->generation->past;
    for (int i = 0; i < a->generation->changes; i++)
        rg__recoveries_add(&all, &a->generation->change[i]);
    CHECK_EQ(all.all, MANY - 1); /* the first recovers from nothing */
    CHECK_EQ(all.count[0], 0);   /* within 10 ms */
    CHECK_EQ(all.count[1], MANY - 1);
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
