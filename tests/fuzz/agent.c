/* A whole agent, from its first words with etcd to its end, in a world where
 * the input is everybody else: workers, other agents, other clients of etcd,
 * the clock, and the deaths of processes. At the end all its workers die and
 * the job is ended; then the agent must end, too, and leave no descriptor.
 *
 * The input is steps with a byte 0x1e between them; a step is a letter and what
 * belongs to it. W is a digit: a worker that has connected.
 *
 *   e key=value   another client writes a key of the job     E key  deletes it
 *   i             etcd forgets all leases
 *   o             etcd is not heard from now on; again       f  a request
 * breaks h S K bytes   a process of slot S, elastic if K is 1, says hello;
 * bytes replace the message m W bytes     a worker says bytes r W           it
 * is ready: its page is filled in n W type g    it says a mark of that type and
 * generation, as digits p W o bytes   it writes to its page, at offset o, a
 * byte v o bytes     it writes to the vault's table, at offset o, two bytes s W
 * it answers no ping from now on; again q W           its connection closes x I
 * code      the I-th living child ends u bytes       a datagram U bytes   one
 * that is proved t             the next timer fires          T NNN     so many
 * ms pass
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "elastic/agent/beat_wire.h"
#include "elastic/agent/inside.h"
#include "sdk/base/log.h"
#include "sdk/base/sock.h"
#include "tests/fuzz/sim.h"
#include "tests/fuzz/sim_etcd.h"
#include "tests/fuzz/sim_proc.h"

#define STEP_END    0x1e
#define PREFIX      "/regroup/v1/j/"
#define HOST        "h1"
#define WORKERS_MAX 10
#define TIME_MAX_MS 3000
#define FINALE      400 /* timers that an agent may need to end */

typedef struct hand {
    int sock; /* the worker's end, -1: closed */
    rg__page *page;
    rg__vault *vault;
    bool is_silent; /* it answers no ping */
} hand;

static hand hands[WORKERS_MAX];
static int handed;
static int datagrams;
static bool etcd_is_away;
static const uint8_t *input;
static size_t input_bytes;
static char run_dir[64];

/* ------------------------------------------------------------------ workers */

static uint8_t digit(fuzz_input *in)
{
    return (uint8_t)(fuzz_byte(in) - '0') % 10;
}

static hand *chosen(fuzz_input *in)
{
    const uint8_t i = digit(in);
    return i < handed && hands[i].sock >= 0 ? &hands[i] : NULL;
}

static int connect_to_agent(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s/agent-" HOST ".sock",
             run_dir);
    const int sock =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CLAIM(sock >= 0);
    if (connect(sock, (struct sockaddr *)&to, sizeof to) == 0)
        return sock;
    close(sock);
    return -1;
}

static void hang_up(hand *h)
{
    if (h == NULL)
        return;
    close(h->sock);
    h->sock = -1;
}

static void map_what_came(hand *h, const int fds[RG__SOCK_FDS])
{
    if (h->page == NULL && fds[1] >= 0) {
        h->page = mmap(NULL, RG__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                       fds[0], 0);
        h->vault = mmap(NULL, sizeof(rg__vault), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fds[1], 0);
        FUZZ_CLAIM(h->page != MAP_FAILED && h->vault != MAP_FAILED);
    }
}

/* Read what the agent says to a worker; every message is one of ours. */
static void listen_to_agent(hand *h)
{
    static _Alignas(16) char room[RG__WIRE_MAX];
    rg_status st = RG_OK;
    while (h->sock >= 0 && st == RG_OK) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        st = rg__sock_recv(h->sock, room, sizeof room, &n, fds);
        if (st == RG_OK) {
            const rg__wire_head *head = (const void *)room;
            FUZZ_CLAIM(n >= sizeof *head && head->version == RG__WIRE_VERSION);
            map_what_came(h, fds);
        }
        for (int i = 0; i < RG__SOCK_FDS; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        if (st != RG_OK && st != RG_IN_PROGRESS)
            hang_up(h);
    }
}

static void say(const hand *h, const void *bytes, size_t n)
{
    if (n > 0)
        (void)!send(h->sock, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void meet(fuzz_input *in)
{
    rg__hello m = {
        .head = {RG__HELLO, RG__WIRE_VERSION}, .pid = 7, .version = RG_VERSION};
    m.slot = (int32_t)digit(in) - 1;
    m.elastic = digit(in);
    if (handed == WORKERS_MAX || sim_proc_child((unsigned)m.slot) == 0)
        return;
    sim_proc_be(sim_proc_child((unsigned)m.slot));
    const int sock = connect_to_agent();
    if (sock < 0)
        return;
    hands[handed] = (hand){.sock = sock};
    if (in->left > 0)
        say(&hands[handed], in->at, in->left);
    else
        say(&hands[handed], &m, sizeof m);
    handed++;
}

static void be_ready(const hand *h)
{
    const rg__mark m = {{RG__READY, RG__WIRE_VERSION}, 0};
    if (h == NULL || h->page == NULL)
        return;
    *(_Atomic uint32_t *)(void *)&h->page->life = 7;
    atomic_store(&h->page->tid, 7);
    atomic_store(&h->page->magic, RG__PAGE_MAGIC);
    atomic_store(&h->page->ready, 1);
    say(h, &m, sizeof m);
}

static uint64_t take_digits(fuzz_input *in)
{
    uint64_t n = 0;
    if (in->left > 0 && *in->at == ' ')
        fuzz_byte(in);
    for (int i = 0; i < 19 && in->left > 0 && *in->at >= '0' && *in->at <= '9';
         i++)
        n = 10 * n + fuzz_byte(in) - '0';
    return n;
}

static void mark(const hand *h, fuzz_input *in)
{
    const uint64_t type = take_digits(in);
    const rg__mark m = {{(uint32_t)type, RG__WIRE_VERSION}, take_digits(in)};
    const rg__door door = {{RG__DOOR, RG__WIRE_VERSION}, 4000};
    if (h == NULL)
        return;
    if (type == RG__DOOR)
        say(h, &door, sizeof door);
    else
        say(h, &m, sizeof m);
}

static void scribble(void *memory, size_t bytes, size_t at, fuzz_input *in)
{
    for (size_t i = at; i < bytes && in->left > 0; i++)
        ((volatile uint8_t *)memory)[i] = fuzz_byte(in);
}

static void scribble_page(const hand *h, fuzz_input *in)
{
    const size_t at = 4 * (size_t)fuzz_byte(in);
    if (h != NULL && h->page != NULL)
        scribble(h->page, RG__PAGE_BYTES, at, in);
}

static void scribble_vault(fuzz_input *in)
{
    const size_t at = fuzz_number(in, 2);
    for (int i = 0; i < handed; i++)
        if (hands[i].vault != NULL) {
            scribble(hands[i].vault, sizeof(rg__vault), at, in);
            return;
        }
}

static void forget_workers(void)
{
    for (int i = 0; i < handed; i++) {
        if (hands[i].sock >= 0)
            close(hands[i].sock);
        if (hands[i].page != NULL)
            munmap(hands[i].page, RG__PAGE_BYTES);
        if (hands[i].vault != NULL)
            munmap(hands[i].vault, sizeof(rg__vault));
        hands[i] = (hand){.sock = -1};
    }
    handed = 0;
}

static void end_child(fuzz_input *in)
{
    const uint8_t i = digit(in);
    const int status = fuzz_byte(in);
    sim_proc_exit(sim_proc_child(i),
                  status < 64 ? status % 32 : (status & 0xff) << 8);
}

/* ---------------------------------------------------------------- the store */

static void other_client(fuzz_input *in, bool deletes)
{
    char *line = strndup((const char *)in->at, in->left), *key = NULL;
    char *eq = strchr(line, '=');
    if (eq != NULL)
        *eq = '\0';
    FUZZ_CLAIM(asprintf(&key, PREFIX "%s", line) > 0);
    if (eq != NULL || deletes)
        sim_etcd_put(key, deletes ? NULL : eq + 1);
    free(key);
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

/* A field of one of the records that the agent has written itself. */
static bool read_own(const char *key, const char *field, char text[65])
{
    const char *value = sim_etcd_get(key), *at = NULL;
    if (value != NULL)
        at = strstr(value, field);
    text[0] = '\0';
    return at != NULL && sscanf(at + strlen(field), "%64[0-9a-f]", text) == 1;
}

/* ------------------------------------------------------------- other agents */

static void send_datagram(const void *bytes, size_t n)
{
    char text[65];
    struct sockaddr_in to = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!read_own(PREFIX "lead/host/" HOST, "\"port\":", text))
        return;
    to.sin_port = htons((uint16_t)strtoul(text, NULL, 10));
    (void)!sendto(datagrams, bytes, n, MSG_DONTWAIT, (struct sockaddr *)&to,
                  sizeof to);
}

static void send_proved(fuzz_input *in)
{
    char key_text[65], id[65];
    uint8_t key[RG__KEY_BYTES] = {0}, bytes[RG__BEAT_BYTES];
    if (!read_own(PREFIX "meta", "\"key\":\"", key_text) ||
        !read_own(PREFIX "lead/host/" HOST, "\"id\":\"", id))
        return;
    for (size_t i = 0; i < RG__KEY_BYTES; i++) {
        unsigned byte = 0;
        sscanf(key_text + 2 * i, "%2x", &byte);
        key[i] = (uint8_t)byte;
    }
    rg__beat beat = {.type = (rg__beat_type)fuzz_byte(in)};
    beat.from = digit(in) == 0 ? strtoull(id, NULL, 16) : fuzz_number(in, 8);
    beat.to = strtoull(id, NULL, 16);
    beat.is_etcd_up = digit(in) != 0;
    beat.counter = fuzz_number(in, 8);
    beat.generation = fuzz_number(in, 8);
    rg__beat_write(bytes, key, &beat);
    send_datagram(bytes, sizeof bytes);
}

/* -------------------------------------------------------------------- steps */

static void take_worker_step(char letter, fuzz_input *in)
{
    hand *h = chosen(in);
    switch (letter) {
    case 'm':
        if (h != NULL)
            say(h, in->at, in->left);
        break;
    case 'r':
        be_ready(h);
        break;
    case 'n':
        mark(h, in);
        break;
    case 'p':
        scribble_page(h, in);
        break;
    case 'q':
        hang_up(h);
        break;
    case 's':
        if (h != NULL)
            h->is_silent = !h->is_silent;
        break;
    default:
        break;
    }
}

/* What follows from a step. */
static void settle(rg__loop *loop)
{
    if (!etcd_is_away)
        sim_etcd_serve();
    sim_watch_look();
    sim_serve(loop);
    for (int i = 0; i < handed; i++) {
        listen_to_agent(&hands[i]);
        if (hands[i].page != NULL && !hands[i].is_silent)
            atomic_store(&hands[i].page->pong,
                         atomic_load(&hands[i].page->ping));
    }
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
    case 'h':
        meet(in);
        break;
    case 'v':
        scribble_vault(in);
        break;
    case 'x':
        end_child(in);
        break;
    case 'u':
        send_datagram(in->at, in->left);
        break;
    case 'U':
        send_proved(in);
        break;
    case 't':
        sim_fire(loop);
        break;
    case 'T':
        pass_time(loop, take_digits(in));
        break;
    default:
        take_worker_step(letter, in);
    }
}

static void take_steps(rg__loop *loop)
{
    fuzz_input in = {input, input_bytes};
    while (in.left > 0 && !sim_is_stopped(loop)) {
        const uint8_t *end = memchr(in.at, STEP_END, in.left);
        fuzz_input step = in;
        if (end != NULL)
            step.left = (size_t)(end - in.at);
        const size_t used = step.left + (end != NULL);
        in.at += used;
        in.left -= used;
        take_step(loop, &step);
        settle(loop);
    }
}

static void script(rg__loop *loop)
{
    settle(loop);
    take_steps(loop);
    etcd_is_away = false;
    if (!sim_is_stopped(loop))
        sim_etcd_put(PREFIX "all/end", "{\"code\":0,\"why\":\"the end\"}");
    for (int i = 0; i < FINALE && !sim_is_stopped(loop); i++) {
        while (sim_proc_child(0) != 0)
            sim_proc_exit(sim_proc_child(0), 0);
        settle(loop);
        sim_fire(loop);
    }
    FUZZ_CLAIM(sim_is_stopped(loop));
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
    snprintf(run_dir, sizeof run_dir, "%s/rg-fuzz-XXXXXX",
             base != NULL && strlen(base) < 40 ? base : "/tmp");
    FUZZ_CLAIM(mkdtemp(run_dir) != NULL);
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
    const rg__agent_params params = {.job = "j",
                                     .host = HOST,
                                     .slots = 2,
                                     .min = 1,
                                     .max = 4,
                                     .argv = argv,
                                     .run_dir = run_dir,
                                     .advertise = "127.0.0.1",
                                     .endpoints = "http://10.0.0.1:2379",
                                     .creates_job = true,
                                     .max_restarts = 2,
                                     .start_timeout_ms = 1000,
                                     .elastic_timeout_ms = 5000,
                                     .grace_ms = 1000,
                                     .detect_ms = 500,
                                     .vault_max_bytes = 1 << 20};
    FILE *const before = stderr;
    stderr = fopen("/dev/null", "we"); /* it says why it ends */
    FUZZ_CLAIM(stderr != NULL);
    sim_script = script;
    rg__agent_run(&params, NULL);
    fclose(stderr);
    stderr = before;
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    begin_once();
    const int lowest = lowest_free();
    input = bytes;
    input_bytes = n;
    etcd_is_away = false;
    datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    FUZZ_CLAIM(datagrams >= 0);
    sim_begin();
    sim_proc_begin();
    sim_etcd_open();
    run_agent();
    forget_workers();
    sim_etcd_close();
    sim_proc_end();
    close(datagrams);
    FUZZ_CLAIM(lowest_free() == lowest);
}
