/* Letters to agents on other hosts. */
#include "elastic/launch/letter.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define MARK         "regroup-letter"
#define HEAD_BYTES   96
#define LETTER_BYTES (8 << 20)
#define FILE_BYTES   (1 << 20)

/* ------------------------------------------------------------------ writing */

static void append(rg__letter *l, const void *bytes, size_t n)
{
    char *more = l->has_failed || l->n + n > LETTER_BYTES
                     ? NULL
                     : realloc(l->bytes, l->n + n);
    if (more == NULL) {
        l->has_failed = l->has_failed || n > 0;
        return;
    }
    l->bytes = more;
    memcpy(l->bytes + l->n, bytes, n);
    l->n += n;
}

void rg__letter_add(rg__letter *l, const char *name, const char *value)
{
    append(l, name, strlen(name) + 1);
    append(l, value, strlen(value) + 1);
}

void rg__letter_add_all(rg__letter *l, const rg__letter *more)
{
    l->has_failed = l->has_failed || more->has_failed;
    if (more->n > 0)
        append(l, more->bytes, more->n);
}

rg_status rg__letter_add_file(rg__letter *l, const char *name, const char *path)
{
    char *text = calloc(1, FILE_BYTES + 1);
    FILE *file = fopen(path, "re");
    const bool is_read =
        text != NULL && file != NULL && fread(text, 1, FILE_BYTES, file) > 0;
    if (is_read)
        rg__letter_add(l, name, text);
    if (file != NULL)
        fclose(file);
    free(text);
    return is_read ? RG_OK
                   : rg__fail(RG_ERR_INVALID, "the file %s can't be read: %s",
                              path, strerror(errno));
}

void rg__letter_free(rg__letter *l)
{
    if (l->bytes != NULL) /* passwords and keys */
        explicit_bzero(l->bytes, l->n);
    free(l->bytes);
    *l = (rg__letter){0};
}

char *rg__letter_seal(const rg__letter *l, size_t *bytes_p)
{
    char head[HEAD_BYTES];
    const int n =
        snprintf(head, sizeof head, MARK " %s %zu\n", RG_VERSION, l->n);
    char *text = l->has_failed ? NULL : malloc((size_t)n + l->n);
    if (text == NULL)
        return NULL;
    memcpy(text, head, (size_t)n);
    if (l->n > 0)
        memcpy(text + n, l->bytes, l->n);
    *bytes_p = (size_t)n + l->n;
    return text;
}

/* ------------------------------------------------------------------ reading */

static bool read_some(int fd, char *to, size_t n, uint64_t deadline_ns)
{
    while (n > 0) {
        const uint64_t now = rg__now_ns();
        struct pollfd in = {.fd = fd, .events = POLLIN};
        const int ms =
            now >= deadline_ns ? 0 : (int)((deadline_ns - now) / RG__MS) + 1;
        if (poll(&in, 1, ms) <= 0 && errno != EINTR)
            return false;
        const ssize_t got = read(fd, to, n);
        if (got <= 0)
            return false;
        to += got;
        n -= (size_t)got;
    }
    return true;
}

static bool read_head(int fd, char head[HEAD_BYTES], uint64_t deadline_ns)
{
    for (size_t n = 0; n < HEAD_BYTES - 1; n++) {
        if (!read_some(fd, head + n, 1, deadline_ns))
            return false;
        if (head[n] == '\n') {
            head[n] = '\0';
            return strncmp(head, MARK " ", strlen(MARK " ")) == 0;
        }
    }
    return false;
}

static rg_status fail_stranger(void)
{
    return rg__fail(RG_ERR_INVALID,
                    "`regroup remote` is what `regroup run -H` starts on other "
                    "hosts, and this one has not been told what to do; use "
                    "`regroup run` or `regroup agent`");
}

rg_status rg__letter_receive(rg__letter *l, int fd, int timeout_ms)
{
    char head[HEAD_BYTES], version[32];
    size_t n = 0;
    const uint64_t deadline = rg__now_ns() + (uint64_t)timeout_ms * RG__MS;
    *l = (rg__letter){0};
    if (!read_head(fd, head, deadline) ||
        sscanf(head, MARK " %31s %zu", version, &n) != 2 || n > LETTER_BYTES)
        return fail_stranger();
    if (strcmp(version, RG_VERSION) != 0)
        return rg__fail(RG_ERR_INVALID,
                        "this host has Regroup " RG_VERSION
                        ", and the one that "
                        "starts the job %s; install the same on both",
                        version);
    l->bytes = malloc(n + 1);
    if (l->bytes == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a letter");
    if (!read_some(fd, l->bytes, n, deadline))
        return fail_stranger();
    l->n = n;
    l->bytes[n] = '\0'; /* of the sender */
    return RG_OK;
}

bool rg__letter_next(const rg__letter *l, const char **at, const char **name_p,
                     const char **value_p)
{
    const char *end = l->bytes + l->n;
    const char *name = *at == NULL ? l->bytes : *at;
    if (name == NULL || name >= end)
        return false;
    const char *value = name + strlen(name) + 1;
    if (value >= end)
        return false;
    *name_p = name;
    *value_p = value;
    *at = value + strlen(value) + 1;
    return true;
}

const char *rg__letter_find(const rg__letter *l, const char *wanted)
{
    const char *at = NULL, *name, *value;
    while (rg__letter_next(l, &at, &name, &value))
        if (strcmp(name, wanted) == 0)
            return value;
    return NULL;
}
