/* A worker, of which the input is the agent: its messages, what it writes to
 * the page, and the clock. Meeting, life and the Regroup thread's turns are
 * taken in as they stand; no thread runs, each step ends with a turn.
 *
 * The input is steps with a byte 0x1e between them; the first is the answer to
 * HELLO (W: a right one; else its bytes). Then a letter and numbers:
 *
 *   p G A R S L M I H   PREPARE: generation, announced, rank of size, local
 *                       rank of size, host index of count
 *   d G RG RS SRC       DECIDED: generation, resume commit, source
 *   b ASK ST text       BUFFER     s ID BYTES ST X   SEGMENT, mine if X is 0
 *   u ID X              UNSEGMENT  n G               DONE
 *   e text              ENDED      g G               GONE    a   AGAIN
 *   m bytes             these bytes, without a descriptor    M   with one
 *   A G  N G            abort word, announced generation
 *   D                   the program comes to the door, or takes up what is
 * there R                   it awaits a buffer; S  a segment l G its members
 * agree to leave G o KIND COUNT        it starts an operation on the world q
 * the agent hangs up                   T N   time passes
 */
#include <sys/socket.h>

#include "elastic/worker/init.c"
#include "elastic/worker/connect.c"
#include "elastic/worker/thread.c"

#include "tests/fuzz/sim.h"

#define COUNT_MAX 4096
#define SIZE_MAX_ 40
#define HOSTS_MAX 8

typedef struct user {
    rg_req *req;
    int64_t send[COUNT_MAX], recv[COUNT_MAX];
} user;

static rg_ctx *ctx;
static int agent; /* its end of the socket, -1: it hung up */
static int page_fd, vault_fd, some_fd;
static user program;

/* ------------------------------------------------------------------ messages
 */

/* A worker that outlives its agent for too long kills only itself.
 */
int __wrap_kill(pid_t pid, int signum);

int __wrap_kill(pid_t pid, int signum)
{
    FUZZ_CLAIM(pid == getpid() && signum == SIGKILL);
    return 0;
}

static int memory(size_t bytes)
{
    int fd = -1;
    FUZZ_CLAIM(rg__shm_create("fuzz", bytes, false, &fd) == RG_OK);
    return fd;
}

static void tell(const void *bytes, size_t n, const int *fds, int count)
{
    if (agent >= 0 && n > 0)
        rg__sock_send(agent, bytes, n, fds, count);
}

static void take_text(fuzz_input *in, char *text, size_t room)
{
    memset(text, 't', room); /* no NUL, unless one comes */
    if (in->left > 0 && *in->at == ' ')
        fuzz_byte(in);
    memcpy(text, in->at, in->left < room ? in->left : room);
}

static void tell_prepare(fuzz_input *in)
{
    const uint64_t g = fuzz_decimal(in);
    const uint32_t announced = (uint32_t)fuzz_decimal(in);
    const int32_t rank = (int32_t)fuzz_decimal(in);
    const uint32_t size = (uint32_t)fuzz_decimal(in) % SIZE_MAX_;
    const int32_t local_rank = (int32_t)fuzz_decimal(in);
    const int32_t local_size = (int32_t)fuzz_decimal(in);
    const int32_t index = (int32_t)fuzz_decimal(in);
    const uint32_t hosts = (uint32_t)fuzz_decimal(in) % HOSTS_MAX;
    const size_t bytes = rg__prepare_bytes(size, hosts);
    rg__prepare *m = calloc(1, bytes);
    FUZZ_CLAIM(m != NULL);
    *m = (rg__prepare){
        .head = {RG__PREPARE, RG__WIRE_VERSION},
        .generation = g,
        .announced = announced,
        .rank = rank,
        .size = (int32_t)size,
        .local_rank = local_rank,
        .local_size = local_size,
        .host_index = index,
        .host_count = (int32_t)hosts,
        .control_bytes = rg__shm_control_bytes(
            local_size > 0 && local_size <= RG__HOST_SLOTS_MAX ? local_size : 1,
            RG__SETS_MAX)};
    for (uint32_t r = 0; r < size; r++) {
        const uint32_t host = hosts > 0 ? r % hosts : 0;
        m->member[r] = (rg__member_id){host + 1, r, 1};
        rg__prepare_places(m)[r] = (rg__place){host, ctx->worker->port};
    }
    for (uint32_t h = 0; h < hosts; h++)
        snprintf(rg__prepare_addresses(m)[h].text, RG__ADDRESS_MAX, "%s",
                 sim_address());
    const size_t lists = bytes - sizeof *m;
    const int fd = memory(m->control_bytes + lists);
    FUZZ_CLAIM(pwrite(fd, m->member, lists, (off_t)m->control_bytes) ==
               (ssize_t)lists);
    tell(m, sizeof *m, &fd, 1);
    close(fd);
    free(m);
}

static void tell_decided(fuzz_input *in)
{
    rg__decided m = {.head = {RG__DECIDED, RG__WIRE_VERSION}};
    m.generation = fuzz_decimal(in);
    m.resume.generation = fuzz_decimal(in);
    m.resume.step = fuzz_decimal(in);
    m.source = (int32_t)fuzz_decimal(in);
    tell(&m, sizeof m, NULL, 0);
}

static void tell_buffer(fuzz_input *in)
{
    rg__buffer m = {.head = {RG__BUFFER, RG__WIRE_VERSION}};
    m.ask = (uint32_t)fuzz_decimal(in);
    m.status = -(int32_t)fuzz_decimal(in);
    take_text(in, m.text, sizeof m.text);
    tell(&m, sizeof m, &some_fd, m.status == RG_OK);
}

static void tell_segment(fuzz_input *in, rg__wire_type type)
{
    rg__segment m = {.head = {type, RG__WIRE_VERSION}, .owner = ctx->me};
    m.id = (uint32_t)fuzz_decimal(in);
    m.bytes = type == RG__SEGMENT ? fuzz_decimal(in) : 0;
    m.status = type == RG__SEGMENT ? -(int32_t)fuzz_decimal(in) : 0;
    m.owner.slot += (uint32_t)fuzz_decimal(in);
    take_text(in, m.text, sizeof m.text);
    tell(&m, sizeof m, &some_fd, type == RG__SEGMENT && m.status == RG_OK);
}

static void tell_mark(fuzz_input *in, rg__wire_type type)
{
    const rg__mark m = {{type, RG__WIRE_VERSION}, fuzz_decimal(in)};
    tell(&m, sizeof m, NULL, 0);
}

static void tell_end(fuzz_input *in)
{
    rg__text m = {.head = {RG__ENDED, RG__WIRE_VERSION}};
    take_text(in, m.text, sizeof m.text);
    tell(&m, sizeof m, NULL, 0);
}

/* What the worker says is whole, and of our version. */
static void hear(void)
{
    static _Alignas(16) char room[RG__WIRE_MAX];
    rg_status st = RG_OK;
    while (agent >= 0 && st == RG_OK) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        const rg__wire_head *head = (const void *)room;
        st = rg__sock_recv(agent, room, sizeof room, &n, fds);
        FUZZ_CLAIM(st != RG_OK ||
                   (n >= sizeof *head && head->version == RG__WIRE_VERSION));
    }
}

/* ------------------------------------------------------------------- program
 */

/* What rg_run does where it waits; never without something to find. */
static void come_to_door(rg__worker *w)
{
    rg__decided decided;
    bool is_done = false;
    if (w->phase == RG__PHASE_OUT)
        rg__worker_door(w);
    else if (w->phase == RG__PHASE_DONE || w->phase == RG__PHASE_ENDED ||
             (w->phase == RG__PHASE_DECIDED &&
              w->decided.generation > w->taken))
        rg__worker_await(w, &decided, &is_done);
}

static void await_reply(rg__worker *w, rg__wire_type type)
{
    pthread_mutex_lock(&w->lock);
    if (w->reply.awaited != 0 && w->reply.fd >= 0)
        close(w->reply.fd);
    w->reply = (rg__reply){.awaited = type, .ask = 1, .fd = -1};
    pthread_mutex_unlock(&w->lock);
}

static void finish_operation(void)
{
    if (program.req != NULL)
        rg_test(&program.req);
}

static void start_operation(fuzz_input *in)
{
    const int kind = fuzz_digit(in) % 4;
    const uint64_t count = fuzz_decimal(in) % COUNT_MAX;
    rg_set *world = rg_world(ctx);
    if (program.req != NULL)
        return;
    if (kind == 0)
        rg_allreduce_start(world, program.send, program.recv, count, RG_I64,
                           RG_SUM, NULL, &program.req);
    else if (kind == 1)
        rg_broadcast_start(world, program.recv, count, RG_I64, NULL,
                           &program.req);
    else if (kind == 2)
        rg_allgather_start(world, program.send, program.recv, count / SIZE_MAX_,
                           RG_I64, NULL, &program.req);
    else
        rg_barrier_start(world, NULL, &program.req);
}

/* --------------------------------------------------------------------- steps
 */

static void take_message(char letter, fuzz_input *in)
{
    switch (letter) {
    case 'p':
        tell_prepare(in);
        break;
    case 'd':
        tell_decided(in);
        break;
    case 'b':
        tell_buffer(in);
        break;
    case 's':
        tell_segment(in, RG__SEGMENT);
        break;
    case 'u':
        tell_segment(in, RG__UNSEGMENT);
        break;
    case 'n':
        tell_mark(in, RG__DONE);
        break;
    case 'g':
        tell_mark(in, RG__GONE);
        break;
    case 'a':
        tell_mark(in, RG__AGAIN);
        break;
    case 'v':
        tell_mark(in, RG__SETS);
        break;
    case 'e':
        tell_end(in);
        break;
    case 'm':
    case 'M':
        tell(in->at, in->left, &some_fd, letter == 'M');
        break;
    default:
        break;
    }
}

static void hang_up(void)
{
    if (agent >= 0)
        close(agent);
    agent = -1;
}

static void take_step(rg__worker *w, fuzz_input *in)
{
    const char letter = (char)fuzz_byte(in);
    switch (letter) {
    case 'A':
        atomic_store(&ctx->page->abort, fuzz_decimal(in));
        break;
    case 'N':
        atomic_store(&ctx->page->announce, fuzz_decimal(in));
        break;
    case 'D':
        come_to_door(w);
        break;
    case 'R':
        await_reply(w, RG__BUFFER);
        break;
    case 'S':
        await_reply(w, RG__SEGMENT);
        break;
    case 'l':
        agree_to_leave(ctx, fuzz_decimal(in));
        break;
    case 'o':
        start_operation(in);
        break;
    case 'q':
        hang_up();
        break;
    case 'T':
        sim_pass(NULL, fuzz_decimal(in) % 100000 * SIM_MS);
        break;
    default:
        take_message(letter, in);
    }
}

static void run(rg__worker *w, fuzz_input *in)
{
    static _Alignas(16) char room[RG__WIRE_MAX];
    while (in->left > 0) {
        fuzz_input step = fuzz_step(in);
        take_step(w, &step);
        turn(w, room);
        finish_operation();
        hear();
    }
}

/* ---------------------------------------------------------------------- life
 */

static void tell_welcome(fuzz_input first)
{
    rg__welcome m = {.head = {RG__WELCOME, RG__WIRE_VERSION},
                     .me = {1, 0, 1},
                     .slots = 2,
                     .grace_ms = 1000,
                     .job = "j",
                     .host = "h1"};
    const int fds[] = {page_fd, vault_fd};
    snprintf(m.address.text, sizeof m.address.text, "%s", sim_address());
    if (first.left == 1 && *first.at == 'W') {
        tell(&m, sizeof m, fds, 2);
        return;
    }
    tell(first.at, first.left, fds, 2);
    shutdown(agent, SHUT_WR); /* nothing more, so there is no wait */
}

static rg_status begin(fuzz_input first)
{
    int ends[2];
    static _Alignas(16) char room[RG__WIRE_MAX];
    FUZZ_CLAIM(socketpair(AF_UNIX,
                          SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                          ends) == 0);
    agent = ends[0];
    page_fd = memory(RG__AREA_BYTES);
    vault_fd = memory(sizeof(rg__vault));
    some_fd = memory(RG__PAGE_BYTES);
    ctx = calloc(1, sizeof *ctx);
    FUZZ_CLAIM(ctx != NULL);
    ctx->is_elastic = true;
    ctx->hooks = &hooks;
    FUZZ_CLAIM(rg__context_init(ctx) == RG_OK && create_worker(ctx) == RG_OK);
    ctx->worker->sock = ends[1];
    tell_welcome(first);
    if (first.left == 0)
        return RG_ERR_AGENT_LOST; /* nothing to wait for */
    rg_status st = receive_welcome(ctx->worker, room);
    if (st == RG_OK)
        st = rg__engine_create(ctx->page, &ctx->engine);
    if (st == RG_OK)
        rg__engine_record(ctx->engine, ctx->record);
    if (st == RG_OK)
        st = rg__sets_create(ctx, &ctx->sets);
    return st;
}

/* The thread's end, and rg_finalize's. */
static void finish(bool has_begun)
{
    rg__worker *w = ctx->worker;
    if (has_begun) {
        end(w, RG_ERR_INVALID, "rg_finalize was called");
        drop_pending(w);
        finish_operation();
        FUZZ_CLAIM(program.req == NULL);
    }
    if (w->reply.fd >= 0)
        close(w->reply.fd);
    rg__page *page = ctx->page; /* closing a set writes to the record */
    destroy_ctx(ctx);
    rg__area_unmap(page);
    hang_up();
    close(page_fd);
    close(vault_fd);
    close(some_fd);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    sim_begin();
    const int lowest = memory(1);
    close(lowest);
    const bool has_begun = begin(fuzz_step(&in)) == RG_OK;
    if (has_begun)
        run(ctx->worker, &in);
    finish(has_begun);
    const int again = memory(1);
    close(again);
    FUZZ_CLAIM(lowest == again);
}
