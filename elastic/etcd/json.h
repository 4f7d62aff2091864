/* What etcd's gateway says, read strictly: absent means zero, 64-bit integers
 * are strings, bytes are base64, and whatever doesn't fit is refused as a
 * whole. Nothing here knows the network. */
#ifndef RG_ELASTIC_ETCD_JSON_H
#define RG_ELASTIC_ETCD_JSON_H

#include <jansson.h>

#include "elastic/etcd/etcd.h"

/* NULL: not one JSON value, or one with a name twice. */
json_t *rg__json_parse(const char *text, size_t n);

/* A member of an object; absent: 0, false, NULL. false: of another type. */
bool rg__json_int64(const json_t *object, const char *name, int64_t *value_p);
bool rg__json_bool(const json_t *object, const char *name, bool *value_p);
bool rg__json_string(const json_t *object, const char *name,
                     const char **value_p);
bool rg__json_object(const json_t *object, const char *name, json_t **value_p);
/* header.revision of a reply. */
bool rg__json_revision(const json_t *reply, int64_t *revision_p);

/* A key with its value; both parts are in one allocation, owned by kv. */
void rg__kv_free(rg__kv *kv);

/* Both shapes of an error: {"error":"text","code":5} and, in streams,
 * {"error":{"message":"text","grpc_code":14,"http_code":503}}. */
typedef struct rg__json_fault {
    const char *message; /* NULL: no error; borrowed from the reply */
    int64_t http_code;   /* 0: not told here */
    int64_t grpc_code;
} rg__json_fault;
bool rg__json_fault_read(const json_t *reply, rg__json_fault *fault);

/* A list of keys that grows; zeroed: empty. */
typedef struct rg__kvs {
    rg__kv *kv;
    size_t n;
    int64_t total; /* "count" of the last range read into it */
} rg__kvs;
void rg__kvs_free(rg__kvs *kvs);
/* Add the keys of a range reply. */
bool rg__kvs_read(const json_t *range, rg__kvs *kvs);

/* The i-th answer of a transaction, which must be one to a range. */
const json_t *rg__txn_range(const json_t *reply, size_t i);
/* A reply to a transaction; free out->kv through kvs. */
bool rg__txn_read(const json_t *reply, rg__txn_reply *out, rg__kvs *kvs);

/* A message of a watch. Everything is borrowed from the JSON. */
typedef struct rg__watch_message {
    rg__json_fault fault;
    int64_t revision, compact_revision;
    bool is_created, is_canceled, is_fragment;
    const char *cancel_reason; /* "" when absent */
    json_t *events;            /* NULL: none */
} rg__watch_message;
bool rg__watch_read(const json_t *line, rg__watch_message *message);

/* An event: the key as it is now, or only its name and when it went. */
bool rg__event_read(const json_t *event, bool *is_delete_p, rg__kv *kv);

#endif
