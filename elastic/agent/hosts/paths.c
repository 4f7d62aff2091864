/* A host that is not in the world proves the paths between itself and the world
 * before its workers come to the door: a proposal that names it stops all
 * members until it has built, and a path that loses large packets, or one
 * direction, or one port, would make it fail again and again.
 *
 *   newcomer                                  leader, then two more hosts
 *   probe (UDP, at the first only)   ->
 *                                    <-       HERE
 *   PROVE, padded: its ports         ->
 *                                    <-       connects to these ports
 *                                    <-       PROVED, padded: why not, or the
 *                                             hosts to go to next, and its own
 *                                             workers' ports
 *   connects to these ports          ->
 *
 * The leader names the hosts: it knows which of the world live and are not
 * accused. A leader outside of the world need not be reached: after a try
 * that failed a host of the world stands in for it, another one each time,
 * and every other try begins with the leader again, as all of that world may
 * be dead. What failed is tried again after a moment, for as long as it
 * takes; a host that stays outside proves its paths again now and then. */
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define PADDED        ((size_t)64 << 10) /* many packets of any network */
#define NAMED_MAX     2
#define WORKERS_MAX   4  /* whose ports are tried: one as good as the other */
#define DIAL_BUDGETS  2  /* less than a connection's silence */
#define AGAIN_BUDGETS 20 /* then a host outside proves its paths again */

typedef struct ports {
    uint32_t agent, workers; /* agent 0: not to be tried */
    uint32_t worker[WORKERS_MAX];
} ports;

typedef struct prove_frame {
    uint64_t host;
    uint32_t asks_names, unused; /* of other hosts, from the leader */
    rg__address address;
    ports at;
} prove_frame;

typedef struct proved_frame {
    char why[RG__CAUSE_MAX]; /* "": all ports were reached */
    uint32_t named, unused;
    rg__proposal_host host[NAMED_MAX];
    ports at;
} proved_frame;

_Static_assert(sizeof(prove_frame) <= PADDED && sizeof(proved_frame) <= PADDED,
               "padding");

/* --------------------------------------------------------------------- dial */

/* Connect to one port after the other, and close. */
typedef struct dial {
    rg__agent *a;
    rg__address address;
    ports at;
    uint32_t next; /* port: 0 is the agent's */
    int sock;
    rg__timer *timer;
    void (*done)(void *arg, const char *why); /* NULL: all were reached */
    void *arg;
} dial;

static uint32_t port_under_way(const dial *d)
{
    return d->next == 0 ? d->at.agent : d->at.worker[d->next - 1];
}

static void close_dial(dial *d)
{
    rg__timer_stop(d->timer);
    rg__loop_close(d->a->loop, &d->sock);
}

static void end_dial(dial *d, const char *cause)
{
    char why[RG__CAUSE_MAX];
    snprintf(why, sizeof why, "%.24s can't connect to port %u at %.40s: %.40s",
             d->a->params->host, port_under_way(d), d->address.text, cause);
    close_dial(d);
    d->done(d->arg, why);
}

static void on_late(void *arg)
{
    end_dial(arg, "no answer");
}

static void dial_on(dial *d);

/* A refusal is an answer: an agent is there, a worker may have died. */
static void on_answer(dial *d, int cause)
{
    const bool is_fine = cause == 0 || (cause == ECONNREFUSED && d->next > 0);
    if (!is_fine) {
        end_dial(d, strerror(cause));
        return;
    }
    rg__loop_close(d->a->loop, &d->sock);
    d->next++;
    dial_on(d);
}

static void on_dialled(void *arg, int fd, uint32_t events)
{
    int cause = 0;
    socklen_t n = sizeof cause;
    (void)events;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &n) != 0)
        cause = errno;
    on_answer(arg, cause);
}

static void connect_next(dial *d)
{
    rg__inet at;
    errno = EINVAL;
    if (rg__inet_read(&d->address, port_under_way(d), &at))
        d->sock = socket(at.any.sa_family,
                         SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->sock < 0) {
        on_answer(d, errno);
        return;
    }
    const int rc = connect(d->sock, &at.any, rg__inet_bytes(&at));
    const int cause = rc == 0 ? 0 : errno;
    if (rg__loop_watch(d->a->loop, d->sock, EPOLLOUT, on_dialled, d) != RG_OK)
        end_dial(d, "no memory");
    else if (cause != 0 && cause != EINPROGRESS)
        on_answer(d, cause);
}

static void dial_on(dial *d)
{
    while (d->next <= d->at.workers && port_under_way(d) == 0)
        d->next++;
    if (d->next <= d->at.workers) {
        connect_next(d);
        return;
    }
    close_dial(d);
    d->done(d->arg, NULL);
}

static bool make_dial(dial *d, rg__agent *a)
{
    *d = (dial){.a = a, .sock = -1};
    d->timer = rg__timer_create(a->loop, on_late, d);
    return d->timer != NULL;
}

static void drop_dial(dial *d)
{
    if (d->timer == NULL)
        return;
    close_dial(d);
    rg__timer_destroy(d->timer);
}

/* done may be called from within. */
static void begin_dial(dial *d, const rg__address *address, const ports *at,
                       void (*done)(void *, const char *), void *arg)
{
    d->address = *address;
    d->address.text[sizeof d->address.text - 1] = '\0';
    d->at = *at;
    if (d->at.workers > WORKERS_MAX)
        d->at.workers = WORKERS_MAX;
    d->next = 0;
    d->done = done;
    d->arg = arg;
    rg__timer_set(d->timer, rg__patience_ns(d->a->params) * DIAL_BUDGETS);
    dial_on(d);
}

static void list_ports(const rg__agent *a, ports *at)
{
    at->agent = a->port;
    at->workers = 0;
    for (int i = 0; i < a->params->slots && at->workers < WORKERS_MAX; i++) {
        const rg__slot *s = &a->slot[i];
        if (rg__slot_is_alive(s) && s->w.port != 0)
            at->worker[at->workers++] = s->w.port;
    }
}

/* ------------------------------------------------------------------- leader */

static bool is_accused(const rg__agent *a, uint64_t host)
{
    for (int i = 0; i < a->known.suspicions; i++)
        if (a->known.suspicion[i].host == host)
            return true;
    return false;
}

static const rg__proposal_host *host_in_circle(const rg__proposal *world,
                                               uint64_t place)
{
    return &world->host[place % (uint64_t)world->host_count];
}

static bool may_be_named(const rg__agent *a, uint64_t host, uint64_t asker)
{
    const rg__host_record *record = rg__snapshot_host(&a->known, host);
    return host != a->id && host != asker && record != NULL &&
           !record->is_gone && !is_accused(a, host);
}

/* Beginning at another place of the circle for each host that asks. */
static int name_hosts(const rg__agent *a, uint64_t asker,
                      rg__proposal_host *host)
{
    const rg__proposal *world = rg__snapshot_decided(&a->known);
    const int hosts = world != NULL ? world->host_count : 0;
    int n = 0;
    for (int i = 0; i < hosts && n < NAMED_MAX; i++) {
        const rg__proposal_host *one =
            host_in_circle(world, asker % (uint64_t)hosts + (uint64_t)i);
        if (may_be_named(a, one->id, asker))
            host[n++] = *one;
    }
    return n;
}

/* ------------------------------------------------------ hosts to ask (`to`) */

typedef struct asked {
    rg__agent *a;
    rg__connection *c;
    prove_frame m;
    dial dial;
} asked;

static void free_asked(asked *s)
{
    drop_dial(&s->dial);
    free(s);
}

static void answer(void *arg, const char *why)
{
    asked *s = arg;
    proved_frame *m = rg__connection_space(s->c);
    if (m == NULL)
        return; /* nothing was sent before: it has ended */
    memset(m, 0, PADDED);
    if (why != NULL)
        snprintf(m->why, sizeof m->why, "%s", why);
    else if (s->m.asks_names && !rg__view_i_lead(s->a))
        snprintf(m->why, sizeof m->why, "%.40s does not lead",
                 s->a->params->host);
    else if (s->m.asks_names)
        m->named = (uint32_t)name_hosts(s->a, s->m.host, m->host);
    list_ports(s->a, &m->at);
    rg__connection_send(s->c, RG__PEER_PROVED, PADDED);
}

static void asked_gone(void *arg, const char *why)
{
    (void)why;
    free_asked(arg);
}

bool rg__paths_serve(rg__agent *a, rg__connection *c, const void *body,
                     size_t n)
{
    static const rg__connection_fns fns = {rg__connection_no_frame,
                                           rg__connection_no_room, asked_gone};
    asked *s = n == PADDED ? calloc(1, sizeof *s) : NULL;
    if (s == NULL || !make_dial(&s->dial, a)) {
        free(s);
        return false;
    }
    s->a = a;
    s->c = c;
    memcpy(&s->m, body, sizeof s->m);
    rg__connection_take(c, &fns, s);
    begin_dial(&s->dial, &s->m.address, &s->m.at, answer, s);
    return true;
}

/* ----------------------------------------------------------------- newcomer */

struct rg__paths {
    rg__agent *a;
    rg__timer *timer; /* to begin, for the first time or again */
    rg__connection *c;
    dial dial;
    rg__proposal_host host[NAMED_MAX + 1];
    int hosts, now;
    unsigned failures;
    uint64_t begin_ns;
    bool is_under_way, has_asked, is_proved;
    bool is_judged_proved; /* as the record of this host says, or will say */
};

static bool is_of_world(const rg__agent *a, uint64_t host)
{
    return rg__proposal_host_index(rg__view_decided(a), host) >= 0;
}

static bool is_inside(const rg__agent *a)
{
    return is_of_world(a, a->id);
}

bool rg__paths_are_proved(const rg__agent *a)
{
    return a->paths == NULL || a->paths->is_proved || is_inside(a);
}

static void stop(rg__paths *p)
{
    p->is_under_way = false;
    close_dial(&p->dial);
    if (p->c != NULL)
        rg__connection_close(p->c);
    p->c = NULL;
}

/* The record says whether they are proved, and they are as well while this host
 * is in the world: whatever changes that, the record follows. */
static void judge(rg__paths *p)
{
    const bool are_proved = rg__paths_are_proved(p->a);
    const bool is_news = p->is_judged_proved != are_proved;
    p->is_judged_proved = are_proved;
    if (is_news)
        p->a->on->paths_judged(p->a);
}

static void set_proved(rg__paths *p, bool is_proved)
{
    p->is_proved = is_proved;
    judge(p);
}

static void say_wait(rg__paths *p, const char *name, const char *why)
{
    rg__wait_begin(p->a, RG__WAIT_PATHS, 0,
                   "a path to host %s, without which it can't join: %s", name,
                   why);
}

static void fail(rg__paths *p, const char *why)
{
    rg__agent *a = p->a;
    const char *name = p->host[p->now < p->hosts ? p->now : 0].name;
    say_wait(p, name, why);
    rg__log(RG__DEBUG, "agent", "no path to host %s yet: %s", name, why);
    stop(p);
    p->failures++;
    set_proved(p, false);
    rg__timer_set(p->timer, rg__patience_ns(a->params) / 5);
}

static void complete(rg__paths *p)
{
    rg__agent *a = p->a;
    if (!rg__view_i_lead(a) &&
        !rg__beat_has_answered(a, p->host[0].id, p->begin_ns)) {
        p->now = 0;
        fail(p, "heartbeats (UDP) get no answer");
        return;
    }
    stop(p);
    rg__wait_end(a, RG__WAIT_PATHS, 0);
    set_proved(p, true);
    rg__timer_set(p->timer, rg__patience_ns(a->params) * AGAIN_BUDGETS);
}

static void go_on(rg__paths *p);

static void on_reached(void *arg, const char *why)
{
    rg__paths *p = arg;
    if (why != NULL) {
        fail(p, why);
        return;
    }
    p->now++;
    go_on(p);
}

static bool on_proved(rg__paths *p, const proved_frame *m)
{
    if (m->named > NAMED_MAX)
        return false;
    rg__connection_close(p->c);
    p->c = NULL;
    if (m->why[0] != '\0') {
        char why[RG__CAUSE_MAX];
        snprintf(why, sizeof why, "%s", m->why);
        fail(p, why);
        return true;
    }
    for (uint32_t i = 0; i < m->named && p->hosts <= NAMED_MAX; i++) {
        p->host[p->hosts] = m->host[i];
        p->host[p->hosts].name[RG__NAME_MAX - 1] = '\0';
        p->host[p->hosts++].address.text[RG__ADDRESS_MAX - 1] = '\0';
    }
    ports at = m->at;
    at.agent = 0; /* that is where this has come from */
    begin_dial(&p->dial, &p->host[p->now].address, &at, on_reached, p);
    return true;
}

static bool proof_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    proved_frame m;
    if (type != RG__PEER_PROVED || n != PADDED)
        return false;
    memcpy(&m, body, sizeof m);
    m.why[sizeof m.why - 1] = '\0';
    return on_proved(arg, &m);
}

static void ask(void *arg)
{
    rg__paths *p = arg;
    const rg__agent *a = p->a;
    prove_frame *m = rg__connection_space(p->c);
    if (m == NULL || p->has_asked)
        return;
    p->has_asked = true;
    memset(m, 0, PADDED);
    *m = (prove_frame){.host = a->id,
                       .asks_names =
                           p->now == 0 && p->host[0].id == a->view.leader,
                       .address = a->address};
    list_ports(a, &m->at);
    rg__connection_send(p->c, RG__PEER_PROVE, PADDED);
}

static void proof_gone(void *arg, const char *why)
{
    rg__paths *p = arg;
    char text[RG__CAUSE_MAX];
    snprintf(text, sizeof text, "%.120s", why);
    p->c = NULL;
    fail(p, text);
}

static void go_on(rg__paths *p)
{
    static const rg__connection_fns fns = {proof_frame, ask, proof_gone};
    if (p->now == p->hosts) {
        complete(p);
        return;
    }
    const rg__proposal_host *to = &p->host[p->now];
    p->has_asked = false;
    if (!p->is_proved)
        say_wait(p, to->name, "no answer comes");
    if (rg__connection_call(p->a, &to->address, to->port, to->id, &fns, p,
                            &p->c) == RG_OK)
        return;
    p->c = NULL;
    fail(p, rg_last_error());
}

static bool is_any_at_door(const rg__agent *a)
{
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].saved.state == SLOT_DOOR)
            return true;
    return false;
}

/* A loopback address that others have no use for costs its host its place, with
 * a sentence, once it is proposed. */
static bool is_reached(const rg__agent *a)
{
    rg__proposal_host leader = a->view.leader_host;
    const rg__proposal two = {.host = &leader, .host_count = 1};
    return rg__address_is_reached(a, &two);
}

/* The first host: before there is a world the leader, which will be in it. */
static void choose_hosts(rg__paths *p)
{
    const rg__agent *a = p->a;
    const rg__proposal *world = rg__view_decided(a);
    const bool is_outside = world != NULL && !is_of_world(a, a->view.leader);
    p->hosts = 1;
    p->host[0] = a->view.leader_host;
    if (rg__view_i_lead(a))
        p->hosts = name_hosts(a, a->id, p->host);
    else if (is_outside && p->failures % 2 == 1)
        p->host[0] = *host_in_circle(world, p->failures / 2);
}

static void begin(void *arg)
{
    rg__paths *p = arg;
    rg__agent *a = p->a;
    if (p->is_under_way || is_inside(a) || rg__life_is_ending(a) ||
        a->is_done || a->view.leader == 0 || !is_any_at_door(a))
        return;
    if (!is_reached(a)) {
        set_proved(p, true);
        return;
    }
    if (rg__view_i_lead(a) && a->known.leader != a->id) {
        rg__timer_set(p->timer, rg__patience_ns(a->params) /
                                    5); /* it knows no hosts yet */
        return;
    }
    p->is_under_way = true;
    p->begin_ns = rg__now_ns();
    p->now = 0;
    choose_hosts(p);
    if (!rg__view_i_lead(a))
        rg__beat_probe(a, p->host[0].id);
    go_on(p);
}

/* The view has changed, or a worker has come. */
void rg__paths_follow(rg__agent *a)
{
    rg__paths *p = a->paths;
    if (is_inside(a)) {
        stop(p);
        set_proved(p, false);
        rg__wait_end(a, RG__WAIT_PATHS, 0);
        rg__timer_stop(p->timer);
        return;
    }
    judge(p);
    if (!p->is_proved && !rg__timer_is_set(p->timer))
        begin(p);
}

rg_status rg__paths_create(rg__agent *a)
{
    rg__paths *p = calloc(1, sizeof *p);
    if (p == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an agent");
    p->a = a;
    a->paths = p;
    p->timer = rg__timer_create(a->loop, begin, p);
    return make_dial(&p->dial, a) && p->timer != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for an agent");
}

void rg__paths_destroy(rg__agent *a)
{
    rg__paths *p = a->paths;
    if (p == NULL)
        return;
    stop(p);
    drop_dial(&p->dial);
    rg__timer_destroy(p->timer);
    free(p);
    a->paths = NULL;
}
