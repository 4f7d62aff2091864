/* See machine.h. */
#include "sdk/base/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "sdk/base/log.h"

static bool answers(const rg__transition *row, int state, int event)
{
    return row->event == event && (row->from >> state & 1) != 0;
}

int rg__machine_answers(const rg__machine *m, int state, int event)
{
    int n = 0;
    for (int i = 0; i < m->rows; i++)
        n += answers(&m->row[i], state, event);
    return n;
}

int rg__machine_next(const rg__machine *m, int state, int event)
{
    int to = RG__NEVER;
    for (int i = 0; i < m->rows; i++)
        if (answers(&m->row[i], state, event))
            to = m->row[i].to;
    if (to == RG__NEVER)
        rg__log(RG__ERROR, "base", "%s: %s can't come in state %s", m->name,
                m->event[event], m->state[state]);
    return to < m->states ? to : state;
}

/* -------------------------------------------------------------- the drawing */

static void draw_row(FILE *out, const rg__machine *m, const rg__transition *row)
{
    int n = fprintf(out, "   ");
    for (int i = 0, named = 0; i < m->states; i++)
        if ((row->from >> i & 1) != 0)
            n += fprintf(out, "%s%s", named++ > 0 ? ", " : "", m->state[i]);
    fprintf(out, "%*s ── %s ──> %s\n", n < 32 ? 32 - n : 0, "",
            m->event[row->event], m->state[row->to]);
}

char *rg__machine_text(const rg__machine *m)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    for (int i = 0; i < m->rows; i++)
        if (m->row[i].to < m->states)
            draw_row(out, m, &m->row[i]);
    fclose(out);
    return text;
}
