/* Over native on several hosts the connection between two ranks breaks: each
 * learns that the other is lost, a deadline ends the ranks that wait for
 * them, and no rank waits forever. Each prints the error that it got.
 *
 * Covers: lost.c link.c */
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/mpi/mpi_check.h"

#define FDS 1024

/* TCP between hosts; MPI's own connections go over loopback here. */
static int is_ours(int fd)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    return getpeername(fd, (struct sockaddr *)&at, &n) == 0 &&
           at.sin_family == AF_INET &&
           ntohl(at.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
}

static void cut(void)
{
    int connections = 0;
    for (int fd = 3; fd < FDS; fd++)
        if (is_ours(fd)) {
            CHECK_EQ(shutdown(fd, SHUT_RDWR), 0);
            connections++;
        }
    CHECK(connections > 0);
}

int main(void)
{
    rg_ctx *ctx = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    rg_set *world = rg_world(ctx);
    const int rank = rg_rank(ctx);
    CHECK_OK(rg_barrier(world));
    if (rank == rg_size(ctx) / 2)
        cut();
    int one = 1, sum = 0;
    rg_status st = RG_OK;
    while (st == RG_OK)
        st = rg_allreduce(world, &one, &sum, 1, RG_I32, RG_SUM);
    printf("rank %d hears %d: %s\n", rank, (int)st, rg_last_error());
    fflush(NULL);
    CHECK(st == RG_ERR_PEER_LOST || st == RG_ERR_TIMEOUT);
    CHECK_STATUS(rg_barrier(world), st);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
