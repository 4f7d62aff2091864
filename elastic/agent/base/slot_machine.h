/* What a slot is in the middle of. The child is PROGRAM's process; the worker
 * is the process in it that has called rg_init.
 *
 * Not part of the state: the child, which may be reaped before its worker is
 * fenced or after it; whose child it is, ours or the supervisor's; and the
 * generation that a worker is a member of (worker.entered), which is a
 * number. */
#ifndef RG_AGENT_SLOT_MACHINE_H
#define RG_AGENT_SLOT_MACHINE_H

#include <stdbool.h>

#include "sdk/base/machine.h"

/* clang-format off */
#define RG__SLOT_STATES(X)                                                     \
    X(IDLE, "idle")         /* no process, and none is due */                  \
    X(STARTING, "starting") /* the child has not called rg_init */             \
    X(MET, "met")           /* it has, and its Regroup thread does not run */  \
    X(READY, "ready")       /* it runs: its death shows in the page */         \
    X(DOOR, "at the door")  /* it has come there, and may be a member */       \
    X(LOST, "lost")         /* dead, and free to go: its end is awaited */     \
    X(FENCING, "fencing")   /* dead or to die, and may store yet */            \
    X(REAPING, "reaping")   /* stores no more; the child may be there yet */   \
    X(BACKOFF, "back-off")  /* starts again when the timer says so */          \
    X(HELD, "held")         /* ended before the program's kind was known */    \
    X(GIVEN_UP, "given up") /* has failed too often */                         \
    X(CLOSED, "closed")     /* starts no more */

#define RG__SLOT_EVENTS(X)                                                     \
    X(BEGIN, "begin")          /* a process is to be started */                \
    X(UNABLE, "unable")        /* it could not be, or never began */           \
    X(MEET, "rg_init")         /* the worker calls */                          \
    X(RUNS, "ready")                                                           \
    X(COME, "comes")           /* to the door */                               \
    X(DIE, "lost")             /* at the first sign */                         \
    X(FENCE, "kill")           /* a death that others must know about */       \
    X(FENCED, "fenced")                                                        \
    X(AGAIN, "start again")    /* the end of both, and what follows */         \
    X(HOLD, "hold")                                                            \
    X(GIVE_UP, "give up")                                                      \
    X(CLOSE, "close")                                                          \
    X(DISMISS, "dismiss")      /* nothing is started now */                    \
    X(ADOPT, "adopt")          /* by the next agent, with a child */           \
    X(ADOPT_NONE, "adopt none") /* and without one */
/* clang-format on */

typedef enum rg__slot_state {
#define X(state, text) SLOT_##state,
    RG__SLOT_STATES(X)
#undef X
} rg__slot_state;

typedef enum rg__slot_event {
#define X(event, text) SLOT_ON_##event,
    RG__SLOT_EVENTS(X)
#undef X
} rg__slot_event;

extern const rg__machine rg__slot_machine;

typedef struct rg__slot rg__slot;
void rg__slot_step(rg__slot *s, rg__slot_event event);
bool rg__slot_rests(const rg__slot *s); /* it has neither child nor worker */

#endif
