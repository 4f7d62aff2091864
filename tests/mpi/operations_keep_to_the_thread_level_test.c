/* MPI is called by the threads that its level allows, and only by them. Every
 * call that an operation makes comes through here. The Regroup thread, where it
 * is none of them, is not woken.
 *
 * Covers: mpi/world.c mpi_comm.c sleep.c */
#include <dirent.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "tests/mpi/mpi_check.h"

#define THREADS 8
#define LONG    ((uint64_t)32768) /* elements */
#define ROUNDS  100

static rg_ctx *ctx;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long callers[THREADS];
static int n_callers;

static void note_caller(void)
{
    const long me = syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < n_callers && callers[i] != me)
        i++;
    if (i == n_callers && i < THREADS)
        callers[n_callers++] = me;
    pthread_mutex_unlock(&lock);
}

static int has_called(long thread)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_callers; i++)
        found |= callers[i] == thread;
    pthread_mutex_unlock(&lock);
    return found;
}

static int others_called(void)
{
    return n_callers - has_called(syscall(SYS_gettid));
}

RG_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    note_caller();
    return PMPI_Test(request, flag, status);
}

RG_API int MPI_Testall(int n, MPI_Request *requests, int *flag,
                       MPI_Status *statuses)
{
    note_caller();
    return PMPI_Testall(n, requests, flag, statuses);
}

RG_API int MPI_Iallreduce(const void *send, void *recv, int n,
                          MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request *request)
{
    note_caller();
    return PMPI_Iallreduce(send, recv, n, type, op, comm, request);
}

RG_API int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    note_caller();
    return PMPI_Ibarrier(comm, request);
}

static void pause_ms(int ms)
{
    const struct timespec t = {.tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

/* Long enough for a thread that may progress it. */
static void one_waits_late(void)
{
    const int one = 1;
    int sum = 0;
    rg_req *req = NULL;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(rg_allreduce_start(rg_world(ctx), &one, &sum, 1, RG_I32,
                                    RG_SUM, NULL, &req));
        pause_ms(5);
        CHECK_OK(rg_wait(&req, -1));
        CHECK_EQ(sum, rg_size(ctx));
    }
}

static void *on_another_thread(void *arg)
{
    const rg_status expected = *(rg_status *)arg;
    rg_req *req = NULL;
    CHECK_STATUS(rg_barrier_start(rg_world(ctx), NULL, &req), expected);
    if (expected == RG_OK)
        CHECK_OK(rg_wait(&req, -1));
    else
        CHECK(strstr(rg_last_error(), "support for threads") != NULL);
    return NULL;
}

static void elsewhere(rg_status expected)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, on_another_thread, &expected), 0);
    pthread_join(thread, NULL);
}

/* An operation that its caller has forgotten ends all the same. */
static void progresses_alone(void)
{
    const int one = 1;
    int sum = 0;
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(rg_world(ctx), &one, &sum, 1, RG_I32, RG_SUM,
                                NULL, &req));
    for (int i = 0; i < 2000 && *(volatile int *)&sum == 0; i++)
        pause_ms(5);
    CHECK_EQ(sum, rg_size(ctx));
    CHECK_OK(rg_wait(&req, 0));
}

/* Of the Regroup thread of this process. */
static long sleeps(void)
{
    char path[80], name[32] = "";
    long found = -1;
    DIR *all = opendir("/proc/self/task");
    for (const struct dirent *one; (one = readdir(all)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%.16s/status",
                 one->d_name);
        FILE *status = fopen(path, "r");
        if (status == NULL)
            continue;
        char line[128];
        while (fgets(line, sizeof line, status) != NULL) {
            sscanf(line, "Name: %31s", name);
            if (strcmp(name, "regroup") == 0)
                sscanf(line, "voluntary_ctxt_switches: %ld", &found);
        }
        fclose(status);
    }
    closedir(all);
    CHECK(found >= 0);
    return found;
}

/* Where it may not call MPI, nothing that is started wakes the Regroup thread:
 * not even what it would be woken for in any state. */
static void wakes_no_thread(void)
{
    static float data[LONG], sum[LONG];
    rg_req *req = NULL;
    const long before = sleeps();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(rg_allreduce_start(rg_world(ctx), data, sum, LONG, RG_F32,
                                    RG_SUM, NULL, &req));
        pause_ms(2);
        CHECK_OK(rg_wait(&req, -1));
    }
    const long woken = sleeps() - before;
    if (woken > ROUNDS / 10)
        CHECK_FAIL("woken %ld times in %d operations", woken, ROUNDS);
}

/* A caller that only polls looks at deadlines itself, where no other may call
 * MPI. */
static void deadline_passes_for_a_polling_caller(void)
{
    const rg_op_params soon = {.size = sizeof soon, .timeout_ms = 100};
    static int one = 1, sum; /* MPI's forever, maybe */
    int ranks[] = {0, 1};
    rg_set *set = NULL;
    rg_req *req = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, 2, NULL, &set));
    if (rg_rank(ctx) == 0) {
        rg_status st =
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, &soon, &req);
        CHECK_OK(st);
        do
            st = rg_test(&req);
        while (st == RG_IN_PROGRESS);
        CHECK_EQ(st, RG_ERR_TIMEOUT);
    }
    CHECK_OK(rg_barrier(rg_world(ctx)));
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "multiple";
    const int asked = strcmp(name, "funneled") == 0     ? MPI_THREAD_FUNNELED
                      : strcmp(name, "serialized") == 0 ? MPI_THREAD_SERIALIZED
                      : strcmp(name, "single") == 0     ? MPI_THREAD_SINGLE
                                                        : MPI_THREAD_MULTIPLE;
    int level = 0;
    MPI_Init_thread(NULL, NULL, asked, &level);
    if (level != asked)
        SKIP("this MPI has not got that thread level");
    CHECK_OK(rg_init(NULL, &ctx));
    one_waits_late();
    if (level != MPI_THREAD_MULTIPLE) {
        CHECK_EQ(others_called(), 0);
        wakes_no_thread();
    }
    if (level == MPI_THREAD_MULTIPLE)
        progresses_alone();
    elsewhere(level >= MPI_THREAD_SERIALIZED ? RG_OK : RG_ERR_INVALID);
    one_waits_late();
    if (level < MPI_THREAD_SERIALIZED)
        CHECK_EQ(others_called(), 0);
    if (level == MPI_THREAD_SERIALIZED)
        CHECK_EQ(others_called(), 1); /* the one above */
    deadline_passes_for_a_polling_caller();
    CHECK_OK(rg_finalize(ctx));
    MPI_Finalize();
    return 0;
}
