/* Several hosts write a checkpoint, each a file of its own: it comes back as it
 * was, counts only when all files are there, is damaged when one of them is
 * cut, longer, changed or gone, and goes with all its files.
 *
 * Covers: checkpoint_dir.c */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "elastic/state/checkpoint_dir.h"
#include "tests/check.h"

#define SHARDS 4
#define BYTES  ((size_t)(3 << 20) + 1024) /* more than a chunk in each shard */

static char dir[] = "/tmp/rg-ckptXXXXXX";
static unsigned char state[BYTES];
static const uint32_t file_of[SHARDS] = {0, 1, 1, 2};

static void describe(rg__checkpoint *c, uint64_t serial, const void **data)
{
    *c = (rg__checkpoint){
        .id = {3, 10 * serial}, .serial = serial, .world_size = SHARDS};
    CHECK_OK(rg__checkpoint_add(c, "replicated", 100));
    CHECK_OK(rg__checkpoint_add_sharded(c, "sharded", BYTES, 1, SHARDS));
    CHECK_OK(rg__checkpoint_sign(c, "a-job", "h1"));
    for (uint32_t i = 0; i < SHARDS; i++)
        c->piece[1 + i].file = file_of[i];
    c->files = 2;
    for (uint32_t i = 0; i < c->pieces; i++)
        data[i] = state + c->piece[i].begin;
    rg__checkpoint_lay_out(c);
}

static rg__checkpoint_writing write_it(rg__checkpoint *c, const void **data)
{
    const rg__checkpoint_writing w = {
        .dir = dir, .checkpoint = c, .data = data};
    CHECK_OK(rg__checkpoint_begin(&w));
    CHECK_OK(rg__checkpoint_put_file(&w, 1));
    CHECK_OK(rg__checkpoint_put_file(&w, 2));
    CHECK_OK(rg__checkpoint_put(&w));
    return w;
}

static int count_files(void)
{
    int n = 0;
    DIR *open = opendir(dir);
    CHECK(open != NULL);
    while (readdir(open) != NULL)
        n++;
    closedir(open);
    return n - 2; /* . and .. */
}

static void path_of(const rg__checkpoint *c, uint32_t file, char path[256])
{
    char name[RG__CHECKPOINT_NAME_MAX];
    rg__checkpoint_name_of(c, false, name);
    if (file == 0)
        snprintf(path, 256, "%s/%s", dir, name);
    else
        snprintf(path, 256, "%s/%s.%u", dir, name, file);
}

static rg_status keep(void *arg, uint64_t at, const void *bytes, size_t n)
{
    memcpy((char *)arg + at, bytes, n);
    return RG_OK;
}

static void check_read(const rg__checkpoint *c)
{
    static unsigned char to[BYTES];
    char path[256];
    rg__checkpoint_file file;
    rg__checkpoint read;
    path_of(c, 0, path);
    CHECK_OK(rg__checkpoint_file_open(&file, path));
    CHECK_OK(rg__checkpoint_open(&read, &file.source));
    CHECK_EQ(read.files, 2);
    CHECK_EQ(read.head_hash, c->head_hash);
    CHECK_OK(rg__checkpoint_verify(&read, &file.source));
    memset(to, 0, sizeof to);
    CHECK_OK(rg__checkpoint_take(&read, &file.source, 1, 0, BYTES, keep, to));
    CHECK(memcmp(to, state, BYTES) == 0);
    memset(to, 0, sizeof to); /* a part of three files */
    CHECK_OK(
        rg__checkpoint_take(&read, &file.source, 1, 9, BYTES - 9, keep, to));
    CHECK(memcmp(to + 9, state + 9, BYTES - 18) == 0 && to[8] == 0);
    rg__checkpoint_close(&read);
    rg__checkpoint_file_close(&file);
}

/* in_load: what is seen before any shard is read. */
static void check_damaged(const rg__checkpoint *c, bool in_load)
{
    char path[256];
    rg__checkpoint_file file;
    rg__checkpoint read;
    path_of(c, 0, path);
    CHECK_OK(rg__checkpoint_file_open(&file, path));
    CHECK_OK(rg__checkpoint_open(&read, &file.source));
    CHECK_STATUS(rg__checkpoint_verify(&read, &file.source), RG_ERR_DAMAGED);
    CHECK_STATUS(rg__checkpoint_verify_replicated(&read, &file.source),
                 in_load ? RG_ERR_DAMAGED : RG_OK);
    rg__checkpoint_close(&read);
    rg__checkpoint_file_close(&file);
}

static void change_byte(const char *path, long at)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static void every_file_counts(const rg__checkpoint *c)
{
    char path[256], away[262];
    path_of(c, 1, path);
    const long bytes = (long)rg__checkpoint_bytes_of(c, 1);
    change_byte(path, 5000);
    check_damaged(c, false);
    change_byte(path, 5000);
    change_byte(path, bytes - 1); /* behind the last piece */
    check_damaged(c, false);
    change_byte(path, bytes - 1);
    CHECK_EQ(truncate(path, bytes - 1), 0);
    check_damaged(c, true);
    CHECK_EQ(truncate(path, bytes + 4096), 0);
    check_damaged(c, true);
    CHECK_EQ(truncate(path, bytes), 0);
    check_read(c);
    path_of(c, 2, path);
    snprintf(away, sizeof away, "%s.away", path);
    CHECK_EQ(rename(path, away), 0);
    check_damaged(c, true);
    CHECK_EQ(rename(away, path), 0);
    check_read(c);
}

/* Files of hosts that see another directory, or that did not write. */
static void what_is_not_there_is_no_checkpoint(void)
{
    char path[256];
    const void *data[1 + SHARDS];
    rg__checkpoint c;
    describe(&c, 2, data);
    const rg__checkpoint_writing w = {
        .dir = dir, .checkpoint = &c, .data = data};
    CHECK_STATUS(rg__checkpoint_put_file(&w, 1), RG_ERR_SYSTEM);
    CHECK(strstr(rg_last_error(), "see one directory") != NULL);
    write_it(&c, data);
    path_of(&c, 1, path);
    const long hashes = (long)rg__checkpoint_bytes_of(&c, 1);
    change_byte(path, hashes);
    CHECK_STATUS(rg__checkpoint_end(&w), RG_ERR_SYSTEM);
    CHECK(strstr(rg_last_error(), path) != NULL);
    change_byte(path, hashes);
    path_of(&c, 2, path);
    CHECK_EQ(truncate(path, 17), 0);
    CHECK_STATUS(rg__checkpoint_end(&w), RG_ERR_SYSTEM);
    CHECK(strstr(rg_last_error(), path) != NULL);
    CHECK_EQ(count_files(), 6);
    rg__checkpoint_drop(dir, &c);
    CHECK_EQ(count_files(), 3);
    rg__checkpoint_close(&c);
}

int main(void)
{
    const void *data[1 + SHARDS];
    rg__checkpoint first, second, lost;
    CHECK(mkdtemp(dir) != NULL);
    for (size_t i = 0; i < BYTES; i++)
        state[i] = (unsigned char)((i * 31) >> 3 ^ i);
    describe(&first, 1, data);
    rg__checkpoint_writing w = write_it(&first, data);
    CHECK_OK(rg__checkpoint_end(&w));
    CHECK_OK(rg__checkpoint_seal(dir, &first, 1));
    CHECK_EQ(count_files(), 3);
    check_read(&first);
    every_file_counts(&first);
    what_is_not_there_is_no_checkpoint();
    describe(&lost, 2, data); /* its writer is killed */
    write_it(&lost, data);
    describe(&second, 2, data);
    w = write_it(&second, data);
    CHECK_OK(rg__checkpoint_end(&w));
    CHECK_EQ(count_files(), 9);
    CHECK_OK(rg__checkpoint_seal(dir, &second, 1));
    CHECK_EQ(count_files(), 3); /* and none of the others is left */
    check_read(&second);
    for (uint32_t i = 0; i < 3; i++) {
        char path[256];
        path_of(&second, i, path);
        CHECK_EQ(unlink(path), 0);
    }
    CHECK_EQ(rmdir(dir), 0);
    rg__checkpoint_close(&first);
    rg__checkpoint_close(&second);
    rg__checkpoint_close(&lost);
    return 0;
}
