/* Where workers of other hosts connect: one listener per worker, for all
 * generations; the transport accepts on it. */
#include "elastic/worker/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sdk/base/address.h"
#include "sdk/base/fail.h"

#define BACKLOG 512

rg_status rg__worker_listen(rg__worker *w, const rg__address *address)
{
    rg__inet at;
    if (!rg__inet_read(address, 0, &at))
        return rg__fail(RG_ERR_INVALID,
                        "this host's address \"%.47s\" is not an IP address",
                        address->text);
    w->listener =
        socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->listener < 0 ||
        bind(w->listener, &at.any, rg__inet_bytes(&at)) != 0 ||
        listen(w->listener, BACKLOG) != 0 || !rg__inet_of(w->listener, &at))
        return rg__fail(RG_ERR_SYSTEM,
                        "this worker can't listen for other hosts at %s: %s; "
                        "is that an address of this host (--advertise, "
                        "--interface)?",
                        address->text, strerror(errno));
    w->port = rg__inet_port(&at);
    return RG_OK;
}
