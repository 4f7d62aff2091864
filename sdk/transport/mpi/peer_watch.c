/* The thread that watches (peer_watch.h). */
#include "sdk/transport/mpi/peer_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"
#include "sdk/base/start_thread.h"
#include "sdk/transport/mpi/mpi_parts.h"

#define LOOK_MS  100
#define DRAIN_NS (200 * RG__MS)  /* by then what it sent has arrived */
#define END_NS   (5000 * RG__MS) /* a call waits so long for the dead */

static struct watch {
    pthread_mutex_t lock; /* guards `first`, and the orders to the thread */
    pthread_t thread;
    bool is_running, wants_stop;
    int event;                  /* rung when something here has changed */
    struct pollfd *polled;      /* by rank, and then the event; owned */
    _Atomic uint64_t *ended_ns; /* by rank; 0: the process lives; owned */
    _Atomic int size;           /* of the world; 0: not known yet */
    _Atomic uint64_t any_ns;    /* when the first process ended */

    pthread_mutex_t telling; /* guards what follows and `polled`; held while
                                `lost` is called */
    void (*lost)(void *arg, int rank);
    void *arg;

    rg__wait *first;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .telling = PTHREAD_MUTEX_INITIALIZER};

static void ring(void)
{
    const uint64_t one = 1;
    if (write(watch.event, &one, sizeof one) < 0)
        rg__log(RG__DEBUG, "mpi", "eventfd: %s", strerror(errno));
}

/* ------------------------------------------------------------ calls of MPI */

static bool waits_for(const rg__wait *w, int rank)
{
    for (int i = 0; i < w->n && w->ranks != NULL; i++)
        if (w->ranks[i] == rank)
            return true;
    return w->ranks == NULL;
}

/* The first ended process that the call waits for; -1: none. */
static int find_ended(const rg__wait *w, uint64_t now)
{
    for (int r = 0; r < watch.size; r++) {
        const uint64_t at = atomic_load(&watch.ended_ns[r]);
        if (at != 0 && now - at >= END_NS && waits_for(w, r))
            return r;
    }
    return -1;
}

static void end_process(const char *call, uint64_t ms, const char *why)
{
    rg__log(RG__ERROR, "mpi",
            "%s has not returned for %llu ms%s; it can't be cancelled, so this "
            "process ends",
            call, (unsigned long long)ms, why);
    _exit(EX_TEMPFAIL);
}

static void look_at(rg__wait *w, const rg__library_settings *settings)
{
    const uint64_t now = rg__now_ns(), ms = (now - w->since_ns) / RG__MS;
    const int rank = now - w->since_ns < END_NS ? -1 : find_ended(w, now);
    char why[80];
    snprintf(why, sizeof why, ": rank %d's process has ended", rank);
    if (rank >= 0)
        end_process(w->call, ms, why);
    if (settings->op_timeout_ms != 0 && ms >= settings->op_timeout_ms)
        end_process(w->call, ms, " (REGROUP_OP_TIMEOUT)");
    if (w->is_told || settings->stall_ms == 0 || ms < settings->stall_ms)
        return;
    w->is_told = true;
    rg__log(RG__WARN, "mpi",
            "%s has not returned for %llu ms (REGROUP_STALL): another rank has "
            "not called it yet, or is gone; REGROUP_OP_TIMEOUT %s this process",
            w->call, (unsigned long long)ms,
            settings->op_timeout_ms != 0 ? "ends" : "would end");
}

void rg__watch_enter(rg__wait *wait)
{
    rg__failpoint(wait->call, rg__mpi_world_rank(), 0, 1);
    pthread_mutex_lock(&watch.lock);
    wait->since_ns = rg__now_ns();
    wait->is_told = false;
    wait->next = watch.first;
    watch.first = wait;
    if (watch.is_running)
        ring();
    pthread_mutex_unlock(&watch.lock);
}

void rg__watch_leave(rg__wait *wait)
{
    pthread_mutex_lock(&watch.lock);
    rg__wait **at = &watch.first;
    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    pthread_mutex_unlock(&watch.lock);
}

/* --------------------------------------------------------------- processes */

rg__pid rg__watch_me(void)
{
    struct stat space;
    const bool is_known = stat("/proc/self/ns/pid", &space) == 0;
    return (rg__pid){.pid = is_known ? getpid() : 0,
                     .space = is_known ? (uint64_t)space.st_ino : 0};
}

static int open_process(rg__pid of, rg__pid me)
{
    return of.pid <= 0 || of.pid == me.pid || of.space != me.space
               ? -1
               : (int)syscall(SYS_pidfd_open, of.pid, 0);
}

rg_status rg__watch_world(const rg__pid *all, int size)
{
    struct pollfd *polled = calloc((size_t)size + 1, sizeof *polled);
    _Atomic uint64_t *ended_ns = calloc((size_t)size, sizeof *ended_ns);
    if (polled == NULL || ended_ns == NULL) {
        free(polled);
        free(ended_ns);
        return rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", size);
    }
    const rg__pid me = rg__watch_me();
    for (int r = 0; r < size; r++) {
        errno = 0;
        polled[r] = (struct pollfd){open_process(all[r], me), POLLIN, 0};
        if (polled[r].fd < 0 && errno == ESRCH)
            watch.any_ns = ended_ns[r] = rg__now_ns();
    }
    polled[size] = (struct pollfd){watch.event, POLLIN, 0};
    pthread_mutex_lock(&watch.lock);
    watch.polled = polled;
    watch.ended_ns = ended_ns;
    watch.size = size;
    pthread_mutex_unlock(&watch.lock);
    ring();
    return RG_OK;
}

bool rg__watch_has_ended(int rank)
{
    const uint64_t at = rank < atomic_load(&watch.size)
                            ? atomic_load(&watch.ended_ns[rank])
                            : 0;
    return at != 0 && rg__now_ns() - at >= DRAIN_NS;
}

bool rg__watch_has_any_ended(void)
{
    return atomic_load(&watch.any_ns) != 0;
}

/* The thread may not have noticed it yet. */
static bool ends_by_now(int rank)
{
    struct pollfd process = {-1, POLLIN, 0};
    pthread_mutex_lock(&watch.telling);
    if (rank >= 0 && rank < watch.size)
        process.fd = watch.polled[rank].fd;
    const bool has_ended = process.fd >= 0
                               ? poll(&process, 1, 0) > 0
                               : rank < watch.size && rank >= 0 &&
                                     atomic_load(&watch.ended_ns[rank]) != 0;
    pthread_mutex_unlock(&watch.telling);
    return has_ended;
}

rg_status rg__watch_check(const char *what, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ends_by_now(ranks[i]))
            return rg__fail(RG_ERR_PEER_LOST,
                            "%s would wait for rank %d of the world, which is "
                            "lost: its process has ended; leave it out, or end "
                            "the job",
                            what, ranks[i]);
    return RG_OK;
}

void rg__watch_tell(void (*lost)(void *arg, int rank), void *arg)
{
    pthread_mutex_lock(&watch.telling);
    watch.lost = lost;
    watch.arg = arg;
    for (int r = 0; r < watch.size && lost != NULL; r++)
        if (atomic_load(&watch.ended_ns[r]) != 0)
            lost(arg, r);
    pthread_mutex_unlock(&watch.telling);
}

/* -------------------------------------------------------------- the thread */

static void note_ended(int rank)
{
    const uint64_t now = rg__now_ns();
    atomic_store(&watch.any_ns, now);
    pthread_mutex_lock(&watch.telling);
    close(watch.polled[rank].fd);
    watch.polled[rank].fd = -1;
    atomic_store(&watch.ended_ns[rank], now);
    if (watch.lost != NULL)
        watch.lost(watch.arg, rank);
    pthread_mutex_unlock(&watch.telling);
}

/* Wait until something happens, or a look at the calls is due. */
static void await(bool has_call)
{
    struct pollfd event = {watch.event, POLLIN, 0};
    const int size = atomic_load(&watch.size);
    struct pollfd *all = size == 0 ? &event : watch.polled;
    uint64_t count;
    if (poll(all, (nfds_t)size + 1, has_call ? LOOK_MS : -1) <= 0)
        return;
    if (all[size].revents != 0 && read(watch.event, &count, sizeof count) < 0)
        return;
    for (int r = 0; r < size; r++)
        if (all[r].revents != 0)
            note_ended(r);
}

static void *run_watch(void *arg)
{
    const rg__library_settings *settings = arg;
    pthread_setname_np(pthread_self(), "regroup-watch");
    for (bool wants_stop = false; !wants_stop;) {
        pthread_mutex_lock(&watch.lock);
        wants_stop = watch.wants_stop;
        for (rg__wait *w = watch.first; w != NULL; w = w->next)
            look_at(w, settings);
        const bool has_call = watch.first != NULL;
        pthread_mutex_unlock(&watch.lock);
        if (!wants_stop)
            await(has_call);
    }
    return NULL;
}

static rg_status start_thread(const rg__library_settings *settings)
{
    const int err =
        rg__start_thread(&watch.thread, run_watch, (void *)settings);
    return err == 0 ? RG_OK
                    : rg__fail(RG_ERR_SYSTEM,
                               "the thread that watches MPI can't be made: %s",
                               strerror(err));
}

rg_status rg__watch_start(void)
{
    const rg__library_settings *settings = NULL;
    rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    watch.wants_stop = false;
    watch.size = 0;
    watch.any_ns = 0;
    watch.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch.event < 0)
        return rg__fail(RG_ERR_SYSTEM, "eventfd failed: %s", strerror(errno));
    st = start_thread(settings);
    watch.is_running = st == RG_OK;
    if (st != RG_OK)
        close(watch.event);
    return st;
}

void rg__watch_stop(void)
{
    if (!watch.is_running)
        return;
    pthread_mutex_lock(&watch.lock);
    watch.wants_stop = true;
    watch.is_running = false;
    pthread_mutex_unlock(&watch.lock);
    ring();
    pthread_join(watch.thread, NULL);
    for (int r = 0; r < watch.size; r++)
        if (watch.polled[r].fd >= 0)
            close(watch.polled[r].fd);
    close(watch.event);
    free(watch.polled);
    free(watch.ended_ns);
    watch.polled = NULL;
    watch.ended_ns = NULL;
    watch.size = 0;
}
