#include "elastic/agent/checkpoint/image.h"
#include "elastic/agent/checkpoint/writer.h"
#include "elastic/agent/vault/vaults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/hash.h"
#include "sdk/base/shm.h"

/* -------------------------------------------------------------- the layout */

static uint64_t host_of(const rg__writer_task *t, int64_t shard)
{
    return shard < 0 ? 0 : t->world->member[shard].host;
}

bool rg__writer_has_others(const rg__writer_task *t)
{
    for (uint32_t i = 0; i < t->shards; i++)
        if (host_of(t, i) != t->a->id)
            return true;
    return false;
}

/* Replicated buffers lie here as well, but the host of rank 0 writes them. */
static bool is_ours(const rg__writer_task *t, int64_t shard)
{
    return shard < 0 ? t->is_first : host_of(t, shard) == t->a->id;
}

static const rg__agent
    *sorted_agent; /* qsort passes its function no argument */

static int by_name(const void *x, const void *y)
{
    const rg__vault_buffer *buffers = sorted_agent->store->buffer;
    return strcmp(buffers[*(const int *)x].name, buffers[*(const int *)y].name);
}

/* All hosts must lay the file out alike, and share only the buffers' names. */
static int *order_buffers(const rg__agent *a, bool is_shared)
{
    int *order = malloc(sizeof *order * ((size_t)a->store->buffers + 1));
    for (int i = 0; order != NULL && i < a->store->buffers; i++)
        order[i] = i;
    sorted_agent = a;
    if (order != NULL && is_shared)
        qsort(order, (size_t)a->store->buffers, sizeof *order, by_name);
    return order;
}

static rg_status add_piece(rg__image *c, int k, int64_t shard, size_t begin,
                           size_t end)
{
    rg__image_piece *one = rg__grow(&c->piece, c->pieces, sizeof *one);
    if (one == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    c->pieces++;
    *one = (rg__image_piece){.buffer = k,
                             .shard = shard,
                             .is_ours = is_ours(c->task, shard),
                             .begin = begin,
                             .end = end};
    return RG_OK;
}

/* As rg__checkpoint_add_sharded does. */
static rg_status add_shards(rg__image *c, int k)
{
    const rg__vault_buffer *b = &c->task->a->store->buffer[k];
    rg_status st = rg__checkpoint_add_sharded(&c->checkpoint, b->name, b->bytes,
                                              b->align, c->task->shards);
    for (uint32_t i = 0; i < c->task->shards && st == RG_OK; i++) {
        size_t begin, end;
        rg__slice(b->bytes, b->align, i, c->task->shards, &begin, &end);
        if (begin < end)
            st = add_piece(c, k, i, begin, end);
    }
    return st;
}

/* A vault slot shows our parts' lengths; other hosts' files show theirs. */
static rg_status add_parts(rg__image *c, int k)
{
    const rg__writer_task *t = c->task;
    const rg__vault_buffer *b = &t->a->store->buffer[k];
    rg__checkpoint *all = &c->checkpoint;
    rg_status st = rg__checkpoint_add_local(all, b->name, NULL, t->shards);
    for (uint32_t i = 0; i < t->shards && st == RG_OK; i++) {
        size_t begin, end;
        rg__vault_shard_place(b, i, t->shards, &begin, &end);
        const uint64_t bytes =
            is_ours(t, i) ? rg__vault_cell_bytes(t->a, b, c->vault_slot, begin)
                          : 0;
        all->piece[all->pieces - t->shards + i].bytes = bytes;
        st = add_piece(c, k, i, end, end + bytes);
    }
    return st;
}

static rg_status describe_buffer(rg__image *c, int k)
{
    const rg__vault_buffer *b = &c->task->a->store->buffer[k];
    if (b->is_local)
        return add_parts(c, k);
    if (b->is_sharded)
        return add_shards(c, k);
    const rg_status st = rg__checkpoint_add(&c->checkpoint, b->name, b->bytes);
    return st == RG_OK ? add_piece(c, k, -1, 0, b->bytes) : st;
}

/* Each other host has a file of its own, in the order of their first pieces. */
static rg_status give_files(rg__image *c)
{
    rg__checkpoint *all = &c->checkpoint;
    const uint64_t first = host_of(c->task, 0);
    uint64_t *host = calloc((size_t)c->pieces + 1, sizeof *host);
    if (host == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    for (uint32_t i = 0; i < c->pieces; i++) {
        const int64_t shard = c->piece[i].shard;
        uint32_t k = 0;
        if (shard < 0 || host_of(c->task, shard) == first)
            continue;
        while (k < all->files && host[k] != host_of(c->task, shard))
            k++;
        host[k] = host_of(c->task, shard);
        all->files += k == all->files;
        all->piece[i].file = k + 1;
        if (c->piece[i].is_ours)
            c->file = k + 1;
    }
    free(host);
    return RG_OK;
}

static rg_status describe(rg__image *c)
{
    const rg__writer_task *t = c->task;
    int *order = order_buffers(t->a, t->shards > 0);
    if (order == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    rg_status st = rg__checkpoint_sign(&c->checkpoint, t->a->params->job,
                                       t->a->params->host);
    for (int i = 0; i < t->a->store->buffers && st == RG_OK; i++)
        st = describe_buffer(c, order[i]);
    free(order);
    if (st == RG_OK && t->shards > 0)
        st = give_files(c);
    c->checkpoint.world_size = t->world_size;
    rg__checkpoint_lay_out(&c->checkpoint);
    return st;
}

/* --------------------------------------------------------------- the memory */

static rg_status get_memory(rg__image *c)
{
    int fd;
    void *at = NULL;
    rg_status st = rg__shm_create("a checkpoint", c->bytes, true, &fd);
    if (st != RG_OK)
        return st;
    st = rg__shm_map(fd, c->bytes, &at);
    close(fd);
    if (st == RG_OK)
        memset(at, 0, c->bytes);
    c->memory = at;
    return st;
}

static rg_status find_room(rg__image *c)
{
    c->data = calloc((size_t)c->pieces + 1, sizeof *c->data);
    if (c->data == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    for (uint32_t i = 0; i < c->pieces; i++) {
        c->piece[i].at = c->bytes;
        if (c->piece[i].is_ours)
            c->bytes += rg__page_round(c->piece[i].end - c->piece[i].begin);
    }
    const rg_status st = c->bytes > 0 ? get_memory(c) : RG_OK;
    for (uint32_t i = 0; i < c->pieces && st == RG_OK; i++)
        if (c->piece[i].is_ours)
            c->data[i] = c->memory + c->piece[i].at;
    return st;
}

/* The lengths of parts are taken from the commit that was asked for, else from
 * any commit that is here; a commit with other lengths is not taken. */
static int find_measure(const rg__image *c)
{
    int found = rg__vault_find(c->vault, c->task->wanted);
    for (int i = 0; i < RG__VAULT_SLOTS && found < 0; i++)
        if (rg__vault_id(c->vault, i).generation != 0)
            found = i;
    return found < 0 ? 0 : found;
}

rg_status rg__image_begin(rg__image *c, const rg__writer_task *task)
{
    void *at = NULL;
    *c = (rg__image){.task = task};
    rg_status st = rg__shm_map(task->a->store->fd, sizeof(rg__vault), &at);
    c->vault = at;
    if (st != RG_OK)
        return st;
    c->vault_slot = find_measure(c);
    st = describe(c);
    return st == RG_OK ? find_room(c) : st;
}

/* ---------------------------------------------------------------- the bytes */

static bool copy_piece(rg__image *c, const rg__image_piece *p, int vault_slot)
{
    const rg__vault_buffer *b = &c->task->a->store->buffer[p->buffer];
    const size_t bytes = p->end - p->begin;
    if (b->is_local &&
        rg__vault_cell_bytes(c->task->a, b, vault_slot,
                             p->begin - sizeof(rg__cell)) != bytes)
        return false;
    const off_t from = rg__vault_at(b, vault_slot, p->begin);
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(c->task->a->store->fd, c->memory + p->at + done,
                                bytes - done, from + (off_t)done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool has_our_shards(const rg__image *c, int vault_slot, rg__commit_id id)
{
    for (uint32_t i = 0; i < c->task->shards; i++)
        if (is_ours(c->task, i) &&
            rg__vault_shard(c->vault, vault_slot, id, i) == NULL)
            return false;
    return true;
}

bool rg__image_fill(rg__image *c, int vault_slot, rg__commit_id id)
{
    if (!has_our_shards(c, vault_slot, id))
        return false;
    for (uint32_t i = 0; i < c->pieces; i++)
        if (c->piece[i].is_ours && !copy_piece(c, &c->piece[i], vault_slot))
            return false;
    atomic_thread_fence(memory_order_seq_cst);
    c->checkpoint.id = id;
    c->vault_slot = vault_slot;
    return rg__same_commit(rg__vault_id(c->vault, vault_slot), id) &&
           has_our_shards(c, vault_slot, id);
}

/* ---------------------------------------------------------------- checksums */

/* Of bytes [begin, end) of a buffer, if any, as the vault sums them. */
static uint64_t hash_of(const rg__image *c, const rg__image_piece *p,
                        size_t begin, size_t end)
{
    rg__sum sum;
    const rg__vault_buffer *b = &c->task->a->store->buffer[p->buffer];
    if (begin == end && !b->is_local)
        return 0;
    const rg__cell head = {.bytes = p->end - p->begin};
    rg__sum_begin(&sum, b->name, 0, NULL);
    if (b->is_local)
        rg__sum_update(&sum, &head, sizeof head);
    rg__sum_update(&sum, c->memory + p->at + (begin - p->begin), end - begin);
    return rg__sum_end(&sum);
}

static uint64_t sum_of_piece(const rg__image *c, const rg__part *part)
{
    uint64_t sum = rg__part_hash(part);
    for (uint32_t k = 0; k < c->pieces; k++) {
        const rg__image_piece *p = &c->piece[k];
        size_t begin, end;
        if (p->shard >= 0)
            continue;
        rg__vault_slice(p->end, part->index, part->count, &begin, &end);
        sum += hash_of(c, p, begin, end);
    }
    return sum;
}

static uint64_t sum_of_shard(const rg__image *c, const rg__part *part)
{
    uint64_t sum = rg__part_hash(part);
    for (uint32_t k = 0; k < c->pieces; k++) {
        const rg__image_piece *p = &c->piece[k];
        if (p->shard == (int64_t)part->index)
            sum += hash_of(c, p, p->begin, p->end);
    }
    return sum;
}

static rg_status damaged(const rg__image *c, const char *what, uint32_t i)
{
    return rg__fail(RG_ERR_DAMAGED,
                    "commit %" PRIu64 ".%" PRIu64 " in the vault of host %s is "
                    "damaged: %s %u does not have its checksum; no checkpoint "
                    "of it is written",
                    c->checkpoint.id.generation, c->checkpoint.id.step,
                    c->task->a->params->host, what, i);
}

/* A part of our commit, as the vault's table describes it. */
static rg__part part_of(const rg__image *c, const rg__piece *piece, uint32_t i)
{
    return (rg__part){.id = c->checkpoint.id,
                      .index = i,
                      .count = atomic_load(&piece->count),
                      .shards = atomic_load(&piece->shards)};
}

static rg_status check_pieces(const rg__image *c)
{
    const rg__piece *piece = c->vault->slot[c->vault_slot];
    const uint32_t count = atomic_load(&piece->count);
    for (uint32_t i = 0; i < count && i < RG__HOST_SLOTS_MAX; i++) {
        const rg__part part = part_of(c, &piece[i], i);
        const uint64_t sum = atomic_load(&piece[i].sum);
        if (rg__piece_is(&piece[i], part.id) && sum_of_piece(c, &part) != sum)
            return damaged(c, "piece", i);
    }
    return RG_OK;
}

static rg_status check_shard(const rg__image *c, uint32_t i)
{
    const rg__piece *shard =
        rg__vault_shard(c->vault, c->vault_slot, c->checkpoint.id, i);
    if (shard == NULL)
        return RG_OK;
    const rg__part part = part_of(c, shard, i);
    const uint64_t sum = atomic_load(&shard->sum);
    return sum_of_shard(c, &part) != sum && rg__piece_is(shard, part.id)
               ? damaged(c, "shard", i)
               : RG_OK;
}

rg_status rg__image_check(const rg__image *c)
{
    rg_status st = c->task->is_first ? check_pieces(c) : RG_OK;
    for (uint32_t i = 0; i < c->task->shards && st == RG_OK; i++)
        if (is_ours(c->task, i))
            st = check_shard(c, i);
    return st;
}
