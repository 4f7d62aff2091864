/* The device of a process: its context, the words that operations end with,
 * generations, and the thread that connects lanes. */
#include "sdk/transport/nccl/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/start_thread.h"

#define OPEN_NS   (10000 * RG__MS) /* for a dead process's memory to be free */
#define OPEN_STEP (100 * RG__MS)
#define IN_FLIGHT 64
#define LIMIT_MS  10000

/* ---------------------------------------------------------------- context */

static rg_status check(const rg__device *d, int rc, const char *what)
{
    return rc == RG__CU_SUCCESS
               ? RG_OK
               : rg__cuda_fail(&d->cuda.call, RG_ERR_DEVICE, rc, what);
}

rg_status rg__device_use(rg__device *d)
{
    rg__cu_context now = NULL;
    int rc = d->cuda.call.context_get(&now);
    if (rc == RG__CU_SUCCESS && now != d->context)
        rc = d->cuda.call.context_set(d->context);
    return check(d, rc, "the device's context can't be used");
}

/* Take the device that the program has chosen, else the slot's. */
static rg_status choose(rg__device *d, int slot)
{
    rg__cu_context now = NULL;
    int n = 0, rc = d->cuda.call.device_count(&n);
    if (rc != RG__CU_SUCCESS)
        return check(d, rc, "the devices can't be counted");
    if (n == 0)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "the driver is here but finds no device; look at "
                        "nvidia-smi, and at CUDA_VISIBLE_DEVICES");
    rc = d->cuda.call.context_get(&now);
    if (rc == RG__CU_SUCCESS && now != NULL)
        rc = d->cuda.call.context_device(&d->handle);
    else if (rc == RG__CU_SUCCESS)
        rc = d->cuda.call.device_get(&d->handle, slot % n);
    if (rc != RG__CU_SUCCESS)
        return check(d, rc, "the device can't be found");
    for (int i = 0, handle = -1; i < n; i++)
        if (d->cuda.call.device_get(&handle, i) == RG__CU_SUCCESS &&
            handle == d->handle)
            d->ordinal = i;
    d->cuda.call.device_name(d->name, sizeof d->name, d->handle);
    d->cuda.call.device_bus(d->bus, sizeof d->bus, d->handle);
    return RG_OK;
}

static bool passes(int rc)
{
    return rc == RG__CU_ERROR_OUT_OF_MEMORY ||
           rc == RG__CU_ERROR_DEVICE_UNAVAILABLE;
}

static int take_half(rg__device *d, int half)
{
    const rg__cuda *call = &d->cuda.call;
    void *at = d->half[half];
    int rc = RG__CU_SUCCESS;
    if (at == NULL)
        rc =
            call->host_alloc(&at, RG__HALF_BYTES, RG__CU_MEMHOSTALLOC_PORTABLE);
    if (rc == RG__CU_SUCCESS)
        d->half[half] = at;
    if (rc == RG__CU_SUCCESS && d->mover[half] == NULL)
        rc =
            call->stream_create(&d->mover[half], RG__CU_STREAM_NON_BLOCKING, 0);
    return rc;
}

/* Take the context, and the memory that Regroup itself needs. */
static int take_memory(rg__device *d)
{
    const size_t words =
        sizeof *d->word * (size_t)RG__LANES * (size_t)d->params.in_flight;
    const rg__cuda *call = &d->cuda.call;
    void *at = d->word;
    int rc = RG__CU_SUCCESS;
    if (d->context == NULL)
        rc = call->context_retain(&d->context, d->handle);
    if (rc == RG__CU_SUCCESS)
        rc = call->context_set(d->context);
    if (rc == RG__CU_SUCCESS && at == NULL)
        rc = call->host_alloc(&at, words,
                              RG__CU_MEMHOSTALLOC_PORTABLE |
                                  RG__CU_MEMHOSTALLOC_DEVICEMAP);
    if (rc == RG__CU_SUCCESS && d->word == NULL) {
        memset(at, 0, words);
        d->word = at;
    }
    if (rc == RG__CU_SUCCESS)
        rc = call->host_address(&d->word_at, at, 0);
    if (rc == RG__CU_SUCCESS && d->scratch == 0)
        rc = call->memory_alloc(&d->scratch, (size_t)RG__LANES * RG__SCRATCH);
    if (rc == RG__CU_SUCCESS)
        rc = call->set_bytes(d->scratch, 0, (size_t)RG__LANES * RG__SCRATCH,
                             NULL);
    for (int half = 0; half < 2 && rc == RG__CU_SUCCESS; half++)
        rc = take_half(d, half);
    return rc;
}

/* A process that was killed in this slot may still hold the device. */
static rg_status take_device(rg__device *d)
{
    const uint64_t end = rg__now_ns() + OPEN_NS;
    int rc = take_memory(d);
    while (passes(rc) && rg__now_ns() < end) {
        rg__sleep_ns(OPEN_STEP);
        rc = take_memory(d);
    }
    if (rc == RG__CU_SUCCESS)
        return RG_OK;
    char what[160];
    size_t free = 0, total = 0;
    const int n = snprintf(what, sizeof what, "device %d (%s) can't be used",
                           d->ordinal, d->name);
    if (d->cuda.call.memory_info(&free, &total) == RG__CU_SUCCESS)
        snprintf(what + n, sizeof what - (size_t)n,
                 "; %zu of its %zu MiB are free", free >> 20, total >> 20);
    return check(d, rc, what);
}

/* ------------------------------------------------------------------- life */

static void warn_of_slow_aborts(const rg__device *d)
{
    char text[16];
    rg__nccl_version_text(d->nccl.version, text);
    if (d->nccl.version < RG__NCCL_QUICK)
        rg__log(RG__WARN, "device",
                "%s is NCCL %s: before 2.26.2 each operation that is under way "
                "when a worker is lost takes up to 0.2 s to end; install a "
                "later one",
                d->nccl.path, text);
}

static rg_status open_libraries(rg__device *d, const rg__device_config *config)
{
    rg_status st = rg__nccl_check_environment();
    if (st != RG_OK)
        return st;
    rg__nccl_prepare_environment();
    st = rg__cuda_open(config->cuda_lib, &d->cuda);
    if (st == RG_OK)
        st = rg__nccl_open(config->nccl_lib, &d->nccl);
    if (st == RG_OK)
        warn_of_slow_aborts(d);
    return st == RG_ERR_NOT_FOUND ? RG_ERR_UNSUPPORTED : st;
}

static void *run_thread(void *arg)
{
    rg__device *d = arg;
    pthread_setname_np(pthread_self(), "rg-device");
    if (rg__device_use(d) != RG_OK)
        rg__log(RG__ERROR, "device", "%s", rg_last_error());
    while (!atomic_load(&d->wants_stop)) {
        const rg__word bell = {&d->bell, atomic_load(&d->bell)};
        uint64_t wait = rg__lanes_step(d);
        if (wait >= RG__DEVICE_IDLE_NS) { /* from now on launches ring */
            atomic_store(&d->is_idle, true);
            wait = rg__lanes_step(d);
        }
        rg__futex_wait_any(&bell, 1, wait);
        atomic_store(&d->is_idle, false);
    }
    return NULL;
}

void rg__device_ring(rg__device *d)
{
    atomic_fetch_add(&d->bell, 1);
    rg__futex_wake(&d->bell);
}

static rg_status start_thread(rg__device *d)
{
    const int rc = rg__start_thread(&d->thread, run_thread, d);
    if (rc != 0)
        return rg__fail(RG_ERR_SYSTEM, "the device's thread can't be made: %s",
                        strerror(rc));
    d->has_thread = true;
    return RG_OK;
}

static void init_locks(rg__device *d)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&d->table, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static void set_defaults(rg_device_params *p)
{
    if (p->init_timeout_ms == 0)
        p->init_timeout_ms = LIMIT_MS;
    if (p->abort_timeout_ms == 0)
        p->abort_timeout_ms = LIMIT_MS;
    if (p->in_flight == 0)
        p->in_flight = IN_FLIGHT;
    while ((p->in_flight & (p->in_flight - 1)) != 0)
        p->in_flight++; /* so that numbers keep their words beyond 2^32 */
}

rg_status rg__device_create(const rg__device_config *config,
                            rg__device **device_p)
{
    rg__device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a device");
    d->params = config->params;
    d->broken = config->broken;
    d->look = config->look;
    d->arg = config->arg;
    d->stall_ns = config->stall_ms * RG__MS;
    set_defaults(&d->params);
    atomic_init(&d->references, 1);
    init_locks(d);
    rg_status st = open_libraries(d, config);
    if (st == RG_OK)
        st = choose(d, config->slot);
    if (st == RG_OK)
        st = take_device(d);
    if (st == RG_OK)
        rg__scale_load(d);
    if (st == RG_OK)
        st = start_thread(d);
    if (st != RG_OK) {
        rg__device_destroy(d);
        return st;
    }
    *device_p = d;
    return RG_OK;
}

static void await_endings(rg__device *d)
{
    pthread_mutex_lock(&d->table);
    while (d->ending != NULL || d->lanes != NULL)
        pthread_cond_wait(&d->changed, &d->table);
    pthread_mutex_unlock(&d->table);
}

static void give_memory_back(rg__device *d)
{
    const rg__cuda *call = &d->cuda.call;
    if (d->context == NULL || rg__device_use(d) != RG_OK)
        return;
    for (int half = 0; half < 2; half++) {
        if (d->mover[half] != NULL)
            call->stream_destroy(d->mover[half]);
        if (d->half[half] != NULL)
            call->host_free(d->half[half]);
    }
    if (d->scratch != 0)
        call->memory_free(d->scratch);
    if (d->word != NULL)
        call->host_free(d->word);
    call->context_release(d->handle);
}

void rg__device_destroy(rg__device *d)
{
    if (d == NULL)
        return;
    if (d->has_thread) {
        rg__device_close(d, UINT64_MAX, RG_ERR_INVALID,
                         "rg_finalize was called");
        await_endings(d);
        atomic_store(&d->wants_stop, true);
        rg__device_ring(d);
        pthread_join(d->thread, NULL);
    }
    while (atomic_load(&d->waiters) != 0) /* they were told to leave */
        rg__sleep_ns(RG__MS);
    give_memory_back(d);
    rg__device_unref(d);
}

void rg__device_ref(rg__device *d)
{
    atomic_fetch_add(&d->references, 1);
}

void rg__device_unref(rg__device *d)
{
    if (d == NULL || atomic_fetch_sub(&d->references, 1) != 1)
        return;
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->table);
    free(d);
}

void rg__device_info(rg__device *d, rg_device_info *info)
{
    size_t free = 0, total = 0;
    if (rg__device_use(d) == RG_OK)
        d->cuda.call.memory_info(&free, &total);
    info->device = d->ordinal;
    info->driver = d->cuda.version;
    info->nccl = d->nccl.version;
    info->free_bytes = free;
    info->total_bytes = total;
    snprintf(info->name, sizeof info->name, "%s", d->name);
    snprintf(info->bus, sizeof info->bus, "%s", d->bus);
}

static int ask(const rg__device *d, const void *p, int attribute, void *value)
{
    return d->cuda.call.pointer_attribute(value, attribute,
                                          (rg__cu_address)(uintptr_t)p);
}

/* Memory that the driver does not know is the CPU's. */
rg_status rg__device_check_memory(rg__device *d, const void *p)
{
    int ordinal = -1;
    const rg_status st = rg__device_use(d);
    if (st != RG_OK)
        return st;
    const int rc = ask(d, p, RG__CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &ordinal);
    if (rc == RG__CU_ERROR_INVALID_VALUE)
        return rg__fail(RG_ERR_INVALID, "%p is not memory of the device", p);
    if (rc != RG__CU_SUCCESS)
        return check(d, rc, "memory of the device can't be used");
    if (ordinal == d->ordinal ||
        !rg__cuda_is_bound(d->cuda.call.pointer_attribute, p))
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "%p is memory of device %d, and this process uses device "
                    "%d; call cudaSetDevice in each thread that takes memory",
                    p, ordinal, d->ordinal);
}

static rg_status check_ruin(const rg__device *d, int rc)
{
    return check(d, rc,
                 "the device can't go on; this process ends, and its slot "
                 "starts again");
}

rg_status rg__device_drain(rg__device *d)
{
    const rg_status st = rg__device_use(d);
    if (st != RG_OK)
        return st;
    return check_ruin(d, d->cuda.call.context_synchronize());
}

/* After a fault every call reports it, even one for an idle stream. */
rg_status rg__device_look_for_ruin(rg__device *d)
{
    const int rc = d->cuda.call.stream_query(d->mover[0]);
    if (rc == RG__CU_SUCCESS || rc == RG__CU_ERROR_NOT_READY)
        return RG_OK;
    atomic_store(&d->is_ruined, true);
    return check_ruin(d, rc);
}

/* ------------------------------------------------------------------ copies */

static rg__cu_address address_of(const void *p)
{
    return (rg__cu_address)(uintptr_t)p;
}

static rg_status await_half(rg__device *d, unsigned half)
{
    return check(d, d->cuda.call.stream_synchronize(d->mover[half]),
                 "registered memory of the device can't be copied");
}

static size_t piece_of(size_t left)
{
    return left < RG__HALF_BYTES ? left : RG__HALF_BYTES;
}

/* Piece i of a read goes to half i % 2. */
static rg_status begin_reading(rg__device *d, const char *from, size_t bytes,
                               size_t i)
{
    const size_t at = i * RG__HALF_BYTES;
    if (at >= bytes)
        return RG_OK;
    const int rc = d->cuda.call.copy_out(d->half[i % 2], address_of(from + at),
                                         piece_of(bytes - at), d->mover[i % 2]);
    return check(d, rc, "registered memory of the device can't be read");
}

rg_status rg__device_read(rg__device *d, const void *from, size_t bytes,
                          rg__device_piece_fn fn, void *arg)
{
    rg_status st = rg__device_use(d);
    if (st == RG_OK)
        st = begin_reading(d, from, bytes, 0);
    for (size_t i = 0; i * RG__HALF_BYTES < bytes && st == RG_OK; i++) {
        st = begin_reading(d, from, bytes, i + 1);
        if (st == RG_OK)
            st = await_half(d, i % 2);
        if (st == RG_OK)
            st = fn(arg, d->half[i % 2], piece_of(bytes - i * RG__HALF_BYTES));
    }
    if (st != RG_OK) /* so that nothing writes into the ring any more */
        for (unsigned half = 0; half < 2; half++)
            d->cuda.call.stream_synchronize(d->mover[half]);
    return st;
}

static rg_status write_piece(rg__device *d, char *to, const char *from,
                             size_t n)
{
    const unsigned half = d->next_half;
    const rg_status st = await_half(d, half); /* its last piece is written */
    if (st != RG_OK)
        return st;
    rg__copy(d->half[half], from, n);
    d->next_half = 1 - half;
    const int rc =
        d->cuda.call.copy_in(address_of(to), d->half[half], n, d->mover[half]);
    return check(d, rc, "registered memory of the device can't be written");
}

rg_status rg__device_write(rg__device *d, void *to, const void *from,
                           size_t bytes)
{
    rg_status st = rg__device_use(d);
    for (size_t at = 0; at < bytes && st == RG_OK; at += RG__HALF_BYTES)
        st = write_piece(d, (char *)to + at, (const char *)from + at,
                         piece_of(bytes - at));
    return st;
}

rg_status rg__device_flush(rg__device *d)
{
    rg_status st = rg__device_use(d);
    for (unsigned half = 0; half < 2 && st == RG_OK; half++)
        st = await_half(d, half);
    return st;
}

/* ------------------------------------------------------------- generations */

/* The Regroup thread: the table is held for moments only, never around a call
 * of CUDA or NCCL. The reason goes first, since a thread that sees `closing`
 * reads it. */
void rg__device_close(rg__device *d, uint64_t generation, rg_status st,
                      const char *why)
{
    pthread_mutex_lock(&d->table);
    if (atomic_load(&d->closing) < generation) {
        d->close_st = st;
        snprintf(d->close_why, sizeof d->close_why, "%s", why);
        atomic_store(&d->closing, generation);
    }
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->table);
    rg__device_ring(d);
}

/* The table is held. */
static rg_status say_closed(rg__device *d)
{
    return rg__fail(d->close_st, "%s", d->close_why);
}

rg_status rg__device_check(rg__device *d, uint64_t generation)
{
    if (!rg__device_is_closed(d, generation))
        return RG_OK;
    pthread_mutex_lock(&d->table);
    const rg_status st = say_closed(d);
    pthread_mutex_unlock(&d->table);
    return st;
}

/* A worker that enters a generation has left those before it, even if the
 * device was opened meanwhile and so was not told. */
static void await_quiet(rg__device *d)
{
    pthread_mutex_lock(&d->table);
    const uint64_t last = d->entered;
    pthread_mutex_unlock(&d->table);
    rg__device_close(d, last, RG_ERR_PEER_LOST,
                     "the generation was left; return this status from fn");
    pthread_mutex_lock(&d->table);
    while (d->entered > atomic_load(&d->quiet))
        pthread_cond_wait(&d->changed, &d->table);
    pthread_mutex_unlock(&d->table);
}

static bool has_begun(rg__device *d, uint64_t generation)
{
    pthread_mutex_lock(&d->table);
    const bool has = d->entered == generation;
    pthread_mutex_unlock(&d->table);
    return has;
}

rg_status rg__device_enter(rg__device *d, uint64_t generation)
{
    if (has_begun(d, generation))
        return rg__device_check(d, generation);
    await_quiet(d);
    rg_status st = rg__device_drain(d);
    if (st != RG_OK)
        return st;
    pthread_mutex_lock(&d->table);
    if (rg__device_is_closed(d, generation))
        st = say_closed(d);
    else
        d->entered = generation;
    pthread_mutex_unlock(&d->table);
    return st;
}
