/* Train a 64-32-10 network on handwritten digits, with workers that come and
 * go.
 *
 *   regroup run --min 1 --max 4 build/dev/bin/elastic_digits --step-ms 20
 *
 * Rank 0 prints its progress and the result, after its worker's name:
 *
 *   step 120 loss 0.0310 accuracy 0.9443 (generation 1, 4 workers)
 *   final accuracy 0.9721 state 17a38c66e8ca2749
 *
 * Kill a worker meanwhile: the others step on with one worker less, a
 * replacement joins, and accuracy and state come out the same, to the last bit
 * (with --float not to the last bit). With `--checkpoint-dir DIR` after `run`
 * the whole job may even be killed at once: the same command goes on from the
 * newest checkpoint. The network is in digits_net.h. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <regroup/regroup.h>

#include "digits_net.h"

#ifndef DIGITS_CSV
#define DIGITS_CSV "examples/data/digits.csv"
#endif

typedef struct job {
    int epochs, batch, step_ms, commit_every, print_every;
    const char *path;
    digits data;
    rg_ctx *ctx;
    rg_sampler *sampler;
    sums sums;   /* of this rank's samples, then of the whole batch */
    model model; /* registered: it outlives every worker */
} job;

/* Add up the gradients of this rank's part of the batch. */
static rg_status compute(job *j, uint64_t epoch, uint64_t step)
{
    const uint64_t *index = NULL;
    uint64_t n = 0;
    rg_status st = rg_sampler_take(j->sampler, epoch, step, rg_rank(j->ctx),
                                   rg_size(j->ctx), &index, &n);
    if (st != RG_OK)
        return st;
    digits_clear(&j->sums);
    for (uint64_t i = 0; i < n; i++)
        digits_add(&j->sums, &j->model, &j->data.train[index[i]]);
    const struct timespec more = {j->step_ms / 1000,
                                  j->step_ms % 1000 * 1000000L};
    nanosleep(&more, NULL); /* as if the network were larger */
    return RG_OK;
}

static rg_status step(rg_state *state, job *j)
{
    const uint64_t steps = rg_sampler_steps(j->sampler);
    const uint64_t epoch = j->model.step / steps, k = j->model.step % steps;
    rg_status st = compute(j, epoch, k);
    if (st != RG_OK)
        return st;
    st = rg_allreduce(rg_world(j->ctx), j->sums.data, j->sums.data, SUMS,
                      j->sums.is_float ? RG_F32 : RG_I64, RG_SUM);
    if (st != RG_OK)
        return st;
    digits_apply(&j->model, &j->sums, rg_sampler_batch_size(j->sampler, k));
    return j->model.step % (uint64_t)j->commit_every == 0
               ? rg_state_commit(state)
               : rg_step_end(state);
}

/* Called once for each step that counts, with the newest step's model. */
static void report(rg_state *state, uint64_t step, void *arg)
{
    const job *j = arg;
    if (rg_rank(j->ctx) != 0 || step != rg_state_step(state) ||
        step % (uint64_t)j->print_every != 0)
        return;
    printf("step %" PRIu64 " loss %.4f accuracy %.4f (generation %" PRIu64
           ", %d workers)\n",
           j->model.step, j->model.loss, digits_accuracy(&j->model, &j->data),
           rg_generation(j->ctx), rg_size(j->ctx));
    fflush(stdout);
}

/* The one rule: return every status that is not RG_OK. It is called again from
 * the top after every change, with the model as the last commit has it. */
static rg_status train(rg_state *state, void *arg)
{
    job *j = arg;
    const uint64_t steps = rg_sampler_steps(j->sampler) * (uint64_t)j->epochs;
    rg_status st = RG_OK;
    while (st == RG_OK && j->model.step < steps)
        st = step(state, j);
    return st;
}

/* From the newest checkpoint, if there is one. */
static rg_status load(rg_state *state)
{
    uint64_t step;
    const rg_status st = rg_state_load(state, NULL, &step);
    return st == RG_ERR_NOT_FOUND ? RG_OK : st;
}

/* What has to be done only once, and then the loop. */
static rg_status run(job *j, rg_state **state_p)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    const rg_sampler_params samples = {.size = sizeof samples,
                                       .count = j->data.train_count,
                                       .batch = (uint64_t)j->batch,
                                       .seed = 7};
    rg_status st = rg_init(&params, &j->ctx);
    if (st == RG_OK)
        st = rg_state_create(j->ctx, NULL, state_p);
    if (st == RG_OK)
        st = rg_state_add(*state_p, "model", &j->model, sizeof j->model, NULL);
    if (st == RG_OK)
        st = rg_state_on_commit(*state_p, report, j);
    if (st == RG_OK)
        st = load(*state_p);
    if (st == RG_OK)
        st = rg_alloc(j->ctx, SUMS * sizeof(int64_t), NULL, &j->sums.data);
    if (st == RG_OK)
        st = rg_sampler_create(*state_p, &samples, &j->sampler);
    return st == RG_OK ? rg_run(*state_p, train, j) : st;
}

/* -1: a flag is not understood. */
static int read_flags(int argc, char **argv, job *j)
{
    int *const number[] = {&j->epochs, &j->batch, &j->step_ms, &j->commit_every,
                           &j->print_every};
    static const struct option flags[] = {
        {"epochs", required_argument, NULL, 0},
        {"batch", required_argument, NULL, 1},
        {"step-ms", required_argument, NULL, 2},
        {"commit-every", required_argument, NULL, 3},
        {"print-every", required_argument, NULL, 4},
        {"data", required_argument, NULL, 'd'},
        {"float", no_argument, NULL, 'f'},
        {0}};
    for (int c; (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (c == 'd')
            j->path = optarg;
        else if (c == 'f')
            j->sums.is_float = 1;
        else if (c < 5)
            *number[c] = atoi(optarg);
        else
            return -1;
    }
    return optind == argc && j->epochs > 0 && j->batch > 0 && j->step_ms >= 0 &&
                   j->commit_every > 0 && j->print_every > 0
               ? 0
               : -1;
}

int main(int argc, char **argv)
{
    static job j = {.epochs = 20,
                    .batch = 64,
                    .commit_every = 1,
                    .print_every = 10,
                    .path = DIGITS_CSV};
    if (read_flags(argc, argv, &j) != 0) {
        fprintf(stderr, "usage: elastic_digits [--epochs N] [--batch N] "
                        "[--step-ms N] [--commit-every N] [--print-every N] "
                        "[--data FILE] [--float]\n");
        return 64;
    }
    if (digits_read(j.path, &j.data) != 0) {
        fprintf(stderr,
                "elastic_digits: can't read digits from %s; where is "
                "digits.csv? (--data)\n",
                j.path);
        return 1;
    }
    digits_init(&j.model);
    rg_state *state = NULL;
    rg_status st = run(&j, &state);
    if (st != RG_OK)
        fprintf(stderr, "elastic_digits: %s: %s\n", rg_status_text(st),
                rg_last_error());
    else if (rg_rank(j.ctx) == 0)
        printf("final accuracy %.4f state %016" PRIx64 "\n",
               digits_accuracy(&j.model, &j.data), digits_hash(&j.model));
    rg_sampler_destroy(j.sampler);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}
