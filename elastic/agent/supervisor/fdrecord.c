#include "elastic/agent/supervisor/fdrecord.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"

rg__fdrecord_name rg__fdrecord_name_as(const char *format, ...)
{
    rg__fdrecord_name name;
    va_list args;
    va_start(args, format);
    vsnprintf(name.text, sizeof name.text, format, args);
    va_end(args);
    return name;
}

rg__fdrecord *rg__fdrecord_find(const rg__fdrecord_list *list, const char *name)
{
    for (rg__fdrecord *k = list->first; k != NULL; k = k->next)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

rg__fdrecord *rg__fdrecord_next(const rg__fdrecord_list *list,
                                const char *start, const rg__fdrecord *after)
{
    const size_t n = strlen(start);
    for (rg__fdrecord *k = after != NULL ? after->next : list->first; k != NULL;
         k = k->next)
        if (strncmp(k->name, start, n) == 0)
            return k;
    return NULL;
}

rg__fdrecord *rg__fdrecord_of(const rg__fdrecord_list *list, int32_t pid)
{
    for (rg__fdrecord *k = list->first; k != NULL; k = k->next)
        if (k->pid == pid && pid > 0)
            return k;
    return NULL;
}

static void close_all(int fd[RG__FDRECORD_FDS])
{
    for (int i = 0; i < RG__FDRECORD_FDS; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        fd[i] = -1;
    }
}

rg_status rg__fdrecord_set(rg__fdrecord_list *list, const char *name,
                           int32_t pid, const void *bytes, size_t n,
                           int fd[RG__FDRECORD_FDS])
{
    rg__fdrecord **at = &list->first;
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    rg__fdrecord *k = malloc(sizeof *k + n);
    if (k == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to keep %s", name);
    *k = (rg__fdrecord){.pid = pid, .n = n};
    snprintf(k->name, sizeof k->name, "%s", name);
    for (int i = 0; i < RG__FDRECORD_FDS; i++) {
        k->fd[i] = fd[i];
        fd[i] = -1;
    }
    if (n > 0)
        memcpy(k->bytes, bytes, n);
    rg__fdrecord *old = *at;
    k->next = old != NULL ? old->next : NULL;
    *at = k;
    if (old != NULL) {
        close_all(old->fd);
        free(old);
    }
    return RG_OK;
}

void rg__fdrecord_drop(rg__fdrecord_list *list, const char *name)
{
    for (rg__fdrecord **at = &list->first; *at != NULL; at = &(*at)->next) {
        rg__fdrecord *k = *at;
        if (strcmp(k->name, name) != 0)
            continue;
        *at = k->next;
        close_all(k->fd);
        free(k);
        return;
    }
}

void rg__fdrecord_clear(rg__fdrecord_list *list)
{
    while (list->first != NULL)
        rg__fdrecord_drop(list, list->first->name);
}

void rg__fdrecord_close(rg__fdrecord_list *list)
{
    for (rg__fdrecord *k = list->first; k != NULL; k = k->next)
        close_all(k->fd);
}
