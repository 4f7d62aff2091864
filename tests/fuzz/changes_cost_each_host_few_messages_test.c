/* A job of thousands of hosts in simulated time. One agent is real, the
 * unchanged rg__agent_run with its etcd client; all others do what the protocol
 * asks of them: a record when they come, a reason and a record when their
 * worker dies, an ack of each proposal, the answer to a probe, a beat. The
 * network loses nothing and takes no time, and neither does etcd, so what is
 * counted is the protocol:
 *
 *   start   the first world of all
 *   one     a worker of another host dies, and the real agent leads
 *   ten     ten of them at once
 *   leader  another host leads and leaves, and the real agent leads then
 *   last    another host leads and is not heard for a while; all others accuse
 *           it before the real agent does
 *   judge   it falls silent for good; the real agent accuses it first, and
 *           deposes it
 *   etcd    a worker of another host dies with etcd's leader: watches end, and
 *           no request is answered for a while
 *   join    the real agent comes to a job of as many hosts
 *
 * Messages and bytes of each change must not grow faster with the number of
 * hosts than docs/scale.md says. `changes_cost_each_host_few_messages N ...`
 * prints a table for these numbers of hosts.
 *
 * Covers: leader.c offers.c ack.c beat.c plan.c mirror.c publish.c */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/agent/hosts/beat_wire.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"
#include "tests/fuzz/agent.h"
#include "tests/fuzz/sim_etcd.h"
#include "tests/fuzz/sim_proc.h"

#define FIRST_ID   UINT64_C(0x1000000) /* of the other hosts, by number */
#define SETTLE_MAX 1000
#define BATCH      100 /* datagrams that a socket has room for */
#define TEN        10
#define MISSED_NS  UINT64_C(600000000) /* a beat comes, and the next */
#define ELECTS_NS  UINT64_C(800000000) /* until etcd has another leader */
#define PORT_OTHER 9                   /* of all others: no datagram goes out */

typedef struct counts {
    uint64_t requests; /* of the real agent, to etcd */
    uint64_t request_bytes, answer_bytes;
    uint64_t writes;           /* keys */
    uint64_t told, told_bytes; /* what a watch of all/ hears */
    uint64_t sent, sent_bytes; /* datagrams of the real agent */
    uint64_t acks;             /* of all others */
    uint64_t others_requests;  /* to etcd */
    double cpu_ms;
} counts;

static counts now;
static int hosts;      /* numbered from 2; the real one is 1 */
static bool *is_alive; /* its worker */
static bool *has_agent;
static uint64_t *acked;   /* by host: newest generation */
static uint64_t counter;  /* of all others' datagrams */
static uint64_t proposed; /* the newest generation that is to be acked */
static uint64_t built;    /* by the real agent's worker */
static char op[33];       /* of that proposal */
static int silent;        /* the host that answers nothing; 0: none */
static int datagrams;     /* the socket of all others */
static rg__loop *loop;
static char run_dir[64], socket_path[96];

/* ------------------------------------------------------------------ network */

int __wrap_connect(int sock, const struct sockaddr *to, socklen_t n);
int __real_connect(int sock, const struct sockaddr *to, socklen_t n);
ssize_t __wrap_sendto(int sock, const void *bytes, size_t n, int flags,
                      const struct sockaddr *to, socklen_t to_bytes);
ssize_t __real_sendto(int sock, const void *bytes, size_t n, int flags,
                      const struct sockaddr *to, socklen_t to_bytes);

const char *sim_address(void)
{
    static char text[INET_ADDRSTRLEN];
    const struct in_addr at = {
        htonl(0x7f400000u | ((uint32_t)getpid() & 0x3fffffu))};
    return inet_ntop(AF_INET, &at, text, sizeof text);
}

static bool is_datagrams(int sock)
{
    int type = 0;
    socklen_t n = sizeof type;
    return getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &n) == 0 &&
           type == SOCK_DGRAM;
}

/* No host refuses a datagram. */
int __wrap_connect(int sock, const struct sockaddr *to, socklen_t n)
{
    return is_datagrams(sock) ? 0 : __real_connect(sock, to, n);
}

static bool read_own(const char *key, const char *field, char text[65])
{
    const char *value = sim_etcd_get(key), *at = NULL;
    if (value != NULL)
        at = strstr(value, field);
    return at != NULL && sscanf(at + strlen(field), "%64[0-9a-f]", text) == 1;
}

static void read_key(uint8_t key[RG__KEY_BYTES])
{
    char text[65] = "";
    FUZZ_CLAIM(read_own(PREFIX "meta", "\"key\":\"", text));
    for (size_t i = 0; i < RG__KEY_BYTES; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        key[i] = (uint8_t)byte;
    }
}

static uint64_t agents_id(void)
{
    char text[65] = "0";
    FUZZ_CLAIM(read_own(PREFIX "lead/host/" HOST, "\"id\":\"", text));
    return strtoull(text, NULL, 16);
}

static struct sockaddr_in agents_place(void)
{
    char text[65] = "0";
    struct sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, sim_address(), &at.sin_addr);
    FUZZ_CLAIM(read_own(PREFIX "lead/host/" HOST, "\"port\":", text));
    at.sin_port = htons((uint16_t)strtoul(text, NULL, 10));
    return at;
}

/* From the other host with that number. */
static void say(int host, rg__beat beat)
{
    static uint8_t key[RG__KEY_BYTES], bytes[RG__BEAT_MAX];
    static struct sockaddr_in to;
    static int said;
    if (counter == 0) {
        read_key(key);
        to = agents_place();
    }
    beat.from = FIRST_ID + (uint64_t)host;
    beat.to = agents_id();
    beat.counter = ++counter;
    beat.is_etcd_up = true;
    const size_t n = rg__beat_write(bytes, key, &beat);
    FUZZ_CLAIM(__real_sendto(datagrams, bytes, n, 0,
                             (const struct sockaddr *)&to,
                             sizeof to) == (ssize_t)n);
    if (++said % BATCH == 0)
        sim_serve(loop);
}

/* What the real agent says to another host. An offer is acked later, by all at
 * once; a beat needs no answer. */
static void hear(const void *bytes, size_t n)
{
    static uint8_t key[RG__KEY_BYTES];
    rg__beat beat;
    now.sent++;
    now.sent_bytes += n;
    read_key(key);
    FUZZ_CLAIM(rg__beat_read(bytes, n, key, &beat));
    if (beat.type == RG__BEAT_PROBE && beat.to != FIRST_ID + (uint64_t)silent)
        say((int)(beat.to - FIRST_ID), (rg__beat){.type = RG__BEAT_HERE});
    if (beat.type != RG__BEAT_OFFER || beat.generation <= proposed)
        return;
    const char *at = memmem(beat.text, beat.text_bytes, "\"op\":\"", 6);
    FUZZ_CLAIM(at != NULL && sscanf(at + 6, "%32[0-9a-f]", op) == 1);
    proposed = beat.generation;
}

ssize_t __wrap_sendto(int sock, const void *bytes, size_t n, int flags,
                      const struct sockaddr *to, socklen_t to_bytes)
{
    if (!is_datagrams(sock))
        return __real_sendto(sock, bytes, n, flags, to, to_bytes);
    hear(bytes, n);
    return (ssize_t)n;
}

/* -------------------------------------------------------------- other hosts */

static void note(const char *key, int64_t revision, size_t bytes)
{
    static int64_t last;
    now.writes++;
    if (strncmp(key, PREFIX "all/", strlen(PREFIX "all/")) != 0)
        return;
    now.told += revision != last;
    now.told_bytes += bytes;
    last = revision;
}

static void put(const char *name, char *text)
{
    char key[256];
    FUZZ_CLAIM(text != NULL);
    snprintf(key, sizeof key, PREFIX "%s", name);
    sim_etcd_put(key, text);
    free(text);
}

static rg__proposal_host place_of_host(int host)
{
    rg__proposal_host h = {.id = FIRST_ID + (uint64_t)host, .port = PORT_OTHER};
    snprintf(h.name, sizeof h.name, "h%d", host);
    snprintf(h.address.text, sizeof h.address.text, "127.%d.%d.%d",
             128 + (host >> 16 & 63), host >> 8 & 255, host & 255);
    return h;
}

/* Its record, as its agent writes it; a worker that has died is not replaced.
 */
static void publish(int host, bool is_gone)
{
    const rg__proposal_host at = place_of_host(host);
    char key[96];
    rg__slot_record slot = {.start = 1,
                            .pid = 1000 + host,
                            .port = 4000,
                            .is_alive = is_alive[host],
                            .is_at_door = is_alive[host]};
    rg__host_record h = {.id = at.id,
                         .seq = 1 + !is_alive[host],
                         .slots = 1,
                         .open = is_alive[host],
                         .elastic = 1,
                         .address = at.address,
                         .port = at.port,
                         .is_gone = is_gone,
                         .slot = &slot,
                         .slot_count = 1};
    memcpy(h.name, at.name, sizeof h.name);
    snprintf(key, sizeof key, "lead/host/%s", at.name);
    put(key, rg__host_text(&h));
}

/* One request to etcd and a note to the leader. */
static void die(int host, uint64_t generation, bool is_gone)
{
    rg__reason r = {.generation = generation, .is_death = true};
    char key[160];
    is_alive[host] = false;
    has_agent[host] = !is_gone;
    snprintf(r.member, sizeof r.member, "h%d.0.1", host);
    snprintf(r.text, sizeof r.text, "h%d.0 was killed by signal 9", host);
    snprintf(key, sizeof key, "all/ev/%016" PRIx64 "/%s", generation, r.member);
    put(key, rg__reason_text(&r));
    publish(host, is_gone);
    now.others_requests++;
}

/* Proposals that are on record need no offer. */
static void read_proposal(void)
{
    uint64_t g = 0;
    char key[96];
    const char *cur = sim_etcd_get(PREFIX "all/cur");
    if (cur == NULL || strstr(cur, "\"propose\"") == NULL ||
        sscanf(strstr(cur, "\"g\":") + 4, "%" SCNu64, &g) != 1 || g <= proposed)
        return;
    snprintf(key, sizeof key, PREFIX "all/gen/%016" PRIx64, g);
    char text[65] = "";
    FUZZ_CLAIM(read_own(key, "\"op\":\"", text));
    snprintf(op, sizeof op, "%.32s", text);
    proposed = g;
}

static bool has_members_decided(uint64_t generation)
{
    uint64_t g = 0;
    const char *cur = sim_etcd_get(PREFIX "all/cur");
    return cur != NULL && strstr(cur, "\"decided\"") != NULL &&
           sscanf(strstr(cur, "\"g\":") + 4, "%" SCNu64, &g) == 1 &&
           g >= generation;
}

static void ack_all(void)
{
    rg__ack ack = {.generation = proposed, .step = 5, .count = 1};
    ack.held[0] = (rg__held){.id = {1, 5}, .is_whole = true};
    ack.count = proposed > 1;
    memcpy(ack.op, op, sizeof ack.op);
    for (int host = 2; host <= hosts; host++) {
        if (!has_agent[host] || acked[host] >= proposed)
            continue;
        acked[host] = proposed;
        ack.id = FIRST_ID + (uint64_t)host;
        char *text = rg__ack_text(&ack);
        say(host, (rg__beat){.type = RG__BEAT_ACK,
                             .generation = proposed,
                             .text = text,
                             .text_bytes = strlen(text)});
        free(text);
        now.acks++;
    }
}

/* ----------------------------------------------------------- the real agent */

static void hands(char letter, const char *text)
{
    hands_step(letter, (fuzz_input){(const uint8_t *)text, strlen(text)});
}

static void settle(void)
{
    sim_etcd_serve();
    sim_watch_look();
    sim_serve(loop);
    hands_settle();
    fdstore_settle();
    sim_etcd_serve();
}

/* Its worker does what it is asked to. */
static void build(uint64_t generation)
{
    char text[32];
    if (generation > 1) {
        snprintf(text, sizeof text, "0l %" PRIu64, generation - 1);
        hands('n', text);
    }
    snprintf(text, sizeof text, "0b %" PRIu64, generation);
    hands('n', text);
    built = generation;
}

/* Until the world is decided; time passes only where the leader waits. */
static void follow(uint64_t generation)
{
    for (int i = 0; i < SETTLE_MAX && !has_members_decided(generation); i++) {
        const uint64_t before = proposed;
        settle();
        read_proposal();
        if (proposed > built)
            build(proposed);
        settle();
        ack_all();
        settle();
        if (proposed == before && !has_members_decided(generation))
            sim_fire(loop);
    }
    FUZZ_CLAIM(has_members_decided(generation));
    settle();
}

/* -------------------------------------------------------------------- story */

static double cpu_ms(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

static void begin_count(void)
{
    now = (counts){.cpu_ms = -cpu_ms()};
    sim_etcd_asked = sim_etcd_asked_bytes = sim_etcd_answered_bytes = 0;
}

static counts end_count(void)
{
    now.cpu_ms += cpu_ms();
    now.requests = sim_etcd_asked;
    now.request_bytes = sim_etcd_asked_bytes;
    now.answer_bytes = sim_etcd_answered_bytes;
    return now;
}

/* The real host's worker stands at the door, and has a commit later on. */
static void come(void)
{
    settle();
    hands('h', "11");
    settle();
    hands('r', "0");
    settle();
    hands('n', "0r 100 weights");
    settle();
    hands('n', "0d");
    settle();
}

static counts form_world(void)
{
    begin_count();
    for (int host = 2; host <= hosts; host++) {
        is_alive[host] = has_agent[host] = true;
        publish(host, false);
    }
    follow(1);
    const counts c = end_count();
    hands('w', "0 1 5 0 s100");
    put("all/begun", rg__begun_text(1));
    settle();
    return c;
}

enum { START, ONE, SOME, ETCD, LEADER, LAST, JUDGE, JOIN, KINDS };
static const char *const kind_names[] = {"start",  "one",  "ten",   "etcd",
                                         "leader", "last", "judge", "join"};
static counts counted[KINDS];

static counts lose(int first, int n, uint64_t generation)
{
    begin_count();
    say(first, (rg__beat){.type = RG__BEAT_ABORTED, .generation = generation});
    sim_serve(loop);
    for (int host = first; host < first + n; host++)
        die(host, generation, false);
    follow(generation + 1);
    return end_count();
}

static uint64_t generation_now(void)
{
    uint64_t g = 0;
    FUZZ_CLAIM(sscanf(strstr(sim_etcd_get(PREFIX "all/cur"), "\"g\":") + 4,
                      "%" SCNu64, &g) == 1);
    return g;
}

static void break_all(sim_kind kind)
{
    for (sim_request *r; (r = sim_request_first(kind)) != NULL;)
        sim_break(r, "no leader");
}

static counts lose_with_etcds_leader(int host, uint64_t generation)
{
    begin_count();
    const uint64_t since = rg__now_ns();
    say(host, (rg__beat){.type = RG__BEAT_ABORTED, .generation = generation});
    while (rg__now_ns() - since < ELECTS_NS) {
        sim_serve(loop);
        break_all(SIM_STREAM);
        break_all(SIM_UNARY);
        sim_fire(loop);
    }
    FUZZ_CLAIM(generation_now() == generation);
    die(host, generation, false);
    follow(generation + 1);
    return end_count();
}

static void let_lead(int host)
{
    const rg__proposal_host at = place_of_host(host);
    sim_etcd_put(PREFIX "all/leader", NULL);
    put("all/leader", rg__leader_text(&at));
    settle();
    begin_count();
}

/* Host `host` leads; it leaves with its worker, and its key goes. */
static counts lose_leader(int host, uint64_t generation)
{
    let_lead(host);
    die(host, generation, true);
    sim_etcd_put(PREFIX "all/leader", NULL);
    now.others_requests += (uint64_t)hosts - 2; /* all compete */
    follow(generation + 1);
    return end_count();
}

static bool leads(uint64_t id)
{
    char text[65];
    return sim_etcd_get(PREFIX "all/leader") != NULL &&
           read_own(PREFIX "all/leader", "\"id\":\"", text) &&
           strtoull(text, NULL, 16) == id;
}

static bool is_accused(uint64_t id)
{
    char *key =
        rg__record_key(PREFIX, RG__KEY(SUSPICION, id, NULL, agents_id()));
    FUZZ_CLAIM(key != NULL);
    const char *text = sim_etcd_get(key);
    free(key);
    return text != NULL && strstr(text, "withdrawn") == NULL;
}

/* By all others; or they take it back. */
static void accuse(uint64_t id, bool is_withdrawn)
{
    for (int by = 2; by <= hosts; by++) {
        if (!is_alive[by] || by == silent)
            continue;
        char *key = rg__record_key(
            "", RG__KEY(SUSPICION, id, NULL, FIRST_ID + (uint64_t)by));
        FUZZ_CLAIM(key != NULL);
        put(key, rg__suspicion_text(is_withdrawn));
        free(key);
        now.others_requests++;
    }
}

static void await(bool (*condition)(uint64_t id), uint64_t id, bool is)
{
    for (int i = 0; i < SETTLE_MAX && condition(id) != is; i++) {
        sim_fire(loop);
        settle();
    }
    FUZZ_CLAIM(condition(id) == is);
}

/* Host `host` leads, and is not heard for a while; the real agent is the last
 * to accuse it. */
static counts miss_leader(int host)
{
    const uint64_t id = FIRST_ID + (uint64_t)host;
    let_lead(host);
    silent = host;
    accuse(id, false);
    await(is_accused, id, true);
    const uint64_t since = rg__now_ns();
    while (rg__now_ns() - since < MISSED_NS) {
        sim_fire(loop);
        settle();
    }
    FUZZ_CLAIM(leads(id));
    const counts c = end_count();
    accuse(id, true);
    say(host, (rg__beat){.type = RG__BEAT_HERE});
    sim_serve(loop);
    settle();
    FUZZ_CLAIM(!is_accused(id));
    return c;
}

/* The same host falls silent for good, and the real agent says so first. */
static counts lose_silent_leader(int host, uint64_t generation)
{
    const uint64_t id = FIRST_ID + (uint64_t)host;
    begin_count();
    has_agent[host] = is_alive[host] = false;
    await(is_accused, id, true);
    accuse(id, false);
    await(leads, id, false);
    now.others_requests += (uint64_t)hosts - 2; /* all compete */
    follow(generation + 1);
    return end_count();
}

static void end_job(void)
{
    sim_etcd_put(PREFIX "all/end", "{\"code\":3,\"why\":\"the end\"}");
    for (int i = 0; i < SETTLE_MAX && !sim_is_stopped(loop); i++) {
        while (sim_proc_child(0) != 0)
            sim_proc_exit(sim_proc_child(0), 0);
        settle();
        sim_fire(loop);
    }
    FUZZ_CLAIM(sim_is_stopped(loop));
}

/* All others are there, one of them leads, and there is no world yet. */
static void put_job(void)
{
    const rg__proposal_host leader = place_of_host(2);
    const rg__meta meta = {.uuid = "0", .min = 1, .max = hosts};
    put("meta", rg__meta_text(&meta));
    for (int host = 2; host <= hosts; host++) {
        is_alive[host] = has_agent[host] = true;
        publish(host, false);
    }
    put("all/leader", rg__leader_text(&leader));
    begin_count();
}

static void join(rg__loop *made)
{
    loop = made;
    settle();
    FUZZ_CLAIM(sim_etcd_get(PREFIX "lead/host/" HOST) != NULL);
    counted[JOIN] = end_count();
    end_job();
}

static void change(rg__loop *made)
{
    loop = made;
    come();
    counted[START] = form_world();
    counted[ONE] = lose(2, 1, generation_now());
    counted[SOME] = lose(3, TEN, generation_now());
    counted[ETCD] = lose_with_etcds_leader(3 + TEN, generation_now());
    counted[LEADER] = lose_leader(4 + TEN, generation_now());
    counted[LAST] = miss_leader(5 + TEN);
    counted[JUDGE] = lose_silent_leader(5 + TEN, generation_now());
    end_job();
}

static void run_agent(bool creates_job)
{
    static char *const argv[] = {(char *)(uintptr_t) "prog", NULL};
    const rg__agent_params params = {
        .job = "j",
        .host = HOST,
        .slots = 1,
        .min = 1,
        .max = hosts,
        .argv = argv,
        .run_dir = run_dir,
        .user.advertise = sim_address(),
        .etcd = {.endpoints = "http://10.0.0.1:2379"},
        .creates_job = creates_job,
        .user.start_timeout_ms = 60000,
        .user.elastic_timeout_ms = 60000,
        .user.etcd_timeout_ms = 60000,
        .user.grace_ms = 10000,
        .detect_ms = 3000,
        .user.vault_max_bytes = 1 << 20};
    rg__fdstore *fdstore = fdstore_create();
    sim_script = creates_job ? change : join;
    rg__agent_run(&params, fdstore);
    rg__fdstore_destroy(fdstore);
}

static void open_socket(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, sim_address(), &at.sin_addr);
    datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    FUZZ_CLAIM(datagrams >= 0);
    FUZZ_CLAIM(bind(datagrams, (struct sockaddr *)&at, sizeof at) == 0);
}

static void run(bool creates_job)
{
    is_alive = calloc((size_t)hosts + 1, sizeof *is_alive);
    has_agent = calloc((size_t)hosts + 1, sizeof *has_agent);
    acked = calloc((size_t)hosts + 1, sizeof *acked);
    counter = proposed = built = 0;
    sim_begin();
    sim_proc_begin();
    sim_etcd_keys_max = 2 * hosts + 1000;
    sim_etcd_open();
    fdstore_begin();
    hands_begin(socket_path);
    open_socket();
    if (!creates_job)
        put_job();
    run_agent(creates_job);
    close(datagrams);
    hands_end();
    fdstore_end();
    sim_etcd_close();
    sim_proc_end();
    unlink(socket_path);
    free(is_alive);
    free(has_agent);
    free(acked);
}

static void measure(int n)
{
    hosts = n;
    sim_etcd_noted = note;
    run(true);
    run(false);
}

static double sent_each(const counts *c)
{
    return (double)c->sent / hosts;
}

static void print(void)
{
    printf("# %d hosts: the real agent: requests, bytes asked, bytes answered, "
           "datagrams to each host, bytes of one; keys written by all; a "
           "watch: messages, bytes; all others: requests, acks of each\n",
           hosts);
    for (int k = 0; k < KINDS; k++) {
        const counts *c = &counted[k];
        printf("%-7s%4" PRIu64 "%7" PRIu64 "%8" PRIu64 "%6.2f%6" PRIu64
               "%4" PRIu64 "%4" PRIu64 "%6" PRIu64 "%7" PRIu64
               "%6.2f  (%.0f ms of CPU, with the simulation)\n",
               kind_names[k], c->requests, c->request_bytes, c->answer_bytes,
               sent_each(c), c->sent > 0 ? c->sent_bytes / c->sent : 0,
               c->writes, c->told, c->told_bytes, c->others_requests,
               (double)c->acks / hosts, c->cpu_ms);
    }
    fflush(stdout);
}

/* What docs/scale.md says: of a change with `few` hosts and with many. */
static void compare(const counts *few, const counts *many, int k)
{
    static const uint64_t requests[] = {4, 1, 1, 3, 3, 4, 18, 8};
    static const double sent[] = {1, 2, 2, 5, 1, 1.2, 3, 0};
    /* A leader's first list of all records, an accuser's of accusations. */
    static const uint64_t read[] = {0, 0, 0, 0, 700, 0, 1600, 0};
    /* The first world names each host, and each host accuses. */
    const bool grows = k == START || k == LAST || k == JUDGE;
    const uint64_t more = (uint64_t)hosts;
    FUZZ_CLAIM(many->requests <= requests[k]);
    FUZZ_CLAIM(many->answer_bytes <= few->answer_bytes + 1000 + more * read[k]);
    FUZZ_CLAIM(many->told == few->told);
    FUZZ_CLAIM(many->writes <= few->writes + (grows ? more : 0));
    FUZZ_CLAIM(many->told_bytes <=
               few->told_bytes + (k == START ? 900 * 120 : 500));
    FUZZ_CLAIM(sent_each(many) <= sent[k]);
    FUZZ_CLAIM(many->sent == 0 || many->sent_bytes / many->sent <= 600);
    FUZZ_CLAIM(many->acks <= (uint64_t)hosts);
}

static void test(void)
{
    counts few[KINDS];
    measure(100);
    memcpy(few, counted, sizeof few);
    measure(1000);
    print();
    for (int k = 0; k < KINDS; k++)
        compare(&few[k], &counted[k], k);
}

int main(int argc, char **argv)
{
    rg__log_levels("error");
    snprintf(run_dir, sizeof run_dir, "/tmp/rg-crowd-XXXXXX");
    FUZZ_CLAIM(mkdtemp(run_dir) != NULL);
    snprintf(socket_path, sizeof socket_path, "%s/agent-" HOST ".sock",
             run_dir);
    for (int i = 1; i < argc; i++) {
        measure(atoi(argv[i]));
        print();
    }
    if (argc == 1)
        test();
    rmdir(run_dir);
    return 0;
}
