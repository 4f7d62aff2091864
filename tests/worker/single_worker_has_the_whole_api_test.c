/* Without an agent the world is one process, and everything in the header works
 * or says why it does not: rg_alloc and rg_free, on_reset, on_save, the step's
 * end, rg_run.
 *
 * Covers: door.c worker/run.c */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/lib/huge.h"

static rg_ctx *ctx;
static int resets, saves, runs;
static uint64_t position, other;

static rg_status on_reset(rg_state *state, void *arg)
{
    CHECK(arg == &resets);
    CHECK_EQ(rg_state_step(state), 0);
    int32_t one = 1;
    CHECK_OK(rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I32, RG_SUM));
    resets++;
    return RG_OK;
}

/* Only a commit calls it, before it reads; it may call collectives, but ends no
 * step. Its status is that of the commit, and then nothing is saved. */
static rg_status on_save(rg_state *state, void *arg)
{
    CHECK(arg == &saves);
    int32_t one = 1;
    CHECK_OK(rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I32, RG_SUM));
    CHECK_STATUS(rg_step_end(state), RG_ERR_INVALID);
    return ++saves == 1 ? RG_ERR_REFUSED : RG_OK;
}

static void a_commit_that_on_save_refuses(rg_state *state)
{
    CHECK_STATUS(rg_state_commit(state), RG_ERR_REFUSED);
    CHECK_EQ(rg_state_step(state), 0);
    CHECK_STATUS(rg_state_on_save(state, on_save, &saves), RG_ERR_INVALID);
}

static rg_status never(rg_state *state, void *arg)
{
    (void)state;
    (void)arg;
    CHECK_FAIL("a second rg_run runs");
    return RG_OK;
}

/* Another state is no way to run twice. */
static void check_runs_no_other(const char *words)
{
    rg_state *state = NULL;
    CHECK_OK(rg_state_create(ctx, NULL, &state));
    CHECK_STATUS(rg_run(state, never, NULL), RG_ERR_INVALID);
    if (strstr(rg_last_error(), words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());
    rg_state_destroy(state);
}

static rg_status train(rg_state *state, void *arg)
{
    CHECK(arg == NULL);
    CHECK_EQ(resets, 1); /* before fn, in the first generation too */
    runs++;
    check_runs_no_other("running already");
    rg_state *second = NULL;
    CHECK_OK(rg_state_create(ctx, NULL, &second));
    CHECK_STATUS(rg_state_add(second, "other", &other, sizeof other, NULL),
                 RG_ERR_INVALID);
    rg_state_destroy(second);
    a_commit_that_on_save_refuses(state);
    while (position < 5) {
        position++;
        const rg_status st =
            position % 2 == 0 ? rg_state_commit(state) : rg_step_end(state);
        if (st != RG_OK)
            return st;
    }
    CHECK_EQ(rg_state_step(state), 5);
    return RG_OK;
}

static void memory_is_given_and_taken_back(void)
{
    char *p = NULL;
    CHECK_OK(rg_alloc(ctx, 5000, NULL, (void **)&p));
    for (int i = 0; i < 5000; i++)
        CHECK_EQ(p[i], 0);
    memset(p, 1, 5000);
    CHECK_STATUS(rg_free(ctx, p + 64), RG_ERR_INVALID);
    CHECK_STATUS(rg_free(ctx, &p), RG_ERR_INVALID);
    CHECK_OK(rg_free(ctx, p));
    CHECK_STATUS(rg_free(ctx, p), RG_ERR_INVALID);
    CHECK_OK(rg_free(ctx, NULL));
    CHECK_OK(rg_alloc(ctx, 2 * HUGE_PAGE, NULL, (void **)&p));
    check_is_huge(p);
    CHECK_BYTES(p, 0, 2 * HUGE_PAGE);
    CHECK_OK(rg_free(ctx, p));
    CHECK_STATUS(rg_alloc(ctx, 0, NULL, (void **)&p), RG_ERR_INVALID);
    CHECK_STATUS(rg_alloc(ctx, SIZE_MAX / 2, NULL, (void **)&p), RG_ERR_MEMORY);
    CHECK_STATUS(rg_alloc(ctx, SIZE_MAX, NULL, (void **)&p), RG_ERR_MEMORY);
    CHECK(strstr(rg_last_error(), "18446744073709551615 bytes"));
}

/* After an rg_run that failed, as before it. */
static void the_world_is_closed(void)
{
    int32_t one = 1, all[1];
    rg_req *req = NULL;
    CHECK_STATUS(rg_allreduce_start(rg_world(ctx), &one, &one, 1, RG_I32,
                                    RG_SUM, NULL, &req),
                 RG_ERR_INVALID);
    CHECK(req == NULL);
    CHECK_STATUS(rg_allgather(rg_world(ctx), &one, all, 1, RG_I32),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "rg_run"));
    CHECK_EQ(rg_rank(ctx), -1);
}

static void the_world_lives_on(void)
{
    int32_t one = 1, all[1] = {0};
    CHECK_OK(rg_allgather(rg_world(ctx), &one, all, 1, RG_I32));
    CHECK_EQ(all[0], 1);
    CHECK_EQ(rg_rank(ctx), 0);
}

static void the_loop_runs_once(void)
{
    rg_state *state = NULL;
    CHECK_OK(rg_state_create(ctx, NULL, &state));
    CHECK_OK(rg_state_add(state, "position", &position, sizeof position, NULL));
    CHECK_OK(rg_state_on_reset(state, on_reset, &resets));
    CHECK_OK(rg_state_on_save(state, on_save, &saves));
    CHECK_STATUS(rg_step_end(state), RG_ERR_INVALID); /* not in fn */
    CHECK_STATUS(rg_state_commit(state), RG_ERR_INVALID);
    the_world_is_closed();
    CHECK_OK(rg_run(state, train, NULL));
    CHECK_EQ(runs, 1);
    CHECK_EQ(saves, 3); /* and one for each second step */
    the_world_lives_on();
    CHECK_STATUS(rg_run(state, train, NULL), RG_ERR_INVALID);
    rg_state_destroy(state);
    check_runs_no_other("the job is done");
}

static rg_status fail(rg_state *state, void *arg)
{
    (void)state;
    (void)arg;
    return RG_ERR_INVALID;
}

/* In a process of its own: it may not run any more. */
static void the_loop_fails_once(void)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_state *state = NULL;
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_state_create(ctx, NULL, &state));
    CHECK_STATUS(rg_run(state, fail, NULL), RG_ERR_INVALID);
    the_world_is_closed();
    rg_state_destroy(state);
    check_runs_no_other("has failed");
    CHECK_OK(rg_finalize(ctx));
}

static void in_a_child(void (*fn)(void))
{
    int how = 1;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(30); /* what must fail at once would wait forever */
        fn();
        exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &how, 0) == pid);
    CHECK_EQ(how, 0);
}

int main(void)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    in_a_child(the_loop_fails_once);
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_EQ(rg_rank(ctx), -1);
    CHECK_EQ(rg_slot(ctx), 0);
    memory_is_given_and_taken_back();
    the_loop_runs_once();
    CHECK_OK(rg_finalize(ctx));
    CHECK_OK(rg_finalize(NULL));
    return 0;
}
