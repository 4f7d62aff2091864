/* A program makes and gives back 3,000 sets, one after another, and then holds
 * 2,000 at once and uses all of them, on one host and across hosts, where each
 * has connections of its own: the limit of descriptors is raised when it is
 * reached. A set that is given back leaves its place, and the memory there, to
 * the next one.
 *
 * Covers: table.c make.c layout.c open.c net.c handshake.c */
#include <stdio.h>
#include <sys/resource.h>

#include "tests/lib/world.h"

#define TURNS 3000
#define HELD  2000
#define FILES 300
#define LARGE 100000

static const int both[2] = {0, 1};

static void use(rg_set *set, int64_t number, int64_t *data, uint64_t count)
{
    data[0] = data[count - 1] = number;
    CHECK_OK(rg_allreduce(set, data, data, count, RG_I64, RG_SUM));
    CHECK_EQ(data[0], 2 * number);
    CHECK_EQ(data[count - 1], 2 * number);
}

static void one_after_another(world *w, int64_t *data)
{
    for (int i = 0; i < TURNS; i++) {
        rg_set *set = NULL;
        CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set));
        use(set, i, data, i % 500 == 0 ? LARGE : 1);
        CHECK(rg_set_id(set) % RG__SETS_MAX < 10);
        CHECK_OK(rg_set_destroy(set));
    }
}

/* Resident, but for what is shared. */
static int64_t own_memory(void)
{
    long long all = 0, resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%lld %lld %lld", &all, &resident, &shared), 3);
    fclose(file);
    return (resident - shared) * 4096;
}

static void at_once(world *w, int64_t *data)
{
    static rg_set *set[HELD];
    const int64_t own_before = own_memory();
    const int64_t shared_before = world_control_memory(w, 1);
    for (int i = 0; i < HELD; i++)
        CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set[i]));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < HELD; i++)
            use(set[i], i, data, 1);
    world_meet(w);
    if (w->index == 0)
        printf("a set takes %lld bytes of this process, and %lld of its host\n",
               (long long)(own_memory() - own_before) / HELD,
               (long long)(world_control_memory(w, 1) - shared_before) / HELD);
    for (int i = 0; i < HELD; i++)
        CHECK_OK(rg_set_destroy(set[i]));
}

static void all(world *w, void *arg)
{
    (void)arg;
    int64_t *data = calloc(LARGE, sizeof *data);
    CHECK(data != NULL);
    one_after_another(w, data);
    at_once(w, data);
    free(data);
}

int main(void)
{
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_max < HELD + FILES)
        SKIP("ulimit -Hn is below 2300");
    files.rlim_cur = FILES;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    world_of(2, all, NULL);
    return 0;
}
