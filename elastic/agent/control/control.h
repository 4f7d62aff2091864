/* What `regroup` asks of an agent, and what others read from it. */
#ifndef RG_AGENT_CONTROL_H
#define RG_AGENT_CONTROL_H

#include <jansson.h>

#include "elastic/agent/base/agent_state.h"
#include "elastic/agent/base/answer.h"
#include "elastic/agent/hosts/peers.h"

/* question.c */
rg_status rg__control_create(rg__agent *a);
void rg__control_destroy(rg__agent *a); /* all that wait learn of the end */

/* question.c: the first message of a connection; false: it is no question. The
 * socket is owned from then on. */
bool rg__question(rg__agent *a, int sock, const void *bytes, size_t n);
/* A worker has shown its sets, for which questions wait. */
void rg__questions_look(rg__agent *a);

/* report.c: the status document as JSON, malloc'd. is_whole: the snapshot is of
 * all keys of the job, now; else it is what this agent has seen of all/. times:
 * what other hosts say of their workers' steps (step_times.h). */
char *rg__report(rg__agent *a, const rg__snapshot *snap, bool is_whole,
                 const json_t *times);

/* event_log.c: the job's events from a generation on, as JSON, malloc'd. */
char *rg__event_log(rg__agent *a, const rg__snapshot *snap, uint64_t from);

/* Into a file beside the run directory, for when the job is gone. */
void rg__event_log_save(rg__agent *a, const char *text);

/* drain_ask.c: tell a host to leave, answer the command; owns the socket. */
void rg__drain_ask(rg__agent *a, const char *host, uint64_t deadline_ms,
                   int sock);

/* scale_ask.c: write other bounds of the world, and answer the command; owns
 * the socket. 0: as it is. */
void rg__scale_ask(rg__agent *a, int min, int max, int sock);
void rg__change_asks_drop(rg__agent *a); /* both */

/* timeline_ask.c: begin a timeline of all hosts, "": end it, and answer the
 * command; owns the socket. Another agent asks for ours; false: malformed. */
void rg__timeline_ask(rg__agent *a, const char *path, int sock);
bool rg__timeline_serve(rg__agent *a, rg__connection *c, const void *body,
                        size_t n);
void rg__timeline_ask_drop(rg__agent *a);

/* metrics.c: Prometheus' text, malloc'd; NULL: no memory. */
char *rg__metrics(rg__agent *a);

#endif
