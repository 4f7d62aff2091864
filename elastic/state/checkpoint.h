/* A checkpoint: a commit in a file, which outlives the job. This header is the
 * format and the reader; checkpoint_dir.h is where such files lie.
 *
 *   0           head        magic, order, format, lengths, the commit's id ...
 *   256         a row for each buffer, then one for each piece, then zeros
 *   head_bytes  data        each piece at a multiple of RG__CHECKPOINT_PAGE,
 *                           zeros after it
 *   the end     trailer     XXH3 of everything before the data, and the length
 *
 * Data that other hosts have written lie in files of their own, which have
 * nothing but pieces, laid out the same way. The head says which piece is in
 * which file, so it is a manifest too.
 *
 * README.md has every field. A buffer is one or more pieces, in order and
 * without gaps: a replicated one is one piece, a sharded one a piece for each
 * shard of the world that made the commit, a local one a piece for each of its
 * ranks, also for those that have nothing. Numbers and data are in the writer's
 * byte order, which `order` shows. Every byte of a file is covered by a hash or
 * must be zero, and there is one way to write each: any change is refused.
 *
 * Threads:   any; nothing is shared.
 * Ownership: rg__checkpoint_close frees what open and read made; sources are
 *            borrowed for the call. */
#ifndef RG_ELASTIC_CHECKPOINT_H
#define RG_ELASTIC_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "regroup/regroup.h"
#include "sdk/base/page.h"

#define RG__CHECKPOINT_FORMAT        1u /* of replicated buffers alone */
#define RG__CHECKPOINT_FORMAT_SHARDS 2u
#define RG__CHECKPOINT_FORMAT_FILES  3u
#define RG__CHECKPOINT_FORMAT_LOCAL  4u
#define RG__CHECKPOINT_FORMAT_NEWEST RG__CHECKPOINT_FORMAT_LOCAL
#define RG__CHECKPOINT_PAGE          4096
#define RG__CHECKPOINT_TRAILER       32 /* bytes */
#define RG__CHECKPOINT_BUFFERS       4096
#define RG__CHECKPOINT_PIECES        65536
#define RG__CHECKPOINT_OP            9 /* eight hex digits and NUL */

typedef struct rg__checkpoint_buffer {
    char name[RG__BUFFER_NAME_MAX];
    uint64_t bytes;
    rg_buffer_kind kind;
} rg__checkpoint_buffer;

/* Bytes [begin, begin + bytes) of a buffer. */
typedef struct rg__checkpoint_piece {
    uint32_t buffer;
    uint32_t file; /* 0: the one with the head */
    uint64_t begin, bytes;
    uint64_t offset; /* in its file */
    uint64_t hash;   /* XXH3 of these bytes */
} rg__checkpoint_piece;

typedef struct rg__checkpoint {
    rg__commit_id id;
    uint64_t serial;   /* counts the checkpoints of a directory from 1 */
    uint64_t saved_ms; /* CLOCK_REALTIME, for people */
    uint32_t world_size;
    char version[16], job[64], host[64];
    char op[RG__CHECKPOINT_OP]; /* random: identifies the writing */
    rg__checkpoint_buffer *buffer;
    rg__checkpoint_piece *piece;
    uint32_t buffers, pieces;
    uint32_t files; /* besides the one with the head */
    uint64_t head_bytes, file_bytes;
    uint64_t head_hash; /* over all before the data: names the contents */
} rg__checkpoint;

/* Where bytes of a file come from. */
typedef struct rg__checkpoint_source {
    const char *name; /* for sentences */
    uint64_t bytes;   /* of the file with the head */
    /* Before that file is read, not 0. ERR_DAMAGED: it is not there, or does
     * not have so many bytes. */
    rg_status (*open)(void *arg, uint32_t file, uint64_t bytes);
    /* Fill n bytes at to, all or none; at + n is within the file. */
    rg_status (*read)(void *arg, uint32_t file, uint64_t at, void *to,
                      size_t n);
    void *arg;
} rg__checkpoint_source;

/* With the zeros after it, up to a whole number of RG__CHECKPOINT_PAGE. */
static inline uint64_t rg__checkpoint_pages(uint64_t bytes)
{
    return (bytes + RG__CHECKPOINT_PAGE - 1) / RG__CHECKPOINT_PAGE *
           RG__CHECKPOINT_PAGE;
}

/* Read head, tables and trailer. ERR_DAMAGED with one sentence if it is not a
 * checkpoint as this library writes it, ERR_INVALID for one of a newer library
 * or of the other byte order; then there is nothing to close. */
rg_status rg__checkpoint_open(rg__checkpoint *c,
                              const rg__checkpoint_source *source);
void rg__checkpoint_close(rg__checkpoint *c);

/* Read all data and compare it with its hashes. ERR_DAMAGED. */
rg_status rg__checkpoint_verify(const rg__checkpoint *c,
                                const rg__checkpoint_source *source);

/* The same for replicated buffers; files with other pieces must only exist. */
rg_status rg__checkpoint_verify_replicated(const rg__checkpoint *c,
                                           const rg__checkpoint_source *source);

/* Gets bytes of a buffer, from `at` on; any status but OK ends the reading. */
typedef rg_status (*rg__checkpoint_keep_fn)(void *arg, uint64_t at,
                                            const void *bytes, size_t n);

/* Hand bytes [begin, end) of buffer i to `keep`. Reads and verifies each piece
 * that it needs. ERR_DAMAGED: some may have been kept. */
rg_status rg__checkpoint_take(const rg__checkpoint *c,
                              const rg__checkpoint_source *source, uint32_t i,
                              uint64_t begin, uint64_t end,
                              rg__checkpoint_keep_fn keep, void *arg);

/* Which buffer has that name; c->buffers: none. */
uint32_t rg__checkpoint_find(const rg__checkpoint *c, const char *name);
/* A rank's piece of a local buffer. */
const rg__checkpoint_piece *rg__checkpoint_part(const rg__checkpoint *c,
                                                uint32_t i, uint32_t rank);
/* "replicated", "sharded", "local" */
const char *rg__checkpoint_kind(rg_buffer_kind kind);

/* Writing. Add a replicated buffer, of one piece; a sharded one, of a piece
 * for each of so many shards that has any bytes. */
rg_status rg__checkpoint_add(rg__checkpoint *c, const char *name,
                             uint64_t bytes);
rg_status rg__checkpoint_add_sharded(rg__checkpoint *c, const char *name,
                                     uint64_t bytes, uint64_t align,
                                     uint32_t shards);
/* A local one, of a piece for each rank; their lengths may be filled in later,
 * in the pieces, before it is laid out. bytes NULL: later. */
rg_status rg__checkpoint_add_local(rg__checkpoint *c, const char *name,
                                   const uint64_t *bytes, uint32_t ranks);
/* Note the writer and the time, and draw a random op. */
rg_status rg__checkpoint_sign(rg__checkpoint *c, const char *job,
                              const char *host);
/* Offsets and lengths follow from buffers and pieces. */
void rg__checkpoint_lay_out(rg__checkpoint *c);
/* Bytes of one of the other files, and of all of them. */
uint64_t rg__checkpoint_bytes_of(const rg__checkpoint *c, uint32_t file);
uint64_t rg__checkpoint_bytes(const rg__checkpoint *c);
/* Write head_bytes, all that comes before the data, and the trailer. The
 * pieces' hashes are given, and head_hash follows from them. */
void rg__checkpoint_encode(rg__checkpoint *c, void *head,
                           unsigned char trailer[RG__CHECKPOINT_TRAILER]);

#endif
