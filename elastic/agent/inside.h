/* The agent's parts, all on the thread of one loop:
 *
 *   base/         what all of them use: events, exits, view, messages,
 *                 transactions
 *   agent.c       the list of what follows from each event; set-up and end
 *   open.c        the job is opened in etcd
 *   end.c         the agent ends, or the job
 *   slots.c       processes in slots: start, death, fence, start again
 *   fence.c       can a dying process still store?
 *   guests.c      connections that have not said yet what they want
 *   workers.c     sockets: who meets us, what workers say
 *   watch.c       robust words: who died, within 0.1 ms (a thread per worker)
 *   beat.c        heartbeats between agents, and what they say
 *   ack.c         acks to the leader, and those that the leader hears
 *   suspect.c     accusations, and which hosts are lost
 *   address.c     which address of this host others use
 *   vault.c       the vault, and rg_alloc segments
 *   peers.c       connections with other agents (peers.h)
 *   parcel.c      parts of commits on their way (parcel.h)
 *   copies.c      shards of this host on others, and theirs here
 *   transfer.c    the commit to resume from, out of other hosts' vaults
 *   paths.c       a newcomer proves that it and the world reach each other
 *   shape.c       all hosts run the same program
 *   drain.c       leaving a job that goes on elsewhere
 *   noticed.c     leaving because somebody will take this host away
 *   checkpoint.c  commits that become files (saver.h, writer.h)
 *   last.c        the newest commit, before the job ends
 *   changes.c     how long changes of the world have taken
 *   generation.c  this host's part in generations
 *   leader.c      the leader's part: snapshot, plan, CAS
 *   publish.c     this host's record and reasons
 *   waits.c       what this agent waits for, and since when (waits.h)
 *   outage.c      what only etcd could end
 *   output.c      what workers print
 *   question.c    what CLI processes ask
 *   shown.c       which sets workers have
 *   report.c      the status document
 *   story.c       what has befallen the job
 *   summary.c     what is said of the job at its end
 *   drain_ask.c   a host is asked to leave
 *   scale_ask.c   the job is asked for another size
 *   metrics.c     numbers for Prometheus
 *   scrape.c      who asks for them over HTTP
 *   resume.c      taking over from an agent that was killed
 *
 * and, in the process that starts the agent:
 *
 *   keeper.c      starts it, and again when it is killed
 *   kept.c        records of what must outlive it
 *   keep.c        its end of them
 */
#ifndef RG_AGENT_INSIDE_H
#define RG_AGENT_INSIDE_H

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "elastic/agent/agent.h"
#include "elastic/agent/base/events.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/keep.h"
#include "elastic/agent/peers.h"
#include "elastic/agent/scrape.h"
#include "elastic/agent/waits.h"
#include "elastic/etcd/etcd.h"
#include "elastic/member/plan.h"
#include "elastic/member/records.h"
#include "elastic/member/resume.h"
#include "sdk/base/loop.h"
#include "sdk/base/wire.h"

#define RG__CHANGES_MAX      RG__LINES_KEPT /* whose times are kept */
#define RG__RECOVERY_BUCKETS 11
#define RG__GIVEN_UP_MAX     64

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
    bool is_ready;    /* holds its robust mutex */
    bool is_at_door;
    uint32_t port; /* of its listener for workers of other hosts */
    bool is_finalized;
    uint64_t loaded; /* as in DOOR; 0 once its memory is to be another's */
    bool has_stood;  /* has said where it stands, or met this agent first */
    bool is_dead;    /* computes no more, as far as anybody can see */
    bool is_crashed; /* by its own word; it may be dumping core */
    uint64_t lost_ns;
    bool is_fenced;   /* can't store into shared memory any more */
    uint64_t entered; /* generation whose data plane it may hold, 0: none */
    uint64_t asked;   /* newest generation that it was asked to build */
    uint64_t pending, decided; /* as it said when it stood */
    int build_failures;        /* in a row */
    uint64_t built, fin;
    int silent_ticks;
    shown sets;
} worker;

typedef struct slot {
    agent *a;
    uint32_t index, start; /* processes started in this slot so far */
    pid_t child;           /* PROGRAM's process and group leader, 0: none */
    int child_pidfd;
    bool is_adopted;   /* the child is the keeper's, of an earlier agent */
    bool is_closed;    /* starts no more */
    bool is_stopping;  /* we asked it to end */
    bool has_met;      /* this start called rg_init */
    bool has_finished; /* its fn returned OK, and the job is done */
    int failures, early_exits; /* since the newest commit was made after one */
    uint64_t failed_at;        /* the newest commit's step then */
    bool is_given_up;          /* closed, since it failed too often: */
    char given_up[RG__GIVEN_UP_MAX]; /* why, as "failed too often" */
    int quick_deaths;                /* in a row, each soon after its start */
    int exit_code; /* of the last child; 128 + n for a signal */
    uint64_t started_ns;
    uint64_t unable_ns; /* no process could be started since; 0: one could */
    char death[RG__CAUSE_MAX]; /* why the worker of this start is lost, or "" */
    uint64_t died_in;          /* the generation that it computed in, 0: none */
    bool is_loss;              /* its death is a reason to end generations */
    bool has_stepped;          /* the worker of this start has ended a step */
    bool is_wrapped;    /* the child only runs it, and dies for other reasons */
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

typedef struct buffer { /* a registered buffer's room in the vault */
    char name[RG__BUFFER_NAME_MAX];
    uint64_t bytes;
    uint64_t place; /* where its room begins in the vault's memory */
    uint32_t slots; /* of the vault, that it has room for */
    bool is_sharded;
    uint32_t replicas;
    uint64_t align;
    uint64_t by;   /* a bit for each slot whose process has registered it with
                      this agent */
    bool is_first; /* the first worker at the door had registered it */
} buffer;

typedef struct segment { /* rg_alloc memory */
    rg__member_id owner;
    uint32_t id;
    uint64_t bytes;
    int fd;
} segment;

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

/* agent.c */
extern const rg__events rg__agent_events; /* what follows */
/* The same, at the end of the step that is under way if a checkpoint is to be
 * made of it. */
void rg__agent_stop_job(agent *a, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Before the job ends: have the step that is under way end with a commit; true
 * while that is waited for. */
bool rg__agent_awaits_step(agent *a);
/* Put the job's end, of a->why and a->exit_code, into a txn and send it. */
void rg__agent_send_end(agent *a, job_txn *t, job_act again);
/* What follows from either, and from an end that others have written: workers
 * are ended, and then this agent. Nobody is told. */
void rg__agent_stop(agent *a, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What follows from the exits. */
void rg__agent_follow_end(agent *a, int code);
void rg__agent_follow_leave(agent *a, int code);
void rg__end_on_signal(void *agent_arg, int fd, uint32_t events);
/* Timers'. */
void rg__end_on_late(void *agent_arg);
void rg__end_look_at_step(void *agent_arg);
void rg__agent_check_end(agent *a); /* stop the loop once nothing is left */
/* open.c */
rg_status rg__open_names(agent *a); /* of the job that we would make */
void rg__open_job(agent *a);
void rg__open_on_late(void *agent_arg); /* it is not open for too long */
void rg__agent_take_lease(agent *a, const rg__meta *meta);
void rg__agent_tell_sizes(agent *a); /* the keeper, and that the job is open */
void rg__agent_end_wiped(agent *a);  /* etcd has another job's keys, or none */

/* slots.c */
rg_status rg__slots_create(agent *a);
void rg__slots_destroy(agent *a);
void rg__slots_start(agent *a);
void rg__slots_finish(agent *a);
void rg__slots_signal(agent *a, int signum);
/* SIGTERM for those that rg_run can't ask to end; a timer's: for those that
 * have not returned from it. */
void rg__slots_ask(agent *a);
void rg__slots_hasten(void *agent_arg);
/* At the agent's end, once they were killed: wait for them, and no longer. */
void rg__slots_await_end(agent *a);
void rg__slots_leave_behind(agent *a);
/* A timer's. */
void rg__slots_end_world(void *agent_arg);
/* Stop the processes of all slots, or let them go on. */
void rg__slots_pause(agent *a, bool pauses);
/* The first worker has said whether the program is elastic. */
void rg__slots_kind_is_known(agent *a);
/* This slot's worker computes no more, or must not: publish, kill, fence. */
void rg__slot_lost(slot *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With everybody in its process group. */
void rg__slot_kill(const slot *s);
/* The process of a lost worker is gone for good (pidfd). */
void rg__slot_gone(slot *s);
/* Where does its worker, or its child, run? */
void rg__slot_note_group(slot *s, pid_t pid);
/* What the next agent would have to know of it. */
void rg__slot_keep(const slot *s);
/* Go on with the slot that an earlier agent had; then, once its worker and
 * output are there, with its process. */
void rg__slot_resume(slot *s);
void rg__slot_resume_child(slot *s);
/* Its loss was found before the job's keys were there: publish it now. */
void rg__slot_publish_loss(slot *s);
/* All that live have said where they stand: end what the dead were in. */
void rg__slots_abort_losses(agent *a);
void rg__slots_on_ended(void *agent_arg, int32_t pid, int32_t status);

/* fence.c: of a worker that is lost. */
bool rg__fence_can_store(const worker *w);
bool rg__fence_is_dumping(const worker *w);
char rg__fence_state(pid_t pid); /* as in `ps`: S, D, Z ..; '?' when gone */

/* guests.c */
void rg__guest_accept(void *agent_arg, int listener, uint32_t events);
void rg__guests_drop(agent *a);

/* workers.c */
/* A connection's first message, of a process of our uid; owns the socket. */
void rg__worker_hello(agent *a, int sock, const void *bytes, size_t n,
                      pid_t pid);
void rg__worker_refuse(agent *a, int sock, const char *why);
rg_status rg__workers_listen(agent *a);
void rg__workers_close(agent *a);
void rg__worker_forget(slot *s);     /* after its death is known and fenced */
void rg__worker_drain(slot *s);      /* read what it said before it died */
void rg__worker_resume(slot *s);     /* of an earlier agent, if there is one */
void rg__worker_drop(const slot *s); /* the next agent need not know it */
void rg__workers_ping(void *agent_arg);

/* watch.c: fn is called on the loop's thread once the word says that the
 * worker is dead, or its page that it is dying. */
typedef void (*watch_fn)(void *arg);
rg_status rg__watch_create(rg__loop *loop, rg__page *page, watch_fn fn,
                           void *arg, watcher **watcher_p);
void rg__watch_destroy(watcher *watcher); /* NULL allowed */

/* beat.c. A peer is another agent, by incarnation; it is expected to beat, or
 * only watched because it is accused or was asked. */
typedef struct peer {
    agent *a;
    uint64_t id;
    char name[RG__NAME_MAX];
    struct sockaddr_storage at;
    socklen_t at_bytes;
    bool is_target;                 /* it expects our beats */
    bool is_expected, was_expected; /* we expect its */
    bool is_known; /* of the world, of the proposal, or the leader */
    uint64_t heard_ns, answered_ns; /* any datagram; an answer to a probe */
    uint64_t stuck_ns;   /* bytes to it got no ack when a worker looked last */
    uint64_t hole_ns;    /* a large probe was sent then that is not answered */
    size_t probe_bytes;  /* such a one, as the path is said to take it */
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
} peer;
rg_status rg__beat_open(agent *a); /* at a->port */
void rg__beat_close(agent *a);
void rg__beat_start(agent *a);
void rg__beat_follow(agent *a); /* the view or what the leader knows changed */
/* A generation is aborted for a certain reason: neighbours and the leader, who
 * tells everybody, need not wait for etcd. */
void rg__beat_abort(agent *a, uint64_t generation);
/* Send a probe to every known peer, now and with every beat until it answers.
 */
void rg__beat_probe_all(agent *a);
/* The same for one, which a worker here does not get through to. */
void rg__beat_ask(agent *a, uint64_t host);
/* The same; so many bytes of a worker here are not acknowledged by it. */
void rg__beat_note_stuck(agent *a, uint64_t host, uint64_t bytes);
/* And a worker there has let go of a connection: if the agent there is gone as
 * well, it has no grace. */
void rg__beat_link_broke(agent *a, uint64_t host);
/* Send one a probe, once; and has one answered since then? */
void rg__beat_probe(agent *a, uint64_t host);
bool rg__beat_has_answered(const agent *a, uint64_t host, uint64_t since_ns);
/* This host's ack to the leader. */
void rg__beat_ack(agent *a, uint64_t leader, uint64_t generation,
                  const char *text);
int rg__beat_peers(const agent *a);
peer *rg__beat_peer(const agent *a, int i);
peer *rg__beat_self(const agent *a); /* to accuse ourselves; NULL: not yet */

/* Datagrams since this agent began. */
typedef struct rg__beat_counts {
    uint64_t sent, received, refused;
} rg__beat_counts;
rg__beat_counts rg__beat_count(const agent *a);

/* Ask an agent that bears our host's name whether it lives: a verdict within
 * half the budget. */
void rg__beat_ask_rival(agent *a, const rg__proposal_host *rival);

/* ack.c */
/* This host acks the proposal. */
void rg__ack_say(agent *a, const rg__ack *ack);
void rg__ack_repeat(agent *a); /* with every beat */
/* That of a host, by incarnation. */
void rg__ack_hear(agent *a, uint64_t host, uint64_t generation,
                  const char *text, size_t bytes);
/* As the leader: say whose acks of the proposal are missing. */
void rg__acks_mind(agent *a);

/* drain.c */
void rg__drain_start(agent *a, uint64_t deadline_ms, const char *why);
void rg__drain_follow(agent *a, bool is_first);
void rg__drain_look(void *agent_arg);
bool rg__drain_is_needed(const agent *a); /* others fetch, or may fetch again */
/* There is no other host for whom to leave in order, or who could go on. */
bool rg__drain_is_alone(const agent *a);
void rg__leave_say(agent *a); /* that this host goes, with a->exit_code */

/* noticed.c */
rg_status rg__notice_open(agent *a);
void rg__notice_close(agent *a);
void rg__notice_look(void *agent_arg);
void rg__notice_signal(agent *a); /* SIGTERM: is it a notice here? */
/* This host has left: true while a source that wants to know is being told. */
bool rg__notice_tells(agent *a);
struct json_t *rg__notice_json(const agent *a);
bool rg__notice_stands(const agent *a); /* one, that counts */

/* shape.c: a worker has registered all it has. false: not what others have,
 * and we leave. */
bool rg__shape_take(slot *s, uint64_t registered);
/* Does what runs here, as far as known before, fit the job's? else we leave. */
bool rg__shape_fits(agent *a, const rg__kv *shape);

/* suspect.c: called with every beat, and when a round may be over. */
void rg__suspect_look(agent *a);
void rg__suspect_follow(agent *a);    /* somebody asked all to look */
void rg__suspect_forgive(agent *a);   /* we were late ourselves */
void rg__suspect_take_over(agent *a); /* what the agent before us accused */
void rg__suspect_forget(peer *one);   /* it goes: nothing of it is awaited */
void rg__suspect_heard(peer *one);    /* it has answered a probe */
/* As the leader: a host has said that it aborted the generation. */
void rg__suspect_told(agent *a, uint64_t generation);
/* What the leader knows has changed: is an accusation new? */
void rg__suspect_note(agent *a, const rg__suspicion *before, int n);
/* Hosts that the leader goes on without; while a round of looks is under way
 * *again_ns_p says when it will be over. */
int rg__suspect_lost(const agent *a, uint64_t *lost, int room,
                     uint64_t *again_ns_p);
/* Hosts that have said for the whole budget that etcd does not answer them. */
int rg__suspect_mute(const agent *a, uint64_t *mute, int room);
/* Equal for the same hosts in any order. */
uint64_t rg__suspect_mark(const uint64_t *hosts, int n);

/* address.c: params->advertise, or of params->interface, or the source of the
 * route to the first endpoint of etcd. */
rg_status rg__address_choose(agent *a);
/* Can the hosts of a world that are not on this machine reach this one? */
bool rg__address_is_reached(const agent *a, const rg__proposal *p);

/* vault.c */
rg_status rg__vault_create(agent *a);
uint64_t rg__vault_newest_step(const agent *a); /* that lies here whole */
void rg__vault_destroy(agent *a);
void rg__vault_register(slot *s, const rg__register *m);
void rg__vault_unregister(const slot *s); /* a process that has none yet */
/* The buffer of that description, made if it is not there. */
rg_status rg__vault_room(agent *a, const rg__register *m, int *index_p);
void rg__vault_describe(const buffer *b, rg__register *m);
void rg__vault_alloc(slot *s, const rg__segment *m);
void rg__vault_free(slot *s, uint32_t id);
void rg__vault_drop_owner(agent *a, rg__member_id owner);
void rg__vault_show_segments(slot *s); /* to a worker that has just met us */
/* What lies here of which commits; the shards are the caller's to free. */
int rg__vault_held(const agent *a, rg__held held[RG__VAULT_SLOTS]);
uint64_t rg__vault_bytes(const agent *a);
uint64_t rg__vault_shard_bytes(const agent *a);

/* copies.c */
rg_status rg__copies_create(agent *a);
void rg__copies_destroy(agent *a);
/* A generation is decided: this host's shards go to its next hosts. */
void rg__copies_begin(agent *a, const rg__proposal *p);
void rg__copies_committed(agent *a); /* a worker says that a commit counts */
/* peers.c: another agent's shards come. */
bool rg__copies_serve(agent *a, connection *c, const void *body, size_t n);

/* paths.c */
rg_status rg__paths_create(agent *a);
void rg__paths_destroy(agent *a);
void rg__paths_follow(agent *a); /* the view has changed, or a worker came */
/* May workers of this host come to the door? */
bool rg__paths_are_proved(const agent *a);
/* peers.c: another agent proves its paths. */
bool rg__paths_serve(agent *a, connection *c, const void *body, size_t n);

/* transfer.c. A decision was made: true when its resume commit must come from
 * another host first; rg__generation_pass_on is called then, or a reason is
 * published. */
bool rg__transfer_begin(agent *a, const rg__line *line);
void rg__transfer_cancel(agent *a);
/* The next proposal must wait until what is decided has been passed on. */
bool rg__transfer_holds(const agent *a, const rg__proposal *next);
/* peers.c: another agent asks for a commit. */
bool rg__transfer_serve(agent *a, connection *c, const void *body, size_t n);

/* checkpoint.c */
rg_status rg__checkpoint_create(agent *a);
void rg__checkpoint_destroy(agent *a);
void rg__checkpoint_ask(slot *s, const rg__save *m); /* a worker does */
void rg__checkpoint_show(const slot *s); /* what is durable, in its page */
void rg__checkpoint_follow(agent *a);    /* the view has changed */
bool rg__checkpoint_is_busy(const agent *a);
void rg__checkpoint_stop(agent *a); /* give up what is under way */
/* This agent ends: whatever is not durable by then is given up. */
void rg__checkpoint_bound(agent *a, uint64_t within_ns);

/* last.c: the job ends; its newest commit becomes a checkpoint first, if it is
 * to. */
bool rg__last_is_wanted(const agent *a);
void rg__last_begin(agent *a);
void rg__last_follow(agent *a); /* the view has changed */
void rg__last_note_loaded(const slot *s);

/* generation.c */
void rg__generation_pass_on(agent *a); /* the decision, to local workers */
void rg__generation_follow(agent *a);  /* the mirror has changed */
void rg__generation_hand_out(void *agent_arg); /* PREPAREs, as soon as it can */
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
void rg__change_note_steps(agent *a, uint64_t generation);
void rg__recoveries_add(recoveries *r, const change *c);
extern const double rg__recovery_bucket_s[RG__RECOVERY_BUCKETS];

/* leader.c */
void rg__leader_follow(agent *a); /* the view has changed: do we lead? */
void rg__leader_look(void *agent_arg);

/* publish.c; a reason without a slot is this host's. */
void rg__publish(agent *a);
/* An agent that bore our name is dead, or lives. */
void rg__publish_rival(agent *a, bool is_alive);
void rg__publish_fill(const agent *a, rg__host_record *host); /* slot: room */
void rg__publish_reason(agent *a, uint64_t generation, const slot *s,
                        bool is_death, const char *text);
/* The same of a connection between this host and another that broke. */
void rg__publish_broken_link(agent *a, uint64_t generation, const slot *s,
                             const char *host, const char *text);

/* outage.c: does this host wait for etcd alone, and for how long now? Called
 * when etcd is away or back, and by a timer in between. */
void rg__outage_look(void *agent_arg);

/* output.c */
rg_status rg__output_open(slot *s, int out[2], int err[2]);
/* Its process has ended; what it printed is written, now or soon. */
void rg__output_close(slot *s);
void rg__outputs_drop(agent *a);   /* written or not */
void rg__outputs_resume(agent *a); /* those of an earlier agent */

/* resume.c: all but what notes are nothing unless an agent was there before. */
/* The job that we are about to write into etcd, and that of an agent before us
 * that did not live to hear that it is written. */
void rg__resume_note_job(agent *a);
void rg__resume_job(agent *a);
void rg__resume_note(agent *a);  /* what the next agent would have to know */
bool rg__resume_names(agent *a); /* true: there was one */
void rg__resume_begin(agent *a);
void rg__resume_look(agent *a); /* a worker stands, or is dead */
void rg__resume_view(agent *a); /* the job's keys are here */

/* question.c: the first message of a connection; false: it is no question. The
 * socket is owned from then on. */
bool rg__question(agent *a, int sock, const void *bytes, size_t n);
/* Send a JSON text to who asked, and close. NULL: nothing to say. */
void rg__question_answer(int sock, const char *text);
/* A worker has shown its sets, for which questions wait. */
void rg__questions_look(agent *a);
/* Followers learn the exit code and the story to its end. */
void rg__questions_end(agent *a);

/* shown.c: ask all workers here for their sets; the answers to that ask are
 * here, or will not come. */
uint32_t rg__shown_ask(agent *a);
bool rg__shown_is_here(const agent *a, uint32_t ask);
bool rg__shown_take(slot *from, const rg__sets_shown *m, size_t n);
void rg__shown_drop(worker *w);
/* The world of that size and the sets as told last, of this generation. */
struct json_t *rg__shown_json(const agent *a, uint64_t generation, int size);

/* report.c: the status document as JSON, malloc'd. is_whole: the snapshot is of
 * all keys of the job, now; else it is what this agent has seen of all/. */
char *rg__report(agent *a, const rg__snapshot *snap, bool is_whole);

/* story.c: what has befallen the job from a generation on, as JSON, malloc'd.
 */
char *rg__story(agent *a, const rg__snapshot *snap, uint64_t from);

/* Into a file beside the run directory, for when the job is gone. */
void rg__story_keep(agent *a, const char *text);

/* summary.c: five lines, once the job is over. */
void rg__summary_say(agent *a);

/* drain_ask.c: write that a host is to leave, and answer who asked; owns the
 * socket. */
void rg__drain_ask(agent *a, const char *host, uint64_t deadline_ms, int sock);
void rg__drain_asks_drop(agent *a);

/* scale_ask.c: write other bounds of the world, and answer who asked; owns the
 * socket. 0: as it is. */
void rg__scale_ask(agent *a, int min, int max, int sock);
void rg__scale_asks_drop(agent *a);

/* metrics.c: Prometheus' text, malloc'd; NULL: no memory. */
char *rg__metrics(agent *a);

#endif
