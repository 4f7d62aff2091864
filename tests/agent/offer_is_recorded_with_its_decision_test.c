/* A leader that knows of a death says what it proposes before anything is on
 * record. Hosts that are where it is take that up; once all have acked, one txn
 * writes the proposal and its decision. Another proposal of that number is
 * refused, also by the next agent, and an ack of it does not count. An offer
 * that comes to nothing ends the generation that hosts have left for it. The
 * death may be another host's, of which etcd knows nothing yet. Members restore
 * before the record if only the dead are left out.
 *
 * Covers: offers.c deaths.c leader.c publish.c view.c snapshot.c */
#include "tests/agent/keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GEN  KEYS "all/gen/0000000000000002"
#define LINE KEYS "all/line/0000000000000002"
#define CUR  KEYS "all/cur"
#define LEAD KEYS "all/leader"

#define TRIES 10

static rg__member_id members[] = {{1, 0, 1}, {1, 1, 1}};
static uint32_t ports[] = {0, 0};
static rg__proposal_host host = {
    .name = "h1", .id = 1, .address = {"127.0.0.1"}, .port = 9};

static rg__proposal proposal(uint64_t g, const char *op, int size)
{
    rg__proposal p = {.generation = g,
                      .from = g - 1,
                      .member = members,
                      .port = ports,
                      .size = size,
                      .host = &host,
                      .host_count = 1};
    snprintf(p.op, sizeof p.op, "%s", op);
    return p;
}

static void put_proposal(etcd_server *server, const rg__proposal *p)
{
    char key[64];
    snprintf(key, sizeof key, "all/gen/%016llx",
             (unsigned long long)p->generation);
    keys_put(server, key, rg__proposal_difference(p, NULL));
}

static void put_cur(etcd_server *server, uint64_t g, rg__gen_phase phase)
{
    const rg__cur cur = {.generation = g, .phase = phase};
    keys_put(server, "all/cur", rg__cur_text(&cur));
}

static void put_host(etcd_server *server, bool is_whole)
{
    rg__slot_record slots[] = {
        {.slot = 0, .start = 1, .pid = 100, .is_alive = true},
        {.slot = 1, .start = 1, .pid = 101, .is_alive = is_whole}};
    rg__host_record h = {.name = "h1",
                         .id = 1,
                         .seq = 1,
                         .slots = 2,
                         .open = 2,
                         .elastic = 1,
                         .address = {"127.0.0.1"},
                         .port = 9,
                         .slot = slots,
                         .slot_count = 2};
    keys_put(server, "lead/host/h1", rg__host_text(&h));
}

/* Generation 1 is decided, has two workers on host 1, and a commit. */
static void put_world(etcd_server *server)
{
    const rg__line line = {.generation = 1, .source = 0, .to_size = 2};
    const rg__proposal p = proposal(1, "one", 2);
    etcd_server_delete(server, GEN);
    etcd_server_delete(server, LINE);
    keys_put_meta(server, 1);
    put_host(server, true);
    keys_put_leader(server, 1);
    put_proposal(server, &p);
    keys_put(server, "all/line/0000000000000001", rg__line_text(&line));
    keys_put(server, "all/begun", rg__begun_text(1));
    put_cur(server, 1, RG__GEN_DECIDED);
}

/* After an offer, the view has it. */
static void see(rg__agent *a)
{
    CHECK_OK(rg__view_read(a, a->mirror, &a->view));
}

typedef struct place {
    scene s;
    rg__events on;
    rg__slot slot[2];
    rg__agent *a;
} place;

static rg__agent *come(place *at, etcd_server *server, uint64_t id)
{
    memset(at, 0, sizeof *at);
    scene_open(&at->s, etcd_server_url(server));
    rg__agent *a = keys_open_agent(&at->s, id);
    at->a = a;
    at->on = rg__agent_events;
    at->on.offered = see;
    a->on = &at->on;
    a->own.slots = 2;
    a->slot = at->slot;
    for (uint32_t i = 0; i < 2; i++)
        at->slot[i] = (rg__slot){.a = a,
                                 .index = i,
                                 .saved = {.state = SLOT_DOOR, .start = 1},
                                 .w = {.pid = 100 + (pid_t)i, .sock = -1}};
    a->mirror = a->leader->whole;
    a->delivered = 1;
    a->publication->has_published = true;
    a->elastic = 1;
    a->own.is_one_host = true; /* no datagram goes out */
    CHECK_OK(rg__beat_open(a));
    WAIT_FOR(&at->s, rg__etcd_is_sound(a->etcd)); /* else it offers nothing */
    return a;
}

static void go(place *at)
{
    rg__beat_close(at->a);
    at->a->mirror = NULL;
    at->a->slot = NULL;
    at->a->own.slots = 0;
    keys_close_agent(at->a);
    scene_close(&at->s);
}

/* The worker in slot 0 has built generation 2: what it is told comes here. */
static int stand_for_member(place *at)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    at->slot[0].w.sock = pair[0];
    at->slot[0].w.built = 2;
    at->slot[0].w.loaded = 1;
    at->a->acking = 2;
    return pair[1];
}

static bool is_told(int sock, rg__decided *m)
{
    return recv(sock, m, sizeof *m, MSG_DONTWAIT) == (ssize_t)sizeof *m;
}

static void stand_no_more(place *at, int sock)
{
    close(sock);
    close(at->slot[0].w.sock);
    at->slot[0].w.sock = -1;
}

/* --------------------------------------------------------------- the leader */

static void say_ack(rg__agent *a, const char *op)
{
    rg__ack ack = {.id = 1, .generation = 2, .step = 3, .count = 1};
    ack.held[0] = (rg__held){.id = {1, 3}, .is_whole = true};
    snprintf(ack.op, sizeof ack.op, "%s", op);
    char *text = rg__ack_text(&ack);
    rg__ack_hear(a, 1, 2, text, strlen(text));
    free(text);
}

/* False: etcd was slow, and the proposal was put on record at once. */
static bool is_offered(place *at)
{
    rg__agent *a = at->a;
    WAIT_FOR(&at->s, a->life.offered == 2 || a->leader->acting != NULL ||
                         mirrored(a->mirror, GEN) != NULL ||
                         !rg__etcd_is_up(a->etcd));
    if (a->life.offered == 2)
        return true;
    rg__life_step(a, RG__LIFE_ON_END);
    go(at);
    return false;
}

/* A worker of host 1, which leads, has died. False: as above. */
static bool offers_after_a_death(place *at, etcd_server *server)
{
    put_world(server);
    rg__agent *a = come(at, server, 1);
    at->slot[1].saved.state = SLOT_LOST;
    rg__publish_death(a, 1, &at->slot[1], "h1.1 died");
    return is_offered(at);
}

static bool proposal_and_decision_are_one_record(etcd_server *server)
{
    place at;
    if (!offers_after_a_death(&at, server))
        return false;
    rg__agent *a = at.a;
    const int64_t before = scene_get(&at.s, KEYS "lead/host/h1").mod_revision;
    CHECK(rg__view_is_offered(a, &a->view));
    CHECK(rg__view_is_offered(a, &a->known));
    CHECK_EQ(rg__view_newest(a)->size, 1);
    CHECK(a->leader->acting == NULL);
    say_ack(a, "another"); /* of what has the same number */
    CHECK(a->leader->acting == NULL);
    const int member = stand_for_member(&at);
    rg__decided expected;
    say_ack(a, a->offer.op);
    CHECK(a->leader->acting != NULL);
    CHECK(!is_told(member, &expected)); /* once the txn is sent */
    WAIT_FOR(&at.s, is_told(member, &expected));
    CHECK(expected.is_expected != 0);
    CHECK_EQ((int)expected.generation, 2);
    CHECK(expected.resume.generation == 1 && expected.resume.step == 3);
    stand_no_more(&at, member);
    WAIT_FOR(&at.s, a->leader->acting == NULL);
    a->leader->away_ns = 1; /* it looks no more */
    const outcome line = scene_get(&at.s, LINE);
    CHECK_EQ((int)line.kv_count, 1);
    CHECK(line.mod_revision == scene_get(&at.s, GEN).mod_revision);
    CHECK(line.mod_revision == scene_get(&at.s, CUR).mod_revision);
    CHECK(scene_get(&at.s, KEYS "lead/host/h1").mod_revision == before);
    CHECK(a->publication->is_held); /* and goes out next, ... */
    WAIT_FOR(&at.s, mirrored(a->mirror, LINE) != NULL);
    see(a);
    a->mirror = NULL;   /* what it has to say stays here */
    rg__publish_now(a); /* ... even if the leader's copy of the keys is
                           behind */
    CHECK(!a->publication->is_held);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
    return true;
}

/* A worker that is left out lives: the others end no set of it before the
 * decision. */
static bool living_workers_are_left_out_with_the_record(etcd_server *server)
{
    place at;
    rg__decided m;
    if (!offers_after_a_death(&at, server))
        return false;
    rg__agent *a = at.a;
    const int member = stand_for_member(&at);
    say_ack(a, a->offer.op);
    CHECK(a->leader->acting != NULL);
    rg__snapshot_host(&a->known, 1)->slot[1].is_alive = true;
    WAIT_FOR(&at.s, a->leader->acting == NULL);
    CHECK(!is_told(member, &m));
    stand_no_more(&at, member);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
    return true;
}

/* Another leads before the offer is on record: what was held for it goes out.
 */
static void reason_outlives_the_offer(etcd_server *server)
{
    place at;
    put_world(server);
    rg__agent *a = come(&at, server, 1);
    rg__publish_reason(a, 1, &at.slot[1], "h1.1: too late");
    WAIT_FOR(&at.s, a->publication->is_held);
    a->leader->away_ns = 1; /* it looks no more */
    etcd_server_delete(server, LEAD);
    WAIT_FOR(&at.s, mirrored(a->mirror, LEAD) == NULL);
    see(a);
    a->mirror = NULL; /* what it has to say stays here */
    rg__publish_if_held(a);
    WAIT_FOR(&at.s, !a->publication->is_held);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
}

static void tell(rg__agent *a, uint64_t from, const char *member,
                 const char *why)
{
    char text[512];
    rg__reason r = {.generation = 1, .is_death = true};
    snprintf(r.text, sizeof r.text, "%s", why);
    char *json = rg__reason_text(&r);
    snprintf(text, sizeof text, "%s %s", member, json);
    rg__death_hear(a, from, 1, text, strlen(text));
    free(json);
}

/* Its host can't reach etcd. The leader counts only the process that died,
 * until etcd shows the death. */
static bool death_elsewhere_is_enough(etcd_server *server)
{
    static const char *const garbage[] = {
        "", "h1.1.1", "h1.1.1 ", " {}", "h1.1.1 {}", "h1.1.1 [\"dead\"]"};
    place at;
    put_world(server);
    keys_put_leader(server, 2);
    rg__agent *a = come(&at, server, 2);
    const int64_t before = scene_get(&at.s, KEYS "lead/host/h1").mod_revision;
    tell(a, 1, "h1.1.2", "another process was in that slot");
    tell(a, 1, "h2.1.1", "another host has no such slot");
    tell(a, 3, "h1.1.1", "another host says so");
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++)
        rg__death_hear(a, 1, 1, garbage[i], strlen(garbage[i]));
    WAIT_FOR(&at.s, a->leader->deaths == 0);
    CHECK_EQ((long)a->life.offered, 0);
    WAIT_FOR(&at.s, rg__etcd_is_sound(a->etcd));
    tell(a, 1, "h1.1.1", "h1.1 died");
    if (!is_offered(&at))
        return false;
    CHECK_EQ(rg__view_newest(a)->size, 1);
    CHECK_STR(rg__view_newest(a)->cause, "h1.1 died");
    CHECK(a->leader->acting == NULL);
    say_ack(a, a->offer.op);
    CHECK(a->leader->acting != NULL);
    WAIT_FOR(&at.s, a->leader->acting == NULL);
    WAIT_FOR(&at.s, mirrored(a->mirror, LINE) != NULL);
    a->leader->is_known_old = true;
    rg__leader_look(a); /* etcd still shows it as alive, ... */
    CHECK(a->leader->acting == NULL);
    CHECK_EQ(a->leader->deaths, 1);
    CHECK(scene_get(&at.s, KEYS "lead/host/h1").mod_revision == before);
    put_host(server, false); /* ... and as dead now */
    WAIT_FOR(&at.s,
             mirrored(a->mirror, KEYS "lead/host/h1")->mod_revision > before);
    a->leader->is_known_old = true;
    rg__leader_look(a);
    CHECK_EQ(a->leader->deaths, 0);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
    return true;
}

/* No ack comes: the offer is put on record like any proposal, and any leader
 * may decide it. */
static bool late_offer_goes_on_record(etcd_server *server)
{
    place at;
    if (!offers_after_a_death(&at, server))
        return false;
    rg__agent *a = at.a;
    WAIT_FOR(&at.s, a->leader->acting != NULL);
    WAIT_FOR(&at.s, a->leader->acting == NULL);
    rg__life_step(a, RG__LIFE_ON_END);
    CHECK_EQ((int)scene_get(&at.s, GEN).kv_count, 1);
    CHECK_EQ((int)scene_get(&at.s, LINE).kv_count, 0);
    go(&at);
    return true;
}

/* ----------------------------------------------------- the host that hears it
 */

static void hear(rg__agent *a, rg__proposal p, uint64_t from)
{
    char *text = rg__proposal_difference(&p, NULL);
    rg__offer_hear(a, from, p.generation, text, strlen(text));
    free(text);
}

static rg__proposal fitting(const rg__agent *a)
{
    rg__proposal p = proposal(2, "two", 1);
    p.token = a->view.leader_token;
    p.cur = a->view.cur.mod_revision;
    return p;
}

static void only_what_fits_is_taken_up(etcd_server *server)
{
    place at;
    put_world(server);
    rg__agent *a = come(&at, server, 2);
    const rg__proposal good = fitting(a);
    rg__proposal p = good;
    hear(a, good, 3); /* it does not lead */
    p.token--;
    hear(a, p, 1);
    p = good;
    p.cur--;
    hear(a, p, 1);
    p = good;
    p.is_announced = true;
    hear(a, p, 1);
    p = good;
    p.generation = 3;
    hear(a, p, 1);
    a->generation->finning = 1; /* the job may be done */
    hear(a, good, 1);
    a->generation->finning = 0;
    a->delivered = 0;
    hear(a, good, 1);
    a->delivered = 1;
    CHECK_EQ((long)a->life.offered, 0);
    hear(a, good, 1);
    CHECK_EQ((long)a->life.offered, 2);
    CHECK(rg__view_is_offered(a, &a->view));
    p = good;
    snprintf(p.op, sizeof p.op, "late");
    hear(a, p, 1); /* one of each number */
    CHECK_STR(a->offer.op, "two");
    go(&at);
}

/* Members are to restore: of the offer that this host has acked, from its
 * leader. What a checkpoint gave them is gone then. */
static void expectation_is_passed_on_if_it_fits(etcd_server *server)
{
    place at;
    rg__decided m;
    put_world(server);
    keys_put_leader(server, 3);
    rg__agent *a = come(&at, server, 1);
    const int member = stand_for_member(&at);
    rg__expect_hear(a, 3, 2, "1.3", 3); /* there is no offer */
    hear(a, fitting(a), 3);
    CHECK_EQ((long)a->life.offered, 2);
    rg__expect_hear(a, 2, 2, "1.3", 3); /* it does not lead */
    rg__expect_hear(a, 3, 3, "1.3", 3); /* another number */
    rg__expect_hear(a, 3, 2, "1.", 2);
    rg__expect_hear(a, 3, 2, "", 0);
    a->acking = 1;
    rg__expect_hear(a, 3, 2, "1.3", 3); /* not all have built it here */
    a->acking = 2;
    CHECK(!is_told(member, &m));
    CHECK_EQ((long)at.slot[0].w.loaded, 1);
    rg__expect_hear(a, 3, 2, "1.34", 3);
    CHECK(is_told(member, &m));
    CHECK(m.is_expected != 0 && m.generation == 2);
    CHECK(m.resume.generation == 1 && m.resume.step == 3);
    CHECK_EQ((long)at.slot[0].w.loaded, 0);
    CHECK_EQ((long)a->delivered, 1);
    stand_no_more(&at, member);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
}

/* Generation 2 is on record with that op. What does a host do that has taken up
 * "two", or whose agent before has taken up one? */
static rg__agent *see_recorded(place *at, etcd_server *server, const char *op,
                               bool is_next_agent)
{
    put_world(server);
    rg__agent *a = come(at, server, 2);
    hear(a, fitting(a), 1);
    CHECK_EQ((long)a->life.offered, 2);
    if (is_next_agent) {
        rg__offer_drop(a);
        a->life.offered = 2;
    }
    const rg__proposal p = proposal(2, op, 1);
    put_proposal(server, &p);
    put_cur(server, 2, RG__GEN_PROPOSED);
    WAIT_FOR(&at->s, mirrored(a->mirror, GEN) != NULL &&
                         mirrored(a->mirror, CUR)->mod_revision >
                             mirrored(a->mirror, GEN)->mod_revision);
    see(a);
    a->mirror = NULL; /* what it has to say stays here */
    a->generation->prepared = 2;
    rg__generation_follow_offer(a);
    return a;
}

static void same_one_is_taken_for_it(etcd_server *server)
{
    place at;
    rg__agent *a = see_recorded(&at, server, "two", false);
    CHECK_EQ((long)a->life.offered, 0);
    CHECK_EQ(a->publication->reasons, 0);
    CHECK_EQ((long)a->aborted, 0);
    rg__generation_try_ack(a);
    CHECK_EQ((long)a->acking, 2);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
}

static void other_one_is_refused(etcd_server *server, bool is_next_agent)
{
    place at;
    rg__agent *a = see_recorded(&at, server, is_next_agent ? "two" : "other",
                                is_next_agent);
    CHECK_EQ((long)newest_reason(a)->generation, 2);
    CHECK_EQ((long)a->aborted, 2);
    rg__generation_follow_offer(a);
    CHECK_EQ(a->publication->reasons, 1); /* said once */
    rg__generation_try_ack(a);
    CHECK_EQ((long)a->acking, 0);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
}

/* Its members have left generation 1, for a reason that nobody else may know:
 * the leader is another one now, or this agent is the next of its host. */
static void one_that_came_to_nothing(etcd_server *server, bool is_next_agent)
{
    place at;
    put_world(server);
    keys_put_leader(server, 3);
    rg__agent *a = come(&at, server, 1);
    hear(a, fitting(a), 3);
    CHECK_EQ((long)a->life.offered, 2);
    rg__generation_follow_offer(a);
    CHECK_EQ(a->publication->reasons, 0); /* it may still go on record */
    if (is_next_agent) {
        rg__offer_drop(a);
        a->life.offered = 2;
    } else {
        etcd_server_delete(server, LEAD);
        WAIT_FOR(&at.s, mirrored(a->mirror, LEAD) == NULL);
    }
    see(a);
    a->mirror = NULL; /* what it has to say stays here */
    rg__generation_follow_offer(a);
    rg__generation_follow_offer(a);
    CHECK_EQ(a->publication->reasons, 1); /* said once */
    CHECK_EQ((long)newest_reason(a)->generation, 1);
    CHECK_EQ((long)a->aborted, 1);
    a->view.cur.generation = 2; /* and then another one is on record */
    a->view.cur.phase = RG__GEN_PROPOSED;
    a->view.cur.mod_revision++;
    rg__generation_follow_offer(a);
    CHECK_EQ((long)newest_reason(a)->generation, 2);
    rg__life_step(a, RG__LIFE_ON_END);
    go(&at);
}

/* What this host has published is no longer laid over the keys: a mirror that
 * is behind shows an older world, and no plan is made from it. */
static void
nothing_is_planned_before_its_own_record_is_seen(etcd_server *server)
{
    place at;
    put_world(server);
    rg__agent *a = come(&at, server, 1);
    at.slot[1].saved.state = SLOT_LOST;
    a->publication->is_dirty = true;
    a->publication->host_revision = rg__mirror_revision(a->leader->whole) + 1;
    a->leader->is_known_old = true;
    rg__leader_look(a);
    CHECK(a->life.offered == 0 && a->leader->acting == NULL);
    a->publication->host_revision--;
    rg__leader_look(a);
    CHECK_EQ((long)a->life.offered, 2);
    a->leader->away_ns = 1; /* it looks no more */
    go(&at);
}

static void until_offered(bool (*part)(etcd_server *), etcd_server *server)
{
    for (int i = 0; !part(server); i++)
        CHECK(i < TRIES);
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    until_offered(proposal_and_decision_are_one_record, server);
    until_offered(living_workers_are_left_out_with_the_record, server);
    until_offered(death_elsewhere_is_enough, server);
    nothing_is_planned_before_its_own_record_is_seen(server);
    reason_outlives_the_offer(server);
    until_offered(late_offer_goes_on_record, server);
    only_what_fits_is_taken_up(server);
    expectation_is_passed_on_if_it_fits(server);
    same_one_is_taken_for_it(server);
    other_one_is_refused(server, false);
    other_one_is_refused(server, true);
    one_that_came_to_nothing(server, false);
    one_that_came_to_nothing(server, true);
    etcd_server_stop(server);
    return 0;
}
