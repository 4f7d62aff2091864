/* Which address of this host the others use: one that was given, one of an
 * interface that was given, or the source address of the route to etcd, which
 * every host of the job can reach. */
#include "elastic/agent/inside.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/fail.h"

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

static rg_status take_given(const char *text, rg__address *to)
{
    uint8_t room[16];
    if (strlen(text) >= sizeof to->text ||
        (inet_pton(AF_INET, text, room) != 1 &&
         inet_pton(AF_INET6, text, room) != 1))
        return rg__fail(RG_ERR_INVALID,
                        "--advertise %s is no IPv4 or IPv6 address; write it "
                        "in numbers, such as 10.0.0.7",
                        text);
    strcpy(to->text, text);
    return RG_OK;
}

/* ------------------------------------------------------------- an interface */

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

static rg_status take_interface(const char *name, rg__address *to)
{
    struct ifaddrs *all = NULL;
    bool is_found = false;
    if (getifaddrs(&all) != 0)
        return rg__fail(RG_ERR_SYSTEM, "the interfaces can't be listed");
    for (const struct ifaddrs *i = all; i != NULL && !is_found; i = i->ifa_next)
        is_found = is_usable(i->ifa_addr) &&
                   (strcmp(i->ifa_name, name) == 0 ||
                    matches_cidr(name, i->ifa_addr)) &&
                   show(i->ifa_addr, to);
    freeifaddrs(all);
    if (is_found)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "--interface %s: no interface of this host has that name "
                    "and an address, or an address in that network; `ip "
                    "address` lists them",
                    name);
}

/* -------------------------------------------------------- the route to etcd */

/* "http://host:port" or "[::1]:2379" into host and port. */
static bool split_endpoint(const char *endpoints, char *host, size_t room,
                           char *port, size_t port_room)
{
    const char *at = strstr(endpoints, "://");
    at = at != NULL ? at + 3 : endpoints;
    const char *begin = at, *end = at + strcspn(at, ":/,");
    if (*at == '[') {
        begin = at + 1;
        end = begin + strcspn(begin, "]");
        at = *end == ']' ? end + 1 : end;
    } else {
        at = end;
    }
    const size_t n = (size_t)(end - begin);
    if (n == 0 || n >= room)
        return false;
    snprintf(host, room, "%.*s", (int)n, begin);
    snprintf(port, port_room, "%.*s",
             *at == ':' ? (int)strcspn(at + 1, "/,") : 4,
             *at == ':' ? at + 1 : "2379");
    return true;
}

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

static bool route_to(const char *endpoint, rg__address *to)
{
    char host[256], port[16];
    const struct addrinfo want = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    if (!split_endpoint(endpoint, host, sizeof host, port, sizeof port) ||
        getaddrinfo(host, port, &want, &found) != 0)
        return false;
    bool is_found = false;
    for (const struct addrinfo *i = found; i != NULL && !is_found;
         i = i->ai_next)
        is_found = find_source(i, to);
    freeaddrinfo(found);
    return is_found;
}

/* The first endpoint with a route to it counts. */
static rg_status take_route(const char *endpoints, rg__address *to)
{
    for (const char *at = endpoints; at != NULL;
         at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (route_to(at, to))
            return RG_OK;
    return rg__fail(RG_ERR_SYSTEM,
                    "no route from this host to etcd at %s; check the "
                    "endpoint, or name this host's address with --advertise",
                    endpoints);
}

rg_status rg__address_choose(agent *a)
{
    if (a->params->advertise != NULL)
        return take_given(a->params->advertise, &a->address);
    if (a->params->interface != NULL)
        return take_interface(a->params->interface, &a->address);
    return take_route(a->params->endpoints, &a->address);
}

static bool is_loopback(const rg__address *address)
{
    return strncmp(address->text, "127.", 4) == 0 ||
           strcmp(address->text, "::1") == 0;
}

bool rg__address_is_reached(const agent *a, const rg__proposal *p)
{
    for (int i = 0; i < p->host_count; i++)
        if (is_loopback(&a->address) && !is_loopback(&p->host[i].address))
            return false;
    return true;
}
