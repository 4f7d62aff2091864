/* Copies of this host's shards on other hosts, and of other hosts' here.
 *
 * The hosts of a generation form a circle, in the order of their first ranks;
 * each sends the shards of its ranks to the next `replicas` hosts. Once a
 * commit counts, a worker says so (COMMITTED); then, while steps go on, its
 * shards go out commit by commit, none left out, so that "stored up to step n"
 * says it all. The pages tell the workers when all copies of a commit from this
 * host are stored; the workers agree on when that is true of all hosts
 * (state.c).
 *
 * A copy goes into the vault slot where that host has the commit itself. A
 * connection that breaks is opened again, which costs only time. But workers
 * wait for copies in their next commits, so a partner to which not a byte gets
 * through for as long as a connection may be silent ends the generation, by the
 * rule of broken connections (member/links.c). */
#include "elastic/agent/vault/chunk.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/hosts/peers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define AGAIN_NS    (50 * RG__MS) /* then a partner is called again */
#define SWEEP_BYTES ((size_t)16 << 20)

typedef struct copy_frame {
    uint64_t generation;
    uint64_t host; /* whose shards come */
} copy_frame;

/* A host that stores copies of ours. */
typedef struct partner {
    rg__replication *c;
    uint64_t host;
    rg__address address;
    uint32_t port;
    char name[RG__NAME_MAX];
    rg__chunk out; /* out.wire NULL: not connected */
    bool is_greeted;
    uint64_t done;      /* 1 + the newest step of which it has all */
    uint64_t step;      /* of the commit under way, if next > 0 */
    int next;           /* of our shards, 0: none is under way */
    uint64_t sent;      /* shards, over this connection */
    uint64_t moved_ns;  /* when bytes went out last, or had to begin to */
    uint64_t stored_ns; /* and shards were stored last; 0: it has all */
} partner;

/* A host whose copies lie here. */
typedef struct incoming {
    struct incoming *next;
    rg__chunk in;
    uint64_t generation, host;
    uint64_t stored, told; /* shards */
} incoming;

/* Where giving back old pages of a vault slot has come to. */
typedef struct sweeping {
    bool is_on;
    int buffer;
    size_t at; /* of its copy in that slot */
} sweeping;

struct rg__replication {
    rg__agent *a;
    uint64_t generation; /* whose commits are copied, 0: nothing is */
    uint32_t *rank;      /* of local members; owned */
    int ranks;
    partner *partner; /* owned */
    int partners;
    uint64_t cleaned[RG__VAULT_SLOTS]; /* generation, of vault slots */
    sweeping sweeping[RG__VAULT_SLOTS];
    rg__timer *sweep;
    incoming *incoming;
    rg__timer *again;
};

static void look(void *arg);
static void sweep(void *arg);

/* ------------------------------------------------------------------- circle */

static uint32_t replicas_of(const rg__agent *a)
{
    uint32_t most = 0;
    for (int i = 0; i < a->store->buffers; i++)
        if (a->store->buffer[i].is_sharded &&
            a->store->buffer[i].replicas > most)
            most = a->store->buffer[i].replicas;
    return most;
}

/* How many hosts behind `from` in the circle `to` stands. */
static int steps_behind(const rg__proposal *p, uint64_t from, uint64_t to)
{
    const int i = rg__proposal_host_index(p, from),
              k = rg__proposal_host_index(p, to);
    return i < 0 || k < 0 ? 0 : (k - i + p->host_count) % p->host_count;
}

static bool is_replicated_at(const rg__agent *a, const rg__proposal *p,
                             uint64_t from, uint64_t to)
{
    const int steps = steps_behind(p, from, to);
    return steps > 0 && (uint32_t)steps <= replicas_of(a);
}

/* ------------------------------------------------------------ is there room */

/* Bytes of shards in one vault slot, at most, in that world. */
static uint64_t bytes_needed(const rg__agent *a, const rg__proposal *p)
{
    uint64_t sum = 0;
    for (int r = 0; r < p->size; r++) {
        const uint64_t host = p->member[r].host;
        const rg__chunk_part one = {
            .is_shard = true,
            .part = {.index = (uint32_t)r, .count = (uint32_t)p->size}};
        if (host == a->id || is_replicated_at(a, p, host, a->id))
            sum += rg__chunk_size(a, &one) + 2 * RG__PAGE_BYTES;
    }
    return sum;
}

static rg_status check_room(const rg__agent *a, const rg__proposal *p)
{
    const uint64_t need =
        bytes_needed(a, p) * rg__vault_slots(a) + rg__vault_local_bytes(a);
    const uint64_t most = a->params->user.vault_max_bytes;
    const uint64_t used = rg__vault_bytes(a), shards = rg__vault_shard_bytes(a);
    if (most != 0 && used - shards + need > most)
        return rg__fail(RG_ERR_MEMORY,
                        "its shards need %" PRIu64 " bytes of the vault, of "
                        "which %" PRIu64 " of %" PRIu64 " are taken; raise "
                        "--vault-max or add hosts",
                        need, used - shards, most);
    return need > shards ? rg__shm_check("of shards", need - shards) : RG_OK;
}

/* ----------------------------------------------------------------- partners */

static void hang_up(partner *one)
{
    rg__chunk_clear(&one->out);
    if (one->out.wire != NULL)
        rg__connection_close(one->out.wire);
    rg__chunk_open(&one->out, one->c->a, NULL, true);
    one->is_greeted = false;
    one->next = 0;
    one->sent = 0;
}

static bool add_partner(rg__replication *c, const rg__proposal_host *host)
{
    partner *one = rg__grow(&c->partner, (size_t)c->partners, sizeof *one);
    if (one == NULL)
        return false;
    c->partners++;
    *one = (partner){
        .c = c, .host = host->id, .address = host->address, .port = host->port};
    snprintf(one->name, sizeof one->name, "%s", host->name);
    return true;
}

static bool add_rank(rg__replication *c, int rank)
{
    uint32_t *one = rg__grow(&c->rank, (size_t)c->ranks, sizeof *one);
    if (one == NULL)
        return false;
    *one = (uint32_t)rank;
    c->ranks++;
    return true;
}

static void end_incoming(rg__replication *c, uint64_t older_than,
                         uint64_t host);

static void note_moved(partner *one)
{
    one->moved_ns = rg__now_ns();
    if (one->stored_ns == 0)
        one->stored_ns = one->moved_ns;
    rg__wait_end(one->c->a, RG__WAIT_COPY, one->host);
    rg__wait_begin(one->c->a, RG__WAIT_COPY, one->host,
                   "host %s to store copies of its shards", one->name);
}

static void note_stored(partner *one, bool has_all)
{
    one->stored_ns = 0;
    if (has_all)
        rg__wait_end(one->c->a, RG__WAIT_COPY, one->host);
    else
        note_moved(one);
}

static void stop(rg__replication *c)
{
    for (int i = 0; i < c->partners; i++) {
        hang_up(&c->partner[i]);
        note_stored(&c->partner[i], true);
    }
    free(c->partner);
    free(c->rank);
    c->partner = NULL;
    c->rank = NULL;
    c->partners = c->ranks = 0;
    c->generation = 0;
    rg__timer_stop(c->again);
    rg__timer_stop(c->sweep);
    memset(c->sweeping, 0, sizeof c->sweeping);
}

static bool list_world(rg__replication *c, const rg__proposal *p)
{
    bool is_good = true;
    for (int r = 0; r < p->size && is_good; r++)
        if (p->member[r].host == c->a->id)
            is_good = add_rank(c, r);
    for (int i = 0; i < p->host_count && is_good; i++)
        if (is_replicated_at(c->a, p, c->a->id, p->host[i].id))
            is_good = add_partner(c, &p->host[i]);
    return is_good;
}

static void show_stored(const rg__replication *c)
{
    uint64_t done = INT64_MAX;
    for (int i = 0; i < c->partners; i++)
        if (c->partner[i].done < done)
            done = c->partner[i].done;
    for (int i = 0; i < c->a->params->slots; i++) {
        const rg__slot *s = &c->a->slot[i];
        if (!rg__slot_is_alive(s) || s->w.page == NULL)
            continue;
        rg__page *page = s->w.page;
        if (atomic_load(&page->copied_generation) != c->generation) {
            atomic_store(&page->copied, 0);
            atomic_store(&page->copied_generation, c->generation);
        }
        atomic_store(&page->copied, done);
        rg__page_ring(page);
    }
}

rg_status rg__replication_create(rg__agent *a)
{
    rg__replication *c = calloc(1, sizeof *c);
    if (c == NULL)
        return rg__agent_made(false);
    c->a = a;
    c->again = rg__timer_create(a->loop, look, c);
    c->sweep = rg__timer_create(a->loop, sweep, c);
    a->replication = c;
    return rg__agent_made(c->again != NULL && c->sweep != NULL);
}

void rg__replication_destroy(rg__agent *a)
{
    rg__replication *c = a->replication;
    if (c == NULL)
        return;
    end_incoming(c, UINT64_MAX, 0);
    if (c->again != NULL && c->sweep != NULL)
        stop(c);
    rg__timer_destroy(c->again);
    rg__timer_destroy(c->sweep);
    free(c);
    a->replication = NULL;
}

void rg__replication_begin(rg__agent *a, const rg__proposal *p)
{
    rg__replication *c = a->replication;
    stop(c);
    end_incoming(c, p->generation, 0);
    if (!rg__vault_has_shards(a) || rg__proposal_host_index(p, a->id) < 0)
        return;
    c->generation = p->generation;
    if (!list_world(c, p) || check_room(a, p) != RG_OK) {
        rg__agent_leave(a, RG__EXIT_SYSTEM, "host %s can't hold its part: %s",
                        a->params->host, rg_last_error());
        return;
    }
    show_stored(c);
    look(c);
}

/* -------------------------------------------------------------------- clean */

/* The next rank whose shard belongs here, of this host or copied from another;
 * the world's size: none. Ranks of one host stand together as a rule. */
static uint32_t next_here(const rg__agent *a, const rg__proposal *p,
                          uint32_t rank)
{
    uint64_t elsewhere = 0;
    for (; rank < (uint32_t)p->size; rank++) {
        const uint64_t host = p->member[rank].host;
        if (host == elsewhere)
            continue;
        if (host == a->id || is_replicated_at(a, p, host, a->id))
            break;
        elsewhere = host;
    }
    return rank;
}

/* Give back pages of [from, to): at most SWEEP_BYTES. How far that went. */
static size_t punch(int fd, size_t base, size_t from, size_t to)
{
    const off_t data = lseek(fd, (off_t)(base + from), SEEK_DATA);
    if (data < 0 || (size_t)data >= base + to)
        return to;
    from = (size_t)data - base;
    const size_t n = to - from < SWEEP_BYTES ? to - from : SWEEP_BYTES;
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(base + from), (off_t)n);
    return from + n;
}

/* The next pages from `at` on that lie between shards of this world; they hold
 * what belonged to ranks of older ones, and no process writes there. */
static size_t sweep_buffer(const rg__agent *a, const rg__proposal *p,
                           const rg__vault_buffer *b, int vault_slot, size_t at)
{
    const size_t stride = rg__vault_stride(b->bytes);
    const uint32_t count = (uint32_t)p->size;
    size_t kept = 0; /* end of what stays, so far */
    for (uint32_t i = next_here(a, p, 0);; i = next_here(a, p, i + 1)) {
        size_t begin = stride, end = stride;
        if (i < count)
            rg__shard_place(b->is_local, b->bytes, b->align, i, count, &begin,
                            &end);
        const size_t first = rg__page_round(kept);
        const size_t from = first > at ? first : at;
        const size_t to = begin / RG__PAGE_BYTES * RG__PAGE_BYTES;
        if (from < to)
            return punch(a->store->fd, b->place + stride * (size_t)vault_slot,
                         from, to);
        if (i >= count)
            return stride;
        kept = end;
    }
}

/* One slice a turn: the kernel takes long over gigabytes. */
static void sweep(void *arg)
{
    rg__replication *c = arg;
    sweeping *w = c->sweeping;
    const rg__proposal *p = rg__snapshot_gen(&c->a->view, c->generation);
    while (w < c->sweeping + RG__VAULT_SLOTS && !w->is_on)
        w++;
    if (p == NULL || w == c->sweeping + RG__VAULT_SLOTS)
        return;
    const rg__vault_buffer *b = &c->a->store->buffer[w->buffer];
    if (w->buffer >= c->a->store->buffers)
        w->is_on = false;
    else if (!b->is_sharded || w->at >= rg__vault_stride(b->bytes))
        *w = (sweeping){.is_on = true, .buffer = w->buffer + 1};
    else
        w->at = sweep_buffer(c->a, p, b, (int)(w - c->sweeping), w->at);
    rg__timer_set(c->sweep, 0);
}

static void clean_slot(rg__replication *c, int vault_slot, rg__commit_id id)
{
    rg__agent *a = c->a;
    const uint32_t count =
        atomic_load(&a->store->vault->slot[vault_slot][0].shards);
    if (c->cleaned[vault_slot] == c->generation || count == 0 ||
        count > RG__WORLD_MAX)
        return;
    c->cleaned[vault_slot] = c->generation;
    for (int i = 0; i < RG__SHARDS_MAX; i++) {
        rg__piece *one = &a->store->vault->shard[vault_slot][i];
        if (atomic_load(&one->generation) != id.generation ||
            atomic_load(&one->step) != id.step)
            rg__piece_empty(one);
    }
    c->sweeping[vault_slot] = (sweeping){.is_on = true};
    rg__timer_set(c->sweep, 0);
}

/* --------------------------------------------------------------------- send */

/* 1 + the newest step whose commit counts, as local workers say. */
static uint64_t committed(const rg__replication *c)
{
    uint64_t most = 0;
    for (int i = 0; i < c->a->params->slots; i++) {
        const rg__slot *s = &c->a->slot[i];
        if (!rg__slot_is_alive(s) || s->w.page == NULL ||
            atomic_load(&s->w.page->committed_generation) != c->generation)
            continue;
        const uint64_t at = atomic_load(&s->w.page->committed);
        most = at > most ? at : most;
    }
    return most;
}

/* Slot of the oldest commit that counts and the partner lacks, -1: none. */
static int next_commit(const rg__replication *c, const partner *one,
                       uint64_t *step_p)
{
    const uint64_t end = committed(c);
    int found = -1;
    *step_p = 0;
    for (int i = 0; i < RG__VAULT_SLOTS; i++) {
        const rg__commit_id id = rg__vault_id(c->a->store->vault, i);
        if (id.generation != c->generation || id.step >= end ||
            id.step < one->done || (found >= 0 && id.step > *step_p))
            continue;
        found = i;
        *step_p = id.step;
    }
    return found;
}

static void break_link(const partner *one, const char *why)
{
    rg__agent *a = one->c->a;
    const uint64_t generation = one->c->generation;
    char text[RG__CAUSE_MAX];
    snprintf(text, sizeof text, "%.24s could not store copies on %.24s: %.48s",
             a->params->host, one->name, why);
    rg__log(RG__WARN, "agent", "generation %" PRIu64 " is broken: %s",
            generation, text);
    a->detected_ns = rg__now_ns();
    a->on->copy_broken(a, generation, one->name, text);
}

/* The connection is of no use any more; nothing has come of it since then. */
static void call_later(partner *one, uint64_t since_ns, const char *why)
{
    const rg__agent *a = one->c->a;
    const uint64_t silent_ns = rg__patience_ns(a->params) * RG__SILENT_BUDGETS;
    hang_up(one);
    rg__timer_set(one->c->again, AGAIN_NS);
    if (one->stored_ns != 0 && rg__now_ns() - since_ns >= silent_ns &&
        a->aborted < one->c->generation)
        break_link(one, why);
}

/* The commit under way has gone, or none was: begin with the next shard. */
static void send_next_shard(partner *one)
{
    rg__replication *c = one->c;
    uint64_t step = one->step;
    const int vault_slot =
        one->next > 0
            ? rg__vault_find(c->a->store->vault,
                             (rg__commit_id){c->generation, one->step})
            : next_commit(c, one, &step);
    if (vault_slot < 0 || one->next == c->ranks)
        return;
    one->step = step;
    const rg__chunk_part what = {
        .slot = vault_slot,
        .is_shard = true,
        .part = {.id = {c->generation, step}, .index = c->rank[one->next++]}};
    note_moved(one);
    if (rg__chunk_send(&one->out, &what) == CHUNK_GONE)
        call_later(one, one->moved_ns, "the commit is gone here");
}

/* This host's own copy of a commit that counts is wrong. */
static void end_generation(const rg__replication *c)
{
    char text[RG__CAUSE_MAX];
    snprintf(text, sizeof text, "a shard in the vault of %.40s is damaged",
             c->a->params->host);
    c->a->on->copy_broken(c->a, c->generation, NULL, text);
}

static void greet(partner *one)
{
    const copy_frame m = {one->c->generation, one->c->a->id};
    one->is_greeted = true;
    memcpy(rg__connection_space(one->out.wire), &m, sizeof m);
    rg__connection_send(one->out.wire, RG__PEER_COPY, sizeof m);
}

static void send_more(partner *one)
{
    rg__failpoint("copy.source", -1, one->step, one->c->generation);
    note_moved(one);
    switch (rg__chunk_send_more(&one->out)) {
    case CHUNK_MORE:
        return;
    case CHUNK_DONE:
        one->sent++;
        send_next_shard(one);
        return;
    case CHUNK_DAMAGED:
        end_generation(one->c);
        break;
    default:
        break;
    }
    call_later(one, one->moved_ns, "the commit is gone here");
}

static void send_on(void *arg)
{
    partner *one = arg;
    if (one->out.wire == NULL || rg__connection_space(one->out.wire) == NULL)
        return;
    if (!one->is_greeted)
        greet(one);
    else if (rg__chunk_tell_room(&one->out))
        return;
    else if (one->out.is_under_way)
        send_more(one);
    else if (one->next == 0)
        send_next_shard(one);
}

static bool on_stored(partner *one, const void *body, size_t n)
{
    uint64_t stored;
    if (n != sizeof stored)
        return false;
    memcpy(&stored, body, sizeof stored);
    if (stored > one->sent)
        return false;
    note_stored(one, false);
    if (one->next < one->c->ranks || one->out.is_under_way ||
        stored < one->sent)
        return true;
    one->done = one->step + 1;
    one->next = 0;
    note_stored(one, true);
    show_stored(one->c);
    send_on(one);
    return true;
}

static bool partner_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    partner *one = arg;
    if (type == RG__PEER_STORED)
        return on_stored(one, body, n);
    if (type != RG__PEER_REFUSED)
        return false;
    rg__log(RG__WARN, "agent", "%s does not store our copies: %.*s", one->name,
            (int)(n < RG__CAUSE_MAX ? n : RG__CAUSE_MAX), (const char *)body);
    call_later(one, one->stored_ns, "it does not store them");
    return true;
}

static void partner_gone(void *arg, const char *why)
{
    partner *one = arg;
    rg__log(RG__DEBUG, "agent", "the connection for copies to %s: %s",
            one->name, why);
    one->out.wire = NULL;
    call_later(one, one->moved_ns, why);
}

static const rg__connection_fns partner_fns = {partner_frame, send_on,
                                               partner_gone};

static void call(partner *one)
{
    rg__replication *c = one->c;
    rg__chunk_open(&one->out, c->a, NULL, true);
    if (one->stored_ns == 0)
        note_moved(one);
    if (rg__connection_call(c->a, &one->address, one->port, one->host,
                            &partner_fns, one, &one->out.wire) == RG_OK)
        return;
    one->out.wire = NULL;
    call_later(one, one->moved_ns, rg_last_error());
}

static void look(void *arg)
{
    rg__replication *c = arg;
    for (int i = 0; i < c->partners; i++) {
        uint64_t step;
        partner *one = &c->partner[i];
        if (one->out.wire != NULL)
            send_on(one);
        else if (next_commit(c, one, &step) >= 0)
            call(one);
    }
}

void rg__replication_committed(rg__agent *a)
{
    rg__replication *c = a->replication;
    const uint64_t end = committed(c);
    const rg__commit_id id = {c->generation, end - 1};
    const int vault_slot = end > 0 ? rg__vault_find(a->store->vault, id) : -1;
    if (vault_slot >= 0)
        clean_slot(c, vault_slot, id);
    look(c);
}

/* ------------------------------------------------------------------ receive */

static void free_incoming(incoming *from)
{
    rg__chain_remove(&from->in.a->replication->incoming, from);
    rg__chunk_clear(&from->in);
    free(from);
}

/* Those of older generations, and that of a host; 0: of none. */
static void end_incoming(rg__replication *c, uint64_t older_than, uint64_t host)
{
    for (incoming *from = c->incoming, *next; from != NULL; from = next) {
        next = from->next;
        if (from->generation >= older_than && from->host != host)
            continue;
        rg__connection_close(from->in.wire);
        free_incoming(from);
    }
}

static void tell_stored(void *arg)
{
    incoming *from = arg;
    void *to = rg__connection_space(from->in.wire);
    if (to == NULL || from->told == from->stored)
        return;
    from->told = from->stored;
    memcpy(to, &from->told, sizeof from->told);
    rg__connection_send(from->in.wire, RG__PEER_STORED, sizeof from->told);
}

static void count_stored(incoming *from)
{
    from->stored++;
    tell_stored(from);
}

static bool go_on(incoming *from, rg__chunk_state state)
{
    const char *why = rg__chunk_why(state);
    if (why != NULL)
        return rg__chunk_refuse(&from->in, why);
    if (state == CHUNK_DONE)
        count_stored(from);
    return state == CHUNK_DONE || state == CHUNK_MORE;
}

static bool on_piece(incoming *from, const void *body, size_t n)
{
    rg__agent *a = from->in.a;
    rg__chunk_part what;
    uint64_t sum = 0;
    const rg__chunk_state state =
        rg__chunk_read(&from->in, body, n, &what, &sum);
    if (state != CHUNK_MORE)
        return go_on(from, state);
    what.slot = rg__vault_find(a->store->vault, what.part.id);
    if (!what.is_shard || what.part.id.generation != from->generation)
        return false;
    if (from->generation != a->delivered || what.slot < 0)
        return rg__chunk_refuse(&from->in,
                                "its vault does not hold the commit");
    return go_on(from, rg__chunk_begin(&from->in, &what, sum));
}

static bool incoming_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    incoming *from = arg;
    switch (type) {
    case RG__PEER_ROOM:
        return go_on(from, rg__chunk_on_room(&from->in, body, n));
    case RG__PEER_PIECE:
        return on_piece(from, body, n);
    case RG__PEER_BYTES:
        rg__failpoint("copy.sink", -1, from->in.what.part.id.step,
                      from->generation);
        return go_on(from, rg__chunk_on_bytes(&from->in, body, n));
    default:
        return false;
    }
}

static void incoming_gone(void *arg, const char *why)
{
    (void)why; /* it calls again */
    free_incoming(arg);
}

static const rg__connection_fns incoming_fns = {incoming_frame, tell_stored,
                                                incoming_gone};

bool rg__replication_serve(rg__agent *a, rg__connection *c, const void *body,
                           size_t n)
{
    copy_frame m;
    incoming *from = n == sizeof m ? calloc(1, sizeof *from) : NULL;
    if (from == NULL)
        return false;
    memcpy(&m, body, sizeof m);
    /* what the old connection still carries would come behind newer copies */
    end_incoming(a->replication, 0, m.host);
    *from = (incoming){.generation = m.generation,
                       .host = m.host,
                       .next = a->replication->incoming};
    rg__chunk_open(&from->in, a, c, false);
    a->replication->incoming = from;
    rg__connection_take(c, &incoming_fns, from);
    return true;
}
