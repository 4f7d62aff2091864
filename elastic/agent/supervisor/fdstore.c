#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/fail.h"

/* A record that the supervisor's queue has had no room for yet. */
typedef struct unsent {
    struct unsent *next;
    int fd[RG__FDRECORD_FDS], fds; /* owned */
    size_t n;
    rg__fdrecord_message m; /* n bytes of it */
} unsent;

struct rg__fdstore {
    int sock; /* -1: the supervisor is gone */
    rg__loop *loop;
    rg__fdstore_events events;
    rg__fdrecord_list born_with;
    struct rlimit descriptors;
    unsent *first; /* in order */
};

rg_status rg__fdstore_create(int sock, const rg__fdrecord_list *records,
                             const struct rlimit *descriptors,
                             rg__fdstore **fdstore_p)
{
    rg__fdstore *fdstore = calloc(1, sizeof *fdstore);
    if (fdstore == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the descriptor store");
    fdstore->sock = sock;
    fdstore->born_with = *records;
    fdstore->descriptors = *descriptors;
    *fdstore_p = fdstore;
    return RG_OK;
}

static void free_unsent(unsent *u)
{
    for (int i = 0; i < u->fds; i++)
        if (u->fd[i] >= 0)
            close(u->fd[i]);
    free(u);
}

static void hang_up(rg__fdstore *fdstore)
{
    if (fdstore->sock < 0)
        return;
    if (fdstore->loop != NULL)
        rg__loop_unwatch(fdstore->loop, fdstore->sock);
    close(fdstore->sock);
    fdstore->sock = -1;
    while (fdstore->first != NULL) {
        unsent *u = fdstore->first;
        fdstore->first = u->next;
        free_unsent(u);
    }
}

void rg__fdstore_destroy(rg__fdstore *fdstore)
{
    if (fdstore == NULL)
        return;
    hang_up(fdstore);
    rg__fdrecord_clear(&fdstore->born_with);
    free(fdstore);
}

/* -------------------------------------------------------------------- send */

static void on_socket(void *arg, int fd, uint32_t events);

static void watch(rg__fdstore *fdstore)
{
    const uint32_t out = fdstore->first != NULL ? EPOLLOUT : 0;
    if (fdstore->loop != NULL && fdstore->sock >= 0)
        rg__loop_watch(fdstore->loop, fdstore->sock, EPOLLIN | out, on_socket,
                       fdstore);
}

static void send_waiting(rg__fdstore *fdstore)
{
    while (fdstore->first != NULL) {
        unsent *u = fdstore->first;
        if (rg__sock_send(fdstore->sock, &u->m, u->n, u->fd, u->fds) ==
            RG_IN_PROGRESS)
            break;
        fdstore->first = u->next;
        free_unsent(u);
    }
    watch(fdstore);
}

static void wait_for_room(rg__fdstore *fdstore, const rg__fdrecord_message *m,
                          size_t n, const int *fds, int fd_count)
{
    unsent *u = malloc(sizeof *u);
    if (u == NULL)
        return; /* as if it came too late */
    u->next = NULL;
    u->n = n;
    u->fds = fd_count;
    memcpy(&u->m, m, n);
    for (int i = 0; i < fd_count; i++)
        u->fd[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    rg__chain_append(&fdstore->first, u);
    watch(fdstore);
}

static void send_message(rg__fdstore *fdstore, const rg__fdrecord_message *m,
                         size_t bytes, const int *fds, int fd_count)
{
    const size_t n = offsetof(rg__fdrecord_message, bytes) + bytes;
    if (fdstore->sock < 0)
        return;
    if (fdstore->first != NULL ||
        rg__sock_send(fdstore->sock, m, n, fds, fd_count) == RG_IN_PROGRESS)
        wait_for_room(fdstore, m, n, fds, fd_count);
}

void rg__fdstore_put_child(rg__fdstore *fdstore, const char *name, int32_t pid,
                           const void *bytes, size_t n, const int *fds,
                           int fd_count)
{
    static rg__fdrecord_message m; /* one thread, not nested */
    if (fdstore == NULL)
        return;
    m.what = RG__FDRECORD_PUT;
    m.pid = pid;
    snprintf(m.name, sizeof m.name, "%s", name);
    if (n > 0)
        memcpy(m.bytes, bytes, n < sizeof m.bytes ? n : sizeof m.bytes);
    send_message(fdstore, &m, n < sizeof m.bytes ? n : sizeof m.bytes, fds,
                 fd_count);
}

void rg__fdstore_put(rg__fdstore *fdstore, const char *name, const void *bytes,
                     size_t n, const int *fds, int fd_count)
{
    rg__fdstore_put_child(fdstore, name, 0, bytes, n, fds, fd_count);
}

void rg__fdstore_drop(rg__fdstore *fdstore, const char *name)
{
    static rg__fdrecord_message m;
    if (fdstore == NULL)
        return;
    m.what = RG__FDRECORD_DROP;
    snprintf(m.name, sizeof m.name, "%s", name);
    send_message(fdstore, &m, 0, NULL, 0);
}

/* -------------------------------------------------------------------- hear */

static void on_socket(void *arg, int fd, uint32_t events)
{
    (void)fd;
    rg__fdstore *fdstore = arg;
    if ((events & EPOLLOUT) != 0)
        send_waiting(fdstore);
    while (fdstore->sock >= 0) {
        rg__fdrecord_message m;
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st =
            rg__sock_recv(fdstore->sock, &m, sizeof m, &n, fds);
        if (st == RG_IN_PROGRESS)
            return;
        if (st != RG_OK) {
            hang_up(fdstore);
            fdstore->events.gone(fdstore->events.arg);
            return;
        }
        if (m.what == RG__FDRECORD_ENDED)
            fdstore->events.ended(fdstore->events.arg, m.pid, m.status);
        if (m.what != RG__FDRECORD_FINISH)
            continue;
        m.bytes[n < sizeof m ? n - offsetof(rg__fdrecord_message, bytes)
                             : sizeof m.bytes - 1] = '\0';
        fdstore->events.finish(fdstore->events.arg, m.status, m.bytes);
    }
}

rg_status rg__fdstore_watch(rg__fdstore *fdstore, rg__loop *loop,
                            const rg__fdstore_events *events)
{
    if (fdstore == NULL)
        return RG_OK;
    fdstore->loop = loop;
    fdstore->events = *events;
    return rg__loop_watch(loop, fdstore->sock, EPOLLIN, on_socket, fdstore);
}

void rg__fdstore_unwatch(rg__fdstore *fdstore)
{
    if (fdstore == NULL || fdstore->loop == NULL)
        return;
    if (fdstore->sock >= 0)
        rg__loop_unwatch(fdstore->loop, fdstore->sock);
    fdstore->loop = NULL;
}

/* ---------------------------------------------------------- what was before */

const rg__fdrecord_list *rg__fdstore_born_with(const rg__fdstore *fdstore)
{
    static const rg__fdrecord_list nothing;
    return fdstore != NULL ? &fdstore->born_with : &nothing;
}

rg__fdrecord *rg__fdstore_find(const rg__fdstore *fdstore, const char *name)
{
    return rg__fdrecord_find(rg__fdstore_born_with(fdstore), name);
}

rg__fdrecord *rg__fdstore_read(const rg__fdstore *fdstore, const char *name,
                               void *bytes, size_t n)
{
    rg__fdrecord *record = rg__fdstore_find(fdstore, name);
    if (record == NULL || record->n != n)
        return NULL;
    memcpy(bytes, record->bytes, n);
    return record;
}

int rg__fdrecord_take(rg__fdrecord *record, int i)
{
    const int fd = record->fd[i];
    record->fd[i] = -1;
    return fd;
}

void rg__fdstore_forget_rest(rg__fdstore *fdstore)
{
    if (fdstore != NULL)
        rg__fdrecord_clear(&fdstore->born_with);
}

void rg__fdstore_descriptors(const rg__fdstore *fdstore, struct rlimit *limit_p)
{
    if (fdstore != NULL)
        *limit_p = fdstore->descriptors;
    else
        getrlimit(RLIMIT_NOFILE, limit_p);
}
