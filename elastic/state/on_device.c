/* Registered memory as the rest of this room reads and writes it, on the host
 * or on the device. Device memory is copied piece by piece through the device's
 * ring: the vault itself is never given to a device, because a killed process
 * may have copies under way into memory that others use by then. */
#include "elastic/state/state.h"

#include <stdio.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/stream.h"

#define STREAMED ((size_t)4 << 20) /* bytes of a buffer that no cache keeps */

/* A restore comes after rg__device_enter, but a first generation may have been
 * entered long before rg_run. */
rg_status rg__state_await_device(const rg_state *state)
{
    return state->ctx->device == NULL ? RG_OK
                                      : rg__device_drain(state->ctx->device);
}

rg_status rg__state_check_memory(const rg_ctx *ctx, const void *data,
                                 rg_memory memory)
{
    if (data == NULL || (memory == RG_HOST && !rg__device_owns(data)))
        return RG_OK;
    if (memory == RG_HOST)
        return rg__fail(RG_ERR_INVALID,
                        "%p is memory of a device; register it with memory = "
                        "RG_DEVICE, after rg_device_open",
                        data);
    if (memory != RG_DEVICE)
        return rg__fail(RG_ERR_INVALID,
                        "there is no memory %d; use RG_HOST or RG_DEVICE",
                        (int)memory);
    if (ctx->device == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "device memory needs a device; call rg_device_open "
                        "before");
    return rg__device_check_memory(ctx->device, data);
}

static rg_status name_buffer(const rg__state_buffer *b, rg_status st)
{
    return rg__fail(st, "buffer %s: %s", b->name, rg_last_error());
}

/* Memory that the program has freed since is reported, and not touched. */
static rg_status check(const rg__state_buffer *b)
{
    rg_status st = rg__device_check_memory(b->device, b->there);
    if (st == RG_OK)
        st = rg__device_check_memory(b->device, b->there + b->bytes - 1);
    if (st != RG_ERR_INVALID)
        return st == RG_OK ? st : name_buffer(b, st);
    return rg__fail(RG_ERR_INVALID,
                    "buffer %s is no longer memory of the device: it was "
                    "freed, or its device reset, while it is registered; keep "
                    "it until rg_state_destroy",
                    b->name);
}

/* A receiver wrote its own sentence; a failure of the device has none. */
typedef struct reading {
    rg__device_piece_fn fn;
    void *arg;
    rg_status said;
} reading;

static rg_status hand_on(void *arg, const char *bytes, size_t n)
{
    reading *r = arg;
    return r->said = r->fn(r->arg, bytes, n);
}

rg_status rg__state_read(const rg__state_buffer *b, size_t begin, size_t end,
                         rg__device_piece_fn fn, void *arg)
{
    reading r = {fn, arg, RG_OK};
    if (begin == end)
        return RG_OK;
    if (b->device == NULL)
        return fn(arg, b->data + begin, end - begin);
    rg_status st = check(b);
    if (st != RG_OK)
        return st;
    st = rg__device_read(b->device, b->there + begin, end - begin, hand_on, &r);
    return st == RG_OK || r.said != RG_OK ? st : name_buffer(b, st);
}

rg_status rg__state_write(const rg__state_buffer *b, size_t at,
                          const char *from, size_t n)
{
    if (n == 0)
        return RG_OK;
    if (b->device == NULL) {
        if (b->bytes < STREAMED)
            rg__copy(b->data + at, from, n);
        else
            rg__stream(b->data + at, from, n);
        return RG_OK;
    }
    const rg_status st = check(b);
    return st != RG_OK ? st
                       : rg__device_write(b->device, b->there + at, from, n);
}

rg_status rg__state_flush(const rg_state *state)
{
    return state->ctx->device == NULL ? RG_OK
                                      : rg__device_flush(state->ctx->device);
}

/* ------------------------------------------------------------------- whole */

static rg_status add_to_hash(void *arg, const char *bytes, size_t n)
{
    rg__hash_update(arg, bytes, n);
    return RG_OK;
}

void rg__state_hash_buffer(const rg__state_buffer *b, size_t begin, size_t end,
                           rg__hash *hash)
{
    if (rg__state_read(b, begin, end, add_to_hash, hash) != RG_OK)
        rg__log(RG__WARN, "state", "%s", rg_last_error());
}

static rg_status add_to_copy(void *arg, const char *bytes, size_t n)
{
    char **to = arg;
    rg__copy(*to, bytes, n);
    *to += n;
    return RG_OK;
}

rg_status rg__state_copy_out(const rg__state_buffer *b, size_t begin,
                             size_t end, char *to)
{
    return rg__state_read(b, begin, end, add_to_copy, &to);
}
