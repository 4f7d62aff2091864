/* The events inside the agent. A file that learns of one calls
 * a->on->EVENT(...) and nothing above it; the one list in agent.c says what
 * follows from each event, and in which order.
 *
 * Threads: the loop's. What follows has happened when the call returns, so a
 * caller looks again at what it knows, as after any call. */
#ifndef RG_AGENT_EVENTS_H
#define RG_AGENT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elastic/member/records.h"
#include "sdk/base/wire.h"

typedef struct rg__agent rg__agent;
typedef struct rg__slot rg__slot;
typedef struct rg__connection rg__connection;

typedef struct rg__events {
    /* Exits (exits.h): this host leaves, or the job ends; why: a->verdict. */
    void (*leave)(rg__agent *a, int code);
    void (*end)(rg__agent *a, int code);
    void (*open_late)(rg__agent *a); /* the job is not open in time */
    /* Something that the agent's end waits for may be over. */
    void (*settled)(rg__agent *a);
    /* No worker is stopped for its stacks any more. */
    void (*workers_let_go)(rg__agent *a);
    /* What the next agent would have to know has changed. */
    void (*noted)(rg__agent *a);

    /* The keys of all/ have changed; the lease is held again. */
    void (*view_moved)(rg__agent *a);
    void (*lease_renewed)(rg__agent *a);

    /* Slots. */
    void (*slot_untold)(rg__slot *s); /* a message for its worker is lost */
    void (*slot_met)(rg__slot *s);    /* its worker has called rg_init */
    void (*slot_at_door)(rg__slot *s, uint64_t registered);
    void (*slot_left)(rg__slot *s);   /* a generation */
    void (*slot_built)(rg__agent *a); /* one */
    void (*slot_fin)(rg__agent *a);
    void (*slot_committed)(rg__slot *s); /* a commit counts */
    /* A worker's connection, with that host or NULL, is broken; bytes of one
     * are not acknowledged. */
    void (*slot_broken)(rg__slot *s, uint64_t generation,
                        const rg__proposal_host *host, const char *why);
    void (*slot_gave_up)(rg__slot *s, const char *why); /* a rank, with going
                                                           on in place */
    void (*slot_stuck)(rg__slot *s, uint64_t host, uint64_t bytes);
    /* Its worker is dead: a reason for the generation it is in to end; in
     * which, its page said alone; and in any case. */
    void (*slot_lost)(rg__slot *s, const char *why);
    void (*page_told)(rg__agent *a, uint64_t generation);
    void (*slot_dead)(rg__slot *s);
    void (*slot_fenced)(rg__agent *a); /* can't store any more */
    void (*slot_reaped)(rg__slot *s, rg__member_id was);
    void (*slot_changed)(rg__agent *a); /* what its record says */
    /* It has told an agent that took over where it stands. */
    void (*slot_stood)(rg__slot *s, bool is_at_door, uint64_t registered);
    /* A member is gone when the job is done, and others may wait for it. */
    void (*world_over)(rg__agent *a, uint64_t generation);
    void (*workers_pinged)(rg__agent *a);
    void (*sets_told)(rg__agent *a); /* a worker has shown its sets */
    /* The first world that its worker was in has ended before it began. */
    void (*slot_recalled)(rg__slot *s, uint64_t generation);

    /* Under --mpi. */
    /* PROGRAM's, whether it has met us or not. */
    void (*process_ended)(rg__slot *s);
    void (*generation_ended)(rg__agent *a, uint64_t generation);
    void (*delivered)(rg__agent *a, const rg__proposal *p,
                      const rg__line *line);
    /* What the record says of launches has changed. */
    void (*swept)(rg__agent *a);
    /* false: it is no message of a launch; else the socket is owned. */
    bool (*launch_calls)(rg__agent *a, int sock, const void *bytes, size_t n,
                         pid_t pid);

    /* Listeners, and what a connection wants by its first message. */
    void (*worker_calls)(void *agent_arg, int listener, uint32_t events);
    void (*agent_calls)(void *agent_arg, int listener, uint32_t events);
    /* false: it is no question; else the socket is owned. */
    bool (*asked)(rg__agent *a, int sock, const void *bytes, size_t n);
    /* An agent's, of that rg__peer_type; false: it is malformed. */
    bool (*agent_asked)(rg__agent *a, rg__connection *c, uint32_t type,
                        const void *body, size_t n);

    /* Other hosts. */
    void (*beats_sent)(rg__agent *a); /* once a period */
    void (*host_acked)(rg__agent *a, uint64_t host, uint64_t generation,
                       const char *text, size_t bytes);
    void (*host_offers)(rg__agent *a, uint64_t host, uint64_t generation,
                        const char *text, size_t bytes);
    void (*host_expects)(rg__agent *a, uint64_t host, uint64_t generation,
                         const char *text, size_t bytes);
    void (*host_told_death)(rg__agent *a, uint64_t host, uint64_t generation,
                            const char *text, size_t bytes);
    void (*offered)(rg__agent *a); /* a proposal, to this host as well */
    /* What is offered will resume from this commit, if it is decided. */
    void (*expected)(rg__agent *a, rg__commit_id resume);
    /* A member there certainly died. */
    void (*host_aborted)(rg__agent *a, uint64_t generation);
    void (*round_over)(rg__agent *a);  /* all have had time to look */
    void (*host_missed)(rg__agent *a); /* silent, when the job is done */
    void (*name_conflict_judged)(rg__agent *a,
                                 bool is_alive); /* it bears our name */
    /* The hosts that etcd does not answer. */
    void (*no_etcd_changed)(rg__agent *a);
    void (*leader_missed)(rg__agent *a); /* no agent leads */
    void (*paths_judged)(rg__agent *a);  /* between this host and the world */
    /* A host that can't publish why a generation ends has told the leader. */
    void (*ended_for)(rg__agent *a, uint64_t generation, const char *why);

    /* The vault. A commit came from other hosts, or did not. */
    void (*fetched)(rg__agent *a);
    void (*fetch_failed)(rg__agent *a);
    /* This host's part of a generation is broken: by the connection with that
     * host, or, with NULL, by what lies here. */
    void (*copy_broken)(rg__agent *a, uint64_t generation, const char *host,
                        const char *why);

    /* Generations. */
    void (*done)(rg__agent *a); /* the job is */
} rg__events;

#endif
