/* Lists of hosts, from text. */
#include "elastic/launch/host_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/page.h"

#define FILE_MIB   16
#define FILE_BYTES (FILE_MIB << 20)
#define LINE_BYTES 512

/* ------------------------------------------------------------------- a host */

/* User and brackets go; what is left is a name or an address. */
void rg__hosts_address(const char *target, char address[RG__LISTED_TARGET])
{
    const char *at = strrchr(target, '@');
    const char *from = at != NULL ? at + 1 : target;
    snprintf(address, RG__LISTED_TARGET, "%s", from + (*from == '['));
    address[strcspn(address, "]")] = '\0';
}

/* Letters of an address that a name may not have become dashes. */
static bool make_name(const char *target, char name[RG__LISTED_NAME])
{
    char address[RG__LISTED_TARGET];
    rg__hosts_address(target, address);
    size_t n = 0;
    for (; address[n] != '\0' && n < RG__LISTED_NAME - 1; n++)
        name[n] = isalnum((unsigned char)address[n]) ||
                          strchr("._", address[n]) != NULL
                      ? address[n]
                      : '-';
    name[n] = '\0';
    return address[n] == '\0' && isalnum((unsigned char)name[0]);
}

/* It becomes a word of a command line, where a dash would begin an option. */
static bool is_target(const char *text)
{
    const size_t n = strlen(text);
    if (n == 0 || n >= RG__LISTED_TARGET || text[0] == '-')
        return false;
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("._-@:[]%", *c) == NULL)
            return false;
    return true;
}

static bool read_slots(const char *text, int *slots_p)
{
    char *end = NULL;
    const long n = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || n < 1 ||
        n > RG__HOST_SLOTS_MAX)
        return false;
    *slots_p = (int)n;
    return true;
}

/* Cut "h1:4" in two. A bare IPv6 address has several colons and no number. */
static char *cut_slots(char *word)
{
    char *from = strrchr(word, ']');
    char *colon = strchr(from != NULL ? from : word, ':');
    if (colon == NULL || (from == NULL && strchr(colon + 1, ':') != NULL))
        return NULL;
    *colon = '\0';
    return colon + 1;
}

rg_status rg__hosts_add(rg__host_list *list, const char *target, int slots)
{
    rg__listed_host host = {.slots = slots};
    if (!is_target(target) || !make_name(target, host.name))
        return rg__fail(RG_ERR_INVALID, "\"%.80s\" is not the name of a host",
                        target);
    strcpy(host.target, target);
    for (int i = 0; i < list->n; i++) {
        rg__listed_host *same = &list->host[i];
        if (strcmp(same->name, host.name) != 0)
            continue;
        if (same->slots + slots > RG__HOST_SLOTS_MAX)
            return rg__fail(RG_ERR_INVALID,
                            "host %s is named with %d slots in all, and a host "
                            "can have %d",
                            host.name, same->slots + slots, RG__HOST_SLOTS_MAX);
        same->slots += slots;
        return RG_OK;
    }
    rg__listed_host *one = rg__grow(&list->host, (size_t)list->n, sizeof *one);
    if (one == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a list of hosts");
    *one = host;
    list->n++;
    return RG_OK;
}

static rg_status fail_slots(const char *text)
{
    return rg__fail(RG_ERR_INVALID,
                    "\"%.40s\" is not a number of slots; a host has 1 to %d",
                    text, RG__HOST_SLOTS_MAX);
}

/* "h1:4", or "h1" */
static rg_status add_word(rg__host_list *list, char *word, int slots)
{
    const char *number = cut_slots(word);
    if (number != NULL && !read_slots(number, &slots))
        return fail_slots(number);
    return rg__hosts_add(list, word, slots);
}

/* ------------------------------------------------------------------ a text */

rg_status rg__hosts_add_words(rg__host_list *list, const char *text, int slots)
{
    char *copy = strdup(text), *rest = copy;
    if (copy == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a list of hosts");
    rg_status st = RG_OK;
    while (st == RG_OK && rest != NULL) {
        char *word = strsep(&rest, ",");
        st = add_word(list, word, slots);
    }
    free(copy);
    if (st != RG_ERR_INVALID)
        return st;
    return rg__fail(st, "-H %.200s: %s; a list of hosts looks like h1:4,h2:4",
                    text, rg_last_error());
}

/* "slots=4", and the bound that others put on more workers than slots, which
 * are never started here. */
static rg_status take_option(const char *word, int *slots_p)
{
    if (strncmp(word, "slots=", 6) == 0)
        return read_slots(word + 6, slots_p) ? RG_OK : fail_slots(word + 6);
    if (strncmp(word, "max_slots=", 10) == 0 ||
        strncmp(word, "max-slots=", 10) == 0)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "\"%.80s\" is not understood after a host; write slots=N",
                    word);
}

static rg_status add_line(rg__host_list *list, char *line, int slots)
{
    char *rest = NULL;
    line[strcspn(line, "#\r")] = '\0';
    char *host = strtok_r(line, " \t", &rest);
    if (host == NULL)
        return RG_OK;
    rg_status st = RG_OK;
    for (char *word;
         st == RG_OK && (word = strtok_r(NULL, " \t", &rest)) != NULL;)
        st = take_option(word, &slots);
    return st == RG_OK ? add_word(list, host, slots) : st;
}

rg_status rg__hosts_add_lines(rg__host_list *list, const char *text,
                              const char *where, int slots)
{
    char line[LINE_BYTES];
    for (int number = 1; *text != '\0'; number++) {
        const size_t n = strcspn(text, "\n");
        rg_status st = RG_ERR_INVALID;
        if (n < sizeof line) {
            memcpy(line, text, n);
            line[n] = '\0';
            st = add_line(list, line, slots);
        } else {
            rg__fail(st, "it has over %zu bytes", sizeof line - 1);
        }
        if (st == RG_ERR_INVALID)
            return rg__fail(st, "%s, line %d: %s", where, number,
                            rg_last_error());
        if (st != RG_OK)
            return st;
        text += n + (text[n] == '\n');
    }
    return RG_OK;
}

rg_status rg__hosts_add_file(rg__host_list *list, const char *path, int slots)
{
    char where[300];
    FILE *file = fopen(path, "re");
    char *text = calloc(1, FILE_BYTES + 1);
    const size_t bytes =
        file != NULL && text != NULL ? fread(text, 1, FILE_BYTES, file) : 0;
    const bool is_read =
        bytes > 0 || (file != NULL && text != NULL && feof(file));
    rg_status st = RG_OK;
    if (!is_read)
        st = rg__fail(RG_ERR_INVALID,
                      "the hostfile %.200s can't be read: %s (--hostfile)",
                      path, strerror(errno));
    else if (bytes == FILE_BYTES || strlen(text) < bytes)
        st = rg__fail(RG_ERR_INVALID,
                      "the hostfile %.200s is not a text, or has %d MiB or "
                      "more; write a host on each line (--hostfile)",
                      path, FILE_MIB);
    if (file != NULL)
        fclose(file);
    snprintf(where, sizeof where, "hostfile %.200s", path);
    const int before = list->n;
    if (st == RG_OK)
        st = rg__hosts_add_lines(list, text, where, slots);
    free(text);
    if (st == RG_OK && list->n == before)
        st = rg__fail(RG_ERR_INVALID,
                      "%s names no host; write one on each line, as h1 slots=4",
                      where);
    return st;
}

void rg__hosts_free(rg__host_list *list)
{
    free(list->host);
    *list = (rg__host_list){0};
}

const rg__listed_host *rg__hosts_find(const rg__host_list *list,
                                      const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->host[i].name, name) == 0)
            return &list->host[i];
    return NULL;
}

int rg__hosts_slots(const rg__host_list *list)
{
    int slots = 0;
    for (int i = 0; i < list->n; i++)
        slots += list->host[i].slots;
    return slots;
}
