/* An elastic program on device memory: each step adds up a fixed batch by an
 * allreduce in a stream, so that the sum depends neither on the world's size
 * nor on the workers that were lost.
 *
 *   reducer [--until FILE] [--steps N] [--step-ms N] [--set | --cross]
 *           [--limit-ms N] [--elements N] [--device-state] [--load]
 *           [--free STEP]
 *           [--world before|behind|some]
 *
 * --device-state: the sums of the last step are registered on the device, once
 * for all ranks and once in shards, and spoilt at each step's begin.
 *
 * --free: the shard's memory is given back in that step, though registered.
 *
 * --world: rg_world_wait is called before the device is opened, or behind that,
 * or rank 1 opens none; and the first workers reduce before rg_run.
 *
 * It says so where a step that counts is wrong, and where device memory that it
 * filled at its start has not kept its content. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "regroup/regroup_cuda.h"
#include "sdk/transport/nccl/load.h"

#define BATCH  48 /* numbers in a step, shared by the ranks */
#define BESIDE 3  /* barriers of the world in a step */

typedef struct program {
    rg_ctx *ctx;
    rg_set *set; /* of all ranks, by a rule; or the world */
    rg__cuda_library cuda;
    rg__cu_stream stream;
    rg__cu_address sums, mark;     /* of the device */
    rg__cu_address weights, shard; /* registered there; 0: not */
    rg__cu_context context;
    int64_t *host;
    size_t elements;
    const char *until;
    uint64_t steps, free_at;
    useconds_t nap;
    bool has_set, crosses, has_device_state, loads;
    const char *world; /* "": rg_world_wait is not called */
    int limit_ms;      /* of communicators, from begin to end */
    int generations;
    int64_t total; /* registered */
} program;

static void die(const char *what)
{
    fprintf(stderr, "reducer: %s: %s\n", what, rg_last_error());
    exit(3);
}

static void must(int rc, const char *what)
{
    if (rc == RG__CU_SUCCESS)
        return;
    fprintf(stderr, "reducer: %s says %d\n", what, rc);
    exit(4);
}

/* What the step adds: an element's part is the index's. */
static int64_t part(uint64_t step, size_t i, int begin, int end)
{
    int64_t sum = 0;
    for (int k = begin; k < end; k++)
        sum += (int64_t)((step + i) % 1000) * k + 1;
    return sum;
}

/* Operations of the world run beside those of the set; with --cross the ranks
 * start those of the two sets in opposite orders. */
static rg_status start_beside(program *p)
{
    const rg_op_params params = {
        .size = sizeof params, .memory = RG_DEVICE, .stream = RG_STREAM_NONE};
    rg_status st = RG_OK;
    for (int i = 0; i < BESIDE && p->has_set && st == RG_OK; i++)
        st = rg_barrier_start(rg_world(p->ctx), &params, NULL);
    return st;
}

static void spoil(const program *p)
{
    const size_t bytes = sizeof *p->host * p->elements;
    if (!p->has_device_state)
        return;
    must(p->cuda.call.set_bytes(p->weights, 0xee, bytes, p->stream), "spoil");
    must(p->cuda.call.set_bytes(p->shard, 0xee, bytes, p->stream), "spoil");
}

static void keep(const program *p)
{
    const size_t bytes = sizeof *p->host * p->elements;
    if (!p->has_device_state)
        return;
    must(p->cuda.call.copy_within(p->weights, p->sums, bytes, p->stream),
         "keep");
    must(p->cuda.call.copy_within(p->shard, p->sums, bytes, p->stream), "keep");
    must(p->cuda.call.stream_synchronize(p->stream), "keep");
}

static void free_shard(program *p, uint64_t step)
{
    if (step != p->free_at || p->shard == 0)
        return;
    must(p->cuda.call.memory_free(p->shard), "free");
    p->shard = 0;
}

static void look_at_buffer(program *p, const rg_state *state, const char *name,
                           rg__cu_address at)
{
    const uint64_t step = rg_state_step(state);
    size_t begin = 0, end = 0;
    if (rg_state_slice(state, name, &begin, &end) != RG_OK)
        die("rg_state_slice");
    must(p->cuda.call.copy_out(p->host, at, sizeof *p->host * p->elements,
                               p->stream),
         "look");
    must(p->cuda.call.stream_synchronize(p->stream), "look");
    for (size_t i = begin / 8; i < end / 8; i++)
        if (p->host[i] != (step == 0 ? 0 : part(step, i, 0, BATCH))) {
            printf("WRONG: %s at step %" PRIu64 " has %" PRId64 " at %zu\n",
                   name, step, p->host[i], i);
            exit(7);
        }
}

/* Reduce in stream order, and no sooner than the stream is done look at the
 * result; it counts behind the commit. */
static rg_status step(program *p, rg_state *state)
{
    const uint64_t now = rg_state_step(state) + 1;
    const int rank = rg_set_rank(p->set), n = rg_set_size(p->set);
    const size_t bytes = sizeof *p->host * p->elements;
    const rg_op_params params = {
        .size = sizeof params, .memory = RG_DEVICE, .stream = p->stream};
    for (size_t i = 0; i < p->elements; i++)
        p->host[i] = part(now, i, BATCH * rank / n, BATCH * (rank + 1) / n);
    spoil(p);
    must(p->cuda.call.copy_in(p->sums, p->host, bytes, p->stream), "copy in");
    void *sums = (void *)(uintptr_t)p->sums;
    const bool is_later = p->crosses && rank % 2 == 1;
    rg_status st = is_later ? RG_OK : start_beside(p);
    if (st == RG_OK)
        st = rg_allreduce_start(p->set, sums, sums, p->elements, RG_I64, RG_SUM,
                                &params, NULL);
    if (st == RG_OK && is_later)
        st = start_beside(p);
    if (st != RG_OK)
        return st;
    int rc = p->cuda.call.copy_out(p->host, p->sums, bytes, p->stream);
    if (rc == RG__CU_SUCCESS)
        rc = p->cuda.call.stream_synchronize(p->stream);
    if (rc != RG__CU_ERROR_ILLEGAL_ADDRESS) /* which Regroup sees, too */
        must(rc, "copy out");
    st = rg_device_wait(p->ctx, -1);
    if (st != RG_OK)
        return st;
    p->total += p->host[now % p->elements];
    keep(p);
    free_shard(p, now);
    st = rg_state_commit(state);
    if (st != RG_OK && st != RG_ERR_HOSTS_CHANGED)
        return st;
    for (size_t i = 0; i < p->elements; i++)
        if (p->host[i] != part(now, i, 0, BATCH)) {
            printf("WRONG: step %" PRIu64 " element %zu is %" PRId64 "\n", now,
                   i, p->host[i]);
            exit(5);
        }
    return st;
}

/* What was put there at the start is there still. */
static void look_at_mark(program *p)
{
    int64_t mark = 0;
    rg__cu_context now = NULL;
    must(p->cuda.call.copy_out(&mark, p->mark, sizeof mark, p->stream), "mark");
    must(p->cuda.call.stream_synchronize(p->stream), "mark");
    must(p->cuda.call.context_get(&now), "context");
    if (mark == getpid() && now == p->context)
        return;
    printf("WRONG: device memory was lost\n");
    exit(6);
}

static rg_status train(rg_state *state, void *arg)
{
    program *p = arg;
    look_at_mark(p);
    if (p->has_device_state) {
        look_at_buffer(p, state, "weights", p->weights);
        look_at_buffer(p, state, "shard", p->shard);
    }
    p->generations++;
    for (rg_status st = RG_OK;;) {
        if (p->steps != 0 && rg_state_step(state) >= p->steps)
            return RG_OK;
        if (p->until != NULL && access(p->until, F_OK) == 0)
            rg_stop(state);
        st = step(p, state);
        if (st != RG_OK)
            return st;
        usleep(p->nap);
    }
}

static void read_arguments(program *p, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const bool crosses = strcmp(argv[i], "--cross") == 0;
        if (crosses || strcmp(argv[i], "--set") == 0) {
            p->has_set = true;
            p->crosses = crosses;
            continue;
        }
        if (strcmp(argv[i], "--device-state") == 0) {
            p->has_device_state = true;
            continue;
        }
        if (strcmp(argv[i], "--load") == 0) {
            p->loads = true;
            continue;
        }
        if (strcmp(argv[i], "--until") == 0)
            p->until = value;
        else if (strcmp(argv[i], "--steps") == 0)
            p->steps = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--free") == 0)
            p->free_at = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--step-ms") == 0)
            p->nap = (useconds_t)(1000 * atoi(value));
        else if (strcmp(argv[i], "--limit-ms") == 0)
            p->limit_ms = atoi(value);
        else if (strcmp(argv[i], "--world") == 0)
            p->world = value;
        else if (strcmp(argv[i], "--elements") == 0)
            p->elements = strtoull(value, NULL, 10);
        i++;
    }
}

static void take_device_memory(program *p)
{
    const int64_t mark = getpid();
    const size_t bytes = sizeof *p->host * p->elements;
    const rg__cuda *call = &p->cuda.call;
    must(call->context_get(&p->context), "context");
    must(call->stream_create(&p->stream, RG__CU_STREAM_NON_BLOCKING, 0),
         "stream");
    must(call->memory_alloc(&p->sums, bytes), "memory");
    must(call->memory_alloc(&p->mark, sizeof mark), "memory");
    must(call->copy_in(p->mark, &mark, sizeof mark, p->stream), "mark");
    must(call->stream_synchronize(p->stream), "mark");
    p->host = malloc(bytes);
}

static int one(rg_ctx *ctx, void *arg)
{
    (void)ctx;
    (void)arg;
    return 1;
}

static void make_set(program *p)
{
    const rg_set_params params = {
        .size = sizeof params, .name = "all", .memory = RG_DEVICE};
    p->set = rg_world(p->ctx);
    if (p->has_set &&
        rg_set_create_by(p->ctx, one, NULL, &params, &p->set) != RG_OK)
        die("rg_set_create_by");
}

static void take_long(void *arg)
{
    (void)arg;
    usleep(50000);
}

/* What is enqueued behind it has not run yet when the next call is made; of the
 * stand-in only. */
static void be_busy(const program *p)
{
    void *library = dlopen(getenv("REGROUP_CUDA_LIB"), RTLD_NOW);
    void *at = library != NULL ? dlsym(library, "fake_launch") : NULL;
    int (*enqueue)(rg__cu_stream, void (*)(void *), void *) = NULL;
    memcpy(&enqueue, &at, sizeof at);
    if (enqueue != NULL)
        must(enqueue(p->stream, take_long, NULL), "fake_launch");
    if (library != NULL)
        dlclose(library);
}

/* Memory that is to have that in each byte, some time later. */
static rg__cu_address make_filled(const program *p, unsigned char value)
{
    const size_t bytes = sizeof *p->host * p->elements;
    rg__cu_address at = 0;
    must(p->cuda.call.memory_alloc(&at, bytes), "memory");
    must(p->cuda.call.set_bytes(at, 0xdd, bytes, p->stream), "memory");
    must(p->cuda.call.stream_synchronize(p->stream), "memory");
    be_busy(p);
    must(p->cuda.call.set_bytes(at, value, bytes, p->stream), "filled");
    return at;
}

static void register_on_device(program *p, rg_state *state)
{
    const size_t bytes = sizeof *p->host * p->elements;
    rg_buffer_params params = {.size = sizeof params, .memory = RG_DEVICE};
    if (!p->has_device_state)
        return;
    p->shard = make_filled(p, 0);
    p->weights = make_filled(p, rg_rank(p->ctx) > 0 ? 0xcc : 0);
    if (rg_state_add(state, "weights", (void *)(uintptr_t)p->weights, bytes,
                     &params) != RG_OK)
        die("weights");
    params.kind = RG_SHARDED;
    if (rg_state_add(state, "shard", (void *)(uintptr_t)p->shard, bytes,
                     &params) != RG_OK)
        die("shard");
    if (rg_state_add(state, "host", p->host, bytes, &params) != RG_ERR_INVALID)
        die("host memory was taken for the device's");
}

static void load(const program *p, rg_state *state)
{
    uint64_t step = 0;
    const rg_status st =
        p->loads ? rg_state_load(state, NULL, &step) : RG_ERR_NOT_FOUND;
    if (st != RG_OK && st != RG_ERR_NOT_FOUND)
        die("rg_state_load");
}

/* false: this worker joins those that are in fn. */
static bool wait_for_world(const program *p)
{
    const rg_status st = rg_world_wait(p->ctx);
    if (st != RG_OK && st != RG_JOINING)
        die("rg_world_wait");
    return st == RG_OK;
}

static void open_device(program *p)
{
    const rg_device_params device = {.size = sizeof device,
                                     .init_timeout_ms = p->limit_ms,
                                     .abort_timeout_ms = p->limit_ms};
    if ((strcmp(p->world, "some") != 0 || rg_slot(p->ctx) != 1) &&
        rg_device_open(p->ctx, &device) != RG_OK)
        die("rg_device_open");
    if (rg__cuda_open(getenv("REGROUP_CUDA_LIB"), &p->cuda) != RG_OK)
        die("the driver");
    if (strcmp(p->world, "some") == 0 && rg_slot(p->ctx) == 1) {
        wait_for_world(p);
        exit(8);
    }
}

static void reduce_early(const program *p)
{
    const rg_op_params params = {.size = sizeof params, .memory = RG_DEVICE};
    int64_t sum = rg_rank(p->ctx) + 1;
    const int64_t n = rg_size(p->ctx);
    void *at = (void *)(uintptr_t)p->sums;
    must(p->cuda.call.copy_in(p->sums, &sum, sizeof sum, NULL), "copy in");
    if (rg_allreduce_start(rg_world(p->ctx), at, at, 1, RG_I64, RG_SUM, &params,
                           NULL) != RG_OK ||
        rg_device_wait(p->ctx, -1) != RG_OK)
        die("an allreduce before rg_run");
    must(p->cuda.call.copy_out(&sum, p->sums, sizeof sum, NULL), "copy out");
    must(p->cuda.call.stream_synchronize(NULL), "synchronize");
    puts(sum == n * (n + 1) / 2 ? "reduced before rg_run" : "WRONG: early");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    program p = {.elements = 1000, .nap = 3000, .world = ""};
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_state *state = NULL;
    read_arguments(&p, argc, argv);
    if (rg_init(&params, &p.ctx) != RG_OK)
        die("rg_init");
    const bool is_first = strcmp(p.world, "before") == 0 && wait_for_world(&p);
    open_device(&p);
    take_device_memory(&p);
    if (is_first || (strcmp(p.world, "before") != 0 && p.world[0] != '\0' &&
                     wait_for_world(&p)))
        reduce_early(&p);
    make_set(&p);
    if (rg_state_create(p.ctx, NULL, &state) != RG_OK ||
        rg_state_add(state, "total", &p.total, sizeof p.total, NULL) != RG_OK)
        die("rg_state_add");
    register_on_device(&p, state);
    load(&p, state);
    const rg_status st = rg_run(state, train, &p);
    if (st == RG_OK)
        printf("final step %" PRIu64 " state %016" PRIx64 "\n",
               rg_state_step(state), (uint64_t)p.total);
    else
        fprintf(stderr, "reducer: rg_run: %s: %s\n", rg_status_name(st),
                rg_last_error());
    printf("device kept through %d generations\n", p.generations);
    rg_state_destroy(state);
    p.cuda.call.memory_free(p.sums);
    p.cuda.call.memory_free(p.mark);
    if (p.has_device_state) {
        p.cuda.call.memory_free(p.weights);
        if (p.shard != 0)
            p.cuda.call.memory_free(p.shard);
    }
    p.cuda.call.stream_destroy(p.stream);
    rg_finalize(p.ctx);
    free(p.host);
    return rg_exit_code(st);
}
