/* Train the digits of 03 on GPUs, with workers that come and go.
 *
 *   regroup run --min 1 --max 4 ./elastic_cuda --data data/digits.csv
 *
 * (README.md says how to compile it.) Each worker has one GPU. The model is in
 * device memory and registered there; NCCL adds up the gradients in the
 * kernels' stream. Rank 0 prints what elastic_digits prints:
 *
 *   step 120 loss 0.0310 accuracy 0.9443 (generation 1, 4 workers)
 *   final accuracy 0.9721 state 17a38c66e8ca2749
 *
 * Kill a worker meanwhile: the others keep their processes and their device
 * memory, and accuracy and state come out the same, to the last bit. The sums
 * are sums of integers (digits_net.h), and every kernel adds in a fixed
 * order. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>
#include <regroup/regroup_cuda.h>

#include "digits_net.h"

#define THREADS 128 /* in a block */

/* What the forward pass of a sample leaves for its gradient. */
typedef struct trace {
    float hidden[HIDDEN], back[HIDDEN], off[OUT], loss;
} trace;

typedef struct job {
    int epochs, batch, commit_every, print_every;
    const char *path;
    digits data;
    rg_ctx *ctx;
    rg_sampler *sampler;
    cudaStream_t stream;
    /* In device memory: */
    model *net;      /* registered */
    digit *train;    /* all samples */
    uint64_t *index; /* of this rank's samples in this step */
    trace *traces;   /* of each of them */
    int64_t *sums;   /* of their gradients, then of the whole batch's */
} job;

/* After a GPU failure this process can't go on. The others see its exit, and
 * the agent starts the slot again. */
static void must(cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess)
        return;
    fprintf(stderr, "elastic_cuda: %s: %s\n", what, cudaGetErrorString(rc));
    exit(1);
}

/* ---------------------------------------------------------------- kernels */

static int blocks(uint64_t threads)
{
    return (int)(threads / THREADS) + 1; /* none is no launch */
}

static __device__ uint64_t thread_number(void)
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* A thread for each sample: forward, and back to the hidden units. */
__global__ void pass(const model *net, const digit *train,
                     const uint64_t *index, uint64_t n, trace *traces)
{
    const uint64_t i = thread_number();
    if (i >= n)
        return;
    const digit *d = &train[index[i]];
    trace *t = &traces[i];
    float p[OUT];
    digits_predict(net, d, t->hidden, p);
    t->loss = -logf(fmaxf(p[d->is], 1e-30f));
    for (int o = 0; o < OUT; o++)
        t->off[o] = p[o] - (o == d->is ? 1.0f : 0.0f);
    for (int h = 0; h < HIDDEN; h++) {
        float sum = 0;
        for (int o = 0; o < OUT; o++)
            sum += t->off[o] * net->weight[W2 + o * HIDDEN + h];
        t->back[h] = t->hidden[h] > 0 ? sum : 0;
    }
}

/* What a sample adds to sum k: to a weight's gradient, or to the loss. */
static __device__ float part(const trace *t, const digit *d, int k)
{
    if (k == LOSS)
        return t->loss;
    if (k >= B2)
        return t->off[k - B2];
    if (k >= W2)
        return t->off[(k - W2) / HIDDEN] * t->hidden[(k - W2) % HIDDEN];
    if (k >= B1)
        return t->back[k - B1];
    return t->back[k / IN] * d->pixel[k % IN];
}

/* A thread for each sum, over this rank's samples. */
__global__ void add_up(const digit *train, const uint64_t *index, uint64_t n,
                       const trace *traces, int64_t *sums)
{
    const int k = (int)thread_number();
    if (k >= SUMS)
        return;
    sums[k] = 0;
    for (uint64_t i = 0; i < n; i++)
        sums[k] += digits_fixed(part(&traces[i], &train[index[i]], k));
}

/* A thread for each sum: those of the whole batch become a step. */
__global__ void apply(model *net, const int64_t *sums, uint64_t n)
{
    const int k = (int)thread_number();
    if (k < WEIGHTS)
        digits_move(net, k, digits_fixed_mean(sums[k], n));
    else if (k == LOSS)
        digits_count(net, digits_fixed_mean(sums[k], n));
}

/* --------------------------------------------------------------- the loop */

/* Everything is enqueued in one stream, and nothing waits here: apply comes
 * after the allreduce in the stream, so it sees the sums of all ranks. */
static rg_status step(rg_state *state, job *j)
{
    const uint64_t steps = rg_sampler_steps(j->sampler);
    const uint64_t now = rg_state_step(state);
    const uint64_t *index = NULL;
    uint64_t n = 0;
    rg_status st =
        rg_sampler_take(j->sampler, now / steps, now % steps, rg_rank(j->ctx),
                        rg_size(j->ctx), &index, &n);
    if (st != RG_OK)
        return st;
    must(cudaMemcpyAsync(j->index, index, n * sizeof *index,
                         cudaMemcpyHostToDevice, j->stream),
         "copying the samples' numbers");
    pass<<<blocks(n), THREADS, 0, j->stream>>>(j->net, j->train, j->index, n,
                                               j->traces);
    add_up<<<blocks(SUMS), THREADS, 0, j->stream>>>(j->train, j->index, n,
                                                    j->traces, j->sums);
    const rg_op_params on_device = {
        .size = sizeof on_device, .memory = RG_DEVICE, .stream = j->stream};
    st = rg_allreduce_start(rg_world(j->ctx), j->sums, j->sums, SUMS, RG_I64,
                            RG_SUM, &on_device, NULL);
    if (st != RG_OK)
        return st;
    apply<<<blocks(SUMS), THREADS, 0, j->stream>>>(
        j->net, j->sums, rg_sampler_batch_size(j->sampler, now % steps));
    must(cudaGetLastError(), "launching kernels");
    return (now + 1) % (uint64_t)j->commit_every == 0 ? rg_state_commit(state)
                                                      : rg_step_end(state);
}

/* The one rule: return every status that is not RG_OK. It is called again from
 * the top after every change, with the model as the last commit has it. */
static rg_status train(rg_state *state, void *arg)
{
    job *j = (job *)arg;
    const uint64_t steps = rg_sampler_steps(j->sampler) * (uint64_t)j->epochs;
    rg_status st = RG_OK;
    while (st == RG_OK && rg_state_step(state) < steps)
        st = step(state, j);
    return st;
}

/* -------------------------------------------------------------- what it says
 */

static model look_at_model(const job *j)
{
    model net;
    must(cudaMemcpy(&net, j->net, sizeof net, cudaMemcpyDeviceToHost),
         "copying the model");
    return net;
}

/* Called once for each step that counts, with the newest step's model. After a
 * commit the device is idle. */
static void report(rg_state *state, uint64_t step, void *arg)
{
    const job *j = (const job *)arg;
    if (rg_rank(j->ctx) != 0 || step != rg_state_step(state) ||
        step % (uint64_t)j->print_every != 0)
        return;
    const model net = look_at_model(j);
    printf("step %" PRIu64 " loss %.4f accuracy %.4f (generation %" PRIu64
           ", %d workers)\n",
           net.step, net.loss, digits_accuracy(&net, &j->data),
           rg_generation(j->ctx), rg_size(j->ctx));
    fflush(stdout);
}

/* -------------------------------------------------------------- the beginning
 */

static void *on_device(uint64_t bytes, const void *content)
{
    void *at = NULL;
    must(cudaMalloc(&at, bytes), "taking device memory");
    if (content != NULL)
        must(cudaMemcpy(at, content, bytes, cudaMemcpyHostToDevice),
             "filling device memory");
    return at;
}

/* On the device that rg_device_open has made the current one. */
static void fill_device(job *j)
{
    static model net;
    digits_init(&net);
    j->net = (model *)on_device(sizeof net, &net);
    j->train =
        (digit *)on_device(j->data.train_count * sizeof(digit), j->data.train);
    j->index =
        (uint64_t *)on_device((uint64_t)j->batch * sizeof(uint64_t), NULL);
    j->traces = (trace *)on_device((uint64_t)j->batch * sizeof(trace), NULL);
    j->sums = (int64_t *)on_device(SUMS * sizeof(int64_t), NULL);
    must(cudaStreamCreate(&j->stream), "making a stream");
}

/* From the newest checkpoint, if there is one. */
static rg_status load(rg_state *state)
{
    uint64_t step;
    const rg_status st = rg_state_load(state, NULL, &step);
    return st == RG_ERR_NOT_FOUND ? RG_OK : st;
}

static rg_status register_model(job *j, rg_state *state)
{
    const rg_buffer_params on_device = {.size = sizeof on_device,
                                        .memory = RG_DEVICE};
    return rg_state_add(state, "model", j->net, sizeof *j->net, &on_device);
}

static rg_status make_sampler(job *j, rg_state *state)
{
    const rg_sampler_params samples = {.size = sizeof samples,
                                       .count = j->data.train_count,
                                       .batch = (uint64_t)j->batch,
                                       .seed = 7};
    return rg_sampler_create(state, &samples, &j->sampler);
}

/* What has to be done only once, and then the loop. */
static rg_status run(job *j, rg_state **state_p)
{
    const rg_params elastic = {.size = sizeof elastic, .elastic = 1};
    rg_status st = rg_init(&elastic, &j->ctx);
    if (st == RG_OK)
        st = rg_device_open(j->ctx, NULL);
    if (st != RG_OK)
        return st;
    fill_device(j);
    st = rg_state_create(j->ctx, NULL, state_p);
    if (st == RG_OK)
        st = register_model(j, *state_p);
    if (st == RG_OK)
        st = rg_state_on_commit(*state_p, report, j);
    if (st == RG_OK)
        st = load(*state_p);
    if (st == RG_OK)
        st = make_sampler(j, *state_p);
    return st == RG_OK ? rg_run(*state_p, train, j) : st;
}

/* -1: a flag is not understood. */
static int read_flags(int argc, char **argv, job *j)
{
    int *const number[] = {&j->epochs, &j->batch, &j->commit_every,
                           &j->print_every};
    static const struct option flags[] = {
        {"epochs", required_argument, NULL, 0},
        {"batch", required_argument, NULL, 1},
        {"commit-every", required_argument, NULL, 2},
        {"print-every", required_argument, NULL, 3},
        {"data", required_argument, NULL, 'd'},
        {0}};
    for (int c; (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (c == 'd')
            j->path = optarg;
        else if (c < 4)
            *number[c] = atoi(optarg);
        else
            return -1;
    }
    return optind == argc && j->epochs > 0 && j->batch > 0 &&
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
                    .path = "examples/data/digits.csv"};
    if (read_flags(argc, argv, &j) != 0) {
        fprintf(stderr, "usage: elastic_cuda [--epochs N] [--batch N] "
                        "[--commit-every N] [--print-every N] [--data FILE]\n");
        return 64;
    }
    if (digits_read(j.path, &j.data) != 0) {
        fprintf(stderr,
                "elastic_cuda: can't read digits from %s; where is "
                "digits.csv? (--data)\n",
                j.path);
        return 1;
    }
    rg_state *state = NULL;
    rg_status st = run(&j, &state);
    if (st != RG_OK) {
        fprintf(stderr, "elastic_cuda: %s: %s\n", rg_status_text(st),
                rg_last_error());
    } else if (rg_rank(j.ctx) == 0) {
        const model net = look_at_model(&j);
        printf("final accuracy %.4f state %016" PRIx64 "\n",
               digits_accuracy(&net, &j.data), digits_hash(&net));
    }
    rg_sampler_destroy(j.sampler);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}
