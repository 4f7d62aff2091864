/* The bell: two threads pass a number back and forth, sleeping with a long
 * timeout; a lost ring would show as a wait of that whole length.
 *
 * Covers: futex.c */
#include <pthread.h>
#include <sched.h>

#include "sdk/base/clock.h"
#include "sdk/base/futex.h"
#include "tests/check.h"

#define ROUNDS 20000
#define NET_NS (3000 * RG__MS)

static rg__bell bells[2];
static _Atomic uint32_t ball;

static void await_ball(rg__bell *bell, uint32_t want)
{
    for (uint32_t round = 0; atomic_load(&ball) != want;) {
        if (rg__spin(&rg__wait_usual, round++))
            continue;
        round = 0;
        atomic_store(&bell->wants, 1);
        const rg__word words[2] = {{&bell->seq, atomic_load(&bell->seq)},
                                   {&bell->seq, atomic_load(&bell->seq)}};
        const uint64_t before = rg__now_ns();
        if (atomic_load(&ball) != want)
            rg__futex_wait_any(words, 1 + (int)(want % 4 < 2), NET_NS);
        CHECK(rg__now_ns() - before < NET_NS);
        atomic_store(&bell->wants, 0);
    }
}

static void *play(void *arg)
{
    const uint32_t side = *(const uint32_t *)arg;
    for (uint32_t i = side; i < ROUNDS; i += 2) {
        await_ball(&bells[side], i);
        while (i % 50 < 2 && atomic_load(&bells[1 - side].wants) == 0)
            sched_yield(); /* let the other side fall asleep */
        atomic_store(&ball, i + 1);
        rg__bell_ring(&bells[1 - side]);
    }
    return NULL;
}

int main(void)
{
    const uint32_t sides[2] = {0, 1};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, play,
                                (void *)(uintptr_t)&sides[i]),
                 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&ball), ROUNDS);
    CHECK(atomic_load(&bells[0].seq) + atomic_load(&bells[1].seq) > 0);
    CHECK_EQ(atomic_load(&bells[0].wants), 0);

    /* a ring without a sleeper is a load; a wait is bounded by its time */
    const uint32_t seq = atomic_load(&bells[0].seq);
    rg__bell_ring(&bells[0]);
    atomic_store(&bells[0].wants, 4); /* likewise without one for this */
    rg__bell_ring_for(&bells[0], 2);
    CHECK_EQ(atomic_load(&bells[0].seq), seq);
    const rg__word word = {&bells[0].seq, seq};
    const rg__word changed[2] = {{&bells[0].seq, seq}, {&ball, 0}};
    const uint64_t before = rg__now_ns();
    rg__futex_wait_any(&word, 1, 20 * RG__MS);
    CHECK(rg__now_ns() - before >= 15 * RG__MS);
    rg__futex_wait_any(changed, 2, NET_NS); /* the second differs already */
    CHECK(rg__now_ns() - before < NET_NS);
    rg__bell_ring_for(&bells[0], 6);
    rg__bell_ring(&bells[0]);
    CHECK_EQ(atomic_load(&bells[0].seq), seq + 2);
    return 0;
}
