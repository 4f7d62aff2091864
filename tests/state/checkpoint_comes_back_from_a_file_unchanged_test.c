/* A checkpoint that is written to a directory is read again with the same head,
 * tables and bytes, for sizes around a page and a chunk; pieces of one buffer
 * come back as one.
 *
 * Covers: checkpoint_dir.c */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "elastic/state/checkpoint_dir.h"
#include "tests/check.h"

#define COUNT 6

static const uint64_t sizes[COUNT] = {
    1, 4095, 4096, 4097, 1 << 20 /* a chunk */, (3 << 20) + 5 /* several */};

static unsigned char *memory_of(uint64_t bytes, unsigned seed)
{
    unsigned char *m = malloc(bytes);
    for (uint64_t i = 0; i < bytes; i++)
        m[i] = (unsigned char)((i * 31 + seed) >> 3 ^ i);
    return m;
}

static void describe(rg__checkpoint *c, const void **data)
{
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "buffer%d", i);
        CHECK_OK(rg__checkpoint_add(c, name, sizes[i]));
        data[i] = memory_of(sizes[i], (unsigned)i);
    }
    CHECK_OK(rg__checkpoint_sign(c, "a-job", "h1"));
    c->id = (rg__commit_id){3, 41};
    c->serial = 7;
    c->world_size = 5;
}

/* The last buffer's only piece becomes two. */
static void split_last(rg__checkpoint *c, const void **data)
{
    rg__checkpoint_piece *more =
        realloc(c->piece, sizeof *more * (c->pieces + 1));
    CHECK(more != NULL);
    c->piece = more;
    rg__checkpoint_piece *a = &more[c->pieces - 1], *b = &more[c->pieces++];
    *b = *a;
    a->bytes = 4096 + 7;
    b->begin = a->bytes;
    b->bytes -= a->bytes;
    data[COUNT] = (const char *)data[COUNT - 1] + a->bytes;
}

static void compare(const rg__checkpoint *c, const rg__checkpoint *read)
{
    CHECK_EQ(read->id.generation, 3);
    CHECK_EQ(read->id.step, 41);
    CHECK_EQ(read->serial, 7);
    CHECK_EQ(read->world_size, 5);
    CHECK_EQ(read->saved_ms, c->saved_ms);
    CHECK_STR(read->job, "a-job");
    CHECK_STR(read->host, "h1");
    CHECK_STR(read->op, c->op);
    CHECK_STR(read->version, RG_VERSION);
    CHECK_EQ(read->buffers, COUNT);
    CHECK_EQ(read->pieces, COUNT + 1);
    CHECK_EQ(read->head_hash, c->head_hash);
}

static rg_status keep(void *arg, uint64_t at, const void *bytes, size_t n)
{
    memcpy((char *)arg + at, bytes, n);
    return RG_OK;
}

static void take_all(const rg__checkpoint *c, const rg__checkpoint_source *s,
                     const void *const *data)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        unsigned char *to = malloc(sizes[i]);
        CHECK_OK(rg__checkpoint_take(c, s, i, 0, sizes[i], keep, to));
        CHECK(memcmp(to, data[i], sizes[i]) == 0);
        free(to);
    }
}

int main(void)
{
    char dir[] = "/tmp/rg-ckptXXXXXX", name[RG__CHECKPOINT_NAME_MAX], path[256];
    CHECK(mkdtemp(dir) != NULL);
    rg__checkpoint c = {0}, read;
    const void *data[COUNT + 1];
    describe(&c, data);
    split_last(&c, data);
    rg__checkpoint_lay_out(&c);
    const rg__checkpoint_writing w = {
        .dir = dir, .checkpoint = &c, .data = data};
    CHECK_OK(rg__checkpoint_begin(&w));
    CHECK_OK(rg__checkpoint_put(&w));
    CHECK_OK(rg__checkpoint_end(&w));
    CHECK_OK(rg__checkpoint_seal(dir, &c, 2));

    rg__checkpoint_file file;
    rg__checkpoint_name_of(&c, false, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK_OK(rg__checkpoint_file_open(&file, path));
    CHECK_OK(rg__checkpoint_open(&read, &file.source));
    CHECK_OK(rg__checkpoint_verify(&read, &file.source));
    compare(&c, &read);
    take_all(&read, &file.source, data);

    rg__checkpoint_close(&read);
    rg__checkpoint_file_close(&file);
    rg__checkpoint_close(&c);
    for (int i = 0; i < COUNT; i++)
        free((void *)(uintptr_t)data[i]);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(dir), 0); /* nothing else was left */
    return 0;
}
