/* Other hosts: their heartbeats, which of them are accused or lost, and whether
 * a newcomer and the world reach each other. */
#ifndef RG_AGENT_HOSTS_H
#define RG_AGENT_HOSTS_H

#include "elastic/agent/base/agent_state.h"
#include "elastic/agent/hosts/beat_wire.h"
#include "elastic/agent/hosts/delays.h"
#include "sdk/base/address.h"

/* beat.c. A peer is another agent, by incarnation; it is expected to beat, or
 * only watched because it is accused or was asked. */
typedef struct rg__peer {
    rg__agent *a;
    uint64_t id;
    bool is_target;                 /* it expects our beats */
    bool is_expected, was_expected; /* we expect its */
    bool is_known;  /* of the world, of the proposal, or the leader */
    bool is_minded; /* it is in the list of those that each beat minds */
    uint32_t port;
    rg__address address; /* and port: of what `at` was made */
    char name[RG__NAME_MAX];
    rg__inet at;
    uint64_t heard_ns, answered_ns; /* any datagram; an answer to a probe */
    int excuses; /* we have come late so often since it was heard */
    uint64_t beat_ns, sent_ns; /* its newest heartbeat to us, and ours to it; 0:
                                  none yet */
    uint64_t content_ns;       /* of its heartbeats the newest that says that it
                            accuses no host */
    uint64_t asks_ns;    /* the budget that it asks for; 0: not heard yet */
    rg__delays *delays;  /* of its heartbeats; of ours: of our own turns; owned,
                            NULL: none has been late */
    uint64_t stuck_ns;   /* bytes to it got no ack when a worker looked last */
    uint64_t hole_ns;    /* a large probe was sent then that is not answered */
    size_t probe_bytes;  /* its size, which the path should carry */
    uint64_t asked_ns;   /* to look: when the newest round it is in began */
    uint64_t refused_ns; /* its host lives, its agent's port is shut:
                            since then; 0: no such */
    uint64_t link_broke_ns; /* a worker there let go of a connection; 0: no */
    uint64_t etcd_lost_ns;  /* it says that etcd does not answer it; 0: no */
    uint64_t begun;         /* the newest generation whose decision it knows */
    uint64_t counter;       /* the highest seen */
    int probe_sock;         /* -1: it is not being probed */
    bool is_accused;        /* we say that we don't hear it */
    bool is_written;        /* etcd says so, once `writing` has come back */
    int64_t written_mod;    /* mod_revision of that key as far as we know */
    uint64_t accused_ns;
    rg__etcd_req *writing;
} rg__peer;
rg_status rg__beat_open(rg__agent *a); /* at a->port */
void rg__beat_close(rg__agent *a);
void rg__beat_start(rg__agent *a);
/* The view or what the leader knows changed. */
void rg__beat_follow(rg__agent *a);
/* A generation is aborted for a certain reason: neighbours and the leader,
 * which tells all hosts, need not wait for etcd. death: which member, and why;
 * NULL: another host's, or etcd hears of it first. true: the leader is told. */
bool rg__beat_abort(rg__agent *a, uint64_t generation, const char *death);
/* Send a probe to each known peer, now and with each beat until it answers. */
void rg__beat_probe_all(rg__agent *a, uint64_t round_ns);
/* The same for one, which a worker here does not get through to. */
void rg__beat_ask(rg__agent *a, uint64_t host);
/* The same; so many bytes of a worker here are not acknowledged by it. */
void rg__beat_note_stuck(rg__agent *a, uint64_t host, uint64_t bytes);
/* And a worker there has let go of a connection: if the agent there is gone as
 * well, it has no grace. */
void rg__beat_link_broke(rg__agent *a, uint64_t host);
/* Send one a probe, once; and has one answered since then? */
void rg__beat_probe(rg__agent *a, uint64_t host);
bool rg__beat_has_answered(const rg__agent *a, uint64_t host,
                           uint64_t since_ns);
/* To all hosts that take part; as much as a datagram carries. */
bool rg__beat_can_carry(const char *text);
void rg__beat_tell(rg__agent *a, rg__beat_type type, uint64_t generation,
                   const char *text);
/* This host's ack to the leader. */
void rg__beat_ack(rg__agent *a, uint64_t leader, uint64_t generation,
                  const char *text);
int rg__beat_peers(const rg__agent *a);
rg__peer *rg__beat_peer(const rg__agent *a, int i);
rg__peer *rg__beat_find(const rg__agent *a, uint64_t host); /* NULL: none */
/* Of the peers that each beat minds the i-th; NULL: there are fewer. */
rg__peer *rg__beat_minded(const rg__agent *a, int i);
rg__peer *
rg__beat_self(const rg__agent *a); /* to accuse ourselves; NULL: not yet */

/* How long the lease of one of so many hosts lasts. */
int rg__beat_lease_s(int hosts);

/* Datagrams since this agent began. */
typedef struct rg__beat_counts {
    uint64_t sent, received, refused;
} rg__beat_counts;
rg__beat_counts rg__beat_count(const rg__agent *a);

/* The budget that this agent asks for; the longest delay seen lately. */
uint64_t rg__beat_asks_ns(const rg__agent *a);
uint64_t rg__beat_delay_ns(const rg__agent *a);

/* Ask an agent with our host's name whether it lives, within half the
 * budget. */
bool rg__beat_has_name_conflict(const rg__agent *a);
void rg__beat_ask_namesake(rg__agent *a, const rg__proposal_host *namesake);

/* suspect.c */
rg_status rg__suspect_create(rg__agent *a);
void rg__suspect_destroy(rg__agent *a);
void rg__suspect_look_in(rg__agent *a, uint64_t ns);
/* The leader's plan stood on these hosts without etcd. */
void rg__suspect_planned_on(rg__agent *a, const uint64_t *no_etcd, int n);
/* That generation was ended for a host that etcd does not answer. */
void rg__suspect_spoke(rg__agent *a, uint64_t generation);
bool rg__suspect_has_spoken(const rg__agent *a, uint64_t generation);
/* Called with every beat, and when a round may be over. */
void rg__suspect_look(rg__agent *a);
void rg__suspect_follow(rg__agent *a);    /* an agent asked all to look */
void rg__suspect_excuse(rg__peer *one);   /* we were late ourselves */
void rg__suspect_forgive(rg__agent *a);   /* or all that we say may be old */
void rg__suspect_take_over(rg__agent *a); /* what the agent before us accused */
void rg__suspect_forget(rg__peer *one); /* it goes: nothing of it is awaited */
void rg__suspect_heard(rg__peer *one);  /* it has answered a probe */
/* A host has said that it aborted the generation: if it can't publish why, the
 * leader does, also one that leads since then. */
void rg__suspect_told(rg__agent *a, uint64_t generation);
/* Since when has this agent seen these accusations? Also before it led. */
void rg__suspect_note(rg__agent *a, rg__snapshot *snap);
/* Hosts that the leader goes on without; while a round of looks is under way
 * *again_ns_p says when it will be over. */
int rg__suspect_lost(rg__agent *a, uint64_t *lost, int room,
                     uint64_t *again_ns_p);
/* Hosts that have said for the whole budget that etcd does not answer them. */
int rg__suspect_no_etcd(const rg__agent *a, uint64_t *no_etcd, int room);

/* paths.c */
rg_status rg__paths_create(rg__agent *a);
void rg__paths_destroy(rg__agent *a);
/* The view has changed, or a worker came. */
void rg__paths_follow(rg__agent *a);
/* May workers of this host come to the door? */
bool rg__paths_are_proved(const rg__agent *a);
/* peers.c: another agent proves its paths. */
bool rg__paths_serve(rg__agent *a, rg__connection *c, const void *body,
                     size_t n);

/* host_address.c: params->user.advertise, or of params->interface, or the
 * source of the route to the first endpoint of etcd. */
rg_status rg__address_choose(rg__agent *a);
/* Can the hosts of a world that are not on this machine reach this one? */
bool rg__address_is_reached(const rg__agent *a, const rg__proposal *p);

#endif
