/* IP addresses: as a socket has them, as numbers, and of this host's
 * interfaces.
 *
 * Threads:   any. Ownership: nothing is kept. */
#ifndef RG_BASE_ADDRESS_H
#define RG_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

#include "regroup/regroup.h"
#include "sdk/base/wire.h"

/* A socket's: its bytes are those of its family. */
typedef union rg__inet {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} rg__inet;

socklen_t rg__inet_bytes(const rg__inet *at);
uint32_t rg__inet_port(const rg__inet *at);
void rg__inet_set_port(rg__inet *at, uint32_t port);
/* The address alone, in the network's order. */
const void *rg__inet_host(const struct sockaddr *at);

/* false: it is not an address in numbers. */
bool rg__inet_read(const rg__address *address, uint32_t port, rg__inet *at);
/* In numbers; false: of another family. */
bool rg__inet_show(const struct sockaddr *at, rg__address *to);
/* Where a socket is bound; false: errno says why it can't be known. */
bool rg__inet_of(int sock, rg__inet *at);
/* The first address of a host that getaddrinfo finds with these flags; port
 * NULL: 0. Returns 0, or getaddrinfo's code. */
int rg__inet_find(const char *host, const char *port, int flags, rg__inet *at);

/* Cut "host:port", "[host]:port" or one without a port, "", in two; more than
 * one colon without brackets belong to the host. false: none of these. */
bool rg__inet_split(char *text, const char **host_p, const char **port_p);
/* A port in decimal digits; -1: it is none. */
int rg__inet_port_read(const char *text);

/* The address of the interface with that name, or in that network
 * ("10.0.0.0/8"). NULL: of the first that is up and no loopback. */
rg_status rg__address_of(const char *interface, rg__address *to);

/* Our address from which a host, given by name or in numbers, is reached, by
 * the first of its own addresses that has a route. Nothing is sent. false:
 * there is no such host, or no route. */
bool rg__address_towards(const char *host, const char *port, rg__address *mine);

#endif
