/* The program that the fault tests run: a training without a model. Its state
 * is a vector of integers; each step adds up a function of the samples of a
 * global batch over all ranks and mixes the sum in. So the state after a step
 * does not depend on the size of the world, on which workers were lost, or
 * when.
 *
 * trainer [flags]       see usage() below
 *
 * Prints `final step N state HASH` on every rank that finishes. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "elastic/state/state.h"
#include "regroup/regroup.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/unseen.h"
#include "sdk/core/context.h"

#define SAMPLES 4096
#define BATCH   64
#define SUMS    64 /* numbers that a step adds up over all ranks */

typedef struct trainer {
    rg_ctx *ctx;
    rg_sampler *sampler;
    uint64_t steps, bytes, commit_every, coll_bytes, step_ms;
    uint64_t scribble_at, compute_at, compute_ms, ballast_mib, frozen_mib,
        sets_every;
    uint64_t files;
    uint64_t metrics; /* 1: each step gives some */
    uint64_t damage_at, damage_all, damage_id, over_first;
    uint64_t reserve_mib, reserve_at;
    uint64_t
        live_sets; /* lists of one rank that live all the time; 0: no sets */
    const char *until;   /* a file that ends the training; NULL: steps do */
    uint64_t is_over;    /* of the state: the file was seen by some rank */
    uint64_t save_every; /* 0: never by itself */
    uint64_t saved;      /* the newest durable step that was printed */
    uint64_t shard_bytes, replicas; /* of a sharded buffer; 0: none */
    uint64_t *shards;               /* room for all of it */
    uint64_t shards_hash;           /* of all ranks' parts, at the end */
    bool loads;
    bool uses_alloc, registers, is_static;
    bool has_open_loop; /* rg_next in place of rg_run */
    uint64_t *state;    /* [0] is the position: steps done */
    uint64_t words;
    int64_t *sums;
} trainer;

static void sleep_ms(uint64_t ms)
{
    const struct timespec t = {(time_t)(ms / 1000),
                               (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static void compute_for(uint64_t ms)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 +
               (now.tv_nsec - begin.tv_nsec) / 1000000 <
           (long)ms);
}

RG__UNSEEN static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

static rg_status add_samples(trainer *t, uint64_t step)
{
    const uint64_t per_epoch = rg_sampler_steps(t->sampler);
    const uint64_t *index;
    uint64_t n;
    const rg_status st =
        rg_sampler_take(t->sampler, step / per_epoch, step % per_epoch,
                        rg_rank(t->ctx), rg_size(t->ctx), &index, &n);
    if (st != RG_OK)
        return st;
    memset(t->sums, 0, t->coll_bytes);
    for (uint64_t i = 0; i < n; i++)
        for (int k = 0; k < SUMS; k++)
            t->sums[k] += (int64_t)(mix(index[i] * SUMS + (uint64_t)k) >> 32);
    return RG_OK;
}

/* One bit of the newest commit in this host's vault, or of every commit there,
 * in this rank's shard if there are any. */
static void damage_bytes(const rg_state *st, bool all)
{
    const rg__state_buffer *b = &st->buffer[st->has_shards ? 2 : 0];
    size_t begin = 0, end = 0;
    rg_state_slice(st, b->name, &begin, &end);
    for (int i = 0; i < st->slots; i++)
        if (all || i == st->vault_slot)
            b->vault[b->stride * (size_t)i + (begin + end) / 2] ^= 4;
}

/* One bit of the step that it says it is of. */
static void damage_id(const rg_state *st)
{
    rg__piece *piece = &st->ctx->vault->slot[st->vault_slot][0];
    atomic_fetch_xor(&piece->step, UINT64_C(1) << 16);
}

/* And this worker's end, so that others must read it. */
static void damage_vault(const trainer *t, const rg_state *st)
{
    if (t->damage_id != 0)
        damage_id(st);
    else
        damage_bytes(st, t->damage_all != 0);
    kill(getpid(), SIGKILL);
}

/* Memory that is only had. */
static rg_status reserve(const trainer *t)
{
    void *at = NULL;
    return t->reserve_mib == 0
               ? RG_OK
               : rg_alloc(t->ctx, t->reserve_mib << 20, NULL, &at);
}

static void harm(trainer *t, const rg_state *st, uint64_t step)
{
    if (step == t->damage_at && rg_slot(t->ctx) == 0 && t->ctx->me.start == 1 &&
        rg_host_index(t->ctx) == 0)
        damage_vault(t, st);
    if (step == t->compute_at && rg_rank(t->ctx) == rg_size(t->ctx) - 1) {
        t->compute_at = UINT64_MAX;
        compute_for(t->compute_ms);
    }
    if (step == t->reserve_at && rg_rank(t->ctx) == rg_size(t->ctx) - 1) {
        t->reserve_at = UINT64_MAX;
        printf("reserved: %s\n", rg_status_name(reserve(t)));
        fflush(stdout);
    }
    if (step == t->scribble_at && rg_slot(t->ctx) == 2 &&
        t->ctx->me.start == 1) {
        unsigned char *page = (unsigned char *)t->ctx->page;
        srand((unsigned)getpid());
        for (int i = 0; i < RG__PAGE_BYTES; i++)
            page[i] = (unsigned char)rand();
    }
}

/* Makes the set of the ranks of even number, adds its ranks up in it and gives
 * it back: for set creation in the middle of a training. */
static rg_status use_set(trainer *t)
{
    int ranks[1024], n = 0;
    for (int r = 0; r < rg_size(t->ctx) && n < 1024; r += 2)
        ranks[n++] = r;
    rg_set *set = NULL;
    rg_status rs = rg_set_create(t->ctx, ranks, n, NULL, &set);
    if (rs != RG_OK)
        return rs;
    int64_t sum = rg_rank(t->ctx);
    if (rg_rank(t->ctx) % 2 == 0)
        rs = rg_allreduce(set, &sum, &sum, 1, RG_I64, RG_SUM);
    if (rs == RG_OK && rg_rank(t->ctx) % 2 == 0 && sum != (int64_t)n * (n - 1))
        rs = RG_ERR_INVALID;
    rg_set_destroy(set);
    return rs;
}

static int pair_color(rg_ctx *ctx, void *arg)
{
    (void)arg;
    return rg_slot(ctx) / 2;
}

static rg_status make_list(trainer *t, const char *name, int keep,
                           const int *ranks, int n)
{
    const rg_set_params params = {
        .size = sizeof params, .name = name, .keep = keep};
    rg_set *set = NULL; /* rg_finalize gives it back */
    return rg_set_create(t->ctx, ranks, n, &params, &set);
}

/* Sets that live beside the training: a rule in every generation, and lists
 * from the first one on. */
static rg_status make_sets(trainer *t)
{
    static const int all[] = {3, 2, 1, 0}, some[] = {0, 2};
    const rg_set_params params = {.size = sizeof params, .name = "pairs"};
    rg_set *set = NULL;
    if (t->live_sets == 0)
        return RG_OK;
    rg_status rs = rg_set_create_by(t->ctx, pair_color, NULL, &params, &set);
    if (rs != RG_OK || rg_generation(t->ctx) != 1)
        return rs;
    rs = make_list(t, "kept", 1, all, 4);
    if (rs == RG_OK)
        rs = make_list(t, "stage", 0, some, 2);
    for (uint64_t i = 0; i < t->live_sets && rs == RG_OK; i++)
        rs = make_list(t, NULL, 0, some, 1);
    return rs;
}

/* This rank's part of the sharded buffer, in words. */
static rg_status find_part(const trainer *t, const rg_state *st,
                           uint64_t *begin, uint64_t *end)
{
    size_t from = 0, to = 0;
    *begin = *end = 0;
    if (t->shard_bytes == 0)
        return RG_OK;
    const rg_status rs = rg_state_slice(st, "shards", &from, &to);
    *begin = from / 8;
    *end = to / 8;
    return rs;
}

static rg_status mix_part(trainer *t, const rg_state *st)
{
    uint64_t begin, end;
    const rg_status rs = find_part(t, st, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        t->shards[i] = mix(t->shards[i] + (uint64_t)t->sums[i % SUMS] + i);
    return rs;
}

/* The parts of all ranks, wherever they are. */
static rg_status hash_parts(trainer *t, const rg_state *st)
{
    uint64_t begin, end;
    int64_t sum = 0;
    rg_status rs = find_part(t, st, &begin, &end);
    for (uint64_t i = begin; i < end; i++)
        sum = (int64_t)((uint64_t)sum + mix(t->shards[i] + i));
    if (rs == RG_OK && t->shard_bytes > 0)
        rs = rg_allreduce(rg_world(t->ctx), &sum, &sum, 1, RG_I64, RG_SUM);
    t->shards_hash = (uint64_t)sum;
    return rs;
}

/* Their values follow from the step and the size of the world. */
static rg_status give_metrics(const trainer *t, rg_state *st, uint64_t step)
{
    const double at = (double)step, rank = rg_rank(t->ctx);
    if (t->metrics == 0)
        return RG_OK;
    rg_status rs = rg_metric(st, "step/3", 7, RG_AVG);
    if (rs == RG_OK)
        rs = rg_metric(st, "ranks", 1, RG_SUM);
    if (rs == RG_OK)
        rs = rg_metric(st, "least", at + rank, RG_MIN);
    if (rs == RG_OK)
        rs = rg_metric(st, "most", rank - at, RG_MAX);
    return rs == RG_OK ? rg_metric(st, "step/3", at / 3, RG_AVG) : rs;
}

RG__UNSEEN static void mix_state(trainer *t)
{
    RG__READS(t->sums, SUMS * sizeof *t->sums);
    RG__WRITES(t->state, t->words * sizeof *t->state);
    for (uint64_t i = 1; i < t->words; i++)
        t->state[i] = mix(t->state[i] + (uint64_t)t->sums[i % SUMS] + i);
}

static rg_status one_step(trainer *t, rg_state *st)
{
    const uint64_t step = t->state[0];
    rg__failpoint("idle", rg_rank(t->ctx), step + 1, rg_generation(t->ctx));
    rg_status rs = add_samples(t, step);
    if (rs == RG_OK && t->sets_every > 0 && (step + 1) % t->sets_every == 0)
        rs = use_set(t);
    if (rs != RG_OK)
        return rs;
    harm(t, st, step + 1);
    if (t->step_ms > 0)
        sleep_ms(t->step_ms);
    if (t->until != NULL)
        t->sums[SUMS] = access(t->until, F_OK) == 0;
    rs = rg_allreduce(rg_world(t->ctx), t->sums, t->sums, t->coll_bytes / 8,
                      RG_I64, RG_SUM);
    if (rs != RG_OK)
        return rs;
    t->is_over = t->until != NULL && t->sums[SUMS] > 0;
    rs = mix_part(t, st);
    if (rs != RG_OK)
        return rs;
    mix_state(t);
    t->state[0] = step + 1;
    rs = give_metrics(t, st, step + 1);
    if (rs != RG_OK)
        return rs;
    if (t->save_every > 0 && t->state[0] % t->save_every == 0)
        return rg_state_save(st, NULL, NULL);
    return t->state[0] % t->commit_every == 0 ? rg_state_commit(st)
                                              : rg_step_end(st);
}

static void print_saved(trainer *t, rg_state *st)
{
    uint64_t step = 0;
    if (rg_state_saved(st, &step) != RG_OK || step == t->saved)
        return;
    printf("saved step %" PRIu64 "\n", step);
    fflush(stdout);
    t->saved = step;
}

static rg_status train(rg_state *st, void *arg)
{
    trainer *t = arg;
    const rg_status made = make_sets(t);
    if (made != RG_OK)
        return made;
    while (t->until != NULL ? t->is_over == 0 : t->state[0] < t->steps) {
        const rg_status rs = one_step(t, st);
        if (rs != RG_OK)
            return rs;
        print_saved(t, st);
    }
    return hash_parts(t, st);
}

static uint64_t hash_of(const trainer *t)
{
    uint64_t h = t->shards_hash;
    for (uint64_t i = 0; i < t->words; i++)
        h = mix(h + t->state[i] + i);
    return h;
}

static int complain(const char *what)
{
    fprintf(stderr, "trainer: %s: %s\n", what, rg_last_error());
    return 3;
}

static rg_status add_shards(trainer *t, rg_state *st)
{
    const rg_buffer_params params = {.size = sizeof params,
                                     .kind = RG_SHARDED,
                                     .replicas = (int)t->replicas};
    if (t->shard_bytes == 0)
        return RG_OK;
    return rg_state_add(st, "shards", t->shards, t->shard_bytes, &params);
}

static char *ballast; /* memory that takes long to free, to dump or to copy */

static void hold_ballast(const trainer *t)
{
    const size_t bytes = (size_t)(t->ballast_mib + t->frozen_mib) << 20;
    ballast = bytes > 0 ? malloc(bytes) : NULL;
    for (size_t i = 0; ballast != NULL && i < bytes; i += 4096)
        ballast[i] = (char)i;
}

/* In the order that is asked for. */
static rg_status add_buffers(trainer *t, rg_state *st)
{
    const rg_buffer_params constant = {.size = sizeof constant, .constant = 1};
    rg_status rs = RG_OK;
    for (uint64_t i = 0; i < 2 && rs == RG_OK; i++)
        rs = i == t->over_first
                 ? rg_state_add(st, "state", t->state, t->words * 8, NULL)
                 : rg_state_add(st, "over", &t->is_over, 8, &constant);
    if (rs == RG_OK && t->frozen_mib > 0)
        rs =
            rg_state_add(st, "frozen", ballast, t->frozen_mib << 20, &constant);
    return rs == RG_OK ? add_shards(t, st) : rs;
}

static int train_in(trainer *t)
{
    rg_state *st = NULL;
    if (rg_state_create(t->ctx, NULL, &st) != RG_OK ||
        add_buffers(t, st) != RG_OK)
        return complain("state");
    uint64_t loaded = 0;
    const rg_status found =
        t->loads ? rg_state_load(st, NULL, &loaded) : RG_ERR_NOT_FOUND;
    if (found != RG_OK && found != RG_ERR_NOT_FOUND)
        return complain("rg_state_load");
    if (found == RG_OK)
        printf("loaded step %" PRIu64 "\n", loaded);
    const rg_sampler_params sampler = {
        .size = sizeof sampler, .count = SAMPLES, .batch = BATCH, .seed = 7};
    if (rg_sampler_create(st, &sampler, &t->sampler) != RG_OK)
        return complain("sampler");
    rg_status rs = RG_OK;
    if (!t->has_open_loop)
        rs = rg_run(st, train, t);
    else
        while (rg_next(st, &rs))
            rs = train(st, t);
    int code = 0;
    if (rs != RG_OK)
        code = complain("rg_run");
    else
        printf("final step %" PRIu64 " state %016" PRIx64 "\n", t->state[0],
               hash_of(t));
    rg_sampler_destroy(t->sampler);
    rg_state_destroy(st);
    return code;
}

static rg_status allocate(trainer *t)
{
    t->words = t->bytes / 8 > 1 ? t->bytes / 8 : 2;
    t->state = calloc(t->words, 8);
    t->shard_bytes = t->shard_bytes / 8 * 8;
    t->shards = calloc(t->shard_bytes / 8 + 1, 8);
    void *sums = NULL;
    rg_status st = RG_OK;
    if (t->uses_alloc)
        st = rg_alloc(t->ctx, t->coll_bytes, NULL, &sums);
    else
        sums = calloc(1, t->coll_bytes);
    t->sums = sums;
    if (t->registers && sums != NULL)
        st = rg_register(t->ctx, sums, t->coll_bytes);
    if (t->state == NULL || t->shards == NULL || (st == RG_OK && sums == NULL))
        return RG_ERR_MEMORY;
    return st;
}

/* As many as the limit lets it, if that is less. */
static void open_files(const trainer *t)
{
    for (uint64_t i = 0; i < t->files && dup(STDERR_FILENO) >= 0; i++)
        ;
}

static void usage(void)
{
    puts(
        "trainer [--steps N] [--bytes N] [--coll-bytes N] [--step-ms N]\n"
        "        [--commit-every N] [--sets-every N]\n"
        "        [--live-sets N: so many lists, and some others, of 4 workers]"
        "\n"
        "        [--save-every N: a checkpoint]\n"
        "        [--load: go on from the newest checkpoint]\n"
        "        [--until FILE: train until some rank sees it, not --steps]\n"
        "        [--open: rg_next in place of rg_run]\n"
        "        [--compute-at STEP --compute-ms N: the last rank, once]\n"
        "        [--scribble-at STEP: slot 2's first process, over its page]\n"
        "        [--shard-bytes N [--replicas N]: a sharded buffer besides]\n"
        "        [--damage-at STEP [--damage-all 1] [--damage-id 1]: slot 0 of"
        " the\n"
        "         first host, in the newest commit of its vault, in all, or in"
        " the\n"
        "         newest one's id; and dies]\n"
        "        [--reserve MIB [--reserve-at STEP]: by rg_alloc before rg_run,"
        " and by\n"
        "         the last rank in that step]\n"
        "        [--over-first 1: buffers are registered in another order]\n"
        "        [--alloc: collectives in rg_alloc memory]\n"
        "        [--registered: or in memory that is registered]\n"
        "        [--metrics 1: some in each step]\n"
        "        [--frozen MIB: registered, and never changed]\n"
        "        [--ballast MIB] [--files N] [--static]");
}

typedef struct flag {
    const char *name;
    size_t offset; /* of a uint64_t in trainer */
} flag;

static const flag flags[] = {{"steps", offsetof(trainer, steps)},
                             {"bytes", offsetof(trainer, bytes)},
                             {"coll-bytes", offsetof(trainer, coll_bytes)},
                             {"step-ms", offsetof(trainer, step_ms)},
                             {"commit-every", offsetof(trainer, commit_every)},
                             {"save-every", offsetof(trainer, save_every)},
                             {"compute-at", offsetof(trainer, compute_at)},
                             {"compute-ms", offsetof(trainer, compute_ms)},
                             {"scribble-at", offsetof(trainer, scribble_at)},
                             {"sets-every", offsetof(trainer, sets_every)},
                             {"live-sets", offsetof(trainer, live_sets)},
                             {"shard-bytes", offsetof(trainer, shard_bytes)},
                             {"replicas", offsetof(trainer, replicas)},
                             {"damage-at", offsetof(trainer, damage_at)},
                             {"damage-all", offsetof(trainer, damage_all)},
                             {"damage-id", offsetof(trainer, damage_id)},
                             {"over-first", offsetof(trainer, over_first)},
                             {"reserve", offsetof(trainer, reserve_mib)},
                             {"reserve-at", offsetof(trainer, reserve_at)},
                             {"ballast", offsetof(trainer, ballast_mib)},
                             {"frozen", offsetof(trainer, frozen_mib)},
                             {"metrics", offsetof(trainer, metrics)},
                             {"files", offsetof(trainer, files)}};
#define FLAGS (sizeof flags / sizeof *flags)

static bool read_flag(trainer *t, const char *name, const char *value)
{
    for (size_t i = 0; i < FLAGS; i++)
        if (value != NULL && strcmp(name, flags[i].name) == 0) {
            *(uint64_t *)(void *)((char *)t + flags[i].offset) =
                strtoull(value, NULL, 10);
            return true;
        }
    return false;
}

static bool read_flags(trainer *t, char **argv)
{
    for (argv++; *argv != NULL; argv++) {
        if (strcmp(*argv, "--alloc") == 0)
            t->uses_alloc = true;
        else if (strcmp(*argv, "--registered") == 0)
            t->registers = true;
        else if (strcmp(*argv, "--load") == 0)
            t->loads = true;
        else if (strcmp(*argv, "--open") == 0)
            t->has_open_loop = true;
        else if (strcmp(*argv, "--static") == 0)
            t->is_static = true;
        else if (strcmp(*argv, "--until") == 0 && argv[1] != NULL)
            t->until = *++argv;
        else if (strncmp(*argv, "--", 2) != 0 ||
                 !read_flag(t, *argv + 2, argv[1]))
            return false;
        else
            argv++;
    }
    t->coll_bytes = t->coll_bytes / 8 * 8;
    if (t->until != NULL && t->coll_bytes == SUMS * 8)
        t->coll_bytes += 8;
    return t->coll_bytes >= (SUMS + (t->until != NULL)) * 8 &&
           t->commit_every > 0;
}

int main(int argc, char **argv)
{
    trainer t = {.steps = 100,
                 .bytes = 4096,
                 .coll_bytes = SUMS * 8,
                 .step_ms = 5,
                 .commit_every = 1,
                 .compute_at = UINT64_MAX,
                 .scribble_at = UINT64_MAX,
                 .damage_at = UINT64_MAX,
                 .reserve_at = UINT64_MAX};
    (void)argc;
    if (!read_flags(&t, argv)) {
        usage();
        return 64;
    }
    const rg_params params = {.size = sizeof params, .elastic = !t.is_static};
    if (rg_init(&params, &t.ctx) != RG_OK || allocate(&t) != RG_OK ||
        reserve(&t) != RG_OK)
        return complain("rg_init");
    hold_ballast(&t);
    open_files(&t);
    const int code = train_in(&t);
    rg_finalize(t.ctx);
    free(t.state);
    if (!t.uses_alloc)
        free(t.sums);
    free(t.shards);
    return code;
}
