/* A commit out of the vault, on its way into a checkpoint: which pieces of the
 * file this host writes, and their bytes in memory of the writer's process. */
#ifndef RG_AGENT_IMAGE_H
#define RG_AGENT_IMAGE_H

#include "elastic/agent/checkpoint/writer.h"

/* Bytes [begin, end) of a buffer: one piece of the checkpoint. */
typedef struct rg__image_piece {
    int buffer;    /* of the agent's */
    int64_t shard; /* the rank that owns it; -1: of a replicated buffer */
    bool is_ours;
    size_t begin, end;
    size_t at; /* in the copy */
} rg__image_piece;

typedef struct rg__image {
    const rg__writer_task *task;
    rg__vault *vault;
    rg__checkpoint checkpoint; /* all pieces, laid out */
    rg__image_piece *piece;    /* the same ones */
    uint32_t pieces;
    uint32_t file;     /* that this host writes; 0: the one with the head */
    const void **data; /* of each; NULL: another host's */
    char *memory;
    size_t bytes;
    int vault_slot; /* that it was copied from; before, that was measured */
} rg__image;

/* Lay the checkpoint out and get the memory; all of it is there before a commit
 * is looked for, so that copying takes no longer than it must. */
rg_status rg__image_begin(rg__image *c, const rg__writer_task *task);

/* Copy our pieces of a commit. false: a later commit came in between, or our
 * shards of it are not there. */
bool rg__image_fill(rg__image *c, int vault_slot, rg__commit_id id);

/* Compare the copy with the vault's checksums. ERR_DAMAGED. */
rg_status rg__image_check(const rg__image *c);

#endif
