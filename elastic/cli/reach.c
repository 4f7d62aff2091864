/* How etcd is reached, from settings: the password, the files for TLS, or the
 * address of a private one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/launch.h"
#include "sdk/base/fail.h"

static rg_status read_password(const char *path, char *password, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "the password file %s can't be read: %s "
                        "(--etcd-password-file)",
                        path, strerror(errno));
    const bool is_there = fgets(password, (int)bytes, file) != NULL;
    fclose(file);
    if (is_there)
        password[strcspn(password, "\r\n")] = '\0';
    if (!is_there || password[0] == '\0')
        return rg__fail(RG_ERR_INVALID,
                        "the password file %s has no password in its first "
                        "line (--etcd-password-file)",
                        path);
    return RG_OK;
}

/* Absolute, since it is read again for each connection. */
static rg_status find_file(const char *flag, const char *setting,
                           char path[PATH_MAX])
{
    if (setting == NULL ||
        (realpath(setting, path) != NULL && access(path, R_OK) == 0))
        return RG_OK;
    return rg__fail(RG_ERR_INVALID, "the file %s can't be read: %s (%s)",
                    setting, strerror(errno), flag);
}

static rg_status find_tls(rg__launch *l, const rg__settings *s)
{
    if (s->etcd == NULL &&
        (s->etcd_cacert != NULL || s->etcd_cert != NULL || s->etcd_key != NULL))
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-cacert, --etcd-cert and --etcd-key are for the "
                        "etcd of --etcd, which was not given; a private etcd "
                        "speaks plain HTTP");
    rg_status st = find_file("--etcd-cacert", s->etcd_cacert, l->cacert);
    if (st == RG_OK)
        st = find_file("--etcd-cert", s->etcd_cert, l->cert);
    if (st == RG_OK)
        st = find_file("--etcd-key", s->etcd_key, l->key);
    return st;
}

static rg_status check_listen(const rg__settings *s)
{
    if (s->etcd == NULL || s->etcd_listen == NULL)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "--etcd-listen %s is for a private etcd, but --etcd names "
                    "another; leave one of them out",
                    s->etcd_listen);
}

static rg_status read_login(rg__launch *l, const rg__settings *s)
{
    if (s->etcd_user == NULL && s->etcd_password_file == NULL)
        return RG_OK;
    if (s->etcd == NULL || s->etcd_user == NULL ||
        s->etcd_password_file == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-user and --etcd-password-file belong together "
                        "and to --etcd; give all three");
    if (strlen(s->etcd_user) >= sizeof l->user)
        return rg__fail(RG_ERR_INVALID, "--etcd-user is over %zu bytes long",
                        sizeof l->user - 1);
    strcpy(l->user, s->etcd_user);
    return read_password(s->etcd_password_file, l->password,
                         sizeof l->password);
}

rg_status rg__launch_reach(rg__launch *l, const rg__settings *s)
{
    rg_status st = check_listen(s);
    if (st == RG_OK)
        st = read_login(l, s);
    return st == RG_OK ? find_tls(l, s) : st;
}
