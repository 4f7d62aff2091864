/* Whether etcd answers and takes writes, and which endpoint is in use. It
 * counts as up until something has been asked for SILENCE_MS and nothing was
 * answered, or until something was refused for so long because etcd takes no
 * writes. A failure moves all requests and watches to the next endpoint. If
 * no endpoint answers in time, requests wait longer instead of being sent
 * again. */
#include <stdio.h>
#include <string.h>

#include "elastic/etcd/client.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* A little longer than one sending may take, so that its cause is known. */
#define SILENCE_MS (RG__ETCD_UNARY_MS + 100)

#define AMONG_MS 2000 /* of a sending, where there are other endpoints */

#define DOUBLINGS_MAX 3 /* RG__ETCD_SLOW_MS / RG__ETCD_UNARY_MS, as a power */

static void tell_state(void *arg)
{
    rg__etcd *etcd = arg;
    const bool is_up = rg__etcd_is_up(etcd);
    if (etcd->told_up == is_up)
        return;
    etcd->told_up = is_up;
    if (etcd->on_state != NULL)
        etcd->on_state(etcd->arg, is_up, rg__etcd_why(etcd));
}

static void on_silence(void *arg)
{
    rg__etcd *etcd = arg;
    etcd->is_silent = true;
    if (etcd->why[0] == '\0')
        snprintf(etcd->why, sizeof etcd->why, "%s gives no answer",
                 etcd->endpoints[etcd->endpoint]);
    rg__log(RG__DEBUG, "etcd", "no answer for a second: %s", etcd->why);
    tell_state(etcd);
}

void rg__etcd_asked(rg__etcd *etcd)
{
    if (!etcd->is_silent && !rg__timer_is_set(etcd->silence))
        rg__timer_set(etcd->silence, SILENCE_MS * RG__MS);
}

void rg__etcd_idle(rg__etcd *etcd)
{
    rg__timer_stop(etcd->silence);
}

void rg__etcd_answered(rg__etcd *etcd)
{
    etcd->why[0] = '\0';
    rg__timer_stop(etcd->silence);
    if (etcd->reqs != NULL)
        rg__timer_set(etcd->silence, SILENCE_MS * RG__MS);
    if (!etcd->is_silent)
        return;
    etcd->is_silent = false;
    rg__timer_set(etcd->tell, 0);
    rg__log(RG__DEBUG, "etcd", "%s answers again",
            etcd->endpoints[etcd->endpoint]);
    etcd->on_health->answers(etcd);
}

static void try_next(rg__etcd *etcd, int endpoint)
{
    if (etcd->endpoint == endpoint)
        etcd->endpoint = (endpoint + 1) % etcd->endpoint_count;
    if (etcd->endpoint != endpoint)
        etcd->on_health->moved(etcd, endpoint);
}

void rg__etcd_failed(rg__etcd *etcd, int endpoint, const char *why)
{
    snprintf(etcd->why, sizeof etcd->why, "%s: %s", etcd->endpoints[endpoint],
             why);
    rg__log(RG__DEBUG, "etcd", "no answer from %s", etcd->why);
    try_next(etcd, endpoint);
}

void rg__etcd_late(rg__etcd *etcd, int endpoint, const char *why)
{
    if (strchr(etcd->why, ';') != NULL) /* http.c: it has a remedy */
        try_next(etcd, endpoint);
    else
        rg__etcd_failed(etcd, endpoint, why);
}

/* Sending a request again while etcd is busy with it makes etcd slower; but one
 * of several endpoints may be stopped, and then another one has to be asked. */
int rg__etcd_limit_ms(const rg__etcd *etcd, int ms, int slow_ms)
{
    const int grown_ms = ms << etcd->doublings;
    if (etcd->endpoint_count > 1 && slow_ms > AMONG_MS)
        slow_ms = AMONG_MS;
    const int most_ms = slow_ms > ms ? slow_ms : ms;
    return grown_ms < most_ms ? grown_ms : most_ms;
}

void rg__etcd_was_slow(rg__etcd *etcd, int doublings)
{
    if (doublings >= etcd->doublings && doublings < DOUBLINGS_MAX)
        etcd->doublings = doublings + 1;
}

void rg__etcd_was_quick(rg__etcd *etcd, int doublings)
{
    if (doublings == etcd->doublings && doublings > 0)
        etcd->doublings--;
}

/* Refused requests are sent again at least once a second: one that is still
 * waiting has been refused ever since. */
static void on_refusing(void *arg)
{
    rg__etcd *etcd = arg;
    etcd->is_refusing = etcd->on_health->has_refused(etcd);
    if (etcd->is_refusing)
        rg__timer_set(etcd->refusing, SILENCE_MS * RG__MS);
    tell_state(etcd);
}

void rg__etcd_refused(rg__etcd *etcd, int endpoint, const char *message)
{
    const bool is_full = strstr(message, "space exceeded") != NULL;
    rg__etcd_answered(etcd);
    snprintf(etcd->refusal, sizeof etcd->refusal,
             is_full ? "%s: its database is full (%s); compact and defragment "
                       "it or raise its quota, then disarm its alarm"
                     : "%s: %s",
             etcd->endpoints[endpoint], message);
    if (!rg__timer_is_set(etcd->refusing))
        rg__timer_set(etcd->refusing, SILENCE_MS * RG__MS);
}

void rg__etcd_taken(rg__etcd *etcd)
{
    rg__timer_set(etcd->refusing, 0);
}

bool rg__etcd_is_up(const rg__etcd *etcd)
{
    return !etcd->is_silent && !etcd->is_refusing;
}

bool rg__etcd_is_sound(const rg__etcd *etcd)
{
    return rg__etcd_is_up(etcd) && etcd->why[0] == '\0' &&
           !rg__timer_is_set(etcd->refusing);
}

bool rg__etcd_is_slow(const rg__etcd *etcd)
{
    return etcd->doublings > 0;
}

bool rg__etcd_is_refusing(const rg__etcd *etcd)
{
    return etcd->is_refusing && !etcd->is_silent;
}

const char *rg__etcd_lack(const rg__etcd *etcd)
{
    return rg__etcd_is_refusing(etcd) ? "takes no writes" : "does not answer";
}

const char *rg__etcd_why(const rg__etcd *etcd)
{
    return rg__etcd_is_refusing(etcd) ? etcd->refusal : etcd->why;
}

rg_status rg__health_open(rg__etcd *etcd, const rg__health_hooks *hooks)
{
    etcd->told_up = true;
    etcd->on_health = hooks;
    etcd->silence = rg__timer_create(etcd->loop, on_silence, etcd);
    etcd->refusing = rg__timer_create(etcd->loop, on_refusing, etcd);
    etcd->tell = rg__timer_create(etcd->loop, tell_state, etcd);
    return etcd->silence != NULL && etcd->refusing != NULL && etcd->tell != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for an etcd client");
}

void rg__health_close(rg__etcd *etcd)
{
    rg__timer_destroy(etcd->silence);
    rg__timer_destroy(etcd->refusing);
    rg__timer_destroy(etcd->tell);
}
