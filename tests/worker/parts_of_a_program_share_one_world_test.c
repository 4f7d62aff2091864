/* A program and libraries inside it call rg_init and rg_finalize each for
 * itself, from any thread: all get one context, the last one ends it, and a
 * library that asks for another kind of world hears what there is.
 *
 * Covers: worker/init.c */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

#define THREADS 8

static rg_ctx *found[THREADS];
static const rg_params elastic = {.size = sizeof elastic, .elastic = 1};
static const rg_params is_static = {.size = sizeof is_static};

static void *library(void *place)
{
    rg_ctx **ctx = place;
    int one = 1;
    CHECK_OK(rg_init(NULL, ctx));
    CHECK_OK(rg_allreduce(rg_world(*ctx), &one, &one, 1, RG_I32, RG_SUM));
    CHECK_EQ(one, 1);
    return NULL;
}

static void check_refused(const rg_params *params, const char *words)
{
    rg_ctx *ctx = NULL;
    CHECK_STATUS(rg_init(params, &ctx), RG_ERR_INVALID);
    CHECK(ctx == NULL);
    if (strstr(rg_last_error(), words) == NULL)
        CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());
}

static void threads_share_it(void)
{
    pthread_t thread[THREADS];
    int one = 1;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, library, &found[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CHECK(found[i] == found[0]);
    }
    check_refused(&elastic, "that is elastic, and this process has one that "
                            "is static");
    CHECK_OK(rg_init(&is_static, &found[0]));
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(
            rg_allreduce(rg_world(found[0]), &one, &one, 1, RG_I32, RG_SUM));
        CHECK_OK(rg_finalize(found[i]));
    }
    CHECK_OK(rg_allreduce(rg_world(found[0]), &one, &one, 1, RG_I32, RG_SUM));
    CHECK_OK(rg_finalize(found[0]));
    check_refused(NULL, "a process has one world");
}

/* A library that comes first, or does not care. */
static void an_elastic_one(void)
{
    rg_ctx *ctx = NULL, *again = NULL;
    CHECK_OK(rg_init(&elastic, &ctx));
    CHECK_OK(rg_init(NULL, &again));
    CHECK(again == ctx);
    check_refused(&is_static, "that is static, and this process has one that "
                              "is elastic");
    CHECK_OK(rg_finalize(again));
    CHECK_OK(rg_finalize(ctx));
}

int main(void)
{
    const pid_t child = fork();
    int how = 0;
    if (child == 0) {
        an_elastic_one();
        _exit(0);
    }
    CHECK(waitpid(child, &how, 0) == child && how == 0);
    threads_share_it();
    return 0;
}
