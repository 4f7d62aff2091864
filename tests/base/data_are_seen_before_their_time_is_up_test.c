/* A thread that is held up finds data, and that the time to wait for them is
 * up: the data come first, from however many workers of a host, and their
 * handler stops the timer.
 *
 * Covers: loop.c */
#include <sys/epoll.h>
#include <time.h>

#include "sdk/base/clock.h"
#include "sdk/base/loop.h"
#include "tests/check.h"

#define LIMIT_NS (2 * RG__MS)
#define SOURCES  256 /* more than an agent has */

typedef struct scene {
    rg__loop *loop;
    rg__timer *limit;
    int busy[2], data[SOURCES][2]; /* ends of pipes */
    int seen, given_up;
} scene;

static void give_up(void *arg)
{
    scene *s = arg;
    s->given_up++;
    rg__loop_stop(s->loop);
}

static void be_held_up(void *arg, int fd, uint32_t events)
{
    const struct timespec longer = {.tv_nsec = 5 * LIMIT_NS};
    const scene *s = arg;
    char byte;
    (void)events;
    CHECK_EQ(read(fd, &byte, 1), 1);
    rg__timer_set(s->limit, LIMIT_NS);
    for (int i = 0; i < SOURCES; i++)
        CHECK_EQ(write(s->data[i][1], "", 1), 1);
    nanosleep(&longer, NULL);
}

static void see(void *arg, int fd, uint32_t events)
{
    scene *s = arg;
    char byte;
    (void)events;
    CHECK_EQ(read(fd, &byte, 1), 1);
    if (++s->seen < SOURCES)
        return;
    rg__timer_stop(s->limit);
    rg__loop_stop(s->loop);
}

int main(void)
{
    scene s = {0};
    CHECK_OK(rg__loop_create(&s.loop));
    s.limit = rg__timer_create(s.loop, give_up, &s);
    CHECK(s.limit != NULL && pipe(s.busy) == 0);
    CHECK_OK(rg__loop_watch(s.loop, s.busy[0], EPOLLIN, be_held_up, &s));
    for (int i = 0; i < SOURCES; i++) {
        CHECK(pipe(s.data[i]) == 0);
        CHECK_OK(rg__loop_watch(s.loop, s.data[i][0], EPOLLIN, see, &s));
    }
    CHECK_EQ(write(s.busy[1], "", 1), 1);
    rg__loop_run(s.loop);
    CHECK_EQ(s.seen, SOURCES);
    CHECK_EQ(s.given_up, 0);
    for (int i = 0; i < 2; i++) {
        rg__loop_close(s.loop, &s.busy[i]);
        for (int k = 0; k < SOURCES; k++)
            rg__loop_close(s.loop, &s.data[k][i]);
    }
    rg__timer_destroy(s.limit);
    rg__loop_destroy(s.loop);
    return 0;
}
