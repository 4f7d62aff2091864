/* A params struct of a program that was compiled with the header of 0.1.0 is
 * accepted, with defaults for missing fields, whatever its padding holds; one
 * shorter than that, or longer than this library's, is refused, and the
 * sentence says which size is right.
 *
 * Covers: params.c */
#include "regroup/regroup.h"
#include "tests/check.h"

/* As 0.1.0 had it. */
typedef struct first_buffer_params {
    size_t size;
    rg_buffer_kind kind;
    int replicas;
    size_t align;
} first_buffer_params;

typedef struct first_set_params {
    size_t size;
    const char *name;
    int keep;
} first_set_params;

/* What has come since is none of what they had, padding included. */
_Static_assert(offsetof(rg_set_params, memory) >= sizeof(first_set_params),
               "memory of a set");
_Static_assert(offsetof(rg_op_params, memory) >=
                   offsetof(rg_op_params, tag) + sizeof(uint64_t),
               "memory of an operation");
_Static_assert(offsetof(rg_buffer_params, memory) >=
                   sizeof(first_buffer_params) + 2 * sizeof(int),
               "memory of a buffer");
_Static_assert(offsetof(rg_buffer_params, redistribute) >=
                   offsetof(rg_buffer_params, memory) + sizeof(rg_memory),
               "redistribution of a buffer");

typedef struct longer {
    rg_sampler_params params;
    uint64_t of_a_later_version;
} longer;

static rg_ctx *ctx;

static void refused(rg_status st, const char *sentence)
{
    CHECK_EQ(st, RG_ERR_INVALID);
    if (strstr(rg_last_error(), sentence) == NULL)
        CHECK_FAIL("%s does not say: %s", rg_last_error(), sentence);
}

static void of_buffers(rg_state *state)
{
    static char data[3][64];
    struct {
        first_buffer_params params;
        int behind[2]; /* a newer library would find may_differ here */
    } old = {{.size = sizeof old.params, .kind = RG_SHARDED}, {1, 1}};
    CHECK_OK(rg_state_add(state, "old", data[0], sizeof data[0],
                          (const rg_buffer_params *)(const void *)&old));
    rg_buffer_params params = {.size = sizeof params, .may_differ = 1};
    CHECK_OK(rg_state_add(state, "new", data[1], sizeof data[1], &params));
    params.size = sizeof old.params - 1;
    refused(rg_state_add(state, "short", data[2], sizeof data[2], &params),
            "rg_buffer_params.size is 23; set it to sizeof(rg_buffer_params)");
    params.size = sizeof params + 1;
    refused(rg_state_add(state, "long", data[2], sizeof data[2], &params),
            "rg_buffer_params.size is 57");
}

static void of_operations(void)
{
    float one = 1;
    rg_req *req = NULL;
    rg_op_params params = {.size = offsetof(rg_op_params, tag), .tag = 7};
    CHECK_OK(rg_allreduce_start(rg_world(ctx), &one, &one, 1, RG_F32, RG_SUM,
                                &params, &req));
    CHECK_OK(rg_wait(&req, -1));
    params.size = 0;
    refused(rg_barrier_start(rg_world(ctx), &params, &req),
            "rg_op_params.size is 0");
}

/* A set for device memory would need a device. */
static void of_sets(void)
{
    const int rank = 0;
    rg_set *set = NULL;
    first_set_params old;
    memset(&old, 1, sizeof old); /* RG_DEVICE in each int of the padding */
    for (size_t i = sizeof old - sizeof(int); i < sizeof old; i++)
        ((char *)&old)[i] = i == sizeof old - sizeof(int) ? RG_DEVICE : 0;
    old.size = sizeof old;
    old.name = "old";
    old.keep = 0;
    CHECK_OK(rg_set_create(ctx, &rank, 1,
                           (const rg_set_params *)(const void *)&old, &set));
    CHECK_OK(rg_set_destroy(set));
    rg_set_params params = {.size = sizeof params, .memory = (rg_memory)7};
    refused(rg_set_create(ctx, &rank, 1, &params, &set),
            "a set got memory 7; use RG_HOST or RG_DEVICE");
}

static void of_samplers(void)
{
    rg_sampler *sampler = NULL;
    longer later = {.params = {.size = sizeof later, .count = 4, .batch = 2}};
    refused(rg_sampler_create(NULL, &later.params, &sampler),
            "rg_sampler_params.size is");
    later.params.size = offsetof(rg_sampler_params, seed);
    CHECK_OK(rg_sampler_create(NULL, &later.params, &sampler));
    rg_sampler_destroy(sampler);
}

int main(void)
{
    rg_state *state = NULL;
    rg_params params = {.size = 1};
    refused(rg_init(&params, &ctx), "rg_params.size is 1");
    CHECK_OK(rg_init(NULL, &ctx));
    of_operations();
    of_sets();
    CHECK_OK(rg_state_create(ctx, NULL, &state));
    of_buffers(state);
    of_samplers();
    rg_state_destroy(state);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
