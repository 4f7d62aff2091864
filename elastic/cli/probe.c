#include "elastic/cli/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"
#include "sdk/base/clock.h"
#include "sdk/base/proof.h"

#define CONNECT_MS 3000
#define BEAT_MS    333 /* one of three */
#define BEATS      3

/* ---------------------------------------------------------------- addresses */

bool rg__probe_is_loopback(const rg__address *address)
{
    struct in6_addr v6;
    return strncmp(address->text, "127.", 4) == 0 ||
           (inet_pton(AF_INET6, address->text, &v6) == 1 &&
            IN6_IS_ADDR_LOOPBACK(&v6));
}

static int open_socket(const rg__inet *to, int type)
{
    return socket(to->any.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int close_with(int sock, int result)
{
    if (sock >= 0)
        close(sock);
    return result;
}

/* -------------------------------------------------------------------- route */

static void name_interface(const struct sockaddr *source,
                           char name[IF_NAMESIZE])
{
    struct ifaddrs *all = NULL;
    const size_t n = source->sa_family == AF_INET ? 4 : 16;
    name[0] = '\0';
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
        if (i->ifa_addr != NULL &&
            i->ifa_addr->sa_family == source->sa_family &&
            memcmp(rg__inet_host(i->ifa_addr), rg__inet_host(source), n) == 0)
            snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
    freeifaddrs(all);
}

static int mtu_of(int sock, int family)
{
    int mtu = 0;
    socklen_t n = sizeof mtu;
    const bool ok =
        family == AF_INET
            ? getsockopt(sock, IPPROTO_IP, IP_MTU, &mtu, &n) == 0
            : getsockopt(sock, IPPROTO_IPV6, IPV6_MTU, &mtu, &n) == 0;
    return ok ? mtu : 0;
}

bool rg__probe_route(const rg__inet *to, rg__route *route_p)
{
    rg__inet aim = *to, source;
    const int sock = open_socket(to, SOCK_DGRAM);
    rg__inet_set_port(&aim, 9); /* a datagram socket sends nothing yet */
    if (sock < 0 || connect(sock, &aim.any, rg__inet_bytes(&aim)) != 0 ||
        !rg__inet_of(sock, &source)) {
        const int cause = errno;
        close_with(sock, 0);
        errno = cause;
        return false;
    }
    rg__inet_show(&source.any, &route_p->source);
    name_interface(&source.any, route_p->interface);
    route_p->mtu = mtu_of(sock, to->any.sa_family);
    close(sock);
    return true;
}

/* ------------------------------------------------------------------ packets */

/* 0, or why not. */
static int wait_for(int sock, short events, int ms)
{
    struct pollfd look = {.fd = sock, .events = events};
    int error = 0;
    socklen_t n = sizeof error;
    if (poll(&look, 1, ms) <= 0)
        return ETIMEDOUT;
    if (getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        return errno;
    return error;
}

static double ms_since(uint64_t began_ns)
{
    return (double)(rg__now_ns() - began_ns) / 1e6;
}

/* Of a TCP connection, with the time stamps before its bytes; 0: unknown. */
static int segment_of(int sock)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    if (getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &n) != 0)
        return 0;
    const bool has_stamps = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
    return (int)info.tcpi_snd_mss + (has_stamps ? 12 : 0);
}

int rg__probe_connect(const rg__inet *to, double *ms_p, int *segment_p)
{
    const uint64_t began = rg__now_ns();
    const int sock = open_socket(to, SOCK_STREAM);
    if (sock < 0)
        return errno;
    if (connect(sock, &to->any, rg__inet_bytes(to)) != 0) {
        const int cause =
            errno == EINPROGRESS ? wait_for(sock, POLLOUT, CONNECT_MS) : errno;
        if (cause != 0)
            return close_with(sock, cause);
    }
    *ms_p = ms_since(began);
    *segment_p = segment_of(sock);
    return close_with(sock, 0);
}

static int hear_beat(int sock, const uint8_t *key, uint64_t host)
{
    uint8_t bytes[RG__BEAT_MAX + 1];
    rg__beat beat;
    const int cause = wait_for(sock, POLLIN, BEAT_MS);
    if (cause != 0)
        return cause;
    const ssize_t n = recv(sock, bytes, sizeof bytes, 0);
    if (n < 0)
        return errno;
    return rg__beat_read(bytes, (size_t)n, key, &beat) &&
                   beat.type == RG__BEAT_HERE && beat.from == host
               ? 0
               : EBADMSG;
}

static int heads_of(const rg__inet *to)
{
    return to->any.sa_family == AF_INET ? 28 : 48; /* of IP and UDP */
}

int rg__probe_beat(const rg__inet *to, const uint8_t key[RG__KEY_BYTES],
                   uint64_t host, int packet, double *ms_p)
{
    static const char nothing[RG__BEAT_MAX];
    uint8_t bytes[RG__BEAT_MAX];
    const int text = packet - heads_of(to) - (int)RG__BEAT_BYTES;
    rg__beat beat = {.type = RG__BEAT_PROBE,
                     .to = host,
                     .is_etcd_up = true,
                     .text = nothing,
                     .text_bytes = text > 0 ? (size_t)text : 0};
    if (beat.text_bytes > RG__BEAT_MAX - RG__BEAT_BYTES)
        beat.text_bytes = RG__BEAT_MAX - RG__BEAT_BYTES;
    const int sock = open_socket(to, SOCK_DGRAM);
    int cause = ETIMEDOUT;
    if (sock < 0)
        return errno;
    if (connect(sock, &to->any, rg__inet_bytes(to)) != 0 ||
        rg__random_bytes(&beat.from, sizeof beat.from) != RG_OK)
        return close_with(sock, errno);
    for (int i = 0; i < BEATS && cause == ETIMEDOUT; i++) {
        const uint64_t began = rg__now_ns();
        beat.counter++;
        const size_t n = rg__beat_write(bytes, key, &beat);
        if (send(sock, bytes, n, 0) < 0)
            cause = errno;
        else
            cause = hear_beat(sock, key, host);
        *ms_p = ms_since(began);
    }
    return close_with(sock, cause);
}
