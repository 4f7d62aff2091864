/* The way to another host, as far as this one knows it.
 *
 * Threads: any. Waiting: names are looked up. */
#ifndef RG_LAUNCH_ROUTE_H
#define RG_LAUNCH_ROUTE_H

#include <stdbool.h>

#include "elastic/launch/host_list.h"
#include "sdk/base/wire.h"

/* It is this host: localhost, our name, or an address of ours. */
bool rg__route_is_here(const char *target);

/* The address of this host from which the first other host of the list is
 * reached; where no name says that, the first that is no loopback. */
rg_status rg__route_mine(const rg__host_list *list, rg__address *mine_p);

#endif
