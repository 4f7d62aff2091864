/* In place of ssh, mpirun calls `regroup-rank proxy HOST WORDS` once for each
 * host (Open MPI: each other one), and the agent there runs the words, a daemon
 * of the MPI, in a shell. The asking process gets its answer when the daemon
 * has begun, or, if mpirun wants it so, has called back. */
#include "elastic/agent/mpirun/flavour.h"
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/hosts/peers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/sock.h"

#define LATER_NS (5 * RG__MS)
#define LATE_NS  (5000 * RG__MS) /* for the launch to be seen here */

static void answer_when(int sock, const char *why, bool is_later)
{
    rg__rank_go m = {.head = {RG__RANK_GO, RG__WIRE_VERSION},
                     .is_later = is_later};
    snprintf(m.why, sizeof m.why, "%s", why);
    rg__sock_send(sock, &m, sizeof m, NULL, 0);
    close(sock);
}

static void answer(int sock, const char *why)
{
    answer_when(sock, why, false);
}

/* sh may drop variables that it could not assign, such as functions of bash
 * (dash does); bash keeps them, and with -p it runs none and reads no file. */
static bool has_odd_variable(void)
{
    static const char name[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    char **v = environ;
    while (*v != NULL && (*v)[strspn(*v, name)] == '=' &&
           ((*v)[0] < '0' || (*v)[0] > '9'))
        v++;
    return *v != NULL;
}

/* "": it has begun. */
static void start(rg__agent *a, uint64_t launch, const char *line,
                  char why[RG__TEXT_MAX])
{
    static char sh[] = "/bin/sh", bash[] = "/bin/bash", c[] = "-c",
                pc[] = "-pc";
    const bool is_bash = has_odd_variable() && access(bash, X_OK) == 0;
    char *words = strdup(line);
    char *const argv[] = {is_bash ? bash : sh, is_bash ? pc : c, words, NULL};
    why[0] = '\0';
    if (launch != a->launches->number || a->launches->is_over)
        snprintf(why, RG__TEXT_MAX, "launch %llu is over on host %.63s",
                 (unsigned long long)launch, a->params->host);
    else if (words == NULL || rg__helper_start(a, argv, false) != RG_OK)
        snprintf(why, RG__TEXT_MAX, "%.200s", rg_last_error());
    free(words);
}

/* -------------------------------------------------- a daemon on this host */

typedef struct rg__served {
    struct rg__served *next; /* of those that processes here asked for */
    rg__agent *a;
    rg__connection *c; /* to the agent that asks; NULL: a process here asks */
    int sock;          /* to that process, else -1 */
    rg__timer *later;
    uint64_t launch, until_ns;
    bool is_begun;
    char *line;
} rg__served;

static void drop_served(rg__served *s)
{
    rg__chain_remove(&s->a->launches->served_here, s);
    rg__timer_destroy(s->later);
    free(s->line);
    free(s);
}

/* A daemon has called back when there is a rank: mpirun has it begin them. */
static bool is_awaited(const rg__served *s)
{
    const rg__agent *a = s->a;
    bool has_rank = false;
    for (int i = 0; i < a->params->slots; i++)
        has_rank = has_rank || a->slot[i].saved.child != 0;
    return a->params->flavour->awaits_daemons && !has_rank &&
           !a->launches->is_over && rg__now_ns() < s->until_ns;
}

static void say_begun(rg__served *s, const char why[RG__TEXT_MAX])
{
    if (s->c == NULL) {
        answer(s->sock, why);
        drop_served(s);
        return;
    }
    char *to = rg__connection_space(s->c);
    if (to == NULL)
        return;
    memcpy(to, why, RG__TEXT_MAX);
    rg__connection_send(s->c, RG__PEER_BEGUN, RG__TEXT_MAX);
}

static void look(void *arg)
{
    rg__served *s = arg;
    char why[RG__TEXT_MAX] = "";
    if (s->launch > s->a->launches->number && rg__now_ns() < s->until_ns) {
        rg__timer_set(s->later, LATER_NS);
        return;
    }
    if (!s->is_begun)
        start(s->a, s->launch, s->line, why);
    s->is_begun = true;
    if (why[0] == '\0' && is_awaited(s)) {
        rg__timer_set(s->later, LATER_NS);
        return;
    }
    say_begun(s, why);
}

static void served_gone(void *arg, const char *why)
{
    (void)why;
    drop_served(arg);
}

/* NULL: no memory. */
static rg__served *begin_to_serve(rg__agent *a, rg__connection *c, int sock,
                                  const rg__proxy *m, size_t n)
{
    rg__served *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (rg__served){.a = a,
                      .c = c,
                      .sock = sock,
                      .launch = m->launch,
                      .until_ns = rg__now_ns() + LATE_NS,
                      .line = strndup(m->line, n - sizeof *m),
                      .later = rg__timer_create(a->loop, look, s)};
    if (s->line != NULL && s->later != NULL)
        return s;
    drop_served(s);
    return NULL;
}

bool rg__mpirun_serve(rg__agent *a, rg__connection *c, const void *body,
                      size_t n)
{
    static const rg__connection_fns fns = {rg__connection_no_frame,
                                           rg__connection_no_room, served_gone};
    const rg__proxy *m = body;
    if (!a->params->is_mpi || n <= sizeof *m)
        return false;
    rg__served *s = begin_to_serve(a, c, -1, m, n);
    if (s == NULL)
        return false;
    rg__connection_take(c, &fns, s);
    look(s);
    return true;
}

/* ---------------------------------------------- the agent that asks for one */

typedef struct asking {
    rg__connection *c;
    int sock;
    rg__proxy *m;
    size_t n;
} asking;

static void end_asking(asking *k, const char *why, bool is_later)
{
    answer_when(k->sock, why, is_later);
    free(k->m);
    free(k);
}

static bool asking_frame(void *arg, uint32_t type, const void *body, size_t n)
{
    asking *k = arg;
    char why[RG__TEXT_MAX];
    if (type != RG__PEER_BEGUN || n != sizeof why)
        return false;
    memcpy(why, body, sizeof why);
    why[sizeof why - 1] = '\0';
    rg__connection_close(k->c);
    end_asking(k, why, false);
    return true;
}

static void asking_room(void *arg)
{
    asking *k = arg;
    void *to = k->m != NULL ? rg__connection_space(k->c) : NULL;
    if (to == NULL)
        return;
    memcpy(to, k->m, k->n);
    rg__connection_send(k->c, RG__PEER_BEGIN, k->n);
    free(k->m);
    k->m = NULL;
}

/* Another may be taking over from the agent there. */
static void asking_gone(void *arg, const char *why)
{
    char text[RG__TEXT_MAX];
    snprintf(text, sizeof text, "the agent there can't be asked: %.160s", why);
    end_asking(arg, text, true);
}

static const rg__seat *find_host(const rg__agent *a, const char *address)
{
    const rg__mpirun *run = &a->view.mpirun;
    for (int r = 0; r < run->size; r++)
        if (strcmp(rg__seat_host(&run->seat[r]), address) == 0)
            return &run->seat[r];
    return NULL;
}

static void call(rg__agent *a, int sock, const rg__proxy *m, size_t n,
                 const rg__seat *host)
{
    static const rg__connection_fns fns = {asking_frame, asking_room,
                                           asking_gone};
    asking *k = calloc(1, sizeof *k);
    rg__proxy *copy = malloc(n);
    if (k == NULL || copy == NULL) {
        free(k);
        free(copy);
        answer(sock, "no memory");
        return;
    }
    memcpy(copy, m, n);
    *k = (asking){.sock = sock, .m = copy, .n = n};
    if (rg__connection_call(a, &host->address, host->port, host->host, &fns, k,
                            &k->c) != RG_OK)
        end_asking(k, rg_last_error(), true);
}

static void serve_here(rg__agent *a, int sock, const rg__proxy *m, size_t n)
{
    rg__served *s = begin_to_serve(a, NULL, sock, m, n);
    if (s == NULL) {
        answer(sock, "no memory");
        return;
    }
    s->next = a->launches->served_here;
    a->launches->served_here = s;
    look(s);
}

void rg__proxy_ask(rg__agent *a, int sock, const rg__proxy *m, size_t n)
{
    char address[sizeof m->host], why[RG__TEXT_MAX];
    snprintf(address, sizeof address, "%.*s", (int)sizeof address - 1, m->host);
    const rg__seat *seat = find_host(a, address);
    if (seat == NULL) {
        snprintf(why, sizeof why, "no host of the launch has the address %s",
                 address);
        answer(sock, why);
    } else if (seat->host == a->id) {
        serve_here(a, sock, m, n);
    } else if (n > RG__PEER_BODY_MAX) {
        answer(sock, "the command line is too long");
    } else {
        call(a, sock, m, n, seat);
    }
}

void rg__proxies_destroy(rg__agent *a)
{
    const char why[RG__TEXT_MAX] = "the agent ends";
    while (a->launches->served_here != NULL)
        say_begun(a->launches->served_here, why);
}
