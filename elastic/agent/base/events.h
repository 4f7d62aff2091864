/* What happens inside the agent. A file that learns of one says so with
 * a->on->EVENT(...) and calls nobody above it; the one list in agent.c says
 * what follows from each, and in which order.
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

typedef struct agent agent;
typedef struct slot slot;
typedef struct connection connection;

typedef struct rg__events {
    /* The exits (exits.h): this host leaves, or the job ends; a->verdict says
     * why.
     */
    void (*leave)(agent *a, int code);
    void (*end)(agent *a, int code);
    void (*open_late)(agent *a); /* the job is not open in time */
    /* Something that the agent's end waits for may be over. */
    void (*settled)(agent *a);
    /* The next agent would have to know something else than before. */
    void (*noted)(agent *a);

    /* The keys of all/ are other ones than before; the lease is held again. */
    void (*view_moved)(agent *a);
    void (*lease_renewed)(agent *a);

    /* Slots. */
    void (*slot_untold)(slot *s); /* a message for its worker is lost */
    void (*slot_met)(slot *s);    /* its worker has called rg_init */
    void (*slot_at_door)(slot *s, uint64_t registered);
    void (*slot_left)(slot *s);  /* a generation */
    void (*slot_built)(slot *s); /* one */
    void (*slot_fin)(slot *s);
    void (*slot_committed)(slot *s); /* a commit counts */
    /* A worker's connection, with that host or NULL, is broken; bytes of one
     * are not acknowledged. */
    void (*slot_broken)(slot *s, uint64_t generation,
                        const rg__proposal_host *host, const char *why);
    void (*slot_stuck)(slot *s, uint64_t host, uint64_t bytes);
    /* Its worker is dead: a reason for the generation it is in to end; in
     * which, its page said alone; and in any case. */
    void (*slot_lost)(slot *s, const char *why);
    void (*page_told)(agent *a, uint64_t generation);
    void (*slot_dead)(slot *s);
    void (*slot_fenced)(slot *s); /* can't store any more */
    void (*slot_reaped)(slot *s, rg__member_id was);
    void (*slot_changed)(slot *s); /* what its record says */
    /* It has told an agent that took over where it stands. */
    void (*slot_stood)(slot *s, bool is_at_door, uint64_t registered);
    /* A member is gone when the job is done, and others may wait for it. */
    void (*world_over)(agent *a, uint64_t generation);
    void (*workers_pinged)(agent *a);
    void (*sets_told)(agent *a); /* a worker has shown its sets */
    /* The first world that its worker was in has ended before it began. */
    void (*slot_recalled)(slot *s, uint64_t generation);

    /* Under --mpi. */
    void (*process_ended)(
        slot *s); /* PROGRAM's, whether it has met us or not */
    void (*generation_ended)(agent *a, uint64_t generation);
    void (*delivered)(agent *a, const rg__proposal *p, const rg__line *line);
    void (*swept)(agent *a); /* what the record says of launches has changed */
    /* false: it is no message of a launch; else the socket is owned. */
    bool (*launch_calls)(agent *a, int sock, const void *bytes, size_t n,
                         pid_t pid);

    /* Listeners, and what a connection wants by its first message. */
    void (*worker_calls)(void *agent_arg, int listener, uint32_t events);
    void (*agent_calls)(void *agent_arg, int listener, uint32_t events);
    /* false: it is no question; else the socket is owned. */
    bool (*asked)(agent *a, int sock, const void *bytes, size_t n);
    /* An agent's, of that rg__peer_type; false: it is malformed. */
    bool (*agent_asked)(agent *a, connection *c, uint32_t type,
                        const void *body, size_t n);

    /* Other hosts. */
    void (*beats_sent)(agent *a); /* once a period */
    void (*host_acked)(agent *a, uint64_t host, uint64_t generation,
                       const char *text, size_t bytes);
    /* A member there certainly died. */
    void (*host_aborted)(agent *a, uint64_t generation);
    void (*round_over)(agent *a);  /* all have had time to look */
    void (*host_missed)(agent *a); /* silent, when the job is done */
    void (*rival_judged)(agent *a, bool is_alive); /* it bears our name */
    void (*mute_changed)(agent *a);  /* the hosts that etcd does not answer */
    void (*leader_missed)(agent *a); /* nobody leads */
    void (*paths_judged)(agent *a);  /* between this host and the world */
    /* The leader knows of a host that can't say so why a generation ends. */
    void (*ended_for)(agent *a, uint64_t generation, const char *why);

    /* The vault. A commit came from other hosts, or did not. */
    void (*fetched)(agent *a);
    void (*fetch_failed)(agent *a);
    /* This host's part of a generation is broken: by the connection with that
     * host, or, with NULL, by what lies here. */
    void (*copy_broken)(agent *a, uint64_t generation, const char *host,
                        const char *why);

    /* Generations. */
    void (*done)(agent *a); /* the job is */
} rg__events;

#endif
