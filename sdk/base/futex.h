/* Sleeping on words in shared memory: look, pause, yield, then futex.
 *
 * A bell is what a sleeper sleeps on and a poster rings. The poster stores its
 * data first and then rings; the sleeper announces itself, looks at the data
 * again and only then sleeps, so no ring is lost. Every sleep has a bound. */
#ifndef RG_BASE_FUTEX_H
#define RG_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
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

/* Sleep until one of at most 4 words differs from its expected value, or until
 * timeout_ns. Wake-ups may be spurious. Processes share the words. */
typedef struct rg__word {
    _Atomic uint32_t *at;
    uint32_t seen;
} rg__word;
void rg__futex_wait_any(const rg__word *words, int n, uint64_t timeout_ns);

void rg__futex_wake(_Atomic uint32_t *word);

/* How a thread waits: it looks, sleeps, and looks again when it is rung. Yields
 * help peers that share the processor, but other programs take it for a whole
 * slice of the scheduler's, so a thread that needs it soon may keep it. */
typedef struct rg__wait_policy {
    uint32_t pauses;   /* looks with a pause between them, */
    uint32_t yields;   /* then with yields; if others want the processor, these
                            at once, and three times as many */
    uint64_t poll_ns;  /* then further looks for so long, 0: none; */
    uint64_t sleep_ns; /* then it sleeps for so long at a time */
    bool keeps_processor; /* it pauses where it would yield */
} rg__wait_policy;

extern const rg__wait_policy rg__wait_usual;

/* Do other threads want the processor, which this one does not keep? */
bool rg__is_crowded(const rg__wait_policy *policy);

/* The k-th look at memory that has not changed yet; returns 0 when there have
 * been enough of pauses and yields. */
int rg__spin(const rg__wait_policy *policy, uint32_t round);

/* Between two further looks: let others have the processor, unless they had it
 * since the last time. */
void rg__rest(const rg__wait_policy *policy);

#endif
