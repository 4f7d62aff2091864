/* The native transport: a comm in the shared memory of one host (shm/), or over
 * several hosts with shared memory inside each (inter/, over tcp/). */
#ifndef RG_NATIVE_H
#define RG_NATIVE_H

#include "sdk/transport/shm/shm_comm.h"

/* open.c: the world's comm, and the comm of a set. */
rg_status rg__native_open(const rg__boot *boot, rg__comm **comm_p);
rg_status rg__native_split(rg__comm *world, const int *ranks, int n,
                           uint32_t id, rg__comm **comm_p);
void rg__native_close(rg__comm *base);
/* A comm of so many processes of this host, which have no sets beside it; fd:
 * shared memory of rg__shm_control_bytes(n, 1). */
rg_status rg__native_open_alone(int rank, int n, int fd, rg__comm **comm_p);

bool rg__native_is_vacant(rg__comm *world, uint32_t place);

/* message_lanes.c */
rg_status rg__native_open_lanes(rg__shared *sh);
/* Has that other host's rank called rg_finalize? Known if it sent messages. */
bool rg__native_lane_has_left(const rg__shared *sh, int rank);

#endif
