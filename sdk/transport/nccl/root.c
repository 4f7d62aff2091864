/* The rendezvous of a communicator that ncclGetUniqueId makes: a thread of this
 * process that listens until all members have connected, and forever if one of
 * them has died before. NCCL offers no way to end it, but it ends when its
 * listening socket is shut down. The socket's port is in the id, after eight
 * bytes. */
#include "sdk/transport/nccl/device.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ADDRESS_AT 8

static bool is_same(const struct sockaddr_storage *a,
                    const struct sockaddr_storage *b)
{
    struct sockaddr_in a4, b4;
    struct sockaddr_in6 a6, b6;
    memcpy(&a4, a, sizeof a4);
    memcpy(&b4, b, sizeof b4);
    memcpy(&a6, a, sizeof a6);
    memcpy(&b6, b, sizeof b6);
    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET
               ? a4.sin_port == b4.sin_port &&
                     a4.sin_addr.s_addr == b4.sin_addr.s_addr
               : a6.sin6_port == b6.sin6_port &&
                     memcmp(&a6.sin6_addr, &b6.sin6_addr,
                            sizeof a6.sin6_addr) == 0;
}

/* The whole address: by now another socket may listen at the port. */
static bool listens_at(int fd, const struct sockaddr_storage *where)
{
    struct sockaddr_storage at = {0};
    socklen_t room = sizeof at;
    int listens = 0;
    socklen_t bytes = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 &&
           listens != 0 &&
           getsockname(fd, (struct sockaddr *)&at, &room) == 0 &&
           is_same(&at, where);
}

void rg__device_card_void(const rg__device_card *card)
{
    struct sockaddr_storage at = {0};
    memcpy(&at, card->id + ADDRESS_AT, sizeof card->id - ADDRESS_AT);
    const bool is_known = at.ss_family == AF_INET || at.ss_family == AF_INET6;
    DIR *all = is_known ? opendir("/proc/self/fd") : NULL;
    if (all == NULL)
        return;
    for (struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        const int fd = atoi(e->d_name);
        if (fd > 2 && listens_at(fd, &at))
            shutdown(fd, SHUT_RDWR);
    }
    closedir(all);
}
