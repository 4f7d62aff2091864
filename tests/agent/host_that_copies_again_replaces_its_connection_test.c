/* Copies from one host come over one connection: once it connects again,
 * data that are still on the old connection no longer count. Those of other
 * hosts go on.
 *
 * Covers: peers.c */
#include "tests/agent/agents.h"

#include "elastic/agent/hosts/peers.h"

/* The first frame of a host that sends copies. */
typedef struct copy_frame {
    uint64_t generation, host;
} copy_frame;

typedef struct call {
    copy_frame frame;
    rg__connection *wire;
    bool has_begun, is_gone;
} call;

static bool on_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    (void)arg, (void)type, (void)body, (void)n;
    return true;
}

static void on_room(void *arg)
{
    call *c = arg;
    if (c->has_begun)
        return;
    c->has_begun = true;
    memcpy(rg__connection_space(c->wire), &c->frame, sizeof c->frame);
    rg__connection_send(c->wire, RG__PEER_COPY, sizeof c->frame);
}

static void on_gone(void *arg, const char *why)
{
    (void)why;
    ((call *)arg)->is_gone = true;
}

static const rg__connection_fns fns = {on_frame, on_room, on_gone};

static bool has_left(void *arg)
{
    const call *c = arg;
    return c->is_gone ||
           (c->has_begun && rg__connection_space(c->wire) != NULL);
}

static bool is_gone(void *arg)
{
    return ((call *)arg)->is_gone;
}

static void begin(call *c, rg__agent *from, const rg__agent *to)
{
    CHECK_OK(rg__connection_call(from, &to->address, to->port, to->id, &fns, c,
                                 &c->wire));
    loop_until(from->loop, has_left, c);
}

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    call first = {.frame = {3, 1}}, other = {.frame = {3, 7}},
         again = {.frame = {3, 1}};
    begin(&first, from, to);
    begin(&other, from, to);
    CHECK(!first.is_gone);
    begin(&again, from, to);
    loop_until(loop, is_gone, &first);
    CHECK(!other.is_gone && !again.is_gone);
    agent_free(from);
    agent_free(to);
    rg__loop_destroy(loop);
    return 0;
}
