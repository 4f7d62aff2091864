/* All hosts of a job run the same: program and arguments, version of Regroup,
 * registered buffers. The first host with a worker at the door writes that down
 * (`shape`, once); a host that differs leaves with both in one sentence, before
 * any of its workers is offered a place. The first worker of a host at the door
 * says what is registered; a worker that differs, then or in any later
 * generation, makes the host leave as well. */
#include "elastic/agent/workers/workers.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/vault/vaults.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup.h"

#define SHOWN 90

static json_t *program_json(const rg__agent *a)
{
    json_t *words = json_array();
    for (char *const *word = a->params->argv; *word != NULL; word++)
        json_array_append_new(words,
                              json_stringn_nocheck(*word, strlen(*word)));
    return words;
}

static json_t *buffer_json(const rg__vault_buffer *b)
{
    if (b->is_local)
        return json_pack("[s,s,i]", "local", "replicas", (int)b->replicas);
    return b->is_sharded
               ? json_pack("[s,I,s,i,s,I]", "sharded", (json_int_t)b->bytes,
                           "replicas", (int)b->replicas, "align",
                           (json_int_t)b->align)
               : json_integer((json_int_t)b->bytes);
}

/* An agent that took over does not know what each worker had registered. */
static bool has(const rg__agent *a, const rg__vault_buffer *b, uint32_t index)
{
    return a->life.agents > 1 || (b->by >> index & 1) != 0;
}

static bool is_first(const rg__agent *a, const rg__vault_buffer *b)
{
    return a->life.agents > 1 || b->is_first;
}

static json_t *buffers_json(const rg__agent *a)
{
    json_t *buffers = json_object();
    for (int i = 0; i < a->store->buffers; i++)
        if (is_first(a, &a->store->buffer[i]))
            json_object_set_new_nocheck(buffers, a->store->buffer[i].name,
                                        buffer_json(&a->store->buffer[i]));
    return buffers;
}

static json_t *registered_json(const rg__agent *a)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, a->spec.registered);
    return json_string(hex);
}

static char *spec_text(const rg__agent *a)
{
    json_t *j =
        json_pack("{s:s,s:b,s:o,s:o,s:o}", "version", RG_VERSION, "static",
                  rg__view_is_static(a), "program", program_json(a), "buffers",
                  buffers_json(a), "registered", registered_json(a));
    char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(j);
    return text;
}

static char *whole(const json_t *j)
{
    return json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
}

/* Bytes that both begin with, except a few before the difference; 0 where the
 * difference is seen without leaving any out. */
static size_t left_out(const char *a, const char *b)
{
    size_t same = 0;
    while (a[same] != '\0' && a[same] == b[same])
        same++;
    return same < SHOWN / 2 ? 0 : same - SHOWN / 4;
}

static void show(const char *all, size_t from, char text[SHOWN])
{
    const size_t room = SHOWN - sizeof "......";
    snprintf(text, SHOWN, "%s%.*s%s", from > 0 ? "..." : "", (int)room,
             all + from, strlen(all + from) > room ? "..." : "");
}

static bool refuse_if_differs(rg__agent *a, const json_t *job,
                              const json_t *mine, const char *what)
{
    char theirs[SHOWN], ours[SHOWN];
    const json_t *x = json_object_get(job, what);
    const json_t *y = json_object_get(mine, what);
    if (x != NULL && json_equal(x, y))
        return false;
    char *job_all = whole(x), *my_all = whole(y);
    const char *job_text = job_all != NULL ? job_all : "nothing";
    const char *my_text = my_all != NULL ? my_all : "nothing";
    const size_t from = left_out(job_text, my_text);
    show(job_text, from, theirs);
    show(my_text, from, ours);
    free(job_all);
    free(my_all);
    rg__agent_leave(a, RG__EXIT_DIFFERS,
                    "host %s does not fit job %s: its %s is %s, the job's %s; "
                    "start the same on every host",
                    a->params->host, a->params->job, what, ours, theirs);
    return true;
}

static const char *kind(const json_t *spec)
{
    return json_is_true(json_object_get(spec, "static")) ? "static" : "elastic";
}

static bool refuse_other_kind(rg__agent *a, const json_t *job,
                              const json_t *mine)
{
    if (strcmp(kind(job), kind(mine)) == 0)
        return false;
    rg__agent_leave(a, RG__EXIT_DIFFERS,
                    "host %s does not fit job %s: its program is %s, the job's "
                    "%s; set rg_params.elastic alike on every host",
                    a->params->host, a->params->job, kind(mine), kind(job));
    return true;
}

/* The same buffers, but not alike. */
static bool refuse_other_order(rg__agent *a, const json_t *job,
                               const json_t *mine)
{
    if (json_equal(json_object_get(job, "registered"),
                   json_object_get(mine, "registered")))
        return false;
    rg__agent_leave(a, RG__EXIT_DIFFERS,
                    "host %s does not fit job %s: its workers register the "
                    "same buffers in another order or with other flags; "
                    "register them alike on every host",
                    a->params->host, a->params->job);
    return true;
}

/* Both are texts of spec_text. */
static bool is_equal(rg__agent *a, const char *job, size_t bytes,
                     const char *mine)
{
    json_t *x = json_loadb(job, bytes, 0, NULL);
    json_t *y = json_loads(mine, 0, NULL);
    const bool differs =
        refuse_if_differs(a, x, y, "version") ||
        refuse_if_differs(a, x, y, "program") || refuse_other_kind(a, x, y) ||
        refuse_if_differs(a, x, y, "buffers") || refuse_other_order(a, x, y);
    json_decref(x);
    json_decref(y);
    return !differs;
}

static void agree(rg__agent *a);

static void on_agreed(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    if (!rg__agent_has_answer(a, st))
        return;
    char *mine = spec_text(a);
    a->spec.is_asking = false;
    if (mine == NULL)
        rg__job_owe(a, agree);
    a->spec.is_known =
        reply->succeeded ||
        (mine != NULL && reply->kv_count == 1 &&
         is_equal(a, reply->kv[0].value, reply->kv[0].value_bytes, mine));
    free(mine);
    a->on->noted(a);
    if (a->spec.is_known)
        rg__publish(a);
}

/* Ask once, as soon as a worker has registered all it has. */
static void agree(rg__agent *a)
{
    if (a->spec.is_known || a->spec.is_asking)
        return;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(JOB_SPEC), 0);
    rg__job_put(&t, RG__KEY(JOB_SPEC), spec_text(a), 0);
    rg__job_get(&t, RG__ELSE, RG__KEY(JOB_SPEC));
    a->spec.is_asking = rg__job_send(&t, on_agreed, a, agree) != NULL;
}

/* A buffer that only the slot's worker or only the first one has, or NULL. */
static const rg__vault_buffer *find_uneven(const rg__agent *a, uint32_t index)
{
    for (int i = 0; i < a->store->buffers; i++)
        if (has(a, &a->store->buffer[i], index) !=
            is_first(a, &a->store->buffer[i]))
            return &a->store->buffer[i];
    return NULL;
}

static void refuse_slot(rg__agent *a, uint32_t index)
{
    const rg__vault_buffer *b = find_uneven(a, index);
    char now[24], first[24];
    snprintf(now, sizeof now, "slot %u", index);
    snprintf(first, sizeof first, "slot %u%s", a->spec.registered_by,
             a->spec.registered_by == index ? " before" : "");
    if (b == NULL)
        rg__agent_leave(a, RG__EXIT_DIFFERS,
                        "host %s does not fit job %s: %s registers other "
                        "buffers than %s, or in another order or with other "
                        "flags; register the same in every worker",
                        a->params->host, a->params->job, now, first);
    else
        rg__agent_leave(
            a, RG__EXIT_DIFFERS,
            "host %s does not fit job %s: buffer %s is registered by %s and "
            "not by %s; register the same in every worker",
            a->params->host, a->params->job, b->name,
            is_first(a, b) ? first : now, is_first(a, b) ? now : first);
}

static void take_first(rg__agent *a, const rg__slot *s, uint64_t registered)
{
    a->spec.has_registered = true;
    a->spec.registered_by = s->index;
    a->spec.registered = registered;
    for (int i = 0; i < a->store->buffers; i++)
        a->store->buffer[i].is_first = has(a, &a->store->buffer[i], s->index);
    a->on->noted(a);
}

bool rg__job_spec_take(rg__slot *s, uint64_t registered)
{
    rg__agent *a = s->a;
    if (!a->spec.has_registered)
        take_first(a, s, registered);
    if (a->spec.registered == registered)
        agree(a);
    else
        refuse_slot(a, s->index);
    return a->spec.registered == registered;
}

bool rg__job_spec_fits(rg__agent *a, const rg__kv *kv)
{
    json_t *job = json_loadb(kv->value, kv->value_bytes, 0, NULL);
    char *text = spec_text(a);
    json_t *mine = text != NULL ? json_loads(text, 0, NULL) : NULL;
    const bool differs = refuse_if_differs(a, job, mine, "version") ||
                         refuse_if_differs(a, job, mine, "program");
    json_decref(job);
    json_decref(mine);
    free(text);
    return !differs;
}
