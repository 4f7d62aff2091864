/* What an agent puts is what its supervisor reads once it is dead: the newest
 * of each name, in order, with descriptors; also when the supervisor stood
 * still and its queue was full. Nothing is leaked at either end.
 *
 * Covers: kept.c keep.c */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/supervisor/keep.h"
#include "tests/check.h"

#define MANY 3000 /* more than a queue holds */

static const struct rlimit limit = {1024, 1024};

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int n = 0;
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static void put_text(rg__keep *keep, const char *name, const char *text)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    close(ends[1]);
    rg__keep_put_child(keep, name, 7, text, strlen(text) + 1, ends, 1);
    close(ends[0]);
}

/* What the supervisor does with each message. */
static bool take(int sock, rg__kept_list *list)
{
    static rg__kept_message m;
    size_t n = 0;
    int fds[RG__SOCK_FDS];
    if (rg__sock_recv(sock, &m, sizeof m, &n, fds) != RG_OK)
        return false;
    if (m.what == RG__KEPT_DROP)
        rg__kept_drop(list, m.name);
    else
        CHECK_OK(rg__kept_set(list, m.name, m.pid, m.bytes,
                              n - offsetof(rg__kept_message, bytes), fds));
    return true;
}

static void check_text(const rg__kept *k, const char *name, const char *text)
{
    char got[64] = "";
    CHECK(k != NULL);
    CHECK_STR(k->name, name);
    CHECK_STR(k->bytes, text);
    CHECK_EQ(k->pid, 7);
    CHECK(k->fd[0] >= 0 && k->fd[1] == -1);
    CHECK(read(k->fd[0], got, sizeof got - 1) > 0);
    CHECK_STR(got, text);
}

static void newest_of_each_name(void)
{
    int pair[2];
    rg__keep *keep = NULL;
    rg__kept_list list = {0};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    CHECK_OK(rg__keep_create(pair[0], &list, &limit, &keep));
    put_text(keep, "slot/1", "old");
    put_text(keep, "slot/2", "two");
    put_text(keep, "worker/1", "gone");
    put_text(keep, "slot/1", "new");
    rg__keep_drop(keep, "worker/1");
    rg__keep_drop(keep, "nobody");
    rg__keep_destroy(keep); /* the agent is dead */
    while (take(pair[1], &list))
        continue;
    const rg__kept *first = rg__kept_next(&list, "slot/", NULL);
    check_text(first, "slot/1", "new");
    check_text(rg__kept_next(&list, "slot/", first), "slot/2", "two");
    CHECK(rg__kept_find(&list, "worker/1") == NULL);
    CHECK(rg__kept_of(&list, 7) == first);
    CHECK(rg__kept_of(&list, 0) == NULL);

    /* the next agent takes a descriptor; the rest is closed with the list */
    CHECK_OK(rg__keep_create(pair[1], &list, &limit, &keep));
    close(rg__kept_take(rg__kept_find(rg__keep_born_with(keep), "slot/2"), 0));
    rg__keep_destroy(keep);
}

typedef struct slow_supervisor {
    rg__loop *loop;
    rg__timer *timer;
    int sock, taken;
    rg__kept_list list;
} slow_supervisor;

static void take_some(void *arg)
{
    slow_supervisor *k = arg;
    for (int i = 0; i < 100 && take(k->sock, &k->list); i++)
        k->taken++;
    if (k->taken < MANY)
        rg__timer_set(k->timer, 0);
    else
        rg__loop_stop(k->loop);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void ended(void *arg, int32_t pid, int32_t status)
{
    (void)arg, (void)pid, (void)status;
}

static void full_queue(void)
{
    int pair[2];
    rg__keep *keep = NULL;
    slow_supervisor k = {0};
    const rg__keep_events events = {.ended = ended, .gone = nothing};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    k.sock = pair[1];
    CHECK_OK(rg__loop_create(&k.loop));
    k.timer = rg__timer_create(k.loop, take_some, &k);
    CHECK(k.timer != NULL);
    CHECK_OK(rg__keep_create(pair[0], &k.list, &limit, &keep));
    CHECK_OK(rg__keep_watch(keep, k.loop, &events));
    for (int i = 0; i < MANY; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        if (i % 10 == 0)
            put_text(keep, "last", text);
        else
            rg__keep_put(keep, "plain", text, sizeof text, NULL, 0);
    }
    rg__timer_set(k.timer, 0);
    rg__loop_run(k.loop);
    check_text(rg__kept_find(&k.list, "last"), "last", "2990");
    CHECK_STR(rg__kept_find(&k.list, "plain")->bytes, "2999");
    rg__keep_unwatch(keep);
    rg__keep_destroy(keep);
    rg__kept_clear(&k.list);
    rg__timer_destroy(k.timer);
    rg__loop_destroy(k.loop);
    close(pair[1]);
}

int main(void)
{
    const int before = count_fds();
    newest_of_each_name();
    full_queue();
    rg__keep_put(NULL, "no supervisor", NULL, 0, NULL, 0);
    CHECK_EQ(count_fds(), before);
    return 0;
}
