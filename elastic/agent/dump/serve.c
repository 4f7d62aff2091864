/* Another agent asks for this host's part: its text goes out in frames. Until
 * the text is ready, an empty frame goes out now and then, so that the
 * connection does not count as silent.
 *
 *   DUMP (generation, stacks?)  ->
 *                              <-  DUMPED, empty ...
 *                              <-  DUMPED, text ... the last says so */
#include "elastic/agent/dump/dump_parts.h"

#include <stdlib.h>
#include <string.h>

#include "elastic/agent/hosts/peers.h"

typedef struct serving {
    rg__agent *a;
    rg__connection *c;
    rg__host_part *part; /* NULL: it is there */
    rg__timer *beat;
    char *text;
    size_t n, at;
    bool is_sent;
} serving;

static void drop(serving *s)
{
    rg__host_part_drop(s->part);
    rg__timer_destroy(s->beat);
    free(s->text);
    free(s);
}

static void send_next(serving *s)
{
    rg__dumped *m = s->is_sent ? NULL : rg__connection_space(s->c);
    if (m == NULL)
        return;
    const size_t most = RG__PEER_BODY_MAX - sizeof *m;
    const size_t left = s->n - s->at;
    const size_t now = left < most ? left : most;
    *m = (rg__dumped){.is_last = s->part == NULL && now == left};
    if (now > 0)
        memcpy(m + 1, s->text + s->at, now);
    s->at += now;
    s->is_sent = m->is_last;
    rg__connection_send(s->c, RG__PEER_DUMPED, sizeof *m + now);
}

static void on_beat(void *arg)
{
    serving *s = arg;
    if (s->part == NULL)
        return;
    send_next(s);
    rg__timer_set(s->beat, rg__patience_ns(s->a->params));
}

static void on_part(void *arg, char *text, size_t n)
{
    serving *s = arg;
    s->part = NULL;
    s->text = text;
    s->n = n;
    send_next(s);
}

static void on_room(void *arg)
{
    serving *s = arg;
    if (s->part == NULL)
        send_next(s);
}

static void on_gone(void *arg, const char *why)
{
    (void)why;
    drop(arg);
}

static const rg__connection_fns fns = {rg__connection_no_frame, on_room,
                                       on_gone};

bool rg__gather_answer(rg__agent *a, rg__connection *c, json_t *document)
{
    serving *s = calloc(1, sizeof *s);
    if (s == NULL) {
        json_decref(document);
        return false;
    }
    *s = (serving){.a = a, .c = c};
    rg__connection_take(c, &fns, s);
    char *text = json_dumps(document, JSON_COMPACT);
    json_decref(document);
    on_part(s, text, text != NULL ? strlen(text) : 0);
    return true;
}

bool rg__dump_serve(rg__agent *a, rg__connection *c, const void *body, size_t n)
{
    const rg__dump_request *m = body;
    if (n != sizeof *m)
        return false;
    serving *s = calloc(1, sizeof *s);
    if (s == NULL)
        return false;
    *s = (serving){.a = a, .c = c};
    s->beat = rg__timer_create(a->loop, on_beat, s);
    s->part = rg__host_part_begin(a, m, on_part, s);
    if (s->beat == NULL || s->part == NULL) {
        drop(s);
        return false;
    }
    rg__connection_take(c, &fns, s);
    rg__timer_set(s->beat, rg__patience_ns(a->params));
    return true;
}
