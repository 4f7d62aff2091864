#include "sdk/base/memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number behind `name` on its line; name "" takes the first line. */
static bool read_number(const char *path, const char *name, uint64_t *n_p)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL)
        found = strncmp(line, name, strlen(name)) == 0 &&
                sscanf(line + strlen(name), "%" SCNu64, n_p) == 1;
    fclose(f);
    return found;
}

static uint64_t machine_available(void)
{
    uint64_t kib;
    return read_number("/proc/meminfo", "MemAvailable:", &kib) ? kib * 1024
                                                               : UINT64_MAX;
}

static bool own_group(char path[256])
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (f == NULL)
        return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL)
        found = sscanf(line, "0::%255s", path) == 1;
    fclose(f);
    return found;
}

static uint64_t group_available(void)
{
    char group[256], path[320];
    uint64_t most, taken;
    if (!own_group(group))
        return UINT64_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    if (!read_number(path, "", &most)) /* "max", or not there */
        return UINT64_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
    if (!read_number(path, "", &taken))
        return UINT64_MAX;
    return most > taken ? most - taken : 0;
}

uint64_t rg__memory_available(void)
{
    const uint64_t machine = machine_available(), group = group_available();
    return machine < group ? machine : group;
}
