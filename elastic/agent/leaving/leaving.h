/* How this host leaves and how the job ends. */
#ifndef RG_AGENT_LEAVING_H
#define RG_AGENT_LEAVING_H

#include "elastic/agent/base/agent_state.h"

/* end.c */
rg_status rg__leaving_create(rg__agent *a); /* and all that is in this room */
void rg__leaving_destroy(rg__agent *a);
rg_status rg__end_watch_signals(rg__agent *a);
/* The launcher asks this host to leave, as by SIGTERM; but asking twice counts
 * once, unless the second asks to leave at once. */
void rg__end_asked(rg__agent *a, bool at_once);
/* The job is to be open within that time; 0: it is. */
void rg__end_bound_opening(rg__agent *a, uint64_t ns);
bool rg__end_is_of_job(const rg__agent *a); /* not of this host alone */
/* What the next agent would have to know about it. */
typedef struct rg__leaving_saved {
    bool is_stopping;
    int stop_code;
    uint64_t drain_end_ns;
} rg__leaving_saved;
rg__leaving_saved rg__leaving_save(const rg__agent *a);
void rg__leaving_resume(rg__agent *a, const rg__leaving_saved *was);
void rg__leaving_go_on(rg__agent *a); /* the job's keys are here */
/* End the job, after this step if its commit is to become a checkpoint. */
void rg__agent_stop_job(rg__agent *a, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Before the job ends: have the step that is under way end with a commit; true
 * while that is waited for. */
bool rg__agent_awaits_step(rg__agent *a);
/* Put the job's end, of a->verdict, into a txn and send it. */
void rg__agent_send_end(rg__agent *a, rg__txn_draft *t, rg__job_act again);
/* What follows from either exit, and from an end that others have written:
 * workers are ended, and then this agent. No other host is told. */
void rg__agent_stop(rg__agent *a, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What follows from the exits. */
void rg__agent_follow_end(rg__agent *a, int code);
void rg__agent_follow_leave(rg__agent *a, int code);
void rg__agent_check_end(rg__agent *a); /* stop the loop once nothing is left */

/* drain.c */
void rg__drain_start(rg__agent *a, uint64_t deadline_ms, const char *why);
void rg__drain_follow(rg__agent *a, bool is_first);
void rg__drain_look(void *agent_arg);
/* Others fetch, or may fetch again. */
bool rg__drain_is_needed(const rg__agent *a);
/* There is no other host to leave in order for, or that could go on. */
bool rg__drain_is_alone(const rg__agent *a);
void rg__leave_say(rg__agent *a); /* that this host goes, with the verdict */

/* noticed.c */
rg_status rg__notice_open(rg__agent *a);
void rg__notice_close(rg__agent *a);
void rg__notice_look(void *agent_arg);
void rg__notice_signal(rg__agent *a); /* SIGTERM: is it a notice here? */
/* This host has left: true while a source that wants to know is being told. */
bool rg__notice_tells(rg__agent *a);
struct json_t *rg__notice_json(const rg__agent *a);
bool rg__notice_stands(const rg__agent *a); /* one, that counts */

/* outage.c: does this host wait for etcd alone, and for how long now? Called
 * when etcd is away or back, and by a timer in between. */
void rg__outage_look(void *agent_arg);

/* summary.c: five lines, once the job is over. */
void rg__summary_say(rg__agent *a);

#endif
