/* Flags: how far each member on this host has come in an operation that moves
 * data in steps. A member posts its own, and reads those of the others. */
#include "sdk/transport/shm/shm_comm.h"

void rg__shm_ring(rg__native *c)
{
    atomic_thread_fence(memory_order_seq_cst); /* what was posted comes first */
    for (int m = 0; m < c->n; m++)
        if (m != c->rank)
            rg__bell_ring_for(c->member[m].bell, rg__set_bit(c->id));
}

static _Atomic uint64_t *flag_of(rg__flags *f, rg__flag which)
{
    return which == FLAG_IN ? &f->in : which == FLAG_OUT ? &f->out : &f->done;
}

static void store_flag(rg__native *c, rg__flag which, uint32_t step)
{
    atomic_store_explicit(flag_of(&c->member[c->rank].mailbox->flags, which),
                          rg__shm_seq(c->id, c->steps + step),
                          memory_order_release);
}

void rg__shm_post(rg__native *c, rg__flag which, uint32_t step)
{
    store_flag(c, which, step);
    rg__shm_ring(c);
}

void rg__shm_finish_in(rg__native *c)
{
    c->in++;
    c->base.moves++;
    rg__shm_post(c, FLAG_IN, c->in);
}

void rg__shm_post_end(rg__native *c)
{
    store_flag(c, FLAG_IN, c->last);
    store_flag(c, FLAG_OUT, c->last);
    store_flag(c, FLAG_DONE, c->last);
    rg__shm_ring(c);
}

void rg__shm_rewind(rg__native *c)
{
    c->in = c->out = c->done = c->last = 0;
    c->at = 0;
    c->peer = 0;
    c->has_failed = c->is_seen = false;
}

bool rg__shm_posted(const rg__native *c, int m, rg__flag which, uint32_t step)
{
    const uint64_t seq = atomic_load_explicit(
        flag_of(&c->member[m].mailbox->flags, which), memory_order_acquire);
    const uint32_t at = seq >> 32 == c->id ? (uint32_t)seq : 0;
    return (int32_t)(at - (c->steps + step)) >= 0;
}

bool rg__shm_all_posted(const rg__native *c, rg__flag which, uint32_t step)
{
    for (int m = 0; m < c->n; m++)
        if (!rg__shm_posted(c, m, which, step))
            return false;
    return true;
}
