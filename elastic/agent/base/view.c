/* See view.h. */
#include "elastic/agent/base/view.h"

#include <stdlib.h>

#include "sdk/base/fail.h"

/* ------------------------------------------------------------- proposals */

const rg__proposal *rg__view_decided(const rg__agent *a)
{
    return rg__snapshot_decided(&a->view);
}

const rg__proposal *rg__view_newest(const rg__agent *a)
{
    return rg__snapshot_gen(&a->view, a->view.cur.generation);
}

const rg__proposal *rg__view_proposed(const rg__agent *a)
{
    return a->view.cur.phase == RG__GEN_PROPOSED ? rg__view_newest(a) : NULL;
}

const rg__line *rg__view_line(const rg__agent *a)
{
    return a->view.lines > 0 ? &a->view.line[a->view.lines - 1] : NULL;
}

const rg__proposal_host *rg__view_host_of(const rg__agent *a,
                                          uint64_t generation, int rank)
{
    const rg__proposal *p = rg__snapshot_gen(&a->view, generation);
    if (p == NULL || rank < 0 || rank >= p->size)
        return NULL;
    const int at = rg__proposal_host_index(p, p->member[rank].host);
    return at >= 0 ? &p->host[at] : NULL;
}

int rg__view_count_local(const rg__agent *a, const rg__proposal *p)
{
    int n = 0;
    for (int i = 0; p != NULL && i < p->size; i++)
        n += p->member[i].host == a->id;
    return n;
}

bool rg__view_has_place(const rg__proposal *p, const rg__slot *s)
{
    const rg__member_id me = {s->a->id, s->index, s->saved.start};
    return rg__proposal_rank(p, me) >= 0;
}

/* ------------------------------------------------------------------- world */

bool rg__view_has_members(const rg__agent *a)
{
    return rg__view_count_local(a, rg__view_decided(a)) > 0;
}

bool rg__view_has_host(const rg__agent *a, uint64_t host)
{
    return rg__proposal_host_index(rg__view_decided(a), host) >= 0 ||
           rg__proposal_host_index(rg__view_newest(a), host) >= 0;
}

bool rg__view_is_only_announced(const rg__agent *a, uint64_t generation)
{
    const rg__proposal *p = rg__snapshot_gen(&a->view, generation);
    const rg__proposal *decided = rg__view_decided(a);
    return p != NULL && p->is_announced && decided != NULL &&
           generation > decided->generation;
}

bool rg__view_i_lead(const rg__agent *a)
{
    return a->view.leader == a->id;
}

bool rg__view_is_static(const rg__agent *a)
{
    return a->elastic != 1;
}

/* ------------------------------------------------------------------- slots */

rg__slot *rg__slot_of(const rg__agent *a, rg__member_id id)
{
    if (id.host != a->id || id.slot >= (uint32_t)a->params->slots ||
        a->slot[id.slot].saved.start != id.start)
        return NULL;
    return &a->slot[id.slot];
}

bool rg__slot_is_alive(const rg__slot *s)
{
    return s->saved.state == SLOT_MET || rg__slot_is_ready(s);
}

bool rg__slot_is_ready(const rg__slot *s)
{
    return s->saved.state == SLOT_READY || s->saved.state == SLOT_DOOR;
}

bool rg__slot_can_store(const rg__slot *s)
{
    return rg__slot_is_alive(s) || s->saved.state == SLOT_LOST ||
           s->saved.state == SLOT_FENCING;
}

/* ----------------------------------------------------------------- parsing */

bool rg__view_is_offered(const rg__agent *a, const rg__snapshot *snap)
{
    return a->offer.text != NULL && snap->cur.phase == RG__GEN_PROPOSED &&
           snap->cur.generation == a->life.offered &&
           snap->cur.mod_revision == a->offer.cur;
}

static void lay_offer(const rg__agent *a, rg__snapshot *snap)
{
    if (a->offer.text == NULL || snap->cur.phase != RG__GEN_DECIDED ||
        snap->cur.generation + 1 != a->life.offered ||
        snap->cur.mod_revision != a->offer.cur ||
        snap->leader_token != a->offer.token ||
        !rg__snapshot_lay(snap, RG__KEY(GEN, a->life.offered), a->offer.text))
        return;
    snap->cur.generation = a->life.offered;
    snap->cur.phase = RG__GEN_PROPOSED;
}

rg_status rg__view_read(const rg__agent *a, const rg__mirror *mirror,
                        rg__snapshot *snap)
{
    const size_t n = rg__mirror_count(mirror);
    rg__kv *kv = calloc(n + 1, sizeof *kv);
    if (kv == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the job's keys");
    for (size_t i = 0; i < n; i++)
        kv[i] = *rg__mirror_at(mirror, i);
    const rg_status st = rg__snapshot_update(snap, a->prefix, kv, n);
    lay_offer(a, snap);
    free(kv);
    return st;
}
