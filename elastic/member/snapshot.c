/* All keys of a job at one revision, as structs. */
#include "elastic/member/records_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/grow.h"
#include "sdk/base/log.h"

static bool add_host(rg__snapshot *s, const char *name, const json_t *j,
                     const rg__kv *kv)
{
    rg__host_record *h = rg__grow(&s->host, (size_t)s->hosts, sizeof *h);
    if (h == NULL || !rg__name_copy(h->name, sizeof h->name, name) ||
        !rg__host_read(j, h))
        return false;
    h->mod_revision = kv->mod_revision;
    s->hosts++;
    return true;
}

static bool add_gen(rg__snapshot *s, uint64_t g, const json_t *j,
                    const rg__kv *kv)
{
    rg__proposal *p = rg__grow(&s->gen, (size_t)s->gens, sizeof *p);
    if (p == NULL)
        return false;
    p->generation = g;
    p->mod_revision = kv->mod_revision;
    if (!rg__proposal_read(j, s, p)) {
        rg__proposal_free(p);
        return false;
    }
    s->gens++;
    return true;
}

static bool add_reason(rg__snapshot *s, uint64_t g, const char *name,
                       const json_t *j)
{
    rg__reason *r = rg__grow(&s->reason, (size_t)s->reasons, sizeof *r);
    if (r == NULL || !rg__name_copy(r->member, sizeof r->member, name) ||
        !rg__reason_read(j, r))
        return false;
    r->generation = g;
    s->reasons++;
    return true;
}

static bool add_fin(rg__snapshot *s, uint64_t g, const char *name)
{
    rg__fin *f = rg__grow(&s->fin, (size_t)s->fins, sizeof *f);
    if (f == NULL || !rg__name_copy(f->host, sizeof f->host, name))
        return false;
    f->generation = g;
    s->fins++;
    return true;
}

static bool add_line(rg__snapshot *s, uint64_t g, const json_t *j,
                     const rg__kv *kv)
{
    rg__line *l = rg__grow(&s->line, (size_t)s->lines, sizeof *l);
    if (l == NULL)
        return false;
    if (!rg__line_read(j, l)) {
        rg__line_free(l);
        return false;
    }
    l->generation = g;
    l->mod_revision = kv->mod_revision;
    s->lines++;
    return true;
}

static bool add_suspicion(rg__snapshot *s, const rg__key *key, const json_t *j,
                          const rg__kv *kv)
{
    rg__suspicion *one =
        rg__grow(&s->suspicion, (size_t)s->suspicions, sizeof *one);
    if (one == NULL)
        return false;
    one->host = key->number;
    one->by = key->by;
    one->mod_revision = kv->mod_revision;
    s->suspicions += !json_is_true(json_object_get(j, "withdrawn"));
    return true;
}

static bool add_drain(rg__snapshot *s, const char *name, const json_t *j)
{
    rg__drain *d = rg__grow(&s->drain, (size_t)s->drains, sizeof *d);
    if (d == NULL || !rg__name_copy(d->host, sizeof d->host, name) ||
        !rg__drain_read(j, d))
        return false;
    s->drains++;
    return true;
}

static bool add_claim(rg__snapshot *s, uint64_t where, const json_t *j,
                      const rg__kv *kv)
{
    rg__claim *c = rg__grow(&s->claim, (size_t)s->claims, sizeof *c);
    if (c == NULL || !rg__claim_read(j, c))
        return false;
    c->where = where;
    c->mod_revision = kv->mod_revision;
    s->claims++;
    return true;
}

static bool add_share(rg__snapshot *s, const char *name, const json_t *j)
{
    rg__share *one = rg__grow(&s->share, (size_t)s->shares, sizeof *one);
    if (one == NULL || strlen(name) >= sizeof one->host ||
        !rg__share_read(j, one))
        return false;
    strcpy(one->host, name);
    s->shares++;
    return true;
}

static bool add_begun(rg__snapshot *s, const json_t *j)
{
    uint64_t generation;
    s->begun = 1; /* its value does not matter, only that it is there */
    if (!rg__begun_read(j, &generation))
        return false;
    s->begun = generation;
    return true;
}

static bool add_leader(rg__snapshot *s, const json_t *j, const rg__kv *kv)
{
    rg__proposal_host leader = {0};
    if (!rg__leader_read(j, &leader))
        return false;
    s->leader_host = leader;
    s->leader = leader.id;
    s->leader_token = kv->create_revision;
    return true;
}

/* A record of which there is one; zeros if it is not in our form. */
static bool keep_if(bool is_right, void *record, size_t bytes)
{
    if (!is_right)
        memset(record, 0, bytes);
    return is_right;
}

/* Whatever the order holds, the next one replaces that revision. */
static bool add_order(rg__snapshot *s, const json_t *j, const rg__kv *kv)
{
    const bool is_right =
        keep_if(rg__order_read(j, &s->order), &s->order, sizeof s->order);
    s->order.mod_revision = kv->mod_revision;
    return is_right;
}

static bool add_saved(rg__snapshot *s, const json_t *j, const rg__kv *kv)
{
    const bool is_right =
        keep_if(rg__saved_read(j, &s->saved), &s->saved, sizeof s->saved);
    s->saved.mod_revision = kv->mod_revision;
    return is_right;
}

/* The only record of its kind. */
#define KEEP(name)                                                             \
    keep_if(rg__##name##_read(j, &s->name), &s->name, sizeof s->name)
#define KEEP_REVISION(name)                                                    \
    (s->name.mod_revision = kv->mod_revision, KEEP(name))

static bool add(rg__snapshot *s, const rg__key *key, const json_t *j,
                const rg__kv *kv)
{
    switch (key->kind) {
    case RG__KEY_META:
        s->meta.create_revision = kv->create_revision;
        return KEEP(meta);
    case RG__KEY_JOB_SPEC: /* agent/workers/job_spec.c reads the rest */
        s->is_static = json_is_true(json_object_get(j, "static"));
        return true;
    case RG__KEY_CUR:
        return KEEP_REVISION(cur);
    case RG__KEY_BEGUN:
        return add_begun(s, j);
    case RG__KEY_LEADER:
        return add_leader(s, j, kv);
    case RG__KEY_END:
        return KEEP(end);
    case RG__KEY_STOP:
        return keep_if(rg__end_read(j, &s->stop), &s->stop, sizeof s->stop);
    case RG__KEY_SIZE:
        return KEEP_REVISION(size);
    case RG__KEY_CHECKPOINT:
        return add_saved(s, j, kv);
    case RG__KEY_ORDER:
        return add_order(s, j, kv);
    case RG__KEY_MPIRUN:
        return KEEP_REVISION(mpirun);
    case RG__KEY_PROBE:
        s->probe = kv->mod_revision;
        return true;
    case RG__KEY_GEN:
        return add_gen(s, key->number, j, kv);
    case RG__KEY_LINE:
        return add_line(s, key->number, j, kv);
    case RG__KEY_REASON:
        return add_reason(s, key->number, key->name, j);
    case RG__KEY_CLAIM:
        return add_claim(s, key->number, j, kv);
    case RG__KEY_SHARE:
        return add_share(s, key->name, j);
    case RG__KEY_DRAIN:
        return add_drain(s, key->name, j);
    case RG__KEY_HOST:
        return add_host(s, key->name, j, kv);
    case RG__KEY_FIN:
        return add_fin(s, key->number, key->name);
    case RG__KEY_SUSPICION:
        return add_suspicion(s, key, j, kv);
    }
    return false;
}

static bool read_one(rg__snapshot *snap, const rg__key *key, const rg__kv *kv)
{
    json_error_t error;
    json_t *j =
        json_loadb(kv->value, kv->value_bytes, JSON_REJECT_DUPLICATES, &error);
    const bool is_ours = key != NULL && j != NULL && add(snap, key, j, kv);
    if (!is_ours)
        rg__log(
            RG__WARN, "member",
            "etcd key %s holds something that Regroup did not write; ignored",
            kv->key);
    json_decref(j);
    return is_ours;
}

/* Where to look for the next element of a list that mostly stays as it is. */
static int near(int i, int next, int n)
{
    return (i + next) % n;
}

/* Move an element to the end of a list; zeros are left in its place. */
static bool move(void *list_p, int *n, void *old, size_t bytes)
{
    void *to = rg__grow(list_p, (size_t)*n, bytes);
    if (to == NULL)
        return false;
    memcpy(to, old, bytes);
    memset(old, 0, bytes);
    ++*n;
    return true;
}

static bool take_proposal(rg__snapshot *snap, rg__snapshot *before, uint64_t g,
                          int64_t mod_revision)
{
    for (int i = 0; i < before->gens; i++) {
        rg__proposal *old = &before->gen[near(i, snap->gens, before->gens)];
        if (old->generation != g || old->mod_revision != mod_revision ||
            old->member == NULL)
            continue;
        return move(&snap->gen, &snap->gens, old, sizeof *old);
    }
    return false;
}

static bool take_line(rg__snapshot *snap, rg__snapshot *before, uint64_t g,
                      int64_t mod_revision)
{
    for (int i = 0; i < before->lines; i++) {
        rg__line *old = &before->line[near(i, snap->lines, before->lines)];
        if (old->generation != g || old->mod_revision != mod_revision)
            continue;
        return move(&snap->line, &snap->lines, old, sizeof *old);
    }
    return false;
}

static bool take_host(rg__snapshot *snap, rg__snapshot *before,
                      const char *name, int64_t mod_revision)
{
    for (int i = 0; i < before->hosts; i++) {
        rg__host_record *old =
            &before->host[near(i, snap->hosts, before->hosts)];
        if (old->mod_revision != mod_revision || strcmp(old->name, name) != 0)
            continue;
        return move(&snap->host, &snap->hosts, old, sizeof *old);
    }
    return false;
}

/* Take over what `before` has read from the same revision of the key. */
static bool take_over(rg__snapshot *snap, rg__snapshot *before,
                      const rg__key *key, int64_t mod_revision)
{
    if (key->kind == RG__KEY_GEN)
        return take_proposal(snap, before, key->number, mod_revision);
    if (key->kind == RG__KEY_LINE)
        return take_line(snap, before, key->number, mod_revision);
    return key->kind == RG__KEY_HOST &&
           take_host(snap, before, key->name, mod_revision);
}

/* ------------------------------------------------------------------- order
 *
 * With thousands of hosts a look asks for each of them many times. Without
 * memory for an order, or where somebody has put a snapshot together, they are
 * looked for one by one. */

static int order_of_acks(const rg__ack *a, uint64_t host, uint64_t generation)
{
    if (a->id != host)
        return a->id < host ? -1 : 1;
    return a->generation < generation ? -1 : a->generation > generation;
}

/* The place of that ack among the first n in order, or where it would be. */
static int place_of_ack(const rg__snapshot *s, int n, uint64_t host,
                        uint64_t generation)
{
    int low = 0, high = n;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (order_of_acks(&s->ack[s->ack_by_id[mid]], host, generation) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The newest ack has its place among those before it. */
static void order_ack(rg__snapshot *s)
{
    const int n = s->acks - 1;
    int *more = s->acks_ordered == n
                    ? realloc(s->ack_by_id, sizeof *more * (size_t)s->acks)
                    : NULL;
    if (more == NULL)
        return;
    s->ack_by_id = more;
    const int at = place_of_ack(s, n, s->ack[n].id, s->ack[n].generation);
    memmove(more + at + 1, more + at, sizeof *more * (size_t)(n - at));
    more[at] = n;
    s->acks_ordered = s->acks;
}

static int place_of_host(const rg__snapshot *s, int n, uint64_t host)
{
    int low = 0, high = n;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (s->host[s->host_by_id[mid]].id < host)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int compare_ids(const void *a, const void *b, void *snap_arg)
{
    const rg__snapshot *s = snap_arg;
    const uint64_t one = s->host[*(const int *)a].id;
    const uint64_t other = s->host[*(const int *)b].id;
    return one < other ? -1 : one > other;
}

static void order_hosts(rg__snapshot *s)
{
    int *all = realloc(s->host_by_id, sizeof *all * (size_t)(s->hosts + 1));
    s->hosts_ordered = 0;
    if (all == NULL)
        return;
    s->host_by_id = all;
    for (int i = 0; i < s->hosts; i++)
        all[i] = i;
    qsort_r(all, (size_t)s->hosts, sizeof *all, compare_ids, s);
    s->hosts_ordered = s->hosts;
}

static void read_all(rg__snapshot *snap, rg__snapshot *before,
                     const char *prefix, const rg__kv *kv, size_t n)
{
    const size_t skip = strlen(prefix);
    *snap = (rg__snapshot){0};
    for (size_t i = 0; i < n; i++) {
        rg__key key;
        if (strncmp(kv[i].key, prefix, skip) != 0)
            continue;
        const bool is_ours = rg__record_key_read(kv[i].key + skip, &key);
        if (!is_ours || !take_over(snap, before, &key, kv[i].mod_revision))
            read_one(snap, is_ours ? &key : NULL, &kv[i]);
    }
    order_hosts(snap);
}

rg_status rg__snapshot_read(rg__snapshot *snap, const char *prefix,
                            const rg__kv *kv, size_t n)
{
    rg__snapshot none = {0};
    read_all(snap, &none, prefix, kv, n);
    return RG_OK;
}

/* The number belongs to another proposal than the one that was acked. */
static bool is_ack_of_other(const rg__snapshot *snap, const rg__ack *ack)
{
    const rg__proposal *p = rg__snapshot_gen(snap, ack->generation);
    return p != NULL && strcmp(p->op, ack->op) != 0;
}

/* Acks come by datagram, and are in no key. */
static void keep_acks(rg__snapshot *snap, rg__snapshot *before)
{
    snap->ack = before->ack;
    for (int i = 0; i < before->acks; i++)
        if (snap->ack[i].generation < snap->cur.generation ||
            is_ack_of_other(snap, &snap->ack[i]))
            rg__ack_free(&snap->ack[i]);
        else {
            snap->ack[snap->acks++] = snap->ack[i];
            order_ack(snap);
        }
    before->ack = NULL;
    before->acks = 0;
}

rg_status rg__snapshot_update(rg__snapshot *snap, const char *prefix,
                              const rg__kv *kv, size_t n)
{
    rg__snapshot before = *snap;
    read_all(snap, &before, prefix, kv, n);
    keep_acks(snap, &before);
    rg__snapshot_free(&before);
    return RG_OK;
}

static void drop_host(rg__snapshot *snap, const char *name)
{
    for (int i = 0; i < snap->hosts; i++) {
        if (strcmp(snap->host[i].name, name) != 0)
            continue;
        free(snap->host[i].slot);
        memmove(&snap->host[i], &snap->host[i + 1],
                sizeof *snap->host * (size_t)(snap->hosts - i - 1));
        snap->hosts--;
    }
}

bool rg__snapshot_lay(rg__snapshot *snap, rg__key key, const char *text)
{
    const rg__kv kv = {.key = "(not on record)",
                       .value = text,
                       .value_bytes = text != NULL ? strlen(text) : 0,
                       .mod_revision = -1};
    if (key.kind == RG__KEY_HOST)
        drop_host(snap, key.name);
    const bool is_read = text != NULL && read_one(snap, &key, &kv);
    if (key.kind == RG__KEY_HOST)
        order_hosts(snap);
    return is_read;
}

bool rg__snapshot_add_ack(rg__snapshot *snap, rg__ack *ack)
{
    rg__ack *to = is_ack_of_other(snap, ack)
                      ? NULL
                      : rg__grow(&snap->ack, (size_t)snap->acks, sizeof *to);
    if (to == NULL) {
        rg__ack_free(ack);
        return false;
    }
    *to = *ack;
    snap->acks++;
    order_ack(snap);
    return true;
}

void rg__snapshot_free(rg__snapshot *snap)
{
    for (int i = 0; i < snap->hosts; i++)
        free(snap->host[i].slot);
    for (int i = 0; i < snap->gens; i++)
        rg__proposal_free(&snap->gen[i]);
    for (int i = 0; i < snap->lines; i++)
        rg__line_free(&snap->line[i]);
    for (int i = 0; i < snap->acks; i++)
        rg__ack_free(&snap->ack[i]);
    free(snap->host);
    free(snap->host_by_id);
    free(snap->ack_by_id);
    free(snap->gen);
    free(snap->reason);
    free(snap->ack);
    free(snap->line);
    free(snap->fin);
    free(snap->suspicion);
    free(snap->drain);
    free(snap->claim);
    free(snap->share);
    free(snap->mpirun.seat);
    *snap = (rg__snapshot){0};
}

bool rg__snapshot_is_other(const rg__snapshot *snap, const char *name,
                           uint64_t id)
{
    const rg__host_record *host = rg__snapshot_host(snap, id);
    if (host != NULL && strcmp(host->name, name) == 0 &&
        snap->hosts_ordered == snap->hosts)
        return false; /* a name has one record */
    for (int i = 0; i < snap->hosts; i++)
        if (strcmp(snap->host[i].name, name) == 0 && snap->host[i].id != id)
            return true;
    return false;
}

bool rg__snapshot_is_told_to_leave(const rg__snapshot *snap, const char *host)
{
    for (int i = 0; i < snap->drains; i++)
        if (strcmp(snap->drain[i].host, host) == 0 && snap->drain[i].code != 0)
            return true;
    return false;
}

const rg__host_record *rg__snapshot_host(const rg__snapshot *snap, uint64_t id)
{
    if (snap->hosts_ordered == snap->hosts) {
        const int at = place_of_host(snap, snap->hosts, id);
        const rg__host_record *host =
            at < snap->hosts ? &snap->host[snap->host_by_id[at]] : NULL;
        return host != NULL && host->id == id ? host : NULL;
    }
    for (int i = 0; i < snap->hosts; i++)
        if (snap->host[i].id == id)
            return &snap->host[i];
    return NULL;
}

const rg__proposal *rg__snapshot_gen(const rg__snapshot *snap,
                                     uint64_t generation)
{
    for (int i = 0; i < snap->gens; i++)
        if (snap->gen[i].generation == generation)
            return &snap->gen[i];
    return NULL;
}

const rg__ack *rg__snapshot_ack(const rg__snapshot *snap, uint64_t generation,
                                uint64_t host)
{
    if (snap->acks_ordered == snap->acks) {
        const int at = place_of_ack(snap, snap->acks, host, generation);
        const rg__ack *ack =
            at < snap->acks ? &snap->ack[snap->ack_by_id[at]] : NULL;
        return ack != NULL && order_of_acks(ack, host, generation) == 0 ? ack
                                                                        : NULL;
    }
    for (int i = 0; i < snap->acks; i++)
        if (snap->ack[i].generation == generation && snap->ack[i].id == host)
            return &snap->ack[i];
    return NULL;
}

const rg__claim *rg__snapshot_claim(const rg__snapshot *snap, uint64_t where)
{
    for (int i = 0; i < snap->claims; i++)
        if (snap->claim[i].where == where)
            return &snap->claim[i];
    return NULL;
}

const rg__line *rg__snapshot_line(const rg__snapshot *snap, uint64_t generation)
{
    for (int i = 0; i < snap->lines; i++)
        if (snap->line[i].generation == generation)
            return &snap->line[i];
    return NULL;
}

bool rg__snapshot_checkpoint(const rg__snapshot *snap, uint64_t hash,
                             rg__commit_id *commit_p)
{
    const bool is_published =
        snap->saved.serial != 0 && hash != 0 && snap->saved.hash == hash;
    if (is_published)
        *commit_p = snap->saved.commit;
    for (int i = 0; i < snap->claims && !is_published; i++)
        if (hash != 0 && snap->claim[i].hash == hash) {
            *commit_p = snap->claim[i].commit;
            return true;
        }
    return is_published;
}

const rg__proposal *rg__snapshot_decided(const rg__snapshot *snap)
{
    if (snap->lines == 0)
        return NULL;
    return rg__snapshot_gen(snap, snap->line[snap->lines - 1].generation);
}

static bool has_gone(const rg__snapshot *snap, uint64_t host)
{
    const rg__host_record *record = rg__snapshot_host(snap, host);
    return record != NULL && record->is_gone;
}

bool rg__snapshot_is_over(const rg__snapshot *snap)
{
    const rg__proposal *world = rg__snapshot_decided(snap);
    if (snap->end.is_set || snap->cur.phase == RG__GEN_DONE)
        return true;
    for (int i = 0; i < snap->hosts; i++)
        if (!snap->host[i].is_gone)
            return false;
    for (int i = 0; world != NULL && i < world->host_count; i++)
        if (!has_gone(snap, world->host[i].id))
            return false;
    return snap->hosts > 0;
}
