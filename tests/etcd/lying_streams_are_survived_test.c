/* Watches whose server misbehaves as etcd's gateway does, and worse: the mirror
 * recovers to what a list says. The fake serves a store of one key, m/a,
 * whose value is its revision; each test says what its watches do.
 *
 * Covers: etcd/lines.c mirror.c */
#include <stdlib.h>

#include "tests/etcd/fake.h"
#include "tests/etcd/scene.h"

#define FIRST 5 /* the store's revision at the beginning */

typedef struct stage stage;
struct stage {
    scene s;
    fake *f;
    echoes e;
    rg__mirror *mirror;
    long revision; /* of the fake's store */
    int keys;      /* in its range, as it says */
    long start;    /* start_revision of the last watch */
    int lists, guards, watches;
    fake_conn *watch;
    void (*on_watch)(stage *st, fake_conn *conn);
};

/* ---------------------------------------------------------- the fake store */

static void kv_text(long revision, char *text, size_t bytes)
{
    static const char *const digits[] = {
        "MA==", "MQ==", "Mg==", "Mw==", "NA==",
        "NQ==", "Ng==", "Nw==", "OA==", "OQ=="};
    CHECK(revision < 10);
    snprintf(text, bytes,
             "{\"key\":\"bS9h\",\"create_revision\":\"2\",\"mod_revision\":"
             "\"%ld\",\"version\":\"1\",\"value\":\"%s\"}",
             revision, digits[revision]);
}

static void answer_range(stage *st, fake_conn *conn, bool is_filtered)
{
    char kv[256] = "", body[512];
    if (!is_filtered)
        kv_text(st->revision, kv, sizeof kv);
    snprintf(body, sizeof body,
             "{\"header\":{\"revision\":\"%ld\"},\"succeeded\":true,"
             "\"responses\":[{\"response_range\":{\"kvs\":[%s],"
             "\"count\":\"%d\"}}]}",
             st->revision, kv, st->keys);
    fake_answer(conn, 200, "application/json", body);
}

static long number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    CHECK(at != NULL);
    return strtol(at + strlen(name), NULL, 10);
}

static void on_request(void *arg, fake_conn *conn, const char *path,
                       const char *body)
{
    stage *st = arg;
    CHECK(strcasestr(fake_request(conn), "Grpc-Metadata-hasleader: true") !=
          NULL); /* trap 12: on all */
    CHECK(strcasestr(fake_request(conn), "\r\nExpect:") == NULL); /* trap 16 */
    if (strcmp(path, "/v3/watch") == 0) {
        st->start = number_behind(body, "\"start_revision\":\"");
        CHECK(strstr(body, "\"fragment\":true") != NULL);
        st->watches++;
        st->watch = conn;
        st->on_watch(st, conn);
    } else if (strstr(body, "min_mod_revision") != NULL) {
        st->guards++;
        answer_range(st, conn,
                     number_behind(body, "\"min_mod_revision\":\"") >
                         st->revision);
    } else {
        st->lists++;
        answer_range(st, conn, false);
    }
}

/* -------------------------------------------------------- what watches say */

static void chunk(fake_conn *conn, const char *text)
{
    fake_chunk(conn, text, strlen(text));
}

static void say_created(const stage *st, fake_conn *conn)
{
    char line[128];
    snprintf(line, sizeof line,
             "{\"result\":{\"header\":{\"revision\":\"%ld\"},\"created\":true}"
             "}\n",
             st->revision);
    fake_stream(conn);
    chunk(conn, line);
}

static void event_line(long revision, bool is_fragment, char *line,
                       size_t bytes)
{
    char kv[256];
    kv_text(revision, kv, sizeof kv);
    snprintf(line, bytes,
             "{\"result\":{\"header\":{\"revision\":\"%ld\"}%s,\"events\":["
             "{\"kv\":%s}]}}\n",
             revision, is_fragment ? ",\"fragment\":true" : "", kv);
}

static void say_event(fake_conn *conn, long revision, bool is_fragment)
{
    char line[512];
    event_line(revision, is_fragment, line, sizeof line);
    chunk(conn, line);
}

static void good_watch(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    for (long r = st->start; r <= st->revision; r++)
        say_event(conn, r, false);
}

static void put(stage *st)
{
    say_event(st->watch, ++st->revision, false);
}

static bool stands_at(const stage *st, long revision)
{
    const rg__kv *kv = mirrored(st->mirror, "m/a");
    return kv != NULL && kv->mod_revision == revision &&
           strtol(kv->value, NULL, 10) == revision;
}

static void open_stage(stage *st, void (*on_watch)(stage *, fake_conn *))
{
    *st = (stage){.revision = FIRST, .keys = 1, .on_watch = on_watch};
    scene_open_loop(&st->s);
    st->f = fake_open(st->s.loop, on_request, st);
    scene_connect(&st->s, fake_url(st->f), NULL, NULL);
    CHECK_OK(rg__mirror_create(st->s.etcd, "m/", "m0", NULL, echoes_take,
                               &st->e, &st->mirror));
    WAIT_FOR(&st->s, rg__mirror_is_listed(st->mirror));
}

static void close_stage(stage *st)
{
    rg__etcd_destroy(st->s.etcd);
    st->s.etcd = NULL;
    fake_close(st->f);
    scene_close(&st->s);
}

/* The next watch is a good one, and all is as it should be. */
static void finds_back(stage *st)
{
    const int before = st->watches;
    st->on_watch = good_watch;
    WAIT_FOR(&st->s, st->watches > before);
    put(st);
    WAIT_FOR(&st->s, stands_at(st, st->revision));
    CHECK_EQ(st->e.wipes, 0);
    close_stage(st);
}

/* ------------------------------------------------------------------ claims */

static void say_nothing(stage *st, fake_conn *conn)
{
    (void)st, (void)conn;
}

/* Trap 9: what etcd doesn't understand it never answers. */
static void unanswered_watch_is_given_up(void)
{
    stage st;
    open_stage(&st, say_nothing);
    WAIT_FOR(&st.s, st.watches == 2);
    CHECK_EQ(st.lists, 1); /* gone on from where it was */
    finds_back(&st);
}

static void say_canceled(stage *st, fake_conn *conn)
{
    (void)st;
    fake_stream(conn);
    chunk(conn, "{\"result\":{\"header\":{\"revision\":\"5\"},\"created\":true}"
                "}\n{\"result\":{\"canceled\":true,\"compact_revision\":\"9\"}}"
                "\n"); /* and the stream stays open */
}

/* Trap 6. */
static void canceled_watch_is_closed_and_listed_again(void)
{
    stage st;
    open_stage(&st, say_canceled);
    WAIT_FOR(&st.s, st.watches == 2);
    CHECK_EQ(st.lists, 2);
    finds_back(&st);
}

static void say_refused(stage *st, fake_conn *conn)
{
    (void)st;
    fake_stream(conn);
    chunk(conn, "{\"result\":{\"watch_id\":\"-1\",\"created\":true,"
                "\"canceled\":true,\"cancel_reason\":\"no permission\"}}\n");
}

static void watch_refused_while_created_is_closed(void)
{
    stage st;
    open_stage(&st, say_refused);
    WAIT_FOR(&st.s, st.watches == 2);
    CHECK_EQ(st.lists, 2);
    finds_back(&st);
}

static void end_without_newline(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    chunk(conn, "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":"
                "\"etcdserver: no leader\"}}");
    fake_end_stream(conn);
}

/* Trap 7: the error is read, as the reason that is told shows. */
static void last_error_without_newline_is_heard(void)
{
    stage st;
    open_stage(&st, end_without_newline);
    WAIT_FOR(&st.s, strstr(rg__etcd_why(st.s.etcd), "no leader") != NULL);
    WAIT_FOR(&st.s, st.watches == 2);
    CHECK_EQ(st.lists, 1);
    finds_back(&st);
}

static void end_cleanly(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    fake_end_stream(conn);
}

static void stream_that_ends_is_taken_up_again(void)
{
    stage st;
    open_stage(&st, end_cleanly);
    WAIT_FOR(&st.s, st.watches == 3);
    CHECK_EQ(st.lists, 1);
    CHECK_EQ(st.start, FIRST + 1);
    finds_back(&st);
}

static const char *const garbage[] = {
    "hello\n",
    "{\"result\":{}\n",
    "{\"result\":7}\n",
    "{\"result\":{},\"result\":{}}\n",
    "{\"result\":{\"events\":[{\"kv\":{\"key\":\"!\"}}]}}\n",
    "{\"result\":{\"events\":[{\"type\":\"MOVE\",\"kv\":{\"key\":\"YQ==\","
    "\"mod_revision\":\"6\"}}]}}\n",
    "\n",
};
static const char *garbage_now;

static void say_garbage(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    chunk(conn, garbage_now);
}

static void garbage_leads_to_a_list(void)
{
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        stage st;
        garbage_now = garbage[i];
        open_stage(&st, say_garbage);
        WAIT_FOR(&st.s, st.lists == 2);
        finds_back(&st);
    }
}

static void say_not_found(stage *st, fake_conn *conn)
{
    (void)st;
    fake_answer(conn, 404, "text/plain", "404 page not found\n");
}

static void refused_watch_is_asked_again_with_a_pause(void)
{
    stage st;
    open_stage(&st, say_not_found);
    WAIT_FOR(&st.s, st.watches >= 2);
    scene_run_for(&st.s, 300);
    CHECK(st.watches < 60); /* one a millisecond without back-off */
    finds_back(&st);
}

static void say_first_fragment(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    st->revision = FIRST + 1;
    say_event(conn, st->revision, true);
    fake_end_stream(conn);
}

/* Trap 15: a revision of which a fragment is missing has not come. */
static void cut_between_fragments_comes_again(void)
{
    stage st;
    open_stage(&st, say_first_fragment);
    WAIT_FOR(&st.s, st.watches == 2);
    CHECK_EQ(st.start, FIRST + 1);
    CHECK(stands_at(&st, FIRST));
    CHECK_EQ(st.e.calls, 1); /* of the list */
    finds_back(&st);
}

static void say_fragments(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    say_event(conn, FIRST + 1, true);
    say_event(conn, FIRST + 2, false);
    st->revision = FIRST + 2;
}

static void fragments_are_put_together(void)
{
    stage st;
    open_stage(&st, say_fragments);
    WAIT_FOR(&st.s, stands_at(&st, FIRST + 2));
    CHECK_EQ(st.e.calls, 2); /* of the list, and of both together */
    CHECK_EQ(rg__mirror_revision(st.mirror), FIRST + 2);
    close_stage(&st);
}

static void say_it_twice(stage *st, fake_conn *conn)
{
    say_created(st, conn);
    for (int i = 0; i < 2; i++) {
        say_event(conn, FIRST + 2, false);
        say_event(conn, FIRST + 1, false);
    }
    st->revision = FIRST + 2;
}

static void what_comes_twice_is_skipped(void)
{
    stage st;
    open_stage(&st, say_it_twice);
    WAIT_FOR(&st.s, stands_at(&st, FIRST + 2));
    scene_run_for(&st.s, 50);
    CHECK(stands_at(&st, FIRST + 2));
    close_stage(&st);
}

static char *line_of_megabytes(size_t bytes)
{
    static const char head[] =
        "{\"result\":{\"header\":{\"revision\":\"6\"},\"events\":[{\"kv\":"
        "{\"key\":\"bS9i\",\"mod_revision\":\"6\",\"value\":\"";
    static const char tail[] = "\"}}]}}\n";
    char *line = malloc(bytes + sizeof head + sizeof tail);
    CHECK(line != NULL);
    memcpy(line, head, sizeof head - 1);
    memset(line + sizeof head - 1, 'A', bytes);
    memcpy(line + sizeof head - 1 + bytes, tail, sizeof tail);
    return line;
}

static void say_much(stage *st, fake_conn *conn)
{
    char *line = line_of_megabytes(5u << 20);
    say_created(st, conn);
    st->revision = FIRST + 1;
    st->keys = 2;
    fake_chunk(conn, line, strlen(line));
    free(line);
}

/* Trap 15, the other half. */
static void line_of_megabytes_is_read(void)
{
    stage st;
    open_stage(&st, say_much);
    WAIT_FOR(&st.s, mirrored(st.mirror, "m/b") != NULL);
    CHECK_EQ(mirrored(st.mirror, "m/b")->value_bytes, (5u << 20) / 4 * 3);
    CHECK_EQ(st.lists, 1);
    close_stage(&st);
}

static size_t cut; /* bytes after which the connection breaks */

static void say_and_break(stage *st, fake_conn *conn)
{
    char stream[2048], line[512];
    size_t n = 0;
    n += (size_t)snprintf(stream, sizeof stream,
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                          "\r\n3b\r\n{\"result\":{\"header\":{\"revision\":"
                          "\"7\"},\"created\":true}}     \n\r\n");
    for (long r = FIRST + 1; r <= FIRST + 2; r++) {
        event_line(r, false, line, sizeof line);
        n += (size_t)snprintf(stream + n, sizeof stream - n, "%zx\r\n%s\r\n",
                              strlen(line), line);
    }
    st->revision = FIRST + 2;
    fake_say(conn, stream, cut < n ? cut : n);
    if (cut < n)
        fake_hang_up(conn);
    else
        cut = 0; /* there was nothing left to cut */
    st->on_watch = good_watch;
}

/* Whatever the byte, each event is there once the watch is taken up again. */
static void cut_at_any_byte_loses_nothing(void)
{
    stage st;
    size_t at = 1;
    do {
        cut = at;
        open_stage(&st, say_and_break);
        WAIT_FOR(&st.s, stands_at(&st, FIRST + 2));
        CHECK_EQ(st.lists, 1);
        close_stage(&st);
        at += 7; /* all places modulo the sizes of the parts */
    } while (cut != 0);
    CHECK(at > 400);
}

int main(void)
{
    unanswered_watch_is_given_up();
    canceled_watch_is_closed_and_listed_again();
    watch_refused_while_created_is_closed();
    last_error_without_newline_is_heard();
    stream_that_ends_is_taken_up_again();
    garbage_leads_to_a_list();
    refused_watch_is_asked_again_with_a_pause();
    cut_between_fragments_comes_again();
    fragments_are_put_together();
    what_comes_twice_is_skipped();
    line_of_megabytes_is_read();
    cut_at_any_byte_loses_nothing();
    return 0;
}
