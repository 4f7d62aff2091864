/* The communicators of this process: which threads may use them, and how they
 * end. They are never given back to malloc, so that any later use is seen. */
#include "tests/device/support/comm.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VERSION 22809 /* unless the script says another `nccl version=` */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rg__nccl_comm comms;
static _Atomic int numbers;
static _Atomic uint64_t events; /* orders what is made and what is marked */

static _Thread_local char told[300] = "";

void fake_tell(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(told, sizeof told, fmt, ap);
    va_end(ap);
    if (getenv("NCCL_DEBUG"))
        fprintf(stderr, "NCCL WARN %s\n", told);
}

const char *fake_told(void)
{
    return told;
}

int fake_version(void)
{
    fake_fault f;
    return fake_script("nccl", NULL, &f) && f.version > 0 ? f.version : VERSION;
}

/* The environment overrides what a program chooses, but for nonsense. */
bool fake_is_blocking(const rg__nccl_config *config)
{
    const char *text = getenv("NCCL_COMM_BLOCKING");
    if (text && (strcmp(text, "0") == 0 || strcmp(text, "1") == 0))
        return *text == '1';
    return !config || config->blocking != 0;
}

int fake_next_number(void)
{
    return atomic_fetch_add(&numbers, 1) + 1;
}

fake_where fake_where_of(rg__nccl_comm c, int k)
{
    return (fake_where){c->rank, c->n, c->number, k};
}

rg__nccl_comm fake_comm_new(int number, bool is_blocking)
{
    rg__nccl_comm c = calloc(1, sizeof *c);
    c->number = number;
    c->is_blocking = is_blocking;
    c->fd = -1;
    c->born = atomic_fetch_add(&events, 1);
    pthread_mutex_lock(&lock);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&lock);
    fake_count(1, 0);
    return c;
}

/* ---------------------------------------------------- threads that may call
 */

static bool is_known(rg__nccl_comm c)
{
    pthread_mutex_lock(&lock);
    rg__nccl_comm k = comms;
    while (k && k != c)
        k = k->next;
    pthread_mutex_unlock(&lock);
    return k != NULL;
}

void fake_comm_look(rg__nccl_comm c, const char *call)
{
    if (!c || !is_known(c))
        fake_violation("%s: %p is no communicator", call, (void *)c);
    if (atomic_load(&c->state) == FAKE_FREED)
        fake_violation("%s: communicator %d has been aborted and freed", call,
                       c->number);
}

void fake_comm_enter(rg__nccl_comm c, const char *call)
{
    const int self = (int)syscall(SYS_gettid);
    int inside = 0;
    fake_comm_look(c, call);
    if (!atomic_compare_exchange_strong(&c->inside, &inside, self))
        fake_violation("%s: another thread is in a call with communicator %d",
                       call, c->number);
}

void fake_comm_leave(rg__nccl_comm c)
{
    atomic_store(&c->inside, 0);
}

int fake_caller(rg__nccl_comm c)
{
    return atomic_load(&c->inside);
}

/* ------------------------------------------------------------------- the abort
 */

void fake_comm_mark(rg__nccl_comm c)
{
    int state = FAKE_LIVE;
    if (!atomic_compare_exchange_strong(&c->state, &state, FAKE_MARKED))
        fake_violation("ncclCommAbort: communicator %d is being aborted "
                       "already",
                       c->number);
    c->marked = atomic_fetch_add(&events, 1);
    atomic_store(&c->is_aborted, true);
    fake_ring(c);
}

static rg__nccl_comm busy_beside(rg__nccl_comm c)
{
    pthread_mutex_lock(&lock);
    rg__nccl_comm b = comms;
    while (b && !(atomic_load(&b->state) == FAKE_LIVE && b->born < c->marked &&
                  atomic_load(&b->out) > 0))
        b = b->next;
    pthread_mutex_unlock(&lock);
    return b;
}

void fake_comm_look_inside(rg__nccl_comm c)
{
    if (atomic_load(&c->inside))
        fake_violation("communicator %d is freed while a thread is in a call "
                       "with it",
                       c->number);
}

static void look_beside(rg__nccl_comm c)
{
    fake_comm_look_inside(c);
    rg__nccl_comm b = busy_beside(c);
    if (b)
        fake_violation("communicator %d is freed while an operation of "
                       "communicator %d runs on the same device: abort both "
                       "in one group",
                       c->number, b->number);
}

/* `abort slow ms=N` and `abort never`. */
static void act(rg__nccl_comm c)
{
    fake_fault f;
    const fake_where where = fake_where_of(c, -1);
    if (!fake_script("abort", &where, &f))
        return;
    if (strcmp(f.verdict, "slow") == 0)
        fake_nap_ms(f.ms);
    while (strcmp(f.verdict, "never") == 0)
        fake_nap_ms(1000);
}

static void wait_until_it_is_still(rg__nccl_comm c)
{
    while (atomic_load(&c->is_starting) || atomic_load(&c->out) > 0)
        fake_nap_ms(1);
}

static void free_comm(rg__nccl_comm c)
{
    act(c);
    wait_until_it_is_still(c);
    fake_streams_wait(); /* as cudaFree does */
    fake_stand_up(c);
    atomic_store(&c->state, FAKE_FREED);
    fake_count(-1, 0);
}

void fake_comms_reclaim(rg__nccl_comm *c, int n)
{
    for (int i = 0; i < n; i++)
        look_beside(c[i]);
    for (int i = 0; i < n; i++)
        free_comm(c[i]);
}
