/* Registers as many small buffers as the first argument says, and steps until
 * the file that the second one names is there. Each buffer is the number of
 * steps, and says so when fn begins. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "regroup/regroup.h"

#define WORDS 16

typedef struct job {
    rg_ctx *ctx;
    int count;
    const char *until;
    uint64_t *words; /* WORDS of each buffer */
} job;

static int open_files(void)
{
    int n = -3; /* ., .., and the folder itself */
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n;
}

static int complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, rg_last_error());
    return 1;
}

static rg_status train(rg_state *st, void *arg)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    job *j = arg;
    for (int k = 0; k < j->count; k++)
        if (j->words[k * WORDS] != rg_state_step(st))
            printf("buffer %d has %" PRIu64 " in step %" PRIu64 "\n", k,
                   j->words[k * WORDS], rg_state_step(st));
    printf("begins with %d open files\n", open_files());
    for (int64_t is_over = 0; is_over == 0;) {
        for (int k = 0; k < j->count; k++)
            j->words[k * WORDS]++;
        rg_status rs = rg_state_commit(st);
        is_over = access(j->until, F_OK) == 0;
        if (rs == RG_OK)
            rs = rg_allreduce(rg_world(j->ctx), &is_over, &is_over, 1, RG_I64,
                              RG_MAX);
        if (rs != RG_OK)
            return rs;
        nanosleep(&pause, NULL);
    }
    return RG_OK;
}

int main(int argc, char **argv)
{
    const rg_params params = {.size = sizeof params, .elastic = 1};
    rg_state *st;
    job j = {.count = argc > 2 ? atoi(argv[1]) : 0};
    j.until = argv[argc - 1];
    j.words = calloc((size_t)j.count + 1, WORDS * sizeof *j.words);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (rg_init(&params, &j.ctx) != RG_OK ||
        rg_state_create(j.ctx, NULL, &st) != RG_OK)
        return complain("begin");
    for (int k = 0; k < j.count; k++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d", k);
        if (rg_state_add(st, name, &j.words[k * WORDS], WORDS * sizeof *j.words,
                         NULL) != RG_OK)
            return complain(name);
    }
    if (rg_run(st, train, &j) != RG_OK)
        return complain("rg_run");
    rg_state_destroy(st);
    free(j.words);
    return rg_finalize(j.ctx) == RG_OK ? 0 : 1;
}
