/* What another host needs to join a job on our private etcd. */
#ifndef RG_ELASTIC_INVITE_H
#define RG_ELASTIC_INVITE_H

#include "elastic/cli/cli.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/store.h"

/* Print the line to paste there to standard error. It names the invitation,
 * whose secrets are not printed, as all users see command lines. ERR_MEMORY. */
rg_status rg__invite(const rg__private_etcd *etcd, const rg__launch *launch,
                     const rg__cli *cli);

#endif
