/* "info,etcd=debug": a general level and rooms apart; a malformed text changes
 * nothing; a line names time, host, rank, size, generation and room.
 *
 * Covers: log.c */
#include <unistd.h>

#include "sdk/base/log.h"
#include "tests/check.h"

static void check_levels(void)
{
    CHECK(rg__log_on(RG__WARN, "set"));
    CHECK(!rg__log_on(RG__INFO, "set"));
    CHECK(rg__log_levels("info,etcd=trace,set=error"));
    CHECK(rg__log_on(RG__INFO, "core"));
    CHECK(!rg__log_on(RG__DEBUG, "core"));
    CHECK(rg__log_on(RG__TRACE, "etcd"));
    CHECK(rg__log_on(RG__ERROR, "set"));
    CHECK(!rg__log_on(RG__WARN, "set"));

    static const char *const malformed[] = {
        "loud", "info,etcd=", "etcd=loud", "info,a_room_with_a_long_name=info"};
    for (int i = 0; i < 4; i++) {
        CHECK(!rg__log_levels(malformed[i]));
        CHECK(rg__log_on(RG__TRACE, "etcd"));
        CHECK(!rg__log_on(RG__DEBUG, "core"));
    }
    CHECK(rg__log_levels(""));
    CHECK(!rg__log_on(RG__TRACE, "etcd"));
    CHECK(rg__log_on(RG__WARN, "etcd"));
}

/* What this process writes to standard error while fn runs. */
static void capture(void (*fn)(void), char *text, size_t room)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    const int saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fn();
    dup2(saved, STDERR_FILENO);
    close(saved);
    const ssize_t n = read(ends[0], text, room - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
}

static void say(void)
{
    rg__log(RG__WARN, "set", "split world into %d sets", 2);
    rg__log(RG__INFO, "set", "nobody reads this");
}

static void say_much(void)
{
    char longer[4000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    rg__log(RG__ERROR, "set", "%s", longer);
}

int main(void)
{
    char text[4096], tail[128];
    check_levels();
    rg__log_who("h2", 3, 8, 2);
    capture(say, text, sizeof text);
    int h, m, s, ms;
    CHECK_EQ(sscanf(text, "[regroup %2d:%2d:%2d.%3d %127[^\n]", &h, &m, &s, &ms,
                    tail),
             5);
    CHECK_STR(tail, "h2 3/8 g2 set] split world into 2 sets");
    CHECK(strstr(text, "nobody") == NULL);

    rg__log_who("h2", -1, -1, 0);
    capture(say, text, sizeof text);
    CHECK(strstr(text, " h2 - g0 set] ") != NULL);

    capture(say_much, text, sizeof text); /* cut, with its line end */
    CHECK_EQ(text[strlen(text) - 1], '\n');
    CHECK(strlen(text) <= 1024);
    return 0;
}
