/* Sleeping on words in shared memory: look, pause, yield, then futex.
 *
 * A bell is what a sleeper sleeps on and a poster rings. The poster stores its
 * data first and then rings; the sleeper announces itself, looks at the data
 * again and only then sleeps, so no ring is lost. Every sleep has a bound. */
#ifndef RG_BASE_FUTEX_H
#define RG_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct rg__bell {
    _Atomic uint32_t seq;   /* counts rings that found a sleeper */
    _Atomic uint32_t wants; /* bits: what sleepers are to be woken for; posters
                               only read it */
} rg__bell;

/* Wake all threads that sleep on the bell; only a load when there is none. */
void rg__bell_ring(rg__bell *bell);

/* The same for these bits only, and without the fence, which the caller has
 * made after its posts. */
void rg__bell_ring_for(rg__bell *bell, uint32_t bits);

/* Sleep until one of the words differs from its expected value, or until
 * timeout_ns. n is at most 4; spurious wake-ups happen. Words are shared
 * between processes. */
typedef struct rg__word {
    _Atomic uint32_t *at;
    uint32_t seen;
} rg__word;
void rg__futex_wait_any(const rg__word *words, int n, uint64_t timeout_ns);

void rg__futex_wake(_Atomic uint32_t *word);

/* The k-th round of looking at memory that has not changed yet: the first
 * rounds pause, the next ones yield the processor; returns 0 once it is time
 * to sleep. If others want the processor it only yields. */
int rg__spin(uint32_t round);

/* Let others have the processor, unless they had it since the last time. */
void rg__yield(void);

#endif
