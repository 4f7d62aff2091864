/* The agent asks at once how a child ended; another thread reaps it. */
#ifndef RG_AGENT_REAP_H
#define RG_AGENT_REAP_H

#include <sys/types.h>

/* Wait until a child has ended: its status, as from waitpid. It is not reaped,
 * which may take a second (reap.c). */
int rg__how_ended(pid_t child);
/* What a shell calls that status: the exit code, or 128 + the signal. */
int rg__code_of(int status);
void rg__reap(pid_t child);

#endif
