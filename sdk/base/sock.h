/* Messages over a Unix SOCK_SEQPACKET socket: one packet is one message, and
 * a message carries up to RG__SOCK_FDS descriptors. Never blocks. */
#ifndef RG_BASE_SOCK_H
#define RG_BASE_SOCK_H

#include <stddef.h>

#include "regroup/regroup.h"

#define RG__SOCK_FDS 3

/* A connection to the socket at this path. ERR_AGENT_LOST: no process listens
 * there; remedy is the end of that sentence. */
rg_status rg__sock_connect(const char *path, const char *remedy, int *sock_p);

/* OK: sent whole. IN_PROGRESS: nothing sent, the receiver's queue is full.
 * ERR_AGENT_LOST: the peer is gone. Descriptors stay the caller's. */
rg_status rg__sock_send(int sock, const void *bytes, size_t n, const int *fds,
                        int fd_count);

/* OK: a message of *n_p bytes; descriptors are the caller's now; places are -1
 * if unused, or if this process has no room for more descriptors. IN_PROGRESS:
 * nothing there. ERR_AGENT_LOST: closed or broken. ERR_INVALID: a packet larger
 * than max. */
rg_status rg__sock_recv(int sock, void *bytes, size_t max, size_t *n_p,
                        int fds[RG__SOCK_FDS]);

/* Those of them that are there; their places become -1. */
void rg__sock_close_fds(int fds[RG__SOCK_FDS]);

#endif
