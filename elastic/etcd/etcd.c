/* The client: how it begins, what follows from its health, and its end. */
#include "elastic/etcd/etcd.h"

#include <stdlib.h>
#include <string.h>

#include "elastic/etcd/client.h"
#include "sdk/base/fail.h"

static void hurry_all(rg__etcd *etcd)
{
    rg__etcd_hurry_requests(etcd);
    rg__etcd_hurry_mirrors(etcd);
}

static const rg__health_hooks health_hooks = {.answers = hurry_all,
                                              .moved = rg__etcd_move_mirrors,
                                              .has_refused =
                                                  rg__etcd_has_refused};

static bool copy_credentials(rg__etcd *etcd, const rg__etcd_params *params)
{
    if (params->user == NULL)
        return true;
    etcd->user = strdup(params->user);
    etcd->password = strdup(params->password != NULL ? params->password : "");
    return etcd->user != NULL && etcd->password != NULL;
}

static rg_status open_client(rg__etcd *etcd, rg__loop *loop,
                             const rg__etcd_params *params)
{
    etcd->loop = loop;
    etcd->on_state = params->on_state;
    etcd->arg = params->arg;
    rg_status st = rg__health_open(etcd, &health_hooks);
    if (st != RG_OK)
        return st;
    if (!copy_credentials(etcd, params))
        return rg__fail(RG_ERR_MEMORY, "no memory for an etcd client");
    const rg__http_tls tls = {
        .cacert = params->cacert, .cert = params->cert, .key = params->key};
    st = rg__endpoints_read(etcd, params->endpoints);
    if (st == RG_OK)
        st = rg__endpoints_check_tls(etcd, params);
    return st == RG_OK ? rg__http_create(loop, &tls, &etcd->http) : st;
}

rg_status rg__etcd_create(rg__loop *loop, const rg__etcd_params *params,
                          rg__etcd **etcd_p)
{
    rg__etcd *etcd = calloc(1, sizeof *etcd);
    if (etcd == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an etcd client");
    const rg_status st = open_client(etcd, loop, params);
    if (st != RG_OK) {
        rg__etcd_destroy(etcd);
        return st;
    }
    *etcd_p = etcd;
    return RG_OK;
}

static void free_texts(rg__etcd *etcd)
{
    for (int i = 0; i < etcd->endpoint_count; i++)
        free(etcd->endpoints[i]);
    free(etcd->endpoints);
    free(etcd->user);
    free(etcd->password);
    free(etcd->token);
}

void rg__etcd_destroy(rg__etcd *etcd)
{
    if (etcd == NULL)
        return;
    while (etcd->mirrors != NULL)
        rg__mirror_destroy(etcd->mirrors);
    while (etcd->leases != NULL)
        rg__lease_forget(etcd->leases);
    if (rg__etcd_keep_goodbyes(etcd) && !etcd->is_silent)
        rg__http_drain(etcd->http, RG__ETCD_UNARY_MS);
    while (etcd->reqs != NULL)
        rg__etcd_cancel(etcd->reqs);
    rg__http_destroy(etcd->http);
    rg__health_close(etcd);
    free_texts(etcd);
    free(etcd);
}
