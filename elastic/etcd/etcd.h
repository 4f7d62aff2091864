/* etcd v3 over its JSON gateway: keys, transactions, leases, watches.
 *
 * Threads:   everything runs on the thread of the loop; callbacks too, never
 *            from inside the call that made the request.
 * Ownership: keys and values in callbacks are borrowed until they return;
 *            keys and values given to calls are copied.
 * Waiting:   nothing blocks. A request is sent again, to the next endpoint and
 *            with jittered back-off, until etcd has answered definitely or it
 *            is cancelled. That is safe because every write is a transaction
 *            guarded by revisions: at most one sending can apply. A caller
 * whose guard failed reads the failure branch to learn whether an earlier
 * sending of its own was the one that applied. */
#ifndef RG_ELASTIC_ETCD_H
#define RG_ELASTIC_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "regroup/regroup.h"
#include "sdk/base/loop.h"

typedef struct rg__etcd rg__etcd;
typedef struct rg__etcd_req rg__etcd_req;

typedef struct rg__etcd_params {
    /* "http://a:2379,http://b:2379", https://, or unix:///a/socket/here */
    const char *endpoints;
    const char *user, *password; /* NULL: no authentication */
    /* PEM files of https endpoints, read for each connection: the CAs that may
     * sign etcd's certificate (NULL: those that this machine trusts), our own
     * certificate (NULL: none), and its key (NULL: in the same file). */
    const char *cacert, *cert, *key;
    /* Told when etcd is away (up = false, why = cause: for about a second no
     * request has succeeded, or one has been refused again and again by an
     * etcd that takes no writes) and when it is back. NULL allowed. */
    void (*on_state)(void *arg, bool up, const char *why);
    void *arg;
} rg__etcd_params;

/* ERR_INVALID: malformed endpoints, or files without https. No connection is
 * made yet. SIGPIPE is to be ignored while there are https endpoints. */
rg_status rg__etcd_create(rg__loop *loop, const rg__etcd_params *params,
                          rg__etcd **etcd_p);
/* Cancels every request, and destroys what was made with it: leases (which are
 * not revoked by that) and mirrors. From any callback; NULL allowed. */
void rg__etcd_destroy(rg__etcd *etcd);

/* false after about a second without an answer, or in which etcd has taken no
 * writes; why is the last cause. */
bool rg__etcd_is_up(const rg__etcd *etcd);
/* It is up, and nothing has failed or was refused since the last answer. */
bool rg__etcd_is_sound(const rg__etcd *etcd);
/* A time limit has passed at an endpoint that takes connections: its answers
 * come late, and are waited for. */
bool rg__etcd_is_slow(const rg__etcd *etcd);
/* It answers, but takes no writes: its database is full, for example. */
bool rg__etcd_is_refusing(const rg__etcd *etcd);
/* What it does while it is away: "does not answer" or "takes no writes". */
const char *rg__etcd_lack(const rg__etcd *etcd);
const char *rg__etcd_why(const rg__etcd *etcd);

/* Host and port (2379 where it names none) of the first endpoint of a list;
 * loopback for a socket's. false: it has no host, or a long one. */
bool rg__etcd_split(const char *endpoints, char *host, size_t host_bytes,
                    char *port, size_t port_bytes);

/* ------------------------------------------------------------ transactions */

typedef struct rg__kv {
    const char *key;
    const char *value; /* value_bytes of them, and a NUL behind */
    size_t value_bytes;
    int64_t create_revision, mod_revision, version, lease;
} rg__kv;

typedef struct rg__txn rg__txn;

rg__txn *rg__txn_create(void);
void rg__txn_destroy(rg__txn *txn);

/* Nothing has to be checked while a txn is built: a key, a value or a txn that
 * is NULL, for lack of memory, fails the whole when it is sent. */

/* Guards: all must hold. Revision 0 means "the key does not exist". */
void rg__txn_if_create(rg__txn *txn, const char *key, int64_t revision);
void rg__txn_if_mod(rg__txn *txn, const char *key, int64_t revision);
void rg__txn_if_value(rg__txn *txn, const char *key, const char *value);
/* No key in the range was put after that revision; keys may have gone. */
void rg__txn_if_unchanged(rg__txn *txn, const char *key, const char *range_end,
                          int64_t revision);

/* Operations; branch says when. range_end NULL: the key alone;
 * rg__prefix_end(key) for a prefix. lease 0: none. At most 128 of each. */
typedef enum rg__branch { RG__THEN, RG__ELSE } rg__branch;
void rg__txn_put(rg__txn *txn, const char *key, const char *value,
                 int64_t lease);
void rg__txn_get(rg__txn *txn, rg__branch branch, const char *key,
                 const char *range_end);
/* The same of the first key in the range. */
void rg__txn_get_first(rg__txn *txn, const char *key, const char *range_end);
void rg__txn_delete(rg__txn *txn, const char *key, const char *range_end);

/* The smallest key behind every key with that prefix, malloc'd. */
char *rg__prefix_end(const char *prefix);

typedef struct rg__txn_reply {
    bool succeeded;
    int64_t revision; /* of the store when it answered */
    const rg__kv *kv; /* of all gets of the branch taken, in order */
    size_t kv_count;
    int64_t matched; /* keys in all those ranges; more than came, if one was
                        asked for its first alone */
    int sendings; /* how often it was sent; > 1: an earlier one may have won */
} rg__txn_reply;

/* st OK: reply holds the answer. ERR_STORE: etcd refused it for good (a bad
 * password, no permission, malformed), and rg_last_error says why. */
typedef void (*rg__txn_fn)(void *arg, rg_status st, const rg__txn_reply *reply);

/* Send; takes ownership of txn. A plain read is a txn without guards. NULL: no
 * memory, also while txn was built; fn is not called. */
rg__etcd_req *rg__etcd_txn(rg__etcd *etcd, rg__txn *txn, rg__txn_fn fn,
                           void *arg);

/* Forget a request: fn is not called; whether it applied is unknown. */
void rg__etcd_cancel(rg__etcd_req *req);

/* ------------------------------------------------------------------ leases */

typedef struct rg__lease rg__lease;

/* RG__LEASE_HELD: the lease was granted (its id is final from create on).
 * RG__LEASE_LOST: a keepalive was answered without TTL; the keys under it are
 * gone or going; it is granted again under the same id, and HELD follows. */
typedef enum rg__lease_event { RG__LEASE_HELD, RG__LEASE_LOST } rg__lease_event;
typedef void (*rg__lease_fn)(void *arg, rg__lease_event event);

/* Grant a lease of a random id chosen here and keep it alive every ttl / 3. */
rg_status rg__lease_create(rg__etcd *etcd, int ttl_s, rg__lease_fn fn,
                           void *arg, rg__lease **lease_p);
/* The same with an id that is known: one that is held still goes on. */
rg_status rg__lease_resume(rg__etcd *etcd, int64_t id, int ttl_s,
                           rg__lease_fn fn, void *arg, rg__lease **lease_p);
int64_t rg__lease_id(const rg__lease *lease);
/* If it is lost, it is granted again for so long. */
void rg__lease_ask(rg__lease *lease, int ttl_s);
/* Stop keeping it alive and revoke it (best effort; rg__etcd_destroy right
 * behind waits for that, a fifth of a second at most). NULL allowed. */
void rg__lease_destroy(rg__lease *lease);

/* ----------------------------------------------------------------- mirrors */

/* A mirror is a local copy of a range, listed once (linearizable) and watched
 * from then on; it relists after compaction, a wiped store, a parse error or a
 * deaf watch. No decision rests on it: a change only says "look again". */
typedef struct rg__mirror rg__mirror;

/* Called after the copy has changed (once per batch of events), with the
 * revision it now stands at. wiped: the store is another or older one. */
typedef void (*rg__mirror_fn)(void *arg, int64_t revision, bool wiped);

/* meta_key: a key whose create_revision identifies the store (watched as part
 * of the guard), NULL for none. */
rg_status rg__mirror_create(rg__etcd *etcd, const char *key,
                            const char *range_end, const char *meta_key,
                            rg__mirror_fn fn, void *arg, rg__mirror **mirror_p);
void rg__mirror_destroy(rg__mirror *mirror);
/* So many clients mirror this range: while nothing happens each asks less often
 * whether its watch is deaf, all together as often as some tens of clients. */
void rg__mirror_crowd(rg__mirror *mirror, int clients);
/* Something has changed, as others say: if nothing comes here soon, ask. */
void rg__mirror_expect(rg__mirror *mirror);
bool rg__mirror_is_listed(const rg__mirror *mirror);
int64_t rg__mirror_revision(const rg__mirror *mirror);
size_t rg__mirror_count(const rg__mirror *mirror);
const rg__kv *rg__mirror_at(const rg__mirror *mirror, size_t i); /* by key */

/* ---------------------------------------------------------- administration */

/* Turn on authentication on a fresh private etcd: user root with this password,
 * which this client uses from then on. fn(OK): it is on, also if it was before.
 * Used by `regroup run` only. */
typedef void (*rg__etcd_fn)(void *arg, rg_status st);
void rg__etcd_enable_auth(rg__etcd *etcd, const char *password, rg__etcd_fn fn,
                          void *arg);

/* May this client, which should have no user, change alarms? It asks to take
 * back an alarm of no kind, which cannot have been raised: fn(OK) says that it
 * may, and nothing has changed. */
void rg__etcd_probe_alarm(rg__etcd *etcd, rg__etcd_fn fn, void *arg);

#endif
