/* An agent's state. What belongs to one room is a struct that only that room
 * knows, behind a pointer here; all of it is used on the thread of one loop. */
#ifndef RG_AGENT_STATE_H
#define RG_AGENT_STATE_H

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "elastic/agent/base/events.h"
#include "elastic/agent/base/params.h"
#include "elastic/agent/base/slot_machine.h"
#include "elastic/agent/base/txn.h"
#include "elastic/etcd/etcd.h"
#include "elastic/member/plan.h"
#include "elastic/member/records.h"
#include "elastic/member/resume.h"
#include "sdk/base/loop.h"
#include "sdk/base/wire.h"

#define RG__CHANGES_MAX      RG__LINES_KEPT /* whose times are kept */
#define RG__RECOVERY_BUCKETS 11
#define RG__GIVEN_UP_MAX     64

typedef struct agent agent;
typedef struct rg__keep rg__keep;
typedef struct connection connection;
typedef struct watcher watcher;
typedef struct output output;
typedef struct beats beats;
typedef struct transfer transfer;
typedef struct copies copies;
typedef struct paths paths;
typedef struct question question;
typedef struct scrape scrape;
typedef struct drain_ask drain_ask;
typedef struct scale_ask scale_ask;
typedef struct saver saver;
typedef struct wait_list wait_list;
typedef struct guest guest;
typedef struct buffer buffer;
typedef struct segment segment;
typedef struct rg__notices rg__notices;

/* A message that the socket has had no room for yet. */
typedef struct message {
    struct message *next;
    int fd; /* owned, -1: none */
    size_t n;
    char bytes[];
} message;

/* The sets of a worker, as it has told. */
typedef struct shown {
    uint32_t asked, told; /* the newest ask, and the newest answer */
    uint32_t coming;      /* ask that the lines below are the answer to */
    uint64_t generation;  /* whose ranks they have */
    char *bytes;          /* rg__set_line after rg__set_line, checked; owned */
    size_t n;
} shown;

/* The process in a slot that called rg_init. Gone (pid 0) before it did. */
typedef struct worker {
    pid_t pid;
    int pidfd, sock;
    rg__page *page;
    int page_fd;
    watcher *watcher;
    message *waiting; /* in order; the oldest first */
    bool waits;       /* in rg_world_wait, or between that and rg_run */
    uint32_t port;    /* of its listener for workers of other hosts */
    bool is_finalized;
    uint64_t loaded; /* as in DOOR; 0 once its memory is to be another's */
    bool has_stood;  /* has said where it stands, or met this agent first */
    bool is_crashed; /* by its own word; it may be dumping core */
    uint64_t lost_ns;
    uint64_t entered; /* generation whose data plane it may hold, 0: none */
    uint64_t asked;   /* newest generation that it was asked to build */
    uint64_t pending, decided; /* as it said when it stood */
    int build_failures;        /* in a row */
    uint64_t built, fin;
    int silent_ticks;
    shown sets;
} worker;

/* What the next agent has to know of a slot. */
typedef struct slot_kept {
    slot_state state;
    uint32_t start;            /* processes started in this slot so far */
    pid_t child;               /* PROGRAM's process and group leader, 0: none */
    bool has_finished;         /* its fn returned OK, and the job is done */
    int exit_code;             /* of the last child; 128 + n for a signal */
    int failures, early_exits; /* since the newest commit was made after one */
    uint64_t failed_at;        /* the newest commit's step then */
    char given_up[RG__GIVEN_UP_MAX]; /* why, as "failed too often" */
    int quick_deaths;                /* in a row, each soon after its start */
    uint64_t started_ns;
    char death[RG__CAUSE_MAX]; /* why the worker of this start is lost, or "" */
    bool is_loss;              /* its death is a reason to end generations */
    bool is_recalled; /* it starts again with all others of a first world */
    bool has_stepped; /* the worker of this start has ended a step */
    bool is_wrapped;  /* the child only runs it, and dies for other reasons */
} slot_kept;

typedef struct slot {
    agent *a;
    uint32_t index;
    slot_kept kept;
    int child_pidfd;
    bool is_adopted;    /* the child is the keeper's, of an earlier agent */
    uint64_t unable_ns; /* no process could be started since; 0: one could */
    uint64_t died_in;   /* the generation that it computed in, 0: none */
    char oom_file[192]; /* counts what the kernel kills for want of memory where
                           it runs, "": nothing does */
    uint64_t oom_kills; /* that are no news */
    rg__timer *respawn, *fence, *reap, *hold;
    rg__timer *orphan; /* an adopted child has ended, and its code is on its
                          way from the keeper */
    output *output;
    worker w;
} slot;

/* How far taking over from an agent that was killed has come. */
typedef enum takeover {
    RESUME_NOT,
    RESUME_ADOPT,
    RESUME_STAND, /* workers are asked where they stand */
    RESUME_VIEW   /* they have said so, and etcd is asked */
} takeover;

typedef struct change { /* times of one generation on this host, ns */
    uint64_t generation;
    uint64_t detected, proposed, built, decided, synced, stepped;
} change;

/* How long changes have taken, for metrics. */
typedef struct recoveries {
    uint64_t count[RG__RECOVERY_BUCKETS], all;
    double seconds;
} recoveries;

/* Copies of the resume commit that other hosts have fetched from here. */
typedef struct served {
    uint64_t generation;
    int sent, stored; /* of which the sink has said so */
    uint64_t at_ns;
} served;

struct agent {
    const rg__events *on; /* what follows from what happens */
    rg__agent_params own; /* --min and --max are the job's, once it is known */
    const rg__agent_params *params; /* = &own */
    rg__meta meta;                  /* of the job that we would make */
    rg__keep *keep;                 /* what outlives this agent; borrowed */
    pid_t keeper;                   /* 0: none */
    rg__loop *loop;
    rg__etcd *etcd;
    owed owed; /* acts on etcd that there was no memory for */
    rg__lease *lease;
    rg__mirror *mirror; /* of all/ */
    rg__mirror *whole;  /* of all keys of the job, while this agent leads */
    char *prefix, *prefix_end;
    char *all, *all_end; /* prefix of what every agent watches */
    uint64_t id;         /* of this incarnation */
    int64_t lease_id;    /* 0: none yet */
    uint32_t agents;     /* that have had this incarnation, this one too */
    takeover resume;
    bool is_working;     /* workers may start */
    bool is_paused;      /* their processes are stopped */
    rg__address address; /* of this host, for all others */
    uint32_t port;       /* of this agent there: UDP and TCP */
    int listener, signal_fd;
    uint8_t key[RG__KEY_BYTES];
    char socket_path[108];

    slot *slot;  /* params->slots of them */
    int elastic; /* of the workers; -1: none has met us */
    rg__timer *ping, *resend;
    struct rlimit descriptors; /* as we were started */

    rg__vault *vault;
    int vault_fd;
    buffer *buffer;
    segment *segment;
    int buffers, segments;

    int peer_listener; /* TCP at a->port, for other agents */
    connection *connections;
    transfer *transfer; /* of the resume commit into our vault; NULL: none */
    copies *copies;
    paths *paths; /* between this host and the world, while it is outside */
    saver *saver; /* of checkpoints */

    /* generations */
    rg__snapshot view; /* of all/, parsed after each change */
    uint64_t prepared; /* newest proposal that was taken up */
    uint64_t prepared_ns;
    rg__timer *prepare_timer; /* its PREPAREs could not go out yet */
    rg__timer *missed_timer;  /* the world of a job that is done ends */
    uint64_t delivered;       /* newest decision that was passed on */
    uint64_t acking, finning; /* generation whose ack or fin is said */
    uint64_t aborted;         /* highest aborted generation */
    rg__etcd_req *beginning;  /* all/begun is on its way, guarded by */
    int64_t begins_at;        /* this mod_revision of cur */
    uint64_t unrecorded_ns;   /* workers here wait for that record, and etcd
                                 answers, since; 0: no such */
    uint64_t most_step;       /* the most steps that a worker here has ended */
    bool is_done;
    change *change; /* the newest, in the order in which they began */
    int changes;
    recoveries past;      /* of changes that are not kept any more */
    uint64_t detected_ns; /* of the change that is under way */

    /* this host's record */
    uint64_t seq;
    int64_t host_revision; /* mod_revision of our record, 0: none */
    rg__etcd_req *publishing;
    bool is_dirty;
    rg__reason *reason; /* not yet in etcd, or on the way */
    int reasons, reasons_sent;

    /* leadership */
    rg__snapshot known;    /* of the whole, parsed before a look; empty while
                              another agent leads */
    bool is_known_old;     /* the mirror has moved on */
    uint64_t read_next_ns; /* not before */
    rg__etcd_req *acting;
    int64_t acted_on; /* revision of `known` then */
    uint64_t away_ns; /* since when etcd is away, as we were told; 0: it is not
                       */
    rg__timer *look_timer;
    rg__plan_clock clock;
    bool is_competing;
    int forming_said; /* 1 + the workers that were there when it was said that
                         the first world waits; 0: it was not */

    beats *beats;
    char *ack;       /* ours, until the generation is decided; or NULL */
    uint64_t minded; /* generation whose acks we wait for as the leader */
    rg__timer *suspect_timer;
    uint64_t mute_mark;  /* of the mute hosts that the last look stood on */
    uint64_t round_ns;   /* all were asked to look at each other then */
    int64_t round;       /* revision of that asking */
    uint64_t spoken_for; /* the newest generation ended for a host that etcd
                            does not answer */
    uint64_t told_generation, told_ns; /* a host has told the leader of its
                                          abort; 0: no */
    rg__etcd_req *toppling;
    rg__suspicion
        *accused; /* as read last, while we accuse the leader; owned */
    int accusations;
    uint64_t judge_ns; /* when to read them again */

    wait_list *waits;         /* NULL before the first */
    guest *guests;            /* the newest first */
    rg__timer *rest_timer;    /* nobody is accepted meanwhile; NULL: none yet */
    uint64_t refusals_ns;     /* since then, */
    unsigned refusals;        /* so many were refused */
    output *outputs;          /* of processes, until all is written */
    struct stream *within[2]; /* a line on our standard output, error */
    bool has_no_output_dir;   /* said once */
    question *questions;
    uint32_t sets_asked; /* how often workers were asked for their sets */
    scrape *scrape;
    char metrics_at[64]; /* where metrics are shown; "": nowhere */
    drain_ask *drain_asks;
    scale_ask *scale_asks;

    /* the end */
    bool is_draining; /* workers are to leave at the next commit */
    served served;
    bool is_leaving; /* this host goes, the job does not */
    uint64_t drain_end_ns;
    rg__timer *drain_timer;
    rg__notices *notices; /* NULL: nobody is asked */
    rg__timer *notice_timer;
    uint64_t notice_ms;   /* this host goes by a notice, and waits so long for
                             others that do; 0: no */
    bool has_passed_over; /* a notice, since the program is static */
    bool has_shape, is_asking_shape; /* what runs here is what the job runs */
    bool has_registered;             /* a worker has come to the door: */
    uint32_t registered_by;
    uint64_t registered; /* what all others register as well */
    bool has_published;
    uint64_t rival;
    int64_t rival_revision;
    uint64_t rival_ns; /* another agent of this name is being asked; 0: no */
    bool is_stopping;  /* the job ends with the step that is under way */
    int stop_code;
    uint64_t step_end_ns; /* and that is waited for until then; 0: not yet */
    uint64_t step_say_ns; /* and said at this time */
    bool has_said_step;
    rg__timer *step_timer;
    bool is_ending, is_saying_end, is_over;
    bool ends_job;     /* so the job is over, not only this host gone */
    bool is_asked;     /* to end, by an operator: nothing has failed */
    bool is_hurried;   /* what workers printed need not be written any more */
    bool is_cut_short; /* nor anything else: asked to end a second time */
    int exit_code;
    char why[RG__TEXT_MAX];
    rg__timer *term_timer, *kill_timer, *end_timer, *outage_timer;
    uint64_t
        outage_ns; /* nothing goes on here without etcd since; 0: it does */
};

#endif
