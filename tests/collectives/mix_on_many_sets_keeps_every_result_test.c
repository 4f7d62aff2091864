/* Whatever is started on however many sets, in whatever order, by one thread or
 * two, each operation has the result that it has alone (lib/mix.h): for some
 * seeds, and for some that are others each time.
 *
 *     NAME HOSTS... [seed FIRST [COUNT]]
 *
 * HOSTS has a digit for each rank, which says on which host it is.
 *
 * Covers: collectives.c call.c engine.c */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/mix.h"
#include "tests/lib/world.h"

#ifdef __SANITIZE_THREAD__
#define SEEDS 2
#else
#define SEEDS 15
#endif
#define ALLOC ((size_t)8 << 20)
#define MOST  ((size_t)4 << 20)

typedef struct seeds {
    uint64_t first, count;
} seeds;

static void play(world *w, void *arg)
{
    const seeds *s = arg;
    const mix_params params = {.ctx = w->ctx,
                               .shared = w->alloc,
                               .shared_bytes = w->alloc_bytes,
                               .most = MOST,
                               .may_differ = true,
                               .may_join = true,
                               .may_thread = true};
    for (uint64_t i = 0; i < s->count; i++)
        mix_play(&params, s->first + i);
}

static void play_on(const char *hosts, seeds s)
{
    const world_params params = {.n = (int)strlen(hosts),
                                 .hosts = hosts,
                                 .alloc_bytes = ALLOC,
                                 .timeout_s = 200};
    world_run(&params, play, &s);
}

static uint64_t another_seed(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return dice_seed((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec) % 1000000000;
}

static void play_fixed_and_other(const char *hosts)
{
    const seeds other = {another_seed(), SEEDS};
    play_on(hosts, (seeds){1, SEEDS});
    fprintf(stderr, "hosts %s, seeds from %llu on\n", hosts,
            (unsigned long long)other.first);
    play_on(hosts, other);
}

int main(int argc, char **argv)
{
    int worlds = 1;
    while (worlds < argc && strcmp(argv[worlds], "seed") != 0)
        worlds++;
    const bool is_given = worlds + 1 < argc;
    const seeds given = {is_given ? strtoull(argv[worlds + 1], NULL, 0) : 0,
                         is_given && worlds + 2 < argc
                             ? strtoull(argv[worlds + 2], NULL, 0)
                             : 1};
    for (int i = 1; i < worlds; i++)
        if (is_given)
            play_on(argv[i], given);
        else
            play_fixed_and_other(argv[i]);
    return 0;
}
