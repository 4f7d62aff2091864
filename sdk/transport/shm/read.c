/* Ordinary memory, read where it lies: process_vm_readv copies once what
 * staging copies twice. A member names its memory by its process and an address
 * there (RG__READ); zero_copy.c and pairwise.c take what is so named.
 *
 * What was read counts only if its owner was in the call until then. An owner
 * that dies, or leaves the call because its generation is aborted, may change
 * or free its memory before the reader knows of it, and its process number may
 * come back. So an operation with such reads ends in two turns: all members
 * post that they have read; an owner that has seen that posts it has, and then
 * leaves. A reader waits for this second post of all whom it has read.
 *
 * Whether the kernel allows it is tried by the first such operation of a set. A
 * read that fails is noted beside the first post, so all members know of it:
 * they do this operation over again by staging, and all later ones. Nothing
 * that is sent has changed by then. A failure is never an error: where the
 * owner is dead, staging waits for the abort.
 *
 * From how many bytes on it is faster depends on the machine, so that is a
 * setting (REGROUP_READ_MIN). Each member applies its own to what it posts, and
 * all choose by what was posted: members with different values agree.
 *
 * With more members on a host than it has processors, the second turn costs
 * more than the copy: they stage.
 *
 * A process number may mean another process here (a container with numbers of
 * its own). So a process is read only after it has shown, at the place that was
 * posted, the random number that was posted. */
#include <sys/uio.h>

#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/transport/shm/shm_comm.h"

#define READ_BYTES (4 * RG__WORK_BYTES) /* a call of the kernel takes 1.5 us */

static bool read_all(uint32_t pid, void *to, uint64_t from, size_t bytes)
{
    char *at = to;
    while (bytes > 0) {
        const struct iovec here = {.iov_base = at, .iov_len = bytes};
        const struct iovec there = {.iov_base = (void *)(uintptr_t)from,
                                    .iov_len = bytes};
        const ssize_t got =
            process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0);
        if (got <= 0)
            return false;
        at += got;
        from += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool is_proven(rg__native *c, int m)
{
    const rg__where *w = &c->posting[m].at;
    uint64_t seen = 0;
    if (c->member[m].pid != w->pid || w->pid == 0)
        c->member[m].pid = read_all(w->pid, &seen, w->proof_at, sizeof seen) &&
                                   seen == w->proof
                               ? w->pid
                               : 0;
    return c->member[m].pid != 0;
}

bool rg__read_is_possible(const rg__native *c)
{
    return rg__shm_stays(c) && !rg__kind_adds(c->coll.kind);
}

void rg__read_describe(const rg__native *c, const void *p, uint64_t part,
                       uint32_t *segment_p, uint64_t *at_p, rg__where *w)
{
    const rg__shared *sh = c->shared;
    if (*segment_p != 0 || c->is_staged || c->n == 1 || part < sh->read_min ||
        sh->pid == 0 || !rg__read_is_possible(c))
        return;
    *segment_p = RG__READ;
    *at_p = (uintptr_t)p;
    w->pid = sh->pid;
    w->proof = sh->proof;
    w->proof_at = (uintptr_t)&sh->proof;
}

bool rg__read_take(rg__native *c, int m, uint32_t segment, void *to,
                   const void *from, uint64_t bytes)
{
    const bool is_read = segment == RG__READ && m != c->rank;
    const size_t now =
        rg__least(bytes - c->at, is_read ? READ_BYTES : RG__WORK_BYTES);
    char *there = (char *)to + c->at;
    const char *here = (const char *)from + c->at;
    if (is_read)
        c->member[m].read_in = c->ops;
    if (!is_read)
        rg__copy(there, here, now);
    else if (!c->has_failed)
        c->has_failed = !is_proven(c, m) || !read_all(c->member[m].pid, there,
                                                      (uintptr_t)here, now);
    c->at += now;
    c->base.moves++;
    return c->at == bytes;
}

static _Atomic uint64_t *failed_of(const rg__native *c, int m)
{
    return &c->member[m].mailbox->flags.failed;
}

void rg__read_post(rg__native *c)
{
    if (c->has_failed)
        atomic_store_explicit(failed_of(c, c->rank),
                              rg__shm_seq(c->id, c->steps + c->last),
                              memory_order_relaxed);
    rg__shm_post_end(c);
}

static bool has_any_failed(const rg__native *c)
{
    bool is_any = false;
    for (int m = 0; m < c->n; m++)
        is_any |= atomic_load_explicit(failed_of(c, m), memory_order_relaxed) ==
                  rg__shm_seq(c->id, c->steps + c->last);
    return is_any;
}

bool rg__read_is_used(const rg__native *c)
{
    bool is_any = false;
    for (int m = 0; m < c->n; m++) {
        const rg__where *w = &c->posting[m].at;
        is_any |= c->coll.kind == RG__BROADCAST
                      ? m == c->root && w->recv_segment == RG__READ
                      : w->send_segment == RG__READ;
    }
    return is_any;
}

static void stage_instead(rg__native *c)
{
    c->is_staged = true;
    for (int m = 0; m < c->n; m++) {
        rg__where *w = &c->posting[m].at;
        if (w->send_segment == RG__READ)
            w->send_segment = 0;
        if (w->recv_segment == RG__READ)
            w->recv_segment = 0;
    }
    c->steps += c->last;
    rg__shm_rewind(c);
    c->advance = NULL;
}

rg_status rg__read_end(rg__native *c)
{
    if (!c->is_seen) {
        if (!rg__shm_all_posted(c, FLAG_DONE, c->last))
            return RG_IN_PROGRESS;
        if (has_any_failed(c)) {
            stage_instead(c);
            return RG_IN_PROGRESS;
        }
        c->is_seen = true;
        c->done = ++c->last;
        c->base.moves++;
        rg__shm_post_end(c);
    }
    for (int m = 0; m < c->n; m++)
        if (c->member[m].read_in == c->ops &&
            !rg__shm_posted(c, m, FLAG_DONE, c->last))
            return RG_IN_PROGRESS;
    return RG_OK;
}
