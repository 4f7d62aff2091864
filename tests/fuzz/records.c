/* A job's keys, read into a snapshot, and what a leader makes of them.
 *
 * The first line has numbers: --min, --max, a mask of the hosts that are lost
 * and one of those without etcd. Each line behind it is a key below the job's
 * prefix, a `=`, and its value; its number is the key's revision. What stands
 * as lead/ack/<generation> is no key: a leader has heard it. */
#include <string.h>

#include "elastic/member/links.h"
#include "elastic/member/plan.h"
#include "tests/fuzz/fuzz.h"

#define PREFIX    "/regroup/v1/j/"
#define KEYS_MAX  256
#define HOSTS_MAX 16
#define SECOND    UINT64_C(1000000000)
#define LOOKS     3

typedef struct keys {
    rg__kv kv[KEYS_MAX];
    size_t n;
} keys;

typedef struct job {
    rg__snapshot snap;
    rg__plan_config config;
    rg__plan_clock clock;
    uint64_t lost[HOSTS_MAX], no_etcd[HOSTS_MAX];
} job;

/* -------------------------------------------------------------------- keys */

/* key and value lie in one block, which kv->key owns. */
static void add_key(keys *all, const char *name, const char *value)
{
    const size_t key_bytes = strlen(PREFIX) + strlen(name) + 1;
    const size_t value_bytes = strlen(value);
    char *room = malloc(key_bytes + value_bytes + 1);
    FUZZ_CLAIM(room != NULL);
    snprintf(room, key_bytes, "%s%s", PREFIX, name);
    memcpy(room + key_bytes, value, value_bytes + 1);
    const int64_t revision = (int64_t)all->n + 1;
    all->kv[all->n++] = (rg__kv){.key = room,
                                 .value = room + key_bytes,
                                 .value_bytes = value_bytes,
                                 .create_revision = revision,
                                 .mod_revision = revision,
                                 .version = 1};
}

static void add_text(keys *all, char *key, char *text)
{
    FUZZ_CLAIM(key != NULL && text != NULL); /* what was read can be written */
    FUZZ_CLAIM(strncmp(key, PREFIX, strlen(PREFIX)) == 0);
    if (all->n < KEYS_MAX)
        add_key(all, key + strlen(PREFIX), text);
    free(key);
    free(text);
}

static void read_keys(fuzz_input *in, keys *all)
{
    while (in->left > 0 && all->n < KEYS_MAX) {
        char *line = fuzz_line(in);
        char *eq = strchr(line, '=');
        if (eq != NULL) {
            *eq = '\0';
            add_key(all, line, eq + 1);
        }
        free(line);
    }
}

static void free_keys(keys *all)
{
    for (size_t i = 0; i < all->n; i++)
        free((char *)(uintptr_t)all->kv[i].key);
}

/* --------------------------------------------------------- there and back */

#define KEY(kind, ...) rg__record_key(PREFIX, RG__KEY(kind, __VA_ARGS__))

static void write_of_generations(const rg__snapshot *s, keys *all)
{
    for (int i = 0; i < s->gens; i++)
        add_text(all, KEY(GEN, s->gen[i].generation),
                 rg__proposal_difference(&s->gen[i], NULL));
    for (int i = 0; i < s->lines; i++)
        add_text(all, KEY(LINE, s->line[i].generation),
                 rg__line_text(&s->line[i]));
    for (int i = 0; i < s->reasons; i++)
        add_text(all, KEY(REASON, s->reason[i].generation, s->reason[i].member),
                 rg__reason_text(&s->reason[i]));
    for (int i = 0; i < s->fins; i++)
        add_text(all, KEY(FIN, s->fin[i].generation, s->fin[i].host),
                 strdup("{}"));
}

static void write_hosts(const rg__snapshot *s, keys *all)
{
    for (int i = 0; i < s->hosts; i++)
        add_text(all, KEY(HOST, 0, s->host[i].name),
                 rg__host_text(&s->host[i]));
    for (int i = 0; i < s->suspicions; i++)
        add_text(all,
                 KEY(SUSPICION, s->suspicion[i].host, NULL, s->suspicion[i].by),
                 strdup("{}"));
    for (int i = 0; i < s->drains; i++)
        add_text(all, KEY(DRAIN, 0, s->drain[i].host),
                 rg__drain_text(&s->drain[i]));
}

static void write_single(const rg__snapshot *s, keys *all)
{
    if (s->meta.create_revision != 0)
        add_text(all, KEY(META), rg__meta_text(&s->meta));
    if (s->cur.generation != 0)
        add_text(all, KEY(CUR), rg__cur_text(&s->cur));
    if (s->leader != 0)
        add_text(all, KEY(LEADER), rg__leader_text(&s->leader_host));
    if (s->end.is_set)
        add_text(all, KEY(END), rg__end_text(&s->end));
}

static void write_checkpoints(const rg__snapshot *s, keys *all)
{
    for (int i = 0; i < s->claims; i++)
        add_text(all, KEY(CLAIM, s->claim[i].where),
                 rg__claim_text(&s->claim[i]));
    for (int i = 0; i < s->shares; i++)
        add_text(all, KEY(SHARE, 0, s->share[i].host),
                 rg__share_text(&s->share[i]));
    if (s->saved.mod_revision != 0)
        add_text(all, KEY(CHECKPOINT), rg__saved_text(&s->saved));
    if (s->order.serial != 0)
        add_text(all, KEY(ORDER), rg__order_text(&s->order));
}

static void check_ack(const rg__ack *ack)
{
    rg__ack back;
    char *text = rg__ack_text(ack);
    FUZZ_CLAIM(text != NULL && rg__ack_parse(text, strlen(text), &back));
    FUZZ_CLAIM(back.id == ack->id && back.count == ack->count);
    rg__ack_free(&back);
    free(text);
}

static void check_checkpoints(const rg__snapshot *s, const rg__snapshot *back)
{
    FUZZ_CLAIM(back->claims == s->claims && back->shares == s->shares &&
               back->saved.serial == s->saved.serial &&
               back->order.serial == s->order.serial &&
               strcmp(back->order.op, s->order.op) == 0);
}

/* A snapshot of what our own writers make of a snapshot has the same in it. */
static void there_and_back(const rg__snapshot *s)
{
    keys *all = calloc(1, sizeof *all);
    rg__snapshot back;
    FUZZ_CLAIM(all != NULL);
    write_single(s, all);
    write_hosts(s, all);
    write_of_generations(s, all);
    write_checkpoints(s, all);
    FUZZ_CLAIM(rg__snapshot_read(&back, PREFIX, all->kv, all->n) == RG_OK);
    FUZZ_CLAIM(back.hosts == s->hosts && back.gens == s->gens &&
               back.lines == s->lines && back.reasons == s->reasons &&
               back.fins == s->fins && back.suspicions == s->suspicions &&
               back.drains == s->drains);
    FUZZ_CLAIM(
        back.leader == s->leader && back.cur.generation == s->cur.generation &&
        back.cur.phase == s->cur.phase && back.end.is_set == s->end.is_set);
    check_checkpoints(s, &back);
    for (int i = 0; i < s->acks; i++)
        check_ack(&s->ack[i]);
    rg__snapshot_free(&back);
    free_keys(all);
    free(all);
}

/* ------------------------------------------------------------------- plans */

static void check_proposal(const job *j, const rg__proposal *p)
{
    FUZZ_CLAIM(p->generation == j->snap.cur.generation + 1);
    FUZZ_CLAIM(p->size > 0 && p->size <= j->config.max);
    for (int r = 0; r < p->size; r++) {
        int hosts = 0;
        for (int i = 0; i < p->host_count; i++)
            hosts += p->host[i].id == p->member[r].host;
        FUZZ_CLAIM(hosts == 1);
        for (int k = 0; k < r; k++)
            FUZZ_CLAIM(p->member[k].host != p->member[r].host ||
                       p->member[k].slot != p->member[r].slot);
    }
    for (int i = 0; i < j->config.losts; i++)
        for (int r = 0; r < p->size; r++)
            FUZZ_CLAIM(p->member[r].host != j->config.lost[i]);
}

static void check_line(const job *j, const rg__line *line)
{
    FUZZ_CLAIM(line->generation == j->snap.cur.generation);
    FUZZ_CLAIM((line->resume.generation == 0) == (line->source == 0));
    for (int i = 0; i < line->copies; i++)
        FUZZ_CLAIM(line->copy[i].to != 0 || line->copy[i].from != 0 ||
                   j->snap.hosts > 0);
}

/* What the leader would write can be written and read again. */
static void check_plan(const job *j, const rg__plan *plan)
{
    keys *all = calloc(1, sizeof *all);
    rg__snapshot back;
    FUZZ_CLAIM(all != NULL);
    if (plan->kind == RG__PLAN_PROPOSE) {
        check_proposal(j, &plan->proposal);
        add_text(all, KEY(GEN, plan->proposal.generation),
                 rg__proposal_difference(&plan->proposal, NULL));
    } else if (plan->kind == RG__PLAN_DECIDE) {
        check_line(j, &plan->line);
        add_text(all, KEY(LINE, plan->line.generation),
                 rg__line_text(&plan->line));
    }
    rg__snapshot_read(&back, PREFIX, all->kv, all->n);
    FUZZ_CLAIM(back.gens + back.lines == (int)all->n);
    rg__snapshot_free(&back);
    free_keys(all);
    free(all);
}

static int choose_hosts(const rg__snapshot *s, unsigned long mask,
                        uint64_t id[HOSTS_MAX])
{
    int n = 0;
    for (int i = 0; i < s->hosts && i < HOSTS_MAX; i++)
        if (mask >> i & 1)
            id[n++] = s->host[i].id;
    return n;
}

static void configure(job *j, const char *line)
{
    char *at = (char *)(uintptr_t)line;
    unsigned long number[4];
    for (int i = 0; i < 4; i++)
        number[i] = strtoul(at, &at, 10);
    j->config = (rg__plan_config){
        .min = 1 + (int)(number[0] % 8),
        .max = 1 + (int)(number[1] % 64),
        .start_timeout_ns = SECOND,
        .elastic_timeout_ns = 2 * SECOND,
        .last_call_ns = SECOND / 2,
        .ack_timeout_ns = SECOND,
        .newcomer_timeout_ns = SECOND / 2,
        .lost = j->lost,
        .losts = choose_hosts(&j->snap, number[2], j->lost),
        .no_etcd = j->no_etcd,
        .no_etcds = choose_hosts(&j->snap, number[3], j->no_etcd)};
}

/* The same keys, looked at again while time passes. */
static void look(job *j)
{
    uint64_t lost[HOSTS_MAX], again;
    const int n =
        rg__links_lost(&j->snap, UINT64_MAX, SECOND, lost, HOSTS_MAX, &again);
    FUZZ_CLAIM(n >= 0 && n <= HOSTS_MAX);
    for (uint64_t i = 0; i < LOOKS; i++) {
        rg__plan plan;
        if (rg__plan_make(&j->snap, &j->config, (i + 1) * SECOND, &j->clock,
                          &plan) != RG_OK)
            continue;
        check_plan(j, &plan);
        rg__plan_free(&plan);
    }
}

static void hear(rg__snapshot *s, const rg__kv *kv)
{
    static const char *const heard = PREFIX "lead/ack/";
    rg__ack ack;
    if (strncmp(kv->key, heard, strlen(heard)) != 0 ||
        !rg__ack_parse(kv->value, kv->value_bytes, &ack))
        return;
    ack.generation = strtoull(kv->key + strlen(heard), NULL, 16);
    if (rg__snapshot_ack(s, ack.generation, ack.id) == NULL)
        FUZZ_CLAIM(rg__snapshot_add_ack(s, &ack));
    else
        rg__ack_free(&ack);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    keys *all = calloc(1, sizeof *all);
    job j = {0};
    FUZZ_CLAIM(all != NULL);
    char *numbers = fuzz_line(&in);
    read_keys(&in, all);
    FUZZ_CLAIM(rg__snapshot_read(&j.snap, PREFIX, all->kv, all->n) == RG_OK);
    for (size_t i = 0; i < all->n; i++)
        hear(&j.snap, &all->kv[i]);
    configure(&j, numbers);
    look(&j);
    there_and_back(&j.snap);
    rg__snapshot_free(&j.snap);
    rg__plan_clock_reset(&j.clock);
    free_keys(all);
    free(all);
    free(numbers);
}
