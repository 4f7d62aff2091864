/* Metrics of the program (rg_metric), from the record of rank 0 into a CSV,
 * TensorBoard's event file, and what Prometheus is shown.
 *
 * Threads:   the loop's. */
#ifndef RG_AGENT_SCALARS_H
#define RG_AGENT_SCALARS_H

#include "elastic/agent/base/agent_state.h"

/* --metrics-csv, --metrics-tensorboard and --metrics, if one is given. An error
 * only where the job begins. */
rg_status rg__scalars_open(rg__agent *a);
/* Take what there still is, and wait a moment until it is written. */
void rg__scalars_close(rg__agent *a);

/* The newest of each name, if rank 0 is on this host; returns how many. */
int rg__scalars_latest(const rg__agent *a, const rg__scalar **row_p);

#endif
