/* Settings: a file, an environment, a command line, and the texts that some of
 * them hold. The first byte says how the rest is read; each line is a line of
 * the file, a variable or a word. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elastic/cli/cli.h"
#include "elastic/cli/listen.h"
#include "elastic/etcd/etcd.h"
#include "sdk/base/log.h"
#include "tests/fuzz/fuzz.h"

#define WORDS_MAX 32

typedef struct words {
    char *word[WORDS_MAX + 1];
    int n;
} words;

static void add_word(words *w, char *word)
{
    w->word[w->n++] = word;
    w->word[w->n] = NULL;
}

static void read_words(fuzz_input *in, words *w)
{
    while (in->left > 0 && w->n < WORDS_MAX)
        add_word(w, fuzz_line(in));
}

static void free_words(words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->word[i]);
}

/* What every setting must be once a command line has been taken. */
static void check_settings(const rg__cli *cli)
{
    const rg__settings *s = &cli->settings;
    FUZZ_CLAIM(s->np >= 0 && s->min >= 0 && s->max >= 0 && s->slots >= 0);
    FUZZ_CLAIM(s->user.max_restarts >= 0);
    FUZZ_CLAIM(s->job == NULL || s->job[0] != '\0');
    for (size_t i = 0; i < rg__cfg_count(cli->cfg); i++) {
        const rg__cfg_item item = rg__cfg_at(cli->cfg, i);
        FUZZ_CLAIM(item.where != NULL);
        FUZZ_CLAIM(rg__cfg_find(cli->cfg, item.field->name) == (int)i);
    }
    FUZZ_CLAIM(cli->argc >= 0 && cli->argv[cli->argc] == NULL);
}

/* getopt moves words about, so they are freed from a list of their own. */
static void take_command_line(const char *command, fuzz_input *in,
                              char *variable)
{
    char *const none[] = {variable, NULL};
    char **const before = environ;
    words w = {0}, argv = {0};
    rg__cli cli;
    add_word(&w, strdup(command));
    read_words(in, &w);
    argv = w;
    environ = (char **)(uintptr_t)none;
    if (rg__cli_open(&cli, command, argv.n, argv.word) == RG_OK &&
        !cli.wants_help)
        check_settings(&cli);
    rg__cli_close(&cli);
    environ = before;
    free_words(&w);
}

static void take_environment(fuzz_input *in)
{
    words w = {0};
    rg__cfg *cfg = NULL;
    rg__library_settings settings;
    FUZZ_CLAIM(rg__cfg_create(&cfg) == RG_OK);
    FUZZ_CLAIM(rg__cfg_add(cfg, rg__library_table, &settings) == RG_OK);
    read_words(in, &w);
    for (int i = 0; i < w.n; i++) /* files are another matter */
        if (strncmp(w.word[i], "REGROUP_CONFIG=", 15) == 0)
            w.word[i][0] = '_';
    rg__cfg_read(cfg, w.word, true);
    rg__cfg_destroy(cfg);
    free_words(&w);
}

static void take_file(fuzz_input *in)
{
    char path[64], *variable = NULL;
    const int fd = memfd_create("settings", MFD_CLOEXEC);
    FUZZ_CLAIM(fd >= 0);
    FUZZ_CLAIM(write(fd, in->at, in->left) == (ssize_t)in->left);
    snprintf(path, sizeof path, "REGROUP_CONFIG=/proc/self/fd/%d", fd);
    variable = strdup(path);
    in->left = 0;
    take_command_line("run", in, variable);
    free(variable);
    close(fd);
}

static void take_texts(fuzz_input *in)
{
    char *text = fuzz_line(in);
    rg__inet at;
    rg__loop *loop = NULL;
    rg__etcd *etcd = NULL;
    const rg__etcd_params params = {.endpoints = text};
    rg__log_levels(text);
    if (rg__listen_read(text, &at) == RG_OK)
        FUZZ_CLAIM(at.any.sa_family != 0);
    FUZZ_CLAIM(rg__loop_create(&loop) == RG_OK);
    if (rg__etcd_create(loop, &params, &etcd) == RG_OK)
        FUZZ_CLAIM(strncmp(text, "http", 4) == 0 ||
                   strncmp(text, "unix:///", 8) == 0);
    rg__etcd_destroy(etcd);
    rg__loop_destroy(loop);
    free(text);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    static const char *const commands[] = {"run", "agent", "status", "stop"};
    fuzz_input in = {bytes, n};
    const uint8_t how = fuzz_byte(&in);
    switch (how) {
    case 'f':
        take_file(&in);
        break;
    case 'e':
        take_environment(&in);
        break;
    case 't':
        take_texts(&in);
        break;
    default:
        take_command_line(commands[how % 4], &in, NULL);
    }
    rg__log_levels("error"); /* LOG may have been among them */
}
