/* The script of faults, reports to a test, and which threads may call. */
#include "tests/device/support/inside.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_fault line_of[LINES_MAX];
static int line_count;
static struct stat read_as; /* the script as it was when it was read */

static _Thread_local const char *forbidden;
static _Atomic(fake_guard) guard_of_test;
static _Atomic int comms, files, threads;

double fake_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void fake_nap_ms(int ms)
{
    const struct timespec t = {.tv_sec = ms / 1000,
                               .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

void fake_path(char *text, size_t room, const char *name)
{
    const char *folder = getenv("FAKE_DEVICE");
    snprintf(text, room, "%s/%s", folder ? folder : "/tmp", name);
}

/* ---------------------------------------------------------- undisciplined use
 */

static void write_down(const char *sentence)
{
    char path[512];
    fake_path(path, sizeof path, "violations");
    const int fd = getenv("FAKE_DEVICE")
                       ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600)
                       : -1;
    if (fd < 0)
        return;
    dprintf(fd, "%s\n", sentence);
    close(fd);
}

void fake_violation(const char *fmt, ...)
{
    char sentence[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    fprintf(stderr, "stand-in of the device: %s\n", sentence);
    write_down(sentence);
    abort();
}

void fake_forbid_thread(const char *what)
{
    forbidden = what;
}

void fake_set_guard(fake_guard guard)
{
    atomic_store(&guard_of_test, guard);
}

static bool is_the_regroup_thread(void)
{
    char name[17] = "";
    return prctl(PR_GET_NAME, name) == 0 && strcmp(name, "regroup") == 0;
}

void fake_enter(const char *call)
{
    if (forbidden)
        fake_violation("%s must not be called by %s", call, forbidden);
    if (is_the_regroup_thread())
        fake_violation("%s must not be called by the Regroup thread", call);
    const fake_guard guard = atomic_load(&guard_of_test);
    const char *why = guard ? guard() : NULL;
    if (why)
        fake_violation("%s must not be called %s", call, why);
}

/* ----------------------------------------------------------------- the script
 */

static int *number_of(fake_fault *f, const char *key)
{
    const struct {
        const char *key;
        int *at;
    } keys[] = {{"rank", &f->rank}, {"size", &f->size},
                {"comm", &f->comm}, {"k", &f->k},
                {"once", &f->once}, {"slot", &f->slot},
                {"ms", &f->ms},     {"rc", &f->rc},
                {"n", &f->n},       {"version", &f->version}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, key) == 0)
            return keys[i].at;
    return NULL;
}

static void take_word(fake_fault *f, char *word)
{
    char *value = strchr(word, '=');
    if (!value) {
        snprintf(f->verdict, sizeof f->verdict, "%s", word);
        return;
    }
    *value++ = 0;
    int *number = number_of(f, word);
    if (!number)
        fake_violation("the script says %s=%s, and there is no %s", word, value,
                       word);
    *number = atoi(value);
}

static void take_line(char *text)
{
    char *rest = NULL;
    char *word = strtok_r(text, " \t\n", &rest);
    if (!word || *word == '#')
        return;
    if (line_count == LINES_MAX)
        fake_violation("the script has more than %d lines", LINES_MAX);
    fake_fault *f = &line_of[line_count++];
    *f = (fake_fault){.rank = -1,
                      .size = -1,
                      .comm = -1,
                      .k = -1,
                      .slot = -1,
                      .once = -1,
                      .ms = -1,
                      .rc = -1,
                      .n = -1,
                      .version = -1};
    snprintf(f->event, sizeof f->event, "%s", word);
    while ((word = strtok_r(NULL, " \t\n", &rest)))
        take_word(f, word);
}

static bool is_as_read(const struct stat *now)
{
    return now->st_ino == read_as.st_ino && now->st_size == read_as.st_size &&
           now->st_mtim.tv_sec == read_as.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == read_as.st_mtim.tv_nsec;
}

static void read_script(void)
{
    char path[512], text[256];
    struct stat now = {0};
    fake_path(path, sizeof path, "script");
    if (!getenv("FAKE_DEVICE") || stat(path, &now) != 0)
        now = (struct stat){0};
    if (is_as_read(&now))
        return;
    line_count = 0;
    FILE *file = now.st_ino ? fopen(path, "r") : NULL;
    while (file && fgets(text, sizeof text, file))
        take_line(text);
    if (file)
        fclose(file);
    read_as = now;
}

static bool is_about(int said, int is)
{
    return said < 0 || said == is;
}

static int own_slot(void)
{
    const char *slot = getenv("REGROUP_SLOT");
    return slot ? atoi(slot) : -1;
}

static bool fits(const fake_fault *f, const char *event, const fake_where *w)
{
    return strcmp(f->event, event) == 0 && is_about(f->slot, own_slot()) &&
           is_about(f->rank, w->rank) && is_about(f->size, w->size) &&
           is_about(f->comm, w->comm) && is_about(f->k, w->k);
}

/* `once=N`: for the first that comes by, of all processes. */
static bool strikes(const fake_fault *f)
{
    char name[32], path[512];
    if (f->once < 0)
        return true;
    snprintf(name, sizeof name, "struck.%d", f->once);
    fake_path(path, sizeof path, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool fake_script(const char *event, const fake_where *where,
                 fake_fault *fault_p)
{
    static const fake_where nowhere = {-1, -1, -1, -1};
    bool is_found = false;
    pthread_mutex_lock(&lock);
    read_script();
    for (int i = 0; i < line_count && !is_found; i++)
        if (fits(&line_of[i], event, where ? where : &nowhere) &&
            strikes(&line_of[i])) {
            *fault_p = line_of[i];
            is_found = true;
        }
    pthread_mutex_unlock(&lock);
    return is_found;
}

int fake_setting(const char *event, int otherwise)
{
    fake_fault f;
    return fake_script(event, NULL, &f) && f.n >= 0 ? f.n : otherwise;
}

/* ------------------------------------------------------- threads and counters
 */

void fake_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    atomic_fetch_add(&threads, 1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        fake_violation("no thread can be made: %s", strerror(rc));
}

void fake_thread_ends(void)
{
    atomic_fetch_sub(&threads, 1);
}

void fake_count(int more_comms, int more_files)
{
    atomic_fetch_add(&comms, more_comms);
    atomic_fetch_add(&files, more_files);
}

void fake_held(fake_holdings *held_p)
{
    *held_p = (fake_holdings){.comms = atomic_load(&comms),
                              .files = atomic_load(&files),
                              .threads = atomic_load(&threads)};
    fake_memory_held(held_p);
    fake_streams_held(held_p);
}

/* `exit strict`: a process that ends by itself has given everything back. */
__attribute__((destructor)) static void look_at_exit(void)
{
    fake_fault f;
    fake_holdings held;
    fake_held(&held);
    if (!fake_script("exit", NULL, &f) || strcmp(f.verdict, "strict") != 0)
        return;
    if (held.comms || held.streams || held.blocks || held.threads || held.files)
        fake_violation("the process ends with %d communicators, %d streams, %d "
                       "blocks of memory, %d threads and %d descriptors",
                       held.comms, held.streams, held.blocks, held.threads,
                       held.files);
}
