/* Device memory that the CPU may not touch: each block is mapped twice, the
 * address that is handed out without any right, the alias for kernels. The
 * place of pinned memory that was given back is used first. */
#include "tests/device/support/inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE           ((size_t)4096)
#define DEVICE_TOTAL_M 1024 /* MiB, unless the script says another `memory` */

typedef struct block {
    uintptr_t at;
    size_t bytes, room;
    char *alias;
    bool is_pinned;
    int device;
    struct block *next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static double born_ms;
static void *vacant; /* where the pinned memory was that came back last */

static size_t held_bytes(bool is_pinned)
{
    size_t bytes = 0;
    for (const block *b = blocks; b; b = b->next)
        if (b->is_pinned == is_pinned)
            bytes += b->bytes;
    return bytes;
}

static size_t total_bytes(void)
{
    return (size_t)fake_setting("memory", DEVICE_TOTAL_M) << 20;
}

/* `alloc oom ms=N`: there is no memory in the first N ms, or ever. */
static bool is_scripted_oom(void)
{
    fake_fault f;
    if (!fake_script("alloc", NULL, &f))
        return false;
    if (strcmp(f.verdict, "forbidden") == 0)
        fake_violation("memory of the device is taken or given back while the "
                       "test forbids it");
    return strcmp(f.verdict, "oom") == 0 &&
           (f.ms < 0 || fake_now_ms() - born_ms < f.ms);
}

static void *map(void *place, int fd, size_t room, int rights)
{
    void *at = mmap(place, room, rights, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fake_violation("no memory can be mapped for %zu bytes", room);
    return at;
}

static block *make_block(bool is_pinned, size_t bytes, int device)
{
    block *b = calloc(1, sizeof *b);
    const int fd = memfd_create("device", MFD_CLOEXEC);
    b->bytes = bytes;
    b->room = (bytes + PAGE - 1) / PAGE * PAGE;
    b->is_pinned = is_pinned;
    b->device = device;
    if (fd < 0 || ftruncate(fd, (off_t)b->room) != 0)
        fake_violation("no file can be made for %zu bytes", bytes);
    if (!is_pinned)
        b->at = (uintptr_t)map(vacant, fd, b->room, PROT_NONE);
    b->alias = map(NULL, fd, b->room, PROT_READ | PROT_WRITE);
    if (is_pinned)
        b->at = (uintptr_t)b->alias;
    close(fd);
    return b;
}

int fake_memory_add(bool is_pinned, size_t bytes, int device, void **at_p)
{
    if (born_ms == 0)
        born_ms = fake_now_ms();
    if (bytes == 0)
        return RG__CU_ERROR_INVALID_VALUE;
    if (is_scripted_oom())
        return RG__CU_ERROR_OUT_OF_MEMORY;
    const size_t total = total_bytes();
    pthread_mutex_lock(&lock);
    const bool fits = is_pinned || held_bytes(false) + bytes <= total;
    if (fits) {
        block *b = make_block(is_pinned, bytes, device);
        b->next = blocks;
        blocks = b;
        *at_p = (void *)b->at;
    }
    pthread_mutex_unlock(&lock);
    return fits ? RG__CU_SUCCESS : RG__CU_ERROR_OUT_OF_MEMORY;
}

static block *cut_out(bool is_pinned, const void *at)
{
    for (block **b = &blocks; *b; b = &(*b)->next)
        if ((*b)->at == (uintptr_t)at && (*b)->is_pinned == is_pinned) {
            block *found = *b;
            *b = found->next;
            return found;
        }
    return NULL;
}

int fake_memory_drop(bool is_pinned, void *at)
{
    is_scripted_oom();
    fake_streams_wait(); /* as the driver does, for the whole device */
    return fake_memory_forget(is_pinned, at);
}

int fake_memory_forget(bool is_pinned, void *at)
{
    pthread_mutex_lock(&lock);
    block *b = cut_out(is_pinned, at);
    if (b) {
        munmap(b->alias, b->room);
        if (!is_pinned)
            munmap((void *)b->at, b->room);
        else
            vacant = at;
    }
    pthread_mutex_unlock(&lock);
    if (!b)
        return RG__CU_ERROR_INVALID_VALUE;
    free(b);
    return RG__CU_SUCCESS;
}

static const block *block_at(uintptr_t at)
{
    for (const block *b = blocks; b; b = b->next)
        if (at >= b->at && at - b->at < b->bytes)
            return b;
    return NULL;
}

char *fake_alias(const char *call, rg__cu_address at, size_t bytes)
{
    char *alias = NULL;
    if (bytes == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    const block *b = block_at((uintptr_t)at);
    if (b && bytes <= b->bytes - ((uintptr_t)at - b->at))
        alias = b->alias + ((uintptr_t)at - b->at);
    pthread_mutex_unlock(&lock);
    if (!b)
        fake_violation("%s: %#llx is neither device nor pinned memory", call,
                       at);
    if (!alias)
        fake_violation("%s: %zu bytes at %#llx reach past their block", call,
                       bytes, at);
    return alias;
}

void *fake_reach(unsigned long long address, size_t n)
{
    return fake_alias("a kernel", address, n);
}

int fake_memory_type(rg__cu_address at, int *device_p)
{
    int type = 0;
    pthread_mutex_lock(&lock);
    const block *b = block_at((uintptr_t)at);
    if (b) {
        type = b->is_pinned ? RG__CU_MEMORYTYPE_HOST : RG__CU_MEMORYTYPE_DEVICE;
        *device_p = b->device;
    }
    pthread_mutex_unlock(&lock);
    return type;
}

bool fake_is_pinned(const void *at, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const block *b = block_at((uintptr_t)at);
    const bool is =
        b && b->is_pinned && bytes <= b->bytes - ((uintptr_t)at - b->at);
    pthread_mutex_unlock(&lock);
    return is;
}

void fake_memory_info(int device, size_t *free_p, size_t *total_p)
{
    (void)device;
    *total_p = total_bytes();
    pthread_mutex_lock(&lock);
    *free_p = *total_p - held_bytes(false);
    pthread_mutex_unlock(&lock);
}

void fake_memory_held(fake_holdings *held)
{
    pthread_mutex_lock(&lock);
    for (const block *b = blocks; b; b = b->next)
        held->blocks++;
    held->device = held_bytes(false);
    held->pinned = held_bytes(true);
    pthread_mutex_unlock(&lock);
}
