/* What records are made of: ids, commits, names and texts as JSON values. */
#include "elastic/member/records_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Ids and generations exceed what JSON numbers keep everywhere: hex texts. */
json_t *rg__hex_json(uint64_t n)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, n);
    return json_string(text);
}

bool rg__hex_begins(const char *text, uint64_t *n_p)
{
    *n_p = 0;
    for (int i = 0; i < 16; i++) {
        const char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *n_p = *n_p << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

bool rg__hex_read(const json_t *j, uint64_t *n_p)
{
    const char *text = json_string_value(j);
    return text != NULL && rg__hex_begins(text, n_p) && text[16] == '\0';
}

json_t *rg__commit_json(rg__commit_id id)
{
    return id.generation == 0 ? json_null()
                              : json_pack("[I,I]", (json_int_t)id.generation,
                                          (json_int_t)id.step);
}

bool rg__commit_read(const json_t *j, rg__commit_id *id)
{
    *id = (rg__commit_id){0, 0};
    if (json_is_null(j))
        return true;
    const json_int_t g = json_integer_value(json_array_get(j, 0));
    const json_int_t s = json_integer_value(json_array_get(j, 1));
    if (json_array_size(j) != 2 || g < 1 || s < 0)
        return false;
    *id = (rg__commit_id){(uint64_t)g, (uint64_t)s};
    return true;
}

bool rg__text_read(char *to, size_t room, const json_t *j)
{
    const char *text = json_string_value(j);
    if (text == NULL || strlen(text) >= room)
        return false;
    strcpy(to, text);
    return true;
}

bool rg__text_field(const json_t *j, const char *key, char *to, size_t room)
{
    return rg__text_read(to, room, json_object_get(j, key));
}

bool rg__name_copy(char *to, size_t room, const char *name)
{
    const size_t n = strspn(
        name,
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (n == 0 || n >= room || name[n] != '\0')
        return false;
    memcpy(to, name, n + 1);
    return true;
}

char *rg__json_text(json_t *j)
{
    char *text = j == NULL ? NULL : json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return text;
}

/* A path may be any bytes; JSON takes UTF-8 only. */
json_t *rg__text_json(const char *text)
{
    json_t *j = json_string(text);
    return j != NULL ? j : json_string("?");
}
