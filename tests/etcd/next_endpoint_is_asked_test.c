/* Several endpoints: one that is dead, one that swallows connections, one that
 * has no leader (trap 12); and malformed endpoints.
 *
 * Covers: endpoints.c */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elastic/etcd/client.h"
#include "tests/etcd/scene.h"
#include "tests/etcd/wires.h"
#include "tests/lib/etcd_server.h"

static void get_through(const char *first, const char *second)
{
    char endpoints[160];
    scene s;
    snprintf(endpoints, sizeof endpoints, "%s,%s/", first, second);
    scene_open(&s, endpoints);
    CHECK_EQ(s.etcd->endpoint, 0);
    CHECK_OK(scene_get(&s, "e/x").st);
    CHECK_EQ(s.downs, 0);
    CHECK_EQ(s.etcd->endpoint, 1); /* the one that answered is kept */
    CHECK_OK(scene_get(&s, "e/x").st);
    CHECK_EQ(s.etcd->endpoint, 1);
    scene_close(&s);
}

static void dead_endpoint_is_passed(const etcd_server *server)
{
    char url[64];
    close(listen_somewhere(url, sizeof url));
    get_through(url, etcd_server_url(server));
}

/* A listener whose queue is full takes no connection and refuses none. */
static void black_hole_is_passed(const etcd_server *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    char url[64];
    int queued[2];
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int hole = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(hole, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(listen(hole, 0), 0);
    CHECK_EQ(getsockname(hole, (struct sockaddr *)&at, &n), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    for (int i = 0; i < 2; i++)
        queued[i] = connect_to(url);
    get_through(url, etcd_server_url(server));
    for (int i = 0; i < 2; i++)
        close(queued[i]);
    close(hole);
}

/* Without hasleader the answer would take seven seconds, and then be a 500. */
static void missing_leader_is_said_at_once(void)
{
    scene s;
    outcome o = {0};
    etcd_server *pair[2];
    etcd_server_start_pair(pair);
    scene_open(&s, etcd_server_url(pair[0]));
    scene_get(&s, "e/x");
    etcd_server_kill(pair[1]);
    const uint64_t begin = rg__now_ns();
    rg__txn *txn = rg__txn_create();
    rg__txn_put(txn, "e/y", "", 0);
    CHECK(rg__etcd_txn(s.etcd, txn, outcome_take, &o) != NULL);
    WAIT_FOR(&s, strstr(rg__etcd_why(s.etcd), "no leader") != NULL);
    CHECK((rg__now_ns() - begin) / RG__MS < 5000);
    CHECK(!o.is_done);
    etcd_server_begin(pair[1]);
    WAIT_FOR(&s, o.is_done);
    CHECK_OK(o.st);
    scene_close(&s);
    etcd_server_stop(pair[0]);
    etcd_server_stop(pair[1]);
}

static void nonsense_is_refused(void)
{
    static const char *const bad[] = {
        "",
        ",",
        "127.0.0.1",
        "127.0.0.1:2379",
        "http://",
        "http://:2379",
        "ftp://a:1",
        "http://a:1,,http://b:1",
        "http://a:1/v3",
        "http://u:p@a:1",
        "https://",
        "https://:2379",
    };
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const rg__etcd_params params = {.endpoints = bad[i]};
        rg__etcd *etcd = NULL;
        if (rg__etcd_create(loop, &params, &etcd) != RG_ERR_INVALID)
            CHECK_FAIL("\"%s\" was taken for endpoints", bad[i]);
        CHECK(etcd == NULL);
        CHECK(strlen(rg_last_error()) > 0);
    }
    rg__loop_destroy(loop);
}

int main(void)
{
    nonsense_is_refused();
    etcd_server *server = etcd_server_start();
    dead_endpoint_is_passed(server);
    black_hole_is_passed(server);
    etcd_server_stop(server);
    missing_leader_is_said_at_once();
    return 0;
}
