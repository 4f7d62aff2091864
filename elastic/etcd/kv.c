/* Transactions: written while they are built, sent as one text. Each sending of
 * a transaction is the same text, so its guards judge all alike. */
#include "elastic/etcd/etcd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/etcd/body.h"
#include "elastic/etcd/client.h"

struct rg__txn {
    rg__body guards;
    rg__body branches[2];
};

/* A transaction under way. */
typedef struct txn_call {
    rg__txn_fn fn;
    void *arg;
    rg__txn_reply reply;
    rg__kvs kvs;
} txn_call;

/* ---------------------------------------------------------------- building */

rg__txn *rg__txn_create(void)
{
    return calloc(1, sizeof(rg__txn));
}

void rg__txn_destroy(rg__txn *txn)
{
    if (txn == NULL)
        return;
    rg__body_free(&txn->guards);
    rg__body_free(&txn->branches[RG__THEN]);
    rg__body_free(&txn->branches[RG__ELSE]);
    free(txn);
}

static void begin_item(rg__body *list)
{
    rg__body_add(list, rg__body_is_empty(list) ? "{" : ",{");
}

static void begin_guard(rg__txn *txn, const char *key, const char *target)
{
    begin_item(&txn->guards);
    txn->guards.has_failed |= key == NULL; /* unguarded it must not go out */
    rg__body_bytes(&txn->guards, "key", key, key != NULL ? strlen(key) : 0);
    rg__body_addf(&txn->guards, ",\"target\":\"%s\",", target);
}

static void guard_number(rg__txn *txn, const char *key, const char *target,
                         const char *name, int64_t number)
{
    if (txn == NULL)
        return;
    begin_guard(txn, key, target);
    rg__body_addf(&txn->guards, "\"%s\":\"%" PRId64 "\"}", name, number);
}

void rg__txn_if_create(rg__txn *txn, const char *key, int64_t revision)
{
    guard_number(txn, key, "CREATE", "create_revision", revision);
}

void rg__txn_if_mod(rg__txn *txn, const char *key, int64_t revision)
{
    guard_number(txn, key, "MOD", "mod_revision", revision);
}

void rg__txn_if_value(rg__txn *txn, const char *key, const char *value)
{
    if (txn == NULL)
        return;
    begin_guard(txn, key, "VALUE");
    txn->guards.has_failed |= value == NULL;
    rg__body_bytes(&txn->guards, "value", value,
                   value != NULL ? strlen(value) : 0);
    rg__body_add(&txn->guards, "}");
}

/* Over a range a guard must hold for every key; an empty range counts as a key
 * that does not exist, with revision 0. */
void rg__txn_if_unchanged(rg__txn *txn, const char *key, const char *range_end,
                          int64_t revision)
{
    if (txn == NULL)
        return;
    begin_item(&txn->guards);
    rg__body_range(&txn->guards, key, range_end);
    rg__body_addf(&txn->guards,
                  ",\"target\":\"MOD\",\"result\":\"LESS\","
                  "\"mod_revision\":\"%" PRId64 "\"}",
                  revision + 1);
}

void rg__txn_put(rg__txn *txn, const char *key, const char *value,
                 int64_t lease)
{
    if (txn == NULL)
        return;
    rg__body *list = &txn->branches[RG__THEN];
    if (key == NULL || value == NULL) {
        list->has_failed = true;
        return;
    }
    begin_item(list);
    rg__body_add(list, "\"request_put\":{");
    rg__body_bytes(list, "key", key, strlen(key));
    rg__body_add(list, ",");
    rg__body_bytes(list, "value", value, strlen(value));
    rg__body_addf(list, ",\"lease\":\"%" PRId64 "\"}}", lease);
}

static void add_range(rg__txn *txn, rg__branch branch, const char *request,
                      const char *key, const char *range_end, const char *more)
{
    if (txn == NULL)
        return;
    rg__body *list = &txn->branches[branch];
    begin_item(list);
    rg__body_addf(list, "\"%s\":{", request);
    rg__body_range(list, key, range_end);
    rg__body_addf(list, "%s}}", more);
}

void rg__txn_get(rg__txn *txn, rg__branch branch, const char *key,
                 const char *range_end)
{
    add_range(txn, branch, "request_range", key, range_end, "");
}

void rg__txn_get_first(rg__txn *txn, const char *key, const char *range_end)
{
    add_range(txn, RG__THEN, "request_range", key, range_end,
              ",\"limit\":\"1\"");
}

void rg__txn_delete(rg__txn *txn, const char *key, const char *range_end)
{
    add_range(txn, RG__THEN, "request_delete_range", key, range_end, "");
}

char *rg__prefix_end(const char *prefix)
{
    char *end = strdup(prefix);
    if (end == NULL)
        return NULL;
    size_t n = strlen(end);
    while (n > 0 && (unsigned char)end[n - 1] == 0xff)
        n--; /* nothing is behind 0xff: the byte before it moves on */
    end[n] = '\0';
    if (n > 0)
        end[n - 1] = (char)((unsigned char)end[n - 1] + 1);
    return end; /* "": to the last key */
}

static void add_list(rg__body *body, const char *name, const rg__body *list)
{
    body->has_failed |= list->has_failed;
    rg__body_addf(body, "\"%s\":[", name);
    if (!rg__body_is_empty(list))
        rg__body_add(body, list->text);
    rg__body_add(body, "]");
}

/* The whole request; NULL: there was no memory for a part of it. */
static char *txn_text(const rg__txn *txn)
{
    rg__body body = {0};
    rg__body_add(&body, "{");
    add_list(&body, "compare", &txn->guards);
    rg__body_add(&body, ",");
    add_list(&body, "success", &txn->branches[RG__THEN]);
    rg__body_add(&body, ",");
    add_list(&body, "failure", &txn->branches[RG__ELSE]);
    rg__body_add(&body, "}");
    return rg__body_take(&body);
}

/* ----------------------------------------------------------------- sending */

static void free_call(void *arg)
{
    txn_call *call = arg;
    rg__kvs_free(&call->kvs);
    free(call);
}

static bool read_txn(void *arg, const json_t *reply)
{
    txn_call *call = arg;
    if (rg__txn_read(reply, &call->reply, &call->kvs))
        return true;
    rg__kvs_free(&call->kvs);
    return false;
}

static void on_txn(void *arg, rg_status st, const rg__answer *answer)
{
    txn_call *call = arg;
    call->reply.sendings = answer->sendings;
    call->fn(call->arg, st, st == RG_OK ? &call->reply : NULL);
    free_call(call);
}

rg__etcd_req *rg__etcd_txn(rg__etcd *etcd, rg__txn *txn, rg__txn_fn fn,
                           void *arg)
{
    static const rg__call kind = {.path = "/v3/kv/txn",
                                  .timeout_ms = RG__ETCD_UNARY_MS,
                                  .slow_ms = RG__ETCD_SLOW_MS,
                                  .read = read_txn,
                                  .done = on_txn,
                                  .drop = free_call};
    char *text = txn != NULL ? txn_text(txn) : NULL;
    rg__txn_destroy(txn);
    txn_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        free(text);
        return NULL;
    }
    call->fn = fn;
    call->arg = arg;
    rg__etcd_req *req = rg__etcd_post(etcd, &kind, text, -1, call);
    if (req == NULL)
        free(call);
    return req;
}
