/* A message whose peer never comes ends as any operation does: with the
 * generation, at its deadline, or when the peer has left; in the middle of its
 * data as well. What was given up is never written afterwards, and the next
 * generation has nothing of it.
 *
 * Covers: message_request.c ending.c messages.c outgoing.c watchdog.c */
#include "tests/lib/world.h"

#define LARGE ((uint64_t)8 << 20)

static char *make_room(uint64_t bytes)
{
    char *at = calloc(1, bytes);
    CHECK(at != NULL);
    return at;
}

/* A long message waits for its receive, and receives wait for theirs. */
static void ends_with_the_generation(world *w, void *arg)
{
    (void)arg;
    static const int both[] = {0, 1};
    rg_set *set = rg_world(w->ctx);
    char *data = make_room(LARGE), small[8] = {1};
    rg_req *req = NULL, *never = NULL;
    CHECK_OK(
        rg_recv_start(set, small, 8, RG_U8, 1 - w->index, NULL, NULL, &never));
    const rg_op_params other = {.size = sizeof other,
                                .tag = (uint64_t)w->index + 1};
    if (w->index == 0)
        CHECK_OK(rg_send_start(set, data, LARGE, RG_U8, 1, &other, &req));
    else
        CHECK_OK(rg_recv_start(set, data, LARGE, RG_U8, 0, NULL, &other, &req));
    CHECK_STATUS(rg_wait(&req, 20), RG_IN_PROGRESS);
    world_meet(w);
    world_abort(w, w->index, 1);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
    CHECK_STATUS(rg_wait(&never, -1), RG_ERR_PEER_LOST);
    CHECK_STATUS(rg_send(set, small, 8, RG_U8, 0, 0), RG_ERR_PEER_LOST);
    CHECK_EQ(small[0], 1);
    world_await_left(w);
    world_meet(w);
    world_enter(w, 2, both, 2);
    small[0] = (char)(w->index + 5);
    CHECK_OK(rg_send(set, small, 1, RG_U8, 1 - w->index, 0));
    CHECK_OK(rg_recv(set, small, 8, RG_U8, 1 - w->index, 0, NULL));
    CHECK_EQ(small[0], 1 - w->index + 5);
    free(data);
}

/* There is no agent: the set can't be used here any more, others can. */
static void ends_at_its_deadline(world *w, void *arg)
{
    (void)arg;
    static const int both[] = {1, 0};
    const rg_op_params soon = {.size = sizeof soon, .timeout_ms = 50};
    rg_set *set = NULL;
    char *data = make_room(LARGE);
    rg_req *req = NULL;
    CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set));
    if (w->index == 0) {
        CHECK_OK(rg_send_start(set, data, LARGE, RG_U8, 0, &soon, &req));
        CHECK_STATUS(rg_wait(&req, -1), RG_ERR_TIMEOUT);
        CHECK(strstr(rg_last_error(), "send of 8388608 elements to rank 0"));
        CHECK_STATUS(rg_send(set, data, 1, RG_U8, 0, 0), RG_ERR_TIMEOUT);
    }
    CHECK_OK(rg_send(rg_world(w->ctx), data, 1, RG_U8, 1 - w->index, 0));
    CHECK_OK(rg_recv(rg_world(w->ctx), data, 1, RG_U8, 1 - w->index, 0, NULL));
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    free(data);
}

static void ends_when_the_peer_has_left(world *w, void *arg)
{
    (void)arg;
    rg_set *set = rg_world(w->ctx);
    int32_t x = 7, y = 0;
    if (w->index == 1) {
        CHECK_OK(rg_send(set, &x, 1, RG_I32, 0, 0));
        CHECK_OK(rg_barrier(set));
        return;
    }
    CHECK_OK(rg_barrier(set));
    CHECK_OK(rg_recv(set, &y, 1, RG_I32, 1, 0, NULL)); /* what was sent stays */
    CHECK_EQ(y, 7);
    CHECK_STATUS(rg_recv(set, &y, 1, RG_I32, 1, 0, NULL), RG_ERR_PEER_LOST);
    CHECK(strstr(rg_last_error(), "its rank 1, which has called"));
}

int main(void)
{
    world_of(2, ends_with_the_generation, NULL);
    world_of(2, ends_at_its_deadline, NULL);
    world_of(2, ends_when_the_peer_has_left, NULL);
    return 0;
}
