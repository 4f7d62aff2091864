/* Each action, each condition, once per process; a malformed entry is named in
 * a warning and changes nothing. Every case is a child of its own, since the
 * environment is read once.
 *
 * Covers: failpoint.c */
#include "tests/check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"

#define GONE_BY 42 /* the exit code of a child that nothing struck */

/* Standard error of the child of the last run. */
static char said[4096];

static void hear(int fd)
{
    size_t n = 0;
    ssize_t got;
    while (n < sizeof said - 1 &&
           (got = read(fd, said + n, sizeof said - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = '\0';
    close(fd);
}

/* Pass failpoint "here" as the start-th process, rank 3, step 10, generation
 * 2, after some passes that are near. The child's wait status. */
static int run(const char *text, uint32_t start, int options)
{
    int ends[2], status = 0;
    CHECK(pipe(ends) == 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("REGROUP_FAILPOINT", text, 1);
        rg__failpoint_start(start);
        rg__failpoint_pass("there", 3, 10, 2);
        rg__failpoint_pass("here", 3, 10, 2);
        rg__failpoint_pass("here", 3, 10, 2);
        _exit(GONE_BY);
    }
    close(ends[1]);
    if (options == 0)
        hear(ends[0]);
    CHECK(waitpid(pid, &status, options) == pid);
    if (options != 0) {
        CHECK(WIFSTOPPED(status));
        kill(pid, SIGCONT);
        hear(ends[0]);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_EQ(WEXITSTATUS(status), GONE_BY); /* it struck once only */
    }
    return status;
}

static void check_exit(const char *text, uint32_t start, int code)
{
    const int status = run(text, start, 0);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), code);
}

static void check_signal(const char *text, int signal)
{
    const int status = run(text, 1, 0);
    if (!WIFSIGNALED(status))
        CHECK_FAIL("%s: no signal: %s", text, said);
    CHECK_EQ(WTERMSIG(status), signal);
}

static void actions(void)
{
    check_signal("here:kill", SIGKILL);
    check_signal("here:abort", SIGABRT);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    check_signal("here:segv", SIGSEGV);
#endif
    check_exit("here:exit0", 1, 0);
    check_exit("here:exit1", 1, 1);
    const uint64_t before = rg__now_ns();
    check_exit("here:sleep50", 1, GONE_BY);
    CHECK(rg__now_ns() - before >= 50 * RG__MS);
    const char *first = strstr(said, "strikes");
    CHECK(first != NULL && strstr(first + 1, "strikes") == NULL);
    CHECK(WIFEXITED(run("here:stop", 1, WUNTRACED)));
}

static void conditions(void)
{
    check_exit("here:rank3:step10:gen2:start4:exit1", 4, 1);
    check_exit("here:rank4:exit1", 1, GONE_BY);
    check_exit("here:step11:exit1", 1, GONE_BY);
    check_exit("here:gen1:exit1", 1, GONE_BY);
    check_exit("here:start1:exit1", 2, GONE_BY);
    check_exit("nowhere:exit0,here:rank3:exit1", 1, 1);
    CHECK(strstr(said, "here") != NULL); /* it says that it strikes */
}

static void malformed(void)
{
    static const char *const texts[] = {
        "here",       "here:",          "here:boom",     "here:rank:kill",
        "here:rank3", "here:kill:kill", "here:sleep5ms", "here:rankx:kill"};
    char both[64];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_exit(texts[i], 1, GONE_BY);
        CHECK(strstr(said, texts[i]) != NULL);
        snprintf(both, sizeof both, "%s,here:exit1", texts[i]);
        check_exit(both, 1, 1); /* the good entry still counts */
    }
}

int main(void)
{
    actions();
    conditions();
    malformed();
    return 0;
}
