/* The Regroup thread: one per worker, from rg_init on. It holds the page's
 * robust mutex, answers the agent's ping, makes operations progress, and does
 * all of a change of membership that needs no user code:
 *
 *   PREPARE   is kept until the current generation is left
 *   abort, or an agreed leave   -> leave: gate shut, sets closed, LEFT
 *   left, and PREPARE is there  -> enter: data plane built, BUILT
 *   DECIDED   -> the user thread in rg_run takes it up
 *
 * From leave until the user thread takes it up, nothing of the new generation
 * is open to user threads. Only this thread reads the socket. */
#include "elastic/worker/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"
#include "sdk/base/start_thread.h"

#define IDLE_NS      (1000 * RG__MS) /* check the socket's end this often */
#define IGNORE_NS    (5000 * RG__MS) /* for a program that ignores the end */
#define SEND_ROUNDS  1000
#define SEND_WAIT_NS (5 * RG__MS)

rg_status rg__worker_send(rg__worker *w, const void *message, size_t bytes)
{
    for (int i = 0; i < SEND_ROUNDS; i++) {
        const rg_status st = rg__sock_send(w->sock, message, bytes, NULL, 0);
        if (st != RG_IN_PROGRESS)
            return st;
        rg__sleep_ns(SEND_WAIT_NS); /* the agent's queue is full */
    }
    return rg__fail(RG_ERR_AGENT_LOST,
                    "the agent has not read its socket for %d s",
                    (int)(SEND_ROUNDS * SEND_WAIT_NS / (1000 * RG__MS)));
}

rg_status rg__worker_mark(rg__worker *w, rg__wire_type type,
                          uint64_t generation)
{
    if (w->sock < 0)
        return RG_OK;
    const rg__mark m = {{type, RG__WIRE_VERSION}, generation};
    return rg__worker_send(w, &m, sizeof m);
}

void rg__worker_broken(rg__worker *w, uint64_t generation, int peer,
                       const char *why)
{
    rg__broken m = {.head = {RG__BROKEN, RG__WIRE_VERSION},
                    .generation = generation,
                    .peer = peer};
    snprintf(m.why, sizeof m.why, "%.*s", RG__TEXT_MAX - 1, why);
    pthread_mutex_lock(&w->lock);
    w->broken = m;
    pthread_mutex_unlock(&w->lock);
    rg__worker_send(w, &m, sizeof m);
}

/* ------------------------------------------------------------------- leave */

static void shut_gate(rg_ctx *ctx)
{
    pthread_mutex_lock(&ctx->gate);
    ctx->gate_generation = 0;
    pthread_mutex_unlock(&ctx->gate);
}

/* Only this thread changes what was entered; the user thread copies it under
 * the lock. The phase goes first: a user thread opens the gate only while it
 * sees PHASE_DECIDED under the lock. */
static uint64_t take_entered(rg__worker *w, bool is_broken)
{
    pthread_mutex_lock(&w->lock);
    const uint64_t generation = w->entered.generation;
    if (is_broken)
        rg__break_note(w);
    free(w->entered.member);
    w->entered = (rg__membership){.rank = -1};
    rg__worker_step(w, RG__ON_LEAVE);
    pthread_mutex_unlock(&w->lock);
    return generation;
}

static void close_generation(rg__worker *w, rg_status st, const char *why)
{
    shut_gate(w->ctx);
    rg__sets_leave(w->ctx, st, why);
    atomic_store(&w->ctx->page->generation, 0);
    atomic_store(&w->ctx->page->left_ns, rg__now_ns());
}

static void leave(rg__worker *w, rg_status st, const char *why)
{
    const uint64_t generation = take_entered(w, st != RG_ERR_HOSTS_CHANGED);
    rg__log(RG__DEBUG, "worker", "leaving generation %llu: %s",
            (unsigned long long)generation, why);
    close_generation(w, st, why);
    rg__worker_mark(w, RG__LEFT, generation);
    rg__break_tell(w);
}

/* What the program does about the loss of a peer. */
static const char *remedy_of(const rg__worker *w)
{
    if (w->ctx->is_elastic)
        return "return this status from fn";
    if (!w->ctx->is_rank)
        return "end this process: a static job ends with its first loss";
    return w->mend_ms != 0 ? "call rg_state_resume"
                           : "this process will be ended, and the next launch "
                             "resumes";
}

/* The worker that reported it knows why; others look at the job's status. */
static void leave_broken(rg__worker *w, uint64_t generation)
{
    char why[2 * RG__TEXT_MAX];
    snprintf(why, sizeof why, "a peer is lost and the generation has ended; %s",
             remedy_of(w));
    pthread_mutex_lock(&w->lock);
    const bool is_done = w->phase == RG__PHASE_DONE;
    if (is_done)
        snprintf(why, sizeof why,
                 "the job is done, and a member of its last generation has "
                 "left; let all call rg_finalize after the last collective");
    else if (w->broken.generation == generation)
        snprintf(why, sizeof why, "the generation has ended: %s; %s",
                 w->broken.why, remedy_of(w));
    pthread_mutex_unlock(&w->lock);
    if (is_done)
        rg__engine_goodbye(w->ctx->engine);
    leave(w, RG_ERR_PEER_LOST, why);
}

static void leave_if_due(rg__worker *w)
{
    const uint64_t generation = w->entered.generation;
    if (generation == 0)
        return;
    pthread_mutex_lock(&w->lock);
    const bool is_agreed = w->leave_agreed == generation;
    pthread_mutex_unlock(&w->lock);
    if (is_agreed) {
        rg__failpoint("leave", w->entered.rank, 0, generation);
        leave(w, RG_ERR_HOSTS_CHANGED,
              "hosts changed; return this status from fn");
    } else if (atomic_load(&w->ctx->page->abort) >= generation) {
        leave_broken(w, generation);
    }
}

/* Nothing more will come: close what was entered, and wake all waiters. */
static void end(rg__worker *w, rg_status st, const char *why)
{
    pthread_mutex_lock(&w->lock);
    if (rg__worker_step(w, RG__ON_END)) {
        rg__break_note(w);
        w->end = st;
        snprintf(w->end_why, sizeof w->end_why, "%s", why);
    }
    pthread_mutex_unlock(&w->lock);
    if (take_entered(w, false) != 0)
        close_generation(w, st, why);
    rg__break_tell(w);
}

/* ------------------------------------------------------------------- enter */

static void drop_pending(rg__worker *w)
{
    if (w->pending_fd >= 0)
        close(w->pending_fd);
    w->pending_fd = -1;
    free(w->pending);
    w->pending = NULL;
}

/* The transport reports, inside the engine; the Regroup thread publishes. */
void rg__worker_link_broken(void *arg, int rank, const char *why)
{
    rg__worker *w = arg;
    w->link.peer = rank;
    snprintf(w->link.why, sizeof w->link.why, "%s", why);
    w->is_link_broken = true;
    rg__page_ring(w->ctx->page);
}

/* Of several connections, the one that has waited longest counts. */
static void on_link_stuck(void *arg, int rank, uint64_t bytes,
                          uint64_t waited_ms)
{
    rg__worker *w = arg;
    if (w->stuck_rank >= 0 && waited_ms < w->stuck_ms)
        return;
    w->stuck_rank = rank;
    w->stuck_bytes = bytes;
    w->stuck_ms = waited_ms;
    rg__page_ring(w->ctx->page);
}

static void hint_stuck_link(rg__worker *w)
{
    rg__engine_lock(w->ctx->engine);
    const rg__broken m = {.head = {RG__STUCK, RG__WIRE_VERSION},
                          .generation = w->entered.generation,
                          .peer = w->stuck_rank,
                          .bytes = w->stuck_bytes,
                          .waited_ms = (uint32_t)w->stuck_ms};
    w->stuck_rank = -1;
    rg__engine_unlock(w->ctx->engine);
    if (m.peer >= 0 && m.generation != 0)
        rg__worker_send(w, &m, sizeof m);
}

/* In a launched world only this worker can end the generation. */
static void end_without_agent(rg__worker *w, const rg__broken *m)
{
    char why[2 * RG__TEXT_MAX];
    snprintf(why, sizeof why,
             "the connection with rank %d broke, and the world has ended: %s",
             m->peer, m->why);
    leave(w, RG_ERR_PEER_LOST, why);
}

static void publish_broken_link(rg__worker *w)
{
    rg__engine_lock(w->ctx->engine);
    const bool is_broken = w->is_link_broken;
    rg__broken m = w->link;
    w->is_link_broken = false;
    rg__engine_unlock(w->ctx->engine);
    const uint64_t generation = w->entered.generation;
    if (!is_broken || generation == 0)
        return;
    if (w->sock >= 0)
        rg__worker_broken(w, generation, m.peer, m.why);
    else
        end_without_agent(w, &m);
}

/* The first world that is proposed has all ranks of MPI_COMM_WORLD. */
static rg_status note_launch(rg__worker *w, const rg__membership *m)
{
    if (w->mend_ms == 0 || w->launched != NULL)
        return RG_OK;
    w->launched = calloc((size_t)m->size, sizeof *m->member);
    if (w->launched == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d ranks", m->size);
    memcpy(w->launched, m->member, sizeof *m->member * (size_t)m->size);
    w->launched_n = m->size;
    return RG_OK;
}

/* m.member is the caller's to free. */
static rg_status make_membership(rg__worker *w, const rg__prepare *p,
                                 rg__membership *m)
{
    const size_t bytes = sizeof(rg__member_id) * (size_t)p->size;
    *m = (rg__membership){.generation = p->generation,
                          .rank = p->rank,
                          .size = p->size,
                          .local_rank = p->local_rank,
                          .local_size = p->local_size,
                          .host_index = p->host_index,
                          .host_count = p->host_count,
                          .is_announced = p->announced != 0,
                          .member = malloc(bytes)};
    if (m->member == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a generation");
    memcpy(m->member, p->member, bytes);
    return note_launch(w, m);
}

static rg_status build(rg__worker *w, rg__prepare *p)
{
    rg_ctx *ctx = w->ctx;
    w->is_link_broken = false; /* of the generation before */
    w->stuck_rank = -1;
    const rg__boot boot = {.rank = p->rank,
                           .size = p->size,
                           .local_rank = p->local_rank,
                           .local_size = p->local_size,
                           .generation = p->generation,
                           .member = p->member,
                           .control_fd = w->pending_fd,
                           .control_bytes = p->control_bytes,
                           .mappings = rg__engine_mappings(ctx->engine),
                           .host_count = p->host_count,
                           .place = rg__prepare_places(p),
                           .address = rg__prepare_addresses(p),
                           .listener = w->listener,
                           .key = ctx->key,
                           .broken = rg__worker_link_broken,
                           .stuck = on_link_stuck,
                           .broken_arg = w};
    rg_status st = rg__sets_enter(ctx, &rg__transport_native, &boot);
    if (st != RG_OK)
        return st;
    rg__membership m;
    st = make_membership(w, p, &m);
    if (st != RG_OK) {
        free(m.member);
        rg__sets_leave(ctx, st, "no memory for a generation");
        return st;
    }
    pthread_mutex_lock(&w->lock);
    w->entered = m;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return RG_OK;
}

static void enter_if_due(rg__worker *w)
{
    if (w->pending == NULL || w->entered.generation != 0)
        return;
    const uint64_t generation = w->pending->generation;
    if (atomic_load(&w->ctx->page->abort) >= generation) {
        drop_pending(w);
        rg__worker_mark(w, RG__LEFT, generation);
        return;
    }
    rg__failpoint("build", w->pending->rank, 0, generation);
    const rg_status st = build(w, w->pending);
    drop_pending(w);
    if (st != RG_OK) {
        rg__worker_broken(w, generation, -1, rg_last_error());
        return;
    }
    atomic_store(&w->ctx->page->built_ns, rg__now_ns());
    rg__worker_mark(w, RG__BUILT, generation);
}

/* ---------------------------------------------------------------- messages */

/* The message, and the lists behind the control segment; NULL: none. */
static rg__prepare *read_prepare(const rg__prepare *m, int fd)
{
    if (m->size < 1 || m->size > RG__WORLD_MAX || m->host_count < 1 ||
        m->host_count > RG__WORLD_MAX || m->control_bytes > INT64_MAX / 2)
        return NULL;
    const size_t bytes =
        rg__prepare_bytes((uint32_t)m->size, (uint32_t)m->host_count);
    rg__prepare *whole = malloc(bytes);
    if (whole == NULL)
        return NULL;
    memcpy(whole, m, sizeof *m);
    const size_t lists = bytes - sizeof *m;
    if (pread(fd, whole->member, lists, (off_t)m->control_bytes) ==
        (ssize_t)lists)
        return whole;
    free(whole);
    return NULL;
}

static void on_prepare(rg__worker *w, const rg__prepare *m, int *fd)
{
    rg__prepare *whole = read_prepare(m, *fd);
    if (whole == NULL)
        return;
    drop_pending(w);
    w->pending = whole;
    w->asked = m->generation;
    w->pending_fd = *fd;
    *fd = -1;
    /* a generation that was built and never decided is simply dropped */
    pthread_mutex_lock(&w->lock);
    const bool is_undecided = w->entered.generation != 0 &&
                              (w->phase != RG__PHASE_DECIDED ||
                               w->decided.generation != w->entered.generation);
    pthread_mutex_unlock(&w->lock);
    if (is_undecided)
        leave(w, RG_ERR_PEER_LOST, "the generation was given up");
}

/* The user thread restores meanwhile. */
static void on_expected(rg__worker *w, const rg__decided *m)
{
    rg__failpoint("expected", w->entered.rank, m->resume.step, m->generation);
    pthread_mutex_lock(&w->lock);
    if (rg__worker_step(w, RG__ON_DECIDE))
        w->expected = *m;
    pthread_mutex_unlock(&w->lock);
}

static void on_decided(rg__worker *w, const rg__decided *m)
{
    if (m->generation != w->entered.generation)
        return;
    if (m->is_expected != 0) {
        on_expected(w, m);
        return;
    }
    rg__failpoint("decided", w->entered.rank, m->resume.step, m->generation);
    atomic_store(&w->ctx->page->generation, m->generation);
    pthread_mutex_lock(&w->lock);
    if (rg__worker_step(w, RG__ON_DECIDE) ||
        w->expected.generation == m->generation) {
        w->decided = *m;
        w->mending_ns = w->has_mended ? rg__now_ns() : w->mending_ns;
    }
    pthread_mutex_unlock(&w->lock);
}

static void on_done(rg__worker *w, const rg__mark *m)
{
    pthread_mutex_lock(&w->lock);
    w->done = m->generation;
    rg__worker_step(w, RG__ON_DONE);
    pthread_mutex_unlock(&w->lock);
}

static void on_buffer(rg__worker *w, const rg__buffer *m)
{
    pthread_mutex_lock(&w->lock);
    if (w->reply.awaited == RG__BUFFER && w->reply.ask == m->ask) {
        w->reply.is_here = true;
        w->reply.st = (rg_status)m->status;
        w->reply.place = m->place;
        snprintf(w->reply.text, sizeof w->reply.text, "%.*s", RG__TEXT_MAX - 1,
                 m->text);
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
}

/* --------------------------------------------- an agent lost, and the next */

/* Its supervisor starts another and says so, or is gone too. */
static void on_agent_gone(rg__worker *w)
{
    if (w->agent_lost_ns != 0)
        return;
    w->agent_lost_ns = rg__now_ns();
    rg__log(RG__WARN, "worker", "the agent is gone; going on for %u ms",
            w->grace_ms);
}

static void on_cut(rg__worker *w)
{
    on_agent_gone(w);
    w->is_cut = true;
    pthread_mutex_lock(&w->lock);
    w->reply.is_here = w->reply.awaited != 0;
    w->reply.st = RG_ERR_AGENT_LOST;
    snprintf(w->reply.text, sizeof w->reply.text,
             "the agent of this host is gone");
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* Messages that the former agent had read but not handled are lost: report this
 * worker's position to the new one, and ask again. */
static void on_again(rg__worker *w)
{
    rg__stand m = {.head = {RG__STAND, RG__WIRE_VERSION},
                   .port = w->port,
                   .waits = w->waits,
                   .registered = w->registered,
                   .asked = w->asked,
                   .pending = w->pending != NULL ? w->pending->generation : 0,
                   .built = w->entered.generation};
    pthread_mutex_lock(&w->lock);
    m.is_at_door = w->phase != RG__PHASE_OUT && w->phase != RG__PHASE_ENDED;
    m.decided = w->decided.generation;
    m.loaded = m.decided == 0 && w->expected.generation == 0 ? w->loaded : 0;
    m.fin = w->fin;
    const rg__broken broken = w->broken;
    if (w->phase != RG__PHASE_ENDED)
        w->agent_lost_ns = 0;
    pthread_mutex_unlock(&w->lock);
    rg__worker_send(w, &m, sizeof m);
    if (broken.generation != 0 && broken.generation == m.built)
        rg__worker_send(w, &broken, sizeof broken);
    pthread_mutex_lock(&w->lock);
    w->agents++;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    rg__log(RG__DEBUG, "worker", "another agent has taken over");
}

static void on_ended(rg__worker *w, const rg__text *m)
{
    char why[sizeof m->text + 1];
    snprintf(why, sizeof why, "%.*s", (int)sizeof m->text, m->text);
    end(w, m->head.type == RG__LEAVE ? RG_ERR_ASKED_TO_LEAVE : RG_ERR_JOB_ENDED,
        why);
}

static void handle(rg__worker *w, const void *bytes, size_t n, int *fd)
{
    const rg__wire_head *head = bytes;
    switch (rg__wire_read(bytes, n)) {
    case RG__PREPARE:
        on_prepare(w, bytes, fd);
        break;
    case RG__DECIDED:
        on_decided(w, bytes);
        break;
    case RG__BUFFER:
        on_buffer(w, bytes);
        break;
    case RG__SEGMENT:
        rg__segment_arrived(w, bytes, fd);
        break;
    case RG__UNSEGMENT:
        rg__segment_gone(w, bytes);
        break;
    case RG__DONE:
        on_done(w, bytes);
        break;
    case RG__ENDED:
    case RG__LEAVE:
        on_ended(w, bytes);
        break;
    case RG__SETS:
        rg__worker_send_sets(w, ((const rg__mark *)bytes)->generation);
        break;
    case RG__GONE:
        on_agent_gone(w);
        break;
    case RG__AGAIN:
        on_again(w);
        break;
    case RG__WELCOME: /* again: the agent can't know whether the first one
                         came */
        break;
    default:
        rg__log(RG__WARN, "worker",
                "a message of type %u and %zu bytes was ignored",
                n < sizeof *head ? 0 : head->type, n);
    }
}

static void read_socket(rg__worker *w, void *room)
{
    while (w->sock >= 0 && !w->is_cut) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st =
            rg__sock_recv(w->sock, room, RG__WIRE_MAX, &n, fds);
        if (st == RG_IN_PROGRESS)
            return;
        if (st == RG_ERR_AGENT_LOST)
            on_cut(w);
        else if (st == RG_OK)
            handle(w, room, n, &fds[0]);
        else
            rg__log(RG__ERROR, "worker", "a message of the agent is lost: %s",
                    rg_last_error());
        rg__sock_close_fds(fds);
    }
}

/* Without an agent nothing fences a worker, so it must not outlive the grace:
 * calls return ERR_AGENT_LOST, and a program that goes on is killed. */
static void mind_the_grace(rg__worker *w)
{
    if (w->agent_lost_ns == 0)
        return;
    const uint64_t gone = rg__now_ns() - w->agent_lost_ns;
    const uint64_t grace = w->grace_ms * RG__MS;
    if (gone < grace)
        return;
    end(w, RG_ERR_AGENT_LOST,
        "the agent of this host is gone for longer than --agent-grace; end "
        "this process");
    pthread_mutex_lock(&w->lock);
    const bool is_done = w->phase == RG__PHASE_DONE;
    pthread_mutex_unlock(&w->lock);
    if (!is_done && gone > grace + IGNORE_NS)
        kill(getpid(), SIGKILL);
}

/* The agent then ends this process, and all others of the launch. */
void rg__worker_ask_launch(rg__worker *w, const char *why)
{
    rg__text m = {.head = {RG__RELAUNCH, RG__WIRE_VERSION}};
    snprintf(m.text, sizeof m.text, "%s", why);
    rg__worker_send(w, &m, sizeof m);
}

/* The program may be waiting in MPI for a rank that has left, MPI for a dead
 * one, or all for a rank that computes. */
static void mind_the_mending(rg__worker *w)
{
    char why[RG__TEXT_MAX];
    pthread_mutex_lock(&w->lock); /* then mending_ns is not later than now */
    const uint64_t now = rg__now_ns();
    const bool is_late =
        w->mending_ns != 0 && now - w->mending_ns > w->mend_ms * RG__MS;
    if (is_late)
        w->mending_ns = 0;
    pthread_mutex_unlock(&w->lock);
    if (!is_late)
        return;
    snprintf(why, sizeof why,
             "it has not come to rg_state_resume, or MPI to a world, for %u ms",
             w->mend_ms);
    rg__worker_ask_launch(w, why);
}

/* -------------------------------------------------------------- the thread */

static void hold_life(rg__page *page)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&page->life, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_mutex_lock(&page->life);
    atomic_store(&page->tid, (int32_t)syscall(SYS_gettid));
    atomic_store(&page->magic, RG__PAGE_MAGIC);
    atomic_store(&page->ready, 1);
}

static bool must_stop(rg__worker *w)
{
    pthread_mutex_lock(&w->lock);
    const bool stop = w->wants_stop;
    pthread_mutex_unlock(&w->lock);
    return stop;
}

static uint64_t idle_ns(const rg__worker *w)
{
    return w->agent_lost_ns != 0 ? 20 * RG__MS : IDLE_NS;
}

/* The agent has shown that there is a first commit. */
static void tell_begun(rg__worker *w)
{
    if (!w->waits || atomic_load(&w->ctx->page->begun) == 0)
        return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* One round; true while operations are in flight. */
static bool turn(rg__worker *w, void *room)
{
    rg__page *page = w->ctx->page;
    read_socket(w, room);
    leave_if_due(w);
    enter_if_due(w);
    tell_begun(w);
    publish_broken_link(w);
    hint_stuck_link(w);
    mind_the_grace(w);
    mind_the_mending(w);
    atomic_store(&page->pong, atomic_load(&page->ping));
    return rg__engine_progress(w->ctx->engine);
}

static const char *const gone_why[] = {
    [RG__FINALIZED] = "rg_finalize was called",
    [RG__RUN_FAILED] = "rg_run has failed in this process; end it",
    [RG__THREAD_ENDED] = "fn was left without a return: its thread has ended, "
                         "or an exception has passed rg_run"};

static void *run_thread(void *arg)
{
    rg__worker *w = arg;
    rg__page *page = w->ctx->page;
    pthread_setname_np(pthread_self(), "regroup");
    void *room = malloc(RG__WIRE_MAX);
    rg__failpoint("ready", -1, 0, 0);
    hold_life(page);
    rg__worker_mark(w, RG__READY, 0);
    uint32_t round = 0;
    /* read before anything that a ring may report */
    uint32_t seen = atomic_load(&page->wake);
    while (room != NULL && !must_stop(w)) {
        round = turn(w, room) ? round + 1 : 0;
        rg__engine_sleep(w->ctx->engine, seen, round, idle_ns(w));
        seen = atomic_load(&page->wake);
    }
    leave_if_due(w); /* else FINALIZE is a loss to the agent */
    const rg__finalized why = w->gone != 0 ? w->gone : RG__FINALIZED;
    end(w, RG_ERR_INVALID, gone_why[why]);
    drop_pending(w);
    atomic_store(&page->finalized, why);
    rg__worker_mark(w, RG__FINALIZE, why); /* no more stores here */
    free(room);
    return NULL;
}

rg_status rg__worker_start_thread(rg__worker *w)
{
    const int err = rg__start_thread(&w->thread, run_thread, w);
    if (err != 0)
        return rg__fail(RG_ERR_SYSTEM, "the Regroup thread can't be made: %s",
                        strerror(err));
    w->has_thread = true;
    return RG_OK;
}

void rg__worker_stop_thread(rg__worker *w)
{
    if (!w->has_thread)
        return;
    pthread_mutex_lock(&w->lock);
    w->wants_stop = true;
    pthread_mutex_unlock(&w->lock);
    rg__page_ring(w->ctx->page);
    pthread_join(w->thread, NULL);
    w->has_thread = false;
}

/* Without an agent this thread would end the process, so it goes on. */
void rg__worker_fail(rg__worker *w, rg__finalized why)
{
    pthread_mutex_lock(&w->lock);
    const bool is_alone =
        w->phase == RG__PHASE_ENDED && w->end == RG_ERR_AGENT_LOST;
    if (w->sock >= 0 && !is_alone && w->phase != RG__PHASE_DONE)
        w->gone = why;
    pthread_mutex_unlock(&w->lock);
    if (w->gone != 0)
        rg__worker_stop_thread(w);
}
