/* How a child has ended is asked at once; it is reaped behind the loop. */
#ifndef RG_AGENT_REAP_H
#define RG_AGENT_REAP_H

#include <sys/types.h>

/* Of a child that has ended, as from waitpid; it is not reaped yet. */
int rg__how_ended(pid_t child);
void rg__reap(pid_t child);

#endif
