/* Train a small GPT on GPUs, with workers that come and go: it reads a text
 * character by character, and learns which one comes next.
 *
 *   regroup run --min 1 --max 4 ./gpt_cuda --text data/harbour.txt
 *
 * (README.md says how to compile it.) Rank 0 prints the loss, which begins near
 * the logarithm of the number of characters, and at the end what the model
 * writes:
 *
 *   step 100 loss 2.2161 (generation 1, 4 workers)
 *   final loss 0.1824 state 8f0c6e26ba62e9b8
 *
 * Kill a worker meanwhile: the others keep their processes and their device
 * memory, and the final line is the same. The network is in gpt_net.cuh. */
#include <getopt.h>
#include <inttypes.h>

#include <regroup/regroup_cuda.h>

#include "gpt_net.cuh"

enum { TEXT_MAX = 1 << 20 /* the rest is not read */, WRITTEN = 240 };

typedef struct job {
    shape s;
    int batch, steps, commit_every, print_every;
    const char *path;
    unsigned char text[TEXT_MAX]; /* in numbers */
    int length;
    unsigned char character[CHARACTERS]; /* of a number */
    rg_ctx *ctx;
    rg_sampler *sampler;
    gpt net; /* its model is registered */
    unsigned char *text_there;
    uint64_t *index; /* where this rank's sequences begin in it */
} job;

/* --------------------------------------------------------------- the text */

/* Characters get numbers in the order of their codes. */
static void number_characters(job *j)
{
    unsigned char number[CHARACTERS] = {0};
    for (int i = 0; i < j->length; i++)
        number[j->text[i]] = 1;
    for (int c = 0; c < CHARACTERS; c++)
        if (number[c]) {
            j->character[j->s.V] = (unsigned char)c;
            number[c] = (unsigned char)j->s.V++;
        }
    for (int i = 0; i < j->length; i++)
        j->text[i] = number[j->text[i]];
}

/* -1: there is no text of that length. */
static int read_text(job *j)
{
    FILE *file = fopen(j->path, "r");
    if (file == NULL)
        return -1;
    j->length = (int)fread(j->text, 1, TEXT_MAX, file);
    fclose(file);
    number_characters(j);
    return j->length > j->s.T + j->batch ? 0 : -1;
}

/* --------------------------------------------------------------- the loop */

/* Where does this rank's part of the batch begin? */
static rg_status take_samples(job *j, uint64_t epoch, uint64_t step, int *n_p)
{
    const uint64_t *index = NULL;
    uint64_t n = 0;
    const rg_status st = rg_sampler_take(
        j->sampler, epoch, step, rg_rank(j->ctx), rg_size(j->ctx), &index, &n);
    if (st != RG_OK)
        return st;
    must(cudaMemcpyAsync(j->index, index, n * sizeof *index,
                         cudaMemcpyHostToDevice, j->net.stream),
         "copying the samples' places");
    *n_p = (int)n;
    return RG_OK;
}

/* In the kernels' stream: whatever comes after it sees the sums. */
static rg_status add_up(job *j)
{
    const rg_op_params on_device = {
        .size = sizeof on_device, .memory = RG_DEVICE, .stream = j->net.stream};
    return rg_allreduce_start(rg_world(j->ctx), j->net.sums, j->net.sums,
                              j->net.count + 1, RG_I64, RG_SUM, &on_device,
                              NULL);
}

/* Everything is only enqueued; the commit is the first call that waits. */
static rg_status step(rg_state *state, job *j)
{
    const uint64_t steps = rg_sampler_steps(j->sampler);
    const uint64_t now = rg_state_step(state);
    int n = 0;
    rg_status st = take_samples(j, now / steps, now % steps, &n);
    if (st != RG_OK)
        return st;
    gpt_forward(&j->net, j->text_there, j->index, n);
    gpt_backward(&j->net, j->text_there, j->index, n);
    st = add_up(j);
    if (st != RG_OK)
        return st;
    gpt_move(&j->net, now + 1, rg_sampler_batch_size(j->sampler, now % steps));
    return (now + 1) % (uint64_t)j->commit_every == 0 ? rg_state_commit(state)
                                                      : rg_step_end(state);
}

/* The one rule: return every status that is not RG_OK. It is called again from
 * the top after every change, with the model as the last commit has it. */
static rg_status train(rg_state *state, void *arg)
{
    job *j = (job *)arg;
    rg_status st = RG_OK;
    while (st == RG_OK && rg_state_step(state) < (uint64_t)j->steps)
        st = step(state, j);
    return st;
}

/* Called once for each step that counts, with the newest step's model. After a
 * commit the device is idle. */
static void report(rg_state *state, uint64_t step, void *arg)
{
    const job *j = (const job *)arg;
    if (rg_rank(j->ctx) != 0 || step != rg_state_step(state) ||
        step % (uint64_t)j->print_every != 0)
        return;
    printf("step %" PRIu64 " loss %.4f (generation %" PRIu64 ", %d workers)\n",
           step, gpt_loss(&j->net), rg_generation(j->ctx), rg_size(j->ctx));
    fflush(stdout);
}

static void say_end(const job *j)
{
    unsigned char written[WRITTEN];
    gpt_write(&j->net, j->text, written, WRITTEN);
    for (int i = 0; i < WRITTEN; i++)
        putchar(j->character[written[i]]);
    printf("\nfinal loss %.4f state %016" PRIx64 "\n", gpt_loss(&j->net),
           gpt_hash(&j->net));
}

/* ---------------------------------------------------------- the beginning */

/* On the device that rg_device_open has made the current one. */
static void fill_device(job *j)
{
    gpt_create(&j->net, j->s, j->batch);
    j->index = (uint64_t *)device_memory((uint64_t)j->batch * 8);
    j->text_there = (unsigned char *)device_memory((uint64_t)j->length);
    must(cudaMemcpy(j->text_there, j->text, (size_t)j->length,
                    cudaMemcpyHostToDevice),
         "copying the text");
}

static rg_status register_model(job *j, rg_state *state)
{
    const rg_buffer_params on_device = {.size = sizeof on_device,
                                        .memory = RG_DEVICE};
    return rg_state_add(state, "model", j->net.model, model_bytes(&j->net),
                        &on_device);
}

/* A sample is a place in the text: T characters, and the one after each. */
static rg_status make_sampler(job *j, rg_state *state)
{
    const rg_sampler_params samples = {.size = sizeof samples,
                                       .count = (uint64_t)(j->length - j->s.T),
                                       .batch = (uint64_t)j->batch,
                                       .seed = 7};
    return rg_sampler_create(state, &samples, &j->sampler);
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

static int is_fit(const job *j)
{
    return j->s.L > 0 && j->s.L <= LAYERS_MAX && j->s.H > 0 && j->s.C > 0 &&
           j->s.C % j->s.H == 0 && j->s.T > 0 && j->s.T <= POSITIONS_MAX &&
           j->batch > 0 && j->steps > 0 && j->commit_every > 0 &&
           j->print_every > 0;
}

/* -1: a flag is not understood. */
static int read_flags(int argc, char **argv, job *j)
{
    int *const number[] = {&j->s.L,          &j->s.C,        &j->s.H,
                           &j->s.T,          &j->batch,      &j->steps,
                           &j->commit_every, &j->print_every};
    static const struct option flags[] = {
        {"layers", required_argument, NULL, 0},
        {"channels", required_argument, NULL, 1},
        {"heads", required_argument, NULL, 2},
        {"positions", required_argument, NULL, 3},
        {"batch", required_argument, NULL, 4},
        {"steps", required_argument, NULL, 5},
        {"commit-every", required_argument, NULL, 6},
        {"print-every", required_argument, NULL, 7},
        {"text", required_argument, NULL, 't'},
        {0}};
    for (int c; (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (c == 't')
            j->path = optarg;
        else if (c < 8)
            *number[c] = atoi(optarg);
        else
            return -1;
    }
    return optind == argc && is_fit(j) ? 0 : -1;
}

int main(int argc, char **argv)
{
    static job j = {.s = {.L = 4, .C = 128, .H = 4, .T = 64, .V = 0},
                    .batch = 32,
                    .steps = 1000,
                    .commit_every = 10,
                    .print_every = 50,
                    .path = "examples/data/harbour.txt"};
    if (read_flags(argc, argv, &j) != 0) {
        fprintf(stderr,
                "usage: gpt_cuda [--layers N] [--channels N] [--heads N] "
                "[--positions N] [--batch N] [--steps N] [--commit-every N] "
                "[--print-every N] [--text FILE]; heads divide channels\n");
        return 64;
    }
    if (read_text(&j) != 0) {
        fprintf(stderr,
                "gpt_cuda: %s can't be read, or is too short for %d "
                "positions; which text is to be learnt? (--text)\n",
                j.path, j.s.T);
        return 1;
    }
    rg_state *state = NULL;
    rg_status st = run(&j, &state);
    if (st != RG_OK)
        fprintf(stderr, "gpt_cuda: %s: %s\n", rg_status_text(st),
                rg_last_error());
    else if (rg_rank(j.ctx) == 0)
        say_end(&j);
    rg_sampler_destroy(j.sampler);
    rg_state_destroy(state);
    rg_finalize(j.ctx);
    return rg_exit_code(st);
}
