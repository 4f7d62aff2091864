/* The meeting place of a communicator, behind ncclGetUniqueId: a thread of this
 * process that listens until all members have come, and for ever where one of
 * them has died before. NCCL offers no way to end it; but it ends when its
 * listening socket is shut, whose port stands in the id behind eight bytes of
 * its own. */
#include "sdk/transport/nccl/device.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ADDRESS_AT 8

/* The port, 0: the family is none that we know. */
static int port_of(const struct sockaddr_storage *at)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, at, sizeof v4);
    memcpy(&v6, at, sizeof v6);
    if (at->ss_family == AF_INET)
        return v4.sin_port;
    return at->ss_family == AF_INET6 ? v6.sin6_port : 0;
}

static bool listens_at(int fd, int port)
{
    struct sockaddr_storage at = {0};
    socklen_t room = sizeof at;
    int listens = 0;
    socklen_t bytes = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 &&
           listens != 0 &&
           getsockname(fd, (struct sockaddr *)&at, &room) == 0 &&
           port_of(&at) == port;
}

void rg__root_end(const rg__nccl_id *id)
{
    struct sockaddr_storage at = {0};
    memcpy(&at, id->bytes + ADDRESS_AT, sizeof id->bytes - ADDRESS_AT);
    const int port = port_of(&at);
    DIR *all = port != 0 ? opendir("/proc/self/fd") : NULL;
    if (all == NULL)
        return;
    for (struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        const int fd = atoi(e->d_name);
        if (fd > 2 && listens_at(fd, port))
            shutdown(fd, SHUT_RDWR);
    }
    closedir(all);
}

void rg__device_card_void(const rg__device_card *card)
{
    rg__nccl_id id;
    memcpy(id.bytes, card->id, sizeof id.bytes);
    rg__root_end(&id);
}
