/* A worker without a place copies a commit ahead, while another one goes on
 * writing commits over each other: whatever it read meanwhile, a restore leaves
 * it the decided commit, and copies only blocks that differ.
 *
 * Covers: ahead.c pieces.c page.c */
#include <pthread.h>
#include <string.h>

#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BLOCKS 12
#define BYTES  ((size_t)BLOCKS * RG__BLOCK + 4711)
#define SMALL  ((size_t)1000)
#define RANKS  3
#define ROUNDS 40

static char memory[BYTES], small[SMALL]; /* the newcomer's */
static char others[BYTES], little[SMALL];
static rg_ctx *ctx;
static rg_state *trains;
static uint64_t step;
static _Atomic bool is_over;

/* As each of the host's ranks in turn, of a generation after the newcomer's. */
static rg__commit_id commit(void)
{
    const rg__commit_id id = {ctx->now.generation + 1, ++step};
    ctx->now.local_size = RANKS;
    for (ctx->now.local_rank = 0; ctx->now.local_rank < RANKS;
         ctx->now.local_rank++)
        CHECK_OK(rg__state_fill(trains, (int)(step % 2), id));
    ctx->now.local_rank = 0;
    ctx->now.local_size = 1;
    return id;
}

/* The bytes that it copied then. */
static size_t restore(rg_state *st, rg__commit_id id)
{
    CHECK_OK(rg__state_restore(st, (int)(id.step % 2), id, true));
    CHECK(memcmp(memory, others, BYTES) == 0);
    CHECK(memcmp(small, little, SMALL) == 0);
    const size_t copied = BYTES - st->was_here;
    rg__state_forget_ahead(st);
    memset(memory, 0, BYTES);
    return copied;
}

/* A block of BYTES / RANKS begins with its slice. */
static void changes_are_all_that_is_copied(rg_state *st)
{
    commit();
    CHECK_EQ(rg__state_copy_ahead(st, false), BYTES);
    CHECK_EQ(rg__state_copy_ahead(st, false), 0);
    CHECK_EQ(restore(st, commit()), 0);
    rg__state_copy_ahead(st, false);
    others[0]++;
    others[BYTES / 2]++;
    const rg__commit_id id = commit();
    CHECK_EQ(restore(st, id), 2 * RG__BLOCK);
    rg__state_copy_ahead(st, false);
    others[0]++;
    commit();
    CHECK_EQ(rg__state_copy_ahead(st, true), RG__BLOCK);
    CHECK_EQ(restore(st, (rg__commit_id){id.generation, step}), 0);
}

/* A hash in the vault that lies costs a copy. */
static void wrong_hash_is_found_out(rg_state *st)
{
    commit();
    rg__state_copy_ahead(st, false);
    const uint64_t old = rg__state_ahead(&st->buffer[0], 0, 0)[0];
    others[7]++;
    const rg__commit_id id = commit();
    atomic_store(rg__state_hashes(&st->buffer[0], (int)(id.step % 2), 0, 0),
                 old);
    CHECK_OK(rg__state_restore(st, (int)(id.step % 2), id, true));
    CHECK(memcmp(memory, others, BYTES) == 0);
    size_t begin, end; /* of the piece that was copied as a whole */
    rg__vault_slice(BYTES, 0, RANKS, &begin, &end);
    CHECK_EQ(st->was_here, BYTES - end);
    rg__state_forget_ahead(st);
}

static void damage_is_found(rg_state *st)
{
    commit();
    rg__state_copy_ahead(st, false);
    others[7]++;
    const rg__commit_id id = commit();
    const int slot = (int)(id.step % 2);
    st->buffer[0].vault[st->buffer[0].stride * (size_t)slot + 9] ^= 1;
    CHECK_STATUS(rg__state_restore(st, slot, id, true), RG_ERR_PEER_LOST);
    rg__state_forget_ahead(st);
}

/* After a loss other ranks take a piece unverified that this one verifies: so
 * it reads what is in the vault, and not only its notes. In an announced change
 * each verifies what it takes, and a rank alone is relied on by none. */
static void share_is_read_for_others(rg_state *st)
{
    commit();
    rg__state_copy_ahead(st, false);
    const rg__commit_id id = commit();
    const int slot = (int)(id.step % 2);
    char *byte = st->buffer[0].vault + st->buffer[0].stride * (size_t)slot + 9;
    *byte ^= 1;
    ctx->now.is_announced = true;
    ctx->now.local_size = RANKS;
    CHECK_OK(rg__state_restore(st, slot, id, true));
    CHECK_EQ(st->was_here, BYTES);
    ctx->now.is_announced = false;
    ctx->now.local_size = 1;
    CHECK_OK(rg__state_restore(st, slot, id, true));
    ctx->now.local_size = RANKS;
    ctx->now.local_rank = 1; /* the damaged piece is another's */
    CHECK_OK(rg__state_restore(st, slot, id, true));
    ctx->now.local_rank = 0;
    CHECK_STATUS(rg__state_restore(st, slot, id, true), RG_ERR_PEER_LOST);
    ctx->now.local_size = 1;
    rg__state_forget_ahead(st);
    memset(memory, 0, BYTES);
}

static int asked;

static bool waits_for_three_blocks(rg_ctx *c)
{
    (void)c;
    return ++asked <= 3;
}

/* Also when there is more to copy, a worker leaves as soon as it is told. */
static void pass_ends_when_something_comes(rg_state *st)
{
    const rg__hooks *old = ctx->hooks;
    rg__hooks own = *old;
    own.waits = waits_for_three_blocks;
    ctx->hooks = &own;
    commit();
    CHECK_EQ(rg__state_copy_ahead(st, false), 3 * RG__BLOCK);
    ctx->hooks = old;
    CHECK_EQ(rg__state_copy_ahead(st, false), BYTES - 3 * RG__BLOCK);
    restore(st, (rg__commit_id){ctx->now.generation + 1, step});
}

static void *train_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        memset(others + (step * 7919) % (BYTES / 2), (int)step, BYTES / 3);
        little[step % SMALL]++;
        commit();
    }
    return NULL;
}

/* Slots change while they are read. */
static void nothing_torn_stays(rg_state *st)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        commit();
        atomic_store(&is_over, false);
        CHECK(pthread_create(&thread, NULL, train_on, NULL) == 0);
        for (int i = 0; i < 4; i++)
            rg__state_copy_ahead(st, i % 2 == 1);
        atomic_store(&is_over, true);
        pthread_join(thread, NULL);
        restore(st, (rg__commit_id){ctx->now.generation + 1, step});
    }
}

/* What it may not touch: memory that may yet be the job's, and its own commit.
 */
static void memory_is_left_alone(rg_state *st)
{
    commit();
    atomic_store(&ctx->page->begun, 0);
    CHECK_EQ(rg__state_copy_ahead(st, false), 0);
    atomic_store(&ctx->page->begun, 1);
    ctx->now.generation++;
    CHECK_EQ(rg__state_copy_ahead(st, true), 0);
    ctx->now.generation--;
}

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    ctx->has_agent = true;
    atomic_store(&ctx->page->begun, 1);
    step = 100;
    memory_is_left_alone(st);
    changes_are_all_that_is_copied(st);
    wrong_hash_is_found_out(st);
    damage_is_found(st);
    share_is_read_for_others(st);
    pass_ends_when_something_comes(st);
    nothing_torn_stays(st);
    ctx->has_agent = false;
    atomic_store(&ctx->page->begun, 0);
    return RG_OK;
}

/* Both look into one vault, as two processes of a host do. */
static void share(rg_state *from, char *room[2], bool takes)
{
    for (int k = 0; k < 2; k++) {
        if (takes)
            room[k] = trains->buffer[k].vault;
        trains->buffer[k].vault = takes ? from->buffer[k].vault : room[k];
    }
}

int main(void)
{
    rg_state *st = room_begin(&ctx);
    char *room[2];
    CHECK_OK(rg_state_add(st, "memory", memory, BYTES, NULL));
    CHECK_OK(rg_state_add(st, "small", small, SMALL, NULL));
    CHECK_OK(rg_state_create(ctx, NULL, &trains));
    CHECK_OK(rg_state_add(trains, "memory", others, BYTES, NULL));
    CHECK_OK(rg_state_add(trains, "small", little, SMALL, NULL));
    share(st, room, true);
    CHECK_OK(rg_run(st, train, NULL));
    share(st, room, false);
    rg_state_destroy(trains);
    room_end(ctx, st);
    return 0;
}
