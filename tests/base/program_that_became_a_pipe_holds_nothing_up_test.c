/* A worker's program that a pipe has replaced since the job began can't be run;
 * nothing waits for a writer of that pipe.
 *
 * Covers: child.c */
#include "sdk/base/child.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

int main(void)
{
    char path[] = "/tmp/rg-pipe-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
    CHECK_EQ(mkfifo(path, 0700), 0);
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20); /* ends this process where it waits */
        rg__child_run((char *[]){path, NULL});
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    unlink(path);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 126);
    return 0;
}
