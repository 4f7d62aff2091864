/* The messages between a worker and its agent, one packet each on a Unix
 * socket that only our uid may use. Native byte order: both ends are on one
 * host. A change here raises RG__WIRE_VERSION; the agent refuses other
 * versions.
 *
 *   worker                                   agent
 *   HELLO                            ->
 *                                    <-      WELCOME + page, vault   | REFUSED
 *   READY  (life is locked)          ->
 *   REGISTER (a buffer)              ->
 *                                    <-      BUFFER (its place in the vault)
 *                                            | status
 *   ALLOC / FREE (rg_alloc memory)   ->
 *                                    <-      SEGMENT + segment, to every local
 *                                            worker; UNSEGMENT
 *   DOOR                             ->
 *                                    <-      PREPARE + control segment
 *   LEFT (announced or broken)       ->
 *   BUILT                            ->
 *                                    <-      DECIDED
 *   BROKEN (why)                     ->
 *   RELAUNCH (why: ranks can't go on
 *             in place)              ->
 *   COMMITTED (the page says what;
 *              commit 0, and where
 *              there are shards)     ->
 *   SAVE (rank 0, and one on each
 *         host with shards: make that
 *         commit durable)            ->
 *   FIN (fn returned OK everywhere)  ->
 *                                    <-      DONE
 *                                    <-      ENDED (why), at any time
 *                                    <-      SETS, when a command asks
 *   SETS_LIST, as many as it takes  ->
 *   FINALIZE                         ->
 *
 * When the agent is killed, its supervisor holds its end of the socket:
 *                                    <-      GONE   (of the supervisor)
 *                                    <-      AGAIN  (of the next agent)
 *   STAND                            ->
 *   the last request, if no answer came, with the same number */
#ifndef RG_BASE_WIRE_H
#define RG_BASE_WIRE_H

#include <stdint.h>

#include "sdk/base/page.h"

#define RG__WIRE_VERSION   20u
#define RG__WIRE_MAX       65536
#define RG__TEXT_MAX       256
#define RG__KEY_BYTES      32
#define RG__ADDRESS_MAX    48
#define RG__SET_NAME_MAX   32
#define RG__ENV_SOCKET     "REGROUP_SOCKET" /* path of the agent's socket */
#define RG__ENV_SLOT       "REGROUP_SLOT"   /* the slot of this process */
#define RG__ENV_LAUNCH     "REGROUP_LAUNCH" /* its number, under --mpi */
#define RG__ENV_MPI        "REGROUP_MPI"    /* as --mpi says */
#define RG__ULFM           "ulfm"
#define RG__ENV_RESTART    "REGROUP_RESTART"
#define RG__ENV_GENERATION "REGROUP_GENERATION"
#define RG__RANK_PROGRAM   "regroup-rank" /* in libexec: under mpirun */
#define RG__CMD_RANK       "rank"         /* regroup-rank rank PROGRAM */
#define RG__CMD_PROXY      "proxy"        /* regroup-rank proxy HOST WORDS */

/* clang-format off */
/* Each with its struct, and 1 if more bytes follow that. */
#define RG__WIRE(X)                                                            \
    X(HELLO, rg__hello, 0)                                                     \
    X(WELCOME, rg__welcome, 0)                                                 \
    X(REFUSED, rg__text, 0)                                                    \
    X(READY, rg__mark, 0)                                                      \
    X(REGISTER, rg__register, 0)                                               \
    X(BUFFER, rg__buffer, 0)                                                   \
    X(ALLOC, rg__segment, 0)                                                   \
    X(FREE, rg__segment, 0)                                                    \
    X(SEGMENT, rg__segment, 0) /* + fd */                                      \
    X(UNSEGMENT, rg__segment, 0)                                               \
    X(DOOR, rg__door, 0)                                                       \
    X(PREPARE, rg__prepare, 0) /* + fd */                                      \
    X(LEFT, rg__mark, 0)                                                       \
    X(BUILT, rg__mark, 0)                                                      \
    X(DECIDED, rg__decided, 0)                                                 \
    X(BROKEN, rg__broken, 0)                                                   \
    X(RELAUNCH, rg__text, 0)                                                   \
    X(STUCK, rg__broken, 0) /* but a hint: is that rank's host reached? */     \
    X(FIN, rg__mark, 0)                                                        \
    X(DONE, rg__mark, 0)                                                       \
    X(ENDED, rg__text, 0)                                                      \
    X(LEAVE, rg__text, 0)                                                      \
    X(FINALIZE, rg__mark, 0) /* an rg__finalized */                            \
    X(GONE, rg__mark, 0)                                                       \
    X(AGAIN, rg__mark, 0)                                                      \
    X(STAND, rg__stand, 0)                                                     \
    X(SAVE, rg__save, 0)                                                       \
    X(COMMITTED, rg__mark, 0)                                                  \
    X(SETS, rg__mark, 0) /* an ask */                                          \
    X(SETS_LIST, rg__sets_list, 1)                                             \
    /* a CLI process asks, one thing per connection; with LEAVE for this host  \
     * to leave, with ENDED for that at once */                                \
    X(STATUS, rg__mark, 0)      /* for the status document */                  \
    X(STATUS_TEXT, rg__mark, 0) /* the answer: JSON as a memfd */              \
    X(STOP, rg__mark, 0)        /* the job to stop */                          \
    X(EVENTS, rg__mark, 0)      /* for what has happened since a generation */ \
    X(FOLLOW, rg__mark, 0)      /* to be told of the job's end: OVER */        \
    X(OVER, rg__over, 0)                                                       \
    X(DRAIN, rg__drain_host, 0) /* a host to leave; answered by STATUS_TEXT */ \
    X(DUMP, rg__mark, 0)        /* what workers do: RG__DUMP_...; likewise */  \
    X(TIMELINE, rg__text, 0)    /* begin that file, "": end it; likewise */    \
    X(SCALE, rg__scale, 0)      /* other sizes for the job; likewise */        \
    /* processes of a launch (--mpi), one thing per connection */              \
    X(RANK, rg__rank, 0)       /* may it be that rank? answered by RANK_GO */  \
    X(RANK_GO, rg__rank_go, 0) /* + standard output and error of a slot */     \
    X(RANK_ENDED, rg__rank, 0) /* its exit status */                           \
    X(PROXY, rg__proxy, 1)     /* a daemon of the MPI; likewise RANK_GO */
/* clang-format on */

typedef enum rg__wire_type {
    RG__WIRE_NONE,
#define X(type, body, has_more) RG__##type,
    RG__WIRE(X)
#undef X
        RG__WIRE_TYPES
} rg__wire_type;

typedef struct rg__wire_head {
    uint32_t type, version;
} rg__wire_head;

/* The type of a message of our version and its length; RG__WIRE_NONE: bad. */
rg__wire_type rg__wire_read(const void *bytes, size_t n);

/* The identity of a worker, for life: its host's incarnation, its slot, and
 * which process in that slot (1, 2, 3 ...). A replacement is another member. */
typedef struct rg__member_id {
    uint64_t host;
    uint32_t slot, start;
} rg__member_id;

static inline bool rg__same_member(rg__member_id a, rg__member_id b)
{
    return a.host == b.host && a.slot == b.slot && a.start == b.start;
}

/* A host's address in numbers, IPv4 or IPv6, as inet_pton reads it. */
typedef struct rg__address {
    char text[RG__ADDRESS_MAX];
} rg__address;

/* Where a member of the world is reached by workers of other hosts. */
typedef struct rg__place {
    uint32_t host; /* index of its host in the generation */
    uint32_t port; /* of its listener, TCP */
} rg__place;

typedef struct rg__hello {
    rg__wire_head head;
    int32_t pid, slot; /* slot -1: any */
    uint32_t elastic;
    char version[16]; /* RG_VERSION */
} rg__hello;

typedef struct rg__welcome { /* + page fd, vault fd */
    rg__wire_head head;
    rg__member_id me;
    uint32_t slots;    /* of this host */
    uint32_t grace_ms; /* --agent-grace */
    char job[64], host[64];
    char job_id[40];     /* another for each job, whatever its name */
    rg__address address; /* of this host: where its workers listen; "": not */
    uint8_t key[RG__KEY_BYTES];     /* the job's key */
    char history[RG__TEXT_MAX];     /* directory, or "" */
    char checkpoint[RG__TEXT_MAX];  /* directory, or "" */
    uint64_t every_steps, every_ms; /* a commit becomes a checkpoint; 0: not
                                       by itself */
    uint32_t saves_last; /* the newest commit becomes one at the end */
    uint32_t mend_ms;    /* --mpi=ulfm: for ranks that go on in place; 0: they
                            don't */
} rg__welcome;

typedef struct rg__save {
    rg__wire_head head;
    int32_t keep;           /* newest checkpoints that stay; 0: the agent's */
    uint32_t is_first;      /* from rank 0: this host has the file made */
    uint32_t shards;        /* that the commit has, 0: none */
    rg__commit_id commit;   /* it counts */
    uint64_t loaded;        /* serial of the newest checkpoint where the worker
                               loaded, 0: none */
    char dir[RG__TEXT_MAX]; /* "": --checkpoint-dir */
} rg__save;

typedef struct rg__text {
    rg__wire_head head;
    char text[RG__TEXT_MAX];
} rg__text;

typedef struct rg__register {
    rg__wire_head head;
    uint32_t ask;   /* counts the worker's asks; the answer bears it as well */
    uint32_t slots; /* of the vault: 2, or 3 where shards are copied */
    uint32_t is_sharded, is_local;
    uint32_t replicas; /* hosts besides its own that have a copy of a shard */
    uint64_t bytes, align; /* align: where shards begin */
    uint64_t need; /* local: of all local buffers of this worker, in each slot
                      of the vault, with this one */
    char name[RG__BUFFER_NAME_MAX];
} rg__register;

typedef struct rg__buffer {
    rg__wire_head head;
    uint32_t ask;
    int32_t status;
    uint64_t place; /* RG_OK: where its room begins in the vault's memory */
    char text[RG__TEXT_MAX];
} rg__buffer;

typedef struct rg__segment {
    rg__wire_head head;
    rg__member_id owner;
    uint32_t id; /* counts the owner's segments from 1; chosen by the owner */
    int32_t status;
    uint64_t bytes;
    char text[RG__TEXT_MAX];
} rg__segment;

typedef struct rg__prepare { /* + control fd, where the lists lie, too */
    rg__wire_head head;
    uint64_t generation;
    uint32_t
        announced; /* 1: go on in the current one until its next step end */
    int32_t rank, size, local_rank, local_size, host_index, host_count;
    uint64_t control_bytes; /* of the segment; after them the lists: */
    rg__member_id member[]; /* size of them, by rank; then size rg__place, by
                               rank, and host_count rg__address. A message is
                               without them, so that it is small for any
                               world. */
} rg__prepare;

static inline size_t rg__prepare_bytes(uint32_t size, uint32_t host_count)
{
    return sizeof(rg__prepare) +
           (sizeof(rg__member_id) + sizeof(rg__place)) * size +
           sizeof(rg__address) * host_count;
}

static inline rg__place *rg__prepare_places(rg__prepare *m)
{
    return (rg__place *)(void *)(m->member + m->size);
}

static inline rg__address *rg__prepare_addresses(rg__prepare *m)
{
    return (rg__address *)(void *)(rg__prepare_places(m) + m->size);
}

typedef struct rg__decided {
    rg__wire_head head;
    uint64_t generation;
    rg__commit_id resume; /* this host's vault holds it; {0, 0}: none, rank
                             source's memory counts instead */
    int32_t source;       /* -1: there is a resume commit */
    uint32_t is_expected; /* it is not on record yet: restore, then wait for
                             the same without this */
} rg__decided;

typedef struct rg__door {
    rg__wire_head head;
    uint32_t port;       /* of the listener for workers of other hosts, TCP */
    uint64_t registered; /* a hash of what it has registered, in its order */
    uint64_t loaded; /* a hash of the head of the checkpoint that its memory is
                        from, 0: of none */
    uint32_t waits;  /* in rg_world_wait, or between that and rg_run; nothing is
                        registered yet */
    uint32_t spare;
} rg__door;

typedef struct rg__over {
    rg__wire_head head;
    int32_t code; /* the agent's exit code */
    char why[RG__TEXT_MAX];
} rg__over;

typedef struct rg__drain_host {
    rg__wire_head head;
    uint64_t deadline_ms;
    char host[64];
} rg__drain_host;

typedef struct rg__scale {
    rg__wire_head head;
    int32_t min, max; /* 0: as it is */
} rg__scale;

typedef struct rg__rank { /* RANK, RANK_ENDED */
    rg__wire_head head;
    uint64_t launch;
    int32_t rank; /* in MPI_COMM_WORLD */
    int32_t pid, status, spare;
} rg__rank;

typedef struct rg__rank_go {
    rg__wire_head head;
    int32_t slot;           /* -1: not, and `why` */
    uint32_t is_later;      /* ask again: the agent does not know yet */
    uint64_t generation;    /* that it will be of */
    char why[RG__TEXT_MAX]; /* "": granted, or begun */
} rg__rank_go;

typedef struct rg__proxy {
    rg__wire_head head;
    uint64_t launch;
    char host[RG__ADDRESS_MAX];
    char line[]; /* for a shell, to the end of the message */
} rg__proxy;

/* Consecutive world ranks, up or down. */
typedef struct rg__range {
    int32_t first, last;
} rg__range;

/* A set as one worker has it: of a split or a rule that of its own colour. */
typedef struct rg__set_entry {
    uint32_t id;
    uint32_t n;      /* members */
    uint32_t ranges; /* that follow; of a set of very many, not all of them */
    uint8_t kind;    /* RG__SET_... */
    uint8_t keeps, spare[2];
    char name[RG__SET_NAME_MAX];
} rg__set_entry;

enum { RG__SET_LIST, RG__SET_SPLIT, RG__SET_RULE, RG__SET_KINDS };

typedef struct rg__sets_list { /* + entries, each followed by its ranges */
    rg__wire_head head;
    uint32_t ask; /* of SETS */
    uint32_t is_last;
    uint64_t generation; /* whose ranks they are */
} rg__sets_list;

/* With these words of why a generation ends, or a worker is lost, the program
 * may be at fault: what all of it did is written down. */
#define RG__LATE_TEXT   "a deadline has passed"
#define RG__SILENT_TEXT "was silent for"

enum { RG__DUMP_JSON = 1, RG__DUMP_STACKS = 2 };

typedef struct rg__mark {
    rg__wire_head head;
    uint64_t generation; /* or what RG__WIRE says */
} rg__mark;

/* A worker's position: sent after all its messages to the former agent, and
 * after it has handled all of that agent's. Generations, 0: none. */
typedef struct rg__stand {
    rg__wire_head head;
    uint32_t is_at_door, port; /* as in DOOR */
    uint32_t waits, spare;     /* likewise */
    uint64_t registered;       /* likewise */
    uint64_t loaded;           /* likewise; 0 once it was in a generation */
    uint64_t asked;            /* of the newest PREPARE that came */
    uint64_t pending;          /* that waits to be built */
    uint64_t built;            /* that was built and not left */
    uint64_t decided;          /* of the newest decision that was taken */
    uint64_t fin;
} rg__stand;

typedef struct rg__broken {
    rg__wire_head head;
    uint64_t generation;
    int32_t peer;       /* rank behind a broken connection, -1: no such */
    uint32_t waited_ms; /* STUCK: that `bytes` have waited for an ack; 0: it */
    uint64_t bytes;     /* does not connect, or answer */
    char why[RG__TEXT_MAX];
} rg__broken;

#endif
