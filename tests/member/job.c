#include "tests/member/job.h"

#include "elastic/member/links.h"

static void *grow(void *array, int n, size_t item)
{
    char *more = realloc(array, item * (size_t)(n + 1));
    CHECK(more != NULL);
    memset(more + item * (size_t)n, 0, item);
    return more;
}

void job_begin(job *j, int min, int max)
{
    *j = (job){.config = {.min = min,
                          .max = max,
                          .start_timeout_ns = 30 * SECOND,
                          .elastic_timeout_ns = 600 * SECOND,
                          .last_call_ns = SECOND / 50,
                          .ack_timeout_ns = 20 * SECOND,
                          .newcomer_timeout_ns = 2 * SECOND},
               .now_ns = 1000 * SECOND};
    j->snap.meta.create_revision = 1;
}

void job_end(job *j)
{
    rg__plan_free(&j->plan);
    rg__plan_clock_reset(&j->clock);
    rg__snapshot_free(&j->snap);
}

void job_of_three(job *j)
{
    job_begin(j, 1, 3);
    job_host(j, "a", 1, 1);
    job_host(j, "b", 2, 1);
    job_host(j, "c", 3, 1);
}

rg__host_record *job_host(job *j, const char *name, uint64_t id, int slots)
{
    rg__snapshot *s = &j->snap;
    s->host = grow(s->host, s->hosts, sizeof *s->host);
    rg__host_record *h = &s->host[s->hosts++];
    snprintf(h->name, sizeof h->name, "%s", name);
    h->id = id;
    h->slots = h->open = slots;
    h->elastic = 1;
    h->slot = calloc((size_t)slots, sizeof *h->slot);
    h->slot_count = slots;
    for (int i = 0; i < slots; i++)
        h->slot[i] = (rg__slot_record){.slot = (uint32_t)i,
                                       .start = 1,
                                       .pid = 100 + i,
                                       .is_alive = true,
                                       .is_at_door = true};
    return h;
}

rg__slot_record *job_slot(job *j, uint64_t host, uint32_t slot)
{
    for (int i = 0; i < j->snap.hosts; i++)
        if (j->snap.host[i].id == host)
            return &j->snap.host[i].slot[slot];
    CHECK_FAIL("no host %llu", (unsigned long long)host);
}

static rg__proposal *add_gen(job *j, uint64_t g, const rg__member_id *member,
                             int n)
{
    rg__snapshot *s = &j->snap;
    s->gen = grow(s->gen, s->gens, sizeof *s->gen);
    rg__proposal *p = &s->gen[s->gens++];
    p->generation = g;
    p->size = n;
    p->member = calloc((size_t)n, sizeof *p->member);
    p->port = calloc((size_t)n, sizeof *p->port);
    memcpy(p->member, member, sizeof *member * (size_t)n);
    for (int i = 0; i < s->hosts; i++)
        for (int k = 0; k < n; k++) {
            if (member[k].host != s->host[i].id)
                continue;
            p->host = grow(p->host, p->host_count, sizeof *p->host);
            snprintf(p->host[p->host_count].name, RG__NAME_MAX, "%s",
                     s->host[i].name);
            p->host[p->host_count++].id = s->host[i].id;
            break;
        }
    if (s->lines > 0)
        p->from = s->line[s->lines - 1].generation;
    return p;
}

void job_decided(job *j, uint64_t g, const rg__member_id *member, int n,
                 rg__commit_id resume)
{
    rg__snapshot *s = &j->snap;
    const rg__proposal *p = add_gen(j, g, member, n);
    s->line = grow(s->line, s->lines, sizeof *s->line);
    s->line[s->lines++] = (rg__line){
        .generation = g, .prev = p->from, .resume = resume, .to_size = n};
    s->cur = (rg__cur){.generation = g, .phase = RG__GEN_DECIDED};
}

void job_proposed(job *j, uint64_t g, const rg__member_id *member, int n,
                  bool is_announced)
{
    add_gen(j, g, member, n)->is_announced = is_announced;
    j->snap.cur = (rg__cur){.generation = g, .phase = RG__GEN_PROPOSED};
}

void job_reason(job *j, uint64_t g, bool is_death, const char *text)
{
    rg__snapshot *s = &j->snap;
    s->reason = grow(s->reason, s->reasons, sizeof *s->reason);
    rg__reason *r = &s->reason[s->reasons++];
    r->generation = g;
    r->is_death = is_death;
    snprintf(r->text, sizeof r->text, "%s", text);
}

/* Of the incarnation that has a record, else of that in a world. */
static uint64_t id_of(const rg__snapshot *s, const char *host)
{
    for (int i = 0; i < s->hosts; i++)
        if (strcmp(s->host[i].name, host) == 0)
            return s->host[i].id;
    for (int g = 0; g < s->gens; g++)
        for (int i = 0; i < s->gen[g].host_count; i++)
            if (strcmp(s->gen[g].host[i].name, host) == 0)
                return s->gen[g].host[i].id;
    CHECK_FAIL("no host %s", host);
}

void job_ack(job *j, uint64_t g, const char *host, const rg__commit_id *held,
             int n)
{
    rg__snapshot *s = &j->snap;
    s->ack = grow(s->ack, s->acks, sizeof *s->ack);
    rg__ack *a = &s->ack[s->acks++];
    a->generation = g;
    a->id = id_of(s, host);
    a->count = n;
    for (int i = 0; i < n; i++)
        a->held[i] = (rg__held){.id = held[i], .is_whole = true};
}

void job_shards(job *j, uint32_t of, const uint32_t *here, int n)
{
    rg__held *held = &j->snap.ack[j->snap.acks - 1].held[0];
    held->shards = of;
    for (int i = 0; i < n; i++)
        CHECK(rg__shards_add(&held->here, here[i]));
}

void job_lose_record(job *j, uint64_t host)
{
    rg__snapshot *s = &j->snap;
    for (int i = 0; i < s->hosts; i++)
        if (s->host[i].id == host) {
            free(s->host[i].slot);
            s->host[i] = s->host[--s->hosts];
            return;
        }
    CHECK_FAIL("no host %llu", (unsigned long long)host);
}

void job_fin(job *j, uint64_t g, const char *host)
{
    rg__snapshot *s = &j->snap;
    s->fin = grow(s->fin, s->fins, sizeof *s->fin);
    s->fin[s->fins].generation = g;
    snprintf(s->fin[s->fins++].host, RG__NAME_MAX, "%s", host);
}

void job_suspects(job *j, uint64_t by, uint64_t host)
{
    rg__snapshot *s = &j->snap;
    s->suspicion = grow(s->suspicion, s->suspicions, sizeof *s->suspicion);
    s->suspicion[s->suspicions++] = (rg__suspicion){.host = host, .by = by};
}

int job_lost(const job *j, uint64_t *lost, int room)
{
    uint64_t again;
    return rg__links_lost(&j->snap, UINT64_MAX, 1, lost, room, &again);
}

void job_link(job *j, uint64_t g, const char *by, const char *link)
{
    job_reason(j, g, false, "a connection broke");
    rg__reason *r = &j->snap.reason[j->snap.reasons - 1];
    snprintf(r->by, sizeof r->by, "%s", by);
    snprintf(r->link, sizeof r->link, "%s", link);
}

rg__plan_kind job_look(job *j)
{
    rg__plan_free(&j->plan);
    CHECK_OK(
        rg__plan_make(&j->snap, &j->config, j->now_ns, &j->clock, &j->plan));
    return j->plan.kind;
}
