/* A static world whose tasks were started by another launcher, such as mpirun:
 * no agent, one generation, which is there from rg_init to rg_finalize.
 *
 * The tasks exchange cards by the launcher's gather; all that follows is a
 * function of the cards, so that all tasks choose alike. Each host has a
 * control segment for native: its lowest rank makes it, and the others open it
 * by its number in that one's process. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/worker/worker.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define NAMES_MAX 64 /* bytes of REGROUP_TRANSPORTS */
#define CHECK_MAX 16 /* bytes of REGROUP_CHECK: off, late or each */

typedef struct card {
    int32_t host_leader, is_elastic;
    char transports[NAMES_MAX];
    char check[CHECK_MAX];
} card;

/* One for each task, zeroed, owned by the caller; NULL without memory. */
static void *for_tasks(int size, size_t bytes)
{
    void *all = size < 1 ? NULL : calloc((size_t)size, bytes);
    if (all == NULL)
        rg__fail(RG_ERR_MEMORY, "no memory for %d tasks", size);
    return all;
}

/* ----------------------------------------------------------------- meeting */

static rg_status fail_differs(const char *setting, const char *first,
                              const char *other, int r)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "%s is %s on rank 0 and %s on rank %d; give all ranks the "
                    "same",
                    setting, first, other, r);
}

static rg_status check_cards(const card *all, int size)
{
    for (int r = 0; r < size; r++) {
        if (all[r].is_elastic)
            return rg__fail(RG_ERR_UNSUPPORTED,
                            "rank %d asks for an elastic job (rg_params), and "
                            "a launcher such as mpirun has a static one; "
                            "start it with `regroup run`",
                            r);
        if (strcmp(all[r].transports, all[0].transports) != 0)
            return fail_differs("REGROUP_TRANSPORTS", all[0].transports,
                                all[r].transports, r);
        if (strcmp(all[r].check, all[0].check) != 0)
            return fail_differs("REGROUP_CHECK", all[0].check, all[r].check, r);
    }
    return RG_OK;
}

/* Hosts are numbered by their lowest ranks, slots by ranks. */
static void place_all(rg__worker *w, const card *all)
{
    rg__membership *m = &w->entered;
    m->host_count = 0;
    for (int r = 0; r < m->size; r++) {
        const int leader = all[r].host_leader;
        uint32_t slot = 0;
        for (int q = leader; q < r; q++)
            slot += all[q].host_leader == leader;
        if (leader == r)
            m->member[r].host = (uint64_t)++m->host_count;
        else
            m->member[r].host = m->member[leader].host;
        m->member[r].slot = slot;
        m->member[r].start = 1;
        m->local_size += leader == all[m->rank].host_leader;
    }
    m->host_index = (int)m->member[m->rank].host - 1;
    m->local_rank = (int)m->member[m->rank].slot;
    w->ctx->me = m->member[m->rank];
    w->ctx->slot = m->local_rank;
}

static bool is_plausible(const card *all, int size)
{
    for (int r = 0; r < size; r++)
        if (all[r].host_leader < 0 || all[r].host_leader > r ||
            all[all[r].host_leader].host_leader != all[r].host_leader)
            return false;
    return true;
}

static rg_status take_places(rg__worker *w, const card *all, int rank, int size)
{
    rg_status st = check_cards(all, size);
    if (st != RG_OK)
        return st;
    if (!is_plausible(all, size))
        return rg__fail(RG_ERR_SYSTEM,
                        "the tasks disagree on which task is on which host");
    w->entered = (rg__membership){.generation = 1, .rank = rank, .size = size};
    w->entered.member = for_tasks(size, sizeof *w->entered.member);
    if (w->entered.member == NULL)
        return RG_ERR_MEMORY;
    place_all(w, all);
    w->decided = (rg__decided){.generation = 1, .source = 0};
    return RG_OK;
}

static void on_ended(void *arg, const char *why)
{
    rg__worker_leave_launched(arg, why);
}

static rg_status attach_tasks(rg__worker *w,
                              const rg__library_settings *settings)
{
    rg__launched task = {0};
    rg_status st = w->launcher->attach(&task, on_ended, w);
    if (st != RG_OK)
        return st;
    card mine = {.host_leader = task.host_leader,
                 .is_elastic = w->ctx->is_elastic};
    snprintf(mine.transports, sizeof mine.transports, "%s",
             settings->transports);
    snprintf(mine.check, sizeof mine.check, "%s", settings->check);
    card *all = for_tasks(task.size, sizeof *all);
    if (all == NULL)
        return RG_ERR_MEMORY;
    st = w->launcher->gather(&mine, sizeof mine, all);
    if (st == RG_OK)
        st = take_places(w, all, task.rank, task.size);
    free(all);
    return st;
}

rg_status rg__worker_launched(rg__worker *w,
                              const rg__library_settings *settings)
{
    rg_status st = rg__worker_stay_alone(w, settings);
    if (st != RG_OK)
        return st;
    w->ctx->is_alone = false;
    if (strlen(settings->transports) >= NAMES_MAX)
        return rg__fail(RG_ERR_INVALID, "REGROUP_TRANSPORTS names too many: %s",
                        settings->transports);
    return attach_tasks(w, settings);
}

/* ---------------------------------------------------- the control segment */

typedef struct handle {
    int32_t pid, fd; /* of the host's lowest rank */
    uint64_t bytes;
} handle;

static int open_of(const handle *h)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* The lowest rank on this host. */
static int leader_of(const rg__membership *m)
{
    int r = 0;
    while (m->member[r].host != m->member[m->rank].host)
        r++;
    return r;
}

/* Have all succeeded? Collective. */
static rg_status agree(const rg__worker *w, bool *ok)
{
    const int size = w->entered.size;
    const int32_t mine = *ok;
    int32_t *all = for_tasks(size, sizeof *all);
    if (all == NULL)
        return RG_ERR_MEMORY;
    const rg_status st = w->launcher->gather(&mine, sizeof mine, all);
    for (int r = 0; r < size && st == RG_OK; r++)
        *ok = *ok && all[r] != 0;
    free(all);
    return st;
}

/* *fd_p is -1 on all ranks if one of them can't open it. */
static rg_status share_segment(const rg__worker *w, uint64_t bytes, int *fd_p)
{
    const int leader = leader_of(&w->entered);
    const bool leads = w->entered.rank == leader;
    handle *all = for_tasks(w->entered.size, sizeof *all);
    if (all == NULL)
        return RG_ERR_MEMORY;
    handle mine = {.pid = getpid(), .fd = -1, .bytes = bytes};
    int made = -1;
    if (leads && rg__shm_create("control", bytes, false, &made) == RG_OK)
        mine.fd = made;
    rg_status st = w->launcher->gather(&mine, sizeof mine, all);
    int fd = -1;
    if (st == RG_OK && all[leader].fd >= 0)
        fd = leads ? made : open_of(&all[leader]);
    bool ok = fd >= 0;
    if (st == RG_OK)
        st = agree(w, &ok);
    if (fd >= 0 && (st != RG_OK || !ok))
        close(fd);
    *fd_p = ok ? fd : -1;
    free(all);
    return st;
}

/* ------------------------------------------------------------- transports */

static rg_status enter(rg__worker *w, const rg__transport *transport, int fd,
                       uint64_t bytes, const rg__reached *reached)
{
    const rg__membership *m = &w->entered;
    rg__boot boot = {.rank = m->rank,
                     .size = m->size,
                     .local_rank = m->local_rank,
                     .local_size = m->local_size,
                     .generation = 1,
                     .member = m->member,
                     .control_fd = fd,
                     .control_bytes = bytes,
                     .mappings = rg__engine_mappings(w->ctx->engine)};
    if (reached != NULL) {
        boot.host_count = m->host_count;
        boot.place = reached->place;
        boot.address = reached->address;
        boot.listener = w->listener;
        boot.key = w->ctx->key;
        boot.broken = rg__worker_link_broken;
        boot.broken_arg = w;
    }
    return rg__sets_enter(w->ctx, transport, &boot);
}

/* All ranks enter, or none does. reached: NULL on one host. */
static rg_status enter_all(rg__worker *w, const rg__transport *transport,
                           int fd, uint64_t bytes, const rg__reached *reached,
                           bool *ok)
{
    const rg_status st = enter(w, transport, fd, bytes, reached);
    *ok = st == RG_OK;
    const rg_status agreed = agree(w, ok);
    if (st == RG_OK && (agreed != RG_OK || !*ok))
        rg__sets_leave(w->ctx, RG_ERR_INVALID, "another rank can't enter");
    return agreed;
}

static rg_status try_self(rg__worker *w, bool *ok)
{
    return w->entered.size == 1
               ? enter_all(w, &rg__transport_self, -1, 0, NULL, ok)
               : RG_OK;
}

/* From now on rg_alloc publishes segments, as others would wait for them. */
static rg_status share_registry(rg__worker *w, bool *ok)
{
    const uint64_t bytes = rg__registry_bytes(w->entered.local_size);
    int fd = -1;
    rg_status st = share_segment(w, bytes, &fd);
    if (st != RG_OK)
        return st;
    void *at = NULL;
    *ok = fd >= 0 && rg__shm_map(fd, bytes, &at) == RG_OK;
    if (fd >= 0)
        close(fd);
    if (*ok) {
        w->registry = at;
        rg__registry_take(w->registry, &w->entered);
        rg__mappings *all = rg__engine_mappings(w->ctx->engine);
        all->fetch = rg__registry_fetch;
        all->fetch_arg = w;
    }
    return agree(w, ok);
}

/* Is name in a list separated by commas? */
static bool lists(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        const size_t bytes = strcspn(at, ",");
        if (bytes == n && strncmp(at, name, n) == 0)
            return true;
        at += bytes;
    }
    return false;
}

static bool fits_native(const rg__membership *m)
{
    int most = 0;
    for (int host = 1; host <= m->host_count; host++) {
        int members = 0;
        for (int r = 0; r < m->size; r++)
            members += m->member[r].host == (uint64_t)host;
        most = members > most ? members : most;
    }
    return most <= RG__HOST_SLOTS_MAX;
}

static rg_status share_native(rg__worker *w, const rg__reached *reached,
                              bool *ok)
{
    const uint64_t bytes =
        rg__shm_control_bytes(w->entered.local_size, RG__SETS_MAX);
    int fd = -1;
    rg_status st = share_registry(w, ok);
    if (st != RG_OK || !*ok)
        return st;
    *ok = false;
    st = share_segment(w, bytes, &fd);
    if (st == RG_OK && fd >= 0)
        st = enter_all(w, &rg__transport_native, fd, bytes, reached, ok);
    if (fd >= 0)
        close(fd);
    return st;
}

/* Between hosts native uses TCP; the launcher's own transport, if allowed,
 * knows faster networks. */
static rg_status try_native(rg__worker *w, const rg__library_settings *settings,
                            bool *ok)
{
    const rg__membership *m = &w->entered;
    rg__reached reached = {NULL, NULL};
    if (!fits_native(m))
        return RG_OK;
    if (m->host_count == 1)
        return share_native(w, NULL, ok);
    if (lists(settings->transports, w->launcher->transport->name))
        return RG_OK;
    rg_status st = rg__worker_reach_hosts(w, settings->interface, &reached, ok);
    if (st == RG_OK && *ok)
        st = share_native(w, &reached, ok);
    rg__reached_free(&reached);
    return st;
}

static rg_status try_one(rg__worker *w, const char *name,
                         const rg__library_settings *settings, bool *ok)
{
    const rg__transport *own = w->launcher->transport;
    *ok = false;
    if (strcmp(name, "self") == 0)
        return try_self(w, ok);
    if (strcmp(name, "native") == 0)
        return try_native(w, settings, ok);
    if (strcmp(name, own->name) == 0)
        return enter_all(w, own, -1, 0, NULL, ok);
    return rg__fail(RG_ERR_INVALID,
                    "REGROUP_TRANSPORTS names \"%s\"; there are self, native "
                    "and %s",
                    name, own->name);
}

rg_status rg__worker_enter_launched(rg__worker *w,
                                    const rg__library_settings *settings)
{
    char names[NAMES_MAX], *rest = names;
    snprintf(names, sizeof names, "%s", settings->transports);
    for (const char *name; (name = strsep(&rest, ",")) != NULL;) {
        bool ok = false;
        const rg_status st = try_one(w, name, settings, &ok);
        if (st != RG_OK)
            return st;
        if (ok) {
            rg__log(RG__DEBUG, "worker", "transport %s carries the world",
                    name);
            return RG_OK;
        }
    }
    return rg__fail(RG_ERR_UNSUPPORTED,
                    "none of the transports %s carries a world of %d tasks on "
                    "%d hosts (REGROUP_TRANSPORTS)",
                    settings->transports, w->entered.size,
                    w->entered.host_count);
}

/* Ranks of other hosts learn of it when their connections break. */
static void on_lost(void *arg, int rank)
{
    rg__worker *w = arg;
    rg__engine *engine = w->ctx->engine;
    rg__engine_lose(engine, rank);
    if (w->entered.host_count == 1 || w->listener < 0)
        return;
    rg__engine_lock(engine);
    rg__worker_link_broken(w, rank, "its process has ended");
    rg__engine_unlock(engine);
}

void rg__worker_watch_launched(rg__worker *w)
{
    w->launcher->watch(on_lost, w);
}

void rg__worker_leave_launched(rg__worker *w, const char *why)
{
    w->launcher->watch(NULL, NULL);
    if (w->ctx->sets != NULL)
        rg__sets_leave(w->ctx, RG_ERR_INVALID, why);
}
