/* The client on its loop, for tests. */
#include "tests/etcd/scene.h"

#include <stdio.h>

static void on_slice(void *arg)
{
    rg__loop_stop(arg);
}

static void on_state(void *arg, bool up, const char *why)
{
    scene *s = arg;
    if (up)
        s->ups++;
    else
        s->downs++;
    if (!up)
        snprintf(s->why, sizeof s->why, "%s", why);
}

void scene_open_loop(scene *s)
{
    *s = (scene){0};
    CHECK_OK(rg__loop_create(&s->loop));
    s->slice = rg__timer_create(s->loop, on_slice, s->loop);
    CHECK(s->slice != NULL);
}

void scene_connect(scene *s, const char *endpoints, const char *user,
                   const char *password)
{
    const rg__etcd_params params = {.endpoints = endpoints,
                                    .user = user,
                                    .password = password,
                                    .on_state = on_state,
                                    .arg = s};
    CHECK_OK(rg__etcd_create(s->loop, &params, &s->etcd));
}

void scene_open_as(scene *s, const char *endpoints, const char *user,
                   const char *password)
{
    scene_open_loop(s);
    scene_connect(s, endpoints, user, password);
}

void scene_open(scene *s, const char *endpoints)
{
    scene_open_as(s, endpoints, NULL, NULL);
}

void scene_close(scene *s)
{
    rg__etcd_destroy(s->etcd);
    rg__timer_destroy(s->slice);
    rg__loop_destroy(s->loop);
    *s = (scene){0};
}

void scene_turn(scene *s)
{
    rg__timer_set(s->slice, RG__MS);
    rg__loop_run(s->loop);
}

void scene_run_for(scene *s, int ms)
{
    const uint64_t end = rg__now_ns() + (uint64_t)ms * RG__MS;
    while (rg__now_ns() < end)
        scene_turn(s);
}

static void copy_first(outcome *o, const rg__kv *kv)
{
    snprintf(o->key, sizeof o->key, "%s", kv->key);
    snprintf(o->value, sizeof o->value, "%s", kv->value);
    o->create_revision = kv->create_revision;
    o->mod_revision = kv->mod_revision;
    o->lease = kv->lease;
}

void outcome_take(void *arg, rg_status st, const rg__txn_reply *reply)
{
    outcome *o = arg;
    CHECK(!o->is_done);
    *o = (outcome){.is_done = true, .st = st};
    if (st != RG_OK) {
        snprintf(o->error, sizeof o->error, "%s", rg_last_error());
        return;
    }
    o->succeeded = reply->succeeded;
    o->revision = reply->revision;
    o->sendings = reply->sendings;
    o->kv_count = reply->kv_count;
    if (reply->kv_count > 0)
        copy_first(o, &reply->kv[0]);
}

outcome scene_txn(scene *s, rg__txn *txn)
{
    outcome o = {0};
    CHECK(rg__etcd_txn(s->etcd, txn, outcome_take, &o) != NULL);
    CHECK(!o.is_done); /* never from inside the call */
    WAIT_FOR(s, o.is_done);
    return o;
}

outcome scene_get(scene *s, const char *key)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, key, NULL);
    return scene_txn(s, txn);
}

outcome scene_put(scene *s, const char *key, const char *value, int64_t lease)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_put(txn, key, value, lease);
    return scene_txn(s, txn);
}

const rg__kv *mirrored(const rg__mirror *mirror, const char *key)
{
    for (size_t i = 0; i < rg__mirror_count(mirror); i++)
        if (strcmp(rg__mirror_at(mirror, i)->key, key) == 0)
            return rg__mirror_at(mirror, i);
    return NULL;
}

void echoes_take(void *arg, int64_t revision, bool wiped)
{
    echoes *e = arg;
    e->calls++;
    e->wipes += wiped;
    e->revision = revision;
}
