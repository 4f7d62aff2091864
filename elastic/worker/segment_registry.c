/* rg_alloc memory of this host's tasks in a launched world, where no agent
 * hands segments over. In a registry in shared memory, the owner of a segment
 * notes the file descriptor under which its process has it open; a rank that
 * finds the segment in an operation's descriptor opens it there. The owner
 * writes the note before any descriptor names the segment, and wipes it when it
 * frees the segment. Others unmap a segment when they next look for another
 * one. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "elastic/worker/worker.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define NOTES 256 /* segments of one worker */

typedef struct note {
    _Atomic uint32_t id; /* 0: wiped; stored last */
    int32_t fd;
    uint64_t bytes;
} note;

typedef struct notes {
    _Atomic int32_t pid;
    note note[NOTES];
} notes;

struct rg__registry {
    int size; /* workers, by local rank */
    notes of[];
};

uint64_t rg__registry_bytes(int local_size)
{
    return sizeof(rg__registry) + sizeof(notes) * (uint64_t)local_size;
}

void rg__registry_take(rg__registry *registry, const rg__membership *m)
{
    registry->size = m->local_size;
    atomic_store(&registry->of[m->local_rank].pid, getpid());
}

void rg__registry_free(rg__registry *registry)
{
    if (registry != NULL)
        rg__shm_unmap(registry, rg__registry_bytes(registry->size));
}

static note *find(rg__registry *registry, int slot, uint32_t id)
{
    for (int i = 0; i < NOTES; i++)
        if (atomic_load_explicit(&registry->of[slot].note[i].id,
                                 memory_order_acquire) == id)
            return &registry->of[slot].note[i];
    return NULL;
}

rg_status rg__registry_write(rg__worker *w, const rg__segment *s, int fd)
{
    note *at = find(w->registry, w->ctx->slot, 0);
    if (at == NULL)
        return rg__fail(RG_ERR_MEMORY,
                        "%d pieces of rg_alloc memory live already; allocate "
                        "few and large ones",
                        NOTES);
    at->fd = fd;
    at->bytes = s->bytes;
    atomic_store_explicit(&at->id, s->id, memory_order_release);
    return RG_OK;
}

void rg__registry_wipe(rg__worker *w, uint32_t id)
{
    note *at = find(w->registry, w->ctx->slot, id);
    if (at == NULL)
        return;
    const int fd = at->fd;
    atomic_store(&at->id, 0);
    close(fd);
}

/* ---------------------------------------------------------------- fetching */

static bool is_gone(rg__worker *w, const rg__mapping *m)
{
    return m->owner.slot != w->ctx->me.slot &&
           find(w->registry, (int)m->owner.slot, m->id) == NULL;
}

static void drop_gone(rg__worker *w)
{
    rg__mappings *all = rg__engine_mappings(w->ctx->engine);
    for (int i = all->count - 1; i >= 0; i--)
        if (is_gone(w, &all->item[i])) {
            rg__shm_unmap(all->item[i].at, all->item[i].bytes);
            all->item[i] = all->item[--all->count];
        }
}

static bool open_note(rg__worker *w, rg__member_id owner, const note *at)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d",
             (int)atomic_load(&w->registry->of[owner.slot].pid), at->fd);
    const rg__segment s = {
        .owner = owner, .id = atomic_load(&at->id), .bytes = at->bytes};
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const rg_status st =
        fd < 0 ? rg__fail(RG_ERR_SYSTEM, "%s can't be opened", path)
               : rg__segment_map(w->ctx, &s, fd);
    if (fd >= 0)
        close(fd);
    if (st != RG_OK)
        rg__log(RG__ERROR, "worker",
                "rg_alloc memory of slot %u can't be mapped, and what uses it "
                "will wait: %s",
                owner.slot, rg_last_error());
    return st == RG_OK;
}

bool rg__registry_fetch(void *arg, rg__member_id owner, uint32_t id)
{
    rg__worker *w = arg;
    if (owner.host != w->ctx->me.host ||
        owner.slot >= (uint32_t)w->registry->size || id == 0)
        return false;
    const note *at = find(w->registry, (int)owner.slot, id);
    if (at == NULL)
        return false;
    drop_gone(w);
    return open_note(w, owner, at);
}
