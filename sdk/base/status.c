/* Status texts and advice, and the thread's last error. */
#include "sdk/base/fail.h"

#include <stdarg.h>
#include <stdio.h>

#include "sdk/base/log.h"

static _Thread_local char last_error[512];

const char *rg_status_text(rg_status status)
{
    switch (status) {
#define RG_X(name, value, advice, text)                                        \
    case RG_##name:                                                            \
        return text;
        RG_STATUS_MAP(RG_X)
#undef RG_X
    }
    return "unknown status";
}

static const char unknown[] = "unknown";

const char *rg_status_name(rg_status status)
{
    switch (status) {
#define RG_X(name, value, advice, text)                                        \
    case RG_##name:                                                            \
        return "RG_" #name;
        RG_STATUS_MAP(RG_X)
#undef RG_X
    }
    return unknown;
}

bool rg__status_is_known(rg_status st)
{
    return rg_status_name(st) != unknown;
}

rg_advice rg_status_advice(rg_status status)
{
    switch (status) {
#define RG_X(name, value, advice, text)                                        \
    case RG_##name:                                                            \
        return RG_ADVICE_##advice;
        RG_STATUS_MAP(RG_X)
#undef RG_X
    }
    return RG_ADVICE_FIX;
}

const char *rg_last_error(void)
{
    return last_error;
}

const char *rg_version(void)
{
    return RG_VERSION;
}

rg_status rg__fail(rg_status st, const char *format, ...)
{
    char text[sizeof last_error];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(last_error, sizeof last_error, "%s", text);
    rg__log(RG__DEBUG, "base", "%s: %s", rg_status_name(st), last_error);
    return st;
}

int rg_exit_code(rg_status status)
{
    return status == RG_OK || status == RG_ERR_ASKED_TO_LEAVE ? 0 : 1;
}
