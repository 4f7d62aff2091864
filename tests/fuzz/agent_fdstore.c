#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/supervisor/fdstore.h"
#include "tests/fuzz/agent.h"
#include "tests/fuzz/sim_proc.h"

static rg__fdrecord_list records;
static int sock; /* to the agent, -1: none lives */
static int agents;

void fdstore_begin(void)
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

void fdstore_end(void)
{
    rg__fdrecord_clear(&records);
    hang_up();
}

void fdstore_agent_is_killed(void)
{
    fdstore_settle();
    hang_up();
}

static void take(const rg__fdrecord_message *m, size_t n, int fds[RG__SOCK_FDS])
{
    const size_t head = offsetof(rg__fdrecord_message, bytes);
    FUZZ_CLAIM(n >= head && memchr(m->name, '\0', sizeof m->name) != NULL);
    if (m->what == RG__FDRECORD_DROP)
        rg__fdrecord_drop(&records, m->name);
    else
        FUZZ_CLAIM(rg__fdrecord_set(&records, m->name, m->pid, m->bytes,
                                    n - head, fds) == RG_OK);
}

void fdstore_settle(void)
{
    static rg__fdrecord_message m;
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
    const rg__fdrecord_message m = {
        .what = RG__FDRECORD_ENDED, .pid = pid, .status = status};
    rg__fdrecord *record = rg__fdrecord_of(&records, pid);
    if (record == NULL)
        return;
    record->has_ended = true;
    record->status = status;
    if (sock >= 0)
        rg__sock_send(sock, &m, offsetof(rg__fdrecord_message, bytes), NULL, 0);
}

/* An agent owns what it is born with, and we fdstore it all the same. */
static void copy_records(rg__fdrecord_list *copy)
{
    for (const rg__fdrecord *k = records.first; k != NULL; k = k->next) {
        int fds[RG__FDRECORD_FDS];
        for (int i = 0; i < RG__FDRECORD_FDS; i++)
            fds[i] = k->fd[i] >= 0 ? dup(k->fd[i]) : -1;
        FUZZ_CLAIM(rg__fdrecord_set(copy, k->name, k->pid, k->bytes, k->n,
                                    fds) == RG_OK);
        rg__fdrecord *made = rg__fdrecord_find(copy, k->name);
        made->has_ended = k->has_ended;
        made->status = k->status;
    }
}

rg__fdstore *fdstore_create(void)
{
    const struct rlimit limit = {256, 256};
    rg__fdrecord_list born_with = {0};
    rg__fdstore *fdstore = NULL;
    int ends[2];
    if (agents++ > 0)
        sim_proc_orphan(tell_end);
    FUZZ_CLAIM(socketpair(AF_UNIX,
                          SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                          ends) == 0);
    sock = ends[0];
    copy_records(&born_with);
    FUZZ_CLAIM(rg__fdstore_create(ends[1], &born_with, &limit, &fdstore) ==
               RG_OK);
    return fdstore;
}
