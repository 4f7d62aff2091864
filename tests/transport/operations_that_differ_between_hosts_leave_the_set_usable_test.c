/* The hosts of a set start operations of one size that differ otherwise, so
 * that all rails but the first exchange what fits together: every rank gets
 * ERR_MISMATCH, and the sums that follow are right, whichever way they go.
 *
 * Covers: verdict.c exchange.c */
#include "tests/lib/world.h"

#define MOST   300000 /* elements */
#define DIFFER 16384
#define BEHIND 64          /* what differs writes neither them nor these */
#ifdef __SANITIZE_THREAD__ /* sums of unaligned vectors are its slowest */
#define TURNS 50
#else
#define TURNS 150
#endif

typedef struct variant {
    rg_type type;
    rg_op op;
    double postscale;
    const char *words; /* of the sentence, where it is host 1's */
} variant;

static const variant most = {RG_I32, RG_SUM, 0, NULL};
static const variant odd[] = {{RG_I32, RG_MAX, 0, ": op sum on rank"},
                              {RG_F32, RG_SUM, 0, ": type i32 on rank"},
                              {RG_I32, RG_SUM, 3, ": postscale 1 on rank"}};

/* Large ones, medium ones as what has differed, and a small one. */
static const uint64_t counts[] = {MOST, 3000, 16384, MOST, 32768, 100, MOST};

typedef struct buffers {
    int32_t *send, *recv;
} buffers;

static rg_status reduce(world *w, buffers b, uint64_t count, const variant *v)
{
    const rg_op_params params = {.size = sizeof params,
                                 .postscale = v->postscale};
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), b.send, b.recv, count,
                                v->type, v->op, &params, &req));
    return rg_wait(&req, -1);
}

static void differ(world *w, buffers b, const variant *other)
{
    memset(b.recv, 77, (DIFFER + BEHIND) * sizeof *b.recv);
    const variant *mine = w->host_of[w->index] == 1 ? other : &most;
    CHECK_STATUS(reduce(w, b, DIFFER, mine), RG_ERR_MISMATCH);
    if (strstr(rg_last_error(), other->words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", other->words, rg_last_error());
    for (int i = 0; i < DIFFER + BEHIND; i += 7)
        CHECK_EQ(b.recv[i], 0x4d4d4d4d);
}

static void agree(world *w, buffers b, uint64_t count, int turn)
{
    b.send[0] = w->index + turn;
    for (uint64_t n = 1; n < count; n *= 2)
        memcpy(b.send + n, b.send,
               (n < count - n ? n : count - n) * sizeof *b.send);
    CHECK_OK(reduce(w, b, count, &most));
    CHECK_EQ(b.recv[0], w->n * (w->n - 1) / 2 + w->n * turn);
    CHECK(memcmp(b.recv, b.recv + 1, (count - 1) * sizeof *b.recv) == 0);
}

static void all(world *w, void *arg)
{
    (void)arg;
    buffers b = {calloc(MOST, sizeof(int32_t)), malloc(MOST * sizeof(int32_t))};
    CHECK(b.send != NULL && b.recv != NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        differ(w, b, &odd[turn % 3]);
        agree(w, b, counts[turn % 7], turn);
    }
    free(b.send);
    free(b.recv);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
