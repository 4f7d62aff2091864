/* Connecting lanes, and looking after them: what the device thread does.
 *
 * A communicator that is being made can be given up only if it does not block;
 * one that launches without a thread of its own for each launch must block. So
 * a lane has two: its parent connects to the others without blocking, under our
 * deadline, and never runs an operation; the child that operations use is split
 * from it. Only this thread creates and polls communicators; it no longer
 * touches those of a generation that it has handed to a reclaimer. */
#include "sdk/transport/nccl/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/least.h"
#include "sdk/base/log.h"

#define CONNECT_NS  (1 * RG__MS)
#define BUSY_NS     (10 * RG__MS)
#define FAILED_MOST 3 /* generations that could not be connected, in a row */

/* ------------------------------------------------------------------ states */

static const rg__lane_state machine[RG__LANE_STATES][RG__LANE_EVENTS] = {
    /*                    DONE            FAILED       CLOSED */
    [RG__LANE_BOOTING] = {RG__LANE_SPLITTING, RG__LANE_BROKEN, RG__LANE_MARKED},
    [RG__LANE_SPLITTING] = {RG__LANE_WARMING, RG__LANE_BROKEN, RG__LANE_MARKED},
    [RG__LANE_WARMING] = {RG__LANE_READY, RG__LANE_BROKEN, RG__LANE_MARKED},
    [RG__LANE_READY] = {RG__LANE_READY, RG__LANE_BROKEN, RG__LANE_MARKED},
    [RG__LANE_BROKEN] = {RG__LANE_BROKEN, RG__LANE_BROKEN, RG__LANE_MARKED},
    [RG__LANE_MARKED] = {RG__LANE_QUIET, RG__LANE_MARKED, RG__LANE_MARKED},
    [RG__LANE_QUIET] = {RG__LANE_GONE, RG__LANE_QUIET, RG__LANE_QUIET},
    [RG__LANE_GONE] = {RG__LANE_GONE, RG__LANE_GONE, RG__LANE_GONE}};

rg__lane_state rg__lane_next(rg__lane_state state, rg__lane_event event)
{
    return machine[state][event];
}

void rg__lane_move(rg__device *d, rg__lane *lane, rg__lane_event event)
{
    lane->state = rg__lane_next(lane->state, event);
    lane->was_ready = lane->was_ready || lane->state == RG__LANE_READY;
    pthread_cond_broadcast(&d->changed);
}

rg__lane *rg__lane_find(const rg__device *d, uint32_t set, uint64_t generation)
{
    for (rg__lane *lane = d->lanes; lane != NULL; lane = lane->next)
        if (lane->set == set && lane->generation == generation)
            return lane;
    return NULL;
}

/* ------------------------------------------------------------------- cards */

void rg__device_card_make(rg__device *d, bool is_first, const char *host,
                          rg__device_card *card)
{
    *card = (rg__device_card){0};
    if (d == NULL)
        return;
    const char *id = getenv("NCCL_HOSTID"); /* how NCCL tells hosts apart */
    snprintf(card->host, sizeof card->host, "%s", id != NULL ? id : host);
    snprintf(card->bus, sizeof card->bus, "%s", d->bus);
    card->version = d->nccl.version;
    if (!is_first)
        return;
    rg__nccl_id mine = {{0}};
    int rc = rg__device_use(d) == RG_OK ? d->nccl.call.unique_id(&mine) : -1;
    if (rc == RG__NCCL_Success && rg__nccl_check_environment() != RG_OK)
        rc = RG__NCCL_InvalidUsage; /* NCCL's own configuration has set it */
    memcpy(card->id, mine.bytes, sizeof card->id);
    if (rc == RG__NCCL_Success)
        return;
    card->st = RG_ERR_DEVICE;
    snprintf(card->why, sizeof card->why, "NCCL can't make a rendezvous: %s",
             rc < 0 ? rg_last_error() : d->nccl.call.last_error(NULL));
}

static rg_status fail_versions(const rg__device_card *card, int r,
                               const char *name)
{
    char here[16], there[16];
    rg__nccl_version_text(card[0].version, here);
    rg__nccl_version_text(card[r].version, there);
    return rg__fail(RG_ERR_MISMATCH,
                    "set %s: NCCL is %s on rank 0 (host %s) and %s on rank %d "
                    "(host %s); install one version on all hosts",
                    name, here, card[0].host, there, r, card[r].host);
}

static rg_status check_card(const rg__device_card *card, int r,
                            const char *name)
{
    if (card[r].version == 0)
        return rg__fail(RG_ERR_MISMATCH,
                        "set %s: rank %d has opened no device; call "
                        "rg_device_open on all workers, or on none",
                        name, r);
    if (card[r].st != RG_OK)
        return rg__fail((rg_status)card[r].st, "set %s: rank %d: %.127s", name,
                        r, card[r].why);
    if (card[r].version != card[0].version)
        return fail_versions(card, r, name);
    for (int k = 0; k < r; k++)
        if (strcmp(card[k].bus, card[r].bus) == 0 &&
            strcmp(card[k].host, card[r].host) == 0)
            return rg__fail(RG_ERR_INVALID,
                            "set %s: ranks %d and %d both use GPU %s of host "
                            "%s; give each slot its own (--slots, "
                            "CUDA_VISIBLE_DEVICES, cudaSetDevice)",
                            name, k, r, card[r].bus, card[r].host);
    return RG_OK;
}

rg_status rg__device_cards_check(const rg__device_card *card, int n,
                                 const char *name)
{
    for (int r = 0; r < n; r++) {
        const rg_status st = check_card(card, r, name);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

/* --------------------------------------------------------------- connecting */

/* The lane's opener reports this, once. */
static void fail_lane(rg__device *d, rg__lane *lane, const char *doing, int rc)
{
    const char *text = d->nccl.call.error_string(rc);
    pthread_mutex_lock(&d->table);
    if (rc == RG__NCCL_InProgress)
        snprintf(lane->why, sizeof lane->why,
                 "set %s: NCCL did not finish %s within %d ms; look at the "
                 "network between the hosts (NCCL_SOCKET_IFNAME, "
                 "NCCL_DEBUG=INFO)",
                 lane->name, doing, d->params.init_timeout_ms);
    else
        snprintf(lane->why, sizeof lane->why, "set %s: NCCL failed in %s: %s",
                 lane->name, doing, text);
    rg__lane_move(d, lane, RG__LANE_FAILED);
    pthread_mutex_unlock(&d->table);
}

static void pass_lane(rg__device *d, rg__lane *lane)
{
    pthread_mutex_lock(&d->table);
    rg__lane_move(d, lane, RG__LANE_DONE);
    pthread_mutex_unlock(&d->table);
}

static int boot(rg__device *d, rg__lane *lane)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    config.blocking = 0;
    if (d->params.max_ctas > 0)
        config.max_ctas = d->params.max_ctas;
    rg__failpoint("device.boot", lane->rank, 0, lane->generation);
    return d->nccl.call.comm_init(&lane->parent, lane->n, lane->id, lane->rank,
                                  &config);
}

static int split(rg__device *d, rg__lane *lane)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    config.blocking = 1;
    config.split_share = 0;
    if (d->params.max_ctas > 0)
        config.max_ctas = d->params.max_ctas;
    rg__failpoint("device.split", lane->rank, 0, lane->generation);
    return d->nccl.call.comm_split(lane->parent, 0, lane->rank, &lane->comm,
                                   &config);
}

/* Has the parent finished what it is doing, its rendezvous or the split? */
static int ask(rg__device *d, rg__lane *lane)
{
    int result = RG__NCCL_Success;
    const int rc = d->nccl.call.comm_error(lane->parent, &result);
    return rc == RG__NCCL_Success ? result : rc;
}

static bool goes_on(int rc)
{
    return rc == RG__NCCL_Success || rc == RG__NCCL_InProgress;
}

static uint64_t deadline_of(const rg__device *d)
{
    return rg__now_ns() + (uint64_t)d->params.init_timeout_ms * RG__MS;
}

static void connect_lane(rg__device *d, rg__lane *lane)
{
    const bool is_booting = lane->state == RG__LANE_BOOTING;
    const char *doing = is_booting ? "connecting to the other ranks"
                                   : "making the communicator";
    int rc = RG__NCCL_Success;
    if (lane->parent == NULL)
        rc = boot(d, lane);
    if (goes_on(rc))
        rc = ask(d, lane);
    if (rc == RG__NCCL_Success && is_booting) {
        pass_lane(d, lane);
        rc = split(d, lane);
        doing = "making the communicator";
        if (goes_on(rc))
            return;
    }
    if (rc == RG__NCCL_Success) {
        lane->deadline_ns = deadline_of(d);
        pass_lane(d, lane);
    } else if (!goes_on(rc) || rg__now_ns() >= lane->deadline_ns)
        fail_lane(d, lane, doing, rc);
}

/* ------------------------------------------------------------ looking after */

/* A connection that broke, as NCCL reports it: a bonus, since NCCL reports
 * nothing over NVLink and shared memory. */
static void look_for_error(rg__device *d, rg__lane *lane)
{
    int result = RG__NCCL_Success;
    if (lane->comm == NULL ||
        d->nccl.call.comm_error(lane->comm, &result) != RG__NCCL_Success ||
        goes_on(result))
        return;
    const char *text = d->nccl.call.error_string(result);
    pthread_mutex_lock(&d->table);
    snprintf(lane->why, sizeof lane->why,
             "set %s: NCCL failed in an operation: %s", lane->name, text);
    rg__lane_move(d, lane, RG__LANE_FAILED);
    pthread_mutex_unlock(&d->table);
    d->broken(d->arg, lane->generation, lane->why);
}

/* Others wait for this rank, which must leave the generation. */
static void look_for_ruin(rg__device *d, uint64_t generation)
{
    char why[RG__TEXT_MAX];
    if (rg__device_look_for_ruin(d) == RG_OK)
        return;
    snprintf(why, sizeof why, "%s", rg_last_error());
    rg__device_close(d, generation, RG_ERR_DEVICE, why);
    d->broken(d->arg, generation, why);
}

static void look_for_deadline(rg__device *d, rg__lane *lane)
{
    char why[RG__TEXT_MAX];
    if (!rg__lane_is_overdue(d, lane, why, sizeof why))
        return;
    pthread_mutex_lock(&d->table);
    snprintf(lane->why, sizeof lane->why, "%s", why);
    rg__lane_move(d, lane, RG__LANE_FAILED);
    pthread_mutex_unlock(&d->table);
    d->broken(d->arg, lane->generation, why);
}

/* Its caller may be inside NCCL, waiting for other ranks. */
static void look_for_warmth(rg__device *d, rg__lane *lane)
{
    pthread_mutex_lock(&d->table);
    const bool is_late =
        lane->state == RG__LANE_WARMING && rg__now_ns() >= lane->deadline_ns;
    if (is_late) {
        snprintf(lane->why, sizeof lane->why,
                 "set %s: its first operation on the device did not end within "
                 "%d ms; look at the network between the hosts "
                 "(NCCL_DEBUG=INFO)",
                 lane->name, d->params.init_timeout_ms);
        rg__lane_move(d, lane, RG__LANE_FAILED);
        d->failures++;
    }
    pthread_mutex_unlock(&d->table);
    if (is_late)
        d->broken(d->arg, lane->generation, lane->why);
}

static uint64_t look_after(rg__device *d, rg__lane *lane, bool *is_stalled_p)
{
    if (lane->state == RG__LANE_BOOTING || lane->state == RG__LANE_SPLITTING) {
        connect_lane(d, lane);
        return CONNECT_NS;
    }
    if (lane->state == RG__LANE_WARMING) {
        look_for_warmth(d, lane);
        return BUSY_NS;
    }
    if (lane->state != RG__LANE_READY ||
        (rg__row_is_idle(d, lane->row) && atomic_load(&lane->inside) == 0))
        return RG__DEVICE_IDLE_NS;
    look_for_error(d, lane);
    look_for_deadline(d, lane);
    atomic_store(&lane->is_stalled, rg__lane_is_stalled(d, lane));
    *is_stalled_p = *is_stalled_p || atomic_load(&lane->is_stalled);
    return BUSY_NS;
}

static void watch_endings(rg__device *d, uint64_t *wait)
{
    pthread_mutex_lock(&d->table);
    for (rg__ending *e = d->ending; e != NULL; e = e->next) {
        *wait = rg__least(*wait, BUSY_NS);
        if (rg__now_ns() < e->deadline_ns)
            continue;
        rg__say("the device has not stopped %d ms after generation %" PRIu64
                " ended; this process ends, and its slot starts again",
                d->params.abort_timeout_ms, e->generation);
        _Exit(RG__EXIT_DEVICE);
    }
    pthread_mutex_unlock(&d->table);
}

/* The table is held. One without lanes is quiet when earlier ones are. */
static bool is_quiet(const rg__device *d)
{
    for (const rg__ending *e = d->ending; e != NULL; e = e->next)
        if (!e->is_quiet)
            return false;
    return d->lanes == NULL && atomic_load(&d->closing) >= d->entered;
}

/* Others add lanes at the list's head; only this thread takes lanes off. */
uint64_t rg__lanes_step(rg__device *d)
{
    uint64_t wait = RG__DEVICE_IDLE_NS;
    bool is_stalled = false;
    pthread_mutex_lock(&d->table);
    rg__lane *lanes = d->lanes;
    const bool is_over =
        lanes != NULL && rg__device_is_closed(d, lanes->generation);
    if (is_over)
        rg__reclaim_begin(d);
    else if (is_quiet(d))
        rg__device_note_quiet(d, d->entered);
    pthread_mutex_unlock(&d->table);
    if (!is_over && lanes != NULL)
        look_for_ruin(d, lanes->generation);
    for (rg__lane *lane = is_over ? NULL : lanes; lane != NULL;
         lane = lane->next)
        wait = rg__least(wait, look_after(d, lane, &is_stalled));
    watch_endings(d, &wait);
    if (!is_over && lanes != NULL && d->stall_ns != 0)
        d->look(d->arg, is_stalled);
    return wait;
}

/* ------------------------------------------------------------------ opening */

static rg__lane *make_lane(rg__device *d, const rg__lane_config *config)
{
    rg__lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->operation =
        calloc((size_t)d->params.in_flight, sizeof *lane->operation);
    lane->record = calloc(rg__history_room(d), sizeof *lane->record);
    pthread_mutex_init(&lane->lock, NULL);
    lane->set = config->set;
    lane->generation = config->generation;
    lane->n = config->n;
    lane->rank = config->rank;
    lane->state = config->n == 1 ? RG__LANE_READY : RG__LANE_BOOTING;
    lane->was_ready = config->n == 1;
    lane->deadline_ns = deadline_of(d);
    snprintf(lane->name, sizeof lane->name, "%s", config->name);
    if (config->first != NULL)
        memcpy(lane->id.bytes, config->first->id, sizeof lane->id.bytes);
    if (lane->operation != NULL && lane->record != NULL &&
        d->cuda.call.stream_create(&lane->stream, RG__CU_STREAM_NON_BLOCKING,
                                   0) == RG__CU_SUCCESS)
        return lane;
    rg__lane_free(d, lane);
    return NULL;
}

/* OK: it is in the list, and the device thread connects it. */
static rg_status add_lane(rg__device *d, rg__lane *lane)
{
    rg_status st = RG_OK;
    pthread_mutex_lock(&d->table);
    if (rg__device_is_closed(d, lane->generation))
        st = rg__fail(d->close_st, "%s", d->close_why);
    else if (d->entered != lane->generation)
        st = rg__fail(RG_ERR_INVALID,
                      "set %s: generation %" PRIu64
                      " has not begun on the device yet",
                      lane->name, lane->generation);
    else if (d->rows == RG__LANES)
        st =
            rg__fail(RG_ERR_MEMORY,
                     "set %s is one too many for device memory: %d were "
                     "connected in this generation, including those given back",
                     lane->name, RG__LANES);
    if (st == RG_OK) {
        lane->row = d->rows++;
        lane->next = d->lanes;
        d->lanes = lane;
    }
    pthread_mutex_unlock(&d->table);
    if (st == RG_OK)
        rg__device_ring(d);
    return st;
}

/* Wait until the device thread has connected the lane as far as it does. A lane
 * exists as long as its generation is not closed. */
static rg__lane_state await_lane(rg__device *d, const rg__lane *lane,
                                 uint64_t generation, char why[RG__TEXT_MAX])
{
    rg__lane_state state = RG__LANE_MARKED;
    pthread_mutex_lock(&d->table);
    while (
        !rg__device_is_closed(d, generation) &&
        (lane->state == RG__LANE_BOOTING || lane->state == RG__LANE_SPLITTING))
        pthread_cond_wait(&d->changed, &d->table);
    if (!rg__device_is_closed(d, generation)) {
        state = lane->state;
        snprintf(why, RG__TEXT_MAX, "%s", lane->why);
    }
    pthread_mutex_unlock(&d->table);
    return state;
}

/* A network that has failed may be better in the next generation; one that has
 * failed again and again is not. */
static bool has_failed_often(rg__device *d)
{
    pthread_mutex_lock(&d->table);
    const bool has = d->failures >= FAILED_MOST;
    pthread_mutex_unlock(&d->table);
    return has;
}

static rg_status fail_often(const char *why)
{
    return rg__fail(RG_ERR_DEVICE, "%d times in a row: %s", FAILED_MOST, why);
}

static rg_status give_up(rg__device *d, uint64_t generation, const char *why)
{
    pthread_mutex_lock(&d->table);
    d->failures++;
    pthread_mutex_unlock(&d->table);
    if (has_failed_often(d))
        return fail_often(why);
    d->broken(d->arg, generation, why);
    return rg__fail(RG_ERR_PEER_LOST,
                    "the generation ends: %s; return this status from fn", why);
}

/* The first operation connects the members: otherwise one of fn's would, and
 * could wait there for a member that waits in another set. The device thread
 * ends it when it takes too long. */
static rg_status warm(rg__device *d, const rg__lane_config *config)
{
    const rg__launch launch = {.coll = {.kind = RG__BARRIER},
                               .stream = RG_STREAM_NONE};
    rg__ticket ticket;
    rg__failpoint("device.warm", config->rank, 0, config->generation);
    rg_status st = rg__lane_launch(d, config->set, config->generation, &launch,
                                   1, &ticket);
    if (st == RG_OK)
        st = rg__ticket_wait(d, &ticket, UINT64_MAX);
    if (st == RG_OK || !has_failed_often(d))
        return st;
    return fail_often(rg_last_error());
}

static rg_status finish_warming(rg__device *d, const rg__lane_config *config)
{
    rg_status st = warm(d, config);
    if (st != RG_OK)
        return st;
    pthread_mutex_lock(&d->table);
    rg__lane *lane = rg__lane_find(d, config->set, config->generation);
    if (lane != NULL)
        rg__lane_move(d, lane, RG__LANE_DONE);
    pthread_mutex_unlock(&d->table);
    return st;
}

rg_status rg__lane_open(rg__device *d, const rg__lane_config *config)
{
    rg_status st = rg__device_use(d);
    if (st != RG_OK)
        return st;
    rg__lane *lane = make_lane(d, config);
    if (lane == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a communicator");
    st = add_lane(d, lane);
    if (st != RG_OK) {
        rg__lane_free(d, lane);
        return st;
    }
    char why[RG__TEXT_MAX] = "";
    switch (await_lane(d, lane, config->generation, why)) {
    case RG__LANE_READY:
        return RG_OK;
    case RG__LANE_WARMING:
        return finish_warming(d, config);
    case RG__LANE_BROKEN:
        return give_up(d, config->generation, why);
    default:
        return rg__device_check(d, config->generation);
    }
}

bool rg__lane_is_open(rg__device *d, uint32_t set, uint64_t generation)
{
    pthread_mutex_lock(&d->table);
    const rg__lane *lane = rg__lane_find(d, set, generation);
    const bool is_open = lane != NULL && lane->state == RG__LANE_READY;
    pthread_mutex_unlock(&d->table);
    return is_open;
}
