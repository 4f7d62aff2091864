/* A loop with a client on it, and waiting for what should become true. */
#ifndef TESTS_ETCD_SCENE_H
#define TESTS_ETCD_SCENE_H

#include "elastic/etcd/etcd.h"
#include "sdk/base/clock.h"
#include "tests/check.h"

#define PATIENCE_MS 20000 /* bounds a hang; nothing takes that long */

typedef struct scene {
    rg__loop *loop;
    rg__etcd *etcd;
    rg__timer *slice;
    int ups, downs; /* on_state calls */
    char why[512];  /* of the last down */
} scene;

void scene_open(scene *s, const char *endpoints);
void scene_open_as(scene *s, const char *endpoints, const char *user,
                   const char *password);
/* A loop alone, for tests that need a server on it before the client. */
void scene_open_loop(scene *s);
void scene_connect(scene *s, const char *endpoints, const char *user,
                   const char *password);
void scene_close(scene *s);
void scene_turn(scene *s); /* run the loop for about a millisecond */
/* Run it for a time, for claims that something does not happen. */
void scene_run_for(scene *s, int ms);

#define WAIT_FOR(s, claim)                                                     \
    do {                                                                       \
        const uint64_t wait_end = rg__now_ns() + PATIENCE_MS * RG__MS;         \
        while (!(claim)) {                                                     \
            if (rg__now_ns() > wait_end)                                       \
                CHECK_FAIL("this never came true: %s", #claim);                \
            scene_turn(s);                                                     \
        }                                                                      \
    } while (0)

/* What a transaction came to; texts are copied. */
typedef struct outcome {
    bool is_done;
    rg_status st;
    bool succeeded;
    int64_t revision;
    int sendings;
    size_t kv_count;
    char key[64], value[256], error[512]; /* of the first key */
    int64_t create_revision, mod_revision, lease;
} outcome;

void outcome_take(void *arg, rg_status st, const rg__txn_reply *reply);
/* Send and wait. */
outcome scene_txn(scene *s, rg__txn *txn);
outcome scene_get(scene *s, const char *key);
outcome scene_put(scene *s, const char *key, const char *value, int64_t lease);

/* A key in a mirror; NULL: it is not there. */
const rg__kv *mirrored(const rg__mirror *mirror, const char *key);

/* Counts what a mirror says. */
typedef struct echoes {
    int calls, wipes;
    int64_t revision;
} echoes;
void echoes_take(void *arg, int64_t revision, bool wiped);

#endif
