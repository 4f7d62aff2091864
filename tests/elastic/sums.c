/* A static program: adds up ranks for a while, finalizes, and ends with a code.
 *
 *   sums ROUNDS CODE [FILE]
 *
 * FILE: and then until that file is there. */
#include <stdbool.h>
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
    if (argc < 3)
        return 64;
    if (rg_init(NULL, &ctx) != RG_OK)
        return complain("rg_init");
    const int n = rg_size(ctx);
    bool is_over = false;
    for (int i = 0; i < atoi(argv[1]) || !is_over; i++) {
        int64_t sum[2] = {rg_rank(ctx),
                          argc == 3 || access(argv[3], F_OK) == 0};
        if (rg_allreduce(rg_world(ctx), sum, sum, 2, RG_I64, RG_SUM) != RG_OK)
            return complain("rg_allreduce");
        if (sum[0] != (int64_t)n * (n - 1) / 2)
            return 4;
        is_over = sum[1] > 0; /* on all ranks */
        if (i == 0)
            puts("begins");
        fflush(stdout);
        usleep(5000);
    }
    puts("ends");
    rg_finalize(ctx);
    return atoi(argv[2]);
}
