/* Names of hosts, and which address of ours they are reached from. */
#include "elastic/launch/route.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/address.h"

#define ANY_PORT "9" /* nothing is sent */

static struct addrinfo *look_up(const char *target)
{
    char address[RG__LISTED_TARGET];
    const struct addrinfo want = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    rg__hosts_address(target, address);
    return getaddrinfo(address, ANY_PORT, &want, &found) == 0 ? found : NULL;
}

static bool is_own_name(const char *target)
{
    char address[RG__LISTED_TARGET], own[256] = "";
    rg__hosts_address(target, address);
    gethostname(own, sizeof own - 1);
    const size_t n = strcspn(own, ".");
    return strcmp(address, "localhost") == 0 || strcmp(address, own) == 0 ||
           (strlen(address) == n && strncmp(address, own, n) == 0);
}

/* Only an address of this host can be bound. */
static bool is_own_address(const struct addrinfo *at)
{
    rg__inet to;
    memcpy(&to, at->ai_addr, at->ai_addrlen);
    rg__inet_set_port(&to, 0);
    const int sock = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_own = sock >= 0 && bind(sock, &to.any, at->ai_addrlen) == 0;
    if (sock >= 0)
        close(sock);
    return is_own;
}

bool rg__route_is_here(const char *target)
{
    if (is_own_name(target))
        return true;
    struct addrinfo *found = look_up(target);
    bool is_here = false;
    for (const struct addrinfo *i = found; i != NULL && !is_here;
         i = i->ai_next)
        is_here = is_own_address(i);
    if (found != NULL)
        freeaddrinfo(found);
    return is_here;
}

static bool route_to(const char *target, rg__address *mine)
{
    char address[RG__LISTED_TARGET];
    rg__hosts_address(target, address);
    return rg__address_towards(address, ANY_PORT, mine);
}

rg_status rg__route_mine(const rg__host_list *list, rg__address *mine_p)
{
    int here = 0;
    for (int i = 0; i < list->n; i++) {
        if (rg__route_is_here(list->host[i].target))
            here++;
        else if (route_to(list->host[i].target, mine_p))
            return RG_OK;
    }
    if (list->n == 0 || here < list->n) {
        const rg_status st = rg__address_of(NULL, mine_p);
        if (st == RG_OK)
            return st;
    }
    strcpy(mine_p->text, "127.0.0.1");
    return RG_OK;
}
