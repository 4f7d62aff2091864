/* An etcd that is given: does it answer, and which clients does it let in?
 *
 * Waiting:   ten seconds at most. */
#ifndef RG_ELASTIC_DOCTOR_ETCD_H
#define RG_ELASTIC_DOCTOR_ETCD_H

#include "elastic/cli/cli.h"
#include "elastic/cli/finding.h"

/* Look at the etcd of --etcd, with the other flags that belong to it. Nothing
 * there is changed. */
rg__finding rg__doctor_etcd(const rg__settings *settings);

#endif
