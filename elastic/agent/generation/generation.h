/* This host's and the leader's part in generations; what a host publishes. */
#ifndef RG_AGENT_GENERATION_H
#define RG_AGENT_GENERATION_H

#include "elastic/agent/base/agent_state.h"

/* generation.c */
rg_status
rg__generation_create(rg__agent *a); /* and all that is in this room */
void rg__generation_destroy(rg__agent *a);
/* The agent before us has handed that proposal out. */
void rg__generation_taken_up(rg__agent *a, uint64_t generation);
/* The key has gone with the lease. */
void rg__generation_fin_again(rg__agent *a);
void rg__generation_pass_on(rg__agent *a); /* the decision, to local workers */
/* Members here restore this commit, and wait for the decision to be passed on
 * before they enter fn. */
void rg__generation_expect(rg__agent *a, rg__commit_id resume);
void rg__generation_follow(rg__agent *a); /* the mirror has changed */
/* What is on record by now is what was taken up, or is refused; what came to
 * nothing ends the generation before it. */
void rg__generation_follow_offer(rg__agent *a);
void rg__generation_abort(rg__agent *a, uint64_t generation);
/* How far workers here have come: later commits in a vault don't count. */
void rg__generation_note_steps(rg__agent *a);
/* The next step end becomes a commit, with which members leave. */
void rg__generation_announce(rg__agent *a, uint64_t generation);
void rg__generation_try_ack(rg__agent *a);
void rg__generation_try_fin(rg__agent *a);
/* Have etcd take down that a commit is begun, once commit 0 is agreed on. */
void rg__generation_try_begin(rg__agent *a);
/* This worker may go on from commit 0, if etcd has it. */
void rg__generation_show_begun(const rg__slot *s);
/* Called with every ping: workers here wait for that record. */
void rg__generation_mind_record(rg__agent *a);
rg__change *rg__change_find(const rg__agent *a,
                            uint64_t generation);             /* or NULL */
rg__change *rg__change_of(rg__agent *a, uint64_t generation); /* makes it */
/* Those that are kept, the oldest first; and how long all others took. */
int rg__changes(const rg__agent *a);
const rg__change *rg__change_at(const rg__agent *a, int i);
const rg__recoveries *rg__recoveries_past(const rg__agent *a);
void rg__change_note_steps(rg__agent *a, uint64_t generation);
void rg__recoveries_add(rg__recoveries *r, const rg__change *c);
extern const double rg__recovery_bucket_s[RG__RECOVERY_BUCKETS];

/* leader.c */
void rg__leader_etcd_is_away(rg__agent *a);
void rg__leader_etcd_is_back(rg__agent *a);
bool rg__leader_sees_all(const rg__agent *a); /* all keys of the job */
void rg__leader_close(rg__agent *a);
void rg__leader_follow(rg__agent *a); /* the view has changed: do we lead? */
void rg__leader_look(void *agent_arg);

/* offers.c */
/* As the leader: tell all hosts what is proposed. false: record it first. */
bool rg__offer_make(rg__agent *a, const rg__proposal *p);
void rg__offer_hear(rg__agent *a, uint64_t host, uint64_t generation,
                    const char *text, size_t bytes);
/* The leader says what its offer will resume from. */
void rg__expect_hear(rg__agent *a, uint64_t host, uint64_t generation,
                     const char *text, size_t bytes);
void rg__offer_drop(rg__agent *a);

/* publish.c; a reason without a slot is this host's. */
void rg__publish(rg__agent *a);
void rg__publish_if_dirty(rg__agent *a);
void rg__publish_if_held(rg__agent *a);
/* What is not in etcd yet, over what the leader has read there. */
void rg__publish_lay(rg__agent *a);
void rg__publish_again(rg__agent *a); /* the key has gone with the lease */
bool rg__publish_is_under_way(const rg__agent *a);
/* Has our record ever been written, by this agent or the one before? */
bool rg__publish_has_been(const rg__agent *a);
void rg__publish_resume(rg__agent *a, bool has_been);
/* An agent that bore our name is dead, or lives. */
void rg__publish_name_conflict(rg__agent *a, bool is_alive);
void rg__publish_fill(const rg__agent *a,
                      rg__host_record *host); /* slot: room */
void rg__publish_reason(rg__agent *a, uint64_t generation, const rg__slot *s,
                        const char *text);
/* A worker died. Other hosts hear of it first: the leader plans from that. */
void rg__publish_death(rg__agent *a, uint64_t generation, const rg__slot *s,
                       const char *text);
/* The same of a connection between this host and another that broke. */
void rg__publish_broken_link(rg__agent *a, uint64_t generation,
                             const rg__slot *s, const char *host,
                             const char *text);
/* One is in etcd, or on its way there from here. */
bool rg__publish_knows_reason(const rg__agent *a, uint64_t generation);

/* deaths.c: what another host tells the leader. */
void rg__death_hear(rg__agent *a, uint64_t host, uint64_t generation,
                    const char *text, size_t bytes);

/* ack.c */
void rg__ack_say(rg__agent *a, const rg__ack *ack);
void rg__ack_repeat(rg__agent *a); /* with every beat */
/* That of a host, by incarnation. */
void rg__ack_hear(rg__agent *a, uint64_t host, uint64_t generation,
                  const char *text, size_t bytes);
/* As the leader: say whose acks of the proposal are missing. */
void rg__acks_mind(rg__agent *a);

#endif
