/* Without an agent: rg_state_save writes before it returns, the newest are
 * kept, and another process goes on from the newest whole one; what does not
 * fit is refused, both sizes named. Each part is a process of its own, since
 * rg_run runs once in one.
 *
 * Covers: save.c notes.c checkpoint_data.c checkpoint_dir.c */
#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "tests/check.h"

static char dir[] = "/tmp/rg-aloneXXXXXX";

typedef struct job {
    uint64_t step; /* registered */
    char big[5000];
    uint64_t until;
    const char *saves_in; /* NULL: --checkpoint-dir, of which there is none */
} job;

static rg_status train(rg_state *st, void *arg)
{
    job *j = arg;
    const rg_save_params params = {.size = sizeof params, .keep = 2};
    rg_status rs = RG_OK;
    while (j->step < j->until && rs == RG_OK) {
        j->step++;
        memset(j->big, (int)j->step, sizeof j->big);
        rs = j->step % 4 == 0 ? rg_state_save(st, j->saves_in, &params)
                              : rg_step_end(st);
        CHECK_EQ(rg_state_step(st), j->step);
    }
    return rs;
}

static rg_ctx *ctx;

static rg_state *state_of(job *j, size_t big)
{
    rg_state *st;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_state_create(ctx, NULL, &st));
    CHECK_OK(rg_state_add(st, "step", &j->step, sizeof j->step, NULL));
    CHECK_OK(rg_state_add(st, "big", j->big, big, NULL));
    return st;
}

static void end(rg_state *st)
{
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
}

static void in_a_process(void (*part)(void))
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        part();
        exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

static int count_files(void)
{
    int n = 0;
    DIR *open = opendir(dir);
    for (const struct dirent *e; (e = readdir(open)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(open);
    return n;
}

static void saves(void)
{
    job j = {.until = 14, .saves_in = dir};
    uint64_t step = 77;
    rg_state *st = state_of(&j, sizeof j.big);
    CHECK_STATUS(rg_state_load(st, NULL, &step), RG_ERR_NOT_FOUND);
    CHECK(strstr(rg_last_error(), "--checkpoint-dir") != NULL);
    CHECK_STATUS(rg_state_load(st, dir, &step), RG_ERR_NOT_FOUND);
    CHECK_STATUS(rg_state_load(st, "/tmp/does-not-exist", &step),
                 RG_ERR_NOT_FOUND);
    CHECK_STATUS(rg_state_saved(st, &step), RG_ERR_NOT_FOUND);
    CHECK_EQ(step, 77);
    CHECK_EQ(rg_status_advice(RG_ERR_NOT_FOUND), RG_ADVICE_NONE);
    CHECK_STATUS(rg_state_save(st, dir, NULL), RG_ERR_INVALID);
    CHECK_OK(rg_run(st, train, &j));
    CHECK_OK(rg_state_saved(st, &step));
    CHECK_EQ(step, 12);
    CHECK_EQ(count_files(), 2);
    CHECK_STATUS(rg_state_load(st, dir, &step), RG_ERR_INVALID);
    end(st);
}

static void goes_on(void)
{
    job j = {.until = 21, .saves_in = dir};
    uint64_t step = 0;
    rg_state *st = state_of(&j, sizeof j.big);
    CHECK_OK(rg_state_load(st, dir, &step));
    CHECK_EQ(step, 12);
    CHECK_EQ(rg_state_step(st), 12);
    CHECK_EQ(j.step, 12);
    CHECK_EQ(j.big[0], 12);
    CHECK_EQ(j.big[sizeof j.big - 1], 12);
    CHECK_OK(rg_state_saved(st, &step));
    CHECK_EQ(step, 12);
    CHECK_OK(rg_run(st, train, &j));
    CHECK_OK(rg_state_saved(st, &step));
    CHECK_EQ(step, 20);
    CHECK_EQ(count_files(), 2);
    end(st);
}

static void does_not_fit(void)
{
    job j = {.big = {1}};
    uint64_t step = 77;
    rg_state *st = state_of(&j, sizeof j.big - 1000);
    CHECK_STATUS(rg_state_load(st, dir, &step), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "buffer big") != NULL);
    CHECK(strstr(rg_last_error(), "4000") != NULL);
    CHECK(strstr(rg_last_error(), "5000") != NULL);
    CHECK_EQ(step, 77);
    CHECK_EQ(j.step, 0);
    CHECK_EQ(j.big[0], 1);
    end(st);
}

static void has_too_many(void)
{
    job j = {0};
    int more;
    uint64_t step;
    rg_state *st = state_of(&j, sizeof j.big);
    CHECK_OK(rg_state_add(st, "more", &more, sizeof more, NULL));
    CHECK_STATUS(rg_state_load(st, dir, &step), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "no such buffer") != NULL);
    end(st);
}

/* The newest file, whose name ends a directory's list. */
static void newest(char path[512])
{
    char best[256] = "";
    DIR *open = opendir(dir);
    for (const struct dirent *e; (e = readdir(open)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, best) > 0)
            snprintf(best, sizeof best, "%s", e->d_name);
    closedir(open);
    snprintf(path, 512, "%s/%s", dir, best);
}

static void flip_last_data_byte(const char *path)
{
    char byte = 0x55;
    const int fd = open(path, O_WRONLY);
    CHECK_EQ(pwrite(fd, &byte, 1, 4096 * 2 + 4999), 1);
    close(fd);
}

static void takes_the_one_before(void)
{
    job j = {.until = 17, .saves_in = dir};
    uint64_t step = 0;
    char path[512];
    newest(path);
    flip_last_data_byte(path);
    rg_state *st = state_of(&j, sizeof j.big);
    CHECK_STATUS(rg_state_load(st, path, &step), RG_ERR_DAMAGED);
    CHECK(strstr(rg_last_error(), "of buffer big") != NULL);
    CHECK_EQ(j.step, 0);
    CHECK_OK(rg_state_load(st, dir, &step));
    CHECK_EQ(step, 16);
    CHECK_EQ(j.step, 16);
    /* and goes on saving there: a damaged file is no other job's */
    j.until = 20;
    CHECK_OK(rg_run(st, train, &j));
    CHECK_OK(rg_state_saved(st, &step));
    CHECK_EQ(step, 20);
    end(st);
}

/* A program that starts from the beginning beside another's work writes
 * nothing. */
static void leaves_others_alone(void)
{
    job j = {.until = 4, .saves_in = dir};
    uint64_t step;
    const int before = count_files();
    rg_state *st = state_of(&j, sizeof j.big);
    CHECK_OK(rg_run(st, train, &j));
    CHECK_STATUS(rg_state_saved(st, &step), RG_ERR_NOT_FOUND);
    CHECK_EQ(count_files(), before);
    end(st);
}

/* No directory: a commit and a warning; and a load that finds none whole. */
static void has_no_directory(void)
{
    job j = {.until = 9};
    uint64_t step;
    rg_state *st = state_of(&j, sizeof j.big);
    CHECK_OK(rg_run(st, train, &j));
    CHECK_STATUS(rg_state_saved(st, &step), RG_ERR_NOT_FOUND);
    end(st);
}

static void remove_all(void)
{
    char path[512];
    DIR *open = opendir(dir);
    for (const struct dirent *e; (e = readdir(open)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    closedir(open);
    CHECK_EQ(rmdir(dir), 0);
}

int main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    in_a_process(saves);
    in_a_process(goes_on);
    in_a_process(does_not_fit);
    in_a_process(has_too_many);
    in_a_process(takes_the_one_before);
    in_a_process(leaves_others_alone);
    in_a_process(has_no_directory);
    remove_all();
    return 0;
}
