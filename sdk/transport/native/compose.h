/* Operations over several hosts that are made of others (compose.c). */
#ifndef RG_NATIVE_COMPOSE_H
#define RG_NATIVE_COMPOSE_H

#include "sdk/transport/native/native.h"

bool rg__compose_has(rg__kind kind);

/* Of a comm that has composed before: is it about one now? */
bool rg__compose_is_under_way(const comm *c);
static inline bool rg__compose_is_running(const comm *c)
{
    return c->compose != NULL && rg__compose_is_under_way(c);
}

/* Begin c->user. */
rg_status rg__compose_begin(comm *c);
/* A part has ended well: begin the next one (IN_PROGRESS), or end (OK). */
rg_status rg__compose_next(comm *c);
/* Whatever has become of it. */
void rg__compose_end(comm *c);
void rg__compose_free(comm *c);

#endif
