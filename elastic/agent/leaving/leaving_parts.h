/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_LEAVING_PARTS_H
#define RG_AGENT_LEAVING_PARTS_H

#include "elastic/agent/base/agent_state.h"

struct rg__leaving {
    pid_t supervisor; /* that has started us, 0: none */
    int signal_fd;

    /* drain and notices */
    uint64_t drain_end_ns;
    rg__timer *drain_timer;
    rg__notices *notices; /* NULL: no source is asked */
    rg__timer *notice_timer;
    bool has_passed_over; /* a notice, since the program is static */

    /* outage */
    rg__timer *outage_timer;
    uint64_t
        outage_ns; /* nothing goes on here without etcd since; 0: it does */

    /* the end */
    bool is_stopping; /* the job ends with the step that is under way */
    int stop_code;
    uint64_t step_end_ns; /* and that is waited for until then; 0: not yet */
    uint64_t step_say_ns; /* and said at this time */
    bool has_said_step;
    rg__timer *step_timer;
    bool is_saying_end;
    bool ends_job;     /* so the job is over, not only this host gone */
    bool is_hurried;   /* what workers printed need not be written any more */
    bool is_cut_short; /* nor anything else: asked to end a second time */
    rg__timer *term_timer, *kill_timer, *end_timer;
};

#endif
