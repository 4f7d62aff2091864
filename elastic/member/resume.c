/* Where a generation resumes, and from where every host gets the commit.
 *
 * A commit has its replicated buffers, whole in a vault or not, and maybe
 * shards, one for each worker of the world that made it. It can be resumed from
 * when some acking host has the former and each of the latter lies in some
 * acking vault. A host of the new world needs the replicated buffers and the
 * shards that overlap with those of its workers: shard i of n is the part from
 * i/n to (i+1)/n of every buffer, so ranks and sizes of worlds say which. Where
 * buffers are local, shard i is rank i's, and a world of another size may need
 * any of them anywhere.
 *
 * A vault counts where a decision can name the address of its agent: a host
 * whose lease has ended has no record for a while, but the worlds that it was
 * in name it.
 *
 * Holders take turns, also from one generation to the next: one that could not
 * send is not asked again at once. */
#include "elastic/member/resume.h"

#include <stdlib.h>

#include "sdk/base/fail.h"
#include "sdk/base/grow.h"

bool rg__resume_is_later(rg__commit_id a, rg__commit_id b)
{
    return a.generation != b.generation ? a.generation > b.generation
                                        : a.step > b.step;
}

/* ------------------------------------------------------------------- lineage
 *
 * A chain: from the newest decision to the generation that made its resume
 * commit, to the one that made the resume commit of that, and so on; of each,
 * the commits up to the one that was resumed from. */

/* The line of the generation whose commit it resumed from; NULL: not kept. */
static const rg__line *parent_of(const rg__snapshot *s, const rg__line *line)
{
    for (const rg__line *old = line; old > s->line;)
        if ((--old)->generation == line->resume.generation)
            return old;
    return NULL;
}

bool rg__resume_is_on_lineage(const rg__snapshot *s, rg__commit_id id)
{
    const rg__line *line = s->lines > 0 ? &s->line[s->lines - 1] : NULL;
    while (line != NULL && line->generation != id.generation) {
        if (rg__resume_is_later(id, line->resume))
            return false;
        if (line->resume.generation == id.generation)
            return id.generation != 0;
        line = parent_of(s, line);
    }
    return line != NULL;
}

bool rg__resume_stays_on_lineage(const rg__snapshot *s, rg__commit_id id,
                                 uint64_t since)
{
    for (int i = s->lines - 1; i >= 0 && s->line[i].generation > since; i--) {
        const rg__line *line = &s->line[i];
        const bool has_prev = i > 0 && line[-1].generation == line->prev;
        if (rg__resume_is_later(id, line->resume) ||
            (line->prev > since && !has_prev))
            return false;
    }
    return true;
}

/* The ancestors that say how much of what a vault may hold is on the lineage
 * where the newest generations have made no commit. */
static bool is_ancestor(const rg__snapshot *s, const rg__line *of,
                        const rg__line *line)
{
    for (int i = 0; i < RG__VAULT_SLOTS && of != NULL; i++) {
        of = parent_of(s, of);
        if (of == line)
            return of != NULL;
    }
    return false;
}

bool rg__resume_needs_line(const rg__snapshot *s, const rg__line *line)
{
    const int first = s->lines - (RG__LINES_KEPT - 1);
    return first <= 0 || line >= &s->line[first] ||
           is_ancestor(s, &s->line[first], line);
}

uint64_t rg__resume_first_world(const rg__line *line)
{
    return line->resume.generation != 0 ? line->resume.generation
                                        : line->generation;
}

bool rg__resume_may_lie_in(const rg__snapshot *s, const rg__proposal *p)
{
    return rg__snapshot_line(s, p->generation) != NULL &&
           p->generation >= rg__resume_first_world(&s->line[s->lines - 1]);
}

/* ------------------------------------------------------------------ sources */

/* A host that has acked, and where its agent is. */
typedef struct source {
    const rg__ack *ack;
    rg__address address;
    uint32_t port;
} source;

static const rg__proposal_host *find_place(const rg__snapshot *s, uint64_t host)
{
    for (int g = s->gens - 1; g >= 0; g--)
        for (int i = 0; i < s->gen[g].host_count; i++)
            if (s->gen[g].host[i].id == host)
                return &s->gen[g].host[i];
    return NULL;
}

static bool find_source(const rg__snapshot *s, const rg__ack *ack,
                        source *source_p)
{
    const rg__host_record *host = rg__snapshot_host(s, ack->id);
    const rg__proposal_host *place =
        host == NULL ? find_place(s, ack->id) : NULL;
    if (host != NULL)
        *source_p = (source){ack, host->address, host->port};
    else if (place != NULL)
        *source_p = (source){ack, place->address, place->port};
    return host != NULL || place != NULL;
}

/* ------------------------------------------------------- what each host has */

/* The acks of one generation and one commit. */
typedef struct look {
    const rg__snapshot *s;
    uint64_t generation;
    source *source; /* owned; hosts with a record first */
    int sources;
    rg__commit_id id;
    uint32_t shards; /* that the commit has */
    bool is_local;   /* ..of local buffers, too */
} look;

static rg_status find_sources(look *l)
{
    const uint64_t generation = l->generation;
    l->source = calloc((size_t)l->s->acks + 1, sizeof *l->source);
    if (l->source == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a decision");
    for (int i = 0; i < l->s->hosts; i++) {
        const rg__ack *ack =
            rg__snapshot_ack(l->s, generation, l->s->host[i].id);
        if (ack != NULL && find_source(l->s, ack, &l->source[l->sources]))
            l->sources++;
    }
    for (int i = 0; i < l->s->acks; i++)
        if (l->s->ack[i].generation == generation &&
            rg__snapshot_host(l->s, l->s->ack[i].id) == NULL &&
            find_source(l->s, &l->s->ack[i], &l->source[l->sources]))
            l->sources++;
    return RG_OK;
}

static const rg__held *held_in(const rg__ack *ack, rg__commit_id id)
{
    for (int i = 0; i < ack->count; i++)
        if (rg__same_commit(ack->held[i].id, id))
            return &ack->held[i];
    return NULL;
}

/* NULL: that host has not acked, or has nothing of the commit. */
static const rg__held *held_by(const look *l, uint64_t host)
{
    const rg__ack *ack = rg__snapshot_ack(l->s, l->generation, host);
    return ack != NULL ? held_in(ack, l->id) : NULL;
}

#define WHOLE UINT32_MAX /* the replicated buffers, as if they were a shard */

static bool has_part(const rg__held *held, uint32_t part)
{
    return held != NULL && (part == WHOLE ? held->is_whole
                                          : rg__shards_have(&held->here, part));
}

static bool is_part_there(const look *l, uint32_t part)
{
    for (int i = 0; i < l->sources; i++)
        if (has_part(held_in(l->source[i].ack, l->id), part))
            return true;
    return false;
}

static void count_shards(look *l)
{
    l->shards = 0;
    l->is_local = false;
    for (int i = 0; i < l->sources; i++) {
        const rg__held *held = held_in(l->source[i].ack, l->id);
        if (held != NULL && held->shards > l->shards)
            l->shards = held->shards;
        l->is_local |= held != NULL && held->is_local;
    }
}

static bool is_all_there(look *l)
{
    count_shards(l);
    bool is_there = is_part_there(l, WHOLE);
    for (uint32_t i = 0; i < l->shards && is_there; i++)
        is_there = is_part_there(l, i);
    return is_there;
}

#define NEVER ((rg__commit_id){UINT64_MAX, UINT64_MAX}) /* later than all */

static void find_resume(look *best, rg__commit_id most)
{
    look l = *best;
    for (int i = 0; i < l.sources; i++) {
        const rg__ack *ack = l.source[i].ack;
        for (int k = 0; k < ack->count; k++) {
            l.id = ack->held[k].id;
            if (rg__resume_is_later(l.id, best->id) &&
                !rg__resume_is_later(l.id, most) &&
                rg__resume_is_on_lineage(l.s, l.id) && is_all_there(&l))
                *best = l;
        }
    }
}

static rg__commit_id newest_whole(const look *l, const rg__ack *ack)
{
    rg__commit_id newest = {0, 0};
    for (int k = 0; k < ack->count; k++)
        if (ack->held[k].is_whole &&
            rg__resume_is_later(ack->held[k].id, newest) &&
            rg__resume_is_on_lineage(l->s, ack->held[k].id))
            newest = ack->held[k].id;
    return newest;
}

/* No rank has reported a later one: none leaves the agreement on a commit
 * before that is whole on all hosts of its world, and a host of the world that
 * was decided last has none later. What that world resumed from counts. */
static rg__commit_id find_reported(const look *l)
{
    const rg__proposal *world = rg__snapshot_decided(l->s);
    rg__commit_id most = NEVER;
    for (int i = 0; i < l->sources; i++) {
        const rg__ack *ack = l->source[i].ack;
        const rg__commit_id newest = newest_whole(l, ack);
        if (rg__proposal_host_index(world, ack->id) >= 0 &&
            rg__resume_is_later(most, newest))
            most = newest;
    }
    const rg__commit_id least =
        world != NULL ? l->s->line[l->s->lines - 1].resume : NEVER;
    return rg__resume_is_later(least, most) ? least : most;
}

/* Hosts that would have to fetch it. */
static int count_lacking(const look *l, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; i < p->host_count; i++)
        n += !has_part(held_by(l, p->host[i].id), WHOLE);
    return n;
}

/* Go back over steps that no rank has reported if that saves a fetch; there are
 * several such steps if commits are rarer than steps. */
static void repeat_steps(look *l, const rg__proposal *p, uint64_t most)
{
    look before = *l;
    const rg__commit_id reported = find_reported(l);
    before.id = (rg__commit_id){0, 0};
    find_resume(&before, reported);
    if (before.id.generation != 0 && rg__same_commit(before.id, reported) &&
        l->id.step - before.id.step <= most &&
        count_lacking(&before, p) < count_lacking(l, p))
        *l = before;
}

/* ------------------------------------------------------------------- copies */

static rg__fetch_plan *find_copy(rg__line *line, uint64_t to, uint64_t from)
{
    for (int i = 0; i < line->copies; i++)
        if (line->copy[i].to == to && line->copy[i].from == from)
            return &line->copy[i];
    return NULL;
}

static rg__fetch_plan *add_copy(rg__line *line, uint64_t to, const source *from)
{
    rg__fetch_plan *one =
        rg__grow(&line->copy, (size_t)line->copies, sizeof *one);
    if (one == NULL)
        return NULL;
    *one = (rg__fetch_plan){.to = to,
                            .from = from->ack->id,
                            .address = from->address,
                            .port = from->port};
    line->copies++;
    return one;
}

/* The host that sends a part to that one: a host that sends to it anyway, else
 * the next holder behind `after`, in a circle. There always is one. */
static int choose_holder(const look *l, rg__line *line, uint64_t to,
                         uint32_t part, int after)
{
    int next = -1;
    for (int i = 1; i <= l->sources; i++) {
        const int k = (after + i) % l->sources;
        const rg__ack *ack = l->source[k].ack;
        if (!has_part(held_in(ack, l->id), part))
            continue;
        if (find_copy(line, to, ack->id) != NULL)
            return k;
        next = next < 0 ? k : next;
    }
    return next;
}

static rg_status copy_part(const look *l, rg__line *line,
                           const rg__proposal_host *to, uint32_t part,
                           int *turn)
{
    if (has_part(held_by(l, to->id), part))
        return RG_OK;
    *turn = choose_holder(l, line, to->id, part, *turn);
    const source *from = &l->source[*turn];
    rg__fetch_plan *copy = find_copy(line, to->id, from->ack->id);
    if (copy == NULL)
        copy = add_copy(line, to->id, from);
    if (copy != NULL && part == WHOLE)
        copy->is_whole = true;
    else if (copy == NULL || !rg__shards_add(&copy->shards, part))
        return rg__fail(RG_ERR_MEMORY, "no memory for a decision");
    return RG_OK;
}

/* Has shard i of n anything in common with that of rank r of size? */
static bool overlap(uint64_t i, uint64_t n, uint64_t r, uint64_t size)
{
    return i * size < (r + 1) * n && r * n < (i + 1) * size;
}

static bool needs_shard(const look *l, const rg__proposal *p, uint64_t host,
                        uint32_t shard)
{
    const bool is_any = l->is_local && l->shards != (uint32_t)p->size;
    for (int r = 0; r < p->size; r++)
        if (p->member[r].host == host &&
            (is_any ||
             overlap(shard, l->shards, (uint64_t)r, (uint64_t)p->size)))
            return true;
    return false;
}

static rg_status find_copies(const look *l, const rg__proposal *p,
                             rg__line *line)
{
    int turn = (int)(p->generation % (uint64_t)l->sources);
    rg_status st = RG_OK;
    for (int i = 0; i < p->host_count && st == RG_OK; i++) {
        st = copy_part(l, line, &p->host[i], WHOLE, &turn);
        for (uint32_t k = 0; k < l->shards && st == RG_OK; k++)
            if (needs_shard(l, p, p->host[i].id, k))
                st = copy_part(l, line, &p->host[i], k, &turn);
    }
    return st;
}

rg_status rg__resume_choose(const rg__snapshot *snap, const rg__proposal *p,
                            uint64_t repeats, rg__line *line)
{
    look l = {.s = snap, .generation = p->generation};
    rg_status st = find_sources(&l);
    if (st == RG_OK)
        find_resume(&l, NEVER);
    if (st == RG_OK)
        repeat_steps(&l, p, repeats);
    line->resume = l.id;
    if (l.id.generation != 0)
        st = find_copies(&l, p, line);
    free(l.source);
    return st;
}

bool rg__resume_goes_back(const rg__snapshot *snap, const rg__line *line)
{
    for (int i = 0; i < snap->lines; i++)
        if (snap->line[i].generation == line->prev)
            return rg__resume_is_later(snap->line[i].resume, line->resume);
    return false;
}

static bool holds_enough(const rg__snapshot *snap, const rg__ack *ack)
{
    const rg__commit_id least = snap->line[snap->lines - 1].resume;
    for (int k = 0; ack != NULL && k < ack->count; k++)
        if (rg__resume_is_on_lineage(snap, ack->held[k].id) &&
            !rg__resume_is_later(least, ack->held[k].id))
            return true;
    return false;
}

bool rg__resume_has_holder(const rg__snapshot *snap, uint64_t generation)
{
    const rg__proposal *world = rg__snapshot_decided(snap);
    for (int i = 0; world != NULL && i < world->host_count; i++)
        if (holds_enough(snap,
                         rg__snapshot_ack(snap, generation, world->host[i].id)))
            return true;
    return false;
}
