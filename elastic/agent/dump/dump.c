/* A dump of the whole job: this host's part, and those of the other hosts of
 * the world, from their agents. A host that does not answer within ALL_NS is
 * named; the rest is shown. Parts stay texts until a process of its own reads,
 * compares and prints them: a job may have thousands of sets, and the agent
 * beats no host meanwhile. What a deadline or a stall has ended is written to
 * a file by the agent that noticed it, FILES_MAX times at most. */
#include "elastic/agent/dump/dump_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "elastic/agent/base/answer.h"
#include "elastic/agent/base/file_writer.h"
#include "elastic/agent/base/reap.h"
#include "elastic/agent/base/view.h"
#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define ALL_NS    (10000 * RG__MS)
#define DUMPS_MAX 4 /* at once */
#define FILES_MAX 8

typedef struct rg__dump {
    struct rg__dump *next;
    rg__agent *a;
    int sock; /* of the command; -1: it goes to a file */
    bool wants_json, wants_stacks;
    uint64_t generation; /* 0: of the current one */
    json_t *document;    /* owned; its hosts come in, as texts */
    rg__host_part *mine;
    rg__gather *others;
    rg__timer *patience;
    pid_t printer; /* 0: not yet */
    int printed;   /* hangs up when it has ended */
} rg__dump;

static json_t *hosts_of(const rg__dump *d)
{
    return json_object_get(d->document, "hosts");
}

/* ------------------------------------------------------------------ the end */

static void drop(rg__dump *d)
{
    rg__chain_remove(&d->a->dumping.first, d);
    rg__gather_end(d->others);
    rg__host_part_drop(d->mine);
    rg__timer_destroy(d->patience);
    json_decref(d->document);
    rg__loop_close(d->a->loop, &d->printed);
    if (d->printer > 0) {
        kill(d->printer, SIGKILL);
        rg__reap(d->printer);
    }
    if (d->sock >= 0)
        close(d->sock);
    free(d);
}

/* The directory of the workers' output, or that of the run directories. */
static int name_file(const rg__dump *d, char **path_p)
{
    const rg__agent_params *p = d->a->params;
    const char *slash = strrchr(p->run_dir, '/');
    if (p->output_dir != NULL)
        return asprintf(path_p, "%s/dump-%s-g%llu.txt", p->output_dir, p->host,
                        (unsigned long long)d->generation);
    return asprintf(path_p, "%.*s/dump-%s-%s-g%llu.txt",
                    slash != NULL ? (int)(slash - p->run_dir) : 0, p->run_dir,
                    p->job, p->host, (unsigned long long)d->generation);
}

/* Whoever finds it finds all of it. */
static bool put_file(const char *path, const char *text)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "we");
    const bool is_written = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && is_written &&
           rename(part, path) == 0;
}

static void save(const rg__dump *d, const char *text)
{
    char *path = NULL;
    if (name_file(d, &path) < 0)
        return;
    if (put_file(path, text))
        rg__log(RG__WARN, "agent",
                "what the workers did in generation %llu is in %s",
                (unsigned long long)d->generation, path);
    else
        rg__log(RG__WARN, "agent", "the dump %s can't be written: %s", path,
                strerror(errno));
    free(path);
}

/* What was cut off may end inside of a character. */
static json_t *read_hosts(const json_t *texts)
{
    size_t i;
    json_t *one, *hosts = json_array();
    json_array_foreach(texts, i, one)
    {
        json_t *host = json_is_string(one)
                           ? rg__host_part_read(json_string_value(one),
                                                json_string_length(one))
                           : json_incref(one);
        json_array_append_new(hosts,
                              json_is_object(host)
                                  ? host
                                  : json_pack("{s:s,s:s}", "host", "?", "error",
                                              "its answer is malformed"));
    }
    return hosts;
}

static void print(const rg__dump *d)
{
    json_object_set_new(d->document, "hosts", read_hosts(hosts_of(d)));
    rg__dump_compare(d->document);
    char *text = d->wants_json ? json_dumps(d->document, JSON_INDENT(1))
                               : rg__dump_text(d->document);
    if (d->sock < 0 && text != NULL)
        save(d, text);
    else if (d->sock >= 0)
        rg__answer(d->sock, text);
}

static void end(rg__dump *d)
{
    rg__agent *a = d->a;
    drop(d);
    a->on->settled(a);
}

static void on_printed(void *dump_arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    end(dump_arg);
}

static bool begin_printing(rg__dump *d)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    d->printed = ends[0];
    d->printer = fork();
    if (d->printer == 0) {
        rg__writer_close_others(ends[1], &d->sock, 1);
        print(d);
        _exit(0);
    }
    close(ends[1]);
    return d->printer > 0 && rg__loop_watch(d->a->loop, d->printed, EPOLLIN,
                                            on_printed, d) == RG_OK;
}

/* All is there, or its time is up; and so for what prints it. */
static void finish(void *dump_arg)
{
    rg__dump *d = dump_arg;
    rg__gather_end(d->others);
    d->others = NULL;
    rg__timer_set(d->patience, ALL_NS);
    if (d->printer != 0 || !begin_printing(d))
        end(d);
}

static void look(void *dump_arg)
{
    rg__dump *d = dump_arg;
    if (d->mine == NULL && (d->others == NULL || rg__gather_is_over(d->others)))
        rg__timer_set(d->patience, 0); /* not within the call that reports it */
}

static void add_no_part(rg__dump *d)
{
    json_array_append_new(hosts_of(d),
                          json_pack("{s:s,s:s}", "host", d->a->params->host,
                                    "error", "no memory to look at hosts"));
}

static void on_mine(void *arg, char *text, size_t n)
{
    rg__dump *d = arg;
    json_t *part = n > 0 ? json_stringn_nocheck(text, n) : NULL;
    d->mine = NULL;
    if (part != NULL)
        json_array_append_new(hosts_of(d), part);
    else
        add_no_part(d);
    free(text);
    look(d);
}

static const rg__proposal *world_of(const rg__dump *d)
{
    const rg__proposal *p = d->generation != 0
                                ? rg__snapshot_gen(&d->a->view, d->generation)
                                : NULL;
    return p != NULL ? p : rg__view_decided(d->a);
}

/* -------------------------------------------------------------------- begin */

static rg__dump *begin(rg__agent *a, int sock, uint64_t generation,
                       const char *why)
{
    rg__dump *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    *d = (rg__dump){.a = a,
                    .sock = sock,
                    .generation = generation,
                    .wants_stacks = true,
                    .printed = -1,
                    .document = json_pack("{s:s,s:I,s:[]}", "job",
                                          a->params->job, "generation",
                                          (json_int_t)generation, "hosts"),
                    .patience = NULL};
    d->patience = rg__timer_create(a->loop, finish, d);
    d->next = a->dumping.first;
    a->dumping.first = d;
    if (d->document == NULL || d->patience == NULL) {
        drop(d);
        return NULL;
    }
    if (why != NULL)
        json_object_set_new(d->document, "why", json_string(why));
    return d;
}

static void gather(rg__dump *d)
{
    const rg__proposal *p = world_of(d);
    rg__agent *a = d->a;
    if (p != NULL && d->generation == 0)
        json_object_set_new(d->document, "generation",
                            json_integer((json_int_t)p->generation));
    rg__timer_set(d->patience, ALL_NS);
    const rg__dump_request request = {.generation = d->generation,
                                      .wants_stacks = d->wants_stacks};
    const rg__gather_question question = {RG__PEER_DUMP, &request,
                                          sizeof request, true};
    d->others = rg__gather_begin(a, p, &question, hosts_of(d), look, d);
    d->mine = rg__host_part_begin(a, &request, on_mine, d);
    if (d->mine == NULL || d->others == NULL)
        add_no_part(d);
    look(d);
}

static int count(const rg__agent *a)
{
    int n = 0;
    for (const rg__dump *d = a->dumping.first; d != NULL; d = d->next)
        n++;
    return n;
}

void rg__dump_ask(rg__agent *a, int sock, bool wants_json, bool wants_stacks)
{
    rg__dump *d = count(a) < DUMPS_MAX ? begin(a, sock, 0, NULL) : NULL;
    if (d == NULL) {
        char text[160];
        snprintf(text, sizeof text,
                 "{\"error\":\"the agent is making as many dumps as it can; "
                 "try again in a moment\",\"status\":%d}",
                 (int)RG_ERR_SYSTEM);
        rg__answer(sock, text);
        return;
    }
    d->wants_json = wants_json;
    d->wants_stacks = wants_stacks;
    gather(d);
}

void rg__dump_write(rg__agent *a, uint64_t generation, const char *why)
{
    if (generation <= a->dumping.newest || a->dumping.files == FILES_MAX ||
        count(a) >= DUMPS_MAX)
        return;
    rg__dump *d = begin(a, -1, generation, why);
    if (d == NULL)
        return;
    a->dumping.newest = generation;
    a->dumping.files++;
    gather(d);
}

bool rg__dump_is_busy(const rg__agent *a)
{
    for (const rg__dump *d = a->dumping.first; d != NULL; d = d->next)
        if (d->sock < 0)
            return true;
    return false;
}

void rg__dumps_drop(rg__agent *a)
{
    while (a->dumping.first != NULL)
        drop(a->dumping.first);
}
