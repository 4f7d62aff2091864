/* What the files of this room share: the client, its requests, its token. */
#ifndef RG_ELASTIC_ETCD_CLIENT_H
#define RG_ELASTIC_ETCD_CLIENT_H

#include "elastic/etcd/etcd.h"
#include "elastic/etcd/http.h"
#include "elastic/etcd/json.h"

#define RG__ETCD_UNARY_MS     1000 /* an answer that takes longer is given up */
#define RG__ETCD_LOGIN_MS     3000 /* etcd checks a password slowly */
#define RG__ETCD_LIST_MS      3000 /* megabytes may come */
#define RG__ETCD_SLOW_MS      8000 /* the most for either, if etcd is slow */
#define RG__ETCD_ENDPOINT_MAX 300  /* characters: a scheme, a name, a port */
#define RG__ETCD_URL_MAX      400
#define RG__ETCD_WHY_MAX      640 /* an endpoint and a sentence */

/* Calls that follow from its health: it answers again; another endpoint is in
 * use. And a question: is something still refused? */
typedef struct rg__health_hooks {
    void (*answers)(rg__etcd *etcd);
    void (*moved)(rg__etcd *etcd, int from_endpoint);
    bool (*has_refused)(const rg__etcd *etcd);
} rg__health_hooks;

struct rg__etcd {
    rg__loop *loop;
    rg__http *http;
    char **endpoints;
    int endpoint_count;
    int endpoint; /* the one in use; moves on when it fails */

    char *user, *password;
    char *token;         /* NULL: none yet, or none needed */
    bool auth_is_off;    /* the server said so; it may be turned on later */
    rg__etcd_req *login; /* under way */

    rg__etcd_req *reqs;
    rg__lease *leases;
    rg__mirror *mirrors;

    const rg__health_hooks *on_health;
    int doublings;       /* of time limits: it is slow */
    rg__timer *silence;  /* set while something is asked */
    rg__timer *refusing; /* set since something was refused */
    rg__timer *tell;     /* on_state, called outside of the code that found out
                          */
    bool is_silent, is_refusing, told_up;
    char why[RG__ETCD_WHY_MAX];     /* of silence */
    char refusal[RG__ETCD_WHY_MAX]; /* likewise */
    void (*on_state)(void *arg, bool up, const char *why);
    void *arg;
};

/* --------------------------------------------------------------- endpoints */

/* "URL,URL" into etcd->endpoints; ERR_INVALID says what one looks like. */
rg_status rg__endpoints_read(rg__etcd *etcd, const char *text);
/* Files for TLS are refused beside an endpoint that is not encrypted. */
rg_status rg__endpoints_check_tls(const rg__etcd *etcd,
                                  const rg__etcd_params *params);
/* The socket of an endpoint unix://PATH; NULL: it is not of that form. */
const char *rg__etcd_socket(const char *endpoint);
/* Where a path of the gateway is at an endpoint, for rg__http_post. */
void rg__etcd_url(const char *endpoint, const char *path,
                  char url[RG__ETCD_URL_MAX]);

/* ---------------------------------------------------------------- requests */

typedef struct rg__answer {
    int code;            /* of HTTP, or of the error inside a stream */
    const char *message; /* etcd's own, "" when there is none */
    int sendings;
} rg__answer;

/* etcd's codes differ between versions, its texts don't: "lease already exists"
 * is 412 from 3.4 and 400 from 3.5. */
bool rg__answer_says(const rg__answer *answer, const char *words);

/* What a kind of request is. Functions get the arg given to rg__etcd_post. */
typedef struct rg__call {
    const char *path; /* "/v3/kv/txn" */
    int timeout_ms;   /* of one sending, as long as etcd is quick */
    int slow_ms;      /* the most that it becomes; 0: it stays */
    bool is_login;    /* goes without a token */
    bool is_goodbye;  /* destroy gives it a moment */
    /* Keep what the reply says; false: it can't be read, send again. It calls
     * no function of a caller. */
    bool (*read)(void *arg, const json_t *reply);
    /* The end: OK after a read, ERR_STORE after a definite refusal. */
    void (*done)(void *arg, rg_status st, const rg__answer *answer);
    /* Cancelled: free arg. NULL: nothing to free. */
    void (*drop)(void *arg);
} rg__call;

/* Send until it is answered. body: malloc'd, owned from here on also when this
 * fails; NULL stands for no memory. avoid: an endpoint that is asked last, -1
 * for none. NULL: no memory; arg stays the caller's and nothing is called. */
rg__etcd_req *rg__etcd_post(rg__etcd *etcd, const rg__call *call, char *body,
                            int avoid, void *arg);
/* Send requests again now that wait for their next try. */
void rg__etcd_hurry_requests(rg__etcd *etcd);
void rg__etcd_hurry_mirrors(rg__etcd *etcd);
/* Watches at that endpoint go to the one in use. */
void rg__etcd_move_mirrors(rg__etcd *etcd, int endpoint);
/* Is one waiting for its next try because etcd takes no writes? */
bool rg__etcd_has_refused(const rg__etcd *etcd);
/* Cancel all but the goodbyes; true: one is under way. */
bool rg__etcd_keep_goodbyes(rg__etcd *etcd);

/* A random delay below 20 ms times 2 to the failures, a second at most. */
uint64_t rg__etcd_backoff_ns(int failures);
uint64_t rg__random(void);

/* ------------------------------------------------------------------- login */

/* false: a token is needed first. */
bool rg__etcd_may_send(const rg__etcd *etcd);
/* Fetch a token unless that is under way; ends in
 * rg__etcd_send_waiting or rg__etcd_fail_waiting. */
rg_status rg__etcd_login(rg__etcd *etcd);
/* The server didn't take this token (NULL: it wants one). */
void rg__etcd_drop_token(rg__etcd *etcd, const char *token);
void rg__etcd_send_waiting(rg__etcd *etcd);
void rg__etcd_fail_waiting(rg__etcd *etcd, const char *why);
/* {"name":…,"password":…}, malloc'd; NULL: no memory. */
char *rg__etcd_credentials(const char *user, const char *password);
/* Is this error about the token, so that a new one may help? */
bool rg__etcd_is_about_token(int code, const char *message);

/* ------------------------------------------------------------------ health */

rg_status rg__health_open(rg__etcd *etcd, const rg__health_hooks *hooks);
void rg__health_close(rg__etcd *etcd); /* also one that was opened in part */
/* Something waits for an answer; nothing does any more. */
void rg__etcd_asked(rg__etcd *etcd);
void rg__etcd_idle(rg__etcd *etcd);
/* An answer came; the endpoint in use has failed, and this is why. */
void rg__etcd_answered(rg__etcd *etcd);
void rg__etcd_failed(rg__etcd *etcd, int endpoint, const char *why);
/* It answers, but takes no writes now; and it has taken one again. */
void rg__etcd_refused(rg__etcd *etcd, int endpoint, const char *message);
void rg__etcd_taken(rg__etcd *etcd);
/* Like failed, after a time limit: a known cause that has a remedy stays. */
void rg__etcd_late(rg__etcd *etcd, int endpoint, const char *why);
/* A time limit, doubled as often as etcd was slow, up to slow_ms. */
int rg__etcd_limit_ms(const rg__etcd *etcd, int ms, int slow_ms);
/* At an endpoint that takes connections, a sending passed its limit, which
 * was doubled that often; or one was answered in a quarter of it. If the
 * limit has changed since, that sending no longer counts: many at once make
 * one doubling. */
void rg__etcd_was_slow(rg__etcd *etcd, int doublings);
void rg__etcd_was_quick(rg__etcd *etcd, int doublings);

/* ------------------------------------------------ parts, for destroy's use */

void rg__lease_forget(rg__lease *lease); /* without revoking */

#endif
