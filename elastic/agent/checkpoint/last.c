/* The job's last checkpoint (--checkpoint-on-stop). If fn has returned on all
 * ranks, rank 0's worker has asked for it as for any other checkpoint. When the
 * job ends for another reason, the agent of rank 0's host takes the newest
 * commit itself, once no worker here can store into the vault any more; workers
 * end meanwhile.
 *
 * A commit that lies whole in this vault can be resumed from, so it may be
 * written. If other hosts have shards of it, one of them may lack the commit,
 * because its rank had not come so far: then the commit before is tried. Those
 * hosts, and the one that runs the job's etcd, wait until the checkpoint is
 * durable or given up. */
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/checkpoint/saver.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/vault/vaults.h"

#include "elastic/member/resume.h"
#include "sdk/base/clock.h"

#define CALM_NS    (2 * RG__MS)
#define SILENCE_NS (100 * RG__MS)

static bool is_none(rg__commit_id id)
{
    return id.generation == 0;
}

/* No worker here has the gate to the vault open or will open it. */
static bool is_calm(const rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (rg__slot_can_store(s) && s->w.page != NULL &&
            atomic_load(&s->w.page->generation) != 0)
            return false;
    }
    return true;
}

static bool is_first_host(const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    return p != NULL && p->size > 0 && p->member[0].host == a->id;
}

/* Commit 0 of a job that was resumed from a checkpoint is that checkpoint. */
static bool is_durable(const rg__saver *v, rg__commit_id id)
{
    const rg__saved *saved = &v->a->view.saved;
    if (saved->serial != 0)
        return !rg__resume_is_later(id, saved->commit);
    return v->loaded_step == id.step + 1;
}

/* ----------------------------------------------------------- rank 0's host */

/* The newest in this vault that was not tried yet; shards: has it any? */
static rg__commit_id find_newest(const rg__saver *v, uint32_t *shards_p)
{
    const rg__agent *a = v->a;
    rg__commit_id newest = {0, 0};
    rg__ack now = {0};
    now.count = rg__vault_held(a, now.held);
    for (int i = 0; i < now.count; i++) {
        const rg__held *held = &now.held[i];
        if (!held->is_whole || !rg__resume_is_later(held->id, newest) ||
            !rg__resume_is_on_lineage(&a->view, held->id) ||
            (!is_none(v->tried) && !rg__resume_is_later(v->tried, held->id)))
            continue;
        newest = held->id;
        *shards_p = held->shards;
    }
    rg__ack_free(&now);
    return newest;
}

/* For a job that is done; sent again if refused because the view was old. */
void rg__last_tell_end(rg__saver *v)
{
    if (!v->tells_end || v->phase != SAVER_IDLE || v->has_next ||
        v->answering != NULL)
        return;
    v->tells_end = false;
    if (!v->a->view.saved.is_last)
        rg__saver_publish_error(v, true);
}

static void write_next(rg__saver *v)
{
    uint32_t shards = 0;
    const rg__commit_id id = find_newest(v, &shards);
    if (is_none(id) || is_durable(v, id)) {
        v->is_last = false;
        rg__saver_publish_error(v, true);
        return;
    }
    v->tried = id;
    v->next = (rg__save){
        .is_first = 1, .shards = shards, .commit = id, .loaded = v->loaded};
    v->has_next = true;
    v->next_waits = false;
    rg__saver_start_next(v);
}

/* The view may not show it yet. */
void rg__last_is_made(rg__saver *v)
{
    if (rg__same_commit(v->word.commit, v->tried))
        v->is_last = false;
}

/* ------------------------------------------------------------ another host */

/* A launcher's agent has no vault, and speaks for all at the end. */
static bool is_launcher(const rg__agent *a)
{
    return a->params->slots == 0;
}

/* With shards it may be asked for its own; with the job's etcd it is needed. */
static bool is_needed(const rg__agent *a)
{
    return a->params->has_etcd || is_launcher(a) || rg__vault_has_shards(a);
}

static bool is_first_host_silent(const rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    for (int i = 0; p != NULL && p->size > 0 && i < rg__beat_peers(a); i++) {
        const rg__peer *one = rg__beat_peer(a, i);
        if (one->id == p->member[0].host)
            return one->is_expected &&
                   rg__now_ns() - one->heard_ns > rg__patience_ns(a->params);
    }
    return false;
}

static bool is_over(const rg__saver *v)
{
    uint32_t shards = 0;
    if (is_launcher(v->a))
        return v->a->view.saved.is_last || is_first_host_silent(v->a);
    const rg__commit_id id = find_newest(v, &shards);
    return v->a->view.saved.is_last || is_none(id) || is_durable(v, id);
}

static void serve(rg__saver *v)
{
    v->is_last = is_needed(v->a) && !is_over(v);
    if (v->is_last && is_launcher(v->a))
        rg__timer_set(v->calm, SILENCE_NS);
    else if (v->is_last)
        rg__shares_follow(v);
}

/* -------------------------------------------------------------------- both */

void rg__last_look(void *saver_arg)
{
    rg__saver *v = saver_arg;
    rg__agent *a = v->a;
    if (!v->is_last || v->phase != SAVER_IDLE || v->has_next)
        return;
    rg__generation_note_steps(a);
    if (!is_calm(a))
        rg__timer_set(v->calm, CALM_NS);
    else if (is_first_host(a))
        write_next(v);
    else
        serve(v);
    if (!v->is_last)
        a->on->settled(a);
}

void rg__last_follow(rg__agent *a)
{
    if (!is_first_host(a))
        rg__last_look(a->saver);
}

bool rg__last_is_wanted(const rg__agent *a)
{
    return !a->is_done && a->params->checkpoint_on_stop &&
           a->params->checkpoint_dir != NULL && a->delivered != 0 &&
           rg__etcd_is_up(a->etcd);
}

void rg__last_begin(rg__agent *a)
{
    rg__saver *v = a->saver;
    if (!rg__last_is_wanted(a) || a->verdict.code == RG__EXIT_STORE)
        return;
    v->is_last = true;
    rg__generation_note_steps(a); /* while their pages are here */
    v->said[0] = v->error[0] = '\0';
    rg__shares_asked(v); /* a copy that was not ordered yet is dropped */
    rg__timer_set(v->calm, 0);
}

void rg__last_done(rg__agent *a)
{
    rg__saver *v = a->saver;
    if (a->params->checkpoint_dir == NULL || !rg__etcd_is_up(a->etcd))
        return;
    if (is_launcher(a)) {
        serve(v);
        return;
    }
    v->tells_end = a->params->is_launched && is_first_host(a);
    rg__last_tell_end(v);
}

void rg__last_note_loaded(const rg__slot *s)
{
    rg__saver *v = s->a->saver;
    const rg__page *page = s->w.page;
    if (page == NULL || atomic_load(&page->loaded_serial) <= v->loaded)
        return;
    v->loaded = atomic_load(&page->loaded_serial);
    v->loaded_step = atomic_load(&page->loaded_step);
}
