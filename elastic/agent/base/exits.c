/* See exits.h. */
#include "elastic/agent/base/exits.h"

#include <stdio.h>

#include "sdk/base/fail.h"

rg_status rg__agent_made(bool is_made)
{
    return is_made ? RG_OK : rg__fail(RG_ERR_MEMORY, "no memory for an agent");
}

bool rg__agent_set_why(rg__agent *a, const char *format, va_list args)
{
    if (rg__life_is_ending(a))
        return false;
    vsnprintf(a->verdict.why, sizeof a->verdict.why, format, args);
    for (char *c = a->verdict.why; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    return true;
}

void rg__agent_leave(rg__agent *a, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (rg__agent_set_why(a, format, args))
        a->on->leave(a, code);
    va_end(args);
}

bool rg__agent_has_answer(rg__agent *a, rg_status st)
{
    if (st != RG_OK)
        rg__agent_leave(a, RG__EXIT_STORE, "%s", rg_last_error());
    return st == RG_OK;
}

void rg__agent_end_job(rg__agent *a, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (rg__agent_set_why(a, format, args))
        a->on->end(a, code);
    va_end(args);
}
