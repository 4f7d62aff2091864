/* How much memory the control groups of this process leave it, in bytes; both
 * versions of cgroups. Any thread; nothing is kept. */
#ifndef RG_BASE_CGROUP_H
#define RG_BASE_CGROUP_H

#include <stdint.h>

/* list: as /proc/self/cgroup; root: where the groups are, as /sys/fs/cgroup.
 * UINT64_MAX: no group has a limit. */
uint64_t rg__cgroup_free(const char *list, const char *root);

#endif
