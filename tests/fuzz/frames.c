/* A member of a world of two or three hosts, of which the input is the other
 * members: what they say while they connect, and their frames.
 *
 * The first byte is the member's rank and the world's size. Then steps with a
 * byte 0x1e between them, a letter and what belongs to it; R is a digit, the
 * member that speaks:
 *
 *   C R          it connects, if it is the one to connect, and greets
 *   c R          it closes its connection
 *   o K N        the member under test starts an operation of N numbers
 *   b R I D X    blocks for it, of round I, as they should be, with D bytes of
 *                data X; p  with other lines and the mark that they differ
 *   d R I S D X  data of it: part I of step S
 *   y R          BYE
 *   f R K I O B  a frame of any kind, index, operation and length
 *   r R bytes    bytes
 *   T N          N ms pass
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/shm.h"
#include "sdk/transport/tcp/frame.h"
#include "sdk/transport/transport.h"
#include "tests/fuzz/sim.h"

#define SIZE_MAX_  3
#define COUNT_MAX  40000 /* of 8 bytes: two steps of the pipelines */
#define GUESTS_MAX 8
#define ROUNDS     12
#define UNTOUCHED  0x5a
#define FRAME_ROOM ((size_t)1 << 20)

/* One of the others, and its end of a connection. */
typedef struct other {
    int sock; /* -1: none */
    size_t heard;
    char greeting[sizeof(rg__frame) + sizeof(rg__data_hello)];
    rg__data_hello hello;
    bool has_greeted;
} other;

static const uint8_t key[RG__KEY_BYTES] = "the key of the job";
static other others[SIZE_MAX_];
static int guest[GUESTS_MAX], guests;
static int rank, size, theirs_listener, mine_listener, control_fd;
static rg__comm *comm;
static rg__coll coll; /* in flight when is_running */
static bool is_running;
static uint32_t started;
static int broken;
static int64_t send_data[COUNT_MAX], recv_data[SIZE_MAX_ * COUNT_MAX];

/* -------------------------------------------------------------------- sockets
 */

static struct sockaddr_in here(in_port_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = port};
    inet_pton(AF_INET, sim_address(), &at.sin_addr);
    return at;
}

static int listen_here(void)
{
    const struct sockaddr_in at = here(0);
    const int sock =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CLAIM(sock >= 0 &&
               bind(sock, (const struct sockaddr *)&at, sizeof at) == 0 &&
               listen(sock, SIZE_MAX_) == 0);
    return sock;
}

static in_port_t port_of(int sock)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    FUZZ_CLAIM(getsockname(sock, (struct sockaddr *)&at, &n) == 0);
    return at.sin_port;
}

static void hang_up(other *o)
{
    if (o->sock >= 0)
        close(o->sock);
    *o = (other){.sock = -1};
}

static void take_socket(other *o, int sock)
{
    const int on = 1; /* what is sent is there at once */
    hang_up(o);
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(sock, F_SETFL, O_NONBLOCK);
    o->sock = sock;
}

static void say(const other *o, const void *bytes, size_t n)
{
    if (o->sock >= 0 && n > 0)
        (void)!send(o->sock, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_frame(const other *o, rg__frame head, const void *body)
{
    say(o, &head, sizeof head);
    say(o, body, head.bytes);
}

static rg__frame head_of(rg__frame_kind kind, size_t bytes)
{
    return (rg__frame){.magic = FRAME_MAGIC,
                       .kind = (uint16_t)kind,
                       .generation = 1,
                       .op = started,
                       .bytes = (uint32_t)bytes};
}

/* ------------------------------------------------------------------ greetings
 */

static rg__member_id member_of(int r)
{
    return (rg__member_id){(uint64_t)r + 1, 0, 1};
}

static void call(int r)
{
    other *o = &others[r];
    const struct sockaddr_in to = here(port_of(mine_listener));
    if (r >= rank)
        return;
    take_socket(o, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(o->sock, (const struct sockaddr *)&to, sizeof to) != 0 &&
        errno != EINPROGRESS)
        hang_up(o);
    o->hello = (rg__data_hello){.body = {.generation = 1,
                                         .from_id = member_of(r),
                                         .to_id = member_of(rank),
                                         .from = r,
                                         .to = rank,
                                         .version = FRAME_VERSION}};
    rg__mac_make(o->hello.mac, key, HELLO_LABEL, &o->hello.body,
                 sizeof o->hello.body, NULL, 0);
    say_frame(o, head_of(FRAME_HELLO, sizeof o->hello), &o->hello);
}

/* It wants a member of a higher rank than its own: whichever it names. */
static void answer_call(int sock, const rg__data_hello *h)
{
    FUZZ_CLAIM(h->body.from == rank && h->body.to > rank && h->body.to < size);
    other *o = &others[h->body.to];
    rg__data_answer a = {.nonce = {1}};
    take_socket(o, sock);
    o->hello = *h;
    rg__mac_make(a.mac, key, ANSWER_LABEL, h, sizeof *h, a.nonce,
                 sizeof a.nonce);
    say_frame(o, head_of(FRAME_ANSWER, sizeof a), &a);
    o->has_greeted = true; /* its proof is believed */
}

/* A caller that has not named its peer yet. */
static void hear_guests(void)
{
    rg__data_hello h;
    char bytes[sizeof(rg__frame) + sizeof h];
    for (int i = guests - 1; i >= 0; i--) {
        const int sock = guest[i];
        const ssize_t n =
            recv(sock, bytes, sizeof bytes, MSG_DONTWAIT | MSG_PEEK);
        if ((n > 0 && n < (ssize_t)sizeof bytes) || (n < 0 && errno == EAGAIN))
            continue;
        guest[i] = guest[--guests];
        if (n <= 0) {
            close(sock);
            continue;
        }
        (void)!recv(sock, bytes, sizeof bytes, MSG_DONTWAIT);
        memcpy(&h, bytes + sizeof(rg__frame), sizeof h);
        answer_call(sock, &h);
    }
}

static void answer_greeting(other *o)
{
    rg__data_answer a;
    rg__data_proof p;
    memcpy(&a, o->greeting + sizeof(rg__frame), sizeof a);
    rg__mac_make(p.mac, key, PROOF_LABEL, &o->hello, sizeof o->hello, a.nonce,
                 sizeof a.nonce);
    say_frame(o, head_of(FRAME_PROOF, sizeof p), &p);
    o->has_greeted = true;
}

/* What comes behind the greeting is heard and forgotten. */
static void hear(other *o)
{
    static char rest[1 << 16];
    const size_t whole = sizeof(rg__frame) + sizeof(rg__data_answer);
    ssize_t n = 1;
    while (o->sock >= 0 && n > 0) {
        n = o->has_greeted ? recv(o->sock, rest, sizeof rest, MSG_DONTWAIT)
                           : recv(o->sock, o->greeting + o->heard,
                                  whole - o->heard, MSG_DONTWAIT);
        if (n > 0 && !o->has_greeted)
            o->heard += (size_t)n;
        if (!o->has_greeted && o->heard == whole)
            answer_greeting(o);
    }
    if (n == 0)
        hang_up(o);
}

static void listen_to_member(void)
{
    int sock = 0;
    while (guests < GUESTS_MAX &&
           (sock = accept4(theirs_listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        guest[guests++] = sock;
    hear_guests();
    for (int r = 0; r < size; r++)
        hear(&others[r]);
}

/* ----------------------------------------------------------------- operations
 */

static size_t bytes_of_result(void)
{
    return SIZE_MAX_ * (size_t)coll.count * sizeof *recv_data;
}

static void start(fuzz_input *in)
{
    static const rg__kind kinds[] = {RG__ALLREDUCE, RG__BROADCAST,
                                     RG__ALLGATHER, RG__BARRIER};
    const uint8_t which = fuzz_digit(in);
    const uint64_t count = fuzz_decimal(in) % COUNT_MAX;
    if (is_running)
        return;
    coll = (rg__coll){.kind = kinds[which % 4],
                      .type = RG_I64,
                      .op = which < 4 ? RG_SUM : RG_AVG,
                      .root = which > 7,
                      .count = which % 4 == 3 ? 0 : count,
                      .send = send_data,
                      .recv = recv_data};
    if (coll.kind == RG__BROADCAST || coll.kind == RG__BARRIER)
        coll.send = NULL;
    memset(recv_data, UNTOUCHED, bytes_of_result());
    started++;
    is_running = comm->transport->start(comm, &coll) == RG_OK;
}

static void check_untouched(void)
{
    const uint8_t *bytes = (const uint8_t *)recv_data;
    for (size_t i = 0; i < bytes_of_result(); i++)
        FUZZ_CLAIM(bytes[i] == UNTOUCHED);
}

static void settle(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        const rg_status st =
            is_running ? comm->transport->test(comm) : RG_IN_PROGRESS;
        listen_to_member();
        if (st == RG_IN_PROGRESS)
            continue;
        is_running = false;
        FUZZ_CLAIM(st == RG_OK || st == RG_ERR_MISMATCH);
        if (st == RG_ERR_MISMATCH)
            check_untouched();
    }
}

/* --------------------------------------------------------------------- frames
 */

static rg__descriptor line_of(void)
{
    return (rg__descriptor){.kind = (uint8_t)coll.kind,
                            .type = (uint8_t)coll.type,
                            .op = (uint8_t)coll.op,
                            .root = coll.root,
                            .count = coll.count,
                            .tag = coll.tag};
}

static size_t take_data(fuzz_input *in, uint8_t *to)
{
    size_t n = fuzz_decimal(in) % (FRAME_ROOM / 2);
    memset(to, 0, n);
    const size_t more = in->left < FRAME_ROOM / 4 ? in->left : FRAME_ROOM / 4;
    memcpy(to + n, in->at, more);
    return n + more;
}

static void say_blocks(int r, fuzz_input *in, bool differs)
{
    static uint8_t body[FRAME_ROOM];
    rg__descriptor line = line_of();
    const uint64_t round = fuzz_decimal(in);
    line.count += differs;
    const size_t at = sizeof(rg__block_head) + sizeof line;
    const size_t n = take_data(in, body + at);
    const rg__block_head head = {
        .host = (uint32_t)r, .descriptors = 1, .data_bytes = (uint32_t)n};
    memcpy(body, &head, sizeof head);
    memcpy(body + sizeof head, &line, sizeof line);
    const size_t bytes = rg__block_bytes(1, (uint32_t)n);
    memset(body + at + n, 0, bytes - at - n);
    rg__frame f = head_of(differs ? FRAME_POISON : FRAME_BLOCKS, bytes);
    f.index = (uint16_t)round;
    say_frame(&others[r], f, body);
}

static void say_data(int r, fuzz_input *in)
{
    static uint8_t body[FRAME_ROOM];
    rg__frame f = head_of(FRAME_DATA, 0);
    f.index = (uint16_t)fuzz_decimal(in);
    f.step = (uint32_t)fuzz_decimal(in);
    f.bytes = (uint32_t)take_data(in, body);
    say_frame(&others[r], f, body);
}

static void say_any(int r, fuzz_input *in)
{
    rg__frame f = head_of((rg__frame_kind)fuzz_decimal(in), 0);
    f.index = (uint16_t)fuzz_decimal(in);
    f.op = (uint32_t)fuzz_decimal(in);
    f.bytes = (uint32_t)fuzz_decimal(in);
    say(&others[r], &f, sizeof f);
    say(&others[r], in->at, in->left);
}

static void step_of_other(char letter, fuzz_input *in)
{
    const int r = fuzz_digit(in);
    if (r >= size || r == rank)
        return;
    switch (letter) {
    case 'C':
        call(r);
        break;
    case 'c':
        hang_up(&others[r]);
        break;
    case 'b':
    case 'p':
        say_blocks(r, in, letter == 'p');
        break;
    case 'd':
        say_data(r, in);
        break;
    case 'y':
        say_frame(&others[r], head_of(FRAME_BYE, 0), NULL);
        break;
    case 'f':
        say_any(r, in);
        break;
    case 'r':
        say(&others[r], in->at, in->left);
        break;
    default:
        break;
    }
}

static void take_step(fuzz_input *in)
{
    const char letter = (char)fuzz_byte(in);
    if (letter == 'o')
        start(in);
    else if (letter == 'T')
        sim_pass(NULL, fuzz_decimal(in) % 10000 * SIM_MS);
    else
        step_of_other(letter, in);
}

/* ----------------------------------------------------------------------- life
 */

static void on_broken(void *arg, int which, const char *why)
{
    (void)arg;
    FUZZ_CLAIM(which >= 0 && which < size && which != rank && why[0] != '\0');
    FUZZ_CLAIM(++broken == 1); /* once for a comm */
}

static void on_stuck(void *arg, int which, uint64_t bytes, uint64_t waited_ms)
{
    (void)arg, (void)bytes, (void)waited_ms;
    FUZZ_CLAIM(which >= 0 && which < size && which != rank);
}

static void open_comm(void)
{
    rg__member_id member[SIZE_MAX_];
    rg__place place[SIZE_MAX_];
    rg__address address[SIZE_MAX_];
    for (int r = 0; r < size; r++) {
        member[r] = member_of(r);
        place[r] = (rg__place){(uint32_t)r, ntohs(port_of(theirs_listener))};
        snprintf(address[r].text, sizeof address[r].text, "%s", sim_address());
        others[r].sock = -1;
    }
    const uint64_t bytes = rg__shm_control_bytes(1, RG__SETS_MAX);
    static const rg__mappings none;
    FUZZ_CLAIM(rg__shm_create("control", bytes, false, &control_fd) == RG_OK);
    const rg__boot boot = {.rank = rank,
                           .size = size,
                           .local_size = 1,
                           .generation = 1,
                           .member = member,
                           .control_fd = control_fd,
                           .control_bytes = bytes,
                           .mappings = &none,
                           .host_count = size,
                           .place = place,
                           .address = address,
                           .listener = mine_listener,
                           .key = key,
                           .broken = on_broken,
                           .stuck = on_stuck};
    FUZZ_CLAIM(rg__transport_native.open(&boot, &comm) == RG_OK);
}

static void begin(uint8_t first)
{
    size = 2 + first / 4 % 2;
    rank = first % 4 % size;
    is_running = false;
    started = 0;
    broken = 0;
    sim_begin();
    theirs_listener = listen_here();
    mine_listener = listen_here();
    open_comm();
}

static void end(void)
{
    comm->transport->close(comm);
    for (int r = 0; r < size; r++)
        hang_up(&others[r]);
    while (guests > 0)
        close(guest[--guests]);
    close(theirs_listener);
    close(mine_listener);
    close(control_fd);
}

static int lowest_free(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    const int lowest = lowest_free();
    begin((uint8_t)(fuzz_byte(&in) - '0'));
    while (in.left > 0) {
        fuzz_input step = fuzz_step(&in);
        take_step(&step);
        settle();
    }
    end();
    FUZZ_CLAIM(lowest_free() == lowest);
}
