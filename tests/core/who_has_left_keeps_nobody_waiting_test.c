/* B45: a process calls rg_finalize while others begin what needs it: they are
 * told which rank has left, small and large operations alike; what had
 * completed before stays so, and a set without that rank goes on. There is no
 * agent here that could end the generation. */
#include <stdlib.h>

#include "tests/lib/world.h"

#define LARGE ((uint64_t)4 << 20)

static void check_others_go_on(rg_set *rest)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(rest, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, 2);
}

static void all(world *w, void *arg)
{
    static const int others[] = {2, 0}, all[] = {0, 1, 2};
    const uint64_t *count = arg;
    rg_set *rest = NULL, *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, others, 2, NULL, &rest));
    CHECK_OK(rg_set_create(w->ctx, all, 3, NULL, &set));
    char *data = calloc(1, LARGE);
    CHECK(data != NULL);
    CHECK_OK(rg_allreduce(set, data, data, *count, RG_U8, RG_SUM));
    if (w->index != 1) {
        CHECK_STATUS(rg_allreduce(set, data, data, *count, RG_U8, RG_SUM),
                     RG_ERR_PEER_LOST);
        CHECK(strstr(rg_last_error(), "its rank 1, which has called"));
        check_others_go_on(rest);
        CHECK_STATUS(rg_barrier(rg_world(w->ctx)), RG_ERR_PEER_LOST);
        check_others_go_on(rest);
    }
    free(data);
}

int main(void)
{
    static uint64_t counts[] = {1, LARGE};
    const world_params params = {.n = 3, .hosts = "000"};
    for (int i = 0; i < 2; i++)
        world_run(&params, all, &counts[i]);
    return 0;
}
