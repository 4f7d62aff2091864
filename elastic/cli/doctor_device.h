/* What `regroup doctor` says about device memory: the driver with its devices,
 * and NCCL. A job on host memory needs neither, so what is missing is weak;
 * what is there and can't be used is a failure.
 *
 * Threads:   the command's own. Each look runs in a child with a limit: a
 *            driver may hang, and must not begin in a process that forks. */
#ifndef RG_ELASTIC_DOCTOR_DEVICE_H
#define RG_ELASTIC_DOCTOR_DEVICE_H

#include "elastic/cli/cli.h"
#include "elastic/cli/finding.h"

rg__finding rg__doctor_cuda(const rg__settings *s);
rg__finding rg__doctor_nccl(const rg__settings *s);

#endif
