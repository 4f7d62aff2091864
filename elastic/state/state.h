/* Registered memory, and its way into the vault and back. The worker room
 * drives it, and offers through ctx->hooks what only that room can do. */
#ifndef RG_ELASTIC_STATE_H
#define RG_ELASTIC_STATE_H

#include <string.h>

#include "elastic/state/checkpoint.h"
#include "elastic/state/history.h"
#include "sdk/base/hash.h"
#include "sdk/core/context.h"

typedef struct rg__state_buffer {
    char name[RG__BUFFER_NAME_MAX];
    char *data; /* the caller's memory, borrowed; NULL: it is on the device */
    rg__device *device; /* NULL: it is host memory */
    char *there;        /* the caller's memory on the device; borrowed */
    size_t bytes;
    bool is_sharded;
    bool is_local;       /* as well: `bytes` are this rank's own */
    uint32_t replicas;   /* of a shard, on other hosts */
    size_t align;        /* where shards begin */
    int fd;              /* of the vault, borrowed; -1: alone, there is none */
    uint64_t place;      /* where its room begins there */
    char *vault;         /* its room, mapped: a copy for each vault slot */
    size_t stride, room; /* between the copies; bytes mapped */
    uint64_t *ahead;     /* hashes of blocks of registered memory, as those in
                            the vault lie; 0: not copied ahead. NULL: none */
    /* local.c */
    char *cell[RG__VAULT_SLOTS];     /* this rank's, mapped; NULL: not yet */
    size_t cell_room;                /* bytes mapped of each */
    rg_redistribute_fn redistribute; /* NULL: other parts are refused */
    void *redistribute_arg;
    /* compare.c */
    bool may_differ, is_constant; /* as registered */
    bool has_differed, is_still;  /* that was found, and reported */
    uint64_t slice_hash;          /* of the last commit's part of it here */
    bool has_slice_hash;          /* there was one in this generation */
    bool has_changed;             /* since the first */
} rg__state_buffer;

/* REGROUP_CHECK_STATE; zeros: auto. */
typedef struct rg__state_check {
    uint32_t is_off, is_strict, every;
} rg__state_check;

/* A commit that may be resumed from: nothing is saved over it. */
typedef struct rg__live {
    rg__commit_id id;
    int slot;
    char hash[17]; /* of registered memory, until the history has it; "" */
} rg__live;

/* A directory whose checkpoints up to `newest` are of this job, since they were
 * loaded or written. */
typedef struct rg__state_dir {
    char path[RG__TEXT_MAX]; /* absolute */
    uint64_t newest;         /* serial */
} rg__state_dir;

/* The checkpoint that was loaded. Which part of a sharded buffer a rank needs
 * is known inside rg_run only. */
typedef struct rg__state_loaded {
    char dir[RG__TEXT_MAX], name[RG__TEXT_MAX]; /* of the file; name "": none */
    uint64_t hash;                              /* of its head */
    bool is_named; /* and not the newest of a directory */
} rg__state_loaded;

/* A metric of the step that is under way (rg_metric). */
typedef struct rg__metric {
    char name[RG__SCALAR_NAME];
    double value;
    rg_op op;
} rg__metric;

struct rg_state {
    rg_ctx *ctx;
    rg__state_buffer *buffer;
    int buffers;
    bool is_in_fn;      /* fn runs: steps may end */
    bool is_run;        /* rg_run is on the stack; else ctx may be gone */
    bool is_resumed;    /* until rg_finalize: ctx lives, and others wait */
    bool outlives;      /* the loss of others: an MPI call that a death has
                         * broken may have succeeded here */
    int cancel_state;   /* of rg_run's thread in the program's code */
    uint64_t step;      /* ended on this lineage */
    uint64_t waited_ns; /* of this worker, when that one ended */
    int slots;          /* of the vault: 2, or 3 where shards are copied */
    bool has_shards, has_local;
    const rg__state_buffer *dealt;  /* whose function redistributes it, NULL */
    bool has_copies;                /* of shards, on other hosts */
    rg__live live[RG__VAULT_SLOTS]; /* the oldest first, the newest agreed
                                       commit last */
    int lives;
    int vault_slot;     /* that was filled or resumed from last, -1: none */
    rg__commit_id last; /* the newest agreed commit */
    int last_rank, last_size; /* of this worker when it was made */
    uint64_t commits;         /* made in this generation, commit 0 included */
    bool is_first;            /* the generation began without a commit */
    rg__state_check check, world_check; /* this worker's; rank 0's */
    size_t compared;   /* bytes of replicated buffers, of the comparison */
    bool is_comparing; /* that goes on at the next commit */
    bool wants_stop;   /* rg_stop, here or on another rank */
    bool has_stopped;  /* the ranks have agreed that this step is the last */
    uint32_t ahead;    /* pieces of the commits that were copied ahead, 0: none
                          were */
    uint64_t was_here; /* bytes of the decided commit that the last restore
                          found copied ahead */
    bool is_clean;     /* the generation was left by agreement: registered
                          memory is `last` */
    rg_reset_fn on_reset;
    void *reset_arg;
    rg_save_fn on_save;
    void *save_arg;
    void (*abandon)(rg_state *state); /* before it is freed; NULL: nothing */
    rg_commit_fn on_commit;
    void *commit_arg;
    uint64_t told; /* steps up to it count, and on_commit was called for them */
    rg__commit_id doubted; /* a commit that was begun here: the next decision
                            * may have to tell whether it counts */
    rg__history *history;  /* NULL: none is kept */
    uint64_t sample_epoch, sample_first, sample_count; /* of this step */
    bool has_samples;
    rg__metric metric[RG__SCALARS_OF_STEP];
    int metrics;
    rg__state_dir *dir; /* directories of checkpoints that we know; owned */
    int dirs;
    rg__state_loaded loaded; /* or only examined: */
    char due[RG__TEXT_MAX];  /* what this rank loads if its memory becomes the
                              * job's, "": nothing */
    uint64_t loaded_step;    /* 1 + its step, 0: none */
    uint64_t asked_step, asked_ns; /* of the last checkpoint by itself */
    rg__commit_id asked;           /* for the job's directory, last */
    bool is_due;     /* the ranks have agreed that this commit becomes one */
    bool has_warned; /* that there is no directory; or alone, why not */
};

/* A sampler's note: positions [first, first + count) of the epoch belong to
 * the step that is under way. */
void rg__state_note_samples(rg_state *state, uint64_t epoch, uint64_t first,
                            uint64_t count);

/* Bring registered memory to the decision's commit, on all ranks, from the
 * vault; if the decision has none, to rank `source`'s memory, which becomes
 * commit 0. Collective over the world, on the thread of rg_run. */
rg_status rg__state_sync(rg_state *state, const rg__decided *decided);

/* The world's agreements of this room; ranks that differ get ERR_MISMATCH. */
enum {
    RG__STATE_AGREE_STEP_END = 1,
    RG__STATE_AGREE_COMMIT,
    RG__STATE_AGREE_FINISH,
    RG__STATE_AGREE_SYNC,
    RG__STATE_AGREE_COPIES,
    RG__STATE_AGREE_SHARDS,
    RG__STATE_AGREE_COMPARE,
    RG__STATE_AGREE_RESUME,
    RG__STATE_AGREE_PARTS,
    RG__STATE_AGREE_WRITE
};

/* ERR_INVALID: `what` was called where no step is under way. */
rg_status rg__state_check_in_fn(const rg_state *state, const char *what);

/* metric.c: the step ends; collective over the world. */
rg_status rg__state_reduce_metrics(rg_state *state, uint64_t step);

/* compare.c. ERR_INVALID: a bad REGROUP_CHECK_STATE. */
rg_status rg__state_check_read(const char *text, rg__state_check *check_p);
/* A generation begins: rank 0's setting counts for all. Collective. */
rg_status rg__state_check_agree(rg_state *state, bool is_first);
/* Before a commit is saved: do due comparisons. Collective; ERR_MISMATCH, on
 * all ranks: replicated memory differs, and the setting is strict. */
rg_status rg__state_look(rg_state *state, uint64_t step);
/* Is any comparison due then? The same on all ranks. */
bool rg__state_looks(const rg_state *state);
/* A commit takes so many bytes of a buffer from this rank, with that hash. */
void rg__state_note_slice(rg__state_buffer *b, uint64_t hash);

/* on_device.c. May it be registered? */
rg_status rg__state_check_memory(const rg_ctx *ctx, const void *data,
                                 rg_memory memory);
/* Registered memory, wherever it is. Before a load and a sync: wait until what
 * the program has enqueued can't write any buffer. ERR_DEVICE. */
rg_status rg__state_await_device(const rg_state *state);
/* Hand on bytes [begin, end) in one or several pieces; an error of fn ends it.
 * ERR_DEVICE, ERR_INVALID: device memory can't be read, or is gone. */
rg_status rg__state_read(const rg__state_buffer *b, size_t begin, size_t end,
                         rg__device_piece_fn fn, void *arg);
rg_status rg__state_copy_out(const rg__state_buffer *b, size_t begin,
                             size_t end, char *to);
/* They are written after the flush; `from` may change before. */
rg_status rg__state_write(const rg__state_buffer *b, size_t at,
                          const char *from, size_t n);
rg_status rg__state_flush(const rg_state *state);
/* Bytes [begin, end); if unreadable, a hash is wrong, and a warning says so. */
void rg__state_hash_buffer(const rg__state_buffer *b, size_t begin, size_t end,
                           rg__hash *hash);

/* pieces.c. Fill this rank's piece and shard of a vault slot. PEER_LOST: the
 * generation has ended. */
rg_status rg__state_fill(rg_state *state, int slot, rg__commit_id id);
/* Without a vault: is this rank's memory what the newest commit has hashed? */
bool rg__state_is_unchanged(rg_state *state);
/* Invalidate this rank's piece of a vault slot. */
rg_status rg__state_spoil(rg_state *state, int slot);
/* Restore the replicated buffers, or only verify this rank's share of the slot.
 * PEER_LOST: also when a piece is damaged, which is published. */
rg_status rg__state_restore(rg_state *state, int slot, rg__commit_id id,
                            bool is_needed);
/* The same for this rank's present part of the sharded buffers. */
rg_status rg__state_restore_shard(rg_state *state, int slot, rg__commit_id id,
                                  bool is_needed);
/* ahead.c. Hashes of the blocks of the slice that begins there, of the piece
 * with that index: in the vault, stored when the block is there, and of
 * registered memory, where it was copied ahead. NULL: there are none. */
_Atomic uint64_t *rg__state_hashes(const rg__state_buffer *b, int slot,
                                   size_t begin, uint32_t index);
const uint64_t *rg__state_ahead(const rg__state_buffer *b, size_t begin,
                                uint32_t index);
/* A worker that has no place yet copies blocks that its memory lacks: of the
 * newest whole commit in its host's vault, or, to follow, of the one that is
 * being written. The bytes copied, 0: nothing, for now. */
size_t rg__state_copy_ahead(rg_state *state, bool follows);
/* Registered memory changes. */
void rg__state_forget_ahead(rg_state *state);
/* This rank's part of a sharded buffer, all of a replicated one. */
void rg__state_slice(const rg__state_buffer *b, uint32_t rank, uint32_t size,
                     size_t *begin_p, size_t *end_p);
/* local.c. Have the agent make room for a buffer, or for a local one's
 * cells. */
rg_status rg__state_ask_room(const rg_state *state, rg__state_buffer *b,
                             size_t need);
rg_status rg__state_check_local(const char *name, const void *data,
                                size_t bytes);
/* The buffer of that name; NULL: none is registered. */
static inline rg__state_buffer *rg__state_find(const rg_state *state,
                                               const char *name)
{
    for (int i = 0; i < state->buffers; i++)
        if (strcmp(state->buffer[i].name, name) == 0)
            return &state->buffer[i];
    return NULL;
}
/* register.c. A hash of buffers and their order, equal in all workers. */
uint64_t rg__state_registered(const rg_state *state);

/* local.c. Where a local buffer's parts come from: a vault slot or
 * checkpoint. */
struct rg_parts {
    rg_state *state;
    const rg__state_buffer *b;
    uint32_t count;
    int slot; /* of the vault, whose parts are verified */
    const rg__checkpoint *checkpoint; /* NULL: the vault */
    const rg__checkpoint_source *source;
};
/* One part in a vault slot, mapped. */
typedef struct rg__state_cell {
    char *at; /* its head; the bytes follow */
    size_t bytes, room;
} rg__state_cell;
rg_status rg__state_open_cell(const rg__state_buffer *b, int slot, uint32_t i,
                              rg__state_cell *cell);
void rg__state_close_cell(rg__state_cell *cell);
/* Room for this rank's bytes in every vault slot, after the head. */
rg_status rg__state_reserve_cell(const rg_state *state, rg__state_buffer *b);
void rg__state_unmap_cell(rg__state_buffer *b);
/* Redistribute local buffers whose parts don't fit what this rank has
 * registered, or refuse them. Only this rank has the sentence then. */
rg_status rg__state_deal(const rg_parts *from);
/* All ranks have dealt, this one with that status: return the same on all, OK
 * or not. Collective. */
rg_status rg__state_agree_parts(rg_state *state, rg_status mine);

/* Reserve this rank's part of the sharded buffers in every vault slot. */
rg_status rg__state_reserve_shard(rg_state *state);

/* save.c. The path as an absolute one; ERR_INVALID: too long. */
rg_status rg__state_absolute(const char *dir, char to[RG__TEXT_MAX]);
/* Write registered memory, of the newest commit, as a checkpoint: collective,
 * without agents. *elsewhere_p: another rank knows why it failed. */
rg_status rg__state_write_world(rg_state *state, const char *dir, int keep,
                                bool *elsewhere_p);
/* The serial up to which a directory's checkpoints are ours, 0: none are. */
uint64_t rg__state_known(const rg_state *state, const char *path);
/* Set up to which serial a directory's checkpoints are ours. */
void rg__state_know(rg_state *state, const char *path, uint64_t newest);

/* load.c. This rank's shards from the checkpoint that rank `source` has loaded,
 * if it has. Collective over the world. ERR_DAMAGED is one rank's own: the
 * others must be told of it, and of the outcome for local buffers. */
rg_status rg__state_load_shards(rg_state *state, int source,
                                rg_status *dealt_p);
/* Load a checkpoint of which a newcomer has only read the head, if any. */
rg_status rg__state_load_due(rg_state *state);
/* Load the one before it, if a directory was loaded; on rank `source`.
 * ERR_DAMAGED: there is none. */
rg_status rg__state_load_before(rg_state *state);

/* Does --checkpoint-every make a checkpoint of this step's commit? */
bool rg__state_is_due(const rg_state *state, uint64_t step);
/* After a commit, before it is left, on every rank: ask for a checkpoint of it,
 * in that directory (NULL: --checkpoint-dir), keeping so many (0: the
 * setting's). Training goes on whether it succeeds or not. */
void rg__state_ask(rg_state *state, const char *dir, int keep);
/* The same once fn has returned on all ranks, of the newest commit, if there is
 * a directory and it is no checkpoint yet. */
void rg__state_ask_last(rg_state *state);
/* Before the door: the agent may have to write a checkpoint by itself. */
void rg__state_show_loaded(const rg_state *state);

/* Did fn return that status because the job ends at this commit? */
bool rg__state_has_stopped(const rg_state *state, rg_status st);

/* All steps that have ended here count: call on_commit for the new ones. */
void rg__state_tell(rg_state *state);

/* Agree that fn has returned OK on all ranks. Collective over the world. */
rg_status rg__state_finish(rg_state *state);

/* History: a checkpoint was loaded, which belongs to no generation. */
void rg__state_note_load(const rg_state *state);

/* History: an event in a step, with or without the hash of memory; the end of
 * the step that is under way. */
void rg__state_note(rg_state *state, const char *event, uint64_t step,
                    bool hashed);
void rg__state_note_step(rg_state *state);

/* History: a commit counts, and is safe from the loss of hosts. */
void rg__state_note_made(const rg_state *state, rg__live *live);
void rg__state_note_stored(const rg_state *state, rg__live *live);

/* History: this worker takes up a generation, and has left it. */
void rg__state_note_join(rg_state *state, const rg__decided *decided);
void rg__state_note_leave(rg_state *state);

#endif
