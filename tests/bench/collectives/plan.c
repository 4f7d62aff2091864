#include "tests/bench/collectives/plan.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/collectives/values.h"
#include "tests/lib/elements.h"

static const char help[] =
    "bench_collectives: time collectives, and the bare MPI call beside them\n"
    "\n"
    "  regroup run -n N bench_collectives [OPTION...]\n"
    "  mpirun -n N bench_collectives-openmpi [OPTION...]   or -mpich\n"
    "\n"
    "      --op LIST          allreduce (default), reduce, reduce_scatter,\n"
    "                         allgather, broadcast, gather, scatter, "
    "alltoall,\n"
    "                         barrier, or all\n"
    "      --uneven           parts of a half, one and one and a half times "
    "the\n"
    "                         size, where there are parts\n"
    "      --sets LAYOUT      one (default): the world\n"
    "                         halves: two disjoint sets, each alone, then "
    "both\n"
    "                         hundred: a hundred sets of two and three ranks\n"
    "                         late: a set while another waits for a member\n"
    "  -b, --minbytes SIZE    4 by default; SIZE is 8, 64K, 16M or 1G\n"
    "  -e, --maxbytes SIZE    16M by default, 64K for a hundred sets\n"
    "  -f, --stepfactor N     4 by default\n"
    "      --sizes LIST       these sizes instead\n"
    "  -d, --type TYPE        f32 (default), u8 i8 i32 u32 i64 u64 f16 bf16\n"
    "                         f64 bool\n"
    "  -o, --redop OP         sum (default), avg min max prod land lor lxor\n"
    "                         band bor bxor\n"
    "  -r, --root RANK        0 by default, a rank in the set\n"
    "      --place PLACE      out, in or both (default)\n"
    "      --memory MEMORY    user, alloc (rg_alloc) or both (default)\n"
    "  -n, --iters N          rounds of a row; by default as many as:\n"
    "      --seconds S        a row takes, 0.5 by default\n"
    "  -w, --warmup_iters N   rounds before those, 3 by default\n"
    "      --thread-level L   initialise MPI with single, funneled, "
    "serialized\n"
    "                         or multiple before Regroup\n"
    "      --json             one line for each row\n"
    "  -h, --help\n"
    "\n"
    "REGROUP_TRANSPORTS chooses the transport. The exit code is 1 when a "
    "result\n"
    "is wrong.\n";

enum { OP = 256, UNEVEN, SETS, SIZES, PLACE, MEMORY, SECONDS, LEVEL, JSON };

static const struct option options[] = {
    {"op", required_argument, NULL, OP},
    {"uneven", no_argument, NULL, UNEVEN},
    {"sets", required_argument, NULL, SETS},
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"sizes", required_argument, NULL, SIZES},
    {"type", required_argument, NULL, 'd'},
    {"datatype", required_argument, NULL, 'd'}, /* as nccl-tests has it */
    {"redop", required_argument, NULL, 'o'},
    {"root", required_argument, NULL, 'r'},
    {"place", required_argument, NULL, PLACE},
    {"memory", required_argument, NULL, MEMORY},
    {"iters", required_argument, NULL, 'n'},
    {"seconds", required_argument, NULL, SECONDS},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"thread-level", required_argument, NULL, LEVEL},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {0}};

static const char *const layout_names[LAYOUTS] = {"one", "halves", "hundred",
                                                  "late"};

static bool read_sizes(plan *p, const char *text)
{
    for (p->n_sizes = 0; p->n_sizes < SIZES_MAX; text++) {
        if (!value_size(text, &text, &p->sizes[p->n_sizes++]))
            return false;
        if (*text == '\0')
            return true;
    }
    return value_wrong("--sizes takes at most %d sizes", SIZES_MAX);
}

static bool read_kinds(plan *p, const char *text)
{
    memset(p->kinds, 0, sizeof p->kinds);
    if (strcmp(text, "all") == 0)
        memset(p->kinds, 1, sizeof p->kinds);
    while (strcmp(text, "all") != 0) {
        const size_t n = strcspn(text, ",");
        const int at = value_find(kind_names, KINDS, text, n);
        if (at < 0)
            return value_wrong("--op knows no \"%.*s\"", (int)n, text);
        p->kinds[at] = true;
        if (text[n] == '\0')
            break;
        text += n + 1;
    }
    return true;
}

typedef struct range {
    uint64_t least, most;
    double factor;
} range;

static bool read_what(plan *p, int option, const char *text)
{
    int at = 0;
    switch (option) {
    case OP:
        return read_kinds(p, text);
    case SETS:
        if (!value_name(layout_names, LAYOUTS, "sets", text, &at))
            return false;
        p->layout = (layout)at;
        return true;
    case 'd':
        if (!value_name(type_names, 11, "type", text, &at))
            return false;
        p->type = (rg_type)at;
        return true;
    case 'o':
        if (!value_name(op_names, 11, "redop", text, &at))
            return false;
        p->redop = (rg_op)at;
        return true;
    case 'r':
        return value_count("root", text, 0, &p->root);
    case PLACE:
        return value_pair("place", "out", "in", text, p->places);
    default:
        return value_pair("memory", "user", "alloc", text, p->memories);
    }
}

static bool read_how(plan *p, int option, const char *text, range *sizes)
{
    switch (option) {
    case 'b':
        return value_one_size("minbytes", text, &sizes->least);
    case 'e':
        return value_one_size("maxbytes", text, &sizes->most);
    case 'f':
        return value_number("stepfactor", text, 1.01, 1e6, &sizes->factor);
    case SIZES:
        return read_sizes(p, text);
    case 'n':
        return value_count("iters", text, 1, &p->times);
    case 'w':
        return value_count("warmup_iters", text, 1, &p->warmups);
    case SECONDS:
        return value_number("seconds", text, 0.001, 3600, &p->seconds);
    case LEVEL:
        p->level = text;
        return true;
    case UNEVEN:
        p->uneven = true;
        return true;
    case JSON:
        p->is_json = true;
        return true;
    default:
        return read_what(p, option, text);
    }
}

static bool fill_sizes(plan *p, range *r)
{
    if (r->most == 0)
        r->most = p->layout == HUNDRED ? 64 << 10 : 16 << 20;
    if (p->n_sizes > 0)
        return true;
    if (r->least > r->most)
        return value_wrong("--minbytes %llu is more than --maxbytes %llu",
                           (unsigned long long)r->least,
                           (unsigned long long)r->most);
    for (double size = (double)r->least;
         size <= (double)r->most && p->n_sizes < SIZES_MAX; size *= r->factor)
        p->sizes[p->n_sizes++] = (uint64_t)size;
    return true;
}

/* Leave the collectives that have no uneven form out. */
static bool leave_even(plan *p)
{
    int left = 0;
    for (int k = 0; k < KINDS; k++) {
        if (p->uneven && !kind_has_parts((kind)k))
            p->kinds[k] = false;
        left += p->kinds[k];
    }
    return left > 0 || value_wrong("--uneven goes with reduce_scatter, "
                                   "allgather, gather, scatter and alltoall");
}

static bool reduces(const plan *p)
{
    return p->kinds[ALLREDUCE] || p->kinds[REDUCE] || p->kinds[REDUCE_SCATTER];
}

int plan_read(plan *p, int argc, char **argv)
{
    range sizes = {.least = 4, .factor = 4};
    *p = (plan){.kinds = {[ALLREDUCE] = true},
                .type = RG_F32,
                .places = {true, true},
                .memories = {true, true},
                .warmups = 3,
                .seconds = 0.5};
    for (int c; (c = getopt_long(argc, argv, "b:e:f:d:o:r:n:w:h", options,
                                 NULL)) != -1;) {
        if (c == 'h')
            return fputs(help, stdout) < 0 ? 2 : 1;
        if (c == '?' || !read_how(p, c, optarg, &sizes))
            return 65;
    }
    if (optind < argc)
        value_wrong("\"%s\" is no option", argv[optind]);
    else if (reduces(p) && !rg_op_has(p->redop, p->type))
        value_wrong("%s does not go with %s", op_names[p->redop],
                    type_names[p->type]);
    else if (leave_even(p) && fill_sizes(p, &sizes))
        return 0;
    return 65;
}

bool plan_fits(const plan *p, int n)
{
    const int least = p->layout == HALVES ? 2 : p->layout == LATE ? 3 : 1;
    const int roots = p->layout == HALVES ? n / 2
                      : p->layout == ONE  ? n
                      : n == 1            ? 1
                                          : 2;
    if (n < least)
        return value_wrong("--sets %s needs %d ranks, and here are %d",
                           layout_names[p->layout], least, n);
    if (p->layout == HUNDRED && n > 100)
        return value_wrong("--sets hundred goes up to 100 ranks, and here are "
                           "%d",
                           n);
    if (p->root >= roots)
        return value_wrong("--root %d is no rank of a set of %d", p->root,
                           roots);
    return true;
}

uint64_t plan_most(const plan *p)
{
    uint64_t most = 0;
    for (int i = 0; i < p->n_sizes; i++)
        most = p->sizes[i] > most ? p->sizes[i] : most;
    return most;
}
