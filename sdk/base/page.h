/* What a worker and its agent share: the page of one worker, and the vault of
 * one host. Both are made by the agent and sealed; a worker can scribble on
 * them, so the agent checks every number that it reads here and never calls
 * pthread on this memory. Layout changes raise RG__WIRE_VERSION.
 *
 * The page. The worker's Regroup thread holds `life` as long as it lives. The
 * kernel marks its word FUTEX_OWNER_DIED about 0.1 ms after a SIGKILL, before
 * it frees the process's memory; the agent waits on that word as a plain futex.
 * A crash that dumps core hides the mark for seconds, so crash handlers store
 * `dying` first and wake the same futex.
 *
 * The vault. A header segment (below) and one segment per registered buffer,
 * each holding a copy per vault slot at rg__vault_stride(bytes) distance: two
 * vault slots, or three where shards are copied to other hosts. A commit fills
 * one vault slot. It holds replicated buffers whole; each local rank copies a
 * slice of them and owns one piece of the slot's table. Of sharded buffers it
 * holds only the parts that local ranks own, and those that came from other
 * hosts; each is the same slice of every sharded buffer, a shard, numbered by
 * the rank that owns it. A local buffer is sharded as well, by rank instead of
 * by a rule. Pieces and shards alike:
 *
 *     empty -> writing(id, count) -> complete(id, count, sum)
 *
 * `writing` is stored before the first byte changes, `complete` (release)
 * after the last. A vault slot holds commit id whole when its pieces 0 ..
 * count-1 are all complete with that id and that count; it also holds the
 * shards that are complete with that id. A commit that came from another host
 * has that host's pieces. `sum` is the hash of the part's own numbers, id
 * included, plus the hashes of the slices' blocks, each named by its buffer
 * and place (rg__sum in hash.h): so bytes under the id of another commit are
 * damaged bytes. Local ranks write their own places of the table of shards, the
 * agent those from RG__HOST_SLOTS_MAX on. */
#ifndef RG_BASE_PAGE_H
#define RG_BASE_PAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG__PAGE_BYTES     4096
#define RG__PAGE_MAGIC     0x70616765u
#define RG__VAULT_MAGIC    0x7661756cu
#define RG__VAULT_SLOTS    3 /* the most */
#define RG__HOST_SLOTS_MAX 64
#define RG__WORLD_MAX      16384 /* workers; a higher number is scribbled */
#define RG__BUFFER_MAX     (UINT64_C(1) << 48) /* bytes */
/* Shards in a vault slot: those of this host, and those of others. */
#define RG__FOREIGN_SHARDS_MAX 1024
#define RG__SHARDS_MAX         (RG__HOST_SLOTS_MAX + RG__FOREIGN_SHARDS_MAX)
#define RG__BUFFER_NAME_MAX    64
#define RG__BUFFERS_MAX        4096
/* A local buffer is one sharded buffer of so many cells, of which rank i has
 * cell i, whatever the size of the world. A cell begins with its length, so
 * that any holder knows how much it has; places cost nothing. */
#define RG__CELLS      RG__FOREIGN_SHARDS_MAX
#define RG__CELL_BYTES (RG__BUFFER_MAX / RG__CELLS)
#define RG__LINE       64

/* Why a worker has left before its process ends. */
typedef enum rg__finalized {
    RG__FINALIZED = 1, /* rg_finalize */
    RG__RUN_FAILED,    /* rg_run returned an error */
    RG__THREAD_ENDED   /* the thread that called rg_run, inside fn; or an
                          exception has left it */
} rg__finalized;

typedef struct rg__page {
    /* written by the worker, once, before ready */
    pthread_mutex_t life; /* robust, shared; its futex word is at offset 0 */
    _Atomic uint32_t magic;
    _Atomic int32_t tid;        /* of the Regroup thread */
    _Atomic uint32_t ready;     /* life is locked */
    _Atomic uint32_t dying;     /* signal number, stored by a crash handler */
    _Atomic int32_t dying_tid;  /* the thread that it struck; before dying */
    _Atomic uint32_t finalized; /* rg__finalized: it stores nothing more */

    /* written by the agent */
    _Alignas(RG__LINE) _Atomic uint64_t abort; /* highest aborted generation */
    _Atomic uint64_t announce; /* highest announced generation: the next step
                                  end before it turns into a commit */
    _Atomic uint64_t copied;   /* of this generation: 1 + the newest step whose
                                  shards all lie on other hosts too; 0: none */
    _Atomic uint64_t copied_generation; /* stored after copied = 0 */
    _Atomic uint64_t begun; /* generation whose commit 0 etcd has on record; fn
                               may be entered from then on; 0: none */
    _Atomic uint64_t saved; /* 1 + the step of the newest checkpoint; 0: none */
    _Atomic uint32_t ping;

    /* rung by the agent and by user threads, slept on by the Regroup thread */
    _Alignas(RG__LINE) _Atomic uint32_t wake;

    /* written by the worker: answers and progress, read by the agent */
    _Alignas(RG__LINE) _Atomic uint32_t pong;
    _Atomic uint64_t generation; /* that the worker computes in, 0 = none */
    _Atomic uint64_t step;       /* steps ended on the lineage */
    _Atomic uint64_t committed;  /* of this generation: 1 + the newest step
                                    whose commit counts; 0: none */
    _Atomic uint64_t committed_generation; /* stored after committed = 0 */
    _Atomic uint64_t zero;    /* generation whose commit 0 all have agreed on */
    _Atomic uint64_t step_ns; /* CLOCK_MONOTONIC of the last step end */
    _Atomic uint64_t loaded_serial; /* of the checkpoint that was loaded from
                                       --checkpoint-dir, 0: none; before the */
    _Atomic uint64_t loaded_step;   /* door. 1 + its step */
    _Atomic uint64_t left_ns;       /* the last generation was left */
    _Atomic uint64_t built_ns;      /* the data plane of the next was built */
    _Atomic uint64_t synced_ns;     /* registered memory was right again */
    _Atomic uint64_t first_generation; /* the newest generation in which a */
    _Atomic uint64_t first_ns;     /* step has ended, and the first's time */
    _Atomic uint64_t waited_ns;    /* threads of the program, for operations */
    _Atomic uint64_t step_took_ns; /* a step, smoothed over the last eight; */
    _Atomic uint64_t step_waited_ns; /* and the waiting in it; 0: none ended */
} rg__page;

/* The head of a cell; the rank's bytes follow. */
typedef struct rg__cell {
    uint64_t bytes, zeros[7];
} rg__cell;

_Static_assert(offsetof(rg__page, life) == 0, "the agent reads word 0");
_Static_assert(sizeof(rg__page) <= RG__PAGE_BYTES, "one page");

/* Ring `wake`. Any thread, async-signal-safe. */
void rg__page_ring(rg__page *page);

enum { RG__PIECE_EMPTY, RG__PIECE_WRITING, RG__PIECE_COMPLETE };

typedef struct rg__piece {
    _Alignas(RG__LINE) _Atomic uint32_t state;
    _Atomic uint32_t index, count; /* which of how many: of a piece the host's
                                      local ranks, of a shard the world's */
    _Atomic uint32_t shards; /* of a piece: shards in the commit, 0: none */
    _Atomic uint64_t generation, step; /* the commit's id */
    _Atomic uint64_t sum;
} rg__piece;

typedef struct rg__vault {
    _Atomic uint32_t magic;
    rg__piece slot[RG__VAULT_SLOTS][RG__HOST_SLOTS_MAX]; /* by local rank */
    rg__piece shard[RG__VAULT_SLOTS][RG__SHARDS_MAX];
} rg__vault;

/* A commit's id; {0, 0} is "none", since generations start at 1. */
typedef struct rg__commit_id {
    uint64_t generation, step;
} rg__commit_id;

static inline bool rg__same_commit(rg__commit_id a, rg__commit_id b)
{
    return a.generation == b.generation && a.step == b.step;
}

/* Which part of a commit a piece or shard is. */
typedef struct rg__part {
    rg__commit_id id;
    uint32_t index, count, shards;
} rg__part;

/* The beginning of a part's sum. */
uint64_t rg__part_hash(const rg__part *part);

/* Before the first byte of a piece changes, and after the last. */
void rg__piece_begin(rg__piece *piece, const rg__part *part);
void rg__piece_end(rg__piece *piece, uint64_t sum);
void rg__piece_empty(rg__piece *piece);

/* The commit that is complete in a vault slot, {0, 0}: none. */
rg__commit_id rg__vault_id(const rg__vault *vault, int slot);

/* The vault slot where the commit is complete, -1: none. */
int rg__vault_find(const rg__vault *vault, rg__commit_id id);

/* The commit that a vault slot holds parts of, complete or not. */
rg__commit_id rg__vault_part_id(const rg__vault *vault, int slot);

/* A shard of that commit which is complete there, NULL: none. */
rg__piece *rg__vault_shard(rg__vault *vault, int slot, rg__commit_id id,
                           uint32_t index);
bool rg__piece_is(const rg__piece *shard, rg__commit_id id);

void rg__vault_empty(rg__vault *vault, int slot);

size_t rg__page_round(size_t bytes);

/* Distance of the copies in a buffer's segment: its bytes, and if there are
 * enough of them the hashes of their blocks, rounded up to pages. */
size_t rg__vault_stride(size_t bytes);
/* Where those lie behind a copy of a replicated buffer: of the piece with that
 * index, whose slice begins there, the first; the others follow. They only tell
 * which blocks need no copy, and whether a sum is right tells whether that was
 * true. 0: there are none. */
size_t rg__vault_hashes(size_t bytes, size_t begin, uint32_t index);

/* Bytes [*begin_p, *end_p) of a buffer that part i of count covers; parts begin
 * at multiples of unit. */
void rg__slice(size_t bytes, size_t unit, uint32_t i, uint32_t count,
               size_t *begin_p, size_t *end_p);
/* The same in units of RG__LINE. */
void rg__vault_slice(size_t bytes, uint32_t i, uint32_t count, size_t *begin_p,
                     size_t *end_p);
/* Where shard i of count lies: a slice, or the whole cell of a local buffer. */
void rg__shard_place(bool is_local, size_t bytes, size_t unit, uint32_t i,
                     uint32_t count, size_t *begin_p, size_t *end_p);

#endif
