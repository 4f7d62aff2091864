/* From silence to a lost host.
 *
 *   half the budget silent        it is probed
 *   seven tenths, still silent    it is accused: lead/susp/<host>/<me>, and
 *                                 all/probe asks all agents to probe
 *   all/probe                     every agent probes every other once and
 *                                 accuses each that does not answer within a
 *                                 fifth of the budget; a host that hears no
 *                                 other accuses itself as well
 *   three tenths later            the leader drops hosts until all that stay
 *                                 hear each other (member/links.c: when whole
 *                                 rounds count); if the leader itself is among
 *                                 them, its accusers delete its key; so does an
 *                                 agent that finds the leader's agent gone
 *
 * A host whose kernel says that the agent's port is shut has only lost its
 * agent: it is accused when --agent-grace has passed, or, like any silent host,
 * when a worker there has closed a connection too, or when the generation is
 * broken, or its launch over, and all hosts wait. An accusation is withdrawn
 * when a probe is answered, and all of them when this agent finds that it was
 * late itself, ten times in a row at most. Without etcd nothing is accused. */
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/hosts/suspect_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"

#include <stdlib.h>
#include <string.h>

#include "elastic/member/links.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define LOST_MAX  1024
#define FORGET_NS (UINT64_C(600) * 1000 * RG__MS) /* hosts gone for good */
#define JUDGES    8 /* of a leader, which begin with the same beat */

static uint64_t round_length_ns(const rg__agent *a)
{
    return rg__budget_ns(a->params) / 5;
}

static bool is_round_over(const rg__agent *a, uint64_t now)
{
    return a->suspects->round_ns == 0 ||
           now - a->suspects->round_ns >= round_length_ns(a);
}

/* ------------------------------------------------------- what etcd is told */

static void write_down(rg__peer *one);
static void judge_leader(void *agent_arg);

/* Every host sees that key, and all hosts may accuse one at once: the first of
 * them calls the round, as long as the others have not seen that. */
static void call_round(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, RG__KEY(PROBE), a->view.probe);
    rg__job_put(&t, RG__KEY(PROBE), strdup("{}"), rg__lease_id(a->lease));
    rg__job_send(&t, NULL, NULL, call_round);
}

/* What the key holds when it isn't what we thought, or an earlier sending of
 * the same txn has won. */
static void learn(rg__peer *one, const rg__txn_reply *reply)
{
    rg__snapshot found;
    rg__snapshot_read(&found, one->a->prefix, reply->kv, reply->kv_count);
    one->written_mod = reply->kv_count > 0 ? reply->kv[0].mod_revision : 0;
    one->is_written = found.suspicions > 0;
    rg__snapshot_free(&found);
}

static void on_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__peer *one = arg;
    one->writing = NULL;
    if (!rg__agent_has_answer(one->a, st))
        return;
    if (reply->succeeded)
        one->written_mod = reply->revision;
    else
        learn(one, reply);
    write_down(one);
    if (one->id == one->a->view.leader)
        judge_leader(one->a); /* the last of all accusers sees them all */
}

static void write_all(rg__agent *a)
{
    write_down(rg__beat_self(a));
    for (int i = 0; i < rg__beat_peers(a); i++)
        write_down(rg__beat_peer(a, i));
}

/* Bring etcd to what we say, one txn at a time. Guarded by the key's revision,
 * and a withdrawal is no deletion: an accusation that was sent while we were
 * cut off may reach etcd long after that, and would stand forever. */
static void write_down(rg__peer *one)
{
    rg__agent *a = one->a;
    if (one->is_accused == one->is_written || one->writing != NULL ||
        !rg__etcd_is_up(a->etcd) || rg__life_is_ending(a))
        return;
    const rg__key key = RG__KEY(SUSPICION, one->id, NULL, a->id);
    const int64_t lease = rg__lease_id(a->lease);
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, key, one->written_mod);
    rg__job_put(&t, key, rg__suspicion_text(!one->is_accused), lease);
    rg__job_get(&t, RG__ELSE, key);
    one->writing = rg__job_send(&t, on_written, one, write_all);
    if (one->writing != NULL)
        one->is_written = one->is_accused;
    if (one->is_accused && is_round_over(a, rg__now_ns()))
        call_round(a);
}

void rg__suspect_forget(rg__peer *one)
{
    if (one->writing != NULL)
        rg__etcd_cancel(one->writing);
    one->writing = NULL;
}

static void accuse(rg__peer *one, uint64_t now)
{
    rg__log(RG__WARN, "agent", "host %s has not been heard for %llu ms",
            one->name, (unsigned long long)((now - one->heard_ns) / RG__MS));
    one->is_accused = true;
    one->accused_ns = now;
    write_down(one);
}

static void withdraw(rg__peer *one)
{
    one->is_accused = false;
    write_down(one);
}

void rg__suspect_heard(rg__peer *one)
{
    if (!one->is_accused)
        return;
    rg__log(RG__WARN, "agent", "host %s is heard again", one->name);
    withdraw(one);
}

void rg__suspect_excuse(rg__peer *one)
{
    if (one->is_accused)
        withdraw(one);
}

void rg__suspect_forgive(rg__agent *a)
{
    rg__suspect_excuse(rg__beat_self(a));
    for (int i = 0; i < rg__beat_peers(a); i++)
        rg__suspect_excuse(rg__beat_peer(a, i));
}

static void withdraw_old(rg__agent *a, const rg__suspicion *one)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_put(&t, RG__KEY(SUSPICION, one->host, NULL, one->by),
                rg__suspicion_text(true), rg__lease_id(a->lease));
    rg__job_send(&t, NULL, NULL, rg__suspect_take_over);
}

static void withdraw_all(rg__agent *a, const rg__txn_reply *reply)
{
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    for (int i = 0; i < found.suspicions; i++)
        if (found.suspicion[i].by == a->id)
            withdraw_old(a, &found.suspicion[i]);
    rg__snapshot_free(&found);
}

static void on_old_read(void *arg, rg_status st, const rg__txn_reply *reply)
{
    if (st == RG_OK)
        withdraw_all(arg, reply);
}

void rg__suspect_take_over(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_get_kind(&t, RG__KEY_SUSPICION);
    rg__job_send(&t, on_old_read, a, rg__suspect_take_over);
}

/* ------------------------------------------------------------------- rounds */

void rg__suspect_follow(rg__agent *a)
{
    const uint64_t now = rg__now_ns();
    if (a->view.probe == 0 || a->view.probe == a->suspects->round)
        return;
    a->suspects->round = a->view.probe;
    if (a->suspects->round_ns != 0 &&
        now - a->suspects->round_ns < rg__budget_ns(a->params) / 2)
        return; /* this one has just been */
    a->suspects->round_ns = now;
    rg__beat_probe_all(a, now);
    rg__timer_set(a->suspects->timer, round_length_ns(a));
}

/* Neither is the generation broken, or the launch of its ranks over, nor have
 * our members left it for the next one, which others do not reach. */
static bool is_training(const rg__agent *a)
{
    const rg__proposal *decided = rg__view_decided(a);
    const uint64_t now = a->view.cur.generation;
    const bool have_left =
        a->view.cur.phase == RG__GEN_PROPOSED && a->acking >= now &&
        rg__proposal_host_index(rg__view_newest(a), a->id) >= 0;
    return decided != NULL && a->aborted < decided->generation &&
           decided->launch == a->view.mpirun.number &&
           !a->view.mpirun.is_over && !have_left;
}

/* Its agent is gone and its host is not: there is time to start another, as
 * long as no host waits for it. */
static bool is_in_grace(const rg__peer *one, uint64_t now)
{
    return one->refused_ns != 0 && one->link_broke_ns == 0 &&
           is_training(one->a) &&
           now - one->refused_ns < one->a->params->user.grace_ms * RG__MS;
}

static bool is_silent(const rg__peer *one, uint64_t now)
{
    const rg__agent *a = one->a;
    return one->is_expected &&
           now - one->heard_ns > rg__budget_ns(a->params) * 7 / 10;
}

/* Asked in a round, or by a worker that does not get through, it has not
 * answered; it may be heard all the same, when one direction is cut. */
static bool gives_no_answer(const rg__peer *one, uint64_t now)
{
    const rg__agent *a = one->a;
    const uint64_t waited = now - one->asked_ns;
    return one->is_known && one->asked_ns != 0 &&
           one->answered_ns < one->asked_ns && waited >= round_length_ns(a) &&
           waited < rg__budget_ns(a->params);
}

/* All have been asked, and no datagram of any host has come since then. */
static bool hears_no_host(const rg__agent *a, uint64_t now)
{
    int known = 0;
    if (a->suspects->round_ns == 0 ||
        now - a->suspects->round_ns < round_length_ns(a))
        return false;
    for (int i = 0; i < rg__beat_peers(a); i++) {
        const rg__peer *one = rg__beat_peer(a, i);
        if (one->is_known && one->heard_ns >= a->suspects->round_ns)
            return false;
        known += one->is_known;
    }
    return known > 0;
}

/* Said against ourselves, it tells a deaf host from one that is not heard. */
static void judge_ourselves(rg__agent *a, uint64_t now)
{
    rg__peer *self = rg__beat_self(a);
    const bool is_cut_off = hears_no_host(a, now);
    if (is_cut_off && !self->is_accused)
        rg__log(RG__WARN, "agent",
                "this host hears no other host of the job; does a firewall "
                "drop what comes in?");
    self->is_accused = is_cut_off;
    write_down(self);
}

static bool has_lost_etcd(const rg__peer *one, uint64_t now)
{
    return one->etcd_lost_ns != 0 &&
           now - one->etcd_lost_ns > rg__patience_ns(one->a->params);
}

/* -------------------------------------------------------------- the leader */

static void forget_accusations(rg__agent *a)
{
    free(a->suspects->accused);
    a->suspects->accused = NULL;
    a->suspects->accusations = 0;
}

void rg__suspect_note(rg__agent *a, rg__snapshot *snap)
{
    rg__links_keep_times(snap, a->suspects->accused, a->suspects->accusations,
                         rg__now_ns());
    forget_accusations(a);
    if (snap->suspicions == 0)
        return;
    a->suspects->accused =
        calloc((size_t)snap->suspicions, sizeof *a->suspects->accused);
    if (a->suspects->accused == NULL)
        return;
    memcpy(a->suspects->accused, snap->suspicion,
           sizeof *snap->suspicion * (size_t)snap->suspicions);
    a->suspects->accusations = snap->suspicions;
}

/* An agent whose newest heartbeat says that it accuses no host has taken back
 * what etcd, which may be slow, still says of it. */
static void leave_out_taken_back(const rg__agent *a, rg__snapshot *snap,
                                 uint64_t now)
{
    for (int i = 0; i < snap->suspicions; i++) {
        rg__suspicion *one = &snap->suspicion[i];
        const rg__peer *by =
            one->by == a->id ? rg__beat_self(a) : rg__beat_find(a, one->by);
        if (by != NULL && by->content_ns > one->since_ns)
            one->since_ns =
                by->content_ns == by->beat_ns ? now : by->content_ns;
    }
}

int rg__suspect_lost(rg__agent *a, uint64_t *lost, int room,
                     uint64_t *again_ns_p)
{
    const uint64_t now = rg__now_ns();
    leave_out_taken_back(a, &a->known, now);
    return rg__links_lost(&a->known, now, round_length_ns(a), lost, room,
                          again_ns_p);
}

int rg__suspect_no_etcd(const rg__agent *a, uint64_t *no_etcd, int room)
{
    const uint64_t now = rg__now_ns();
    int n = 0;
    for (int i = 0; i < rg__beat_peers(a) && n < room; i++) {
        const rg__peer *one = rg__beat_peer(a, i);
        if (has_lost_etcd(one, now))
            no_etcd[n++] = one->id;
    }
    return n;
}

static bool is_on_record(const rg__peer *one)
{
    return one->is_accused && one->is_written && one->writing == NULL;
}

static void on_deposed(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    (void)st;
    (void)reply; /* the mirror shows whose the key is */
    a->suspects->deposing = NULL;
}

/* Without memory for it, the leader is judged again with the next beat. */
static void depose(rg__agent *a, int64_t token)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(LEADER), token);
    rg__job_delete(&t, RG__KEY(LEADER));
    a->suspects->deposing = rg__job_send(&t, on_deposed, a, NULL);
}

static uint64_t left_ns(uint64_t until, uint64_t now)
{
    return until > now ? until - now : 0;
}

/* Do they cost the leader its place, and us not ours? */
static bool is_leader_lost(rg__agent *a, const rg__snapshot *found)
{
    uint64_t lost[LOST_MAX], again_ns = 0;
    const uint64_t asked = a->suspects->asked_ns;
    rg__snapshot seen = a->view; /* borrowed */
    seen.suspicion = found->suspicion;
    seen.suspicions = found->suspicions;
    leave_out_taken_back(a, &seen, asked);
    const int n = rg__links_lost(&seen, asked, round_length_ns(a), lost,
                                 LOST_MAX, &again_ns);
    if (again_ns != 0)
        rg__timer_set(a->suspects->judge_timer,
                      left_ns(asked + again_ns, rg__now_ns()));
    return rg__is_among(seen.leader, lost, n) && !rg__is_among(a->id, lost, n);
}

/* All accusations at one revision: does the leader have to go? Not if we have
 * withdrawn ours while we waited for them. They are those of the moment when
 * they were asked for: a slow reply says nothing of the time since. */
static void on_accusations(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    const rg__peer *leader = rg__beat_find(a, a->view.leader);
    a->suspects->deposing = NULL;
    if (st != RG_OK || leader == NULL || !is_on_record(leader))
        return;
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    rg__suspect_note(a, &found);
    if (is_leader_lost(a, &found)) {
        rg__log(RG__WARN, "agent", "the leader, host %s, is lost; electing",
                leader->name);
        depose(a, a->view.leader_token);
    }
    rg__snapshot_free(&found);
}

static void read_accusations(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_get_kind(&t, RG__KEY_SUSPICION);
    a->suspects->asked_ns = rg__now_ns();
    a->suspects->deposing = rg__job_send(&t, on_accusations, a, NULL);
}

/* One accuser that judges the leader is enough, and each reads what all say. So
 * some begin, and with each beat as many more: those may be lost as well. */
static bool is_our_turn(const rg__agent *a, const rg__peer *leader,
                        uint64_t now)
{
    const uint64_t turns = (uint64_t)rg__beat_peers(a) / JUDGES + 1;
    const uint64_t beat_ns = rg__budget_ns(a->params) / 10;
    return now >= leader->accused_ns + a->id % turns * beat_ns;
}

/* Its host has its grace, but another agent may lead as soon as its agent is
 * gone: no change is decided meanwhile. */
static void judge_leader(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const uint64_t now = rg__now_ns();
    if (a->suspects->deposing != NULL || rg__view_i_lead(a) ||
        !rg__etcd_is_up(a->etcd) || rg__life_is_ending(a) || a->is_done)
        return;
    const rg__peer *leader = rg__beat_find(a, a->view.leader);
    if (leader == NULL)
        return;
    if (leader->refused_ns != 0 && is_silent(leader, now)) {
        rg__log(RG__WARN, "agent",
                "the leader's agent on host %s is gone; electing",
                leader->name);
        depose(a, a->view.leader_token);
    } else if (is_on_record(leader)) {
        if (is_our_turn(a, leader, now))
            read_accusations(a); /* once more: how long have they stood? */
    } else {
        forget_accusations(a);
    }
}

/* --------------------------------------------------------------------- look */

/* Equal for the same hosts in any order. */
static uint64_t mark_of(const uint64_t *hosts, int n)
{
    uint64_t mark = (uint64_t)n;
    for (int i = 0; i < n; i++)
        mark += hosts[i] * UINT64_C(0x9e3779b97f4a7c15);
    return mark;
}

/* A host says only in its beats whether etcd answers it: no key changes, so
 * nothing else would make the leader look. */
static void look_at_no_etcd(rg__agent *a)
{
    uint64_t no_etcd[LOST_MAX];
    const int n = rg__suspect_no_etcd(a, no_etcd, LOST_MAX);
    if (mark_of(no_etcd, n) != a->suspects->no_etcd_mark)
        a->on->no_etcd_changed(a);
}

/* The members' generation; none goes on to another before a step end. */
static uint64_t standing(const rg__agent *a)
{
    const rg__cur *cur = &a->view.cur;
    const rg__proposal *decided = rg__view_decided(a);
    const bool stands = cur->phase == RG__GEN_DECIDED ||
                        (cur->phase == RG__GEN_PROPOSED &&
                         rg__view_is_only_announced(a, cur->generation));
    return stands && decided != NULL ? decided->generation : 0;
}

void rg__suspect_told(rg__agent *a, uint64_t generation)
{
    a->suspects->told_generation = generation;
    a->suspects->told_ns = rg__now_ns();
}

/* A host has aborted the generation, and can't publish why: etcd does not
 * answer it. */
static void speak_for_others(rg__agent *a, uint64_t now)
{
    const uint64_t g = a->suspects->told_generation;
    if (g == 0 || !rg__view_i_lead(a) ||
        now - a->suspects->told_ns < rg__patience_ns(a->params))
        return;
    a->suspects->told_generation = 0;
    if (g == standing(a))
        a->on->ended_for(a, g,
                         "a host aborted it, but could not publish the reason");
}

/* A member's host acked, and has not heard the decision since: all would wait
 * for its workers until etcd answers it again. */
static void speak_for_no_etcd(rg__agent *a, uint64_t now)
{
    const uint64_t g = standing(a);
    if (g == 0 || !rg__view_i_lead(a) || a->suspects->spoken_for == g)
        return;
    for (int i = 0; i < rg__beat_peers(a); i++) {
        const rg__peer *one = rg__beat_peer(a, i);
        if (!rg__view_has_host(a, one->id) || !has_lost_etcd(one, now) ||
            one->begun >= g)
            continue;
        char why[RG__ERROR_MAX];
        snprintf(why, sizeof why,
                 "host %s has not begun it, and etcd does not answer that",
                 one->name);
        a->suspects->spoken_for = g;
        a->on->ended_for(a, g, why);
        return;
    }
}

/* The job is done, and the world changes no more; but a worker may still wait
 * for a worker of a host that is gone and can't say so. */
static void look_when_done(rg__agent *a, uint64_t now)
{
    const rg__peer *one;
    for (int i = 0; (one = rg__beat_minded(a, i)) != NULL; i++) {
        if (one->is_expected && one->refused_ns == 0 &&
            now - one->heard_ns > rg__budget_ns(a->params) &&
            rg__view_has_host(a, one->id))
            a->on->host_missed(a);
    }
}

void rg__suspect_look(rg__agent *a)
{
    const uint64_t now = rg__now_ns();
    if (a->is_done)
        look_when_done(a, now);
    if (!rg__etcd_is_up(a->etcd) || rg__life_is_ending(a) || a->is_done)
        return;
    if (a->view.leader == 0)
        a->on->leader_missed(a); /* the winner may be gone already */
    rg__peer *one;
    for (int i = 0; (one = rg__beat_minded(a, i)) != NULL; i++) {
        if (!one->is_accused &&
            (gives_no_answer(one, now) ||
             (is_silent(one, now) && !is_in_grace(one, now))))
            accuse(one, now);
        else if (one->is_accused && now - one->accused_ns > FORGET_NS)
            withdraw(one);
        write_down(one);
    }
    judge_ourselves(a, now);
    judge_leader(a);
    speak_for_others(a, now);
    speak_for_no_etcd(a, now);
    if (rg__view_i_lead(a))
        look_at_no_etcd(a);
}

void rg__suspect_look_in(rg__agent *a, uint64_t ns)
{
    rg__timer_set(a->suspects->timer, ns);
}

void rg__suspect_planned_on(rg__agent *a, const uint64_t *no_etcd, int n)
{
    a->suspects->no_etcd_mark = mark_of(no_etcd, n);
}

void rg__suspect_spoke(rg__agent *a, uint64_t generation)
{
    a->suspects->spoken_for = generation;
}

bool rg__suspect_has_spoken(const rg__agent *a, uint64_t generation)
{
    return a->suspects->spoken_for == generation;
}

static void on_timer(void *arg)
{
    rg__agent *a = arg;
    a->on->round_over(a);
}

rg_status rg__suspect_create(rg__agent *a)
{
    a->suspects = calloc(1, sizeof *a->suspects);
    if (a->suspects != NULL) {
        a->suspects->timer = rg__timer_create(a->loop, on_timer, a);
        a->suspects->judge_timer = rg__timer_create(a->loop, judge_leader, a);
    }
    return a->suspects != NULL && a->suspects->timer != NULL &&
                   a->suspects->judge_timer != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for an agent");
}

void rg__suspect_destroy(rg__agent *a)
{
    if (a->suspects == NULL)
        return;
    rg__timer_destroy(a->suspects->timer);
    rg__timer_destroy(a->suspects->judge_timer);
    free(a->suspects->accused);
    free(a->suspects);
}
