/* The error of a connection that was cut says what to look at; a time-out says
 * less. On a loaded machine both happen in one outage: the former is reported.
 *
 * Covers: etcd.c http.c */
#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"

static void on_request(void *arg, fake_conn *conn, const char *path,
                       const char *body)
{
    int *asked = arg;
    (void)path;
    (void)body;
    if (++*asked == 1)
        fake_hang_up(conn);
    else if (*asked >= 4)
        fake_answer(conn, 200, "application/json",
                    "{\"header\":{\"revision\":\"1\"},\"succeeded\":true}");
}

int main(void)
{
    scene s = {0};
    outcome o = {0};
    int asked = 0;
    scene_open_loop(&s);
    fake *f = fake_open(s.loop, on_request, &asked);
    scene_connect(&s, fake_url(f), NULL, NULL);
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, "x", NULL);
    CHECK(rg__etcd_txn(s.etcd, txn, outcome_take, &o) != NULL);
    WAIT_FOR(&s, asked == 3); /* the second was not answered in time */
    CHECK(strstr(rg__etcd_why(s.etcd), "; does it speak TLS") != NULL);
    WAIT_FOR(&s, o.is_done);
    CHECK_OK(o.st);
    CHECK_STR(rg__etcd_why(s.etcd), "");
    rg__etcd_destroy(s.etcd);
    s.etcd = NULL;
    fake_close(f);
    scene_close(&s);
    return 0;
}
