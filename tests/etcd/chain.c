/* A client through an outage: it counts a key upwards by guarded transactions,
 * one every 10 ms, follows it in a mirror, and keeps a lease with a key under
 * it, until SIGTERM. Then one line of JSON says what it saw:
 *
 *   {"writes": …, "resent": …, "write_gap_ms": …, "sight_gap_ms": …,
 *    "leases_lost": …, "downs": …, "wipes": …}
 *
 * The gaps are the longest times without a write and without news in the
 * mirror. It fails at once when a number is missing, doubled, another client's,
 * or goes back. tests/lib/chain.py runs it. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "elastic/etcd/etcd.h"
#include "sdk/base/clock.h"
#include "tests/check.h"

#define EVERY_MS 10
#define LEASE_S  5
#define END_S    60 /* for the last write to be seen */

#define NUMBER "chain/number"
#define HERE   "chain/here" /* under the lease */

/* The longest time between two events. */
typedef struct gap {
    uint64_t last_ns, longest_ns;
} gap;

typedef struct chain {
    rg__loop *loop;
    rg__etcd *etcd;
    rg__lease *lease;
    rg__mirror *mirror;
    rg__timer *next, *patience;
    int64_t number, revision; /* written last, and at which revision */
    int64_t seen;             /* in the mirror */
    gap writes, sights;
    int resent, leases_lost, downs, wipes;
    bool is_writing, is_ending;
} chain;

static void note(gap *g)
{
    const uint64_t now = rg__now_ns();
    if (g->last_ns != 0 && now - g->last_ns > g->longest_ns)
        g->longest_ns = now - g->last_ns;
    g->last_ns = now;
}

static const rg__kv *find(const chain *c, const char *key)
{
    for (size_t i = 0; i < rg__mirror_count(c->mirror); i++)
        if (strcmp(rg__mirror_at(c->mirror, i)->key, key) == 0)
            return rg__mirror_at(c->mirror, i);
    return NULL;
}

static void end_if_done(chain *c)
{
    const rg__kv *here = find(c, HERE);
    if (c->is_ending && !c->is_writing && c->seen == c->number &&
        here != NULL && here->lease == rg__lease_id(c->lease))
        rg__loop_stop(c->loop);
}

/* ----------------------------------------------------------------- writing */

/* An earlier sending of ours was the one that applied. */
static void take_ours(chain *c, const rg__txn_reply *reply)
{
    CHECK(reply->sendings > 1);
    CHECK_EQ(reply->kv_count, 1);
    CHECK_EQ(strtoll(reply->kv->value, NULL, 10), c->number + 1);
    CHECK_EQ(reply->kv->version, c->number + 1);
    c->revision = reply->kv->mod_revision;
    c->resent++;
}

static void on_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    chain *c = arg;
    CHECK_OK(st);
    c->is_writing = false;
    if (reply->succeeded)
        c->revision = reply->revision;
    else
        take_ours(c, reply);
    c->number++;
    note(&c->writes);
    if (!c->is_ending)
        rg__timer_set(c->next, EVERY_MS * RG__MS);
    end_if_done(c);
}

static void write_next(void *arg)
{
    chain *c = arg;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, c->number + 1);
    rg__txn *txn = rg__txn_create();
    rg__txn_if_mod(txn, NUMBER, c->revision);
    rg__txn_put(txn, NUMBER, text, 0);
    rg__txn_get(txn, RG__ELSE, NUMBER, NULL);
    c->is_writing = true;
    CHECK(rg__etcd_txn(c->etcd, txn, on_written, c) != NULL);
}

/* --------------------------------------------------------------- following */

static void on_mirror(void *arg, int64_t revision, bool wiped)
{
    chain *c = arg;
    const rg__kv *kv = find(c, NUMBER);
    const int64_t number = kv != NULL ? strtoll(kv->value, NULL, 10) : 0;
    (void)revision;
    c->wipes += wiped;
    CHECK(number >= c->seen);
    if (kv != NULL)
        CHECK_EQ(kv->version, number);
    if (number > c->seen)
        note(&c->sights);
    c->seen = number;
    end_if_done(c);
}

static void on_put_here(void *arg, rg_status st, const rg__txn_reply *reply)
{
    (void)arg, (void)reply;
    CHECK_OK(st);
}

static void on_lease(void *arg, rg__lease_event event)
{
    chain *c = arg;
    if (event == RG__LEASE_LOST) {
        c->leases_lost++;
        return;
    }
    rg__txn *txn = rg__txn_create();
    rg__txn_put(txn, HERE, "", rg__lease_id(c->lease));
    CHECK(rg__etcd_txn(c->etcd, txn, on_put_here, c) != NULL);
}

static void on_state(void *arg, bool up, const char *why)
{
    chain *c = arg;
    (void)why;
    c->downs += !up;
}

/* --------------------------------------------------------------------- end */

static void on_signal(void *arg, int fd, uint32_t events)
{
    chain *c = arg;
    struct signalfd_siginfo info;
    (void)events;
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    c->is_ending = true;
    rg__timer_stop(c->next);
    rg__timer_set(c->patience, END_S * 1000 * RG__MS);
    end_if_done(c);
}

static void on_no_patience(void *arg)
{
    const chain *c = arg;
    CHECK_FAIL("%" PRId64 " was written, %" PRId64 " seen; etcd: %s", c->number,
               c->seen, rg__etcd_why(c->etcd));
}

static void watch_signals(chain *c)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    signal(SIGPIPE, SIG_IGN);
    const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK_OK(rg__loop_watch(c->loop, fd, EPOLLIN, on_signal, c));
}

static void say(const chain *c)
{
    printf("{\"writes\": %" PRId64 ", \"resent\": %d, \"write_gap_ms\": %.1f, "
           "\"sight_gap_ms\": %.1f, \"leases_lost\": %d, \"downs\": %d, "
           "\"wipes\": %d}\n",
           c->number, c->resent, (double)c->writes.longest_ns / RG__MS,
           (double)c->sights.longest_ns / RG__MS, c->leases_lost, c->downs,
           c->wipes);
}

static void open_chain(chain *c, rg__etcd_params *params)
{
    params->on_state = on_state;
    params->arg = c;
    CHECK_OK(rg__loop_create(&c->loop));
    watch_signals(c);
    c->next = rg__timer_create(c->loop, write_next, c);
    c->patience = rg__timer_create(c->loop, on_no_patience, c);
    CHECK_OK(rg__etcd_create(c->loop, params, &c->etcd));
    CHECK_OK(rg__mirror_create(c->etcd, "chain/", "chain0", "chain-meta",
                               on_mirror, c, &c->mirror));
    CHECK_OK(rg__lease_create(c->etcd, LEASE_S, on_lease, c, &c->lease));
    rg__timer_set(c->next, 0);
}

static void close_chain(chain *c)
{
    rg__lease_destroy(c->lease);
    rg__etcd_destroy(c->etcd);
    rg__timer_destroy(c->next);
    rg__timer_destroy(c->patience);
    rg__loop_destroy(c->loop);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"endpoints", 1, NULL, 'e'}, {"user", 1, NULL, 'u'},
        {"password", 1, NULL, 'p'},  {"cacert", 1, NULL, 'a'},
        {"cert", 1, NULL, 'c'},      {"key", 1, NULL, 'k'},
        {NULL, 0, NULL, 0}};
    rg__etcd_params params = {0};
    chain c = {0};
    for (int got; (got = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        const char **at = got == 'e'   ? &params.endpoints
                          : got == 'u' ? &params.user
                          : got == 'p' ? &params.password
                          : got == 'a' ? &params.cacert
                          : got == 'c' ? &params.cert
                                       : &params.key;
        *at = optarg;
    }
    open_chain(&c, &params);
    rg__loop_run(c.loop);
    say(&c);
    close_chain(&c);
    return 0;
}
