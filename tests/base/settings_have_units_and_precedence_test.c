/* The table of settings as code sees it: typed targets, units, limits; the
 * origin with the highest precedence wins, in whatever order they are read.
 *
 * Covers: config.c config_read.c */
#include <stdint.h>
#include <unistd.h>

#include "sdk/base/config.h"
#include "tests/check.h"

typedef struct target {
    const char *text;
    int count, size;
    uint64_t time, bytes, detect;
    rg__every every;
    bool yes;
} target;

static const rg__cfg_field table[] = {
    {"TEXT", NULL, RG__CFG_TEXT_AT(target, text), "a text"},
    {"COUNT", NULL, RG__CFG_COUNT_AT(target, count), "a count"},
    {"SIZE", NULL, RG__CFG_SIZE_AT(target, size), "a size"},
    {"LONG_TIME", "1s", RG__CFG_TIME_AT(target, time), "a time"},
    {"BYTES", "0", RG__CFG_BYTES_AT(target, bytes), "bytes"},
    {"DETECT", "lan", RG__CFG_DETECT_AT(target, detect), "a budget"},
    {"EVERY", NULL, RG__CFG_EVERY_AT(target, every), "how often"},
    {"YES", "no", RG__CFG_YES_AT(target, yes), "whether"},
    {NULL}};

static rg__cfg *make(target *t)
{
    rg__cfg *cfg = NULL;
    CHECK_OK(rg__cfg_create(&cfg));
    CHECK_OK(rg__cfg_add(cfg, table, t));
    return cfg;
}

static rg_status set(rg__cfg *cfg, const char *name, const char *text)
{
    return rg__cfg_set(cfg, name, text, RG__CFG_FLAG, "--flag");
}

static void unset_and_defaults(void)
{
    target t;
    rg__cfg *cfg = make(&t);
    CHECK(t.text == NULL);
    CHECK_EQ(t.count, -1);
    CHECK_EQ(t.size, 0);
    CHECK_EQ(t.time, 1000);
    CHECK_EQ(t.bytes, 0);
    CHECK_EQ(t.detect, 500);
    CHECK_EQ(t.every.steps, 0);
    CHECK_EQ(t.every.ms, 0);
    rg__cfg_destroy(cfg);
}

static void values(void)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } times[] = {{"0ms", 0},
                 {"500ms", 500},
                 {"10s", 10000},
                 {"5m", 300000},
                 {"2h", 7200000}};
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"4096", 4096},
                 {"1K", 1024},
                 {"64M", UINT64_C(64) << 20},
                 {"2GiB", UINT64_C(2) << 30},
                 {"1T", UINT64_C(1) << 40}};
    target t;
    rg__cfg *cfg = make(&t);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        CHECK_OK(set(cfg, "LONG_TIME", times[i].text));
        CHECK_EQ(t.time, times[i].ms);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_OK(set(cfg, "BYTES", sizes[i].text));
        CHECK_EQ(t.bytes, sizes[i].bytes);
    }
    CHECK_OK(set(cfg, "EVERY", "100"));
    CHECK_EQ(t.every.steps, 100);
    CHECK_EQ(t.every.ms, 0);
    CHECK_OK(set(cfg, "EVERY", "2m"));
    CHECK_EQ(t.every.steps, 0);
    CHECK_EQ(t.every.ms, 120000);
    CHECK_OK(set(cfg, "EVERY", "0"));
    CHECK_EQ(t.every.steps, 0);
    CHECK_EQ(t.every.ms, 0);
    CHECK(!t.yes);
    CHECK_OK(set(cfg, "YES", "yes"));
    CHECK(t.yes);
    CHECK_OK(set(cfg, "YES", "no"));
    CHECK(!t.yes);
    CHECK_OK(set(cfg, "DETECT", "cloud"));
    CHECK_EQ(t.detect, 3000);
    CHECK_OK(set(cfg, "DETECT", "40ms"));
    CHECK_EQ(t.detect, 40);
    CHECK_OK(set(cfg, "DETECT", "auto"));
    CHECK_EQ(t.detect, 0);
    CHECK_OK(set(cfg, "COUNT", "0"));
    CHECK_EQ(t.count, 0);
    CHECK_OK(set(cfg, "SIZE", "64"));
    CHECK_EQ(t.size, 64);
    CHECK_OK(set(cfg, "TEXT", "some words"));
    CHECK_STR(t.text, "some words");
    rg__cfg_destroy(cfg);
}

static void bad_values_change_nothing(void)
{
    static const char *const bad[][2] = {
        {"LONG_TIME", "10"},
        {"LONG_TIME", "s"},
        {"LONG_TIME", "-1s"},
        {"LONG_TIME", "1.5s"},
        {"LONG_TIME", "10s "},
        {"LONG_TIME", "9999999999999999999h"}, /* over 2^64 ms */
        {"LONG_TIME", "99999999999999999999s"},
        {"BYTES", "2GB"},
        {"BYTES", "1k"},
        {"BYTES", "99999999999T"}, /* over 2^64 */
        {"EVERY", "often"},
        {"EVERY", "10 steps"},
        {"YES", "true"},
        {"DETECT", "0ms"},
        {"DETECT", "LAN"},
        {"COUNT", "-1"},
        {"COUNT", "1000001"},
        {"COUNT", "3x"},
        {"SIZE", "0"},
        {"SIZE", ""},
        {"TEXT", ""}};
    target t;
    rg__cfg *cfg = make(&t);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(set(cfg, bad[i][0], bad[i][1]), RG_ERR_INVALID);
        CHECK(strstr(rg_last_error(), "--flag is \"") != NULL);
    }
    CHECK_EQ(t.time, 1000);
    CHECK_EQ(t.size, 0);
    rg__cfg_destroy(cfg);
}

static void highest_origin_wins_in_any_order(void)
{
    static const rg__cfg_origin order[][3] = {
        {RG__CFG_FILE, RG__CFG_ENVIRONMENT, RG__CFG_FLAG},
        {RG__CFG_FLAG, RG__CFG_ENVIRONMENT, RG__CFG_FILE},
        {RG__CFG_ENVIRONMENT, RG__CFG_FLAG, RG__CFG_FILE}};
    static const char *const text[] = {"", "1", "2", "3"}; /* by origin */
    for (size_t i = 0; i < 3; i++) {
        target t;
        rg__cfg *cfg = make(&t);
        for (size_t k = 0; k < 3; k++)
            CHECK_OK(rg__cfg_set(cfg, "SIZE", text[order[i][k]], order[i][k],
                                 "somewhere"));
        CHECK_EQ(t.size, 3);
        rg__cfg_destroy(cfg);
    }
}

static void names_of_others(void)
{
    static char known[] = "REGROUP_LONG_TIME=3s", other[] = "REGROUP_JOB=x",
                odd[] = "REGROUP_", foreign[] = "LONG_TIME=9s";
    char *const environment[] = {known, other, odd, foreign, NULL};
    target t;
    rg__cfg *cfg = make(&t);
    CHECK_OK(rg__cfg_read(cfg, environment, false));
    CHECK_EQ(t.time, 3000);
    const rg__cfg_item item = rg__cfg_at(cfg, 3);
    CHECK_STR(item.where, "REGROUP_LONG_TIME");
    CHECK_EQ(item.origin, RG__CFG_ENVIRONMENT);
    CHECK_EQ(rg__cfg_find(cfg, "long-time"), 3);
    CHECK_EQ(rg__cfg_find(cfg, "long"), -1);
    CHECK_STATUS(set(cfg, "LONGTIME", "1s"), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "did you mean LONG_TIME") != NULL);
    rg__cfg_destroy(cfg);
}

static void nearest(void)
{
    static const char *const names[] = {"min", "max", "detect", "etcd-user"};
    CHECK_STR(rg__nearest("mim", names, 4), "min");
    CHECK_STR(rg__nearest("dtect", names, 4), "detect");
    CHECK_STR(rg__nearest("detcet", names, 4), "detect");
    CHECK_STR(rg__nearest("ETCD_USER", names, 4), "etcd-user");
    CHECK(rg__nearest("history", names, 4) == NULL);
    CHECK(rg__nearest("", names, 4) == NULL);
    CHECK(rg__nearest("x", names, 0) == NULL);
}

int main(void)
{
    unset_and_defaults();
    values();
    bad_values_change_nothing();
    highest_origin_wins_in_any_order();
    names_of_others();
    nearest();
    return 0;
}
