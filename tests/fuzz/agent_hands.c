#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sdk/base/sock.h"
#include "tests/fuzz/agent.h"
#include "tests/fuzz/sim_proc.h"

#define HANDS_MAX 10

typedef struct hand {
    int sock; /* our end, -1: closed */
    rg__page *page;
    rg__vault *vault;
    bool is_silent; /* it answers no ping */
} hand;

static hand hands[HANDS_MAX];
static int handed;
static struct sockaddr_un place;

void hands_begin(const char *socket_path)
{
    place = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(place.sun_path, sizeof place.sun_path, "%s", socket_path);
}

void hands_end(void)
{
    for (int i = 0; i < handed; i++) {
        if (hands[i].sock >= 0)
            close(hands[i].sock);
        if (hands[i].page != NULL)
            munmap(hands[i].page, RG__PAGE_BYTES);
        if (hands[i].vault != NULL)
            munmap(hands[i].vault, sizeof(rg__vault));
    }
    handed = 0;
}

static void hang_up(hand *h)
{
    close(h->sock);
    h->sock = -1;
}

/* ---------------------------------------------------------- what we are told
 */

static void map_what_came(hand *h, const int fds[RG__SOCK_FDS])
{
    if (h->page != NULL || fds[0] < 0 || fds[1] < 0)
        return;
    h->page = mmap(NULL, RG__PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                   fds[0], 0);
    h->vault = mmap(NULL, sizeof(rg__vault), PROT_READ | PROT_WRITE, MAP_SHARED,
                    fds[1], 0);
    FUZZ_CLAIM(h->page != MAP_FAILED && h->vault != MAP_FAILED);
}

/* Every message is one of ours. */
static void listen_to_agent(hand *h)
{
    static _Alignas(16) char room[RG__WIRE_MAX];
    rg_status st = RG_OK;
    while (h->sock >= 0 && st == RG_OK) {
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        st = rg__sock_recv(h->sock, room, sizeof room, &n, fds);
        if (st == RG_OK) {
            const rg__wire_head *head = (const void *)room;
            FUZZ_CLAIM(n >= sizeof *head && head->version == RG__WIRE_VERSION);
            if (head->type == RG__WELCOME)
                map_what_came(h, fds);
        }
        for (int i = 0; i < RG__SOCK_FDS; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        if (st != RG_OK && st != RG_IN_PROGRESS)
            hang_up(h);
    }
}

void hands_settle(void)
{
    for (int i = 0; i < handed; i++) {
        hand *h = &hands[i];
        listen_to_agent(h);
        if (h->page != NULL && !h->is_silent)
            atomic_store(&h->page->pong, atomic_load(&h->page->ping));
    }
}

/* -------------------------------------------------------------- what we say */

static void say(const hand *h, const void *bytes, size_t n)
{
    if (n > 0)
        (void)!send(h->sock, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static hand *connect_to_agent(void)
{
    if (handed == HANDS_MAX)
        return NULL;
    const int sock =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CLAIM(sock >= 0);
    if (connect(sock, (struct sockaddr *)&place, sizeof place) != 0) {
        close(sock);
        return NULL;
    }
    hands[handed] = (hand){.sock = sock};
    return &hands[handed++];
}

static void meet(fuzz_input *in)
{
    rg__hello m = {
        .head = {RG__HELLO, RG__WIRE_VERSION}, .pid = 7, .version = RG_VERSION};
    m.slot = (int32_t)fuzz_digit(in) - 1;
    m.elastic = fuzz_digit(in);
    const pid_t pid = sim_proc_child((unsigned)m.slot);
    sim_proc_be(pid);
    const hand *h = pid != 0 ? connect_to_agent() : NULL;
    if (h != NULL && in->left > 0)
        say(h, in->at, in->left);
    else if (h != NULL)
        say(h, &m, sizeof m);
}

/* A command line's question. */
static void ask(fuzz_input *in)
{
    static const rg__wire_type types[] = {RG__STATUS, RG__EVENTS, RG__FOLLOW,
                                          RG__STOP, RG__DRAIN};
    const rg__wire_type type = types[fuzz_digit(in) % 5];
    sim_proc_be(1);
    const hand *h = connect_to_agent();
    if (h == NULL)
        return;
    rg__mark mark = {{type, RG__WIRE_VERSION}, fuzz_decimal(in)};
    rg__drain_host drain = {.head = mark.head, .deadline_ms = mark.generation};
    fuzz_byte(in); /* a space */
    memcpy(drain.host, in->at,
           in->left < sizeof drain.host ? in->left : sizeof drain.host);
    if (type == RG__DRAIN)
        say(h, &drain, sizeof drain);
    else
        say(h, &mark, sizeof mark);
}

static void be_ready(const hand *h)
{
    const rg__mark m = {{RG__READY, RG__WIRE_VERSION}, 0};
    if (h->page == NULL)
        return;
    *(_Atomic uint32_t *)(void *)&h->page->life = 7;
    atomic_store(&h->page->tid, 7);
    atomic_store(&h->page->magic, RG__PAGE_MAGIC);
    atomic_store(&h->page->ready, 1);
    say(h, &m, sizeof m);
}

static void say_mark(const hand *h, rg__wire_type type, fuzz_input *in)
{
    const rg__mark m = {{type, RG__WIRE_VERSION}, fuzz_decimal(in)};
    say(h, &m, sizeof m);
}

static void say_stand(const hand *h, fuzz_input *in)
{
    rg__stand m = {.head = {RG__STAND, RG__WIRE_VERSION}};
    m.is_at_door = fuzz_decimal(in) != 0;
    m.asked = fuzz_decimal(in);
    m.pending = fuzz_decimal(in);
    m.built = fuzz_decimal(in);
    m.decided = fuzz_decimal(in);
    m.fin = fuzz_decimal(in);
    say(h, &m, sizeof m);
}

static void say_register(const hand *h, fuzz_input *in)
{
    rg__register m = {.head = {RG__REGISTER, RG__WIRE_VERSION}, .ask = 1};
    m.bytes = fuzz_decimal(in);
    frames_describe(in, &m);
    say(h, &m, sizeof m);
}

static void say_segment(const hand *h, rg__wire_type type, fuzz_input *in)
{
    rg__segment m = {.head = {type, RG__WIRE_VERSION}};
    m.id = (uint32_t)fuzz_decimal(in);
    m.bytes = fuzz_decimal(in);
    say(h, &m, sizeof m);
}

static void say_broken(const hand *h, rg__wire_type type, fuzz_input *in)
{
    rg__broken m = {.head = {type, RG__WIRE_VERSION}};
    m.generation = fuzz_decimal(in);
    m.peer = (int32_t)fuzz_decimal(in) - 1;
    memset(m.why, 'w', sizeof m.why); /* no NUL, unless one comes */
    fuzz_byte(in);
    memcpy(m.why, in->at, in->left < sizeof m.why ? in->left : sizeof m.why);
    say(h, &m, sizeof m);
}

static void say_save(const hand *h, fuzz_input *in)
{
    rg__save m = {.head = {RG__SAVE, RG__WIRE_VERSION}};
    m.commit.generation = fuzz_decimal(in);
    m.commit.step = fuzz_decimal(in);
    m.keep = (int32_t)fuzz_decimal(in);
    m.loaded = fuzz_decimal(in);
    fuzz_byte(in);
    memcpy(m.dir, in->at, in->left < sizeof m.dir ? in->left : sizeof m.dir);
    say(h, &m, sizeof m);
}

/* Its lines are decimals in turn: id, members, ranges, kind; their bounds. */
static void say_sets(const hand *h, fuzz_input *in)
{
    static _Alignas(16) char room[2048];
    rg__sets_list *m = (rg__sets_list *)(void *)room;
    size_t n = sizeof *m;
    *m = (rg__sets_list){.head = {RG__SETS_LIST, RG__WIRE_VERSION}};
    m->ask = (uint32_t)fuzz_decimal(in);
    m->is_last = fuzz_decimal(in) != 0;
    m->generation = fuzz_decimal(in);
    while (in->left > 0 && *in->at == ' ' && n + 1024 < sizeof room) {
        rg__set_entry line = {.id = (uint32_t)fuzz_decimal(in)};
        line.n = (uint32_t)fuzz_decimal(in);
        line.ranges = (uint32_t)fuzz_decimal(in);
        line.kind = (uint8_t)fuzz_decimal(in);
        memset(line.name, 'n', sizeof line.name - (line.kind < 9));
        memcpy(room + n, &line, sizeof line);
        n += sizeof line;
        for (uint32_t i = 0; i < line.ranges && i < 8; i++, n += 8) {
            const rg__range r = {(int32_t)fuzz_decimal(in),
                                 (int32_t)fuzz_decimal(in)};
            memcpy(room + n, &r, sizeof r);
        }
    }
    say(h, room, n);
}

static void say_something(const hand *h, fuzz_input *in)
{
    const rg__door door = {{RG__DOOR, RG__WIRE_VERSION}, 4000};
    switch (fuzz_byte(in)) {
    case 'd':
        say(h, &door, sizeof door);
        break;
    case 'l':
        say_mark(h, RG__LEFT, in);
        break;
    case 'b':
        say_mark(h, RG__BUILT, in);
        break;
    case 'f':
        say_mark(h, RG__FIN, in);
        break;
    case 'y':
        say_mark(h, RG__COMMITTED, in);
        break;
    case 'z':
        say_mark(h, RG__FINALIZE, in);
        break;
    case 'r':
        say_register(h, in);
        break;
    case 'a':
        say_segment(h, RG__ALLOC, in);
        break;
    case 'e':
        say_segment(h, RG__FREE, in);
        break;
    case 'k':
        say_broken(h, RG__BROKEN, in);
        break;
    case 's':
        say_broken(h, RG__STUCK, in);
        break;
    case 'c':
        say_save(h, in);
        break;
    case 't':
        say_stand(h, in);
        break;
    case 'v':
        say_sets(h, in);
        break;
    default:
        break;
    }
}

/* ---------------------------------------------------------- what we scribble
 */

static void scribble(void *memory, size_t bytes, size_t at, fuzz_input *in)
{
    for (size_t i = at; i < bytes && in->left > 0; i++)
        ((volatile uint8_t *)memory)[i] = fuzz_byte(in);
}

static void scribble_page(const hand *h, fuzz_input *in)
{
    const size_t at = 4 * (size_t)fuzz_byte(in);
    if (h->page != NULL)
        scribble(h->page, RG__PAGE_BYTES, at, in);
}

static void scribble_vault(fuzz_input *in)
{
    const size_t at = fuzz_number(in, 2);
    for (int i = 0; i < handed; i++)
        if (hands[i].vault != NULL) {
            scribble(hands[i].vault, sizeof(rg__vault), at, in);
            return;
        }
}

static void put_piece(rg__piece *piece, rg__part part, uint64_t sum)
{
    rg__piece_begin(piece, &part);
    rg__piece_end(piece, sum + rg__part_hash(&part));
}

/* A commit in the vault, all of one sum, with so many shards. */
static void commit(fuzz_input *in)
{
    const int vault_slot = fuzz_digit(in) % RG__VAULT_SLOTS;
    rg__commit_id id = {.generation = fuzz_decimal(in)};
    id.step = fuzz_decimal(in);
    const uint32_t count = 1 + (uint32_t)fuzz_decimal(in) % 4;
    const uint64_t sum = frames_sum(in);
    const uint32_t shards = (uint32_t)fuzz_decimal(in) % 4;
    for (int i = 0; i < handed; i++) {
        if (hands[i].vault == NULL)
            continue;
        for (uint32_t k = 0; k < count; k++)
            put_piece(&hands[i].vault->slot[vault_slot][k],
                      (rg__part){id, k, count, shards}, sum);
        for (uint32_t k = 0; k < shards; k++)
            put_piece(&hands[i].vault->shard[vault_slot][k],
                      (rg__part){id, k, shards, 0}, sum);
        return;
    }
}

/* -------------------------------------------------------------------- steps */

static void step_of_one(char letter, fuzz_input *in)
{
    const uint8_t i = fuzz_digit(in);
    hand *h = i < handed && hands[i].sock >= 0 ? &hands[i] : NULL;
    if (h == NULL)
        return;
    switch (letter) {
    case 'm':
        say(h, in->at, in->left);
        break;
    case 'n':
        say_something(h, in);
        break;
    case 'r':
        be_ready(h);
        break;
    case 'p':
        scribble_page(h, in);
        break;
    case 'q':
        hang_up(h);
        break;
    case 's':
        h->is_silent = !h->is_silent;
        break;
    default:
        break;
    }
}

void hands_step(char letter, fuzz_input in)
{
    switch (letter) {
    case 'h':
        meet(&in);
        break;
    case 'c':
        ask(&in);
        break;
    case 'v':
        scribble_vault(&in);
        break;
    case 'w':
        commit(&in);
        break;
    default:
        step_of_one(letter, &in);
    }
}
