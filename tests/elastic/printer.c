/* Prints as programs do that never flush: a line before rg_init, then one for
 * each byte that a file has, as it grows, until it is killed. --full: with a
 * block of its own, which is its choice. Standard error says what it counts. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_REGROUP
#include "regroup/regroup.h"
#endif

static long long bytes_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (long long)info.st_size : 0;
}

static void print_as_it_grows(const char *path)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    for (long long seen = 0;; nanosleep(&pause, NULL))
        for (; seen < bytes_of(path); fprintf(stderr, "counted %lld\n", seen))
            printf("line %lld of %d\n", seen++, (int)getpid());
}

int main(int argc, char **argv)
{
    static char block[1 << 16];
    if (argc > 2 && strcmp(argv[2], "--full") == 0)
        setvbuf(stdout, block, _IOFBF, sizeof block);
    printf("begins, %s\n", isatty(STDOUT_FILENO) ? "at a terminal" : "piped");
#ifdef WITH_REGROUP
    rg_ctx *ctx = NULL;
    rg_init(NULL, &ctx);
#endif
    print_as_it_grows(argv[1]);
}
