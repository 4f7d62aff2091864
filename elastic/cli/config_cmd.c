/* `regroup config`: every setting, its value, and where that comes from. */
#include <jansson.h>
#include <stdio.h>

#include "elastic/cli/cli.h"
#include "sdk/base/fail.h"

static const char *or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

static void print_table(const rg__cfg *cfg)
{
    printf("%-28s %-20s %-20s %s\n", "variable", "value", "from", "default");
    for (size_t i = 0; i < rg__cfg_count(cfg); i++) {
        const rg__cfg_item item = rg__cfg_at(cfg, i);
        printf("REGROUP_%-20s %-20s %-20s %s\n        %s\n", item.field->name,
               or_dash(item.text), item.where, or_dash(item.field->value),
               item.field->doc);
    }
}

/* A value may be any bytes; JSON takes UTF-8 only. */
static json_t *text_or_null(const char *text)
{
    json_t *json = text != NULL ? json_string(text) : NULL;
    return json != NULL ? json : json_null();
}

static int print_json(const rg__cfg *cfg)
{
    static const char *const origins[] = {"default", "file", "environment",
                                          "flag"};
    json_t *list = json_array();
    for (size_t i = 0; i < rg__cfg_count(cfg); i++) {
        const rg__cfg_item item = rg__cfg_at(cfg, i);
        json_t *one = json_pack("{s:s, s:s}", "origin", origins[item.origin],
                                "doc", item.field->doc);
        char variable[80];
        snprintf(variable, sizeof variable, "REGROUP_%s", item.field->name);
        json_object_set_new(one, "variable", json_string(variable));
        json_object_set_new(one, "value", text_or_null(item.text));
        json_object_set_new(one, "default", text_or_null(item.field->value));
        json_object_set_new(one, "from", text_or_null(item.where));
        json_array_append_new(list, one);
    }
    const int failed = json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return failed != 0 ? RG__EXIT_SYSTEM : 0;
}

int rg__cmd_config(rg__cli *cli)
{
    if (cli->argc > 0)
        return rg__cli_fail(rg__fail(
            RG_ERR_INVALID, "`regroup config` takes flags only, not %s",
            cli->argv[0]));
    if (cli->json)
        return print_json(cli->cfg);
    print_table(cli->cfg);
    return 0;
}
