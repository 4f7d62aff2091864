/* A program that does something before, behind or beside the loop, and prints
 * what it finds: `rank R NAME ...`.
 *
 *   lifecycle MODE [HOW] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "regroup/regroup.h"

#define STEPS 5

static rg_ctx *ctx;
static rg_state *state;
static uint64_t counter;
static const char *how = "";

static void say(const char *what, rg_status st)
{
    printf("rank %d of %d %s %s: %s\n", rg_rank(ctx), rg_size(ctx), what,
           rg_status_name(st), st == RG_OK ? "" : rg_last_error());
    fflush(stdout);
}

static int start(void)
{
    const rg_params params = {sizeof params, 1};
    rg_status st = rg_init(&params, &ctx);
    if (st == RG_OK)
        st = rg_state_create(ctx, NULL, &state);
    if (st == RG_OK)
        st = rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    return st;
}

static rg_status add_up(rg_set *set)
{
    int32_t one = 1;
    const rg_status st = rg_allreduce(set, &one, &one, 1, RG_I32, RG_SUM);
    return st == RG_OK && one != rg_set_size(set) ? RG_ERR_SYSTEM : st;
}

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    while (counter < STEPS) {
        counter++;
        const rg_status rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

/* --------------------------------------------------- behind rg_run: `after` */

/* The world lives on; then the last rank goes, and nobody waits for it. */
static int after(void)
{
    const int first[] = {0, 1};
    rg_set *pair = NULL;
    if (start() != RG_OK || rg_run(state, train, NULL) != RG_OK)
        return 1;
    say("world", add_up(rg_world(ctx)));
    say("made", rg_set_create(ctx, first, 2, NULL, &pair));
    if (rg_rank(ctx) == rg_size(ctx) - 1) {
        if (strcmp(how, "kill") == 0)
            raise(SIGKILL);
        if (strcmp(how, "exit") == 0)
            _exit(0);
        rg_finalize(ctx);
        return 0;
    }
    if (rg_rank(ctx) < 2)
        say("pair", add_up(pair));
    say("left", rg_barrier(rg_world(ctx)));
    say("again", rg_barrier(rg_world(ctx)));
    rg_finalize(ctx);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"after", after}};
    how = argc > 2 ? argv[2] : "";
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    return 64;
}
