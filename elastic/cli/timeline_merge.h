/* The timelines of several hosts as one. */
#ifndef RG_CLI_TIMELINE_MERGE_H
#define RG_CLI_TIMELINE_MERGE_H

#include "regroup/regroup.h"

/* Onto standard output; nothing is written when one can't be read. */
rg_status rg__timeline_merge(char *const *paths, int n);

#endif
