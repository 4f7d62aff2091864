/* What the leader does next: a pure function of one snapshot and the clock.
 * A leader's only state is its waiting times, which a new one starts from
 * zero. */
#ifndef RG_MEMBER_PLAN_H
#define RG_MEMBER_PLAN_H

#include "elastic/member/records.h"

typedef struct rg__plan_config {
    int min, max;
    uint64_t start_timeout_ns;   /* then --min is enough for the first world */
    uint64_t elastic_timeout_ns; /* below --min: give up; without the world:
                                    leave */
    uint64_t last_call_ns;       /* newcomers within it share one change;
                                    hosts with a notice say how long */
    uint64_t ack_timeout_ns; /* then a host that has not acked is left out */
    uint64_t newcomer_timeout_ns; /* so is one outside of the world, once all of
                                     that have acked and stand */
    uint64_t comeback_ns;         /* for a host that may hold a newer commit */
    const uint64_t *lost;         /* hosts to go on without, by incarnation */
    const uint64_t *no_etcd;      /* hosts that etcd does not answer */
    int losts, no_etcds;
    uint64_t repeats; /* steps that are done again sooner than their commit is
                         fetched */
    bool is_mpi;      /* workers are the ranks of one mpirun */
    bool is_ulfm;     /* which outlive the loss of others */
    uint64_t launch_timeout_ns; /* for all ranks to be at the door */
    int max_deaths; /* of launches at the same step; one more ends the job */
} rg__plan_config;

#define RG__REPORTS_MAX 64

/* A connection that broke, and when the leader learned of it. */
typedef struct rg__link_report {
    uint64_t generation, at_ns;
    char by[RG__NAME_MAX], link[RG__NAME_MAX];
} rg__link_report;

/* A host that gets no place until then, and how often that has happened. */
typedef struct rg__shut_out {
    uint64_t host, until_ns;
    uint32_t times;
} rg__shut_out;

/* Since when the leader waits; 0: it doesn't. Kept between calls. */
typedef struct rg__plan_clock {
    uint64_t forming_ns, newcomer_ns, below_min_ns;
    uint64_t back_ns;               /* for such a host */
    uint64_t world_ns;              /* for any host of the decided world */
    uint64_t proposed, proposed_ns; /* generation whose acks are waited for */
    uint64_t stand_ns;              /* its newcomers alone are */
    uint64_t launch, launch_ns;     /* that is waited for, since then */
    uint64_t paused, pause_ns;      /* behind that one, since then */
    rg__link_report report[RG__REPORTS_MAX]; /* of the last minute */
    int reports;
    rg__shut_out *shut_out; /* owned */
    int shut_outs;
} rg__plan_clock;

bool rg__is_among(uint64_t id, const uint64_t *ids, int n);

/* Forget all: a new leader begins. */
void rg__plan_clock_reset(rg__plan_clock *clock);

typedef enum rg__plan_kind {
    RG__PLAN_WAIT,
    RG__PLAN_PROPOSE,
    RG__PLAN_DECIDE,
    RG__PLAN_DONE,
    RG__PLAN_STATE_LOST, /* no vault holds a whole commit any more */
    RG__PLAN_STOP,       /* all hosts are to leave: the job is stopped */
    RG__PLAN_GIVE_UP, /* below --min for longer than --elastic-timeout, or for
                         good because of `failed` */
    RG__PLAN_LEAVE,   /* all hosts here leave: without `awaited` nothing may
                         be decided, and they may still be training */
    RG__PLAN_REFUSE,  /* `refused` leaves: it has the address of `twin` */
    RG__PLAN_LAUNCH,  /* begin `launch`, or end it on all hosts */
    RG__PLAN_LAUNCH_FAILED, /* again and again; why: `cause` */
    RG__PLAN_STUCK /* launches die at the same step; why: `cause`, `code` */
} rg__plan_kind;

typedef struct rg__plan {
    rg__plan_kind kind;
    uint64_t look_again_ns; /* WAIT: at the latest after this long; 0: never */
    rg__proposal proposal;  /* PROPOSE */
    rg__line line;          /* DECIDE: all but the time */
    int alive;              /* workers that could be in the next world */
    int wanted;    /* so many for a first world before --start-timeout; 0: it is
                      not formed now */
    uint64_t ends; /* WAIT: a generation that its members do not know to have
                      ended; 0: none */
    char cause[RG__CAUSE_MAX];      /* why it has; LAUNCH_FAILED, STUCK */
    int deaths, code;               /* STUCK; LAUNCH_FAILED has the code as
                                       well; 0: no program's */
    rg__mpirun launch;              /* LAUNCH: its seats are owned */
    const rg__host_record *failed;  /* GIVE_UP: of the snapshot; or NULL */
    const rg__host_record *refused; /* REFUSE: likewise */
    char twin[RG__NAME_MAX];
    char awaited[RG__CAUSE_MAX]; /* WAIT, LEAVE: "h1, h2", hosts of the decided
                                    world without which nothing is decided */
    char unswept[RG__CAUSE_MAX]; /* WAIT: "h1, h2", where something of the
                                    launch before is left */
    bool awaits_parts; /* WAIT: for what they hold; the world is known to have
                          ended */
} rg__plan;

rg_status rg__plan_make(const rg__snapshot *snap, const rg__plan_config *config,
                        uint64_t now_ns, rg__plan_clock *clock,
                        rg__plan *plan_p);
void rg__plan_free(rg__plan *plan); /* what it owns */

/* The host takes part: it is outside the decided world, or has acked. */
bool rg__plan_is_here(const rg__snapshot *snap, uint64_t host);

/* etcd was away between these times, which count in none of the waits. */
void rg__plan_leave_out(rg__plan_clock *clock, uint64_t from_ns,
                        uint64_t to_ns);

#endif
