/* Inside the room. */
#ifndef RG_AGENT_TIMELINE_PARTS_H
#define RG_AGENT_TIMELINE_PARTS_H

#include "elastic/agent/timeline/timeline.h"

#define RG__TRACE_BUFFER 65536
#define RG__TRACE_SETS   64 /* of a worker, that are named */

/* ------------------------------------------------- the agent and the writer */

/* In memory that both share. */
typedef struct rg__timeline_counts {
    _Atomic uint64_t events, dropped;
    _Atomic bool is_whole; /* all has been taken and written */
} rg__timeline_counts;

/* What the writer is started with. */
typedef struct rg__timeline_out {
    int file;
    const char *path, *host;
    unsigned base;      /* number of this host's first track */
    int64_t to_wall_ns; /* from CLOCK_MONOTONIC */
    uint64_t since_ns;  /* what ended earlier belongs to another timeline */
    rg__timeline_counts *counts;
} rg__timeline_out;

/* WORKER comes with the descriptor of its page and record. */
enum { RG__TIMELINE_WORKER = 1, RG__TIMELINE_CHANGE, RG__TIMELINE_STOP };
typedef struct rg__timeline_word {
    uint32_t kind, slot;
    rg__change change;
    char cause[RG__CAUSE_MAX];
} rg__timeline_word;

/* timeline_writer.c: the process that makes events of spans and writes the
 * file, which is whole JSON after each piece. */
int rg__timeline_write(int sock, const void *out);
/* The file, begun or gone on with; -1: rg_last_error says why. */
int rg__timeline_file(const char *path, bool goes_on);

/* ------------------------------------------------------- inside the writer */

/* How events of operations begin; successive ones often begin alike. */
typedef struct rg__timeline_opening {
    unsigned pid, thread;
    uint32_t generation;
    uint8_t kind, type, op;
    bool has_data;
    size_t n; /* 0: none yet */
    char text[256];
} rg__timeline_opening;

/* Of the worker that came last in a slot. */
typedef struct rg__timeline_track {
    int fd; /* of page and record, held for its lock; -1: none */
    rg__page *page;
    rg__record *record; /* behind it */
    int rank;           /* as it was named; -1: not yet */
    bool is_in_commit;
    uint64_t program_ns;            /* the end of what the program did last */
    uint32_t named[RG__TRACE_SETS]; /* set + 1 */
    rg__timeline_opening opening;
} rg__timeline_track;

typedef struct rg__trace {
    const rg__timeline_out *out;
    uint64_t flows, dropped, told_dropped;
    bool is_cut;                        /* the file takes no more */
    size_t n, held;                     /* bytes in the buffer, and events */
    char buffer[RG__TRACE_BUFFER + 16]; /* and the end of the document */
} rg__trace;

/* timeline_writer.c: what is in the buffer goes into the file. */
void rg__trace_flush(rg__trace *t);

/* timeline_events.c: into the buffer. Returns how many spans there were. */
uint64_t rg__trace_drain(rg__trace *t, rg__timeline_track *k, int slot);
/* A wait that was the worker's last is not in the ring. */
void rg__trace_last_wait(rg__trace *t, rg__timeline_track *k, int slot);
void rg__trace_change(rg__trace *t, const rg__change *c, const char *cause);
void rg__trace_name_world(rg__trace *t);
void rg__trace_dropped(rg__trace *t);
void rg__trace_end(rg__trace *t);

#endif
