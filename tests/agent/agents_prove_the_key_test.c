/* An agent reads nothing from a caller that can't prove the job's key, and such
 * callers neither starve the others nor stay.
 *
 * Covers: peers.c proof.c */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/agent/agents.h"

#define STRANGERS 100

static const rg__commit_id older = {1, 4}, resume = {2, 7};

static int call(const rg__agent *a)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)a->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(sock, (struct sockaddr *)&at, sizeof at), 0);
    return sock;
}

static bool is_closed(int sock)
{
    char room[256];
    ssize_t n;
    do
        n = recv(sock, room, sizeof room, MSG_DONTWAIT);
    while (n > 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static bool are_all_closed(void *arg)
{
    const int *sock = arg;
    for (int i = 0; i < STRANGERS; i++)
        if (!is_closed(sock[i]))
            return false;
    return true;
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    rg__agent *other = agent_make_patient(loop, 3);
    vault_add(from, "weights", 1 << 20);
    vault_commit(from, 1, resume, 2);
    decide_before(to, 2, older);
    decide_before(other, 2, older);

    /* another job's agent */
    memset(other->key, 8, sizeof other->key);
    decide(other, from, 3, resume);
    loop_until(loop, is_copied, other);
    CHECK(strstr(newest_reason(other)->text, "prove") != NULL);
    CHECK_EQ(other->store->buffers, 0);

    /* some send junk, some nothing; the copy goes on meanwhile */
    int sock[STRANGERS];
    char junk[4096];
    memset(junk, 'x', sizeof junk);
    for (int i = 0; i < STRANGERS; i++) {
        sock[i] = call(from);
        if (i % 2 == 0)
            CHECK(send(sock[i], junk, sizeof junk, MSG_NOSIGNAL) > 0);
    }
    decide(to, from, 3, resume);
    loop_until(loop, is_copied, to);
    CHECK_STR(newest_reason(to)->text, "");
    CHECK(vault_has(to, 0, resume));
    loop_until(loop, are_all_closed, sock);
    for (int i = 0; i < STRANGERS; i++)
        close(sock[i]);
    agent_free(from);
    agent_free(to);
    agent_free(other);
    rg__loop_destroy(loop);
    return 0;
}
