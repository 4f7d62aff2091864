/* The driver API of the stand-in: libfakecuda.so. */
#include "tests/device/support/inside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX    16
#define DEVICES        8     /* unless the script says other `devices` */
#define DRIVER_VERSION 13000 /* unless the script says another `driver` */

struct CUctx_st {
    int device;
    _Atomic int users; /* retained less released */
};

static struct CUctx_st contexts[DEVICES_MAX];
static _Atomic int owner; /* the process that has called cuInit */
static _Atomic int sticky;
static _Thread_local rg__cu_context current;

/* Each call that is declared for the product, as the library's own. */
#define RG__X(need, type, member, symbol, arguments)                           \
    FAKE_API type symbol arguments;
RG__CUDA_CALLS(RG__X)
#undef RG__X

/* Enter a call, and leave it where nothing works any more. */
#define ENTER(rule)                                                            \
    do {                                                                       \
        const int enter_rc = enter(__func__, rule);                            \
        if (enter_rc != RG__CU_SUCCESS)                                        \
            return enter_rc;                                                   \
    } while (0)

enum rule { ANY_TIME, AFTER_INIT, IN_CONTEXT };

int fake_sticky(void)
{
    fake_fault f;
    if (!atomic_load(&sticky) && fake_script("sticky", NULL, &f))
        atomic_store(&sticky, f.rc > 0 ? f.rc : RG__CU_ERROR_ILLEGAL_ADDRESS);
    return atomic_load(&sticky);
}

void fake_set_sticky(int code)
{
    atomic_store(&sticky, code);
}

static int enter(const char *call, enum rule rule)
{
    fake_enter(call);
    if (rule == ANY_TIME)
        return RG__CU_SUCCESS;
    if (atomic_load(&owner) != getpid())
        return RG__CU_ERROR_NOT_INITIALIZED; /* also in a forked child */
    if (fake_sticky())
        return fake_sticky();
    return rule == IN_CONTEXT && !current ? RG__CU_ERROR_INVALID_CONTEXT
                                          : RG__CU_SUCCESS;
}

int fake_device(void)
{
    return current ? current->device : -1;
}

/* ------------------------------------------------------------ library, errors
 */

int cuInit(unsigned flags)
{
    fake_fault f;
    ENTER(ANY_TIME);
    if (flags != 0)
        return RG__CU_ERROR_INVALID_VALUE;
    if (fake_script("cuinit", NULL, &f)) {
        if (f.ms > 0)
            fake_nap_ms(f.ms);
        if (f.rc > 0)
            return f.rc;
    }
    atomic_store(&owner, getpid());
    return RG__CU_SUCCESS;
}

int cuDriverGetVersion(int *version_p)
{
    fake_fault f;
    ENTER(ANY_TIME);
    *version_p = fake_script("driver", NULL, &f) && f.version > 0
                     ? f.version
                     : DRIVER_VERSION;
    return RG__CU_SUCCESS;
}

int cuGetErrorName(int result, const char **text_p)
{
    switch (result) {
#define RG__X(name, value)                                                     \
    case value:                                                                \
        *text_p = "CUDA_" #name;                                               \
        return RG__CU_SUCCESS;
        RG__CU_RESULTS(RG__X)
#undef RG__X
    default:
        *text_p = NULL;
        return RG__CU_ERROR_INVALID_VALUE;
    }
}

int cuGetErrorString(int result, const char **text_p)
{
    return cuGetErrorName(result, text_p);
}

/* ------------------------------------------------------------------- devices
 */

/* The n-th device that CUDA_VISIBLE_DEVICES leaves; -1: there are fewer. */
static int visible(int n)
{
    const int count = fake_setting("devices", DEVICES);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list)
        return n < count ? n : -1;
    while (*list) {
        char *end = NULL;
        const long device = strtol(list, &end, 10);
        if (end == list || device < 0 || device >= count)
            return -1; /* what follows a bad number is not seen */
        if (n-- == 0)
            return (int)device;
        list = *end ? end + 1 : end;
    }
    return -1;
}

static int visible_count(void)
{
    int n = 0;
    while (n < DEVICES_MAX && visible(n) >= 0)
        n++;
    return n;
}

int cuDeviceGetCount(int *n_p)
{
    ENTER(AFTER_INIT);
    *n_p = visible_count();
    return RG__CU_SUCCESS;
}

int cuDeviceGet(int *device_p, int ordinal)
{
    ENTER(AFTER_INIT);
    if (ordinal < 0 || ordinal >= visible_count())
        return RG__CU_ERROR_INVALID_DEVICE;
    *device_p = ordinal;
    return RG__CU_SUCCESS;
}

static bool is_device(int device)
{
    return device >= 0 && device < visible_count();
}

int cuDeviceGetName(char *text, int room, int device)
{
    ENTER(AFTER_INIT);
    if (!is_device(device))
        return RG__CU_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)room, "Stand-in %d", visible(device));
    return RG__CU_SUCCESS;
}

int cuDeviceGetAttribute(int *value_p, int attribute, int device)
{
    ENTER(AFTER_INIT);
    if (!is_device(device))
        return RG__CU_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case RG__CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value_p = fake_setting("mode", RG__CU_COMPUTEMODE_DEFAULT);
        return RG__CU_SUCCESS;
    case RG__CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value_p = 1;
        return RG__CU_SUCCESS;
    case RG__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value_p = 9;
        return RG__CU_SUCCESS;
    case RG__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value_p = 0;
        return RG__CU_SUCCESS;
    default:
        return RG__CU_ERROR_INVALID_VALUE;
    }
}

void fake_device_bus(int device, char *text, size_t room)
{
    snprintf(text, room, "0000:%02X:00.0", 0x81 + visible(device));
}

int cuDeviceGetPCIBusId(char *text, int room, int device)
{
    ENTER(AFTER_INIT);
    if (!is_device(device))
        return RG__CU_ERROR_INVALID_DEVICE;
    fake_device_bus(device, text, (size_t)room);
    return RG__CU_SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes_p, int device)
{
    size_t ignored = 0;
    ENTER(AFTER_INIT);
    if (!is_device(device))
        return RG__CU_ERROR_INVALID_DEVICE;
    fake_memory_info(device, &ignored, bytes_p);
    return RG__CU_SUCCESS;
}

/* ------------------------------------------------------------------ contexts
 */

/* `retain rc=2 ms=N`: in the first N ms, or ever. */
static int scripted_retain(void)
{
    static _Atomic double first_ms;
    fake_fault f;
    if (atomic_load(&first_ms) == 0)
        atomic_store(&first_ms, fake_now_ms());
    if (!fake_script("retain", NULL, &f) || f.rc < 0)
        return RG__CU_SUCCESS;
    const double since_ms = fake_now_ms() - atomic_load(&first_ms);
    return f.ms < 0 || since_ms < f.ms ? f.rc : RG__CU_SUCCESS;
}

int cuDevicePrimaryCtxRetain(rg__cu_context *context_p, int device)
{
    ENTER(AFTER_INIT);
    if (!is_device(device))
        return RG__CU_ERROR_INVALID_DEVICE;
    const int rc = scripted_retain();
    if (rc != RG__CU_SUCCESS)
        return rc;
    contexts[device].device = device;
    atomic_fetch_add(&contexts[device].users, 1);
    *context_p = &contexts[device];
    return RG__CU_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER(AFTER_INIT);
    if (!is_device(device) || atomic_load(&contexts[device].users) == 0)
        return RG__CU_ERROR_INVALID_CONTEXT;
    atomic_fetch_sub(&contexts[device].users, 1);
    return RG__CU_SUCCESS;
}

int cuCtxSetCurrent(rg__cu_context context)
{
    ENTER(AFTER_INIT);
    if (context && atomic_load(&context->users) == 0)
        return RG__CU_ERROR_INVALID_CONTEXT;
    current = context;
    return RG__CU_SUCCESS;
}

int cuCtxGetCurrent(rg__cu_context *context_p)
{
    ENTER(AFTER_INIT);
    *context_p = current;
    return RG__CU_SUCCESS;
}

FAKE_API int cuCtxGetDevice(int *device_p);
int cuCtxGetDevice(int *device_p)
{
    ENTER(IN_CONTEXT);
    *device_p = current->device;
    return RG__CU_SUCCESS;
}

int cuCtxSynchronize(void)
{
    ENTER(IN_CONTEXT);
    fake_streams_wait();
    return fake_sticky();
}

/* -------------------------------------------------------------------- memory
 */

int cuMemGetInfo_v2(size_t *free_p, size_t *total_p)
{
    ENTER(IN_CONTEXT);
    fake_memory_info(current->device, free_p, total_p);
    return RG__CU_SUCCESS;
}

int cuMemAlloc_v2(rg__cu_address *address_p, size_t bytes)
{
    void *at = NULL;
    ENTER(IN_CONTEXT);
    const int rc = fake_memory_add(false, bytes, current->device, &at);
    if (rc == RG__CU_SUCCESS)
        *address_p = (uintptr_t)at;
    return rc;
}

int cuMemFree_v2(rg__cu_address address)
{
    ENTER(IN_CONTEXT);
    return address ? fake_memory_drop(false, (void *)(uintptr_t)address)
                   : RG__CU_SUCCESS;
}

int cuMemAllocAsync(rg__cu_address *address_p, size_t bytes,
                    rg__cu_stream stream)
{
    (void)stream; /* it is there at once */
    return cuMemAlloc_v2(address_p, bytes);
}

static void run_give(void *arg)
{
    fake_memory_forget(false, arg);
}

int cuMemFreeAsync(rg__cu_address address, rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    fake_push(stream, run_give, (void *)(uintptr_t)address);
    return RG__CU_SUCCESS;
}

int cuMemHostAlloc(void **memory_p, size_t bytes, unsigned flags)
{
    ENTER(IN_CONTEXT);
    (void)flags;
    return fake_memory_add(true, bytes, current->device, memory_p);
}

int cuMemFreeHost(void *memory)
{
    ENTER(IN_CONTEXT);
    return fake_memory_drop(true, memory);
}

int cuMemHostGetDevicePointer_v2(rg__cu_address *address_p, void *memory,
                                 unsigned flags)
{
    ENTER(IN_CONTEXT);
    if (flags != 0 || !fake_is_pinned(memory, 1))
        return RG__CU_ERROR_INVALID_VALUE;
    *address_p = (uintptr_t)memory;
    return RG__CU_SUCCESS;
}

int cuPointerGetAttribute(void *value, int attribute, rg__cu_address address)
{
    int device = 0;
    ENTER(AFTER_INIT);
    const int type = fake_memory_type(address, &device);
    if (!type)
        return RG__CU_ERROR_INVALID_VALUE;
    switch (attribute) {
    case RG__CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = (unsigned)type;
        return RG__CU_SUCCESS;
    case RG__CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = device;
        return RG__CU_SUCCESS;
    case RG__CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)value = 0;
        return RG__CU_SUCCESS;
    default:
        return RG__CU_ERROR_INVALID_VALUE;
    }
}

/* -------------------------------------------------------------------- copies
 */

typedef struct copy {
    char *to;
    const char *from; /* NULL: value */
    int value;
    size_t bytes;
    void *owned; /* freed behind the copy */
} copy;

static void run_copy(void *arg)
{
    copy *c = arg;
    if (!fake_sticky() && c->from)
        memmove(c->to, c->from, c->bytes);
    else if (!fake_sticky())
        memset(c->to, c->value, c->bytes);
    free(c->owned);
    free(c);
}

static void push_copy(rg__cu_stream stream, copy what)
{
    copy *c = malloc(sizeof *c);
    *c = what;
    fake_push(stream, run_copy, c);
}

/* Ordinary memory is read before the call returns, pinned memory later. */
int cuMemcpyHtoDAsync_v2(rg__cu_address to, const void *from, size_t bytes,
                         rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    void *owned = NULL;
    if (bytes == 0)
        return RG__CU_SUCCESS;
    if (!fake_is_pinned(from, bytes)) {
        owned = malloc(bytes);
        memcpy(owned, from, bytes);
    }
    push_copy(stream, (copy){.to = fake_alias(__func__, to, bytes),
                             .from = owned ? owned : from,
                             .bytes = bytes,
                             .owned = owned});
    return RG__CU_SUCCESS;
}

/* Ordinary memory is written before the call returns. */
int cuMemcpyDtoHAsync_v2(void *to, rg__cu_address from, size_t bytes,
                         rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    if (bytes == 0)
        return RG__CU_SUCCESS;
    push_copy(stream, (copy){.to = to,
                             .from = fake_alias(__func__, from, bytes),
                             .bytes = bytes});
    if (!fake_is_pinned(to, bytes))
        fake_stream_wait(stream);
    return RG__CU_SUCCESS;
}

int cuMemcpyDtoDAsync_v2(rg__cu_address to, rg__cu_address from, size_t bytes,
                         rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    if (bytes == 0)
        return RG__CU_SUCCESS;
    push_copy(stream, (copy){.to = fake_alias(__func__, to, bytes),
                             .from = fake_alias(__func__, from, bytes),
                             .bytes = bytes});
    return RG__CU_SUCCESS;
}

int cuMemsetD8Async(rg__cu_address to, unsigned char value, size_t n,
                    rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    if (n == 0)
        return RG__CU_SUCCESS;
    push_copy(
        stream,
        (copy){.to = fake_alias(__func__, to, n), .value = value, .bytes = n});
    return RG__CU_SUCCESS;
}

/* ------------------------------------------------------------------- streams
 */

int cuStreamCreateWithPriority(rg__cu_stream *stream_p, unsigned flags,
                               int priority)
{
    ENTER(IN_CONTEXT);
    (void)priority;
    *stream_p = fake_stream_create(!(flags & RG__CU_STREAM_NON_BLOCKING),
                                   current->device);
    return RG__CU_SUCCESS;
}

int cuStreamDestroy_v2(rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    fake_stream_destroy(stream);
    return RG__CU_SUCCESS;
}

int cuStreamQuery(rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    return fake_stream_is_idle(stream) ? RG__CU_SUCCESS
                                       : RG__CU_ERROR_NOT_READY;
}

int cuStreamSynchronize(rg__cu_stream stream)
{
    ENTER(IN_CONTEXT);
    fake_stream_wait(stream);
    return fake_sticky();
}

/* `capture n=1`: every stream is being captured. */
int cuStreamIsCapturing(rg__cu_stream stream, int *status_p)
{
    ENTER(IN_CONTEXT);
    (void)stream;
    *status_p = fake_setting("capture", RG__CU_STREAM_CAPTURE_STATUS_NONE);
    return RG__CU_SUCCESS;
}

typedef struct word {
    _Atomic uint32_t *at;
    uint32_t value;
} word;

static void run_word(void *arg)
{
    word *w = arg;
    if (!fake_sticky())
        atomic_store_explicit(w->at, w->value, memory_order_release);
    free(w);
}

int cuStreamWriteValue32_v2(rg__cu_stream stream, rg__cu_address to,
                            uint32_t value, unsigned flags)
{
    ENTER(IN_CONTEXT);
    if (flags != RG__CU_STREAM_WRITE_VALUE_DEFAULT || to % 4 != 0)
        return RG__CU_ERROR_INVALID_VALUE;
    word *w = malloc(sizeof *w);
    w->at = (_Atomic uint32_t *)(void *)fake_alias(__func__, to, 4);
    w->value = value;
    fake_push(stream, run_word, w);
    return RG__CU_SUCCESS;
}

/* ------------------------------------------------------------------- kernels
 */

int fake_launch(rg__cu_stream stream, void (*fn)(void *), void *arg)
{
    ENTER(IN_CONTEXT);
    fake_push(stream, fn, arg);
    return RG__CU_SUCCESS;
}

/* Kernels are those of Regroup, which are compiled for the CPU as well; the
 * text that is loaded must have them. `module rc=N`: the driver takes none. */
int cuModuleLoadData(rg__cu_module *module_p, const void *image)
{
    fake_fault f;
    ENTER(IN_CONTEXT);
    if (fake_script("module", NULL, &f) && f.rc > 0)
        return f.rc;
    *module_p = (rg__cu_module)(uintptr_t)image;
    return RG__CU_SUCCESS;
}

int cuModuleGetFunction(rg__cu_function *function_p, rg__cu_module module,
                        const char *name)
{
    char entry[80];
    ENTER(IN_CONTEXT);
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    *function_p = (rg__cu_function)(uintptr_t)fake_kernel_find(name);
    return strstr((const char *)module, entry) && *function_p
               ? RG__CU_SUCCESS
               : RG__CU_ERROR_NOT_FOUND;
}

int cuLaunchKernel(rg__cu_function function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes,
                   rg__cu_stream stream, void **arguments, void **extra)
{
    ENTER(IN_CONTEXT);
    if (grid_x == 0 || grid_y * grid_z * block_y * block_z != 1 ||
        block_x == 0 || block_x > 1024 || shared_bytes != 0 || extra)
        return RG__CU_ERROR_INVALID_VALUE;
    fake_push(
        stream, fake_kernel_run,
        fake_kernel_make((const void *)function, grid_x * block_x, arguments));
    return RG__CU_SUCCESS;
}
