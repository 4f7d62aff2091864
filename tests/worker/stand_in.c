/* The agent of one worker, which stands alone in its world. */
#include "tests/worker/stand_in.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sdk/base/futex.h"
#include "sdk/base/record.h"
#include "sdk/base/shm.h"
#include "sdk/base/sock.h"
#include "sdk/transport/transport.h"
#include "tests/check.h"

#define PLACE       rg__page_round(sizeof(rg__vault))
#define ROOM        65536
#define PATIENCE_MS 20000

rg__page *worker_page;

static const rg__member_id me = {.host = 5, .slot = 0, .start = 1};
static _Alignas(16) char room[RG__WIRE_MAX]; /* the last message */
static int listener = -1, sock = -1;

void ring(void)
{
    atomic_fetch_add(&worker_page->wake, 1);
    rg__futex_wake(&worker_page->wake);
}

static void tell_with(const void *bytes, size_t n, int fd)
{
    CHECK_OK(rg__sock_send(sock, bytes, n, &fd, fd >= 0));
    ring();
}

void tell(const void *bytes, size_t n)
{
    tell_with(bytes, n, -1);
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

const void *hear(rg__wire_type type)
{
    while (!is_message())
        ;
    CHECK_EQ(((const rg__wire_head *)(const void *)room)->type, type);
    return room;
}

void stand_in_listen(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/rg-stand-in-%d",
             (int)getpid());
    unlink(at.sun_path);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(listen(listener, 1) == 0);
    setenv(RG__ENV_SOCKET, at.sun_path, 1);
    setenv(RG__ENV_SLOT, "0", 1);
}

void stand_in_meet(void)
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
    sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(sock >= 0);
    unlink(getenv(RG__ENV_SOCKET));
    hear(RG__HELLO);
    CHECK_OK(rg__area_create(&fds[0]));
    CHECK_OK(rg__shm_create("vault", PLACE + ROOM, true, &fds[1]));
    CHECK_OK(rg__area_map(fds[0], &worker_page, &record));
    CHECK_OK(rg__sock_send(sock, &m, sizeof m, fds, 2));
    close(fds[0]);
    close(fds[1]);
}

void stand_in_register(const rg__register *asked)
{
    const rg__buffer m = {.head = {RG__BUFFER, RG__WIRE_VERSION},
                          .ask = asked->ask,
                          .place = PLACE};
    CHECK(rg__vault_stride(asked->bytes) * asked->slots <= ROOM);
    tell(&m, sizeof m);
}

void stand_in_propose(uint64_t generation, uint32_t port)
{
    static _Alignas(16) char bytes[1024];
    rg__prepare *m = (void *)bytes;
    const size_t control = rg__shm_control_bytes(1, RG__SETS_MAX);
    int fd;
    *m = (rg__prepare){.head = {RG__PREPARE, RG__WIRE_VERSION},
                       .generation = generation,
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
    tell_with(m, sizeof *m, fd);
    close(fd);
}

void stand_in_decide_first(uint64_t generation)
{
    const rg__decided decided = {.head = {RG__DECIDED, RG__WIRE_VERSION},
                                 .generation = generation};
    tell(&decided, sizeof decided);
    hear(RG__COMMITTED); /* commit 0, which is to be put on record */
    atomic_store(&worker_page->begun, generation);
    ring();
}

void stand_in_work(rg_train_fn fn, rg_reset_fn on_reset, uint64_t *counter)
{
    rg_ctx *ctx;
    rg_state *st;
    const rg_params params = {.size = sizeof params, .elastic = 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK_OK(rg_init(&params, &ctx));
    CHECK_OK(rg_state_create(ctx, NULL, &st));
    CHECK_OK(rg_state_add(st, "counter", counter, sizeof *counter, NULL));
    if (on_reset != NULL)
        CHECK_OK(rg_state_on_reset(st, on_reset, ctx));
    CHECK_STATUS(rg_run(st, fn, ctx), RG_ERR_JOB_ENDED);
    rg_state_destroy(st);
    CHECK_OK(rg_finalize(ctx));
}
