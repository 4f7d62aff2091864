/* Reading replies. Each reader either fills all that it promises and says
 * true, or says false; it never guesses. */
#include "elastic/etcd/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/etcd/base64.h"
#include "sdk/base/grow.h"

json_t *rg__json_parse(const char *text, size_t n)
{
    return json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
}

/* ----------------------------------------------------------------- members */

static bool int64_of_text(const char *text, int64_t *value_p)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] < '0' || digits[0] > '9')
        return false;
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *value_p = value;
    return true;
}

bool rg__json_int64(const json_t *object, const char *name, int64_t *value_p)
{
    const json_t *member = json_object_get(object, name);
    *value_p = 0;
    if (member == NULL)
        return true;
    if (json_is_string(member)) /* one with a NUL inside is cut: too short */
        return strlen(json_string_value(member)) ==
                   json_string_length(member) &&
               int64_of_text(json_string_value(member), value_p);
    *value_p = json_integer_value(member);
    return json_is_integer(member);
}

bool rg__json_bool(const json_t *object, const char *name, bool *value_p)
{
    const json_t *member = json_object_get(object, name);
    *value_p = json_is_true(member);
    return member == NULL || json_is_boolean(member);
}

bool rg__json_string(const json_t *object, const char *name,
                     const char **value_p)
{
    const json_t *member = json_object_get(object, name);
    *value_p = json_string_value(member);
    return member == NULL || json_is_string(member);
}

static bool array_of(const json_t *object, const char *name, json_t **value_p)
{
    *value_p = json_object_get(object, name);
    return *value_p == NULL || json_is_array(*value_p);
}

bool rg__json_object(const json_t *object, const char *name, json_t **value_p)
{
    *value_p = json_object_get(object, name);
    return *value_p == NULL || json_is_object(*value_p);
}

bool rg__json_revision(const json_t *reply, int64_t *revision_p)
{
    json_t *header = NULL;
    *revision_p = 0;
    return rg__json_object(reply, "header", &header) &&
           rg__json_int64(header, "revision", revision_p);
}

/* -------------------------------------------------------------------- keys */

/* Decode a member into at and put a NUL behind. */
static bool read_bytes(const json_t *member, char *at, size_t *n_p)
{
    *n_p = 0;
    at[0] = '\0';
    if (member == NULL)
        return true;
    if (!json_is_string(member) ||
        !rg__base64_decode(json_string_value(member),
                           json_string_length(member), at, n_p))
        return false;
    at[*n_p] = '\0';
    return true;
}

static bool read_key_and_value(const json_t *object, rg__kv *kv, char *room)
{
    const json_t *key = json_object_get(object, "key");
    const json_t *value = json_object_get(object, "value");
    size_t key_bytes = 0;
    if (!read_bytes(key, room, &key_bytes))
        return false;
    if (key_bytes == 0 || strlen(room) != key_bytes)
        return false; /* keys here are texts */
    char *behind = room + key_bytes + 1;
    if (!read_bytes(value, behind, &kv->value_bytes))
        return false;
    kv->key = room;
    kv->value = behind;
    return true;
}

static bool read_numbers(const json_t *object, rg__kv *kv)
{
    return rg__json_int64(object, "create_revision", &kv->create_revision) &&
           rg__json_int64(object, "mod_revision", &kv->mod_revision) &&
           rg__json_int64(object, "version", &kv->version) &&
           rg__json_int64(object, "lease", &kv->lease);
}

static bool read_kv(const json_t *object, rg__kv *kv)
{
    *kv = (rg__kv){0};
    if (!json_is_object(object))
        return false;
    const size_t key_chars = json_string_length(json_object_get(object, "key"));
    const size_t value_chars =
        json_string_length(json_object_get(object, "value"));
    char *room =
        malloc(rg__base64_bytes(key_chars) + rg__base64_bytes(value_chars) + 2);
    if (room == NULL)
        return false;
    if (read_key_and_value(object, kv, room) && read_numbers(object, kv))
        return true;
    free(room);
    *kv = (rg__kv){0};
    return false;
}

void rg__kv_free(rg__kv *kv)
{
    free((char *)(uintptr_t)kv->key);
    *kv = (rg__kv){0};
}

void rg__kvs_free(rg__kvs *kvs)
{
    for (size_t i = 0; i < kvs->n; i++)
        rg__kv_free(&kvs->kv[i]);
    free(kvs->kv);
    *kvs = (rg__kvs){0};
}

bool rg__kvs_read(const json_t *range, rg__kvs *kvs)
{
    json_t *list = NULL, *object = NULL;
    size_t i = 0;
    if (!json_is_object(range) || !array_of(range, "kvs", &list) ||
        !rg__json_int64(range, "count", &kvs->total))
        return false;
    json_array_foreach(list, i, object)
    {
        rg__kv *kv = rg__grow(&kvs->kv, kvs->n, sizeof *kv);
        if (kv == NULL || !read_kv(object, kv))
            return false;
        kvs->n++;
    }
    return true;
}

/* ------------------------------------------------------------------ faults */

static bool read_nested_fault(const json_t *error, rg__json_fault *fault)
{
    const char *message = NULL;
    const char *code =
        json_object_get(error, "grpc_code") != NULL ? "grpc_code" : "code";
    if (!rg__json_string(error, "message", &message) ||
        !rg__json_int64(error, "http_code", &fault->http_code) ||
        !rg__json_int64(error, code, &fault->grpc_code))
        return false;
    fault->message = message != NULL ? message : "an error without a text";
    return true;
}

/* A gateway of its second version (etcd 3.5 of Debian 13, etcd 3.6) writes a
 * code and a message, and no "error". Other replies have no code. */
static bool read_plain_fault(const json_t *reply, rg__json_fault *fault)
{
    return json_object_get(reply, "code") == NULL ||
           (rg__json_int64(reply, "code", &fault->grpc_code) &&
            rg__json_string(reply, "message", &fault->message));
}

bool rg__json_fault_read(const json_t *reply, rg__json_fault *fault)
{
    const json_t *error = json_object_get(reply, "error");
    *fault = (rg__json_fault){0};
    if (error == NULL)
        return read_plain_fault(reply, fault);
    if (json_is_object(error))
        return read_nested_fault(error, fault);
    fault->message = json_string_value(error);
    return fault->message != NULL &&
           rg__json_int64(reply, "code", &fault->grpc_code);
}

/* ------------------------------------------------------------ transactions */

const json_t *rg__txn_range(const json_t *reply, size_t i)
{
    const json_t *responses = json_object_get(reply, "responses");
    return json_object_get(json_array_get(responses, i), "response_range");
}

bool rg__txn_read(const json_t *reply, rg__txn_reply *out, rg__kvs *kvs)
{
    json_t *responses = NULL, *response = NULL, *range = NULL;
    size_t i = 0;
    *out = (rg__txn_reply){0};
    if (!json_is_object(reply) ||
        !rg__json_bool(reply, "succeeded", &out->succeeded) ||
        !rg__json_revision(reply, &out->revision) || out->revision <= 0 ||
        !array_of(reply, "responses", &responses))
        return false;
    json_array_foreach(responses, i, response)
    {
        if (!rg__json_object(response, "response_range", &range))
            return false;
        if (range != NULL && !rg__kvs_read(range, kvs))
            return false;
        out->matched += range != NULL ? kvs->total : 0;
    }
    out->kv = kvs->kv;
    out->kv_count = kvs->n;
    return true;
}

/* ----------------------------------------------------------------- watches */

static bool read_result(const json_t *result, rg__watch_message *message)
{
    const char *reason = NULL;
    if (!rg__json_revision(result, &message->revision) ||
        !rg__json_int64(result, "compact_revision",
                        &message->compact_revision) ||
        !rg__json_bool(result, "created", &message->is_created) ||
        !rg__json_bool(result, "canceled", &message->is_canceled) ||
        !rg__json_bool(result, "fragment", &message->is_fragment) ||
        !rg__json_string(result, "cancel_reason", &reason) ||
        !array_of(result, "events", &message->events))
        return false;
    message->cancel_reason = reason != NULL ? reason : "";
    return true;
}

bool rg__watch_read(const json_t *line, rg__watch_message *message)
{
    const json_t *result = json_object_get(line, "result");
    *message = (rg__watch_message){.cancel_reason = ""};
    if (!json_is_object(line) || !rg__json_fault_read(line, &message->fault))
        return false;
    if (message->fault.message != NULL)
        return true;
    return json_is_object(result) && read_result(result, message);
}

bool rg__event_read(const json_t *event, bool *is_delete_p, rg__kv *kv)
{
    const char *type = NULL;
    *kv = (rg__kv){0};
    if (!json_is_object(event) || !rg__json_string(event, "type", &type))
        return false;
    *is_delete_p = type != NULL && strcmp(type, "DELETE") == 0;
    if (type != NULL && !*is_delete_p && strcmp(type, "PUT") != 0)
        return false;
    if (!read_kv(json_object_get(event, "kv"), kv))
        return false;
    if (kv->mod_revision > 0)
        return true;
    rg__kv_free(kv);
    return false;
}
