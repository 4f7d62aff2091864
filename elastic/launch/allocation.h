/* The hosts of an allocation, as the batch system around this process lists
 * them in its variables:
 *
 *   Slurm   SLURM_JOB_NODELIST=n[1-3,7],gpu[01-04]
 *           SLURM_TASKS_PER_NODE=2(x4),4(x4)
 *   PBS     PBS_NODEFILE: a file with a line for each slot
 *   LSF     LSB_HOSTS="h1 h1 h2", a word for each slot; of a large job only
 *           LSB_DJOB_HOSTFILE, a file with a line for each
 *
 * Threads: any. */
#ifndef RG_LAUNCH_ALLOCATION_H
#define RG_LAUNCH_ALLOCATION_H

#include "elastic/launch/host_list.h"

/* Add the allocation's hosts. Outside of one there are none; nor in a step of
 * Slurm, which runs once for each task, unless it is the shell of salloc. slots
 * is for hosts without a number. ERR_INVALID names the variable. */
rg_status rg__allocation_read(rg__host_list *list, int slots);

/* The command that starts agents on other hosts in place of ssh: a step of the
 * Slurm job. NULL: this is no Slurm job, or has no srun. */
const char *rg__allocation_shell(void);

#endif
