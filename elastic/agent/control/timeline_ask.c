/* A timeline of the whole job: this agent begins or ends its own, asks the
 * other hosts of the world to do the same, and answers the command with what
 * each says. Each host writes its own file. A host that joins later has none,
 * and where this one can't be written no other is begun. */
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/base/file_writer.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/timeline/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define PATIENCE_NS (3000 * RG__MS) /* the command waits for five seconds */

struct rg__timeline_ask {
    rg__agent *a;
    int sock;
    json_t *hosts;      /* owned: what each says */
    rg__gather *others; /* NULL: not asked */
    rg__timer *patience;
};

/* ---------------------------------------------------------------- this host */

/* A path, or an error that names one: JSON takes UTF-8 only, and other bytes
 * are shown as '?'. */
static json_t *shown(const char *text)
{
    json_t *j = json_string(text);
    char *copy = j == NULL ? strdup(text) : NULL;
    for (char *at = copy; at != NULL && *at != '\0'; at++)
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    if (copy != NULL)
        j = json_string(copy);
    free(copy);
    return j;
}

static json_t *refusal(const rg__agent *a, rg_status st)
{
    return json_pack("{s:s,s:o,s:i}", "host", a->params->host, "error",
                     shown(rg_last_error()), "status", (int)st);
}

static json_t *start(rg__agent *a, const char *given)
{
    char *path = rg__writer_path(a->params, given);
    const rg_status st = path != NULL
                             ? rg__timeline_start(a, path, false)
                             : rg__fail(RG_ERR_MEMORY, "no memory for a name");
    json_t *part = st != RG_OK ? refusal(a, st)
                               : json_pack("{s:s,s:o}", "host", a->params->host,
                                           "file", shown(path));
    free(path);
    return part;
}

static json_t *stop(rg__agent *a)
{
    uint64_t events = 0, dropped = 0;
    const rg_status st = rg__timeline_stop(a, &events, &dropped);
    return st != RG_OK
               ? refusal(a, st)
               : json_pack("{s:s,s:I,s:I}", "host", a->params->host, "events",
                           (json_int_t)events, "dropped", (json_int_t)dropped);
}

static json_t *act(rg__agent *a, const char *path)
{
    return path[0] != '\0' ? start(a, path) : stop(a);
}

bool rg__timeline_serve(rg__agent *a, rg__connection *c, const void *body,
                        size_t n)
{
    const char *path = body;
    return n > 0 && n <= RG__TEXT_MAX && path[n - 1] == '\0' &&
           rg__gather_answer(a, c, act(a, path));
}

/* ---------------------------------------------------------------- all hosts */

static void drop(struct rg__timeline_ask *t)
{
    rg__gather_end(t->others);
    rg__timer_destroy(t->patience);
    json_decref(t->hosts);
    if (t->sock >= 0)
        close(t->sock);
    t->a->control->timeline_ask = NULL;
    free(t);
}

static void finish(void *arg)
{
    struct rg__timeline_ask *t = arg;
    rg__gather_end(t->others); /* those that are late have an error */
    t->others = NULL;
    json_t *j = json_pack("{s:b,s:O}", "ok", 1, "hosts", t->hosts);
    char *text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    rg__answer(t->sock, text);
    free(text);
    t->sock = -1;
    drop(t);
}

static void on_others(void *arg)
{
    struct rg__timeline_ask *t = arg;
    rg__timer_set(t->patience, 0); /* not within the call that reports it */
}

static void ask_others(struct rg__timeline_ask *t, const char *path)
{
    const rg__gather_question question = {RG__PEER_TIMELINE, path,
                                          strlen(path) + 1};
    rg__timer_set(t->patience, PATIENCE_NS);
    t->others = rg__gather_begin(t->a, rg__view_decided(t->a), &question,
                                 t->hosts, on_others, t);
    if (t->others == NULL || rg__gather_is_over(t->others))
        on_others(t);
}

static void refuse(int sock)
{
    char text[128];
    snprintf(text, sizeof text,
             "{\"error\":\"another `regroup timeline` is under way; try again "
             "in a moment\",\"status\":%d}",
             (int)RG_ERR_SYSTEM);
    rg__answer(sock, text);
}

void rg__timeline_ask(rg__agent *a, const char *path, int sock)
{
    struct rg__timeline_ask *t =
        a->control->timeline_ask == NULL ? calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        refuse(sock);
        return;
    }
    *t = (struct rg__timeline_ask){.a = a,
                                   .sock = sock,
                                   .hosts = json_array(),
                                   .patience =
                                       rg__timer_create(a->loop, finish, t)};
    a->control->timeline_ask = t;
    json_t *mine = t->patience != NULL ? act(a, path) : NULL;
    json_array_append_new(t->hosts, mine);
    if (mine == NULL)
        drop(t); /* the command learns that there is no answer */
    else if (path[0] != '\0' && json_object_get(mine, "error") != NULL)
        on_others(t);
    else
        ask_others(t, path);
}

void rg__timeline_ask_drop(rg__agent *a)
{
    if (a->control->timeline_ask != NULL)
        drop(a->control->timeline_ask);
}
