/* A program that does something before, behind or beside the loop, and prints
 * what it finds: `rank R NAME ...`.
 *
 *   lifecycle MODE [HOW] */
#include <inttypes.h>
#include <pthread.h>
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

/* The world lives on; then the last rank goes, and no rank waits for it. */
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

/* ----------------------------------------------------- asked to go: `leave` */

static rg_status go_on(rg_state *st, void *arg)
{
    (void)arg;
    for (;;) {
        counter++;
        const rg_status rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
        if (strcmp(how, "computes") == 0 && rg_slot(ctx) == 1 && counter > 20)
            pause(); /* in fn, and in no call of Regroup */
        usleep(5000);
    }
}

/* What a program does behind rg_run takes longer than fn may. */
static int leave(void)
{
    if (start() != RG_OK)
        return 2;
    const rg_status st = rg_run(state, go_on, NULL);
    say("run", st);
    sleep(strcmp(how, "computes") == 0 ? 3 : 1);
    say("cleaned up", RG_OK);
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}

/* ---------------------------------- behind rg_run until a file is: `stays` */

static int stay(void)
{
    if (start() != RG_OK || rg_run(state, train, NULL) != RG_OK)
        return 1;
    while (access(how, F_OK) != 0)
        usleep(10000);
    say("stayed", RG_OK);
    rg_state_destroy(state);
    rg_finalize(ctx);
    return 0;
}

/* --------------------------------------------------- what counts: `counts` */

static uint64_t told;

static void on_commit(rg_state *st, uint64_t step, void *arg)
{
    (void)arg;
    told = step;
    printf("process %d counts %" PRIu64 " of %" PRIu64 "\n", getpid(), step,
           rg_state_step(st));
    fflush(stdout);
    if (rg_state_commit(st) != RG_ERR_INVALID)
        abort();
}

/* Every third step is saved. */
static rg_status count(rg_state *st, void *arg)
{
    (void)arg;
    while (counter < 100) {
        counter++;
        usleep(5000);
        const rg_status rs =
            counter % 3 == 0 ? rg_state_commit(st) : rg_step_end(st);
        if (rs == RG_ERR_HOSTS_CHANGED && told != rg_state_step(st))
            abort(); /* it is told before fn is left */
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

static int counts(void)
{
    if (start() != RG_OK || rg_state_on_commit(state, on_commit, NULL) != RG_OK)
        return 2;
    const rg_status st = rg_run(state, count, NULL);
    say("run", st);
    return rg_exit_code(st);
}

/* -------------------------------------------------- a break heard: `breaks` */

/* What stands for a communicator of the program's own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t broken;
static int breaks;

static void on_break(rg_ctx *c, uint64_t generation, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    printf("rank %d hears that %" PRIu64 " broke after %" PRIu64 "\n",
           rg_rank(c), generation, broken);
    broken = generation;
    breaks++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* The others wait for the one that dies, where Regroup does not see it. */
static rg_status wait_elsewhere(rg_state *st, void *arg)
{
    (void)arg;
    const uint64_t generation = rg_generation(ctx);
    while (counter < 10) {
        counter++;
        const rg_status rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
        if (counter != 5 || generation != 1)
            continue;
        if (rg_slot(ctx) == 1)
            raise(SIGKILL);
        pthread_mutex_lock(&lock);
        while (broken < generation)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        return RG_ERR_PEER_LOST;
    }
    return RG_OK;
}

static int break_in_the_middle(void)
{
    if (start() != RG_OK || rg_on_break(ctx, on_break, NULL) != RG_OK)
        return 2;
    const rg_status st = rg_run(state, wait_elsewhere, NULL);
    printf("slot %d run %s after %d breaks\n", rg_slot(ctx), rg_status_name(st),
           breaks);
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}

/* ---------------------------------------- a loop of its own: `opens` FILE */

static void *call_next(void *arg)
{
    rg_next(state, arg);
    return NULL;
}

static rg_status next_within(rg_state *st, void *arg)
{
    rg_status *within = arg;
    *within = RG_OK;
    return rg_next(st, within) == 0 ? RG_OK : RG_ERR_SYSTEM;
}

static rg_status add_step(void)
{
    const rg_status st = add_up(rg_world(ctx));
    if (st != RG_OK)
        return st;
    counter++;
    usleep(5000);
    return rg_state_commit(state);
}

/* In slot 1 the first process leaves the loop early, and makes the file. */
static int opens(void)
{
    rg_status st = RG_ERR_MEMORY, other = RG_OK, within = RG_OK;
    if (rg_next(NULL, &st) != 0 || st != RG_ERR_MEMORY)
        return 2;
    st = start();
    if (st == RG_OK)
        st = rg_state_on_reset(state, next_within, &within);
    while (rg_next(state, &st)) {
        if (st != RG_OK || rg_rank(ctx) < 0)
            return 3;
        while (st == RG_OK && counter < 100) {
            st = add_step();
            if (counter != 20 || rg_slot(ctx) != 1 || access(how, F_OK) == 0)
                continue;
            fclose(fopen(how, "w"));
            pthread_t thread;
            pthread_create(&thread, NULL, call_next, &other);
            pthread_join(thread, NULL);
            say("on another thread", other);
            say("within", rg_run(state, train, NULL));
            goto left;
        }
    }
    say("open loop", st);
    say("in on_reset", within);
    other = RG_OK;
    if (rg_next(state, &other) == 0)
        say("again", other);
left:
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"after", after},
                 {"leave", leave},
                 {"stays", stay},
                 {"counts", counts},
                 {"breaks", break_in_the_middle},
                 {"opens", opens}};
    how = argc > 2 ? argv[2] : "";
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    return 64;
}
