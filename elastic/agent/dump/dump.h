/* What the workers of a job have been doing: their last operations on each set,
 * and the stacks of their threads.
 *
 * Threads:   the loop's.
 * Ownership: a socket that is handed over is owned.
 * Units:     milliseconds before now in texts, nanoseconds in records. */
#ifndef RG_AGENT_DUMP_H
#define RG_AGENT_DUMP_H

#include <jansson.h>

#include "elastic/agent/base/agent_state.h"
#include "elastic/agent/hosts/peers.h"

/* What is wanted of a host. */
typedef struct rg__dump_request {
    uint64_t generation;   /* 0: that in which each worker is */
    uint32_t wants_stacks; /* beside the operations */
    uint32_t only_times;   /* steps alone, of workers that live */
} rg__dump_request;

/* The first frame of a connection; body: RG__TEXT_MAX bytes at most,
 * borrowed. */
typedef struct rg__gather_question {
    rg__peer_type type;
    const void *body;
    size_t n;
    bool as_text; /* of DUMP: rg__host_part_read reads it later */
} rg__gather_question;

/* gather.c: what the other hosts of a world (NULL: of none) answer, into an
 * array that is the caller's; done is called, once, when the last one is there,
 * and never within this call. NULL: no memory. */
typedef struct rg__gather rg__gather;
typedef void (*rg__gather_fn)(void *arg);
rg__gather *rg__gather_begin(rg__agent *a, const rg__proposal *world,
                             const rg__gather_question *question, json_t *hosts,
                             rg__gather_fn done, void *arg);
/* serve.c: the answer of one that is asked, which may take this from within its
 * service; the document is taken over. false: no memory. */
bool rg__gather_answer(rg__agent *a, rg__connection *c, json_t *document);
bool rg__gather_is_over(const rg__gather *g);
/* What is not there yet gets an error in its place; NULL allowed. */
void rg__gather_end(rg__gather *g);

/* dump_record.c: how far this host's workers are; new. */
json_t *rg__dump_times(const rg__agent *a);

/* Ask all hosts, and answer the command: as JSON, or as text for people. */
void rg__dump_ask(rg__agent *a, int sock, bool wants_json, bool wants_stacks);

/* The same into a file, since that generation has ended for this reason. */
void rg__dump_write(rg__agent *a, uint64_t generation, const char *why);

/* A file is not written yet. */
bool rg__dump_is_busy(const rg__agent *a);

/* Another agent asks; false: malformed. */
bool rg__dump_serve(rg__agent *a, rg__connection *c, const void *body,
                    size_t n);

void rg__dumps_drop(rg__agent *a); /* all that are under way */

#endif
