/* State machines as tables: rows that map states and an event to a new state.
 * Every pair of a state and an event has exactly one row; tests check that, and
 * that the drawing in the room's README is what rg__machine_text prints.
 *
 * Threads: any. Ownership: tables are static. */
#ifndef RG_BASE_MACHINE_H
#define RG_BASE_MACHINE_H

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

/* The state after that event. */
int rg__machine_next(const rg__machine *m, int state, int event);
/* How many rows answer it: 1. */
int rg__machine_answers(const rg__machine *m, int state, int event);
/* Its drawing, one row a line; malloc'd. */
char *rg__machine_text(const rg__machine *m);

#endif
