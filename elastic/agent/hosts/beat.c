/* Heartbeats between agents: UDP datagrams with a MAC and a counter, which only
 * rises for as long as an incarnation lives: a datagram that is not above the
 * highest seen is refused, whether late or replayed.
 *
 * The leader exchanges beats with every host that has a record or a place in
 * the world. The hosts of the world, of the proposal and the leader's form a
 * ring by incarnation, and an agent also beats to the NEIGHBOURS next ones and
 * expects beats from the NEIGHBOURS before it: but not in a ring of more than
 * RING_MOST, where these would be most of what agents do at rest, and two more
 * witnesses among hundreds, all of which look when the leader accuses a host.
 *
 * Where the budget follows what is observed (--detect auto), each agent asks
 * for one with every beat, and the leader's beats say which counts: the
 * largest. The period of beats stays the same, so that what is observed does
 * not depend on what is chosen.
 *
 * What is heard here is at most suspicion (suspect.c); only one message takes
 * effect at once: ABORTED, from a host where a member certainly died. */
#include "elastic/agent/hosts/beat_wire.h"
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

#define NEIGHBOURS  2
#define RING_MOST   128
#define BEATS       10 /* within the budget */
#define LEAST_NS    (10 * RG__MS)
#define LATE_SHARE  3 /* a third of the budget: then we are late */
#define SAY_LATE_NS (60000 * RG__MS)
#define EXCUSES     10 /* of a host that is not heard in between */
#define PEERS_MAX   RG__WORLD_MAX
#define DROPPED_MAX 4096      /* peers that went, whose counter is kept */
#define PER_WAKE    256       /* datagrams read in a row */
#define ROOM        (1 << 20) /* for what all hosts say at once, if allowed */
#define LEASE_S     10
#define LEASE_MAX_S 60
#define LEASE_HOSTS 64 /* so many more, and a lease lasts a second longer */

/* Of a peer that is not minded any more; it may be again. */
typedef struct last_seen {
    uint64_t id, counter;
} last_seen;

typedef struct world {
    uint64_t generation; /* 0: none */
    char op[33];
} world;

struct rg__beats {
    int sock;
    rg__timer *timer;
    uint64_t counter, last_ns, said_late_ns;
    uint64_t silent_ns; /* with each beat since then a host was; 0: none is */
    uint64_t sent, received, refused; /* datagrams */
    rg__peer **peer;                  /* by id, */
    uint64_t *id;      /* which are looked for in here, without their peers */
    rg__peer **minded; /* of these, those that each beat minds */
    int peers, minds;
    world decided, newest; /* whose hosts are peers now, */
    uint64_t leader;       /* and by which leader */
    int64_t token;
    last_seen dropped[DROPPED_MAX]; /* a ring: the newest `drops` of them */
    unsigned drops;
    rg__delays delays; /* of all peers and of our own turns */
    rg__peer self;     /* of what this host says about itself; never sent to */
    uint64_t namesake;
    uint64_t namesake_ns; /* another agent of our name is being asked; 0: no */
};

static uint64_t period_ns(const rg__agent *a)
{
    const uint64_t period = a->params->detect_ms * RG__MS / BEATS;
    return period > LEAST_NS ? period : LEAST_NS;
}

/* ------------------------------------------------------------------- peers */

int rg__beat_peers(const rg__agent *a)
{
    return a->beats == NULL ? 0 : a->beats->peers;
}

rg__peer *rg__beat_peer(const rg__agent *a, int i)
{
    return a->beats->peer[i];
}

rg__peer *rg__beat_self(const rg__agent *a)
{
    return a->beats == NULL ? NULL : &a->beats->self;
}

rg__peer *rg__beat_minded(const rg__agent *a, int i)
{
    return i < a->beats->minds ? a->beats->minded[i] : NULL;
}

static rg__peer *find_peer(const rg__beats *b, uint64_t id)
{
    int low = 0, high = b->peers;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (b->id[mid] < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < b->peers && b->id[low] == id ? b->peer[low] : NULL;
}

rg__peer *rg__beat_find(const rg__agent *a, uint64_t host)
{
    return a->beats == NULL ? NULL : find_peer(a->beats, host);
}

/* Each beat goes through few of a thousand peers: those that we exchange beats
 * with, and those that something is asked or said of. */
static void mind(rg__peer *one)
{
    rg__beats *b = one->a->beats;
    if (!one->is_minded)
        b->minded[b->minds++] = one;
    one->is_minded = true;
}

static bool is_namesake(const rg__peer *one)
{
    const rg__beats *b = one->a->beats;
    return b->namesake_ns != 0 && one->id == b->namesake;
}

static bool is_in_round(const rg__peer *one)
{
    return one->is_known && one->answered_ns < one->asked_ns;
}

static bool is_minded(const rg__peer *one)
{
    return one->is_target || one->is_expected || one->is_accused ||
           one->is_written || one->writing != NULL || one->stuck_ns != 0 ||
           one->probe_sock >= 0 || is_in_round(one) || is_namesake(one);
}

static void stop_probing(rg__peer *one)
{
    rg__loop_close(one->a->loop, &one->probe_sock);
}

static last_seen *find_dropped(rg__beats *b, uint64_t id)
{
    for (unsigned i = 0; i < b->drops && i < DROPPED_MAX; i++)
        if (b->dropped[i].id == id)
            return &b->dropped[i];
    return NULL;
}

static void note_counter(rg__beats *b, const rg__peer *one)
{
    last_seen *seen = find_dropped(b, one->id);
    if (seen == NULL)
        seen = &b->dropped[b->drops++ % DROPPED_MAX];
    *seen = (last_seen){one->id, one->counter};
}

static void drop_peer(rg__beats *b, int i)
{
    rg__peer *one = b->peer[i];
    if (one->counter != 0)
        note_counter(b, one);
    stop_probing(one);
    rg__wait_end(one->a, RG__WAIT_BYTES, one->id);
    rg__suspect_forget(one);
    free(one->delays);
    free(one);
    b->peers--;
    memmove(&b->peer[i], &b->peer[i + 1],
            sizeof *b->peer * (size_t)(b->peers - i));
    memmove(&b->id[i], &b->id[i + 1], sizeof *b->id * (size_t)(b->peers - i));
}

/* In all lists, for one more. */
static bool has_room(rg__beats *b)
{
    const size_t n = (size_t)b->peers + 1;
    rg__peer **all = realloc(b->peer, sizeof *all * n);
    b->peer = all != NULL ? all : b->peer;
    rg__peer **minded = realloc(b->minded, sizeof *minded * n);
    b->minded = minded != NULL ? minded : b->minded;
    uint64_t *ids = realloc(b->id, sizeof *ids * n);
    b->id = ids != NULL ? ids : b->id;
    return all != NULL && minded != NULL && ids != NULL;
}

static rg__peer *add_peer(rg__agent *a, const rg__proposal_host *host)
{
    rg__beats *b = a->beats;
    rg__peer *one =
        b->peers < PEERS_MAX && has_room(b) ? calloc(1, sizeof *one) : NULL;
    if (one == NULL)
        return NULL;
    const last_seen *seen = find_dropped(b, host->id);
    one->a = a;
    one->id = host->id;
    one->counter = seen != NULL ? seen->counter : 0;
    one->probe_sock = -1;
    one->heard_ns = rg__now_ns();
    int at = b->peers++;
    for (; at > 0 && b->id[at - 1] > one->id; at--) {
        b->peer[at] = b->peer[at - 1];
        b->id[at] = b->id[at - 1];
    }
    b->peer[at] = one;
    b->id[at] = one->id;
    return one;
}

static rg__peer *want_peer(rg__agent *a, const rg__proposal_host *host)
{
    rg__inet at;
    rg__peer *one = find_peer(a->beats, host->id);
    if (one != NULL && one->port == host->port &&
        strcmp(one->address.text, host->address.text) == 0)
        return one;
    if (host->id == a->id || host->port == 0 ||
        !rg__inet_read(&host->address, host->port, &at))
        return NULL;
    if (one == NULL)
        one = add_peer(a, host);
    if (one == NULL)
        return NULL;
    stop_probing(one);
    snprintf(one->name, sizeof one->name, "%s", host->name);
    one->address = host->address;
    one->port = host->port;
    one->at = at;
    return one;
}

static void want_known(rg__agent *a, const rg__proposal *p)
{
    for (int i = 0; p != NULL && i < p->host_count; i++) {
        rg__peer *one = want_peer(a, &p->host[i]);
        if (one != NULL)
            one->is_known = true;
    }
}

static void expect(rg__peer *one)
{
    if (!one->is_expected && !one->was_expected) {
        one->heard_ns = rg__now_ns(); /* from now on */
        one->excuses = 0;
    }
    one->is_expected = true;
}

/* The leader hears every host that has a record, and those of the worlds whose
 * lease has ended: who else would miss them? */
static void want_all_hosts(rg__agent *a)
{
    for (int i = 0; i < a->known.hosts; i++) {
        const rg__host_record *h = &a->known.host[i];
        rg__proposal_host host = {
            .id = h->id, .address = h->address, .port = h->port};
        snprintf(host.name, sizeof host.name, "%s", h->name);
        rg__peer *one = h->is_gone ? NULL : want_peer(a, &host);
        if (one == NULL)
            continue;
        one->is_target = true;
        expect(one);
    }
    for (int i = 0; i < a->beats->peers; i++) {
        rg__peer *one = a->beats->peer[i];
        if (!one->is_known || rg__snapshot_host(&a->known, one->id) != NULL ||
            rg__snapshot_is_other(&a->known, one->name, one->id))
            continue;
        one->is_target = true;
        expect(one);
    }
}

/* The k-th known peer behind or before us in the circle. */
static rg__peer *neighbour(const rg__beats *b, uint64_t me, int k,
                           bool is_before)
{
    int known = 0, place = 0;
    for (int i = 0; i < b->peers; i++) {
        if (!b->peer[i]->is_known)
            continue;
        known++;
        place += b->peer[i]->id < me;
    }
    if (k >= known || known + 1 > RING_MOST)
        return NULL;
    int at = is_before ? place - 1 - k : place + k;
    at = (at + 2 * known) % known;
    for (int i = 0; i < b->peers; i++)
        if (b->peer[i]->is_known && at-- == 0)
            return b->peer[i];
    return NULL;
}

static void choose_neighbours(rg__agent *a)
{
    const bool is_in_ring =
        a->view.leader == a->id || rg__view_has_host(a, a->id);
    for (int k = 0; k < NEIGHBOURS && is_in_ring; k++) {
        rg__peer *next = neighbour(a->beats, a->id, k, false);
        rg__peer *before = neighbour(a->beats, a->id, k, true);
        if (next != NULL)
            next->is_target = true;
        if (before != NULL)
            expect(before);
    }
}

static bool is_wanted(const rg__peer *one)
{
    return is_namesake(one) || one->is_known || one->is_expected ||
           one->is_target || one->is_accused || one->is_written ||
           one->writing != NULL;
}

/* How many agents ask etcd what this one asks. Before there is a world each
 * knows of the leader alone, and of how many had come before it. */
static int crowd(const rg__agent *a)
{
    const int known = a->beats->peers + 1;
    const bool has_world = rg__view_newest(a) != NULL;
    return has_world || known > a->life.hosts_before ? known
                                                     : a->life.hosts_before;
}

/* Heartbeats notice a loss, and a lease is the last resort. With many hosts it
 * lasts longer: etcd has fewer keepalives to answer, and more time for each
 * while all hosts come or read the first world. */
int rg__beat_lease_s(int hosts)
{
    const int s = LEASE_S + hosts / LEASE_HOSTS;
    return s < LEASE_MAX_S ? s : LEASE_MAX_S;
}

/* Is p the proposal that was noted there? It is from now on. */
static bool is_noted(world *noted, const rg__proposal *p)
{
    const bool is_same = p == NULL
                             ? noted->generation == 0
                             : noted->generation == p->generation &&
                                   memcmp(noted->op, p->op, sizeof p->op) == 0;
    noted->generation = p != NULL ? p->generation : 0;
    if (p != NULL)
        memcpy(noted->op, p->op, sizeof p->op);
    return is_same;
}

/* Going through many hosts takes long, and most news are of other things: an
 * agent that does not lead keeps its peers while worlds and leader stay. */
static bool is_followed(const rg__agent *a)
{
    rg__beats *b = a->beats;
    const bool are_worlds = is_noted(&b->decided, rg__view_decided(a)) &
                            is_noted(&b->newest, rg__view_newest(a));
    const bool is_leader =
        b->leader == a->view.leader && b->token == a->view.leader_token;
    b->leader = a->view.leader;
    b->token = a->view.leader_token;
    return are_worlds && is_leader && !rg__view_i_lead(a);
}

void rg__beat_follow(rg__agent *a)
{
    rg__beats *b = a->beats;
    if (b == NULL || is_followed(a))
        return;
    for (int i = 0; i < b->peers; i++) {
        rg__peer *one = b->peer[i];
        one->was_expected = one->is_expected;
        one->is_known = one->is_target = one->is_expected = false;
    }
    if (rg__view_decided(a) != rg__view_newest(a))
        want_known(a, rg__view_decided(a));
    want_known(a, rg__view_newest(a));
    rg__peer *leader =
        a->view.leader != 0 ? want_peer(a, &a->view.leader_host) : NULL;
    if (leader != NULL) {
        leader->is_known = leader->is_target = true;
        expect(leader);
    }
    choose_neighbours(a);
    if (rg__view_i_lead(a))
        want_all_hosts(a);
    if (a->mirror != NULL) { /* under a lease */
        rg__mirror_crowd(a->mirror, crowd(a));
        rg__lease_ask(a->lease, rg__beat_lease_s(crowd(a)));
    }
    b->minds = 0;
    for (int i = b->peers - 1; i >= 0; i--) {
        rg__peer *one = b->peer[i];
        one->is_minded = false;
        if (!one->is_target)
            one->sent_ns = 0;
        if (!is_wanted(one))
            drop_peer(b, i);
        else if (is_minded(one))
            mind(one);
    }
}

/* ------------------------------------------------------------------ budget */

uint64_t rg__beat_delay_ns(const rg__agent *a)
{
    return a->beats == NULL ? 0
                            : rg__delays_worst(&a->beats->delays, rg__now_ns());
}

uint64_t rg__beat_asks_ns(const rg__agent *a)
{
    const uint64_t first_ns = a->params->detect_ms * RG__MS;
    return a->params->detect_follows && a->beats != NULL
               ? rg__delays_budget(&a->beats->delays, rg__now_ns(), first_ns)
               : first_ns;
}

/* Nothing gets shorter for a silent host; none gets more than the most. */
static uint64_t largest_asked_ns(const rg__agent *a)
{
    uint64_t most_ns = rg__beat_asks_ns(a);
    for (int i = 0; i < a->beats->peers; i++) {
        const rg__peer *one = a->beats->peer[i];
        const uint64_t asks_ns =
            one->asks_ns != 0 ? one->asks_ns : rg__patience_ns(a->params);
        if (one->is_expected && asks_ns > most_ns)
            most_ns = asks_ns;
    }
    return most_ns < RG__DELAYS_MOST_NS ? most_ns : RG__DELAYS_MOST_NS;
}

/* Not of many hosts of which one or another is silent all the time. */
static bool is_judging(const rg__agent *a)
{
    const uint64_t since_ns = a->beats->silent_ns;
    return since_ns != 0 && rg__now_ns() - since_ns < rg__budget_ns(a->params);
}

/* ns: the leader's. No agent has less than it asks for: a leader that is lost
 * gives it nothing. A silence that is noticed gets no longer: what asks for
 * more time meanwhile counts for the next one. */
static void set_budget(rg__agent *a, uint64_t ns)
{
    const uint64_t asks_ns = rg__beat_asks_ns(a);
    const uint64_t budget_ns = ns > asks_ns ? ns : asks_ns;
    const uint64_t was_ns = rg__budget_ns(a->params);
    if (!a->params->detect_follows || ns == 0 || budget_ns == was_ns ||
        (budget_ns > was_ns && is_judging(a)))
        return;
    a->own.budget_ns = budget_ns;
    rg__log(rg__view_i_lead(a) ? RG__INFO : RG__DEBUG, "agent",
            "a silent host now counts as lost after %llu ms; the longest delay "
            "that this agent has seen lately is %.0f ms",
            (unsigned long long)(budget_ns / RG__MS),
            (double)rg__beat_delay_ns(a) / 1e6);
}

static uint32_t asked_ms(const rg__agent *a)
{
    return (uint32_t)((rg__view_i_lead(a) ? rg__budget_ns(a->params)
                                          : rg__beat_asks_ns(a)) /
                      RG__MS);
}

/* There may be thousands of peers, and few send us heartbeats. */
static void note_late(rg__peer *one, uint64_t now, uint64_t late)
{
    if (one->delays == NULL)
        one->delays = calloc(1, sizeof *one->delays);
    if (one->delays != NULL)
        rg__delays_note(one->delays, now, late);
}

/* What its network has added to the time between two heartbeats, lost ones
 * included. How late its own turns are, each agent sees itself. */
static void note_delay(rg__agent *a, rg__peer *from, const rg__beat *beat,
                       uint64_t now)
{
    const uint64_t due = from->beat_ns + beat->since_ns;
    if (from->beat_ns != 0 && beat->since_ns != 0 && now > due) {
        note_late(from, now, now - due);
        rg__delays_note(&a->beats->delays, now, now - due);
    }
    from->beat_ns = now;
}

static void note_accusing(rg__peer *from, const rg__beat *beat)
{
    if (!beat->accuses)
        from->content_ns = from->beat_ns;
}

/* -------------------------------------------------------------------- send */

static void send_beat(rg__agent *a, int sock, const rg__peer *to,
                      rg__beat *beat)
{
    uint8_t bytes[RG__BEAT_MAX];
    beat->from = a->id;
    beat->to = to->id;
    beat->counter = ++a->beats->counter;
    beat->is_etcd_up = rg__etcd_is_up(a->etcd);
    beat->budget_ms = asked_ms(a);
    const size_t n = rg__beat_write(bytes, a->key, beat);
    const bool is_own = sock == a->beats->sock;
    a->beats->sent++;
    sendto(sock, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT,
           is_own ? &to->at.any : NULL,
           is_own ? rg__inet_bytes(&to->at) : 0); /* lost is as good as sent */
}

void rg__beat_ack(rg__agent *a, uint64_t leader, uint64_t generation,
                  const char *text)
{
    const rg__peer *to = find_peer(a->beats, leader);
    rg__beat beat = {.type = RG__BEAT_ACK,
                     .generation = generation,
                     .text = text,
                     .text_bytes = strlen(text)};
    if (to != NULL && beat.text_bytes <= RG__BEAT_TEXT_MAX)
        send_beat(a, a->beats->sock, to, &beat);
}

bool rg__beat_can_carry(const char *text)
{
    return strlen(text) <= RG__BEAT_TEXT_MAX;
}

void rg__beat_tell(rg__agent *a, rg__beat_type type, uint64_t generation,
                   const char *text)
{
    rg__beat beat = {.type = type,
                     .generation = generation,
                     .text = text,
                     .text_bytes = strlen(text)};
    for (int i = 0; i < rg__beat_peers(a); i++)
        if (a->beats->peer[i]->is_known || a->beats->peer[i]->is_target)
            send_beat(a, a->beats->sock, a->beats->peer[i], &beat);
}

static void on_datagram(void *arg, int fd, uint32_t events);

/* A connected socket: the kernel of a host whose agent is gone says so. */
static bool open_probe(rg__peer *one)
{
    rg__agent *a = one->a;
    mind(one);
    if (one->probe_sock < 0) {
        one->probe_sock = socket(one->at.any.sa_family,
                                 SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (one->probe_sock < 0)
            return false;
        if (connect(one->probe_sock, &one->at.any, rg__inet_bytes(&one->at)) !=
                0 ||
            rg__loop_watch(a->loop, one->probe_sock, EPOLLIN, on_datagram, a) !=
                RG_OK) {
            close(one->probe_sock);
            one->probe_sock = -1;
            return false;
        }
    }
    return true;
}

static void send_probe(const rg__peer *one, int sock)
{
    rg__beat beat = {.type = RG__BEAT_PROBE};
    send_beat(one->a, sock, one, &beat);
}

/* Without a socket for it alone: an answer can be heard, a refusal can't. */
static void ask(const rg__peer *one)
{
    send_probe(one, one->a->beats->sock);
}

static void probe(rg__peer *one)
{
    if (open_probe(one))
        send_probe(one, one->probe_sock);
    else
        ask(one);
}

/* As large as a packet of the path may be. */
static void probe_large(rg__peer *one)
{
    static const char nothing[RG__BEAT_PROBE_MAX];
    const bool is_v4 = one->at.any.sa_family == AF_INET;
    int mtu = 0;
    socklen_t n = sizeof mtu;
    if (!open_probe(one) ||
        getsockopt(one->probe_sock, is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
                   is_v4 ? IP_MTU : IPV6_MTU, &mtu, &n) != 0)
        return;
    const int heads = is_v4 ? 28 : 48;
    const int most =
        mtu - heads < RG__BEAT_PROBE_MAX ? mtu - heads : RG__BEAT_PROBE_MAX;
    if (most <= (int)RG__BEAT_BYTES)
        return;
    rg__beat beat = {.type = RG__BEAT_PROBE,
                     .text = nothing,
                     .text_bytes = (size_t)most - RG__BEAT_BYTES};
    one->probe_bytes = (size_t)(most + heads);
    if (one->hole_ns == 0)
        one->hole_ns = rg__now_ns();
    send_beat(one->a, one->probe_sock, one, &beat);
}

void rg__beat_probe_all(rg__agent *a, uint64_t round_ns)
{
    for (int i = 0; i < rg__beat_peers(a); i++) {
        rg__peer *one = a->beats->peer[i];
        if (!one->is_known)
            continue;
        one->asked_ns = round_ns;
        mind(one);
        ask(one);
    }
}

void rg__beat_ask(rg__agent *a, uint64_t host)
{
    rg__peer *one = find_peer(a->beats, host);
    if (one == NULL || one->is_accused ||
        rg__now_ns() - one->asked_ns < rg__budget_ns(a->params))
        return;
    one->asked_ns = rg__now_ns();
    probe(one);
}

void rg__beat_probe(rg__agent *a, uint64_t host)
{
    rg__peer *one = find_peer(a->beats, host);
    if (one != NULL)
        probe(one);
}

bool rg__beat_has_answered(const rg__agent *a, uint64_t host, uint64_t since_ns)
{
    const rg__peer *one = find_peer(a->beats, host);
    return one != NULL && one->answered_ns >= since_ns;
}

void rg__beat_note_stuck(rg__agent *a, uint64_t host, uint64_t bytes)
{
    rg__peer *one = find_peer(a->beats, host);
    if (one == NULL)
        return;
    const uint64_t now = rg__now_ns();
    const bool has_hole = one->hole_ns != 0 &&
                          now - one->hole_ns > rg__patience_ns(a->params) / 5;
    one->stuck_ns = now;
    probe_large(one);
    if (has_hole)
        rg__wait_begin(a, RG__WAIT_BYTES, host,
                       "host %s to acknowledge %llu bytes; small packets pass, "
                       "packets of %zu bytes do not: look at the MTU of the "
                       "path",
                       one->name, (unsigned long long)bytes, one->probe_bytes);
    else
        rg__wait_begin(a, RG__WAIT_BYTES, host,
                       "host %s to acknowledge %llu bytes", one->name,
                       (unsigned long long)bytes);
}

void rg__beat_link_broke(rg__agent *a, uint64_t host)
{
    rg__peer *one = find_peer(a->beats, host);
    if (one == NULL)
        return;
    one->link_broke_ns = rg__now_ns();
    rg__beat_ask(a, host);
}

bool rg__beat_abort(rg__agent *a, uint64_t generation, const char *death)
{
    const rg__beats *b = a->beats;
    rg__beat beat = {.type = RG__BEAT_ABORTED,
                     .generation = generation,
                     .text = death,
                     .text_bytes = death != NULL ? strlen(death) : 0};
    bool is_told = false;
    for (int i = 0; i < rg__beat_peers(a); i++) {
        const rg__peer *one = b->peer[i];
        if (!one->is_target && !one->is_expected &&
            !(rg__view_i_lead(a) && one->is_known))
            continue;
        send_beat(a, b->sock, one, &beat);
        is_told |= one->id == a->view.leader;
    }
    return is_told;
}

bool rg__beat_has_name_conflict(const rg__agent *a)
{
    return a->beats != NULL && a->beats->namesake_ns != 0;
}

static void judge_name_conflict(rg__agent *a, bool is_alive)
{
    a->beats->namesake_ns = 0;
    a->on->name_conflict_judged(a, is_alive);
}

void rg__beat_ask_namesake(rg__agent *a, const rg__proposal_host *namesake)
{
    rg__peer *one = want_peer(a, namesake);
    a->beats->namesake_ns = rg__now_ns();
    a->beats->namesake = namesake->id;
    if (one == NULL)
        judge_name_conflict(a, false);
    else
        probe(one);
}

/* -------------------------------------------------------------------- hear */

static void on_aborted(rg__agent *a, const rg__peer *from, uint64_t generation)
{
    const rg__proposal *decided = rg__view_decided(a);
    if (decided == NULL || decided->generation != generation ||
        a->aborted >= generation)
        return;
    rg__log(RG__DEBUG, "agent", "host %s says that generation %llu is aborted",
            from->name, (unsigned long long)generation);
    if (a->detected_ns == 0)
        a->detected_ns = rg__now_ns();
    a->on->host_aborted(a, generation);
}

static bool is_news(const rg__agent *a, const rg__beat *beat)
{
    const rg__cur *cur = &a->view.cur;
    return beat->generation > cur->generation ||
           (beat->generation == cur->generation && beat->is_decided &&
            cur->phase == RG__GEN_PROPOSED);
}

static void note_heard(rg__peer *from, const rg__beat *beat, uint64_t now)
{
    rg__agent *a = from->a;
    from->counter = beat->counter;
    from->asks_ns = beat->budget_ms * RG__MS;
    if (from->id == a->view.leader)
        set_budget(a, from->asks_ns);
    from->heard_ns = now;
    from->excuses = 0;
    from->refused_ns = from->link_broke_ns = 0;
    if (beat->is_etcd_up)
        from->etcd_lost_ns = 0;
    else if (from->etcd_lost_ns == 0)
        from->etcd_lost_ns = now;
}

static void on_plain_beat(rg__peer *from, const rg__beat *beat, uint64_t now)
{
    rg__agent *a = from->a;
    note_delay(a, from, beat, now);
    note_accusing(from, beat);
    if (beat->is_decided && beat->generation > from->begun)
        from->begun = beat->generation;
    if (is_news(a, beat) && a->mirror != NULL)
        rg__mirror_expect(a->mirror);
}

/* It answers a probe. */
static void on_here(rg__peer *from, const rg__beat *beat, uint64_t now)
{
    from->answered_ns = now;
    if (beat->text_bytes > 0)
        from->hole_ns = 0;
    if (is_namesake(from))
        judge_name_conflict(from->a, true);
    rg__suspect_heard(from);
    if (!from->is_accused)
        stop_probing(from);
}

static void on_beat(rg__agent *a, rg__peer *from, const rg__beat *beat)
{
    const uint64_t now = rg__now_ns();
    note_heard(from, beat, now);
    switch (beat->type) {
    case RG__BEAT:
        on_plain_beat(from, beat, now);
        break;
    case RG__BEAT_PROBE: /* answered already */
        break;
    case RG__BEAT_HERE:
        on_here(from, beat, now);
        break;
    case RG__BEAT_ABORTED:
        on_aborted(a, from, beat->generation);
        if (beat->is_etcd_up && beat->text_bytes > 0)
            a->on->host_told_death(a, from->id, beat->generation, beat->text,
                                   beat->text_bytes);
        break;
    case RG__BEAT_ACK:
        if (beat->is_etcd_up)
            a->on->host_acked(a, from->id, beat->generation, beat->text,
                              beat->text_bytes);
        break;
    case RG__BEAT_OFFER:
        a->on->host_offers(a, from->id, beat->generation, beat->text,
                           beat->text_bytes);
        break;
    case RG__BEAT_EXPECT:
        a->on->host_expects(a, from->id, beat->generation, beat->text,
                            beat->text_bytes);
        break;
    }
}

static void note_refusal(rg__agent *a, int sock)
{
    for (int i = 0; i < a->beats->peers; i++) {
        rg__peer *one = a->beats->peer[i];
        if (one->probe_sock == sock && one->refused_ns == 0) {
            one->refused_ns = rg__now_ns();
            rg__log(RG__INFO, "agent",
                    "the agent of host %s is gone, but the host lives",
                    one->name);
            if (a->beats->namesake_ns != 0 && one->id == a->beats->namesake)
                judge_name_conflict(a, false);
        }
    }
}

/* Any agent that knows the job's key is answered, known here or not. */
static void answer(rg__agent *a, const rg__beat *probe, const rg__inet *at)
{
    rg__peer asker = {.id = probe->from, .at = *at};
    rg__beat here = {.type = RG__BEAT_HERE,
                     .text = probe->text,
                     .text_bytes = probe->text_bytes};
    send_beat(a, a->beats->sock, &asker, &here);
}

static void on_datagram(void *arg, int fd, uint32_t events)
{
    (void)events;
    rg__agent *a = arg;
    for (int i = 0; i < PER_WAKE; i++) {
        uint8_t bytes[RG__BEAT_MAX + 1];
        rg__beat beat;
        rg__inet at;
        socklen_t at_bytes = sizeof at;
        const ssize_t n =
            recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, &at.any, &at_bytes);
        if (n < 0 && errno == ECONNREFUSED)
            note_refusal(a, fd);
        if (n < 0)
            return;
        if (!rg__beat_read(bytes, (size_t)n, a->key, &beat) ||
            beat.to != a->id) {
            a->beats->refused++;
            continue;
        }
        if (beat.type == RG__BEAT_PROBE)
            answer(a, &beat, &at);
        rg__peer *from = find_peer(a->beats, beat.from);
        const bool is_old = from != NULL && beat.counter <= from->counter;
        a->beats->received += !is_old;
        a->beats->refused += is_old;
        if (from != NULL && !is_old)
            on_beat(a, from, &beat);
    }
}

rg__beat_counts rg__beat_count(const rg__agent *a)
{
    const rg__beats *b = a->beats;
    return b != NULL ? (rg__beat_counts){b->sent, b->received, b->refused}
                     : (rg__beat_counts){0};
}

/* ------------------------------------------------------------------ period */

static bool accuses_any(const rg__beats *b)
{
    for (int i = 0; i < b->minds; i++)
        if (b->minded[i]->is_accused)
            return true;
    return b->self.is_accused;
}

static bool is_silent(const rg__peer *one, uint64_t now)
{
    return one->is_expected &&
           now - one->heard_ns > rg__budget_ns(one->a->params) / 2;
}

/* Probe it, ask it once, or neither. */
static void look_at_peer(rg__peer *one, uint64_t now)
{
    rg__agent *a = one->a;
    const bool is_just_asked =
        is_in_round(one) && now - one->asked_ns < period_ns(a);
    if (one->stuck_ns != 0 &&
        now - one->stuck_ns > rg__patience_ns(a->params)) {
        one->stuck_ns = one->hole_ns = 0;
        rg__wait_end(a, RG__WAIT_BYTES, one->id);
    }
    if (one->stuck_ns != 0 || one->is_accused || is_silent(one, now) ||
        (is_in_round(one) && !is_just_asked) || is_namesake(one))
        probe(one);
    else if (is_just_asked)
        ask(one);
    else
        stop_probing(one);
}

static void beat_now(rg__agent *a, uint64_t now)
{
    rg__beats *b = a->beats;
    bool is_any_silent = false;
    int kept = 0;
    rg__beat beat = {.type = RG__BEAT,
                     .generation = a->view.cur.generation,
                     .is_decided = a->view.cur.phase != RG__GEN_PROPOSED,
                     .accuses = accuses_any(b)};
    b->self.beat_ns = now;
    note_accusing(&b->self, &beat);
    for (int i = 0; i < b->minds; i++) {
        rg__peer *one = b->minded[i];
        if (one->is_target) {
            beat.since_ns = one->sent_ns != 0 ? now - one->sent_ns : 0;
            one->sent_ns = now;
            send_beat(a, b->sock, one, &beat);
        }
        is_any_silent |= is_silent(one, now);
        look_at_peer(one, now);
        one->is_minded = is_minded(one);
        if (one->is_minded)
            b->minded[kept++] = one;
    }
    b->minds = kept;
    if (!is_any_silent)
        b->silent_ns = 0;
    else if (b->silent_ns == 0)
        b->silent_ns = now;
}

/* Seldom, since a machine that is busy stays so. */
static void say_late(rg__agent *a, uint64_t late_ns, uint64_t now)
{
    rg__beats *b = a->beats;
    if (b->said_late_ns != 0 && now - b->said_late_ns < SAY_LATE_NS)
        return;
    b->said_late_ns = now;
    rg__log(RG__WARN, "agent",
            "this agent came %.0f ms late to its turn: host %s is busy, or "
            "was stopped; it accuses no host that it could not hear. %s",
            (double)late_ns / 1e6, a->params->host,
            a->params->detect_follows
                ? "Silent hosts get more time from now on"
                : "If that happens again, --detect auto or cloud gives more "
                  "time");
}

/* What came meanwhile lies in the socket, or was lost in it: no silence. But an
 * agent that comes late to every turn finds a lost host, too. */
static void excuse(rg__peer *one, uint64_t now)
{
    if (one->excuses >= EXCUSES)
        return;
    one->excuses++;
    one->heard_ns = now;
    rg__suspect_excuse(one);
}

static void mind_being_late(rg__agent *a, uint64_t now)
{
    rg__beats *b = a->beats;
    const uint64_t due = b->last_ns + period_ns(a);
    const uint64_t late = b->last_ns != 0 && now > due ? now - due : 0;
    rg__delays_note(&b->delays, now, late);
    note_late(&b->self, now, late);
    if (late < rg__budget_ns(a->params) / LATE_SHARE)
        return;
    say_late(a, late, now);
    rg__suspect_excuse(&b->self);
    for (int i = 0; i < b->peers; i++)
        excuse(b->peer[i], now);
}

static void on_period(void *arg)
{
    rg__agent *a = arg;
    rg__beats *b = a->beats;
    const uint64_t now = rg__now_ns();
    rg__timer_set(b->timer, period_ns(a));
    mind_being_late(a, now);
    b->last_ns = now;
    set_budget(a, rg__view_i_lead(a) ? largest_asked_ns(a)
                                     : rg__budget_ns(a->params));
    if (a->beats->namesake_ns != 0 &&
        now - a->beats->namesake_ns > rg__patience_ns(a->params) / 2)
        judge_name_conflict(a, false);
    beat_now(a, now);
    a->on->beats_sent(a);
}

/* ----------------------------------------------------------- open and close */

static rg_status bind_socket(rg__agent *a, int *sock_p)
{
    rg__inet at;
    if (!rg__inet_read(&a->address, a->port, &at))
        return rg__fail(RG_ERR_INVALID, "%s is no IP address", a->address.text);
    const int sock =
        socket(at.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0 || bind(sock, &at.any, rg__inet_bytes(&at)) != 0 ||
        !rg__inet_of(sock, &at)) {
        const int err = errno;
        if (sock >= 0)
            close(sock);
        return rg__fail(RG_ERR_SYSTEM,
                        "other agents can't be heard at %s: %s; is that an "
                        "address of this host (--advertise, --interface)?",
                        a->address.text, strerror(err));
    }
    const int room = ROOM;
    setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    a->port = rg__inet_port(&at);
    *sock_p = sock;
    return RG_OK;
}

/* Above whatever the agents before us of this incarnation have sent, without a
 * clock: 2^48 datagrams are 89 years of one each 10 us. */
static uint64_t first_counter(const rg__agent *a)
{
    return (uint64_t)a->life.agents << 48;
}

rg_status rg__beat_open(rg__agent *a)
{
    int sock = -1;
    const rg_status st = a->params->is_one_host ? RG_OK : bind_socket(a, &sock);
    if (st != RG_OK)
        return st;
    a->beats = calloc(1, sizeof *a->beats);
    if (a->beats == NULL) {
        if (sock >= 0)
            close(sock);
        return rg__fail(RG_ERR_MEMORY, "no memory for heartbeats");
    }
    a->beats->counter = first_counter(a);
    a->beats->sock = sock;
    a->beats->timer = rg__timer_create(a->loop, on_period, a);
    if (a->beats->timer == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for heartbeats");
    return sock < 0 ? RG_OK
                    : rg__loop_watch(a->loop, sock, EPOLLIN, on_datagram, a);
}

void rg__beat_start(rg__agent *a)
{
    a->beats->self = (rg__peer){.a = a, .id = a->id, .probe_sock = -1};
    rg__timer_set(a->beats->timer, 0);
}

void rg__beat_close(rg__agent *a)
{
    rg__beats *b = a->beats;
    if (b == NULL)
        return;
    while (b->peers > 0)
        drop_peer(b, b->peers - 1);
    rg__suspect_forget(&b->self);
    free(b->self.delays);
    rg__timer_destroy(b->timer);
    rg__loop_close(a->loop, &b->sock);
    free(b->peer);
    free(b->minded);
    free(b->id);
    free(b);
    a->beats = NULL;
}
