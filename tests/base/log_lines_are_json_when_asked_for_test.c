/* One JSON object per line, with the same names always; whatever bytes a
 * sentence has, the line is JSON in UTF-8; one that is too long is cut between
 * characters.
 *
 * Covers: log.c */

#include "sdk/base/log.h"
#include "tests/base/stderr.h"

static const char *sentence;

static void say_sentence(void)
{
    rg__log(RG__WARN, "set", "%s", sentence);
}

static void say_to_person(void)
{
    rg__say("%s", sentence);
}

/* The message of a line, as it is written. */
static const char *message_of(char *line)
{
    char *begin = strstr(line, "\"message\":\"");
    CHECK(begin != NULL);
    const size_t n = strlen(line);
    CHECK_STR(line + n - 3, "\"}\n");
    line[n - 3] = '\0';
    return begin + strlen("\"message\":\"");
}

static void check_message(const char *said, const char *written)
{
    sentence = said;
    CHECK_STR(message_of(stderr_of(say_sentence)), written);
}

static void check_names(void)
{
    int y, mo, d, h, mi, s, ms, end = 0;
    sentence = "split world into 2 sets";
    rg__log_who("h2", 3, 8, 2);
    const char *line = stderr_of(say_sentence);
    CHECK_EQ(sscanf(line, "{\"time\":\"%4d-%2d-%2dT%2d:%2d:%2d.%3dZ\"%n", &y,
                    &mo, &d, &h, &mi, &s, &ms, &end),
             7);
    CHECK_STR(line + end,
              ",\"level\":\"warn\",\"room\":\"set\",\"host\":\"h2\",\"rank\":3,"
              "\"size\":8,\"generation\":2,"
              "\"message\":\"split world into 2 sets\"}\n");
    rg__log_who("h2", -1, -1, 0);
    line = stderr_of(say_to_person);
    CHECK(strstr(line, "\"level\":\"error\",\"room\":\"regroup\",\"host\":"
                       "\"h2\",\"rank\":null,\"size\":null,"
                       "\"generation\":0,") != NULL);
}

static void check_bytes(void)
{
    check_message("a \"b\" \\ c\n\t\x7f\x01", "a \\\"b\\\" \\\\ c\\u000a\\u0009"
                                              "\\u007f\\u0001");
    check_message("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
                  "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    check_message("\xff \xc3 \xe2\x82", "? ? ??");
    check_message("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80", /* too long, half,
                                                               too large */
                  "?? ??? ????");
}

static void check_length(void)
{
    char longer[9001];
    for (size_t i = 0; i < 9000; i++)
        longer[i] = "\xe2\x82\xac"[i % 3];
    longer[9000] = '\0';
    sentence = longer;
    char *line = stderr_of(say_to_person);
    CHECK(strlen(line) <= 4096);
    const char *written = message_of(line);
    CHECK_EQ(strlen(written) % 3, 0);
    CHECK_EQ(strncmp(written, longer, strlen(written)), 0);
    memset(longer, 1, 9000); /* six bytes each */
    line = stderr_of(say_to_person);
    CHECK(strlen(line) <= 4096);
    CHECK_EQ(strlen(message_of(line)) % 6, 0);
}

int main(void)
{
    CHECK(!rg__log_is_json());
    sentence = "it is so";
    CHECK_STR(stderr_of(say_to_person), "regroup: it is so\n");
    CHECK(!rg__log_format("xml"));
    CHECK(rg__log_format("json"));
    CHECK(!rg__log_format(""));
    CHECK(rg__log_is_json());
    check_names();
    check_bytes();
    check_length();
    CHECK(rg__log_format("text"));
    CHECK(stderr_of(say_sentence)[0] == '[');
    return 0;
}
