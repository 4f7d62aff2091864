/* What only a device answers about CUDA and NCCL themselves, without Regroup:
 * `gpu_questions NAME`. Each question is a few processes on one device, and its
 * answers are lines that begin with "@ ". The process that was started never
 * touches CUDA: it forks the ranks, and a rank again where one was killed. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/transport/nccl/load.h"

#define IDS     64
#define ROUNDS  10
#define TIMES   1000
#define SAMPLES 4096
#define MIB     ((size_t)1 << 20)
#define LONG    (16 * MIB) /* of an operation in which a rank is killed */

typedef struct page {
    rg__nccl_id id[IDS];
    _Atomic int has_id[IDS];
    _Atomic int met;
    _Atomic int round;     /* of the abort: the partner's communicator */
    _Atomic int is_doomed; /* the partner of this round may be killed */
    _Atomic int pid[2];
    _Atomic int is_over;
} page;

static page *shared;
static int rank;
static rg__cuda_library cuda;
static rg__nccl_library nccl;
static rg__cu_context context;
static rg__cu_stream stream;
static rg__cu_address buffer;

/* ------------------------------------------------------------------ answers */

static void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("@ ");
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
}

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    tell("%s says %d (rank %d)", what, rc, rank);
    exit(1);
}

static double now_ms(void)
{
    return (double)rg__now_ns() / 1e6;
}

static void nap_us(long us)
{
    const struct timespec t = {.tv_sec = us / 1000000,
                               .tv_nsec = us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

typedef struct series {
    double value[SAMPLES];
    int n;
} series;

static void add(series *s, double value)
{
    if (s->n < SAMPLES)
        s->value[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double part_of(series *s, int percent)
{
    if (s->n == 0)
        return 0;
    qsort(s->value, (size_t)s->n, sizeof *s->value, compare);
    return s->value[(s->n - 1) * percent / 100];
}

/* ------------------------------------------------------------- the libraries
 */

static void open_cuda(void)
{
    if (rg__cuda_open(getenv("REGROUP_CUDA_LIB"), &cuda) != RG_OK) {
        tell("%s", rg_last_error());
        exit(77);
    }
}

static void open_nccl(void)
{
    rg__nccl_prepare_environment();
    if (rg__nccl_open(getenv("REGROUP_NCCL_LIB"), &nccl) != RG_OK) {
        tell("%s", rg_last_error());
        exit(77);
    }
}

static void take_device(void)
{
    int device = 0;
    must(cuda.call.device_get(&device, 0), "cuDeviceGet");
    must(cuda.call.context_retain(&context, device), "the context");
    must(cuda.call.context_set(context), "cuCtxSetCurrent");
    must(cuda.call.stream_create(&stream, RG__CU_STREAM_NON_BLOCKING, 0),
         "a stream");
}

static void open_all(void)
{
    open_cuda();
    open_nccl();
    take_device();
    must(cuda.call.memory_alloc(&buffer, LONG), "memory");
    must(cuda.call.set_bytes(buffer, 0, LONG, stream), "memory");
    must(cuda.call.stream_synchronize(stream), "memory");
}

/* ------------------------------------------------------------ communicators */

/* As in the product: a parent that does not block, and its child. */
typedef struct pair {
    rg__nccl_comm parent, child;
    double parent_ms, child_ms, first_ms;
} pair;

static void meet(int n)
{
    const int here = atomic_fetch_add(&shared->met, 1);
    while (atomic_load(&shared->met) < (here / n + 1) * n)
        nap_us(200);
}

static void take_id(int number)
{
    if (rank == 0) {
        must(nccl.call.unique_id(&shared->id[number]), "ncclGetUniqueId");
        atomic_store(&shared->has_id[number], 1);
    }
    while (!atomic_load(&shared->has_id[number]))
        nap_us(200);
}

static int settle(rg__nccl_comm comm)
{
    int result = RG__NCCL_InProgress;
    while (result == RG__NCCL_InProgress) {
        nap_us(500);
        must(nccl.call.comm_error(comm, &result), "ncclCommGetAsyncError");
    }
    return result;
}

static void init_parent(pair *p, int number, int n)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    config.blocking = 0;
    const int rc =
        nccl.call.comm_init(&p->parent, n, shared->id[number], rank, &config);
    if (rc != RG__NCCL_InProgress)
        must(rc, "ncclCommInitRankConfig");
}

static void split_child(pair *p)
{
    rg__nccl_config config = RG__NCCL_CONFIG;
    config.blocking = 1;
    config.split_share = 0;
    const int rc = nccl.call.comm_split(p->parent, 0, rank, &p->child, &config);
    if (rc != RG__NCCL_InProgress)
        must(rc, "ncclCommSplit");
    must(settle(p->parent), "the split");
}

static void *at(size_t offset)
{
    return (void *)(uintptr_t)(buffer + offset);
}

static int reduce(rg__nccl_comm comm, size_t bytes, rg__cu_stream on)
{
    return nccl.call.allreduce(at(0), at(0), bytes / 4, RG__NCCL_Int32,
                               RG__NCCL_Sum, comm, on);
}

static void check_sum(const pair *p, int n)
{
    int32_t value = rank + 1;
    must(cuda.call.copy_in(buffer, &value, sizeof value, stream), "a copy");
    must(reduce(p->child, sizeof value, stream), "ncclAllReduce");
    must(cuda.call.copy_out(&value, buffer, sizeof value, stream), "a copy");
    must(cuda.call.stream_synchronize(stream), "the first operation");
    must(value != n * (n + 1) / 2, "the sum");
}

static void make_pair(pair *p, int number, int n)
{
    *p = (pair){0};
    take_id(number);
    const double begin = now_ms();
    init_parent(p, number, n);
    must(settle(p->parent), "the communicator");
    const double parent = now_ms();
    split_child(p);
    const double child = now_ms();
    check_sum(p, n);
    p->parent_ms = parent - begin;
    p->child_ms = child - parent;
    p->first_ms = now_ms() - child;
}

static void mark(const pair *p)
{
    nccl.call.group_start();
    if (p->child != NULL)
        nccl.call.comm_abort(p->child);
    nccl.call.comm_abort(p->parent);
}

static void end_pair(pair *p)
{
    mark(p);
    must(nccl.call.group_end(), "the end of the aborts");
}

/* ---------------------------------------------------------------- questions */

static void ask_machine(void)
{
    char name[64] = "", version[16];
    size_t free_bytes = 0, total = 0;
    open_all();
    cuda.call.device_name(name, sizeof name, 0);
    cuda.call.memory_info(&free_bytes, &total);
    rg__nccl_version_text(nccl.version, version);
    tell("%s, %zu of %zu MiB free; driver for CUDA %d.%d", name,
         free_bytes / MIB, total / MIB, cuda.version / 1000,
         cuda.version % 1000 / 10);
    tell("NCCL %s (%s), shrink %s, revoke %s", version, nccl.path,
         nccl.call.comm_shrink != NULL ? "yes" : "no",
         nccl.call.comm_revoke != NULL ? "yes" : "no");
}

static void ask_split(void)
{
    pair p;
    open_all();
    make_pair(&p, 0, 2);
    if (rank == 0)
        tell("a blocking child of a parent that does not block works: parent "
             "%.0f ms, child %.0f ms, first operation %.0f ms",
             p.parent_ms, p.child_ms, p.first_ms);
    meet(2);
    end_pair(&p);
}

/* One rank of two: the other one never comes. */
static void ask_alone(void)
{
    pair p = {0};
    open_all();
    take_id(0);
    init_parent(&p, 0, 2);
    nap_us(500000);
    int result = RG__NCCL_Success;
    must(nccl.call.comm_error(p.parent, &result), "ncclCommGetAsyncError");
    must(result != RG__NCCL_InProgress, "a meeting of one");
    const double begin = now_ms();
    end_pair(&p);
    tell("a communicator that waits for a rank is given up in %.0f ms",
         now_ms() - begin);
}

typedef int (*record_fn)(void *event, rg__cu_stream stream);

static record_fn find_events(void **event_p)
{
    const char *name = getenv("REGROUP_CUDA_LIB");
    void *library = dlopen(name != NULL ? name : "libcuda.so.1", RTLD_NOW);
    void *create_at = library ? dlsym(library, "cuEventCreate") : NULL;
    void *record_at = library ? dlsym(library, "cuEventRecord") : NULL;
    int (*create)(void **, unsigned) = NULL;
    record_fn record = NULL;
    memcpy(&create, &create_at, sizeof create);
    memcpy(&record, &record_at, sizeof record);
    const unsigned no_timing = 2;
    return create && record && create(event_p, no_timing) == 0 ? record : NULL;
}

/* us of a launch: bare (0), with a word behind it (1), with an event (2). */
static void time_launches(const pair *p, series *times)
{
    void *event = NULL, *word = NULL;
    rg__cu_address word_at = 0;
    const record_fn record = find_events(&event);
    must(cuda.call.host_alloc(&word, 64, RG__CU_MEMHOSTALLOC_DEVICEMAP),
         "pinned memory");
    must(cuda.call.host_address(&word_at, word, 0), "pinned memory");
    for (uint32_t i = 0; i < 3 * TIMES; i++) {
        const int way = (int)(i % 3);
        const uint64_t begin = rg__now_ns();
        must(reduce(p->child, 4, stream), "ncclAllReduce");
        if (way == 1)
            must(cuda.call.stream_write(stream, word_at, i, 0), "a word");
        if (way == 2 && record != NULL)
            must(record(event, stream), "an event");
        if (way != 2 || record != NULL)
            add(&times[way], (double)(rg__now_ns() - begin) / 1e3);
        if (i % 32 == 31)
            must(cuda.call.stream_synchronize(stream), "a stream");
    }
    must(cuda.call.stream_synchronize(stream), "a stream");
    cuda.call.host_free(word);
}

static void ask_word(void)
{
    static series times[3];
    pair p;
    open_all();
    make_pair(&p, 0, 2);
    time_launches(&p, times);
    if (rank == 0)
        tell("a launch takes %.2f us, %.2f with a word behind it, %.2f with an "
             "event (0: there are none)",
             part_of(&times[0], 50), part_of(&times[1], 50),
             part_of(&times[2], 50));
    meet(2);
    end_pair(&p);
}

/* ------------------------------------------------------------- aborts, again
 */

typedef struct ending {
    pair *p;
    bool waits; /* for the end, before the next communicator is begun */
    double idle_ms, reclaim_ms;
    _Atomic int is_idle;
} ending;

/* Groups are a thread's: marks and their end are made by one. */
static void *run_ending(void *arg)
{
    ending *e = arg;
    must(cuda.call.context_set(context), "cuCtxSetCurrent");
    const double begin = now_ms();
    mark(e->p);
    while (cuda.call.stream_query(stream) == RG__CU_ERROR_NOT_READY)
        nap_us(200);
    e->idle_ms = now_ms() - begin;
    if (!e->waits)
        atomic_store(&e->is_idle, 1);
    nccl.call.group_end();
    e->reclaim_ms = now_ms() - begin - e->idle_ms;
    atomic_store(&e->is_idle, 1);
    return NULL;
}

static int entries(const char *folder)
{
    int n = -2;
    DIR *d = opendir(folder);
    if (d == NULL)
        return -1;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* The partner is killed while an operation runs. */
static void lose_partner(const pair *p)
{
    for (int i = 0; i < 4; i++)
        must(reduce(p->child, LONG, stream), "ncclAllReduce");
    while (!atomic_load(&shared->is_doomed))
        nap_us(100);
    nap_us(2000);
    kill(atomic_load(&shared->pid[1]), SIGKILL);
}

typedef struct aborts {
    series idle, reclaim, next[2];
} aborts;

static void go_round(pair *p, int round, aborts *times)
{
    ending e = {.p = p, .waits = round % 2 == 1};
    pthread_t thread;
    atomic_store(&shared->round, round + 1); /* of the next rank */
    lose_partner(p);
    atomic_store(&shared->is_doomed, 0);
    must(pthread_create(&thread, NULL, run_ending, &e), "a thread");
    while (!atomic_load(&e.is_idle))
        nap_us(100);
    pair next;
    make_pair(&next, round + 1, 2);
    add(&times->next[round % 2],
        next.parent_ms + next.child_ms + next.first_ms);
    pthread_join(thread, NULL);
    add(&times->idle, e.idle_ms);
    add(&times->reclaim, e.reclaim_ms);
    *p = next;
}

static void survive(void)
{
    static aborts times;
    pair p;
    int threads = 0, files = 0;
    make_pair(&p, 0, 2);
    for (int round = 0; round < ROUNDS; round++) {
        go_round(&p, round, &times);
        if (round == 1) {
            threads = entries("/proc/self/task");
            files = entries("/proc/self/fd");
        }
    }
    tell("a partner is lost: its kernels are gone after %.1f ms (p99 %.1f), "
         "all is freed %.0f ms later (p99 %.0f)",
         part_of(&times.idle, 50), part_of(&times.idle, 99),
         part_of(&times.reclaim, 50), part_of(&times.reclaim, 99));
    tell("the next communicator: %.0f ms (p99 %.0f) beside what is freed, %.0f "
         "ms (p99 %.0f) behind it",
         part_of(&times.next[0], 50), part_of(&times.next[0], 99),
         part_of(&times.next[1], 50), part_of(&times.next[1], 99));
    tell("%d threads and %d descriptors more after %d rounds (the roots of ids "
         "are left alone here)",
         entries("/proc/self/task") - threads, entries("/proc/self/fd") - files,
         ROUNDS - 2);
    atomic_store(&shared->is_over, 1);
    end_pair(&p);
}

static void be_partner(void)
{
    pair p;
    const int round = atomic_load(&shared->round);
    make_pair(&p, round, 2);
    if (round == ROUNDS) {
        while (!atomic_load(&shared->is_over))
            nap_us(1000);
        end_pair(&p);
        return;
    }
    atomic_store(&shared->is_doomed, 1);
    for (;;) /* an operation that the other has not started waits for it */
        if (reduce(p.child, LONG, stream) != 0)
            pause();
}

static void ask_abort(void)
{
    open_all();
    if (rank == 0)
        survive();
    else
        be_partner();
}

/* --------------------------------------------------------------- two orders */

static void ask_orders(void)
{
    pair p[2];
    rg__cu_stream on[2] = {NULL, NULL};
    open_all();
    for (int i = 0; i < 2; i++) {
        make_pair(&p[i], i, 2);
        must(cuda.call.stream_create(&on[i], RG__CU_STREAM_NON_BLOCKING, 0),
             "a stream");
    }
    meet(2);
    const double begin = now_ms();
    for (int i = 0; i < 16; i++) {
        const int which = (i + rank) % 2;
        must(nccl.call.allreduce(
                 at((size_t)which * MIB), at((size_t)which * MIB), MIB / 4,
                 RG__NCCL_Int32, RG__NCCL_Sum, p[which].child, on[which]),
             "ncclAllReduce");
    }
    for (int i = 0; i < 2; i++)
        must(cuda.call.stream_synchronize(on[i]), "a stream");
    if (rank == 0)
        tell("two communicators in opposite orders on two ranks: 8 operations "
             "of each end after %.0f ms",
             now_ms() - begin);
    meet(2);
    nccl.call.group_start();
    for (int i = 0; i < 2; i++) {
        nccl.call.comm_abort(p[i].child);
        nccl.call.comm_abort(p[i].parent);
    }
    must(nccl.call.group_end(), "the end of the aborts");
}

/* ------------------------------------------------------------- held threads */

static struct pinger {
    _Atomic int is_over;
    _Atomic uint64_t longest_ns;
} pinger;

static void *ping(void *arg)
{
    (void)arg;
    uint64_t last = rg__now_ns();
    while (!atomic_load(&pinger.is_over)) {
        nap_us(1000);
        const uint64_t now = rg__now_ns();
        if (now - last > atomic_load(&pinger.longest_ns))
            atomic_store(&pinger.longest_ns, now - last);
        last = now;
    }
    return NULL;
}

static double take_longest_ms(void)
{
    return (double)atomic_exchange(&pinger.longest_ns, 0) / 1e6;
}

static void ask_ping(void)
{
    pthread_t thread;
    void *pinned = NULL;
    pair p;
    must(pthread_create(&thread, NULL, ping, NULL), "a thread");
    open_cuda();
    take_device();
    const double begun = take_longest_ms();
    must(cuda.call.host_alloc(&pinned, 256 * MIB, 0), "pinned memory");
    const double allocated = take_longest_ms();
    cuda.call.host_free(pinned);
    const double freed = take_longest_ms();
    open_nccl();
    const double opened = take_longest_ms();
    must(cuda.call.memory_alloc(&buffer, LONG), "memory");
    make_pair(&p, 0, 2);
    const double connected = take_longest_ms();
    meet(2);
    end_pair(&p);
    if (rank == 0)
        tell("a thread that wakes each ms was held up for %.0f ms by the "
             "context, %.0f by 256 MiB of pinned memory, %.0f by giving them "
             "back, %.0f by opening NCCL, %.0f by connecting, %.0f by aborting",
             begun, allocated, freed, opened, connected, take_longest_ms());
    atomic_store(&pinger.is_over, 1);
    pthread_join(thread, NULL);
}

/* ------------------------------------------------ memory of dead processes */

#define HELD (512 * MIB)

static void hold_memory(void)
{
    rg__cu_address held = 0;
    must(cuda.call.memory_alloc(&held, HELD), "memory");
    atomic_store(&shared->is_doomed, 1);
    for (;;)
        pause();
}

static size_t free_bytes(void)
{
    size_t n = 0, total = 0;
    must(cuda.call.memory_info(&n, &total), "cuMemGetInfo");
    return n;
}

static void ask_memory(void)
{
    open_all();
    if (rank == 1)
        hold_memory();
    while (!atomic_load(&shared->is_doomed))
        nap_us(200);
    const size_t before = free_bytes();
    const double begin = now_ms();
    kill(atomic_load(&shared->pid[1]), SIGKILL);
    while (free_bytes() < before + HELD / 2 && now_ms() < begin + 3000)
        nap_us(1000);
    tell("memory of a killed process is free again after %.0f ms (3000: not "
         "seen)",
         now_ms() - begin);
    atomic_store(&shared->is_over, 1);
}

/* ------------------------------------------------------------ staged copies */

static double staged_ms(size_t piece, char *const ring[2], char *to)
{
    const double begin = now_ms();
    for (size_t i = 0; i <= LONG / piece; i++) {
        if (i > 0)
            must(cuda.call.stream_synchronize(stream), "a copy");
        if (i < LONG / piece)
            must(cuda.call.copy_out(ring[i % 2], buffer + i * piece, piece,
                                    stream),
                 "a copy");
        if (i > 0)
            memcpy(to + (i - 1) * piece, ring[(i - 1) % 2], piece);
    }
    return now_ms() - begin;
}

static void ask_staging(void)
{
    char *ring[2];
    open_all();
    char *to = malloc(LONG);
    for (int i = 0; i < 2; i++)
        must(cuda.call.host_alloc((void **)&ring[i], 16 * MIB, 0), "pinned");
    memset(to, 0, LONG);
    for (size_t piece = MIB / 4; piece <= 4 * MIB; piece *= 2) {
        static series times;
        times.n = 0;
        for (int i = 0; i < 20; i++)
            add(&times, staged_ms(piece, ring, to));
        tell("%zu MiB in pieces of %zu KiB: %.2f ms, %.1f GB/s", LONG / MIB,
             piece / 1024, part_of(&times, 50),
             (double)LONG / part_of(&times, 50) / 1e6);
    }
    free(to);
}

/* ---------------------------------------------------------------- processes */

static const struct question {
    const char *name;
    void (*ask)(void);
    int ranks;
} questions[] = {{"machine", ask_machine, 1}, {"split", ask_split, 2},
                 {"alone", ask_alone, 1},     {"word", ask_word, 2},
                 {"abort", ask_abort, 2},     {"orders", ask_orders, 2},
                 {"ping", ask_ping, 2},       {"memory", ask_memory, 2},
                 {"staging", ask_staging, 1}};

/* Each rank stands for a host: NCCL refuses two ranks of one on a device. */
static void start(const struct question *q, int as)
{
    char host[16];
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid > 0) {
        atomic_store(&shared->pid[as], pid);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pid < 0 || getppid() != parent)
        _exit(1);
    rank = as;
    atomic_store(&shared->pid[as], getpid());
    snprintf(host, sizeof host, "rg-%d", as);
    setenv("NCCL_HOSTID", host, 1);
    q->ask();
    exit(0);
}

/* A rank that was killed is started again, until all is over. */
static int await(const struct question *q)
{
    int left = q->ranks, status = 0, worst = 0;
    while (left > 0) {
        const pid_t pid = wait(&status);
        const int as = pid == atomic_load(&shared->pid[0]) ? 0 : 1;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && as == 1 &&
            q->ask == ask_abort && !atomic_load(&shared->is_over)) {
            start(q, as);
            continue;
        }
        left--;
        if (WIFEXITED(status) && WEXITSTATUS(status) > worst)
            worst = WEXITSTATUS(status);
        if (WIFSIGNALED(status) && !(as == 1 && WTERMSIG(status) == SIGKILL)) {
            tell("rank %d was ended by signal %d", as, WTERMSIG(status));
            worst = 1;
        }
        if (worst != 0)
            return worst; /* the others go with this process */
    }
    return worst;
}

int main(int argc, char **argv)
{
    const size_t n = sizeof questions / sizeof *questions;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < n && argc == 2 && shared != MAP_FAILED; i++) {
        if (strcmp(argv[1], questions[i].name) != 0)
            continue;
        for (int as = 0; as < questions[i].ranks; as++)
            start(&questions[i], as);
        return await(&questions[i]);
    }
    for (size_t i = 0; i < n; i++)
        printf("%s\n", questions[i].name);
    return argc == 1 ? 0 : 64;
}
