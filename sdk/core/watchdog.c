/* Operations that take too long: how they are reported, and their deadlines.
 *
 * A waiting thread checks before it sleeps, a few times a second; a thread that
 * does not wait pays nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/core/engine_parts.h"
#include "sdk/transport/names.h"

#define LOOK_NS     (5 * RG__MS)
#define RANKS_SHOWN 24
#define LEFT_NS     (500 * RG__MS) /* by then a change of membership is over */
#define LOST_NS     (20 * RG__MS)

void rg__watchdog_configure(rg__engine *e)
{
    const rg__library_settings *settings = NULL;
    if (rg__library_settings_get(&settings) != RG_OK)
        return;
    e->stall_ns = settings->stall_ms * RG__MS;
    e->timeout_ms = settings->op_timeout_ms;
}

void rg__deadline_set_in(rg_req *req, int timeout_ms)
{
    req->timeout_ms =
        timeout_ms > 0 ? (uint64_t)timeout_ms : req->engine->timeout_ms;
    req->deadline_ns = rg__now_ns() + req->timeout_ms * RG__MS;
}

void rg__deadline_restart(rg_req *req)
{
    if (req->deadline_ns != 0)
        req->deadline_ns = rg__now_ns() + req->timeout_ms * RG__MS;
}

/* ", waiting for its ranks 1,3": the ranks that the comm names for the first
 * operation, if it can; ".." stands for those that don't fit. */
static void list_awaited(const rg__channel *ch, char *text, size_t room)
{
    int rank[RANKS_SHOWN];
    text[0] = '\0';
    if (!ch->has_begun || ch->comm == NULL ||
        ch->comm->transport->awaited == NULL)
        return;
    const int n = ch->comm->transport->awaited(ch->comm, rank, RANKS_SHOWN);
    size_t used = 0;
    int i = 0;
    for (; i < n && used + 15 < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%d",
                                 i > 0    ? ","
                                 : n == 1 ? ", waiting for its rank "
                                          : ", waiting for its ranks ",
                                 rank[i]);
    if (i < n || n == RANKS_SHOWN)
        snprintf(text + used, room - used, "..");
}

typedef struct set_words {
    char text[48];
} set_words;

/* "the world", or "set NAME". */
static set_words words_of(const rg__channel *ch)
{
    set_words w;
    if (strcmp(ch->name, "world") == 0)
        snprintf(w.text, sizeof w.text, "the world");
    else
        snprintf(w.text, sizeof w.text, "set %s", ch->name);
    return w;
}

/* "allreduce of 5 elements", or the call that it belongs to. */
static void name_of(const rg_req *req, char *text, size_t room)
{
    const rg__coll *o = &req->coll;
    if (req->message != NULL)
        rg__message_words(req, text, room);
    else if (o->what != NULL)
        snprintf(text, room, "%s", o->what);
    else if (o->kind == RG__BARRIER || o->kind == RG__JOIN)
        snprintf(text, room, "%s", rg__kind_name(o->kind));
    else
        snprintf(text, room, "%s of %" PRIu64 " elements",
                 rg__kind_name(o->kind), o->count);
}

/* The whole sentence fits into an agent's reason (RG__CAUSE_MAX). */
static void describe(const rg__channel *ch, const rg_req *req, uint64_t ms,
                     char *text, size_t room)
{
    char name[64], ranks[72], before[40] = "";
    name_of(req, name, sizeof name);
    ranks[0] = '\0';
    if (req->message == NULL)
        list_awaited(ch, ranks, sizeof ranks);
    if (req->message == NULL && req != ch->head)
        snprintf(before, sizeof before, ", after the set's %s",
                 rg__kind_name(ch->head->coll.kind));
    const bool says_more = ranks[0] != '\0' && req->coll.absent != NULL;
    snprintf(text, room, "%s on %s for %" PRIu64 " ms%s%s%s%s", name,
             words_of(ch).text, ms, before, ranks, says_more ? ", which " : "",
             says_more ? req->coll.absent : "");
}

/* Reports each operation at the head of its set once. */
static void look_for_stall(const rg__channel *ch, rg_req *req, uint64_t now)
{
    char text[300];
    if (req->since_ns == 0)
        req->since_ns = now;
    if (ch->engine->stall_ns == 0 || req->is_told ||
        now - req->since_ns < ch->engine->stall_ns)
        return;
    req->is_told = true;
    describe(ch, req, (now - req->since_ns) / RG__MS, text, sizeof text);
    rg__log(RG__WARN, "set", "stalled: %s", text);
}

/* The first request on the list whose deadline has passed. */
static rg_req *find_overdue(rg_req *first, uint64_t now)
{
    for (rg_req *req = first; req != NULL; req = req->next)
        if (req->deadline_ns != 0 && req->deadline_ns <= now)
            return req;
    return NULL;
}

/* Asks the agent once to end each generation. */
static bool ask_to_end(rg__engine *e, const char *why)
{
    const uint64_t generation = atomic_load(&e->generation);
    if (e->overdue_fn != NULL && e->overdue_generation != generation &&
        e->overdue_fn(e->overdue_arg, generation, why)) {
        e->overdue_generation = generation;
        snprintf(e->overdue_why, sizeof e->overdue_why, "%s", why);
    }
    return e->overdue_generation == generation;
}

static void give_up(rg__channel *ch, const rg_req *req, uint64_t now)
{
    char text[300];
    describe(ch, req, req->timeout_ms + (now - req->deadline_ns) / RG__MS, text,
             sizeof text);
    rg__fail(RG_ERR_TIMEOUT, RG__LATE_TEXT ": %s", text);
    if (!ask_to_end(ch->engine, rg_last_error()))
        rg__channel_shut(ch, RG_ERR_TIMEOUT, rg_last_error());
}

/* The first awaited rank that will start nothing more, and why; -1: none. */
static int find_gone(const rg__channel *ch, rg__gone *how_p)
{
    const rg__transport *t = ch->comm->transport;
    int rank[RANKS_SHOWN];
    if (!ch->has_begun || t->awaited == NULL || t->gone == NULL)
        return -1;
    const int n = t->awaited(ch->comm, rank, RANKS_SHOWN);
    for (int i = 0; i < n; i++) {
        *how_p = t->gone(ch->comm, rank[i]);
        if (*how_p != RG__IS_HERE)
            return rank[i];
    }
    return -1;
}

static int find_peer_gone(const rg__channel *ch, const rg_req *req,
                          rg__gone *how_p)
{
    const rg__engine *e = ch->engine;
    if (e->transport->gone == NULL || e->world == NULL)
        return -1;
    *how_p = e->transport->gone(e->world->comm, req->peer_rank);
    return *how_p == RG__IS_HERE ? -1 : req->peer;
}

/* Does it wait for a process that will never come? False if that is not known.
 */
static bool give_up_gone(rg__channel *ch, const rg_req *req, uint64_t now)
{
    static const char *const how_text[] = {
        [RG__HAS_LEFT] = "which has called rg_finalize",
        [RG__IS_LOST] = "which is lost: its process has ended"};
    char name[64];
    rg__gone how = RG__IS_HERE;
    const uint64_t waited = now - req->since_ns;
    const int rank = waited < LOST_NS       ? -1
                     : req->message != NULL ? find_peer_gone(ch, req, &how)
                                            : find_gone(ch, &how);
    if (rank < 0 || (how == RG__HAS_LEFT && waited < LEFT_NS))
        return false;
    name_of(req, name, sizeof name);
    rg__fail(RG_ERR_PEER_LOST, "%s on %s waits for its rank %d, %s", name,
             words_of(ch).text, rank, how_text[how]);
    if (!ask_to_end(ch->engine, rg_last_error()))
        rg__channel_shut(ch, RG_ERR_PEER_LOST, rg_last_error());
    return true;
}

bool rg__engine_is_stalled(rg__engine *e)
{
    bool is_stalled = false;
    rg__engine_lock(e);
    for (const rg__channel *ch = e->channels; ch != NULL; ch = ch->next)
        is_stalled = is_stalled || (ch->head != NULL && ch->head->is_told);
    rg__engine_unlock(e);
    return is_stalled;
}

/* False: the set has been given up. */
static bool look_at_request(rg__channel *ch, rg_req *req, uint64_t now)
{
    look_for_stall(ch, req, now);
    return !give_up_gone(ch, req, now);
}

static bool look_at_messages(rg__channel *ch, uint64_t now)
{
    for (rg_req *req = ch->messages; req != NULL; req = req->next)
        if (!look_at_request(ch, req, now))
            return false;
    return true;
}

static void look_at(rg__channel *ch, uint64_t now)
{
    if (!rg__channel_has_work(ch) || ch->comm == NULL ||
        ch->close_st != RG_OK || ch->is_hushed)
        return;
    if (!look_at_messages(ch, now))
        return;
    if (ch->head != NULL && !look_at_request(ch, ch->head, now))
        return;
    const rg_req *req = find_overdue(ch->head, now);
    if (req == NULL)
        req = find_overdue(ch->messages, now);
    if (req != NULL)
        give_up(ch, req, now);
}

void rg__watchdog_look(rg__engine *e)
{
    if (rg__now_ns() < LOOK_NS + atomic_load_explicit(&e->looked_ns,
                                                      memory_order_relaxed) ||
        pthread_mutex_trylock(&e->lock) != 0)
        return;
    /* but never behind what another thread has noted since */
    const uint64_t now = rg__now_ns();
    atomic_store_explicit(&e->looked_ns, now, memory_order_relaxed);
    if (atomic_load(&e->generation) != 0 && !rg__engine_is_aborted(e))
        for (rg__channel *ch = e->channels; ch != NULL; ch = ch->next)
            look_at(ch, now);
    pthread_mutex_unlock(&e->lock);
}
