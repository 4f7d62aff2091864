/* The agent's end of what its supervisor keeps for it (fdrecord.h): put a
 * record before you do anything that follows from it, and a killed agent's
 * successor finds it. A supervisor that is stopped delays nothing: records then
 * wait here, and are lost if the agent is killed at that moment.
 *
 * Threads:   the loop's.
 * Ownership: descriptors given to put stay the caller's; the supervisor has
 * copies. A store may be NULL everywhere: nothing outlives that agent. */
#ifndef RG_AGENT_FDSTORE_H
#define RG_AGENT_FDSTORE_H

#include <sys/resource.h>

#include "elastic/agent/supervisor/fdrecord.h"
#include "sdk/base/loop.h"

typedef struct rg__fdstore rg__fdstore;

/* In an agent that was just forked. Takes the socket, and the records of the
 * previous agent. descriptors: RLIMIT_NOFILE before the supervisor raised
 * it. */
rg_status rg__fdstore_create(int sock, const rg__fdrecord_list *records,
                             const struct rlimit *descriptors,
                             rg__fdstore **fdstore_p);
void rg__fdstore_destroy(rg__fdstore *fdstore);

/* ended: a process of a record, of which this agent is not the parent, has
 * ended. gone: the supervisor was killed. finish: it knows that all is over. */
typedef struct rg__fdstore_events {
    void (*ended)(void *arg, int32_t pid, int32_t status);
    void (*gone)(void *arg);
    void (*finish)(void *arg, int code, const char *why);
    void *arg;
} rg__fdstore_events;
rg_status rg__fdstore_watch(rg__fdstore *fdstore, rg__loop *loop,
                            const rg__fdstore_events *events);
/* Before the loop is destroyed. */
void rg__fdstore_unwatch(rg__fdstore *fdstore);

void rg__fdstore_put(rg__fdstore *fdstore, const char *name, const void *bytes,
                     size_t n, const int *fds, int fd_count);
/* With a process: when this agent is gone, its exit status is kept as well. */
void rg__fdstore_put_child(rg__fdstore *fdstore, const char *name, int32_t pid,
                           const void *bytes, size_t n, const int *fds,
                           int fd_count);
void rg__fdstore_drop(rg__fdstore *fdstore, const char *name);

/* The records that this agent was born with; its own puts are not in it. A
 * caller that uses a descriptor takes it, and owns it then. */
const rg__fdrecord_list *rg__fdstore_born_with(const rg__fdstore *fdstore);
rg__fdrecord *rg__fdstore_find(const rg__fdstore *fdstore, const char *name);
/* The same with its n bytes; NULL: there is none, or it has another size. */
rg__fdrecord *rg__fdstore_read(const rg__fdstore *fdstore, const char *name,
                               void *bytes, size_t n);
int rg__fdrecord_take(rg__fdrecord *record, int i);
/* Close what has not been taken. */
void rg__fdstore_forget_rest(rg__fdstore *fdstore);

/* How many descriptors workers may have; without a store, as many as we. */
void rg__fdstore_descriptors(const rg__fdstore *fdstore,
                             struct rlimit *limit_p);

#endif
