/* Replies of etcd's gateway: the readers of json.c, and base64. */
#include <string.h>

#include "elastic/etcd/base64.h"
#include "elastic/etcd/json.h"
#include "tests/fuzz/fuzz.h"

static void check_kv(const rg__kv *kv)
{
    FUZZ_CLAIM(kv->key != NULL && kv->key[0] != '\0');
    FUZZ_CLAIM(kv->value != NULL && kv->value[kv->value_bytes] == '\0');
}

static void read_txn(const json_t *reply)
{
    rg__txn_reply txn;
    rg__kvs kvs = {0};
    if (rg__txn_read(reply, &txn, &kvs)) {
        FUZZ_CLAIM(txn.revision > 0 && txn.kv_count == kvs.n);
        for (size_t i = 0; i < kvs.n; i++)
            check_kv(&kvs.kv[i]);
    }
    rg__kvs_free(&kvs);
    rg__kvs_read(rg__txn_range(reply, 0), &kvs);
    rg__kvs_free(&kvs);
}

static void read_events(const json_t *events)
{
    size_t i = 0;
    json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        bool is_delete = false;
        rg__kv kv;
        if (rg__event_read(event, &is_delete, &kv)) {
            check_kv(&kv);
            FUZZ_CLAIM(kv.mod_revision > 0);
        }
        rg__kv_free(&kv);
    }
}

static void read_watch(const json_t *line)
{
    rg__watch_message message;
    if (!rg__watch_read(line, &message) || message.fault.message != NULL)
        return;
    FUZZ_CLAIM(message.cancel_reason != NULL);
    read_events(message.events);
}

static void read_members(const json_t *reply)
{
    int64_t number = 0;
    bool is_set = false;
    json_t *result = NULL;
    rg__json_fault fault;
    rg__json_fault_read(reply, &fault);
    rg__json_int64(reply, "ID", &number);
    rg__json_int64(reply, "TTL", &number);
    rg__json_bool(reply, "succeeded", &is_set);
    rg__json_object(reply, "result", &result);
    rg__json_int64(result, "TTL", &number);
}

/* What can be decoded has no other text; what was encoded can be decoded. */
static void there_and_back(const uint8_t *bytes, size_t n)
{
    const size_t chars = rg__base64_chars(n), room = rg__base64_bytes(n);
    char *text = malloc(chars + n + 1);
    uint8_t *back = malloc(n + room + 3);
    size_t got = 0;
    FUZZ_CLAIM(text != NULL && back != NULL);
    rg__base64_encode(bytes, n, text);
    FUZZ_CLAIM(rg__base64_decode(text, chars, back, &got) && got == n);
    FUZZ_CLAIM(n == 0 || memcmp(back, bytes, n) == 0);
    if (rg__base64_decode((const char *)bytes, n, back, &got)) {
        FUZZ_CLAIM(got <= room && rg__base64_chars(got) == n);
        rg__base64_encode(back, got, text);
        FUZZ_CLAIM(n == 0 || memcmp(text, bytes, n) == 0);
    }
    free(text);
    free(back);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    json_t *reply = rg__json_parse((const char *)bytes, n);
    if (reply != NULL) {
        read_txn(reply);
        read_watch(reply);
        read_members(reply);
    }
    json_decref(reply);
    there_and_back(bytes, n);
}
