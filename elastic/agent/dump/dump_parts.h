/* Inside the room. */
#ifndef RG_AGENT_DUMP_PARTS_H
#define RG_AGENT_DUMP_PARTS_H

#include "elastic/agent/dump/dump.h"

/* dump_text.c: compare the ranks: {"hosts": ...} gets "differences". */
void rg__dump_compare(json_t *document);
/* The document for people; malloc'd. */
char *rg__dump_text(const json_t *document);

/* host_part.c: the records, and stacks if they are wanted; done gets a new
 * reference, once, and not within this call. NULL: no memory. */
typedef struct rg__host_part rg__host_part;
typedef void (*rg__host_part_fn)(void *arg, json_t *document);
rg__host_part *rg__host_part_begin(rg__agent *a,
                                   const rg__dump_request *request,
                                   rg__host_part_fn done, void *arg);
void rg__host_part_drop(rg__host_part *part); /* NULL allowed */

/* Between agents: DUMP with a request, and DUMPED with text behind it. */
typedef struct rg__dumped {
    uint32_t is_last, unused;
} rg__dumped;

/* dump_stacks.c: the process that looks at other processes. It writes a JSON
 * object, of texts by process number, to the descriptor and ends. */
_Noreturn void rg__dump_stacks(const pid_t *pids, int n, int out);

#endif
