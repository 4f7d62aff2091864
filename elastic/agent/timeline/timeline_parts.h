/* Inside the room. */
#ifndef RG_AGENT_TIMELINE_PARTS_H
#define RG_AGENT_TIMELINE_PARTS_H

#include "elastic/agent/timeline/timeline.h"

/* timeline_writer.c: the process that writes the file: each message is some
 * events, with a comma before each. After each the file is whole JSON. */
typedef struct rg__timeline_out {
    int file;
    const char *path;
} rg__timeline_out;
int rg__timeline_write(int sock, const void *out);
/* The file, begun or gone on with; -1: rg_last_error says why. */
int rg__timeline_file(const char *path, bool goes_on);

#endif
