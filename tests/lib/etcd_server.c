/* Starting, hurting and stopping an etcd.
 *
 * Ports lie below the range from which the kernel takes the ports of outgoing
 * connections and no other test takes them, so that a server which is away for
 * a while finds its own free again. The name in the member list tells our etcd
 * from another one that got the same port a moment earlier. */
#include "tests/lib/etcd_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "elastic/etcd/base64.h"
#include "tests/check.h"

#define FLAGS_MAX  40
#define READY_S    30
#define ATTEMPTS   5
#define PORT_FIRST 10240u
#define PORT_COUNT 20000u

struct etcd_server {
    etcd_server *next;
    char name[32], dir[128], data[160];
    char url[64], peer[64], cluster[256];
    int port;
    const char *const *options;
    pid_t pid;
    pid_t broom; /* a process that removes the directory behind the test */
    int handle;  /* the broom sweeps when this pipe is closed */
};

static etcd_server *servers; /* killed at the end of the process */

/* ----------------------------------------------------------------- details */

static unsigned random_number(void)
{
    unsigned number = 0;
    CHECK(getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number);
    return number;
}

static struct sockaddr_in address_of(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_port = htons((uint16_t)port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static bool is_free(int port)
{
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in at = address_of(port);
    CHECK(sock >= 0);
    const int rc = bind(sock, (const struct sockaddr *)&at, sizeof at);
    close(sock);
    return rc == 0;
}

/* Reserve a port by the name of a socket that lives as long as the test, as
 * house.py does. False: another test has that port. */
static bool reserve(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                           "regroup-test-port-%d", port);
    const socklen_t bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    const int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(sock >= 0);
    if (bind(sock, (const struct sockaddr *)&name, bytes) == 0)
        return true;
    close(sock);
    return false;
}

static int find_port(void)
{
    for (int i = 0; i < 1000; i++) {
        const int port = (int)(PORT_FIRST + random_number() % PORT_COUNT);
        if (is_free(port) && reserve(port))
            return port;
    }
    CHECK_FAIL("no port is free");
}

static int remove_entry(const char *path, const struct stat *at, int type,
                        struct FTW *where)
{
    (void)at, (void)type, (void)where;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void reap(etcd_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

static void clean_up(void)
{
    for (etcd_server *server = servers; server != NULL; server = server->next)
        reap(server);
}

/* A test that crashes can't clean up, so another process waits for its end. No
 * output of the test stays open in it: CTest would wait for that. */
static void start_broom(etcd_server *server)
{
    int ends[2];
    char nothing = 0;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    server->broom = fork();
    CHECK(server->broom >= 0);
    if (server->broom > 0) {
        close(ends[0]);
        server->handle = ends[1];
        return;
    }
    setsid(); /* so that a signal to the test's group does not reach it */
    for (int fd = 0; fd < 1024; fd++)
        if (fd != ends[0])
            close(fd);
    while (read(ends[0], &nothing, 1) > 0)
        ;
    remove_tree(server->dir);
    _exit(0);
}

static void sweep(etcd_server *server)
{
    close(server->handle);
    waitpid(server->broom, NULL, 0);
}

/* ---------------------------------------------------------------- requests */

static bool send_all(int sock, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t sent = send(sock, text, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text += sent;
        n -= (size_t)sent;
    }
    return true;
}

static size_t read_all(int sock, char *text, size_t bytes)
{
    size_t n = 0;
    ssize_t got = 1;
    while (n + 1 < bytes && (got > 0 || (got < 0 && errno == EINTR))) {
        got = recv(sock, text + n, bytes - n - 1, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = '\0';
    return n;
}

static int open_connection(int port)
{
    const struct sockaddr_in at = address_of(port);
    const struct timeval patience = {.tv_sec = 20};
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(sock >= 0);
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(sock, (const struct sockaddr *)&at, sizeof at) == 0)
        return sock;
    close(sock);
    return -1;
}

static int read_code(char *answer, char *reply, size_t bytes)
{
    int code = 0;
    const char *body = strstr(answer, "\r\n\r\n");
    if (sscanf(answer, "HTTP/1.%*d %d", &code) != 1 || body == NULL)
        return 0;
    if (reply != NULL)
        snprintf(reply, bytes, "%s", body + 4);
    return code;
}

int etcd_server_post(const etcd_server *server, const char *path,
                     const char *body, char *reply, size_t bytes)
{
    static char answer[1 << 16];
    char head[256];
    const int n = snprintf(head, sizeof head,
                           "POST %s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n",
                           path, strlen(body));
    const int sock = open_connection(server->port);
    if (sock < 0)
        return 0;
    int code = 0;
    if (send_all(sock, head, (size_t)n) && send_all(sock, body, strlen(body)) &&
        read_all(sock, answer, sizeof answer) > 0)
        code = read_code(answer, reply, bytes);
    close(sock);
    return code;
}

static void base64_of(const char *text, char *out, size_t bytes)
{
    const size_t n = rg__base64_chars(strlen(text));
    CHECK(n < bytes);
    rg__base64_encode(text, strlen(text), out);
    out[n] = '\0';
}

static int try_put(const etcd_server *server, const char *key,
                   const char *value)
{
    char k[512], v[4096], body[5120];
    base64_of(key, k, sizeof k);
    base64_of(value, v, sizeof v);
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"value\":\"%s\"}", k, v);
    return etcd_server_post(server, "/v3/kv/put", body, NULL, 0);
}

void etcd_server_put(const etcd_server *server, const char *key,
                     const char *value)
{
    CHECK_EQ(try_put(server, key, value), 200);
}

void etcd_server_delete(const etcd_server *server, const char *key)
{
    char k[512], body[640];
    base64_of(key, k, sizeof k);
    snprintf(body, sizeof body, "{\"key\":\"%s\"}", k);
    CHECK_EQ(etcd_server_post(server, "/v3/kv/deleterange", body, NULL, 0),
             200);
}

/* ---------------------------------------------------------------- starting */

static void exec_etcd(const etcd_server *server)
{
    const char *bin = getenv("ETCD_BIN");
    const char *args[FLAGS_MAX] = {bin != NULL ? bin : "etcd",
                                   "--name",
                                   server->name,
                                   "--data-dir",
                                   server->data,
                                   "--listen-client-urls",
                                   server->url,
                                   "--advertise-client-urls",
                                   server->url,
                                   "--listen-peer-urls",
                                   server->peer,
                                   "--initial-advertise-peer-urls",
                                   server->peer,
                                   "--initial-cluster",
                                   server->cluster,
                                   "--heartbeat-interval=10",
                                   "--election-timeout=100",
                                   "--logger=zap",
                                   "--log-level=error"};
    size_t n = 0;
    while (args[n] != NULL)
        n++;
    for (size_t i = 0; server->options != NULL && server->options[i] != NULL;
         i++)
        args[n++] = server->options[i];
    execvp(args[0], (char *const *)(uintptr_t)args);
    _exit(127);
}

static void send_output_to_log(const etcd_server *server)
{
    char path[192];
    snprintf(path, sizeof path, "%s/log", server->dir);
    const int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, 1);
    dup2(log, 2);
}

void etcd_server_begin(etcd_server *server)
{
    CHECK_EQ(server->pid, 0);
    const pid_t parent = getpid();
    server->pid = fork();
    CHECK(server->pid >= 0);
    if (server->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    send_output_to_log(server);
    exec_etcd(server);
}

static void skip_without_etcd(int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        SKIP("etcd is not installed (or not where ETCD_BIN says)");
}

/* Print the end of its log, which is removed with the directory. */
static void show_log(const etcd_server *server)
{
    char path[192], line[1024];
    snprintf(path, sizeof path, "%s/log", server->dir);
    FILE *log = fopen(path, "r");
    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        fprintf(stderr, "etcd: %s", line);
    if (log != NULL)
        fclose(log);
}

/* Has it ended? Then its log says why; perhaps its ports were taken. */
static bool has_ended(etcd_server *server)
{
    int status = 0;
    if (waitpid(server->pid, &status, WNOHANG) != server->pid)
        return false;
    server->pid = 0;
    skip_without_etcd(status);
    show_log(server);
    return true;
}

static bool is_ready(const etcd_server *server)
{
    char members[4096] = "";
    return etcd_server_post(server, "/v3/cluster/member/list", "{}", members,
                            sizeof members) == 200 &&
           strstr(members, server->name) != NULL &&
           try_put(server, "ready", "") == 200;
}

static bool wait_until_ready(etcd_server *server)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    for (int i = 0; i < READY_S * 200; i++) {
        if (is_ready(server))
            return true;
        if (has_ended(server))
            return false;
        nanosleep(&pause, NULL);
    }
    show_log(server);
    CHECK_FAIL("etcd isn't ready after %d s", READY_S);
}

static void make_directory(etcd_server *server)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(server->dir, sizeof server->dir, "%s/rg-etcd-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(server->dir) != NULL);
    snprintf(server->data, sizeof server->data, "%s/data", server->dir);
    snprintf(server->name, sizeof server->name, "rg-%08x", random_number());
}

static void choose_ports(etcd_server *server)
{
    server->port = find_port();
    int peer = find_port();
    while (peer == server->port)
        peer = find_port();
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d",
             server->port);
    snprintf(server->peer, sizeof server->peer, "http://127.0.0.1:%d", peer);
    snprintf(server->cluster, sizeof server->cluster, "%s=%s", server->name,
             server->peer);
}

static etcd_server *make_server(const char *const *options)
{
    etcd_server *server = calloc(1, sizeof *server);
    CHECK(server != NULL);
    if (servers == NULL)
        atexit(clean_up);
    server->next = servers;
    server->options = options;
    make_directory(server);
    start_broom(server);
    servers = server;
    choose_ports(server);
    return server;
}

etcd_server *etcd_server_start_with(const char *const *options)
{
    etcd_server *server = make_server(options);
    for (int i = 0; i < ATTEMPTS; i++) {
        etcd_server_begin(server);
        if (wait_until_ready(server))
            return server;
        remove_tree(server->data);
        choose_ports(server);
    }
    CHECK_FAIL("etcd ends when it is started; see how with etcd itself");
}

etcd_server *etcd_server_start(void)
{
    return etcd_server_start_with(NULL);
}

static bool begin_pair(etcd_server *pair[2])
{
    char cluster[256];
    choose_ports(pair[0]);
    choose_ports(pair[1]);
    snprintf(cluster, sizeof cluster, "%s=%s,%s=%s", pair[0]->name,
             pair[0]->peer, pair[1]->name, pair[1]->peer);
    for (int i = 0; i < 2; i++) {
        memcpy(pair[i]->cluster, cluster, sizeof cluster);
        etcd_server_begin(pair[i]);
    }
    return wait_until_ready(pair[0]) && wait_until_ready(pair[1]);
}

void etcd_server_start_pair(etcd_server *pair[2])
{
    pair[0] = make_server(NULL);
    pair[1] = make_server(NULL);
    for (int i = 0; i < ATTEMPTS; i++) {
        if (begin_pair(pair))
            return;
        for (int k = 0; k < 2; k++) {
            reap(pair[k]);
            remove_tree(pair[k]->data);
        }
    }
    CHECK_FAIL("a pair of etcds ends when it is started");
}

/* ---------------------------------------------------- hurting and stopping */

const char *etcd_server_url(const etcd_server *server)
{
    return server->url;
}

pid_t etcd_server_pid(const etcd_server *server)
{
    return server->pid;
}

void etcd_server_kill(etcd_server *server)
{
    reap(server);
}

/* Another test may be trying at this moment whether the port is free. */
static void begin_again(etcd_server *server)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        etcd_server_begin(server);
        if (wait_until_ready(server))
            return;
    }
    CHECK_FAIL("etcd ends when it is started again");
}

void etcd_server_restart(etcd_server *server)
{
    reap(server);
    begin_again(server);
}

void etcd_server_wipe(etcd_server *server)
{
    reap(server);
    remove_tree(server->data);
    begin_again(server);
}

void etcd_server_pause(etcd_server *server)
{
    int status = 0;
    CHECK_EQ(kill(server->pid, SIGSTOP), 0);
    /* Until it has stopped, its threads may run on for a moment, and answer. */
    CHECK_EQ(waitpid(server->pid, &status, WUNTRACED), server->pid);
    CHECK(WIFSTOPPED(status));
}

void etcd_server_resume(etcd_server *server)
{
    CHECK_EQ(kill(server->pid, SIGCONT), 0);
}

void etcd_server_stop(etcd_server *server)
{
    if (server == NULL)
        return;
    etcd_server **at = &servers;
    while (*at != server)
        at = &(*at)->next;
    *at = server->next;
    reap(server);
    sweep(server);
    free(server);
}
