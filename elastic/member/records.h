/* The records of a job in etcd, as structs, and one consistent snapshot of
 * them. Below the prefix /regroup/v1/<job>/:
 *
 *   meta                    the job: uuid, key, bounds        rg__meta
 *   all/cur                 the generation and its phase      rg__cur
 *   all/size                other bounds, since `regroup scale` rg__size
 *   all/leader              the leader's token (lease)        create_revision
 *   all/begun               a commit has been begun: from now on the memory of
 *                           workers is no state               rg__snapshot
 *   all/end                 the job ends: code and why        rg__end
 *   all/stop                it is to end with the step that
 *                           is under way                      rg__end
 *   all/claim/<where>       the right to seal the next        rg__claim
 *                           checkpoint in that directory
 *   all/checkpoint          the newest that is durable        rg__saved
 *   all/order               a checkpoint's file is made: write
 *                           your shards beside it             rg__order
 *   all/share/<host>        what it has written               rg__share
 *   all/probe               hosts are suspected: look at each other (lease)
 *   all/drain/<host>        this host is to leave             rg__drain
 *   all/mpirun              under --mpi: the newest launch    rg__mpirun
 *   all/gen/<g>             a proposal, written once          rg__proposal
 *   all/ev/<g>/<who>        a published reason                rg__reason
 *   all/line/<g>            a decided generation              rg__line
 *   lead/host/<host>        an agent and its slots (lease)    rg__host_record
 *   lead/fin/<g>/<host>     fn returned OK on all workers     rg__fin
 *   lead/susp/<id>/<id>     the second incarnation does not hear the first,
 *                           or did not: "withdrawn" (lease)   rg__suspicion
 *
 * Every agent watches all/, whose events are few; what each host writes for the
 * leader alone lies in lead/, so that N hosts cause O(N) events and not O(N^2).
 * Generations in keys have 16 hex digits, so that keys sort by them. What is
 * malformed is left out of the snapshot with a warning, as if it were absent.
 */
#ifndef RG_MEMBER_RECORDS_H
#define RG_MEMBER_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "elastic/etcd/etcd.h"
#include "elastic/state/checkpoint.h"
#include "sdk/base/wire.h"

#define RG__NAME_MAX  64 /* of a host or a job */
#define RG__CAUSE_MAX 256
#define RG__ERROR_MAX 512
#define RG__PATH_MAX  384

/* Of all records of a job, once for each release that changes one: 3 is that
 * behind 0.1.0, with totals in decisions, hashes in claims and jobs on one
 * host. An agent of another format is refused before it reads anything. */
#define RG__META_FORMAT 4

typedef struct rg__meta {
    char uuid[33];
    uint8_t key[RG__KEY_BYTES];
    int min, max;
    bool is_one_host;        /* no other host can join */
    int64_t create_revision; /* 0: absent */
} rg__meta;

/* The bounds of the world, where they are not those of meta any more. */
typedef struct rg__size {
    int min, max;
    int64_t mod_revision; /* 0: absent */
} rg__size;

typedef struct rg__slot_record {
    uint32_t slot, start;
    int32_t pid;
    uint32_t port; /* of its listener for workers of other hosts */
    bool is_alive, is_at_door;
    bool waits;   /* in rg_world_wait, or between that and rg_run */
    bool is_free; /* under --mpi: a launch may start a rank there */
} rg__slot_record;

/* What has ended a launch, as one host sees it; the higher, the closer to the
 * cause: an MPI ends with a code after its ranks, and ranks after whatever
 * happens to their MPI. */
typedef enum rg__broke_by {
    RG__BROKE_BY_MPI,   /* mpirun or a daemon has ended with a code */
    RG__BROKE_BY_RANK,  /* a rank has died */
    RG__BROKE_BY_OTHERS /* no rank: a signal ended mpirun or a daemon, an agent
                           was killed, a host leaves */
} rg__broke_by;

typedef struct rg__host_record {
    char name[RG__NAME_MAX];
    uint64_t id;  /* of this incarnation of the agent */
    uint64_t seq; /* counts its writings of this record */
    int slots;
    int elastic;         /* of its workers; -1: none has met it */
    rg__address address; /* of the host */
    uint32_t port;       /* of the agent, for other agents: UDP and TCP */
    bool is_draining;    /* its workers are to leave */
    int notice_ms;       /* it drains because of a notice, and waits so long
                            for others with one; 0: no notice */
    bool is_gone;        /* it has left: its lease is not waited for */
    bool has_etcd;       /* the job's private etcd, which ends with it */
    int open;            /* slots that are not given up */
    int failed_code;     /* exit code of one that is */
    char failed[RG__CAUSE_MAX]; /* what it died of; "": none is given up */
    uint64_t vault_bytes;       /* reserved there for commits */
    uint64_t swept; /* the newest launch of which nothing is left there */
    uint64_t broke; /* the newest launch that can't go on, as seen there: */
    char broke_why[RG__CAUSE_MAX];
    int broke_code; /* of the rank that did it; 0: another reason */
    rg__broke_by broke_by;
    rg__slot_record *slot; /* owned */
    int slot_count;
    int64_t mod_revision;
} rg__host_record;

typedef enum rg__gen_phase {
    RG__GEN_NONE,
    RG__GEN_PROPOSED,
    RG__GEN_DECIDED,
    RG__GEN_DONE
} rg__gen_phase;

typedef struct rg__cur {
    uint64_t generation;
    rg__gen_phase phase;
    int64_t mod_revision;
} rg__cur;

/* Why a generation was proposed, for counters; the sentence is `cause`. */
typedef enum rg__cause_kind {
    RG__KIND_FIRST,
    RG__KIND_DEATH,  /* a member died */
    RG__KIND_BROKEN, /* another published reason */
    RG__KIND_HOST,   /* a host is lost */
    RG__KIND_DRAIN,  /* a host leaves */
    RG__KIND_JOIN,   /* newcomers */
    RG__KIND_SAME,   /* none of these: the same members again */
    RG__KINDS
} rg__cause_kind;
const char *rg__cause_kind_name(rg__cause_kind kind); /* "first", "death" ... */

typedef struct rg__proposal_host {
    char name[RG__NAME_MAX];
    uint64_t id;
    rg__address address;
    uint32_t port; /* of its agent */
} rg__proposal_host;

typedef struct rg__proposal {
    int64_t mod_revision; /* of its key */
    uint64_t generation;
    uint64_t from; /* the generation decided before it, 0: none */
    uint64_t base; /* in etcd: how it differs from that one; 0: all of it */
    int64_t token, cur; /* planned from: create_revision of all/leader, and
                           mod_revision of all/cur */
    char op[33];        /* random: whose txn it was */
    char cause[RG__CAUSE_MAX];
    rg__cause_kind kind;
    bool is_announced;
    bool is_awaited;       /* a member waits for it in rg_world_wait */
    uint64_t launch;       /* whose ranks its members are; 0: not under --mpi */
    rg__member_id *member; /* by rank, owned */
    uint32_t *port;        /* their listeners, by rank, owned */
    int size;
    rg__proposal_host *host; /* in order of their first rank, owned */
    int host_count;
} rg__proposal;

/* The slot of a rank of MPI_COMM_WORLD. */
typedef struct rg__seat {
    uint64_t host; /* incarnation */
    char name[RG__NAME_MAX];
    uint32_t slot;
    rg__address address;
    uint32_t port; /* of its agent */
} rg__seat;

/* A launch: one mpirun, and all ranks at once. */
typedef struct rg__mpirun {
    uint64_t number;         /* counts launches from 1; 0: there is none */
    uint64_t by;             /* host whose agent runs mpirun, by incarnation */
    bool is_over;            /* none of its processes is to live any more */
    char why[RG__CAUSE_MAX]; /* it is; before: the launch before it was */
    uint64_t excused; /* the newest launch that ended through no rank's fault */
    rg__seat *seat;   /* by rank; owned */
    int size;
    int64_t mod_revision; /* 0: absent */
} rg__mpirun;

typedef struct rg__reason {
    uint64_t generation;
    char member[RG__NAME_MAX + 32]; /* "h1.2" */
    bool is_death;
    char text[RG__CAUSE_MAX];
    int64_t at_ms; /* CLOCK_REALTIME of its host, for people */
    char by[RG__NAME_MAX], link[RG__NAME_MAX]; /* hosts at the two ends of a
                                                  connection that broke; "" */
} rg__reason;

/* Some of the shards of a commit, by their numbers. */
typedef struct rg__shards {
    uint32_t *index; /* ascending; owned */
    int count;
} rg__shards;

/* What a vault holds of a commit. */
typedef struct rg__held {
    rg__commit_id id;
    bool is_whole;   /* all of the replicated buffers */
    uint32_t shards; /* that the commit has: the size of its world; 0: none */
    rg__shards here; /* those in this vault */
    bool is_local;   /* some are of local buffers: a rank of a world of another
                        size may need any */
} rg__held;

typedef struct rg__ack {
    uint64_t generation;
    uint64_t id; /* of the host, its incarnation */
    char op[33]; /* of the proposal: an offer may have its number as well */
    rg__held held[RG__VAULT_SLOTS];
    int count;
    uint64_t step;   /* the most steps that a worker here had ended */
    uint64_t loaded; /* hash of a checkpoint that the memory of rank `source`,
                        here, is from; 0: of none that is known */
    int source;
} rg__ack;

/* A vault that gets the resume commit, or parts of it, from another host's. */
typedef struct rg__fetch_plan {
    uint64_t to, from;   /* host incarnations */
    rg__address address; /* of the source's agent */
    uint32_t port;
    bool is_whole; /* the replicated buffers */
    rg__shards shards;
} rg__fetch_plan;

/* Totals of all decisions up to one, since their records do not stay. */
typedef struct rg__total {
    uint64_t changes[RG__KINDS], steps_lost;
    uint64_t lost_unknown; /* changes whose loss is not known */
} rg__total;

/* The whole decision: an agent that sees a later proposal first passes this
 * one on, or its workers would drop a generation that others compute in. */
typedef struct rg__line {
    int64_t mod_revision; /* of its key */
    uint64_t generation, prev;
    rg__commit_id resume; /* {0, 0}: none */
    int source; /* resume none: rank whose memory counts, of a checkpoint if a
                   commit was begun before; else -1 */
    rg__fetch_plan *copy; /* hosts whose vault lacks the commit; owned */
    int copies;
    int64_t steps_lost; /* -1: no host that knows has acked */
    int from_size, to_size;
    int64_t at_ms; /* CLOCK_REALTIME, for people */
    char cause[RG__CAUSE_MAX];
    rg__cause_kind kind;
    rg__total total; /* this one included */
} rg__line;

typedef struct rg__end {
    bool is_set;
    bool is_asked; /* an operator asked for it: nothing has failed */
    int code;
    char why[RG__TEXT_MAX];
} rg__end;

typedef struct rg__fin {
    uint64_t generation;
    char host[RG__NAME_MAX];
} rg__fin;

/* The right to give a checkpoint its name: written while `cur` is what it was
 * when the commit was seen to be on the lineage. */
typedef struct rg__claim {
    uint64_t where; /* hash of the directory's name, of "" for the job's own */
    uint64_t serial;
    char op[RG__CHECKPOINT_OP]; /* whose writing */
    rg__commit_id commit;       /* an earlier one is written there no more */
    uint64_t hash;              /* of the head, as rg__saved has it */
    int64_t mod_revision;       /* 0: absent */
} rg__claim;

/* Shards lie on all hosts, each of which writes a file of its own. */
typedef struct rg__order {
    uint64_t serial;
    char op[RG__CHECKPOINT_OP]; /* names the file; "": it is given up */
    rg__commit_id commit;
    uint64_t host;        /* the host that orders, by incarnation */
    int64_t mod_revision; /* 0: absent */
} rg__order;

typedef struct rg__share {
    char host[RG__NAME_MAX];
    char op[RG__CHECKPOINT_OP]; /* of the order that it answers */
    char error[RG__ERROR_MAX];  /* why there is none, or "" */
} rg__share;

typedef struct rg__saved {
    uint64_t serial; /* 0: none of this job yet */
    rg__commit_id commit;
    char file[RG__PATH_MAX], host[RG__NAME_MAX]; /* as that host sees it */
    uint64_t hash;                               /* of the file's head */
    int64_t at_ms;             /* CLOCK_REALTIME, for people */
    char error[RG__ERROR_MAX]; /* why the newest attempt failed, or "" */
    bool is_last;              /* and no other will be made: the job ends */
    int64_t mod_revision;
} rg__saved;

typedef struct rg__suspicion {
    uint64_t host, by; /* incarnations */
    int64_t mod_revision;
    uint64_t since_ns; /* the reader's note; 0 in a fresh snapshot */
} rg__suspicion;

typedef struct rg__drain {
    char host[RG__NAME_MAX];
    uint64_t deadline_ms;   /* from when its agent reads it */
    int code;               /* 0: drain; else it leaves at once, with this */
    char why[RG__TEXT_MAX]; /* and says this */
} rg__drain;

typedef struct rg__snapshot {
    rg__meta meta;
    rg__size size;
    rg__cur cur;
    rg__end end, stop;
    rg__claim *claim;
    rg__saved saved;
    rg__order order;
    rg__mpirun mpirun;
    rg__share *share;
    uint64_t begun;  /* generation of the commit that was begun first, 0: no
                        worker has come as far, nor into fn */
    uint64_t leader; /* its incarnation, 0: none */
    rg__proposal_host leader_host;
    int64_t leader_token;           /* create_revision of cur/leader */
    rg__host_record *host;          /* by name, where it was read from keys */
    int *host_by_id, hosts_ordered; /* so many are: `hosts`, or else none is */
    rg__proposal *gen;              /* by generation */
    rg__reason *reason;
    rg__ack *ack;
    int *ack_by_id, acks_ordered; /* likewise; as they came */
    rg__line *line; /* by generation: the newest, and ancestors of theirs */
    rg__fin *fin;
    rg__suspicion *suspicion;
    rg__drain *drain;
    int hosts, gens, reasons, acks, lines, fins, suspicions, drains, claims,
        shares;
    bool is_static; /* the program, as `shape` says */
    int64_t probe;  /* mod_revision of all/probe, 0: no host is suspected */
} rg__snapshot;

/* Read the keys of a job, in key order; prefix is left out of none of them. */
rg_status rg__snapshot_read(rg__snapshot *snap, const char *prefix,
                            const rg__kv *kv, size_t n);
/* The same over a snapshot that was read before: proposals, decisions and hosts
 * whose keys are as they were are taken over from it. */
rg_status rg__snapshot_update(rg__snapshot *snap, const char *prefix,
                              const rg__kv *kv, size_t n);
void rg__snapshot_free(rg__snapshot *snap);

/* An ack that was received: it is in no key, and is kept from snapshot to
 * snapshot until its generation is over. Takes it; false: no memory. */
bool rg__snapshot_add_ack(rg__snapshot *snap, rg__ack *ack);

const rg__host_record *rg__snapshot_host(const rg__snapshot *snap, uint64_t id);
/* Another incarnation has the name now. */
bool rg__snapshot_is_other(const rg__snapshot *snap, const char *name,
                           uint64_t id);
/* It was told to leave with a code, which is not a request to drain. */
bool rg__snapshot_is_told_to_leave(const rg__snapshot *snap, const char *host);
const rg__proposal *rg__snapshot_gen(const rg__snapshot *snap,
                                     uint64_t generation);
/* The ack of that incarnation; NULL: it has not acked. */
const rg__ack *rg__snapshot_ack(const rg__snapshot *snap, uint64_t generation,
                                uint64_t host);
const rg__line *rg__snapshot_line(const rg__snapshot *snap,
                                  uint64_t generation);
/* NULL: there is none. */
const rg__claim *rg__snapshot_claim(const rg__snapshot *snap, uint64_t where);
/* The commit in the checkpoint whose head has that hash. false: the job has
 * neither published it nor claimed a name for it. A claimed file is known to
 * exist only once a worker has read it. */
bool rg__snapshot_checkpoint(const rg__snapshot *snap, uint64_t hash,
                             rg__commit_id *commit_p);
/* No host is in it any more, as its records say: the job has an end, is done,
 * or all hosts of its last world have said that they leave. */
bool rg__snapshot_is_over(const rg__snapshot *snap);
/* The newest decided generation's proposal, NULL before the first. */
const rg__proposal *rg__snapshot_decided(const rg__snapshot *snap);

/* Values as JSON, malloc'd; NULL when memory is out. */
char *rg__meta_text(const rg__meta *meta);
char *rg__host_text(const rg__host_record *host);
char *rg__cur_text(const rg__cur *cur);
/* The difference to a base, which every reader must have; NULL: all of it. */
char *rg__proposal_difference(const rg__proposal *p, const rg__proposal *base);
/* Back from text, with the base in the snapshot; the caller knows the
 * generation. false: not in our form. */
bool rg__proposal_parse(const char *text, size_t bytes,
                        const rg__snapshot *snap, rg__proposal *p);
/* Its rank, -1: it has none; p may be NULL. */
int rg__proposal_rank(const rg__proposal *p, rg__member_id id);
/* Where a host stands in its list, -1: nowhere; p may be NULL. */
int rg__proposal_host_index(const rg__proposal *p, uint64_t host);
/* A base that makes it much shorter; NULL: none, or it is short already. */
const rg__proposal *rg__proposal_base(const rg__snapshot *snap,
                                      const rg__proposal *p);
char *rg__mpirun_text(const rg__mpirun *run);
char *rg__reason_text(const rg__reason *r);
char *rg__ack_text(const rg__ack *ack);
/* Back from text; the caller knows the generation. false: not in our form. */
bool rg__ack_parse(const char *text, size_t bytes, rg__ack *ack);
char *rg__line_text(const rg__line *line);
/* Fill in its totals, from those of the newest decision in the snapshot. */
void rg__line_count(rg__line *line, const rg__snapshot *snap);
/* The totals of the newest decision; zero before the first. */
rg__total rg__snapshot_total(const rg__snapshot *snap);
uint64_t rg__total_changes(const rg__total *total); /* of all kinds */
char *rg__begun_text(uint64_t generation);
char *rg__end_text(const rg__end *end);
char *rg__claim_text(const rg__claim *claim);
char *rg__saved_text(const rg__saved *saved);
char *rg__order_text(const rg__order *order);
char *rg__share_text(const rg__share *share);
char *rg__leader_text(const rg__proposal_host *leader);
char *rg__drain_text(const rg__drain *drain);
char *rg__size_text(const rg__size *size);

/* A withdrawn suspicion is in no snapshot. */
char *rg__suspicion_text(bool is_withdrawn);

/* Every key of a job behind its prefix: kind, what the key begins with, what
 * stands behind that. Everything below all/ is seen by every agent; below lead/
 * by the leader. */
#define RG__KEYS(X)                                                            \
    X(META, "meta", ALONE)                                                     \
    X(JOB_SPEC, "shape", ALONE)                                                \
    X(CUR, "all/cur", ALONE)                                                   \
    X(BEGUN, "all/begun", ALONE)                                               \
    X(LEADER, "all/leader", ALONE)                                             \
    X(END, "all/end", ALONE)                                                   \
    X(STOP, "all/stop", ALONE)                                                 \
    X(SIZE, "all/size", ALONE)                                                 \
    X(CHECKPOINT, "all/checkpoint", ALONE)                                     \
    X(ORDER, "all/order", ALONE)                                               \
    X(MPIRUN, "all/mpirun", ALONE)                                             \
    X(PROBE, "all/probe", ALONE)                                               \
    X(GEN, "all/gen", NUMBER)      /* generation */                            \
    X(LINE, "all/line", NUMBER)    /* generation */                            \
    X(REASON, "all/ev", BOTH)      /* generation, member */                    \
    X(CLAIM, "all/claim", NUMBER)  /* hash of the directory */                 \
    X(SHARE, "all/share", NAME)    /* host */                                  \
    X(DRAIN, "all/drain", NAME)    /* host */                                  \
    X(HOST, "lead/host", NAME)     /* host */                                  \
    X(FIN, "lead/fin", BOTH)       /* generation, host */                      \
    X(SUSPICION, "lead/susp", TWO) /* incarnation, and its accuser's */

typedef enum rg__key_kind {
#define RG__KEY_KIND(kind, text, parts) RG__KEY_##kind,
    RG__KEYS(RG__KEY_KIND)
#undef RG__KEY_KIND
} rg__key_kind;

typedef struct rg__key {
    rg__key_kind kind;
    uint64_t number;  /* 0: none */
    const char *name; /* NULL: none */
    uint64_t by;      /* a second number, 0: none */
} rg__key;

/* RG__KEY(CUR), RG__KEY(GEN, generation), RG__KEY(HOST, 0, name) */
#define RG__KEY(kind, ...) ((rg__key){RG__KEY_##kind, __VA_ARGS__})

/* Add what was received and is on record only later: a proposal, a host's
 * record in place of the present one, or a reason. false: not in our form. */
bool rg__snapshot_lay(rg__snapshot *snap, rg__key key, const char *text);

/* The key, and the beginning of all keys of its kind; both malloc'd. */
char *rg__record_key(const char *prefix, rg__key key);
char *rg__record_keys(const char *prefix, rg__key_kind kind);
/* The text after the prefix, as a key; its name is borrowed from there.
 * false: not one of our keys. */
bool rg__record_key_read(const char *text, rg__key *key);

void rg__proposal_free(rg__proposal *p); /* its arrays */
void rg__line_free(rg__line *line);      /* likewise */
void rg__ack_free(rg__ack *ack);         /* likewise */

/* Add a number that is higher than those there are; false: no memory. */
bool rg__shards_add(rg__shards *shards, uint32_t index);
bool rg__shards_have(const rg__shards *shards, uint32_t index);
void rg__shards_free(rg__shards *shards);

#endif
