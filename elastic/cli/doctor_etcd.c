/* Besides our own access, this tries a stranger's, without user, password and
 * certificate. A password that holds turns it away everywhere. etcd 3.4.23 lets
 * it raise an alarm, and an alarm turns the check of users off. */
#include "elastic/cli/doctor_etcd.h"

#include "elastic/cli/launch.h"
#include "elastic/cli/store.h"
#include "elastic/cli/talk.h"

#define CHECK_MS    5000
#define STRANGER_MS 2000
#define JOB         "doctor" /* whose key is read; it need not be there */

static bool may_raise_alarms(const rg__etcd_params *stranger)
{
    rg__talk talk;
    rg_status st = rg__talk_open(&talk, stranger, -1);
    if (st == RG_OK) {
        rg__etcd_probe_alarm(talk.etcd, rg__talk_end, &talk);
        st = rg__talk_wait(&talk, STRANGER_MS);
    }
    rg__talk_close(&talk);
    return st == RG_OK;
}

rg__finding rg__doctor_etcd(const rg__settings *s)
{
    rg__launch l = {0};
    rg_status st = rg__launch_reach(&l, s);
    const rg__etcd_params ours = rg__launch_etcd(&l, s);
    const rg__etcd_params stranger = {.endpoints = ours.endpoints,
                                      .cacert = ours.cacert};
    if (st == RG_OK)
        st = rg__store_check(&ours, JOB, CHECK_MS, 0);
    if (st != RG_OK)
        return rg__find(RG__FAIL, "%s", rg_last_error());
    if (rg__store_check(&stranger, JOB, STRANGER_MS, 0) == RG_OK)
        return rg__find(
            RG__WEAK,
            "%s lets in every client that reaches it, which can end jobs and "
            "read their keys; give it users (etcdctl auth enable) and ask for "
            "client certificates (--client-cert-auth)",
            s->etcd);
    if (may_raise_alarms(&stranger))
        return rg__find(RG__WEAK,
                        "%s lets every client that reaches it raise an alarm, "
                        "as 3.4.23 does, and an alarm turns the check of "
                        "passwords off; ask for client certificates "
                        "(--client-cert-auth), or let only the jobs' hosts "
                        "reach it",
                        s->etcd);
    return rg__find(RG__OK, "%s lets us in, and strangers out", s->etcd);
}
