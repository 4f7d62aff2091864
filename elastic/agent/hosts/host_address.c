/* Which address of this host the others use: one that was given, one of an
 * interface that was given, or the source address of the route to etcd, which
 * every host of the job can reach. */
#include "elastic/agent/hosts/hosts.h"

#include <stdio.h>
#include <string.h>

#include "sdk/base/fail.h"

static rg_status take_given(const char *text, rg__address *to)
{
    rg__inet at;
    snprintf(to->text, sizeof to->text, "%s", text);
    if (strlen(text) >= sizeof to->text || !rg__inet_read(to, 0, &at))
        return rg__fail(RG_ERR_INVALID,
                        "--advertise %s is no IPv4 or IPv6 address; write it "
                        "in numbers, such as 10.0.0.7",
                        text);
    return RG_OK;
}

/* -------------------------------------------------------- the route to etcd */

static bool route_to(const char *endpoint, rg__address *to)
{
    char host[256], port[16];
    return rg__etcd_split(endpoint, host, sizeof host, port, sizeof port) &&
           rg__address_towards(host, port, to);
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

/* On one host what was given is checked, although no other host needs it. */
rg_status rg__address_choose(rg__agent *a)
{
    rg_status st = RG_OK;
    if (a->params->user.advertise != NULL)
        st = take_given(a->params->user.advertise, &a->address);
    else if (a->params->interface != NULL)
        st = rg__address_of(a->params->interface, &a->address);
    else if (!a->params->is_one_host)
        st = take_route(a->params->etcd.endpoints, &a->address);
    if (a->params->is_one_host)
        a->address = (rg__address){0};
    return st;
}

static bool is_loopback(const rg__address *address)
{
    return strncmp(address->text, "127.", 4) == 0 ||
           strcmp(address->text, "::1") == 0;
}

bool rg__address_is_reached(const rg__agent *a, const rg__proposal *p)
{
    for (int i = 0; i < p->host_count; i++)
        if (is_loopback(&a->address) && !is_loopback(&p->host[i].address))
            return false;
    return true;
}
