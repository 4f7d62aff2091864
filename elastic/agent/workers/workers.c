/* Meeting workers and hearing them. A process that connects must have our uid.
 * A worker says which slot it was started in; the slot's newest process group
 * vouches for it by having no worker yet. What a worker says is checked; a
 * malformed message costs it the connection, and so its life. */
#include "elastic/agent/workers/workers.h"
#include "elastic/agent/workers/crew.h"
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"
#include "elastic/agent/vault/vaults.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"

#define BUILD_TRIES   3
#define REFUSALS_NS   (60000 * RG__MS)
#define REFUSALS_SAID 8 /* in that time */
#define MEND_MOST_MS  10000
#define SILENT_TICKS  4 /* pings unanswered within the detection budget */

/* -------------------------------------------------------------------- hear */

void rg__worker_note_crash(rg__slot *s)
{
    const uint32_t dying =
        s->w.page != NULL ? atomic_load(&s->w.page->dying) : 0;
    s->w.is_crashed = dying > 0 && dying < NSIG; /* else it is scribbled */
    s->w.crash_signal = s->w.is_crashed ? (int)dying : 0;
}

/* By whichever sign shows first. */
static void on_death(void *arg)
{
    rg__slot *s = arg;
    rg__worker_drain(s);
    if (rg__slot_is_alive(s))
        rg__worker_note_crash(s);
    if (s->w.is_crashed)
        rg__slot_lost(s, "crashed with signal %d", s->w.crash_signal);
    else
        rg__slot_lost(s, "died");
}

/* Two threads of a worker speak: it may come to the door first. */
static void on_ready(rg__slot *s)
{
    rg__worker *w = &s->w;
    if (!rg__slot_is_alive(s) || w->watcher != NULL ||
        !atomic_load(&w->page->ready))
        return;
    rg__slot_step(s, SLOT_ON_RUNS);
    if (rg__watch_create(s->a->loop, w->page, on_death, s, &w->watcher) !=
        RG_OK)
        rg__slot_lost(s, "can't be watched: %s", rg_last_error());
}

static void on_door(rg__slot *s, const rg__door *m)
{
    on_ready(s);
    rg__slot_step(s, SLOT_ON_COME);
    s->w.waits = m->waits != 0;
    s->w.port = m->port & 0xffff;
    s->w.loaded = m->loaded;
    rg__log(RG__DEBUG, "agent", "%s.%u is at the door", s->a->params->host,
            s->index);
    s->a->on->slot_at_door(s, m->registered);
}

/* It could not build the generation that it was asked for. Once is bad luck;
 * a worker that never can would be asked forever. */
static bool is_worn_out(rg__slot *s, uint64_t generation)
{
    rg__worker *w = &s->w;
    if (w->built == generation)
        return false;
    if (w->entered == generation)
        w->entered = 0;
    return ++w->build_failures >= BUILD_TRIES;
}

static void break_link(rg__slot *s, const rg__broken *m,
                       const rg__proposal_host *host, const char *text)
{
    rg__agent *a = s->a;
    rg__log(RG__WARN, "agent", "generation %llu is broken: %s",
            (unsigned long long)m->generation, text);
    a->detected_ns = rg__now_ns();
    a->on->slot_broken(s, m->generation, host, text);
}

/* Whatever datagrams say, a connection that gets nothing through for as long as
 * one between agents may be silent is broken. */
static void on_stuck(rg__slot *s, const rg__broken *m)
{
    rg__agent *a = s->a;
    char text[RG__CAUSE_MAX];
    const rg__proposal_host *host = rg__view_host_of(a, m->generation, m->peer);
    if (host == NULL || m->generation != s->w.entered ||
        a->aborted >= m->generation)
        return;
    a->on->slot_stuck(s, host->id, m->bytes);
    if (m->bytes == 0 ||
        m->waited_ms < rg__patience_ns(a->params) / RG__MS * RG__SILENT_BUDGETS)
        return;
    snprintf(text, sizeof text,
             "%.24s has acknowledged none of %llu bytes of %.24s.%u for %u ms",
             host->name, (unsigned long long)m->bytes, a->params->host,
             s->index, m->waited_ms);
    break_link(s, m, host, text);
}

static void on_broken(rg__slot *s, const rg__broken *m)
{
    rg__agent *a = s->a;
    char text[RG__CAUSE_MAX];
    if (m->generation == 0 ||
        (m->generation != s->w.entered && m->generation != s->w.asked))
        return;
    if (is_worn_out(s, m->generation)) {
        rg__slot_lost(s, "can't build its data plane: %.80s", m->why);
        return;
    }
    snprintf(text, sizeof text, "%.40s.%u: %.200s", a->params->host, s->index,
             m->why);
    break_link(s, m, rg__view_host_of(a, m->generation, m->peer), text);
}

static void on_relaunch(rg__slot *s, const rg__text *m)
{
    char why[RG__TEXT_MAX + 1];
    snprintf(why, sizeof why, "%.*s", RG__TEXT_MAX, m->text);
    s->a->on->slot_gave_up(s, why);
}

static void on_finalize(rg__slot *s, uint64_t why)
{
    s->w.is_finalized = true;
    s->w.entered = 0;
    if (rg__view_is_static(s->a))
        return;
    if (why == RG__RUN_FAILED)
        rg__slot_lost(s, "has failed in rg_run or rg_world_wait");
    else if (why == RG__THREAD_ENDED)
        rg__slot_lost(s, "left fn without returning: by an exception, or the "
                         "end of the thread that called rg_run");
    else
        rg__slot_lost(s, "called rg_finalize before the job was done");
}

static void on_left(rg__slot *s, uint64_t generation)
{
    if (s->w.entered == generation)
        s->w.entered = 0;
    s->a->on->slot_left(s);
}

static void on_built(rg__slot *s, uint64_t generation)
{
    s->w.built = s->w.entered = generation;
    s->w.build_failures = 0;
    s->a->on->slot_built(s->a);
}

static void on_fin(rg__slot *s, uint64_t generation)
{
    s->w.fin = generation;
    s->a->on->slot_fin(s->a);
}

/* Said behind all that an earlier agent did not read, and before anything that
 * we asked for: where the worker really is. */
static void on_stand(rg__slot *s, const rg__stand *m)
{
    rg__worker *w = &s->w;
    on_ready(s);
    if (m->is_at_door != 0)
        rg__slot_step(s, SLOT_ON_COME);
    w->waits = m->waits != 0;
    w->port = m->port & 0xffff;
    w->loaded = m->loaded;
    w->asked = m->asked;
    w->pending = m->pending;
    w->decided = m->decided;
    w->built = m->built;
    w->entered = m->built != 0 ? m->built : m->pending;
    w->fin = m->fin;
    w->has_stood = true;
    s->a->on->slot_stood(s, m->is_at_door != 0, m->registered);
}

/* false: another message. */
static bool handle_mark(rg__slot *s, rg__wire_type type, const rg__mark *m)
{
    switch (type) {
    case RG__READY:
        on_ready(s);
        return true;
    case RG__LEFT:
        on_left(s, m->generation);
        return true;
    case RG__BUILT:
        on_built(s, m->generation);
        return true;
    case RG__FIN:
        on_fin(s, m->generation);
        return true;
    case RG__COMMITTED:
        s->a->on->slot_committed(s);
        return true;
    case RG__FINALIZE:
        on_finalize(s, m->generation);
        return true;
    default:
        return false;
    }
}

/* false: malformed. */
static bool handle(rg__slot *s, const void *bytes, size_t n)
{
    const rg__wire_type type = rg__wire_read(bytes, n);
    if (handle_mark(s, type, bytes))
        return true;
    switch (type) {
    case RG__DOOR:
        on_door(s, bytes);
        break;
    case RG__STAND:
        on_stand(s, bytes);
        break;
    case RG__REGISTER:
        rg__vault_register(s, bytes);
        if (((const rg__register *)bytes)->is_local)
            rg__slot_save(s);
        break;
    case RG__SAVE:
        rg__checkpoint_ask(s, bytes);
        break;
    case RG__ALLOC:
        rg__vault_alloc(s, bytes);
        break;
    case RG__FREE:
        rg__vault_free(s, ((const rg__segment *)bytes)->id);
        break;
    case RG__STUCK:
        on_stuck(s, bytes);
        break;
    case RG__BROKEN:
        on_broken(s, bytes);
        break;
    case RG__RELAUNCH:
        on_relaunch(s, bytes);
        break;
    case RG__SETS_LIST:
        return rg__set_list_take(s, bytes, n);
    default:
        return false;
    }
    return true;
}

void rg__worker_drain(rg__slot *s)
{
    static _Alignas(16) char room[RG__WIRE_MAX]; /* one thread, not nested */
    while (s->w.sock >= 0) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st =
            rg__sock_recv(s->w.sock, room, sizeof room, &n, fds);
        rg__sock_close_fds(fds);
        if (st == RG_IN_PROGRESS)
            return;
        if (st != RG_OK)
            rg__loop_close(s->a->loop, &s->w.sock);
        else if (!handle(s, room, n))
            rg__slot_lost(s, "sent a malformed message");
    }
}

static void on_worker_socket(void *arg, int fd, uint32_t events)
{
    (void)fd, (void)events;
    rg__slot *s = arg;
    rg__worker_drain(s);
    if (s->w.sock < 0)
        on_death(s);
}

static void on_pidfd(void *arg, int fd, uint32_t events)
{
    (void)events;
    rg__slot *s = arg;
    rg__loop_unwatch(s->a->loop, fd);
    on_death(s);
    rg__slot_gone(s);
}

/* -------------------------------------------------------------------- meet */

/* A process that connects again and again does not fill the log. */
static bool may_say_refusal(rg__agent *a)
{
    const uint64_t now = rg__now_ns();
    if (a->crew->refusals_ns == 0 || now - a->crew->refusals_ns > REFUSALS_NS) {
        if (a->crew->refusals > REFUSALS_SAID)
            rg__log(RG__WARN, "agent", "%u more refusals were not logged",
                    a->crew->refusals - REFUSALS_SAID);
        a->crew->refusals_ns = now;
        a->crew->refusals = 0;
    }
    return ++a->crew->refusals <= REFUSALS_SAID;
}

void rg__worker_refuse(rg__agent *a, int sock, const char *why)
{
    rg__text m = {.head = {RG__REFUSED, RG__WIRE_VERSION}};
    snprintf(m.text, sizeof m.text, "%s", why);
    if (may_say_refusal(a))
        rg__log(RG__WARN, "agent", "a worker is refused: %s", why);
    rg__sock_send(sock, &m, sizeof m, NULL, 0);
    close(sock);
}

static rg__slot *find_slot(rg__agent *a, const rg__hello *m,
                           char why[RG__TEXT_MAX])
{
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        if (m->slot >= 0 && (uint32_t)m->slot != s->index)
            continue;
        if (s->saved.state == SLOT_STARTING && !rg__life_is_ending(a) &&
            !a->is_done)
            return s;
        if (m->slot >= 0)
            break;
    }
    if (m->slot < 0 || m->slot >= a->params->slots)
        snprintf(why, RG__TEXT_MAX,
                 "host %s has no free slot for process %d; it has %d slot%s",
                 a->params->host, m->pid, a->params->slots,
                 rg__plural(a->params->slots));
    else if (a->slot[m->slot].w.pid == 0)
        snprintf(why, RG__TEXT_MAX,
                 "slot %d of host %s expects no worker: its process has ended, "
                 "or is being ended; a process joins a job only where "
                 "`regroup` starts it",
                 m->slot, a->params->host);
    else
        snprintf(why, RG__TEXT_MAX,
                 "slot %d of host %s has a worker already, process %d; let one "
                 "process of the program call rg_init",
                 m->slot, a->params->host, a->slot[m->slot].w.pid);
    return NULL;
}

static rg__slot *judge_hello(rg__agent *a, const rg__hello *m,
                             char why[RG__TEXT_MAX])
{
    char version[sizeof m->version + 1];
    snprintf(version, sizeof version, "%.*s", (int)sizeof m->version,
             m->version);
    if (strcmp(version, RG_VERSION) != 0) {
        snprintf(why, RG__TEXT_MAX,
                 "process %d uses Regroup %s, but the agent is %s; install one "
                 "version",
                 m->pid, version, RG_VERSION);
        return NULL;
    }
    if (a->elastic >= 0 && a->elastic != (m->elastic != 0)) {
        snprintf(why, RG__TEXT_MAX,
                 "process %d is %s, but the job's other workers are %s; set "
                 "rg_params.elastic alike in all",
                 m->pid, m->elastic ? "elastic" : "static",
                 a->elastic ? "elastic" : "static");
        return NULL;
    }
    return find_slot(a, m, why);
}

static rg_status make_page(rg__worker *w)
{
    const rg_status st = rg__area_create(&w->page_fd);
    return st == RG_OK ? rg__area_map(w->page_fd, &w->page, &w->record) : st;
}

/* Another launch is quicker than most waits. */
static uint32_t mend_ms(const rg__agent_params *params)
{
    const uint64_t ms = params->user.launch_timeout_ms;
    return !params->is_ulfm    ? 0
           : ms < MEND_MOST_MS ? (uint32_t)ms
                               : MEND_MOST_MS;
}

static rg_status welcome(rg__slot *s)
{
    rg__agent *a = s->a;
    rg__welcome m = {.head = {RG__WELCOME, RG__WIRE_VERSION},
                     .me = {a->id, s->index, s->saved.start},
                     .slots = (uint32_t)a->params->slots,
                     .grace_ms = (uint32_t)a->params->user.grace_ms};
    snprintf(m.job, sizeof m.job, "%s", a->params->job);
    snprintf(m.host, sizeof m.host, "%s", a->params->host);
    snprintf(m.job_id, sizeof m.job_id, "%s", a->meta.uuid);
    if (a->params->history_dir != NULL)
        snprintf(m.history, sizeof m.history, "%s", a->params->history_dir);
    if (a->params->checkpoint_dir != NULL)
        snprintf(m.checkpoint, sizeof m.checkpoint, "%s",
                 a->params->checkpoint_dir);
    m.every_steps = a->params->checkpoint_steps;
    m.every_ms = a->params->checkpoint_ms;
    m.saves_last = a->params->checkpoint_on_stop;
    m.mend_ms = mend_ms(a->params);
    m.address = a->address;
    memcpy(m.key, a->key, sizeof m.key);
    const int fds[2] = {s->w.page_fd, a->store->fd};
    return rg__sock_send(s->w.sock, &m, sizeof m, fds, 2);
}

static rg_status watch_worker(rg__slot *s)
{
    rg__worker *w = &s->w;
    const rg_status st =
        rg__loop_watch(s->a->loop, w->sock, EPOLLIN, on_worker_socket, s);
    return st == RG_OK
               ? rg__loop_watch(s->a->loop, w->pidfd, EPOLLIN, on_pidfd, s)
               : st;
}

static rg__fdrecord_name name_of(const rg__slot *s)
{
    return rg__fdrecord_name_as("worker/%u", s->index);
}

/* The socket comes first: the supervisor speaks to workers over it. */
static void save_worker(const rg__slot *s)
{
    const int fds[] = {s->w.sock, s->w.page_fd, s->w.pidfd};
    rg__fdstore_put(s->a->fdstore, name_of(s).text, &s->w.pid, sizeof s->w.pid,
                    fds, 3);
}

void rg__worker_drop(const rg__slot *s)
{
    rg__fdstore_drop(s->a->fdstore, name_of(s).text);
}

static rg_status receive_worker(rg__slot *s)
{
    rg__worker *w = &s->w;
    rg_status st = RG_OK;
    w->pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
    if (w->pidfd < 0)
        return rg__fail(RG_ERR_SYSTEM, "process %d can't be watched: %s",
                        w->pid, strerror(errno));
    st = make_page(w);
    if (st != RG_OK)
        return st;
    save_worker(s); /* before it knows us: the next agent knows it then */
    st = welcome(s);
    return st == RG_OK ? watch_worker(s) : st;
}

static void meet(rg__agent *a, rg__slot *s, const rg__hello *m, int sock,
                 pid_t pid)
{
    s->w = (rg__worker){.pid = pid,
                        .sock = sock,
                        .page_fd = -1,
                        .pidfd = -1,
                        .has_stood = true}; /* it knows of no earlier agent */
    rg__slot_step(s, SLOT_ON_MEET);
    rg__slot_note_group(s, pid);
    rg__vault_unregister(s);
    rg__slot_save(s);
    a->elastic = m->elastic != 0;
    a->on->noted(a);
    if (receive_worker(s) != RG_OK) {
        rg__slot_lost(s, "can't be met: %s", rg_last_error());
        return;
    }
    a->on->slot_met(s);
}

/* ------------------------------------------- a worker of an earlier agent */

/* What it says before it stands, and what the kernel says of its life, comes by
 * the ways of a worker that has just met us. */
static void greet_again(rg__slot *s)
{
    rg__worker *w = &s->w;
    if (!atomic_load(&w->page->ready))
        welcome(s); /* perhaps the first did not go out */
    on_ready(s);
    rg__worker_tell_mark(s, RG__AGAIN, 0);
    rg__vault_show_segments(s);
    const uint32_t why = atomic_load(&w->page->finalized);
    if (why != 0)
        on_finalize(s, why);
}

void rg__worker_resume(rg__slot *s)
{
    char death[sizeof s->saved.death];
    rg__worker *w = &s->w;
    pid_t pid;
    rg__fdrecord *record =
        rg__fdstore_read(s->a->fdstore, name_of(s).text, &pid, sizeof pid);
    if (record == NULL)
        return;
    if (s->has_rested) { /* what followed from its end is done */
        rg__worker_drop(s);
        return;
    }
    w->pid = pid;
    w->sock = rg__fdrecord_take(record, 0);
    w->page_fd = rg__fdrecord_take(record, 1);
    w->pidfd = rg__fdrecord_take(record, 2);
    memcpy(death, s->saved.death, sizeof death);
    rg__slot_step(s, SLOT_ON_MEET);
    if (rg__area_map(w->page_fd, &w->page, &w->record) != RG_OK ||
        watch_worker(s) != RG_OK) {
        rg__slot_lost(s, "can't be taken over: %s", rg_last_error());
        return;
    }
    greet_again(s);
    if (death[0] != '\0')
        rg__slot_lost(s, "%s", death);
}

/* ------------------------------------------------------------ the listener */

void rg__worker_hello(rg__agent *a, int sock, const void *bytes, size_t n,
                      pid_t pid)
{
    const rg__hello *m = bytes;
    char why[RG__TEXT_MAX] = "";
    if (pid <= 0) {
        rg__worker_refuse(a, sock,
                          "this worker is in a process namespace that the "
                          "agent can't see; start the agent in the same one");
        return;
    }
    if (n != sizeof *m || m->head.version != RG__WIRE_VERSION) {
        rg__worker_refuse(a, sock,
                          "this worker speaks another version of Regroup than "
                          "the agent, " RG_VERSION "; install one version");
        return;
    }
    rg__slot *s = judge_hello(a, m, why);
    if (s == NULL)
        rg__worker_refuse(a, sock, why);
    else
        meet(a, s, m, sock, pid);
}

rg_status rg__workers_listen(rg__agent *a)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int n =
        snprintf(a->crew->socket_path, sizeof a->crew->socket_path,
                 "%s/agent-%s.sock", a->params->run_dir, a->params->host);
    if (n < 0 || (size_t)n >= sizeof at.sun_path)
        return rg__fail(RG_ERR_INVALID,
                        "the socket's path %s/agent-%s.sock is longer than %zu "
                        "bytes; set REGROUP_RUN_DIR to a shorter one",
                        a->params->run_dir, a->params->host,
                        sizeof at.sun_path - 1);
    memcpy(at.sun_path, a->crew->socket_path, (size_t)n + 1);
    rg__fdrecord *record = rg__fdstore_find(a->fdstore, "listener");
    if (record != NULL) {
        a->sockets.listener = rg__fdrecord_take(record, 0);
        listen(a->sockets.listener, RG__HOST_SLOTS_MAX); /* it is ours now */
        return rg__loop_watch(a->loop, a->sockets.listener, EPOLLIN,
                              rg__guest_accept, a);
    }
    unlink(a->crew->socket_path);
    a->sockets.listener =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->sockets.listener < 0 ||
        bind(a->sockets.listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(a->sockets.listener, RG__HOST_SLOTS_MAX) != 0)
        return rg__fail(RG_ERR_SYSTEM, "the agent can't listen at %s: %s",
                        a->crew->socket_path, strerror(errno));
    rg__fdstore_put(a->fdstore, "listener", NULL, 0, &a->sockets.listener, 1);
    return rg__loop_watch(a->loop, a->sockets.listener, EPOLLIN,
                          rg__guest_accept, a);
}

void rg__workers_close(rg__agent *a)
{
    if (a->crew != NULL)
        rg__guests_drop(a);
    /* the name goes with the run directory */
    rg__loop_close(a->loop, &a->sockets.listener);
}

/* ---------------------------------------------------------- end of a worker */

void rg__worker_forget_record(rg__slot *s)
{
    rg__area_unmap(s->fallen.page);
    s->fallen.page = NULL;
    s->fallen.record = NULL;
}

/* What it did last is of use after its death. */
static void keep_record(rg__slot *s)
{
    if (s->w.page == NULL)
        return;
    rg__worker_forget_record(s);
    s->fallen.page = s->w.page;
    s->fallen.record = s->w.record;
    s->fallen.pid = s->w.pid;
}

void rg__worker_forget(rg__slot *s)
{
    rg__worker *w = &s->w;
    rg__watch_destroy(w->watcher);
    rg__set_list_drop(w);
    rg__worker_untell(w);
    rg__loop_close(s->a->loop, &w->sock);
    rg__loop_close(s->a->loop, &w->pidfd);
    keep_record(s);
    if (w->page_fd >= 0)
        close(w->page_fd);
    *w = (rg__worker){.sock = -1, .pidfd = -1, .page_fd = -1};
}

/* -------------------------------------------------------------------- ping */

static void ping(rg__slot *s)
{
    rg__worker *w = &s->w;
    const uint32_t pinged = atomic_load(&w->page->ping);
    if (atomic_load(&w->page->pong) == pinged) {
        w->silent_ticks = 0;
        atomic_store(&w->page->ping, pinged + 1);
    } else if (rg__now_ns() < w->examined_ns) {
        w->silent_ticks = 0;
    } else if (++w->silent_ticks >= SILENT_TICKS) {
        rg__slot_lost(
            s, RG__SILENT_TEXT " %llu ms: stopped or stuck",
            (unsigned long long)(rg__patience_ns(s->a->params) / RG__MS));
        if (!w->is_finalized) /* also when its end is no loss any more */
            rg__slot_kill(s);
        return;
    }
    rg__worker_ring(s);
}

void rg__workers_ping(void *agent_arg)
{
    rg__agent *a = agent_arg;
    for (int i = 0; i < a->params->slots; i++)
        if (!a->is_paused && rg__slot_is_ready(&a->slot[i]))
            ping(&a->slot[i]);
    a->on->workers_pinged(a);
    rg__timer_set(a->crew->ping, rg__patience_ns(a->params) / SILENT_TICKS);
}
