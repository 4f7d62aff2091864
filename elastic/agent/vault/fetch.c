/* The commit to resume from, from other hosts' vaults into this one.
 *
 * A decision that names this host among its copies waits here until the vault
 * holds what the decision says; only then do local workers hear of it. One
 * source after the other is asked for the replicated buffers, for shards, or
 * for both, and sends them as chunks (chunk.h).
 *
 * What arrives goes into a vault slot other than that of the newest whole
 * commit on the lineage. But if a slot has parts of the commit already, those
 * stay, and the rest goes beside them.
 *
 * Whatever fails ends the generation, with a reason; the next decision finds
 * another source. No time limit but the connection's silence. */
#include "elastic/agent/vault/chunk.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/hosts/peers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"

#define SHARDS_MAX 8192 /* asked for at a time */

typedef struct fetch_frame {
    uint64_t generation; /* whose decision asks for it */
    rg__commit_id id;
    uint32_t is_whole; /* the replicated buffers */
    uint32_t count;    /* shards: their numbers follow */
} fetch_frame;

_Static_assert(sizeof(fetch_frame) + SHARDS_MAX * sizeof(uint32_t) <=
                   RG__PEER_BODY_MAX,
               "a frame");

/* ------------------------------------------------------------------ source */

typedef struct rg__source {
    rg__chunk out;
    uint64_t generation;  /* whose decision asks for it */
    rg__chunk_part *part; /* what to send; owned */
    int parts, next;
    bool has_ended; /* all is said, */
    bool is_whole;  /* and all was sent */
    uint64_t total;
} rg__source;

static void refuse(rg__source *s, const char *why)
{
    s->has_ended = true;
    rg__chunk_refuse(&s->out, why);
}

static bool add_part(rg__source *s, int vault_slot, bool is_shard,
                     uint32_t index, rg__commit_id id)
{
    rg__chunk_part *one = rg__grow(&s->part, (size_t)s->parts, sizeof *one);
    if (one == NULL)
        return false;
    s->parts++;
    *one = (rg__chunk_part){.slot = vault_slot,
                            .is_shard = is_shard,
                            .part = {.id = id, .index = index}};
    const rg__vault *vault = s->out.a->store->vault;
    one->part.count =
        atomic_load(&vault->slot[vault_slot][0].count); /* of pieces */
    if (is_shard)
        one->part.count = atomic_load(&vault->slot[vault_slot][0].shards);
    if (one->part.count > index && one->part.count <= RG__WORLD_MAX)
        s->total += rg__chunk_size(s->out.a, one);
    return true;
}

/* The vault slot that holds parts of the commit, -1: none. */
static int find_slot(const rg__agent *a, rg__commit_id id)
{
    for (int i = 0; i < RG__VAULT_SLOTS; i++)
        if (id.generation != 0 &&
            rg__same_commit(rg__vault_part_id(a->store->vault, i), id))
            return i;
    return -1;
}

static bool list_parts(rg__source *s, const fetch_frame *m,
                       const uint32_t *shard)
{
    const rg__agent *a = s->out.a;
    const int vault_slot = find_slot(a, m->id);
    bool is_good = vault_slot >= 0;
    const uint32_t pieces =
        is_good && m->is_whole
            ? atomic_load(&a->store->vault->slot[vault_slot][0].count)
            : 0;
    for (uint32_t i = 0; i < pieces && i < RG__HOST_SLOTS_MAX && is_good; i++)
        is_good = add_part(s, vault_slot, false, i, m->id);
    for (uint32_t i = 0; i < m->count && is_good; i++)
        is_good = add_part(s, vault_slot, true, shard[i], m->id);
    return is_good;
}

static void send_next_part(rg__source *s)
{
    if (s->next == s->parts) {
        s->has_ended = s->is_whole = true;
        return;
    }
    if (rg__chunk_send(&s->out, &s->part[s->next++]) == CHUNK_GONE)
        refuse(s, "its vault does not hold the commit");
}

static void send_next(void *arg)
{
    rg__source *s = arg;
    if (s->has_ended || rg__connection_space(s->out.wire) == NULL ||
        rg__chunk_tell_room(&s->out))
        return;
    if (!s->out.is_under_way) {
        send_next_part(s);
        return;
    }
    if (s->out.bytes * 2 >= s->total)
        rg__failpoint("transfer.source", -1, s->part[0].part.id.step,
                      s->generation);
    const rg__chunk_state state = rg__chunk_send_more(&s->out);
    if (state == CHUNK_DONE)
        send_next_part(s);
    else if (state != CHUNK_MORE)
        refuse(s, state == CHUNK_DAMAGED
                      ? "the commit is damaged there"
                      : "its vault does not hold the commit any more");
}

static void free_source(rg__source *s)
{
    rg__chunk_clear(&s->out);
    free(s->part);
    free(s);
}

static void note_served(const rg__source *s, bool is_stored)
{
    rg__agent *a = s->out.a;
    if (a->store->served.generation != s->generation)
        a->store->served = (rg__served){.generation = s->generation};
    a->store->served.sent++;
    a->store->served.stored += is_stored;
    a->store->served.at_ns = rg__now_ns();
    a->on->noted(a);
}

/* All that the sink ever says: that it has stored what was sent. */
static bool source_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    rg__source *s = arg;
    (void)body;
    if (type != RG__PEER_STORED || n != 0 || !s->is_whole)
        return false;
    note_served(s, true);
    rg__connection_close(s->out.wire);
    free_source(s);
    return true;
}

static void source_gone(void *arg, const char *why)
{
    rg__source *s = arg;
    if (!s->has_ended)
        rg__log(RG__WARN, "agent",
                "a commit was sent in part, %" PRIu64 " bytes: %s",
                s->out.bytes, why);
    if (s->is_whole)
        note_served(s, false);
    free_source(s);
}

static const rg__connection_fns source_fns = {source_frame, send_next,
                                              source_gone};

bool rg__fetch_serve(rg__agent *a, rg__connection *c, const void *body,
                     size_t n)
{
    fetch_frame m;
    if (n < sizeof m)
        return false;
    memcpy(&m, body, sizeof m);
    rg__source *s = calloc(1, sizeof *s);
    uint32_t *shard = calloc(m.count > 0 && m.count <= SHARDS_MAX ? m.count : 1,
                             sizeof *shard);
    if (s == NULL || shard == NULL || m.count > SHARDS_MAX ||
        n != sizeof m + m.count * sizeof *shard) {
        free(s);
        free(shard);
        return false;
    }
    memcpy(shard, (const char *)body + sizeof m, m.count * sizeof *shard);
    s->generation = m.generation;
    rg__chunk_open(&s->out, a, c, true);
    rg__connection_take(c, &source_fns, s);
    if (list_parts(s, &m, shard))
        send_next(s);
    else
        refuse(s, "its vault does not hold the commit");
    free(shard);
    return true;
}

/* -------------------------------------------------------------------- sink */

/* What comes from one source. */
typedef struct fetch_request {
    uint64_t host;
    rg__address address;
    uint32_t port;
    char name[RG__NAME_MAX];
    bool is_whole;
    rg__shards shards; /* owned */
} fetch_request;

struct rg__fetch {
    rg__agent *a;
    uint64_t generation;
    rg__commit_id id;
    int slot; /* of the vault, -1: not chosen yet */
    fetch_request *request;
    int requests, now;
    /* of the request under way */
    rg__chunk in;
    bool is_asked;
    uint32_t pieces; /* of the replicated buffers, 0: not known yet */
    uint32_t stored; /* parts */
    uint64_t bytes, begin_ns;
};

static void free_fetch(rg__fetch *f)
{
    f->a->fetch = NULL;
    for (int i = 0; i < f->requests; i++)
        rg__shards_free(&f->request[i].shards);
    rg__chunk_clear(&f->in);
    free(f->request);
    free(f);
}

void rg__fetch_cancel(rg__agent *a)
{
    rg__fetch *f = a->fetch;
    if (f == NULL)
        return;
    rg__log(RG__DEBUG, "agent",
            "the copy for generation %" PRIu64 " is given up after %" PRIu64
            " bytes",
            f->generation, f->bytes + f->in.bytes);
    rg__connection_close(f->in.wire);
    free_fetch(f);
}

/* The generation can't begin here. */
static void publish(rg__agent *a, uint64_t generation, const char *from,
                    bool is_link, const char *why)
{
    char text[RG__CAUSE_MAX];
    snprintf(text, sizeof text, "%.24s got no copy from %.24s: %.55s",
             a->params->host, from, why);
    rg__log(RG__WARN, "agent", "generation %" PRIu64 " is broken: %s",
            generation, text);
    a->detected_ns = rg__now_ns();
    a->on->copy_broken(a, generation, is_link ? from : NULL, text);
}

static void give_up(rg__fetch *f, bool is_link, const char *why)
{
    char from[RG__NAME_MAX];
    rg__agent *a = f->a;
    const uint64_t generation = f->generation;
    snprintf(from, sizeof from, "%s", f->request[f->now].name);
    free_fetch(f);
    publish(a, generation, from, is_link, why);
}

static void fail(rg__fetch *f, bool is_link, const char *why)
{
    rg__agent *a = f->a;
    give_up(f, is_link, why);
    a->on->fetch_failed(a);
}

/* A frame that can't be used: say why, once, instead of "malformed". */
static bool stop(rg__fetch *f, const char *why)
{
    rg__connection_close(f->in.wire);
    fail(f, false, why);
    return true;
}

static void complete(rg__fetch *f)
{
    rg__agent *a = f->a;
    const uint64_t us = (rg__now_ns() - f->begin_ns) / 1000;
    rg__log(RG__INFO, "agent",
            "commit %" PRIu64 ".%" PRIu64 " came from %s%s: %" PRIu64
            " bytes in %" PRIu64 ".%03" PRIu64 " ms",
            f->id.generation, f->id.step, f->request[0].name,
            f->requests > 1 ? " and others" : "", f->bytes, us / 1000,
            us % 1000);
    free_fetch(f);
    a->on->fetched(a);
}

static bool call_next(rg__fetch *f);

static void no_end(void *arg, const char *why)
{
    (void)arg, (void)why;
}

/* The source, which may wait to leave, hears that all is stored, and closes. */
static void confirm_stored(const rg__fetch *f)
{
    static const rg__connection_fns fns = {rg__connection_no_frame,
                                           rg__connection_no_room, no_end};
    rg__connection *c = f->in.wire;
    if (rg__connection_space(c) == NULL) {
        rg__connection_close(c);
        return;
    }
    rg__connection_take(c, &fns, NULL);
    rg__connection_send(c, RG__PEER_STORED, 0);
}

static void end_request(rg__fetch *f)
{
    f->bytes += f->in.bytes;
    confirm_stored(f);
    rg__chunk_clear(&f->in);
    if (++f->now == f->requests)
        complete(f);
    else if (!call_next(f))
        fail(f, true, rg_last_error());
}

/* Any but the one that holds the newest whole commit on the lineage, which may
 * be the last that is left when the source is lost. */
static int choose_slot(const rg__agent *a)
{
    rg__commit_id newest = {0, 0};
    int kept = -1;
    for (int i = 0; i < 2; i++) { /* a third may have no room */
        const rg__commit_id id = rg__vault_id(a->store->vault, i);
        if (id.generation != 0 && rg__resume_is_on_lineage(&a->view, id) &&
            !rg__resume_is_later(newest, id)) {
            newest = id;
            kept = i;
        }
    }
    return kept == 0 ? 1 : 0;
}

static void begin_slot(rg__fetch *f)
{
    f->slot = find_slot(f->a, f->id);
    if (f->slot >= 0)
        return;
    f->slot = choose_slot(f->a);
    rg__vault_empty(f->a->store->vault, f->slot);
}

static void empty_pieces(const rg__fetch *f)
{
    for (int i = 0; i < RG__HOST_SLOTS_MAX; i++)
        rg__piece_empty(&f->a->store->vault->slot[f->slot][i]);
}

static bool is_expected(rg__fetch *f, const rg__chunk_part *what)
{
    const fetch_request *r = &f->request[f->now];
    if (!rg__same_commit(what->part.id, f->id))
        return false;
    if (what->is_shard)
        return rg__shards_have(&r->shards, what->part.index);
    if (!r->is_whole || (f->pieces != 0 && what->part.count != f->pieces))
        return false;
    if (f->pieces == 0)
        empty_pieces(f);
    f->pieces = what->part.count;
    return true;
}

static bool is_request_over(const rg__fetch *f)
{
    const fetch_request *r = &f->request[f->now];
    return !f->in.is_under_way && (!r->is_whole || f->pieces > 0) &&
           f->stored == f->pieces + (uint32_t)r->shards.count;
}

static void count_stored(rg__fetch *f)
{
    f->stored++;
    if (is_request_over(f))
        end_request(f);
}

static bool go_on(rg__fetch *f, rg__chunk_state state)
{
    const char *why = rg__chunk_why(state);
    if (why != NULL)
        return stop(f, why);
    if (state == CHUNK_DONE)
        count_stored(f);
    return state == CHUNK_DONE || state == CHUNK_MORE;
}

static bool on_piece(rg__fetch *f, const void *body, size_t n)
{
    rg__chunk_part what;
    uint64_t sum = 0;
    const rg__chunk_state state = rg__chunk_read(&f->in, body, n, &what, &sum);
    if (state != CHUNK_MORE)
        return go_on(f, state);
    if (f->slot < 0)
        begin_slot(f);
    if (!is_expected(f, &what))
        return false;
    what.slot = f->slot;
    return go_on(f, rg__chunk_begin(&f->in, &what, sum));
}

static bool on_refused(rg__fetch *f, const void *body, size_t n)
{
    char why[RG__CAUSE_MAX];
    snprintf(why, sizeof why, "%.*s", (int)(n < sizeof why ? n : sizeof why),
             (const char *)body);
    return stop(f, why);
}

static bool sink_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    rg__fetch *f = arg;
    switch (type) {
    case RG__PEER_ROOM:
        return go_on(f, rg__chunk_on_room(&f->in, body, n));
    case RG__PEER_PIECE:
        return on_piece(f, body, n);
    case RG__PEER_BYTES:
        if (f->in.at * 2 >= f->in.end)
            rg__failpoint("transfer.sink", -1, f->id.step, f->generation);
        return go_on(f, rg__chunk_on_bytes(&f->in, body, n));
    case RG__PEER_REFUSED:
        return on_refused(f, body, n);
    default:
        return false;
    }
}

static void ask(void *arg)
{
    rg__fetch *f = arg;
    const fetch_request *r = &f->request[f->now];
    const fetch_frame m = {.generation = f->generation,
                           .id = f->id,
                           .is_whole = r->is_whole,
                           .count = (uint32_t)r->shards.count};
    const size_t shards = m.count * sizeof *r->shards.index;
    char *to = rg__connection_space(f->in.wire);
    if (to == NULL || f->is_asked)
        return;
    f->is_asked = true;
    memcpy(to, &m, sizeof m);
    if (shards > 0)
        memcpy(to + sizeof m, r->shards.index, shards);
    rg__connection_send(f->in.wire, RG__PEER_FETCH, sizeof m + shards);
}

static void sink_gone(void *arg, const char *why)
{
    fail(arg, true, why);
}

static const rg__connection_fns sink_fns = {sink_frame, ask, sink_gone};

static bool call_next(rg__fetch *f)
{
    const fetch_request *r = &f->request[f->now];
    rg__chunk_open(&f->in, f->a, NULL, false);
    f->is_asked = false;
    f->pieces = f->stored = 0;
    return rg__connection_call(f->a, &r->address, r->port, r->host, &sink_fns,
                               f, &f->in.wire) == RG_OK;
}

/* ------------------------------------------------------------------- begin */

static void name_source(const rg__agent *a, uint64_t host,
                        char name[RG__NAME_MAX])
{
    snprintf(name, RG__NAME_MAX, "%016" PRIx64, host);
    for (int i = 0; i < a->view.gens; i++)
        for (int k = 0; k < a->view.gen[i].host_count; k++)
            if (a->view.gen[i].host[k].id == host)
                snprintf(name, RG__NAME_MAX, "%s", a->view.gen[i].host[k].name);
}

static bool add_request(rg__fetch *f, const rg__fetch_plan *copy)
{
    fetch_request *r = rg__grow(&f->request, (size_t)f->requests, sizeof *r);
    if (r == NULL)
        return false;
    f->requests++;
    *r = (fetch_request){.host = copy->from,
                         .address = copy->address,
                         .port = copy->port,
                         .is_whole = copy->is_whole};
    name_source(f->a, copy->from, r->name);
    for (int i = 0; i < copy->shards.count; i++)
        if (i >= SHARDS_MAX ||
            !rg__shards_add(&r->shards, copy->shards.index[i]))
            return false;
    return true;
}

/* A source of the replicated buffers comes first: they make the slot. */
static bool add_requests(rg__fetch *f, const rg__line *line, bool whole)
{
    for (int i = 0; i < line->copies; i++)
        if (line->copy[i].to == f->a->id && line->copy[i].is_whole == whole &&
            !add_request(f, &line->copy[i]))
            return false;
    return true;
}

static void begin(rg__fetch *f)
{
    f->a->fetch = f;
    if (!call_next(f))
        give_up(f, true, rg_last_error());
}

bool rg__fetch_begin(rg__agent *a, const rg__line *line)
{
    rg__fetch_cancel(a);
    rg__fetch *f = line->copies > 0 ? calloc(1, sizeof *f) : NULL;
    if (line->copies == 0)
        return false;
    if (f == NULL) {
        publish(a, line->generation, "others", false, "no memory");
        return true;
    }
    *f = (rg__fetch){.a = a,
                     .generation = line->generation,
                     .id = line->resume,
                     .slot = -1,
                     .begin_ns = rg__now_ns()};
    const bool is_listed =
        add_requests(f, line, true) && add_requests(f, line, false);
    const bool has_any = f->requests > 0;
    if (is_listed && has_any) {
        begin(f);
        return true;
    }
    free_fetch(f);
    if (!is_listed)
        publish(a, line->generation, "others", false, "no memory");
    return has_any;
}

bool rg__fetch_holds(const rg__agent *a, const rg__proposal *next)
{
    return a->fetch != NULL && next->is_announced &&
           a->aborted < a->fetch->generation;
}
