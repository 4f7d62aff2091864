/* Inside the room. */
#ifndef RG_AGENT_DUMP_PARTS_H
#define RG_AGENT_DUMP_PARTS_H

#include "elastic/agent/dump/dump.h"

/* dump_text.c: compare the ranks: {"hosts": ...} gets "differences". */
void rg__dump_compare(json_t *document);
/* The document for people; malloc'd. */
char *rg__dump_text(const json_t *document);

/* dump_record.c: a copy of what each record holds now, for the process that
 * shows it, which does not have the records. NULL: no memory. */
typedef struct rg__dump_copy {
    rg__half *half; /* owned */
    int slot;
    pid_t pid;
    bool is_alive;
    uint64_t at_ns;
} rg__dump_copy;
typedef struct rg__dump_copies {
    int n;
    rg__dump_copy copy[2 * RG__HOST_SLOTS_MAX];
} rg__dump_copies;
rg__dump_copies *rg__dump_copy_records(const rg__agent *a, uint64_t generation);
void rg__dump_free_copies(rg__dump_copies *all); /* NULL allowed */
json_t *rg__dump_records(const rg__agent *a, const rg__dump_copies *all);

/* host_part.c: the records, and stacks if they are wanted; done gets a text
 * that is its own, once, and not within this call. Of 0 bytes, or NULL: there
 * is no memory for one. NULL: no memory. */
typedef struct rg__host_part rg__host_part;
typedef void (*rg__host_part_fn)(void *arg, char *text, size_t n);
rg__host_part *rg__host_part_begin(rg__agent *a,
                                   const rg__dump_request *request,
                                   rg__host_part_fn done, void *arg);
void rg__host_part_drop(rg__host_part *part); /* NULL allowed */
/* Such a text, of this host or another one; new; NULL: malformed. */
json_t *rg__host_part_read(const char *text, size_t n);

/* Between agents: DUMP with a request, and DUMPED with text behind it. */
typedef struct rg__dumped {
    uint32_t is_last, unused;
} rg__dumped;

/* dump_stacks.c: the process that looks at other processes. It writes a JSON
 * object, of texts by process number, to the descriptor and ends. */
_Noreturn void rg__dump_stacks(const pid_t *pids, int n, int out);

#endif
