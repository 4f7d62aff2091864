/* A mix of operations on many sets (lib/mix.h) under mpirun, over whichever
 * transport REGROUP_TRANSPORTS names: for some seeds, and for some that are
 * others each time.
 *
 *     NAME SEEDS [LEVEL] | NAME seed FIRST COUNT [LEVEL]
 *
 * LEVEL: that of threads with which the program initialises MPI itself.
 *
 * Covers: core/group.c */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/mix.h"
#include "tests/mpi/mpi_check.h"

#define ALLOC ((size_t)8 << 20)
#define MOST  ((size_t)4 << 20)

static bool has(const char *name, const char *value)
{
    const char *set = getenv(name);
    return set != NULL && strcmp(set, value) == 0;
}

/* 1 when the program has initialised MPI. */
static int init(const char *level)
{
    static const char *const levels[] = {"single", "funneled", "serialized",
                                         "multiple"};
    static const int values[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED,
                                 MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    for (int i = 0; i < 4 && level != NULL; i++)
        if (strcmp(level, levels[i]) == 0) {
            int given = 0;
            MPI_Init_thread(NULL, NULL, values[i], &given);
            return 1;
        }
    return 0;
}

static bool is_multiple(void)
{
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level == MPI_THREAD_MULTIPLE;
}

static void play(const mix_params *params, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        mix_play(params, first + i);
}

static uint64_t another_seed(rg_ctx *ctx)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed =
        dice_seed((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec) % 1000000000;
    CHECK_OK(rg_broadcast(rg_world(ctx), &seed, 1, RG_U64, 0));
    return seed;
}

static void play_as_told(const mix_params *params, int argc, char **argv)
{
    if (argc > 3) {
        play(params, strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
        return;
    }
    const uint64_t count = strtoull(argv[1], NULL, 0);
    const uint64_t seed = another_seed(params->ctx);
    if (rg_rank(params->ctx) == 0)
        fprintf(stderr, "seeds from %llu on\n", (unsigned long long)seed);
    play(params, 1, count);
    play(params, seed, count);
}

int main(int argc, char **argv)
{
    rg_ctx *ctx = NULL;
    const int is_mine = init(argc % 2 == 1 ? argv[argc - 1] : NULL);
    CHECK_OK(rg_init(NULL, &ctx));
    const bool is_compared =
        has("REGROUP_TRANSPORTS", "native") || has("REGROUP_CHECK", "each");
    const mix_params params = {.ctx = ctx,
                               .shared_bytes = ALLOC,
                               .most = MOST,
                               .may_differ = is_compared,
                               .may_join = is_compared,
                               .may_thread = is_multiple()};
    play_as_told(&params, argc, argv);
    CHECK_OK(rg_finalize(ctx));
    if (is_mine)
        MPI_Finalize();
    return 0;
}
