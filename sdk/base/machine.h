/* State machines as tables: rows that map states and an event to a new state.
 * Every pair of a state and an event has exactly one row; a test checks that,
 * and that the room's README draws these rows.
 *
 * Threads: any. Ownership: tables are static. */
#ifndef RG_BASE_MACHINE_H
#define RG_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define RG__STAYS 0xfe /* the event changes nothing */
#define RG__NEVER 0xff /* it can't come in that state; logged if it does */

typedef struct rg__transition {
    uint32_t from; /* a bit for each state */
    uint8_t event, to;
} rg__transition;

typedef struct rg__machine {
    const char *name;
    const char *const *state, *const *event; /* their names */
    const rg__transition *row;
    int states, events, rows;
} rg__machine;

/* Of lists X(name, text) of states and events, in the order of their enums, and
 * an array of rows. */
#define RG__MACHINE_TEXT(name, text) text,
#define RG__MACHINE_TEXTS(LIST)      ((const char *const[]){LIST(RG__MACHINE_TEXT)})
#define RG__MACHINE(what, STATES, EVENTS, table)                               \
    {                                                                          \
        .name = what, .state = RG__MACHINE_TEXTS(STATES),                      \
        .event = RG__MACHINE_TEXTS(EVENTS), .row = table,                      \
        .states = sizeof RG__MACHINE_TEXTS(STATES) / sizeof(char *),           \
        .events = sizeof RG__MACHINE_TEXTS(EVENTS) / sizeof(char *),           \
        .rows = sizeof table / sizeof *table                                   \
    }

static inline bool rg__row_answers(const rg__transition *row, int state,
                                   int event)
{
    return row->event == event && (row->from >> state & 1) != 0;
}

int rg__machine_next(const rg__machine *m, int state, int event);

#endif
