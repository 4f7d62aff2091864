/* This host's part in generations, the leader's part, and what this host
 * publishes. */
#ifndef RG_AGENT_GENERATION_H
#define RG_AGENT_GENERATION_H

#include "elastic/agent/base/agent_state.h"

/* generation.c */
rg_status rg__generation_create(agent *a); /* and all that is in this room */
void rg__generation_destroy(agent *a);
/* The agent before us has handed that proposal out. */
void rg__generation_taken_up(agent *a, uint64_t generation);
void rg__generation_fin_anew(agent *a); /* the key has gone with the lease */
void rg__generation_pass_on(agent *a);  /* the decision, to local workers */
void rg__generation_follow(agent *a);   /* the mirror has changed */
void rg__generation_abort(agent *a, uint64_t generation);
/* How far workers here have come: what a vault holds beyond that is none. */
void rg__generation_note_steps(agent *a);
/* The next step end becomes a commit, with which members leave. */
void rg__generation_announce(agent *a, uint64_t generation);
void rg__generation_try_ack(agent *a);
void rg__generation_try_fin(agent *a);
/* Have etcd take down that a commit is begun, once commit 0 is agreed on. */
void rg__generation_try_begin(agent *a);
/* This worker may go on from commit 0, if etcd has it. */
void rg__generation_show_begun(const slot *s);
/* Called with every ping: workers here wait for that record. */
void rg__generation_mind_record(agent *a);
change *rg__change_find(const agent *a, uint64_t generation); /* or NULL */
change *rg__change_of(agent *a, uint64_t generation);         /* makes it */
/* Those that are kept, the oldest first; and how long all others took. */
int rg__changes(const agent *a);
const change *rg__change_at(const agent *a, int i);
const recoveries *rg__recoveries_past(const agent *a);
void rg__change_note_steps(agent *a, uint64_t generation);
void rg__recoveries_add(recoveries *r, const change *c);
extern const double rg__recovery_bucket_s[RG__RECOVERY_BUCKETS];

/* leader.c */
void rg__leader_etcd_is_away(agent *a);
void rg__leader_etcd_is_back(agent *a);
bool rg__leader_sees_all(const agent *a); /* all keys of the job */
void rg__leader_close(agent *a);
void rg__leader_follow(agent *a); /* the view has changed: do we lead? */
void rg__leader_look(void *agent_arg);

/* publish.c; a reason without a slot is this host's. */
void rg__publish(agent *a);
void rg__publish_if_dirty(agent *a);
void rg__publish_anew(agent *a); /* the key has gone with the lease */
bool rg__publish_is_under_way(const agent *a);
/* Has our record ever been written, by this agent or the one before? */
bool rg__publish_has_been(const agent *a);
void rg__publish_resume(agent *a, bool has_been);
/* An agent that bore our name is dead, or lives. */
void rg__publish_rival(agent *a, bool is_alive);
void rg__publish_fill(const agent *a, rg__host_record *host); /* slot: room */
void rg__publish_reason(agent *a, uint64_t generation, const slot *s,
                        bool is_death, const char *text);
/* The same of a connection between this host and another that broke. */
void rg__publish_broken_link(agent *a, uint64_t generation, const slot *s,
                             const char *host, const char *text);

/* ack.c */
/* This host acks the proposal. */
void rg__ack_say(agent *a, const rg__ack *ack);
void rg__ack_repeat(agent *a); /* with every beat */
/* That of a host, by incarnation. */
void rg__ack_hear(agent *a, uint64_t host, uint64_t generation,
                  const char *text, size_t bytes);
/* As the leader: say whose acks of the proposal are missing. */
void rg__acks_mind(agent *a);

#endif
