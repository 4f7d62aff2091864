/* What a lane has started, so that its members can compare it: NCCL compares
 * nothing, and a launch has no time to.
 *
 * Each operation adds its line to a hash that runs over all before it. Where
 * two members have the same hash behind their k-th operation, they have started
 * the same k operations; where they differ, the line of the first that differs
 * says in what. Both are remembered for a while: a member is ahead of another
 * by no more operations than may be under way, unless these need nothing of it.
 *
 * A record is written with the lane's lock held, which may be for long when
 * NCCL blocks; so it is read without. */
#include "sdk/transport/nccl/device.h"

#include <string.h>

#define MORE 64 /* operations, beyond those that may be under way */

_Static_assert(sizeof(rg__descriptor) == 8 * (RECORD_WORDS - 1), "no gaps");

uint64_t rg__history_room(const rg__device *d)
{
    return (uint64_t)d->params.in_flight + MORE;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* ------------------------------------------------------------------ writing */

/* Of kinds whose counts are those of all members. */
static uint64_t mix_counts(uint64_t hash, const rg__coll *o, int n)
{
    const bool is_common =
        o->kind == RG__ALLGATHERV || o->kind == RG__REDUCE_SCATTERV;
    for (int r = 0; r < n && is_common; r++)
        hash = mix(hash, o->recv_counts[r]);
    return hash;
}

static bool has_own_count(rg__kind kind)
{
    return kind == RG__GATHERV || kind == RG__SCATTERV ||
           kind == RG__ALLGATHERV || kind == RG__ALLTOALLV;
}

/* The tag stands for the counts as well, and for what it is grouped with. */
static rg__descriptor line_of(const rg__lane *lane, const rg__coll *o, int i,
                              int n)
{
    uint64_t tag = mix_counts(0, o, lane->n);
    if (n > 1)
        tag = mix(tag, (uint64_t)(unsigned)n << 32 | (unsigned)i);
    return (rg__descriptor){.kind = (uint8_t)o->kind,
                            .type = (uint8_t)o->type,
                            .op = (uint8_t)o->op,
                            .root = o->root,
                            .count = has_own_count(o->kind) ? 0 : o->count,
                            .tag = o->tag + tag,
                            .prescale = o->prescale,
                            .postscale = o->postscale};
}

static uint64_t read_word(const lane_record *r, int i)
{
    return atomic_load_explicit(&r->word[i], memory_order_acquire);
}

static void write_word(lane_record *r, int i, uint64_t value)
{
    atomic_store_explicit(&r->word[i], value, memory_order_release);
}

void rg__history_note(const rg__device *d, rg__lane *lane, const rg__coll *o,
                      int i, int n)
{
    const uint64_t room = rg__history_room(d);
    if (lane->state != LANE_READY)
        return; /* the one that warms it up is nobody's */
    const uint64_t before =
        atomic_load_explicit(&lane->started, memory_order_relaxed);
    const rg__descriptor line = line_of(lane, o, i, n);
    uint64_t words[RECORD_WORDS - 1];
    uint64_t hash = read_word(&lane->record[before % room], 0);
    lane_record *r = &lane->record[(before + 1) % room];
    memcpy(words, &line, sizeof line);
    for (int w = 1; w < RECORD_WORDS; w++) {
        hash = mix(hash, words[w - 1]);
        write_word(r, w, words[w - 1]);
    }
    write_word(r, 0, hash);
    atomic_store(&lane->started, before + 1);
}

void rg__history_drop(rg__lane *lane, int n)
{
    if (lane->state == LANE_READY)
        atomic_fetch_sub(&lane->started, (uint64_t)(unsigned)n);
}

/* ------------------------------------------------------------------ reading */

/* One record is being written, behind the newest. */
static uint64_t oldest(const rg__device *d, const rg__lane *lane)
{
    const uint64_t started = atomic_load(&lane->started);
    const uint64_t room = rg__history_room(d) - 1;
    return started < room ? 1 : started - room + 1;
}

/* The place where the members have met is theirs alone. */
static uint64_t key_of(const rg__lane *lane)
{
    uint64_t key = 0, word;
    for (size_t i = 0; i < sizeof lane->id.bytes; i += sizeof word) {
        memcpy(&word, lane->id.bytes + i, sizeof word);
        key = mix(key, word);
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
            lane->state == LANE_READY && n < room)
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

static bool recall(const rg__device *d, const rg__lane *lane, uint64_t k,
                   uint64_t *history_p, rg__descriptor *line_p)
{
    const lane_record *r = &lane->record[k % rg__history_room(d)];
    uint64_t words[RECORD_WORDS - 1];
    if (k < 1 || k > atomic_load(&lane->started))
        return false;
    *history_p = read_word(r, 0);
    for (int w = 1; w < RECORD_WORDS; w++)
        words[w - 1] = read_word(r, w);
    memcpy(line_p, words, sizeof words);
    return k >= oldest(d, lane);
}

bool rg__lane_recall(rg__device *d, uint64_t key, uint64_t k,
                     uint64_t *history_p, rg__descriptor *line_p)
{
    bool has = false;
    pthread_mutex_lock(&d->table);
    for (const rg__lane *lane = d->lanes; lane != NULL; lane = lane->next)
        if (lane->n > 1 && key_of(lane) == key)
            has = recall(d, lane, k, history_p, line_p);
    pthread_mutex_unlock(&d->table);
    return has;
}
