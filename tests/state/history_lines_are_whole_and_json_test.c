/* A history is one JSON object per line, each written at once, also by several
 * threads; names with quotes are escaped; without a directory nothing is
 * written.
 *
 * Covers: history.c */
#include "tests/check.h"

#include <jansson.h>
#include <pthread.h>
#include <unistd.h>

#include "elastic/state/history.h"

#define LINES 200

static char dir[] = "/tmp/rg-history-XXXXXX";

static void *write_lines(void *arg)
{
    const rg__history_samples samples = {1, 64, 16};
    for (uint64_t step = 1; step <= LINES; step++)
        rg__history_step(arg, 2, 1, 3, step, NULL, &samples);
    return NULL;
}

static void write_all(rg__history *h)
{
    static const int ranks[] = {2, 0};
    const rg__history_set sets[] = {{"world", ranks, 2},
                                    {"a \"b\"\n", ranks, 1}};
    rg__history_decide(h, "0123", 2, 1, 3, (rg__commit_id){1, 7}, sets, 2);
    rg__history_decide(h, "0123", 3, 1, 3, (rg__commit_id){0, 0}, NULL, 0);
    rg__history_event(h, "commit", 2, 1, 3, 8, "0123456789abcdef");
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, write_lines, h) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void check_head(const json_t *line)
{
    CHECK_STR(json_string_value(json_object_get(line, "host")), "h\"1");
    CHECK_STR(json_string_value(json_object_get(line, "worker")), "h\"1.2");
    CHECK_EQ(json_integer_value(json_object_get(line, "pid")), getpid());
    CHECK_EQ(json_integer_value(json_object_get(line, "rank")), 1);
    CHECK_EQ(json_integer_value(json_object_get(line, "size")), 3);
    CHECK(json_integer_value(json_object_get(line, "t_ns")) > 0);
    CHECK(json_object_get(line, "hash") != NULL);
}

static void check_decides(const json_t *resumed, const json_t *fresh)
{
    const json_t *resume = json_object_get(resumed, "resume");
    CHECK_STR(json_string_value(json_object_get(resumed, "event")), "decide");
    CHECK_EQ(json_integer_value(json_array_get(resume, 0)), 1);
    CHECK_EQ(json_integer_value(json_array_get(resume, 1)), 7);
    CHECK_STR(json_string_value(json_object_get(resumed, "job")), "0123");
    const json_t *sets = json_object_get(resumed, "sets");
    CHECK_EQ(json_object_size(sets), 2);
    const json_t *odd = json_object_get(sets, "a \"b\"\n");
    CHECK_EQ(json_array_size(odd), 1);
    CHECK_EQ(json_integer_value(json_array_get(odd, 0)), 2);
    CHECK(json_is_null(json_object_get(fresh, "resume")));
    CHECK_EQ(json_object_size(json_object_get(fresh, "sets")), 0);
}

static void check_file(const char *path)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    json_t *first[3] = {NULL};
    char text[1024];
    int n = 0;
    for (; fgets(text, sizeof text, file) != NULL; n++) {
        json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        CHECK(line != NULL);
        check_head(line);
        if (n < 3) {
            first[n] = line;
            continue;
        }
        const json_t *samples = json_object_get(line, "samples");
        CHECK_EQ(json_integer_value(json_array_get(samples, 1)), 64);
        json_decref(line);
    }
    fclose(file);
    CHECK_EQ(n, 3 + 2 * LINES);
    check_decides(first[0], first[1]);
    CHECK_STR(json_string_value(json_object_get(first[2], "hash")),
              "0123456789abcdef");
    for (int i = 0; i < 3; i++)
        json_decref(first[i]);
}

static void check_hash(void)
{
    rg__hash hash;
    char whole[17], pieces[17], other[17];
    rg__hash_begin(&hash);
    rg__hash_update(&hash, "abcdef", 6);
    rg__hash_end(&hash, whole);
    rg__hash_begin(&hash);
    rg__hash_update(&hash, "abc", 3);
    rg__hash_update(&hash, "def", 3);
    rg__hash_end(&hash, pieces);
    rg__hash_begin(&hash);
    rg__hash_update(&hash, "abcdeg", 6);
    rg__hash_end(&hash, other);
    CHECK_EQ(strlen(whole), 16);
    CHECK_STR(whole, pieces);
    CHECK(strcmp(whole, other) != 0);
}

/* What is there is another process's, unless it is gone on with. */
static void check_files(void)
{
    rg__history *first = NULL, *second = NULL, *again = NULL;
    uint32_t one = 1, two = 1;
    CHECK_OK(rg__history_open(dir, "h1", 0, &one, true, &first));
    CHECK_OK(rg__history_open(dir, "h1", 0, &two, true, &second));
    CHECK_OK(rg__history_open(dir, "h1", 0, &two, false, &again));
    CHECK_EQ(one, 1);
    CHECK_EQ(two, 2);
    rg__history_close(first);
    rg__history_close(second);
    rg__history_close(again);
    for (int i = 1; i <= 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/h1.0.%d.jsonl", dir, i);
        CHECK_EQ(unlink(path), 0);
    }
}

int main(void)
{
    rg__history *h = NULL;
    uint32_t start = 1;
    CHECK_OK(rg__history_open("", "h1", 0, &start, true, &h));
    CHECK(h == NULL);
    write_all(h);
    rg__history_close(h);

    CHECK_STATUS(rg__history_open("/nowhere/at/all", "h1", 0, &start, true, &h),
                 RG_ERR_SYSTEM);
    CHECK(h == NULL);

    char path[128];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/h\"1.2.3.jsonl", dir);
    start = 3;
    CHECK_OK(rg__history_open(dir, "h\"1", 2, &start, true, &h));
    write_all(h);
    rg__history_close(h);
    check_file(path);
    unlink(path);
    check_files();
    CHECK_EQ(rmdir(dir), 0);
    check_hash();
    return 0;
}
