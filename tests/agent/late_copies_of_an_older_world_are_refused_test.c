/* A host that has not heard of the newest decision still sends copies of its
 * shards. They are refused: their place belongs to the new world. A host that
 * sends a shard of another generation than it announced, or more bytes than it
 * has, is cut off.
 *
 * Covers: replication.c chunk.c */
#include <string.h>

#include "elastic/agent/vault/chunk.h"
#include "tests/agent/agents.h"

enum { SLOT = 1, BYTES = 5000 };
static const rg__commit_id commit = {2, 7};

static void add_shards(rg__agent *a)
{
    int index = -1;
    const rg__register what = {.name = "shards",
                               .bytes = BYTES,
                               .slots = RG__VAULT_SLOTS,
                               .is_sharded = 1,
                               .replicas = 1,
                               .align = 64};
    CHECK_OK(rg__vault_room(a, &what, &index));
}

/* The only shard of that commit, of a world of one rank. */
static void commit_shard(rg__agent *a)
{
    rg__piece *piece = &a->store->vault->shard[SLOT][0];
    char *bytes = vault_bytes(a, "shards", SLOT);
    const rg__part part = {.id = commit, .count = 1};
    rg__sum sum;
    memset(bytes, 5, BYTES);
    rg__piece_begin(piece, &part);
    rg__sum_begin(&sum, "shards", 0, NULL);
    rg__sum_update(&sum, bytes, BYTES);
    rg__piece_end(piece, rg__part_hash(&part) + rg__sum_end(&sum));
}

/* A partner as in replication.c, for one shard. */
typedef struct sender {
    rg__chunk out;
    uint64_t says; /* the generation that it claims for its shards */
    bool sends_more, has_greeted, has_sent, is_over;
    uint64_t stored;
    char refused[RG__CAUSE_MAX];
} sender;

static void on_room(void *arg)
{
    sender *s = arg;
    const uint64_t greeting[2] = {s->says, s->out.a->id};
    const rg__chunk_part what = {
        .slot = SLOT, .is_shard = true, .part = {.id = commit}};
    void *to = rg__connection_space(s->out.wire);
    if (to == NULL || s->is_over)
        return;
    if (!s->has_greeted) {
        s->has_greeted = true;
        memcpy(to, greeting, sizeof greeting);
        rg__connection_send(s->out.wire, RG__PEER_COPY, sizeof greeting);
    } else if (rg__chunk_tell_room(&s->out)) {
        return;
    } else if (!s->has_sent) {
        s->has_sent = true;
        CHECK_EQ(rg__chunk_send(&s->out, &what), CHUNK_MORE);
    } else if (s->sends_more) {
        rg__connection_send(s->out.wire, RG__PEER_BYTES, BYTES + 1);
    } else if (s->out.is_under_way) {
        rg__chunk_send_more(&s->out);
    }
}

static bool on_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    sender *s = arg;
    s->is_over = true;
    if (type == RG__PEER_STORED && n == sizeof s->stored)
        memcpy(&s->stored, body, n);
    else if (type == RG__PEER_REFUSED && n <= sizeof s->refused)
        memcpy(s->refused, body, n);
    else
        CHECK(false);
    return true;
}

/* That host hangs up on a sender that goes on after a refusal. */
static void on_gone(void *arg, const char *why)
{
    sender *s = arg;
    (void)why;
    s->is_over = true;
    s->out.wire = NULL;
}

static bool is_over(void *sender_arg)
{
    const sender *s = sender_arg;
    return s->is_over;
}

/* Send to a host whose newest decision is of that generation; the answer. */
static sender send_to(uint64_t delivered, uint64_t says, bool sends_more)
{
    static const rg__connection_fns fns = {on_frame, on_room, on_gone};
    static sender s;
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    vault_commit(to, SLOT, commit, 1); /* that host has been in it, too */
    add_shards(from);
    add_shards(to);
    commit_shard(from);
    to->delivered = delivered;
    s = (sender){.says = says, .sends_more = sends_more};
    rg__chunk_open(&s.out, from, NULL, true);
    CHECK_OK(rg__connection_call(from, &to->address, to->port, to->id, &fns, &s,
                                 &s.out.wire));
    loop_until(loop, is_over, &s);
    if (s.out.wire != NULL)
        rg__connection_close(s.out.wire);
    rg__chunk_clear(&s.out);
    if (s.stored > 0)
        CHECK(rg__vault_shard(to->store->vault, SLOT, commit, 0) != NULL);
    else
        CHECK(rg__vault_shard(to->store->vault, SLOT, commit, 0) == NULL);
    agent_free(to);
    agent_free(from);
    rg__loop_destroy(loop);
    return s;
}

int main(void)
{
    const uint64_t its = commit.generation, next = its + 1;
    sender s = send_to(its, its, false);
    CHECK_STR(s.refused, "");
    CHECK_EQ(s.stored, 1);
    s = send_to(next, its, false);
    CHECK_STR(s.refused, "its vault does not hold the commit");
    CHECK_EQ(s.stored, 0);
    s = send_to(next, next, false);
    CHECK_STR(s.refused, "");
    CHECK_EQ(s.stored, 0);
    s = send_to(its, its, true);
    CHECK_STR(s.refused, "");
    CHECK_EQ(s.stored, 0);
    return 0;
}
