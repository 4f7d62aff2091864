/* Memory of a device in a call that is for host memory is one sentence, and the
 * set works on: in a program that has loaded the driver itself, before and
 * after it is asked for anything, and after rg_device_open. Pinned memory is
 * the host's, but not what comes to its place later. Without a driver nothing
 * is asked, and nothing loaded.
 *
 * Covers: whose_memory.c call.c reducer_steps.c on_device.c adasum.c rows.c */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "regroup/regroup_cuda.h"
#include "sdk/transport/nccl/load.h"
#include "sdk/transport/nccl/nccl.h"
#include "tests/check.h"

#define COUNT 16
#define PAGE  ((size_t)4096)
#define PAGES 8

typedef int (*init_fn)(unsigned flags);
typedef int (*retain_fn)(rg__cu_context *context_p, int device);
typedef int (*set_fn)(rg__cu_context context);
typedef int (*alloc_fn)(rg__cu_address *at_p, size_t bytes);
typedef int (*pin_fn)(void **memory_p, size_t bytes, unsigned flags);
typedef int (*unpin_fn)(void *memory);

static rg_ctx *ctx;
static char folder[] = "/tmp/rg-whose-XXXXXX";

static void find(void *library, const char *name, void *fn_p)
{
    void *at = dlsym(library, name);
    CHECK(at != NULL);
    memcpy(fn_p, &at, sizeof at);
}

/* As cudart does: by the name libcuda.so.1, and kept to itself. */
static void *load_driver(void)
{
    char path[sizeof folder + 32];
    const char *stand_in = getenv("REGROUP_CUDA_LIB");
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    CHECK(symlink(stand_in, path) == 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    CHECK(unlink(path) == 0);
    return library;
}

static void refused(rg_status st, const char *part)
{
    CHECK_EQ(st, RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "memory of a device") != NULL);
    CHECK(strstr(rg_last_error(), part) != NULL);
}

static void collectives(float *there, float *host)
{
    rg_set *set = rg_world(ctx);
    rg_rows *rows = NULL;
    const uint64_t at[] = {1};
    refused(rg_allreduce(set, there, there, COUNT, RG_F32, RG_SUM),
            "allreduce on host memory");
    refused(rg_allreduce(set, there, host, COUNT, RG_F32, RG_SUM),
            "rg_device_open");
    refused(rg_allreduce(set, host, there + 4, 1, RG_F32, RG_SUM), "RG_DEVICE");
    refused(rg_broadcast(set, there, COUNT, RG_F32, 0), "broadcast");
    refused(rg_allgather(set, host, there, 1, RG_F32), "allgather");
    refused(rg_send(set, there, 1, RG_F32, 0, 7), "send");
    refused(rg_recv(set, there, 1, RG_F32, 0, 7, NULL), "recv");
    refused(rg_adasum(set, there, COUNT, RG_F32), "adasum");
    refused(rg_allreduce_rows(set, at, there, 1, 1, RG_F32, RG_SUM, &rows),
            "allreduce_rows");
    CHECK_OK(rg_allreduce(set, there, there, 0, RG_F32, RG_SUM)); /* nothing */
    host[0] = 3;
    CHECK_OK(rg_allreduce(set, host, host, COUNT, RG_F32, RG_SUM));
    CHECK(host[0] == 3);
}

static void reducers(float *there, float *host)
{
    rg_reducer *reducer = NULL;
    CHECK_OK(rg_reducer_create(rg_world(ctx), NULL, &reducer));
    refused(rg_reducer_add(reducer, "w", there, COUNT, RG_F32, NULL),
            "tensor \"w\" is in memory of a device");
    CHECK_OK(rg_reducer_add(reducer, "w", host, COUNT, RG_F32, NULL));
    CHECK_OK(rg_reducer_start_step(reducer));
    CHECK_OK(rg_reducer_ready(reducer, 0));
    CHECK_OK(rg_reducer_finish(reducer));
    rg_reducer_destroy(reducer);
}

/* Pinned memory that was reduced is given back, and the driver puts memory of a
 * device in its place. */
static void place_of_pinned(pin_fn pin, unpin_fn unpin, alloc_fn alloc)
{
    const size_t room = PAGES * PAGE;
    rg__cu_address at = 0;
    void *pinned = NULL;
    CHECK_EQ(pin(&pinned, room, 0), 0);
    for (size_t i = 0; i < room; i += PAGE) {
        float *one = (float *)(void *)((char *)pinned + i);
        CHECK_OK(rg_allreduce(rg_world(ctx), one, one, 1, RG_F32, RG_SUM));
    }
    const uintptr_t begin = (uintptr_t)pinned;
    CHECK_EQ(unpin(pinned), 0);
    for (int i = 0; i < PAGES && (at < begin || at >= begin + room); i++)
        CHECK_EQ(alloc(&at, PAGE), 0);
    CHECK(at >= begin && at < begin + room);
    float *there = (float *)(uintptr_t)at;
    refused(rg_allreduce(rg_world(ctx), there, there, 1, RG_F32, RG_SUM),
            "allreduce on host memory");
}

static void states(float *there, float *host)
{
    rg_state *state = NULL;
    CHECK_OK(rg_state_create(ctx, NULL, &state));
    refused(rg_state_add(state, "w", there, COUNT * sizeof *there, NULL),
            "buffer w can't be registered");
    CHECK_OK(rg_state_add(state, "w", host, COUNT * sizeof *host, NULL));
    rg_state_destroy(state);
}

int main(void)
{
    init_fn init;
    retain_fn retain;
    set_fn set;
    alloc_fn alloc;
    pin_fn pin;
    unpin_fn unpin;
    rg__cu_context context;
    rg__cu_address at = 0;
    void *pinned = NULL;
    float host[COUNT] = {0};
    const rg_params params = {.size = sizeof params};
    CHECK(mkdtemp(folder) != NULL);
    CHECK(setenv("FAKE_DEVICE", folder, 1) == 0);
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_allreduce(rg_world(ctx), host, host, 1, RG_F32, RG_SUM));
    CHECK(!rg__device_owns(&at));
    void *driver = load_driver();
    CHECK(!rg__device_owns(&at + 1)); /* it is not even started */
    find(driver, "cuInit", &init);
    find(driver, "cuDevicePrimaryCtxRetain", &retain);
    find(driver, "cuCtxSetCurrent", &set);
    find(driver, "cuMemAlloc_v2", &alloc);
    find(driver, "cuMemHostAlloc", &pin);
    find(driver, "cuMemFreeHost", &unpin);
    CHECK_EQ(init(0), 0);
    CHECK_EQ(retain(&context, 0), 0);
    CHECK_EQ(set(context), 0);
    CHECK_EQ(alloc(&at, COUNT * sizeof(float)), 0);
    CHECK_EQ(pin(&pinned, COUNT * sizeof(float), 0), 0);
    float *there = (float *)(uintptr_t)at;
    while (!rg__device_owns(there)) /* it is looked for once in a tick */
        sched_yield();
    for (int opened = 0; opened < 2; opened++) {
        collectives(there, host);
        collectives(there, pinned);
        reducers(there, host);
        states(there, host);
        place_of_pinned(pin, unpin, alloc);
        if (!opened)
            CHECK_OK(rg_device_open(ctx, NULL));
    }
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
