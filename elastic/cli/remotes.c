/* What other hosts are told: this command line, as they need it. */
#include "elastic/cli/remotes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/exports.h"
#include "elastic/cli/find_program.h"
#include "elastic/launch/allocation.h"
#include "elastic/launch/route.h"
#include "sdk/base/fail.h"

/* ------------------------------------------------------------------ reading */

static rg_status read_lists(rg__remotes *r, const rg__settings *s)
{
    const int slots = s->slots != 0 ? s->slots : 1;
    rg_status st = RG_OK;
    if (s->discovery != NULL && (s->hosts != NULL || s->hostfile != NULL))
        return rg__fail(RG_ERR_INVALID,
                        "--host-discovery-script lists the hosts, and so do -H "
                        "and --hostfile; leave one of them out");
    if (s->hosts != NULL)
        st = rg__hosts_add_words(&r->hosts, s->hosts, slots);
    if (st == RG_OK && s->hostfile != NULL)
        st = rg__hosts_add_file(&r->hosts, s->hostfile, slots);
    return st;
}

static bool is_listed(const rg__settings *s)
{
    return s->hosts != NULL || s->hostfile != NULL || s->discovery != NULL;
}

/* Nothing is listed: the hosts are those of an allocation, if there is one. The
 * allocation's tasks do not bound a size that is given for this host alone. */
static rg_status read_allocation(rg__remotes *r, const rg__cli *cli)
{
    const rg__settings *s = &cli->settings;
    const bool has_size = s->np != 0 || s->min != 0 || s->max != 0;
    const rg_status st =
        rg__allocation_read(&r->hosts, s->slots != 0 ? s->slots : 1);
    if (st == RG_OK && r->hosts.n == 1 && (has_size || s->slots != 0) &&
        rg__route_is_here(r->hosts.host[0].target))
        rg__hosts_free(&r->hosts);
    r->has_any = r->hosts.n > 0;
    return st;
}

/* Where the allocation starts processes itself, and --rsh is not given. */
static const char *choose_rsh(const rg__cli *cli)
{
    char path[PATH_MAX];
    const rg__cfg_item item =
        rg__cfg_at(cli->cfg, (size_t)rg__cfg_find(cli->cfg, "RSH"));
    const char *shell = rg__allocation_shell();
    return item.origin == RG__CFG_DEFAULT && shell != NULL &&
                   rg__find_program("srun", path, sizeof path) == RG_OK
               ? shell
               : cli->settings.rsh;
}

static rg_status check_own_name(const rg__remotes *r, const rg__settings *s)
{
    const char *own = s->host != NULL ? s->host : "launcher";
    if (rg__hosts_find(&r->hosts, own) == NULL)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "a host of the list is called %s, as this process is in "
                    "the job; give it another name with --host",
                    own);
}

static rg_status check_alone(const rg__cfg *cfg)
{
    static const char *const names[] = {"RSH", "PREFIX", "REMOTE_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const rg__cfg_item item =
            rg__cfg_at(cfg, (size_t)rg__cfg_find(cfg, names[i]));
        if (item.origin == RG__CFG_FLAG)
            return rg__fail(RG_ERR_INVALID,
                            "%s is for agents on other hosts, which are listed "
                            "with -H, --hostfile or --host-discovery-script",
                            item.where);
    }
    return RG_OK;
}

static bool needs_rsh(const rg__host_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (!rg__route_is_here(list->host[i].target))
            return true;
    return list->n == 0; /* a script will say */
}

/* A shell runs it; anything but a plain word is left to the shell. */
static rg_status check_rsh(const rg__remotes *r)
{
    char word[PATH_MAX], path[PATH_MAX];
    const size_t n = strcspn(r->rsh, " \t");
    if (n == 0 || n >= sizeof word || !needs_rsh(&r->hosts) ||
        strcspn(r->rsh, "$`'\"\\;&|<>(){}*?[]~=#") < n)
        return RG_OK;
    snprintf(word, sizeof word, "%.*s", (int)n, r->rsh);
    if (rg__find_program(word, path, sizeof path) == RG_OK)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "--rsh %s can't reach other hosts: there is no such "
                    "program here; install it, or name another one",
                    word);
}

rg_status rg__remotes_read(rg__remotes *r, const rg__cli *cli)
{
    const rg__settings *s = &cli->settings;
    memset(r, 0, sizeof *r);
    r->has_any = is_listed(s);
    r->rsh = choose_rsh(cli);
    rg_status st = rg__exports_take(cli);
    if (st != RG_OK)
        return st;
    st = r->has_any ? read_lists(r, s) : read_allocation(r, cli);
    if (st == RG_OK && !r->has_any)
        return check_alone(cli->cfg);
    if (st == RG_OK)
        st = check_own_name(r, s);
    if (st == RG_OK)
        st = check_rsh(r);
    if (st == RG_OK)
        st = rg__route_mine(&r->hosts, &r->mine);
    return st;
}

int rg__remotes_slots(const rg__remotes *r)
{
    return r->has_any ? rg__hosts_slots(&r->hosts) : -1;
}

const char *rg__remotes_listen(const rg__remotes *r)
{
    return r->has_any ? r->mine.text : NULL;
}

/* --------------------------------------------------------------- the letter */

/* Settings of this host or this command alone, and those that the letter has
 * anyway; everything else that was set here is set there. */
static bool stays_here(const char *name)
{
    static const char names[] =
        " NP MIN MAX SLOTS SPARES JOB HOST ADVERTISE RUN_DIR CONFIG"
        " HOSTS HOSTFILE HOST_DISCOVERY_SCRIPT DISCOVERY_INTERVAL"
        " RSH PREFIX REMOTE_PATH EXPORT_ALL SOCKET SLOT LAUNCH LIBRARY"
        " PEER TIMEOUT INTERVAL OLDER_THAN"
        " ETCD ETCD_BIN ETCD_LISTEN ETCD_USER ETCD_PASSWORD_FILE ETCD_CACERT"
        " ETCD_CERT ETCD_KEY ETCD_CA_HASH ETCD_INVITATION ";
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(names, word) != NULL;
}

static void write_settings(rg__letter *letter, const rg__cfg *cfg)
{
    for (size_t i = 0; i < rg__cfg_count(cfg); i++) {
        const rg__cfg_item item = rg__cfg_at(cfg, i);
        char *line = NULL;
        if (item.origin == RG__CFG_DEFAULT || item.text == NULL ||
            stays_here(item.field->name))
            continue;
        if (asprintf(&line, "REGROUP_%s=%s", item.field->name, item.text) < 0)
            letter->has_failed = true;
        else
            rg__letter_add(letter, "variable", line);
        free(line);
    }
}

/* An allocation's srun brings the variables by itself: they are in the letter
 * only if the user asks for them. */
static bool brings_all(const rg__remotes *r, const rg__cli *cli)
{
    const rg__cfg_item item =
        rg__cfg_at(cli->cfg, (size_t)rg__cfg_find(cli->cfg, "EXPORT_ALL"));
    return cli->settings.export_all &&
           (r->rsh == cli->settings.rsh || item.origin != RG__CFG_DEFAULT);
}

static rg_status write_login(rg__letter *letter, const rg__agent_params *p)
{
    const rg__etcd_params *etcd = &p->etcd;
    const struct {
        const char *name, *path;
    } files[] = {
        {"cacert", etcd->cacert}, {"cert", etcd->cert}, {"key", etcd->key}};
    rg__letter_add(letter, "etcd", etcd->endpoints);
    rg__letter_add(letter, "is-private", p->has_etcd ? "1" : "0");
    if (etcd->user != NULL)
        rg__letter_add(letter, "user", etcd->user);
    if (etcd->password != NULL)
        rg__letter_add(letter, "password", etcd->password);
    rg_status st = RG_OK;
    for (size_t i = 0; st == RG_OK && i < sizeof files / sizeof *files; i++)
        if (files[i].path != NULL)
            st = rg__letter_add_file(letter, files[i].name, files[i].path);
    return st;
}

static rg_status write_letter(rg__remotes *r, const rg__cli *cli,
                              const rg__agent_params *p)
{
    rg__letter *letter = &r->letter;
    char directory[PATH_MAX], number[16];
    if (getcwd(directory, sizeof directory) == NULL)
        return rg__fail(RG_ERR_SYSTEM, "the working directory is gone: %s",
                        strerror(errno));
    rg__letter_add(letter, "directory", directory);
    rg__letter_add(letter, "job", p->job);
    snprintf(number, sizeof number, "%d", p->min);
    rg__letter_add(letter, "min", number);
    snprintf(number, sizeof number, "%d", p->max);
    rg__letter_add(letter, "max", number);
    write_settings(letter, cli->cfg);
    rg__exports_write(letter, cli, brings_all(r, cli));
    for (int i = 0; i < cli->argc; i++)
        rg__letter_add(letter, "word", cli->argv[i]);
    const rg_status st = write_login(letter, p);
    if (st == RG_OK && letter->has_failed)
        return rg__fail(RG_ERR_MEMORY,
                        "arguments and environment for other hosts are over "
                        "8 MiB, or there is no memory for them; --export-all "
                        "no leaves out what -x does not name");
    return st;
}

/* ------------------------------------------------------------- the launcher */

static rg_status find_programs(rg__remotes *r, const rg__settings *s)
{
    const ssize_t n =
        readlink("/proc/self/exe", r->own_program, sizeof r->own_program - 1);
    if (n <= 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "the path of this program is not known: %s",
                        strerror(errno));
    r->own_program[n] = '\0';
    const int room = (int)sizeof r->program;
    const int length =
        s->remote_path != NULL
            ? snprintf(r->program, sizeof r->program, "%s", s->remote_path)
        : s->prefix != NULL
            ? snprintf(r->program, sizeof r->program, "%s/bin/regroup",
                       s->prefix)
            : snprintf(r->program, sizeof r->program, "%s", r->own_program);
    return length < room ? RG_OK
                         : rg__fail(RG_ERR_INVALID,
                                    "--remote-path or --prefix is too long");
}

void rg__remotes_on_wait(rg__remotes *r, const rg__launcher_wait *wait)
{
    r->params.wait = *wait;
}

rg_status rg__remotes_prepare(rg__remotes *r, const rg__cli *cli,
                              rg__agent_params *p)
{
    const rg__settings *s = &cli->settings;
    if (!r->has_any)
        return RG_OK;
    p->has_remotes = true;
    p->user.metrics = NULL; /* the agents of the hosts show them */
    p->checkpoint_dir = s->library.checkpoint_dir; /* they write there */
    if (!p->has_etcd)
        p->user.notice = "none"; /* the job goes on without this machine */
    rg_status st = find_programs(r, s);
    if (st == RG_OK)
        st = write_letter(r, cli, p);
    if (st != RG_OK)
        return st;
    r->params = (rg__launcher_params){
        .host = p->host,
        .rsh = r->rsh,
        .program = r->program,
        .own_program = r->own_program,
        .letter = &r->letter,
        .hosts = &r->hosts,
        .discovery = s->discovery,
        .interval_ms = s->discovery_ms,
        .slots = s->slots != 0 ? s->slots : 1,
        .spares = s->spares,
        .start_timeout_ms = s->user.start_timeout_ms,
        .etcd_timeout_ms = s->user.etcd_timeout_ms,
        .has_last_checkpoint =
            p->checkpoint_dir != NULL && p->checkpoint_on_stop,
        .wait = r->params.wait};
    return rg__launcher_create(&r->params, &r->launcher);
}

void rg__remotes_free(rg__remotes *r)
{
    rg__launcher_destroy(r->launcher);
    rg__letter_free(&r->letter);
    rg__hosts_free(&r->hosts);
}

/* --------------------------------------------------------------- the
 * supervisor */

int rg__remotes_turn(rg__remotes *r)
{
    return r->launcher != NULL ? rg__launcher_turn(r->launcher) : -1;
}

void rg__remotes_ended(rg__remotes *r, pid_t pid, int status)
{
    if (r->launcher != NULL)
        rg__launcher_ended(r->launcher, pid, status);
}

void rg__remotes_sizes(rg__remotes *r, int min, int max, bool has_world)
{
    if (r->launcher != NULL)
        rg__launcher_sizes(r->launcher, min, max, has_world);
}

bool rg__remotes_is_over(const rg__remotes *r, int *code_p, const char **why_p)
{
    return r->launcher != NULL &&
           rg__launcher_is_over(r->launcher, code_p, why_p);
}

int rg__remotes_finish(rg__remotes *r, int code)
{
    return r->launcher != NULL ? rg__launcher_finish(r->launcher, code) : code;
}
