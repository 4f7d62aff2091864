/* A whole agent, from its first words with etcd to its end, in a world where
 * the input is all the others: workers, other agents, other clients of etcd,
 * the clock, and the deaths of processes. At the end all its workers die and
 * the job is ended; then the agent must end, too, and leave no descriptor.
 *
 * The input is steps with a byte 0x1e between them; a step is a letter and what
 * belongs to it. W is a digit: which one has connected; N, M numbers.
 *
 *   e key=value   another client writes a key of the job; in the value $I is
 *                 the agent's incarnation, $A the address of all hosts and $P
 *                 the port of host h2
 *   E key         it deletes one
 *   i             etcd forgets all leases
 *   o             etcd is not heard from now on; again       f  a request
 * breaks h S K bytes   a process of slot S - 1, elastic if K is 1, says hello;
 * bytes replace the message c T N host    a command line asks: status, events,
 * follow, stop, drain m W bytes     a worker says bytes r W           it is
 * ready: its page is filled in n W x ...     it says d(oor), l(eft) N, b(uilt)
 * N, f(in) N, z (finalize), r(egister) N name, a(lloc) N M, e (free) N, k
 * (broken) N M why, s(tuck) N M why, c (save) ..., t (stand) ... p W o bytes it
 * writes to its page, at offset 4 * o v oo bytes    it writes to the vault's
 * table, at an offset of two bytes w S N M       it makes vault slot S a commit
 * of generation N, step M s W           it answers no ping from now on; again
 *   q W           its connection closes
 *   x I code      the I-th living child ends
 *   u bytes       a datagram         U type ...   one that is proved
 *   C             host h2 calls      Q            the newest connection closes
 *   j T ...       it sends a frame   J bytes      it sends bytes
 *   t             the next timer fires            T N   N ms pass
 *   K             the agent is killed, and another takes over
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/agent.h"
#include "tests/fuzz/sim_etcd.h"
#include "tests/fuzz/sim_proc.h"

#define TIME_MAX_MS 3000
#define KILLS_MAX   3
#define FINALE      400 /* timers that an agent may need to end */

static fuzz_input input;
static bool etcd_is_away, is_killed;
static int kills;
static char run_dir[64], socket_path[96], other_path[96];

/* ---------------------------------------------------------------- the store */

static bool put_name(FILE *out, char name)
{
    switch (name) {
    case 'A':
        fputs(sim_address(), out);
        return true;
    case 'I':
        fprintf(out, "%016" PRIx64, peers_agents_id());
        return true;
    case 'P':
        fprintf(out, "%u", peers_port());
        return true;
    default:
        return false;
    }
}

/* With $A, $I and $P in it replaced; malloc'd. */
static char *expand(const char *value)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    FUZZ_CLAIM(out != NULL);
    for (; *value != '\0'; value++)
        if (*value == '$' && put_name(out, value[1]))
            value++;
        else
            fputc(*value, out);
    fclose(out);
    return text;
}

static void other_client(const fuzz_input *in, bool deletes)
{
    char *line = strndup((const char *)in->at, in->left), *key = NULL;
    char *eq = strchr(line, '=');
    if (eq != NULL)
        *eq = '\0';
    char *value = eq != NULL ? expand(eq + 1) : NULL;
    FUZZ_CLAIM(asprintf(&key, PREFIX "%s", line) > 0);
    if (value != NULL || deletes)
        sim_etcd_put(key, deletes ? NULL : value);
    free(key);
    free(value);
    free(line);
}

static void break_request(void)
{
    sim_request *r = sim_request_first(SIM_UNARY);
    if (r == NULL)
        r = sim_request_first(SIM_STREAM);
    if (r != NULL)
        sim_break(r, "connection reset");
}

/* -------------------------------------------------------------------- steps */

/* What follows from a step. */
static void settle(rg__loop *loop)
{
    if (!etcd_is_away)
        sim_etcd_serve();
    sim_watch_look();
    sim_serve(loop);
    hands_settle();
    peers_settle();
    fdstore_settle();
    if (!etcd_is_away && !sim_is_stopped(loop))
        sim_etcd_serve();
}

/* In pieces, so that pings are answered meanwhile. */
static void pass_time(rg__loop *loop, uint64_t ms)
{
    ms = ms < TIME_MAX_MS ? ms : TIME_MAX_MS;
    for (; ms > 0 && !sim_is_stopped(loop); ms -= ms < 100 ? ms : 100) {
        sim_pass(loop, (ms < 100 ? ms : 100) * SIM_MS);
        settle(loop);
    }
}

static void end_child(fuzz_input *in)
{
    const uint8_t i = fuzz_digit(in);
    const int status = fuzz_byte(in);
    sim_proc_exit(sim_proc_child(i),
                  status < 64 ? status % 32 : (status & 0xff) << 8);
}

static void take_step(rg__loop *loop, fuzz_input *in)
{
    const char letter = (char)fuzz_byte(in);
    switch (letter) {
    case 'e':
    case 'E':
        other_client(in, letter == 'E');
        break;
    case 'i':
        sim_etcd_expire();
        break;
    case 'o':
        etcd_is_away = !etcd_is_away;
        break;
    case 'f':
        break_request();
        break;
    case 'x':
        end_child(in);
        break;
    case 't':
        sim_fire(loop);
        break;
    case 'T':
        pass_time(loop, fuzz_decimal(in));
        break;
    case 'K':
        is_killed = kills++ < KILLS_MAX;
        break;
    default:
        hands_step(letter, *in);
        peers_step(letter, *in);
    }
}

static void end_it(rg__loop *loop)
{
    etcd_is_away = false;
    sim_etcd_put(PREFIX "all/end", "{\"code\":3,\"why\":\"the end\"}");
    for (int i = 0; i < FINALE && !sim_is_stopped(loop); i++) {
        while (sim_proc_child(0) != 0)
            sim_proc_exit(sim_proc_child(0), 0);
        settle(loop);
        sim_fire(loop);
    }
    FUZZ_CLAIM(sim_is_stopped(loop));
}

static void script(rg__loop *loop)
{
    is_killed = false;
    settle(loop);
    while (input.left > 0 && !is_killed && !sim_is_stopped(loop)) {
        fuzz_input step = fuzz_step(&input);
        take_step(loop, &step);
        settle(loop);
    }
    is_killed = is_killed && !sim_is_stopped(loop);
    if (is_killed) { /* its socket stays where it is */
        fdstore_agent_is_killed();
        if (link(socket_path, other_path) != 0)
            perror(other_path);
    } else if (!sim_is_stopped(loop)) {
        end_it(loop);
    }
}

/* ---------------------------------------------------------------------- run */

static void remove_run_dir(void)
{
    rmdir(run_dir);
}

static void begin_once(void)
{
    const char *base = getenv("TMPDIR");
    if (run_dir[0] != '\0')
        return;
    signal(SIGPIPE, SIG_IGN);
    snprintf(run_dir, sizeof run_dir, "%s/rg-fuzz-XXXXXX",
             base != NULL && strlen(base) < 40 ? base : "/tmp");
    FUZZ_CLAIM(mkdtemp(run_dir) != NULL);
    snprintf(socket_path, sizeof socket_path, "%s/agent-" HOST ".sock",
             run_dir);
    snprintf(other_path, sizeof other_path, "%s/kept.sock", run_dir);
    atexit(remove_run_dir);
}

/* The lowest descriptor that is free. */
static int lowest_free(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void run_agent(void)
{
    static char *const argv[] = {(char *)(uintptr_t) "prog", NULL};
    const rg__agent_params params = {
        .job = "j",
        .host = HOST,
        .slots = 2,
        .min = 1,
        .max = 4,
        .argv = argv,
        .run_dir = run_dir,
        .user.advertise = sim_address(),
        .etcd = {.endpoints = "http://10.0.0.1:2379"},
        .creates_job = true,
        .user.max_restarts = 2,
        .user.start_timeout_ms = 1000,
        .user.elastic_timeout_ms = 5000,
        .user.etcd_timeout_ms = 5000,
        .user.grace_ms = 1000,
        .detect_ms = 500,
        .detect_follows = true,
        .user.vault_max_bytes = 1 << 20,
        .checkpoint_dir = run_dir,
        .checkpoint_keep = 2};
    rg__fdstore *fdstore = fdstore_create();
    FILE *const before = stderr;
    stderr = fopen("/dev/null", "we"); /* it says why it ends */
    FUZZ_CLAIM(stderr != NULL);
    sim_script = script;
    rg__agent_run(&params, fdstore);
    rg__fdstore_destroy(fdstore);
    fclose(stderr);
    stderr = before;
    rename(other_path, socket_path);
}

static void begin(const uint8_t *bytes, size_t n)
{
    input = (fuzz_input){bytes, n};
    etcd_is_away = false;
    kills = 0;
    sim_begin();
    sim_proc_begin();
    sim_etcd_open();
    fdstore_begin();
    hands_begin(socket_path);
    peers_begin();
}

static void end(void)
{
    peers_end();
    hands_end();
    fdstore_end();
    sim_etcd_close();
    sim_proc_end();
    unlink(socket_path);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    begin_once();
    const int lowest = lowest_free();
    begin(bytes, n);
    do
        run_agent();
    while (is_killed);
    end();
    FUZZ_CLAIM(lowest_free() == lowest);
}
