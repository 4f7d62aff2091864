/* What this agent waits for. A wait that is longer than the budget (--detect)
 * is reported once, in a warning that says what is awaited, from which host,
 * since when, and what ends the wait; until then `regroup status` shows it as
 * waiting[], and the metric `waits` counts it. The end of a reported wait is
 * reported as well.
 *
 * (kind, key) names a wait. The sentence continues "host h1 waits for ": what
 * is awaited, from which host, and no "since". */
#ifndef RG_AGENT_WAITS_H
#define RG_AGENT_WAITS_H

#include <stdint.h>

typedef struct rg__agent rg__agent;
struct json_t;

/* X(name, in the status document, what ends it), and what the key is */
#define RG__WAIT_KINDS(X)                                                      \
    X(ETCD, "etcd", "etcd answers") /* 0: this host's record */                \
    X(ACK, "ack", "they are; after 20 s the others go on without them")        \
    /* 0: of the leader */                                                     \
    X(FENCE, "fence",                                                          \
      "it ends; after --elastic-timeout this host leaves") /* slot */          \
    X(ROOM, "room",                                                            \
      "this machine has it; a host that can start no worker leaves")           \
    /* slot, or what no slot is */                                             \
    X(COPY, "copy", "it has; four budgets without a byte end the generation")  \
    /* host */                                                                 \
    X(OUTAGE, "outage",                                                        \
      "etcd answers; else it leaves after --etcd-timeout") /* 0 */             \
    X(PATHS, "paths",                                                          \
      "both hosts reach each other; training goes on meanwhile")               \
    X(BYTES, "bytes", "they get through, or after four budgets without them")  \
    X(PARTS, "parts",                                                          \
      "they are back; after --agent-grace an older commit counts, and where "  \
      "there is none the job ends after --elastic-timeout") /* 0 */            \
    X(WORLD, "world",                                                          \
      "one of them is back; after --elastic-timeout this host leaves") /* 0 */ \
    X(BEGUN, "begun",                                                          \
      "etcd holds it; after four budgets others go on without a host that "    \
      "etcd does not answer") /* 0 */                                          \
    X(SWEEP, "sweep",                                                          \
      "it ends; after --launch-timeout the host where it runs leaves")         \
    /* 0: of the leader; 1: a process here */                                  \
    X(ENDING, "ending",                                                        \
      "they have ended; after --elastic-timeout, or --agent-grace behind a "   \
      "death, they are killed") /* 0 */                                        \
    X(STEP, "step",                                                            \
      "one ends, or after --hang-timeout, if that is given, another launch "   \
      "begins; `regroup dump` shows what the ranks do") /* 0 */                \
    X(FIRST, "first",                                                          \
      "it is made; where the generation breaks before, the worker is in the "  \
      "next first one") /* slot */

typedef enum rg__wait_kind {
#define X(name, text, until) RG__WAIT_##name,
    RG__WAIT_KINDS(X)
#undef X
        RG__WAIT_KIND_COUNT
} rg__wait_kind;

/* Beginning it again keeps its start and renews its sentence. */
void rg__wait_begin(rg__agent *a, rg__wait_kind kind, uint64_t key,
                    const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Nothing happens when there is no such wait. */
void rg__wait_end(rg__agent *a, rg__wait_kind kind, uint64_t key);

int rg__waits_said(const rg__agent *a); /* that have been reported and last */
struct json_t *rg__waits_json(const rg__agent *a);
void rg__waits_drop(rg__agent *a);

#endif
