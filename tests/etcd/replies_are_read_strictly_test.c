/* What etcd's gateway says, read without a network: absent is zero (trap 1),
 * 64-bit numbers are strings (trap 2), both shapes of an error; anything that
 * doesn't fit is refused, and no mutation of a good reply breaks the reader.
 *
 * Covers: base64.c json.c */
#include "elastic/etcd/json.h"
#include "tests/check.h"

static json_t *parse(const char *text)
{
    return rg__json_parse(text, strlen(text));
}

/* ------------------------------------------------------------ transactions */

static const char txn_reply[] =
    "{\"header\":{\"revision\":\"9007199254740993\"},\"succeeded\":true,"
    "\"responses\":[{\"response_put\":{\"header\":{}}},"
    "{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"2\","
    "\"mod_revision\":\"3\",\"version\":\"1\",\"value\":\"AQA=\"},"
    "{\"key\":\"Yg==\",\"mod_revision\":\"4\","
    "\"lease\":\"9223372036854775807\"}],\"count\":\"2\"}},"
    "{\"response_range\":{}}]}";

static bool read_txn(const char *text, size_t n, rg__txn_reply *reply,
                     rg__kvs *kvs)
{
    json_t *json = rg__json_parse(text, n);
    *kvs = (rg__kvs){0};
    const bool ok = json != NULL && rg__txn_read(json, reply, kvs);
    json_decref(json);
    return ok;
}

static void good_reply_is_read_whole(void)
{
    rg__txn_reply reply;
    rg__kvs kvs;
    CHECK(read_txn(txn_reply, strlen(txn_reply), &reply, &kvs));
    CHECK(reply.succeeded);
    CHECK_EQ(reply.revision, INT64_C(9007199254740993));
    CHECK_EQ(reply.kv_count, 2);
    CHECK_STR(reply.kv[0].key, "a");
    CHECK_EQ(reply.kv[0].value_bytes, 2);
    CHECK(memcmp(reply.kv[0].value, "\1\0", 3) == 0);
    CHECK_EQ(reply.kv[0].lease, 0);
    CHECK_STR(reply.kv[1].value, "");
    CHECK_EQ(reply.kv[1].create_revision, 0);
    CHECK_EQ(reply.kv[1].lease, INT64_MAX);
    rg__kvs_free(&kvs);
}

static bool is_txn(const char *text)
{
    rg__txn_reply reply;
    rg__kvs kvs;
    const bool ok = read_txn(text, strlen(text), &reply, &kvs);
    rg__kvs_free(&kvs);
    return ok;
}

#define HEADER "\"header\":{\"revision\":\"5\"}"
#define WITH_KV(kv)                                                            \
    "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[" kv "]}}]}"

static void what_does_not_fit_is_refused(void)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{" HEADER,
        "{" HEADER "} x",
        "{" HEADER "," HEADER "}",
        "{\"header\":{\"revision\":\"5x\"}}",
        "{\"header\":{\"revision\":\"5\\u0000\"}}",
        "{\"header\":{\"revision\":\"\"}}",
        "{\"header\":{\"revision\":\" 5\"}}",
        "{\"header\":{\"revision\":\"+5\"}}",
        "{\"header\":{\"revision\":\"9223372036854775808\"}}",
        "{\"header\":{\"revision\":9223372036854775808}}",
        "{\"header\":{\"revision\":5.0}}",
        "{\"header\":[]}",
        "{" HEADER ",\"succeeded\":\"true\"}",
        "{" HEADER ",\"responses\":{}}",
        "{" HEADER ",\"responses\":[{\"response_range\":[]}]}",
        WITH_KV("{}"),
        WITH_KV("7"),
        WITH_KV("{\"key\":7}"),
        WITH_KV("{\"key\":\"YQ\"}"),
        WITH_KV("{\"key\":\"AA==\"}"),
        WITH_KV("{\"key\":\"YQ==\",\"value\":\"-_==\"}"),
        WITH_KV("{\"key\":\"YQ==\",\"value\":null}"),
        WITH_KV("{\"key\":\"YQ==\",\"lease\":true}"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (is_txn(bad[i]))
            CHECK_FAIL("taken for a reply: %s", bad[i]);
    CHECK(is_txn("{" HEADER "}"));
    CHECK(is_txn("{\"header\":{\"revision\":5}}"));
    CHECK(is_txn(WITH_KV("{\"key\":\"YQ==\"}")));
}

/* ------------------------------------------------------------------ errors */

static rg__json_fault fault_of(json_t **keep, const char *text)
{
    rg__json_fault fault;
    *keep = parse(text);
    CHECK(*keep != NULL);
    CHECK(rg__json_fault_read(*keep, &fault));
    return fault;
}

static void every_shape_of_an_error_is_read(void)
{
    json_t *json = NULL;
    rg__json_fault fault =
        fault_of(&json, "{\"error\":\"etcdserver: no\",\"message\":"
                        "\"etcdserver: no\",\"code\":5}");
    CHECK_STR(fault.message, "etcdserver: no");
    CHECK_EQ(fault.grpc_code, 5);
    CHECK_EQ(fault.http_code, 0);
    json_decref(json);
    fault = fault_of(&json, "{\"error\":{\"grpc_code\":14,\"http_code\":503,"
                            "\"message\":\"etcdserver: no leader\","
                            "\"http_status\":\"Service Unavailable\"}}");
    CHECK_STR(fault.message, "etcdserver: no leader");
    CHECK_EQ(fault.http_code, 503);
    json_decref(json);
    fault = fault_of(&json, "{\"code\":9, \"message\":\"etcdserver: not "
                            "enabled\"}");
    CHECK_STR(fault.message, "etcdserver: not enabled");
    CHECK_EQ(fault.grpc_code, 9);
    json_decref(json);
    fault = fault_of(&json, "{\"error\":{\"code\":16, \"message\":"
                            "\"etcdserver: invalid auth token\"}}");
    CHECK_STR(fault.message, "etcdserver: invalid auth token");
    CHECK_EQ(fault.grpc_code, 16);
    json_decref(json);
    fault = fault_of(&json, "{\"result\":{}}");
    CHECK(fault.message == NULL);
    json_decref(json);
}

/* ----------------------------------------------------------------- watches */

static const char watch_line[] =
    "{\"result\":{\"header\":{\"revision\":\"7\"},\"watch_id\":\"1\","
    "\"created\":true,\"fragment\":true,\"compact_revision\":\"6\","
    "\"cancel_reason\":\"r\",\"events\":["
    "{\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"7\",\"value\":\"Yg==\"}},"
    "{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"8\"}}]}}";

static void check_event(const json_t *event, bool is_delete, int64_t revision)
{
    bool deletes = !is_delete;
    rg__kv kv;
    CHECK(rg__event_read(event, &deletes, &kv));
    CHECK_EQ(deletes, is_delete);
    CHECK_STR(kv.key, "a");
    CHECK_EQ(kv.mod_revision, revision);
    rg__kv_free(&kv);
}

static void watch_line_is_read_whole(void)
{
    rg__watch_message message;
    json_t *json = parse(watch_line);
    CHECK(rg__watch_read(json, &message));
    CHECK(message.is_created);
    CHECK(message.is_fragment);
    CHECK(!message.is_canceled);
    CHECK_EQ(message.revision, 7);
    CHECK_EQ(message.compact_revision, 6);
    CHECK_STR(message.cancel_reason, "r");
    CHECK_EQ(json_array_size(message.events), 2);
    check_event(json_array_get(message.events, 0), false, 7);
    check_event(json_array_get(message.events, 1), true, 8);
    json_decref(json);
}

static void bad_events_are_refused(void)
{
    static const char *const bad[] = {
        "7",
        "{}",
        "{\"kv\":{}}",
        "{\"kv\":{\"key\":\"YQ==\"}}",
        "{\"type\":\"MOVE\",\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"1\"}}",
        "{\"type\":1,\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"1\"}}",
    };
    bool is_delete = false;
    rg__kv kv;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        CHECK(json != NULL);
        if (rg__event_read(json, &is_delete, &kv))
            CHECK_FAIL("taken for an event: %s", bad[i]);
        json_decref(json);
    }
}

/* --------------------------------------------------------------- mutations */

static void read_as_watch(const char *text, size_t n)
{
    rg__watch_message message;
    bool is_delete = false;
    size_t i = 0;
    rg__kv kv;
    json_t *event = NULL, *json = rg__json_parse(text, n);
    const bool ok = json != NULL && rg__watch_read(json, &message);
    json_t *events = ok ? message.events : NULL;
    json_array_foreach(events, i, event)
    {
        if (rg__event_read(event, &is_delete, &kv))
            rg__kv_free(&kv);
    }
    json_decref(json);
}

static void read_as_txn(const char *text, size_t n)
{
    rg__txn_reply reply;
    rg__kvs kvs;
    if (read_txn(text, n, &reply, &kvs))
        CHECK(reply.revision > 0);
    rg__kvs_free(&kvs);
}

/* A seeded walk, for the sanitizers to look at. */
static void mutations_break_nothing(const char *good)
{
    static const char junk[] = "\"{}[]:,0-9a=\\\n\302\377 tn";
    char text[1024];
    const size_t n = strlen(good);
    unsigned seed = 12345;
    for (int i = 0; i < 20000; i++) {
        memcpy(text, good, n);
        for (int k = 0; k <= i % 3; k++) {
            seed = seed * 1103515245u + 12345u;
            text[(seed >> 8) % n] = junk[(seed >> 20) % (sizeof junk - 1)];
        }
        const size_t cut = i % 7 == 0 ? (seed >> 4) % n : 0;
        read_as_txn(text, n - cut);
        read_as_watch(text, n - cut);
    }
}

int main(void)
{
    good_reply_is_read_whole();
    what_does_not_fit_is_refused();
    every_shape_of_an_error_is_read();
    watch_line_is_read_whole();
    bad_events_are_refused();
    mutations_break_nothing(txn_reply);
    mutations_break_nothing(watch_line);
    return 0;
}
