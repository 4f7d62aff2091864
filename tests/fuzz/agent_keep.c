#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/supervisor/keep.h"
#include "tests/fuzz/agent.h"
#include "tests/fuzz/sim_proc.h"

static rg__kept_list kept;
static int sock; /* to the agent, -1: none lives */
static int agents;

void keeps_begin(void)
{
    sock = -1;
    agents = 0;
}

static void hang_up(void)
{
    if (sock >= 0)
        close(sock);
    sock = -1;
}

void keeps_end(void)
{
    rg__kept_clear(&kept);
    hang_up();
}

void keeps_agent_is_killed(void)
{
    keeps_settle();
    hang_up();
}

static void take(const rg__kept_message *m, size_t n, int fds[RG__SOCK_FDS])
{
    const size_t head = offsetof(rg__kept_message, bytes);
    FUZZ_CLAIM(n >= head && memchr(m->name, '\0', sizeof m->name) != NULL);
    if (m->what == RG__KEPT_DROP)
        rg__kept_drop(&kept, m->name);
    else
        FUZZ_CLAIM(rg__kept_set(&kept, m->name, m->pid, m->bytes, n - head,
                                fds) == RG_OK);
}

void keeps_settle(void)
{
    static rg__kept_message m;
    rg_status st = RG_OK;
    while (sock >= 0 && st == RG_OK) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        st = rg__sock_recv(sock, &m, sizeof m, &n, fds);
        if (st == RG_OK)
            take(&m, n, fds);
        for (int i = 0; i < RG__SOCK_FDS; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
}

static void tell_end(pid_t pid, int status)
{
    const rg__kept_message m = {
        .what = RG__KEPT_ENDED, .pid = pid, .status = status};
    rg__kept *record = rg__kept_of(&kept, pid);
    if (record == NULL)
        return;
    record->has_ended = true;
    record->status = status;
    if (sock >= 0)
        rg__sock_send(sock, &m, offsetof(rg__kept_message, bytes), NULL, 0);
}

/* An agent owns what it is born with, and we keep it all the same. */
static void copy_kept(rg__kept_list *copy)
{
    for (const rg__kept *k = kept.first; k != NULL; k = k->next) {
        int fds[RG__KEPT_FDS];
        for (int i = 0; i < RG__KEPT_FDS; i++)
            fds[i] = k->fd[i] >= 0 ? dup(k->fd[i]) : -1;
        FUZZ_CLAIM(rg__kept_set(copy, k->name, k->pid, k->bytes, k->n, fds) ==
                   RG_OK);
        rg__kept *made = rg__kept_find(copy, k->name);
        made->has_ended = k->has_ended;
        made->status = k->status;
    }
}

rg__keep *keeps_create(void)
{
    const struct rlimit limit = {256, 256};
    rg__kept_list born_with = {0};
    rg__keep *keep = NULL;
    int ends[2];
    if (agents++ > 0)
        sim_proc_orphan(tell_end);
    FUZZ_CLAIM(socketpair(AF_UNIX,
                          SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                          ends) == 0);
    sock = ends[0];
    copy_kept(&born_with);
    FUZZ_CLAIM(rg__keep_create(ends[1], &born_with, &limit, &keep) == RG_OK);
    return keep;
}
