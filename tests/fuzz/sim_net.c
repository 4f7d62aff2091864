/* A network that is this process alone: it has an address of its own, and
 * nothing goes anywhere else, whatever address an input names. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/fuzz/sim.h"

int __wrap_connect(int sock, const struct sockaddr *to, socklen_t n);
int __real_connect(int sock, const struct sockaddr *to, socklen_t n);
ssize_t __wrap_sendto(int sock, const void *bytes, size_t n, int flags,
                      const struct sockaddr *to, socklen_t to_bytes);
ssize_t __real_sendto(int sock, const void *bytes, size_t n, int flags,
                      const struct sockaddr *to, socklen_t to_bytes);

/* 127.64.0.0/10 is big enough for all processes that there can be. */
const char *sim_address(void)
{
    static char text[INET_ADDRSTRLEN];
    const struct in_addr at = {
        htonl(0x7f400000u | ((uint32_t)getpid() & 0x3fffffu))};
    return inet_ntop(AF_INET, &at, text, sizeof text);
}

static bool is_here(const struct sockaddr *to)
{
    struct in_addr here;
    inet_pton(AF_INET, sim_address(), &here);
    return to->sa_family == AF_UNIX ||
           (to->sa_family == AF_INET &&
            ((const struct sockaddr_in *)(const void *)to)->sin_addr.s_addr ==
                here.s_addr);
}

int __wrap_connect(int sock, const struct sockaddr *to, socklen_t n)
{
    if (is_here(to))
        return __real_connect(sock, to, n);
    errno = ENETUNREACH;
    return -1;
}

ssize_t __wrap_sendto(int sock, const void *bytes, size_t n, int flags,
                      const struct sockaddr *to, socklen_t to_bytes)
{
    if (to == NULL || is_here(to))
        return __real_sendto(sock, bytes, n, flags, to, to_bytes);
    errno = ENETUNREACH;
    return -1;
}
