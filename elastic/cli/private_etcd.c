/* A private etcd: one member for one job, on this host. Its clients come by a
 * socket in the job's directory, which is ours alone. Only for --etcd-listen it
 * is then started again, at a port for other hosts, when the password is on and
 * there are certificates of the job's own. A port that is free is closed before
 * etcd opens it, so a clash is possible, and then another port is tried. It is
 * started again whenever it ends, at the same place and on the same data, where
 * the job's keys and the password lie: its clients notice a pause. Without
 * those data it would be an empty store that lets every client in, so then it
 * stays away. */
#include "elastic/cli/store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/cli/etcd_child.h"
#include "elastic/cli/listen.h"
#include "elastic/cli/talk.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/proof.h"

#define ATTEMPTS       5
#define READY_MS       20000 /* usually 0.1 s; seconds on a loaded machine */
#define AGAIN_FIRST_MS 100
#define AGAIN_MAX_MS   5000
#define STEADY_MS      10000 /* after so long it did not fail to start */

rg__etcd_params rg__private_etcd_params(const rg__private_etcd *etcd)
{
    const char *tls = etcd->is_open ? etcd->invitation : NULL;
    return (rg__etcd_params){.endpoints = etcd->endpoint,
                             .user = etcd->user,
                             .password = etcd->password,
                             .cacert = tls,
                             .cert = tls};
}

/* ---------------------------------------------------------------- readiness */

static rg_status await_write(rg__talk *talk)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_put(txn, "regroup/private", "1", 0);
    return rg__talk_ask(talk, txn, rg__talk_end_txn, talk, READY_MS);
}

static rg_status turn_auth_on(rg__talk *talk, const rg__private_etcd *etcd)
{
    rg__etcd_enable_auth(talk->etcd, etcd->password, rg__talk_end, talk);
    return rg__talk_wait(talk, READY_MS);
}

/* It is ready when it takes a write, not when it listens. */
static rg_status wait_ready(rg__private_etcd *etcd, bool has_auth,
                            bool *is_dead_p)
{
    rg__talk talk;
    const int pidfd = (int)syscall(SYS_pidfd_open, etcd->pid, 0);
    if (pidfd < 0)
        return rg__fail(RG_ERR_SYSTEM, "etcd can't be watched: %s",
                        strerror(errno));
    rg__etcd_params params = rg__private_etcd_params(etcd);
    if (!has_auth)
        params.user = params.password = NULL;
    rg_status st = rg__talk_open(&talk, &params, pidfd);
    if (st == RG_OK)
        st = await_write(&talk);
    if (st == RG_OK && !has_auth)
        st = turn_auth_on(&talk, etcd);
    *is_dead_p = talk.is_dead;
    rg__talk_close(&talk);
    close(pidfd);
    return st;
}

/* ----------------------------------------------------------------- starting */

static rg_status start_child(rg__private_etcd *etcd)
{
    etcd->started_ns = rg__now_ns();
    return rg__etcd_child_start(etcd->program, etcd->dir,
                                etcd->is_open ? etcd->endpoint : NULL,
                                &etcd->pid);
}

static rg_status choose_endpoint(rg__private_etcd *etcd, const rg__inet *at)
{
    etcd->is_open = at != NULL;
    if (etcd->is_open)
        return rg__listen_url(at, etcd->endpoint);
    if ((size_t)snprintf(etcd->endpoint, sizeof etcd->endpoint,
                         "unix://%s/" RG__ETCD_SOCKET,
                         etcd->dir) < sizeof etcd->endpoint)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "%s is too long a name for a socket's place", etcd->dir);
}

static rg_status fail_ended(const rg__private_etcd *etcd,
                            rg__etcd_child_lack lack, const char *said)
{
    switch (lack) {
    case RG__ETCD_CHILD_LACKS_THREADS:
        return rg__fail(RG_ERR_SYSTEM,
                        "this machine gives %s no more threads; raise the "
                        "limit of processes (ulimit -u, or pids.max of the "
                        "control group)",
                        etcd->program);
    case RG__ETCD_CHILD_LACKS_MEMORY:
        return rg__fail(RG_ERR_SYSTEM,
                        "this machine gives %s no memory; free some, or raise "
                        "the limit (ulimit -v, or memory.max of the control "
                        "group)",
                        etcd->program);
    case RG__ETCD_CHILD_LACKS_DISK:
        return rg__fail(RG_ERR_SYSTEM,
                        "%s can't write its files in %s: no room is left "
                        "there, or files are limited (ulimit -f); it needs "
                        "about 130 MiB; free some, or name another directory "
                        "(REGROUP_RUN_DIR)",
                        etcd->program, etcd->dir);
    case RG__ETCD_CHILD_LACKS_NOTHING:
        break;
    }
    return rg__fail(RG_ERR_STORE, "%s ended before it was ready: %s",
                    etcd->program, said);
}

/* One attempt; at: NULL for the socket, and where it names no port, with
 * another one each time. */
static rg_status attempt(rg__private_etcd *etcd, const rg__inet *at,
                         bool has_auth, bool *has_clashed_p)
{
    bool is_dead = false;
    rg_status st = choose_endpoint(etcd, at);
    if (st == RG_OK)
        st = start_child(etcd);
    if (st == RG_OK)
        st = wait_ready(etcd, has_auth, &is_dead);
    if (st == RG_OK || !is_dead)
        return st;
    char said[RG__ETCD_SAID];
    const rg__etcd_child_lack lack = rg__etcd_child_said(etcd->dir, said);
    *has_clashed_p = strstr(said, "address already in use") != NULL;
    rg__private_etcd_stop(etcd);
    return fail_ended(etcd, lack, said);
}

static rg_status start_at(rg__private_etcd *etcd, const rg__inet *at,
                          bool has_auth)
{
    rg_status st = RG_OK;
    for (int i = 0; i < ATTEMPTS; i++) {
        bool has_clashed = false;
        st = attempt(etcd, at, has_auth, &has_clashed);
        if (!has_clashed)
            break;
    }
    return st;
}

static rg_status make_password(rg__private_etcd *etcd)
{
    strcpy(etcd->user, "root");
    return rg__random_name(etcd->password);
}

static rg_status make_data(const rg__private_etcd *etcd)
{
    char data[PATH_MAX + 16];
    snprintf(data, sizeof data, "%s/etcd", etcd->dir);
    if (mkdir(data, 0700) == 0)
        return RG_OK;
    return rg__fail(RG_ERR_SYSTEM, "%s can't be made: %s", data,
                    strerror(errno));
}

/* From the socket to a port with two locks: certificates and the password. */
static rg_status open_to_others(rg__private_etcd *etcd, const rg__inet *at)
{
    rg__address host;
    rg__private_etcd_stop(etcd);
    rg__inet_show(&at->any, &host);
    snprintf(etcd->invitation, sizeof etcd->invitation,
             "%s/" RG__CERTS_INVITATION, etcd->dir);
    const rg_status st =
        rg__certs_make(etcd->dir, host.text, etcd->password, etcd->ca_hash);
    return st == RG_OK ? start_at(etcd, at, true) : st;
}

rg_status rg__private_etcd_start(rg__private_etcd *etcd, const char *program,
                                 const char *dir, const char *listen)
{
    rg__inet there;
    rg_status st = RG_OK;
    memset(etcd, 0, sizeof *etcd);
    snprintf(etcd->dir, sizeof etcd->dir, "%s", dir);
    if (listen != NULL)
        st = rg__listen_read(listen, &there);
    if (st == RG_OK && listen != NULL) /* before anything is started */
        st = rg__listen_url(&there, etcd->endpoint);
    if (st == RG_OK)
        st = rg__find_etcd(program, etcd->program);
    if (st == RG_OK)
        st = make_password(etcd);
    if (st == RG_OK)
        st = make_data(etcd);
    if (st == RG_OK)
        st = start_at(etcd, NULL, false);
    return st == RG_OK && listen != NULL ? open_to_others(etcd, &there) : st;
}

void rg__private_etcd_stop(rg__private_etcd *etcd)
{
    rg__etcd_child_stop(etcd->pid);
    etcd->pid = 0;
    etcd->again_ns = 0;
}

/* ----------------------------------------------------------- starting again */

static bool has_data(const rg__private_etcd *etcd)
{
    char member[PATH_MAX + 16];
    snprintf(member, sizeof member, "%s/etcd/member", etcd->dir);
    return access(member, F_OK) == 0;
}

static uint64_t pause_ms(int falls)
{
    const uint64_t ms = (uint64_t)AGAIN_FIRST_MS << (falls < 6 ? falls : 6);
    return ms < AGAIN_MAX_MS ? ms : AGAIN_MAX_MS;
}

/* At once the first time; an etcd that ends again and again has to wait. */
static void plan_again(rg__private_etcd *etcd)
{
    const uint64_t now = rg__now_ns();
    if (now - etcd->started_ns > STEADY_MS * RG__MS)
        etcd->falls = 0;
    const uint64_t ms = etcd->falls > 0 ? pause_ms(etcd->falls) : 0;
    etcd->again_ns = now + ms * RG__MS;
    etcd->falls++;
}

void rg__private_etcd_ended(rg__private_etcd *etcd, int status)
{
    const bool by_signal = WIFSIGNALED(status);
    const int number = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    char said[RG__ETCD_SAID];
    rg__etcd_child_said(etcd->dir, said);
    const bool goes_on = has_data(etcd);
    if (goes_on)
        plan_again(etcd);
    rg__log(RG__WARN, "cli", "the private etcd ended (%s %d)%s%s; %s",
            by_signal ? "signal" : "code", number, by_signal ? "" : ": ",
            by_signal ? "" : said,
            goes_on ? "it is started again on the same data, and training "
                      "goes on meanwhile"
                    : "its data are gone, so it stays away: training goes on, "
                      "but membership can't change any more; stop the job and "
                      "start it again when it suits");
}

int rg__private_etcd_keep(rg__private_etcd *etcd)
{
    const uint64_t now = rg__now_ns();
    if (etcd->again_ns == 0)
        return -1;
    if (now < etcd->again_ns)
        return (int)((etcd->again_ns - now) / RG__MS) + 1;
    etcd->again_ns = 0;
    if (start_child(etcd) == RG_OK)
        return -1;
    plan_again(etcd);
    rg__log(RG__WARN, "cli", "the private etcd is not started again yet: %s",
            rg_last_error());
    return (int)pause_ms(etcd->falls);
}
