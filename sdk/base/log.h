/* Log lines on standard error, each by one write, as text or as JSON:
 *
 *   [regroup 12:04:31.118 h2 3/8 g2 set] sentence
 *   {"time":"2026-05-01T10:04:31.118Z","level":"info","room":"set","host":"h2",
 *    "rank":3,"size":8,"generation":2,"message":"sentence"}   (on one line)
 *
 * Threads:   any.
 * Ownership: texts are copied.
 * Units:     text has local time, JSON UTC; rank and size are null if there is
 *            none. REGROUP_LOG sets levels per room ("info,etcd=debug"),
 *            REGROUP_LOG_FORMAT the format. */
#ifndef RG_BASE_LOG_H
#define RG_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "sdk/base/inner.h"

typedef enum rg__level {
    RG__ERROR,
    RG__WARN,
    RG__INFO,
    RG__DEBUG,
    RG__TRACE
} rg__level;

/* Set the levels from a text such as "info,etcd=debug". false: malformed, and
 * nothing changed. The default is warn. */
bool rg__log_levels(const char *text);

/* "text" or "json". false: neither, and nothing changed. */
bool rg__log_format(const char *text);
bool rg__log_is_json(void);

/* Who writes the lines: host (copied), rank, size (-1: none), generation. */
void rg__log_who(const char *host, int rank, int size, uint64_t generation);

/* From now on, and in children: a line that standard error would block on is
 * dropped; when it takes lines again, a line gives their number. */
void rg__log_never_waits(void);
/* Another writer's line on standard error is incomplete: lines that come before
 * the rest of it are dropped as well. */
void rg__log_within(bool yes);

bool rg__log_on(rg__level level, const char *room);

RG_INNER void rg__log(rg__level level, const char *room, const char *format,
                      ...) __attribute__((format(printf, 3, 4)));

/* A sentence that a person waits for, whatever the levels: `regroup: sentence`,
 * or, if the log is JSON, a line of that, with level error. */
void rg__say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same if nothing is wrong: level info. */
void rg__tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Behind a noun that has been counted. */
static inline const char *rg__plural(long long n)
{
    return n == 1 ? "" : "s";
}

#endif
