/* Inside the room. */
#ifndef RG_AGENT_SCALARS_PARTS_H
#define RG_AGENT_SCALARS_PARTS_H

#include <sys/types.h>

#include "elastic/agent/scalars/scalars.h"

/* The process that writes. A message is the scalars of a step, or one with
 * count 0: steps after that of its `step` are rolled back. */
typedef struct rg__scalars_out {
    const char *csv_path, *board_path, *host;
    int csv, board; /* the file; the directory; -1: none */
    bool is_first;  /* of the agents that write it */
} rg__scalars_out;
int rg__scalars_write(int sock, const void *out);

/* A file to which whole pieces are appended. */
typedef struct rg__sink {
    int file; /* -1: none, or it can't be written any more */
    const char *path;
    off_t end;
    uint64_t last; /* step; 0: none */
} rg__sink;
/* What the disk has no room for is taken back; nothing is written after it. */
void rg__sink_append(rg__sink *sink, const char *bytes, size_t n);

/* csv.c. Open or make it; -1: no, or another kind of file (rg_last_error). */
int rg__csv_open(const char *path, bool is_first);
/* Cut it where a line of that step or a later one begins, or a half line. */
void rg__csv_cut(rg__sink *csv, uint64_t from);
void rg__csv_add(rg__sink *csv, const rg__scalar *row, int n);

/* tensorboard.c. The directory, which is made; -1: rg_last_error says why. */
int rg__board_open(const char *path);
/* Events of a step into the event file, which the first of them makes. */
void rg__board_cut(rg__sink *board, uint64_t from);
void rg__board_add(rg__sink *board, const rg__scalars_out *out,
                   const rg__scalar *row, int n);

#endif
