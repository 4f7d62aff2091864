/* Train a small GPT on processors, in plain C: a decoder that reads a text
 * character by character, and learns which one comes next. Its gradients are
 * reduced while backward is still running.
 *
 *   regroup run --min 1 --max 4 build/dev/bin/gpt
 *
 * Rank 0 prints the loss, which begins near the logarithm of the number of
 * characters:
 *
 *   step 50 loss 2.3496 (generation 1, 4 workers)
 *   final loss 1.2804 state 8b17df6002ddde6e
 *
 * Kill a worker meanwhile: a replacement joins, and the last line is the same
 * to the last bit. The network is in gpt_net.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <regroup/regroup.h>

#include "gpt_net.h"

#ifndef GPT_TEXT
#define GPT_TEXT "examples/data/harbour.txt"
#endif

enum { TEXT_MAX = 1 << 20 /* the rest is not read */, PRINT_EVERY = 50 };

/* ------------------------------------------------------------------- a job */

typedef struct job {
    int steps, batch, commit_every;
    const char *path;
    unsigned char text[TEXT_MAX]; /* in numbers below V */
    int length;
    rg_ctx *ctx;
    rg_sampler *sampler;
    rg_reducer *reducer;
    rg_status st; /* of the tensors that were ready in this step */
    model model;  /* registered: it outlives every worker */
    gpt gpt;
} job;

static void ready(void *arg, int tensor)
{
    job *j = arg;
    if (j->st == RG_OK)
        j->st = rg_reducer_ready(j->reducer, tensor);
}

static void begin_sums(job *j)
{
    *j->gpt.loss = 0;
    for (int k = 0; k < TENSORS; k++)
        memset(j->gpt.grad[k], 0, sizeof(double) * (size_t)size_of(k));
}

/* Forward and backward of this rank's samples. What the last backward leaves
 * behind is being reduced while it goes on. */
static rg_status reduce(job *j, uint64_t epoch, uint64_t step)
{
    const uint64_t *place = NULL;
    uint64_t n = 0;
    j->st = rg_sampler_take(j->sampler, epoch, step, rg_rank(j->ctx),
                            rg_size(j->ctx), &place, &n);
    if (j->st == RG_OK)
        j->st = rg_reducer_start_step(j->reducer);
    if (j->st != RG_OK)
        return j->st;
    begin_sums(j);
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *sample = j->text + place[i];
        gpt_forward(&j->gpt, sample);
        if (i == n - 1)
            ready(j, TENSORS); /* the loss */
        gpt_backward(&j->gpt, sample, i == n - 1 ? ready : NULL, j);
    }
    for (int k = TENSORS; n == 0 && k >= 0; k--)
        ready(j, k); /* more ranks than samples: zeros */
    return j->st == RG_OK ? rg_reducer_finish(j->reducer) : j->st;
}

static rg_status train_step(job *j, rg_state *state)
{
    const uint64_t steps = rg_sampler_steps(j->sampler);
    const uint64_t now = rg_state_step(state);
    rg_status st = reduce(j, now / steps, now % steps);
    if (st != RG_OK)
        return st;
    gpt_move(&j->gpt, now + 1, rg_sampler_batch_size(j->sampler, now % steps));
    st = rg_metric(state, "loss", j->model.loss, RG_AVG);
    if (st != RG_OK)
        return st;
    return (now + 1) % (uint64_t)j->commit_every == 0 ? rg_state_commit(state)
                                                      : rg_step_end(state);
}

/* Called once for each step that counts, with the newest step's model. */
static void report(rg_state *state, uint64_t step, void *arg)
{
    const job *j = arg;
    if (rg_rank(j->ctx) != 0 || step != rg_state_step(state) ||
        step % PRINT_EVERY != 0)
        return;
    printf("step %" PRIu64 " loss %.4f (generation %" PRIu64 ", %d workers)\n",
           step, j->model.loss, rg_generation(j->ctx), rg_size(j->ctx));
    fflush(stdout);
}

/* ----------------------------------------------------- beginning and end */

/* -1: there is no text of that length. */
static int read_text(job *j)
{
    FILE *file = fopen(j->path, "r");
    if (file == NULL)
        return -1;
    j->length = (int)fread(j->text, 1, TEXT_MAX, file);
    fclose(file);
    for (int i = 0; i < j->length; i++)
        j->text[i] = j->text[i] > ' ' + V - 2 ? V - 1
                     : j->text[i] >= ' '      ? j->text[i] - ' ' + 1
                                              : 0;
    return j->length > T + 1 ? 0 : -1;
}

/* The gradients live in the buckets, and so does the loss. */
static rg_status make_reducer(job *j)
{
    const rg_reducer_params params = {
        .size = sizeof params, .sum = 1, .bucket_bytes = 64 << 10};
    rg_status st = rg_reducer_create(rg_world(j->ctx), &params, &j->reducer);
    void *at = NULL;
    for (int k = 0; k <= TENSORS && st == RG_OK; k++) {
        char name[24];
        snprintf(name, sizeof name, "tensor%d", k);
        st = rg_reducer_add(j->reducer, k < TENSORS ? name : "loss", NULL,
                            k < TENSORS ? (uint64_t)size_of(k) : 1, RG_F64,
                            NULL);
    }
    for (int k = 0; k <= TENSORS && st == RG_OK; k++) {
        st = rg_reducer_tensor(j->reducer, k, &at);
        *(k < TENSORS ? &j->gpt.grad[k] : &j->gpt.loss) = at;
    }
    return st;
}

static rg_status prepare(job *j, rg_state **state_p)
{
    const rg_params elastic = {.size = sizeof elastic, .elastic = 1};
    const rg_sampler_params samples = {.size = sizeof samples,
                                       .count = (uint64_t)(j->length - T),
                                       .batch = (uint64_t)j->batch,
                                       .seed = 7};
    uint64_t step;
    rg_status st = rg_init(&elastic, &j->ctx);
    if (st == RG_OK)
        st = rg_state_create(j->ctx, NULL, state_p);
    if (st == RG_OK)
        st = rg_state_add(*state_p, "model", &j->model, sizeof j->model, NULL);
    if (st == RG_OK)
        st = rg_state_on_commit(*state_p, report, j);
    if (st == RG_OK)
        st = rg_state_load(*state_p, NULL, &step); /* the newest checkpoint */
    if (st == RG_OK || st == RG_ERR_NOT_FOUND)
        st = rg_sampler_create(*state_p, &samples, &j->sampler);
    return st == RG_OK ? make_reducer(j) : st;
}

static void say_end(const job *j)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    const unsigned char *bytes = (const unsigned char *)j->model.w;
    for (size_t i = 0; i < sizeof j->model.w; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    printf("final loss %.4f state %016" PRIx64 "\n", j->model.loss, hash);
}

/* -1: an argument is not understood. */
static int read_arguments(int argc, char **argv, job *j)
{
    int *const number[] = {&j->steps, &j->batch, &j->commit_every};
    for (int i = 1; i < argc && i <= 3; i++)
        if ((*number[i - 1] = atoi(argv[i])) < 1)
            return -1;
    if (argc > 4)
        j->path = argv[4];
    return argc <= 5 ? 0 : -1;
}

int main(int argc, char **argv)
{
    static job j = {
        .steps = 300, .batch = 16, .commit_every = 1, .path = GPT_TEXT};
    if (read_arguments(argc, argv, &j) != 0) {
        fprintf(stderr, "usage: gpt [STEPS [BATCH [COMMIT_EVERY [TEXT]]]]\n");
        return 64;
    }
    if (read_text(&j) != 0) {
        fprintf(stderr,
                "gpt: %s can't be read, or has fewer than %d characters; which "
                "text is to be learnt?\n",
                j.path, T + 2);
        return 1;
    }
    gpt_init(&j.gpt, &j.model);
    rg_state *state = NULL;
    rg_status st = prepare(&j, &state);
    while (rg_next(state, &st)) /* once in each generation */
        while (st == RG_OK && rg_state_step(state) < (uint64_t)j.steps)
            st = train_step(&j, state);
    if (st != RG_OK)
        fprintf(stderr, "gpt: %s: %s\n", rg_status_text(st), rg_last_error());
    else if (rg_rank(j.ctx) == 0)
        say_end(&j);
    rg_reducer_destroy(j.reducer);
    rg_sampler_destroy(j.sampler);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}
