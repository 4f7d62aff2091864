/* Three agents in simulated time, with --detect auto. A calm network brings the
 * budget down to its least, and a host that is cut off is accused within it.
 * One that holds packets back, for longer and longer, makes it grow on all
 * hosts before a host is accused; so does an agent that is held up itself, and
 * it accuses no other. What makes it grow while a host is silent counts later.
 *
 * Covers: beat.c delays.c suspect.c */
#include "tests/agent/agents.h"

#include <string.h>

#include "tests/fuzz/sim.h"

enum { HOSTS = 3, LEADER = 0, FIRST_MS = 500, LEAST_MS = 300, MOST_MS = 3000 };

typedef struct node {
    rg__loop *loop;
    rg__agent *a;
    uint64_t deaf_ns;   /* the network holds back what is for it, until then */
    uint64_t asleep_ns; /* its agent gets no processor until then */
} node;

static node nodes[HOSTS];
static rg__proposal_host hosts[HOSTS];
static rg__proposal world = {
    .generation = 1, .host = hosts, .host_count = HOSTS};

static void run_one(node *n)
{
    if (rg__now_ns() < n->asleep_ns)
        return;
    if (rg__now_ns() >= n->deaf_ns)
        sim_serve(n->loop);
    sim_pass(n->loop, 0);
}

static void run_for(uint64_t ms)
{
    for (const uint64_t end = rg__now_ns() + ms * RG__MS; rg__now_ns() < end;) {
        for (int i = 0; i < HOSTS; i++)
            run_one(&nodes[i]);
        sim_pass(NULL, RG__MS);
    }
}

static bool accuses(int by, int whom)
{
    const rg__agent *a = nodes[by].a;
    for (int i = 0; i < rg__beat_peers(a); i++)
        if (rg__beat_peer(a, i)->id == hosts[whom].id)
            return rg__beat_peer(a, i)->is_accused;
    CHECK(false);
    return false;
}

static int accusations(void)
{
    int n = 0;
    for (int by = 0; by < HOSTS; by++)
        for (int whom = 0; whom < HOSTS; whom++)
            n += by != whom && accuses(by, whom);
    return n;
}

static void all_have(uint64_t budget_ms)
{
    for (int i = 0; i < HOSTS; i++)
        CHECK_EQ(rg__budget_ns(nodes[i].a->params) / RG__MS, budget_ms);
}

/* ------------------------------------------------------------- the network */

static void open_agent(int i)
{
    const rg__etcd_params etcd = {.endpoints = "http://127.0.0.1:1"};
    node *n = &nodes[i];
    *n = (node){0};
    CHECK_OK(rg__loop_create(&n->loop));
    rg__agent *a = n->a = agent_make(n->loop, (uint64_t)i + 1);
    a->own.detect_ms = FIRST_MS;
    a->own.detect_follows = true;
    a->prefix = (char *)(uintptr_t) "/j/";
    a->prefix_end = (char *)(uintptr_t) "/j0";
    CHECK_OK(rg__etcd_create(n->loop, &etcd, &a->etcd));
    CHECK_OK(rg__beat_open(a));
    hosts[i] = (rg__proposal_host){
        .id = a->id, .address = a->address, .port = a->port};
    snprintf(hosts[i].name, sizeof hosts[i].name, "h%d", i + 1);
}

static void begin(void)
{
    for (int i = 0; i < HOSTS; i++)
        open_agent(i);
    for (int i = 0; i < HOSTS; i++) {
        rg__agent *a = nodes[i].a;
        a->view.gen = &world;
        a->view.gens = 1;
        a->view.cur = (rg__cur){.generation = 1, .phase = RG__GEN_DECIDED};
        a->view.leader = hosts[LEADER].id;
        a->view.leader_host = hosts[LEADER];
        rg__beat_start(a);
        rg__beat_follow(a);
    }
}

static void end(void)
{
    for (int i = 0; i < HOSTS; i++) {
        rg__agent *a = nodes[i].a;
        a->view.gen = NULL;
        a->view.gens = 0;
        rg__beat_close(a);
        rg__lease_destroy(a->lease);
        rg__etcd_destroy(a->etcd);
        agent_free(a);
        rg__loop_destroy(nodes[i].loop);
    }
}

/* ------------------------------------------------------------------ claims */

static void calm_brings_it_down(void)
{
    run_for(1000);
    all_have(FIRST_MS);
    run_for(RG__DELAYS_TURN_NS / RG__MS);
    all_have(LEAST_MS);
}

/* One host gets no packets for so long; nothing else is late. */
static void hold_back(int host, uint64_t ms)
{
    nodes[host].deaf_ns = rg__now_ns() + ms * RG__MS;
    run_for(ms + 120);
    CHECK_EQ(accusations(), 0);
}

static void noise_is_followed(void)
{
    /* with a period, nearly seven tenths of the least; the leader itself sees
     * none of it */
    hold_back(2, 140);
    const uint64_t before_ns = rg__budget_ns(nodes[LEADER].a->params);
    CHECK(before_ns > LEAST_MS * RG__MS && before_ns < MOST_MS * RG__MS);
    for (int i = 0; i < HOSTS; i++)
        hold_back(i, 320);
    for (int i = 0; i < HOSTS; i++)
        hold_back(i, 800);
    all_have(MOST_MS);
    for (int i = 0; i < HOSTS; i++)
        hold_back(i, 1500);
}

static void own_delays_accuse_no_host(void)
{
    nodes[1].asleep_ns = rg__now_ns() + 180 * RG__MS;
    run_for(1000);
    CHECK_EQ(accusations(), 0);
    CHECK(rg__budget_ns(nodes[2].a->params) >= 4 * 130 * RG__MS);
    CHECK(rg__beat_delay_ns(nodes[2].a) < 20 * RG__MS); /* as it says itself */
    CHECK(rg__beat_self(nodes[1].a)->delays->begun_ns != 0);
    CHECK(rg__delays_worst(rg__beat_self(nodes[1].a)->delays, rg__now_ns()) >=
          130 * RG__MS);
}

/* h2 no longer beats to h3, which still expects it: it is asked, and answers.
 * Later it does again. */
static void other_views_are_no_delays(void)
{
    rg__agent *a = nodes[1].a;
    a->view.gens = 0;
    rg__beat_follow(a);
    run_for(1000);
    a->view.gens = 1;
    rg__beat_follow(a);
    run_for(1000);
    CHECK_EQ(accusations(), 0);
    all_have(LEAST_MS);
}

/* A wrong setting, or garbage from a host that knows the key. */
static void no_host_asks_for_more_than_the_most(void)
{
    rg__agent *a = nodes[2].a;
    a->own.detect_follows = false;
    a->own.detect_ms = 3600 * 1000;
    run_for(1000);
    CHECK_EQ(rg__budget_ns(nodes[LEADER].a->params) / RG__MS, MOST_MS);
    CHECK_EQ(rg__budget_ns(nodes[1].a->params) / RG__MS, MOST_MS);
    a->own.detect_follows = true;
    a->own.detect_ms = FIRST_MS;
    run_for(1000);
    all_have(LEAST_MS);
}

static void no_lease(void *arg, rg__lease_event event)
{
    (void)arg, (void)event;
}

/* Accusations are written under a lease. No request is answered here, so etcd
 * counts as away a second later. */
static void give_leases(void)
{
    for (int i = 0; i < HOSTS; i++) {
        rg__agent *a = nodes[i].a;
        CHECK_OK(rg__lease_create(a->etcd, 60, no_lease, NULL, &a->lease));
    }
}

/* As the leader has heard from h2. */
static bool says_that_it_accuses(void)
{
    const rg__peer *h2 = rg__beat_find(nodes[LEADER].a, hosts[1].id);
    return h2->content_ns != h2->beat_ns;
}

static void cut_is_found_within_the_budget(void)
{
    give_leases();
    CHECK(!says_that_it_accuses());
    nodes[2].asleep_ns = UINT64_MAX;
    run_for(LEAST_MS * 7 / 10 - 60);
    CHECK_EQ(accusations(), 0);
    run_for(120);
    CHECK(accuses(0, 2) && accuses(1, 2));
    CHECK_EQ(accusations(), 2);
    run_for(60);
    CHECK(says_that_it_accuses());
}

/* A host is lost, and another comes late meanwhile: it gets more time, but only
 * when the lost one has had its budget. */
static void delays_in_a_silence_count_for_the_next(void)
{
    give_leases();
    nodes[2].asleep_ns = UINT64_MAX;
    run_for(10);
    nodes[1].asleep_ns = rg__now_ns() + 150 * RG__MS;
    run_for(LEAST_MS * 7 / 10 + 55);
    CHECK(accuses(LEADER, 2) && !accuses(LEADER, 1));
    CHECK_EQ(rg__budget_ns(nodes[LEADER].a->params) / RG__MS, LEAST_MS);
    run_for(LEAST_MS); /* it is silent still */
    CHECK(rg__budget_ns(nodes[LEADER].a->params) >= 4 * 100 * RG__MS);
}

/* The leader is lost, and the others come so late to each turn. */
static void come_late(uint64_t turn_ms, int turns)
{
    nodes[LEADER].asleep_ns = UINT64_MAX;
    for (int i = 0; i < turns; i++) {
        nodes[1].asleep_ns = nodes[2].asleep_ns =
            rg__now_ns() + turn_ms * RG__MS;
        run_for(turn_ms + 1);
    }
}

/* No leader gives them more time, and what they miss while they are late
 * themselves does not count as silence. */
static void late_agents_take_more_time_and_miss_a_leader(void)
{
    give_leases();
    come_late(160, 10);
    CHECK(accuses(1, LEADER) && accuses(2, LEADER));
    CHECK_EQ(accusations(), 2);
}

static void agents_are_not_late_for_ever(void)
{
    for (int i = 0; i < HOSTS; i++)
        nodes[i].a->own.detect_follows = false;
    run_for(1000);
    come_late(250, 10);
    give_leases();
    CHECK_EQ(accusations(), 0);
    come_late(250, 3);
    CHECK(accuses(1, LEADER) && accuses(2, LEADER));
    CHECK_EQ(accusations(), 2);
}

static void ten_minutes_pass(void)
{
    run_for(RG__DELAYS_TURNS * RG__DELAYS_TURN_NS / RG__MS);
    all_have(LEAST_MS);
}

int main(void)
{
    sim_begin();
    begin();
    calm_brings_it_down();
    noise_is_followed();
    ten_minutes_pass();
    own_delays_accuse_no_host();
    ten_minutes_pass();
    other_views_are_no_delays();
    no_host_asks_for_more_than_the_most();
    cut_is_found_within_the_budget();
    end();
    begin();
    calm_brings_it_down();
    delays_in_a_silence_count_for_the_next();
    end();
    begin();
    calm_brings_it_down();
    late_agents_take_more_time_and_miss_a_leader();
    end();
    begin();
    agents_are_not_late_for_ever();
    end();
    return 0;
}
