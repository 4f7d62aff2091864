/* Blocking talk with etcd, for the moments before a job begins. */
#include "elastic/cli/talk.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "elastic/cli/store.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* ------------------------------------------------------------------- talks */

static void end_talk(rg__talk *talk, rg_status st, const char *why)
{
    talk->st = st;
    snprintf(talk->why, sizeof talk->why, "%s", why);
    rg__loop_stop(talk->loop);
}

static void on_deadline(void *arg)
{
    rg__talk *talk = arg;
    const uint64_t more_ms = talk->more_ms;
    talk->more_ms = 0;
    if (more_ms != 0 && rg__etcd_is_slow(talk->etcd)) {
        rg__log(RG__WARN, "cli",
                "etcd at %s takes connections and does not answer yet; it is "
                "waited for another %llu s (--start-timeout)",
                talk->endpoints, (unsigned long long)(more_ms / 1000));
        rg__timer_set(talk->deadline, more_ms * RG__MS);
        return;
    }
    const char *why = rg__etcd_why(talk->etcd);
    char text[sizeof talk->why];
    snprintf(text, sizeof text, "etcd at %s gives no answer: %s%s",
             talk->endpoints, why[0] != '\0' ? why : "no connection was made",
             strchr(why, ';') != NULL ? "" /* it has a remedy */
                                      : "; is it running there? (--etcd)");
    end_talk(talk, RG_ERR_STORE, text);
}

static void on_signal(void *arg, int fd, uint32_t events)
{
    (void)fd, (void)events; /* left pending for the next code that waits for it
                             */
    end_talk(arg, RG_ERR_STORE, "stopped by a signal before the job began");
}

static void on_death(void *arg, int fd, uint32_t events)
{
    rg__talk *talk = arg;
    (void)fd, (void)events;
    talk->is_dead = true;
    end_talk(talk, RG_ERR_STORE, "etcd ended before it was ready");
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

rg_status rg__talk_open(rg__talk *talk, const rg__etcd_params *params,
                        int pidfd)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    *talk = (rg__talk){.endpoints = params->endpoints, .signals = -1};
    rg_status st = rg__loop_create(&talk->loop);
    if (st != RG_OK)
        return st;
    sigaction(SIGPIPE, &ignored, &talk->pipe);
    st = rg__etcd_create(talk->loop, params, &talk->etcd);
    if (st != RG_OK)
        return st;
    talk->deadline = rg__timer_create(talk->loop, on_deadline, talk);
    talk->signals = open_signals();
    if (talk->deadline == NULL || talk->signals < 0)
        return rg__fail(RG_ERR_SYSTEM, "no memory to talk to etcd");
    st = rg__loop_watch(talk->loop, talk->signals, EPOLLIN, on_signal, talk);
    if (st == RG_OK && pidfd >= 0)
        st = rg__loop_watch(talk->loop, pidfd, EPOLLIN, on_death, talk);
    return st;
}

rg_status rg__talk_wait(rg__talk *talk, uint64_t timeout_ms)
{
    rg__timer_set(talk->deadline, timeout_ms * RG__MS);
    rg__loop_run(talk->loop);
    rg__timer_stop(talk->deadline);
    return talk->st == RG_OK ? RG_OK : rg__fail(talk->st, "%s", talk->why);
}

rg_status rg__talk_ask(rg__talk *talk, rg__txn *txn, rg__txn_fn fn, void *arg,
                       uint64_t timeout_ms)
{
    return rg__etcd_txn(talk->etcd, txn, fn, arg) != NULL
               ? rg__talk_wait(talk, timeout_ms)
               : rg__fail(RG_ERR_MEMORY, "no memory to talk to etcd");
}

void rg__talk_close(rg__talk *talk)
{
    if (talk->loop == NULL)
        return;
    rg__etcd_destroy(talk->etcd);
    rg__timer_destroy(talk->deadline);
    if (talk->signals >= 0)
        close(talk->signals);
    rg__loop_destroy(talk->loop);
    sigaction(SIGPIPE, &talk->pipe, NULL);
    talk->loop = NULL;
}

void rg__talk_end(void *arg, rg_status st)
{
    end_talk(arg, st, st == RG_OK ? "" : rg_last_error());
}

void rg__talk_end_txn(void *arg, rg_status st, const rg__txn_reply *reply)
{
    (void)reply;
    rg__talk_end(arg, st);
}

/* ------------------------------------------------------------------- check */

rg_status rg__store_check(const rg__etcd_params *params, const char *job,
                          uint64_t timeout_ms, uint64_t late_ms)
{
    char key[128];
    rg__talk talk;
    snprintf(key, sizeof key, "/regroup/v1/%s/meta", job);
    rg_status st = rg__talk_open(&talk, params, -1);
    if (st == RG_OK) {
        rg__txn *txn = rg__txn_create();
        talk.more_ms = late_ms > timeout_ms ? late_ms - timeout_ms : 0;
        rg__txn_get(txn, RG__THEN, key, NULL);
        st = rg__talk_ask(&talk, txn, rg__talk_end_txn, &talk, timeout_ms);
    }
    rg__talk_close(&talk);
    return st;
}
