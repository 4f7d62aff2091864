/* Answers of clouds and sites as their documents describe them; any other
 * answer is a failure, never a notice.
 *
 * Covers: aws.c azure.c gcp.c file.c site.c texts.c */
#include <string.h>

#include "elastic/notice/notice_parts.h"
#include "tests/check.h"

#define AT UINT64_C(1777629871000) /* 2026-05-01T10:04:31Z */

static rg__notice n;

static void times_are_read_as_they_are_written(void)
{
    static const struct {
        const char *text;
        uint64_t ms; /* 0: not a time */
    } times[] = {{"2026-05-01T10:04:31Z", AT},
                 {"2026-05-01T10:04:31.9918273Z", AT},
                 {"2026-05-01T12:04:31+02:00", AT},
                 {"2026-05-01T05:34:31-04:30", AT},
                 {"Fri, 01 May 2026 10:04:31 GMT", AT},
                 {"2026-05-01T10:04:31", 0}, /* of which zone? */
                 {"2026-05-01 10:04:31Z", 0},
                 {"2026-13-01T10:04:31Z", 0},
                 {"2026-05-01T10:04:31Zulu", 0},
                 {"Fri, 01 May 2026 10:04:31 CET", 0},
                 {"1970-01-01T00:00:00Z", 0},
                 {"", 0},
                 {"tomorrow", 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        uint64_t ms = 0;
        const bool ok = rg__time_read(times[i].text, &ms);
        CHECK_EQ(ok, times[i].ms != 0);
        CHECK_EQ(ms, times[i].ms);
    }
}

static bool action(const char *text)
{
    return rg__aws_read_action(text, strlen(text), &n);
}

static bool rebalance(const char *text)
{
    return rg__aws_read_rebalance(text, strlen(text), &n);
}

static void ec2_names_action_and_time(void)
{
    CHECK(action("{\"action\": \"terminate\", \"time\": "
                 "\"2026-05-01T10:04:31Z\"}"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK_EQ(n.at_ms, AT);
    CHECK_STR(n.what, "the spot instance will be terminated");
    CHECK(action("{\"action\": \"hibernate\"}"));
    CHECK_EQ(n.at_ms, 0);
    CHECK_EQ(n.in_ms, 120000);
    CHECK(action("{\"action\": \"recycle\", \"time\": "
                 "\"2026-05-01T10:04:31Z\"}"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE); /* whatever it is */
    CHECK(!action("{\"action\": \"stop\", \"time\": \"soon\"}"));
    CHECK(!action("{\"time\": \"2026-05-01T10:04:31Z\"}"));
    CHECK(!action("<html>login</html>"));
    CHECK(!action(""));
    CHECK(!action("[]"));

    CHECK(rebalance("{\"noticeTime\": \"2026-05-01T10:04:31Z\"}"));
    CHECK_EQ(n.kind, RG__NOTICE_ADVICE);
    CHECK(!rebalance("{\"noticeTime\": 5}"));
    CHECK(!rebalance("{}"));
}

static bool preempted(const char *text)
{
    return rg__gcp_read_preempted(text, strlen(text), &n);
}

static bool maintenance(const char *text)
{
    return rg__gcp_read_maintenance(text, strlen(text), &n);
}

static void compute_engine_says_words(void)
{
    CHECK(preempted("FALSE"));
    CHECK_EQ(n.kind, RG__NOTICE_NONE);
    CHECK(preempted("TRUE\n"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK_EQ(n.in_ms, 30000);
    CHECK(!preempted("TRUEISH"));
    CHECK(!preempted(""));
    CHECK(maintenance("NONE"));
    CHECK_EQ(n.kind, RG__NOTICE_NONE);
    CHECK(maintenance("MIGRATE_ON_HOST_MAINTENANCE"));
    CHECK_EQ(n.kind, RG__NOTICE_ADVICE);
    CHECK(maintenance("TERMINATE_ON_HOST_MAINTENANCE"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK(!maintenance("<html>"));
}

/* ------------------------------------------------------------------- Azure */

static bool events(const char *list)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"DocumentIncarnation\": 2, \"Events\": [%s]}", list);
    return rg__azure_read_events(text, strlen(text), "vm_0", &n);
}

#define EVENT(id, type, machines, before, source)                              \
    "{\"EventId\": \"" id "\", \"EventType\": \"" type                         \
    "\", \"ResourceType\": \"VirtualMachine\", \"Resources\": [" machines      \
    "], \"EventStatus\": \"Scheduled\", \"NotBefore\": \"" before              \
    "\", \"Description\": \"\", \"EventSource\": \"" source                    \
    "\", \"DurationInSeconds\": -1}"
#define LATER  "Fri, 01 May 2026 10:14:31 GMT"
#define SOONER "Fri, 01 May 2026 10:04:31 GMT"

static void azure_lists_events_of_many_machines(void)
{
    CHECK(events(""));
    CHECK_EQ(n.kind, RG__NOTICE_NONE);
    CHECK(events(EVENT("a", "Reboot", "\"vm_1\"", SOONER, "Platform")));
    CHECK_EQ(n.kind, RG__NOTICE_NONE);
    CHECK(events(EVENT("a-1", "Preempt", "\"vm_0\"", SOONER, "Platform")));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK_EQ(n.at_ms, AT);
    CHECK_STR(n.id, "a-1");
    CHECK(!n.is_wanted);
    CHECK(events(EVENT("a", "Reboot", "\"vm_0\"", LATER, "User") ","        //
                 EVENT("b", "Redeploy", "\"vm_0\"", SOONER, "Platform") "," //
                 EVENT("c", "Freeze", "\"vm_0\"", SOONER, "Platform")));
    CHECK_STR(n.id, "b");
    CHECK(events(EVENT("c", "Freeze", "\"vm_0\"", SOONER, "Platform")));
    CHECK_EQ(n.kind, RG__NOTICE_ADVICE);
    CHECK(events(EVENT("a", "Terminate", "\"vm_0\"", "", "User")));
    CHECK(n.is_wanted);
    CHECK_EQ(n.at_ms, 0); /* it has begun */
    CHECK_EQ(n.in_ms, 30000);
    CHECK(
        events(EVENT("a", "Reboot", "\"vm_1\", \"vm_0\"", SOONER, "Platform")));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK_STR(n.id, ""); /* vm_1 may not have left */
    CHECK(events(EVENT("\\\"}]}", "Reboot", "\"vm_0\"", SOONER, "Platform")));
    CHECK_STR(n.id, "");
}

static void what_is_not_azures_is_refused(void)
{
    CHECK(!events(EVENT("a", "Reboot", "\"vm_0\"", "soon", "Platform")));
    CHECK(!events(EVENT("a", "", "\"vm_0\"", SOONER, "Platform")));
    CHECK(!rg__azure_read_events("{}", 2, "vm_0", &n));
    CHECK(!rg__azure_read_events("[]", 2, "vm_0", &n));
    CHECK(!rg__azure_read_events("", 0, "vm_0", &n));
}

/* ------------------------------------------------------------------- sites */

static bool site(const char *text)
{
    return rg__site_read(text, strlen(text), &n);
}

static bool any(const char *text)
{
    return rg__site_read_any(text, strlen(text), &n);
}

static void a_sites_document_may_be_short(void)
{
    static const char *const nothing[] = {"null", "false", "{}", "[]"};
    for (size_t i = 0; i < 4; i++) {
        CHECK(site(nothing[i]));
        CHECK_EQ(n.kind, RG__NOTICE_NONE);
    }
    CHECK(site("{\"at\": \"2026-05-01T10:04:31Z\", \"reason\": \"rack 7\"}"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK_EQ(n.at_ms, AT);
    CHECK_STR(n.what, "rack 7");
    CHECK(site("{\"at\": 1777629871}"));
    CHECK_EQ(n.at_ms, AT);
    CHECK(site("{\"seconds\": 90, \"advice\": true}"));
    CHECK_EQ(n.kind, RG__NOTICE_ADVICE);
    CHECK_EQ(n.in_ms, 90001);
    CHECK(!site("{\"seconds\": -1}"));
    CHECK(!site("{\"seconds\": 1e300}"));
    CHECK(!site("{\"seconds\": \"90\"}"));
    CHECK(!site("{\"at\": \"soon\"}"));
    CHECK(!site("true"));
    CHECK(!site("rack 7"));
    CHECK(!site("<html>"));
    CHECK(!site(""));
}

static void a_file_may_hold_a_line(void)
{
    CHECK(any("the machine is sold\nand more\n"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK_STR(n.what, "the machine is sold");
    CHECK(any("\n"));
    CHECK_EQ(n.kind, RG__NOTICE_LEAVE);
    CHECK(any(" {\"reason\": \"rack\\u00207\\n\"}\n"));
    CHECK_STR(n.what, "rack 7");
    CHECK(any("{}"));
    CHECK_EQ(n.kind, RG__NOTICE_NONE);
    CHECK(!any("{\"reason\""));
    CHECK(any("\x1b[2J"));
    CHECK_STR(n.what, "?[2J");
}

/* -------------------------------------------------------------------- list */

static void the_list_is_checked(void)
{
    static const char *const good[] = {
        "auto",          "none",
        "aws,gcp,azure", "kubernetes",
        "file:/a,b,/c",  "kubernetes:/run/x,auto",
        "url:http://h",  "command:test -e /a, /b,file:/c"};
    static const char *const bad[] = {
        "",      "amazon",       "aws:x", "file",           "file:", "file:run",
        "url:h", "url:https://", "aws,",  "url:http://a b", "autos"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_OK(rg__notices_check(good[i], NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(rg__notices_check(bad[i], NULL), RG_ERR_INVALID);
    CHECK_OK(rg__notices_check("aws", "http://[fd00:ec2::254]"));
    CHECK_EQ(rg__notices_check("aws", "http://h/"), RG_ERR_INVALID);
    CHECK_EQ(rg__notices_check("aws", "h"), RG_ERR_INVALID);
}

int main(void)
{
    times_are_read_as_they_are_written();
    ec2_names_action_and_time();
    compute_engine_says_words();
    azure_lists_events_of_many_machines();
    what_is_not_azures_is_refused();
    a_sites_document_may_be_short();
    a_file_may_hold_a_line();
    the_list_is_checked();
    return 0;
}
