/* This host's part of a dump: the records at once, and then the stacks, from a
 * process of its own that has STACKS_NS for them. */
#include "elastic/agent/dump/dump_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
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
    json_t *document; /* owned */
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
        let_go(p->a);
    }
    rg__timer_destroy(p->patience);
    json_decref(p->document);
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

static void finish(void *part_arg)
{
    rg__host_part *p = part_arg;
    json_t *document = p->document, *stacks = NULL;
    if (p->n > 0)
        stacks = json_loadb(p->text, p->n, 0, NULL);
    add_stacks(document, stacks);
    json_decref(stacks);
    p->document = NULL;
    const rg__host_part_fn done = p->done;
    void *arg = p->arg;
    rg__host_part_drop(p);
    done(arg, document);
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

static bool begin_stacks(rg__host_part *p)
{
    pid_t pids[RG__HOST_SLOTS_MAX];
    int ends[2];
    const int n = list_pids(p->a, pids);
    if (n == 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    p->pid = fork();
    if (p->pid == 0) {
        setpgid(0, 0);
        fcntl(ends[1], F_SETFL, 0);
        rg__dump_stacks(pids, n, ends[1]);
    }
    close(ends[1]);
    p->out = ends[0];
    if (p->pid < 0) {
        p->pid = 0;
        return false;
    }
    setpgid(p->pid, p->pid); /* whichever of the two comes first */
    p->a->dumping.holders++;
    allow_pings(p->a, rg__now_ns() + STACKS_NS + EXAMINED_NS);
    rg__timer_set(p->patience, STACKS_NS);
    return rg__loop_watch(p->a->loop, p->out, EPOLLIN, on_output, p) == RG_OK;
}

/* Workers that may be in a later generation by now tell nothing about it. */
static bool may_look(const rg__agent *a, uint64_t generation)
{
    return generation == 0 || a->acking <= generation;
}

rg__host_part *rg__host_part_begin(rg__agent *a,
                                   const rg__dump_request *request,
                                   rg__host_part_fn done, void *arg)
{
    rg__host_part *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    *p = (rg__host_part){.a = a, .out = -1, .done = done, .arg = arg};
    p->document = rg__dump_records(a, request);
    p->patience = rg__timer_create(a->loop, finish, p);
    if (p->document == NULL || p->patience == NULL) {
        rg__host_part_drop(p);
        return NULL;
    }
    if (request->wants_stacks == 0 || !may_look(a, request->generation) ||
        !begin_stacks(p))
        rg__timer_set(p->patience, 0);
    return p;
}
