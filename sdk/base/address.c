#include "sdk/base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"

socklen_t rg__inet_bytes(const rg__inet *at)
{
    return at->any.sa_family == AF_INET ? sizeof at->v4 : sizeof at->v6;
}

uint32_t rg__inet_port(const rg__inet *at)
{
    return ntohs(at->any.sa_family == AF_INET ? at->v4.sin_port
                                              : at->v6.sin6_port);
}

void rg__inet_set_port(rg__inet *at, uint32_t port)
{
    if (at->any.sa_family == AF_INET)
        at->v4.sin_port = htons((uint16_t)port);
    else
        at->v6.sin6_port = htons((uint16_t)port);
}

const void *rg__inet_host(const struct sockaddr *at)
{
    const rg__inet *in = (const void *)at;
    return at->sa_family == AF_INET ? (const void *)&in->v4.sin_addr
                                    : (const void *)&in->v6.sin6_addr;
}

bool rg__inet_read(const rg__address *address, uint32_t port, rg__inet *at)
{
    *at = (rg__inet){.v6.sin6_family = AF_INET6};
    if (inet_pton(AF_INET6, address->text, &at->v6.sin6_addr) != 1) {
        *at = (rg__inet){.v4.sin_family = AF_INET};
        if (inet_pton(AF_INET, address->text, &at->v4.sin_addr) != 1)
            return false;
    }
    rg__inet_set_port(at, port);
    return true;
}

bool rg__inet_show(const struct sockaddr *at, rg__address *to)
{
    return inet_ntop(at->sa_family, rg__inet_host(at), to->text,
                     sizeof to->text) != NULL;
}

bool rg__inet_of(int sock, rg__inet *at)
{
    socklen_t bytes = sizeof *at;
    return getsockname(sock, &at->any, &bytes) == 0;
}

int rg__inet_find(const char *host, const char *port, int flags, rg__inet *at)
{
    const struct addrinfo want = {.ai_flags = flags,
                                  .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(host, port, &want, &found);
    if (code != 0)
        return code;
    memcpy(at, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

bool rg__inet_split(char *text, const char **host_p, const char **port_p)
{
    char *end = NULL;
    *host_p = text;
    *port_p = "";
    if (text[0] == '[') {
        *host_p = text + 1;
        end = strchr(text, ']');
        if (end == NULL)
            return false;
        *end++ = '\0';
    } else {
        end = strchr(text, ':');
        if (end == NULL || strchr(end + 1, ':') != NULL)
            return true; /* a bare IPv6 address */
    }
    if (*end == '\0')
        return true;
    *port_p = end + 1;
    const bool has_port = *end == ':' && end[1] != '\0';
    *end = '\0';
    return has_port;
}

int rg__inet_port_read(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    const int port = digits <= 5 ? atoi(text) : -1;
    return digits > 0 && text[digits] == '\0' && port <= 65535 ? port : -1;
}

/* -------------------------------------------------------------- interfaces */

/* Do the first `bits` bits agree? */
static bool is_in_net(const uint8_t *a, const uint8_t *net, int bits)
{
    const int whole = bits / 8, rest = bits % 8;
    if (memcmp(a, net, (size_t)whole) != 0)
        return false;
    const uint8_t mask = (uint8_t)(0xff << (8 - rest));
    return rest == 0 || ((a[whole] ^ net[whole]) & mask) == 0;
}

/* "10.1.0.0/16" against an address. */
static bool matches_cidr(const char *cidr, const struct sockaddr *at)
{
    char net[RG__ADDRESS_MAX];
    const char *slash = strchr(cidr, '/');
    uint8_t bytes[16];
    if (slash == NULL || (size_t)(slash - cidr) >= sizeof net)
        return false;
    snprintf(net, sizeof net, "%.*s", (int)(slash - cidr), cidr);
    char *end = NULL;
    const long bits = strtol(slash + 1, &end, 10);
    const int most = at->sa_family == AF_INET ? 32 : 128;
    if (end == slash + 1 || *end != '\0' || bits < 0 || bits > most ||
        inet_pton(at->sa_family, net, bytes) != 1)
        return false;
    return is_in_net(rg__inet_host(at), bytes, (int)bits);
}

static bool is_usable(const struct sockaddr *at)
{
    const rg__inet *in = (const void *)at;
    return at != NULL && (at->sa_family == AF_INET ||
                          (at->sa_family == AF_INET6 &&
                           !IN6_IS_ADDR_LINKLOCAL(&in->v6.sin6_addr)));
}

static bool is_plain(const struct ifaddrs *i)
{
    return (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
}

static bool is_meant(const struct ifaddrs *i, const char *interface)
{
    if (interface == NULL)
        return is_plain(i);
    return strcmp(i->ifa_name, interface) == 0 ||
           matches_cidr(interface, i->ifa_addr);
}

rg_status rg__address_of(const char *interface, rg__address *to)
{
    struct ifaddrs *all = NULL;
    bool is_found = false;
    if (getifaddrs(&all) != 0)
        return rg__fail(RG_ERR_SYSTEM, "the interfaces can't be listed");
    for (const struct ifaddrs *i = all; i != NULL && !is_found; i = i->ifa_next)
        is_found = is_usable(i->ifa_addr) && is_meant(i, interface) &&
                   rg__inet_show(i->ifa_addr, to);
    freeifaddrs(all);
    if (is_found)
        return RG_OK;
    if (interface == NULL)
        return rg__fail(RG_ERR_SYSTEM,
                        "no interface of this host is up and has an address "
                        "for other hosts; name one (REGROUP_INTERFACE)");
    return rg__fail(RG_ERR_INVALID,
                    "--interface %s: no interface of this host has that name "
                    "and an address, or an address in that network; `ip "
                    "address` lists them",
                    interface);
}

/* ------------------------------------------------------------------- route */

static bool find_source(const struct addrinfo *to, rg__address *mine)
{
    rg__inet self;
    const int sock = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_found =
        sock >= 0 && connect(sock, to->ai_addr, to->ai_addrlen) == 0 &&
        rg__inet_of(sock, &self) && rg__inet_show(&self.any, mine);
    if (sock >= 0)
        close(sock);
    return is_found;
}

bool rg__address_towards(const char *host, const char *port, rg__address *mine)
{
    const struct addrinfo want = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &want, &found) != 0)
        return false;
    bool is_found = false;
    for (const struct addrinfo *i = found; i != NULL && !is_found;
         i = i->ai_next)
        is_found = find_source(i, mine);
    freeaddrinfo(found);
    return is_found;
}
