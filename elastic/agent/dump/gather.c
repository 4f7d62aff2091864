/* The parts of the other hosts of a world, from their agents: some are asked at
 * once, and the next one when one has answered or has gone. */
#include "elastic/agent/dump/dump_parts.h"

#include <stdlib.h>
#include <string.h>

#include "elastic/agent/hosts/peers.h"

#define CALLS_MAX 64                 /* at once; other connections need room */
#define TEXT_MAX  ((size_t)48 << 20) /* of one host */

typedef struct host_call {
    rg__gather *g;
    rg__proposal_host host;
    rg__connection *c; /* NULL: not begun, or over */
    bool is_asked, is_over;
    char *text;
    size_t n;
} host_call;

struct rg__gather {
    rg__agent *a;
    rg__peer_type type;
    char body[RG__TEXT_MAX];
    size_t body_bytes;
    bool as_text;
    json_t *hosts; /* borrowed */
    rg__gather_fn done;
    void *arg;
    int n, begun, over;
    host_call call[];
};

static void add_error(const rg__gather *g, const char *host, const char *why)
{
    json_array_append_new(g->hosts,
                          json_pack("{s:s,s:s}", "host", host, "error", why));
}

static void end(host_call *k)
{
    k->c = NULL;
    k->is_over = true;
    k->g->over++;
    free(k->text);
    k->text = NULL;
}

/* --------------------------------------------------------------- one host */

static void begin_more(rg__gather *g);

static json_t *read_part(const host_call *k)
{
    return k->n == 0       ? NULL
           : k->g->as_text ? json_stringn_nocheck(k->text, k->n)
                           : json_loadb(k->text, k->n, 0, NULL);
}

static void end_call(host_call *k, const char *why)
{
    rg__gather *g = k->g;
    json_t *part = why == NULL ? read_part(k) : NULL;
    if (json_is_object(part) || (g->as_text && part != NULL))
        json_array_append(g->hosts, part);
    else
        add_error(g, k->host.name,
                  why != NULL ? why : "its answer is malformed");
    json_decref(part);
    end(k);
    begin_more(g);
    if (rg__gather_is_over(g))
        g->done(g->arg);
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
    void *m = k->is_asked ? NULL : rg__connection_space(k->c);
    if (m == NULL)
        return;
    memcpy(m, k->g->body, k->g->body_bytes);
    k->is_asked = true;
    rg__connection_send(k->c, k->g->type, k->g->body_bytes);
}

static void on_gone(void *arg, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "its agent can't be asked: %.160s", why);
    end_call(arg, text);
}

/* -------------------------------------------------------------- all hosts */

static void begin_more(rg__gather *g)
{
    static const rg__connection_fns fns = {on_frame, on_room, on_gone};
    while (g->begun < g->n && g->begun - g->over < CALLS_MAX) {
        host_call *k = &g->call[g->begun++];
        const rg__proposal_host *host = &k->host;
        if (rg__connection_call(g->a, &host->address, host->port, host->id,
                                &fns, k, &k->c) == RG_OK)
            continue;
        add_error(g, host->name, rg_last_error());
        end(k);
    }
}

rg__gather *rg__gather_begin(rg__agent *a, const rg__proposal *world,
                             const rg__gather_question *question, json_t *hosts,
                             rg__gather_fn done, void *arg)
{
    const int n = world != NULL ? world->host_count : 0;
    rg__gather *g = calloc(1, sizeof *g + sizeof *g->call * (size_t)n);
    if (g == NULL)
        return NULL;
    g->a = a;
    g->type = question->type;
    g->body_bytes = question->n;
    memcpy(g->body, question->body, question->n);
    g->as_text = question->as_text;
    g->hosts = hosts;
    g->done = done;
    g->arg = arg;
    for (int i = 0; i < n; i++)
        if (world->host[i].id != a->id)
            g->call[g->n++] = (host_call){.g = g, .host = world->host[i]};
    begin_more(g);
    return g;
}

bool rg__gather_is_over(const rg__gather *g)
{
    return g->over == g->n;
}

void rg__gather_end(rg__gather *g)
{
    for (int i = 0; g != NULL && i < g->n; i++) {
        host_call *k = &g->call[i];
        if (k->is_over)
            continue;
        if (k->c != NULL)
            rg__connection_close(k->c);
        add_error(g, k->host.name, "its agent has not answered in time");
        free(k->text);
    }
    free(g);
}
