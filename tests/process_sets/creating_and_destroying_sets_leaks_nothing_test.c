/* B29: 1,000 sets are made, used and given back; descriptors, mappings and heap
 * are as many as before.
 *
 * Covers: table.c */
#include <malloc.h>

#include "tests/lib/descriptors.h"
#include "tests/lib/world.h"

#define ROUNDS 1000

static int mappings(void)
{
    int n = 0, c;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while ((c = fgetc(maps)) != EOF)
        n += c == '\n';
    fclose(maps);
    return n;
}

static int color_of(rg_ctx *ctx, void *arg)
{
    (void)arg;
    return rg_rank(ctx) % 2;
}

static void use(world *w, rg_set *set)
{
    int32_t v[4] = {1, 2, 3, 4}, to[4];
    const int n = rg_set_size(set);
    rg_req *req[2] = {0};
    CHECK_OK(rg_group_start(w->ctx));
    CHECK_OK(rg_allreduce_start(set, v, v, 1, RG_I32, RG_SUM, NULL, &req[0]));
    CHECK_OK(rg_allreduce_start(set, v + 1, v + 1, 1, RG_I32, RG_SUM, NULL,
                                &req[1]));
    CHECK_OK(rg_group_end(w->ctx));
    CHECK_OK(rg_wait_all(req, 2, -1));
    CHECK_EQ(v[0], n);
    uint64_t counts[4] = {1, 1, 1, 1};
    CHECK_OK(rg_alltoallv_start(set, v, counts, NULL, to, counts, NULL, RG_I32,
                                NULL, &req[0]));
    CHECK_OK(rg_wait(&req[0], -1));
}

static void cycle(world *w, int i)
{
    const int there[2] = {0, 1}, back[2] = {1, 0};
    rg_set *set = NULL;
    if (i % 4 == 0)
        CHECK_OK(rg_set_split(w->ctx, 1, 0, NULL, &set));
    else if (i % 4 == 1)
        CHECK_OK(rg_set_create_by(w->ctx, color_of, NULL, NULL, &set));
    else
        CHECK_OK(
            rg_set_create(w->ctx, i % 4 == 2 ? there : back, 2, NULL, &set));
    use(w, set);
    CHECK_OK(rg_set_destroy(set));
}

static size_t heap(void)
{
    return mallinfo2().uordblks;
}

static void all(world *w, void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        cycle(w, i);
    const int fds = descriptors(), maps = mappings();
    const size_t bytes = heap();
    for (int i = 0; i < ROUNDS; i++)
        cycle(w, i);
    CHECK_EQ(descriptors(), fds);
    CHECK(mappings() <= maps + 2); /* an arena may have grown */
    CHECK(heap() <= bytes + 4096);
}

int main(void)
{
    world_of(2, all, NULL);
    return 0;
}
