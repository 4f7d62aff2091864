/* A proposal of many members is written as what differs from an earlier one,
 * and is read back as it was; without its base it is left out.
 *
 * Covers: proposal.c */
#include "tests/member/job.h"

#define HOSTS 100 /* enough to be written that way */

static void fill(rg__proposal *p, uint64_t generation, int from, int n)
{
    *p = (rg__proposal){.generation = generation, .cause = "x", .op = "y"};
    p->member = calloc((size_t)n, sizeof *p->member);
    p->port = calloc((size_t)n, sizeof *p->port);
    p->host = calloc((size_t)n, sizeof *p->host);
    p->size = p->host_count = n;
    for (int i = 0; i < n; i++) {
        const uint64_t id = (uint64_t)(from + i + 1);
        p->member[i] = (rg__member_id){id, 0, 1};
        p->port[i] = (uint32_t)(1000 + i);
        snprintf(p->host[i].name, sizeof p->host[i].name, "h%d", from + i);
        snprintf(p->host[i].address.text, sizeof p->host[i].address.text,
                 "10.0.0.%d", i);
        p->host[i].id = id;
    }
}

/* Without rank 7 and the last two; rank 40 replaced in its slot; rank 50
 * with another port; one more. */
static void change(rg__proposal *p)
{
    const size_t behind = (size_t)(p->size - 8);
    memmove(&p->member[7], &p->member[8], behind * sizeof *p->member);
    memmove(&p->port[7], &p->port[8], behind * sizeof *p->port);
    memmove(&p->host[7], &p->host[8], behind * sizeof *p->host);
    p->size = p->host_count = p->size - 2;
    p->member[40].start = 2;
    p->port[40] = 7;
    p->port[50] = 8;
    const int last = p->size - 1;
    p->member[last].host = p->host[last].id = 4711;
    strcpy(p->host[last].name, "new");
}

static void are_equal(const rg__proposal *a, const rg__proposal *b)
{
    CHECK_EQ(a->size, b->size);
    CHECK_EQ(a->host_count, b->host_count);
    for (int i = 0; i < a->size; i++) {
        CHECK(rg__same_member(a->member[i], b->member[i]));
        CHECK_EQ(a->port[i], b->port[i]);
        CHECK_EQ(a->host[i].id, b->host[i].id);
        CHECK_EQ(a->host[i].port, b->host[i].port);
        CHECK_STR(a->host[i].name, b->host[i].name);
        CHECK_STR(a->host[i].address.text, b->host[i].address.text);
    }
}

static rg__kv kv(const char *key, const char *value)
{
    return (rg__kv){.key = key,
                    .value = value,
                    .value_bytes = strlen(value),
                    .create_revision = 7,
                    .mod_revision = 9};
}

static void a_difference_is_read_back(void)
{
    rg__proposal before, now;
    rg__snapshot s;
    fill(&before, 2, 0, HOSTS);
    fill(&now, 5, 0, HOSTS);
    change(&now);
    char *whole = rg__proposal_difference(&before, NULL),
         *all = rg__proposal_difference(&now, NULL);
    char *little = rg__proposal_difference(&now, &before);
    CHECK(strlen(little) < strlen(all) / 10);
    const rg__kv both[] = {kv("/j/all/gen/0000000000000002", whole),
                           kv("/j/all/gen/0000000000000005", little)};
    CHECK_OK(rg__snapshot_read(&s, "/j/", both, 2));
    CHECK_EQ(s.gens, 2);
    CHECK_EQ(s.gen[1].base, 2);
    are_equal(&s.gen[1], &now);
    CHECK_OK(rg__snapshot_update(&s, "/j/", both, 2)); /* nothing is parsed */
    are_equal(&s.gen[1], &now);
    rg__snapshot_free(&s);
    CHECK_OK(rg__snapshot_read(&s, "/j/", both + 1, 1));
    CHECK_EQ(s.gens, 0);
    rg__snapshot_free(&s);
    free(whole);
    free(all);
    free(little);
    rg__proposal_free(&before);
    rg__proposal_free(&now);
}

static void a_run_ends_with_its_base(void)
{
    static const char *const members[] = {"101", "-101", "100,1", "0", "1,-9"};
    rg__proposal before;
    fill(&before, 2, 0, HOSTS);
    char *whole = rg__proposal_difference(&before, NULL);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char text[200];
        rg__snapshot s;
        snprintf(text, sizeof text,
                 "{\"from\":2,\"base\":2,\"op\":\"y\",\"cause\":\"x\","
                 "\"members\":[%s],\"hosts\":[100]}",
                 members[i]);
        const rg__kv both[] = {kv("/j/all/gen/0000000000000002", whole),
                               kv("/j/all/gen/0000000000000003", text)};
        CHECK_OK(rg__snapshot_read(&s, "/j/", both, 2));
        CHECK_EQ(s.gens, 1);
        rg__snapshot_free(&s);
    }
    free(whole);
    rg__proposal_free(&before);
}

/* A base is written out itself and not too old; what is small or mostly new
 * has none. */
static void a_base_makes_it_shorter(void)
{
    rg__snapshot s = {0};
    rg__line line = {.generation = 2};
    rg__proposal gen[2], now;
    fill(&gen[0], 2, 0, HOSTS);
    fill(&gen[1], 5, 0, HOSTS);
    gen[1].base = 2;
    s.gen = gen;
    s.gens = 2;
    s.line = &line;
    s.lines = 1;
    fill(&now, 6, 0, HOSTS);
    CHECK(rg__proposal_base(&s, &now) == &gen[0]);
    line.generation = 5;
    CHECK(rg__proposal_base(&s, &now) == &gen[0]);
    now.generation = 100;
    CHECK(rg__proposal_base(&s, &now) == NULL);
    rg__proposal_free(&now);
    fill(&now, 6, HOSTS / 2, HOSTS);
    CHECK(rg__proposal_base(&s, &now) == NULL);
    rg__proposal_free(&now);
    fill(&now, 6, 0, 8);
    CHECK(rg__proposal_base(&s, &now) == NULL);
    rg__proposal_free(&now);
    rg__proposal_free(&gen[0]);
    rg__proposal_free(&gen[1]);
}

int main(void)
{
    a_difference_is_read_back();
    a_run_ends_with_its_base();
    a_base_makes_it_shorter();
    return 0;
}
