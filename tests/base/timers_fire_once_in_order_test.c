/* The loop: timers fire once, in order of time, and may be stopped or set again
 * from callbacks; descriptors are watched, changed and unwatched, also from
 * their own callbacks.
 *
 * Covers: loop.c */
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/loop.h"
#include "tests/check.h"

static rg__loop *loop;
static rg__timer *timers[4];
static char order[32];
static int again;

static void note(char c)
{
    const size_t n = strlen(order);
    CHECK(n + 1 < sizeof order);
    order[n] = c;
    order[n + 1] = '\0';
}

static void fire_a(void *arg)
{
    (void)arg;
    note('a');
    CHECK(!rg__timer_is_set(timers[0]));
    rg__timer_stop(timers[2]); /* due at the same time, and stopped by me */
}

static void fire_b(void *arg)
{
    (void)arg;
    note('b');
    if (++again < 3)
        rg__timer_set(timers[1], 2 * RG__MS);
}

static void fire_c(void *arg)
{
    (void)arg;
    note('c');
}

static void fire_end(void *arg)
{
    (void)arg;
    CHECK(again > 0); /* b was due before it */
    if (again < 3) {  /* a busy machine: later */
        rg__timer_set(timers[3], 5 * RG__MS);
        return;
    }
    note('.');
    rg__loop_stop(loop);
}

static void check_timers(void)
{
    timers[0] = rg__timer_create(loop, fire_a, NULL);
    timers[1] = rg__timer_create(loop, fire_b, NULL);
    timers[2] = rg__timer_create(loop, fire_c, NULL);
    timers[3] = rg__timer_create(loop, fire_end, NULL);
    const uint64_t before = rg__now_ns();
    rg__timer_set(timers[3], 40 * RG__MS);
    rg__timer_set(timers[2], 6 * RG__MS);
    rg__timer_set(timers[1], 1 * RG__MS);
    rg__timer_set(timers[0], 6 * RG__MS);
    rg__timer_set(timers[0], 4 * RG__MS); /* earlier than first said */
    rg__timer_set(timers[2], 4 * RG__MS);
    CHECK(rg__timer_is_set(timers[3]));
    rg__loop_run(loop);
    CHECK(rg__now_ns() - before >= 40 * RG__MS);
    int a = 0, b = 0, c = 0;
    for (const char *at = order; *at != '\0'; at++) {
        a += *at == 'a';
        b += *at == 'b';
        c += *at == 'c';
    }
    CHECK_EQ(a, 1);
    CHECK_EQ(b, 3);
    CHECK_EQ(c, 0);
    CHECK_EQ(order[0], 'b');
    CHECK_EQ(order[strlen(order) - 1], '.');
    for (int i = 0; i < 4; i++) {
        rg__timer_destroy(timers[i]);
        timers[i] = NULL;
    }
    rg__timer_destroy(NULL);
}

/* ------------------------------------------------------------- descriptors */

static int ends[2], other[2], reads, others;

static void on_other(void *arg, int fd, uint32_t events)
{
    (void)arg, (void)fd, (void)events;
    CHECK_EQ(reads, 0); /* else it has been unwatched */
    others++;
}

static void on_read(void *arg, int fd, uint32_t events)
{
    char c;
    CHECK(events & EPOLLIN);
    CHECK_EQ(*(int *)arg, 5);
    CHECK_EQ(read(fd, &c, 1), 1);
    rg__loop_unwatch(loop, other[0]); /* ready in the same round */
    if (++reads == 3) {
        rg__loop_unwatch(loop, fd);
        rg__loop_unwatch(loop, fd); /* unknown by now: ignored */
        rg__loop_stop(loop);
    }
}

static void check_descriptors(void)
{
    int arg = 5;
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(pipe(other), 0);
    CHECK_OK(rg__loop_watch(loop, ends[0], 0, on_read, &arg));
    CHECK_OK(rg__loop_watch(loop, ends[0], EPOLLIN, on_read, &arg));
    CHECK_STATUS(rg__loop_watch(loop, 9999, EPOLLIN, on_read, &arg),
                 RG_ERR_SYSTEM);
    CHECK_EQ(write(ends[1], "abcd", 4), 4);
    CHECK_OK(rg__loop_watch(loop, other[0], EPOLLIN, on_other, NULL));
    CHECK_EQ(write(other[1], "x", 1), 1);
    rg__loop_run(loop);
    CHECK_EQ(reads, 3);
    CHECK(others <= 1); /* at most before it was unwatched */
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(other[i]);
    }
}

int main(void)
{
    CHECK_OK(rg__loop_create(&loop));
    check_timers();
    check_descriptors();
    rg__loop_destroy(loop);
    rg__loop_destroy(NULL);
    return 0;
}
