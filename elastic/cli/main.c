/* The `regroup` program: finds the command that is meant and runs it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/cli/cli.h"
#include "regroup/regroup.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

static const rg__command commands[] = {
    {"run", "[FLAGS] PROGRAM [ARGS]", "run a program with its workers here",
     "Flags end at PROGRAM; `--` may stand before it. Without --etcd a\n"
     "private etcd is started for the job. Without sizes the world has a\n"
     "worker for each processor. With --min alone, --max is the number of\n"
     "slots; with --max alone, --min is 1.\n"
     "\n"
     "Ends with 0 when the job is done, the worker's code when a static\n"
     "program fails, 64 for wrong usage, 69 without etcd, 71 when the\n"
     "machine refuses, 75 when too few workers are left, 128+n for signal n.\n",
     rg__cmd_run},
    {"agent", "--etcd URL,... --job NAME [FLAGS] PROGRAM [ARGS]",
     "join this host to a job, or begin it, by etcd alone",
     "Give the same sizes and the same program on every host. Exit codes are\n"
     "those of `regroup run`.\n",
     rg__cmd_agent},
    {"remote", "", "what `regroup run -H` starts on other hosts",
     "It is told on standard input what to do, and is of no use to a person.\n",
     rg__cmd_remote},
    {"mpirun-preload", "[FLAGS] PROGRAM [ARGS]",
     "run a rank of an MPI program with its collectives interposed",
     "For mpirun: `mpirun -n 4 regroup mpirun-preload ./solver input`. The\n"
     "program need not know Regroup: the library that is preloaded into it\n"
     "carries collectives between ranks of one host over native shared\n"
     "memory where that is faster. Without --interpose it carries all that\n"
     "it can.\n",
     rg__cmd_preload},
    {"status", "[--json] [--watch] [JOB]",
     "show how a job that runs here is doing, on all its hosts",
     "JOB may be left out when only one runs here. While etcd gives no\n"
     "answer the other hosts are shown as they were last seen.\n"
     "\n"
     "--watch redraws it on a terminal; elsewhere it prints it again and\n"
     "again, with --json as one line each time. It ends with the job, and\n"
     "with the code of this host's agent (regroup run --help); with 69 if\n"
     "that ended without a message.\n",
     rg__cmd_status},
    {"events", "[--json] [--follow] [JOB]",
     "list what has happened to a job that runs here, oldest first",
     "JOB may be left out when only one runs here.\n"
     "\n"
     "  decided    a generation began: WORLD from > to, LOST steps, RESUME is\n"
     "             the commit that it went on from, generation:step\n"
     "  stepping   all its members on this host have ended a step; RECOVERY\n"
     "             is the time since the fault was noticed\n"
     "  death      a worker of it died\n"
     "  broken     it was ended for another reason\n"
     "  proposed   a generation that was not decided, or not yet\n"
     "  done       the work is done\n"
     "  ended      the job is over\n"
     "  left       only the host that was asked has left; the job goes on\n"
     "  earlier    older decisions, no longer kept: WHY says how many\n"
     "\n"
     "--follow ends with the job, and with the code of this host's agent\n"
     "(regroup run --help); with 69 if that ended without a message.\n",
     rg__cmd_events},
    {"dump", "[--json] [--no-stacks] [JOB]",
     "print what all workers of a job that runs here have been doing",
     "It prints the last operations of each set on each rank, and first those\n"
     "in which ranks differ: some have started them and others have not, or\n"
     "have started another one. Then come the stacks of all threads: those\n"
     "of C by eu-stack or gdb, which stop a worker for about half a second,\n"
     "and those of Python. Without these tools, or where ptrace is not\n"
     "allowed, it prints what the kernel says about each thread. Hosts that\n"
     "don't answer within ten seconds are named. JOB may be left out when\n"
     "only one runs here.\n"
     "\n"
     "When a deadline ends a generation, or a worker is stuck, the same is\n"
     "written to dump-HOST-gN.txt in the directory of --output, or to\n"
     "dump-JOB-HOST-gN.txt beside the job's run directory.\n",
     rg__cmd_dump},
    {"timeline", "start FILE [JOB] | stop [JOB] | merge FILE...",
     "begin or end a timeline of a job that runs here, or merge several",
     "FILE is in Chrome's trace format, for ui.perfetto.dev: a track for\n"
     "each worker, with its operations, waits, computing and commits, and\n"
     "one for changes of the world. It is whole JSON at any time. If the job\n"
     "may have several hosts, each host of the world writes a file of its\n"
     "own, with the host's name before the ending, and `stop` ends them all.\n"
     "JOB may be left out when only one runs here. `regroup run --timeline\n"
     "FILE` has it from the start. `merge` prints the timelines of several\n"
     "hosts as one, in which the clocks of the hosts agree with that of the\n"
     "first.\n",
     rg__cmd_timeline},
    {"jobs", "[--json]", "list the jobs that run here", NULL, rg__cmd_jobs},
    {"drain", "[--deadline TIME] HOST [JOB]",
     "ask a host to leave a job that runs here",
     "HOST is a name that `regroup status` shows; its workers leave at a\n"
     "commit, so no step is rolled back. JOB may be left out when only one\n"
     "runs here. Ends with 0 once the host has left, and with 1 when it has\n"
     "not within the deadline and ten seconds.\n",
     rg__cmd_drain},
    {"scale", "[--min N] [--max N] [JOB]",
     "change the sizes that the world of a running job may have",
     "If the world becomes smaller, its newest workers leave it at a commit\n"
     "and wait. If it becomes larger, workers that wait come in, and a job\n"
     "that `regroup run -H` has started gets agents on further hosts of its\n"
     "list. JOB may be left out when only one runs here.\n",
     rg__cmd_scale},
    {"stop", "[--timeout TIME] [JOB]", "stop a job and wait for its end",
     "JOB may be left out when only one runs here. Ends with 1 when the job\n"
     "has not ended in time.\n",
     rg__cmd_stop},
    {"checkpoint", "show|verify [--json] [FILE|DIR]",
     "say what checkpoints hold, and whether they are whole",
     "show prints step and world, and name, size and kind (replicated,\n"
     "sharded, local) of each buffer. verify compares each byte with its\n"
     "hash, also in the shards of all hosts. Without FILE or DIR the\n"
     "directory is the one that REGROUP_CHECKPOINT_DIR names. Ends with 1\n"
     "when what is verified, or the file that is shown, is not whole.\n",
     rg__cmd_checkpoint},
    {"gc", "[--dry-run] [--etcd URL [--older-than TIME]]",
     "remove what dead jobs left",
     "Here it removes run directories of jobs without a process, and files of\n"
     "launches of --mpi in /tmp and /dev/shm that no agent holds. In the etcd\n"
     "of --etcd it removes the keys of jobs that have ended, and of those "
     "that\n"
     "have had no host for as long as --older-than. etcd does not say since\n"
     "when a job has had none, so the first look notes the time there, and a\n"
     "later one removes the keys. A job with a living agent is never "
     "touched.\n",
     rg__cmd_gc},
    {"doctor", "[--etcd-bin PATH] [--etcd URL] [--peer HOST[:PORT]]",
     "check what this machine offers, or the way to a host",
     "With --etcd it checks whether that answers and whom it lets in, and\n"
     "changes nothing there. Each source of --notice is asked once. With\n"
     "--peer it checks name, route, the address that others would be told,\n"
     "ports, round trip and packet size, seen from here; look from there,\n"
     "too. With --job the ports are those of the agent and the workers\n"
     "there.\n"
     "\n"
     "Each line says ok, warn or fail, and what to do. Ends with 1 when one\n"
     "says fail.\n",
     rg__cmd_doctor},
    {"tune", "",
     "find the size from which ranks do best to read each other's memory",
     "Two ranks exchange ordinary memory for some ten seconds, staged and\n"
     "read by the kernel by turns. The lines that it prints are for the file\n"
     "that REGROUP_CONFIG names: the measurement in comments, then the\n"
     "setting.\n"
     "\n"
     "  regroup tune >> regroup.conf\n"
     "\n"
     "The default stays unless it was slower by 10 % in both turns. Ends\n"
     "with 71 where reading is not possible: on one processor, or where the\n"
     "kernel refuses it. Measure on a quiet machine.\n",
     rg__cmd_tune},
    {"config", "[--json] [FLAGS]",
     "list all settings, their values and where those come from",
     "A flag goes before a variable, a variable before the file that\n"
     "REGROUP_CONFIG names (lines: name = value), the file before the\n"
     "default.\n",
     rg__cmd_config},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void print_usage(FILE *out)
{
    fprintf(out, "usage: regroup COMMAND ...\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nregroup COMMAND --help says more; regroup --version.\n");
}

static void print_help(const rg__command *command)
{
    printf("regroup %s: %s\n\n  regroup %s %s\n\n", command->name,
           command->summary, command->name, command->synopsis);
    rg__cli_print_flags(command->name);
    if (command->details != NULL)
        printf("\n%s", command->details);
}

static const rg__command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int fail_unknown(const char *word)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *nearest = rg__nearest(word, names, COMMANDS);
    rg_status st;
    if (word[0] == '-')
        st = rg__fail(RG_ERR_INVALID,
                      "flags go after the command, as in `regroup run %s "
                      "...`",
                      word);
    else if (nearest != NULL)
        st = rg__fail(RG_ERR_INVALID,
                      "there is no command %s; did you mean `regroup %s`?",
                      word, nearest);
    else
        st = rg__fail(RG_ERR_INVALID,
                      "there is no command %s; to run a program write `regroup "
                      "run %s`",
                      word, word);
    return rg__cli_fail(st);
}

static int run_command(const rg__command *command, int argc, char **argv)
{
    rg__cli cli;
    int code = 0;
    const rg_status st = rg__cli_open(&cli, command->name, argc, argv);
    if (st != RG_OK)
        code = rg__cli_fail(st);
    else if (cli.wants_help)
        print_help(command);
    else
        code = command->run(&cli);
    rg__cli_close(&cli);
    return code;
}

static int help(const char *word)
{
    const rg__command *command = word != NULL ? find_command(word) : NULL;
    if (word != NULL && command == NULL)
        return fail_unknown(word);
    if (command != NULL)
        print_help(command);
    else
        print_usage(stdout);
    return 0;
}

static int run_words(int argc, char **argv)
{
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help(NULL);
    if (strcmp(word, "help") == 0)
        return help(argv[2]);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("regroup %s\n", RG_VERSION);
        return 0;
    }
    const rg__command *command = find_command(word);
    return command != NULL ? run_command(command, argc - 1, argv + 1)
                           : fail_unknown(word);
}

/* The code, unless it is success and some output was lost. */
static int end_output(int code)
{
    const bool was_lost = ferror(stdout) != 0;
    const char *cause = fflush(stdout) != 0 ? strerror(errno)
                        : was_lost          ? "some of it was refused"
                                            : NULL;
    if (cause == NULL)
        return code;
    rg__say("standard output can't be written: %s", cause);
    return code != 0 ? code : RG__EXIT_SYSTEM;
}

int main(int argc, char **argv)
{
    rg__cli_open_what_is_closed();
    if (argc < 2) {
        print_usage(stderr);
        return RG__EXIT_USAGE;
    }
    return end_output(run_words(argc, argv));
}
