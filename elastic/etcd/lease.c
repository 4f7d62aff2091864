/* A lease, kept alive.
 *
 *   GRANTING ──granted──> HELD ──keepalive, each ttl / 3──> HELD
 *      ^                   │
 *      └─── told LOST <────┘ keepalive answered without a TTL
 *
 * The id is chosen here, so that a grant whose outcome is unknown can be sent
 * again: "already exists" then means that an earlier sending won. An error of
 * a keepalive says nothing about the lease; only a reply without TTL does.
 * Calling fn is always the last act: the lease may be destroyed in it. */
#include "elastic/etcd/client.h"

#include <inttypes.h>
#include <stdlib.h>

#include "elastic/etcd/body.h"
#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define REFUSED_AGAIN_MS   1000
#define NO_MEMORY_AGAIN_MS 100

struct rg__lease {
    rg__lease *next;
    rg__etcd *etcd;
    int64_t id;
    int asked_ttl_s;
    int64_t ttl_s; /* granted, or of the last keepalive; 0: lost */
    bool is_held;
    rg__lease_fn fn;
    void *arg;
    rg__call grant, keepalive; /* their time-outs follow from the TTL */
    rg__etcd_req *req;
    rg__timer *timer; /* the next grant or keepalive */
};

static void ask_again(rg__lease *lease, uint64_t delay_ns)
{
    rg__timer_set(lease->timer, delay_ns);
}

static void tell(rg__lease *lease, rg__lease_event event)
{
    if (lease->fn != NULL)
        lease->fn(lease->arg, event);
}

static char *lease_text(int64_t id, int ttl_s)
{
    rg__body body = {0};
    rg__body_addf(&body, "{\"ID\":\"%" PRId64 "\"", id);
    if (ttl_s > 0)
        rg__body_addf(&body, ",\"TTL\":\"%d\"", ttl_s);
    rg__body_add(&body, "}");
    return rg__body_take(&body);
}

static void post(rg__lease *lease, const rg__call *call, int ttl_s)
{
    lease->req = rg__etcd_post(lease->etcd, call, lease_text(lease->id, ttl_s),
                               -1, lease);
    if (lease->req == NULL)
        ask_again(lease, NO_MEMORY_AGAIN_MS * RG__MS);
}

/* ------------------------------------------------------------------- grant */

/* Three keepalives in a TTL, and three sendings of one where TTLs are short. */
static uint64_t keepalive_ns(const rg__lease *lease)
{
    return (uint64_t)lease->ttl_s * 1000 * RG__MS / 3;
}

static int sending_ms(int64_t ttl_s)
{
    const int64_t ms = ttl_s * 1000 / 4;
    return ms < RG__ETCD_UNARY_MS ? (int)ms : RG__ETCD_UNARY_MS;
}

/* With a slow etcd: two sendings of a keepalive end before the next is due. */
static int slow_ms(int64_t ttl_s)
{
    const int64_t ms = ttl_s * 1000 / 6;
    return ms < RG__ETCD_SLOW_MS ? (int)ms : RG__ETCD_SLOW_MS;
}

static bool read_grant(void *arg, const json_t *reply)
{
    rg__lease *lease = arg;
    int64_t id = 0;
    return rg__json_int64(reply, "ID", &id) && id == lease->id &&
           rg__json_int64(reply, "TTL", &lease->ttl_s) && lease->ttl_s > 0;
}

static void on_grant(void *arg, rg_status st, const rg__answer *answer)
{
    rg__lease *lease = arg;
    lease->req = NULL;
    if (st != RG_OK && !rg__answer_says(answer, "already exists")) {
        rg__log(RG__WARN, "etcd", "no lease: %s", rg_last_error());
        ask_again(lease, REFUSED_AGAIN_MS * RG__MS);
        return;
    }
    if (st != RG_OK) /* it exists: its keepalive will show the TTL */
        lease->ttl_s = lease->asked_ttl_s;
    lease->is_held = true;
    ask_again(lease, st == RG_OK ? keepalive_ns(lease) : 0);
    tell(lease, RG__LEASE_HELD);
}

/* --------------------------------------------------------------- keepalive */

static bool read_keepalive(void *arg, const json_t *reply)
{
    rg__lease *lease = arg;
    json_t *result = NULL;
    return rg__json_object(reply, "result", &result) && result != NULL &&
           rg__json_int64(result, "TTL", &lease->ttl_s);
}

static void lose(rg__lease *lease)
{
    rg__log(RG__DEBUG, "etcd", "lease %" PRId64 " is lost", lease->id);
    lease->is_held = false;
    post(lease, &lease->grant, lease->asked_ttl_s);
    tell(lease, RG__LEASE_LOST);
}

static void on_keepalive(void *arg, rg_status st, const rg__answer *answer)
{
    rg__lease *lease = arg;
    lease->req = NULL;
    if (st != RG_OK && answer->code != 404) {
        rg__log(RG__WARN, "etcd", "no keepalive: %s", rg_last_error());
        ask_again(lease, REFUSED_AGAIN_MS * RG__MS);
        return;
    }
    if (st != RG_OK || lease->ttl_s <= 0)
        lose(lease);
    else if (!rg__timer_is_set(lease->timer))
        ask_again(lease, 0); /* the answer took longer than the period */
}

static void on_timer(void *arg)
{
    rg__lease *lease = arg;
    if (lease->req != NULL)
        return; /* still under way; when it ends it asks again */
    if (!lease->is_held) {
        post(lease, &lease->grant, lease->asked_ttl_s);
        return;
    }
    lease->keepalive.timeout_ms = sending_ms(lease->ttl_s);
    lease->keepalive.slow_ms = slow_ms(lease->ttl_s);
    ask_again(lease, keepalive_ns(lease)); /* counted from the sending */
    post(lease, &lease->keepalive, 0);
}

/* ------------------------------------------------------ create and destroy */

static void set_calls(rg__lease *lease)
{
    lease->grant = (rg__call){.path = "/v3/lease/grant",
                              .timeout_ms = RG__ETCD_UNARY_MS,
                              .slow_ms = RG__ETCD_SLOW_MS,
                              .read = read_grant,
                              .done = on_grant};
    lease->keepalive = (rg__call){.path = "/v3/lease/keepalive",
                                  .read = read_keepalive,
                                  .done = on_keepalive};
}

rg_status rg__lease_create(rg__etcd *etcd, int ttl_s, rg__lease_fn fn,
                           void *arg, rg__lease **lease_p)
{
    const int64_t id = (int64_t)(rg__random() >> 1 | 1); /* positive, not 0 */
    return rg__lease_resume(etcd, id, ttl_s, fn, arg, lease_p);
}

rg_status rg__lease_resume(rg__etcd *etcd, int64_t id, int ttl_s,
                           rg__lease_fn fn, void *arg, rg__lease **lease_p)
{
    if (ttl_s < 1)
        return rg__fail(RG_ERR_INVALID, "a lease of %d s can't be held", ttl_s);
    rg__lease *lease = calloc(1, sizeof *lease);
    if (lease == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a lease");
    lease->timer = rg__timer_create(etcd->loop, on_timer, lease);
    if (lease->timer == NULL) {
        free(lease);
        return rg__fail(RG_ERR_MEMORY, "no memory for a lease");
    }
    lease->etcd = etcd;
    lease->id = id;
    lease->asked_ttl_s = ttl_s;
    lease->fn = fn;
    lease->arg = arg;
    set_calls(lease);
    lease->next = etcd->leases;
    etcd->leases = lease;
    post(lease, &lease->grant, ttl_s);
    *lease_p = lease;
    return RG_OK;
}

int64_t rg__lease_id(const rg__lease *lease)
{
    return lease->id;
}

void rg__lease_ask(rg__lease *lease, int ttl_s)
{
    lease->asked_ttl_s = ttl_s;
}

void rg__lease_forget(rg__lease *lease)
{
    rg__chain_remove(&lease->etcd->leases, lease);
    rg__etcd_cancel(lease->req);
    rg__timer_destroy(lease->timer);
    free(lease);
}

static bool read_revoke(void *arg, const json_t *reply)
{
    (void)arg;
    return json_is_object(reply);
}

/* Revoked, or gone already (404): both are fine. */
static void on_revoke(void *arg, rg_status st, const rg__answer *answer)
{
    (void)arg, (void)st, (void)answer;
}

void rg__lease_destroy(rg__lease *lease)
{
    static const rg__call revoke = {.path = "/v3/lease/revoke",
                                    .timeout_ms = RG__ETCD_UNARY_MS,
                                    .is_goodbye = true,
                                    .read = read_revoke,
                                    .done = on_revoke};
    if (lease == NULL)
        return;
    rg__etcd_post(lease->etcd, &revoke, lease_text(lease->id, 0), -1, NULL);
    rg__lease_forget(lease);
}
