/* How etcd is reached, from settings: the password, the files for TLS, or the
 * address of a private one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/certs.h"
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
    if (s->etcd == NULL && (s->etcd_cacert != NULL || s->etcd_cert != NULL ||
                            s->etcd_key != NULL || s->etcd_ca_hash != NULL))
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-cacert, --etcd-cert, --etcd-key and "
                        "--etcd-ca-hash are for the etcd of --etcd, which was "
                        "not given; a private etcd has its own");
    rg_status st = find_file("--etcd-cacert", s->etcd_cacert, l->cacert);
    if (st == RG_OK)
        st = find_file("--etcd-cert", s->etcd_cert, l->cert);
    if (st == RG_OK)
        st = find_file("--etcd-key", s->etcd_key, l->key);
    return st;
}

/* The file that the private etcd of another host has written (certs.h). */
static rg_status take_invitation(rg__launch *l, const rg__settings *s)
{
    if (s->etcd == NULL || s->etcd_user != NULL || s->etcd_cacert != NULL ||
        s->etcd_cert != NULL || s->etcd_password_file != NULL ||
        s->etcd_key != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-invitation %s belongs to --etcd, and takes the "
                        "place of --etcd-user, --etcd-password-file, "
                        "--etcd-cacert, --etcd-cert and --etcd-key",
                        s->etcd_invitation);
    rg_status st =
        find_file("--etcd-invitation", s->etcd_invitation, l->cacert);
    if (st != RG_OK)
        return st;
    strcpy(l->cert, l->cacert);
    strcpy(l->user, "root");
    return read_password(l->cacert, l->password, sizeof l->password);
}

static rg_status check_hash(const rg__launch *l, const rg__settings *s)
{
    if (s->etcd_ca_hash == NULL)
        return RG_OK;
    if (l->cacert[0] == '\0')
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-ca-hash %s has no file to check; give one "
                        "with --etcd-invitation or --etcd-cacert",
                        s->etcd_ca_hash);
    return rg__certs_check(l->cacert, s->etcd_ca_hash);
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
    if (st == RG_OK && s->etcd_invitation != NULL)
        st = take_invitation(l, s);
    else if (st == RG_OK)
        st = read_login(l, s);
    if (st == RG_OK)
        st = find_tls(l, s);
    return st == RG_OK ? check_hash(l, s) : st;
}
