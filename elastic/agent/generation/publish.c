/* This host's record in etcd, and the reasons why generations end. One txn at
 * a time carries the newest record and every reason not yet there, guarded by
 * the record's revision: in whatever order requests arrive, an older record
 * never replaces a newer one. While etcd is away they wait here, and the newest
 * record replaces the one that waits: a death and its replacement are then one
 * change. */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/vault/vaults.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"

#define BEHIND_NS (10 * RG__MS) /* a decision: workers step first */
#define TOLD_NS   (20 * RG__MS) /* the leader was: it decides first */

/* All of a launch are gone from here before a slot is free for the next. */
static void publish_launch(const rg__agent *a, rg__host_record *host)
{
    host->swept = a->launch.swept;
    host->broke = a->launch.broke;
    host->broke_code = a->launch.code;
    host->broke_by = a->launch.by;
    snprintf(host->broke_why, sizeof host->broke_why, "%s", a->launch.why);
}

void rg__publish_fill(const rg__agent *a, rg__host_record *host)
{
    snprintf(host->name, sizeof host->name, "%s", a->params->host);
    host->id = a->id;
    host->seq = a->publication->seq;
    host->slots = a->params->slots;
    host->elastic = a->elastic;
    host->address = a->address;
    host->port = a->port;
    host->is_draining = a->departure.is_draining;
    host->notice_ms =
        a->departure.is_draining ? (int)a->departure.notice_ms : 0;
    host->is_gone = a->departure.is_leaving;
    host->has_etcd = a->params->has_etcd;
    host->vault_bytes = rg__vault_bytes(a);
    publish_launch(a, host);
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        host->open += s->saved.state != SLOT_GIVEN_UP;
        if (s->saved.state == SLOT_GIVEN_UP) {
            host->failed_code =
                s->saved.exit_code != 0 ? s->saved.exit_code : 1;
            snprintf(host->failed, sizeof host->failed, "%.60s.%u %.63s",
                     a->params->host, s->index, s->saved.given_up);
        }
        host->slot[host->slot_count++] = (rg__slot_record){
            .slot = s->index,
            .start = s->saved.start,
            .pid = s->w.pid,
            .port = s->w.port,
            .is_alive = rg__slot_is_alive(s) ||
                        (a->launch.ends_itself && s->saved.is_recalled),
            .is_at_door = s->saved.state == SLOT_DOOR &&
                          (a->spec.is_known || s->w.waits) &&
                          rg__paths_are_proved(a),
            .waits = s->w.waits,
            .is_free = a->params->is_mpi && a->life.state == RG__LIFE_WORKING &&
                       s->saved.state == SLOT_IDLE};
    }
}

static char *record_text(const rg__agent *a)
{
    rg__slot_record slots[RG__HOST_SLOTS_MAX];
    rg__host_record host = {.slot = slots};
    rg__publish_fill(a, &host);
    return rg__host_text(&host);
}

static void put_reasons(rg__agent *a, rg__txn_draft *t)
{
    a->publication->reasons_sent =
        a->publication->reasons < 64 ? a->publication->reasons : 64;
    for (int i = 0; i < a->publication->reasons_sent; i++) {
        const rg__reason *r = &a->publication->reason[i];
        rg__job_put(t, RG__KEY(REASON, r->generation, r->member),
                    rg__reason_text(r), 0);
    }
}

static void drop_sent_reasons(rg__agent *a)
{
    a->publication->reasons -= a->publication->reasons_sent;
    if (a->publication->reasons > 0)
        memmove(a->publication->reason,
                a->publication->reason + a->publication->reasons_sent,
                sizeof *a->publication->reason *
                    (size_t)a->publication->reasons);
}

/* Another incarnation of this host has the record. Ours, once written, is only
 * replaced by a newer one; before, the other may be dead or alive. */
static void meet_other(rg__agent *a, const rg__host_record *record)
{
    if (a->publication->has_published) {
        rg__agent_leave(a, RG__EXIT_STORE,
                        "another agent has taken the place of host %s in job "
                        "%s; give each host a name of its own with --host",
                        a->params->host, a->params->job);
        return;
    }
    rg__proposal_host namesake = {
        .id = record->id, .address = record->address, .port = record->port};
    snprintf(namesake.name, sizeof namesake.name, "%s", record->name);
    a->publication->namesake_revision = record->mod_revision;
    if (record->is_gone)
        rg__publish_name_conflict(a, false);
    else
        rg__beat_ask_namesake(a, &namesake);
}

void rg__publish_name_conflict(rg__agent *a, bool is_alive)
{
    if (is_alive) {
        rg__agent_leave(a, RG__EXIT_STORE,
                        "host %s is in job %s already, by another agent that "
                        "lives; give this one another name with --host",
                        a->params->host, a->params->job);
        return;
    }
    a->publication->host_revision = a->publication->namesake_revision;
    rg__publish(a);
}

static void take_refusal(rg__agent *a, const rg__txn_reply *reply)
{
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    const rg__host_record *record = found.hosts == 1 ? &found.host[0] : NULL;
    if (record == NULL) {
        /* The lease was lost, and the key with it; or the key can't be read. */
        a->publication->is_dirty = true;
        a->publication->host_revision =
            reply->kv_count > 0 ? reply->kv[0].mod_revision : 0;
    } else if (record->id == a->id) {
        a->publication->host_revision = record->mod_revision;
        if (record->seq ==
            a->publication->seq)  /* an earlier sending was applied; what has */
            drop_sent_reasons(a); /* changed since is still to be said */
        else
            a->publication->is_dirty = true;
    } else {
        a->publication->is_dirty = false;
        meet_other(a, record);
    }
    rg__snapshot_free(&found);
}

static void on_published(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    a->publication->publishing = NULL;
    rg__wait_end(a, RG__WAIT_ETCD, 0);
    if (!rg__agent_has_answer(a, st))
        return;
    if (reply->succeeded) {
        a->publication->host_revision = reply->revision;
        a->publication->was_away = false;
        a->publication->is_counted = a->publication->is_dirty;
        if (!a->publication->has_published) {
            a->publication->has_published = true;
            a->on->noted(a);
        }
        drop_sent_reasons(a);
    } else {
        take_refusal(a, reply);
    }
    a->publication->reasons_sent = 0;
    if (a->publication->is_dirty || a->publication->reasons > 0)
        rg__publish(a);
    if (rg__life_is_over(a)) /* not before the last word is said */
        a->on->settled(a);
}

/* That a host of the world has gone is recorded for good: others would wait for
 * it, and a job is over, a static one done, when all have gone. */
static int64_t lease_of_record(const rg__agent *a)
{
    const bool is_last_word =
        a->departure.is_leaving &&
        (rg__view_is_static(a) || rg__view_has_host(a, a->id));
    return is_last_word ? 0 : rg__lease_id(a->lease);
}

static void send_record(rg__agent *a)
{
    a->publication->is_dirty = true;
    a->publication->is_held = false;
    if (a->mirror == NULL || rg__beat_has_name_conflict(a))
        return; /* once the first listing is here, or the other has answered */
    if (a->publication->publishing != NULL && rg__etcd_is_up(a->etcd))
        return; /* once the answer is here */
    if (a->publication->publishing != NULL)
        rg__etcd_cancel(a->publication->publishing);
    const rg__key key = RG__KEY(HOST, 0, a->params->host);
    a->publication->seq++;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, key, a->publication->host_revision);
    rg__job_put(&t, key, record_text(a), lease_of_record(a));
    put_reasons(a, &t);
    rg__job_get(&t, RG__ELSE, key);
    a->publication->publishing = rg__job_send(&t, on_published, a, send_record);
    a->publication->is_dirty = a->publication->publishing == NULL;
    rg__wait_begin(a, RG__WAIT_ETCD, 0, "etcd to take the record of this host");
}

/* A leader plans from what it knows of its own host, and from deaths that it is
 * told. etcd hears first what it offers because of that: a txn for the record
 * alone would hold it up. The record follows in any case. */
static bool may_wait(const rg__agent *a)
{
    return a->publication->has_published && !a->departure.is_leaving &&
           !rg__life_is_ending(a);
}

static bool does_leader_look_first(const rg__agent *a)
{
    return rg__leader_sees_all(a) && rg__view_i_lead(a) && may_wait(a);
}

void rg__publish(rg__agent *a)
{
    a->publication->is_dirty = true;
    if (does_leader_look_first(a))
        rg__timer_set(a->publication->timer, 0);
    else if (!a->publication->is_held || !may_wait(a))
        send_record(a);
}

void rg__publish_now(void *agent_arg)
{
    rg__agent *a = agent_arg;
    if (does_leader_look_first(a)) {
        a->leader->is_known_old = true;
        rg__leader_look(a);
    }
    a->publication->is_held = may_wait(a) && rg__view_is_offered(a, &a->view);
    a->publication->is_counted |= a->publication->is_held;
    if (!a->publication->is_held)
        send_record(a);
}

void rg__publish_if_held(rg__agent *a)
{
    if (a->publication->is_held && !rg__view_is_offered(a, &a->view) &&
        !rg__timer_is_set(a->publication->timer))
        rg__timer_set(a->publication->timer, BEHIND_NS);
}

/* When etcd was away, it hears of all hosts at once when it is back. */
static bool is_etcd_up_to_date(const rg__agent *a)
{
    return !a->publication->was_away && rg__etcd_is_sound(a->etcd);
}

/* Not in a first world, of which nothing counts before all hosts have spoken.
 * But what an offer was made of goes on counting. */
static bool may_lay(const rg__agent *a)
{
    return rg__snapshot_host(&a->known, a->id) != NULL &&
           !a->departure.is_leaving && a->known.begun != 0 &&
           (a->publication->is_counted || is_etcd_up_to_date(a));
}

void rg__publish_lay(rg__agent *a)
{
    const struct rg__publication *mine = a->publication;
    if (!may_lay(a))
        return;
    if (mine->is_dirty || mine->publishing != NULL) {
        char *text = record_text(a);
        rg__snapshot_lay(&a->known, RG__KEY(HOST, 0, a->params->host), text);
        free(text);
    }
    for (int i = 0; i < mine->reasons; i++) {
        const rg__reason *r = &mine->reason[i];
        char *text = rg__reason_text(r);
        rg__snapshot_lay(&a->known, RG__KEY(REASON, r->generation, r->member),
                         text);
        free(text);
    }
}

void rg__publish_if_dirty(rg__agent *a)
{
    if (a->publication->is_dirty)
        rg__publish(a);
}

void rg__publish_again(rg__agent *a)
{
    a->publication->host_revision = 0;
    rg__publish(a);
}

bool rg__publish_is_under_way(const rg__agent *a)
{
    return a->publication->publishing != NULL || a->publication->is_held ||
           rg__timer_is_set(a->publication->timer);
}

bool rg__publish_has_been(const rg__agent *a)
{
    return a->publication->has_published;
}

void rg__publish_resume(rg__agent *a, bool has_been)
{
    a->publication->has_published = has_been;
    a->publication->seq = (uint64_t)a->life.agents
                          << 32; /* beyond what was sent before */
}

static void name_member(const rg__agent *a, const rg__slot *s, char *name,
                        size_t n)
{
    if (s != NULL)
        snprintf(name, n, "%s.%u.%u", a->params->host, s->index,
                 s->saved.start);
    else
        snprintf(name, n, "%s", a->params->host);
}

static rg__reason *find_waiting(const rg__agent *a, uint64_t generation,
                                const char *member)
{
    for (int i = 0; i < a->publication->reasons; i++)
        if (a->publication->reason[i].generation == generation &&
            strcmp(a->publication->reason[i].member, member) == 0)
            return &a->publication->reason[i];
    return NULL;
}

/* One key each: of several reasons of one member for one generation the first
 * says best what happened. */
static rg__reason *add_reason(rg__agent *a, uint64_t generation,
                              const rg__slot *s, const char *text)
{
    rg__reason one = {.generation = generation, .at_ms = rg__wall_ms()};
    name_member(a, s, one.member, sizeof one.member);
    rg__reason *first = find_waiting(a, generation, one.member);
    if (first != NULL)
        return first;
    rg__reason *more =
        realloc(a->publication->reason,
                sizeof *more * (size_t)(a->publication->reasons + 1));
    if (more == NULL) {
        rg__agent_leave(a, RG__EXIT_SYSTEM,
                        "no memory to say why generation %llu ends: %s",
                        (unsigned long long)generation, text);
        return NULL;
    }
    a->publication->reason = more;
    rg__reason *r = &more[a->publication->reasons++];
    *r = one;
    snprintf(r->text, sizeof r->text, "%s", text);
    for (char *c = r->text; *c != '\0'; c++) /* a worker's words: any bytes */
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    return r;
}

void rg__publish_reason(rg__agent *a, uint64_t generation, const rg__slot *s,
                        const char *text)
{
    if (add_reason(a, generation, s, text) != NULL)
        rg__publish(a);
}

/* The leader is told why, unless etcd has to hear of more first. */
void rg__publish_death(rg__agent *a, uint64_t generation, const rg__slot *s,
                       const char *text)
{
    char *said = NULL;
    rg__reason *r = add_reason(a, generation, s, text);
    if (r == NULL)
        return;
    r->is_death = true;
    char *reason = is_etcd_up_to_date(a) ? rg__reason_text(r) : NULL;
    if (reason != NULL && asprintf(&said, "%s %s", r->member, reason) < 0)
        said = NULL;
    const bool is_told =
        rg__beat_abort(a, generation, said) && said != NULL && may_wait(a);
    rg__failpoint("agent.reported", -1, 0, generation);
    free(reason);
    free(said);
    if (is_told && !a->publication->is_held)
        rg__timer_set(a->publication->timer, TOLD_NS);
    a->publication->is_held |= is_told;
    rg__publish(a);
}

void rg__publish_broken_link(rg__agent *a, uint64_t generation,
                             const rg__slot *s, const char *host,
                             const char *text)
{
    rg__reason *r = add_reason(a, generation, s, text);
    if (r == NULL)
        return;
    snprintf(r->by, sizeof r->by, "%s", a->params->host);
    snprintf(r->link, sizeof r->link, "%s", host);
    rg__publish(a);
}

static bool is_any_of(const rg__reason *reason, int n, uint64_t generation)
{
    for (int i = 0; i < n; i++)
        if (reason[i].generation == generation)
            return true;
    return false;
}

bool rg__publish_knows_reason(const rg__agent *a, uint64_t generation)
{
    return is_any_of(a->view.reason, a->view.reasons, generation) ||
           is_any_of(a->publication->reason, a->publication->reasons,
                     generation);
}
