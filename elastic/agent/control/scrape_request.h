/* The head of an HTTP request, as far as a server of two paths needs it. Pure
 * functions.
 *
 * Threads:   any.
 * Ownership: nothing is kept. */
#ifndef RG_AGENT_SCRAPE_REQUEST_H
#define RG_AGENT_SCRAPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define RG__SCRAPE_PATH_MAX 32

typedef enum rg__scrape_verdict {
    RG__SCRAPE_MORE = 0, /* the head is not whole yet */
    RG__SCRAPE_OK = 200,
    RG__SCRAPE_BAD = 400,
    RG__SCRAPE_METHOD = 405 /* neither GET nor HEAD */
} rg__scrape_verdict;

typedef struct rg__scrape_request {
    char path[RG__SCRAPE_PATH_MAX]; /* without a query; "" when it is longer */
    bool is_head;
} rg__scrape_request;

/* Read what has come so far; *request_p is written with OK only. A head that
 * has nothing but bytes of the wrong kind is BAD before it is whole. */
rg__scrape_verdict rg__scrape_read(const char *bytes, size_t n,
                                   rg__scrape_request *request_p);

#endif
