/* A dump of the whole job: this host's part, and those of the other hosts of
 * the world, from their agents. A host that does not answer within ALL_NS is
 * named; the rest is shown. What a deadline or a stall has ended is written to
 * a file by the agent that noticed it, FILES_MAX times at most. */
#include "elastic/agent/dump/dump_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/agent/base/answer.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/hosts/peers.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define ALL_NS    (10000 * RG__MS)
#define TEXT_MAX  ((size_t)48 << 20) /* of one host */
#define DUMPS_MAX 4                  /* at once */
#define FILES_MAX 8

typedef struct host_call {
    struct host_call *next;
    struct rg__dump *d;
    char host[RG__NAME_MAX];
    rg__connection *c; /* NULL: it is over */
    bool is_asked;
    char *text;
    size_t n;
} host_call;

typedef struct rg__dump {
    struct rg__dump *next;
    rg__agent *a;
    int sock; /* of the command; -1: it goes to a file */
    bool wants_json, wants_stacks;
    uint64_t generation; /* 0: of the current one */
    json_t *document;    /* owned; its hosts come in */
    rg__host_part *mine;
    host_call *calls;
    rg__timer *patience;
} rg__dump;

static void add_host(rg__dump *d, json_t *part)
{
    json_array_append_new(json_object_get(d->document, "hosts"), part);
}

static void add_error(rg__dump *d, const char *host, const char *why)
{
    add_host(d, json_pack("{s:s,s:s}", "host", host, "error", why));
}

/* ------------------------------------------------------------------ the end */

static void drop(rg__dump *d)
{
    rg__dump **at = &d->a->dumps;
    while (*at != NULL && *at != d)
        at = &(*at)->next;
    if (*at == d)
        *at = d->next;
    while (d->calls != NULL) {
        host_call *k = d->calls;
        d->calls = k->next;
        if (k->c != NULL)
            rg__connection_close(k->c);
        free(k->text);
        free(k);
    }
    rg__host_part_drop(d->mine);
    rg__timer_destroy(d->patience);
    json_decref(d->document);
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

static void save(const rg__dump *d, const char *text)
{
    char *path = NULL;
    if (name_file(d, &path) < 0)
        return;
    FILE *file = fopen(path, "we");
    const bool is_written = file != NULL && fputs(text, file) >= 0;
    const bool is_whole = file != NULL && fclose(file) == 0 && is_written;
    if (is_whole)
        rg__log(RG__WARN, "agent",
                "what the workers did in generation %llu is in %s",
                (unsigned long long)d->generation, path);
    else
        rg__log(RG__WARN, "agent", "the dump %s can't be written: %s", path,
                strerror(errno));
    free(path);
}

static void finish(rg__dump *d)
{
    for (host_call *k = d->calls; k != NULL; k = k->next)
        if (k->c != NULL)
            add_error(d, k->host, "its agent has not answered in time");
    rg__dump_compare(d->document);
    char *text = d->wants_json ? json_dumps(d->document, JSON_INDENT(1))
                               : rg__dump_text(d->document);
    if (d->sock < 0 && text != NULL)
        save(d, text);
    else if (d->sock >= 0)
        rg__answer(d->sock, text); /* and closes it */
    d->sock = -1;
    free(text);
    rg__agent *a = d->a;
    drop(d);
    a->on->settled(a);
}

static void look(rg__dump *d)
{
    bool is_waiting = d->mine != NULL;
    for (const host_call *k = d->calls; k != NULL; k = k->next)
        is_waiting = is_waiting || k->c != NULL;
    if (!is_waiting)
        rg__timer_set(d->patience, 0); /* not below what called this */
}

static void on_late(void *arg)
{
    finish(arg);
}

static void on_mine(void *arg, json_t *part)
{
    rg__dump *d = arg;
    d->mine = NULL;
    add_host(d, part);
    look(d);
}

/* ------------------------------------------------------------- other hosts */

static void end_call(host_call *k, const char *why)
{
    json_t *part =
        why == NULL && k->n > 0 ? json_loadb(k->text, k->n, 0, NULL) : NULL;
    k->c = NULL;
    if (json_is_object(part))
        add_host(k->d, part);
    else
        add_error(k->d, k->host, why != NULL ? why : "its answer is malformed");
    if (!json_is_object(part))
        json_decref(part);
    look(k->d);
}

static bool append(host_call *k, const char *bytes, size_t n)
{
    char *more = k->n + n <= TEXT_MAX ? realloc(k->text, k->n + n + 1) : NULL;
    if (more == NULL)
        return false;
    memcpy(more + k->n, bytes, n);
    k->text = more;
    k->n += n;
    return true;
}

static bool on_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    host_call *k = arg;
    const rg__dumped *m = body;
    if (type != RG__PEER_DUMPED || n < sizeof *m ||
        !append(k, (const char *)(m + 1), n - sizeof *m))
        return false;
    if (m->is_last == 0)
        return true;
    rg__connection_close(k->c);
    end_call(k, NULL);
    return true;
}

static void on_room(void *arg)
{
    host_call *k = arg;
    rg__dump_wish *m = k->is_asked ? NULL : rg__connection_space(k->c);
    if (m == NULL)
        return;
    *m = (rg__dump_wish){.generation = k->d->generation,
                         .wants_stacks = k->d->wants_stacks};
    k->is_asked = true;
    rg__connection_send(k->c, RG__PEER_DUMP, sizeof *m);
}

static void on_gone(void *arg, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "its agent can't be asked: %.160s", why);
    end_call(arg, text);
}

static void call(rg__dump *d, const rg__proposal_host *host)
{
    static const rg__connection_fns fns = {on_frame, on_room, on_gone};
    host_call *k = calloc(1, sizeof *k);
    if (k == NULL) {
        add_error(d, host->name, "no memory to ask it");
        return;
    }
    k->d = d;
    k->next = d->calls;
    d->calls = k;
    snprintf(k->host, sizeof k->host, "%s", host->name);
    if (rg__connection_call(d->a, &host->address, host->port, host->id, &fns, k,
                            &k->c) != RG_OK) {
        k->c = NULL;
        add_error(d, host->name, rg_last_error());
    }
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
                    .document = json_pack("{s:s,s:I,s:[]}", "job",
                                          a->params->job, "generation",
                                          (json_int_t)generation, "hosts"),
                    .patience = NULL};
    d->patience = rg__timer_create(a->loop, on_late, d);
    d->next = a->dumps;
    a->dumps = d;
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
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (p->host[i].id != a->id)
            call(d, &p->host[i]);
    d->mine =
        rg__host_part_begin(a, d->generation, d->wants_stacks, on_mine, d);
    if (d->mine == NULL)
        add_error(d, a->params->host, "no memory to look at its workers");
    look(d);
}

static int count(const rg__agent *a)
{
    int n = 0;
    for (const rg__dump *d = a->dumps; d != NULL; d = d->next)
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
    if (generation <= a->dumped || a->dump_files == FILES_MAX ||
        count(a) >= DUMPS_MAX)
        return;
    rg__dump *d = begin(a, -1, generation, why);
    if (d == NULL)
        return;
    a->dumped = generation;
    a->dump_files++;
    gather(d);
}

bool rg__dump_is_busy(const rg__agent *a)
{
    for (const rg__dump *d = a->dumps; d != NULL; d = d->next)
        if (d->sock < 0)
            return true;
    return false;
}

void rg__dumps_drop(rg__agent *a)
{
    while (a->dumps != NULL)
        drop(a->dumps);
}
