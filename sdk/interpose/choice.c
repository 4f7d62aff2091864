/* REGROUP_INTERPOSE, and where native is faster than MPI. */
#include "sdk/interpose/interpose.h"

#include <string.h>

#include "sdk/base/fail.h"

/* Up to its eager limit MPI lets a rank that gives to a root, or a root that
 * gives to others, go on at once; native makes it wait for the others. */
#ifdef OPEN_MPI
#define ROOTED          4096
#define ALLTOALL        512
#define BARRIER_MEMBERS 3
#else
#define ROOTED          16384
#define ALLTOALL        1
#define BARRIER_MEMBERS 2
#endif

/* Where native is faster than this MPI (docs/interposer.md has the times): from
 * so many bytes that one member gives to another, and so many members, on. */
static const struct offered {
    const char *name; /* MPI's */
    rg__kind kind;
    uint64_t bytes;
    int members;
} offered[] = {
    {"allreduce", RG__ALLREDUCE, 1, 2},
    {"reduce", RG__REDUCE, ROOTED, 2},
    {"reduce_scatter_block", RG__REDUCE_SCATTER, 1, 2},
    {"bcast", RG__BROADCAST, ROOTED, 2},
    {"allgather", RG__ALLGATHER, 1, 2},
    {"gather", RG__GATHER, ROOTED, 2},
    {"scatter", RG__SCATTER, ROOTED, 2},
    {"alltoall", RG__ALLTOALL, ALLTOALL, 2},
    {"barrier", RG__BARRIER, 0, BARRIER_MEMBERS},
};
#define OFFERED (sizeof offered / sizeof *offered)

#define NAMES                                                                  \
    "all, allreduce, reduce, reduce_scatter_block, bcast, allgather, gather, " \
    "scatter, alltoall and barrier"

static int32_t bits_of(const char *word, size_t n)
{
    int32_t bits = 0;
    for (size_t i = 0; i < OFFERED; i++)
        if ((strlen(offered[i].name) == n &&
             strncmp(offered[i].name, word, n) == 0) ||
            (n == 3 && strncmp("all", word, n) == 0))
            bits |= INT32_C(1) << offered[i].kind;
    return bits;
}

static rg_status read_word(const char *word, size_t n, rg__chosen *chosen)
{
    static const char always[] = ":always";
    const size_t tail = sizeof always - 1;
    const bool is_always =
        n > tail && strncmp(word + n - tail, always, tail) == 0;
    const int32_t bits = bits_of(word, is_always ? n - tail : n);
    if (bits == 0)
        return rg__fail(RG_ERR_INVALID,
                        "REGROUP_INTERPOSE names \"%.*s\"; there are " NAMES
                        ", each with or without :always",
                        (int)n, word);
    chosen->on |= bits;
    chosen->always |= is_always ? bits : 0;
    return RG_OK;
}

rg_status rg__choice_read(const char *text, rg__chosen *chosen)
{
    rg_status st = RG_OK;
    *chosen = (rg__chosen){0};
    while (text != NULL && *text != '\0' && st == RG_OK) {
        const size_t n = strcspn(text, ",");
        st = read_word(text, n, chosen);
        text += n + (text[n] == ',');
    }
    return st;
}

static const struct offered *find(rg__kind kind)
{
    size_t i = 0;
    while (offered[i].kind != kind)
        i++;
    return &offered[i];
}

static bool has_bit(int32_t bits, rg__kind kind)
{
    return (bits >> kind & 1) != 0;
}

bool rg__choice_has(rg__kind kind, uint64_t bytes)
{
    return has_bit(rg__chosen_here.on, kind) &&
           (has_bit(rg__chosen_here.always, kind) ||
            bytes >= find(kind)->bytes);
}

bool rg__choice_suits(rg__kind kind, int n)
{
    return has_bit(rg__chosen_here.always, kind) || n >= find(kind)->members;
}
