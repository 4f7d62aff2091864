/* A message whose peer never comes ends as any operation does: with the
 * generation, at its deadline, or when the peer has left; in the middle of its
 * data as well. What was given up is never written afterwards nor taken for
 * whole, and the next generation has nothing of it.
 *
 * Covers: message_request.c ending.c messages.c outgoing.c incoming.c
 * watchdog.c */
#include "sdk/transport/messages/byte_ring.h"
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

/* -------------------------------------------------------- both ends here */

/* A message that is given up in the middle of its last part, which the lane
 * has no room for; one that is given up before its receive was started; and
 * eager ones to sets that the receiver has given back, or gives back later. */
typedef struct end {
    rg__messages *all;
    rg__byte_ring *out, *in;
    int peer;
} end;

static size_t put(void *arg, int rank, const char *from, size_t n)
{
    (void)rank;
    return rg__byte_ring_put(((end *)arg)->out, from, n);
}

static size_t get(void *arg, int rank, char *to, size_t n)
{
    (void)rank;
    return rg__byte_ring_get(((end *)arg)->in, to, n);
}

static void open_ends(end e[2], rg__byte_ring ring[2])
{
    static const rg__lane_fns fns = {.put = put, .get = get};
    for (int i = 0; i < 2; i++) {
        e[i] = (end){.out = &ring[i], .in = &ring[1 - i], .peer = 1 - i};
        CHECK_OK(rg__messages_create(2, &fns, &e[i], &e[i].all));
    }
}

static rg__message *post(end *e, bool is_send, uint32_t set, char *data,
                         uint64_t bytes)
{
    const rg__letter letter = {.is_send = is_send,
                               .peer = e->peer,
                               .set = set,
                               .type = RG_U8,
                               .bytes = bytes,
                               .data = data};
    rg__message *m = NULL;
    CHECK_OK(rg__messages_post(e->all, &letter, &m));
    rg__messages_carry(e->all);
    return m;
}

static void carry(end e[2])
{
    for (int i = 0; i < 20; i++)
        rg__messages_carry(e[i % 2].all);
}

static rg_status take(end *e)
{
    rg__message *m = rg__messages_take(e->all);
    const rg_status st = m == NULL ? RG_IN_PROGRESS : rg__message_outcome(m).st;
    if (m != NULL)
        rg__message_free(m);
    return st;
}

static void nothing_is_whole_by_mistake(end e[2], int is_alone)
{
    static char from[64 << 10], to[64 << 10];
    memset(from, 77, sizeof from);
    memset(to, 0, sizeof to);
    post(&e[1], false, 5, to, sizeof to);
    rg__message *m = post(&e[0], true, 5, from, sizeof from);
    rg__messages_carry(e[1].all);
    rg__messages_carry(e[0].all);
    rg__message_drop(e[0].all, m);
    memset(from, 1, sizeof from);
    if (!is_alone)
        post(&e[0], true, 6, from, 1);
    carry(e);
    const rg_status st = take(&e[1]);
    CHECK(st == RG_ERR_PEER_LOST || st == RG_OK);
    if (st == RG_OK)
        CHECK_BYTES(to, 77, sizeof to);
    if (is_alone)
        return;
    CHECK_OK(take(&e[0]));
    post(&e[1], false, 6, to, 1);
    CHECK_OK(take(&e[1]));
}

static void an_offer_is_taken_back(end e[2])
{
    static char data[9000];
    rg__message *m = post(&e[0], true, 5, data, sizeof data);
    rg__message_drop(e[0].all, m);
    post(&e[0], true, 6, data, 1);
    CHECK_OK(take(&e[0]));
    post(&e[1], false, 5, data, sizeof data);
    carry(e);
    CHECK_STATUS(take(&e[1]), RG_ERR_PEER_LOST);
    post(&e[1], false, 6, data, 1);
    CHECK_OK(take(&e[1]));
}

static void sets_that_were_given_back_take_no_room(end e[2])
{
    static char data[1024];
    for (uint32_t set = 7; set < 100 * RG__SETS_MAX; set += RG__SETS_MAX) {
        rg__messages_remember(e[1].all, set);
        post(&e[0], true, set, data, sizeof data);
        CHECK_OK(take(&e[0])); /* no receive is needed */
        if (set / RG__SETS_MAX % 2 == 0)
            rg__messages_forget(e[1].all, set);
        post(&e[0], true, 6, data, 1);
        CHECK_OK(take(&e[0]));
        post(&e[1], false, 6, data, 1);
        CHECK_OK(take(&e[1]));
        if (set / RG__SETS_MAX % 2 != 0)
            rg__messages_forget(e[1].all, set);
        carry(e);
    }
}

static void what_was_given_up_harms_nothing(void)
{
    end e[2];
    rg__byte_ring *ring = aligned_alloc(128, 2 * sizeof *ring);
    CHECK(ring != NULL);
    memset((void *)ring, 0, 2 * sizeof *ring);
    open_ends(e, ring);
    nothing_is_whole_by_mistake(e, 0);
    nothing_is_whole_by_mistake(e, 1);
    an_offer_is_taken_back(e);
    sets_that_were_given_back_take_no_room(e);
    rg__messages_destroy(e[0].all);
    rg__messages_destroy(e[1].all);
    free(ring);
}

int main(void)
{
    what_was_given_up_harms_nothing();
    world_of(2, ends_with_the_generation, NULL);
    world_of(2, ends_at_its_deadline, NULL);
    world_of(2, ends_when_the_peer_has_left, NULL);
    return 0;
}
