/* A static program: adds up ranks for a while, finalizes, and ends with a code.
 *
 *   sums ROUNDS CODE */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "regroup/regroup.h"

static int complain(const char *what)
{
    fprintf(stderr, "sums: %s: %s\n", what, rg_last_error());
    return 3;
}

int main(int argc, char **argv)
{
    rg_ctx *ctx = NULL;
    if (argc != 3)
        return 64;
    if (rg_init(NULL, &ctx) != RG_OK)
        return complain("rg_init");
    const int n = rg_size(ctx);
    for (int i = 0; i < atoi(argv[1]); i++) {
        int64_t sum = rg_rank(ctx);
        if (rg_allreduce(rg_world(ctx), &sum, &sum, 1, RG_I64, RG_SUM) != RG_OK)
            return complain("rg_allreduce");
        if (sum != (int64_t)n * (n - 1) / 2)
            return 4;
        if (i == 0)
            puts("begins");
        fflush(stdout);
        usleep(5000);
    }
    puts("ends");
    rg_finalize(ctx);
    return atoi(argv[2]);
}
