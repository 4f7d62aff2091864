/* A launched world of several hosts: its tasks tell each other where they
 * listen, and a key for this world alone, which rank 0 makes up. Both travel by
 * the launcher, and are as safe as that. */
#include <stdlib.h>
#include <string.h>

#include "elastic/worker/worker.h"
#include "sdk/base/address.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/proof.h"

/* What a task sends to all others. */
typedef struct reach {
    rg__address address;
    uint32_t port; /* 0: it can't be reached */
    uint8_t key[RG__KEY_BYTES];
} reach;

static rg_status make_mine(rg__worker *w, const char *interface, reach *mine)
{
    rg_status st = RG_OK;
    if (w->listener < 0)
        st = rg__address_of(interface, &mine->address);
    if (st == RG_OK && w->listener < 0)
        st = rg__worker_listen(w, &mine->address);
    if (st == RG_OK && w->entered.rank == 0)
        st = rg__random_bytes(mine->key, sizeof mine->key);
    if (st == RG_OK)
        mine->port = w->port;
    return st;
}

static rg_status note_all(rg__worker *w, const reach *all, rg__reached *to)
{
    const rg__membership *m = &w->entered;
    to->place = calloc((unsigned)m->size, sizeof *to->place);
    to->address = calloc((unsigned)m->host_count, sizeof *to->address);
    if (to->place == NULL || to->address == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d tasks", m->size);
    for (int r = 0; r < m->size; r++) {
        const uint32_t host = (uint32_t)m->member[r].host - 1;
        to->place[r] = (rg__place){.host = host, .port = all[r].port};
        to->address[host] = all[r].address;
    }
    memcpy(w->ctx->key, all[0].key, sizeof w->ctx->key);
    return RG_OK;
}

static bool are_all_reached(const rg__worker *w, const reach *all)
{
    for (int r = 0; r < w->entered.size; r++)
        if (all[r].port == 0)
            return false;
    return true;
}

rg_status rg__worker_reach_hosts(rg__worker *w, const char *interface,
                                 rg__reached *to, bool *ok)
{
    reach mine = {.port = 0};
    reach *all = calloc((unsigned)w->entered.size, sizeof *all);
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d tasks",
                        w->entered.size);
    if (make_mine(w, interface, &mine) != RG_OK)
        rg__log(RG__WARN, "worker",
                "native can't carry this world of several hosts: %s",
                rg_last_error());
    rg_status st = w->launcher->gather(&mine, sizeof mine, all);
    *ok = st == RG_OK && are_all_reached(w, all);
    if (*ok)
        st = note_all(w, all, to);
    free(all);
    return st;
}

void rg__reached_free(rg__reached *reached)
{
    free(reached->place);
    free(reached->address);
    *reached = (rg__reached){NULL, NULL};
}
