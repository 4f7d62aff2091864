/* One check after the other, each with what the previous ones have found. The
 * first one that leaves nothing to go on with is the last. */
#include "elastic/cli/doctor_peer.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/cli/finding.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/peer_find.h"
#include "elastic/cli/probe.h"
#include "sdk/base/fail.h"

#define FAR_MS       50.0 /* above it the budget of a LAN is short */
#define SMALL_MTU    1280
#define LARGEST      9000 /* probe */
#define HEARTBEAT    108  /* with the heads of IP and UDP */
#define WORKERS_MOST 4    /* one as good as the other */

typedef struct peer {
    const rg__cli *cli;
    char name[256];
    uint32_t port; /* 0: not known */
    bool has_record;
    rg__peer_place place; /* has_record */
    rg__inet at;
    rg__address address; /* the same in numbers */
    rg__route route;
    double ms; /* of the quickest connection, < 0: none */
    int segment;
    bool is_heard; /* its agent answers small datagrams */
    bool has_failed;
} peer;

static void note(peer *p, const char *name, rg__finding finding)
{
    p->has_failed |= rg__finding_print(name, &finding);
}

/* --------------------------------------------------------------------- name */

/* "h2", "h2:9000", "10.0.0.2:9000", "[fd00::2]:9000", "fd00::2". */
static rg_status split(peer *p, const char *text)
{
    char copy[sizeof p->name + 8]; /* "[]:65535" */
    const char *host = "", *port = "";
    snprintf(copy, sizeof copy, "%s", text);
    const bool is_right =
        strlen(text) < sizeof copy && rg__inet_split(copy, &host, &port);
    const int number = port[0] != '\0' ? rg__inet_port_read(port) : 0;
    if (!is_right || host[0] == '\0' || strlen(host) >= sizeof p->name ||
        number < 0 || (number == 0 && port[0] != '\0'))
        return rg__fail(RG_ERR_INVALID,
                        "--peer \"%s\" is not a host; one looks like h2, "
                        "10.0.0.2:9000 or [fd00::2]:9000",
                        text);
    strcpy(p->name, host);
    p->port = (uint32_t)number;
    return RG_OK;
}

static bool look_up_record(peer *p)
{
    const rg__settings *s = &p->cli->settings;
    if (s->job == NULL)
        return true;
    const rg_status st = rg__peer_find(p->cli, p->name, &p->place);
    if (st != RG_OK) {
        note(p, "record", rg__find(RG__FAIL, "%s", rg_last_error()));
        return false;
    }
    p->has_record = true;
    if (p->port == 0)
        p->port = p->place.port;
    note(p, "record",
         rg__find(RG__OK, "host %s of job %s is at %s, its agent at port %u",
                  p->place.host, p->place.job, p->place.address.text,
                  p->place.port));
    return true;
}

static bool resolve(peer *p)
{
    const char *name = p->has_record ? p->place.address.text : p->name;
    const int error = rg__inet_find(name, NULL, 0, &p->at);
    if (error != 0) {
        note(p, "name",
             rg__find(RG__FAIL,
                      "%s can't be resolved: %s; add it to DNS or /etc/hosts, "
                      "or name its address",
                      name, gai_strerror(error)));
        return false;
    }
    rg__inet_show(&p->at.any, &p->address);
    if (rg__probe_is_loopback(&p->address))
        note(
            p, "name",
            rg__find(RG__FAIL,
                     "%s is %s, loopback: on every host it means that host; %s",
                     name, p->address.text,
                     p->has_record
                         ? "start its agent with --advertise or --interface"
                         : "name an address that it has on the network"));
    else
        note(p, "name", rg__find(RG__OK, "%s is %s", name, p->address.text));
    return true;
}

/* -------------------------------------------------------------------- route */

static bool look_at_route(peer *p)
{
    if (!rg__probe_route(&p->at, &p->route)) {
        note(p, "route",
             rg__find(RG__FAIL, "there is none to %s: %s; look at `ip route`",
                      p->address.text, strerror(errno)));
        return false;
    }
    const bool is_self = strcmp(p->route.source.text, p->address.text) == 0;
    note(
        p, "route",
        is_self
            ? rg__find(RG__WEAK,
                       "%s is an address of this host itself; name "
                       "another host",
                       p->address.text)
            : rg__find(
                  RG__OK, "from %s by %s", p->route.source.text,
                  p->route.interface[0] != '\0' ? p->route.interface : "an interface"));
    return true;
}

/* What an agent here would tell others: --advertise aside, the source address
 * of the route to etcd. */
static const char *endpoints_of(const peer *p)
{
    return p->has_record ? p->place.endpoints : p->cli->settings.etcd;
}

static bool find_own(const peer *p, rg__address *own)
{
    const char *endpoints = endpoints_of(p);
    char host[256], port[16];
    rg__inet etcd;
    rg__route route;
    if (endpoints == NULL) {
        *own = p->route.source;
        return true;
    }
    if (!rg__etcd_split(endpoints, host, sizeof host, port, sizeof port) ||
        rg__inet_find(host, NULL, 0, &etcd) != 0 ||
        !rg__probe_route(&etcd, &route))
        return false;
    *own = route.source;
    return true;
}

static void look_at_own_address(peer *p)
{
    rg__address own;
    if (!find_own(p, &own))
        note(p, "own address",
             rg__find(RG__FAIL,
                      "there is no route to etcd at %s, whose source address "
                      "others would be told; check the endpoints (--etcd)",
                      endpoints_of(p)));
    else if (rg__probe_is_loopback(&own))
        note(p, "own address",
             rg__find(RG__FAIL,
                      "others would be told %s, loopback, and could not reach "
                      "this host; give etcd by an address of the network, or "
                      "the agent here --advertise or --interface",
                      own.text));
    else if (strcmp(own.text, p->route.source.text) != 0)
        note(p, "own address",
             rg__find(RG__WEAK,
                      "others would be told %s, where etcd is reached from, "
                      "but the way to %s begins at %s; --advertise or "
                      "--interface names one that suits all",
                      own.text, p->address.text, p->route.source.text));
    else
        note(p, "own address",
             rg__find(RG__OK, "others would be told %s", own.text));
}

/* -------------------------------------------------------------------- ports */

static rg__finding explain(const peer *p, int cause, const char *what,
                           uint32_t port, bool is_known)
{
    const char *address = p->address.text;
    if (cause == ECONNREFUSED && is_known)
        return rg__find(RG__FAIL,
                        "%s says that no process listens at port %u, %s; has "
                        "it just ended?",
                        address, port, what);
    if (cause == ECONNREFUSED)
        return rg__find(RG__WEAK,
                        "%s answers, but no process listens at port %u; right "
                        "as long as no agent runs there",
                        address, port);
    if (cause == ETIMEDOUT)
        return rg__find(RG__FAIL,
                        "%s gives no answer at port %u, %s: it is down, or a "
                        "firewall on the way drops packets; open all TCP and "
                        "UDP ports between the hosts of a job",
                        address, port, what);
    return rg__find(RG__FAIL, "port %u of %s, %s, can't be reached: %s", port,
                    address, what, strerror(cause));
}

static int connect_port(peer *p, uint32_t port)
{
    double ms = 0;
    int segment = 0;
    rg__inet at = p->at;
    rg__inet_set_port(&at, port);
    const int cause = rg__probe_connect(&at, &ms, &segment);
    if (cause != 0)
        return cause;
    if (p->ms < 0 || ms < p->ms)
        p->ms = ms;
    if (segment > p->segment) /* a small window makes it smaller */
        p->segment = segment;
    return 0;
}

/* Three times, since the first may have to wait for ARP. */
static void look_at_port(peer *p)
{
    int cause = 0;
    if (p->port == 0) {
        note(p, "agent, TCP",
             rg__find(RG__WEAK, "no port is known; name one after the host, or "
                                "the job with --job and --etcd"));
        return;
    }
    for (int i = 0; i < 3 && cause == 0; i++)
        cause = connect_port(p, p->port);
    note(p, "agent, TCP",
         cause != 0 ? explain(p, cause, "the agent's", p->port, p->has_record)
                    : rg__find(RG__OK, "port %u takes connections", p->port));
}

/* Only a caller that knows the job's key is answered. */
static void look_at_beat(peer *p)
{
    double ms = 0;
    rg__inet at = p->at;
    if (!p->has_record)
        return;
    rg__inet_set_port(&at, p->place.port);
    const int cause = rg__probe_beat(&at, p->place.key, p->place.id, 0, &ms);
    p->is_heard = cause == 0;
    if (cause == 0)
        note(p, "agent, UDP",
             rg__find(RG__OK, "port %u answers heartbeats, in %.2f ms",
                      p->place.port, ms));
    else if (cause == EBADMSG)
        note(p, "agent, UDP",
             rg__find(RG__FAIL,
                      "what answers at port %u is not the agent of host %s; "
                      "was that just started again?",
                      p->place.port, p->place.host));
    else
        note(p, "agent, UDP",
             explain(p, cause, "the agent's", p->place.port, true));
}

static void look_at_workers(peer *p)
{
    const int n =
        p->place.workers < WORKERS_MOST ? p->place.workers : WORKERS_MOST;
    if (!p->has_record || n == 0)
        return;
    for (int i = 0; i < n; i++) {
        const uint32_t port = p->place.worker_port[i];
        const int cause = connect_port(p, port);
        if (cause == 0)
            continue;
        note(p, "workers, TCP", explain(p, cause, "a worker's", port, true));
        return;
    }
    note(p, "workers, TCP",
         rg__find(RG__OK, "%d of %d were tried, and take connections", n,
                  p->place.workers));
}

/* --------------------------------------------------------------------- link */

static void look_at_time(peer *p)
{
    if (p->ms < 0)
        return;
    note(p, "round trip",
         p->ms > FAR_MS
             ? rg__find(RG__WEAK,
                        "%.1f ms: far away for --detect lan, whose budget is "
                        "500 ms; use --detect auto, cloud or a longer time",
                        p->ms)
             : rg__find(RG__OK, "%.2f ms", p->ms));
}

/* Do a packet of that size and its answer come through? */
static bool does_pass(const peer *p, int packet)
{
    double ms = 0;
    rg__inet at = p->at;
    rg__inet_set_port(&at, p->place.port);
    return rg__probe_beat(&at, p->place.key, p->place.id, packet, &ms) == 0;
}

/* The network may carry less than both ends assume. */
static bool look_for_hole(peer *p)
{
    static const int sizes[] = {1400, 1280, 1000, 576, 0};
    const int mtu = p->route.mtu < LARGEST ? p->route.mtu : LARGEST;
    int i = 0;
    if (!p->is_heard || does_pass(p, mtu))
        return false;
    while (sizes[i] > 0 && (sizes[i] >= mtu || !does_pass(p, sizes[i])))
        i++;
    note(p, "packet size",
         rg__find(RG__FAIL,
                  "packets of %d bytes do not come through to %s and back, %s "
                  "%d bytes do: the path carries less than its ends assume; "
                  "set the MTU of both to what it carries, or let ICMP "
                  "(\"fragmentation needed\") pass",
                  mtu, p->address.text,
                  sizes[i] > 0 ? "of" : "but heartbeats of about",
                  sizes[i] > 0 ? sizes[i] : HEARTBEAT));
    return true;
}

static void look_at_packets(peer *p)
{
    const int mtu = p->route.mtu;
    const int heads = p->at.any.sa_family == AF_INET ? 40 : 60;
    const int segment_mtu = p->segment > 0 ? p->segment + heads : 0;
    if (mtu == 0)
        return;
    if (mtu < SMALL_MTU)
        note(p, "packet size",
             rg__find(RG__WEAK,
                      "%d bytes, less than any network has; look at `ip link` "
                      "for %s",
                      mtu, p->route.interface));
    else if (segment_mtu > 0 && segment_mtu < mtu)
        note(p, "packet size",
             rg__find(RG__WEAK,
                      "%d bytes here, but the other side takes %d: set the "
                      "same MTU on both, or large messages may be lost",
                      mtu, segment_mtu));
    else if (look_for_hole(p))
        return;
    else if (mtu <= 1500)
        note(p, "packet size",
             rg__find(RG__OK,
                      "%d bytes; where the network takes 9000 (jumbo frames), "
                      "large collectives cost less CPU",
                      mtu));
    else
        note(p, "packet size", rg__find(RG__OK, "%d bytes", mtu));
}

static rg_status check_flags(const rg__settings *s)
{
    rg__launch launch = {0};
    if (s->job != NULL && !rg__is_name(s->job))
        return rg__fail(RG_ERR_INVALID, "--job \"%s\" is not the name of a job",
                        s->job);
    return s->etcd != NULL ? rg__launch_reach(&launch, s) : RG_OK;
}

int rg__doctor_peer(const rg__cli *cli)
{
    peer p = {.cli = cli, .ms = -1};
    rg_status st = split(&p, cli->settings.peer);
    if (st == RG_OK)
        st = check_flags(&cli->settings);
    if (st != RG_OK)
        return rg__cli_fail(st);
    if (look_up_record(&p) && resolve(&p) && look_at_route(&p)) {
        look_at_own_address(&p);
        look_at_port(&p);
        look_at_beat(&p);
        look_at_workers(&p);
        look_at_time(&p);
        look_at_packets(&p);
    }
    return p.has_failed ? 1 : 0;
}
