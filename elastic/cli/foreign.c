/* People come with command lines of torchrun, horovodrun and mpirun. A flag
 * that only has another name is a spelling of ours (settings.c); one that asks
 * for what Regroup does differently, or by itself, gets a sentence. */
#include "elastic/cli/foreign.h"

#include <string.h>

typedef struct foreign {
    const char *name; /* one that ends with '*' stands for all that begin so */
    const char *instead;
} foreign;

#define MEETING                                                                \
    "hosts meet in etcd: start `regroup agent --etcd URL --job NAME PROGRAM` " \
    "on each, or `regroup run -H h1:4,h2:4 PROGRAM` on one"
#define RANKS                                                                  \
    "no process is given a rank or a master: `regroup agent --etcd URL --job " \
    "NAME PROGRAM` is the same command on each host, and a program asks "      \
    "rg_rank"
#define ALONE                                                                  \
    "`regroup run -n N PROGRAM` without --etcd is a job of this host alone "   \
    "already; leave it out"
#define BINDING                                                                \
    "workers may run on all processors of their host; bind each of them with " \
    "a wrapper such as `numactl` or `taskset` before PROGRAM"
#define TRANSPORT                                                              \
    "Regroup carries data itself, over shared memory and TCP; leave it out "   \
    "(--interface chooses the network)"

static const foreign flags[] = {
    {"nnodes", "give the number of workers, with -n N or --min and --max, and "
               "the hosts with -H h1:4,h2:4 or `regroup agent` on each"},
    {"rdzv-*", MEETING},
    {"node-rank", RANKS},
    {"master-*", RANKS},
    {"standalone", ALONE},
    {"monitor-interval", "a death is noticed at once; --detect says how long a "
                         "host may be silent"},
    {"redirects", "--output DIR writes what each worker prints into files"},
    {"tee", "--output DIR writes what each worker prints into files"},
    {"log-dir", "--output DIR writes what each worker prints into files"},
    {"output-filename", "--output DIR writes what each worker prints into "
                        "files"},
    {"tag-output",
     "each line already begins with its worker's name; leave it out"},
    {"module", "name the program and its arguments, as in `regroup run python3 "
               "-m MODULE`"},
    {"reset-limit", "--max-restarts bounds how often a slot starts again"},
    {"network-interface*", "--interface NAME or --interface 10.0.0.0/8 chooses "
                           "the network"},
    {"ssh-*", "--rsh \"ssh -p PORT -i FILE\" says how hosts are reached"},
    {"allow-run-as-root", "root may start jobs like any user; leave it out"},
    {"oversubscribe", "a host may have more slots than processors, with "
                      "--slots N; leave it out"},
    {"bind-to", BINDING},
    {"map-by", BINDING},
    {"rank-by", BINDING},
    {"mca", TRANSPORT},
    {"genv*", "your variables reach all hosts; -x NAME=VALUE sets one, and "
              "--export-all no leaves out what -x does not name"},
    {"gloo", TRANSPORT},
    {"mpi", TRANSPORT},
};

static int stands_for(const char *pattern, const char *name)
{
    const size_t n = strlen(pattern) - 1;
    return pattern[n] == '*' ? strncmp(pattern, name, n) == 0
                             : strcmp(pattern, name) == 0;
}

const char *rg__foreign_flag(const char *name)
{
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (stands_for(flags[i].name, name))
            return flags[i].instead;
    return NULL;
}
