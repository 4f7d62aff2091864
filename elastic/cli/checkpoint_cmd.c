/* `regroup checkpoint`: what lies in a directory of checkpoints or in a file,
 * and whether it is whole. Reads files only; no job and no etcd is asked. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "elastic/cli/cli.h"
#include "elastic/state/checkpoint_dir.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"

#define WHY_MAX 512

typedef struct found {
    char path[PATH_MAX];
    bool is_part;     /* not published; nothing of it was read */
    bool is_readable; /* what follows is there */
    rg__checkpoint c;
    char why[WHY_MAX]; /* why it is not whole, or "" */
} found;

typedef struct list {
    found *item;
    size_t count;
} list;

/* ----------------------------------------------------------------- finding */

static found *add(list *l, const char *dir, const char *name)
{
    found *f = rg__grow(&l->item, l->count, sizeof *f);
    if (f == NULL)
        return NULL;
    l->count++;
    snprintf(f->path, sizeof f->path, "%s%s%s", dir, dir[0] ? "/" : "", name);
    return f;
}

static rg_status look_into(found *f, bool verifies)
{
    rg__checkpoint_file file;
    rg_status st = rg__checkpoint_file_open(&file, f->path);
    if (st == RG_OK) {
        st = rg__checkpoint_open(&f->c, &file.source);
        f->is_readable = st == RG_OK;
        if (st == RG_OK && verifies)
            st = rg__checkpoint_verify(&f->c, &file.source);
        rg__checkpoint_file_close(&file);
    }
    if (st != RG_OK)
        snprintf(f->why, sizeof f->why, "%s", rg_last_error());
    return st;
}

static rg_status look_through(list *l, const char *dir, bool verifies)
{
    rg__checkpoint_name *names;
    size_t count;
    rg_status st = rg__checkpoint_list(dir, &names, &count);
    for (size_t i = 0; i < count && st == RG_OK; i++) {
        found *f = add(l, dir, names[i].text);
        if (f == NULL) {
            st = rg__fail(RG_ERR_MEMORY, "no memory for a list of checkpoints");
            break;
        }
        f->is_part = names[i].is_part;
        if (!f->is_part)
            look_into(f, verifies);
    }
    free(names);
    return st;
}

static rg_status look(list *l, const char *path, bool verifies, bool *is_dir_p)
{
    struct stat info;
    *is_dir_p = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (*is_dir_p)
        return look_through(l, path, verifies);
    found *f = add(l, "", path);
    if (f == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    const rg_status st = look_into(f, verifies);
    return st == RG_ERR_DAMAGED ? RG_OK : st;
}

static void free_list(list *l)
{
    for (size_t i = 0; i < l->count; i++)
        rg__checkpoint_close(&l->item[i].c);
    free(l->item);
}

/* -------------------------------------------------------------------- JSON */

/* Names may be any bytes; JSON takes UTF-8 only. */
static json_t *text_json(const char *text)
{
    json_t *j = json_string(text);
    return j != NULL ? j : json_string("?");
}

static json_t *buffers_json(const rg__checkpoint *c)
{
    json_t *buffers = json_array();
    for (uint32_t i = 0; i < c->buffers; i++)
        json_array_append_new(
            buffers,
            json_pack("{s:o,s:I,s:s}", "name", text_json(c->buffer[i].name),
                      "bytes", (json_int_t)c->buffer[i].bytes, "kind",
                      rg__checkpoint_kind(c->buffer[i].kind)));
    return buffers;
}

static void add_head(json_t *j, const rg__checkpoint *c)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, c->head_hash);
    json_object_update_new(
        j, json_pack("{s:I,s:I,s:I,s:i,s:I,s:f,s:s,s:s,s:s,s:s,s:o}", "serial",
                     (json_int_t)c->serial, "step", (json_int_t)c->id.step,
                     "generation", (json_int_t)c->id.generation, "workers",
                     (int)c->world_size, "bytes",
                     (json_int_t)rg__checkpoint_bytes(c), "at",
                     (double)c->saved_ms / 1000.0, "job", c->job, "host",
                     c->host, "version", c->version, "hash", hash, "buffers",
                     buffers_json(c)));
}

static json_t *found_json(const found *f)
{
    json_t *j = json_pack("{s:o,s:b,s:o}", "file", text_json(f->path),
                          "published", !f->is_part, "error",
                          f->why[0] != '\0' ? text_json(f->why) : json_null());
    if (f->is_readable)
        add_head(j, &f->c);
    return j;
}

static void print_json(const list *l, bool is_dir)
{
    json_t *all = json_array();
    for (size_t i = 0; i < l->count; i++)
        json_array_append_new(all, found_json(&l->item[i]));
    json_dumpf(is_dir ? all : json_array_get(all, 0), stdout,
               JSON_INDENT(2) | JSON_REAL_PRECISION(13));
    putchar('\n');
    json_decref(all);
}

/* ------------------------------------------------------------------ people */

static void put_time(uint64_t ms, char text[32])
{
    const time_t at = (time_t)(ms / 1000);
    struct tm utc;
    if (gmtime_r(&at, &utc) == NULL ||
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        strcpy(text, "-");
}

/* Some bytes would command a terminal. */
static void print_plain(const char *text)
{
    for (; *text != '\0'; text++)
        putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void print_row(const found *f)
{
    char at[32];
    const char *slash = strrchr(f->path, '/');
    const char *name = slash != NULL ? slash + 1 : f->path;
    if (!f->is_readable) {
        printf("%8s %10s %7s %14s  %-20s  %s\n", "-", "-", "-", "-",
               f->is_part ? "not published" : "damaged", name);
        return;
    }
    put_time(f->c.saved_ms, at);
    printf("%8" PRIu64 " %10" PRIu64 " %7" PRIu32 " %14" PRIu64 "  %-20s  %s\n",
           f->c.serial, f->c.id.step, f->c.world_size,
           rg__checkpoint_bytes(&f->c), at, name);
}

static void print_rows(const list *l)
{
    printf("%8s %10s %7s %14s  %-20s  %s\n", "serial", "step", "workers",
           "bytes", "saved", "file");
    for (size_t i = 0; i < l->count; i++)
        print_row(&l->item[i]);
}

static void print_file(const found *f)
{
    char at[32];
    put_time(f->c.saved_ms, at);
    printf("%s: step %" PRIu64 " of job %s, commit %" PRIu64 ".%" PRIu64
           " of %" PRIu32 " worker%s, checkpoint %" PRIu64 ", written %s by "
           "host %s with Regroup %s\n\n%-32s %14s  %s\n",
           f->path, f->c.id.step, f->c.job, f->c.id.generation, f->c.id.step,
           f->c.world_size, rg__plural(f->c.world_size), f->c.serial, at,
           f->c.host, f->c.version, "buffer", "bytes", "kind");
    for (uint32_t i = 0; i < f->c.buffers; i++) {
        print_plain(f->c.buffer[i].name);
        const int gap = 32 - (int)strlen(f->c.buffer[i].name);
        printf("%*s %14" PRIu64 "  %s\n", gap > 0 ? gap : 0, "",
               f->c.buffer[i].bytes, rg__checkpoint_kind(f->c.buffer[i].kind));
    }
}

/* ---------------------------------------------------------------- commands */

static void complain(const found *f)
{
    if (f->why[0] != '\0')
        fprintf(stderr, "regroup: %s\n", f->why);
}

static int show(const rg__cli *cli, const list *l, bool is_dir)
{
    if (cli->json)
        print_json(l, is_dir);
    else if (is_dir)
        print_rows(l);
    else if (l->item[0].is_readable)
        print_file(&l->item[0]);
    for (size_t i = 0; i < l->count; i++)
        complain(&l->item[i]);
    return !is_dir && !l->item[0].is_readable ? 1 : 0;
}

static int verify(const rg__cli *cli, const list *l, bool is_dir)
{
    bool is_whole = l->count > 0;
    if (l->count == 0)
        fprintf(stderr, "regroup: there is no checkpoint\n");
    if (cli->json)
        print_json(l, is_dir);
    for (size_t i = 0; i < l->count; i++) {
        const found *f = &l->item[i];
        is_whole = is_whole && f->why[0] == '\0';
        complain(f);
        if (!cli->json && f->is_readable && f->why[0] == '\0')
            printf("%s is whole: step %" PRIu64 ", %" PRIu32 " buffer%s, "
                   "%" PRIu64 " bytes\n",
                   f->path, f->c.id.step, f->c.buffers,
                   rg__plural(f->c.buffers), rg__checkpoint_bytes(&f->c));
    }
    return is_whole ? 0 : 1;
}

static rg_status read_words(const rg__cli *cli, const char **path_p,
                            bool *verifies_p)
{
    const char *what = cli->argc > 0 ? cli->argv[0] : "";
    *verifies_p = strcmp(what, "verify") == 0;
    if (!*verifies_p && strcmp(what, "show") != 0)
        return rg__fail(RG_ERR_INVALID,
                        "`regroup checkpoint` is followed by show or verify "
                        "and a file or directory, not by \"%s\"",
                        what);
    *path_p =
        cli->argc > 1 ? cli->argv[1] : cli->settings.library.checkpoint_dir;
    if (*path_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "no file or directory of checkpoints was named; write "
                        "it after `regroup checkpoint %s`",
                        what);
    if (cli->argc > 2)
        return rg__fail(RG_ERR_INVALID, "\"%s\" is one word too many",
                        cli->argv[2]);
    return RG_OK;
}

int rg__cmd_checkpoint(rg__cli *cli)
{
    const char *path = NULL;
    bool verifies = false, is_dir = false;
    list l = {0};
    int code = 0;
    rg_status st = read_words(cli, &path, &verifies);
    if (st == RG_OK)
        st = look(&l, path, verifies, &is_dir);
    if (st != RG_OK)
        code = rg__cli_fail(st);
    else
        code = verifies ? verify(cli, &l, is_dir) : show(cli, &l, is_dir);
    free_list(&l);
    return code;
}
