/* What a group uses includes the cache of files that it has read, which the
 * kernel gives back before it lets anything fail: a training that reads its
 * data set "uses" all of its limit from then on. Clean pages of files count as
 * free here, and so does the slab that the kernel calls reclaimable. Shared
 * memory does not: without swap there is nowhere to put it. */
#include "sdk/base/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES  1024
#define GROUP_BYTES 512

typedef struct names { /* of one version */
    const char *max, *current;
    const char *clean[3]; /* of memory.stat, NULL: none */
    const char *dirty[2]; /* in `clean` as well, but not free at once */
} names;

static const names version_1 = {
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    {"total_inactive_file", "total_active_file", NULL},
    {"total_dirty", "total_writeback"}};
static const names version_2 = {
    "memory.max",
    "memory.current",
    {"inactive_file", "active_file", "slab_reclaimable"},
    {"file_dirty", "file_writeback"}};

static FILE *open_in(const char *dir, const char *name)
{
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

/* UINT64_MAX: there is none, or it is "max". */
static uint64_t read_number(const char *dir, const char *name)
{
    uint64_t value = UINT64_MAX;
    FILE *file = open_in(dir, name);
    if (file == NULL)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX;
    fclose(file);
    return value;
}

static bool is_one_of(const char *name, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i] != NULL && strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static uint64_t reclaimable(const char *dir, const names *v)
{
    char name[64];
    uint64_t value, clean = 0, dirty = 0;
    FILE *file = open_in(dir, "memory.stat");
    while (file != NULL && fscanf(file, "%63s %" SCNu64, name, &value) == 2) {
        clean += is_one_of(name, v->clean, 3) ? value : 0;
        dirty += is_one_of(name, v->dirty, 2) ? value : 0;
    }
    if (file != NULL)
        fclose(file);
    return clean > dirty ? clean - dirty : 0;
}

static uint64_t group_has(const char *dir, const names *v)
{
    const uint64_t max = read_number(dir, v->max);
    const uint64_t current = read_number(dir, v->current);
    if (max == UINT64_MAX || current == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t back = reclaimable(dir, v);
    const uint64_t used = current > back ? current - back : 0;
    return used < max ? max - used : 0;
}

/* The group and all above it: the tightest counts. */
static uint64_t chain_has(const char *top, const char *group, const names *v)
{
    char dir[PATH_BYTES];
    const int n = snprintf(dir, sizeof dir, "%s%s", top, group);
    uint64_t least = UINT64_MAX;
    if (n < 0 || (size_t)n >= sizeof dir)
        return UINT64_MAX;
    for (char *end = dir + n; end != NULL; end = strrchr(dir, '/')) {
        *end = '\0';
        if (strlen(dir) < strlen(top))
            break;
        const uint64_t here = group_has(dir, v);
        least = here < least ? here : least;
    }
    return least;
}

static bool has_memory(const char *controllers)
{
    const char *at = strstr(controllers, "memory");
    return at != NULL && (at == controllers || at[-1] == ',') &&
           (at[6] == '\0' || at[6] == ',');
}

/* A line is NUMBER:CONTROLLERS:GROUP; version 2 has number 0 and none. */
static uint64_t line_has(const char *line, const char *root)
{
    char controllers[GROUP_BYTES], group[GROUP_BYTES], top[PATH_BYTES];
    if (sscanf(line, "0::%511[^\n]", group) == 1)
        return chain_has(root, group, &version_2);
    if (sscanf(line, "%*u:%511[^:]:%511[^\n]", controllers, group) != 2 ||
        !has_memory(controllers))
        return UINT64_MAX;
    snprintf(top, sizeof top, "%.1000s/memory", root);
    return chain_has(top, group, &version_1);
}

uint64_t rg__cgroup_free(const char *list, const char *root)
{
    char line[2 * GROUP_BYTES];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(list, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const uint64_t here = line_has(line, root);
        least = here < least ? here : least;
    }
    if (file != NULL)
        fclose(file);
    return least;
}

/* false: the line names no group that counts. */
static bool oom_file_of(const char *line, const char *root, char *path,
                        size_t room)
{
    char controllers[GROUP_BYTES], group[GROUP_BYTES];
    if (sscanf(line, "0::%511[^\n]", group) == 1)
        snprintf(path, room, "%s%s/memory.events", root, group);
    else if (sscanf(line, "%*u:%511[^:]:%511[^\n]", controllers, group) == 2 &&
             has_memory(controllers))
        snprintf(path, room, "%s/memory%s/memory.oom_control", root, group);
    else
        return false;
    return access(path, R_OK) == 0;
}

void rg__cgroup_oom_file(const char *list, const char *root, char *path,
                         size_t room)
{
    char line[2 * GROUP_BYTES];
    bool is_found = false;
    FILE *file = fopen(list, "re");
    while (file != NULL && !is_found && fgets(line, sizeof line, file) != NULL)
        is_found = oom_file_of(line, root, path, room);
    if (file != NULL)
        fclose(file);
    if (!is_found)
        path[0] = '\0';
}

uint64_t rg__cgroup_oom_kills(const char *path)
{
    char name[64];
    uint64_t value, kills = 0;
    FILE *file = path[0] != '\0' ? fopen(path, "re") : NULL;
    while (file != NULL && fscanf(file, "%63s %" SCNu64, name, &value) == 2)
        kills = strcmp(name, "oom_kill") == 0 ? value : kills;
    if (file != NULL)
        fclose(file);
    return kills;
}
