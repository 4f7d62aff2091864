/* Looking up rg_alloc memory and registered buffers: a list of few segments. */
#include "sdk/transport/transport.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sdk/base/copy.h"

static bool holds(const void *begin_p, uint64_t size, const void *p,
                  uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)begin_p, at = (uintptr_t)p;
    return at >= begin && at - begin <= size && bytes <= size - (at - begin);
}

static bool is_at_home(const rg__mapping *m, const void *p, uint64_t bytes)
{
    return m->home.at != NULL && holds(m->home.at, m->home.bytes, p, bytes);
}

const rg__mapping *rg__mapping_of(const rg__mappings *all, rg__member_id owner,
                                  const void *p, uint64_t bytes)
{
    for (int i = 0; all != NULL && i < all->count; i++) {
        const rg__mapping *m = &all->item[i];
        if (rg__same_member(m->owner, owner) &&
            (holds(m->at, m->bytes, p, bytes) || is_at_home(m, p, bytes)))
            return m;
    }
    return NULL;
}

uint64_t rg__mapping_place(const rg__mapping *m, const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    return is_at_home(m, p, 0)
               ? m->home.pages_at + (at - (uintptr_t)m->home.pages)
               : at - (uintptr_t)m->at;
}

/* ---------------------------------------------------------------- homes */

/* PROCMAP_QUERY of Linux 6.11, which headers may lack. */
typedef struct area_query {
    uint64_t size, flags, at, begin, end, rights, page, offset, inode;
    uint32_t major, minor, name_bytes, build_bytes;
    uint64_t name_at, build_at;
} area_query;

#define AREA_QUERY _IOWR('f', 17, area_query)

bool rg__mapping_is_area(int maps, const void *begin, uint64_t bytes)
{
    const uintptr_t at = (uintptr_t)begin;
    area_query q = {.size = sizeof q, .at = at};
    if (maps >= 0 && ioctl(maps, AREA_QUERY, &q) == 0)
        return q.begin == at && q.end == at + bytes && q.inode != 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR,
             at, at + bytes);
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* rg__shm_map_over has made two areas of them; what the program maps later ends
 * elsewhere, or is one. */
bool rg__mapping_is_shared(int maps, const rg__home *home)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return rg__mapping_is_area(maps, home->pages, page) &&
           rg__mapping_is_area(maps, home->pages + page,
                               home->pages_bytes - page);
}

/* The edges are what is before the whole pages, and behind them. */
static void copy_edges(const rg__mapping *m, char *p, uint64_t bytes,
                       bool is_taken)
{
    const uintptr_t begin = (uintptr_t)p, end = begin + bytes;
    const uintptr_t first = (uintptr_t)m->home.pages;
    const uintptr_t last = first + m->home.pages_bytes;
    const uintptr_t edge[2][2] = {{begin, end < first ? end : first},
                                  {begin > last ? begin : last, end}};
    if (!is_at_home(m, p, bytes))
        return;
    for (int i = 0; i < 2; i++) {
        if (edge[i][0] >= edge[i][1])
            continue;
        char *here = (char *)edge[i][0];
        char *there = m->at + rg__mapping_place(m, here);
        rg__copy(is_taken ? here : there, is_taken ? there : here,
                 edge[i][1] - edge[i][0]);
    }
}

void rg__mapping_give_edges(const rg__mapping *m, const void *p, uint64_t bytes)
{
    copy_edges(m, (char *)(uintptr_t)p, bytes, false);
}

void rg__mapping_take_edges(const rg__mapping *m, void *p, uint64_t bytes)
{
    copy_edges(m, p, bytes, true);
}

/* ---------------------------------------------------------------- names */

static const rg__mapping *look_for(const rg__mappings *all, rg__member_id owner,
                                   uint32_t id)
{
    for (int i = 0; i < all->count; i++)
        if (all->item[i].id == id && rg__same_member(all->item[i].owner, owner))
            return &all->item[i];
    return NULL;
}

const rg__mapping *rg__mapping_find(const rg__mappings *all,
                                    rg__member_id owner, uint32_t id)
{
    if (all == NULL)
        return NULL;
    const rg__mapping *found = look_for(all, owner, id);
    if (found == NULL && all->fetch != NULL &&
        all->fetch(all->fetch_arg, owner, id))
        found = look_for(all, owner, id);
    return found;
}
