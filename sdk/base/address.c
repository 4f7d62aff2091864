/* Looking through the interfaces of this host. */
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

/* As numbers; false: another family, or too long. */
static bool show(const struct sockaddr *from, rg__address *to)
{
    const void *bytes =
        from->sa_family == AF_INET
            ? (const void *)&((const struct sockaddr_in *)(const void *)from)
                  ->sin_addr
            : (const void *)&((const struct sockaddr_in6 *)(const void *)from)
                  ->sin6_addr;
    return inet_ntop(from->sa_family, bytes, to->text, sizeof to->text) != NULL;
}

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
    const uint8_t *mine =
        at->sa_family == AF_INET
            ? (const uint8_t *)&((const struct sockaddr_in *)(const void *)at)
                  ->sin_addr
            : (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)at)
                  ->sin6_addr;
    return is_in_net(mine, bytes, (int)bits);
}

static bool is_usable(const struct sockaddr *at)
{
    if (at == NULL)
        return false;
    if (at->sa_family == AF_INET)
        return true;
    return at->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(
               &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
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
                   show(i->ifa_addr, to);
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
    struct sockaddr_storage self;
    socklen_t n = sizeof self;
    const int sock = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_found =
        sock >= 0 && connect(sock, to->ai_addr, to->ai_addrlen) == 0 &&
        getsockname(sock, (struct sockaddr *)&self, &n) == 0 &&
        show((const struct sockaddr *)&self, mine);
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
