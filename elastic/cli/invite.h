/* What another host needs to join a job on our private etcd. */
#ifndef RG_ELASTIC_INVITE_H
#define RG_ELASTIC_INVITE_H

#include "elastic/cli/cli.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/store.h"

/* Write the password to dir/etcd.password, mode 0600, and print the line to
 * paste there to standard error. The password itself is printed nowhere: a
 * command line is seen by everybody. ERR_SYSTEM: it can't be written. */
rg_status rg__invite(const rg__private_etcd *etcd, const rg__launch *launch,
                     const rg__cli *cli);

#endif
