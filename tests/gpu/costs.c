/* What Regroup costs on a device, beside the same without it.
 *
 *   gpu_costs launch            us of a launch, and ms of large allreduces
 *   gpu_costs wait              on idle.c: us from an operation's end to that
 *                               of rg_wait, and the CPU that a device takes
 *   gpu_costs commit WHERE MIB N   ms of each of N commits of MIB of registered
 *                               memory, of the host or the device
 *
 * Each answer is a line "cost NAME VALUE" of rank 0. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "regroup/regroup_cuda.h"
#include "sdk/base/clock.h"
#include "sdk/transport/nccl/load.h"
#include "tests/check.h"

#define MIB     ((size_t)1 << 20)
#define TIMES   1000
#define BATCH   32 /* launches before the stream is waited for */
#define SAMPLES 4096
#define LARGE   4 /* MiB, the largest allreduce */

static rg_ctx *ctx;
static rg__cuda_library cuda;
static rg__cu_stream stream;

typedef struct series {
    double value[SAMPLES];
    int n;
} series;

static void add(series *s, double value)
{
    if (s->n < SAMPLES)
        s->value[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(series *s)
{
    qsort(s->value, (size_t)s->n, sizeof *s->value, compare);
    return s->n == 0 ? 0 : s->value[s->n / 2];
}

static void must(int rc, const char *what)
{
    if (rc != 0)
        CHECK_FAIL("%s says %d", what, rc);
}

static double since_us(uint64_t begin)
{
    return (double)(rg__now_ns() - begin) / 1e3;
}

static void *take(size_t bytes)
{
    rg__cu_address at = 0;
    must(cuda.call.memory_alloc(&at, bytes), "memory");
    must(cuda.call.set_bytes(at, 1, bytes, NULL), "memory");
    must(cuda.call.stream_synchronize(NULL), "memory");
    return (void *)(uintptr_t)at;
}

static void open_device(void)
{
    CHECK_OK(rg_device_open(ctx, NULL));
    CHECK_OK(rg__cuda_open(getenv("REGROUP_CUDA_LIB"), &cuda));
    must(cuda.call.stream_create(&stream, RG__CU_STREAM_NON_BLOCKING, 0),
         "a stream");
}

/* ----------------------------------------------------------------- launches */

static rg__nccl_library nccl;
static rg__nccl_comm bare;

static void connect_bare(rg_set *set)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    rg__nccl_id id = {{0}};
    CHECK_OK(rg__nccl_open(getenv("REGROUP_NCCL_LIB"), &nccl));
    if (rg_set_rank(set) == 0)
        must(nccl.call.unique_id(&id), "ncclGetUniqueId");
    CHECK_OK(rg_broadcast(set, id.bytes, sizeof id.bytes, RG_U8, 0));
    config.blocking = 1;
    must(nccl.call.comm_init(&bare, rg_set_size(set), id, rg_set_rank(set),
                             &config),
         "ncclCommInitRankConfig");
}

typedef enum way { BARE, WITHOUT_REQUEST, WITH_REQUEST, WAYS } way;

static void start(way how, rg_set *set, void *at, size_t n, rg_req **req_p)
{
    const rg_op_params params = {
        .size = sizeof params, .memory = RG_DEVICE, .stream = stream};
    if (how == BARE)
        must(nccl.call.allreduce(at, at, n, RG__NCCL_Float32, RG__NCCL_Sum,
                                 bare, stream),
             "ncclAllReduce");
    else
        CHECK_OK(rg_allreduce_start(set, at, at, n, RG_F32, RG_SUM, &params,
                                    how == WITH_REQUEST ? req_p : NULL));
}

/* Each way launches a batch in turn, so that all meet the same machine. */
static void time_launches(rg_set *set, void *at, series *times)
{
    rg_req *req[BATCH] = {NULL};
    for (int batch = 0; batch < TIMES * WAYS / BATCH; batch++) {
        const way how = (way)(batch % WAYS);
        for (int i = 0; i < BATCH; i++) {
            const uint64_t begin = rg__now_ns();
            start(how, set, at, 1, &req[i]);
            add(&times[how], since_us(begin));
        }
        must(cuda.call.stream_synchronize(stream), "a stream");
        for (int i = 0; i < BATCH && how == WITH_REQUEST; i++)
            CHECK_OK(rg_wait(&req[i], -1));
    }
}

/* Of the way with a request only the launch is of interest. */
static void time_large(rg_set *set, void *at, size_t bytes, series *times)
{
    for (int i = 0; i < 2 * 50; i++) {
        const way how = i % 2 == 0 ? BARE : WITHOUT_REQUEST;
        CHECK_OK(rg_barrier(set));
        const uint64_t begin = rg__now_ns();
        start(how, set, at, bytes / 4, NULL);
        must(cuda.call.stream_synchronize(stream), "a stream");
        add(&times[how], since_us(begin));
    }
}

static void tell(const char *name, double value)
{
    if (rg_rank(ctx) == 0)
        printf("cost %s %.3f\n", name, value);
}

static int measure_launches(void)
{
    static series times[WAYS];
    CHECK_OK(rg_init(NULL, &ctx));
    open_device();
    rg_set *set = rg_world(ctx);
    void *at = take(LARGE * MIB);
    connect_bare(set);
    time_launches(set, at, times);
    tell("launch_bare_us", median(&times[BARE]));
    tell("launch_us", median(&times[WITHOUT_REQUEST]));
    tell("launch_with_request_us", median(&times[WITH_REQUEST]));
    for (size_t mib = 1; mib <= LARGE; mib *= 2) {
        static series large[WAYS];
        char name[32];
        large[BARE].n = large[WITHOUT_REQUEST].n = 0;
        time_large(set, at, mib * MIB, large);
        snprintf(name, sizeof name, "allreduce_%zu_mib_ratio", mib);
        tell(name, median(&large[WITHOUT_REQUEST]) / median(&large[BARE]));
    }
    CHECK_OK(rg_barrier(set));
    must(nccl.call.comm_abort(bare), "ncclCommAbort");
    rg_finalize(ctx);
    return 0;
}

/* ------------------------------------------------------------------ waiting */

#define WAITS 200

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *find(const char *name)
{
    void *library = dlopen(getenv("REGROUP_CUDA_LIB"), RTLD_NOW);
    void *at = library == NULL ? NULL : dlsym(library, name);
    if (at == NULL)
        CHECK_FAIL("there is no %s: this is for idle.c alone", name);
    return at;
}

static double wait_us(void *at, uint64_t (*written_ns)(void))
{
    series times = {.n = 0};
    for (int i = 0; i < WAITS; i++) {
        rg_req *req = NULL;
        start(WITH_REQUEST, rg_world(ctx), at, 1, &req);
        CHECK_OK(rg_wait(&req, -1));
        add(&times, since_us(written_ns()));
    }
    return median(&times);
}

static int measure_waits(void)
{
    void (*delay)(int us);
    uint64_t (*written_ns)(void);
    void *found[] = {find("idle_delay"), find("idle_written_ns")};
    memcpy(&delay, &found[0], sizeof delay);
    memcpy(&written_ns, &found[1], sizeof written_ns);
    CHECK_OK(rg_init(NULL, &ctx));
    open_device();
    void *at = take(4);
    delay(10);
    tell("wait_awake_us", wait_us(at, written_ns));
    delay(2000);
    tell("wait_asleep_us", wait_us(at, written_ns));
    delay(0);
    const double begin = cpu_ms();
    sleep(1);
    tell("idle_cpu_percent", (cpu_ms() - begin) / 10);
    rg_finalize(ctx);
    return 0;
}

/* ------------------------------------------------------------------ commits */

typedef struct training {
    int commits;
    series ms;
} training;

static rg_status commit_often(rg_state *state, void *arg)
{
    training *t = arg;
    t->ms.n = 0;
    for (int i = 0; i < t->commits + 2; i++) {
        const uint64_t begin = rg__now_ns();
        const rg_status st = rg_state_commit(state);
        if (st != RG_OK)
            return st;
        if (i >= 2) /* both places in the vault have been written once */
            add(&t->ms, since_us(begin) / 1e3);
    }
    return RG_OK;
}

static int measure_commits(rg_memory memory, size_t bytes, int commits)
{
    const rg_params elastic = {.size = sizeof elastic, .elastic = 1};
    const rg_buffer_params params = {.size = sizeof params, .memory = memory};
    static training t;
    rg_state *state = NULL;
    t.commits = commits;
    CHECK_OK(rg_init(&elastic, &ctx));
    open_device();
    void *at = memory == RG_DEVICE ? take(bytes) : malloc(bytes);
    if (memory == RG_HOST)
        memset(at, 1, bytes);
    CHECK_OK(rg_state_create(ctx, NULL, &state));
    CHECK_OK(rg_state_add(state, "buffer", at, bytes, &params));
    const rg_status st = rg_run(state, commit_often, &t);
    CHECK_OK(st);
    tell(memory == RG_DEVICE ? "commit_device_ms" : "commit_host_ms",
         median(&t.ms));
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "launch") == 0)
        return measure_launches();
    if (argc == 2 && strcmp(argv[1], "wait") == 0)
        return measure_waits();
    if (argc == 5 && strcmp(argv[1], "commit") == 0)
        return measure_commits(strcmp(argv[2], "device") == 0 ? RG_DEVICE
                                                              : RG_HOST,
                               (size_t)atoi(argv[3]) * MIB, atoi(argv[4]));
    fprintf(stderr, "usage: gpu_costs launch | wait | commit "
                    "host|device MIB N\n");
    return 64;
}
