#include "tests/lib/world.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define ALLOC_BYTES ((size_t)4 << 20)
#define TIMEOUT_S   50
#define SLEEP_NS    (100 * 1000 * RG__MS) /* who is not rung hangs the test */

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
    int control[WORLD_GENERATIONS + 1];
    int alloc[WORLD_MAX];
    uint64_t control_bytes;
    size_t alloc_bytes;
};

rg__page *world_page(world *w, int index)
{
    return &w->shared->page[index].page;
}

_Atomic uint64_t *world_word(world *w, int i)
{
    return &w->shared->word[i];
}

void world_meet_some(world *w, int at, int n)
{
    meeting *m = &w->shared->meeting[at];
    const uint32_t round = atomic_load(&m->round);
    if (atomic_fetch_add(&m->here, 1) + 1 == (uint32_t)n) {
        atomic_store(&m->here, 0);
        atomic_fetch_add(&m->round, 1);
        return;
    }
    while (atomic_load(&m->round) == round)
        sched_yield();
}

void world_meet(world *w)
{
    world_meet_some(w, 0, w->n);
}

char *world_control(world *w, uint64_t generation, size_t *bytes_p)
{
    void *at = NULL;
    CHECK_OK(rg__shm_map(w->shared->control[generation],
                         w->shared->control_bytes, &at));
    *bytes_p = w->shared->control_bytes;
    return at;
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
    while (!atomic_load(&w->wants_stop)) {
        const uint32_t seen = atomic_load(&w->ctx->page->wake);
        if (must_leave(w)) {
            rg__sets_leave(w->ctx, w->leave_st, "the test left");
            rg__context_set_computing(w->ctx, false);
        }
        round = rg__engine_progress(w->ctx->engine) ? round + 1 : 0;
        rg__engine_sleep(w->ctx->engine, seen, round, SLEEP_NS);
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
    if (all->room == 0) {
        all->item = calloc(WORLD_MAX, sizeof *all->item);
        CHECK(all->item != NULL);
        all->room = WORLD_MAX;
    }
    all->item[all->count++] = (rg__mapping){.owner = w->member[owner],
                                            .id = 1,
                                            .bytes = w->alloc_bytes,
                                            .at = w->peer_alloc[owner]};
    rg__engine_unlock(w->ctx->engine);
}

void world_enter(world *w, uint64_t generation, const int *indexes, int n)
{
    rg__member_id member[WORLD_MAX];
    rg__membership m = {.generation = generation,
                        .rank = -1,
                        .size = n,
                        .local_size = n,
                        .host_count = 1,
                        .member = member};
    for (int i = 0; i < n; i++) {
        member[i] = w->member[indexes[i]];
        if (indexes[i] == w->index)
            m.rank = m.local_rank = i;
    }
    const rg__boot boot = {.rank = m.rank,
                           .size = n,
                           .local_rank = m.rank,
                           .local_size = n,
                           .generation = generation,
                           .member = member,
                           .control_fd = w->shared->control[generation],
                           .control_bytes = w->shared->control_bytes,
                           .mappings = rg__engine_mappings(w->ctx->engine)};
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

static world_shared *make_shared(const world_params *params)
{
    world_shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    s->alloc_bytes =
        params->alloc_bytes == 0 ? ALLOC_BYTES : params->alloc_bytes;
    s->control_bytes = rg__native_control_bytes(params->n);
    for (int g = 1; g <= WORLD_GENERATIONS; g++)
        CHECK_OK(
            rg__shm_create("control", s->control_bytes, false, &s->control[g]));
    for (int i = 0; i < params->n; i++)
        CHECK_OK(rg__shm_create("alloc", s->alloc_bytes, false, &s->alloc[i]));
    return s;
}

static void drop_shared(world_shared *s, const world_params *params)
{
    for (int g = 1; g <= WORLD_GENERATIONS; g++)
        close(s->control[g]);
    for (int i = 0; i < params->n; i++)
        close(s->alloc[i]);
    munmap(s, sizeof *s);
}

static void run_child(const world_params *params, world_shared *shared,
                      int index, world_fn fn, void *arg)
{
    static world w; /* static: a thread that a failing test leaves behind */
    w = (world){.index = index,
                .n = params->n,
                .shared = shared,
                .alloc_bytes = shared->alloc_bytes};
    for (int i = 0; i < params->n; i++)
        w.member[i] = (rg__member_id){1, (uint32_t)i, 1};
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
        (uint64_t)(params->timeout_s == 0 ? TIMEOUT_S : params->timeout_s);
    const uint64_t deadline = rg__now_ns() + timeout * 1000 * RG__MS;
    fflush(NULL);
    for (int i = 0; i < params->n; i++) {
        pid[i] = fork();
        CHECK(pid[i] >= 0);
        if (pid[i] == 0)
            run_child(params, shared, i, fn, arg);
    }
    const bool is_good = await_children(pid, params->n, deadline);
    drop_shared(shared, params);
    CHECK(is_good);
}

void world_of(int n, world_fn fn, void *arg)
{
    const world_params params = {.n = n};
    world_run(&params, fn, arg);
}
