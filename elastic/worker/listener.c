/* Where workers of other hosts connect: one listener per worker, for all
 * generations; the transport accepts on it. */
#include "elastic/worker/worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sdk/base/fail.h"

#define BACKLOG 512

typedef union place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} place;

static bool read_address(const rg__address *address, place *at,
                         socklen_t *bytes_p)
{
    *at = (place){0};
    if (inet_pton(AF_INET, address->text, &at->v4.sin_addr) == 1) {
        at->v4.sin_family = AF_INET;
        *bytes_p = sizeof at->v4;
        return true;
    }
    at->v6.sin6_family = AF_INET6;
    *bytes_p = sizeof at->v6;
    return inet_pton(AF_INET6, address->text, &at->v6.sin6_addr) == 1;
}

rg_status rg__worker_listen(rg__worker *w, const rg__address *address)
{
    place at;
    socklen_t bytes = 0;
    if (!read_address(address, &at, &bytes))
        return rg__fail(RG_ERR_INVALID,
                        "this host's address \"%.47s\" is not an IP address",
                        address->text);
    w->listener =
        socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->listener < 0 || bind(w->listener, &at.any, bytes) != 0 ||
        listen(w->listener, BACKLOG) != 0 ||
        getsockname(w->listener, &at.any, &bytes) != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "this worker can't listen for other hosts at %s: %s; "
                        "is that an address of this host (--advertise, "
                        "--interface)?",
                        address->text, strerror(errno));
    w->port =
        ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
    return RG_OK;
}
