/* A program with a hundred sets at once: lists of ranks, lists to keep, splits
 * (every other one to keep) and rules. In each step an operation is in flight
 * on all of them, and every worker starts them in another order. Twice a worker
 * kills itself when it has started half of its own: first slot 5, and once its
 * replacement is there slot 0, which has rank 0. What each set must be then is
 * computed from the slots and starts of the workers alone. With the argument
 * `declared` rules and lists are made before rg_run.
 *
 * Prints how many sets were found ended, right, and another's, once in each
 * generation; a claim that does not hold ends the job with code 3. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "sdk/core/context.h"

#define WORKERS 8
#define EACH    25 /* sets of each kind */
#define SETS    (4 * EACH)
#define STEPS   12 /* in a generation: some before a kill, and at the end */

typedef enum kind { LIST, KEEP, SPLIT, RULE } kind;

/* A worker, for good. start 0: none. */
typedef struct who {
    int32_t slot, start;
} who;

/* One of the sets, as this worker has it, and the members it should have. */
typedef struct mine {
    rg_set *set;
    kind kind;
    int index; /* among those of its kind */
    bool keeps;
    bool is_later; /* the others have it from a generation before */
    uint32_t id;
    who member[WORKERS];
    int n;
    int32_t in, out[WORKERS]; /* of the operation in flight */
} mine;

typedef struct job {
    rg_ctx *ctx;
    who world[WORKERS]; /* by rank */
    int size;
    bool declares;
    mine mine[SETS];
    uint64_t steps, are_made;
} job;

static bool is_same(who a, who b)
{
    return a.slot == b.slot && a.start == b.start;
}

static rg_status wrong(const mine *m, const char *what)
{
    static const char *const kinds[] = {"list", "keep", "split", "rule"};
    fprintf(stderr, "hundred_sets: %s%d: %s: %s\n", kinds[m->kind], m->index,
            what, rg_last_error());
    return RG_ERR_INVALID;
}

/* ------------------------------------------------------------------ shapes */

/* Ranks of a list: all, a pair, those of odd number, all backwards, one. */
static int choose_ranks(int index, int ranks[WORKERS])
{
    int n = 0;
    for (int r = 0; r < WORKERS; r++) {
        const int from = index % 5 == 3 ? WORKERS - 1 - r : r;
        const bool is_in[5] = {true, r == index % 8 || r == (index + 3) % 8,
                               r % 2 == 1, true, r == index % 8};
        if (is_in[index % 5])
            ranks[n++] = from;
    }
    return n;
}

static int split_color(int index, int rank)
{
    return rank % (2 + index % 3);
}

static int split_key(int index, int rank)
{
    return index % 2 == 0 ? rank : -rank;
}

static int rule_color(int index, int slot)
{
    return index % 5 == 4 && slot == index % 8 ? RG_NO_COLOR
                                               : slot % (1 + index % 4);
}

/* ------------------------------------------------------------------ making */

static int color_now(rg_ctx *ctx, void *arg)
{
    const mine *m = arg;
    return rule_color(m->index, rg_slot(ctx));
}

/* Its members now; of a set without a rule, those when it was made. */
static void expect_list(job *j, mine *m)
{
    int ranks[WORKERS];
    m->n = choose_ranks(m->index, ranks);
    for (int i = 0; i < m->n; i++)
        m->member[i] = j->world[ranks[i]];
}

static void expect_split(job *j, mine *m)
{
    const int color = split_color(m->index, rg_rank(j->ctx));
    m->n = 0;
    for (int i = 0; i < j->size; i++) {
        const int r = split_key(m->index, 1) > 0 ? i : j->size - 1 - i;
        if (split_color(m->index, r) == color)
            m->member[m->n++] = j->world[r];
    }
}

static void expect_rule(job *j, mine *m)
{
    const int color = rule_color(m->index, rg_slot(j->ctx));
    m->n = 0;
    for (int r = 0; r < j->size; r++)
        if (color >= 0 && rule_color(m->index, j->world[r].slot) == color)
            m->member[m->n++] = j->world[r];
}

static rg_status make(job *j, mine *m)
{
    char name[32];
    int ranks[WORKERS];
    const rg_set_params params = {
        .size = sizeof params, .name = name, .keep = m->keeps};
    const int rank = rg_rank(j->ctx);
    snprintf(name, sizeof name, "%d.%d", m->kind, m->index);
    if (m->kind == RULE)
        return rg_set_create_by(j->ctx, color_now, m, &params, &m->set);
    if (m->kind == SPLIT) {
        expect_split(j, m);
        return rg_set_split(j->ctx, split_color(m->index, rank),
                            split_key(m->index, rank), &params, &m->set);
    }
    return rg_set_create(j->ctx, ranks, choose_ranks(m->index, ranks), &params,
                         &m->set);
}

/* Rules in every generation, by name; the others once in the job. */
static rg_status make_all(job *j)
{
    for (int i = 0; i < SETS; i++) {
        mine *m = &j->mine[i];
        m->is_later = m->is_later || (m->kind < SPLIT && j->declares &&
                                      j->are_made && m->id == 0);
        if (m->kind != RULE && j->are_made)
            continue;
        rg_set *const before = m->set;
        if (m->kind < SPLIT)
            expect_list(j, m);
        const rg_status st =
            m->kind != SPLIT && j->declares ? RG_OK : make(j, m);
        if (st != RG_OK)
            return st;
        if (before != NULL && before != m->set)
            return wrong(m, "its handle has changed");
        if (m->id != 0 && m->id != rg_set_id(m->set))
            return wrong(m, "its id has changed");
        m->id = rg_set_id(m->set);
    }
    j->are_made = 1;
    return RG_OK;
}

/* ---------------------------------------------------------------- expecting */

static bool is_here(const job *j, who one)
{
    for (int r = 0; r < j->size; r++)
        if (is_same(j->world[r], one))
            return true;
    return false;
}

/* No member of an ended set is left in it. */
static void lose_the_dead(const job *j, mine *m)
{
    int n = 0;
    for (int i = 0; i < m->n; i++)
        if (is_here(j, m->member[i]))
            m->member[n++] = m->member[i];
    if (n < m->n && !m->keeps)
        n = 0;
    m->n = n;
}

static int rank_in(const job *j, const mine *m)
{
    for (int i = 0; i < m->n; i++)
        if (is_same(m->member[i], j->world[rg_rank(j->ctx)]))
            return i;
    return -1;
}

/* A rule has members of another colour or none; any other set has ended. */
static rg_status expected(const job *j, const mine *m)
{
    if (rank_in(j, m) >= 0)
        return RG_OK;
    return m->n > 0 || m->kind == RULE ? RG_ERR_NOT_MEMBER : RG_ERR_SET_ENDED;
}

static rg_status meet(job *j)
{
    const who me = {rg_slot(j->ctx), (int32_t)j->ctx->me.start};
    j->size = rg_size(j->ctx);
    const rg_status st = rg_allgather(rg_world(j->ctx), &me, j->world,
                                      sizeof me / sizeof(int32_t), RG_I32);
    for (int i = 0; i < SETS && st == RG_OK; i++)
        if (j->mine[i].kind == RULE)
            expect_rule(j, &j->mine[i]);
        else
            lose_the_dead(j, &j->mine[i]);
    return st;
}

/* ------------------------------------------------------------------ a step */

static rg_status start(job *j, mine *m, rg_req **req_p)
{
    m->in = rg_slot(j->ctx) * 100 + m->index;
    memset(m->out, 0, sizeof m->out);
    const rg_status st =
        rg_allgather_start(m->set, &m->in, m->out, 1, RG_I32, NULL, req_p);
    if (st == RG_ERR_PEER_LOST || st == RG_ERR_HOSTS_CHANGED)
        return st;
    const bool is_right =
        m->is_later ? st == RG_ERR_NOT_MEMBER || st == RG_ERR_SET_ENDED
                    : st == expected(j, m);
    if (!is_right)
        return wrong(m, rg_status_name(st));
    if (rg_set_rank(m->set) != rank_in(j, m))
        return wrong(m, "another rank");
    return RG_OK;
}

static bool dies_now(const job *j, uint64_t step)
{
    const bool is_whole = j->size == WORKERS;
    const int slot = rg_slot(j->ctx);
    if (!is_whole || j->ctx->me.start != 1 || step != STEPS / 2)
        return false;
    for (int r = 0; r < j->size; r++)
        if (j->world[r].slot == 5)
            return slot == (j->world[r].start == 1 ? 5 : 0);
    return false;
}

/* All in flight at once, begun with another one on each rank. */
static rg_status start_all(job *j, uint64_t step, rg_req *reqs[SETS])
{
    for (int i = 0; i < SETS; i++) {
        const int at = (i * 7 + rg_slot(j->ctx) * 13 + (int)step) % SETS;
        if (i == SETS / 2 && dies_now(j, step))
            kill(getpid(), SIGKILL);
        if (j->mine[at].set == NULL)
            continue;
        const rg_status st = start(j, &j->mine[at], &reqs[at]);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

static rg_status check(const job *j, const mine *m)
{
    if (rank_in(j, m) < 0)
        return RG_OK;
    if (rg_set_size(m->set) != m->n)
        return wrong(m, "another size");
    for (int i = 0; i < m->n; i++)
        if (m->out[i] != m->member[i].slot * 100 + m->index)
            return wrong(m, "another result");
    return RG_OK;
}

static rg_status step_once(job *j, uint64_t step)
{
    rg_req *reqs[SETS] = {NULL};
    rg_status st = start_all(j, step, reqs);
    const rg_status done = rg_wait_all(reqs, SETS, -1);
    st = st == RG_OK ? done : st;
    for (int i = 0; i < SETS && st == RG_OK; i++)
        if (j->mine[i].set != NULL)
            st = check(j, &j->mine[i]);
    return st;
}

/* ------------------------------------------------------------------- ranks */

static rg_status check_ids(job *j)
{
    uint32_t least[SETS], most[SETS];
    for (int i = 0; i < SETS; i++) {
        const rg_set *set = j->mine[i].is_later ? NULL : j->mine[i].set;
        least[i] = set == NULL ? UINT32_MAX : rg_set_id(set);
        most[i] = set == NULL ? 0 : rg_set_id(set);
        if (set != NULL && rg_set_id(set) != j->mine[i].id)
            return wrong(&j->mine[i], "its id has changed");
    }
    rg_set *world = rg_world(j->ctx);
    rg_status st = rg_allreduce(world, least, least, SETS, RG_U32, RG_MIN);
    if (st == RG_OK)
        st = rg_allreduce(world, most, most, SETS, RG_U32, RG_MAX);
    for (int i = 0; i < SETS && st == RG_OK; i++)
        if (least[i] != most[i])
            st = wrong(&j->mine[i], "ranks have other ids");
    return st;
}

static void tell(const job *j)
{
    int ended = 0, right = 0, others = 0;
    for (int i = 0; i < SETS; i++) {
        const mine *m = &j->mine[i];
        if (m->is_later)
            continue;
        const rg_status st = m->set == NULL ? RG_OK : expected(j, m);
        right += m->set != NULL && st == RG_OK;
        ended += st == RG_ERR_SET_ENDED;
        others += st == RG_ERR_NOT_MEMBER;
    }
    printf("slot %d generation %" PRIu64 " size %d: %d right, %d ended, %d of "
           "others\n",
           rg_slot(j->ctx), rg_generation(j->ctx), j->size, right, ended,
           others);
    fflush(stdout);
}

/* Both are replaced, and all are here. */
static bool is_over(const job *j)
{
    int replaced = 0;
    for (int r = 0; r < j->size; r++)
        replaced += j->world[r].start > 1;
    return j->size == WORKERS && replaced == 2;
}

static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    rg_status st = meet(j);
    if (st == RG_OK)
        st = make_all(j);
    if (st == RG_OK)
        st = check_ids(j);
    for (uint64_t step = 0; st == RG_OK; step++) {
        st = step_once(j, step);
        j->steps++;
        if (st == RG_OK)
            st = rg_state_commit(state);
        if (st == RG_OK && step == 0)
            tell(j);
        if (st == RG_OK && is_over(j) && step == STEPS)
            return RG_OK;
    }
    return st;
}

static void name_sets(job *j)
{
    for (int i = 0; i < SETS; i++) {
        mine *m = &j->mine[i];
        m->kind = (kind)(i / EACH);
        m->index = i % EACH;
        m->keeps = m->kind == KEEP || (m->kind == SPLIT && i % 2 == 1);
    }
}

/* Of rules and lists alike: only a split needs ranks. */
static rg_status declare_all(job *j)
{
    rg_status st = RG_OK;
    for (int i = 0; i < SETS && st == RG_OK && j->declares; i++)
        if (j->mine[i].kind != SPLIT)
            st = make(j, &j->mine[i]);
    return st;
}

int main(int argc, char **argv)
{
    static job j;
    rg_state *state = NULL;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    j.declares = argc > 1 && strcmp(argv[1], "declared") == 0;
    name_sets(&j);
    rg_status st = rg_init(&params, &j.ctx);
    if (st == RG_OK)
        st = declare_all(&j);
    if (st == RG_OK)
        st = rg_state_create(j.ctx, NULL, &state);
    if (st == RG_OK)
        st = rg_state_add(state, "steps", &j.steps, sizeof j.steps, NULL);
    if (st == RG_OK)
        st = rg_state_add(state, "made", &j.are_made, sizeof j.are_made, NULL);
    if (st == RG_OK)
        st = rg_run(state, train, &j);
    if (st != RG_OK)
        fprintf(stderr, "hundred_sets: %s\n", rg_last_error());
    else
        puts("all is right");
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return st == RG_OK ? 0 : 3;
}
