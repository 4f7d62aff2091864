/* Memory limits of a process's control groups; both versions of cgroups. Any
 * thread; nothing is kept. */
#ifndef RG_BASE_CGROUP_H
#define RG_BASE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* How much they leave it, in bytes. list: as /proc/self/cgroup; root: where the
 * groups are, as /sys/fs/cgroup. UINT64_MAX: no group has a limit. */
uint64_t rg__cgroup_free(const char *list, const char *root);

/* The file with the kernel's count of processes that its out-of-memory killer
 * ended in that process's group, "": there is none; and its count, or 0. */
void rg__cgroup_oom_file(const char *list, const char *root, char *path,
                         size_t room);
uint64_t rg__cgroup_oom_kills(const char *path);

#endif
