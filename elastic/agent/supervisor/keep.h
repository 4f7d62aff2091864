/* The agent's end of what its supervisor keeps for it (kept.h): put a record
 * before anything that follows from it is done, and a killed agent's successor
 * finds it. A supervisor that is stopped makes nobody wait: records wait here
 * then, and are lost when the agent is killed at that moment.
 *
 * Threads:   the loop's.
 * Ownership: descriptors given to put stay the caller's; the supervisor has
 * copies. NULL is allowed for a keep everywhere: nothing outlives that agent.
 */
#ifndef RG_AGENT_KEEP_H
#define RG_AGENT_KEEP_H

#include <sys/resource.h>

#include "elastic/agent/supervisor/kept.h"
#include "sdk/base/loop.h"

typedef struct rg__keep rg__keep;

/* In an agent that has just been forked. Takes the socket and the records of
 * the agent before it, if there was one. descriptors: RLIMIT_NOFILE before the
 * supervisor raised it. */
rg_status rg__keep_create(int sock, const rg__kept_list *kept,
                          const struct rlimit *descriptors, rg__keep **keep_p);
void rg__keep_destroy(rg__keep *keep);

/* ended: a process of a record, of which this agent is not the parent, has
 * ended. gone: the supervisor was killed. finish: it knows that all is over. */
typedef struct rg__keep_events {
    void (*ended)(void *arg, int32_t pid, int32_t status);
    void (*gone)(void *arg);
    void (*finish)(void *arg, int code, const char *why);
    void *arg;
} rg__keep_events;
rg_status rg__keep_watch(rg__keep *keep, rg__loop *loop,
                         const rg__keep_events *events);
void rg__keep_unwatch(rg__keep *keep); /* before the loop is destroyed */

void rg__keep_put(rg__keep *keep, const char *name, const void *bytes, size_t n,
                  const int *fds, int fd_count);
/* With a process: when this agent is gone, its exit status is kept as well. */
void rg__keep_put_child(rg__keep *keep, const char *name, int32_t pid,
                        const void *bytes, size_t n, const int *fds,
                        int fd_count);
void rg__keep_drop(rg__keep *keep, const char *name);

/* The records that this agent was born with; its own puts are not in it.
 * Whoever makes use of a descriptor takes it, and owns it then. */
const rg__kept_list *rg__keep_born_with(const rg__keep *keep);
int rg__kept_take(rg__kept *kept, int i);
/* Close what nobody has taken. */
void rg__keep_forget_rest(rg__keep *keep);

/* How many descriptors workers may have; the process's limit without a keep. */
void rg__keep_descriptors(const rg__keep *keep, struct rlimit *limit_p);

#endif
