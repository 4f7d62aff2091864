/* Requests as text. */
#include "elastic/etcd/body.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/etcd/base64.h"

/* Room for n more characters and a NUL; NULL when there is none. */
static char *room_for(rg__body *body, size_t n)
{
    if (body->has_failed)
        return NULL;
    if (body->n + n + 1 > body->capacity) {
        const size_t capacity = 2 * (body->n + n + 1);
        char *text = realloc(body->text, capacity);
        if (text == NULL) {
            body->has_failed = true;
            return NULL;
        }
        body->text = text;
        body->capacity = capacity;
    }
    return body->text + body->n;
}

static void add(rg__body *body, const char *text, size_t n)
{
    char *at = room_for(body, n);
    if (at == NULL)
        return;
    memcpy(at, text, n);
    at[n] = '\0';
    body->n += n;
}

void rg__body_add(rg__body *body, const char *text)
{
    add(body, text, strlen(text));
}

void rg__body_addf(rg__body *body, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        body->has_failed = true;
    else
        add(body, text, (size_t)n);
}

void rg__body_bytes(rg__body *body, const char *name, const void *bytes,
                    size_t n)
{
    const size_t chars = rg__base64_chars(n);
    rg__body_addf(body, "\"%s\":\"", name);
    char *at = room_for(body, chars + 1);
    if (at == NULL)
        return;
    rg__base64_encode(bytes, n, at);
    memcpy(at + chars, "\"", 2);
    body->n += chars + 1;
}

void rg__body_range(rg__body *body, const char *key, const char *range_end)
{
    body->has_failed |= key == NULL;
    rg__body_bytes(body, "key", key, key != NULL ? strlen(key) : 0);
    if (range_end == NULL)
        return;
    rg__body_add(body, ",");
    /* etcd's own sign for "no end" is the single byte 0. */
    const size_t n = range_end[0] == '\0' ? 1 : strlen(range_end);
    rg__body_bytes(body, "range_end", range_end, n);
}

bool rg__body_is_empty(const rg__body *body)
{
    return body->n == 0;
}

void rg__body_free(rg__body *body)
{
    free(body->text);
    *body = (rg__body){0};
}

char *rg__body_take(rg__body *body)
{
    char *text = body->has_failed ? NULL : body->text;
    if (text == NULL)
        free(body->text);
    *body = (rg__body){0};
    return text;
}
