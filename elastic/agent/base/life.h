/* How far an agent has come, from its start to its end.
 *
 * These are not states, since each may hold in several states, is told to
 * other hosts or outlives an agent: the job is done (is_done); this host
 * drains (is_draining), or has gone (is_leaving); its workers are stopped
 * (is_paused). */
#ifndef RG_AGENT_LIFE_H
#define RG_AGENT_LIFE_H

#include <stdbool.h>

#include "sdk/base/machine.h"

/* clang-format off */
#define RG__LIFE_STATES(X)                                                     \
    X(OPENING, "opening")      /* the job's keys are not here yet */           \
    X(ADOPTING, "adopting")    /* what a killed agent has left is taken up */  \
    X(STANDING, "standing")    /* workers are asked where they stand */        \
    X(VIEWING, "viewing")      /* they have said so, and etcd is asked */      \
    X(WORKING, "working")      /* workers may start */                         \
    X(ENDING, "ending")        /* workers are to go */                         \
    X(UNSEEN, "ending unseen") /* the same, and the keys were never here */    \
    X(OVER, "over")            /* nothing is left of them, by itself */        \
    X(ENDED, "ended")          /* nothing is left, and something ended it */

#define RG__LIFE_EVENTS(X)                                                     \
    X(ADOPT, "adopt")   /* there was an agent before */                        \
    X(STAND, "stand")   /* all of its processes are ours */                    \
    X(VIEW, "view")     /* all workers have said where they stand */           \
    X(WORK, "work")     /* the job's keys are here */                          \
    X(END, "end")       /* the job ends, or this host leaves it */             \
    X(REST, "rest")     /* nothing is left of its workers */
/* clang-format on */

typedef enum rg__life_state {
#define X(state, text) RG__LIFE_##state,
    RG__LIFE_STATES(X)
#undef X
} rg__life_state;

typedef enum rg__life_event {
#define X(event, text) RG__LIFE_ON_##event,
    RG__LIFE_EVENTS(X)
#undef X
} rg__life_event;

extern const rg__machine rg__life_machine;

typedef struct rg__agent rg__agent;
void rg__life_step(rg__agent *a, rg__life_event event);
bool rg__life_is_over(const rg__agent *a);
bool rg__life_is_ending(const rg__agent *a); /* or has ended so */
/* From an agent that was killed, and the job's keys are not here yet. */
bool rg__life_takes_over(const rg__agent *a);
/* Was an agent that had come so far about to end? */
bool rg__life_ends(rg__life_state state);

#endif
