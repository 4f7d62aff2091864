/* An agent's state. What belongs to one room is a struct that only that room
 * knows, behind a pointer here; all of it is used on the thread of one loop. */
#ifndef RG_AGENT_STATE_H
#define RG_AGENT_STATE_H

#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "elastic/agent/base/events.h"
#include "elastic/agent/base/life.h"
#include "elastic/agent/base/agent_params.h"
#include "elastic/agent/base/slot_machine.h"
#include "elastic/agent/base/txn.h"
#include "elastic/etcd/etcd.h"
#include "elastic/member/plan.h"
#include "elastic/member/records.h"
#include "elastic/member/resume.h"
#include "sdk/base/loop.h"
#include "sdk/base/record.h"
#include "sdk/base/wire.h"

#define RG__CHANGES_MAX      RG__LINES_KEPT /* whose times are kept */
#define RG__RECOVERY_BUCKETS 11
#define RG__GIVEN_UP_MAX     64

typedef struct rg__agent rg__agent;
typedef struct rg__fdstore rg__fdstore;
typedef struct rg__connection rg__connection;
typedef struct rg__watcher rg__watcher;
typedef struct rg__output rg__output;
typedef struct rg__beats rg__beats;
typedef struct rg__fetch rg__fetch;
typedef struct rg__replication rg__replication;
typedef struct rg__paths rg__paths;
typedef struct rg__asked rg__asked;
typedef struct rg__scrape rg__scrape;
typedef struct rg__saver rg__saver;
typedef struct rg__wait_list rg__wait_list;
typedef struct rg__guest rg__guest;
typedef struct rg__vault_buffer rg__vault_buffer;
typedef struct rg__vault_segment rg__vault_segment;
typedef struct rg__notices rg__notices;

/* A message that the socket has had no room for yet. */
typedef struct rg__message {
    struct rg__message *next;
    int fd; /* owned, -1: none */
    size_t n;
    char bytes[];
} rg__message;

/* The sets of a worker, as it has told. */
typedef struct rg__listed_sets {
    uint32_t asked, told; /* the newest ask, and the newest answer */
    uint32_t coming;      /* ask that the lines below are the answer to */
    uint64_t generation;  /* whose ranks they have */
    char *bytes; /* rg__set_entry after rg__set_entry, checked; owned */
    size_t n;
} rg__listed_sets;

/* A proposal that its leader has said to all hosts and not recorded: it counts
 * as if it were on record while that leader leads and `cur` has not moved. */
typedef struct rg__offer {
    int64_t token, cur; /* as in the proposal */
    char op[33];        /* "": the agent before us has taken it up */
    char *text;         /* the proposal as JSON, owned; NULL likewise */
    uint64_t since_ns;
    uint64_t ended; /* newest generation that we have ended because of it */
} rg__offer;

/* The process in a slot that called rg_init. Gone (pid 0) before it did. */
typedef struct rg__worker {
    pid_t pid;
    int pidfd, sock;
    rg__page *page;
    rg__record *record; /* behind it */
    int page_fd;
    rg__watcher *watcher;
    rg__message *waiting; /* in order; the oldest first */
    bool waits;           /* in rg_world_wait, or between that and rg_run */
    uint32_t port;        /* of its listener for workers of other hosts */
    bool is_finalized;
    uint64_t loaded;  /* as in DOOR; 0 once its memory is to be another's */
    bool has_stood;   /* has said where it stands, or met this agent first */
    bool is_crashed;  /* by its own word; it may be dumping core */
    int crash_signal; /* then */
    uint64_t lost_ns;
    uint64_t entered; /* generation whose data plane it may hold, 0: none */
    uint64_t asked;   /* newest generation that it was asked to build */
    uint64_t pending, decided; /* as it said when it stood */
    int build_failures;        /* in a row */
    uint64_t built, fin;
    int silent_ticks;
    uint64_t examined_ns; /* until then it may be stopped, for its stacks */
    rg__listed_sets sets;
} rg__worker;

/* What the next agent has to know about a slot. */
typedef struct rg__slot_saved {
    rg__slot_state state;
    uint32_t start;            /* processes started in this slot so far */
    pid_t child;               /* PROGRAM's process and group leader, 0: none */
    bool has_finished;         /* its fn returned OK, and the job is done */
    int exit_code;             /* of the last child; 128 + n for a signal */
    uint64_t ended_ns;         /* when that was known */
    int failures, early_exits; /* since the newest commit was made after one */
    uint64_t failed_at;        /* the newest commit's step then */
    uint64_t charged; /* launch whose end counts as such a failure; 0: none */
    char given_up[RG__GIVEN_UP_MAX]; /* why, as "failed too often" */
    int quick_deaths;                /* in a row, each soon after its start */
    uint64_t started_ns;
    char death[RG__CAUSE_MAX]; /* why the worker of this start is lost, or "" */
    bool is_loss;              /* its death is a reason to end generations */
    bool is_recalled; /* it starts again with all others of a first world */
    bool has_stepped; /* the worker of this start has ended a step */
    bool is_wrapped;  /* the child only runs it, and dies for other reasons */
    uint64_t local_bytes; /* of its worker's local buffers, in each slot of the
                             vault */
} rg__slot_saved;

typedef struct rg__slot {
    rg__agent *a;
    uint32_t index;
    rg__slot_saved saved;
    int child_pidfd;
    bool is_adopted;    /* the child is the supervisor's, of an earlier agent */
    bool has_rested;    /* when that was killed: it had no worker any more */
    uint64_t unable_ns; /* no process could be started since; 0: one could */
    uint64_t died_in;   /* the generation that it computed in, 0: none */
    char oom_file[192]; /* counts kills for lack of memory in its control group,
                           "": there is no such file */
    uint64_t oom_kills; /* that are known already */
    rg__timer *respawn, *fence, *reap, *hold;
    rg__timer *orphan; /* an adopted child has ended, and its code is on its
                          way from the supervisor */
    rg__output *output;
    rg__worker w;
    struct {
        rg__page *page;
        rg__record *record;
        pid_t pid;
    } fallen; /* the last worker that has ended, for dumps; NULL: none */
} rg__slot;

typedef struct rg__change { /* times of one generation on this host, ns */
    uint64_t generation;
    uint64_t detected, proposed, built, decided, synced, stepped;
} rg__change;

/* How long changes have taken, for metrics. */
typedef struct rg__recoveries {
    uint64_t count[RG__RECOVERY_BUCKETS], all;
    double seconds;
} rg__recoveries;

/* What runs here, as all others run it (job_spec.c). */
struct rg__job_spec {
    bool is_known, is_asking; /* it is what the job runs */
    bool has_registered;      /* a worker has come to the door: */
    uint32_t registered_by;
    uint64_t registered; /* what all others register as well */
};

/* Sockets for processes of this host, and for other agents. */
struct rg__sockets {
    int listener;
    int peer_listener; /* TCP at a->port, for other agents */
    rg__timer *rest;   /* no call is accepted meanwhile; NULL: none yet */
    rg__timer *resend; /* of messages that wait */
};

/* How this agent ends, as far as that is known. */
struct rg__verdict {
    bool is_asked; /* by an operator: nothing has failed */
    int code;
    char why[RG__TEXT_MAX];
};

/* What this host's record says of launches (--mpi). */
struct rg__launch_word {
    uint64_t swept, broke;
    char why[RG__CAUSE_MAX]; /* it broke */
    int code;                /* of the rank that did it; 0: another reason */
    rg__broke_by by;
    bool ends_itself; /* ranks that end now are missed when it is over */
};

/* This incarnation. */
struct rg__life {
    int64_t lease_id;    /* 0: none yet */
    uint32_t agents;     /* it has had so many; this one too */
    uint64_t most_step;  /* the most steps that a worker here has ended */
    uint64_t offered;    /* generation of an offer that this host has taken up
                           and that was not on record then; 0: none */
    bool has_world;      /* the supervisor knows that the first one is formed */
    int hosts_before;    /* that had a record when its first agent came */
    uint64_t opening_ns; /* since it is */
    rg__life_state state;
};

/* How this host leaves while the job goes on. */
struct rg__departure {
    bool is_draining;   /* workers are to leave at the next commit */
    bool is_leaving;    /* this host goes, the job does not */
    uint64_t notice_ms; /* it leaves by a notice, and waits so long for others
                           that do; 0: no notice */
};

/* Looks at the operations and stacks of workers. */
struct rg__dumping {
    struct rg__dump *first; /* of those under way */
    uint64_t newest;        /* generation whose dump is in a file */
    int files;
    int holders; /* processes that may stop workers, for their stacks */
};

struct rg__agent {
    const rg__events *on; /* what follows from what happens */
    rg__agent_params own; /* --min and --max are the job's, once it is known,
                             and so is the budget */
    const rg__agent_params *params; /* = &own */
    rg__meta meta;                  /* of the job that we would make */
    rg__fdstore *fdstore;           /* what outlives this agent; borrowed */
    rg__loop *loop;
    rg__etcd *etcd;
    rg__owed owed; /* acts on etcd for which there was no memory */
    rg__lease *lease;
    rg__mirror *mirror; /* of all/ */
    char *prefix, *prefix_end;
    uint64_t id; /* of this incarnation */
    struct rg__life life;
    rg__address address; /* of this host, for all others */
    uint32_t port;       /* of this agent there: UDP and TCP */
    uint8_t key[RG__KEY_BYTES];
    struct rg__sockets sockets;
    rg__wait_list *waits; /* NULL before the first */

    /* workers */
    rg__slot *slot; /* params->slots of them */
    int elastic;    /* of the workers; -1: none has met us */
    struct rg__job_spec spec;
    bool is_paused; /* their processes are stopped */
    struct rg__crew *crew;
    struct rg__launches *launches;
    struct rg__launch_word launch;
    struct rg__printer *printer;
    struct rg__control *control;
    struct rg__dumping dumping;
    struct rg__timeline *timeline; /* NULL: none is written */
    struct rg__scalars *scalars;   /* NULL: not wanted */

    /* hosts */
    rg__beats *beats;
    struct rg__suspects *suspects;
    rg__connection *connections;
    rg__paths *paths; /* between this host and the world, while it is outside */

    /* commits */
    struct rg__store *store;
    rg__fetch *fetch; /* of the resume commit into our vault; NULL: none */
    rg__replication *replication;
    rg__saver *saver; /* of checkpoints */

    /* generations */
    rg__snapshot view;  /* of all/, parsed after each change */
    rg__snapshot known; /* of the whole, parsed before the leader looks; empty
                             while another agent leads */
    rg__offer offer;
    uint64_t delivered;   /* newest decision that was passed on */
    uint64_t acking;      /* generation whose ack is said */
    uint64_t aborted;     /* highest aborted generation */
    uint64_t detected_ns; /* of the change that is under way */
    struct rg__generation *generation;
    struct rg__leader *leader;
    struct rg__publication *publication;
    struct rg__acks *acks;

    /* the end */
    bool is_done;
    struct rg__departure departure;
    struct rg__verdict verdict;
    struct rg__leaving *leaving;
};

#endif
