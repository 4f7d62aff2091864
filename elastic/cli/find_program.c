/* Find a program as a shell would, and say why it can't be run. */
#include "elastic/cli/find_program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sdk/base/child.h"
#include "sdk/base/fail.h"

static rg_status check_path(const char *name)
{
    struct stat at;
    if (stat(name, &at) != 0)
        return rg__fail(RG_ERR_INVALID, "there is no program %s: %s", name,
                        strerror(errno));
    if (S_ISDIR(at.st_mode))
        return rg__fail(RG_ERR_INVALID,
                        "%s is a directory; name the program to run", name);
    if (!rg__is_program(name))
        return rg__fail(RG_ERR_INVALID,
                        "%s can't be executed; run chmod +x on it, or name "
                        "its interpreter before it",
                        name);
    return RG_OK;
}

#define FIRST_LINE 256 /* bytes, of which the kernel looks for it */

/* If a script's interpreter is missing, the kernel names the script. */
static rg_status check_interpreter(const char *script)
{
    char line[FIRST_LINE + 1] = "";
    FILE *file = fopen(script, "re");
    if (file == NULL) /* it can be executed but not read */
        return RG_OK;
    line[fread(line, 1, FIRST_LINE, file)] = '\0';
    fclose(file);
    if (strncmp(line, "#!", 2) != 0)
        return RG_OK;
    line[strcspn(line, "\n")] = '\0';
    char *name = line + 2 + strspn(line + 2, " \t");
    name[strcspn(name, " \t")] = '\0';
    if (name[0] == '\0' || rg__is_program(name))
        return RG_OK;
    char *end = strchr(name, '\r');
    if (end != NULL)
        *end = '\0';
    return rg__fail(RG_ERR_INVALID,
                    "%s can't be run: \"%s\"%s, which its first line names as "
                    "its interpreter, can't be executed; correct that line, or "
                    "name the interpreter before the script",
                    script, name,
                    end != NULL ? " with a carriage return after it" : "");
}

rg_status rg__find_program(const char *name, char *path, size_t bytes)
{
    if (strchr(name, '/') != NULL) {
        const rg_status st = check_path(name);
        if (st != RG_OK)
            return st;
        if ((size_t)snprintf(path, bytes, "%s", name) >= bytes)
            return rg__fail(RG_ERR_INVALID, "the name %s is too long", name);
        return check_interpreter(path);
    }
    if (rg__find_in_path(name, path, bytes))
        return check_interpreter(path);
    if (rg__is_program(name))
        return rg__fail(
            RG_ERR_INVALID,
            "there is no program %s in PATH, but there is one here; write ./%s",
            name, name);
    return rg__fail(
        RG_ERR_INVALID,
        "there is no program %s in PATH; check its name or write its path",
        name);
}
