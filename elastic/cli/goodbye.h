/* The end of a job whose private etcd other hosts use. They learn of it from
 * that etcd, which therefore stays until their agents have gone.
 *
 * Threads:   call in a process without other threads.
 * Waiting:   ten seconds at most; SIGINT, SIGTERM and SIGHUP end it early (the
 *            caller has them blocked). */
#ifndef RG_ELASTIC_GOODBYE_H
#define RG_ELASTIC_GOODBYE_H

#include "elastic/cli/store.h"
#include "elastic/launch/host_launcher.h"
#include "elastic/member/records.h"

/* Read all keys of the job, within 2 s. The caller frees it in any case. */
rg_status rg__places_read(const rg__etcd_params *params, const char *job,
                          rg__snapshot *found);
/* Where a host of the job is, by what was read. A host that has left is here
 * while its agent is: its program may still be working (drain). */
rg__host_place rg__place_of(const rg__snapshot *found, const char *host);

/* host: ours, which has ended. A host that is still there after that time is
 * named in a warning. */
void rg__goodbye(const rg__private_etcd *etcd, const char *job,
                 const char *host);

#endif
