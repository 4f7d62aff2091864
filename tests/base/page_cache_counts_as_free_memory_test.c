/* A control group that has read its data set is full of page cache. That is
 * free memory; shared memory and dirty pages are not. The tightest limit
 * counts, of a group and of the groups above it, in both versions of cgroups.
 *
 * Covers: cgroup.c */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "sdk/base/cgroup.h"
#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)

static char root[] = "/tmp/rg-cgroup-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void make(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK_EQ(mkdir(path, 0700), 0);
}

/* Of a process in the group that this line names. */
static uint64_t free_of(const char *line)
{
    char path[256];
    snprintf(path, sizeof path, "%s/list", root);
    put("list", line);
    return rg__cgroup_free(path, root);
}

static void check_version_2(void)
{
    make("job");
    make("job/step");
    CHECK(free_of("0::/job/step\n") == UINT64_MAX);
    put("job/step/memory.max", "max\n");
    put("job/step/memory.current", "1048576\n");
    CHECK(free_of("0::/job/step\n") == UINT64_MAX);
    put("job/step/memory.max", "104857600\n"); /* 100 MiB */
    CHECK_EQ(free_of("0::/job/step\n"), 99 * MIB);
    put("job/step/memory.current", "104857600\n");
    CHECK_EQ(free_of("0::/job/step\n"), 0);
    put("job/step/memory.stat", "anon 10485760\n"
                                "file 94371840\n"
                                "shmem 20971520\n"
                                "file_mapped 4096\n"
                                "file_dirty 1048576\n"
                                "file_writeback 1048576\n"
                                "inactive_file 52428800\n"
                                "active_file 20971520\n"
                                "slab_reclaimable 2097152\n");
    CHECK_EQ(free_of("0::/job/step\n"), (50 + 20 + 2 - 2) * MIB);
    put("job/memory.max", "209715200\n");
    put("job/memory.current", "204472320\n"); /* 195 of 200 MiB */
    CHECK_EQ(free_of("0::/job/step\n"), 5 * MIB);
    CHECK(free_of("0::/elsewhere\n") == UINT64_MAX);
}

static void check_version_1(void)
{
    make("memory");
    make("memory/job");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/memory.usage_in_bytes", "1048576\n");
    put("memory/job/memory.limit_in_bytes", "104857600\n");
    put("memory/job/memory.usage_in_bytes", "104857600\n");
    put("memory/job/memory.stat", "cache 1\ninactive_file 1048576\n"
                                  "total_inactive_file 41943040\n"
                                  "total_active_file 10485760\n"
                                  "total_dirty 10485760\n");
    CHECK_EQ(free_of("5:cpu,cpuacct:/x\n4:hugetlb,memory:/job\n"), 40 * MIB);
    CHECK(free_of("4:memoryless:/job\n") == UINT64_MAX);
}

int main(void)
{
    char command[64];
    CHECK(mkdtemp(root) != NULL);
    check_version_2();
    check_version_1();
    CHECK(rg__cgroup_free("/nowhere/at/all", root) == UINT64_MAX);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
    return 0;
}
