/* A command that SIGKILL does not end, because it hangs in the kernel, stops
 * neither the loop nor the other sources; no second one is started beside it,
 * and the next round after its end asks again. Here a tracer that does not
 * wait for the command delays its end.
 *
 * Covers: command.c notice.c */
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "elastic/notice/notice.h"
#include "sdk/base/clock.h"
#include "tests/check.h"

#define UNTRACED 3 /* exit code of a command that can't be traced */
#define MOST_S   40

static rg__loop *loop;
static rg__notices *notices;
static int stage; /* how many of the expected states have been seen */
static char go_on[] = "/tmp/rg-go-on-XXXXXX";

/* ----------------------------------------------------------- the command */

/* Until the file is gone. */
static void trace_parent(int said)
{
    const pid_t parent = getppid();
    setsid(); /* the command is killed with its group */
    const bool is_traced = ptrace(PTRACE_SEIZE, parent, NULL, NULL) == 0;
    if (write(said, &is_traced, sizeof is_traced) < 0 || !is_traced)
        _exit(1);
    alarm(MOST_S);
    while (access(go_on, F_OK) == 0)
        usleep(10000);
    _exit(0);
}

static int hang(void)
{
    int said[2];
    bool is_traced = false;
    if (access(go_on, F_OK) != 0)
        return 1; /* no notice */
    CHECK_EQ(pipe(said), 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (fork() == 0)
        trace_parent(said[1]);
    close(said[1]);
    if (read(said[0], &is_traced, sizeof is_traced) <= 0 || !is_traced)
        return UNTRACED;
    for (;;)
        pause();
}

/* -------------------------------------------------------------- the owner */

static void look(void *timer_p)
{
    const rg__source_view view = rg__notices_at(notices, 0);
    if (view.state == RG__SOURCE_FAILS && strstr(view.why, "it ends with 3")) {
        unlink(go_on);
        SKIP("no process may be traced here");
    }
    if (stage == 0 && view.state == RG__SOURCE_FAILS &&
        strstr(view.why, "no answer within 1 s") != NULL)
        stage = 1;
    if (stage <= 1 && view.state == RG__SOURCE_FAILS &&
        strstr(view.why, "it was killed and has not ended yet") != NULL) {
        stage = 2;
        CHECK_EQ(unlink(go_on), 0);
    }
    if (stage == 2 && view.state == RG__SOURCE_ANSWERS)
        rg__loop_stop(loop);
    rg__timer_set(*(rg__timer **)timer_p, 10 * RG__MS);
}

static void no_news(void *arg)
{
    (void)arg;
}

static void own(const char *program)
{
    char list[PATH_MAX + 64];
    rg__timer *timer = NULL;
    const int fd = mkstemp(go_on);
    CHECK(fd >= 0);
    close(fd);
    snprintf(list, sizeof list, "command:exec %s %s", program, go_on);
    CHECK_OK(rg__loop_create(&loop));
    timer = rg__timer_create(loop, look, &timer);
    CHECK(timer != NULL);
    const rg__notices_params params = {
        .list = list, .every_ms = 100, .changed = no_news};
    CHECK_OK(rg__notices_create(loop, &params, &notices));
    rg__timer_set(timer, 0);
    alarm(MOST_S); /* a loop that waits ends here */
    rg__loop_run(loop);
    rg__notices_destroy(notices);
    rg__timer_destroy(timer);
    rg__loop_destroy(loop);
}

int main(int argc, char **argv)
{
    char program[PATH_MAX];
    if (argc > 1) {
        snprintf(go_on, sizeof go_on, "%s", argv[1]);
        return hang();
    }
    CHECK(realpath(argv[0], program) != NULL);
    own(program);
    return 0;
}
