/* IP addresses of this host's interfaces.
 *
 * Threads:   any. Ownership: nothing is kept. */
#ifndef RG_BASE_ADDRESS_H
#define RG_BASE_ADDRESS_H

#include <stdbool.h>

#include "regroup/regroup.h"
#include "sdk/base/wire.h"

/* The address of the interface with that name, or in that network
 * ("10.0.0.0/8"). NULL: of the first that is up and no loopback. */
rg_status rg__address_of(const char *interface, rg__address *to);

/* Our address from which a host, given by name or in numbers, is reached, by
 * the first of its own addresses that has a route. Nothing is sent. false:
 * there is no such host, or no route. */
bool rg__address_towards(const char *host, const char *port, rg__address *mine);

#endif
