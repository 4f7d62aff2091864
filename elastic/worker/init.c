/* rg_init and rg_finalize, under an agent or alone; N tasks never become N
 * worlds of one without a warning. */
#include "elastic/worker/worker.h"

#include <stdlib.h>
#include <unistd.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/params.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

/* The context of this process. A program and libraries inside it call rg_init
 * and rg_finalize each for itself. */
static struct {
    pthread_mutex_t lock; /* guards what follows; recursive, since MPI_Init may
                             call a library that calls rg_init */
    rg_ctx *ctx;          /* NULL: not yet, or no more */
    int users;
    bool is_elastic; /* as its first user asked */
    bool has_begun;
} process = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

/* Variables by which launchers tell a process how many tasks there are. */
static const char *const launcher_sizes[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",     "PMIX_SIZE",
    "MPI_LOCALNRANKS",      "SLURM_NTASKS", "WORLD_SIZE",
    "JSM_NAMESPACE_SIZE"};

/* The variable that shows several tasks; NULL: one task, or none is set. */
static const char *find_many_tasks(void)
{
    for (size_t i = 0; i < sizeof launcher_sizes / sizeof *launcher_sizes;
         i++) {
        const char *value = getenv(launcher_sizes[i]);
        if (value != NULL && strtol(value, NULL, 10) > 1)
            return launcher_sizes[i];
    }
    return NULL;
}

static rg_status refuse_launchers(const char *variable)
{
    const char *value = getenv(variable);
    return rg__fail(
        RG_ERR_REFUSED,
        "a launcher started %s tasks (%s) without a Regroup agent, and each "
        "would be a world of its own; start the program with `regroup run -n "
        "%s PROGRAM` instead, install libregroup_mpi of its MPI beside "
        "libregroup if mpirun is to start it, or unset %s to run alone",
        value, variable, value, variable);
}

/* NULL: no launcher has started this process. */
static const rg__launcher *find_launcher(const char *many)
{
    if (rg__launcher_get() == NULL && many != NULL)
        rg__adapter_load();
    const rg__launcher *launcher = rg__launcher_get();
    return launcher != NULL && launcher->is_here() ? launcher : NULL;
}

static rg_status attach(rg__worker *w)
{
    const rg__library_settings *settings = NULL;
    rg_status st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    if (settings->socket != NULL && settings->socket[0] != '\0') {
        w->ctx->is_rank = settings->launch > 0;
        w->ctx->is_elastic |= w->ctx->is_rank;
        w->ctx->has_agent = true;
        return rg__worker_connect(w, settings->socket, settings->slot);
    }
    const char *many = find_many_tasks();
    w->launcher = find_launcher(many);
    if (w->launcher != NULL)
        return rg__worker_launched(w, settings);
    return many != NULL ? refuse_launchers(many)
                        : rg__worker_stay_alone(w, settings);
}

/* ------------------------------------------------------------------- hooks */

static void agree_to_leave(rg_ctx *ctx, uint64_t generation)
{
    rg__worker *w = ctx->worker;
    pthread_mutex_lock(&w->lock);
    w->leave_agreed = generation;
    pthread_mutex_unlock(&w->lock);
    rg__page_ring(ctx->page);
}

static void tell_broken(rg_ctx *ctx, uint64_t generation, const char *why)
{
    rg__worker *w = ctx->worker;
    if (w->sock >= 0)
        rg__worker_broken(w, generation, -1, why);
}

static bool tell_overdue(rg_ctx *ctx, const char *why)
{
    rg__worker *w = ctx->worker;
    if (w->sock < 0)
        return false;
    rg__worker_link_broken(w, -1, why);
    return true;
}

static rg_status ask_save(rg_ctx *ctx, const rg__save *request)
{
    return rg__worker_send(ctx->worker, request, sizeof *request);
}

static void tell_committed(rg_ctx *ctx, uint64_t generation)
{
    rg__worker *w = ctx->worker;
    if (w->sock >= 0)
        rg__worker_mark(w, RG__COMMITTED, generation);
}

static bool waits(rg_ctx *ctx)
{
    bool is_proposed = false;
    return rg__worker_waits(ctx->worker, &is_proposed);
}

static const rg__hooks hooks = {.reserve = rg__worker_reserve,
                                .committed = tell_committed,
                                .leave = agree_to_leave,
                                .broken = tell_broken,
                                .overdue = tell_overdue,
                                .waits = waits,
                                .await_decision = rg__worker_await_decision,
                                .save = ask_save};

/* ------------------------------------------------------------- life of ctx */

static rg_status create_worker(rg_ctx *ctx)
{
    rg__worker *w = calloc(1, sizeof *w);
    if (w == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker");
    ctx->worker = w;
    w->ctx = ctx;
    w->sock = w->listener = w->vault_fd = -1;
    w->pending_fd = -1;
    w->reply.fd = w->stuck_rank = -1;
    w->entered.rank = -1;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    return RG_OK;
}

static void destroy_worker(rg_ctx *ctx)
{
    rg__worker *w = ctx->worker;
    if (w == NULL)
        return;
    if (w->launcher != NULL)
        w->launcher->detach();
    rg__registry_free(w->registry);
    if (w->has_thread_end) /* the thread of rg_run has ended */
        pthread_key_delete(w->thread_end);
    if (w->sock >= 0)
        close(w->sock);
    if (w->listener >= 0)
        close(w->listener);
    if (w->vault_fd >= 0)
        close(w->vault_fd);
    free(w->entered.member);
    free(w->launched);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void unmap_segments(rg_ctx *ctx)
{
    rg__mappings *all = rg__engine_mappings(ctx->engine);
    for (int i = 0; i < all->count; i++)
        rg__shm_unmap(all->item[i].at, all->item[i].bytes);
    free(all->item);
    *all = (rg__mappings){0};
}

static void destroy_ctx(rg_ctx *ctx)
{
    if (ctx == NULL)
        return;
    if (ctx->worker != NULL && ctx->worker->launcher != NULL)
        rg__worker_leave_launched(ctx->worker, "rg_finalize was called");
    if (ctx->worker != NULL)
        rg__worker_stop_thread(ctx->worker);
    if (ctx->sets != NULL)
        rg__sets_unwatch(ctx);
    rg__device_destroy(ctx->device);
    ctx->device = NULL;
    if (ctx->sets != NULL)
        rg__sets_destroy(ctx->sets);
    if (ctx->engine != NULL) {
        rg__registered_end(ctx);
        unmap_segments(ctx);
        rg__engine_destroy(ctx->engine);
    }
    /* The page stays mapped for the crash handlers, and its mutex locked by a
     * thread that is gone: the agent reads that as the end of this worker. */
    rg__shm_unmap(ctx->vault, sizeof(rg__vault));
    destroy_worker(ctx);
    rg__context_clear(ctx);
    free(ctx);
}

static rg_status create_parts(rg_ctx *ctx)
{
    rg_status st = rg__context_init(ctx);
    if (st == RG_OK)
        st = create_worker(ctx);
    if (st == RG_OK)
        st = attach(ctx->worker);
    if (st == RG_OK)
        st = rg__engine_create(ctx->page, &ctx->engine);
    if (st == RG_OK)
        rg__engine_record(ctx->engine, ctx->record);
    if (st == RG_OK)
        st = rg__sets_create(ctx, &ctx->sets);
    return st;
}

/* Alone: generation 1 is there from the start and decided at the door. */
static rg_status enter_alone(rg__worker *w)
{
    rg_ctx *ctx = w->ctx;
    const rg__boot boot = {.size = 1,
                           .local_size = 1,
                           .generation = 1,
                           .member = &ctx->me,
                           .control_fd = -1,
                           .mappings = rg__engine_mappings(ctx->engine)};
    rg_status st = rg__sets_enter(ctx, &rg__transport_self, &boot);
    if (st != RG_OK)
        return st;
    w->entered = (rg__membership){
        .generation = 1, .size = 1, .local_size = 1, .host_count = 1};
    w->entered.member = malloc(sizeof ctx->me);
    if (w->entered.member == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a generation");
    w->entered.member[0] = ctx->me;
    w->decided = (rg__decided){.generation = 1, .source = 0};
    return RG_OK;
}

static rg_status start(rg_ctx *ctx)
{
    rg__worker *w = ctx->worker;
    const rg__library_settings *settings = NULL;
    rg_status st = rg__library_settings_get(&settings);
    if (st == RG_OK && w->launcher != NULL)
        st = rg__worker_enter_launched(w, settings);
    else if (st == RG_OK && w->sock < 0)
        st = enter_alone(w);
    if (st != RG_OK)
        return st;
    rg__crash_install(ctx->page);
    st = rg__worker_start_thread(w);
    if (st == RG_OK && w->launcher != NULL)
        rg__worker_watch_launched(w);
    return st;
}

/* The door of a static program, and of a rank under --mpi, is rg_init. */
static rg_status form_static_world(rg_ctx *ctx)
{
    rg_status st = rg__worker_door(ctx->worker);
    while (st == RG_OK) {
        rg__decided decided;
        bool is_done = false;
        st = rg__worker_await(ctx->worker, &decided, &is_done);
        if (st == RG_OK)
            st = rg__sets_sync(ctx);
        if (st != RG_ERR_PEER_LOST)
            break;
        st = RG_OK; /* lost while it formed: the agent forms another, or ends */
    }
    return st;
}

static rg_status read_params(const rg_params *params, rg_params *own,
                             rg_ctx **ctx_p)
{
    if (ctx_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_init needs a place for the context");
    const rg_status st =
        rg__params_read("rg_params", params,
                        RG__PARAMS_UP_TO(rg_params, elastic), own, sizeof *own);
    if (st != RG_OK)
        return st;
    return RG_OK;
}

static rg_status create_ctx(const rg_params *own, rg_ctx **ctx_p)
{
    rg_ctx *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a context");
    ctx->is_elastic = own->elastic != 0;
    ctx->hooks = &hooks;
    rg_status st = create_parts(ctx);
    if (st == RG_OK) {
        rg__log_who(ctx->host, -1, 0, 0);
        rg__failpoint_start(ctx->me.start);
        st = start(ctx);
    }
    if (st == RG_OK && (!ctx->is_elastic || ctx->is_rank))
        st = form_static_world(ctx);
    if (st != RG_OK) {
        destroy_ctx(ctx);
        return st;
    }
    *ctx_p = ctx;
    return RG_OK;
}

/* The first user in this process. Lock held. */
static rg_status begin_process(const rg_params *own)
{
    if (process.has_begun)
        return rg__fail(RG_ERR_INVALID,
                        "rg_init was called before in this process, and has "
                        "failed, or its world has ended with the last "
                        "rg_finalize; a process has one world");
    process.has_begun = true;
    process.is_elastic = own->elastic != 0;
    return create_ctx(own, &process.ctx);
}

/* Another user; params NULL: it takes what there is. */
static rg_status check_same(const rg_params *params, const rg_params *own)
{
    static const char *const words[] = {"static", "elastic"};
    const bool is_elastic = own->elastic != 0;
    if (params == NULL || is_elastic == process.is_elastic)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "rg_init asks for a world that is %s, and this process has "
                    "one that is %s, from an earlier rg_init; a library gives "
                    "NULL for rg_params, and takes what there is",
                    words[is_elastic], words[process.is_elastic]);
}

rg_status rg_init(const rg_params *params, rg_ctx **ctx_p)
{
    rg_params own = {.size = sizeof own};
    rg_status st = read_params(params, &own, ctx_p);
    if (st != RG_OK)
        return st;
    pthread_mutex_lock(&process.lock);
    st = process.ctx == NULL ? begin_process(&own) : check_same(params, &own);
    if (st == RG_OK) {
        process.users++;
        *ctx_p = process.ctx;
    }
    pthread_mutex_unlock(&process.lock);
    return st;
}

bool rg__process_has_world(void)
{
    pthread_mutex_lock(&process.lock);
    const bool has_world = process.ctx != NULL;
    pthread_mutex_unlock(&process.lock);
    return has_world;
}

/* Was that the last one? */
static bool is_last(const rg_ctx *ctx)
{
    pthread_mutex_lock(&process.lock);
    const bool is_counted = ctx == process.ctx && --process.users > 0;
    if (ctx == process.ctx && !is_counted)
        process.ctx = NULL;
    pthread_mutex_unlock(&process.lock);
    return !is_counted;
}

static bool has_other_users(const rg_ctx *ctx)
{
    pthread_mutex_lock(&process.lock);
    const bool has = ctx == process.ctx && process.users > 1;
    pthread_mutex_unlock(&process.lock);
    return has;
}

rg_status rg_finalize(rg_ctx *ctx)
{
    if (ctx != NULL && rg__context_is_inside_fn(ctx) && !has_other_users(ctx))
        return rg__fail(RG_ERR_INVALID,
                        "rg_finalize was called inside fn; return from fn "
                        "first, with an error to leave the job");
    if (ctx == NULL || !is_last(ctx))
        return RG_OK;
    rg__worker_close_loop(ctx->worker);
    rg__group_forget(ctx);
    const rg_status st = rg__worker_finish_launch(ctx);
    /* Now, since the agent ends this rank as soon as it has left. */
    if (st != RG_OK && st != RG_ERR_HOSTS_CHANGED)
        rg__log(RG__ERROR, "worker", "%s", rg_last_error());
    destroy_ctx(ctx);
    return st;
}
