/* This host's part in generations. An event only says "look": what to do is
 * read from the view of the job's keys and from what local workers have said.
 *
 *   cur proposes g   abort what is broken, announce what is not, hand every
 *                    local member its place and a fresh control segment
 *   all local members have built g, and no process here can store for an older
 *   generation       ack g, with the complete commits of the vault
 *   cur decides g    pass the decision on
 *   commit 0 is agreed, and rank 0 is here    write that a commit is begun
 *   all local members finished    fin g
 *   cur is done      tell them; newcomers are asked to end */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/vault/vaults.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"
#include "sdk/transport/transport.h"

#define HAND_OUT_NS (2000 * RG__MS) /* then this host leaves */
#define ROOM_KEY    UINT64_MAX      /* those of slots are below */

/* ------------------------------------------------------------------- abort */

static void abort_worker(const rg__slot *s, uint64_t generation)
{
    if (!rg__slot_is_alive(s) || s->w.page == NULL)
        return;
    if (atomic_load(&s->w.page->abort) < generation)
        atomic_store(&s->w.page->abort, generation);
    rg__worker_ring(s);
}

/* A member here of a first world that has ended before it began starts again,
 * wherever it is between rg_world_wait and fn: what its peers have sent it
 * there, and it them, counts nowhere. */
static void recall(rg__agent *a, const rg__proposal *p)
{
    const uint64_t begun = a->view.begun;
    if (!p->is_awaited || p->generation > a->aborted ||
        (begun != 0 && begun <= p->generation) ||
        rg__snapshot_line(&a->view, p->generation) == NULL)
        return;
    for (int i = 0; i < p->size; i++) {
        rg__slot *s = rg__slot_of(a, p->member[i]);
        if (s != NULL && rg__slot_is_alive(s) && !rg__life_is_ending(a))
            a->on->slot_recalled(s, p->generation);
    }
}

static void recall_members(rg__agent *a)
{
    for (int i = 0; i < a->view.gens; i++)
        recall(a, &a->view.gen[i]);
}

void rg__generation_abort(rg__agent *a, uint64_t generation)
{
    if (generation <= a->aborted)
        return;
    a->aborted = generation;
    for (int i = 0; i < a->params->slots; i++)
        abort_worker(&a->slot[i], generation);
    recall_members(a);
    a->on->generation_ended(a, generation);
}

static void abort_what_is_published(rg__agent *a)
{
    for (int i = 0; i < a->view.reasons; i++) {
        const uint64_t generation = a->view.reason[i].generation;
        if (!rg__view_is_only_announced(a, generation))
            rg__generation_abort(a, generation);
    }
}

/* ----------------------------------------------------------------- prepare */

static void send_prepare(rg__agent *a, const rg__proposal *p, rg__prepare *m,
                         int control_fd)
{
    int local = 0;
    for (int r = 0; r < p->size; r++) {
        if (p->member[r].host != a->id)
            continue;
        rg__slot *s = rg__slot_of(a, p->member[r]);
        m->rank = r;
        m->local_rank = local++;
        if (s == NULL || !rg__slot_is_alive(s))
            continue; /* its death is published; this proposal is void */
        s->w.asked = p->generation;
        s->w.entered = s->w.entered != 0 ? s->w.entered : p->generation;
        rg__worker_tell(s, m, sizeof *m, control_fd);
        rg__failpoint("agent.told", r, 0, p->generation);
    }
}

static void fill_places(const rg__proposal *p, rg__prepare *m)
{
    rg__place *place = rg__prepare_places(m);
    rg__address *address = rg__prepare_addresses(m);
    int at = 0;
    for (int r = 0; r < p->size; r++) {
        while (p->host[at].id != p->member[r].host) /* mostly the next one */
            at = (at + 1) % p->host_count;
        place[r] = (rg__place){(uint32_t)at, p->port[r]};
    }
    for (int i = 0; i < p->host_count; i++)
        address[i] = p->host[i].address;
}

/* The segment where local members meet, followed by the world's members. */
static rg_status make_control(const rg__prepare *m, int *fd_p)
{
    const size_t bytes =
        rg__prepare_bytes((uint32_t)m->size, (uint32_t)m->host_count) -
        sizeof *m;
    const rg_status st = rg__shm_create("regroup-control",
                                        m->control_bytes + bytes, false, fd_p);
    if (st != RG_OK)
        return st;
    const ssize_t put =
        pwrite(*fd_p, m->member, bytes, (off_t)m->control_bytes);
    if (put == (ssize_t)bytes)
        return RG_OK;
    close(*fd_p);
    return rg__fail(RG_ERR_MEMORY, "no memory for a list of %d workers",
                    m->size);
}

static rg_status prepare_members(rg__agent *a, const rg__proposal *p)
{
    const int local_size = rg__view_count_local(a, p);
    int fd = -1;
    rg__prepare *m = calloc(
        1, rg__prepare_bytes((uint32_t)p->size, (uint32_t)p->host_count));
    if (m == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a list of %d workers",
                        p->size);
    *m = (rg__prepare){.head = {RG__PREPARE, RG__WIRE_VERSION},
                       .generation = p->generation,
                       .announced = p->is_announced,
                       .size = p->size,
                       .local_size = local_size,
                       .host_index = rg__proposal_host_index(p, a->id),
                       .host_count = p->host_count,
                       .control_bytes =
                           rg__shm_control_bytes(local_size, RG__SETS_MAX)};
    memcpy(m->member, p->member, sizeof(rg__member_id) * (size_t)p->size);
    fill_places(p, m);
    const rg_status st = make_control(m, &fd);
    if (st == RG_OK) {
        send_prepare(a, p, m, fd);
        close(fd);
    }
    free(m);
    return st;
}

/* Descriptors and memory may be short for a moment; the others wait for our ack
 * meanwhile, as for slow workers. */
/* PREPAREs, as soon as it can. */
static void hand_out(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const uint64_t late_ns = rg__now_ns() - a->generation->prepared_ns;
    const rg__proposal *p = rg__snapshot_gen(&a->view, a->generation->prepared);
    const bool is_wanted = !rg__life_is_ending(a) && p != NULL &&
                           a->view.cur.phase == RG__GEN_PROPOSED &&
                           a->view.cur.generation == a->generation->prepared;
    if (!is_wanted || prepare_members(a, p) == RG_OK) {
        rg__wait_end(a, RG__WAIT_ROOM, ROOM_KEY);
        return;
    }
    if (late_ns < HAND_OUT_NS) {
        rg__wait_begin(a, RG__WAIT_ROOM, ROOM_KEY,
                       "resources for generation %llu: %s",
                       (unsigned long long)p->generation, rg_last_error());
        rg__timer_set(a->generation->prepare_timer, late_ns / 2 + RG__MS);
        return;
    }
    rg__agent_leave(a, RG__EXIT_SYSTEM,
                    "host %s leaves: generation %llu can't be prepared: %s",
                    a->params->host, (unsigned long long)p->generation,
                    rg_last_error());
}

/* Also to members without a place in it: they leave like the others. */
void rg__generation_announce(rg__agent *a, uint64_t generation)
{
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (rg__slot_is_alive(s) && s->w.page != NULL)
            atomic_store(&s->w.page->announce, generation);
    }
}

/* A worker that has built a proposal which was given up, and has no place in
 * the next one, leaves it: this host could not ack otherwise. */
static void abort_given_up(rg__agent *a, const rg__proposal *p)
{
    const rg__proposal *decided = rg__view_decided(a);
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        const bool is_decided =
            decided != NULL && s->w.entered == decided->generation;
        if (s->w.entered != 0 && !is_decided && !rg__view_has_place(p, s))
            abort_worker(s, p->generation - 1);
    }
}

static void prepare(rg__agent *a, const rg__proposal *p)
{
    if (p == NULL || p->generation <= a->generation->prepared ||
        rg__fetch_holds(a, p))
        return;
    if (rg__view_count_local(a, p) > 0 && !rg__address_is_reached(a, p)) {
        rg__agent_leave(a, RG__EXIT_SYSTEM,
                        "other hosts can't reach host %s at %s, a loopback "
                        "address; name one with --advertise or --interface",
                        a->params->host, a->address.text);
        return;
    }
    rg__fetch_cancel(a);
    a->generation->prepared = p->generation;
    a->generation->prepared_ns = rg__now_ns();
    rg__timer_stop(a->generation->prepare_timer); /* of an older one */
    rg__failpoint("agent.prepare", -1, 0, p->generation);
    rg__log(RG__DEBUG, "agent", "generation %llu is proposed: %s, %d workers%s",
            (unsigned long long)p->generation, p->cause, p->size,
            p->is_announced ? ", announced" : "");
    if (p->from != 0)
        rg__change_note_steps(a, p->from);
    rg__change *c = rg__change_of(a, p->generation);
    if (c != NULL) {
        c->proposed = rg__now_ns();
        c->detected = a->detected_ns != 0 ? a->detected_ns : c->proposed;
    }
    if (p->is_announced) {
        rg__generation_announce(a, p->generation);
        abort_given_up(a, p);
    } else {
        rg__generation_abort(a, p->generation - 1);
    }
    if (rg__view_count_local(a, p) > 0)
        hand_out(a);
    rg__generation_try_ack(a);
}

/* --------------------------------------------------------------------- ack */

static bool is_member_built(const rg__slot *s, uint64_t generation)
{
    return s != NULL && rg__slot_is_alive(s) && s->w.built == generation;
}

/* No process here can still store for an older generation. */
static bool is_host_fenced(const rg__agent *a, uint64_t generation)
{
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        const uint64_t entered = s->w.entered;
        if (rg__slot_can_store(s) &&
            (!rg__slot_is_alive(s) || (entered != 0 && entered != generation)))
            return false;
    }
    return true;
}

/* Time for which an agent holds a worker counts for no deadline: what looks at
 * the workers of a generation is done before the next one begins. */
static bool may_ack(const rg__agent *a, const rg__proposal *p)
{
    if (p == NULL || p->generation != a->generation->prepared ||
        p->generation <= a->acking || a->dumping.holders > 0 ||
        (p->generation == a->life.offered && !rg__view_is_offered(a, &a->view)))
        return false;
    for (int i = 0; i < p->size; i++)
        if (p->member[i].host == a->id &&
            !is_member_built(rg__slot_of(a, p->member[i]), p->generation))
            return false;
    return is_host_fenced(a, p->generation);
}

void rg__generation_note_steps(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (s->w.page == NULL)
            continue;
        const uint64_t step = atomic_load(&s->w.page->step);
        if (step > a->life.most_step)
            a->life.most_step = step;
    }
}

/* A member here that loaded a checkpoint, and agreed on no commit since. */
static void note_fresh(rg__agent *a, const rg__proposal *p, rg__ack *ack)
{
    for (int r = 0; r < p->size && ack->loaded == 0; r++) {
        const rg__slot *s = rg__slot_of(a, p->member[r]);
        rg__commit_id commit;
        if (s == NULL || s->w.page == NULL ||
            atomic_load(&s->w.page->zero) != 0 ||
            !rg__snapshot_checkpoint(&a->view, s->w.loaded, &commit))
            continue;
        ack->loaded = s->w.loaded;
        ack->source = r;
    }
}

void rg__generation_try_ack(rg__agent *a)
{
    const rg__proposal *p = rg__view_proposed(a);
    if (!may_ack(a, p))
        return;
    a->acking = p->generation;
    rg__failpoint("agent.ack", -1, 0, p->generation);
    rg__change *c = rg__change_of(a, p->generation);
    if (c != NULL)
        c->built = rg__now_ns();
    rg__generation_note_steps(a);
    rg__ack ack = {.id = a->id, .step = a->life.most_step};
    memcpy(ack.op, p->op, sizeof ack.op);
    note_fresh(a, p, &ack);
    ack.count = rg__vault_held(a, ack.held);
    rg__ack_say(a, &ack);
    rg__ack_free(&ack);
}

/* ------------------------------------------------------------------- begin */

void rg__generation_show_begun(const rg__slot *s)
{
    if (s->a->view.begun == 0 || !rg__slot_is_alive(s) || s->w.page == NULL ||
        atomic_load(&s->w.page->begun) != 0)
        return;
    atomic_store(&s->w.page->begun, s->a->view.begun);
    rg__worker_ring(s);
}

static void on_begun(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    a->generation->beginning = NULL;
    if (!rg__agent_has_answer(a, st) || reply->succeeded)
        return;
    if (a->view.cur.mod_revision != a->generation->begins_at)
        rg__generation_try_begin(a);
    else
        rg__mirror_expect(a->mirror); /* cur has moved on */
}

/* Rank 0 is here, and all have agreed on commit 0 of the generation. */
static bool is_zero_agreed(rg__agent *a, const rg__proposal *p)
{
    const rg__slot *s = p != NULL && p->member[0].host == a->id
                            ? rg__slot_of(a, p->member[0])
                            : NULL;
    return s != NULL && rg__slot_is_alive(s) && s->w.page != NULL &&
           atomic_load(&s->w.page->zero) == p->generation;
}

static void put_begun(rg__agent *a, uint64_t generation)
{
    rg__failpoint("agent.begin", -1, 0, generation);
    a->generation->begins_at = a->view.cur.mod_revision;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, RG__KEY(CUR), a->generation->begins_at);
    rg__job_put(&t, RG__KEY(BEGUN), rg__begun_text(generation), 0);
    a->generation->beginning =
        rg__job_send(&t, on_begun, a, rg__generation_try_begin);
}

/* Not once a proposal has ended the generation: its leader may have seen that
 * nothing is begun, and decides accordingly. */
void rg__generation_try_begin(rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    const uint64_t newest = a->view.cur.generation;
    if (a->view.begun != 0 || a->generation->beginning != NULL ||
        !is_zero_agreed(a, p) ||
        (newest != p->generation && !rg__view_is_only_announced(a, newest)))
        return;
    put_begun(a, p->generation);
}

/* A worker here made the first commit, and waits until it is on record. */
static bool is_record_awaited(const rg__agent *a, const rg__proposal *p)
{
    for (int i = 0;
         p != NULL && p->generation > a->aborted && i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (rg__slot_is_alive(s) && s->w.page != NULL &&
            atomic_load(&s->w.page->zero) == p->generation &&
            atomic_load(&s->w.page->begun) == 0)
            return true;
    }
    return false;
}

static void say_unrecorded(rg__agent *a, uint64_t generation, const char *host)
{
    char why[RG__CAUSE_MAX];
    snprintf(why, sizeof why,
             "host %s has not had etcd record the first commit", host);
    rg__suspect_spoke(a, generation);
    rg__publish_reason(a, generation, NULL, why);
}

/* A worker that came too late for the first world, and too early to join. */
static bool waits_for_first(const rg__agent *a, const rg__slot *s,
                            const rg__proposal *p)
{
    return p != NULL && a->view.begun == 0 && p->generation > a->aborted &&
           rg__slot_is_alive(s) && s->w.waits && !rg__view_has_place(p, s);
}

static void mind_the_early(rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    for (int i = 0; i < a->params->slots; i++)
        if (waits_for_first(a, &a->slot[i], p))
            rg__wait_begin(a, RG__WAIT_FIRST, (uint64_t)i,
                           "the first commit of generation %llu, after which "
                           "the worker in slot %d may join",
                           (unsigned long long)p->generation, i);
        else
            rg__wait_end(a, RG__WAIT_FIRST, (uint64_t)i);
}

/* If etcd answers here and no record comes, etcd does not answer rank 0's host:
 * the others go on without it. What it may still write is guarded by `cur`. */
void rg__generation_mind_record(rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    const uint64_t now = rg__now_ns();
    mind_the_early(a);
    if (rg__life_is_ending(a) || !is_record_awaited(a, p)) {
        a->generation->unrecorded_ns = 0;
        rg__wait_end(a, RG__WAIT_BEGUN, 0);
        return;
    }
    const char *host =
        p->host[rg__proposal_host_index(p, p->member[0].host)].name;
    const bool is_ours = p->member[0].host == a->id;
    if (a->generation->unrecorded_ns == 0 || !rg__etcd_is_up(a->etcd))
        a->generation->unrecorded_ns = now;
    rg__wait_begin(a, RG__WAIT_BEGUN, 0,
                   "%s%.63s%s to record that the first commit is made",
                   is_ours ? "" : "host ", is_ours ? "etcd" : host,
                   is_ours ? "" : ", rank 0's, and etcd");
    if (!is_ours && !rg__suspect_has_spoken(a, p->generation) &&
        now - a->generation->unrecorded_ns >=
            rg__patience_ns(a->params) * RG__SILENT_BUDGETS)
        say_unrecorded(a, p->generation, host);
}

static void follow_begun(rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        rg__generation_show_begun(&a->slot[i]);
    rg__generation_try_begin(a);
}

/* --------------------------------------------------------------------- fin */

static void on_finned(void *arg, rg_status st, const rg__txn_reply *reply)
{
    (void)reply;
    rg__agent_has_answer(arg, st);
}

/* Under this host's lease. */
static void put_fin(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_put(&t, RG__KEY(FIN, a->generation->finning, a->params->host),
                strdup("{}"), rg__lease_id(a->lease));
    rg__job_send(&t, on_finned, a, put_fin);
}

void rg__generation_try_fin(rg__agent *a)
{
    const rg__proposal *p = rg__view_decided(a);
    if (p == NULL || a->generation->finning >= p->generation ||
        a->life.offered > p->generation || rg__view_count_local(a, p) == 0)
        return;
    for (int i = 0; i < p->size; i++) {
        const rg__slot *s = rg__slot_of(a, p->member[i]);
        if (p->member[i].host == a->id &&
            (s == NULL || s->w.fin != p->generation))
            return;
    }
    a->generation->finning = p->generation;
    rg__failpoint("agent.fin", -1, 0, p->generation);
    put_fin(a);
}

/* ---------------------------------------------------------------- decision */

/* Rank `source` has loaded the newest checkpoint: a commit was begun before. */
static bool begins_with_checkpoint(const rg__agent *a, const rg__line *line)
{
    return line->resume.generation == 0 && a->view.begun != 0 &&
           a->view.begun < line->generation;
}

static void tell_decision(rg__agent *a, const rg__proposal *p,
                          const rg__line *line, bool is_expected)
{
    rg__decided m = {.head = {RG__DECIDED, RG__WIRE_VERSION},
                     .is_expected = is_expected,
                     .generation = p->generation,
                     .resume = line->resume,
                     .source = line->source};
    for (int i = 0; i < p->size; i++) {
        rg__slot *s = rg__slot_of(a, p->member[i]);
        if (!is_member_built(s, p->generation))
            continue;
        if (!begins_with_checkpoint(a, line))
            s->w.loaded = 0; /* its memory becomes that of the generation */
        rg__worker_tell(s, &m, sizeof m, -1);
        rg__failpoint(is_expected ? "agent.expected" : "agent.passed", i,
                      line->resume.step, p->generation);
    }
}

void rg__generation_expect(rg__agent *a, rg__commit_id resume)
{
    const rg__proposal *p = rg__view_proposed(a);
    const rg__line line = {
        .resume = resume, .source = -1, .prev = a->delivered};
    if (p != NULL && p->generation == a->acking)
        tell_decision(a, p, &line, true);
}

void rg__generation_pass_on(rg__agent *a)
{
    const rg__line *line = rg__view_line(a);
    const rg__proposal *p =
        line != NULL ? rg__snapshot_gen(&a->view, line->generation) : NULL;
    if (p != NULL && p->generation == a->delivered)
        tell_decision(a, p, line, false);
}

/* Pass the newest decision on, before anything of a later proposal; once the
 * vault holds the commit to resume from. */
static void deliver(rg__agent *a)
{
    const rg__line *line = rg__view_line(a);
    if (line == NULL || line->generation <= a->delivered)
        return;
    const rg__proposal *p = rg__snapshot_gen(&a->view, line->generation);
    if (p == NULL)
        return;
    rg__change_note_steps(a, a->delivered);
    a->delivered = p->generation;
    rg__failpoint("agent.deliver", -1, line->resume.step, p->generation);
    a->life.most_step = line->resume.step;
    a->on->noted(a);
    rg__change *c = rg__change_of(a, p->generation);
    if (c != NULL)
        c->decided = rg__now_ns();
    a->detected_ns = 0;
    /* a worker left out is in an older generation: it comes to the door */
    rg__generation_abort(a, p->generation - 1);
    rg__log_who(a->params->host, -1, p->size, p->generation);
    rg__log(RG__INFO, "agent", "generation %llu: %d worker%s, %s",
            (unsigned long long)p->generation, p->size, rg__plural(p->size),
            p->cause);
    if (line->steps_lost < 0)
        rg__log(RG__WARN, "agent",
                "how many steps generation %llu has rolled back is unknown: no "
                "host of the world before it takes part",
                (unsigned long long)p->generation);
    a->on->delivered(a, p, line);
    rg__replication_begin(a, p);
    if (!rg__fetch_begin(a, line))
        rg__generation_pass_on(a);
}

static void finish(rg__agent *a)
{
    if (a->is_done)
        return;
    a->is_done = true;
    rg__fetch_cancel(a);
    rg__failpoint("agent.finish", -1, 0, a->view.cur.generation);
    const rg__proposal *p = rg__view_decided(a);
    if (p != NULL)
        rg__change_note_steps(a, p->generation);
    rg__log(RG__INFO, "agent", "the job is done");
    a->on->done(a);
}

/* ------------------------------------------------------------------- offer */

/* The agent before us took up an offer and told workers of it; which one is not
 * known. But none with members here is decided without its ack. */
static bool is_offered_one(const rg__agent *a)
{
    const rg__proposal *p = rg__snapshot_gen(&a->view, a->life.offered);
    if (p == NULL)
        return false;
    return a->offer.op[0] != '\0'
               ? strcmp(p->op, a->offer.op) == 0
               : rg__snapshot_line(&a->view, a->life.offered) != NULL &&
                     rg__view_count_local(a, p) > 0;
}

/* Here it is left at once, and the others are told. */
static void end_once(rg__agent *a, uint64_t generation, const char *what)
{
    char why[RG__CAUSE_MAX];
    rg__generation_abort(a, generation);
    if (a->offer.ended == generation)
        return;
    a->offer.ended = generation;
    snprintf(why, sizeof why, "host %.63s %s", a->params->host, what);
    rg__publish_reason(a, generation, NULL, why);
}

static void refuse(rg__agent *a)
{
    if (a->view.cur.phase == RG__GEN_PROPOSED)
        end_once(a, a->life.offered, "was told of another one before");
    else
        rg__generation_abort(a, a->life.offered);
}

/* Members here have left it for the offer. What it ends for may have been known
 * to one agent alone, which is gone. */
static void end_left(rg__agent *a)
{
    const rg__cur *cur = &a->view.cur;
    if (cur->phase == RG__GEN_DECIDED && rg__view_has_members(a) &&
        !rg__publish_knows_reason(a, cur->generation))
        end_once(a, cur->generation,
                 "has left it for one that came to nothing");
}

void rg__generation_follow_offer(rg__agent *a)
{
    const rg__cur *cur = &a->view.cur;
    if (a->life.offered == 0 || rg__view_is_offered(a, &a->view))
        return;
    if (cur->generation < a->life.offered) {
        end_left(a);
        return;
    }
    const bool is_right = is_offered_one(a);
    if (!is_right)
        refuse(a);
    if (is_right || cur->generation > a->life.offered)
        rg__offer_drop(a);
}

/* ------------------------------------------------------------------ follow */

void rg__generation_follow(rg__agent *a)
{
    rg__generation_follow_offer(a);
    deliver(a);
    follow_begun(a);
    abort_what_is_published(a);
    recall_members(a);
    if (a->view.cur.phase == RG__GEN_PROPOSED) {
        prepare(a, rg__view_newest(a));
        rg__generation_try_ack(a);
    } else if (a->view.cur.phase == RG__GEN_DONE) {
        finish(a);
    }
    rg__publish_if_held(a);
}

/* ---------------------------------------------------------- create, destroy */

void rg__generation_taken_up(rg__agent *a, uint64_t generation)
{
    a->generation->prepared = generation;
}

void rg__generation_fin_again(rg__agent *a)
{
    a->generation->finning = 0;
    rg__generation_try_fin(a);
}

rg_status rg__generation_create(rg__agent *a)
{
    a->generation = calloc(1, sizeof *a->generation);
    a->publication = calloc(1, sizeof *a->publication);
    a->leader = calloc(1, sizeof *a->leader);
    a->acks = calloc(1, sizeof *a->acks);
    if (a->generation == NULL || a->publication == NULL || a->leader == NULL ||
        a->acks == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an agent");
    a->generation->prepare_timer = rg__timer_create(a->loop, hand_out, a);
    a->leader->look_timer = rg__timer_create(a->loop, rg__leader_look, a);
    a->leader->expect_timer = rg__timer_create(a->loop, rg__expect, a);
    a->publication->timer = rg__timer_create(a->loop, rg__publish_now, a);
    return a->generation->prepare_timer != NULL &&
                   a->leader->look_timer != NULL &&
                   a->leader->expect_timer != NULL &&
                   a->publication->timer != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for timers");
}

void rg__generation_destroy(rg__agent *a)
{
    if (a->generation != NULL) {
        rg__timer_destroy(a->generation->prepare_timer);
        free(a->generation->change);
    }
    if (a->leader != NULL) {
        rg__timer_destroy(a->leader->look_timer);
        rg__timer_destroy(a->leader->expect_timer);
        rg__deaths_forget(a);
        rg__plan_clock_reset(&a->leader->clock);
    }
    rg__offer_drop(a);
    if (a->publication != NULL) {
        rg__timer_destroy(a->publication->timer);
        free(a->publication->reason);
    }
    if (a->acks != NULL)
        free(a->acks->ack);
    free(a->generation);
    free(a->leader);
    free(a->publication);
    free(a->acks);
}
