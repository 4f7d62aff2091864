/* A checkpoint as a file that anybody may have written, and the names in its
 * directory. The first byte of an input says what the rest is: n a line is a
 * name; s a file whose hashes are made right first, as a liar would; else a
 * file as it is. */
#include <string.h>

#include "elastic/state/checkpoint_dir.h"
#include "sdk/base/hash.h"
#include "tests/fuzz/fuzz.h"
#include "tests/state/checkpoint_bytes.h"

#define AT_HEAD_BYTES 16
#define AT_FILE_BYTES 24
#define AT_BUFFERS    68
#define AT_PIECES     72
#define HEAD          256
#define BUFFER_ROW    80
#define PIECE_ROW     40

static uint64_t number_at(const uint8_t *file, size_t at, size_t bytes)
{
    uint64_t n = 0;
    memcpy(&n, file + at, bytes);
    return n;
}

static void sign_pieces(uint8_t *file, size_t n)
{
    const uint64_t pieces = number_at(file, AT_PIECES, 4);
    uint64_t at = HEAD + BUFFER_ROW * number_at(file, AT_BUFFERS, 4);
    for (uint64_t i = 0; i < pieces && at + PIECE_ROW <= n; i++) {
        const uint64_t bytes = number_at(file, at + 16, 8);
        const uint64_t offset = number_at(file, at + 24, 8);
        if (offset <= n && bytes <= n - offset) {
            const uint64_t hash = rg__hash_of(file + offset, bytes);
            memcpy(file + at + 32, &hash, sizeof hash);
        }
        at += PIECE_ROW;
    }
}

static void sign(uint8_t *file, size_t n)
{
    if (n < HEAD + RG__CHECKPOINT_TRAILER)
        return;
    uint8_t *trailer = file + n - RG__CHECKPOINT_TRAILER;
    const uint64_t length = n;
    memcpy(file + AT_FILE_BYTES, &length, sizeof length);
    sign_pieces(file, n);
    const uint64_t head_bytes = number_at(file, AT_HEAD_BYTES, 8);
    if (head_bytes <= n) {
        const uint64_t hash = rg__hash_of(file, head_bytes);
        memcpy(trailer + 8, &hash, sizeof hash);
    }
    memcpy(trailer + 16, &length, sizeof length);
    const uint64_t hash = rg__hash_of(trailer, 24);
    memcpy(trailer + 24, &hash, sizeof hash);
}

/* What is taken could have been written: the same head comes out again. */
static void check_taken(const uint8_t *file, size_t n, rg__checkpoint *c)
{
    unsigned char trailer[RG__CHECKPOINT_TRAILER];
    unsigned char *head = malloc(c->head_bytes);
    FUZZ_CLAIM(head != NULL);
    FUZZ_CLAIM(c->file_bytes == n && c->id.generation > 0 && c->serial > 0);
    FUZZ_CLAIM(c->pieces >= c->buffers);
    rg__checkpoint_lay_out(c);
    FUZZ_CLAIM(c->file_bytes == n);
    rg__checkpoint_encode(c, head, trailer);
    FUZZ_CLAIM(memcmp(head, file, c->head_bytes) == 0);
    FUZZ_CLAIM(memcmp(trailer, file + n - sizeof trailer, sizeof trailer) == 0);
    free(head);
}

static void read_file(const uint8_t *file, size_t n)
{
    rg__checkpoint c;
    const rg_status st = read_checkpoint(file, n, &c);
    if (st == RG_OK)
        check_taken(file, n, &c);
    else
        FUZZ_CLAIM((st == RG_ERR_DAMAGED || st == RG_ERR_INVALID) &&
                   rg_last_error()[0] != '\0');
    rg__checkpoint_close(&c);
}

static void read_name(fuzz_input *in)
{
    char *text = fuzz_line(in);
    rg__checkpoint_name name;
    if (rg__checkpoint_name_read(text, &name)) {
        FUZZ_CLAIM(strcmp(text, name.text) == 0 && name.serial > 0);
        FUZZ_CLAIM(strchr(text, '/') == NULL);
    }
    free(text);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    const uint8_t what = fuzz_byte(&in);
    if (what == 'n') {
        read_name(&in);
    } else if (what == 's' && in.left > 0) {
        uint8_t *file = malloc(in.left);
        FUZZ_CLAIM(file != NULL);
        memcpy(file, in.at, in.left);
        sign(file, in.left);
        read_file(file, in.left);
        free(file);
    } else {
        read_file(in.at, in.left);
    }
}
