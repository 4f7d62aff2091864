/* The end of a generation on the device: its communicators are aborted while
 * threads of the program may be inside of NCCL, and kernels may wait for a peer
 * that is gone.
 *
 * Within an ncclGroup each ncclCommAbort only sets flags: kernels stop, and
 * calls that block return. Memory is freed at ncclGroupEnd. So:
 *
 *   mark       ncclGroupStart, ncclCommAbort of every communicator
 *   empty      no lane has a caller: no thread is inside, and a later one
 *              sees `closing`
 *   quiet      every word is written: the next generation may begin
 *   reclaim    ncclGroupEnd, meanwhile
 *
 * in this order (tests/model/device_abort.pml), on one thread, since a group is
 * a thread's own. Each generation has its own thread, so that none waits for
 * NCCL to free an earlier one. */
#include "sdk/transport/nccl/device.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"
#include "sdk/base/start_thread.h"

#define LOOK_NS (RG__MS / 5)

void rg__lane_free(rg__device *d, rg__lane *lane)
{
    if (lane == NULL)
        return;
    if (lane->stream != NULL)
        d->cuda.call.stream_destroy(lane->stream);
    pthread_mutex_destroy(&lane->lock);
    free(lane->operation);
    free(lane->record);
    free(atomic_load(&lane->counts));
    free(lane);
}

void rg__device_note_quiet(rg__device *d, uint64_t generation)
{
    if (atomic_load(&d->quiet) >= generation)
        return;
    atomic_store(&d->quiet, generation);
    pthread_cond_broadcast(&d->changed);
}

static void move_all(rg__ending *e, rg__lane_event event)
{
    pthread_mutex_lock(&e->device->table);
    for (rg__lane *lane = e->lanes; lane != NULL; lane = lane->next)
        rg__lane_move(e->device, lane, event);
    pthread_mutex_unlock(&e->device->table);
}

static void abort_comm(rg__device *d, rg__nccl_comm comm)
{
    if (comm == NULL)
        return;
    const int rc = d->nccl.call.comm_abort(comm);
    if (rc != RG__NCCL_Success && rc != RG__NCCL_InProgress)
        rg__log(RG__DEBUG, "device", "aborting a communicator failed: %s",
                d->nccl.call.error_string(rc));
}

static void mark(rg__ending *e)
{
    rg__device *d = e->device;
    rg__failpoint("device.mark", e->lanes->rank, 0, e->generation);
    d->nccl.call.group_start();
    for (rg__lane *lane = e->lanes; lane != NULL; lane = lane->next) {
        abort_comm(d, lane->comm);
        abort_comm(d, lane->parent);
    }
    move_all(e, RG__LANE_CLOSED);
}

static bool is_quiet(const rg__ending *e)
{
    for (const rg__lane *lane = e->lanes; lane != NULL; lane = lane->next)
        if (atomic_load(&lane->callers) != 0 ||
            (!rg__row_is_idle(e->device, lane->row) &&
             !atomic_load(&e->device->is_ruined)))
            return false;
    return true;
}

/* The device thread watches how long this takes. */
static void await_quiet(rg__ending *e)
{
    const uint64_t marked_ns = rg__now_ns();
    while (!is_quiet(e)) {
        rg__sleep_ns(LOOK_NS);
        rg__device_look_for_ruin(e->device);
    }
    rg__log(RG__DEBUG, "device",
            "generation %" PRIu64 " was quiet %.1f ms after its mark",
            e->generation, (double)(rg__now_ns() - marked_ns) / 1e6);
    move_all(e, RG__LANE_DONE);
    pthread_mutex_lock(&e->device->table);
    e->is_quiet = true;
    rg__device_note_quiet(e->device, e->generation);
    pthread_mutex_unlock(&e->device->table);
}

static void forget(rg__ending *e)
{
    rg__device *d = e->device;
    pthread_mutex_lock(&d->table);
    rg__ending **at = &d->ending;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->table);
}

static void *run_reclaimer(void *arg)
{
    rg__ending *e = arg;
    rg__device *d = e->device;
    pthread_setname_np(pthread_self(), "rg-reclaim");
    if (rg__device_use(d) != RG_OK)
        rg__log(RG__WARN, "device", "%s", rg_last_error());
    mark(e);
    await_quiet(e);
    d->nccl.call.group_end();
    move_all(e, RG__LANE_DONE);
    for (rg__lane *lane = e->lanes, *next; lane != NULL; lane = next) {
        next = lane->next;
        rg__lane_free(d, lane);
    }
    forget(e);
    free(e);
    return NULL;
}

/* Without a thread, or the memory for one, nothing would ever end. */
static void begin_thread(rg__ending *e)
{
    pthread_t thread;
    if (rg__start_thread(&thread, run_reclaimer, e) != 0) {
        rg__say("a thread to stop the device can't be made; this process ends, "
                "and its slot starts again");
        _Exit(RG__EXIT_DEVICE);
    }
    pthread_detach(thread);
}

static bool are_connected(const rg__lane *lane)
{
    for (; lane != NULL; lane = lane->next)
        if (!lane->was_ready)
            return false;
    return true;
}

void rg__reclaim_begin(rg__device *d)
{
    rg__ending *e = calloc(1, sizeof *e);
    if (e == NULL)
        return; /* the next look tries again */
    *e = (rg__ending){.next = d->ending,
                      .device = d,
                      .generation = d->lanes->generation,
                      .deadline_ns =
                          rg__now_ns() +
                          (uint64_t)d->params.abort_timeout_ms * RG__MS,
                      .lanes = d->lanes};
    if (are_connected(d->lanes))
        d->failures = 0;
    d->ending = e;
    d->lanes = NULL;
    d->rows = 0;
    begin_thread(e);
}
