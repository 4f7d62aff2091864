/* What an agent puts is what its supervisor reads once it is dead: the newest
 * of each name, in order, with descriptors; also if the supervisor was
 * stopped and its queue was full. Neither end leaks anything.
 *
 * Covers: fdrecord.c fdstore.c */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/supervisor/fdstore.h"
#include "tests/check.h"
#include "tests/lib/descriptors.h"

#define MANY 3000 /* more than a queue holds */

static const struct rlimit limit = {1024, 1024};

static void put_text(rg__fdstore *store, const char *name, const char *text)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    close(ends[1]);
    rg__fdstore_put_child(store, name, 7, text, strlen(text) + 1, ends, 1);
    close(ends[0]);
}

/* Does what the supervisor does with each message. */
static bool take(int sock, rg__fdrecord_list *list)
{
    static rg__fdrecord_message m;
    size_t n = 0;
    int fds[RG__SOCK_FDS];
    if (rg__sock_recv(sock, &m, sizeof m, &n, fds) != RG_OK)
        return false;
    if (m.what == RG__FDRECORD_DROP)
        rg__fdrecord_drop(list, m.name);
    else
        CHECK_OK(rg__fdrecord_set(list, m.name, m.pid, m.bytes,
                                  n - offsetof(rg__fdrecord_message, bytes),
                                  fds));
    return true;
}

static void check_text(const rg__fdrecord *k, const char *name,
                       const char *text)
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
    rg__fdstore *store = NULL;
    rg__fdrecord_list list = {0};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    CHECK_OK(rg__fdstore_create(pair[0], &list, &limit, &store));
    put_text(store, "slot/1", "old");
    put_text(store, "slot/2", "two");
    put_text(store, "worker/1", "gone");
    put_text(store, "slot/1", "new");
    rg__fdstore_drop(store, "worker/1");
    rg__fdstore_drop(store, "nobody");
    rg__fdstore_destroy(store); /* the agent is dead */
    while (take(pair[1], &list))
        continue;
    const rg__fdrecord *first = rg__fdrecord_next(&list, "slot/", NULL);
    check_text(first, "slot/1", "new");
    check_text(rg__fdrecord_next(&list, "slot/", first), "slot/2", "two");
    CHECK(rg__fdrecord_find(&list, "worker/1") == NULL);
    CHECK(rg__fdrecord_of(&list, 7) == first);
    CHECK(rg__fdrecord_of(&list, 0) == NULL);

    /* the next agent takes a descriptor; the rest is closed with the list */
    CHECK_OK(rg__fdstore_create(pair[1], &list, &limit, &store));
    close(rg__fdrecord_take(
        rg__fdrecord_find(rg__fdstore_born_with(store), "slot/2"), 0));
    rg__fdstore_destroy(store);
}

typedef struct slow_supervisor {
    rg__loop *loop;
    rg__timer *timer;
    int sock, taken;
    rg__fdrecord_list list;
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
    rg__fdstore *store = NULL;
    slow_supervisor k = {0};
    const rg__fdstore_events events = {.ended = ended, .gone = nothing};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    k.sock = pair[1];
    CHECK_OK(rg__loop_create(&k.loop));
    k.timer = rg__timer_create(k.loop, take_some, &k);
    CHECK(k.timer != NULL);
    CHECK_OK(rg__fdstore_create(pair[0], &k.list, &limit, &store));
    CHECK_OK(rg__fdstore_watch(store, k.loop, &events));
    for (int i = 0; i < MANY; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        if (i % 10 == 0)
            put_text(store, "last", text);
        else
            rg__fdstore_put(store, "plain", text, sizeof text, NULL, 0);
    }
    rg__timer_set(k.timer, 0);
    rg__loop_run(k.loop);
    check_text(rg__fdrecord_find(&k.list, "last"), "last", "2990");
    CHECK_STR(rg__fdrecord_find(&k.list, "plain")->bytes, "2999");
    rg__fdstore_unwatch(store);
    rg__fdstore_destroy(store);
    rg__fdrecord_clear(&k.list);
    rg__timer_destroy(k.timer);
    rg__loop_destroy(k.loop);
    close(pair[1]);
}

int main(void)
{
    const int before = descriptors();
    newest_of_each_name();
    full_queue();
    rg__fdstore_put(NULL, "no supervisor", NULL, 0, NULL, 0);
    CHECK_EQ(descriptors(), before);
    return 0;
}
