/* What a lane has started, so that its members can compare it: NCCL compares
 * nothing, and there is no time for it at a launch.
 *
 * Each operation adds its descriptor to a running hash. If two members have the
 * same hash after their k-th operation, they have started the same k
 * operations; if not, the first descriptor that differs shows the difference.
 *
 * Of gatherv, scatterv and alltoallv a member knows only its own counts. For
 * what it sends to each member it adds a number to its balance, made of the
 * operation, both ranks and the count, and it subtracts one for what it expects
 * from each. So the balances of all members add up to 0, unless a count
 * differs; the counts themselves say which.
 *
 * These records are kept for a while: a member is ahead of another by no more
 * operations than may be under way, unless these don't depend on it.
 *
 * A record is written with the lane's lock held, perhaps for long when NCCL
 * blocks; so it is read without the lock. */
#include "sdk/transport/nccl/device.h"

#include <stdlib.h>
#include <string.h>

#define MORE 64 /* operations on record beyond those that may be under way */

#define LINE 2 /* where the descriptor begins, behind the history */

_Static_assert(sizeof(rg__descriptor) == 8 * (RECORD_WORDS - LINE), "no gaps");
_Static_assert(sizeof(rg__history) == 8 * LINE, "no gaps");

uint64_t rg__history_room(const rg__device *d)
{
    return (uint64_t)d->params.in_flight + MORE;
}

/* ------------------------------------------------------------------ writing */

/* A hash of the counts, if they are common to all members. */
static uint64_t hash_counts(const rg__coll *o, int n)
{
    const bool is_common =
        o->kind == RG__ALLGATHERV || o->kind == RG__REDUCE_SCATTERV;
    uint64_t hash = 0;
    for (int r = 0; r < n && is_common; r++)
        hash = rg__tag_mix(hash, o->recv_counts[r]);
    return hash;
}

/* The tag also covers the counts, and the operations of the same group. */
static rg__descriptor descriptor_of(const rg__lane *lane, const rg__coll *o,
                                    int i, int n)
{
    uint64_t tag = hash_counts(o, lane->n);
    if (n > 1)
        tag = rg__tag_mix(tag, (uint64_t)(unsigned)n << 32 | (unsigned)i);
    return (rg__descriptor){.kind = (uint8_t)o->kind,
                            .type = (uint8_t)o->type,
                            .op = (uint8_t)o->op,
                            .root = o->root,
                            .count = rg__kind_is_uneven(o->kind) ? 0 : o->count,
                            .tag = o->tag + tag,
                            .prescale = o->prescale,
                            .postscale = o->postscale};
}

static uint64_t read_word(const rg__lane_record *r, int i)
{
    return atomic_load_explicit(&r->word[i], memory_order_acquire);
}

static void write_word(rg__lane_record *r, int i, uint64_t value)
{
    atomic_store_explicit(&r->word[i], value, memory_order_release);
}

/* ------------------------------------------------------------------ counts */

/* What this member sends to rank r, or with is_sent false receives from it:
 * only these two know it. A root's own part is compared by its call already. */
static uint64_t count_of(const rg__lane *lane, const rg__coll *o, bool is_sent,
                         int r)
{
    const uint64_t *counts = is_sent ? o->send_counts : o->recv_counts;
    const bool is_root = lane->rank == o->root;
    if (o->kind == RG__ALLTOALLV)
        return counts[r];
    if (is_root)
        return counts != NULL && r != o->root ? counts[r] : 0;
    const bool is_alone = is_sent == (o->kind == RG__GATHERV);
    return is_alone && r == o->root ? o->count : 0;
}

static bool has_pairs(rg__kind kind)
{
    return kind == RG__GATHERV || kind == RG__SCATTERV || kind == RG__ALLTOALLV;
}

/* The weight of a count that rank `from` sends to rank `to`. */
static uint64_t weigh(uint64_t k, int from, int to, uint64_t count)
{
    const uint64_t ranks = (uint64_t)(unsigned)from << 32 | (unsigned)to;
    return count == 0
               ? 0
               : rg__tag_mix(rg__tag_mix(rg__tag_mix(0, k), ranks), count);
}

static uint64_t balance_of(const rg__lane *lane, const rg__coll *o, uint64_t k)
{
    uint64_t balance = 0;
    for (int r = 0; r < lane->n; r++)
        balance += weigh(k, lane->rank, r, count_of(lane, o, true, r)) -
                   weigh(k, r, lane->rank, count_of(lane, o, false, r));
    return balance;
}

/* Where the counts of operation k are; NULL: there was no memory for them. */
static _Atomic uint64_t *counts_at(const rg__device *d, const rg__lane *lane,
                                   _Atomic uint64_t *all, uint64_t k)
{
    const uint64_t slot = k % rg__history_room(d);
    return all == NULL ? NULL : all + slot * 2 * (unsigned)lane->n;
}

static void write_counts(const rg__device *d, rg__lane *lane, const rg__coll *o,
                         uint64_t k)
{
    _Atomic uint64_t *all = atomic_load(&lane->counts);
    if (all == NULL)
        all = calloc(rg__history_room(d) * 2 * (unsigned)lane->n, sizeof *all);
    atomic_store(&lane->counts, all);
    _Atomic uint64_t *at = counts_at(d, lane, all, k);
    for (int r = 0; r < lane->n && at != NULL; r++) {
        atomic_store_explicit(&at[r], count_of(lane, o, true, r),
                              memory_order_relaxed);
        atomic_store_explicit(&at[lane->n + r], count_of(lane, o, false, r),
                              memory_order_relaxed);
    }
}

/* ----------------------------------------------------------------- records */

void rg__history_note(const rg__device *d, rg__lane *lane, const rg__coll *o,
                      int i, int n)
{
    if (lane->state != RG__LANE_READY)
        return; /* the operation that warms the lane up is not the program's */
    const uint64_t k =
        atomic_load_explicit(&lane->started, memory_order_relaxed) + 1;
    const rg__descriptor descriptor = descriptor_of(lane, o, i, n);
    uint64_t words[RECORD_WORDS - LINE];
    rg__lane_record *r = &lane->record[k % rg__history_room(d)];
    memcpy(words, &descriptor, sizeof descriptor);
    for (int w = LINE; w < RECORD_WORDS; w++) {
        lane->history.hash = rg__tag_mix(lane->history.hash, words[w - LINE]);
        write_word(r, w, words[w - LINE]);
    }
    if (has_pairs(o->kind)) {
        lane->history.balance += balance_of(lane, o, k);
        write_counts(d, lane, o, k);
    }
    write_word(r, 0, lane->history.hash);
    write_word(r, 1, lane->history.balance);
    atomic_store(&lane->started, k);
}

/* The records that these operations have overwritten are lost. */
void rg__history_drop(const rg__device *d, rg__lane *lane,
                      const rg__history *before, int n)
{
    const uint64_t room = rg__history_room(d), dropped = (unsigned)n;
    if (lane->state != RG__LANE_READY)
        return;
    const uint64_t k = atomic_load(&lane->started) - dropped;
    const uint64_t floor = atomic_load(&lane->floor);
    const uint64_t lost = k + dropped >= room ? k + dropped - room + 1 : 0;
    lane->history = *before;
    atomic_store(&lane->floor, k + dropped + 1); /* nothing, for now */
    atomic_store(&lane->started, k);
    if (lost > k + 1) /* no record is left */
        atomic_store(&lane->floor, k + 1);
    else
        atomic_store(&lane->floor, lost > floor ? lost : floor);
}

/* ------------------------------------------------------------------ reading */

/* The oldest on record. One more is perhaps just being written. */
static uint64_t oldest(const rg__device *d, const rg__lane *lane)
{
    const uint64_t started = atomic_load(&lane->started);
    const uint64_t room = rg__history_room(d) - 1;
    const uint64_t floor = atomic_load(&lane->floor);
    const uint64_t least = started < room ? 1 : started - room + 1;
    return least > floor ? least : floor;
}

/* The key comes from the members' rendezvous, which only they know. */
static uint64_t key_of(const rg__lane *lane)
{
    uint64_t key = 0, word;
    for (size_t i = 0; i < sizeof lane->id.bytes; i += sizeof word) {
        memcpy(&word, lane->id.bytes + i, sizeof word);
        key = rg__tag_mix(key, word);
    }
    return key | 1;
}

int rg__device_accounts(rg__device *d, uint64_t generation,
                        rg__lane_account *account, int room)
{
    int n = 0;
    pthread_mutex_lock(&d->table);
    for (const rg__lane *lane = d->lanes; lane != NULL; lane = lane->next)
        if (lane->generation == generation && lane->n > 1 &&
            lane->state == RG__LANE_READY && n < room)
            account[n++] = (rg__lane_account){
                .key = key_of(lane),
                .started = atomic_load(&lane->started),
                .kept = oldest(d, lane),
                .set = lane->set,
                .n = lane->n,
                .rank = lane->rank,
                .is_stalled = atomic_load(&lane->is_stalled)};
    pthread_mutex_unlock(&d->table);
    return n;
}

static const rg__lane *find(const rg__device *d, uint64_t key)
{
    for (const rg__lane *lane = d->lanes; lane != NULL; lane = lane->next)
        if (lane->n > 1 && key_of(lane) == key)
            return lane;
    return NULL;
}

static bool was_started(const rg__lane *lane, uint64_t k)
{
    return lane != NULL && k >= 1 && k <= atomic_load(&lane->started);
}

static bool recall(const rg__device *d, const rg__lane *lane, uint64_t k,
                   rg__history *history_p, rg__descriptor *descriptor_p)
{
    const rg__lane_record *r = &lane->record[k % rg__history_room(d)];
    uint64_t words[RECORD_WORDS];
    for (int w = 0; w < RECORD_WORDS; w++)
        words[w] = read_word(r, w);
    memcpy(history_p, words, sizeof *history_p);
    memcpy(descriptor_p, words + LINE, sizeof *descriptor_p);
    return k >= oldest(d, lane);
}

bool rg__lane_recall(rg__device *d, uint64_t key, uint64_t k,
                     rg__history *history_p, rg__descriptor *descriptor_p)
{
    pthread_mutex_lock(&d->table);
    const rg__lane *lane = find(d, key);
    const bool has =
        was_started(lane, k) && recall(d, lane, k, history_p, descriptor_p);
    pthread_mutex_unlock(&d->table);
    return has;
}

static bool recall_counts(const rg__device *d, const rg__lane *lane, uint64_t k,
                          uint64_t *counts)
{
    rg__history ignored;
    rg__descriptor descriptor;
    _Atomic uint64_t *at = counts_at(d, lane, atomic_load(&lane->counts), k);
    if (at == NULL || !recall(d, lane, k, &ignored, &descriptor) ||
        !has_pairs((rg__kind)descriptor.kind))
        return false;
    for (int i = 0; i < 2 * lane->n; i++)
        counts[i] = atomic_load_explicit(&at[i], memory_order_relaxed);
    return k >= oldest(d, lane);
}

bool rg__lane_recall_counts(rg__device *d, uint64_t key, uint64_t k,
                            uint64_t *counts)
{
    pthread_mutex_lock(&d->table);
    const rg__lane *lane = find(d, key);
    const bool has = was_started(lane, k) && recall_counts(d, lane, k, counts);
    pthread_mutex_unlock(&d->table);
    return has;
}
