/* Host operations are given memory of a device by mistake, and the first access
 * to it would end the process. The driver knows which memory that is: the one
 * that Regroup has opened, or else one that the process has loaded. Nothing is
 * opened for this: without a driver there is no such memory. */
#include <dlfcn.h>
#include <link.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sdk/transport/nccl/load.h"
#include "sdk/transport/nccl/nccl.h"

/* A question takes as long as a small operation, and programs use the same
 * buffers again and again: addresses that the driver did not know are not asked
 * about again. Those of pinned and managed memory are, since the driver may
 * give their place to a device once the program has given them back. */
#define KNOWN_BITS 12
static _Atomic(uintptr_t) known[1 << KNOWN_BITS];

static _Atomic(rg__cuda_ask) ask;
static _Atomic(unsigned long long) looked_at; /* loads without a driver */
static _Atomic(uint64_t) looked_ns;

void rg__cuda_note(const rg__cuda *call)
{
    atomic_store(&ask, call->pointer_attribute);
}

typedef struct search {
    unsigned long long loads;
    char path[PATH_MAX];
} search;

/* Ends at once where nothing was loaded since the last search. */
static int look_at(struct dl_phdr_info *object, size_t size, void *arg)
{
    search *s = arg;
    const char *slash = strrchr(object->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : object->dlpi_name;
    (void)size;
    s->loads = object->dlpi_adds;
    if (s->loads == atomic_load(&looked_at))
        return 1;
    if (strncmp(name, "libcuda.so", strlen("libcuda.so")) != 0)
        return 0;
    snprintf(s->path, sizeof s->path, "%s", object->dlpi_name);
    return 1;
}

/* A driver takes far longer to start than a tick of this clock. */
static bool has_just_looked(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    const uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    const bool is_same =
        atomic_load_explicit(&looked_ns, memory_order_relaxed) == now;
    atomic_store_explicit(&looked_ns, now, memory_order_relaxed);
    return is_same;
}

static rg__cuda_ask find(void)
{
    rg__cuda_ask found = atomic_load(&ask);
    if (found != NULL)
        return found;
    search s = {0};
    dl_iterate_phdr(look_at, &s);
    void *library =
        s.path[0] != '\0' ? dlopen(s.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *at = library != NULL ? dlsym(library, "cuPointerGetAttribute") : NULL;
    memcpy(&found, &at, sizeof found);
    atomic_store(&looked_at, s.loads);
    atomic_store(&ask, found);
    return found;
}

static bool is_drivers(rg__cuda_ask by, const void *p)
{
    unsigned type = 0;
    return by(&type, RG__CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p) ==
           RG__CU_SUCCESS;
}

bool rg__cuda_is_bound(rg__cuda_ask by, const void *p)
{
    const rg__cu_address at = (uintptr_t)p;
    unsigned type = 0, is_managed = 0;
    return by(&type, RG__CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
               RG__CU_SUCCESS &&
           type == RG__CU_MEMORYTYPE_DEVICE &&
           by(&is_managed, RG__CU_POINTER_ATTRIBUTE_IS_MANAGED, at) ==
               RG__CU_SUCCESS &&
           !is_managed;
}

bool rg__device_owns(const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    const uint64_t mixed = at * UINT64_C(0x9e3779b97f4a7c15);
    _Atomic(uintptr_t) *same = &known[mixed >> (64 - KNOWN_BITS)];
    if (atomic_load_explicit(same, memory_order_relaxed) == at)
        return false;
    if (atomic_load(&ask) == NULL && has_just_looked())
        return false;
    const rg__cuda_ask by = find();
    if (by != NULL && is_drivers(by, p))
        return rg__cuda_is_bound(by, p);
    atomic_store_explicit(same, at, memory_order_relaxed);
    return false;
}
