/* What the control groups of a process say of memory; both versions of cgroups.
 * Any thread; nothing is kept. */
#ifndef RG_BASE_CGROUP_H
#define RG_BASE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* How much they leave it, in bytes. list: as /proc/self/cgroup; root: where the
 * groups are, as /sys/fs/cgroup. UINT64_MAX: no group has a limit. */
uint64_t rg__cgroup_free(const char *list, const char *root);

/* The file that counts what the kernel's out-of-memory killer has ended in the
 * group of that process, "" where there is none; and its count, 0 without. */
void rg__cgroup_oom_file(const char *list, const char *root, char *path,
                         size_t room);
uint64_t rg__cgroup_oom_kills(const char *path);

#endif
