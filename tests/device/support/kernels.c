/* The kernels of Regroup, compiled for the CPU: the lines of scale.cl, run by
 * one thread of the device after another. */
#include "tests/device/support/inside.h"

#include <stdlib.h>
#include <string.h>

typedef int8_t i8;
typedef uint8_t u8;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;

static _Thread_local u64 first, threads;

#define KERNEL static
#define GLOBAL
#define FIRST first
#define STEP  threads
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include "sdk/transport/nccl/scale.cl"
#pragma GCC diagnostic pop

typedef struct work {
    const struct kernel *kernel;
    unsigned threads;
    char *out;
    const char *in;
    u64 n;
    double before;
    int over;
    double by;
} work;

#define RUN(name, T)                                                           \
    static void run_##name(const work *w)                                      \
    {                                                                          \
        rg_scale_##name((T *)(void *)w->out, (const T *)(const void *)w->in,   \
                        w->n, w->before, w->over, w->by);                      \
    }
RUN(u8, u8)
RUN(i8, i8)
RUN(i32, i32)
RUN(u32, u32)
RUN(i64, i64)
RUN(u64, u64)
RUN(f16, u16)
RUN(bf16, u16)
RUN(f32, float)
RUN(f64, double)

static const struct kernel {
    const char *name;
    void (*run)(const work *w);
    size_t element;
} kernels[] = {{"rg_scale_u8", run_u8, 1},   {"rg_scale_i8", run_i8, 1},
               {"rg_scale_i32", run_i32, 4}, {"rg_scale_u32", run_u32, 4},
               {"rg_scale_i64", run_i64, 8}, {"rg_scale_u64", run_u64, 8},
               {"rg_scale_f16", run_f16, 2}, {"rg_scale_bf16", run_bf16, 2},
               {"rg_scale_f32", run_f32, 4}, {"rg_scale_f64", run_f64, 8}};

const void *fake_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

void *fake_kernel_make(const void *found, unsigned all, void **arguments)
{
    work *w = calloc(1, sizeof *w);
    rg__cu_address out, in;
    memcpy(&out, arguments[0], sizeof out);
    memcpy(&in, arguments[1], sizeof in);
    memcpy(&w->n, arguments[2], sizeof w->n);
    memcpy(&w->before, arguments[3], sizeof w->before);
    memcpy(&w->over, arguments[4], sizeof w->over);
    memcpy(&w->by, arguments[5], sizeof w->by);
    w->kernel = found;
    w->threads = all;
    w->out = fake_alias("a kernel", out, w->n * w->kernel->element);
    w->in = fake_alias("a kernel", in, w->n * w->kernel->element);
    return w;
}

void fake_kernel_run(void *kernel)
{
    work *w = kernel;
    threads = w->threads;
    for (first = 0; first < threads && first < w->n && !fake_sticky(); first++)
        w->kernel->run(w);
    free(w);
}
