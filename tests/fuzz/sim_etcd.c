#include "tests/fuzz/sim_etcd.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "elastic/etcd/base64.h"
#include "elastic/etcd/json.h"
#include "tests/fuzz/sim.h"

#define WATCHES_MAX 16
#define ANSWERS_MAX 200
#define SHOWN       4 /* of requests that don't end */

typedef struct record {
    char *key, *value;
    int64_t create, mod, version, lease;
} record;

typedef struct event {
    int64_t revision;
    char *text; /* JSON, as in a watch's message */
    char *key;
} event;

typedef struct watch {
    uint64_t number; /* of its request */
    char *key, *end;
    int64_t next; /* revision to be told next */
    bool is_created;
} watch;

static record *store; /* by key */
static int keys, keys_room;
static event *happened; /* in their order */
static int events, events_room;
int sim_etcd_keys_max = 512;
uint64_t sim_etcd_asked, sim_etcd_asked_bytes, sim_etcd_answered_bytes;
void (*sim_etcd_noted)(const char *key, int64_t revision, size_t bytes);
static watch watches[WATCHES_MAX];
static int watching;
static int64_t revision, leases[64];
static int granted;

/* ------------------------------------------------------------------- texts */

static char *text_of(const json_t *request, const char *name)
{
    const json_t *member = json_object_get(request, name);
    const char *chars = json_is_string(member) ? json_string_value(member) : "";
    const size_t n = strlen(chars);
    char *text = calloc(1, rg__base64_bytes(n) + 1);
    size_t bytes = 0;
    FUZZ_CLAIM(text != NULL);
    FUZZ_CLAIM(rg__base64_decode(chars, n, text, &bytes)); /* ours wrote it */
    text[bytes] = '\0';
    return text;
}

static json_t *base64(const char *text)
{
    const size_t n = strlen(text);
    char *chars = calloc(1, rg__base64_chars(n) + 1);
    FUZZ_CLAIM(chars != NULL);
    rg__base64_encode(text, n, chars);
    json_t *j = json_string(chars);
    free(chars);
    return j;
}

static json_t *number(int64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, n);
    return json_string(text);
}

static int64_t number_of(const json_t *request, const char *name)
{
    int64_t n = 0;
    FUZZ_CLAIM(rg__json_int64(request, name, &n));
    return n;
}

/* ------------------------------------------------------------------- store */

/* Room for one more. */
static void *grow(void *list, int n, int *room, size_t size)
{
    if (n < *room)
        return list;
    *room = 2 * *room + 64;
    list = realloc(list, size * (size_t)*room);
    FUZZ_CLAIM(list != NULL);
    return list;
}

static int place_of(const char *key)
{
    int low = 0, high = keys;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (strcmp(store[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static record *find(const char *key)
{
    const int at = place_of(key);
    return at < keys && strcmp(store[at].key, key) == 0 ? &store[at] : NULL;
}

static json_t *record_json(const record *r, bool has_value)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "key", base64(r->key),
                     "value", base64(has_value ? r->value : ""),
                     "create_revision", number(r->create), "mod_revision",
                     number(r->mod), "version", number(r->version), "lease",
                     number(r->lease));
}

static void note(const char *key, json_t *what)
{
    happened = grow(happened, events, &events_room, sizeof *happened);
    event *e = &happened[events++];
    *e = (event){.revision = revision,
                 .text = json_dumps(what, JSON_COMPACT),
                 .key = strdup(key)};
    json_decref(what);
    if (sim_etcd_noted != NULL)
        sim_etcd_noted(key, revision, strlen(e->text));
}

static void put(const char *key, const char *value, int64_t lease)
{
    record *r = find(key);
    if (r == NULL && keys == sim_etcd_keys_max)
        return;
    if (r == NULL) {
        const int at = place_of(key);
        store = grow(store, keys, &keys_room, sizeof *store);
        memmove(&store[at + 1], &store[at],
                sizeof *store * (size_t)(keys++ - at));
        r = &store[at];
        *r = (record){.key = strdup(key), .create = revision};
    }
    free(r->value);
    r->value = strdup(value);
    r->mod = revision;
    r->version++;
    r->lease = lease;
    note(key, json_pack("{s:o}", "kv", record_json(r, true)));
}

static void drop(const char *key)
{
    record *r = find(key);
    if (r == NULL)
        return;
    note(key, json_pack("{s:s,s:{s:o,s:o}}", "type", "DELETE", "kv", "key",
                        base64(key), "mod_revision", number(revision)));
    free(r->key);
    free(r->value);
    keys--;
    memmove(r, r + 1, sizeof *r * (size_t)(&store[keys] - r));
}

static bool is_inside(const char *key, const char *from, const char *end)
{
    return end[0] == '\0' ? strcmp(key, from) == 0
                          : strcmp(key, from) >= 0 && strcmp(key, end) < 0;
}

/* -------------------------------------------------------------- transactions
 */

/* Of a range: no key was put since. */
static bool is_unchanged(const json_t *compare)
{
    char *from = text_of(compare, "key"), *end = text_of(compare, "range_end");
    bool ok = true;
    for (int i = 0; i < keys; i++)
        ok = ok && (!is_inside(store[i].key, from, end) ||
                    store[i].mod < number_of(compare, "mod_revision"));
    free(from);
    free(end);
    return ok;
}

static bool holds(const json_t *compare)
{
    if (json_object_get(compare, "result") != NULL)
        return is_unchanged(compare);
    char *key = text_of(compare, "key");
    const record *r = find(key);
    const char *target = json_string_value(json_object_get(compare, "target"));
    bool ok = false;
    FUZZ_CLAIM(target != NULL);
    if (strcmp(target, "CREATE") == 0)
        ok = number_of(compare, "create_revision") == (r ? r->create : 0);
    else if (strcmp(target, "MOD") == 0)
        ok = number_of(compare, "mod_revision") == (r ? r->mod : 0);
    else if (strcmp(target, "LEASE") == 0)
        ok = number_of(compare, "lease") == (r ? r->lease : 0);
    else {
        char *value = text_of(compare, "value");
        ok = r != NULL && strcmp(r->value, value) == 0;
        free(value);
    }
    free(key);
    return ok;
}

static json_t *range(const json_t *request)
{
    char *from = text_of(request, "key"), *end = text_of(request, "range_end");
    const int64_t least = number_of(request, "min_mod_revision");
    const int64_t limit = number_of(request, "limit");
    const bool has_value = !json_is_true(json_object_get(request, "keys_only"));
    json_t *kvs = json_array();
    int64_t count = 0;
    for (int i = 0; i < keys; i++) {
        if (!is_inside(store[i].key, from, end))
            continue;
        count++;
        if (store[i].mod >= least &&
            (limit == 0 || (int64_t)json_array_size(kvs) < limit))
            json_array_append_new(kvs, record_json(&store[i], has_value));
    }
    free(from);
    free(end);
    return json_pack("{s:{s:o,s:o}}", "response_range", "kvs", kvs, "count",
                     number(count));
}

static json_t *write_one(const json_t *request)
{
    char *key = text_of(request, "key"), *value = text_of(request, "value");
    put(key, value, number_of(request, "lease"));
    free(key);
    free(value);
    return json_pack("{s:{}}", "response_put");
}

static json_t *drop_some(const json_t *request)
{
    char *from = text_of(request, "key"), *end = text_of(request, "range_end");
    for (int i = keys - 1; i >= 0; i--)
        if (is_inside(store[i].key, from, end))
            drop(store[i].key);
    free(from);
    free(end);
    return json_pack("{s:{}}", "response_delete_range");
}

static json_t *operate(const json_t *operation)
{
    const json_t *get = json_object_get(operation, "request_range");
    const json_t *set = json_object_get(operation, "request_put");
    const json_t *del = json_object_get(operation, "request_delete_range");
    FUZZ_CLAIM(get != NULL || set != NULL || del != NULL);
    return get != NULL   ? range(get)
           : set != NULL ? write_one(set)
                         : drop_some(del);
}

static bool has_writes(const json_t *branch)
{
    size_t i = 0;
    json_t *one = NULL;
    json_array_foreach(branch, i, one)
    {
        if (json_object_get(one, "request_range") == NULL)
            return true;
    }
    return false;
}

static json_t *transact(const json_t *request)
{
    bool succeeded = true;
    size_t i = 0;
    json_t *one = NULL, *responses = json_array();
    json_array_foreach(json_object_get(request, "compare"), i, one)
    {
        succeeded = succeeded && holds(one);
    }
    const json_t *branch =
        json_object_get(request, succeeded ? "success" : "failure");
    revision += has_writes(branch);
    json_array_foreach(branch, i, one)
    {
        json_array_append_new(responses, operate(one));
    }
    return json_pack("{s:{s:o},s:b,s:o}", "header", "revision",
                     number(revision), "succeeded", succeeded, "responses",
                     responses);
}

/* ----------------------------------------------------------------- watches */

static void forget_watch(int i)
{
    free(watches[i].key);
    free(watches[i].end);
    watches[i] = watches[--watching];
}

static bool is_watched(uint64_t number)
{
    for (int i = 0; i < watching; i++)
        if (watches[i].number == number)
            return true;
    return false;
}

static void begin_watch(sim_request *r)
{
    json_t *request = json_loads(sim_request_body(r), 0, NULL);
    const json_t *create = json_object_get(request, "create_request");
    FUZZ_CLAIM(create != NULL);
    if (watching < WATCHES_MAX)
        watches[watching++] =
            (watch){.number = sim_request_number(r),
                    .key = text_of(create, "key"),
                    .end = text_of(create, "range_end"),
                    .next = number_of(create, "start_revision")};
    json_decref(request);
}

static void say(sim_request *r, json_t *result)
{
    json_t *message = json_pack("{s:o}", "result", result);
    char *text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    char *line = NULL;
    FUZZ_CLAIM(text != NULL && asprintf(&line, "%s\n", text) > 0);
    sim_data(r, line, strlen(line));
    free(line);
    free(text);
}

/* What one watch has not been told yet; true: it was told something. */
static bool tell(watch *w)
{
    json_t *list = json_array();
    int first = events;
    while (first > 0 && happened[first - 1].revision >= w->next)
        first--;
    for (int i = first; i < events; i++)
        if (is_inside(happened[i].key, w->key, w->end))
            json_array_append_new(list, json_loads(happened[i].text, 0, NULL));
    if (w->is_created && json_array_size(list) == 0) {
        json_decref(list);
        return false;
    }
    json_t *result =
        json_pack("{s:{s:o},s:b,s:o}", "header", "revision", number(revision),
                  "created", !w->is_created, "events", list);
    w->is_created = true;
    w->next = revision + 1;
    say(sim_request_numbered(w->number), result); /* may end the watch */
    return true;
}

/* Requests that went by themselves have taken their watches with them. */
static bool tell_watches(void)
{
    for (int i = watching - 1; i >= 0; i--)
        if (sim_request_numbered(watches[i].number) == NULL)
            forget_watch(i);
    for (sim_request *r = sim_request_first(SIM_STREAM); r != NULL;
         r = sim_request_next(r, SIM_STREAM))
        if (!is_watched(sim_request_number(r)))
            begin_watch(r);
    for (int i = 0; i < watching; i++)
        if (tell(&watches[i]))
            return true;
    return false;
}

/* ----------------------------------------------------------------- answers */

static json_t *answer_lease(const char *path, const json_t *request)
{
    const int64_t id = number_of(request, "ID");
    int at = 0;
    while (at < granted && leases[at] != id)
        at++;
    if (strcmp(path, "/v3/lease/grant") == 0) {
        if (at == granted && granted < 64)
            leases[granted++] = id;
        return json_pack("{s:o,s:o}", "ID", number(id), "TTL",
                         number(number_of(request, "TTL")));
    }
    if (strcmp(path, "/v3/lease/keepalive") == 0)
        return json_pack("{s:{s:o,s:o}}", "result", "ID", number(id), "TTL",
                         number(at < granted ? 10 : 0));
    return json_object(); /* revoke */
}

static void answer(sim_request *r)
{
    json_t *request = json_loads(sim_request_body(r), 0, NULL);
    FUZZ_CLAIM(request != NULL);
    const char *path = sim_request_path(r);
    sim_etcd_asked++;
    sim_etcd_asked_bytes += strlen(sim_request_body(r));
    json_t *reply = strcmp(path, "/v3/kv/txn") == 0
                        ? transact(request)
                        : answer_lease(path, request);
    char *text = json_dumps(reply, JSON_COMPACT);
    FUZZ_CLAIM(text != NULL);
    json_decref(request);
    json_decref(reply);
    sim_etcd_answered_bytes += strlen(text);
    sim_answer(r, 200, text, strlen(text));
    free(text);
}

void sim_etcd_serve(void)
{
    bool is_quiet = false;
    for (int i = 0; i < ANSWERS_MAX && !is_quiet; i++) {
        sim_request *r = sim_request_first(SIM_UNARY);
        if (i > ANSWERS_MAX - SHOWN && r != NULL)
            dprintf(2, "asked: %s\n", sim_request_body(r));
        if (r != NULL)
            answer(r);
        else
            is_quiet = !tell_watches();
    }
    FUZZ_CLAIM(is_quiet); /* no request is repeated without a pause */
}

/* ---------------------------------------------------------- other clients */

void sim_etcd_open(void)
{
    revision = 1;
}

void sim_etcd_put(const char *key, const char *value)
{
    revision++;
    if (value != NULL)
        put(key, value, 0);
    else
        drop(key);
}

const char *sim_etcd_get(const char *key)
{
    const record *r = find(key);
    return r != NULL ? r->value : NULL;
}

void sim_etcd_expire(void)
{
    revision++;
    granted = 0;
    for (int i = keys - 1; i >= 0; i--)
        if (store[i].lease != 0)
            drop(store[i].key);
}

void sim_etcd_close(void)
{
    while (watching > 0)
        forget_watch(0);
    while (keys > 0)
        drop(store[keys - 1].key);
    for (int i = 0; i < events; i++) {
        free(happened[i].key);
        free(happened[i].text);
    }
    free(store);
    free(happened);
    store = NULL;
    happened = NULL;
    events = granted = keys_room = events_room = 0;
}
