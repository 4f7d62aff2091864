/* The token: fetched when the first request needs it, once for all requests
 * that wait, and again when the server doesn't know it any more (it expires,
 * and a restarted etcd has forgotten all). A server without authentication is
 * asked without a token until it wants one. */
#include "elastic/etcd/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rg__etcd_may_send(const rg__etcd *etcd)
{
    return etcd->user == NULL || etcd->token != NULL || etcd->auth_is_off;
}

bool rg__etcd_is_about_token(int code, const char *message)
{
    return code == 401 || strstr(message, "user name is empty") != NULL ||
           strstr(message, "invalid auth token") != NULL ||
           strstr(message, "revision of auth store is old") != NULL;
}

void rg__etcd_drop_token(rg__etcd *etcd, const char *token)
{
    const bool is_ours = token == NULL || etcd->token == NULL
                             ? token == etcd->token
                             : strcmp(token, etcd->token) == 0;
    if (!is_ours)
        return; /* another request has renewed it already */
    free(etcd->token);
    etcd->token = NULL;
    etcd->auth_is_off = false;
}

static bool read_token(void *arg, const json_t *reply)
{
    rg__etcd *etcd = arg;
    const char *token = NULL;
    if (!rg__json_string(reply, "token", &token) || token == NULL ||
        strpbrk(token, "\r\n") != NULL)
        return false;
    free(etcd->token);
    etcd->token = strdup(token);
    return etcd->token != NULL;
}

static void refuse_waiting(rg__etcd *etcd, const char *message)
{
    char why[RG__ETCD_WHY_MAX];
    snprintf(why, sizeof why, "etcd at %s doesn't let user %s in: %s%s",
             etcd->endpoints[etcd->endpoint], etcd->user, message,
             strchr(message, ';') != NULL ? "" : "; check the password");
    rg__etcd_fail_waiting(etcd, why);
}

static void on_login(void *arg, rg_status st, const rg__answer *answer)
{
    rg__etcd *etcd = arg;
    etcd->login = NULL;
    etcd->auth_is_off = st != RG_OK && rg__answer_says(answer, "not enabled");
    if (st == RG_OK || etcd->auth_is_off)
        rg__etcd_send_waiting(etcd);
    else
        refuse_waiting(etcd, answer->message);
}

char *rg__etcd_credentials(const char *user, const char *password)
{
    json_t *object = json_pack("{s:s,s:s}", "name", user, "password", password);
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

rg_status rg__etcd_login(rg__etcd *etcd)
{
    static const rg__call call = {.path = "/v3/auth/authenticate",
                                  .timeout_ms = RG__ETCD_LOGIN_MS,
                                  .is_login = true,
                                  .read = read_token,
                                  .done = on_login};
    if (etcd->login != NULL)
        return RG_OK;
    char *body = rg__etcd_credentials(etcd->user, etcd->password);
    etcd->login = rg__etcd_post(etcd, &call, body, -1, etcd);
    return etcd->login != NULL ? RG_OK : RG_ERR_MEMORY;
}
