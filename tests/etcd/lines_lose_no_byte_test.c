/* The line splitter: however a stream is cut, the same lines come out, and text
 * without a newline at the end is not lost (trap 7).
 *
 * Covers: etcd/lines.c */
#include "elastic/etcd/lines.h"
#include "tests/check.h"

static const char stream[] = "{\"a\":1}\n\n{\"b\":2}\nlonger line\nunfinished";
static const char *const lines[] = {"{\"a\":1}", "", "{\"b\":2}",
                                    "longer line"};

static void take_lines(rg__lines *l, size_t *seen)
{
    const char *line = NULL;
    size_t n = 0;
    while (rg__lines_next(l, &line, &n)) {
        CHECK(*seen < 4);
        CHECK_EQ(n, strlen(lines[*seen]));
        CHECK(memcmp(line, lines[*seen], n) == 0);
        ++*seen;
    }
}

/* Cut at two places. */
static void cut_at(size_t a, size_t b)
{
    const size_t cuts[] = {0, a, b, strlen(stream)};
    const char *rest = NULL;
    size_t seen = 0, n = 0;
    rg__lines l;
    rg__lines_open(&l, 64);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(rg__lines_add(&l, stream + cuts[i], cuts[i + 1] - cuts[i]));
        take_lines(&l, &seen);
    }
    CHECK_EQ(seen, 4);
    CHECK(rg__lines_rest(&l, &rest, &n));
    CHECK_EQ(n, strlen("unfinished"));
    CHECK(memcmp(rest, "unfinished", n) == 0);
    CHECK(!rg__lines_rest(&l, &rest, &n));
    rg__lines_close(&l);
}

static void endless_line_is_refused(void)
{
    rg__lines l;
    rg_status st = RG_OK;
    size_t added = 0;
    rg__lines_open(&l, 1000);
    while (st == RG_OK && added < 10000) {
        st = rg__lines_add(&l, "0123456789", 10);
        added += 10;
    }
    CHECK_EQ(st, RG_ERR_STORE);
    CHECK_EQ(added, 1010);
    rg__lines_close(&l);
}

static void no_rest_when_all_was_lines(void)
{
    const char *line = NULL;
    size_t n = 0;
    rg__lines l;
    rg__lines_open(&l, 1000);
    CHECK(!rg__lines_next(&l, &line, &n));
    CHECK(!rg__lines_rest(&l, &line, &n));
    CHECK_OK(rg__lines_add(&l, "x\n", 2));
    CHECK(rg__lines_next(&l, &line, &n));
    CHECK(!rg__lines_rest(&l, &line, &n));
    rg__lines_close(&l);
}

int main(void)
{
    const size_t n = strlen(stream);
    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b++)
            cut_at(a, b);
    endless_line_is_refused();
    no_rest_when_all_was_lines();
    return 0;
}
