/* Programs that do what they should not, or meet what they can't help: each
 * prints the status and the sentence that it got, as `NAME: sentence`.
 *
 *   misuse MODE */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "regroup/regroup.h"

static rg_ctx *ctx;
static rg_state *state;
static uint64_t counter;
static rg_set *set;

static int say(const char *what, rg_status st)
{
    printf("%s %s: %s\n", what, rg_status_name(st),
           st == RG_OK ? "" : rg_last_error());
    fflush(stdout);
    return st == RG_OK ? 0 : 3;
}

static void init(int elastic)
{
    const rg_params params = {sizeof params, elastic};
    const rg_status st = rg_init(&params, &ctx);
    if (st != RG_OK)
        exit(say("rg_init", st));
    const rg_status rs = rg_state_create(ctx, NULL, &state);
    if (rs != RG_OK)
        exit(say("rg_state_create", rs));
}

static int registered_twice(void)
{
    init(1);
    rg_state_add(state, "w", &counter, sizeof counter, NULL);
    return say("again",
               rg_state_add(state, "w", &counter, sizeof counter, NULL));
}

static int other_size(void)
{
    static char room[128];
    init(1);
    const size_t bytes = rg_slot(ctx) == 0 ? 64 : 128;
    const rg_status st = rg_state_add(state, "w", room, bytes, NULL);
    if (st == RG_OK)
        pause(); /* until the other one has ended the job */
    return say("size", st);
}

static int too_large(void)
{
    init(1);
    const size_t bytes = (size_t)64 << 20;
    return say("large", rg_state_add(state, "w", malloc(bytes), bytes, NULL));
}

static int before_the_door(void)
{
    int32_t one = 1;
    init(1);
    printf("rank %d size %d\n", rg_rank(ctx), rg_size(ctx));
    return say("early",
               rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I32, RG_SUM));
}

/* A set of ranks 1 and 2; rank 1 dies in it. */
static rg_status use_set(rg_state *st, void *arg)
{
    const int ranks[] = {1, 2};
    const rg_set_params params = {sizeof params, "pair"};
    (void)arg;
    if (set == NULL) {
        const rg_status rs = rg_set_create(ctx, ranks, 2, &params, &set);
        if (rs != RG_OK)
            return rs;
    }
    while (counter < 40) {
        int32_t one = 1;
        const rg_status rs =
            rg_generation(ctx) > 1 || rg_set_rank(set) >= 0
                ? rg_allreduce(set, &one, &one, 1, RG_I32, RG_SUM)
                : RG_OK;
        if (rs == RG_ERR_SET_ENDED) {
            say("set", rs);
            rg_set_destroy(set);
            return rs;
        }
        if (rs != RG_OK)
            return rs;
        counter++;
        usleep(5000);
        const rg_status end = rg_state_commit(st);
        if (end != RG_OK)
            return end;
    }
    return RG_OK;
}

static int set_ended(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    const rg_status st = rg_run(state, use_set, NULL);
    return st == RG_ERR_SET_ENDED ? 0 : say("rg_run", st);
}

static rg_status differ(rg_state *st, void *arg)
{
    int32_t in[2] = {1, 1};
    const int rank = rg_rank(ctx);
    (void)arg;
    const rg_status rs =
        rg_allreduce(rg_world(ctx), in, in, rank == 0 ? 1 : 2, RG_I32, RG_SUM);
    say("differ", rs);
    const rg_status again =
        rg_allreduce(rg_world(ctx), in, in, 2, RG_I32, RG_SUM);
    if (again != RG_OK)
        return again;
    printf("then %d\n", in[0]);
    return rank == 0 ? rg_step_end(st) : rg_state_commit(st);
}

static int ranks_differ(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    return say("rg_run", rg_run(state, differ, NULL));
}

static rg_status step_slowly(rg_state *st, void *arg)
{
    (void)arg;
    while (counter < 200) {
        int64_t one = 1;
        rg_status rs =
            rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I64, RG_SUM);
        counter++;
        usleep(5000);
        if (rs == RG_OK)
            rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

static int train_with(const char *first, const char *second, const char *third)
{
    static uint64_t other[2];
    const char *names[] = {first, second, third};
    uint64_t *data[] = {&counter, &other[0], &other[1]};
    for (int i = 0; i < 3 && names[i] != NULL; i++)
        rg_state_add(state, names[i], data[i], sizeof counter, NULL);
    return say("rg_run", rg_run(state, step_slowly, NULL));
}

/* Slot 1 registers one buffer more than the others. */
static int uneven(void)
{
    init(1);
    return train_with("w", "v", rg_slot(ctx) == 1 ? "extra" : NULL);
}

/* The same, once the job has commits: its first process dies. */
static int uneven_later(void)
{
    const int is_again = access("slot-1-has-run", F_OK) == 0;
    init(1);
    if (rg_slot(ctx) == 1 && !is_again) {
        FILE *flag = fopen("slot-1-has-run", "w");
        if (flag != NULL)
            fclose(flag);
    }
    return train_with("w", "v", rg_slot(ctx) == 1 && is_again ? "extra" : NULL);
}

/* Rank 1 returns from fn at a step that the others go on behind. */
static rg_status return_early(rg_state *st, void *arg)
{
    const uint64_t last = *(const uint64_t *)arg;
    while (counter < 20 && (rg_rank(ctx) != 1 || counter < last)) {
        counter++;
        const rg_status rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

static int return_at(uint64_t last)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    return say("rg_run", rg_run(state, return_early, &last));
}

static int returns_at_once(void)
{
    return return_at(0);
}

static int returns_early(void)
{
    return return_at(7);
}

static rg_status return_before_a_sum(rg_state *st, void *arg)
{
    int64_t one = 1;
    (void)st;
    (void)arg;
    return rg_rank(ctx) == 1
               ? RG_OK
               : rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I64, RG_SUM);
}

static int returns_in_a_step(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    return say("rg_run", rg_run(state, return_before_a_sum, NULL));
}

/* Slot 1 dies in its first step, once all are in fn; the others try again and
 * again instead of returning, until they have done so for two seconds. */
static rg_status try_again(rg_state *st, void *arg)
{
    int64_t one = 1;
    rg_status rs = RG_OK;
    (void)arg;
    if (rg_slot(ctx) == 1 && rg_generation(ctx) == 1) {
        rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I64, RG_SUM);
        raise(SIGKILL);
    }
    for (int i = 0; i < 300 && rg_generation(ctx) == 1; i++) {
        rs = rg_allreduce(rg_world(ctx), &one, &one, 1, RG_I64, RG_SUM);
        usleep(10000);
    }
    return rs == RG_OK ? rg_state_commit(st) : rs;
}

static int tries_again(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    return say("rg_run", rg_run(state, try_again, NULL));
}

/* Equal names and sizes, in another order. */
static int other_order(void)
{
    init(1);
    return rg_slot(ctx) == 1 ? train_with("v", "w", NULL)
                             : train_with("w", "v", NULL);
}

/* From a step on each rank has other statistics than the others. */
static uint64_t stats[100], running[100], still[100], table[100];
static char *large_end; /* of a buffer that differs there; NULL: none */

static rg_status gather_statistics(rg_state *st, void *arg)
{
    const uint64_t from = *(const uint64_t *)arg;
    while (counter < 30) {
        counter++;
        stats[99] = counter < from ? counter : counter + (uint64_t)rg_slot(ctx);
        running[99] = counter + (uint64_t)rg_slot(ctx);
        if (large_end != NULL)
            *large_end = (char)(counter + (uint64_t)rg_slot(ctx));
        const rg_status rs = rg_state_commit(st);
        if (rs == RG_ERR_MISMATCH) {
            say("commit", rs);
            usleep(300000); /* the first to leave ends it for the others */
        }
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

static int train_with_statistics(uint64_t from)
{
    const rg_buffer_params may = {.size = sizeof may, .may_differ = 1};
    const rg_buffer_params constant = {.size = sizeof constant, .constant = 1};
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    rg_state_add(state, "stats", stats, sizeof stats, NULL);
    rg_state_add(state, "running", running, sizeof running, &may);
    rg_state_add(state, "still", still, sizeof still, NULL);
    rg_state_add(state, "table", table, sizeof table, &constant);
    return say("rg_run", rg_run(state, gather_statistics, &from));
}

static int state_differs(void)
{
    return train_with_statistics(1);
}

static int state_differs_late(void)
{
    return train_with_statistics(18);
}

/* More than one commit compares; the last byte differs. */
#define LARGE ((size_t)96 << 20)

static int large_differs(void)
{
    char *large = malloc(LARGE);
    init(1);
    if (large == NULL)
        return 1;
    memset(large, 'l', LARGE);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    rg_state_add(state, "large", large, LARGE, NULL);
    uint64_t from = 31; /* statistics are not registered */
    large_end = &large[LARGE - 1];
    const int code = say("rg_run", rg_run(state, gather_statistics, &from));
    free(large);
    return code;
}

#define TORN ((size_t)1 << 20)

static char *torn[2];

/* Each process begins with its own pid in both buffers. */
static rg_status compare_torn(rg_state *st, void *arg)
{
    (void)arg;
    printf("%s: of process %s and %s\n",
           strcmp(torn[0] + TORN / 2, torn[1] + TORN / 2) == 0 ? "whole"
                                                               : "torn",
           torn[0] + TORN / 2, torn[1] + TORN / 2);
    fflush(stdout);
    return rg_state_commit(st);
}

/* The first process of slot 0, which is rank 0, can't read its second buffer:
 * it dies while it broadcasts that, when the first has gone out. */
static int torn_broadcast(void)
{
    const int is_again = access("slot-0-has-run", F_OK) == 0;
    init(1);
    for (int i = 0; i < 2; i++) {
        torn[i] = mmap(NULL, TORN, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        snprintf(torn[i] + TORN / 2, 32, "%d", (int)getpid());
        rg_state_add(state, i == 0 ? "a" : "b", torn[i], TORN, NULL);
    }
    if (rg_slot(ctx) == 0 && !is_again) {
        FILE *flag = fopen("slot-0-has-run", "w");
        if (flag != NULL)
            fclose(flag);
        mprotect(torn[1], TORN, PROT_NONE);
    }
    return say("rg_run", rg_run(state, compare_torn, NULL));
}

static rg_status fail(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    return RG_ERR_NOT_MEMBER;
}

static int after_a_failed_run(void)
{
    int32_t one = 1, all[2];
    rg_req *req = NULL;
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    say("rg_run", rg_run(state, fail, NULL));
    printf("rank %d\n", rg_rank(ctx));
    say("start", rg_allreduce_start(rg_world(ctx), &one, &one, 1, RG_I32,
                                    RG_SUM, NULL, &req));
    say("gather", rg_allgather(rg_world(ctx), &one, all, 1, RG_I32));
    return 0;
}

/* In the first generation rank 1 dies when rank 0 has a group open, which so
 * leaves with it. */
static rg_status leave_a_group_open(rg_state *st, void *arg)
{
    static int32_t one = 1, sum;
    static rg_req *req;
    rg_req *left = req;
    (void)arg;
    req = NULL;
    if (left != NULL)
        say("left", rg_wait(&left, 0));
    if (rg_generation(ctx) == 1 && rg_rank(ctx) == 1 &&
        rg_state_commit(st) == RG_OK)
        raise(SIGKILL);
    rg_status rs = rg_group_start(ctx);
    if (rs == RG_OK)
        rs = rg_allreduce_start(rg_world(ctx), &one, &sum, 1, RG_I32, RG_SUM,
                                NULL, &req);
    while (rs == RG_OK && rg_generation(ctx) == 1)
        rs = rg_state_commit(st);
    if (rs == RG_OK)
        rs = rg_group_end(ctx);
    if (rs == RG_OK)
        rs = rg_wait(&req, -1);
    if (rs == RG_OK)
        printf("sum %d\n", sum);
    return rs;
}

static int group_left_open(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    return say("rg_run", rg_run(state, leave_a_group_open, NULL));
}

static rg_status end_with_a_group_open(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    return rg_group_start(ctx);
}

static int group_never_ended(void)
{
    init(1);
    return say("rg_run", rg_run(state, end_with_a_group_open, NULL));
}

static int init_of_two_kinds(void)
{
    const rg_params is_static = {sizeof is_static, 0};
    rg_ctx *other = NULL;
    init(1);
    return say("again", rg_init(&is_static, &other));
}

static rg_status return_what_it_kept(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    return RG_ERR_PEER_LOST; /* of a generation long ago */
}

static int status_kept(void)
{
    init(1);
    return say("run", rg_run(state, return_what_it_kept, NULL));
}

/* Slot 1 fails, and its process does other things then. */
static rg_status fail_in_slot_1(rg_state *st, void *arg)
{
    (void)arg;
    while (counter < 6) {
        double one = 1, sum = 0;
        if (rg_slot(ctx) == 1 && counter == 3)
            return RG_ERR_INVALID;
        rg_status rs =
            rg_allreduce(rg_world(ctx), &one, &sum, 1, RG_F64, RG_SUM);
        counter++;
        if (rs == RG_OK)
            rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

static int fails_and_stays(void)
{
    init(1);
    rg_state_add(state, "w", &counter, sizeof counter, NULL);
    const int code = say("run", rg_run(state, fail_in_slot_1, NULL));
    if (code != 0)
        pause();
    return code;
}

/* In the first generation the thread of rg_run ends in slot 1. */
static pthread_t trains;

static rg_status step_until_it_ends(rg_state *st, void (*end)(void))
{
    while (counter < 6) {
        double one = 1, sum = 0;
        rg_status rs =
            rg_allreduce(rg_world(ctx), &one, &sum, 1, RG_F64, RG_SUM);
        counter++;
        if (rs == RG_OK)
            rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
        if (rg_generation(ctx) == 1 && rg_slot(ctx) == 1 && counter == 3)
            end();
    }
    return RG_OK;
}

static void exit_thread(void)
{
    pthread_exit(NULL);
}

static void *cancel(void *arg)
{
    pthread_cancel(trains);
    return arg;
}

static void be_cancelled(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, cancel, NULL) == 0)
        pthread_join(thread, NULL);
}

static rg_status exit_in_slot_1(rg_state *st, void *arg)
{
    (void)arg;
    return step_until_it_ends(st, exit_thread);
}

static rg_status cancelled_in_slot_1(rg_state *st, void *arg)
{
    (void)arg;
    return step_until_it_ends(st, be_cancelled);
}

static int thread_exits(void)
{
    init(1);
    rg_state_add(state, "w", &counter, sizeof counter, NULL);
    return say("run", rg_run(state, exit_in_slot_1, NULL));
}

static int thread_is_cancelled(void)
{
    init(1);
    trains = pthread_self();
    rg_state_add(state, "w", &counter, sizeof counter, NULL);
    return say("run", rg_run(state, cancelled_in_slot_1, NULL));
}

static rg_status exit_alone(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    pthread_exit(NULL);
}

static int thread_exits_alone(void)
{
    init(1);
    return say("run", rg_run(state, exit_alone, NULL));
}

/* Nothing is given back while fn uses it. */
static rg_status give_back_in_fn(rg_state *st, void *arg)
{
    (void)arg;
    if (counter == 1) {
        say("finalize", rg_finalize(ctx));
        rg_state_destroy(st);
    }
    while (counter < 3) {
        counter++;
        const rg_status rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
        if (counter == 1)
            return give_back_in_fn(st, arg);
    }
    return RG_OK;
}

static int gives_back_in_fn(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    const int code = say("run", rg_run(state, give_back_in_fn, NULL));
    rg_state_destroy(state);
    return code == 0 ? say("at last", rg_finalize(ctx)) : code;
}

/* Rank 0 makes a set where the others end a step. */
static rg_status make_a_set_in_rank_0(rg_state *st, void *arg)
{
    const int ranks[] = {0, 1};
    (void)arg;
    if (rg_rank(ctx) == 0)
        return rg_set_create(ctx, ranks, 2, NULL, &set);
    return rg_state_commit(st);
}

static int one_makes_a_set(void)
{
    init(1);
    return say("run", rg_run(state, make_a_set_in_rank_0, NULL));
}

static rg_status return_a_number(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    return (rg_status)-777;
}

static int returns_a_number(void)
{
    init(1);
    return say("run", rg_run(state, return_a_number, NULL));
}

static int declares_rank_9(void)
{
    const int ranks[] = {0, 9};
    init(1);
    say("declare", rg_set_create(ctx, ranks, 2, NULL, &set));
    return say("run", rg_run(state, step_slowly, NULL));
}

static rg_status commit_often(rg_state *st, void *arg)
{
    (void)arg;
    while (counter < 12) {
        counter++;
        const rg_status rs = rg_state_commit(st);
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}

static int odd_name(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    rg_state_add(state, "odd\nname", still, sizeof still, NULL);
    return say("run", rg_run(state, commit_often, NULL));
}

static int crashes_after_the_job(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    const int code = say("run", rg_run(state, commit_often, NULL));
    if (rg_slot(ctx) == 1)
        abort(); /* in writing the model */
    rg_finalize(ctx);
    return code;
}

static pid_t pids[2];

static rg_status tell_pids(rg_state *st, void *arg)
{
    const int32_t mine = getpid();
    const rg_status rs = rg_allgather(rg_world(ctx), &mine, pids, 1, RG_I32);
    return rs == RG_OK ? commit_often(st, arg) : rs;
}

/* Slot 0 ends with another code once slot 1 has ended. */
static int codes_after_the_job(void)
{
    init(1);
    rg_state_add(state, "counter", &counter, sizeof counter, NULL);
    const int code = say("run", rg_run(state, tell_pids, NULL));
    if (rg_slot(ctx) == 1)
        _exit(7);
    struct pollfd first = {
        .fd = (int)syscall(SYS_pidfd_open, pids[1 - rg_rank(ctx)], 0),
        .events = POLLIN};
    if (first.fd >= 0)
        poll(&first, 1, -1);
    _exit(code == 0 ? 5 : code);
}

/* Slot 1 of a static program fails, and its memory makes that take long; the
 * others end with another code as soon as they hear of it. */
#define SLOW_TO_END ((size_t)400 << 20)

static int one_fails_first(void)
{
    init(0);
    void *much = MAP_FAILED;
    if (rg_slot(ctx) == 1)
        much = mmap(NULL, SLOW_TO_END, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (much != MAP_FAILED) {
        madvise(much, SLOW_TO_END, MADV_NOHUGEPAGE); /* many small ones */
        memset(much, 1, SLOW_TO_END);
    }
    rg_status st = rg_barrier(rg_world(ctx));
    if (rg_slot(ctx) == 1)
        _exit(st == RG_OK ? 44 : 3);
    st = rg_barrier(rg_world(ctx));
    return say("barrier", st);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {{"registered_twice", registered_twice},
                 {"other_size", other_size},
                 {"too_large", too_large},
                 {"before_the_door", before_the_door},
                 {"set_ended", set_ended},
                 {"ranks_differ", ranks_differ},
                 {"after_a_failed_run", after_a_failed_run},
                 {"group_left_open", group_left_open},
                 {"group_never_ended", group_never_ended},
                 {"init_of_two_kinds", init_of_two_kinds},
                 {"status_kept", status_kept},
                 {"uneven", uneven},
                 {"uneven_later", uneven_later},
                 {"other_order", other_order},
                 {"returns_at_once", returns_at_once},
                 {"returns_early", returns_early},
                 {"returns_in_a_step", returns_in_a_step},
                 {"tries_again", tries_again},
                 {"torn_broadcast", torn_broadcast},
                 {"state_differs", state_differs},
                 {"state_differs_late", state_differs_late},
                 {"large_differs", large_differs},
                 {"fails_and_stays", fails_and_stays},
                 {"thread_exits", thread_exits},
                 {"thread_is_cancelled", thread_is_cancelled},
                 {"thread_exits_alone", thread_exits_alone},
                 {"gives_back_in_fn", gives_back_in_fn},
                 {"one_makes_a_set", one_makes_a_set},
                 {"returns_a_number", returns_a_number},
                 {"declares_rank_9", declares_rank_9},
                 {"odd_name", odd_name},
                 {"crashes_after_the_job", crashes_after_the_job},
                 {"codes_after_the_job", codes_after_the_job},
                 {"one_fails_first", one_fails_first}};
    for (size_t i = 0; argc == 2 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    return 64;
}
