/* Standard output by lines. An agent reads a worker's output through a pipe,
 * which C fills in blocks: nothing would be seen for minutes, and the last
 * lines of a worker that is killed would be lost. A terminal instead of the
 * pipe would give lines as well, but programs would then believe that a person
 * looks on: colours and progress bars would end up in logs. So the library asks
 * for lines, before main: a program that wants another buffer calls setvbuf, as
 * anywhere else. */
#include "elastic/worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_pipe(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode);
}

/* Flushed as well: if a program loads the library late, its output so far is
 * still in a block. */
__attribute__((constructor)) static void print_by_lines(void)
{
    if (getenv(RG__ENV_SOCKET) == NULL || !is_pipe(STDOUT_FILENO))
        return;
    setvbuf(stdout, NULL, _IOLBF, 0);
    fflush(stdout);
}
