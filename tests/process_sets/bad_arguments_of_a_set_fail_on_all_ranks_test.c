/* rg_set_create is collective: equal bad arguments are ERR_INVALID everywhere,
 * differing ones ERR_MISMATCH everywhere, also when some of them are bad; and
 * the next set is made.
 *
 * Covers: set_request.c make.c */
#include "tests/lib/world.h"

static void check_works(world *w)
{
    const int ranks[2] = {2, 0};
    rg_set *set = NULL;
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_set_create(w->ctx, ranks, 2, NULL, &set));
    if (w->index != 1) {
        CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
        CHECK_EQ(sum, 2);
    }
    CHECK_OK(rg_set_destroy(set));
}

static void check_fails(world *w, const int *ranks, int n, const char *name,
                        rg_status want, const char *words)
{
    const rg_set_params params = {sizeof params, name};
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create(w->ctx, ranks, n, &params, &set), want);
    if (strstr(rg_last_error(), words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());
    CHECK(set == NULL);
    check_works(w);
}

static void equal_and_bad(world *w)
{
    static const int far[] = {0, 3}, negative[] = {-1}, twice[] = {1, 2, 1},
                     good[] = {0, 1};
    check_fails(w, far, 2, NULL, RG_ERR_INVALID, "rank 3");
    check_fails(w, negative, 1, NULL, RG_ERR_INVALID, "rank -1");
    check_fails(w, twice, 3, NULL, RG_ERR_INVALID, "rank 1 twice");
    check_fails(w, good, 0, NULL, RG_ERR_INVALID, "1 to 3 ranks");
    check_fails(w, good, -4, NULL, RG_ERR_INVALID, "1 to 3 ranks");
    check_fails(w, good, 4000, NULL, RG_ERR_INVALID, "1 to 3 ranks");
    check_fails(w, NULL, 2, NULL, RG_ERR_INVALID, "1 to 3 ranks");
    check_fails(w, good, 2, "", RG_ERR_INVALID, "name");
    check_fails(w, good, 2, "a name of more than thirty-one bytes",
                RG_ERR_INVALID, "1 to 31 bytes");
    CHECK_STATUS(rg_set_create(w->ctx, good, 2, NULL, NULL), RG_ERR_INVALID);
    check_works(w);
}

static void different(world *w)
{
    static const int a[] = {0, 1}, b[] = {1, 0}, bad[] = {0, 7};
    const char *words = "not called with the same ranks and name";
    const bool odd = w->index == 2;
    check_fails(w, odd ? b : a, 2, NULL, RG_ERR_MISMATCH, words);
    check_fails(w, a, odd ? 1 : 2, NULL, RG_ERR_MISMATCH, words);
    check_fails(w, a, 2, odd ? "x" : "y", RG_ERR_MISMATCH, words);
    check_fails(w, a, 2, odd ? NULL : "y", RG_ERR_MISMATCH, words);
    check_fails(w, odd ? bad : a, 2, NULL, RG_ERR_MISMATCH, words);
    check_fails(w, a, odd ? 900 : 2, NULL, RG_ERR_MISMATCH, words);
    check_fails(w, odd ? NULL : a, 2, NULL, RG_ERR_MISMATCH, words);
}

static int one_color(rg_ctx *ctx, void *arg)
{
    (void)ctx;
    (void)arg;
    return 1;
}

/* Parameters of a size that is none, here or everywhere. */
static void check_size(world *w, bool is_bad, rg_status want, const char *words)
{
    const int ranks[1] = {0};
    const rg_set_params params = {is_bad ? 4 : sizeof params, "x"};
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create(w->ctx, ranks, 1, &params, &set), want);
    CHECK(strstr(rg_last_error(), words));
    CHECK_STATUS(rg_set_split(w->ctx, 1, 0, &params, &set), want);
    CHECK(strstr(rg_last_error(), words));
    CHECK_STATUS(rg_set_create_by(w->ctx, one_color, NULL, &params, &set),
                 want);
    CHECK(strstr(rg_last_error(), words));
    CHECK(set == NULL);
    check_works(w);
}

static void sizes(world *w)
{
    check_size(w, true, RG_ERR_INVALID, "rg_set_params.size is 4");
    check_size(w, w->index == 1, RG_ERR_MISMATCH, "not called with the same");
}

static void functions(world *w)
{
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create_by(w->ctx, w->index == 1 ? NULL : one_color,
                                  NULL, NULL, &set),
                 RG_ERR_MISMATCH);
    CHECK(set == NULL);
    CHECK_STATUS(rg_set_create_by(w->ctx, NULL, NULL, NULL, &set),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "needs a function"));
    check_works(w);
}

static void local(void)
{
    const int ranks[1] = {0};
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create(NULL, ranks, 1, NULL, &set), RG_ERR_INVALID);
}

static void all(world *w, void *arg)
{
    (void)arg;
    equal_and_bad(w);
    different(w);
    sizes(w);
    functions(w);
    local();
}

int main(void)
{
    world_of(3, all, NULL);
    return 0;
}
