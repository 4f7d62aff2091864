/* Proposals to JSON and back.
 *
 * With hundreds of members a proposal has tens of KB, and every agent reads it.
 * So a large one tells how it differs from an earlier one, its base: in the
 * lists of members and hosts n stands for the next n of the base's, and -n
 * leaves out as many. */
#include "elastic/member/records_parts.h"

#include <stdlib.h>
#include <string.h>

#define BASE_LEAST 32 /* members; fewer are written out */
#define BASE_MOST  64 /* generations back, which are kept as long */

static json_t *member_json(const rg__proposal *p, int i)
{
    return json_pack("[o,i,i,i]", rg__hex_json(p->member[i].host),
                     (int)p->member[i].slot, (int)p->member[i].start,
                     (int)p->port[i]);
}

static json_t *host_json(const rg__proposal *p, int i)
{
    return json_pack("[s,o,s,i]", p->host[i].name, rg__hex_json(p->host[i].id),
                     p->host[i].address.text, (int)p->host[i].port);
}

static bool is_member_of(const rg__proposal *p, int i, const rg__proposal *base,
                         int k)
{
    return rg__same_member(p->member[i], base->member[k]) &&
           p->port[i] == base->port[k];
}

static bool is_host_of(const rg__proposal *p, int i, const rg__proposal *base,
                       int k)
{
    const rg__proposal_host *one = &p->host[i], *other = &base->host[k];
    return one->id == other->id && one->port == other->port &&
           strcmp(one->name, other->name) == 0 &&
           strcmp(one->address.text, other->address.text) == 0;
}

/* A list of a proposal: its members, or its hosts. */
typedef struct listing {
    json_t *(*json)(const rg__proposal *p, int i);
    bool (*is_same)(const rg__proposal *p, int i, const rg__proposal *base,
                    int k);
    bool (*read)(const json_t *j, rg__proposal *p);
    void (*copy)(rg__proposal *p, const rg__proposal *base, int k);
} listing;

static const listing member_list, host_list;

/* Where the i-th stands in the base, from at on; n: nowhere. */
static int find_in(const listing *list, const rg__proposal *p, int i,
                   const rg__proposal *base, int at, int n)
{
    while (at < n && !list->is_same(p, i, base, at))
        at++;
    return at;
}

static void add_run(json_t *all, int n)
{
    if (n != 0)
        json_array_append_new(all, json_integer(n));
}

static json_t *list_json(const listing *list, const rg__proposal *p, int n,
                         const rg__proposal *base, int base_n)
{
    json_t *all = json_array();
    int at = 0, kept = 0;
    for (int i = 0; i < n; i++) {
        const int k = find_in(list, p, i, base, at, base_n);
        if (k != at || k == base_n) {
            add_run(all, kept);
            kept = 0;
        }
        if (k == base_n) {
            json_array_append_new(all, list->json(p, i));
            continue;
        }
        add_run(all, at - k);
        at = k + 1;
        kept++;
    }
    add_run(all, kept);
    return all;
}

char *rg__proposal_difference(const rg__proposal *p, const rg__proposal *base)
{
    const int members = base != NULL ? base->size : 0;
    const int hosts = base != NULL ? base->host_count : 0;
    json_t *j = json_pack(
        "{s:I,s:I,s:I,s:s,s:s,s:s,s:b,s:b,s:I,s:o,s:o}", "from",
        (json_int_t)p->from, "leader", (json_int_t)p->token, "cur",
        (json_int_t)p->cur, "op", p->op, "cause", p->cause, "kind",
        rg__cause_kind_name(p->kind), "announced", p->is_announced, "awaited",
        p->is_awaited, "launch", (json_int_t)p->launch, "members",
        list_json(&member_list, p, p->size, base, members), "hosts",
        list_json(&host_list, p, p->host_count, base, hosts));
    if (j != NULL && base != NULL)
        json_object_set_new(j, "base",
                            json_integer((json_int_t)base->generation));
    return rg__json_text(j);
}

/* A base is written out in full, so a reader needs no third proposal. */
const rg__proposal *rg__proposal_base(const rg__snapshot *snap,
                                      const rg__proposal *p)
{
    const rg__proposal *base = rg__snapshot_decided(snap);
    if (base != NULL && base->base != 0)
        base = rg__snapshot_gen(snap, base->base);
    if (base == NULL || base->base != 0 || p->size < BASE_LEAST ||
        p->generation - base->generation > BASE_MOST)
        return NULL;
    int at = 0, news = 0;
    for (int i = 0; i < p->size; i++) {
        const int k = find_in(&member_list, p, i, base, at, base->size);
        news += k == base->size;
        at = k == base->size ? at : k + 1;
    }
    return news <= p->size / 4 ? base : NULL;
}

/* Read n or -n: a run of the base's list from *at on; false: it has fewer. */
static bool read_run(const json_t *j, int base_n, int *at, int *kept_p)
{
    const json_int_t n = json_integer_value(j);
    const int left = base_n - *at;
    if (n == 0 || n > left || n < -left)
        return false;
    *kept_p = n > 0 ? (int)n : 0;
    *at += (int)(n > 0 ? n : -n);
    return true;
}

static bool read_member(const json_t *j, rg__proposal *p)
{
    rg__member_id *id = &p->member[p->size];
    const json_int_t port = json_integer_value(json_array_get(j, 3));
    const json_int_t slot = json_integer_value(json_array_get(j, 1));
    if (!rg__id_read(json_array_get(j, 0), &id->host) || !rg__is_port(port) ||
        slot < 0 || slot >= RG__HOST_SLOTS_MAX)
        return false;
    p->port[p->size] = (uint32_t)port;
    id->slot = (uint32_t)slot;
    id->start = (uint32_t)json_integer_value(json_array_get(j, 2));
    p->size++;
    return true;
}

static void copy_member(rg__proposal *p, const rg__proposal *base, int k)
{
    p->member[p->size] = base->member[k];
    p->port[p->size++] = base->port[k];
}

static bool read_proposal_host(const json_t *j, rg__proposal *p)
{
    rg__proposal_host *host = &p->host[p->host_count];
    if (!rg__name_read(host->name, sizeof host->name, json_array_get(j, 0)) ||
        !rg__id_read(json_array_get(j, 1), &host->id) ||
        !rg__place_read(json_array_get(j, 2), json_array_get(j, 3),
                        &host->address, &host->port))
        return false;
    p->host_count++;
    return true;
}

static void copy_host(rg__proposal *p, const rg__proposal *base, int k)
{
    p->host[p->host_count++] = base->host[k];
}

static const listing member_list = {member_json, is_member_of, read_member,
                                    copy_member},
                     host_list = {host_json, is_host_of, read_proposal_host,
                                  copy_host};

/* The base's has base_n of them. */
static bool read_list(const listing *list, const json_t *j,
                      const rg__proposal *base, int base_n, rg__proposal *p)
{
    const size_t n = json_array_size(j);
    for (size_t i = 0, at = 0; i < n; i++) {
        const json_t *one = json_array_get(j, i);
        int end = (int)at, kept = 0;
        if (!(json_is_integer(one) ? read_run(one, base_n, &end, &kept)
                                   : list->read(one, p)))
            return false;
        for (int k = 0; k < kept; k++)
            list->copy(p, base, (int)at + k);
        at = (size_t)end;
    }
    return true;
}

static bool read_members(const json_t *j, const rg__proposal *base,
                         rg__proposal *p)
{
    const int base_n = base != NULL ? base->size : 0;
    const size_t most = json_array_size(j) + (size_t)base_n + 1;
    p->member = calloc(most, sizeof *p->member);
    p->port = calloc(most, sizeof *p->port);
    return p->member != NULL && p->port != NULL &&
           read_list(&member_list, j, base, base_n, p) && p->size > 0;
}

static bool read_hosts(const json_t *j, const rg__proposal *base,
                       rg__proposal *p)
{
    const int base_n = base != NULL ? base->host_count : 0;
    p->host = calloc(json_array_size(j) + (size_t)base_n + 1, sizeof *p->host);
    return p->host != NULL && read_list(&host_list, j, base, base_n, p) &&
           p->host_count > 0;
}

_Static_assert(RG__HOST_SLOTS_MAX <= 64, "a bit for each slot");

/* Every member is alone in its slot on one of the hosts; each host has one. */
static bool fits_together(const rg__proposal *p)
{
    uint64_t *taken = calloc((size_t)p->host_count, sizeof *taken);
    bool ok = taken != NULL;
    for (int i = 0, at = 0; i < p->size && ok; i++) {
        int looked = 0; /* members of one host mostly stand together */
        while (looked < p->host_count && p->host[at].id != p->member[i].host) {
            at = (at + 1) % p->host_count;
            looked++;
        }
        const uint64_t slot = UINT64_C(1) << p->member[i].slot;
        ok = looked < p->host_count && (taken[at] & slot) == 0;
        taken[at] |= slot;
    }
    for (int i = 0; i < p->host_count && ok; i++)
        ok = taken[i] != 0;
    free(taken);
    return ok;
}

bool rg__proposal_read(const json_t *j, const rg__snapshot *snap,
                       rg__proposal *p)
{
    const rg__proposal *base = NULL;
    p->from = (uint64_t)json_integer_value(json_object_get(j, "from"));
    p->base = (uint64_t)json_integer_value(json_object_get(j, "base"));
    p->token = json_integer_value(json_object_get(j, "leader"));
    p->cur = json_integer_value(json_object_get(j, "cur"));
    p->is_announced = json_is_true(json_object_get(j, "announced"));
    p->is_awaited = json_is_true(json_object_get(j, "awaited"));
    p->launch = (uint64_t)json_integer_value(json_object_get(j, "launch"));
    p->kind = rg__kind_read(j);
    if (p->base != 0) {
        base = rg__snapshot_gen(snap, p->base);
        if (base == NULL)
            return false;
    }
    return rg__text_field(j, "op", p->op, sizeof p->op) &&
           rg__text_field(j, "cause", p->cause, sizeof p->cause) &&
           read_members(json_object_get(j, "members"), base, p) &&
           read_hosts(json_object_get(j, "hosts"), base, p) && fits_together(p);
}

bool rg__proposal_parse(const char *text, size_t bytes,
                        const rg__snapshot *snap, rg__proposal *p)
{
    json_error_t error;
    json_t *j = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    *p = (rg__proposal){0};
    const bool is_right = j != NULL && rg__proposal_read(j, snap, p);
    if (!is_right)
        rg__proposal_free(p);
    json_decref(j);
    return is_right;
}

void rg__proposal_free(rg__proposal *p)
{
    free(p->member);
    free(p->port);
    free(p->host);
    p->member = NULL;
    p->port = NULL;
    p->host = NULL;
}

int rg__proposal_rank(const rg__proposal *p, rg__member_id id)
{
    for (int r = 0; p != NULL && r < p->size; r++)
        if (rg__same_member(p->member[r], id))
            return r;
    return -1;
}

int rg__proposal_host_index(const rg__proposal *p, uint64_t host)
{
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (p->host[i].id == host)
            return i;
    return -1;
}
