/* What the files of this room share.
 *
 *   notice.c      the table of sources, and those that are asked
 *   rounds.c      how a source is asked, and how a round ends
 *   web.c         rounds of sources that are asked over HTTP
 *   aws.c gcp.c azure.c site.c     requests there, and what answers mean
 *   file.c        a file, by a thread
 *   command.c     a command, by a process
 *   dmi.c         in which cloud this machine is
 *   texts.c       times, sentences, the document of a site */
#ifndef RG_NOTICE_NOTICE_PARTS_H
#define RG_NOTICE_NOTICE_PARTS_H

#include "elastic/etcd/http.h"
#include "elastic/notice/notice.h"

#define RG__NOTICE_BODY_MAX (64u << 10) /* of an answer */
#define RG__NOTICE_BASE_MAX 255 /* bytes of a place where clouds are asked */
#define RG__NOTICE_HEADERS  4
#define RG__NOTICE_SOURCES  16

typedef struct rg__source rg__source;

/* A request that a source makes; texts are its own. */
typedef struct rg__web_request {
    const char *method;
    char path[512]; /* after the base; or a whole URL if there is none */
    char header[RG__NOTICE_HEADERS][1200]; /* "": no more */
    char body[256];                        /* "": none */
    int timeout_ms;
} rg__web_request;

typedef enum rg__web_step {
    WEB_SAYS,  /* the round is over: the answer is in the notice */
    WEB_FAILS, /* likewise, without one; the sentence is in s->why */
    WEB_AGAIN  /* the round goes on with the next request */
} rg__web_step;

typedef struct rg__web {
    const char *base; /* NULL: the source's value is the URL */
    const char *path; /* what is asked there; read: what an answer means */
    bool (*read)(const char *text, size_t bytes, rg__notice *n);
    void (*write)(const rg__source *s, rg__web_request *r);
    rg__web_step (*take)(rg__source *s, const rg__http_result *result,
                         rg__notice *n);
    void (*acknowledge)(const rg__source *s, rg__web_request *r); /* NULL:
                                                             not wanted */
} rg__web;

typedef struct rg__source_kind {
    const char *name;
    const char *form;   /* of the value after its colon; NULL: none allowed */
    const char *value;  /* its default; NULL: it is required */
    const char *asks;   /* shown; NULL: the value */
    const rg__web *web; /* NULL: it is asked by the functions below */
    uint64_t most_ms;   /* most time between two rounds; 0: as is set */
    void (*ask)(rg__source *s); /* begin a round */
    /* It is over, or there will be no more rounds. */
    void (*stop)(rg__source *s);
    void (*close)(rg__source *s);
} rg__source_kind;

struct rg__source {
    rg__notices *all;
    const rg__source_kind *kind;
    char *value; /* NULL: none */
    rg__source_state state;
    char why[200];
    rg__notice notice;
    uint64_t seen_ns;
    rg__timer *timer;  /* until the next round, or its patience */
    uint64_t round_ns; /* when the newest round began */
    bool is_asking;
    int failures; /* in a row */

    rg__transfer *transfer;
    int requests;           /* of this round */
    int stage;              /* the source's own: what it knows already */
    char token[1024];       /* aws */
    char etag[128];         /* gcp: of the value that was read last */
    char machine[128];      /* azure: the name of this one */
    bool has_told, is_told; /* that the host has left: sent, heard */

    struct reader *reader; /* of a file */
    struct child *child;   /* the command */
};

struct rg__notices {
    rg__loop *loop;
    rg__http *http; /* NULL: nothing is asked over HTTP */
    char *base;
    const char *dmi; /* borrowed while the notices are made */
    uint64_t every_ms;
    void (*changed)(void *arg);
    void *arg;
    rg__source *source[RG__NOTICE_SOURCES];
    int count;
};

/* rounds.c: what a source is asked, in words; its timer; ends of a round. */
const char *rg__source_asks(const rg__source *s);
void rg__source_on_timer(void *arg);
void rg__source_says(rg__source *s, const rg__notice *notice);
void rg__source_fails(rg__source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Keep the sentence of a failure, and return WEB_FAILS. */
rg__web_step rg__web_fails(rg__source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* web.c */
void rg__web_ask(rg__source *s);
void rg__web_stop(rg__source *s);
bool rg__web_tell(rg__source *s); /* that the host has left */
bool rg__web_is_url(const char *text);

/* file.c, command.c */
void rg__file_ask(rg__source *s);
void rg__file_close(rg__source *s);
void rg__command_ask(rg__source *s);
void rg__command_stop(rg__source *s);
void rg__command_close(rg__source *s);

extern const rg__web rg__aws_interruption, rg__aws_rebalance, rg__gcp_preempted,
    rg__gcp_maintenance, rg__azure_events, rg__site_url;

/* dmi.c: "aws", "gcp", "azure", or NULL. */
const char *rg__dmi_cloud(const char *folder);

/* texts.c */
/* "2026-05-01T10:04:31Z" (a fraction and an offset are understood) and "Fri,
 * 01 May 2026 10:04:31 GMT"; false: neither. */
bool rg__time_read(const char *text, uint64_t *unix_ms_p);
/* One line, printable, cut where it is too long. */
void rg__notice_say(rg__notice *n, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What answers mean; bytes end with a NUL. False: no documented answer. */
bool rg__aws_read_action(const char *text, size_t bytes, rg__notice *n);
bool rg__aws_read_rebalance(const char *text, size_t bytes, rg__notice *n);
bool rg__gcp_read_preempted(const char *text, size_t bytes, rg__notice *n);
bool rg__gcp_read_maintenance(const char *text, size_t bytes, rg__notice *n);
bool rg__azure_read_events(const char *text, size_t bytes, const char *machine,
                           rg__notice *n);
/* The document of a site: an object, or null, false, {} or []: no notice. */
bool rg__site_read(const char *text, size_t bytes, rg__notice *n);
/* A file or the output of a command: such a document, or a line of text. */
bool rg__site_read_any(const char *text, size_t bytes, rg__notice *n);

#endif
