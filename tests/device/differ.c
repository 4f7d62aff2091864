/* An elastic program in which one rank starts something else on the device than
 * the others, after three allreduces that are the same everywhere: another
 * thing in each generation, as the arguments say in turn.
 *
 *   differ [--late | --refused]
 *          [set-]kind|count|type|op|root|tag|group|gatherv|scatterv|alltoallv|
 *                fewer|memory|cross|nothing...
 *
 * --late: the device is opened after rg_world_wait. --refused: before it NCCL
 * refuses a group of many operations, other ones on each rank. set-: on a set
 * of the first and the last rank. Each rank says what it was told, by an
 * operation, by rg_device_wait or by the commit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup_cuda.h"
#include "sdk/transport/nccl/load.h"

#define COUNT 8
#define MANY  200 /* more than a lane remembers */

typedef struct program {
    rg_ctx *ctx;
    rg_set *ends; /* the first and the last rank */
    rg_set *set;  /* which differs */
    char **cases;
    int n;
    bool is_refused;
    const char *what;
    void *data; /* of the device */
    int64_t total, host[COUNT];
} program;

static void die(const char *what)
{
    fprintf(stderr, "differ: %s: %s\n", what, rg_last_error());
    exit(3);
}

static rg_status add(program *p, rg_type type, rg_op op, uint64_t count,
                     const rg_op_params *params)
{
    return rg_allreduce_start(p->set, p->data, p->data, count, type, op, params,
                              NULL);
}

static rg_status start_group(program *p, int n, const rg_op_params *params)
{
    rg_status st = rg_group_start(p->ctx);
    for (int i = 0; i < n && st == RG_OK; i++)
        st = add(p, RG_I64, RG_SUM, COUNT, params);
    return st == RG_OK ? rg_group_end(p->ctx) : st;
}

static void be_refused(program *p)
{
    const rg_op_params params = {.size = sizeof params,
                                 .memory = RG_DEVICE,
                                 .stream = RG_STREAM_NONE,
                                 .tag = (uint64_t)rg_rank(p->ctx)};
    if (start_group(p, MANY, &params) != RG_ERR_INVALID)
        die("a group that NCCL is to refuse");
}

/* Of a kind in which each rank has a count of its own: 2 for each pair, but
 * that rank 1 sends the last one 3, or expects it of that one. */
static rg_status start_uneven(program *p, bool is_other,
                              const rg_op_params *params)
{
    const int n = rg_set_size(p->set);
    char *to = (char *)p->data + (size_t)COUNT * 8;
    uint64_t counts[4] = {2, 2, 2, 2}, others[4] = {2, 2, 2, 2};
    const uint64_t own = is_other ? 3 : 2;
    others[n - 1] = own;
    if (strcmp(p->what, "gatherv") == 0)
        return rg_gatherv_start(p->set, p->data, own, to, counts, NULL, RG_I64,
                                params, NULL);
    if (strcmp(p->what, "scatterv") == 0)
        return rg_scatterv_start(p->set, p->data, counts, NULL, to, own, RG_I64,
                                 params, NULL);
    return rg_alltoallv_start(p->set, p->data, others, NULL, to, counts, NULL,
                              RG_I64, params, NULL);
}

static rg_status on_host(program *p)
{
    return rg_allreduce(p->set, p->host, p->host, COUNT, RG_I64, RG_SUM);
}

static rg_status add_to(rg_set *set, program *p, const rg_op_params *params)
{
    return rg_set_rank(set) < 0
               ? RG_OK
               : rg_allreduce_start(set, p->data, p->data, COUNT, RG_I64,
                                    RG_SUM, params, NULL);
}

/* In one stream, the last rank in the other order. */
static rg_status start_crossed(program *p, rg_op_params *params)
{
    rg_set *world = rg_world(p->ctx);
    const bool is_last = rg_rank(p->ctx) == rg_size(p->ctx) - 1;
    params->stream = NULL;
    params->timeout_ms = 2000;
    const rg_status st = add_to(is_last ? p->ends : world, p, params);
    return st == RG_OK ? add_to(is_last ? world : p->ends, p, params) : st;
}

/* The operation that is to be the same everywhere. */
static rg_status start(program *p, bool is_other)
{
    const bool is_rooted = strcmp(p->what, "root") == 0;
    rg_op_params params = {
        .size = sizeof params, .memory = RG_DEVICE, .stream = RG_STREAM_NONE};
    if (is_rooted && is_other)
        params.root = 1;
    if (is_rooted)
        return rg_broadcast_start(p->set, p->data, COUNT, RG_I64, &params,
                                  NULL);
    if (strcmp(p->what, "cross") == 0)
        return start_crossed(p, &params);
    if (is_other && strcmp(p->what, "kind") == 0)
        return rg_barrier_start(p->set, &params, NULL);
    if (is_other && strcmp(p->what, "group") == 0)
        return start_group(p, 2, &params);
    if (is_other && strcmp(p->what, "fewer") == 0)
        return RG_OK;
    if (is_other && strcmp(p->what, "memory") == 0)
        return on_host(p);
    if (strcmp(p->what + strlen(p->what) - 1, "v") == 0)
        return start_uneven(p, is_other, &params);
    if (is_other && strcmp(p->what, "tag") == 0)
        params.tag = 7;
    const rg_type type =
        is_other && strcmp(p->what, "type") == 0 ? RG_U64 : RG_I64;
    const rg_op op = is_other && strcmp(p->what, "op") == 0 ? RG_MAX : RG_SUM;
    const uint64_t n =
        is_other && strcmp(p->what, "count") == 0 ? COUNT - 1 : COUNT;
    if (strcmp(p->what, "fewer") == 0 || strcmp(p->what, "memory") == 0)
        params.timeout_ms = 2000;
    const rg_status st = add(p, type, op, n, &params);
    return st == RG_OK && strcmp(p->what, "group") == 0
               ? add(p, type, op, n, &params)
               : st;
}

static void choose(program *p, const char *what)
{
    const bool is_of_set = strncmp(what, "set-", 4) == 0;
    p->what = is_of_set ? what + 4 : what;
    p->set = is_of_set ? p->ends : rg_world(p->ctx);
}

/* A generation that is over for this reason is followed by the next one. */
static rg_status judge(const program *p, rg_status st)
{
    printf("%s: told %s: %s\n", p->what, rg_status_name(st), rg_last_error());
    fflush(stdout);
    return st == RG_ERR_MISMATCH ? RG_ERR_PEER_LOST : st;
}

static rg_status train(rg_state *state, void *arg)
{
    program *p = arg;
    const int turn = (int)rg_generation(p->ctx) - 1;
    if (turn >= p->n)
        return RG_OK;
    choose(p, p->cases[turn]);
    const rg_op_params params = {
        .size = sizeof params, .memory = RG_DEVICE, .stream = RG_STREAM_NONE};
    rg_status st = rg_state_commit(state);
    const bool is_member = rg_set_rank(p->set) >= 0;
    const bool is_other = rg_set_rank(p->set) == 1;
    for (int i = 0; i < 3 && st == RG_OK && is_member; i++)
        st = add(p, RG_I64, RG_SUM, COUNT, &params);
    if (st == RG_OK && p->is_refused)
        be_refused(p);
    if (st == RG_OK && is_member)
        st = start(p, is_other);
    if (st == RG_OK && is_member && rg_rank(p->ctx) == 0)
        st = rg_device_wait(p->ctx, -1);
    if (st == RG_OK)
        st = rg_state_commit(state);
    return judge(p, st);
}

static void take_memory(program *p)
{
    rg__cuda_library cuda;
    rg__cu_address at = 0;
    if (rg__cuda_open(getenv("REGROUP_CUDA_LIB"), &cuda) != RG_OK)
        die("the driver");
    if (cuda.call.memory_alloc(&at, (size_t)2 * 8 * COUNT) != RG__CU_SUCCESS)
        die("memory");
    p->data = (void *)(uintptr_t)at;
}

static int ends(rg_ctx *ctx, void *arg)
{
    (void)arg;
    return rg_rank(ctx) == 0 || rg_rank(ctx) == rg_size(ctx) - 1 ? 1
                                                                 : RG_NO_COLOR;
}

int main(int argc, char **argv)
{
    const bool is_late = argc > 1 && strcmp(argv[1], "--late") == 0;
    const bool is_refused = argc > 1 && strcmp(argv[1], "--refused") == 0;
    const int flags = is_late || is_refused;
    program p = {.cases = argv + 1 + flags,
                 .n = argc - 1 - flags,
                 .is_refused = is_refused};
    const rg_params params = {.size = sizeof params, .elastic = 1};
    const rg_set_params of_device = {
        .size = sizeof of_device, .name = "ends", .memory = RG_DEVICE};
    rg_state *state = NULL;
    if (rg_init(&params, &p.ctx) != RG_OK ||
        (is_late && rg_world_wait(p.ctx) < 0) ||
        rg_device_open(p.ctx, NULL) != RG_OK)
        die("the begin");
    take_memory(&p);
    if (rg_set_create_by(p.ctx, ends, NULL, &of_device, &p.ends) != RG_OK)
        die("rg_set_create_by");
    if (rg_state_create(p.ctx, NULL, &state) != RG_OK ||
        rg_state_add(state, "total", &p.total, sizeof p.total, NULL) != RG_OK)
        die("rg_state_add");
    const rg_status st = rg_run(state, train, &p);
    if (st == RG_OK)
        printf("final step %llu state %016llx\n",
               (unsigned long long)rg_state_step(state), 0ULL);
    fflush(stdout);
    rg_state_destroy(state);
    rg_finalize(p.ctx);
    return rg_exit_code(st);
}
