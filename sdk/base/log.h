/* Log lines: [regroup 12:04:31.118 h2 3/8 g2 set] sentence
 * Threads: any. Levels per room come from REGROUP_LOG ("info,etcd=debug"). */
#ifndef RG_BASE_LOG_H
#define RG_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

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

/* Who speaks: host name (copied), rank and size (-1 for none), generation. */
void rg__log_who(const char *host, int rank, int size, uint64_t generation);

bool rg__log_on(rg__level level, const char *room);

void rg__log(rg__level level, const char *room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
