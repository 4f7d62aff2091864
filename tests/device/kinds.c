/* A static program: every kind, type and op on device memory, and groups of
 * them, against the same on host memory; and what device memory has not got is
 * refused with a sentence. Numbers are small multiples of the world's size, so
 * that every result is exact, also an average. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup_cuda.h"
#include "sdk/transport/nccl/device.h"
#include "tests/check.h"
#include "tests/device/support/fake.h"
#include "tests/lib/elements.h"

#define COUNT 96 /* of one rank's part; n times as many fit */
#define MOST  4
#define BYTES (COUNT * MOST * 8)

static rg_ctx *ctx;
static rg_set *set;
static int n, rank;
static rg__cuda_library cuda;
static rg__cu_stream stream;
static char *device_send, *device_recv;
static char host_send[BYTES], host_recv[BYTES], got[BYTES];

typedef struct call {
    rg_type type;
    rg_op op;
    uint64_t counts[MOST], places[MOST], back[MOST];
    rg_op_params params;
} call;

/* One operation, started from one of the two pairs of buffers. */
typedef rg_status (*starter)(const call *c, const char *send, char *recv,
                             rg_req **req_p);

static rg_status allreduce(const call *c, const char *send, char *recv,
                           rg_req **req_p)
{
    return rg_allreduce_start(set, send, recv, COUNT, c->type, c->op,
                              &c->params, req_p);
}

static rg_status in_place(const call *c, const char *send, char *recv,
                          rg_req **req_p)
{
    (void)send;
    return rg_allreduce_start(set, recv, recv, COUNT, c->type, c->op,
                              &c->params, req_p);
}

static rg_status reduce(const call *c, const char *send, char *recv,
                        rg_req **req_p)
{
    return rg_reduce_start(set, send, recv, COUNT, c->type, c->op, &c->params,
                           req_p);
}

static rg_status reduce_scatter(const call *c, const char *send, char *recv,
                                rg_req **req_p)
{
    return rg_reduce_scatter_start(set, send, recv, COUNT, c->type, c->op,
                                   &c->params, req_p);
}

static rg_status reduce_scatterv(const call *c, const char *send, char *recv,
                                 rg_req **req_p)
{
    return rg_reduce_scatterv_start(set, send, recv, c->counts, c->type, c->op,
                                    &c->params, req_p);
}

static rg_status broadcast(const call *c, const char *send, char *recv,
                           rg_req **req_p)
{
    (void)send;
    return rg_broadcast_start(set, recv, COUNT, c->type, &c->params, req_p);
}

static rg_status allgather(const call *c, const char *send, char *recv,
                           rg_req **req_p)
{
    return rg_allgather_start(set, send, recv, COUNT, c->type, &c->params,
                              req_p);
}

static rg_status allgather_in_place(const call *c, const char *send, char *recv,
                                    rg_req **req_p)
{
    (void)send;
    return rg_allgather_start(set, recv, recv, COUNT, c->type, &c->params,
                              req_p);
}

static rg_status allgatherv(const call *c, const char *send, char *recv,
                            rg_req **req_p)
{
    return rg_allgatherv_start(set, send, c->counts[rank], recv, c->counts,
                               c->places, c->type, &c->params, req_p);
}

static rg_status gather(const call *c, const char *send, char *recv,
                        rg_req **req_p)
{
    return rg_gather_start(set, send, recv, COUNT, c->type, &c->params, req_p);
}

static rg_status gatherv(const call *c, const char *send, char *recv,
                         rg_req **req_p)
{
    return rg_gatherv_start(set, send, c->counts[rank], recv, c->counts,
                            c->places, c->type, &c->params, req_p);
}

static rg_status scatter(const call *c, const char *send, char *recv,
                         rg_req **req_p)
{
    return rg_scatter_start(set, send, recv, COUNT, c->type, &c->params, req_p);
}

static rg_status scatterv(const call *c, const char *send, char *recv,
                          rg_req **req_p)
{
    return rg_scatterv_start(set, send, c->counts, c->places, recv,
                             c->counts[rank], c->type, &c->params, req_p);
}

static rg_status alltoall(const call *c, const char *send, char *recv,
                          rg_req **req_p)
{
    return rg_alltoall_start(set, send, recv, COUNT, c->type, &c->params,
                             req_p);
}

/* Rank a sends counts[a] to every rank. */
static rg_status alltoallv(const call *c, const char *send, char *recv,
                           rg_req **req_p)
{
    return rg_alltoallv_start(set, send, c->back, NULL, recv, c->counts,
                              c->places, c->type, &c->params, req_p);
}

static rg_status alltoall_in_place(const call *c, const char *send, char *recv,
                                   rg_req **req_p)
{
    (void)send;
    return rg_alltoall_start(set, recv, recv, COUNT, c->type, &c->params,
                             req_p);
}

/* Two ranks give each other what lies between them, and so on. */
static rg_status alltoallv_in_place(const call *c, const char *send, char *recv,
                                    rg_req **req_p)
{
    uint64_t counts[MOST], places[MOST];
    (void)send;
    for (int r = 0; r < n; r++) {
        counts[r] = (uint64_t)(r + rank);
        places[r] = (uint64_t)r * COUNT;
    }
    return rg_alltoallv_start(set, recv, counts, places, recv, counts, places,
                              c->type, &c->params, req_p);
}

static rg_status barrier(const call *c, const char *send, char *recv,
                         rg_req **req_p)
{
    (void)send;
    (void)recv;
    return rg_barrier_start(set, &c->params, req_p);
}

static rg_status join(const call *c, const char *send, char *recv,
                      rg_req **req_p)
{
    (void)send;
    (void)recv;
    return rg_join_start(set, NULL, &c->params, req_p);
}

static const struct kind {
    const char *name;
    starter start;
    bool reduces;
} kinds[] = {{"allreduce", allreduce, true},
             {"allreduce in place", in_place, true},
             {"reduce", reduce, true},
             {"reduce_scatter", reduce_scatter, true},
             {"reduce_scatterv", reduce_scatterv, true},
             {"broadcast", broadcast, false},
             {"allgather", allgather, false},
             {"allgather in place", allgather_in_place, false},
             {"allgatherv", allgatherv, false},
             {"gather", gather, false},
             {"gatherv", gatherv, false},
             {"scatter", scatter, false},
             {"scatterv", scatterv, false},
             {"alltoall", alltoall, false},
             {"alltoallv", alltoallv, false},
             {"alltoall in place", alltoall_in_place, false},
             {"alltoallv in place", alltoallv_in_place, false},
             {"barrier", barrier, false}};

static void must(int rc, const char *what)
{
    if (rc != RG__CU_SUCCESS)
        CHECK_FAIL("%s says %d", what, rc);
}

static rg__cu_address address(const char *p)
{
    return (rg__cu_address)(uintptr_t)p;
}

static bool large; /* numbers near the end of F16's range */
static bool odd;   /* their sums are exact, and averages are rounded */

static void fill(const call *c)
{
    for (uint64_t i = 0; i < (uint64_t)(COUNT * n); i++) {
        const uint64_t k = large ? 10240 : 1 + (i + (uint64_t)rank) % 2;
        const uint64_t value = (uint64_t)n * k + (odd && rank == 0 ? i % 5 : 0);
        put(c->type, host_send, i, (double)value);
        put(c->type, host_recv, i, (double)((uint64_t)n * (3 - k)));
    }
    must(cuda.call.copy_in(address(device_send), host_send, BYTES, stream),
         "copy in");
    must(cuda.call.copy_in(address(device_recv), host_recv, BYTES, stream),
         "copy in");
}

static void run(const struct kind *kind, call *c, bool has_request)
{
    rg_req *req = NULL;
    memset(host_recv, 0, sizeof host_recv);
    fill(c);
    CHECK_OK(kind->start(c, host_send, host_recv, &req));
    CHECK_OK(rg_wait(&req, -1));
    c->params.memory = RG_DEVICE;
    c->params.stream = stream;
    CHECK_OK(
        kind->start(c, device_send, device_recv, has_request ? &req : NULL));
    if (has_request)
        CHECK_OK(rg_wait(&req, -1));
    else
        CHECK_OK(rg_device_wait(ctx, -1));
    c->params.memory = RG_HOST;
    must(cuda.call.copy_out(got, address(device_recv), BYTES, stream),
         "copy out");
    must(cuda.call.stream_synchronize(stream), "synchronize");
    if (memcmp(got, host_recv, BYTES) != 0)
        CHECK_FAIL("%s of %s, %s, root %d: rank %d got something else on the "
                   "device",
                   kind->name, type_names[c->type], op_names[c->op],
                   c->params.root, rank);
}

static bool has_kernels(void)
{
    return rg__scale_ptx[0] != '\0' && getenv("KINDS_REFUSED") == NULL;
}

/* Why there are none. */
static const char *refusal(void)
{
    const char *why = getenv("KINDS_REFUSED");
    return why != NULL ? why : "this Regroup was built without clang";
}

static bool has_op(rg_op op, rg_type type)
{
    return op <= RG_PROD && type != RG_BOOL &&
           (op != RG_AVG || !is_float(type) || has_kernels());
}

/* What adds up exactly whatever the order, times what rounds. */
static void scale_all(void)
{
    static const double scales[][2] = {{0, 0.3}, {2, 0}, {0.5, 1.7}, {-3, 0.1}};
    int turn = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int type = RG_U8; type < RG_BOOL && kinds[k].reduces; type++)
            for (int op = RG_SUM; op <= RG_MAX; op++, turn++) {
                const double *by = scales[turn % 4];
                call c = {.type = (rg_type)type,
                          .op = (rg_op)op,
                          .params = {.size = sizeof c.params,
                                     .root = turn % n,
                                     .prescale = by[0],
                                     .postscale = by[1]}};
                for (int r = 0; r < n; r++)
                    c.counts[r] = r == 1 ? 0 : COUNT;
                run(&kinds[k], &c, true);
            }
}

/* A sum of F16 that is beyond its range, and its average, which is not. */
static void average_large(void)
{
    call c = {
        .type = RG_F16, .op = RG_AVG, .params = {.size = sizeof c.params}};
    const struct kind *kind = &kinds[0];
    large = true;
    run(kind, &c, true);
    c.params.prescale = 0.5;
    run(&kinds[2], &c, true);
    large = false;
}

/* Where NCCL would multiply each part by a rounded 1/n. */
static void average_odd(void)
{
    odd = true;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int type = RG_U8; type < RG_BOOL && kinds[k].reduces; type++) {
            call c = {.type = (rg_type)type,
                      .op = RG_AVG,
                      .params = {.size = sizeof c.params}};
            for (int r = 0; r < n; r++)
                c.counts[r] = r == 1 ? 0 : COUNT;
            run(&kinds[k], &c, true);
        }
    odd = false;
}

static void run_all(void)
{
    int turn = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int type = RG_U8; type <= RG_BOOL; type++)
            for (int op = RG_SUM; op <= RG_PROD; op++, turn++) {
                call c = {
                    .type = (rg_type)type,
                    .op = (rg_op)op,
                    .params = {.size = sizeof c.params, .root = turn % n}};
                uint64_t at = 0;
                for (int r = 0; r < n; r++) { /* one has nothing */
                    c.counts[r] = r == 1 ? 0 : COUNT - (uint64_t)r;
                    c.places[r] = at++;
                    at += c.counts[r];
                }
                for (int r = 0; r < n; r++)
                    c.back[r] = c.counts[rank];
                if (kinds[k].reduces ? has_op(c.op, c.type) : op == RG_SUM)
                    run(&kinds[k], &c, turn % 2 == 0);
            }
}

static void refused(starter start, const call *c, const char *says)
{
    const rg_status st = start(c, device_send, device_recv, NULL);
    CHECK_STATUS(st, RG_ERR_UNSUPPORTED);
    if (strstr(rg_last_error(), says) == NULL)
        CHECK_FAIL("%s does not say: %s", rg_last_error(), says);
}

/* What is in a group, on the host's memory and then on the device's: two
 * allreduces, a broadcast and an operation of another set, of which one has a
 * request. Some of it is in another stream. */
static void start_parts(rg_set *other, char *at, rg_op_params *params,
                        rg_req *reqs[4])
{
    const bool is_device = params->memory == RG_DEVICE;
    const rg_type type = has_kernels() ? RG_F64 : RG_I64;
    char *to[4];
    for (int i = 0; i < 4; i++)
        to[i] = at + (size_t)i * COUNT * 8;
    params->stream = is_device ? stream : NULL;
    CHECK_OK(rg_allreduce_start(set, to[0], to[0], COUNT, RG_I64, RG_SUM,
                                params, &reqs[0]));
    CHECK_OK(rg_broadcast_start(set, to[1], COUNT, RG_I64, params,
                                is_device ? NULL : &reqs[1]));
    params->stream = is_device ? RG_STREAM_NONE : NULL;
    CHECK_OK(rg_allreduce_start(other, to[2], to[2], COUNT, RG_I64, RG_MAX,
                                params, is_device ? NULL : &reqs[2]));
    CHECK_OK(rg_allreduce_start(set, to[3], to[3], COUNT, type, RG_AVG, params,
                                is_device ? NULL : &reqs[3]));
}

static void group_all(rg_set *other)
{
    const call c = {.type = RG_I64};
    rg_op_params params = {.size = sizeof params, .root = n - 1};
    rg_req *reqs[4] = {NULL}, *beside = NULL;
    int64_t sum = 1;
    fill(&c);
    memset(host_send + (size_t)3 * COUNT * 8, 0, COUNT * 8);
    must(cuda.call.copy_in(address(device_send), host_send, BYTES, stream),
         "copy in");
    must(cuda.call.stream_synchronize(stream), "synchronize");
    start_parts(other, host_send, &params, reqs);
    CHECK_OK(rg_wait_all(reqs, 4, -1));
    params.memory = RG_DEVICE;
    CHECK_OK(rg_group_start(ctx));
    start_parts(other, device_send, &params, reqs);
    CHECK_OK(
        rg_allreduce_start(set, &sum, &sum, 1, RG_I64, RG_SUM, NULL, &beside));
    CHECK_STATUS(rg_wait(&reqs[0], 0), RG_IN_PROGRESS);
    CHECK_OK(rg_group_end(ctx));
    CHECK_OK(rg_wait(&beside, -1));
    CHECK_EQ(sum, n);
    CHECK_OK(rg_wait(&reqs[0], -1));
    CHECK_OK(rg_device_wait(ctx, -1));
    must(cuda.call.copy_out(got, address(device_send), BYTES, stream),
         "copy out");
    must(cuda.call.stream_synchronize(stream), "synchronize");
    if (memcmp(got, host_send, BYTES) != 0)
        CHECK_FAIL("a group: rank %d got something else on the device", rank);
}

/* One that can't be started: so none is. */
static void refuse_group(void)
{
    call c = {.type = RG_I64,
              .params = {.size = sizeof c.params, .memory = RG_DEVICE}};
    rg_req *req = NULL;
    fill(&c);
    CHECK_OK(rg_group_start(ctx));
    CHECK_OK(in_place(&c, NULL, device_recv, &req));
    c.op = RG_LAND;
    CHECK_STATUS(in_place(&c, NULL, device_recv, NULL), RG_ERR_UNSUPPORTED);
    CHECK_STATUS(rg_group_end(ctx), RG_ERR_UNSUPPORTED);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_UNSUPPORTED);
    must(cuda.call.copy_out(got, address(device_recv), BYTES, stream),
         "copy out");
    must(cuda.call.stream_synchronize(stream), "synchronize");
    CHECK(memcmp(got, host_recv, BYTES) == 0);
}

/* What an operation does not use of a rank may be anything, as on the host. */
static void ignore_unused(void)
{
    call c = {.type = RG_I64,
              .params = {.size = sizeof c.params, .memory = RG_DEVICE}};
    CHECK_OK(
        reduce(&c, device_send, rank == 0 ? device_recv : host_recv, NULL));
    CHECK_OK(
        gather(&c, device_send, rank == 0 ? device_recv : host_recv, NULL));
    CHECK_OK(
        scatter(&c, rank == 0 ? device_send : host_send, device_recv, NULL));
    for (int r = 0; r < n; r++)
        c.counts[r] = r == 0 ? COUNT : 0;
    CHECK_OK(allgatherv(&c, rank == 0 ? device_send : device_send + BYTES,
                        device_recv, NULL));
    CHECK_OK(reduce_scatterv(
        &c, device_send, rank == 0 ? device_recv : device_recv + BYTES, NULL));
    CHECK_OK(rg_device_wait(ctx, -1));
}

/* Memory of a device that is not this worker's. */
static void refuse_others(void)
{
    call c = {.type = RG_I64,
              .params = {.size = sizeof c.params, .memory = RG_DEVICE}};
    rg__cu_context own = NULL, other = NULL;
    rg__cu_address at = 0;
    int devices = 0, handle = 0, mine = 0;
    must(cuda.call.device_count(&devices), "devices");
    if (devices == 1)
        return;
    must(cuda.call.context_get(&own), "context");
    must(cuda.call.context_device(&mine), "device");
    must(cuda.call.device_get(&handle, (mine + 1) % devices), "device");
    must(cuda.call.context_retain(&other, handle), "retain");
    must(cuda.call.context_set(other), "context");
    must(cuda.call.memory_alloc(&at, BYTES), "memory");
    must(cuda.call.context_set(own), "context");
    CHECK_STATUS(in_place(&c, NULL, (char *)(uintptr_t)at, NULL),
                 RG_ERR_INVALID);
    if (strstr(rg_last_error(), "is memory of device") == NULL)
        CHECK_FAIL("another device's memory: %s", rg_last_error());
    must(cuda.call.memory_free(at), "free");
    must(cuda.call.context_release(handle), "release");
}

static void refuse_all(void)
{
    call c = {.type = RG_F32,
              .params = {.size = sizeof c.params, .memory = RG_DEVICE}};
    refused(join, &c, "which works in host memory only");
    c.type = RG_I32;
    c.op = RG_LAND;
    refused(allreduce, &c, "NCCL has no such reduction");
    c.op = RG_SUM;
    if (!has_kernels()) {
        c.params.prescale = 2;
        refused(allreduce, &c, "there is no prescale or postscale here");
        refused(allreduce, &c, refusal());
        c.params.prescale = 0;
        c.type = RG_F16;
        c.op = RG_AVG;
        refused(reduce, &c, "there is no AVG of floats here");
        c.type = RG_F64;
        refused(allreduce, &c, "there is no AVG of floats here");
        c.op = RG_SUM;
    }
    CHECK_STATUS(allreduce(&c, host_send, host_recv, NULL), RG_ERR_INVALID);
    if (strstr(rg_last_error(), "not memory of the device") == NULL)
        CHECK_FAIL("host memory: %s", rg_last_error());
}

static int count_comms(void)
{
    void *library = dlopen(getenv("REGROUP_CUDA_LIB"), RTLD_NOW);
    void *at = dlsym(library, "fake_held");
    void (*ask)(fake_holdings *) = NULL;
    fake_holdings held = {0};
    memcpy(&ask, &at, sizeof ask);
    if (ask != NULL) /* not on a real device */
        ask(&held);
    dlclose(library);
    return held.comms;
}

/* A set that is found again by its name has its communicator. */
static void connect_once(void)
{
    const rg_set_params params = {
        .size = sizeof params, .name = "again", .memory = RG_DEVICE};
    int ranks[8];
    rg_set *first = NULL, *second = NULL;
    for (int r = 0; r < n; r++)
        ranks[r] = r;
    CHECK_OK(rg_set_create(ctx, ranks, n, &params, &first));
    const int comms = count_comms();
    CHECK_OK(rg_set_create(ctx, ranks, n, &params, &second));
    CHECK(first == second);
    group_all(first);
    CHECK_EQ(count_comms(), comms);
}

static void open_device(void)
{
    rg_device_info info = {.size = sizeof info};
    rg__cu_address at = 0;
    int devices = 0;
    CHECK_STATUS(rg_device_info_get(ctx, &info), RG_ERR_INVALID);
    CHECK_OK(rg_device_open(ctx, NULL));
    CHECK_STATUS(rg_device_open(ctx, NULL), RG_ERR_INVALID);
    CHECK_OK(rg_device_info_get(ctx, &info));
    CHECK_OK(rg__cuda_open(getenv("REGROUP_CUDA_LIB"), &cuda));
    must(cuda.call.device_count(&devices), "devices");
    if (info.device != rg_slot(ctx) % devices || info.total_bytes == 0 ||
        info.bus[0] == '\0')
        CHECK_FAIL("device %d at \"%s\"", info.device, info.bus);
    must(cuda.call.stream_create(&stream, RG__CU_STREAM_NON_BLOCKING, 0),
         "stream");
    must(cuda.call.memory_alloc(&at, BYTES), "memory");
    device_send = (char *)(uintptr_t)at;
    must(cuda.call.memory_alloc(&at, BYTES), "memory");
    device_recv = (char *)(uintptr_t)at;
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    set = rg_world(ctx);
    n = rg_size(ctx);
    rank = rg_rank(ctx);
    open_device();
    run_all();
    if (has_kernels()) {
        scale_all();
        average_large();
        average_odd();
    }
    ignore_unused();
    refuse_group();
    refuse_all();
    refuse_others();
    connect_once();
    CHECK_OK(rg_barrier(set));
    must(cuda.call.memory_free(address(device_send)), "free");
    must(cuda.call.memory_free(address(device_recv)), "free");
    must(cuda.call.stream_destroy(stream), "destroy");
    puts("all are right");
    rg_finalize(ctx);
    return 0;
}
