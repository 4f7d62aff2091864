/* A program with two local buffers whose sizes change with each step, and a
 * commit behind each. Rank 1 ends once, in step 10. Each rank knows what must
 * be in its arrays.
 *
 *   swarm MARK-FILE still|apart|both|others|damage [REPLICAS]
 *
 * still: sizes don't change. both: the function of one buffer resizes the other
 * as well. others: it reads parts of other ranks. damage: before it ends, rank
 * 1 damages the length of its part in the newest commit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "elastic/state/state.h"

#define STEPS   15
#define REFUSED 4  /* in this step more is asked for than there is */
#define DEATH   10 /* of rank 1 */
#define MOST    20000

static rg_ctx *ctx;
static uint64_t step, place[MOST], speed[MOST];
static const char *mark, *mode;

static int is_mode(const char *name)
{
    return strcmp(mode, name) == 0;
}

static size_t count(void)
{
    const size_t rank = (size_t)rg_rank(ctx);
    return is_mode("still") ? 10000 : 10000 + 300 * (step % 5) + 700 * rank;
}

static uint64_t value(size_t i)
{
    return step * 1000003 + i * 7 + (uint64_t)rg_rank(ctx);
}

static rg_status redistribute(rg_state *state, const rg_parts *parts, void *arg)
{
    const int rank = rg_rank(ctx);
    const char *name = arg;
    uint64_t *to = strcmp(name, "place") == 0 ? place : speed;
    char one;
    size_t bytes = 0;
    rg_status st = rg_parts_bytes(parts, rank, &bytes);
    if (st == RG_OK && is_mode("others"))
        st = rg_parts_read(parts, 1 - rank, 0, 1, &one);
    if (st == RG_OK)
        st = rg_state_resize(state, name, to, bytes);
    if (st == RG_OK && is_mode("both"))
        st = rg_state_resize(state, "speed", speed, bytes);
    return st == RG_OK ? rg_parts_read(parts, rank, 0, bytes, to) : st;
}

static rg_status resize(rg_state *state, size_t n)
{
    const rg_status st =
        rg_state_resize(state, "place", place, n * sizeof *place);
    return st == RG_OK
               ? rg_state_resize(state, "speed", speed, n * sizeof *speed)
               : st;
}

/* Once for lack of room in the vault, once for lack of addresses: the buffer
 * stays what it was. */
static void ask_for_too_much(rg_state *state)
{
    struct rlimit before, none;
    const rg_status room =
        rg_state_resize(state, "place", place, (size_t)1 << 30);
    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &none);
    const rg_status addresses =
        rg_state_resize(state, "speed", speed, (count() + 1) * sizeof *speed);
    setrlimit(RLIMIT_AS, &before);
    printf("too much: %s, %s\n", rg_status_name(room),
           rg_status_name(addresses));
    fflush(stdout);
}

static void damage(const rg_state *state)
{
    const rg__state_buffer *b = &state->buffer[1];
    rg__cell *head = (rg__cell *)(void *)b->cell[state->vault_slot];
    head->bytes ^= UINT64_C(1) << 60;
}

static void end_once(const rg_state *state)
{
    if (step != DEATH || rg_rank(ctx) != 1 || access(mark, F_OK) == 0)
        return;
    fclose(fopen(mark, "w"));
    if (is_mode("damage"))
        damage(state);
    _exit(3);
}

static void check(void)
{
    for (size_t i = 0; i < count(); i++)
        if (place[i] != value(i) || speed[i] != 2 * value(i)) {
            fprintf(stderr, "rank %d has wrong numbers at step %llu\n",
                    rg_rank(ctx), (unsigned long long)step);
            exit(9);
        }
}

static rg_status train(rg_state *state, void *arg)
{
    rg_status st = RG_OK;
    (void)arg;
    if (step > 0)
        check();
    while (step < STEPS && st == RG_OK) {
        step++;
        end_once(state);
        st = is_mode("still") ? RG_OK : resize(state, count());
        if (st != RG_OK)
            break;
        if (step == REFUSED && is_mode("apart"))
            ask_for_too_much(state);
        for (size_t i = 0; i < count(); i++)
            speed[i] = 2 * (place[i] = value(i));
        st = rg_state_commit(state);
    }
    return st;
}

static int fail(const char *what)
{
    fprintf(stderr, "swarm: %s: %s\n", what, rg_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    static char names[2][8] = {"place", "speed"};
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_buffer_params local = {.size = sizeof local,
                              .kind = RG_LOCAL,
                              .redistribute = redistribute,
                              .redistribute_arg = names[0]};
    rg_state *state = NULL;
    if (argc < 3)
        return 64;
    mark = argv[1];
    mode = argv[2];
    local.replicas = argc > 3 ? atoi(argv[3]) : 0;
    if (rg_init(&params, &ctx) != RG_OK ||
        rg_state_create(ctx, NULL, &state) != RG_OK)
        return fail("rg_init");
    if (rg_state_add(state, "step", &step, sizeof step, NULL) != RG_OK ||
        rg_state_add(state, names[0], place, 10000 * sizeof *place, &local))
        return fail("rg_state_add");
    local.redistribute_arg = names[1];
    if (rg_state_add(state, names[1], speed, 10000 * sizeof *speed, &local))
        return fail("rg_state_add");
    const rg_status st = rg_run(state, train, NULL);
    if (st != RG_OK)
        fail("rg_run");
    else
        printf("ended with right numbers at step %llu\n",
               (unsigned long long)step);
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}
