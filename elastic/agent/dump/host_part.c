/* This host's part of a dump, as a text that a process of its own writes: a
 * line with the records at once, and one with the stacks, for which it has
 * STACKS_NS. The agent only takes the text. */
#include "elastic/agent/dump/dump_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/view.h"
#include "sdk/base/clock.h"

#define STACKS_NS   (8000 * RG__MS)
#define EXAMINED_NS (1000 * RG__MS) /* and then it has answered a ping */
#define OUTPUT_MAX  ((size_t)32 << 20)

struct rg__host_part {
    rg__agent *a;
    bool has_stopped; /* workers may be stopped for their stacks */
    pid_t pid;        /* of the process that looks; 0: none */
    int out;          /* what it writes; -1: none */
    char *text;
    size_t n, room;
    rg__timer *patience;
    rg__host_part_fn done;
    void *arg;
};

static void allow_pings(rg__agent *a, uint64_t until_ns)
{
    for (int i = 0; i < a->params->slots; i++)
        a->slot[i].w.examined_ns = until_ns;
}

static void let_go(rg__agent *a)
{
    if (--a->dumping.holders > 0)
        return;
    allow_pings(a, rg__now_ns() + EXAMINED_NS);
    a->on->workers_let_go(a);
}

void rg__host_part_drop(rg__host_part *p)
{
    if (p == NULL)
        return;
    rg__loop_close(p->a->loop, &p->out);
    if (p->pid > 0) {
        kill(-p->pid, SIGKILL); /* and its tools; they let the workers go */
        rg__reap(p->pid);
    }
    if (p->has_stopped)
        let_go(p->a);
    rg__timer_destroy(p->patience);
    free(p->text);
    free(p);
}

static void add_stacks(json_t *document, const json_t *stacks)
{
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(document, "workers"), i, worker)
    {
        char pid[24];
        const json_t *number = json_object_get(worker, "pid");
        snprintf(pid, sizeof pid, "%lld",
                 (long long)json_integer_value(number));
        json_t *one = json_object_get(stacks, pid);
        if (one != NULL && json_is_true(json_object_get(worker, "alive")))
            json_object_set(worker, "stacks", one);
    }
}

json_t *rg__host_part_read(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);
    const size_t first = end != NULL ? (size_t)(end - text) : n;
    json_t *document = json_loadb(text, first, 0, NULL);
    json_t *stacks =
        first + 1 < n ? json_loadb(end + 1, n - first - 1, 0, NULL) : NULL;
    add_stacks(document, stacks);
    json_decref(stacks);
    return document;
}

static void finish(void *part_arg)
{
    rg__host_part *p = part_arg;
    char *text = p->text;
    const size_t n = p->n;
    const rg__host_part_fn done = p->done;
    void *arg = p->arg;
    p->text = NULL;
    rg__host_part_drop(p);
    done(arg, text, n);
}

static bool make_room(rg__host_part *p)
{
    if (p->n < p->room)
        return true;
    const size_t room = p->room * 2 + 65536;
    char *more = room <= OUTPUT_MAX ? realloc(p->text, room) : NULL;
    if (more == NULL)
        return false;
    p->text = more;
    p->room = room;
    return true;
}

static void on_output(void *arg, int fd, uint32_t events)
{
    (void)events;
    rg__host_part *p = arg;
    const ssize_t got =
        make_room(p) ? read(fd, p->text + p->n, p->room - p->n) : 0;
    if (got > 0)
        p->n += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        finish(p);
}

static int list_pids(const rg__agent *a, pid_t pids[RG__HOST_SLOTS_MAX])
{
    int n = 0;
    for (int i = 0; i < a->params->slots && n < RG__HOST_SLOTS_MAX; i++)
        if (a->slot[i].w.pid > 0 && rg__slot_is_alive(&a->slot[i]))
            pids[n++] = a->slot[i].w.pid;
    return n;
}

/* Workers that may be in a later generation by now tell nothing about it. */
static bool may_look(const rg__agent *a, uint64_t generation)
{
    return generation == 0 || a->acking <= generation;
}

static bool put(int out, const char *text, size_t n)
{
    ssize_t wrote = 0;
    for (; n > 0 && (wrote = write(out, text, n)) > 0; n -= (size_t)wrote)
        text += wrote;
    return n == 0;
}

/* A text as a whole: jansson alone would write it a word at a time. */
_Noreturn static void work(const rg__agent *a, const rg__dump_copies *copies,
                           const pid_t *pids, int n, int out)
{
    json_t *records = rg__dump_records(a, copies);
    const char *text =
        records != NULL ? json_dumps(records, JSON_COMPACT) : NULL;
    if (text == NULL || !put(out, text, strlen(text)) || !put(out, "\n", 1))
        _exit(1);
    if (n > 0)
        rg__dump_stacks(pids, n, out);
    _exit(0);
}

static void stop_pings(rg__host_part *p)
{
    p->has_stopped = true;
    p->a->dumping.holders++;
    allow_pings(p->a, rg__now_ns() + STACKS_NS + EXAMINED_NS);
}

static bool begin(rg__host_part *p, const rg__dump_request *request)
{
    pid_t pids[RG__HOST_SLOTS_MAX];
    int ends[2], n = 0;
    if (request->wants_stacks != 0 && may_look(p->a, request->generation))
        n = list_pids(p->a, pids);
    rg__dump_copies *copies = rg__dump_copy_records(p->a, request->generation);
    if (copies == NULL || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        rg__dump_free_copies(copies);
        return false;
    }
    p->pid = fork();
    if (p->pid == 0) {
        setpgid(0, 0);
        fcntl(ends[1], F_SETFL, 0);
        work(p->a, copies, pids, n, ends[1]);
    }
    rg__dump_free_copies(copies);
    close(ends[1]);
    p->out = ends[0];
    if (p->pid < 0) {
        p->pid = 0;
        return false;
    }
    setpgid(p->pid, p->pid); /* whichever of the two comes first */
    if (n > 0)
        stop_pings(p);
    rg__timer_set(p->patience, STACKS_NS);
    return rg__loop_watch(p->a->loop, p->out, EPOLLIN, on_output, p) == RG_OK;
}

/* Few numbers, which a command asks for again and again. */
static void take_times(rg__host_part *p)
{
    json_t *times = rg__dump_times(p->a);
    p->text = times != NULL ? json_dumps(times, JSON_COMPACT) : NULL;
    p->n = p->text != NULL ? strlen(p->text) : 0;
    json_decref(times);
    rg__timer_set(p->patience, 0);
}

rg__host_part *rg__host_part_begin(rg__agent *a,
                                   const rg__dump_request *request,
                                   rg__host_part_fn done, void *arg)
{
    rg__host_part *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    *p = (rg__host_part){.a = a, .out = -1, .done = done, .arg = arg};
    p->patience = rg__timer_create(a->loop, finish, p);
    if (p->patience == NULL) {
        rg__host_part_drop(p);
        return NULL;
    }
    if (request->only_times != 0)
        take_times(p);
    else if (!begin(p, request))
        rg__timer_set(p->patience, 0);
    return p;
}
