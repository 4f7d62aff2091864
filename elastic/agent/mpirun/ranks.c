/* Ranks: processes that mpirun, or a daemon of the MPI, has started by
 * `regroup-rank rank`, which asks here before it runs PROGRAM. Its process
 * becomes the slot's, and a shim waits beside it, to say how it has ended. */
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/workers/workers.h"

#include <unistd.h>

#include "sdk/base/sock.h"

static void answer(int sock, const rg__rank_go *m, const int *fds, int n)
{
    rg__sock_send(sock, m, sizeof *m, fds, n);
    close(sock);
}

/* The leader's record, and the place of the rank in it, as far as they are
 * known here: mpirun may be ahead of our watch. */
static rg__slot *find_seat(rg__agent *a, const rg__rank *m, rg__rank_go *go)
{
    const rg__mpirun *run = &a->view.mpirun;
    const struct rg__launches *l = a->launches;
    if (m->launch > l->number) {
        go->is_later = 1;
        return NULL;
    }
    if (m->launch < l->number || l->is_over || rg__life_is_ending(a) ||
        a->is_done) {
        snprintf(go->why, sizeof go->why, "launch %llu is over",
                 (unsigned long long)m->launch);
        return NULL;
    }
    if (m->rank < 0 || m->rank >= run->size ||
        run->seat[m->rank].host != a->id ||
        run->seat[m->rank].slot >= (uint32_t)a->params->slots) {
        snprintf(go->why, sizeof go->why,
                 "mpirun has placed rank %d on host %.63s, which is not its "
                 "place in this launch; leave flags that map ranks to hosts "
                 "out of --mpirun",
                 m->rank, a->params->host);
        return NULL;
    }
    return &a->slot[run->seat[m->rank].slot];
}

static void take_rank(rg__agent *a, int sock, const rg__rank *m)
{
    rg__rank_go go = {.head = {RG__RANK_GO, RG__WIRE_VERSION}};
    int out[2], err[2];
    rg__slot *s = find_seat(a, m, &go);
    if (s != NULL && rg__slot_take(s, m->pid, out, err) == RG_OK) {
        const int fds[] = {out[1], err[1]};
        a->launches->has_rank = true;
        go.slot = (int32_t)s->index;
        go.generation = a->view.cur.generation + 1;
        answer(sock, &go, fds, 2);
        close(out[1]);
        close(err[1]);
        return;
    }
    if (s != NULL)
        snprintf(go.why, sizeof go.why, "%.200s", rg_last_error());
    go.slot = -1;
    answer(sock, &go, NULL, 0);
}

bool rg__mpirun_called(rg__agent *a, int sock, const void *bytes, size_t n,
                       pid_t pid)
{
    const rg__wire_head *head = bytes;
    (void)pid;
    if (!a->params->is_mpi || head->version != RG__WIRE_VERSION)
        return false;
    if (head->type == RG__RANK && n == sizeof(rg__rank)) {
        take_rank(a, sock, bytes);
        return true;
    }
    if (head->type == RG__RANK_ENDED && n == sizeof(rg__rank)) {
        const rg__rank *m = bytes;
        close(sock);
        rg__slots_on_ended(a, m->pid, m->status);
        return true;
    }
    if (head->type == RG__PROXY && n > sizeof(rg__proxy)) {
        rg__proxy_ask(a, sock, bytes, n);
        return true;
    }
    return false;
}
