#include "tests/lib/world.h"

#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"
#include "sdk/core/engine_parts.h"

#define ALLOC_BYTES ((size_t)4 << 20)
#define TIMEOUT_S   50
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PATIENCE 4
#else
#define PATIENCE 1
#endif
#define SLEEP_NS (100 * 1000 * RG__MS) /* if no bell rings, the test hangs */

typedef struct meeting {
    _Atomic uint32_t here, round;
} meeting;

struct world_shared {
    union {
        rg__page page;
        char room[RG__PAGE_BYTES];
    } page[WORLD_MAX];
    meeting meeting[16];
    _Atomic uint64_t word[64];
    int control[WORLD_GENERATIONS + 1][WORLD_MAX]; /* by host */
    int host_of[WORLD_MAX];
    int listener[WORLD_MAX];
    uint32_t port[WORLD_MAX];
    int alloc[WORLD_MAX];
    uint64_t control_bytes;
    size_t alloc_bytes;
};

rg__page *world_page(world *w, int index)
{
    return &w->shared->page[index].page;
}

void world_begin_at_once(const world *w)
{
    atomic_store(&w->ctx->engine->prompt_waits, UINT8_MAX);
}

_Atomic uint64_t *world_word(world *w, int i)
{
    return &w->shared->word[i];
}

const uint8_t world_key[RG__KEY_BYTES] = "the key of a job in a test";

int world_listener(world *w, int index)
{
    return w->shared->listener[index];
}

uint32_t world_port(world *w, int index)
{
    return w->shared->port[index];
}

void world_meet_some(world *w, int at, int n)
{
    meeting *m = &w->shared->meeting[at];
    const uint32_t round = atomic_load(&m->round);
    if (atomic_fetch_add(&m->here, 1) + 1 == (uint32_t)n) {
        atomic_store(&m->here, 0);
        atomic_fetch_add(&m->round, 1);
        rg__futex_wake(&m->round);
        return;
    }
    const rg__word word = {&m->round, round};
    for (uint32_t k = 0; atomic_load(&m->round) == round;)
        if (rg__spin(&rg__wait_usual, k++) == 0)
            rg__futex_wait_any(&word, 1, rg__wait_usual.sleep_ns);
}

void world_meet(world *w)
{
    world_meet_some(w, 0, w->n);
}

char *world_control(world *w, uint64_t generation, size_t *bytes_p)
{
    void *at = NULL;
    const int host = w->host_of[w->index];
    CHECK_OK(rg__shm_map(w->shared->control[generation][host],
                         w->shared->control_bytes, &at));
    *bytes_p = w->shared->control_bytes;
    return at;
}

int64_t world_control_memory(const world *w, uint64_t generation)
{
    struct stat info;
    const int host = w->host_of[w->index];
    CHECK(fstat(w->shared->control[generation][host], &info) == 0);
    return (int64_t)info.st_blocks * 512;
}

/* -------------------------------------------- in place of the Regroup thread
 */

static bool must_leave(world *w)
{
    const uint64_t generation = rg_generation(w->ctx);
    if (generation == 0)
        return false;
    if (atomic_load(&w->ctx->page->abort) >= generation) {
        w->leave_st = RG_ERR_PEER_LOST;
        return true;
    }
    return atomic_load(&w->leave) >= generation;
}

static void *stand_in(void *arg)
{
    world *w = arg;
    uint32_t round = 0;
    /* read before anything that a ring may announce */
    uint32_t seen = atomic_load(&w->ctx->page->wake);
    while (!atomic_load(&w->wants_stop)) {
        if (must_leave(w)) {
            rg__sets_leave(w->ctx, w->leave_st, "the test left");
            rg__context_set_computing(w->ctx, false);
        }
        round = rg__engine_progress(w->ctx->engine) ? round + 1 : 0;
        rg__engine_sleep(w->ctx->engine, seen, round, SLEEP_NS);
        seen = atomic_load(&w->ctx->page->wake);
    }
    return NULL;
}

void world_await_left(world *w)
{
    while (rg_generation(w->ctx) != 0)
        sched_yield();
}

void world_leave(world *w, rg_status st)
{
    w->leave_st = st;
    atomic_store(&w->leave, rg_generation(w->ctx));
    rg__page_ring(w->ctx->page);
    world_await_left(w);
}

void world_abort(world *w, int index, uint64_t generation)
{
    rg__page *page = world_page(w, index);
    atomic_store(&page->abort, generation);
    rg__page_ring(page);
}

/* ------------------------------------------------------------- building one */

void world_map(world *w, int owner)
{
    rg__mappings *all = rg__engine_mappings(w->ctx->engine);
    rg__engine_lock(w->ctx->engine);
    rg__mapping *one = rg__grow(&all->item, (size_t)all->count, sizeof *one);
    CHECK(one != NULL);
    *one = (rg__mapping){.owner = w->member[owner],
                         .id = 1,
                         .bytes = w->alloc_bytes,
                         .at = w->peer_alloc[owner]};
    all->count++;
    rg__engine_unlock(w->ctx->engine);
}

static void on_broken(void *arg, int rank, const char *why)
{
    world *w = arg;
    atomic_store(&w->broken_rank, rank);
    snprintf(w->broken_why, sizeof w->broken_why, "%s", why);
    atomic_fetch_add(&w->broken, 1);
}

/* The members of a generation, and their places. */
typedef struct scene {
    rg__member_id member[WORLD_MAX]; /* by rank, as place */
    rg__place place[WORLD_MAX];
    rg__address address[WORLD_MAX];
    int seen[WORLD_MAX]; /* hosts that take part, by first member */
} scene;

static void place_rank(world *w, scene *s, rg__membership *m, int rank,
                       int index)
{
    int host = 0;
    while (host < m->host_count && s->seen[host] != w->host_of[index])
        host++;
    if (host == m->host_count)
        s->seen[m->host_count++] = w->host_of[index];
    snprintf(s->address[host].text, sizeof s->address[host].text, "127.0.0.1");
    s->member[rank] = w->member[index];
    s->place[rank] = (rg__place){(uint32_t)host, w->shared->port[index]};
    if (index == w->index) {
        m->rank = rank;
        m->host_index = host;
        m->local_rank = m->local_size;
    }
    m->local_size += w->host_of[index] == w->host_of[w->index];
}

void world_enter(world *w, uint64_t generation, const int *indexes, int n)
{
    scene s = {0};
    rg__membership m = {
        .generation = generation, .rank = -1, .size = n, .member = s.member};
    for (int i = 0; i < n; i++)
        place_rank(w, &s, &m, i, indexes[i]);
    const rg__boot boot = {
        .rank = m.rank,
        .size = n,
        .local_rank = m.local_rank,
        .local_size = m.local_size,
        .generation = generation,
        .member = s.member,
        .control_fd = w->shared->control[generation][w->host_of[w->index]],
        .control_bytes = w->shared->control_bytes,
        .mappings = rg__engine_mappings(w->ctx->engine),
        .host_count = m.host_count,
        .place = s.place,
        .address = s.address,
        .listener = w->shared->listener[w->index],
        .key = world_key,
        .broken = on_broken,
        .broken_arg = w};
    CHECK_OK(rg__sets_enter(w->ctx, &rg__transport_native, &boot));
    CHECK_OK(rg__context_set_membership(w->ctx, &m));
    rg__context_set_computing(w->ctx, true);
    rg__engine_admit(w->ctx->engine);
}

static void map_allocs(world *w)
{
    for (int i = 0; i < w->n; i++) {
        void *at = NULL;
        CHECK_OK(rg__shm_map(w->shared->alloc[i], w->alloc_bytes, &at));
        w->peer_alloc[i] = at;
    }
    w->alloc = w->peer_alloc[w->index];
}

static void build(world *w, const world_params *params)
{
    w->ctx = calloc(1, sizeof *w->ctx);
    CHECK(w->ctx != NULL);
    w->ctx->page = world_page(w, w->index);
    w->ctx->me = w->member[w->index];
    w->ctx->slot = w->index;
    rg__log_who("test", w->index, w->n, 1);
    CHECK_OK(rg__context_init(w->ctx));
    CHECK_OK(rg__engine_create(w->ctx->page, &w->ctx->engine));
    CHECK_OK(rg__sets_create(w->ctx, &w->ctx->sets));
    map_allocs(w);
    for (int i = 0; i < w->n && !params->is_bare; i++)
        if (w->host_of[i] == w->host_of[w->index])
            world_map(w, i);
    const int all[WORLD_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (!params->is_outside)
        world_enter(w, 1, all, w->n);
    CHECK_EQ(pthread_create(&w->thread, NULL, stand_in, w), 0);
}

static void tear_down(world *w)
{
    atomic_store(&w->wants_stop, 1);
    rg__page_ring(w->ctx->page);
    pthread_join(w->thread, NULL);
    rg__sets_destroy(w->ctx->sets);
    free(rg__engine_mappings(w->ctx->engine)->item);
    rg__engine_destroy(w->ctx->engine);
    rg__context_clear(w->ctx);
    for (int i = 0; i < w->n; i++)
        rg__shm_unmap(w->peer_alloc[i], w->alloc_bytes);
    free(w->ctx);
}

/* ---------------------------------------------------------------- processes */

static void place_on_hosts(world_shared *s, const world_params *params)
{
    const char *hosts = params->hosts;
    if (hosts == NULL)
        hosts = getenv("WORLD_HOSTS");
    if (hosts == NULL)
        hosts = "0";
    for (int i = 0; i < params->n; i++) {
        s->host_of[i] = hosts[(size_t)i % strlen(hosts)] - '0';
        CHECK(s->host_of[i] >= 0 && s->host_of[i] < WORLD_MAX);
    }
}

static void make_controls(world_shared *s, const world_params *params)
{
    s->control_bytes = rg__shm_control_bytes(params->n, RG__SETS_MAX);
    for (int g = 1; g <= WORLD_GENERATIONS; g++)
        for (int i = 0; i < params->n; i++) {
            int *fd = &s->control[g][s->host_of[i]];
            if (*fd < 0)
                CHECK_OK(
                    rg__shm_create("control", s->control_bytes, false, fd));
        }
}

static void listen_for(world_shared *s, int index)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    const int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&at, bytes), 0);
    CHECK_EQ(listen(fd, 512), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    s->listener[index] = fd;
    s->port[index] = ntohs(at.sin_port);
}

static world_shared *make_shared(const world_params *params)
{
    world_shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    s->alloc_bytes =
        params->alloc_bytes == 0 ? ALLOC_BYTES : params->alloc_bytes;
    memset(s->control, 0xff, sizeof s->control);
    place_on_hosts(s, params);
    make_controls(s, params);
    for (int i = 0; i < params->n; i++) {
        CHECK_OK(rg__shm_create("alloc", s->alloc_bytes, false, &s->alloc[i]));
        listen_for(s, i);
    }
    return s;
}

static void drop_shared(world_shared *s, const world_params *params)
{
    for (int g = 1; g <= WORLD_GENERATIONS; g++)
        for (int h = 0; h < WORLD_MAX; h++)
            if (s->control[g][h] >= 0)
                close(s->control[g][h]);
    for (int i = 0; i < params->n; i++) {
        close(s->alloc[i]);
    }
    munmap(s, sizeof *s);
}

/* Only the owner keeps a listener open, so it is closed when the owner dies. */
static void keep_own_listener(const world *w)
{
    for (int i = 0; i < w->n; i++)
        if (i != w->index)
            close(w->shared->listener[i]);
}

static void run_child(const world_params *params, world_shared *shared,
                      int index, world_fn fn, void *arg)
{
    static world w; /* static: a thread that a failing test leaves behind */
    w = (world){.index = index,
                .n = params->n,
                .shared = shared,
                .alloc_bytes = shared->alloc_bytes};
    for (int i = 0; i < params->n; i++) {
        w.host_of[i] = shared->host_of[i];
        w.member[i] =
            (rg__member_id){(uint64_t)shared->host_of[i] + 1, (uint32_t)i, 1};
    }
    keep_own_listener(&w);
    build(&w, params);
    fn(&w, arg);
    tear_down(&w);
    exit(0);
}

/* Take note of a child that has ended; false when it failed. */
static bool reap(pid_t *pid, int i, int *left)
{
    int how = 0;
    if (pid[i] == 0 || waitpid(pid[i], &how, WNOHANG) == 0)
        return true;
    pid[i] = 0;
    --*left;
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return true;
    fprintf(stderr, "process %d ended with 0x%x\n", i, (unsigned)how);
    return false;
}

/* Every child is gone when this returns; true when all of them ended with 0
 * before the deadline. */
static bool await_children(pid_t *pid, int n, uint64_t deadline)
{
    bool is_good = true;
    for (int left = n; left > 0 && is_good;) {
        for (int i = 0; i < n; i++)
            is_good = reap(pid, i, &left) && is_good;
        if (left > 0 && rg__now_ns() > deadline) {
            fprintf(stderr, "the world hung\n");
            is_good = false;
        }
        const struct timespec look = {.tv_nsec = 1000000};
        nanosleep(&look, NULL);
    }
    for (int i = 0; i < n; i++)
        if (pid[i] != 0) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], NULL, 0);
        }
    return is_good;
}

void world_run(const world_params *params, world_fn fn, void *arg)
{
    pid_t pid[WORLD_MAX];
    world_shared *shared = make_shared(params);
    const uint64_t timeout =
        PATIENCE *
        (uint64_t)(params->timeout_s == 0 ? TIMEOUT_S : params->timeout_s);
    const uint64_t deadline = rg__now_ns() + timeout * 1000 * RG__MS;
    fflush(NULL);
    for (int i = 0; i < params->n; i++) {
        pid[i] = fork();
        CHECK(pid[i] >= 0);
        if (pid[i] == 0)
            run_child(params, shared, i, fn, arg);
    }
    for (int i = 0; i < params->n; i++)
        close(shared->listener[i]);
    const bool is_good = await_children(pid, params->n, deadline);
    drop_shared(shared, params);
    CHECK(is_good);
}

void world_of(int n, world_fn fn, void *arg)
{
    const world_params params = {.n = n};
    world_run(&params, fn, arg);
}

void world_on(const char *hosts, world_fn fn, void *arg)
{
    const world_params params = {.n = (int)strlen(hosts), .hosts = hosts};
    world_run(&params, fn, arg);
}
