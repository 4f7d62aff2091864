/* Standard output by lines. What an agent reads of a worker comes through a
 * pipe, which C fills in blocks: nothing would be seen for minutes, and a
 * worker that is killed would take its last lines along. A terminal in the
 * pipe's place would give lines as well, but it tells every program that a
 * person looks: colours and progress bars would end up in logs. So it is the
 * library that asks for lines, before main: a program that wants another buffer
 * says so with setvbuf, as anywhere, and is not overruled. */
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

/* Flushed as well: where a program loads the library late, what it has printed
 * by then lies in a block. */
__attribute__((constructor)) static void print_by_lines(void)
{
    if (getenv(RG__ENV_SOCKET) == NULL || !is_pipe(STDOUT_FILENO))
        return;
    setvbuf(stdout, NULL, _IOLBF, 0);
    fflush(stdout);
}
