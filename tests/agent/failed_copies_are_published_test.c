/* Whatever ends a copy becomes a published reason, and what is damaged no
 * longer counts where it is.
 *
 * Covers: peers.c chunk.c */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/agent/agents.h"

static const rg__commit_id older = {1, 4}, resume = {2, 7};

typedef struct scene {
    rg__loop *loop;
    rg__agent *from, *to;
} scene;

static scene set_up(uint64_t bytes_there)
{
    scene s = {0};
    CHECK_OK(rg__loop_create(&s.loop));
    s.from = agent_make_patient(s.loop, 1);
    s.to = agent_make_patient(s.loop, 2);
    vault_add(s.from, "weights", 1 << 20);
    if (bytes_there != 0)
        vault_add(s.to, "weights", bytes_there);
    vault_commit(s.from, 1, resume, 2);
    decide_before(s.to, 2, older);
    return s;
}

/* The copy ends with a reason that contains these words. */
static void check_reason(scene *s, const char *words, const char *link)
{
    decide(s->to, s->from, 3, resume);
    loop_until(s->loop, is_copied, s->to);
    const rg__reason *r = newest_reason(s->to);
    CHECK_EQ(r->generation, 3);
    if (strstr(r->text, words) == NULL)
        CHECK_STR(r->text, words);
    CHECK_STR(r->link, link);
    CHECK_EQ(s->to->aborted, 3);
    CHECK_EQ(rg__vault_find(s->to->store->vault, resume), -1);
    agent_free(s->to);
    if (s->from != NULL)
        agent_free(s->from);
    rg__loop_destroy(s->loop);
}

static void flipped_bit(void)
{
    scene s = set_up(1 << 20);
    vault_bytes(s.from, "weights", 1)[700000] ^= 4;
    rg__agent *from = s.from;
    s.from = NULL; /* looked at below */
    decide(s.to, from, 3, resume);
    loop_until(s.loop, is_copied, s.to);
    CHECK(strstr(newest_reason(s.to)->text, "checksum") != NULL ||
          strstr(newest_reason(s.to)->text, "damaged") != NULL);
    CHECK_EQ(rg__vault_find(s.to->store->vault, resume), -1);
    CHECK_EQ(rg__vault_find(from->store->vault, resume), -1);
    agent_free(from);
    agent_free(s.to);
    rg__loop_destroy(s.loop);
}

static void commit_not_there(void)
{
    scene s = set_up(1 << 20);
    rg__vault_empty(s.from->store->vault, 1);
    check_reason(&s, "does not hold", "");
}

static void other_size(void)
{
    scene s = set_up(1 << 19);
    check_reason(&s, "524288", "");
}

static void no_room(void)
{
    scene s = set_up(0);
    s.to->own.user.vault_max_bytes = 1000;
    check_reason(&s, "needs", "");
}

static void no_listener(void)
{
    scene s = set_up(1 << 20);
    rg__peers_close(s.from);
    check_reason(&s, "refused", "0000000000000001");
}

static void another_incarnation(void)
{
    scene s = set_up(1 << 20);
    rg__agent *other = s.from;
    rg__agent gone = {.id = 77, .address = other->address, .port = other->port};
    decide(s.to, &gone, 3, resume);
    loop_until(s.loop, is_copied, s.to);
    CHECK(strstr(newest_reason(s.to)->text, "another agent") != NULL);
    agent_free(s.to);
    agent_free(other);
    rg__loop_destroy(s.loop);
}

/* A host that accepts connections and never answers. */
static void silence(void)
{
    scene s = set_up(1 << 20);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(sock, (struct sockaddr *)&at, n), 0);
    CHECK_EQ(listen(sock, 1), 0);
    CHECK_EQ(getsockname(sock, (struct sockaddr *)&at, &n), 0);
    s.from->port = ntohs(at.sin_port);
    s.to->own.detect_ms = DETECT_MS;
    check_reason(&s, "nothing came", "0000000000000001");
    close(sock);
}

int main(void)
{
    flipped_bit();
    commit_not_there();
    other_size();
    no_room();
    no_listener();
    another_incarnation();
    silence();
    return 0;
}
