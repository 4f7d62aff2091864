/* The vault of this host, and the rg_alloc segments of its workers. Both are
 * owned here, so that the vault survives its workers and so that a worker's
 * peers can map what it allocates.
 *
 * The kernel takes seconds over gigabytes, and this is the loop: memory is made
 * without a page, and the worker that asked for it reserves the pages
 * (segments.c there). The supervisor, which closes it last, gives it back. */
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/shm.h"

/* ----------------------------------------------- from one agent to the next */

/* A copy of a struct of ours, behind those of the list. */
static void *take_struct(rg__fdrecord *record, void *list_p, int count,
                         size_t bytes)
{
    void *one =
        record->n == bytes ? rg__grow(list_p, (size_t)count, bytes) : NULL;
    return one != NULL ? memcpy(one, record->bytes, bytes) : NULL;
}

static void take_buffers(rg__agent *a)
{
    const rg__fdrecord_list *all = rg__fdstore_born_with(a->fdstore);
    for (rg__fdrecord *k = rg__fdrecord_next(all, "buffer/", NULL); k != NULL;
         k = rg__fdrecord_next(all, "buffer/", k))
        if (take_struct(k, &a->store->buffer, a->store->buffers,
                        sizeof *a->store->buffer) != NULL)
            a->store->buffers++;
}

static void take_segments(rg__agent *a)
{
    const rg__fdrecord_list *all = rg__fdstore_born_with(a->fdstore);
    for (rg__fdrecord *k = rg__fdrecord_next(all, "segment/", NULL); k != NULL;
         k = rg__fdrecord_next(all, "segment/", k)) {
        rg__vault_segment *one =
            k->fd[0] >= 0 ? take_struct(k, &a->store->segment,
                                        a->store->segments, sizeof *one)
                          : NULL;
        if (one == NULL)
            continue;
        one->fd = rg__fdrecord_take(k, 0);
        a->store->segments++;
    }
}

static void save_buffer(const rg__agent *a, const rg__vault_buffer *b)
{
    rg__fdstore_put(a->fdstore, rg__fdrecord_name_as("buffer/%s", b->name).text,
                    b, sizeof *b, NULL, 0);
}

static rg__fdrecord_name name_of(const rg__vault_segment *seg)
{
    return rg__fdrecord_name_as("segment/%u.%u.%u", seg->owner.slot,
                                seg->owner.start, seg->id);
}

static void save_segment(const rg__agent *a, const rg__vault_segment *seg)
{
    rg__fdstore_put(a->fdstore, name_of(seg).text, seg, sizeof *seg, &seg->fd,
                    1);
}

/* ------------------------------------------------------------------- vault */

static rg_status map_vault(rg__agent *a)
{
    void *at = NULL;
    const rg_status st = rg__shm_map(a->store->fd, sizeof(rg__vault), &at);
    a->store->vault = at;
    return st;
}

rg_status rg__store_create(rg__agent *a)
{
    a->store = calloc(1, sizeof *a->store);
    if (a->store != NULL)
        a->store->fd = -1;
    return rg__agent_made(a->store != NULL);
}

rg_status rg__vault_create(rg__agent *a)
{
    rg__fdrecord *record = rg__fdstore_find(a->fdstore, "vault");
    if (record != NULL) {
        a->store->fd = rg__fdrecord_take(record, 0);
        take_buffers(a);
        take_segments(a);
        return map_vault(a);
    }
    rg_status st = rg__shm_create_growing("regroup-vault", sizeof(rg__vault),
                                          &a->store->fd);
    if (st == RG_OK)
        st = map_vault(a);
    if (st != RG_OK)
        return st;
    atomic_store(&a->store->vault->magic, RG__VAULT_MAGIC);
    rg__fdstore_put(a->fdstore, "vault", NULL, 0, &a->store->fd, 1);
    return RG_OK;
}

void rg__vault_destroy(rg__agent *a)
{
    if (a->store == NULL)
        return;
    for (int i = 0; i < a->store->segments; i++)
        close(a->store->segment[i].fd);
    free(a->store->buffer);
    free(a->store->segment);
    rg__shm_unmap(a->store->vault, sizeof(rg__vault));
    if (a->store->fd >= 0)
        close(a->store->fd);
    free(a->store);
    a->store = NULL;
}

static uint64_t room_of(const rg__vault_buffer *b)
{
    return rg__vault_stride(b->bytes) * b->slots;
}

static uint64_t replicated_bytes(const rg__agent *a)
{
    uint64_t sum = 0;
    for (int i = 0; i < a->store->buffers; i++)
        if (!a->store->buffer[i].is_sharded)
            sum += room_of(&a->store->buffer[i]);
    return sum;
}

/* Sharded buffers have pages only where shards lie: all that there are beyond
 * the table's and those of the others, which are reserved in full before. */
uint64_t rg__vault_shard_bytes(const rg__agent *a)
{
    struct stat info;
    const uint64_t rest =
        rg__page_round(sizeof(rg__vault)) + replicated_bytes(a);
    if (fstat(a->store->fd, &info) != 0)
        return 0;
    const uint64_t all = (uint64_t)info.st_blocks * 512;
    return all > rest ? all - rest : 0;
}

uint32_t rg__vault_slots(const rg__agent *a)
{
    uint32_t most = 2;
    for (int i = 0; i < a->store->buffers; i++)
        most =
            a->store->buffer[i].slots > most ? a->store->buffer[i].slots : most;
    return most;
}

uint64_t rg__vault_local_bytes(const rg__agent *a)
{
    uint64_t sum = 0;
    for (int i = 0; i < a->params->slots; i++)
        sum += a->slot[i].saved.local_bytes;
    return sum * rg__vault_slots(a);
}

uint64_t rg__vault_bytes(const rg__agent *a)
{
    return replicated_bytes(a) + rg__vault_shard_bytes(a);
}

/* --------------------------------------------------------------------- held */

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The table once, however large the world is: no ack waits for that. */
static bool add_shards(const rg__agent *a, int vault_slot, rg__held *held)
{
    uint32_t index[RG__SHARDS_MAX];
    int n = 0;
    if (held->shards > RG__WORLD_MAX)
        return false;
    for (int i = 0; i < RG__SHARDS_MAX; i++) {
        const rg__piece *shard = &a->store->vault->shard[vault_slot][i];
        index[n] = atomic_load(&shard->index);
        n += rg__piece_is(shard, held->id) && index[n] < held->shards;
    }
    qsort(index, (size_t)n, sizeof *index, by_number);
    for (int i = 0; i < n; i++)
        if ((i == 0 || index[i] != index[i - 1]) &&
            !rg__shards_add(&held->here, index[i]))
            return false;
    return true;
}

/* The step that workers here are in, by what their pages say and said. */
static uint64_t step_under_way(const rg__agent *a)
{
    uint64_t most = a->life.most_step;
    for (int i = 0; i < a->params->slots; i++) {
        const rg__page *page = a->slot[i].w.page;
        const uint64_t step = page != NULL ? atomic_load(&page->step) : 0;
        most = step > most ? step : most;
    }
    return most < UINT64_MAX ? most + 1 : most;
}

bool rg__vault_has_shards(const rg__agent *a)
{
    for (int i = 0; i < a->store->buffers; i++)
        if (a->store->buffer[i].is_sharded)
            return true;
    return false;
}

static bool has_local(const rg__agent *a)
{
    for (int i = 0; i < a->store->buffers; i++)
        if (a->store->buffer[i].is_local)
            return true;
    return false;
}

static int find_held(const rg__agent *a, uint64_t most_step,
                     rg__held held[RG__VAULT_SLOTS])
{
    int n = 0;
    const bool is_local = has_local(a);
    for (int i = 0; i < RG__VAULT_SLOTS; i++) {
        const rg__commit_id id = rg__vault_part_id(a->store->vault, i);
        rg__held one = {.id = id,
                        .shards =
                            atomic_load(&a->store->vault->slot[i][0].shards),
                        .is_local = is_local};
        one.is_whole = rg__same_commit(rg__vault_id(a->store->vault, i), id);
        if (id.generation == 0 || id.generation > a->delivered ||
            id.step > most_step)
            continue;
        if (add_shards(a, i, &one) && (one.is_whole || one.here.count > 0))
            held[n++] = one;
        else
            rg__shards_free(&one.here);
    }
    return n;
}

/* The table is memory of workers too: an id of a generation that was never
 * decided does not count, nor does a step that no worker here has reached. But
 * pages are memory of workers as well: where this would leave nothing, what
 * lies here counts, and its checksum decides. */
int rg__vault_held(const rg__agent *a, rg__held held[RG__VAULT_SLOTS])
{
    const int n = find_held(a, step_under_way(a), held);
    return n > 0 ? n : find_held(a, UINT64_MAX, held);
}

/* ---------------------------------------------------------------- registry */

static rg_status check_most(const rg__agent *a, const char *name, uint64_t used,
                            uint64_t need)
{
    const uint64_t most = a->params->user.vault_max_bytes;
    if (most != 0 && (need > most || used > most - need))
        return rg__fail(RG_ERR_MEMORY,
                        "buffer %s needs %" PRIu64 " bytes of the vault, of "
                        "which %" PRIu64 " of %" PRIu64 " are taken; raise "
                        "--vault-max or register less",
                        name, need, used, most);
    return RG_OK;
}

rg_status rg__vault_check_more(const rg__agent *a, const char *name,
                               uint64_t place, uint64_t bytes)
{
    return check_most(a, name, rg__vault_bytes(a),
                      rg__shm_missing(a->store->fd, place, bytes));
}

static rg_status check_room(const rg__agent *a, const rg__vault_buffer *b)
{
    return b->is_sharded
               ? RG_OK
               : check_most(a, b->name, rg__vault_bytes(a), room_of(b));
}

/* Pages of local buffers belong to ranks, and a worker that begins will have
 * one whose pages are there: so what workers say counts, and not pages. */
static rg_status check_local(rg__slot *s, const rg__vault_buffer *b,
                             uint64_t need)
{
    const uint64_t before = s->saved.local_bytes;
    const uint64_t slots = rg__vault_slots(s->a);
    s->saved.local_bytes = 0;
    const uint64_t others = rg__vault_local_bytes(s->a);
    s->saved.local_bytes = need < RG__BUFFER_MAX ? need : RG__BUFFER_MAX;
    const rg_status st =
        check_most(s->a, b->name, replicated_bytes(s->a) + others,
                   s->saved.local_bytes * slots);
    if (st != RG_OK)
        s->saved.local_bytes = before;
    return st;
}

void rg__vault_shard_place(const rg__vault_buffer *b, uint32_t i,
                           uint32_t count, size_t *begin_p, size_t *end_p)
{
    rg__shard_place(b->is_local, b->bytes, b->align, i, count, begin_p, end_p);
    if (b->is_local && *begin_p < *end_p)
        *end_p = *begin_p + sizeof(rg__cell);
}

off_t rg__vault_at(const rg__vault_buffer *b, int vault_slot, size_t at)
{
    return (off_t)(b->place + rg__vault_stride(b->bytes) * (size_t)vault_slot +
                   at);
}

uint64_t rg__vault_cell_bytes(const rg__agent *a, const rg__vault_buffer *b,
                              int vault_slot, size_t begin)
{
    const uint64_t most = RG__CELL_BYTES - sizeof(rg__cell);
    rg__cell head = {0};
    const off_t at = rg__vault_at(b, vault_slot, begin);
    if (pread(a->store->fd, &head, sizeof head, at) != (ssize_t)sizeof head)
        return 0;
    return head.bytes < most ? head.bytes : 0;
}

static rg__vault_buffer *find_buffer(rg__agent *a, const char *name)
{
    for (int i = 0; i < a->store->buffers; i++)
        if (strcmp(a->store->buffer[i].name, name) == 0)
            return &a->store->buffer[i];
    return NULL;
}

/* All rooms lie behind the table in one memory, so a thousand buffers take one
 * descriptor. Each has places for as many vault slots as there may be, so none
 * is ever moved, and a page behind it that is never reserved: a search for what
 * a room lacks stops there. Places cost nothing, pages do. */
static uint64_t next_place(const rg__agent *a, const rg__vault_buffer *b)
{
    const uint64_t unit =
        room_of(b) < RG__HUGE_BYTES ? RG__PAGE_BYTES : RG__HUGE_BYTES;
    uint64_t end = rg__page_round(sizeof(rg__vault));
    for (int i = 0; i < a->store->buffers; i++) {
        const rg__vault_buffer *other = &a->store->buffer[i];
        const uint64_t behind =
            other->place + rg__vault_stride(other->bytes) * RG__VAULT_SLOTS +
            RG__PAGE_BYTES;
        end = behind > end ? behind : end;
    }
    return (end + unit - 1) / unit * unit;
}

static rg_status make_place(const rg__agent *a, rg__vault_buffer *b)
{
    const rg_status st =
        b->is_sharded ? RG_OK : rg__shm_check(b->name, room_of(b));
    if (st != RG_OK)
        return st;
    b->place = next_place(a, b);
    return rg__shm_grow(a->store->fd, b->name,
                        b->place +
                            rg__vault_stride(b->bytes) * RG__VAULT_SLOTS);
}

static rg_status make_buffer(rg__agent *a, const rg__vault_buffer *what,
                             rg__vault_buffer **buffer_p)
{
    rg_status st = check_room(a, what);
    if (st != RG_OK)
        return st;
    rg__vault_buffer *b =
        rg__grow(&a->store->buffer, (size_t)a->store->buffers, sizeof *b);
    if (b == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to register buffer %s",
                        what->name);
    *b = *what;
    st = make_place(a, b);
    if (st != RG_OK)
        return st;
    a->store->buffers++;
    save_buffer(a, b);
    *buffer_p = b;
    return RG_OK;
}

static bool has_commits(const rg__agent *a)
{
    for (int i = 0; i < RG__VAULT_SLOTS; i++)
        if (rg__vault_part_id(a->store->vault, i).generation != 0)
            return true;
    return false;
}

/* One more vault slot: a worker has registered a buffer whose shards are
 * copied. Nothing is there before all have registered theirs. */
static rg_status grow_buffer(rg__agent *a, rg__vault_buffer *b, uint32_t slots)
{
    if (has_commits(a))
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s needs %u vault slots and there are commits "
                        "in %u already; register the same in every worker",
                        b->name, slots, b->slots);
    b->slots = slots;
    save_buffer(a, b);
    return RG_OK;
}

static rg_status read_buffer(const rg__register *m, rg__vault_buffer *b)
{
    *b = (rg__vault_buffer){.bytes = m->bytes,
                            .slots = m->slots,
                            .is_sharded = m->is_sharded != 0,
                            .is_local = m->is_local != 0,
                            .replicas = m->replicas,
                            .align = m->align};
    snprintf(b->name, sizeof b->name, "%.*s", (int)sizeof b->name - 1, m->name);
    if (b->bytes == 0 || b->bytes > RG__BUFFER_MAX || b->name[0] == '\0' ||
        b->slots < 2 || b->slots > RG__VAULT_SLOTS ||
        b->replicas > RG__HOST_SLOTS_MAX || (b->is_sharded && b->align == 0) ||
        (b->is_local && (!b->is_sharded || b->bytes != RG__BUFFER_MAX ||
                         b->align != RG__CELL_BYTES)))
        return rg__fail(RG_ERR_INVALID, "buffer \"%s\" has no size or name",
                        b->name);
    return RG_OK;
}

static rg_status register_buffer(rg__agent *a, const rg__register *m,
                                 rg__vault_buffer **buffer_p)
{
    rg__vault_buffer what;
    rg_status st = read_buffer(m, &what);
    if (st != RG_OK)
        return st;
    if (what.is_sharded && a->params->max > RG__FOREIGN_SHARDS_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s is sharded, and a host has room for shards "
                        "of %d workers of other hosts, but --max is %d; lower "
                        "--max, or register the buffer as replicated",
                        what.name, RG__FOREIGN_SHARDS_MAX, a->params->max);
    rg__vault_buffer *b = find_buffer(a, what.name);
    if (b == NULL)
        return make_buffer(a, &what, buffer_p);
    if (b->bytes != what.bytes && b->is_local == what.is_local)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s has %" PRIu64 " bytes here, but %" PRIu64
                        " in another worker of host %s; register equal sizes",
                        b->name, what.bytes, b->bytes, a->params->host);
    if (b->is_sharded != what.is_sharded || b->is_local != what.is_local ||
        b->replicas != what.replicas || b->align != what.align)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s has another kind, replicas or align in "
                        "another worker of host %s; register it alike",
                        b->name, a->params->host);
    if (what.slots > b->slots)
        st = grow_buffer(a, b, what.slots);
    *buffer_p = b;
    return st;
}

rg_status rg__vault_room(rg__agent *a, const rg__register *m, int *index_p)
{
    rg__vault_buffer *b = NULL;
    const rg_status st = register_buffer(a, m, &b);
    if (st == RG_OK)
        *index_p = (int)(b - a->store->buffer);
    return st;
}

void rg__vault_describe(const rg__vault_buffer *b, rg__register *m)
{
    *m = (rg__register){.bytes = b->bytes,
                        .slots = b->slots,
                        .is_sharded = b->is_sharded,
                        .is_local = b->is_local,
                        .replicas = b->replicas,
                        .align = b->align};
    snprintf(m->name, sizeof m->name, "%s", b->name);
}

void rg__vault_unregister(rg__slot *s)
{
    s->saved.local_bytes = 0;
    for (int i = 0; i < s->a->store->buffers; i++)
        s->a->store->buffer[i].by &= ~(UINT64_C(1) << s->index);
}

void rg__vault_register(rg__slot *s, const rg__register *m)
{
    rg__vault_buffer *b = NULL;
    rg_status st = register_buffer(s->a, m, &b);
    if (st == RG_OK && b->is_local)
        st = check_local(s, b, m->need);
    if (st == RG_OK)
        b->by |= UINT64_C(1) << s->index;
    rg__buffer reply = {
        .head = {RG__BUFFER, RG__WIRE_VERSION}, .ask = m->ask, .status = st};
    if (st == RG_OK)
        reply.place = b->place;
    else
        snprintf(reply.text, sizeof reply.text, "%.*s", RG__TEXT_MAX - 1,
                 rg_last_error());
    rg__worker_tell(s, &reply, sizeof reply, -1);
}

uint64_t rg__vault_newest_step(const rg__agent *a)
{
    rg__commit_id newest = {0, 0};
    for (int i = 0; i < RG__VAULT_SLOTS; i++) {
        const rg__commit_id id = rg__vault_id(a->store->vault, i);
        if (rg__resume_is_later(id, newest))
            newest = id;
    }
    return newest.step;
}

/* ---------------------------------------------------------------- segments */

static rg__vault_segment *find_segment(const rg__agent *a, rg__member_id owner,
                                       uint32_t id)
{
    for (int i = 0; i < a->store->segments; i++)
        if (a->store->segment[i].id == id &&
            rg__same_member(a->store->segment[i].owner, owner))
            return &a->store->segment[i];
    return NULL;
}

static rg__segment segment_message(rg__wire_type type,
                                   const rg__vault_segment *seg)
{
    return (rg__segment){.head = {type, RG__WIRE_VERSION},
                         .owner = seg->owner,
                         .id = seg->id,
                         .bytes = seg->bytes};
}

/* The one that there is already when a worker asks again. */
static rg_status make_segment(rg__agent *a, const rg__segment *m,
                              const rg__vault_segment **segment_p)
{
    *segment_p = find_segment(a, m->owner, m->id);
    if (*segment_p != NULL)
        return RG_OK;
    rg__vault_segment *seg =
        rg__grow(&a->store->segment, (size_t)a->store->segments, sizeof *seg);
    if (seg == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for rg_alloc");
    *seg =
        (rg__vault_segment){.owner = m->owner, .id = m->id, .bytes = m->bytes};
    rg_status st = rg__shm_check("rg_alloc", m->bytes);
    if (st == RG_OK)
        st = rg__shm_create("rg_alloc", m->bytes, false, &seg->fd);
    if (st != RG_OK)
        return st;
    a->store->segments++;
    save_segment(a, seg);
    *segment_p = seg;
    return RG_OK;
}

/* Peers first: an operation on the memory finds it mapped there soon. */
static void show_to_peers(const rg__slot *owner, const rg__segment *m, int fd)
{
    rg__agent *a = owner->a;
    for (int i = 0; i < a->params->slots; i++)
        if (&a->slot[i] != owner)
            rg__worker_tell(&a->slot[i], m, sizeof *m, fd);
}

void rg__vault_alloc(rg__slot *s, const rg__segment *m)
{
    rg__agent *a = s->a;
    rg__segment fixed = *m;
    fixed.owner = (rg__member_id){a->id, s->index, s->saved.start};
    const rg__vault_segment *made = NULL;
    const rg_status st = make_segment(a, &fixed, &made);
    rg__segment reply = fixed;
    reply.head.type = RG__SEGMENT;
    reply.status = st;
    int fd = -1;
    if (st == RG_OK) {
        fd = made->fd;
        show_to_peers(s, &reply, fd);
    } else {
        snprintf(reply.text, sizeof reply.text, "%.*s", RG__TEXT_MAX - 1,
                 rg_last_error());
    }
    rg__worker_tell(s, &reply, sizeof reply, fd);
}

static void drop_segment(rg__agent *a, int i)
{
    const rg__vault_segment gone = a->store->segment[i];
    a->store->segment[i] = a->store->segment[--a->store->segments];
    const rg__segment m = segment_message(RG__UNSEGMENT, &gone);
    for (int k = 0; k < a->params->slots; k++)
        rg__worker_tell(&a->slot[k], &m, sizeof m, -1);
    close(gone.fd); /* before the supervisor does */
    rg__fdstore_drop(a->fdstore, name_of(&gone).text);
}

void rg__vault_free(rg__slot *s, uint32_t id)
{
    rg__agent *a = s->a;
    const rg__member_id owner = {a->id, s->index, s->saved.start};
    for (int i = a->store->segments - 1; i >= 0; i--)
        if (a->store->segment[i].id == id &&
            rg__same_member(a->store->segment[i].owner, owner))
            drop_segment(a, i);
}

void rg__vault_drop_owner(rg__agent *a, rg__member_id owner)
{
    for (int i = a->store->segments - 1; i >= 0; i--)
        if (rg__same_member(a->store->segment[i].owner, owner))
            drop_segment(a, i);
}

void rg__vault_show_segments(rg__slot *s)
{
    const rg__agent *a = s->a;
    for (int i = 0; i < a->store->segments; i++) {
        const rg__segment m =
            segment_message(RG__SEGMENT, &a->store->segment[i]);
        rg__worker_tell(s, &m, sizeof m, a->store->segment[i].fd);
    }
}
