/* Commits that become files. */
#ifndef RG_AGENT_CHECKPOINTS_H
#define RG_AGENT_CHECKPOINTS_H

#include "elastic/agent/base/agent_state.h"

/* saver.c */
rg_status rg__checkpoint_create(rg__agent *a);
void rg__checkpoint_destroy(rg__agent *a);
void rg__checkpoint_ask(rg__slot *s, const rg__save *m); /* a worker does */
void rg__checkpoint_show(const rg__slot *s); /* what is durable, in its page */
void rg__checkpoint_follow(rg__agent *a);    /* the view has changed */
bool rg__checkpoint_is_busy(const rg__agent *a);
void rg__checkpoint_stop(rg__agent *a); /* give up what is under way */
/* This agent ends: whatever is not durable by then is given up. */
void rg__checkpoint_bound(rg__agent *a, uint64_t within_ns);

/* last.c: the job ends; its newest commit may become a checkpoint first. */
bool rg__last_is_wanted(const rg__agent *a);
void rg__last_begin(rg__agent *a);
/* The same, where fn has returned everywhere. */
void rg__last_done(rg__agent *a);
void rg__last_follow(rg__agent *a); /* the view has changed */
void rg__last_note_loaded(const rg__slot *s);

#endif
