/* What MPI programs do around collectives, by the first argument; a program
 * that knows nothing about Regroup, but for the name of its memory. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 20 /* more than a communicator makes before its set is made */

static int rank, size;

static void claim(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Sums of ranks, often enough to go over native. */
static void use(MPI_Comm comm)
{
    int n, me;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < CALLS; i++) {
        int sum = -1;
        const int mine = me + i;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
        claim(sum == n * i + n * (n - 1) / 2, "a sum is wrong");
    }
}

/* Rank 1 waits for a message that rank 0 can't end before it is in the next
 * collective: a wait there moves MPI on. */
static void messages(void)
{
    const int bytes = 10 * 1000 * 1000;
    char *data = calloc(1, (size_t)bytes);
    use(MPI_COMM_WORLD);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Request sent = MPI_REQUEST_NULL;
        if (rank == 0)
            MPI_Isend(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &sent);
        if (rank == 1)
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        use(MPI_COMM_WORLD);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    free(data);
}

static void *in_thread(void *comm)
{
    for (int i = 0; i < 20; i++)
        use(*(MPI_Comm *)comm);
    return NULL;
}

static void threads(void)
{
    MPI_Comm comm[2];
    pthread_t thread[2];
    int level;
    MPI_Query_thread(&level);
    claim(level == MPI_THREAD_MULTIPLE, "MPI gives no MPI_THREAD_MULTIPLE");
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, in_thread, &comm[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&comm[i]);
}

/* Segments that are mapped here. */
static int segments(void)
{
    char line[4096], last[4096] = "";
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL) {
        char *name = strstr(line, "/memfd:regroup-interpose");
        if (name == NULL || strcmp(name, last) == 0)
            continue;
        strcpy(last, name);
        n++;
    }
    fclose(maps);
    return n;
}

/* Open descriptors, of the first thousand. */
static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Each of two groups has what the other gives; one rank of it is the root. */
static void use_between(MPI_Comm inter, int turn)
{
    const int mine = rank % 2, other = 1 - mine;
    const int root = mine != turn % 2 ? 0
                     : rank / 2 == 0  ? MPI_ROOT
                                      : MPI_PROC_NULL;
    const int has_root = root == MPI_ROOT, has_data = mine != turn % 2;
    int sum = -1, given[2] = {turn, turn}, taken[2] = {-1, -1};
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, inter);
    claim(sum == other, "an inter-communicator's sum is wrong");
    MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_MAX, root, inter);
    claim(!has_root || sum == other, "a reduction to a root is wrong");
    sum = has_root ? turn : -1;
    MPI_Bcast(&sum, 1, MPI_INT, root, inter);
    claim(!has_data || sum == turn, "a broadcast is wrong");
    sum = -1;
    MPI_Scatter(given, 1, MPI_INT, &sum, 1, MPI_INT, root, inter);
    claim(!has_data || sum == turn, "a scatter is wrong");
    MPI_Gather(&mine, 1, MPI_INT, taken, 1, MPI_INT, root, inter);
    claim(!has_root || taken[0] == other, "a gather is wrong");
    MPI_Allgather(&mine, 1, MPI_INT, taken, 1, MPI_INT, inter);
    claim(taken[0] == other, "an allgather is wrong");
    MPI_Alltoall(given, 1, MPI_INT, taken, 1, MPI_INT, inter);
    claim(taken[0] == turn, "an alltoall is wrong");
    MPI_Barrier(inter);
}

/* Those of MPI 4, which Open MPI 4.1's header lacks, begun before a call that
 * goes over native and ended behind it. */
static void persistent(void)
{
    int (*init)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm,
                MPI_Info, MPI_Request *);
    *(void **)&init = dlsym(RTLD_DEFAULT, "MPI_Allreduce_init");
    claim(init != NULL, "this MPI has no persistent collectives");
    enum { N = 3000 };
    static int mine[N], sum[N];
    MPI_Request both[2];
    for (int i = 0; i < 2; i++)
        init(mine + i * N / 2, sum + i * N / 2, N / 2, MPI_INT, MPI_SUM,
             MPI_COMM_WORLD, MPI_INFO_NULL, &both[i]);
    for (int turn = 0; turn < CALLS; turn++) {
        for (int i = 0; i < N; i++)
            mine[i] = rank + turn + i;
        MPI_Start(&both[turn % 2]);
        use(MPI_COMM_WORLD);
        MPI_Start(&both[1 - turn % 2]);
        for (int i = 0; i < 2; i++)
            MPI_Wait(&both[i], MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            claim(sum[i] == size * (turn + i) + size * (size - 1) / 2,
                  "a persistent sum is wrong");
    }
    for (int i = 0; i < 2; i++)
        MPI_Request_free(&both[i]);
}

/* Many at once, then many one after another; and those that have no native.
 * Files of a program may be small. */
static void communicators(void)
{
    enum { MANY = 300 };
    static MPI_Comm comm[MANY];
    const struct rlimit small = {64 << 20, 64 << 20};
    const int before = descriptors();
    MPI_Comm half, inter;
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < MANY; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
        use(comm[i]);
    }
    claim(segments() == MANY, "not each communicator has a segment");
    claim(descriptors() < before + MANY / 2, "communicators hold descriptors");
    for (int i = 0; i < MANY; i++)
        MPI_Comm_free(&comm[i]);
    claim(segments() == 0, "segments outlive their communicators");
    use(MPI_COMM_SELF);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
    for (int i = 0; i < CALLS; i++)
        use_between(inter, i);
    MPI_Comm_free(&inter);
    MPI_Comm_disconnect(&half);
}

/* What is wrong is MPI's to say, as ever. */
static void mistakes(void)
{
    int x = 0;
    use(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    claim(MPI_Bcast(&x, 1, MPI_INT, size, MPI_COMM_WORLD) != MPI_SUCCESS,
          "a bad root is taken");
    claim(MPI_Allreduce(&x, &x, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) !=
              MPI_SUCCESS,
          "a negative count is taken");
    claim(MPI_Barrier(MPI_COMM_NULL) != MPI_SUCCESS,
          "no communicator is taken");
    use(MPI_COMM_WORLD);
}

/* One rank's, which another does not make, before and after its communicator
 * has a set. */
static void lonely_mistakes(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 2; turn++) {
        int x = 0;
        if (rank == 0) {
            claim(MPI_Bcast(&x, 1, MPI_INT, -7, comm) != MPI_SUCCESS,
                  "a bad root is taken");
            claim(MPI_Allreduce(&x, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm) !=
                      MPI_SUCCESS,
                  "a result in place is taken");
        }
        use(comm);
    }
    MPI_Comm_free(&comm);
}

/* Ranks that were started later, without the library. */
static void spawned(char *program)
{
    MPI_Comm inter, all;
    char word[] = "spawned", *words[] = {word, NULL};
    MPI_Comm_get_parent(&inter);
    const int is_parent = inter == MPI_COMM_NULL;
    if (is_parent)
        MPI_Comm_spawn(program, words, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &inter, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(inter, !is_parent, &all);
    use(MPI_COMM_WORLD);
    use(all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
}

/* The others wait for one that is killed. */
static void death(void)
{
    use(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    use(MPI_COMM_WORLD);
}

static void *come_late(void *nothing)
{
    sleep(4); /* longer than a wait looks away from its peers */
    use(MPI_COMM_WORLD);
    MPI_Finalize();
    exit(0);
    return nothing;
}

/* Rank 1 is late, and the thread that it began with has ended. Rank 0, which
 * waits for it, can't open a file. */
static void late(void)
{
    pthread_t thread;
    use(MPI_COMM_WORLD);
    if (rank == 1) {
        pthread_create(&thread, NULL, come_late, NULL);
        pthread_exit(NULL);
    }
    while (rank == 0 && open("/dev/null", O_RDONLY) >= 0)
        continue;
    use(MPI_COMM_WORLD);
}

/* Before MPI_Init: the launcher's number of this rank. */
static int is_odd(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    text = text != NULL ? text : getenv("PMI_RANK");
    return text != NULL && atoi(text) % 2;
}

/* Odd ranks have a world of processes of their own, as on another host. The
 * process that the launcher knows waits for them. */
static int hide(void)
{
    int status = 0;
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
        return 77;
    const pid_t child = fork();
    if (child > 0) {
        waitpid(child, &status, 0);
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
           mount("none", "/proc", "proc", 0, NULL) != 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int level;
    if (strcmp(what, "differ") == 0 && is_odd())
        setenv("REGROUP_INTERPOSE", "bcast,barrier", 1);
    if (strcmp(what, "apart") == 0 && is_odd() && hide() != 0)
        return 77;
    if (strcmp(what, "threads") == 0 || strcmp(what, "late") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "messages") == 0)
        messages();
    else if (strcmp(what, "threads") == 0)
        threads();
    else if (strcmp(what, "communicators") == 0)
        communicators();
    else if (strcmp(what, "persistent") == 0)
        persistent();
    else if (strcmp(what, "mistakes") == 0) {
        mistakes();
        lonely_mistakes();
    } else if (strcmp(what, "spawned") == 0)
        spawned(argv[0]);
    else if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "death") == 0)
        death();
    else
        use(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
