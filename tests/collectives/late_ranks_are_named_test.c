/* B46, B47: an operation that waits too long is reported once, with set,
 * operation and the missing ranks, whether before its start or inside it; past
 * its deadline it ends here, and the set with it, while others go on. Of a
 * group's operations that are done as one, the first deadline counts. There is
 * no agent here that could end the generation.
 *
 * Covers: watchdog.c */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/world.h"

#define LARGE ((uint64_t)8 << 20)

static rg_set *make(world *w, const char *name)
{
    const rg_set_params params = {.size = sizeof params, .name = name};
    const int ranks[2] = {0, 1};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, 2, &params, &set));
    return set;
}

/* What this process says goes to a file from now on. */
static FILE *catch_log(void)
{
    FILE *log = tmpfile();
    CHECK(log != NULL);
    CHECK(dup2(fileno(log), STDERR_FILENO) >= 0);
    return log;
}

static int lines_with(FILE *log, const char *a, const char *b)
{
    char line[1000];
    int n = 0;
    rewind(log);
    while (fgets(line, sizeof line, log) != NULL)
        n += strstr(line, a) != NULL && strstr(line, b) != NULL;
    return n;
}

static void before_it(world *w, rg_set *set, FILE *log)
{
    int32_t one = 1;
    rg_req *req = NULL;
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 1500};
    CHECK_OK(
        rg_allreduce_start(set, &one, &one, 1, RG_I32, RG_SUM, &params, &req));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_TIMEOUT);
    CHECK(strstr(rg_last_error(), "allreduce of 1 elements on set late"));
    CHECK(strstr(rg_last_error(), "waiting for its rank 1"));
    CHECK_EQ(lines_with(log, "stalled: allreduce of 1 elements on set late",
                        "waiting for its rank 1"),
             1);
    CHECK_STATUS(rg_barrier(set), RG_ERR_TIMEOUT);
    CHECK_EQ(rg_set_rank(rg_world(w->ctx)), 0);
}

/* Only the second one has a deadline. */
static void done_as_one(world *w, rg_set *set)
{
    int32_t v[3] = {7, 7, 7};
    rg_req *req[3] = {NULL, NULL, NULL};
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 300};
    CHECK_OK(rg_group_start(w->ctx));
    for (int i = 0; i < 3; i++)
        CHECK_OK(rg_allreduce_start(set, &v[i], &v[i], 1, RG_I32, RG_SUM,
                                    i == 1 ? &params : NULL, &req[i]));
    CHECK_OK(rg_group_end(w->ctx));
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(rg_wait(&req[i], 20000), RG_ERR_TIMEOUT);
        CHECK(strstr(rg_last_error(), "waiting for its rank 1"));
    }
}

/* Another's turn has not come: it is said what it is behind, since when, and
 * the ranks that are missing there. */
static void behind_another(rg_set *set)
{
    int32_t one = 1;
    rg_req *first = NULL, *second = NULL;
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 300};
    CHECK_OK(rg_barrier_start(set, NULL, &first));
    CHECK_OK(rg_allreduce_start(set, &one, &one, 1, RG_I32, RG_SUM, &params,
                                &second));
    CHECK_STATUS(rg_wait(&second, 20000), RG_ERR_TIMEOUT);
    const char *time = strstr(rg_last_error(), "allreduce of 1 elements on set "
                                               "queue for ");
    CHECK(time != NULL);
    CHECK(atoi(time + strlen("allreduce of 1 elements on set queue for ")) >=
          300);
    CHECK(strstr(rg_last_error(), "after the set's barrier, waiting for its "
                                  "rank 1"));
    CHECK_STATUS(rg_wait(&first, 20000), RG_ERR_TIMEOUT);
}

static void inside_of_it(world *w, rg_set *set, FILE *log)
{
    char *data = calloc(1, LARGE);
    rg_req *req = NULL;
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 1500};
    CHECK_OK(rg_allreduce_start(set, data, data, LARGE, RG_U8, RG_SUM, &params,
                                &req));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_TIMEOUT);
    CHECK_EQ(lines_with(log, "on set inside", "waiting for its rank 1"), 1);
    CHECK_EQ(kill((pid_t)atomic_load(world_word(w, 0)), SIGCONT), 0);
    free(data);
}

static void stopped(world *w, rg_set *set)
{
    char *data = calloc(1, LARGE);
    rg_req *req = NULL;
    atomic_store(world_word(w, 0), (uint64_t)getpid());
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 3000};
    CHECK_OK(rg_allreduce_start(set, data, data, LARGE, RG_U8, RG_SUM, &params,
                                &req));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_TIMEOUT); /* its peer has left it */
    free(data);
}

static void all(world *w, void *arg)
{
    (void)arg;
    rg_set *late = make(w, "late"), *inside = make(w, "inside");
    rg_set *group = make(w, "group"), *queue = make(w, "queue");
    FILE *log = catch_log();
    if (w->index == 0)
        before_it(w, late, log);
    if (w->index == 0)
        done_as_one(w, group);
    if (w->index == 0)
        behind_another(queue);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    if (w->index == 0)
        inside_of_it(w, inside, log);
    else
        stopped(w, inside);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

int main(void)
{
#ifndef RG_FAILPOINTS
    printf("this is no build with failpoints\n");
    return 77;
#endif
    setenv("REGROUP_STALL", "60ms", 1);
    setenv("REGROUP_FAILPOINT", "coll.middle:rank1:stop", 1);
    world_of(2, all, NULL);
    return 0;
}
