/* Times as clouds write them, sentences for people, and the document with
 * which a site names a notice:
 *
 *   {"at": "2026-05-01T10:04:31Z", "reason": "rack 7 is switched off"}
 *   {"seconds": 90, "reason": "...", "advice": true} */
#include "elastic/notice/notice_parts.h"

#include <ctype.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECONDS_MAX (366.0 * 86400) /* how early a notice may come */

/* Seconds east of Greenwich; false: no offset. */
static bool read_offset(const char *text, long *seconds_p)
{
    int hours, minutes, n = 0;
    char sign;
    *seconds_p = 0;
    if (strcmp(text, "Z") == 0)
        return true;
    if (sscanf(text, "%c%2d:%2d%n", &sign, &hours, &minutes, &n) != 3 ||
        text[n] != '\0' || hours < 0 || minutes < 0 ||
        (sign != '+' && sign != '-'))
        return false;
    *seconds_p = (sign == '-' ? -60L : 60L) * (60L * hours + minutes);
    return true;
}

static bool read_rfc3339(const char *text, time_t *seconds_p)
{
    struct tm tm = {0};
    long offset;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest != NULL && *rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (rest == NULL || !read_offset(rest, &offset))
        return false;
    *seconds_p = timegm(&tm) - offset;
    return true;
}

static bool read_rfc1123(const char *text, time_t *seconds_p)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (rest == NULL || *rest != '\0')
        return false;
    *seconds_p = timegm(&tm);
    return true;
}

bool rg__time_read(const char *text, uint64_t *unix_ms_p)
{
    time_t seconds;
    if ((!read_rfc3339(text, &seconds) && !read_rfc1123(text, &seconds)) ||
        seconds <= 0)
        return false;
    *unix_ms_p = (uint64_t)seconds * 1000;
    return true;
}

void rg__notice_say(rg__notice *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(n->what, sizeof n->what, format, args);
    va_end(args);
    n->what[strcspn(n->what, "\r\n")] = '\0';
    for (char *c = n->what; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
}

/* ------------------------------------------------------------------- sites */

/* A time as text, or in Unix seconds. */
static bool read_at(const json_t *at, uint64_t *ms_p)
{
    if (at == NULL)
        return true;
    if (json_is_string(at))
        return rg__time_read(json_string_value(at), ms_p);
    const double seconds = json_number_value(at);
    if (!(seconds > 0 && seconds < 1e11))
        return false;
    *ms_p = (uint64_t)(seconds * 1000);
    return true;
}

static bool read_seconds(const json_t *in, uint64_t *ms_p)
{
    if (in == NULL)
        return true;
    const double seconds = json_number_value(in);
    if (!json_is_number(in) || !(seconds >= 0 && seconds < SECONDS_MAX))
        return false;
    *ms_p = (uint64_t)(seconds * 1000) + 1; /* 0 means: not said */
    return true;
}

static bool read_object(const json_t *j, rg__notice *n)
{
    const char *reason = json_string_value(json_object_get(j, "reason"));
    n->kind = json_is_true(json_object_get(j, "advice")) ? RG__NOTICE_ADVICE
                                                         : RG__NOTICE_LEAVE;
    rg__notice_say(n, "%s", reason != NULL ? reason : "it names no reason");
    return read_at(json_object_get(j, "at"), &n->at_ms) &&
           read_seconds(json_object_get(j, "seconds"), &n->in_ms);
}

bool rg__site_read(const char *text, size_t bytes, rg__notice *n)
{
    json_t *j = json_loadb(text, bytes, JSON_DECODE_ANY, NULL);
    const bool is_none = json_is_null(j) || json_is_false(j) ||
                         (json_is_array(j) && json_array_size(j) == 0) ||
                         (json_is_object(j) && json_object_size(j) == 0);
    *n = (rg__notice){.kind = RG__NOTICE_NONE};
    const bool ok = is_none || (json_is_object(j) && read_object(j, n));
    json_decref(j);
    return ok;
}

bool rg__site_read_any(const char *text, size_t bytes, rg__notice *n)
{
    while (bytes > 0 && isspace((unsigned char)*text)) {
        text++;
        bytes--;
    }
    if (bytes > 0 && (*text == '{' || *text == '['))
        return rg__site_read(text, bytes, n);
    *n = (rg__notice){.kind = RG__NOTICE_LEAVE};
    rg__notice_say(n, "%.*s", (int)bytes, text);
    if (n->what[0] == '\0')
        rg__notice_say(n, "it names no reason");
    return true;
}
