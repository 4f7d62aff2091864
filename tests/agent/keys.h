/* A job's keys in an etcd, for tests of what an agent does with them. */
#ifndef TESTS_AGENT_KEYS_H
#define TESTS_AGENT_KEYS_H

#include "tests/agent/agents.h"
#include "tests/etcd/scene.h"
#include "tests/lib/etcd_server.h"

#define KEYS     "/regroup/v1/test/"
#define KEYS_END "/regroup/v1/test0"

/* key is what follows the prefix; takes the text. */
void keys_put(etcd_server *server, const char *key, char *text);
/* meta, for a world of that size. */
void keys_put_meta(etcd_server *server, int size);
/* Host "h<id>" with one slot, whose worker is at the door. */
void keys_put_host(etcd_server *server, uint64_t id);
void keys_put_leader(etcd_server *server, uint64_t id);

/* An agent "h<id>" with a lease and that scene's client, which reads all keys
 * once and hears of no later change: see known and view. */
rg__agent *keys_open_agent(scene *s, uint64_t id);
void keys_close_agent(rg__agent *a);

#endif
