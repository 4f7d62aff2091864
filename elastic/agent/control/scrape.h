/* Metrics for Prometheus and a health check, over HTTP/1.0 on the agent's loop:
 * /metrics and /healthz, one request per connection.
 *
 * Threads:   the loop's.
 * Waiting:   none; a client that is slow is cut off, and at most a few dozen
 *            are heard at once. */
#ifndef RG_AGENT_SCRAPE_H
#define RG_AGENT_SCRAPE_H

#include "sdk/base/address.h"

typedef struct rg__agent rg__agent;

/* "9100", "10.0.0.7:9100", "[fd00::1]:9100" into an address; loopback where
 * none is named, port 0 for any that is free. ERR_INVALID: something else. */
rg_status rg__scrape_address(const char *text, rg__inet *at_p);

/* Listen where params->user.metrics says; nothing when that is NULL.
 * ERR_INVALID, ERR_SYSTEM: it can't be listened at. */
rg_status rg__scrape_open(rg__agent *a);
void rg__scrape_close(rg__agent *a);

#endif
