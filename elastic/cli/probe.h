/* Looks along the network. The only message of Regroup's that is sent is a
 * heartbeat, which any agent answers for a caller that knows the job's key.
 *
 * Threads:   one.
 * Waiting:   as long as a call says.
 * Units:     milliseconds, bytes. */
#ifndef RG_ELASTIC_PROBE_H
#define RG_ELASTIC_PROBE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "sdk/base/address.h"

typedef struct rg__route {
    rg__address source;
    char interface[IF_NAMESIZE]; /* "": not known */
    int mtu; /* of the way, as the kernel knows it; 0: not */
} rg__route;

bool rg__probe_is_loopback(const rg__address *address);

/* Which way packets would take; nothing is sent. false: none, see errno. */
bool rg__probe_route(const rg__inet *to, rg__route *route_p);

/* Connect and close, within 3 s. Returns 0 or an errno; ETIMEDOUT: no answer
 * came. *segment_p: largest segment that both sides agreed on. */
int rg__probe_connect(const rg__inet *to, double *ms_p, int *segment_p);

/* Have the agent of that incarnation answer a datagram, within 1 s, with one of
 * that length; packets have so many bytes, 0: few. Returns 0 or an errno. */
int rg__probe_beat(const rg__inet *to, const uint8_t key[RG__KEY_BYTES],
                   uint64_t host, int packet, double *ms_p);

#endif
