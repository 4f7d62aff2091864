/* An agent reads a worker's message and is killed before it acts on it; the
 * next one greets with AGAIN. The worker reports its state and repeats what
 * has no answer yet: a registration, with its number, and the report that
 * its generation is broken, unless it has left that generation. The agent is
 * this test, the worker its child.
 *
 * Covers: segments.c thread.c futex.c shm.c sock.c */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "regroup/regroup.h"
#include "sdk/base/futex.h"
#include "sdk/base/record.h"
#include "sdk/base/shm.h"
#include "sdk/base/sock.h"
#include "sdk/base/wire.h"
#include "sdk/transport/transport.h"
#include "tests/check.h"

#define PLACE       rg__page_round(sizeof(rg__vault))
#define ROOM        65536
#define PATIENCE_MS 20000
#define GENERATION  1

static const rg__member_id me = {.host = 5, .slot = 0, .start = 1};
static _Alignas(16) char room[RG__WIRE_MAX]; /* the last message */
static int sock = -1;
static rg__page *page;
static rg__register registered;

/* ------------------------------------------------------------- the worker */

static rg_status leave_for_a_reason_of_its_own(rg_state *st, void *arg)
{
    (void)st;
    (void)arg;
    return RG_ERR_PEER_LOST;
}

static void work(void)
{
    static uint64_t counter;
    rg_ctx *ctx;
    rg_state *st;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_state_create(ctx, NULL, &st));
    CHECK_OK(rg_state_add(st, "counter", &counter, sizeof counter, NULL));
    CHECK_STATUS(rg_run(st, leave_for_a_reason_of_its_own, NULL),
                 RG_ERR_JOB_ENDED);
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
}

/* -------------------------------------------------------------- the agent */

static void ring(void)
{
    atomic_fetch_add(&page->wake, 1);
    rg__futex_wake(&page->wake);
}

static void tell(const void *bytes, size_t n, int fd)
{
    CHECK_OK(rg__sock_send(sock, bytes, n, &fd, fd >= 0));
    ring();
}

static void greet_again(void)
{
    const rg__mark again = {{RG__AGAIN, RG__WIRE_VERSION}, 0};
    tell(&again, sizeof again, -1);
}

/* READY comes when it comes: it is another thread's. */
static bool is_message(void)
{
    int fds[RG__SOCK_FDS];
    size_t n = 0;
    struct pollfd ready = {.fd = sock, .events = POLLIN};
    CHECK(poll(&ready, 1, PATIENCE_MS) == 1);
    const rg_status st = rg__sock_recv(sock, room, sizeof room, &n, fds);
    CHECK(st == RG_OK || st == RG_IN_PROGRESS);
    const rg__wire_head *head = (const void *)room;
    return st == RG_OK && head->type != RG__READY;
}

/* The next message, which is of that type. */
static const void *hear(rg__wire_type type)
{
    while (!is_message())
        ;
    CHECK_EQ(((const rg__wire_head *)(const void *)room)->type, type);
    return room;
}

static const rg__stand *hear_stand(void)
{
    greet_again();
    return hear(RG__STAND);
}

static int listen_at(struct sockaddr_un *at)
{
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    at->sun_family = AF_UNIX;
    snprintf(at->sun_path, sizeof at->sun_path, "/tmp/rg-told-again-%d",
             (int)getpid());
    unlink(at->sun_path);
    CHECK(bind(listener, (struct sockaddr *)at, sizeof *at) == 0);
    CHECK(listen(listener, 1) == 0);
    setenv(RG__ENV_SOCKET, at->sun_path, 1);
    setenv(RG__ENV_SLOT, "0", 1);
    return listener;
}

static void meet(void)
{
    int fds[2];
    rg__record *record = NULL;
    rg__welcome m = {.head = {RG__WELCOME, RG__WIRE_VERSION},
                     .me = me,
                     .slots = 1,
                     .grace_ms = PATIENCE_MS,
                     .job = "test",
                     .host = "h1",
                     .address = {"127.0.0.1"}};
    hear(RG__HELLO);
    CHECK_OK(rg__area_create(&fds[0]));
    CHECK_OK(rg__shm_create("vault", PLACE + ROOM, true, &fds[1]));
    CHECK_OK(rg__area_map(fds[0], &page, &record));
    CHECK_OK(rg__sock_send(sock, &m, sizeof m, fds, 2));
    close(fds[0]);
    close(fds[1]);
}

static void answer_registration(void)
{
    const rg__buffer m = {.head = {RG__BUFFER, RG__WIRE_VERSION},
                          .ask = registered.ask,
                          .place = PLACE};
    CHECK(rg__vault_stride(registered.bytes) * registered.slots <= ROOM);
    tell(&m, sizeof m, -1);
}

/* A world of one. */
static void decide(uint32_t port)
{
    static _Alignas(16) char bytes[1024];
    rg__prepare *m = (void *)bytes;
    const size_t control = rg__shm_control_bytes(1, RG__SETS_MAX);
    int fd;
    *m = (rg__prepare){.head = {RG__PREPARE, RG__WIRE_VERSION},
                       .generation = GENERATION,
                       .size = 1,
                       .local_size = 1,
                       .host_count = 1,
                       .control_bytes = control};
    m->member[0] = me;
    rg__prepare_places(m)[0] = (rg__place){.host = 0, .port = port};
    rg__prepare_addresses(m)[0] = (rg__address){"127.0.0.1"};
    const size_t lists = rg__prepare_bytes(1, 1) - sizeof *m;
    CHECK_OK(rg__shm_create("control", control + lists, false, &fd));
    CHECK_EQ(pwrite(fd, m->member, lists, (off_t)control), lists);
    tell(m, sizeof *m, fd);
    close(fd);
    hear(RG__BUILT);
    const rg__decided decided = {.head = {RG__DECIDED, RG__WIRE_VERSION},
                                 .generation = GENERATION};
    tell(&decided, sizeof decided, -1);
    hear(RG__COMMITTED); /* commit 0, which is to be put on record */
    atomic_store(&page->begun, GENERATION);
    ring();
}

/* ------------------------------------------------------------- the claims */

static void a_registration_is_asked_again(void)
{
    memcpy(&registered, hear(RG__REGISTER), sizeof registered);
    CHECK_EQ(hear_stand()->is_at_door, 0);
    const rg__register *again = hear(RG__REGISTER);
    CHECK_EQ(memcmp(again, &registered, sizeof registered), 0);
    answer_registration();
}

static void a_break_is_said_again(void)
{
    rg__broken broken;
    memcpy(&broken, hear(RG__BROKEN), sizeof broken);
    CHECK_EQ(broken.generation, GENERATION);
    CHECK_EQ(hear_stand()->built, GENERATION);
    CHECK_EQ(memcmp(hear(RG__BROKEN), &broken, sizeof broken), 0);
}

static void a_break_of_what_was_left_is_not(void)
{
    atomic_store(&page->abort, GENERATION);
    ring();
    hear(RG__LEFT);
    CHECK_EQ(hear_stand()->built, 0);
    const rg__text end = {.head = {RG__ENDED, RG__WIRE_VERSION},
                          .text = "the test is over"};
    tell(&end, sizeof end, -1);
    hear(RG__FINALIZE); /* and no BROKEN before it */
}

int main(void)
{
    struct sockaddr_un at = {0};
    const int listener = listen_at(&at);
    const pid_t worker = fork();
    if (worker == 0) {
        close(listener);
        work();
        exit(0);
    }
    sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    unlink(at.sun_path);
    CHECK(sock >= 0);
    meet();
    a_registration_is_asked_again();
    decide(((const rg__door *)hear(RG__DOOR))->port);
    a_break_is_said_again();
    a_break_of_what_was_left_is_not();
    int status = -1;
    CHECK(waitpid(worker, &status, 0) == worker);
    CHECK_EQ(status, 0);
    return 0;
}
