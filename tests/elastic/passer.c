/* An elastic program whose ranks pass parts of a counter round by messages, as
 * the stages of a pipeline do, and say what they have got.
 *
 *   passer STEPS */
#include <stdio.h>
#include <stdlib.h>

#include "regroup/regroup.h"

#define LARGE ((uint64_t)1 << 19) /* numbers of 8 bytes */

typedef struct job {
    rg_ctx *ctx;
    uint64_t steps, step;
    uint64_t *out, *in;
} job;

static void fill(const job *j, int rank, uint64_t *at)
{
    for (uint64_t i = 0; i < LARGE; i++)
        at[i] = j->step * 1000003 + (uint64_t)rank * 77 + i;
}

static rg_status pass(job *j)
{
    rg_set *world = rg_world(j->ctx);
    const int n = rg_size(j->ctx), rank = rg_rank(j->ctx);
    rg_req *req[2] = {NULL, NULL};
    fill(j, rank, j->out);
    rg_status st = rg_send_start(world, j->out, LARGE, RG_U64, (rank + 1) % n,
                                 NULL, &req[0]);
    if (st == RG_OK)
        st = rg_recv_start(world, j->in, LARGE, RG_U64, (rank + n - 1) % n,
                           NULL, NULL, &req[1]);
    const rg_status all = rg_wait_all(req, 2, -1);
    st = st != RG_OK ? st : all;
    if (st != RG_OK)
        return st;
    fill(j, (rank + n - 1) % n, j->out);
    for (uint64_t i = 0; i < LARGE; i++)
        if (j->in[i] != j->out[i]) {
            printf("wrong at step %llu\n", (unsigned long long)j->step);
            return RG_ERR_INVALID;
        }
    return RG_OK;
}

static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    rg_status st = RG_OK;
    while (st == RG_OK && j->step < j->steps) {
        st = pass(j);
        if (st != RG_OK)
            break;
        j->step++;
        st = rg_state_commit(state);
    }
    if (st == RG_OK)
        printf("passed %llu steps in generation %llu\n",
               (unsigned long long)j->step,
               (unsigned long long)rg_generation(j->ctx));
    else
        printf("%s: %s\n", rg_status_name(st), rg_last_error());
    fflush(stdout);
    return st;
}

int main(int argc, char **argv)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    static job j;
    rg_state *state = NULL;
    j.steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    j.out = malloc(LARGE * sizeof *j.out);
    j.in = malloc(LARGE * sizeof *j.in);
    rg_status st = rg_init(&params, &j.ctx);
    if (st == RG_OK)
        st = rg_state_create(j.ctx, NULL, &state);
    if (st == RG_OK)
        st = rg_state_add(state, "step", &j.step, sizeof j.step, NULL);
    if (st == RG_OK)
        st = rg_run(state, train, &j);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    free(j.out);
    free(j.in);
    return rg_exit_code(st);
}
