/* Questions of CLI processes, each on a connection of its own. The answer comes
 * from one linearizable read of all keys of the job, at the moment of the
 * question. While etcd is away, or when it gives no answer within a second, it
 * comes from what this agent has seen, and says so. Before that the workers
 * here are asked for their sets, and other hosts of the world for the times of
 * their workers' steps; the answer does not wait for one that is late.
 *
 * A follower asks only for the end: its connection stays until the agent ends,
 * which then sends its exit code. */
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/control/scrape.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/dump/dump.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/workers/workers.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"

#define PATIENCE_NS   (1000 * RG__MS)
#define SHOW_NS       (300 * RG__MS) /* that workers and hosts have to answer */
#define QUESTIONS_MAX 256            /* waiting; others are refused */

struct rg__asked {
    rg__asked *next;
    rg__agent *a;
    int sock;
    rg__wire_type type;
    uint64_t from;     /* a generation, of EVENTS */
    uint32_t sets_ask; /* which workers have not answered yet, 0: none */
    json_t *times;     /* of steps, by other hosts; owned */
    rg__etcd_req *reading;
    rg__timer *patience;
};

/* ------------------------------------------------------------------ answers */

static void forget(rg__asked *q)
{
    rg__chain_remove(&q->a->control->questions, q);
    rg__etcd_cancel(q->reading);
    rg__timer_destroy(q->patience);
    json_decref(q->times);
    free(q);
}

static void answer(rg__asked *q, const rg__snapshot *snap, bool is_whole)
{
    char *text = q->type == RG__STATUS
                     ? rg__report(q->a, snap, is_whole, q->times)
                     : rg__event_log(q->a, snap, q->from);
    rg__answer(q->sock, text);
    free(text);
    forget(q);
}

/* -------------------------------------------------------------------- read */

static void read_keys(rg__asked *q);

static void end_gather(rg__agent *a)
{
    rg__gather_end(a->control->gather);
    a->control->gather = NULL;
}

static void on_impatient(void *arg)
{
    rg__asked *q = arg;
    if (q->sets_ask != 0) {
        end_gather(q->a);
        read_keys(q);
        rg__questions_look(q->a); /* others may have waited for it, too */
    } else {
        answer(q, &q->a->view, false);
    }
}

static void on_read(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__asked *q = arg;
    rg__snapshot snap;
    q->reading = NULL;
    if (st != RG_OK) { /* refused: whatever else needs etcd ends the agent */
        on_impatient(q);
        return;
    }
    rg__snapshot_read(&snap, q->a->prefix, reply->kv, reply->kv_count);
    answer(q, &snap, true);
    rg__snapshot_free(&snap);
}

static void read_keys(rg__asked *q)
{
    rg__agent *a = q->a;
    const bool reads = rg__etcd_is_up(a->etcd) || rg__etcd_is_refusing(a->etcd);
    q->sets_ask = 0;
    if (reads) {
        rg__txn_draft t = rg__job_txn(a);
        rg__job_get_all(&t);
        q->reading = rg__job_send(&t, on_read, q, NULL);
    }
    rg__timer_set(q->patience, q->reading != NULL ? PATIENCE_NS : 0);
}

static void on_times(void *arg)
{
    rg__agent *a = arg;
    end_gather(a);
    rg__questions_look(a);
}

/* One gather at a time, for all that ask meanwhile. */
static void ask_for_times(rg__asked *q)
{
    static const rg__dump_request request = {.only_times = 1};
    static const rg__gather_question question = {RG__PEER_DUMP, &request,
                                                 sizeof request};
    rg__agent *a = q->a;
    struct rg__control *all = a->control;
    if (all->gather == NULL) {
        json_decref(all->times);
        all->times = json_array();
        all->gather = rg__gather_begin(a, rg__view_decided(a), &question,
                                       all->times, on_times, a);
        if (all->gather != NULL && rg__gather_is_over(all->gather))
            end_gather(a);
    }
    q->times = json_incref(all->times);
}

static bool is_shown(const rg__asked *q)
{
    return q->a->control->gather == NULL &&
           rg__set_list_is_here(q->a, q->sets_ask);
}

static void ask_what_is_shown(rg__asked *q)
{
    q->sets_ask = rg__set_list_ask(q->a);
    ask_for_times(q);
    if (is_shown(q))
        read_keys(q);
    else
        rg__timer_set(q->patience, SHOW_NS);
}

/* Only timers and replies of etcd send answers, so no question ends here. */
void rg__questions_look(rg__agent *a)
{
    for (rg__asked *q = a->control->questions; q != NULL; q = q->next)
        if (q->sets_ask != 0 && is_shown(q))
            read_keys(q);
}

/* ------------------------------------------------------------------- follow */

/* A follower says nothing more, so it has gone. */
static void on_follower(void *arg, int fd, uint32_t events)
{
    rg__asked *q = arg;
    (void)events;
    rg__loop_unwatch(q->a->loop, fd);
    close(fd);
    forget(q);
}

static void follow(rg__asked *q)
{
    if (rg__loop_watch(q->a->loop, q->sock, EPOLLIN, on_follower, q) == RG_OK)
        return;
    close(q->sock);
    forget(q);
}

static void tell_over(const rg__asked *q, const char *events)
{
    const rg__agent *a = q->a;
    rg__over m = {.head = {RG__OVER, RG__WIRE_VERSION},
                  .code = a->verdict.code};
    snprintf(m.why, sizeof m.why, "%s", a->verdict.why);
    const int fd = rg__answer_memfd(events);
    rg__loop_unwatch(a->loop, q->sock);
    rg__sock_send(q->sock, &m, sizeof m, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
}

/* Followers learn the exit code and the events to the end. */
static void end_questions(rg__agent *a)
{
    char *events = a->mirror != NULL ? rg__event_log(a, &a->view, 0) : NULL;
    if (events != NULL)
        rg__event_log_save(a, events);
    while (a->control->questions != NULL) {
        rg__asked *q = a->control->questions;
        if (q->type == RG__FOLLOW)
            tell_over(q, events);
        close(q->sock);
        forget(q);
    }
    free(events);
}

/* ---------------------------------------------------------------- questions */

static int count_questions(const rg__agent *a)
{
    int n = 0;
    for (const rg__asked *q = a->control->questions; q != NULL; q = q->next)
        n++;
    return n;
}

static void take(rg__agent *a, int sock, const rg__mark *m)
{
    rg__asked *q =
        count_questions(a) < QUESTIONS_MAX ? calloc(1, sizeof *q) : NULL;
    if (q == NULL) {
        rg__log(RG__WARN, "agent", "a question is refused: %d are waiting",
                count_questions(a));
        close(sock);
        return;
    }
    *q = (rg__asked){.next = a->control->questions,
                     .a = a,
                     .sock = sock,
                     .type = m->head.type,
                     .from = m->generation,
                     .patience = rg__timer_create(a->loop, on_impatient, q)};
    a->control->questions = q;
    if (q->type == RG__FOLLOW)
        follow(q);
    else if (q->patience == NULL)
        on_impatient(q);
    else if (q->type == RG__STATUS)
        ask_what_is_shown(q);
    else
        read_keys(q);
}

static void take_drain(rg__agent *a, int sock, const rg__drain_host *m)
{
    char host[sizeof m->host];
    snprintf(host, sizeof host, "%.*s", (int)sizeof m->host - 1, m->host);
    rg__drain_ask(a, host, m->deadline_ms, sock);
}

static void take_dump(rg__agent *a, int sock, uint64_t wants)
{
    rg__dump_ask(a, sock, (wants & RG__DUMP_JSON) != 0,
                 (wants & RG__DUMP_STACKS) != 0);
}

static void take_timeline(rg__agent *a, int sock, const rg__text *m)
{
    char path[sizeof m->text + 1];
    snprintf(path, sizeof path, "%.*s", (int)sizeof m->text, m->text);
    rg__timeline_ask(a, path, sock);
}

bool rg__question(rg__agent *a, int sock, const void *bytes, size_t n)
{
    const rg__wire_type type = rg__wire_read(bytes, n);
    const rg__scale *scale = bytes;
    const rg__mark *mark = bytes;
    switch (type) {
    case RG__STATUS:
    case RG__EVENTS:
    case RG__FOLLOW:
        take(a, sock, mark);
        return true;
    case RG__STOP:
        close(sock);
        a->verdict.is_asked |= !rg__life_is_ending(a);
        rg__agent_stop_job(a, 128 + 15, "stopped by `regroup stop`");
        return true;
    case RG__LEAVE:
    case RG__ENDED:
        close(sock);
        rg__end_asked(a, type == RG__ENDED);
        return true;
    case RG__SCALE:
        rg__scale_ask(a, scale->min, scale->max, sock);
        return true;
    case RG__TIMELINE:
        take_timeline(a, sock, bytes);
        return true;
    case RG__DUMP:
        take_dump(a, sock, mark->generation);
        return true;
    case RG__DRAIN:
        take_drain(a, sock, bytes);
        return true;
    default:
        return false;
    }
}

rg_status rg__control_create(rg__agent *a)
{
    a->control = calloc(1, sizeof *a->control);
    return rg__agent_made(a->control != NULL);
}

void rg__control_destroy(rg__agent *a)
{
    if (a->control == NULL)
        return;
    rg__scrape_close(a);
    end_questions(a);
    end_gather(a);
    json_decref(a->control->times);
    rg__change_asks_drop(a);
    rg__timeline_ask_drop(a);
    free(a->control);
}
