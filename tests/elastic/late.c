/* Operations with a deadline whose last member comes too late: in the first
 * generation slot 1 starts none of them before that has ended. Each rank prints
 * what it got; in the next generation all must be right again.
 *
 *   late MODE
 *
 * elastic  a small allreduce on a set that is not the world
 * behind   the same behind a barrier, on a set with the longest of names
 * default  the same as `elastic` without a deadline of its own
 *          (REGROUP_OP_TIMEOUT)
 * inside   a large one on the world, in the middle of which slot 1 is stopped
 *          by the test's failpoint
 * create   slot 1 does not make a set that the others make, under the default
 *          deadline
 * static   as `elastic`, in a static program */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup.h"

#define SMALL 3
#define LARGE (1u << 20)

/* A dump may still trace a worker as it ends; LeakSanitizer has to as well. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

typedef struct job {
    rg_ctx *ctx;
    const char *mode;
    rg_set *pair; /* slots 1 and 0, in that order */
    uint64_t steps;
    int64_t *data;
} job;

static bool is(const job *j, const char *mode)
{
    return strcmp(j->mode, mode) == 0;
}

static rg_status make_pair(job *j)
{
    static const int ranks[] = {1, 0};
    const rg_set_params params = {
        .size = sizeof params,
        .name = is(j, "behind") ? "a_pair_whose_name_has_31_bytes_" : "pair"};
    rg_set *set = NULL;
    const rg_status st = rg_set_create(j->ctx, ranks, 2, &params, &set);
    if (st != RG_OK)
        return st;
    if (j->pair != NULL && j->pair != set && !is(j, "inside"))
        printf("another handle\n");
    j->pair = set;
    return RG_OK;
}

static rg_status tell(const job *j, const char *what, rg_status st)
{
    printf("%s slot %d: %s: %s\n", what, rg_slot(j->ctx), rg_status_name(st),
           rg_last_error());
    fflush(stdout);
    return st;
}

/* Counts members, with that deadline. */
static rg_status count(job *j, rg_set *set, uint64_t n, int timeout_ms)
{
    rg_req *req = NULL;
    const rg_op_params params = {.size = sizeof params,
                                 .timeout_ms = timeout_ms};
    for (uint64_t i = 0; i < n; i++)
        j->data[i] = 1;
    rg_status st = rg_allreduce_start(set, j->data, j->data, n, RG_I64, RG_SUM,
                                      timeout_ms > 0 ? &params : NULL, &req);
    if (st == RG_OK)
        st = rg_wait(&req, -1);
    if (st == RG_OK && j->data[n - 1] != rg_set_size(set))
        printf("a wrong sum\n");
    return st;
}

/* The set of all but slot 1, which has other things to do. */
static rg_status make_without(job *j)
{
    static const int ranks[] = {0, 2};
    rg_set *set = NULL;
    rg_req *req = NULL;
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 60000};
    if (rg_slot(j->ctx) != 1)
        return rg_set_create(j->ctx, ranks, 2, NULL, &set);
    const rg_status st = rg_barrier_start(j->pair, &params, &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

/* Where slot 0 does not wait for the workers that come here. */
static rg_status wait_elsewhere(job *j)
{
    rg_req *req = NULL;
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 60000};
    const rg_status st = rg_barrier_start(rg_world(j->ctx), &params, &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

static rg_status come_behind(job *j)
{
    rg_req *before = NULL;
    rg_status st = rg_barrier_start(j->pair, NULL, &before);
    if (st != RG_OK)
        return st;
    st = tell(j, "first", count(j, j->pair, SMALL, 300));
    rg_wait(&before, -1);
    return st;
}

static rg_status come_late(job *j)
{
    rg_status st;
    if (is(j, "behind") && rg_slot(j->ctx) == 0)
        return come_behind(j);
    if (is(j, "inside"))
        return tell(j, "first", count(j, rg_world(j->ctx), LARGE, 500));
    if (is(j, "create"))
        return tell(j, "first", make_without(j));
    if (rg_slot(j->ctx) == 0)
        st = count(j, j->pair, SMALL, is(j, "default") ? 0 : 300);
    else
        st = wait_elsewhere(j);
    return tell(j, "first", st);
}

static rg_status be_right(job *j)
{
    rg_status st = RG_OK;
    if (rg_set_rank(j->pair) >= 0)
        st = count(j, j->pair, SMALL, 30000);
    if (st == RG_OK)
        st = count(j, rg_world(j->ctx), LARGE, 30000);
    if (st == RG_OK)
        printf("right slot %d generation %d size %d\n", rg_slot(j->ctx),
               (int)rg_generation(j->ctx), rg_size(j->ctx));
    return st;
}

static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    (void)state;
    rg_status st = make_pair(j);
    if (st == RG_OK)
        st = rg_generation(j->ctx) == 1 ? come_late(j) : be_right(j);
    return st;
}

static rg_status run_elastic(job *j)
{
    rg_state *state = NULL;
    rg_status st = rg_state_create(j->ctx, NULL, &state);
    if (st == RG_OK)
        st = rg_state_add(state, "steps", &j->steps, sizeof j->steps, NULL);
    if (st == RG_OK)
        st = rg_run(state, train, j);
    rg_state_destroy(state);
    return st;
}

static rg_status run_static(job *j)
{
    const rg_status st = make_pair(j);
    return st == RG_OK ? come_late(j) : st;
}

int main(int argc, char **argv)
{
    job j = {.mode = argc > 1 ? argv[1] : "elastic",
             .data = calloc(LARGE, sizeof *j.data)};
    const rg_params params = {.size = sizeof params,
                              .elastic = !is(&j, "static")};
    rg_status st = j.data == NULL ? RG_ERR_MEMORY : rg_init(&params, &j.ctx);
    if (st == RG_OK)
        st = is(&j, "static") ? run_static(&j) : run_elastic(&j);
    if (st != RG_OK)
        fprintf(stderr, "late: %s\n", rg_last_error());
    rg_finalize(j.ctx);
    free(j.data);
    return st == RG_OK ? 0 : 3;
}
