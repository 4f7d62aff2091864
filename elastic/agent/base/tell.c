/* See tell.h. */
#include "elastic/agent/base/tell.h"
#include "elastic/agent/base/view.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/sock.h"

#define RESEND_NS RG__MS

void rg__worker_ring(const rg__slot *s)
{
    if (s->w.page != NULL)
        rg__page_ring(s->w.page);
}

/* The worker reads on its Regroup thread, so there is room soon; one that does
 * not read does not answer its pings either. */
static void keep(rg__slot *s, const void *bytes, size_t n, int fd)
{
    rg__message *m = malloc(sizeof *m + n);
    if (m == NULL) {
        s->a->on->slot_untold(s);
        return;
    }
    *m = (rg__message){.fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1,
                       .n = n};
    memcpy(m->bytes, bytes, n);
    rg__chain_append(&s->w.waiting, m);
    rg__timer_set(s->a->sockets.resend, RESEND_NS);
}

static void drop_first(rg__worker *w)
{
    rg__message *m = w->waiting;
    w->waiting = m->next;
    if (m->fd >= 0)
        close(m->fd);
    free(m);
}

void rg__worker_untell(rg__worker *w)
{
    while (w->waiting != NULL)
        drop_first(w);
}

static void resend(rg__slot *s)
{
    rg__worker *w = &s->w;
    while (w->waiting != NULL && w->sock >= 0 && rg__slot_is_alive(s)) {
        const rg__message *m = w->waiting;
        if (rg__sock_send(w->sock, m->bytes, m->n, &m->fd, m->fd >= 0) ==
            RG_IN_PROGRESS)
            break;
        drop_first(w);
    }
    rg__worker_ring(s);
}

void rg__workers_resend(void *agent_arg)
{
    rg__agent *a = agent_arg;
    for (int i = 0; i < a->params->slots; i++) {
        rg__slot *s = &a->slot[i];
        if (s->w.waiting == NULL || !rg__slot_is_alive(s))
            continue;
        resend(s);
        if (s->w.waiting != NULL)
            rg__timer_set(a->sockets.resend, RESEND_NS);
    }
}

void rg__worker_tell(rg__slot *s, const void *bytes, size_t n, int fd)
{
    if (s->w.sock < 0 || !rg__slot_is_alive(s))
        return;
    if (s->w.waiting != NULL ||
        rg__sock_send(s->w.sock, bytes, n, &fd, fd >= 0) == RG_IN_PROGRESS)
        keep(s, bytes, n, fd);
    rg__worker_ring(s);
}

void rg__worker_tell_mark(rg__slot *s, rg__wire_type type, uint64_t generation)
{
    const rg__mark m = {{type, RG__WIRE_VERSION}, generation};
    rg__worker_tell(s, &m, sizeof m, -1);
}
