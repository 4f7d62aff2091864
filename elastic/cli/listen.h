/* Where an etcd of ours listens: an address of this host, and a port.
 *
 * Threads:   any; nothing is kept.
 * Ownership: texts are borrowed until the call returns. */
#ifndef RG_ELASTIC_LISTEN_H
#define RG_ELASTIC_LISTEN_H

#include "sdk/base/address.h"

#define RG__LISTEN_URL_MAX 80 /* "https://[IPv6]:port" and the NUL */

/* Read "10.0.0.1", "10.0.0.1:2379", "fd00::1" or "[fd00::1]:2379"; port 0: any
 * that is free.
 * ERR_INVALID: something else, or no address of one host. */
rg_status rg__listen_read(const char *text, rg__inet *at_p);

/* Choose a port where none is given, and see that it is free: it is released
 * again, so another program may take it first. ERR_INVALID: it is not an
 * address of this host, or the port that was given is taken. */
rg_status rg__listen_url(const rg__inet *given, char url[RG__LISTEN_URL_MAX]);

#endif
