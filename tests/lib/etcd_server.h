/* A real etcd of the test's own: free ports, own directory, gone when the test
 * ends, however it ends. All calls block; every wait is bounded. */
#ifndef TESTS_LIB_ETCD_SERVER_H
#define TESTS_LIB_ETCD_SERVER_H

#include <stddef.h>
#include <sys/types.h>

typedef struct etcd_server etcd_server;

/* Start one and wait until it has taken a write. Skips the test when there is
 * no etcd (ETCD_BIN names one that is not on the PATH). */
etcd_server *etcd_server_start(void);
/* The same with more options, up to a NULL. */
etcd_server *etcd_server_start_with(const char *const *options);
/* Start two that form a cluster, which has no leader without both. */
void etcd_server_start_pair(etcd_server *pair[2]);

const char *etcd_server_url(const etcd_server *server);
pid_t etcd_server_pid(const etcd_server *server); /* 0: it was killed */

void etcd_server_kill(etcd_server *server);    /* SIGKILL; wait for it */
void etcd_server_begin(etcd_server *server);   /* after kill; doesn't wait */
void etcd_server_restart(etcd_server *server); /* kill, begin, ready */
void etcd_server_wipe(etcd_server *server);    /* kill, empty, begin, ready */
void etcd_server_pause(etcd_server *server);   /* SIGSTOP; wait for it */
void etcd_server_resume(etcd_server *server);  /* SIGCONT */
void etcd_server_stop(etcd_server *server);    /* and free; NULL allowed */

/* Ask it behind the client's back: POST, and the HTTP code, 0 when there is no
 * answer. The reply is cut to bytes with a NUL; NULL allowed. */
int etcd_server_post(const etcd_server *server, const char *path,
                     const char *body, char *reply, size_t bytes);
/* Put a key, expecting that it works. */
void etcd_server_put(const etcd_server *server, const char *key,
                     const char *value);
void etcd_server_delete(const etcd_server *server, const char *key);

#endif
