#include "tests/device/support/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
/* Each process would sleep for a second at its end. */
FAKE_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}
#endif

#define LIMIT_S 50
#define IDS     32

typedef struct ranks_page {
    pid_t pid[RANKS_MAX];
    _Atomic int expects_death[RANKS_MAX];
    _Atomic int word[16];
    _Atomic int met;
    rg__nccl_id id[IDS];
    _Atomic int has_id[IDS];
} ranks_page;

static char folder[64];

/* -------------------------------------------------------------- the test's
 * folder
 */

static void path_of(char *text, size_t room, const char *name)
{
    snprintf(text, room, "%s/%s", folder, name);
}

void ranks_script(const char *script)
{
    char path[128], name[32], next[128];
    snprintf(name, sizeof name, "script.%d", (int)getpid());
    path_of(path, sizeof path, "script");
    path_of(next, sizeof next, name);
    FILE *file = fopen(next, "w");
    CHECK(file);
    fputs(script ? script : "", file);
    fclose(file);
    CHECK(rename(next, path) == 0);
}

static void make_folder(const char *script)
{
    snprintf(folder, sizeof folder, "/tmp/ranks.XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK(setenv("FAKE_DEVICE", folder, 1) == 0);
    ranks_script(script);
}

/* Returns how many files of communicators were left. */
static int remove_folder(void)
{
    char path[400];
    DIR *d = opendir(folder);
    int left = 0;
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));) {
        left += strncmp(e->d_name, "nccl.", 5) == 0;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (*e->d_name != '.')
            unlink(path);
    }
    closedir(d);
    CHECK(rmdir(folder) == 0);
    return left;
}

static void read_violations(char *text, size_t room)
{
    char path[128];
    path_of(path, sizeof path, "violations");
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(text, 1, room - 1, file) : 0;
    text[n] = 0;
    if (file)
        fclose(file);
}

/* ------------------------------------------------------------------- processes
 */

static void take_device(ranks *r)
{
    rg__cu_context context;
    CHECK_EQ(cuInit(0), 0);
    CHECK_EQ(cuDevicePrimaryCtxRetain(&context, r->rank), 0);
    CHECK_EQ(cuCtxSetCurrent(context), 0);
    CHECK_EQ(
        cuStreamCreateWithPriority(&r->stream, RG__CU_STREAM_NON_BLOCKING, 0),
        0);
}

static pid_t start(ranks *r, ranks_fn fn)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(LIMIT_S);
    r->shared->pid[r->rank] = getpid();
    take_device(r);
    fn(r);
    exit(0);
}

static void run(int n, ranks_fn fn, ranks_page *page, int *status)
{
    pid_t pid[RANKS_MAX];
    CHECK(n <= RANKS_MAX);
    for (int i = 0; i < n; i++) {
        ranks r = {.rank = i, .n = n, .shared = page};
        pid[i] = start(&r, fn);
    }
    for (int i = 0; i < n; i++)
        CHECK(waitpid(pid[i], &status[i], 0) == pid[i]);
}

static ranks_page *make_page(void)
{
    ranks_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

void ranks_run(int n, const char *script, ranks_fn fn)
{
    int status[RANKS_MAX];
    char violations[2000];
    make_folder(script);
    ranks_page *page = make_page();
    run(n, fn, page, status);
    read_violations(violations, sizeof violations);
    CHECK_STR(violations, "");
    for (int i = 0; i < n; i++)
        if (!atomic_load(&page->expects_death[i]))
            CHECK_EQ(status[i], 0);
        else
            CHECK(WIFSIGNALED(status[i]));
    munmap(page, sizeof *page);
    CHECK_EQ(remove_folder(), 0); /* whatever became of the members */
}

void ranks_refused(const char *script, ranks_fn fn, const char *part)
{
    int status;
    char violations[2000];
    make_folder(script);
    ranks_page *page = make_page();
    run(1, fn, page, &status);
    read_violations(violations, sizeof violations);
    if (!strstr(violations, part))
        CHECK_FAIL("\"%s\" is not what was refused: \"%s\"", part, violations);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    munmap(page, sizeof *page);
    remove_folder();
}

void ranks_expect_death(ranks *r)
{
    atomic_store(&r->shared->expects_death[r->rank], 1);
}

_Atomic int *ranks_word(ranks *r, int i)
{
    return &r->shared->word[i];
}

pid_t ranks_pid(ranks *r, int rank)
{
    return r->shared->pid[rank];
}

void ranks_await_word(_Atomic int *word, int value)
{
    while (atomic_load(word) < value)
        usleep(200);
}

void ranks_meet(ranks *r)
{
    const int here = atomic_fetch_add(&r->shared->met, 1);
    ranks_await_word(&r->shared->met, (here / r->n + 1) * r->n);
}

/* ---------------------------------------------------------------------- memory
 */

void *ranks_put(const void *from, size_t bytes)
{
    rg__cu_address at;
    CHECK_EQ(cuMemAlloc_v2(&at, bytes), 0);
    if (from)
        CHECK_EQ(cuMemcpyHtoDAsync_v2(at, from, bytes, NULL), 0);
    else
        CHECK_EQ(cuMemsetD8Async(at, 0, bytes, NULL), 0);
    CHECK_EQ(cuStreamSynchronize(NULL), 0);
    return (void *)(uintptr_t)at;
}

void ranks_get(void *to, const void *from, size_t bytes)
{
    CHECK_EQ(cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, NULL), 0);
    CHECK_EQ(cuStreamSynchronize(NULL), 0);
}

/* --------------------------------------------------------------- communicators
 */

int ranks_start(ranks *r, int number, int blocking, rg__nccl_comm *comm_p)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    config.blocking = blocking;
    if (r->rank == 0) {
        CHECK_EQ(ncclGetUniqueId(&r->shared->id[number]), RG__NCCL_Success);
        atomic_store(&r->shared->has_id[number], 1);
    }
    ranks_await_word(&r->shared->has_id[number], 1);
    return ncclCommInitRankConfig(comm_p, r->n, r->shared->id[number], r->rank,
                                  &config);
}

rg__nccl_comm ranks_comm(ranks *r, int number)
{
    rg__nccl_comm comm = NULL;
    CHECK_EQ(ranks_start(r, number, 1, &comm), RG__NCCL_Success);
    return comm;
}

int ranks_await(rg__nccl_comm comm)
{
    int rc = RG__NCCL_InProgress;
    while (rc == RG__NCCL_InProgress) {
        usleep(200);
        CHECK_EQ(ncclCommGetAsyncError(comm, &rc), RG__NCCL_Success);
    }
    return rc;
}
