/* Building comms: the mapped segment, its members and their mailboxes. */
#include "sdk/transport/native/native.h"
#include "sdk/transport/inter/inter.h"
#include "sdk/transport/inter/schedule.h"
#include "sdk/transport/shm/pairwise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/proof.h"
#include "sdk/base/shm.h"

static void close_shared(rg__shared *sh)
{
    if (sh == NULL)
        return;
    rg__messages_destroy(sh->messages);
    rg__net_close(sh->net); /* its thread rings a bell in the segment */
    rg__shm_unmap(sh->at, sh->layout.verdicts + sh->layout.area);
    if (sh->fd >= 0)
        close(sh->fd);
    free(sh->member);
    free(sh->host);
    free(sh->local_rank);
    free(sh->tenant);
    free(sh);
}

static bool spans_hosts(const rg__boot *boot)
{
    return boot->host_count > 1;
}

static uint32_t places_of(const rg__boot *boot)
{
    return boot->sets > 0 ? boot->sets : RG__SETS_MAX;
}

static rg_status check_places(const rg__boot *boot)
{
    int local = 0;
    for (int r = 0; r < boot->size; r++) {
        if (boot->place[r].host >= (uint32_t)boot->host_count)
            return rg__fail(RG_ERR_INVALID, "rank %d is on host %u of %d", r,
                            boot->place[r].host, boot->host_count);
        if (boot->place[r].host == boot->place[boot->rank].host) {
            if (r == boot->rank && local != boot->local_rank)
                break;
            local++;
        }
    }
    if (local != boot->local_size)
        return rg__fail(RG_ERR_INVALID,
                        "rank %d can't be worker %d of the %d on its host",
                        boot->rank, boot->local_rank + 1, boot->local_size);
    return RG_OK;
}

static rg_status check_boot(const rg__boot *boot)
{
    if (!spans_hosts(boot) && boot->local_size != boot->size)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "transport native reaches the %d workers of this host, "
                        "but the world has %d, and no other host is named",
                        boot->local_size, boot->size);
    if (boot->size < 1 || boot->local_size < 1 ||
        boot->local_size > RG__HOST_SLOTS_MAX || boot->rank < 0 ||
        boot->rank >= boot->size || boot->local_rank < 0 ||
        boot->local_rank >= boot->local_size)
        return rg__fail(RG_ERR_INVALID,
                        "transport native can't be rank %d of %d", boot->rank,
                        boot->size);
    const rg_status st = spans_hosts(boot) ? check_places(boot) : RG_OK;
    if (st != RG_OK)
        return st;
    const uint64_t needed =
        rg__shm_control_bytes(boot->local_size, places_of(boot));
    if (boot->control_bytes < needed)
        return rg__fail(RG_ERR_INVALID,
                        "the control segment has %llu bytes, and %llu are "
                        "needed for %d workers",
                        (unsigned long long)boot->control_bytes,
                        (unsigned long long)needed, boot->local_size);
    return RG_OK;
}

/* Memory before the staging slots is used sparsely: no huge pages there. */
static rg_status map(const rg__shared *sh, int fd, uint64_t place,
                     uint64_t bytes, char **at_p)
{
    void *at = NULL;
    const rg_status st = rg__shm_map_at(fd, place, bytes, &at);
    if (st != RG_OK)
        return st;
    const uint64_t to_staging = sh->layout.staging - sh->layout.verdicts;
    madvise(at, bytes - sh->layout.area + to_staging, MADV_NOHUGEPAGE);
    *at_p = at;
    return RG_OK;
}

/* Maps the world's area only; sets map theirs when they open. */
static rg_status map_shared(rg__shared *sh, int fd)
{
    if (sh->sets > 1)
        sh->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (sh->sets > 1 && sh->fd < 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "no descriptor for the control segment: %s; raise "
                        "ulimit -n",
                        strerror(errno));
    return map(sh, fd, 0, sh->layout.verdicts + sh->layout.area, &sh->at);
}

static rg_status map_area(rg__native *c)
{
    const rg__layout *l = &c->shared->layout;
    if (c->id == 0) {
        c->area = c->shared->at + l->verdicts;
        return RG_OK;
    }
    const uint64_t place = l->verdicts + c->id % c->shared->sets * l->area;
    return map(c->shared, c->shared->fd, place, l->area, &c->area);
}

static _Atomic uint32_t *left_of(const rg__shared *sh, uint32_t place,
                                 int local_rank)
{
    return (_Atomic uint32_t *)(void *)(sh->at + sh->layout.left) +
           (size_t)place * (size_t)sh->local_size + local_rank;
}

/* Tell the others that this process no longer reads that area. */
static void tell_left(const rg__shared *sh, uint32_t id)
{
    atomic_store_explicit(left_of(sh, id % sh->sets, sh->local_rank[sh->rank]),
                          id, memory_order_release);
}

static void leave_area(rg__native *c)
{
    rg__shared *sh = c->shared;
    if (c->id == 0 || c->area == NULL)
        return;
    rg__shm_unmap(c->area, sh->layout.area);
    rg__tenant t = {.id = c->id};
    for (int m = 0; m < c->n && c->member != NULL; m++)
        t.member |= UINT64_C(1) << sh->local_rank[c->member[m].rank];
    sh->tenant[c->id % sh->sets] = t;
    tell_left(sh, c->id);
}

bool rg__native_is_vacant(rg__comm *world, uint32_t place)
{
    const rg__shared *sh = ((rg__native *)world)->shared;
    const rg__tenant *t = &sh->tenant[place];
    for (int m = 0; m < sh->local_size && t->id != 0; m++)
        if ((t->member >> m & 1) != 0 &&
            atomic_load_explicit(left_of(sh, place, m), memory_order_acquire) <
                t->id)
            return false;
    return true;
}

static rg_status note_members(rg__shared *sh, const rg__boot *boot)
{
    const size_t n = (size_t)sh->size;
    sh->member = malloc(n * sizeof *sh->member);
    sh->host = calloc(n, sizeof *sh->host);
    sh->local_rank = calloc(n, sizeof *sh->local_rank);
    sh->tenant = calloc(sh->sets, sizeof *sh->tenant);
    if (sh->member == NULL || sh->host == NULL || sh->local_rank == NULL ||
        sh->tenant == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    memcpy(sh->member, boot->member, n * sizeof *sh->member);
    int local = 0;
    for (int r = 0; r < sh->size; r++) {
        sh->host[r] = spans_hosts(boot) ? boot->place[r].host : 0;
        if (!spans_hosts(boot) || sh->host[r] == boot->place[sh->rank].host)
            sh->local_rank[r] = local++;
    }
    return RG_OK;
}

static rg__bell *bell_of(const rg__shared *sh, int rank)
{
    return &rg__shm_bell_line(sh, rank)->bell;
}

static rg_status open_shared(const rg__boot *boot, rg__shared **shared_p)
{
    const rg__library_settings *settings;
    rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    rg__shared *sh = calloc(1, sizeof *sh);
    if (sh == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    sh->fd = -1;
    sh->sets = places_of(boot);
    sh->layout = rg__shm_layout(boot->local_size, sh->sets);
    sh->rank = boot->rank;
    sh->size = boot->size;
    sh->local_size = boot->local_size;
    sh->mappings = boot->mappings;
    if (rg__random_bytes(&sh->proof, sizeof sh->proof) == RG_OK &&
        boot->local_size <= sysconf(_SC_NPROCESSORS_ONLN))
        sh->pid = (uint32_t)getpid();
    sh->read_min = settings->read_min;
    st = note_members(sh, boot);
    if (st == RG_OK)
        st = map_shared(sh, boot->control_fd);
    if (st == RG_OK && spans_hosts(boot))
        st = rg__net_open(boot, bell_of(sh, sh->rank), &sh->net);
    if (st == RG_OK && sh->sets > 1)
        st = rg__native_open_lanes(sh);
    if (st != RG_OK) {
        close_shared(sh);
        return st;
    }
    *shared_p = sh;
    return RG_OK;
}

/* m counts the members on this host. */
static void place_member(const rg__native *c, int m, int rank)
{
    const rg__shared *sh = c->shared;
    const rg__layout *l = &sh->layout;
    const uint64_t index = (uint64_t)sh->local_rank[rank], from = l->verdicts;
    c->member[m] = (rg__local){
        .rank = rank,
        .mailbox =
            (rg__mailbox *)(void *)(c->area + (l->mailboxes - from)) + index,
        .small = c->area + (l->small - from) + index * 2 * SMALL_BYTES,
        .medium = c->area + (l->medium - from) + index * 2 * MEDIUM_BYTES,
        .staging = c->area + (l->staging - from) + index * STAGES * STAGE_BYTES,
        .bell = bell_of(sh, rank)};
}

static void close_comm(rg__native *c)
{
    if (c == NULL)
        return;
    rg__pairwise_free(c);
    rg__schedule_free(c);
    rg__inter_close(c);
    leave_area(c);
    free(c->member);
    free(c->posting);
    rg__slip_clear(&c->slip);
    free(c);
}

static rg_status check_ranks(const rg__shared *sh, const int *ranks, int n,
                             uint32_t id)
{
    bool is_member = false;
    for (int m = 0; m < n; m++) {
        if (ranks[m] < 0 || ranks[m] >= sh->size)
            return rg__fail(RG_ERR_INVALID, "a set has rank %d of %d", ranks[m],
                            sh->size);
        is_member |= ranks[m] == sh->rank;
    }
    if (!is_member)
        return rg__fail(RG_ERR_INVALID, "set %u is without this rank", id);
    return RG_OK;
}

static rg_status place_members(rg__native *c, const rg__topology *s,
                               const int *ranks)
{
    c->n = rg__topology_size(s, s->host);
    c->member = calloc((size_t)c->n, sizeof *c->member);
    c->posting = calloc((size_t)c->n, sizeof *c->posting);
    if (c->member == NULL || c->posting == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    for (int k = 0; k < c->n; k++) {
        const int m = rg__topology_member(s, s->host, k);
        place_member(c, k, ranks[m]);
        if (ranks[m] == c->shared->rank) {
            c->set_rank = m;
            c->rank = k;
        }
    }
    return RG_OK;
}

static rg_status open_comm(rg__shared *sh, const int *ranks, int n, uint32_t id,
                           rg__native **c_p)
{
    rg_status st = check_ranks(sh, ranks, n, id);
    if (st != RG_OK)
        return st;
    rg__native *c = calloc(1, sizeof *c);
    if (c == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    c->base.transport = &rg__transport_native;
    c->shared = sh;
    c->id = id;
    c->set_n = n;
    rg__topology s = {0};
    st = rg__topology_make(&s, ranks, n, sh->host, sh->rank);
    if (st == RG_OK)
        st = map_area(c);
    if (st == RG_OK)
        st = place_members(c, &s, ranks);
    if (st == RG_OK && s.hosts > 1)
        st = rg__inter_open(c, &s, ranks);
    rg__topology_clear(&s);
    if (st != RG_OK) {
        close_comm(c);
        return st;
    }
    *c_p = c;
    return RG_OK;
}

static rg_status open_world(rg__shared *sh, rg__native **c_p)
{
    int *ranks = malloc((size_t)sh->size * sizeof *ranks);
    if (ranks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    for (int r = 0; r < sh->size; r++)
        ranks[r] = r;
    const rg_status st = open_comm(sh, ranks, sh->size, 0, c_p);
    free(ranks);
    return st;
}

rg_status rg__native_open(const rg__boot *boot, rg__comm **comm_p)
{
    rg_status st = check_boot(boot);
    if (st != RG_OK)
        return st;
    rg__shared *sh = NULL;
    rg__native *c = NULL;
    st = open_shared(boot, &sh);
    if (st == RG_OK)
        st = open_world(sh, &c);
    if (st != RG_OK) {
        close_shared(sh);
        return st;
    }
    *comm_p = &c->base;
    return RG_OK;
}

rg_status rg__native_split(rg__comm *world, const int *ranks, int n,
                           uint32_t id, rg__comm **comm_p)
{
    rg__native *w = (rg__native *)world, *c = NULL;
    if (n < 1 || n > w->set_n || id % w->shared->sets == 0)
        return rg__fail(RG_ERR_INVALID, "no set %u of %d ranks can be opened",
                        id, n);
    const rg_status st = open_comm(w->shared, ranks, n, id, &c);
    if (st == RG_OK)
        *comm_p = &c->base;
    else
        tell_left(w->shared, id); /* others may have opened it, and wait */
    return st;
}

void rg__native_close(rg__comm *base)
{
    rg__native *c = (rg__native *)base;
    rg__shared *sh = c->id == 0 ? c->shared : NULL;
    close_comm(c);
    close_shared(sh);
}

rg_status rg__native_open_alone(int rank, int n, int fd, rg__comm **comm_p)
{
    static const rg__mappings none;
    rg__member_id member[RG__HOST_SLOTS_MAX];
    for (int r = 0; r < n; r++)
        member[r] = (rg__member_id){.slot = (uint32_t)r, .start = 1};
    const rg__boot boot = {.rank = rank,
                           .size = n,
                           .local_rank = rank,
                           .local_size = n,
                           .generation = 1,
                           .member = member,
                           .control_fd = fd,
                           .control_bytes = rg__shm_control_bytes(n, 1),
                           .sets = 1,
                           .mappings = &none};
    return rg__native_open(&boot, comm_p);
}
