/* Where a host of a job is, as its record in etcd says.
 *
 * Threads:   one.
 * Waiting:   five seconds for etcd. */
#ifndef RG_ELASTIC_PEER_FIND_H
#define RG_ELASTIC_PEER_FIND_H

#include <stdint.h>

#include "elastic/cli/cli.h"
#include "sdk/base/page.h"
#include "sdk/base/wire.h"

typedef struct rg__peer_place {
    char host[64], job[64];
    char endpoints[1024]; /* of etcd */
    rg__address address;
    uint32_t port; /* of its agent, TCP and UDP */
    uint64_t id;   /* of that agent */
    uint8_t key[RG__KEY_BYTES];
    uint32_t worker_port[RG__HOST_SLOTS_MAX]; /* of workers that live, TCP */
    int workers;
} rg__peer_place;

/* The host of that name or address in the job of --job, from the etcd of --etcd
 * or else that of the job that runs here. ERR_INVALID: no such job or host; the
 * sentence lists those that exist. ERR_STORE. */
rg_status rg__peer_find(const rg__cli *cli, const char *host,
                        rg__peer_place *place_p);

#endif
