/* A store that behaves as etcd does, for the requests of sim.h: transactions,
 * leases that never expire by themselves, and watches. */
#ifndef TESTS_FUZZ_SIM_ETCD_H
#define TESTS_FUZZ_SIM_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void sim_etcd_open(void);
void sim_etcd_close(void);

/* Answer what is asked and tell watches what has happened, until nobody asks
 * any more, which must come about while no time passes. */
void sim_etcd_serve(void);

extern int sim_etcd_keys_max; /* one more is not taken */
/* Requests that were answered. */
extern uint64_t sim_etcd_asked, sim_etcd_asked_bytes, sim_etcd_answered_bytes;
/* Called with each event, of which a watch is told so many bytes; or NULL. */
extern void (*sim_etcd_noted)(const char *key, int64_t revision, size_t bytes);

/* What another client does; a whole key. NULL: delete. */
void sim_etcd_put(const char *key, const char *value);
/* Borrowed until the key changes; NULL: it is not there. */
const char *sim_etcd_get(const char *key);
/* Every key of a lease goes, and the lease. */
void sim_etcd_expire(void);

#endif
