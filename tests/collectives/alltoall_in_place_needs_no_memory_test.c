/* B16: an alltoall in place, even and uneven, of more than passes at once,
 * where all members are in place, one, or none. What is received is right, and
 * there was no copy of it all: gigabytes would be slow to get, and to give back
 * while the Regroup thread waits for the lock. A piece is allowed.
 *
 * Covers: pairwise.c */
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/world.h"

#define PART  ((uint64_t)9 << 20)  /* bytes that go to each member */
#define SPARE ((uint64_t)12 << 20) /* pieces, stacks, arenas */

/* Private memory that can be written, of this process, in bytes. */
static uint64_t private_bytes(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmData: %llu", &kib) == 1)
            break;
    fclose(file);
    CHECK(kib > 0);
    return (uint64_t)kib << 10;
}

/* A sanitizer has memory of its own. */
static void take_no_more(uint64_t spare)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const rlim_t most = (rlim_t)(private_bytes() + spare);
    const struct rlimit limit = {most, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
#else
    (void)spare;
    (void)private_bytes;
#endif
}

static uint32_t word_of(int from, int to, uint64_t i)
{
    return (uint32_t)(i * 2654435761u) ^ (uint32_t)(from * 64 + to + 1);
}

static void fill(uint32_t *part, int from, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        part[i] = word_of(from, to, i);
}

static void check(const uint32_t *part, int from, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (part[i] != word_of(from, to, i))
            CHECK_FAIL("word %llu of %llu from %d to %d is %u",
                       (unsigned long long)i, (unsigned long long)count, from,
                       to, part[i]);
}

/* The memory of all cases, taken before there is a limit. */
static uint32_t *memory[2];
static const uint64_t most = PART / sizeof(uint32_t);

static void even(world *w, bool is_in_place, uint64_t count)
{
    const int me = w->index;
    uint32_t *recv = memory[0], *send = is_in_place ? recv : memory[1];
    for (int r = 0; r < w->n; r++)
        fill(send + (uint64_t)r * count, me, r, count);
    CHECK_OK(rg_alltoall(rg_world(w->ctx), send, recv, count, RG_U32));
    for (int r = 0; r < w->n; r++)
        check(recv + (uint64_t)r * count, r, me, count);
}

/* Between two members the same count both ways, so that all may be in place. */
static uint64_t count_of(int a, int b)
{
    const uint64_t both = (uint64_t)(a + b) * 7 + (uint64_t)(a * b) * 3;
    return both % 4 == 1 ? 0 : most / (1 + both % 5) - both;
}

static void uneven(world *w, bool is_in_place)
{
    const int me = w->index;
    uint64_t counts[WORLD_MAX], places[WORLD_MAX];
    uint32_t *recv = memory[0], *send = is_in_place ? recv : memory[1];
    for (int r = 0; r < w->n; r++) {
        counts[r] = count_of(me, r);
        places[r] = most * (uint64_t)(w->n - 1 - r);
        fill(send + places[r], me, r, counts[r]);
    }
    rg_req *req = NULL;
    CHECK_OK(rg_alltoallv_start(rg_world(w->ctx), send, counts, places, recv,
                                counts, places, RG_U32, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    for (int r = 0; r < w->n; r++)
        check(recv + places[r], r, me, counts[r]);
}

static void exchange(world *w, void *arg)
{
    (void)arg;
    const uint64_t odd = ((uint64_t)300 << 10) / sizeof(uint32_t) + 1;
    for (int i = 0; i < 2; i++) {
        memory[i] = calloc((size_t)w->n, PART);
        CHECK(memory[i] != NULL);
    }
    take_no_more(SPARE);
    for (int who = -1; who <= w->n; who += w->n > 1 ? w->n - 1 : 1) {
        const bool is_in_place = who == w->index || who == w->n;
        even(w, is_in_place, odd);
        even(w, is_in_place, most);
        uneven(w, is_in_place);
    }
    even(w, true, most);
    uneven(w, true);
    free(memory[0]);
    free(memory[1]);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], exchange, NULL);
    return 0;
}
