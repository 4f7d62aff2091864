/* Turning authentication on, step by step; each step may have been done by an
 * earlier try. Whether all steps are done is known at once: the password works.
 * Also finds out what authentication is worth. */
#include "elastic/etcd/client.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

#define ROOT "root"

typedef struct enabling {
    rg__etcd *etcd;
    char *password;
    rg__etcd_fn fn;
    void *arg;
    size_t step;
} enabling;

static void free_enabling(void *arg)
{
    enabling *on = arg;
    free(on->password);
    free(on);
}

static bool read_any(void *arg, const json_t *reply)
{
    (void)arg;
    return json_is_object(reply);
}

static void on_step(void *arg, rg_status st, const rg__answer *answer);

#define STEP(where)                                                            \
    {                                                                          \
        .path = (where), .timeout_ms = RG__ETCD_LOGIN_MS, .is_login = true,    \
        .read = read_any, .done = on_step, .drop = free_enabling               \
    }

static const rg__call steps[] = {
    STEP("/v3/auth/authenticate"),  STEP("/v3/auth/user/add"),
    STEP("/v3/auth/user/changepw"), /* of a root that was there */
    STEP("/v3/auth/user/grant"),    STEP("/v3/auth/enable"),
};
enum { STEPS = sizeof steps / sizeof *steps };

static char *step_text(const enabling *on)
{
    if (strcmp(steps[on->step].path, "/v3/auth/enable") == 0)
        return strdup("{}");
    if (strcmp(steps[on->step].path, "/v3/auth/user/grant") == 0)
        return strdup("{\"user\":\"" ROOT "\",\"role\":\"root\"}");
    return rg__etcd_credentials(ROOT, on->password);
}

static void finish(enabling *on, rg_status st)
{
    on->fn(on->arg, st);
    free_enabling(on);
}

/* From now on this client needs the password itself. */
static rg_status become_root(enabling *on)
{
    rg__etcd *etcd = on->etcd;
    char *user = strdup(ROOT), *password = strdup(on->password);
    if (user == NULL || password == NULL) {
        free(user);
        free(password);
        return rg__fail(RG_ERR_MEMORY, "no memory for a password");
    }
    free(etcd->user);
    free(etcd->password);
    etcd->user = user;
    etcd->password = password;
    etcd->auth_is_off = false;
    return RG_OK;
}

static void post_step(enabling *on)
{
    if (rg__etcd_post(on->etcd, &steps[on->step], step_text(on), -1, on) ==
        NULL)
        finish(on, RG_ERR_MEMORY);
}

static void take_step(enabling *on, size_t step)
{
    on->step = step;
    if (step < STEPS)
        post_step(on);
    else
        finish(on, become_root(on));
}

static void on_step(void *arg, rg_status st, const rg__answer *answer)
{
    enabling *on = arg;
    const bool is_first = on->step == 0;
    if (is_first && st == RG_OK)
        take_step(on, STEPS);
    else if (st == RG_OK || rg__answer_says(answer, "already exists") ||
             (is_first && rg__answer_says(answer, "not enabled")))
        take_step(on, on->step + 1);
    else if (!is_first &&
             rg__etcd_is_about_token(answer->code, answer->message))
        take_step(on, 0); /* turned on meanwhile: with our password? */
    else
        finish(on, st);
}

void rg__etcd_enable_auth(rg__etcd *etcd, const char *password, rg__etcd_fn fn,
                          void *arg)
{
    enabling *on = calloc(1, sizeof *on);
    if (on != NULL)
        on->password = strdup(password);
    if (on == NULL || on->password == NULL) {
        free(on);
        rg__fail(RG_ERR_MEMORY, "no memory for a password");
        fn(arg, RG_ERR_MEMORY);
        return;
    }
    on->etcd = etcd;
    on->fn = fn;
    on->arg = arg;
    take_step(on, 0);
}

/* ------------------------------------------------------------------- probe */

typedef struct probing {
    rg__etcd_fn fn;
    void *arg;
} probing;

static void on_probed(void *arg, rg_status st, const rg__answer *answer)
{
    probing *p = arg;
    (void)answer;
    p->fn(p->arg, st);
    free(p);
}

/* No action or kind by number: 3.4.23 crashes on one that it does not know. */
void rg__etcd_probe_alarm(rg__etcd *etcd, rg__etcd_fn fn, void *arg)
{
    static const rg__call call = {.path = "/v3/maintenance/alarm",
                                  .timeout_ms = RG__ETCD_UNARY_MS,
                                  .read = read_any,
                                  .done = on_probed,
                                  .drop = free};
    probing *p = malloc(sizeof *p);
    char *body = strdup("{\"action\":\"DEACTIVATE\",\"alarm\":\"NONE\"}");
    if (p != NULL)
        *p = (probing){.fn = fn, .arg = arg};
    if (p != NULL && rg__etcd_post(etcd, &call, body, -1, p) != NULL)
        return;
    if (p == NULL)
        free(body);
    free(p);
    rg__fail(RG_ERR_MEMORY, "no memory to ask etcd");
    fn(arg, RG_ERR_MEMORY);
}
