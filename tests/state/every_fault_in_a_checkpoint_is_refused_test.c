/* A checkpoint with any one bit flipped, cut anywhere, or followed by other
 * bytes is refused with a sentence; so are false heads under a right hash.
 *
 * Covers: state/checkpoint.c checkpoint_data.c hash.c */
#include <stdlib.h>

#include "elastic/state/checkpoint.h"
#include "sdk/base/hash.h"
#include "tests/check.h"
#include "tests/state/checkpoint_bytes.h"

/* Where fields lie; README.md of the room says so too. */
#define AT_ORDER   8
#define AT_FORMAT  12
#define AT_HEAD    16
#define AT_FILE    24
#define AT_GEN     32
#define AT_SERIAL  48
#define AT_WORLD   64
#define AT_BUFFERS 68
#define AT_PIECES  72
#define AT_FILES   76
#define AT_JOB     96
#define AT_OP      224
#define AT_NAME    256
#define AT_BYTES   (256 + 64)
#define AT_KIND    (256 + 72)
#define AT_PIECE   (256 + 2 * 80)

typedef struct image {
    unsigned char *bytes;
    size_t n;
} image;

static image make(void)
{
    rg__checkpoint c = {0};
    unsigned char data[2][100];
    unsigned char trailer[RG__CHECKPOINT_TRAILER];
    memset(data[0], 7, sizeof data[0]);
    memset(data[1], 9, sizeof data[1]);
    CHECK_OK(rg__checkpoint_add(&c, "w", 100));
    CHECK_OK(rg__checkpoint_add(&c, "opt", 60));
    CHECK_OK(rg__checkpoint_sign(&c, "job", "h1"));
    c.id = (rg__commit_id){1, 10};
    c.serial = c.world_size = 1;
    rg__checkpoint_lay_out(&c);
    c.piece[0].hash = rg__hash_of(data[0], 100);
    c.piece[1].hash = rg__hash_of(data[1], 60);
    const image m = {calloc(1, c.file_bytes), c.file_bytes};
    rg__checkpoint_encode(&c, m.bytes, trailer);
    memcpy(m.bytes + c.piece[0].offset, data[0], 100);
    memcpy(m.bytes + c.piece[1].offset, data[1], 60);
    memcpy(m.bytes + m.n - sizeof trailer, trailer, sizeof trailer);
    rg__checkpoint_close(&c);
    return m;
}

/* In memory of exactly that size, so that a sanitizer sees a read beyond. */
static void refused_as(const unsigned char *bytes, size_t n, rg_status why,
                       const char *says)
{
    rg__checkpoint c;
    unsigned char *exact = malloc(n > 0 ? n : 1);
    memcpy(exact, bytes, n);
    CHECK_STATUS(read_checkpoint(exact, n, &c), why);
    CHECK(strstr(rg_last_error(), says) != NULL);
    CHECK(c.buffer == NULL && c.piece == NULL);
    free(exact);
}

static void refused(const unsigned char *bytes, size_t n, const char *says)
{
    refused_as(bytes, n, RG_ERR_DAMAGED, says);
}

static bool has_other_format(image m)
{
    uint32_t format;
    memcpy(&format, m.bytes + AT_FORMAT, sizeof format);
    return format < 1 || format > RG__CHECKPOINT_FORMAT_NEWEST;
}

static void bits(image m)
{
    for (size_t i = 0; i < m.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.bytes[i] ^= (unsigned char)(1 << bit);
            refused_as(m.bytes, m.n,
                       has_other_format(m) ? RG_ERR_INVALID : RG_ERR_DAMAGED,
                       "checkpoint");
            m.bytes[i] ^= (unsigned char)(1 << bit);
        }
}

static void lengths(image m)
{
    for (size_t n = 0; n < m.n; n += n < 600 || n > m.n - 100 ? 1 : 61)
        refused(m.bytes, n, n < 256 + 32 ? "too few" : "is cut");
    unsigned char *longer = calloc(1, m.n + 5);
    memcpy(longer, m.bytes, m.n);
    refused(longer, m.n + 5, "5 more than were written");
    free(longer);
}

/* Make the hashes right again: a liar would. */
static void sign(image m)
{
    uint64_t head_bytes, hash;
    unsigned char *t = m.bytes + m.n - RG__CHECKPOINT_TRAILER;
    memcpy(&head_bytes, m.bytes + AT_HEAD, sizeof head_bytes);
    if (head_bytes <= m.n) {
        hash = rg__hash_of(m.bytes, head_bytes);
        memcpy(t + 8, &hash, sizeof hash);
    }
    memcpy(t + 16, m.bytes + AT_FILE, 8);
    hash = rg__hash_of(t, 24);
    memcpy(t + 24, &hash, sizeof hash);
}

static void lie(size_t at, uint64_t value, size_t bytes, const char *says)
{
    const image m = make();
    memcpy(m.bytes + at, &value, bytes);
    sign(m);
    refused(m.bytes, m.n, says);
    free(m.bytes);
}

/* Whole, but for another reader: no older one is taken instead. */
static void is_for_others(size_t at, uint32_t value, const char *says)
{
    const image m = make();
    memcpy(m.bytes + at, &value, sizeof value);
    sign(m);
    refused_as(m.bytes, m.n, RG_ERR_INVALID, says);
    free(m.bytes);
}

static void others(void)
{
    is_for_others(AT_ORDER, 0x04030201, "other byte order");
    is_for_others(AT_FORMAT, 5, "has format 5");
}

static void lies(void)
{
    lie(0, 0, 1, "does not begin like one");
    lie(AT_ORDER, 5, 4, "byte order is unknown");
    lie(AT_FORMAT, 2, 4, "format does not fit its buffers");
    lie(AT_FORMAT, 3, 4, "format does not fit its buffers");
    lie(AT_FILES, 1, 4, "table of pieces");
    lie(AT_FILES, UINT32_MAX, 4, "impossible value");
    lie(AT_FILE, UINT64_MAX, 8, "is cut");
    lie(AT_FILE, 4096, 8, "more than were written");
    lie(AT_HEAD, 0, 8, "impossible value");
    lie(AT_HEAD, 8192, 8, "impossible value");
    lie(AT_HEAD, UINT64_MAX, 8, "impossible value");
    lie(AT_GEN, 0, 8, "impossible value");
    lie(AT_SERIAL, 0, 8, "impossible value");
    lie(AT_WORLD, 0, 4, "impossible value");
    lie(AT_BUFFERS, UINT32_MAX, 4, "impossible value");
    lie(AT_BUFFERS, 1, 4, "table of");
    lie(AT_BUFFERS, 3, 4, "table of buffers");
    lie(AT_PIECES, UINT32_MAX, 4, "impossible value");
    lie(AT_PIECES, 1, 4, "table of pieces");
    lie(AT_PIECES, 3, 4, "table of pieces");
    lie(AT_JOB, '\n', 1, "impossible value");
    lie(AT_OP, '/', 1, "impossible value");
    lie(AT_NAME, 0, 1, "table of buffers");
    lie(AT_NAME + 63, 'x', 1, "table of buffers");
    lie(AT_NAME, 0x74706f, 4, "table of buffers"); /* "opt" twice */
    lie(AT_BYTES, 0, 8, "table of buffers");
    lie(AT_BYTES, UINT64_MAX, 8, "table of buffers");
    lie(AT_BYTES, 99, 8, "table of pieces");
    lie(AT_KIND, 1, 4, "format does not fit its buffers");
    lie(AT_KIND, 77, 4, "table of buffers");
    lie(AT_PIECE, 1, 4, "table of pieces");
    lie(AT_PIECE + 4, 1, 4, "table of pieces");
    lie(AT_PIECE + 4, UINT32_MAX, 4, "table of pieces");
    lie(AT_PIECE + 8, 1, 8, "table of pieces");
    lie(AT_PIECE + 16, 0, 8, "table of pieces");
    lie(AT_PIECE + 16, UINT64_MAX, 8, "table of pieces");
    lie(AT_PIECE + 24, UINT64_MAX - 50, 8, "table of pieces");
    lie(AT_PIECE + 24, 4096 * 2, 8, "table of pieces");
    lie(AT_PIECE + 32, 1, 8, "do not have their hash");
}

int main(void)
{
    rg__checkpoint c;
    image m = make();
    CHECK_OK(read_checkpoint(m.bytes, m.n, &c));
    CHECK_EQ(c.id.step, 10);
    rg__checkpoint_close(&c);
    bits(m);
    lengths(m);
    lies();
    others();
    free(m.bytes);
    return 0;
}
