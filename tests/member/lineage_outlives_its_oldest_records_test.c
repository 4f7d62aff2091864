/* Of the decisions of a job only the newest are kept, and a few ancestors. It
 * is still known exactly, for every commit that the newest generations may
 * resume from, whether it is on the lineage. The oracle is
 * the rule over all decisions: made in a decided generation, and not later than
 * what any generation after that one resumed from.
 *
 * Covers: resume.c */
#include "tests/member/job.h"

#include "elastic/member/resume.h"

#define DECISIONS 1500 /* many times what is kept */
#define STEPS     4    /* that a generation commits, at the most */

typedef struct life {
    rg__snapshot all, kept;
    uint64_t seed, steps_lost;
    rg__commit_id newest; /* committed last */
} life;

static uint64_t draw(life *l, uint64_t below)
{
    l->seed = l->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (l->seed >> 33) % below;
}

static void add_line(rg__snapshot *s, const rg__line *line)
{
    rg__line *more = realloc(s->line, sizeof *more * (size_t)(s->lines + 1));
    CHECK(more != NULL);
    s->line = more;
    more[s->lines++] = *line;
}

static bool is_on(const rg__snapshot *all, rg__commit_id id)
{
    bool is_decided = false;
    for (int i = 0; i < all->lines; i++) {
        const rg__line *line = &all->line[i];
        is_decided = is_decided || line->generation == id.generation;
        if (line->generation > id.generation &&
            rg__resume_is_later(id, line->resume))
            return false;
    }
    return is_decided;
}

static void drop_lines(rg__snapshot *s)
{
    bool is_needed[2 * RG__LINES_KEPT];
    int n = 0;
    CHECK(s->lines <= RG__LINES_KEPT + RG__VAULT_SLOTS);
    for (int i = 0; i < s->lines; i++)
        is_needed[i] = rg__resume_needs_line(s, &s->line[i]);
    for (int i = 0; i < s->lines; i++)
        if (is_needed[i])
            s->line[n++] = s->line[i];
    s->lines = n;
}

/* The newest, one step less, or that of an ancestor a few generations back. */
static rg__commit_id draw_resume(life *l)
{
    rg__commit_id id = l->newest;
    if (draw(l, 10) == 0 && id.step > 1)
        id.step--;
    for (uint64_t n = draw(l, 200) == 0 ? draw(l, 4) : 0; n > 0; n--)
        for (int i = l->all.lines - 1; i >= 0; i--)
            if (l->all.line[i].generation == id.generation &&
                l->all.line[i].resume.generation != 0)
                id = l->all.line[i].resume;
    return is_on(&l->all, id) ? id : l->newest;
}

/* is_idle: workers die before they commit, again and again. */
static void decide(life *l, uint64_t generation, bool is_idle)
{
    const uint64_t before =
        l->all.lines > 0 ? l->all.line[l->all.lines - 1].generation : 0;
    rg__line line = {.generation = generation,
                     .prev = before,
                     .resume = draw_resume(l),
                     .steps_lost = (int64_t)draw(l, 3),
                     .kind = (rg__cause_kind)draw(l, RG__KINDS)};
    l->steps_lost += (uint64_t)line.steps_lost;
    rg__line_count(&line, &l->kept);
    drop_lines(&l->kept);
    add_line(&l->kept, &line);
    add_line(&l->all, &line);
    l->newest = line.resume;
    if (!is_idle)
        l->newest =
            (rg__commit_id){generation, line.resume.step + 1 + draw(l, STEPS)};
}

/* Of generations back to the third ancestor before the newest 64. */
static uint64_t first_exact(const life *l)
{
    const int first = l->all.lines - RG__LINES_KEPT;
    if (first < 0)
        return 1;
    uint64_t g = l->all.line[first].resume.generation;
    for (int n = 1; n < RG__VAULT_SLOTS; n++)
        for (int i = first - 1; i >= 0 && g != 0; i--)
            if (l->all.line[i].generation == g) {
                g = l->all.line[i].resume.generation;
                break;
            }
    return g;
}

static void check_commit(const life *l, rg__commit_id id, uint64_t exact)
{
    const bool is_right = is_on(&l->all, id);
    const bool says = rg__resume_is_on_lineage(&l->kept, id);
    CHECK(says == is_right || (is_right && id.generation < exact));
}

static void check_all(const life *l, uint64_t generation)
{
    const uint64_t exact = first_exact(l);
    const uint64_t back = exact > 100 ? exact - 100 : 1;
    const uint64_t most = l->newest.step;
    for (uint64_t g = back; g <= generation + 1; g++)
        for (uint64_t step = most > 400 ? most - 400 : 1; step <= most + 2;
             step++)
            check_commit(l, (rg__commit_id){g, step}, exact);
    CHECK(!rg__resume_is_on_lineage(&l->kept, (rg__commit_id){0, 0}));
}

static void check_total(const life *l)
{
    const rg__total total = rg__snapshot_total(&l->kept);
    CHECK_EQ(total.steps_lost, l->steps_lost);
    CHECK_EQ(rg__total_changes(&total), (uint64_t)l->all.lines);
}

/* One that is looked at now and then is judged however old it gets; not one of
 * which a decision was missed. */
static void follow(life *l, rg__commit_id *id, uint64_t *since)
{
    const bool is_right = is_on(&l->all, *id);
    CHECK_EQ(rg__resume_stays_on_lineage(&l->kept, *id, *since), is_right);
    if (l->all.lines > 2 * RG__LINES_KEPT)
        CHECK(!rg__resume_stays_on_lineage(&l->kept, *id, 1));
    *since = l->all.line[l->all.lines - 1].generation;
    if (!is_right)
        *id = l->newest;
}

static void live(uint64_t seed, uint64_t idle_of_ten)
{
    life l = {.seed = seed};
    rg__commit_id followed = {0, 0};
    uint64_t since = 0, g = 0;
    for (int i = 0; i < DECISIONS; i++) {
        g += draw(&l, 8) == 0 ? 2 : 1; /* one that was never decided */
        decide(&l, g, i > 0 && draw(&l, 10) < idle_of_ten);
        if (i == 0) {
            followed = l.newest;
            since = g;
        }
        if (i % 500 == 499 || i == 1)
            check_all(&l, g);
        if (i % 50 == 49)
            follow(&l, &followed, &since);
    }
    check_total(&l);
    free(l.all.line);
    free(l.kept.line);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        live(seed, 1);
        live(seed, 10); /* after the first none commits anything more */
        live(seed, 9);
    }
    return 0;
}
