/* A switch in user space between interfaces of its network namespace, which
 * loses, delays, repeats and damages what it is told to. It stands in for the
 * netem of kernels that have none.
 *
 *   wire INTERFACE...
 *
 * Reads commands from standard input, one on a line, and answers each with
 * "ok" or "bad", so that the caller knows when it holds:
 *
 *   rule FROM TO WHAT LOSS DELAY JITTER REPEAT DAMAGE MOST
 *        for frames from one interface to another ("*": any; "h*": any whose
 *        name begins so): percent that are lost, delay and jitter in ms,
 *        percent that come twice, percent with one bit turned over, and the
 *        longest that passes, in bytes (0: any length). WHAT is all, agents
 *        (UDP, or TCP of a port that `ports` names) or workers (other TCP).
 *        The first rule that fits counts; ARP always passes untouched unless
 *        all is lost.
 *   ports PORT...   the ports of agents
 *   clear           no rules
 *
 * Frames must come whole and with their checksums: segmentation and checksum
 * offload are off on the interfaces of the hosts. */
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

#define INTERFACES_MAX 16
#define RULES_MAX      64
#define PORTS_MAX      64
#define FRAME_MAX      2048
#define QUEUE_MAX      65536
#define AT_ONCE        64

typedef enum traffic { ALL, AGENTS, WORKERS } traffic;

typedef struct rule {
    char from[IFNAMSIZ], to[IFNAMSIZ];
    traffic what;
    double loss, delay_ms, jitter_ms, repeat, damage;
    size_t most;
} rule;

typedef struct rg__frame {
    uint64_t at_ns; /* when it goes on */
    int to;
    size_t bytes;
    uint8_t data[FRAME_MAX];
} rg__frame;

static struct {
    char name[IFNAMSIZ];
    int fd;
    uint8_t mac[6]; /* the address of the host behind it, once it has sent */
} port[INTERFACES_MAX];
static int ports;

static rule rules[RULES_MAX];
static int rule_count;
static uint16_t agent_port[PORTS_MAX];
static int agent_ports;

static rg__frame *queue[QUEUE_MAX]; /* a heap, the earliest first */
static int queued;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------- queue */

static void swap(int a, int b)
{
    rg__frame *f = queue[a];
    queue[a] = queue[b];
    queue[b] = f;
}

static void push(rg__frame *f)
{
    int i = queued++;
    queue[i] = f;
    for (; i > 0 && queue[(i - 1) / 2]->at_ns > queue[i]->at_ns;
         i = (i - 1) / 2)
        swap(i, (i - 1) / 2);
}

static rg__frame *pop(void)
{
    rg__frame *first = queue[0];
    queue[0] = queue[--queued];
    for (int i = 0;;) {
        int least = i;
        for (int child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < queued && queue[child]->at_ns < queue[least]->at_ns)
                least = child;
        if (least == i)
            return first;
        swap(i, least);
        i = least;
    }
}

/* ------------------------------------------------------------------- rules */

static bool fits(const char *pattern, const char *name)
{
    const size_t n = strcspn(pattern, "*");
    return pattern[n] == '*' ? strncmp(pattern, name, n) == 0
                             : strcmp(pattern, name) == 0;
}

static bool is_agent_port(uint16_t number)
{
    for (int i = 0; i < agent_ports; i++)
        if (agent_port[i] == number)
            return true;
    return false;
}

static bool is_arp(const uint8_t *data)
{
    return data[12] == 8 && data[13] == 6;
}

static bool is_of(traffic what, const uint8_t *data, size_t bytes)
{
    if (what == ALL)
        return true;
    const size_t at = 14 + (size_t)(data[14] & 15) * 4; /* behind IPv4 */
    if (data[12] != 8 || data[13] != 0 || bytes < at + 4)
        return false;
    const uint16_t from = (uint16_t)(data[at] << 8 | data[at + 1]);
    const uint16_t to = (uint16_t)(data[at + 2] << 8 | data[at + 3]);
    const bool is_agents =
        data[23] == IPPROTO_UDP || is_agent_port(from) || is_agent_port(to);
    return is_agents == (what == AGENTS);
}

static const rule *find_rule(int from, int to, const uint8_t *data,
                             size_t bytes)
{
    for (int i = 0; i < rule_count; i++)
        if (fits(rules[i].from, port[from].name) &&
            fits(rules[i].to, port[to].name) &&
            is_of(rules[i].what, data, bytes))
            return &rules[i];
    return NULL;
}

static bool chance(double percent)
{
    return drand48() * 100 < percent;
}

/* ------------------------------------------------------------------ frames */

static void send_later(int to, const uint8_t *data, size_t bytes, double ms,
                       bool is_damaged)
{
    rg__frame *f = queued < QUEUE_MAX ? malloc(sizeof *f) : NULL;
    if (f == NULL)
        return; /* dropped, as by a switch without room */
    f->at_ns = now_ns() + (uint64_t)(ms > 0 ? ms * 1e6 : 0);
    f->to = to;
    f->bytes = bytes;
    memcpy(f->data, data, bytes);
    if (is_damaged && bytes > 14)
        f->data[14 + (size_t)(drand48() * (double)(bytes - 14))] ^=
            (uint8_t)(1 << (int)(drand48() * 8));
    push(f);
}

static void pass(int from, int to, const uint8_t *data, size_t bytes)
{
    const rule *r = find_rule(from, to, data, bytes);
    if (r == NULL || (is_arp(data) && r->loss < 100)) {
        send_later(to, data, bytes, 0, false);
        return;
    }
    if (chance(r->loss) || (r->most != 0 && bytes > r->most))
        return;
    for (int copies = 1 + chance(r->repeat); copies > 0; copies--)
        send_later(to, data, bytes,
                   r->delay_ms + r->jitter_ms * (2 * drand48() - 1),
                   chance(r->damage));
}

static void forward(int from, const uint8_t *data, size_t bytes)
{
    memcpy(port[from].mac, data + 6, 6);
    int known = -1;
    for (int i = 0; i < ports; i++)
        if (!(data[0] & 1) && memcmp(port[i].mac, data, 6) == 0)
            known = i;
    for (int i = 0; i < ports; i++)
        if (i != from && (known < 0 || known == i))
            pass(from, i, data, bytes);
}

static void receive(int from)
{
    for (int i = 0; i < AT_ONCE; i++) {
        uint8_t data[FRAME_MAX];
        struct sockaddr_ll sender;
        socklen_t n = sizeof sender;
        const ssize_t bytes =
            recvfrom(port[from].fd, data, sizeof data, MSG_DONTWAIT | MSG_TRUNC,
                     (struct sockaddr *)&sender, &n);
        if (bytes < 0)
            return;
        if (sender.sll_pkttype == PACKET_OUTGOING)
            continue;
        if (bytes < 24 || bytes > (ssize_t)sizeof data)
            fprintf(stderr, "wire: a frame of %zd bytes from %s\n", bytes,
                    port[from].name);
        else
            forward(from, data, (size_t)bytes);
    }
}

static void send_due(void)
{
    const uint64_t now = now_ns();
    while (queued > 0 && queue[0]->at_ns <= now) {
        rg__frame *f = pop();
        if (send(port[f->to].fd, f->data, f->bytes, MSG_DONTWAIT) < 0 &&
            errno != EAGAIN && errno != ENOBUFS && errno != ENETDOWN)
            perror("wire: send");
        free(f);
    }
}

/* ---------------------------------------------------------------- commands */

static bool add_rule(const char *line)
{
    rule r = {0};
    char what[16];
    if (rule_count == RULES_MAX ||
        sscanf(line, "rule %15s %15s %15s %lf %lf %lf %lf %lf %zu", r.from,
               r.to, what, &r.loss, &r.delay_ms, &r.jitter_ms, &r.repeat,
               &r.damage, &r.most) != 9)
        return false;
    static const char *const names[] = {"all", "agents", "workers"};
    for (int i = ALL; i <= WORKERS; i++)
        if (strcmp(what, names[i]) == 0) {
            r.what = (traffic)i;
            rules[rule_count++] = r;
            return true;
        }
    return false;
}

static bool set_ports(const char *line)
{
    unsigned number;
    int used;
    agent_ports = 0;
    for (line += strlen("ports");
         agent_ports < PORTS_MAX && sscanf(line, " %u%n", &number, &used) == 1;
         line += used)
        agent_port[agent_ports++] = (uint16_t)number;
    return true;
}

static bool obey(const char *line)
{
    if (strncmp(line, "rule ", 5) == 0)
        return add_rule(line);
    if (strncmp(line, "ports", 5) == 0)
        return set_ports(line);
    if (strncmp(line, "clear", 5) != 0)
        return false;
    rule_count = 0;
    return true;
}

static void listen_to(const char *name)
{
    const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                        .sll_protocol = htons(ETH_P_ALL),
                                        .sll_ifindex =
                                            (int)if_nametoindex(name)};
    const struct packet_mreq promiscuous = {.mr_ifindex = address.sll_ifindex,
                                            .mr_type = PACKET_MR_PROMISC};
    const int room = 8 << 20;
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (fd < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous,
                   sizeof promiscuous) != 0) {
        perror(name);
        exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    port[ports].fd = fd;
    snprintf(port[ports++].name, IFNAMSIZ, "%s", name);
}

/* The time until the next frame is due; a default if there is none. */
static struct timespec until_next(void)
{
    uint64_t ns = 1000000000;
    if (queued > 0) {
        const uint64_t now = now_ns();
        const uint64_t left = queue[0]->at_ns > now ? queue[0]->at_ns - now : 0;
        ns = left < ns ? left : ns;
    }
    return (struct timespec){(time_t)(ns / 1000000000),
                             (long)(ns % 1000000000)};
}

int main(int count, char **names)
{
    if (count < 2 || count > INTERFACES_MAX + 1) {
        fprintf(stderr, "usage: wire INTERFACE... (at most %d)\n",
                INTERFACES_MAX);
        return 64;
    }
    for (int i = 1; i < count; i++)
        listen_to(names[i]);
    setvbuf(stdin, NULL, _IONBF, 0); /* unbuffered, for poll() */
    puts("ok");
    fflush(stdout);
    for (;;) {
        struct pollfd polled[INTERFACES_MAX + 1];
        for (int i = 0; i < ports; i++)
            polled[i] = (struct pollfd){port[i].fd, POLLIN, 0};
        polled[ports] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
        const struct timespec wait = until_next();
        if (ppoll(polled, (nfds_t)ports + 1, &wait, NULL) < 0 && errno != EINTR)
            return 1;
        for (int i = 0; i < ports; i++)
            if (polled[i].revents != 0)
                receive(i);
        send_due();
        char line[256];
        if (polled[ports].revents == 0)
            continue;
        if (fgets(line, sizeof line, stdin) == NULL)
            return 0;
        puts(obey(line) ? "ok" : "bad");
        fflush(stdout);
    }
}
