/* `regroup tune`: two processes of this one exchange ordinary memory over a
 * native world of their own, with the setting READ_MIN at its two ends. Each
 * round is a new pair of processes, since the scheduler may put them near each
 * other or apart, and that changes what wins; a turn is the median of its
 * rounds, in which both ways take turns. */
#include "elastic/cli/tune.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "elastic/cli/cli.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/shm.h"
#include "sdk/transport/native/native.h"

#define RANKS   2
#define ROUNDS  5 /* of each way in a turn; odd */
#define USUAL   ((uint64_t)32 << 10)
#define TIMES   300 /* operations of each kind and size in a round */
#define LIMIT_S 60  /* of a round, which takes half a second */
#define NEVER   "1T"

static const uint64_t sizes[] = {16 << 10,  32 << 10,  64 << 10, 128 << 10,
                                 256 << 10, 512 << 10, 1 << 20};
#define SIZES   (sizeof sizes / sizeof *sizes)
#define LARGEST ((uint64_t)1 << 20)

static const rg__kind kinds[] = {RG__BROADCAST, RG__ALLGATHER};
#define KINDS (sizeof kinds / sizeof *kinds)

typedef enum way { STAGED, READ, WAYS } way;

typedef struct round_result {
    double us[SIZES]; /* of one operation of each kind */
    char why[256];    /* it failed; else empty */
    bool has_staged;  /* though it should have read */
} round_result;

/* -------------------------------------------------------------- in a child */

static rg_status operate(rg__comm *comm, rg__kind kind, uint64_t bytes,
                         const char *send, char *recv)
{
    const rg__coll coll = {.kind = kind,
                           .type = RG_U8,
                           .count = bytes,
                           .send = kind == RG__BROADCAST ? recv : send,
                           .recv = recv,
                           .prescale = 1,
                           .postscale = 1};
    rg_status st = comm->transport->start(comm, &coll);
    while (st == RG_OK &&
           (st = comm->transport->test(comm)) == RG_IN_PROGRESS) {
        sched_yield();
        st = RG_OK;
    }
    return st;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, size_t n)
{
    qsort(of, n, sizeof *of, compare);
    return of[n / 2];
}

static rg_status measure(rg__comm *comm, rg__kind kind, uint64_t bytes,
                         char *send, char *recv, double *us_p)
{
    double us[TIMES];
    for (int i = -TIMES / 10; i < TIMES; i++) { /* the first ones warm up */
        memset(send, i, bytes);
        memset(recv, i, bytes);
        rg_status st = operate(comm, RG__BARRIER, 0, send, recv);
        const uint64_t from = rg__now_ns();
        if (st == RG_OK)
            st = operate(comm, kind, bytes, send, recv);
        if (st != RG_OK)
            return st;
        if (i >= 0)
            us[i] = (double)(rg__now_ns() - from) / 1000;
    }
    *us_p += median(us, TIMES);
    return RG_OK;
}

static rg_status measure_all(int rank, int fd, way which, round_result *r)
{
    char *send = malloc(LARGEST), *recv = malloc(RANKS * LARGEST);
    rg__comm *comm = NULL;
    rg_status st = send == NULL || recv == NULL
                       ? rg__fail(RG_ERR_MEMORY, "no memory to measure")
                       : rg__native_open_alone(rank, RANKS, fd, &comm);
    for (size_t s = 0; s < SIZES; s++)
        for (size_t k = 0; k < KINDS && st == RG_OK; k++)
            st = measure(comm, kinds[k], sizes[s], send, recv, &r->us[s]);
    if (st == RG_OK)
        r->has_staged =
            which == READ && (((rg__native *)comm)->is_staged ||
                              ((rg__native *)comm)->shared->pid == 0);
    if (comm != NULL)
        comm->transport->close(comm);
    free(send);
    free(recv);
    return st;
}

static void be_rank(int rank, int fd, way which, round_result *r)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIMIT_S);
    setenv("REGROUP_READ_MIN", which == READ ? "1" : NEVER, 1);
    const rg_status st = measure_all(rank, fd, which, r);
    if (st != RG_OK)
        snprintf(r->why, sizeof r->why, "%s", rg_last_error());
    _exit(st != RG_OK);
}

/* ------------------------------------------------------------------- rounds */

/* A rank that fails ends the other one. */
static rg_status await(pid_t *child)
{
    int worst = 0;
    for (int left = RANKS; left > 0; left--) {
        int status;
        const pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0)
            return rg__fail(RG_ERR_SYSTEM, "no rank to wait for: %s",
                            strerror(errno));
        for (int i = 0; i < RANKS; i++) {
            if (child[i] == pid)
                child[i] = 0;
            else if (status != 0 && child[i] > 0)
                kill(child[i], SIGKILL);
        }
        worst = worst == 0 ? status : worst;
    }
    return worst == 0 ? RG_OK
                      : rg__fail(RG_ERR_SYSTEM,
                                 "a rank that measured was killed, or took "
                                 "more than %d s",
                                 LIMIT_S);
}

static rg_status run_round(way which, round_result *r)
{
    pid_t child[RANKS] = {0};
    int fd;
    memset(r, 0, RANKS * sizeof *r);
    rg_status st = rg__shm_create("regroup-tune",
                                  rg__shm_control_bytes(RANKS, 1), false, &fd);
    if (st != RG_OK)
        return st;
    fflush(NULL);
    int n = 0;
    while (n < RANKS && (child[n] = fork()) >= 0) {
        if (child[n] == 0)
            be_rank(n, fd, which, &r[n]);
        n++;
    }
    close(fd);
    if (n < RANKS) {
        for (int i = 0; i < n; i++)
            kill(child[i], SIGKILL);
        while (n-- > 0)
            waitpid(child[n], NULL, 0);
        return rg__fail(RG_ERR_SYSTEM, "no process to measure with");
    }
    st = await(child);
    for (int i = 0; i < RANKS; i++)
        if (r[i].why[0] != '\0')
            return rg__fail(RG_ERR_SYSTEM, "%s", r[i].why);
    for (int i = 0; i < RANKS && st == RG_OK; i++)
        if (r[i].has_staged)
            st = rg__fail(RG_ERR_SYSTEM,
                          "no memory can be read here: the kernel refuses "
                          "process_vm_readv (a container's seccomp profile, or "
                          "yama's ptrace_scope), or there is one processor; "
                          "the default fits");
    return st;
}

static rg_status take_turn(round_result *r, int turn, rg__tune_point *point,
                           double us[SIZES][WAYS])
{
    double all[SIZES][WAYS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < WAYS; i++) {
            const way which = (way)((i + round) % WAYS);
            const rg_status st = run_round(which, r);
            if (st != RG_OK)
                return st;
            for (size_t s = 0; s < SIZES; s++)
                all[s][which][round] = (r[0].us[s] + r[1].us[s]) / RANKS;
        }
    for (size_t s = 0; s < SIZES; s++) {
        for (int i = 0; i < WAYS; i++)
            us[s][i] = median(all[s][i], ROUNDS);
        point[s].bytes = sizes[s];
        point[s].gain[turn] = us[s][STAGED] / us[s][READ];
    }
    return RG_OK;
}

/* --------------------------------------------------------- what is printed */

static void print_machine(void)
{
    char host[256] = "this host", line[256], when[32] = "";
    char model[200] = "unknown";
    const time_t now = time(NULL);
    struct tm tm;
    gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &tm);
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "model name : %199[^\n]", model) == 1)
            break;
    if (file != NULL)
        fclose(file);
    printf("# regroup tune, %s, %s, %ld processors (%s)\n", when, host,
           sysconf(_SC_NPROCESSORS_ONLN), model);
}

static void print_all(const rg__tune_point *point,
                      double us[RG__TUNE_TURNS][SIZES][WAYS])
{
    print_machine();
    printf("# broadcast and allgather of %d ranks: us staged, us read, ratio; "
           "in %d turns\n",
           RANKS, RG__TUNE_TURNS);
    for (size_t s = 0; s < SIZES; s++) {
        printf("# %4lluK", (unsigned long long)(sizes[s] >> 10));
        for (int t = 0; t < RG__TUNE_TURNS; t++)
            printf("  %8.1f %8.1f %5.2f", us[t][s][STAGED], us[t][s][READ],
                   point[s].gain[t]);
        putchar('\n');
    }
    const uint64_t least = rg__tune_choose(point, SIZES, USUAL);
    if (least == USUAL)
        printf("# the default stays: no other size is better by 10 %% in all "
               "turns\n");
    if (least == UINT64_MAX)
        printf("read_min = %s\n", NEVER);
    else
        printf("read_min = %lluK\n", (unsigned long long)(least >> 10));
}

int rg__cmd_tune(rg__cli *cli)
{
    if (cli->argc > 0)
        return rg__cli_fail(rg__fail(RG_ERR_INVALID,
                                     "`regroup tune` takes no words, and %s is "
                                     "one; it prints what it finds",
                                     cli->argv[0]));
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave nothing to wait for */
    double us[RG__TUNE_TURNS][SIZES][WAYS];
    rg__tune_point point[SIZES];
    round_result *r = mmap(NULL, RANKS * sizeof *r, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    rg_status st = r == MAP_FAILED
                       ? rg__fail(RG_ERR_MEMORY, "no memory to measure")
                       : RG_OK;
    for (int t = 0; t < RG__TUNE_TURNS && st == RG_OK; t++)
        st = take_turn(r, t, point, us[t]);
    if (r != MAP_FAILED)
        munmap(r, RANKS * sizeof *r);
    if (st != RG_OK)
        return rg__cli_fail(st);
    print_all(point, us);
    return 0;
}
