/* The greetings of elastic/agent/hosts/peers.c, whose layout is its own: it is
 * taken in as it stands, and linked from here. */
#include "elastic/agent/hosts/beat_wire.h"
#include "elastic/agent/hosts/peers.c"

#include <arpa/inet.h>

#include "tests/fuzz/agent.h"
#include "tests/fuzz/sim_etcd.h"

#define WIRES_MAX 6
#define H2        UINT64_C(0xb2)

/* A connection with the agent, from the other end. */
typedef struct wire {
    int sock; /* -1: closed */
    bool is_caller, has_proved;
    hello mine, theirs;
    size_t heard; /* bytes of its greeting */
    uint8_t greeting[sizeof(hello) + RG__MAC_BYTES];
} wire;

static wire wires[WIRES_MAX];
static int wired;
static int listening, datagrams;

/* ----------------------------------------------- what the agent has published
 */

static bool read_own(const char *key, const char *field, char text[65])
{
    const char *value = sim_etcd_get(key), *at = NULL;
    if (value != NULL)
        at = strstr(value, field);
    text[0] = '\0';
    return at != NULL && sscanf(at + strlen(field), "%64[0-9a-f]", text) == 1;
}

uint64_t peers_agents_id(void)
{
    char text[65];
    return read_own(PREFIX "lead/host/" HOST, "\"id\":\"", text)
               ? strtoull(text, NULL, 16)
               : 0;
}

static struct sockaddr_in agents_place(void)
{
    char text[65];
    struct sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, sim_address(), &at.sin_addr);
    if (read_own(PREFIX "lead/host/" HOST, "\"port\":", text))
        at.sin_port = htons((uint16_t)strtoul(text, NULL, 10));
    return at;
}

static void read_key(uint8_t key[RG__KEY_BYTES])
{
    char text[65];
    memset(key, 0, RG__KEY_BYTES);
    if (!read_own(PREFIX "meta", "\"key\":\"", text))
        return;
    for (size_t i = 0; i < RG__KEY_BYTES && 2 * i + 1 < strlen(text); i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        key[i] = (uint8_t)byte;
    }
}

/* ----------------------------------------------------------------- datagrams
 */

static void send_datagram(const void *bytes, size_t n)
{
    const struct sockaddr_in to = agents_place();
    (void)!sendto(datagrams, bytes, n, MSG_DONTWAIT,
                  (const struct sockaddr *)&to, sizeof to);
}

static void send_proved(fuzz_input *in)
{
    uint8_t key[RG__KEY_BYTES], bytes[RG__BEAT_BYTES];
    rg__beat beat = {.type = (rg__beat_type)fuzz_digit(in),
                     .to = peers_agents_id()};
    read_key(key);
    beat.from = fuzz_digit(in) == 0 ? beat.to : H2;
    beat.is_etcd_up = fuzz_digit(in) != 0;
    beat.counter = fuzz_decimal(in);
    beat.generation = fuzz_decimal(in);
    rg__beat_write(bytes, key, &beat);
    send_datagram(bytes, sizeof bytes);
}

/* --------------------------------------------------------------- connections
 */

static void hang_up_wire(wire *w)
{
    if (w->sock >= 0)
        close(w->sock);
    w->sock = -1;
}

static void tell(const wire *w, const void *bytes, size_t n)
{
    if (w->sock >= 0)
        (void)!send(w->sock, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static wire *add_wire(int sock, bool is_caller)
{
    const int on = 1; /* what is sent is there at once */
    if (wired == WIRES_MAX) {
        close(sock);
        return NULL;
    }
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    wires[wired] = (wire){.sock = sock, .is_caller = is_caller};
    wires[wired].mine = (hello){.magic = MAGIC, .version = VERSION, .host = H2};
    return &wires[wired++];
}

static void call_agent(void)
{
    const struct sockaddr_in to = agents_place();
    const int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CLAIM(sock >= 0);
    if (connect(sock, (const struct sockaddr *)&to, sizeof to) != 0) {
        close(sock);
        return;
    }
    const wire *w = add_wire(sock, true);
    if (w != NULL)
        tell(w, &w->mine, sizeof w->mine);
}

static void prove_key(wire *w)
{
    uint8_t key[RG__KEY_BYTES], mac[RG__MAC_BYTES];
    memcpy(&w->theirs, w->greeting, sizeof w->theirs);
    read_key(key);
    rg__mac_make(mac, key, label_of(w->is_caller), &w->mine, sizeof w->mine,
                 &w->theirs, sizeof w->theirs);
    if (!w->is_caller)
        tell(w, &w->mine, sizeof w->mine);
    tell(w, mac, sizeof mac);
    w->has_proved = true;
}

/* Whatever the agent says behind its hello is heard and forgotten. */
static void hear(wire *w)
{
    static uint8_t rest[4096];
    ssize_t n = 1;
    while (w->sock >= 0 && n > 0) {
        const bool is_greeting = w->heard < sizeof w->mine;
        n = is_greeting ? recv(w->sock, w->greeting + w->heard,
                               sizeof w->mine - w->heard, MSG_DONTWAIT)
                        : recv(w->sock, rest, sizeof rest, MSG_DONTWAIT);
        if (n > 0 && is_greeting)
            w->heard += (size_t)n;
        if (w->heard == sizeof w->mine && !w->has_proved)
            prove_key(w);
    }
    if (n == 0)
        hang_up_wire(w);
}

static void take_calls(void)
{
    int sock = 0;
    while ((sock = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        add_wire(sock, false);
}

void peers_settle(void)
{
    uint8_t beat[RG__BEAT_BYTES];
    while (recv(datagrams, beat, sizeof beat, MSG_DONTWAIT) > 0)
        continue; /* it is there, and says nothing */
    take_calls();
    for (int i = 0; i < wired; i++)
        hear(&wires[i]);
}

static void send_frame(const wire *w, fuzz_input *in)
{
    static uint8_t room[sizeof(head) + RG__PEER_BODY_MAX];
    head h;
    h.bytes = (uint32_t)frames_make(in, &h.type, room + sizeof h);
    memcpy(room, &h, sizeof h);
    tell(w, room, sizeof h + h.bytes);
}

/* --------------------------------------------------------------------- steps
 */

static void step_of_wire(char letter, fuzz_input *in)
{
    if (wired == 0)
        return;
    wire *w = &wires[wired - 1]; /* the newest */
    switch (letter) {
    case 'j':
        send_frame(w, in);
        break;
    case 'J':
        tell(w, in->at, in->left);
        break;
    case 'Q':
        hang_up_wire(w);
        break;
    default:
        break;
    }
}

void peers_step(char letter, fuzz_input in)
{
    switch (letter) {
    case 'u':
        send_datagram(in.at, in.left);
        break;
    case 'U':
        send_proved(&in);
        break;
    case 'C':
        call_agent();
        break;
    default:
        step_of_wire(letter, &in);
    }
}

uint32_t peers_port(void)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    FUZZ_CLAIM(getsockname(listening, (struct sockaddr *)&at, &n) == 0);
    return ntohs(at.sin_port);
}

void peers_begin(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, sim_address(), &at.sin_addr);
    datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CLAIM(datagrams >= 0 && listening >= 0);
    FUZZ_CLAIM(bind(listening, (struct sockaddr *)&at, sizeof at) == 0);
    FUZZ_CLAIM(listen(listening, WIRES_MAX) == 0);
    at.sin_port = htons((uint16_t)peers_port());
    FUZZ_CLAIM(bind(datagrams, (struct sockaddr *)&at, sizeof at) == 0);
    wired = 0;
}

void peers_end(void)
{
    for (int i = 0; i < wired; i++)
        hang_up_wire(&wires[i]);
    close(listening);
    close(datagrams);
}
