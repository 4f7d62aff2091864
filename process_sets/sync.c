/* After a change of membership, all ranks take over the table of one.
 *
 * That is the source: the first rank whose table is of the newest generation.
 * It need not be rank 0, which may be a replacement without any table. The
 * source ends the sets that have lost a member and broadcasts the rest: a head,
 * then records, each followed by its members. A rank ends the sets that the
 * source does not know and takes over those that it does not know itself (a
 * newcomer: all), so that the tables are equal again; splits are compared
 * (splits.c); then the sets are opened. A worker that was left out of a
 * generation and comes back has lost its place in the sets of the others. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/fail.h"

#define RANK_BITS 14

_Static_assert(RG__WORLD_MAX == 1 << RANK_BITS, "a rank fits");

typedef struct table_head {
    uint64_t bytes; /* bytes of the records that follow */
    uint64_t count;
} table_head;

typedef struct record {
    uint32_t id, n;
    uint8_t is_named, kind, keeps, is_of_device;
    uint32_t order; /* of declaration; 0: not declared */
    char name[RG__SET_NAME_MAX];
    rg__asked asked;
    /* n rg__member_id follow */
} record;

_Static_assert(sizeof(record) % sizeof(rg__member_id) == 0, "no gaps");

static size_t record_bytes(uint32_t n)
{
    return sizeof(record) + sizeof(rg__member_id) * n;
}

static bool is_whole(const rg_set *set, const rg__membership *now)
{
    for (int i = 0; i < set->n; i++)
        if (rg__set_index(now->member, now->size, set->member[i]) < 0)
            return false;
    return true;
}

/* A set with keep goes on with its remaining members; false if none remains. */
static bool shrink(rg_set *set, const rg__membership *now)
{
    int n = 0;
    for (int i = 0; i < set->n; i++)
        if (rg__set_index(now->member, now->size, set->member[i]) >= 0)
            set->member[n++] = set->member[i];
    set->n = n;
    return n > 0;
}

/* A rule loses no members, nor does a split on a rank without a colour. */
static bool goes_on(rg_set *set, const rg__membership *now)
{
    return set->kind == RULE || set->n == 0 || is_whole(set, now) ||
           (set->keeps && shrink(set, now));
}

static void end_lost(rg__sets *sets, const rg__membership *now)
{
    for (rg_set *s = sets->first, *next; s != NULL; s = next) {
        next = s->next;
        if (!s->is_ended && !goes_on(s, now))
            rg__set_end(sets, s,
                        "the set has ended with a lost member; destroy it and "
                        "make another");
    }
}

/* ---------------------------------------------------------- writing it down */

/* Only listed sets have members on record; others differ by rank. */
static uint32_t members_in_record(const rg_set *set)
{
    return set->kind == LISTED ? (uint32_t)set->n : 0;
}

/* A split ends for one colour and goes on for another. */
static bool is_recorded(const rg_set *set)
{
    return !set->is_ended || (set->kind == SPLIT && !set->is_over);
}

static void write_set(const rg_set *set, char **at)
{
    record r = {.id = set->id,
                .n = members_in_record(set),
                .is_named = set->is_named,
                .kind = (uint8_t)set->kind,
                .keeps = set->keeps,
                .is_of_device = set->is_of_device,
                .order = set->order,
                .asked = set->asked};
    memcpy(r.name, set->name, sizeof r.name);
    memcpy(*at, &r, sizeof r);
    memcpy(*at + sizeof r, set->member, sizeof *set->member * r.n);
    *at += record_bytes(r.n);
}

/* Writes the live sets; the caller owns *bytes_p; NULL: no memory. */
static table_head write_table(const rg__sets *sets, char **bytes_p)
{
    table_head head = {0};
    for (const rg_set *s = sets->first; s != NULL; s = s->next) {
        if (!is_recorded(s))
            continue;
        head.count++;
        head.bytes += record_bytes(members_in_record(s));
    }
    char *at = malloc(head.bytes + 1);
    *bytes_p = at;
    for (const rg_set *s = sets->first; s != NULL && at != NULL; s = s->next)
        if (is_recorded(s))
            write_set(s, &at);
    return head;
}

/* ------------------------------------------------------------- reading it */

typedef struct reader {
    const char *at;
    uint64_t left;
} reader;

/* The next record, or NULL if the bytes are malformed. Its members follow it.
 */
static bool read_record(reader *in, record *r, const rg__member_id **member_p)
{
    if (in->left < sizeof *r)
        return false;
    memcpy(r, in->at, sizeof *r);
    if ((r->n < 1 && r->kind == LISTED) || r->kind > RULE ||
        r->n > RG__HOST_SLOTS_MAX * 1024u || r->id == 0 ||
        in->left < record_bytes(r->n) ||
        memchr(r->name, '\0', sizeof r->name) == NULL)
        return false;
    *member_p = (const rg__member_id *)(const void *)(in->at + sizeof *r);
    in->at += record_bytes(r->n);
    in->left -= record_bytes(r->n);
    return true;
}

static bool has_members(const rg_set *set, const record *r,
                        const rg__member_id *member)
{
    return members_in_record(set) == r->n &&
           memcmp(set->member, member, sizeof *member * r->n) == 0;
}

/* A set with keep may have shrunk meanwhile. */
static bool is_same_set(const rg_set *set, const record *r,
                        const rg__member_id *member)
{
    return (uint8_t)set->kind == r->kind && strcmp(set->name, r->name) == 0 &&
           ((set->keeps && r->keeps) || has_members(set, r, member));
}

static bool is_in_table(const rg_set *set, reader in)
{
    record r;
    const rg__member_id *member = NULL;
    while (in.left > 0 && read_record(&in, &r, &member))
        if (r.id == set->id)
            return is_same_set(set, &r, member);
    return false;
}

static void end_unknown(rg__sets *sets, reader in)
{
    for (rg_set *s = sets->first, *next; s != NULL; s = next) {
        next = s->next;
        if (is_in_table(s, in))
            continue;
        s->is_over = true;
        if (!s->is_ended || !s->has_handle)
            rg__set_end(sets, s,
                        "the set has ended: others do not know it, because the "
                        "generation broke while it was made or they have "
                        "destroyed it; make it again");
    }
}

/* Finds also a split that has ended here. */
static rg_set *find_known(rg__sets *sets, const record *r)
{
    for (rg_set *s = sets->first; s != NULL; s = s->next)
        if (s->id == r->id && (!s->is_ended || r->kind == SPLIT))
            return s;
    return NULL;
}

static void describe(rg_set *set, const record *r)
{
    set->id = r->id;
    set->is_named = r->is_named != 0;
    set->kind = (rg__set_kind)r->kind;
    set->keeps = r->keeps != 0;
    set->is_of_device = r->is_of_device != 0;
    set->order = r->order;
    set->asked = r->asked;
    memcpy(set->name, r->name, sizeof set->name);
}

/* Adds a set on record that this rank lacks: the declared one, or a new one. */
static rg_status add_record(rg_ctx *ctx, const record *r,
                            const rg__member_id *member)
{
    rg_set like = {0};
    describe(&like, r);
    rg_set *set = rg__declared_take(ctx->sets, &like);
    const rg_status st = set != NULL
                             ? rg__set_replace(set, member, (int)r->n)
                             : rg__set_make(ctx, member, (int)r->n, &set);
    if (set == NULL)
        return st;
    describe(set, r);
    rg__channel_name(set->channel, set->name);
    rg__set_insert(ctx->sets, set);
    return st;
}

static rg_status take_record(rg_ctx *ctx, const record *r,
                             const rg__member_id *member)
{
    rg_set *set = find_known(ctx->sets, r);
    if (set == NULL)
        return add_record(ctx, r, member);
    return has_members(set, r, member)
               ? RG_OK
               : rg__set_replace(set, member, (int)r->n);
}

/* Table's lock held. */
static rg_status adopt(rg_ctx *ctx, const table_head *head, const char *bytes)
{
    rg__sets *sets = ctx->sets;
    reader in = {bytes, head->bytes};
    end_unknown(sets, in);
    for (uint64_t i = 0; i < head->count; i++) {
        record r;
        const rg__member_id *member = NULL;
        if (!read_record(&in, &r, &member))
            return rg__fail(RG_ERR_MISMATCH,
                            "the table of sets that was sent can't be read");
        const rg_status st = take_record(ctx, &r, member);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

/* Table's lock held. */
static rg_status open_all(rg_ctx *ctx, const rg__membership *now)
{
    for (rg_set *s = ctx->sets->first; s != NULL; s = s->next) {
        if (s->is_ended) {
            rg__channel_close(s->channel, RG_ERR_SET_ENDED,
                              "the set has ended with a lost member; destroy "
                              "it and make another");
            continue;
        }
        if (s->kind == RULE) {
            rg__channel_close(s->channel, RG_ERR_INVALID,
                              "a rank does not have the rule of this set yet; "
                              "call rg_set_create_by on all ranks");
            continue;
        }
        const rg_status st = rg__set_open(s, now);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

/* ----------------------------------------------------------------- together */

/* What the ranks have found out about each other. */
typedef struct origin {
    int source;       /* the first rank that has the newest table */
    bool is_first;    /* no rank has one */
    bool is_declared; /* all have declared the same sets */
} origin;

static const char comparing[] = "comparing the tables of sets";
static const uint64_t origin_tag = UINT64_C(0x7461626c65000000); /* "table" */

static int64_t begin(rg__sets *sets)
{
    pthread_mutex_lock(&sets->lock);
    sets->has_begun = true;
    const int64_t declared = rg__declared_digest(sets);
    pthread_mutex_unlock(&sets->lock);
    return declared;
}

/* Nothing else has happened yet, so operations can differ for no other reason.
 */
static rg_status fail_place(const rg_ctx *ctx)
{
    const char *const names[] = {"rg_world_wait", "rg_run"};
    return rg__fail(
        RG_ERR_MISMATCH,
        "%s was called here, and %s on other ranks of the first generation; "
        "let every worker call rg_world_wait before rg_run, or none: %s",
        names[ctx->is_running], names[!ctx->is_running], rg_last_error());
}

/* Tables are compared in rg_run, or by all ranks in rg_world_wait. */
static rg_status find_origin(rg_ctx *ctx, const rg__membership *now, origin *o)
{
    const int64_t last = RG__WORLD_MAX - 1, declared = begin(ctx->sets);
    const int64_t in[4] = {(int64_t)(ctx->sets->synced << RANK_BITS) |
                               (last - now->rank),
                           declared, -declared, ctx->device != NULL};
    int64_t out[4];
    const rg_status st = rg__world_agree_first(
        ctx, comparing, origin_tag + ctx->is_running, in, out);
    if (st == RG_ERR_MISMATCH && ctx->is_elastic)
        return fail_place(ctx);
    if (st != RG_OK)
        return st;
    *o = (origin){.source = (int)(last - (out[0] & last)),
                  .is_first = out[0] <= last,
                  .is_declared = out[1] == -out[2]};
    ctx->sets->has_device = out[3] != 0;
    return RG_OK;
}

/* They differ, so this names the ranks. */
static rg_status fail_declared(rg_ctx *ctx)
{
    const int64_t in[4] = {0};
    int64_t out[4];
    const rg_status st = rg__world_agree(
        ctx, comparing, (uint64_t)rg__declared_digest(ctx->sets), in, out);
    if (st != RG_ERR_MISMATCH)
        return st;
    return rg__fail(
        st, "sets were not declared alike before rg_run on every worker: %s",
        rg_last_error());
}

/* Puts the source's table into *bytes_p, which is the caller's in any case. */
static rg_status exchange(rg_ctx *ctx, bool is_source, int source,
                          table_head *head, char **bytes_p)
{
    if (is_source) {
        pthread_mutex_lock(&ctx->sets->lock);
        *head = write_table(ctx->sets, bytes_p);
        pthread_mutex_unlock(&ctx->sets->lock);
    }
    rg_status st = rg__world_broadcast(ctx, head, sizeof *head, source);
    if (st != RG_OK)
        return st;
    if (!is_source)
        *bytes_p = malloc(head->bytes + 1);
    if (*bytes_p == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the table of sets");
    return head->bytes == 0
               ? RG_OK
               : rg__world_broadcast(ctx, *bytes_p, head->bytes, source);
}

static rg_status compare_splits(rg_ctx *ctx, const rg__membership *now,
                                const table_head *head, const char *bytes)
{
    uint32_t *ids = malloc(sizeof *ids * (head->count + 1));
    if (ids == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the table of sets");
    reader in = {bytes, head->bytes};
    record r;
    const rg__member_id *member = NULL;
    int n = 0;
    while (in.left > 0 && read_record(&in, &r, &member))
        if (r.kind == SPLIT)
            ids[n++] = r.id;
    const rg_status st = n == 0 ? RG_OK : rg__splits_compare(ctx, now, ids, n);
    free(ids);
    return st;
}

/* Table's lock held. */
static rg_status fill_table(rg_ctx *ctx, const rg__membership *now,
                            const origin *o, const table_head *head,
                            const char *bytes)
{
    rg_status st = RG_OK;
    if (o->source != now->rank)
        st = adopt(ctx, head, bytes);
    if (st == RG_OK && o->is_first)
        st = rg__declared_make(ctx->sets, now);
    else if (st == RG_OK)
        rg__declared_end(ctx->sets);
    if (st == RG_OK)
        ctx->sets->synced = now->generation;
    return st;
}

static rg_status adopt_all(rg_ctx *ctx, const rg__membership *now,
                           const origin *o, const table_head *head,
                           const char *bytes)
{
    pthread_mutex_lock(&ctx->sets->lock);
    rg_status st = fill_table(ctx, now, o, head, bytes);
    pthread_mutex_unlock(&ctx->sets->lock);
    if (st == RG_OK)
        st = compare_splits(ctx, now, head, bytes);
    if (st != RG_OK)
        return st;
    pthread_mutex_lock(&ctx->sets->lock);
    st = open_all(ctx, now);
    pthread_mutex_unlock(&ctx->sets->lock);
    return st;
}

static rg_status sync_tables(rg_ctx *ctx, const rg__membership *now)
{
    table_head head = {0};
    char *bytes = NULL;
    origin o = {0};
    pthread_mutex_lock(&ctx->sets->lock);
    end_lost(ctx->sets, now);
    pthread_mutex_unlock(&ctx->sets->lock);
    rg_status st = find_origin(ctx, now, &o);
    if (st == RG_OK && o.is_first && !o.is_declared)
        st = fail_declared(ctx);
    if (st == RG_OK)
        st = exchange(ctx, o.source == now->rank, o.source, &head, &bytes);
    if (st == RG_OK)
        st = adopt_all(ctx, now, &o, &head, bytes);
    free(bytes);
    return st == RG_OK ? rg__color_apply_rules(ctx, now) : st;
}

rg_status rg__sets_sync(rg_ctx *ctx)
{
    rg__membership now;
    rg_status st = rg__context_copy_membership(ctx, &now);
    if (st != RG_OK)
        return st;
    st = sync_tables(ctx, &now);
    free(now.member);
    return st;
}
