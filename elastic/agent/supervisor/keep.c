#include "elastic/agent/supervisor/keep.h"
#include "elastic/agent/supervisor/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* A record that the supervisor's queue has had no room for yet. */
typedef struct unsent {
    struct unsent *next;
    int fd[RG__KEPT_FDS], fds; /* owned */
    size_t n;
    rg__kept_message m; /* n bytes of it */
} unsent;

struct rg__keep {
    int sock; /* -1: the supervisor is gone */
    rg__loop *loop;
    rg__keep_events events;
    rg__kept_list born_with;
    struct rlimit descriptors;
    unsent *first; /* in order */
};

rg_status rg__keep_create(int sock, const rg__kept_list *kept,
                          const struct rlimit *descriptors, rg__keep **keep_p)
{
    rg__keep *keep = calloc(1, sizeof *keep);
    if (keep == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to keep anything");
    keep->sock = sock;
    keep->born_with = *kept;
    keep->descriptors = *descriptors;
    *keep_p = keep;
    return RG_OK;
}

static void free_unsent(unsent *u)
{
    for (int i = 0; i < u->fds; i++)
        if (u->fd[i] >= 0)
            close(u->fd[i]);
    free(u);
}

static void hang_up(rg__keep *keep)
{
    if (keep->sock < 0)
        return;
    if (keep->loop != NULL)
        rg__loop_unwatch(keep->loop, keep->sock);
    close(keep->sock);
    keep->sock = -1;
    while (keep->first != NULL) {
        unsent *u = keep->first;
        keep->first = u->next;
        free_unsent(u);
    }
}

void rg__keep_destroy(rg__keep *keep)
{
    if (keep == NULL)
        return;
    hang_up(keep);
    rg__kept_clear(&keep->born_with);
    free(keep);
}

/* -------------------------------------------------------------------- send */

static void on_socket(void *arg, int fd, uint32_t events);

static void watch(rg__keep *keep)
{
    const uint32_t out = keep->first != NULL ? EPOLLOUT : 0;
    if (keep->loop != NULL && keep->sock >= 0)
        rg__loop_watch(keep->loop, keep->sock, EPOLLIN | out, on_socket, keep);
}

static void send_waiting(rg__keep *keep)
{
    while (keep->first != NULL) {
        unsent *u = keep->first;
        if (rg__sock_send(keep->sock, &u->m, u->n, u->fd, u->fds) ==
            RG_IN_PROGRESS)
            break;
        keep->first = u->next;
        free_unsent(u);
    }
    watch(keep);
}

static void wait_for_room(rg__keep *keep, const rg__kept_message *m, size_t n,
                          const int *fds, int fd_count)
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
    unsent **end = &keep->first;
    while (*end != NULL)
        end = &(*end)->next;
    *end = u;
    watch(keep);
}

static void send_message(rg__keep *keep, const rg__kept_message *m,
                         size_t bytes, const int *fds, int fd_count)
{
    const size_t n = offsetof(rg__kept_message, bytes) + bytes;
    if (keep->sock < 0)
        return;
    if (keep->first != NULL ||
        rg__sock_send(keep->sock, m, n, fds, fd_count) == RG_IN_PROGRESS)
        wait_for_room(keep, m, n, fds, fd_count);
}

void rg__keep_put_child(rg__keep *keep, const char *name, int32_t pid,
                        const void *bytes, size_t n, const int *fds,
                        int fd_count)
{
    static rg__kept_message m; /* one thread, not nested */
    if (keep == NULL)
        return;
    m.what = RG__KEPT_PUT;
    m.pid = pid;
    snprintf(m.name, sizeof m.name, "%s", name);
    if (n > 0)
        memcpy(m.bytes, bytes, n < sizeof m.bytes ? n : sizeof m.bytes);
    send_message(keep, &m, n < sizeof m.bytes ? n : sizeof m.bytes, fds,
                 fd_count);
}

void rg__keep_put(rg__keep *keep, const char *name, const void *bytes, size_t n,
                  const int *fds, int fd_count)
{
    rg__keep_put_child(keep, name, 0, bytes, n, fds, fd_count);
}

void rg__keep_drop(rg__keep *keep, const char *name)
{
    static rg__kept_message m;
    if (keep == NULL)
        return;
    m.what = RG__KEPT_DROP;
    snprintf(m.name, sizeof m.name, "%s", name);
    send_message(keep, &m, 0, NULL, 0);
}

/* -------------------------------------------------------------------- hear */

static void on_socket(void *arg, int fd, uint32_t events)
{
    (void)fd;
    rg__keep *keep = arg;
    if ((events & EPOLLOUT) != 0)
        send_waiting(keep);
    while (keep->sock >= 0) {
        rg__kept_message m;
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg_status st = rg__sock_recv(keep->sock, &m, sizeof m, &n, fds);
        if (st == RG_IN_PROGRESS)
            return;
        if (st != RG_OK) {
            hang_up(keep);
            keep->events.gone(keep->events.arg);
            return;
        }
        if (m.what == RG__KEPT_ENDED)
            keep->events.ended(keep->events.arg, m.pid, m.status);
        if (m.what != RG__KEPT_FINISH)
            continue;
        m.bytes[n < sizeof m ? n - offsetof(rg__kept_message, bytes)
                             : sizeof m.bytes - 1] = '\0';
        keep->events.finish(keep->events.arg, m.status, m.bytes);
    }
}

rg_status rg__keep_watch(rg__keep *keep, rg__loop *loop,
                         const rg__keep_events *events)
{
    if (keep == NULL)
        return RG_OK;
    keep->loop = loop;
    keep->events = *events;
    return rg__loop_watch(loop, keep->sock, EPOLLIN, on_socket, keep);
}

void rg__keep_unwatch(rg__keep *keep)
{
    if (keep == NULL || keep->loop == NULL)
        return;
    if (keep->sock >= 0)
        rg__loop_unwatch(keep->loop, keep->sock);
    keep->loop = NULL;
}

/* ---------------------------------------------------------- what was before */

const rg__kept_list *rg__keep_born_with(const rg__keep *keep)
{
    static const rg__kept_list nothing;
    return keep != NULL ? &keep->born_with : &nothing;
}

int rg__kept_take(rg__kept *kept, int i)
{
    const int fd = kept->fd[i];
    kept->fd[i] = -1;
    return fd;
}

void rg__keep_forget_rest(rg__keep *keep)
{
    if (keep != NULL)
        rg__kept_clear(&keep->born_with);
}

void rg__keep_descriptors(const rg__keep *keep, struct rlimit *limit_p)
{
    if (keep != NULL)
        *limit_p = keep->descriptors;
    else
        getrlimit(RLIMIT_NOFILE, limit_p);
}
