/* Each pair of a state and an event has one answer in every machine, and the
 * drawing in the room's README is what the table prints.
 *
 * Covers: machine.c slot_machine.c life.c phase.c */
#include <stdlib.h>
#include <string.h>

#include "elastic/agent/base/life.h"
#include "elastic/agent/base/slot_machine.h"
#include "elastic/worker/worker.h"
#include "tests/check.h"

static const struct {
    const rg__machine *machine;
    const char *readme;
} machines[] = {{&rg__life_machine, "elastic/agent/README.md"},
                {&rg__slot_machine, "elastic/agent/README.md"},
                {&rg__phase_machine, "elastic/worker/README.md"}};

static void check_answer(const rg__machine *m, int state, int event)
{
    int n = 0;
    for (int i = 0; i < m->rows; i++)
        n += rg__row_answers(&m->row[i], state, event);
    if (n != 1)
        CHECK_FAIL("%s: %d rows answer %s in state %s", m->name, n,
                   m->event[event], m->state[state]);
}

static void check_answers(const rg__machine *m)
{
    for (int state = 0; state < m->states; state++)
        for (int event = 0; event < m->events; event++)
            check_answer(m, state, event);
}

/* Every state can be reached from the first one. */
static void check_reached(const rg__machine *m)
{
    uint32_t reached = 1, before = 0;
    while (before != reached) {
        before = reached;
        for (int i = 0; i < m->rows; i++)
            if ((m->row[i].from & reached) != 0 && m->row[i].to < m->states)
                reached |= 1u << m->row[i].to;
    }
    CHECK_EQ(reached, (1u << m->states) - 1);
}

static char *read_text(const char *name)
{
    static char text[200000];
    char path[4096];
    snprintf(path, sizeof path, SOURCE "/%s", name);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void draw_row(FILE *out, const rg__machine *m, const rg__transition *row)
{
    int n = fprintf(out, "   ");
    for (int i = 0, named = 0; i < m->states; i++)
        if ((row->from >> i & 1) != 0)
            n += fprintf(out, "%s%s", named++ > 0 ? ", " : "", m->state[i]);
    fprintf(out, "%*s ── %s ──> %s\n", n < 32 ? 32 - n : 0, "",
            m->event[row->event], m->state[row->to]);
}

/* One row a line; malloc'd. */
static char *draw(const rg__machine *m)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out != NULL);
    for (int i = 0; i < m->rows; i++)
        if (m->row[i].to < m->states)
            draw_row(out, m, &m->row[i]);
    fclose(out);
    return text;
}

static void check_drawing(const rg__machine *m, const char *readme)
{
    char *drawn = draw(m);
    if (strstr(readme, drawn) == NULL)
        CHECK_FAIL("the README draws the %s as it is no more; this is how it "
                   "is now:\n%s",
                   m->name, drawn);
    free(drawn);
}

int main(void)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        check_answers(machines[i].machine);
        check_reached(machines[i].machine);
        check_drawing(machines[i].machine, read_text(machines[i].readme));
    }
    return 0;
}
