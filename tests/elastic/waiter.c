/* A program that has a world before rg_run: rank 0 gets what all need, and
 * sends it to the others. Prints `slot S WHAT ...`.
 *
 *   waiter [gate=FILE] [runs=SLOT] [until=FILE] [again] [crash]
 *
 * gate: rank 0 has it once that file is there. runs: the worker in that slot
 * calls rg_run at once. until: training ends once that file is there. again:
 * rg_world_wait is called wherever it may be, and may not. crash: in a first
 * world that is generation 1 or 2 the worker in slot 1 or 2 exits. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "regroup/regroup.h"

#define GOODS INT64_C(4711)
#define STEPS 20

static rg_ctx *ctx;
static rg_state *state;
static int64_t goods, counter;
static const char *gate = "", *until = "";
static int runs = -1;
static bool does_again, does_crash;
static rg_set *own; /* made between rg_world_wait and rg_run, where there is
                       a world */

static void say(const char *what, rg_status st)
{
    const bool is_error = st != RG_OK && st != RG_JOINING;
    printf("slot %d %s %s rank %d of %d in %d: %s\n", rg_slot(ctx), what,
           rg_status_name(st), rg_rank(ctx), rg_size(ctx),
           (int)rg_generation(ctx), is_error ? rg_last_error() : "");
    fflush(stdout);
}

static void wait_for(const char *file)
{
    while (file[0] != '\0' && access(file, F_OK) != 0)
        usleep(5000);
}

static int color_of_host(rg_ctx *c, void *arg)
{
    (void)arg;
    return rg_host_index(c);
}

/* By the first workers together, by others as a declaration. */
static rg_status make_set(void)
{
    return rg_set_create_by(ctx, color_of_host, NULL, NULL, &own);
}

static rg_status add_up(rg_set *set)
{
    int32_t one = 1;
    const rg_status st = rg_allreduce(set, &one, &one, 1, RG_I32, RG_SUM);
    return st == RG_OK && one != rg_set_size(set) ? RG_ERR_SYSTEM : st;
}

static rg_status get_goods(void)
{
    if (rg_rank(ctx) == 0) {
        say("fetches", RG_OK);
        wait_for(gate);
        goods = GOODS;
    }
    const rg_status st = rg_broadcast(rg_world(ctx), &goods, 1, RG_I64, 0);
    return st == RG_OK ? add_up(rg_world(ctx)) : st;
}

/* All ranks end after the same step, though the file comes between their
 * looks. */
static rg_status agree_to_go_on(bool *goes_on_p)
{
    int32_t is_over = until[0] == '\0' || access(until, F_OK) == 0;
    const rg_status st =
        rg_allreduce(rg_world(ctx), &is_over, &is_over, 1, RG_I32, RG_MIN);
    *goes_on_p = counter < STEPS || is_over == 0;
    return st;
}

static rg_status train(rg_state *st, void *arg)
{
    bool goes_on = false;
    (void)arg;
    if (goods != GOODS)
        abort();
    if (does_again)
        say("inside", rg_world_wait(ctx));
    const rg_status first = add_up(own);
    if (first != RG_OK)
        return first;
    say("trains", first);
    rg_status rs = agree_to_go_on(&goes_on);
    while (rs == RG_OK && goes_on) {
        rs = add_up(own);
        if (rs != RG_OK)
            return rs;
        counter++;
        usleep(5000);
        rs = rg_state_commit(st);
        if (rs == RG_OK)
            rs = agree_to_go_on(&goes_on);
    }
    return rs;
}

static rg_status prepare(void)
{
    rg_status st = runs == rg_slot(ctx) ? RG_OK : rg_world_wait(ctx);
    if (runs == rg_slot(ctx)) {
        goods = GOODS;
        return make_set();
    }
    say("waited", st);
    if (does_again)
        say("twice", rg_world_wait(ctx));
    if (does_crash && st == RG_OK && rg_slot(ctx) > 0 &&
        rg_slot(ctx) == (int)rg_generation(ctx))
        _exit(3);
    if (st == RG_OK)
        st = get_goods();
    else if (st == RG_JOINING)
        st = RG_OK;
    if (st == RG_OK)
        st = make_set();
    say("is ready", st);
    return st;
}

static void read_word(const char *word)
{
    does_again = does_again || strcmp(word, "again") == 0;
    does_crash = does_crash || strcmp(word, "crash") == 0;
    if (strncmp(word, "gate=", 5) == 0)
        gate = word + 5;
    if (strncmp(word, "until=", 6) == 0)
        until = word + 6;
    if (strncmp(word, "runs=", 5) == 0)
        runs = atoi(word + 5);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        read_word(argv[i]);
    const rg_params params = {sizeof params, 1};
    rg_status st = rg_init(&params, &ctx);
    if (st != RG_OK)
        return 2;
    st = prepare();
    if (st == RG_OK)
        st = rg_state_create(ctx, NULL, &state);
    if (st == RG_OK)
        st = rg_state_add(state, "goods", &goods, sizeof goods, NULL);
    if (st == RG_OK)
        st = rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    if (st == RG_OK)
        st = rg_run(state, train, NULL);
    say("ran", st);
    if (does_again)
        say("behind", rg_world_wait(ctx));
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}
