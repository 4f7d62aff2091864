/* The format of a checkpoint, strictly: what a file says is bounded before it
 * is used, the tables are trusted only if their hash matches, and every number
 * that follows from others is computed and compared. */
#include "elastic/state/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/hash.h"
#include "sdk/base/proof.h"

#define MAGIC         "\x89RGCK\r\n\x1a" /* a copy as text would break it */
#define TRAILER_MAGIC "RGCKend\n"
#define ORDER         0x01020304u
#define BYTES_MAX     (UINT64_C(1) << 56) /* of a buffer: sums don't overflow */

typedef struct head {
    char magic[8];
    uint32_t order, format;
    uint64_t head_bytes, file_bytes;
    uint64_t generation, step, serial, saved_ms;
    uint32_t world_size, buffers, pieces, files;
    char version[16], job[64], host[64], op[16];
    uint64_t zeros[2];
} head;

typedef struct buffer_row {
    char name[RG__BUFFER_NAME_MAX];
    uint64_t bytes;
    uint32_t kind, zero;
} buffer_row;

typedef struct piece_row {
    uint32_t buffer, file;
    uint64_t begin, bytes, offset, hash;
} piece_row;

typedef struct trailer {
    char magic[8];
    uint64_t head_hash, file_bytes;
    uint64_t hash; /* of the three before */
} trailer;

_Static_assert(sizeof(head) == 256, "no gaps");
_Static_assert(sizeof(buffer_row) == 80, "no gaps");
_Static_assert(sizeof(piece_row) == 40, "no gaps");
_Static_assert(sizeof(trailer) == RG__CHECKPOINT_TRAILER, "no gaps");

static uint64_t head_bytes_of(uint32_t buffers, uint32_t pieces)
{
    return rg__checkpoint_pages(sizeof(head) +
                                sizeof(buffer_row) * (uint64_t)buffers +
                                sizeof(piece_row) * (uint64_t)pieces);
}

static uint32_t format_of(const rg__checkpoint *c)
{
    for (uint32_t i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == RG_LOCAL)
            return RG__CHECKPOINT_FORMAT_LOCAL;
    if (c->files > 0)
        return RG__CHECKPOINT_FORMAT_FILES;
    for (uint32_t i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == RG_SHARDED)
            return RG__CHECKPOINT_FORMAT_SHARDS;
    return RG__CHECKPOINT_FORMAT;
}

/* ----------------------------------------------------------------- writing */

static rg_status add_buffer(rg__checkpoint *c, const char *name, uint64_t bytes,
                            rg_buffer_kind kind)
{
    rg__checkpoint_buffer *b = rg__grow(&c->buffer, c->buffers, sizeof *b);
    if (b == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    c->buffers++;
    *b = (rg__checkpoint_buffer){.bytes = bytes, .kind = kind};
    snprintf(b->name, sizeof b->name, "%s", name);
    return RG_OK;
}

/* Adds to the buffer that was added last. */
static rg_status add_piece(rg__checkpoint *c, uint64_t begin, uint64_t end)
{
    if (begin == end && c->buffer[c->buffers - 1].kind != RG_LOCAL)
        return RG_OK;
    if (c->pieces == RG__CHECKPOINT_PIECES)
        return rg__fail(RG_ERR_INVALID,
                        "a checkpoint has %d pieces at most; register fewer "
                        "sharded buffers",
                        RG__CHECKPOINT_PIECES);
    rg__checkpoint_piece *p = rg__grow(&c->piece, c->pieces, sizeof *p);
    if (p == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    c->pieces++;
    *p = (rg__checkpoint_piece){
        .buffer = c->buffers - 1, .begin = begin, .bytes = end - begin};
    return RG_OK;
}

rg_status rg__checkpoint_add(rg__checkpoint *c, const char *name,
                             uint64_t bytes)
{
    const rg_status st = add_buffer(c, name, bytes, RG_REPLICATED);
    return st == RG_OK ? add_piece(c, 0, bytes) : st;
}

rg_status rg__checkpoint_add_sharded(rg__checkpoint *c, const char *name,
                                     uint64_t bytes, uint64_t align,
                                     uint32_t shards)
{
    rg_status st = add_buffer(c, name, bytes, RG_SHARDED);
    for (uint32_t i = 0; i < shards && st == RG_OK; i++) {
        size_t begin, end;
        rg__slice(bytes, align, i, shards, &begin, &end);
        st = add_piece(c, begin, end);
    }
    return st;
}

rg_status rg__checkpoint_add_local(rg__checkpoint *c, const char *name,
                                   const uint64_t *bytes, uint32_t ranks)
{
    rg_status st = add_buffer(c, name, 0, RG_LOCAL);
    for (uint32_t i = 0; i < ranks && st == RG_OK; i++)
        st = add_piece(c, 0, bytes != NULL ? bytes[i] : 0);
    return st;
}

const char *rg__checkpoint_kind(rg_buffer_kind kind)
{
    return kind == RG_LOCAL     ? "local"
           : kind == RG_SHARDED ? "sharded"
                                : "replicated";
}

uint32_t rg__checkpoint_find(const rg__checkpoint *c, const char *name)
{
    uint32_t i = 0;
    while (i < c->buffers && strcmp(c->buffer[i].name, name) != 0)
        i++;
    return i;
}

const rg__checkpoint_piece *rg__checkpoint_part(const rg__checkpoint *c,
                                                uint32_t i, uint32_t rank)
{
    uint32_t k = 0;
    while (c->piece[k].buffer != i)
        k++;
    return &c->piece[k + rank];
}

rg_status rg__checkpoint_sign(rg__checkpoint *c, const char *job,
                              const char *host)
{
    uint32_t op;
    const rg_status st = rg__random_bytes(&op, sizeof op);
    if (st != RG_OK)
        return st;
    c->saved_ms = (uint64_t)rg__wall_ms();
    snprintf(c->op, sizeof c->op, "%08" PRIx32, op);
    snprintf(c->version, sizeof c->version, "%s", RG_VERSION);
    snprintf(c->job, sizeof c->job, "%s", job);
    snprintf(c->host, sizeof c->host, "%s", host);
    return RG_OK;
}

/* After the last piece of a file before the i-th. */
static uint64_t end_before(const rg__checkpoint *c, uint32_t file, uint32_t i)
{
    while (i-- > 0)
        if (c->piece[i].file == file)
            return c->piece[i].offset + rg__checkpoint_pages(c->piece[i].bytes);
    return file == 0 ? c->head_bytes : 0;
}

/* A local buffer's parts follow one another as well. */
static void add_up_parts(rg__checkpoint *c)
{
    for (uint32_t i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == RG_LOCAL)
            c->buffer[i].bytes = 0;
    for (uint32_t i = 0; i < c->pieces; i++) {
        rg__checkpoint_buffer *b = &c->buffer[c->piece[i].buffer];
        if (b->kind != RG_LOCAL)
            continue;
        c->piece[i].begin = b->bytes;
        b->bytes += c->piece[i].bytes;
    }
}

void rg__checkpoint_lay_out(rg__checkpoint *c)
{
    add_up_parts(c);
    c->head_bytes = head_bytes_of(c->buffers, c->pieces);
    for (uint32_t i = 0; i < c->pieces; i++)
        c->piece[i].offset = end_before(c, c->piece[i].file, i);
    c->file_bytes = end_before(c, 0, c->pieces) + sizeof(trailer);
}

uint64_t rg__checkpoint_bytes_of(const rg__checkpoint *c, uint32_t file)
{
    return end_before(c, file, c->pieces);
}

uint64_t rg__checkpoint_bytes(const rg__checkpoint *c)
{
    uint64_t sum = c->head_bytes + sizeof(trailer);
    for (uint32_t i = 0; i < c->pieces; i++)
        sum += rg__checkpoint_pages(c->piece[i].bytes);
    return sum;
}

static void encode_head(const rg__checkpoint *c, head *h)
{
    *h = (head){.order = ORDER,
                .format = format_of(c),
                .head_bytes = c->head_bytes,
                .file_bytes = c->file_bytes,
                .generation = c->id.generation,
                .step = c->id.step,
                .serial = c->serial,
                .saved_ms = c->saved_ms,
                .world_size = c->world_size,
                .buffers = c->buffers,
                .pieces = c->pieces,
                .files = c->files};
    memcpy(h->magic, MAGIC, sizeof h->magic);
    snprintf(h->version, sizeof h->version, "%s", c->version);
    snprintf(h->job, sizeof h->job, "%s", c->job);
    snprintf(h->host, sizeof h->host, "%s", c->host);
    snprintf(h->op, sizeof h->op, "%s", c->op);
}

static void encode_tables(const rg__checkpoint *c, unsigned char *at)
{
    for (uint32_t i = 0; i < c->buffers; i++, at += sizeof(buffer_row)) {
        const rg__checkpoint_buffer *b = &c->buffer[i];
        buffer_row row = {.bytes = b->bytes, .kind = (uint32_t)b->kind};
        snprintf(row.name, sizeof row.name, "%s", b->name);
        memcpy(at, &row, sizeof row);
    }
    for (uint32_t i = 0; i < c->pieces; i++, at += sizeof(piece_row)) {
        const rg__checkpoint_piece *p = &c->piece[i];
        const piece_row row = {.buffer = p->buffer,
                               .file = p->file,
                               .begin = p->begin,
                               .bytes = p->bytes,
                               .offset = p->offset,
                               .hash = p->hash};
        memcpy(at, &row, sizeof row);
    }
}

void rg__checkpoint_encode(rg__checkpoint *c, void *head_p,
                           unsigned char trailer_p[RG__CHECKPOINT_TRAILER])
{
    unsigned char *bytes = head_p;
    head h;
    memset(bytes, 0, c->head_bytes);
    encode_head(c, &h);
    memcpy(bytes, &h, sizeof h);
    encode_tables(c, bytes + sizeof h);
    c->head_hash = rg__hash_of(bytes, c->head_bytes);
    trailer t = {.head_hash = c->head_hash, .file_bytes = c->file_bytes};
    memcpy(t.magic, TRAILER_MAGIC, sizeof t.magic);
    t.hash = rg__hash_of(&t, offsetof(trailer, hash));
    memcpy(trailer_p, &t, sizeof t);
}

/* ------------------------------------------------------------------- texts */

/* It ends inside its room and only zeros follow. */
static bool is_text(const char *text, size_t room)
{
    const size_t n = strnlen(text, room);
    for (size_t i = n; i < room; i++)
        if (text[i] != '\0')
            return false;
    return n < room;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* -------------------------------------------------------------------- head */

static rg_status damaged(const rg__checkpoint_source *s, const char *how)
{
    return rg__fail(RG_ERR_DAMAGED,
                    "checkpoint %s is damaged: %s; use another one", s->name,
                    how);
}

static rg_status check_kind(const rg__checkpoint_source *s, const head *h)
{
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return rg__fail(RG_ERR_DAMAGED,
                        "%s is not a checkpoint: it does not begin like one",
                        s->name);
    if (h->order == __builtin_bswap32(ORDER))
        return rg__fail(RG_ERR_INVALID,
                        "checkpoint %s was written on a machine of the other "
                        "byte order; load it on a machine of that byte order",
                        s->name);
    if (h->order != ORDER)
        return damaged(s, "its byte order is unknown");
    if (h->format < RG__CHECKPOINT_FORMAT ||
        h->format > RG__CHECKPOINT_FORMAT_NEWEST)
        return rg__fail(RG_ERR_INVALID,
                        "checkpoint %s has format %" PRIu32 ", but Regroup %s "
                        "reads formats up to %u; use the version that wrote it",
                        s->name, h->format, RG_VERSION,
                        RG__CHECKPOINT_FORMAT_NEWEST);
    return RG_OK;
}

static rg_status check_length(const rg__checkpoint_source *s, uint64_t says)
{
    if (s->bytes < says)
        return rg__fail(RG_ERR_DAMAGED,
                        "checkpoint %s is cut: it has %" PRIu64 " of its "
                        "%" PRIu64 " bytes; copy it again or use another one",
                        s->name, s->bytes, says);
    if (s->bytes > says)
        return rg__fail(RG_ERR_DAMAGED,
                        "checkpoint %s has %" PRIu64 " bytes, %" PRIu64
                        " more than were written; copy it again or use "
                        "another one",
                        s->name, s->bytes, s->bytes - says);
    return RG_OK;
}

static rg_status check_head(const rg__checkpoint_source *s, const head *h)
{
    rg_status st = check_kind(s, h);
    if (st == RG_OK)
        st = check_length(s, h->file_bytes);
    if (st != RG_OK)
        return st;
    if (h->buffers > RG__CHECKPOINT_BUFFERS ||
        h->pieces > RG__CHECKPOINT_PIECES || h->files > h->pieces ||
        h->head_bytes != head_bytes_of(h->buffers, h->pieces) ||
        h->head_bytes + sizeof(trailer) > s->bytes)
        return damaged(s, "its head holds an impossible value");
    return RG_OK;
}

static void decode_head(rg__checkpoint *c, const head *h)
{
    c->id = (rg__commit_id){h->generation, h->step};
    c->serial = h->serial;
    c->saved_ms = h->saved_ms;
    c->world_size = h->world_size;
    c->buffers = h->buffers;
    c->pieces = h->pieces;
    c->files = h->files;
    c->head_bytes = h->head_bytes;
    c->file_bytes = h->file_bytes;
    memcpy(c->version, h->version, sizeof c->version);
    memcpy(c->job, h->job, sizeof c->job);
    memcpy(c->host, h->host, sizeof c->host);
    memcpy(c->op, h->op, sizeof c->op);
}

static bool is_head_right(const rg__checkpoint *c, const head *h)
{
    return h->zeros[0] == 0 && h->zeros[1] == 0 && c->id.generation != 0 &&
           c->serial != 0 && c->world_size != 0 &&
           is_text(h->version, sizeof h->version) && is_plain(h->version) &&
           is_text(h->job, sizeof h->job) && is_plain(h->job) &&
           is_text(h->host, sizeof h->host) && is_plain(h->host) &&
           is_text(h->op, sizeof h->op) &&
           strspn(h->op, "0123456789abcdef") == RG__CHECKPOINT_OP - 1 &&
           h->op[RG__CHECKPOINT_OP - 1] == '\0';
}

/* ------------------------------------------------------------------ tables */

static bool read_buffers(rg__checkpoint *c, const unsigned char *at)
{
    for (uint32_t i = 0; i < c->buffers; i++, at += sizeof(buffer_row)) {
        buffer_row row;
        memcpy(&row, at, sizeof row);
        if (!is_text(row.name, sizeof row.name) || row.name[0] == '\0' ||
            (row.bytes == 0 && row.kind != RG_LOCAL) || row.bytes > BYTES_MAX ||
            row.zero != 0 || row.kind > RG_LOCAL)
            return false;
        c->buffer[i] = (rg__checkpoint_buffer){
            .bytes = row.bytes, .kind = (rg_buffer_kind)row.kind};
        memcpy(c->buffer[i].name, row.name, sizeof row.name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(c->buffer[k].name, row.name) == 0)
                return false;
    }
    return true;
}

static void read_pieces(rg__checkpoint *c, const unsigned char *at)
{
    for (uint32_t i = 0; i < c->pieces; i++, at += sizeof(piece_row)) {
        piece_row row;
        memcpy(&row, at, sizeof row);
        c->piece[i] = (rg__checkpoint_piece){.buffer = row.buffer,
                                             .file = row.file,
                                             .begin = row.begin,
                                             .bytes = row.bytes,
                                             .offset = row.offset,
                                             .hash = row.hash};
    }
}

/* Files are numbered as they come, so none is without a piece. */
static bool do_files_fit(const rg__checkpoint *c)
{
    uint32_t files = 0;
    for (uint32_t i = 0; i < c->pieces; i++) {
        if (c->piece[i].file > files + 1)
            return false;
        files += c->piece[i].file == files + 1;
    }
    return files == c->files;
}

/* Do so many pieces of a buffer, up to `end`, cover it? */
static bool is_all(const rg__checkpoint *c, uint32_t buffer, uint64_t end,
                   uint32_t pieces)
{
    return end == c->buffer[buffer].bytes &&
           (c->buffer[buffer].kind != RG_LOCAL || pieces == c->world_size);
}

/* Pieces lie in the buffers' order and cover each buffer completely; in each
 * file they follow one another. end: where each file ends before them. */
static bool do_pieces_fit(const rg__checkpoint *c, uint64_t *end)
{
    uint32_t buffer = 0, pieces = 0;
    uint64_t begin = 0;
    for (uint32_t i = 0; i < c->pieces; i++) {
        const rg__checkpoint_piece *p = &c->piece[i];
        if (buffer == c->buffers || p->buffer != buffer || p->begin != begin ||
            p->offset != end[p->file] ||
            (p->bytes == 0 && c->buffer[buffer].kind != RG_LOCAL) ||
            p->bytes > c->buffer[buffer].bytes - begin)
            return false;
        begin += p->bytes;
        pieces++;
        end[p->file] += rg__checkpoint_pages(p->bytes);
        if (end[p->file] > (p->file == 0 ? c->file_bytes : 2 * BYTES_MAX))
            return false;
        if (is_all(c, buffer, begin, pieces)) {
            buffer++;
            begin = pieces = 0;
        }
    }
    return buffer == c->buffers && end[0] + sizeof(trailer) == c->file_bytes;
}

static rg_status check_pieces(const rg__checkpoint *c,
                              const rg__checkpoint_source *s)
{
    uint64_t *end = calloc((size_t)c->files + 1, sizeof *end);
    if (end == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the tables of %s",
                        s->name);
    end[0] = c->head_bytes;
    const bool fits = do_files_fit(c) && do_pieces_fit(c, end);
    free(end);
    return fits ? RG_OK : damaged(s, "its table of pieces is malformed");
}

static bool is_zero(const unsigned char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static rg_status read_tables(rg__checkpoint *c, const rg__checkpoint_source *s,
                             const unsigned char *bytes)
{
    const uint64_t pieces_at =
        sizeof(head) + sizeof(buffer_row) * (uint64_t)c->buffers;
    const uint64_t end = pieces_at + sizeof(piece_row) * (uint64_t)c->pieces;
    c->buffer = calloc(c->buffers + 1, sizeof *c->buffer);
    c->piece = calloc(c->pieces + 1, sizeof *c->piece);
    if (c->buffer == NULL || c->piece == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the tables of %s",
                        s->name);
    if (!read_buffers(c, bytes + sizeof(head)))
        return damaged(s, "its table of buffers is malformed");
    read_pieces(c, bytes + pieces_at);
    if (!is_zero(bytes + end, c->head_bytes - end))
        return damaged(s, "its table of pieces is malformed");
    return check_pieces(c, s);
}

/* ----------------------------------------------------------------- opening */

static rg_status check_trailer(rg__checkpoint *c,
                               const rg__checkpoint_source *s,
                               const unsigned char *bytes)
{
    trailer t;
    const rg_status st = s->read(s->arg, 0, s->bytes - sizeof t, &t, sizeof t);
    if (st != RG_OK)
        return st;
    c->head_hash = rg__hash_of(bytes, c->head_bytes);
    if (memcmp(t.magic, TRAILER_MAGIC, sizeof t.magic) != 0 ||
        t.hash != rg__hash_of(&t, offsetof(trailer, hash)) ||
        t.file_bytes != c->file_bytes)
        return damaged(s, "its trailer is malformed");
    if (t.head_hash != c->head_hash)
        return damaged(s, "its head does not have the hash that its trailer "
                          "has");
    return RG_OK;
}

static rg_status read_all(rg__checkpoint *c, const rg__checkpoint_source *s,
                          const head *h)
{
    unsigned char *bytes = malloc(h->head_bytes);
    if (bytes == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the head of %s", s->name);
    decode_head(c, h);
    rg_status st = s->read(s->arg, 0, 0, bytes, h->head_bytes);
    if (st == RG_OK && memcmp(bytes, h, sizeof *h) != 0)
        st = damaged(s, "it changes while it is read");
    if (st == RG_OK)
        st = check_trailer(c, s, bytes);
    if (st == RG_OK && !is_head_right(c, h))
        st = damaged(s, "its head holds an impossible value");
    if (st == RG_OK)
        st = read_tables(c, s, bytes);
    if (st == RG_OK && h->format != format_of(c))
        st = damaged(s, "its format does not fit its buffers");
    free(bytes);
    return st;
}

rg_status rg__checkpoint_open(rg__checkpoint *c, const rg__checkpoint_source *s)
{
    head h;
    *c = (rg__checkpoint){0};
    if (s->bytes < sizeof h + sizeof(trailer))
        return rg__fail(RG_ERR_DAMAGED,
                        "%s is not a checkpoint: its %" PRIu64 " bytes are too "
                        "few",
                        s->name, s->bytes);
    rg_status st = s->read(s->arg, 0, 0, &h, sizeof h);
    if (st == RG_OK)
        st = check_head(s, &h);
    if (st == RG_OK)
        st = read_all(c, s, &h);
    if (st != RG_OK)
        rg__checkpoint_close(c);
    return st;
}

void rg__checkpoint_close(rg__checkpoint *c)
{
    free(c->buffer);
    free(c->piece);
    *c = (rg__checkpoint){0};
}
