/* Where an etcd of ours listens: an address of this host, and a port.
 *
 * Threads:   any; nothing is kept.
 * Ownership: texts are borrowed until the call returns. */
#ifndef RG_ELASTIC_LISTEN_H
#define RG_ELASTIC_LISTEN_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "regroup/regroup.h"

#define RG__LISTEN_URL_MAX 80 /* "https://[IPv6]:port" and the NUL */

typedef struct rg__listen {
    struct sockaddr_storage at; /* port 0: any that is free */
    socklen_t bytes;
} rg__listen;

/* Read "10.0.0.1", "10.0.0.1:2379", "fd00::1" or "[fd00::1]:2379".
 * ERR_INVALID: something else, or no address of one host. */
rg_status rg__listen_read(const char *text, rg__listen *listen_p);

/* Its address in numbers. */
void rg__listen_host(const rg__listen *listen, char host[INET6_ADDRSTRLEN]);

/* Choose a port where none is given, and see that it is free: it is released
 * again, so another program may take it first. ERR_INVALID: it is not an
 * address of this host, or the port that was given is taken. */
rg_status rg__listen_url(const rg__listen *listen,
                         char url[RG__LISTEN_URL_MAX]);

#endif
