/* A program whose buffers are registered, and stay its own: "moves" where the
 * others of its host map them, "stays" where none does. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/lib/collectives.h"

#define MOST  ((size_t)70000) /* several pages, and no whole ones */
#define PAGE  ((size_t)4096)
#define BYTES (40 * PAGE)
#define GUARD 0x6b
#define COUNT (BYTES / sizeof(int))

static rg_ctx *ctx;
static bool moves;

static bool is_shared(const char *p)
{
    uint64_t entry = 0;
    const int fd = open("/proc/self/pagemap", O_RDONLY);
    CHECK(fd >= 0);
    (void)*(const volatile char *)p;
    CHECK_EQ(pread(fd, &entry, sizeof entry,
                   (off_t)((uintptr_t)p / PAGE * sizeof entry)),
             sizeof entry);
    close(fd);
    return (entry >> 61 & 1) != 0;
}

static char *whole_page_in(char *p)
{
    return (char *)(((uintptr_t)p + PAGE - 1) / PAGE * PAGE);
}

static void *own_pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* ---------------------------------------------------------------- results */

/* Every collective in a buffer that begins and ends anywhere, each rank's
 * elsewhere, or in one that is registered on some ranks only. */
static void every_collective(size_t begin, bool on_all)
{
    const size_t room = COLLECTIVES_ROOM(MOST, (size_t)rg_size(ctx));
    char *around = malloc(2 * room + 2 * begin);
    CHECK(around != NULL);
    memset(around, GUARD, 2 * room + 2 * begin);
    char *p = around + begin;
    for (size_t i = 0; i < 2 * room; i++)
        p[i] = (char)(i % 251);
    const bool is_in = on_all || rg_rank(ctx) == 0;
    if (is_in)
        CHECK_OK(rg_register(ctx, p, 2 * room));
    CHECK_EQ(is_shared(whole_page_in(p)), is_in && moves);
    for (size_t i = 0; i < 2 * room; i++)
        CHECK(p[i] == (char)(i % 251));
    const collectives_memory m = {p, p + room, room};
    collectives_reduce(rg_world(ctx), m, MOST);
    collectives_move(rg_world(ctx), m, MOST);
    memset(p, 7, 2 * room);
    CHECK_OK(rg_barrier(rg_world(ctx)));
    if (is_in)
        CHECK_OK(rg_unregister(ctx, p));
    CHECK(!is_shared(whole_page_in(p)));
    CHECK_BYTES(p, 7, 2 * room);
    CHECK_BYTES(around, GUARD, begin);
    CHECK_BYTES(p + 2 * room, GUARD, begin);
    free(around);
}

static void fill(int *data, int with)
{
    for (size_t i = 0; i < COUNT; i++)
        data[i] = rg_rank(ctx) + with + (int)(i % 7);
}

static void is_sum(const int *data, int with)
{
    const int n = rg_size(ctx);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_EQ(data[i], n * (n - 1) / 2 + n * (with + (int)(i % 7)));
}

static void add_up(int *data, int with)
{
    fill(data, with);
    CHECK_OK(rg_allreduce(rg_world(ctx), data, data, COUNT, RG_I32, RG_SUM));
    is_sum(data, with);
}

/* All of a buffer, up to its last byte, in pages that it shares with others. */
static void from_edge_to_edge(void)
{
    char *around = malloc(BYTES + 2 * PAGE);
    CHECK(around != NULL);
    int *p = (int *)(void *)(around + 16 + 64 * (size_t)rg_rank(ctx));
    rg_set *world = rg_world(ctx);
    CHECK_OK(rg_register(ctx, p, BYTES));
    add_up(p, 1);
    fill(p, 2);
    CHECK_OK(rg_reduce(world, p, p, COUNT, RG_I32, RG_SUM, 1));
    if (rg_rank(ctx) == 1)
        is_sum(p, 2);
    CHECK_OK(rg_broadcast(world, p, COUNT, RG_I32, 1));
    is_sum(p, 2);
    CHECK_OK(rg_unregister(ctx, p));
    is_sum(p, 2);
    free(around);
}

/* What the program has now counts, not what it had registered. */
static void freed_too_early(void)
{
    char *p = own_pages(BYTES);
    CHECK_OK(rg_register(ctx, p, BYTES));
    add_up((int *)(void *)p, 1);
    CHECK_EQ(munmap(p, BYTES), 0);
    CHECK(mmap(p, BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
    add_up((int *)(void *)p, 2);
    CHECK_STATUS(rg_unregister(ctx, p), moves ? RG_ERR_INVALID : RG_OK);
    add_up((int *)(void *)p, 3);
    CHECK_OK(rg_register(ctx, p, BYTES));
    CHECK_EQ(is_shared(p), moves);
    add_up((int *)(void *)p, 4);
    CHECK_EQ(munmap(p, BYTES), 0);
    CHECK_STATUS(rg_unregister(ctx, p), moves ? RG_ERR_INVALID : RG_OK);
}

/* Another mapping lies where a registered buffer was. */
static void put_there(char *p, size_t bytes, int rights, int flags)
{
    CHECK(mmap(p, bytes, rights, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          p);
}

static char *registered_pages(void)
{
    char *p = own_pages(BYTES);
    CHECK_OK(rg_register(ctx, p, BYTES));
    add_up((int *)(void *)p, 1);
    return p;
}

static void is_gone(char *p)
{
    CHECK_STATUS(rg_unregister(ctx, p), moves ? RG_ERR_INVALID : RG_OK);
}

static void freed_in_the_middle(void)
{
    char *p = registered_pages();
    put_there(p + 8 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    add_up((int *)(void *)p, 2);
    is_gone(p);
    add_up((int *)(void *)p, 3);
    munmap(p, BYTES);
    p = registered_pages();
    CHECK_EQ(munmap(p + 8 * PAGE, 8 * PAGE), 0);
    is_gone(p);
    munmap(p, BYTES);
}

static void freed_for_other_shared_memory(void)
{
    char *p = registered_pages();
    put_there(p, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED);
    add_up((int *)(void *)p, 2);
    is_gone(p);
    munmap(p, BYTES);
}

static void freed_for_no_access(void)
{
    char *p = registered_pages();
    put_there(p, BYTES, PROT_NONE, MAP_PRIVATE);
    is_gone(p);
    munmap(p, BYTES);
}

/* The program may give a part of its memory other rights, or advice. */
static void advised_in_the_middle(void)
{
    char *p = registered_pages();
    CHECK_EQ(madvise(p + 8 * PAGE, 8 * PAGE, MADV_RANDOM), 0);
    add_up((int *)(void *)p, 2);
    CHECK_OK(rg_unregister(ctx, p));
    add_up((int *)(void *)p, 3);
    munmap(p, BYTES);
}

/* ---------------------------------------------------------------- children */

static void child_has_its_own(void)
{
    char *p = own_pages(BYTES);
    memset(p, 3, BYTES);
    CHECK_OK(rg_register(ctx, p, BYTES));
    const pid_t child = fork();
    if (child == 0) {
        bool is_right = p[0] == 3 && p[BYTES - 1] == 3;
        memset(p, 4, BYTES);
        is_right = is_right && p[BYTES / 2] == 4;
        const pid_t its_own = fork();
        if (its_own == 0)
            _exit(p[0] == 4 && p[BYTES - 1] == 4 ? 0 : 1);
        int end = -1;
        is_right = is_right && waitpid(its_own, &end, 0) == its_own && end == 0;
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_BYTES(p, 3, BYTES);
    add_up((int *)(void *)p, 1);
    CHECK_OK(rg_unregister(ctx, p));
    munmap(p, BYTES);
}

static void child_has_what_came_after(void)
{
    char *p = registered_pages();
    put_there(p, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memset(p, 5, BYTES);
    const pid_t child = fork();
    if (child == 0)
        _exit(p[0] == 5 && p[BYTES - 1] == 5 ? 0 : 1);
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    is_gone(p);
    munmap(p, BYTES);
}

/* ---------------------------------------------------------------- mistakes */

static void is_refused(void *p, const char *why)
{
    CHECK_STATUS(rg_register(ctx, p, BYTES), RG_ERR_INVALID);
    if (strstr(rg_last_error(), why) == NULL)
        CHECK_FAIL("no \"%s\" in: %s", why, rg_last_error());
}

static void other_memory(void)
{
    static char initialised[BYTES + PAGE] = {1};
    char stack[BYTES + PAGE];
    void *alloc = NULL;
    CHECK_OK(rg_alloc(ctx, BYTES, NULL, &alloc));
    is_refused(alloc, "shared memory already");
    CHECK_OK(rg_free(ctx, alloc));
    is_refused(initialised, "file");
    memset(stack, 1, sizeof stack);
    is_refused(stack, "stack");
    char *p = own_pages(BYTES + 3 * PAGE);
    CHECK_EQ(munmap(p + BYTES / 2, PAGE), 0);
    is_refused(p, "not memory of this process");
    p[0] = 1;
    CHECK_EQ(mprotect(p, PAGE, PROT_READ), 0);
    is_refused(p, "can't be written");
    munmap(p, BYTES + 3 * PAGE);
    p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    if (p == MAP_FAILED)
        return;
    is_refused(p, "locked");
    munmap(p, BYTES);
}

static void other_calls(void)
{
    char *p = own_pages(2 * BYTES);
    CHECK_STATUS(rg_register(NULL, p, BYTES), RG_ERR_INVALID);
    CHECK_STATUS(rg_register(ctx, NULL, BYTES), RG_ERR_INVALID);
    CHECK_STATUS(rg_register(ctx, p, 0), RG_ERR_INVALID);
    CHECK_STATUS(rg_register(ctx, p, SIZE_MAX), RG_ERR_INVALID);
    CHECK_STATUS(rg_unregister(ctx, p), RG_ERR_INVALID);
    CHECK_OK(rg_unregister(ctx, NULL));
    CHECK_OK(rg_register(ctx, p + 16, BYTES));
    is_refused(p + 16, "registered already");
    is_refused(p + BYTES, "registered already");
    is_refused(p, "registered already");
    CHECK_OK(rg_register(ctx, p + BYTES + 16, BYTES - 16)); /* share a page */
    CHECK_STATUS(rg_unregister(ctx, p), RG_ERR_INVALID);
    CHECK_STATUS(rg_free(ctx, p + 16), RG_ERR_INVALID);
    CHECK_OK(rg_unregister(ctx, p + 16));
    CHECK_OK(rg_unregister(ctx, p + BYTES + 16));
    CHECK_OK(rg_register(ctx, p + 1, 5)); /* too small to be moved */
    CHECK(!is_shared(p));
    CHECK_OK(rg_unregister(ctx, p + 1));
    munmap(p, 2 * BYTES);
}

int main(int argc, char **argv)
{
    CHECK_EQ(argc, 2);
    moves = strcmp(argv[1], "moves") == 0;
    CHECK_OK(rg_init(NULL, &ctx));
    every_collective(16 + 64 * (size_t)rg_rank(ctx), true);
    every_collective(2 * PAGE, false);
    if (rg_size(ctx) > 1)
        from_edge_to_edge();
    freed_in_the_middle();
    freed_for_other_shared_memory();
    freed_for_no_access();
    advised_in_the_middle();
    child_has_what_came_after();
    freed_too_early();
    child_has_its_own();
    other_memory();
    other_calls();
    char *left = malloc(BYTES);
    CHECK(left != NULL);
    CHECK_OK(rg_register(ctx, left, BYTES));
    memset(left, 9, BYTES);
    CHECK_OK(rg_finalize(ctx));
    CHECK(!is_shared(whole_page_in(left)));
    CHECK_BYTES(left, 9, BYTES);
    free(left);
    puts("all of it is right");
    return 0;
}
