/* "info,etcd=debug": a general level and rooms apart; a malformed text changes
 * nothing; a line names time, host, rank, size, generation and room.
 *
 * Covers: log.c */
#include "sdk/base/log.h"
#include "tests/base/stderr.h"

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
    char tail[128];
    check_levels();
    rg__log_who("h2", 3, 8, 2);
    char *text = stderr_of(say);
    int h, m, s, ms;
    CHECK_EQ(sscanf(text, "[regroup %2d:%2d:%2d.%3d %127[^\n]", &h, &m, &s, &ms,
                    tail),
             5);
    CHECK_STR(tail, "h2 3/8 g2 set] split world into 2 sets");
    CHECK(strstr(text, "nobody") == NULL);

    rg__log_who("h2", -1, -1, 0);
    text = stderr_of(say);
    CHECK(strstr(text, " h2 - g0 set] ") != NULL);

    text = stderr_of(say_much); /* cut, with its line end */
    CHECK_EQ(text[strlen(text) - 1], '\n');
    CHECK(strlen(text) <= 1024);
    return 0;
}
