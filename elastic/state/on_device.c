/* Registered memory of the device, as the rest of this room sees it: each such
 * buffer has a mirror in host memory. What is to be read is taken from the
 * device first, and what was written goes there behind it. The vault itself is
 * never handed to a device: a process that was killed may have copies under way
 * into memory that others use by then. */
#include "elastic/state/state.h"

#include <sys/mman.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* Pages that nobody touches cost nothing: of a sharded buffer most. */
rg_status rg__state_mirror_make(rg__state_buffer *b, rg__device *device)
{
    void *at = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return rg__fail(RG_ERR_MEMORY,
                        "buffer %s: no memory for a mirror of %zu bytes of the "
                        "device",
                        b->name, b->bytes);
    b->device = device;
    b->there = b->data;
    b->data = at;
    return RG_OK;
}

void rg__state_mirror_free(rg__state_buffer *b)
{
    if (b->device != NULL)
        munmap(b->data, b->bytes);
    b->device = NULL;
}

/* A restore comes behind rg__device_enter, which has done the same. */
rg_status rg__state_await_device(const rg_state *state)
{
    return state->ctx->device == NULL ? RG_OK
                                      : rg__device_drain(state->ctx->device);
}

rg_status rg__state_pull(const rg__state_buffer *b, size_t begin, size_t end)
{
    return b->device == NULL || begin == end
               ? RG_OK
               : rg__device_read(b->device, b->data + begin, b->there + begin,
                                 end - begin);
}

void rg__state_pull_or_warn(const rg__state_buffer *b)
{
    if (rg__state_pull(b, 0, b->bytes) != RG_OK)
        rg__log(RG__WARN, "state", "buffer %s: %s", b->name, rg_last_error());
}

rg_status rg__state_push(const rg__state_buffer *b, size_t begin, size_t end)
{
    return b->device == NULL || begin == end
               ? RG_OK
               : rg__device_write(b->device, b->there + begin, b->data + begin,
                                  end - begin);
}
