/* The settings of the `regroup` command and the flags that set them. The table
 * of settings says what exists; that of flags, how it is spelled and which
 * commands take it. */
#include "elastic/cli/cli.h"
#include "elastic/cli/foreign.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define NAMES_MAX 4

/* Commands that take a flag. */
#define LAUNCHER "run config"
#define AGENT    "run agent config"
#define STORE    "run agent gc doctor config"

static const rg__cfg_field cli_table[] = {
    {"NP", NULL, RG__CFG_SIZE_AT(rg__settings, np),
     "workers in the world, neither more nor fewer; the same as --min and "
     "--max of that number"},
    {"MIN", NULL, RG__CFG_SIZE_AT(rg__settings, min),
     "fewest workers that go on; below it the job waits"},
    {"MAX", NULL, RG__CFG_SIZE_AT(rg__settings, max), "most workers"},
    {"SLOTS", NULL, RG__CFG_SIZE_AT(rg__settings, slots),
     "workers that this host starts; none: as many as the world may have, or "
     "as there are processors"},
    {"SPARES", "0", RG__CFG_COUNT_AT(rg__settings, spares),
     "slots beyond --max whose workers are also started and wait in rg_run; "
     "one of them replaces a worker that is lost"},
    {"MPI", "no", RG__CFG_TEXT_AT(rg__settings, mpi),
     "workers are the ranks of one mpirun, which is launched again, with the "
     "ranks in their order, after the loss of any of them; with ulfm, of Open "
     "MPI 5, the others go on in place while --min of them are left: yes, no "
     "or ulfm"},
    {"MPIRUN", NULL, RG__CFG_TEXT_AT(rg__settings, mpirun),
     "the mpirun of --mpi with flags of its own, such as `mpirun --bind-to "
     "core`, none that sets the number of ranks or their places; without it, "
     "that of the MPI which the program is linked with, or of PATH"},
    {"LAUNCH_TIMEOUT", "60s",
     RG__CFG_TIME_AT(rg__settings, user.launch_timeout_ms),
     "how long a launch of --mpi may take until all ranks have called rg_init; "
     "then another one is begun"},
    {"HANG_TIMEOUT", "0s", RG__CFG_TIME_AT(rg__settings, user.hang_ms),
     "how long a launch of --mpi may go on without the end of a step "
     "(rg_state_commit, rg_step_end), since the ranks may wait for each other; "
     "then another one is begun; 0s: never, but after REGROUP_STALL the wait "
     "is reported"},
    {"TAG", "auto", RG__CFG_TEXT_AT(rg__settings, tag),
     "whether lines of output begin with the worker's name and rank: yes, no, "
     "or auto, which is no under --mpi"},
    {"HOSTS", NULL, RG__CFG_TEXT_AT(rg__settings, hosts),
     "hosts on which agents are started, with their slots, as h1:4,h2:4; a "
     "host without a number has --slots, or 1; none: those of the allocation "
     "of Slurm, PBS or LSF in which this runs, if it runs in one"},
    {"HOSTFILE", NULL, RG__CFG_TEXT_AT(rg__settings, hostfile),
     "file with such a host on each line, as h1 slots=4 or h1:4"},
    {"HOST_DISCOVERY_SCRIPT", NULL, RG__CFG_TEXT_AT(rg__settings, discovery),
     "command that prints such lines for the hosts that are there now, run "
     "again and again; hosts that it no longer names leave at a commit"},
    {"DISCOVERY_INTERVAL", "1s", RG__CFG_TIME_AT(rg__settings, discovery_ms),
     "how long after the start of that command it is run again"},
    {"RSH",
     "ssh -T -x -o BatchMode=yes -o ConnectTimeout=10 "
     "-o ServerAliveInterval=15",
     RG__CFG_TEXT_AT(rg__settings, rsh),
     "command that is given a host and a command line, and runs it there; in "
     "an allocation of Slurm the default is srun --overlap"},
    {"PREFIX", NULL, RG__CFG_TEXT_AT(rg__settings, prefix),
     "directory where Regroup is installed on other hosts, so that its command "
     "is bin/regroup there; none: at the same place as here"},
    {"REMOTE_PATH", NULL, RG__CFG_TEXT_AT(rg__settings, remote_path),
     "the command `regroup` on other hosts; none: at the same place as here"},
    {"EXPORT_ALL", "yes", RG__CFG_YES_AT(rg__settings, export_all),
     "whether agents on other hosts, and so their workers, get your variables, "
     "except those of this machine and login (HOME, TMPDIR, SSH_* and the "
     "like) and of a launcher around this one; no: only those of -x. An "
     "allocation's srun passes variables on by itself"},
    {"ETCD", NULL, RG__CFG_TEXT_AT(rg__settings, etcd),
     "endpoints of etcd, comma separated, tried in order, as "
     "http://10.0.0.9:2379, https://... or unix:///a/socket/here; `regroup "
     "run` without it starts a private one"},
    {"ETCD_BIN", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_bin),
     "the etcd program for a private etcd; none: from PATH"},
    {"ETCD_LISTEN", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_listen),
     "address at which a private etcd is open to other hosts, as 10.0.0.1 or "
     "10.0.0.1:2379; the job then needs this host until it ends; none: this "
     "host only"},
    {"ETCD_USER", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_user),
     "user of etcd; none: no authentication"},
    {"ETCD_PASSWORD_FILE", NULL,
     RG__CFG_TEXT_AT(rg__settings, etcd_password_file),
     "file whose first line is that user's password"},
    {"ETCD_CACERT", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_cacert),
     "file of the CA that signs the certificates of https endpoints; none: "
     "those that this machine trusts"},
    {"ETCD_CERT", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_cert),
     "file of a certificate to show to etcd; with a password it must have no "
     "CommonName"},
    {"ETCD_KEY", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_key),
     "file of that certificate's key; none: it is in the same file"},
    {"ETCD_INVITATION", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_invitation),
     "a copy of the file that `regroup run --etcd-listen` names: user, "
     "password, certificate, key and CA in one"},
    {"ETCD_CA_HASH", NULL, RG__CFG_TEXT_AT(rg__settings, etcd_ca_hash),
     "SHA-256 of the CA's certificate, in hexadecimal, which that file or "
     "--etcd-cacert must hold; none: it is not checked"},
    {"JOB", NULL, RG__CFG_TEXT_AT(rg__settings, job),
     "the job's name; none: from the program's name and the process number"},
    {"HOST", NULL, RG__CFG_TEXT_AT(rg__settings, host),
     "this host's name in the job; none: the machine's"},
    {"ADVERTISE", NULL, RG__CFG_TEXT_AT(rg__settings, user.advertise),
     "this host's address for the other hosts, in numbers; none: the source "
     "address of the route to etcd"},
    {"HISTORY", NULL, RG__CFG_TEXT_AT(rg__settings, history),
     "directory where workers write what happened, as JSON lines"},
    {"OUTPUT", NULL, RG__CFG_TEXT_AT(rg__settings, output),
     "directory for a file per worker process with its output; none: each "
     "line here, after the worker's name and rank"},
    {"MAX_RESTARTS", "3", RG__CFG_COUNT_AT(rg__settings, user.max_restarts),
     "how many failures of a slot's program, without a newer commit in "
     "between, are followed by a restart; a SIGKILL or SIGTERM from outside is "
     "no failure; 0: no slot is started again"},
    {"START_TIMEOUT", "30s",
     RG__CFG_TIME_AT(rg__settings, user.start_timeout_ms),
     "how long the first generation waits for --max workers before it starts "
     "with --min of them, how long hosts of a list are tried while fewer can "
     "be reached, and how long an agent that starts waits for an etcd that "
     "takes connections and answers late (10 s at least)"},
    {"ELASTIC_TIMEOUT", "600s",
     RG__CFG_TIME_AT(rg__settings, user.elastic_timeout_ms),
     "how long the job waits below --min before it ends with 75"},
    {"ETCD_TIMEOUT", "1h", RG__CFG_TIME_AT(rg__settings, user.etcd_timeout_ms),
     "how long a host that can do nothing without etcd, because its workers "
     "have finished or the world is broken, waits for an etcd that is away "
     "before it leaves with 69 or 75; and how long a job that is done waits "
     "for other hosts meanwhile"},
    {"AGENT_GRACE", "10s", RG__CFG_TIME_AT(rg__settings, user.grace_ms),
     "how long workers live without their agent"},
    {"DETECT", "auto", RG__CFG_DETECT_AT(rg__settings, detect_ms),
     "a silent worker or host counts as lost after this long: auto (begins "
     "with 500ms; from 300ms for hosts, 500ms for workers, up to 3s, as the "
     "delays of the last ten minutes ask for), lan (500ms), cloud (3s) or a "
     "time"},
    {"NOTICE", "auto", RG__CFG_TEXT_AT(rg__settings, user.notice),
     "sources that announce that this host will be taken away, so that it "
     "leaves in time: aws, gcp, azure, kubernetes[:PATH], file:PATH, url:URL, "
     "command:CMD, several with commas; auto: the cloud that this machine's "
     "firmware names; none"},
    {"NOTICE_LEAD", "2m", RG__CFG_TIME_AT(rg__settings, user.notice_lead_ms),
     "how long before the time that a notice names the host begins to leave"},
    {"NOTICE_ADVICE", "show", RG__CFG_TEXT_AT(rg__settings, notice_advice),
     "what follows from advice, such as a rebalance recommendation: show it, "
     "or leave, as from a notice"},
    {"NOTICE_EVERY", "2s", RG__CFG_TIME_AT(rg__settings, user.notice_every_ms),
     "how often sources of notices are asked"},
    {"NOTICE_BASE", NULL, RG__CFG_TEXT_AT(rg__settings, user.notice_base),
     "address of the clouds' metadata service, as http://[fd00:ec2::254]; "
     "none: at http://169.254.169.254"},
    {"NOTICE_DMI", NULL, RG__CFG_TEXT_AT(rg__settings, user.notice_dmi),
     "directory in which --notice auto looks for the cloud's name; none: "
     "/sys/class/dmi/id"},
    {"VAULT_MAX", "0", RG__CFG_BYTES_AT(rg__settings, user.vault_max_bytes),
     "most memory of this host for commits; 0: what the machine has"},
    {"METRICS", NULL, RG__CFG_TEXT_AT(rg__settings, user.metrics),
     "where the agent shows /metrics (Prometheus) and /healthz over HTTP, as "
     "9100 (loopback), 10.0.0.7:9100, or 0 for any free port, which `regroup "
     "status` shows; none: nowhere"},
    {"METRICS_CSV", NULL, RG__CFG_TEXT_AT(rg__settings, user.metrics_csv),
     "file to which the agent of rank 0 writes what the program gives to "
     "rg_metric, a line for each metric of a step; on several hosts with the "
     "host's name before the ending; none: no file"},
    {"METRICS_TENSORBOARD", NULL,
     RG__CFG_TEXT_AT(rg__settings, user.metrics_board),
     "directory to which it writes the same as an event file for TensorBoard; "
     "none: no file"},
    {"TIMELINE", NULL, RG__CFG_TEXT_AT(rg__settings, user.timeline),
     "file of a timeline in Chrome's trace format: operations, waits, commits "
     "and changes of the world; on several hosts each agent writes its own, "
     "with the host's name before the ending; none: no file"},
    {"RUN_DIR", NULL, RG__CFG_TEXT_AT(rg__settings, run_dir),
     "directory of the jobs' run directories; none: regroup in "
     "XDG_RUNTIME_DIR, or /tmp/regroup-<uid>"},
    {"TIMEOUT", "45s", RG__CFG_TIME_AT(rg__settings, timeout_ms),
     "how long `regroup stop` waits for the job's end"},
    {"INTERVAL", "1s", RG__CFG_TIME_AT(rg__settings, interval_ms),
     "how often `--watch` and `--follow` look again"},
    {"DEADLINE", "30s", RG__CFG_TIME_AT(rg__settings, user.deadline_ms),
     "how long a host that is asked to leave (drain, SIGTERM, a notice without "
     "a time) may take until its next commit; then it leaves without one"},
    {"PEER", NULL, RG__CFG_TEXT_AT(rg__settings, peer),
     "host that `regroup doctor` checks the way to: a name or address, with "
     "the port of an agent if that is known; with --job, which runs here or in "
     "the etcd of --etcd, also the name of a host in that job"},
    {"OLDER_THAN", "1h", RG__CFG_TIME_AT(rg__settings, older_than_ms),
     "how long a job must have been without hosts in etcd before `regroup gc` "
     "removes it"},
    {NULL}};

/* A flag that sets a field of this command line, and no setting. */
#define PLAIN  NULL
#define EXPORT "-x" /* likewise; may be given several times */
#define EXPORT_DOC                                                             \
    "a variable that the workers on all hosts get, with this value or with "   \
    "the one that it has here; NAME* means all whose names begin so; may be "  \
    "given again"

typedef struct plain {
    const char *name;
    size_t offset; /* of a bool of rg__cli */
    const char *doc;
} plain;

static const plain plains[] = {
    {"json", offsetof(rg__cli, json), "print JSON, for programs"},
    {"watch", offsetof(rg__cli, watch),
     "show it again and again until the job ends"},
    {"no-stacks", offsetof(rg__cli, no_stacks),
     "leave the stacks of threads out, so that no worker is stopped"},
    {"dry-run", offsetof(rg__cli, dry_run),
     "say what would be removed, and change nothing"},
    {"replace-job", offsetof(rg__cli, replace_job),
     "declare an earlier job of that name, which has not ended, dead, and "
     "begin again"},
    {"follow", offsetof(rg__cli, follow),
     "go on printing events until the job ends"},
    {"help", offsetof(rg__cli, wants_help), "print this"},
};

typedef struct flag {
    const char *setting; /* or PLAIN */
    const char *value;   /* what its value is called, "[=...]": it may have
                            one; NULL: it has none */
    const char *commands;
    const char *names[NAMES_MAX]; /* the first is shown; one letter: -n */
} flag;

static const flag flags[] = {
    {"NP", "N", "run agent scale config", {"n", "np"}},
    {"MIN", "N", "run agent scale config", {"min", "min-np"}},
    {"MAX", "N", "run agent scale config", {"max", "max-np"}},
    {"SLOTS", "N", AGENT, {"slots", "nproc-per-node", "slots-per-host"}},
    {"SPARES", "N", LAUNCHER, {"spares"}},
    {"MPI", "[=ulfm]", AGENT, {"mpi"}},
    {"MPIRUN", "COMMAND", AGENT, {"mpirun"}},
    {"LAUNCH_TIMEOUT", "TIME", AGENT, {"launch-timeout"}},
    {"HANG_TIMEOUT", "TIME", AGENT, {"hang-timeout"}},
    {"TAG", NULL, AGENT, {"tag"}},
    {"HOSTS", "HOST:SLOTS,...", LAUNCHER, {"H", "hosts"}},
    {"HOSTFILE", "PATH", LAUNCHER, {"hostfile", "machinefile"}},
    {"HOST_DISCOVERY_SCRIPT", "COMMAND", LAUNCHER, {"host-discovery-script"}},
    {"DISCOVERY_INTERVAL", "TIME", LAUNCHER, {"discovery-interval"}},
    {"RSH", "COMMAND", LAUNCHER, {"rsh"}},
    {"PREFIX", "DIR", LAUNCHER, {"prefix"}},
    {"REMOTE_PATH", "PATH", LAUNCHER, {"remote-path"}},
    {EXPORT, "NAME[=VALUE]", "run", {"x", "export"}},
    {"EXPORT_ALL", "yes|no", LAUNCHER, {"export-all"}},
    {"ETCD", "URL,...", STORE, {"etcd"}},
    {"ETCD_BIN", "PATH", "run doctor config", {"etcd-bin"}},
    {"ETCD_LISTEN", "IP[:PORT]", LAUNCHER, {"etcd-listen"}},
    {"ETCD_USER", "NAME", STORE, {"etcd-user"}},
    {"ETCD_PASSWORD_FILE", "PATH", STORE, {"etcd-password-file"}},
    {"ETCD_CACERT", "PATH", STORE, {"etcd-cacert"}},
    {"ETCD_CERT", "PATH", STORE, {"etcd-cert"}},
    {"ETCD_KEY", "PATH", STORE, {"etcd-key"}},
    {"ETCD_INVITATION", "PATH", STORE, {"etcd-invitation"}},
    {"ETCD_CA_HASH", "SHA256", STORE, {"etcd-ca-hash"}},
    {"JOB", "NAME", "run agent doctor config", {"job"}},
    {"PEER", "HOST[:PORT]", "doctor config", {"peer"}},
    {"HOST", "ID", AGENT, {"host"}},
    {"ADVERTISE", "ADDR", AGENT, {"advertise"}},
    {"INTERFACE", "NAME|CIDR", AGENT, {"interface"}},
    {"HISTORY", "DIR", AGENT, {"history"}},
    {"OUTPUT", "DIR", AGENT, {"output"}},
    {"MAX_RESTARTS", "N", AGENT, {"max-restarts"}},
    {"START_TIMEOUT", "TIME", AGENT, {"start-timeout"}},
    {"ELASTIC_TIMEOUT", "TIME", AGENT, {"elastic-timeout"}},
    {"ETCD_TIMEOUT", "TIME", AGENT, {"etcd-timeout"}},
    {"AGENT_GRACE", "TIME", AGENT, {"agent-grace"}},
    {"DETECT", "auto|lan|cloud|TIME", AGENT, {"detect"}},
    {"NOTICE", "SOURCE,...", "run agent doctor config", {"notice"}},
    {"NOTICE_LEAD", "TIME", AGENT, {"notice-lead"}},
    {"NOTICE_ADVICE", "show|leave", AGENT, {"notice-advice"}},
    {"NOTICE_EVERY", "TIME", AGENT, {"notice-every"}},
    {"NOTICE_BASE", "URL", "run agent doctor config", {"notice-base"}},
    {"VAULT_MAX", "SIZE", AGENT, {"vault-max"}},
    {"CHECKPOINT_DIR", "DIR", AGENT, {"checkpoint-dir"}},
    {"CHECKPOINT_EVERY", "N|TIME", AGENT, {"checkpoint-every"}},
    {"CHECKPOINT_KEEP", "N", AGENT, {"checkpoint-keep"}},
    {"CHECKPOINT_ON_STOP", "yes|no", AGENT, {"checkpoint-on-stop"}},
    {"AUTOTUNE", "yes|no", AGENT, {"autotune"}},
    {"AUTOTUNE_LOG", "FILE", AGENT, {"autotune-log"}},
    {"INTERPOSE", "NAME,...", "mpirun-preload config", {"interpose"}},
    {"METRICS", "[ADDR:]PORT", AGENT, {"metrics"}},
    {"METRICS_CSV", "FILE", AGENT, {"metrics-csv"}},
    {"METRICS_TENSORBOARD", "DIR", AGENT, {"metrics-tensorboard"}},
    {"TIMELINE", "FILE", AGENT, {"timeline"}},
    {"LOG_FORMAT", "text|json", AGENT, {"log-format"}},
    {"TIMEOUT", "TIME", "stop config", {"timeout"}},
    {"INTERVAL", "TIME", "status events config", {"interval"}},
    {"DEADLINE", "TIME", "run agent drain config", {"deadline"}},
    {"OLDER_THAN", "TIME", "gc config", {"older-than"}},
    {PLAIN, NULL, "gc", {"dry-run"}},
    {PLAIN, NULL, "run agent", {"replace-job"}},
    {PLAIN, NULL, "status events dump jobs config checkpoint", {"json"}},
    {PLAIN, NULL, "dump", {"no-stacks"}},
    {PLAIN, NULL, "status", {"watch"}},
    {PLAIN, NULL, "events", {"follow"}},
    {PLAIN, NULL, "", {"help", "h"}},
};

#define FLAGS (sizeof flags / sizeof *flags)

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *w = words; (w = strstr(w, word)) != NULL; w += n)
        if ((w == words || w[-1] == ' ') && (w[n] == ' ' || w[n] == '\0'))
            return true;
    return false;
}

/* A flag that names no command belongs to all. */
static bool is_flag_of(const flag *f, const char *command)
{
    return f->commands[0] == '\0' || has_word(f->commands, command);
}

/* -------------------------------------------------------------------- help */

static const rg__cfg_field *field_of(const char *setting)
{
    for (const rg__cfg_field *f = cli_table; f->name != NULL; f++)
        if (strcmp(f->name, setting) == 0)
            return f;
    for (const rg__cfg_field *f = rg__library_table; f->name != NULL; f++)
        if (strcmp(f->name, setting) == 0)
            return f;
    return NULL;
}

static bool is_export(const flag *f)
{
    return f->setting != PLAIN && strcmp(f->setting, EXPORT) == 0;
}

static const plain *plain_of(const flag *f)
{
    size_t i = 0;
    while (strcmp(plains[i].name, f->names[0]) != 0)
        i++;
    return &plains[i];
}

/* Print text in lines of at most 79 columns, indented. */
static void print_wrapped(const char *text, int indent)
{
    int column = 0;
    while (*text != '\0') {
        const int n = (int)strcspn(text, " ");
        if (column == 0 || column + 1 + n > 79) {
            printf("%s%*s", column == 0 ? "" : "\n", indent, "");
            column = indent;
        } else {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

static int takes_value(const flag *f)
{
    if (f->value == NULL)
        return no_argument;
    return strncmp(f->value, "[=", 2) == 0 ? optional_argument
                                           : required_argument;
}

static void print_spelling(const flag *f)
{
    printf(" ");
    for (int i = 0; i < NAMES_MAX && f->names[i] != NULL; i++)
        printf("%s %s%s", i > 0 ? "," : "", f->names[i][1] ? "--" : "-",
               f->names[i]);
    printf("%s%s\n", takes_value(f) == required_argument ? " " : "",
           f->value != NULL ? f->value : "");
}

void rg__cli_print_flags(const char *command)
{
    for (size_t i = 0; i < FLAGS; i++) {
        if (!is_flag_of(&flags[i], command))
            continue;
        print_spelling(&flags[i]);
        if (flags[i].setting == PLAIN) {
            print_wrapped(plain_of(&flags[i])->doc, 8);
            continue;
        }
        if (is_export(&flags[i])) {
            print_wrapped(EXPORT_DOC, 8);
            continue;
        }
        const rg__cfg_field *field = field_of(flags[i].setting);
        char text[512];
        snprintf(text, sizeof text, "%s [REGROUP_%s%s%s]", field->doc,
                 field->name, field->value != NULL ? ", default " : "",
                 field->value != NULL ? field->value : "");
        print_wrapped(text, 8);
    }
}

/* ------------------------------------------------------------------- flags */

/* The arrays that getopt_long wants, made from the table. */
typedef struct spellings {
    struct option option[FLAGS * NAMES_MAX + 1];
    const char *name[FLAGS * NAMES_MAX + 1];
    char letters[2 * FLAGS + 3];
    size_t count;
} spellings;

static void add_spelling(spellings *s, const flag *f, const char *name)
{
    if (name[1] == '\0') {
        const size_t n = strlen(s->letters);
        s->letters[n] = name[0];
        s->letters[n + 1] = takes_value(f) == required_argument ? ':' : '\0';
        return;
    }
    s->name[s->count] = name;
    s->option[s->count++] = (struct option){
        .name = name, .has_arg = takes_value(f), .val = 256 + (int)(f - flags)};
}

/* '+': flags end at the first other word, if a program may follow; ':': a
 * missing value is told apart from an unknown flag. */
static void spell(spellings *s, const char *command)
{
    memset(s, 0, sizeof *s);
    strcpy(s->letters, has_word("run agent rank proxy mpirun-preload", command)
                           ? "+:"
                           : ":");
    for (size_t i = 0; i < FLAGS; i++) {
        if (!is_flag_of(&flags[i], command))
            continue;
        for (int k = 0; k < NAMES_MAX && flags[i].names[k] != NULL; k++)
            add_spelling(s, &flags[i], flags[i].names[k]);
    }
}

static const flag *flag_of(int got)
{
    if (got >= 256)
        return &flags[got - 256];
    for (size_t i = 0; i < FLAGS; i++)
        for (int k = 0; k < NAMES_MAX && flags[i].names[k] != NULL; k++)
            if (flags[i].names[k][0] == got && flags[i].names[k][1] == '\0')
                return &flags[i];
    return NULL;
}

/* Without its dashes and value, and as we write it: "node-rank". */
static void name_flag(const char *word, char name[64])
{
    word += strspn(word, "-");
    snprintf(name, 64, "%.*s", (int)strcspn(word, "="), word);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '_')
            *c = '-';
}

/* getopt_long has stopped at word; letter is what optopt says. */
static rg_status fail_flag(const spellings *s, const char *command,
                           const char *word, int letter)
{
    if (letter >= 256)
        return rg__fail(RG_ERR_INVALID, "%s takes no value", word);
    char name[64];
    name_flag(word, name);
    const char *instead = rg__foreign_flag(name);
    if (instead != NULL)
        return rg__fail(RG_ERR_INVALID, "`regroup %s` has no flag %s: %s",
                        command, word, instead);
    const char *bare = word + strspn(word, "-");
    if (letter == 0 && bare == word + 1 && bare[0] != '\0' && bare[1] == '\0')
        letter = bare[0];
    if (letter != 0)
        return rg__fail(RG_ERR_INVALID,
                        "`regroup %s` has no flag -%c; see `regroup %s --help`",
                        command, letter, command);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    const char *nearest = rg__nearest(name, s->name, s->count);
    if (nearest == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "`regroup %s` has no flag --%s; see `regroup %s "
                        "--help`",
                        command, name, command);
    return rg__fail(RG_ERR_INVALID,
                    "`regroup %s` has no flag --%s; did you mean --%s?",
                    command, name, nearest);
}

static rg_status take_export(rg__cli *cli, char *word)
{
    const size_t n = strcspn(word, "=");
    char **more =
        realloc(cli->exported, (size_t)(cli->exports + 1) * sizeof *more);
    if (more == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for -x %s", word);
    cli->exported = more;
    if (n == 0)
        return rg__fail(
            RG_ERR_INVALID,
            "-x %s names no variable; write -x NAME or -x NAME=VALUE", word);
    cli->exported[cli->exports++] = word;
    return RG_OK;
}

static rg_status take_flag(rg__cli *cli, const flag *f, char *value)
{
    if (is_export(f))
        return take_export(cli, value);
    if (f->setting == PLAIN) {
        *(bool *)((char *)cli + plain_of(f)->offset) = true;
        return RG_OK;
    }
    char where[64];
    snprintf(where, sizeof where, "%s%s", f->names[0][1] ? "--" : "-",
             f->names[0]);
    return rg__cfg_set(cli->cfg, f->setting, value != NULL ? value : "yes",
                       RG__CFG_FLAG, where);
}

/* getopt has not moved on while it is within letters behind one dash; it has
 * moved past words that are no flags. */
static const char *stumbled_on(char **argv, int at)
{
    return argv[at] != NULL && argv[at][0] == '-' ? argv[at] : argv[optind - 1];
}

static rg_status read_flags(rg__cli *cli, const char *command, int argc,
                            char **argv)
{
    spellings s;
    spell(&s, command);
    opterr = 0;
    optind = 0; /* glibc: begin again, at 1 */
    for (;;) {
        const int at = optind > 0 ? optind : 1;
        optopt = 0;
        /* a name may have one dash, as mpirun's -np and -hostfile have */
        const int got = getopt_long_only(argc, argv, s.letters, s.option, NULL);
        if (got == -1)
            return RG_OK;
        if (got == '?')
            return fail_flag(&s, command, stumbled_on(argv, at), optopt);
        if (got == ':')
            return rg__fail(RG_ERR_INVALID, "%s needs a value after it",
                            argv[optind - 1]);
        const rg_status st = take_flag(cli, flag_of(got), optarg);
        if (st != RG_OK || cli->wants_help)
            return st;
    }
}

/* ------------------------------------------------------------ command line */

static bool asks_for_help(int argc, char **argv)
{
    return argc > 1 &&
           (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static rg_status add_tables(rg__cli *cli)
{
    rg_status st = rg__cfg_create(&cli->cfg);
    if (st == RG_OK)
        st = rg__cfg_add(cli->cfg, cli_table, &cli->settings);
    if (st == RG_OK)
        st = rg__cfg_add(cli->cfg, rg__library_table, &cli->settings.library);
    return st;
}

void rg__cli_open_what_is_closed(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

rg_status rg__cli_open(rg__cli *cli, const char *command, int argc, char **argv)
{
    memset(cli, 0, sizeof *cli);
    if (asks_for_help(argc, argv)) { /* works with a broken environment too */
        cli->wants_help = true;
        return RG_OK;
    }
    rg_status st = add_tables(cli);
    if (st == RG_OK)
        st = rg__cfg_read(cli->cfg, environ, true);
    if (st == RG_OK)
        st = read_flags(cli, command, argc, argv);
    if (st == RG_OK)
        st = rg__cfg_apply_log(cli->cfg);
    if (st != RG_OK || cli->wants_help)
        return st;
    cli->argc = argc - optind;
    cli->argv = argv + optind;
    return RG_OK;
}

void rg__cli_close(rg__cli *cli)
{
    rg__cfg_destroy(cli->cfg);
    free(cli->exported);
    memset(cli, 0, sizeof *cli);
}

int rg__cli_fail(rg_status st)
{
    rg__say("%s", rg_last_error());
    switch (st) {
    case RG_ERR_STORE:
    case RG_ERR_AGENT_LOST:
        return RG__EXIT_STORE;
    case RG_ERR_MEMORY:
    case RG_ERR_SYSTEM:
        return RG__EXIT_SYSTEM;
    default:
        return RG__EXIT_USAGE;
    }
}
