#include "sdk/transport/inter/topology.h"

#include <stdlib.h>

#include "sdk/base/fail.h"

void rg__topology_clear(rg__topology *s)
{
    free(s->host_of);
    free(s->at);
    free(s->begin);
    *s = (rg__topology){0};
}

/* Number the hosts by their first members; first[h] is host h's. */
static void number_hosts(rg__topology *s, const int *ranks,
                         const uint32_t *host, int *first)
{
    for (int m = 0; m < s->n; m++) {
        int h = 0;
        while (h < s->hosts && host[ranks[first[h]]] != host[ranks[m]])
            h++;
        if (h == s->hosts)
            first[s->hosts++] = m;
        s->host_of[m] = h;
    }
}

static void list_members(rg__topology *s)
{
    int n = 0;
    s->rails = s->n;
    for (int h = 0; h < s->hosts; h++) {
        s->begin[h] = n;
        for (int m = 0; m < s->n; m++)
            if (s->host_of[m] == h)
                s->at[n++] = m;
        if (n - s->begin[h] < s->rails)
            s->rails = n - s->begin[h];
    }
    s->begin[s->hosts] = n;
}

rg_status rg__topology_make(rg__topology *s, const int *ranks, int n,
                            const uint32_t *host, int my_rank)
{
    *s = (rg__topology){.n = n};
    s->host_of = calloc((size_t)n, sizeof *s->host_of);
    s->at = calloc((size_t)n, sizeof *s->at);
    s->begin = calloc((size_t)n + 1, sizeof *s->begin);
    if (s->host_of == NULL || s->at == NULL || s->begin == NULL) {
        rg__topology_clear(s);
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    }
    number_hosts(s, ranks, host, s->begin);
    list_members(s);
    for (int m = 0; m < n; m++)
        if (ranks[m] == my_rank)
            s->host = s->host_of[m];
    return RG_OK;
}
