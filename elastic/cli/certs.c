/* X.509 with libcrypto, which is used only here. */
#include "elastic/cli/certs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/proof.h"

/* A certificate and its key. */
typedef struct pair {
    X509 *cert;
    EVP_PKEY *key;
} pair;

typedef struct extension {
    int nid;
    const char *value;
} extension;

/* ------------------------------------------------------------------- making */

static bool add_extension(X509 *cert, X509 *issuer, const extension *e)
{
    X509V3_CTX about;
    X509V3_set_ctx_nodb(&about);
    X509V3_set_ctx(&about, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, &about, e->nid, e->value);
    const bool ok = made != NULL && X509_add_ext(cert, made, -1) == 1;
    X509_EXTENSION_free(made);
    return ok;
}

/* No CommonName: with passwords etcd refuses a client that has one, and etcd is
 * a client of itself. */
static bool fill(X509 *cert, const char *unit)
{
    uint64_t serial = 0;
    X509_NAME *name = X509_get_subject_name(cert);
    return RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
           X509_set_version(cert, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), serial >> 1) ==
               1 &&
           ASN1_TIME_set_string_X509(X509_getm_notBefore(cert),
                                     "20000101000000Z") == 1 &&
           ASN1_TIME_set_string_X509(X509_getm_notAfter(cert),
                                     "99991231235959Z") == 1 &&
           X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
                                      (const unsigned char *)"Regroup", -1, -1,
                                      0) == 1 &&
           X509_NAME_add_entry_by_txt(name, "OU", MBSTRING_ASC,
                                      (const unsigned char *)unit, -1, -1,
                                      0) == 1;
}

/* ca NULL: it signs itself. */
static bool make(pair *p, const char *unit, const pair *ca,
                 const extension *list)
{
    const pair *by = ca != NULL ? ca : p;
    p->key = EVP_EC_gen("P-256");
    p->cert = X509_new();
    if (p->key == NULL || p->cert == NULL || !fill(p->cert, unit) ||
        X509_set_issuer_name(p->cert, X509_get_subject_name(by->cert)) != 1 ||
        X509_set_pubkey(p->cert, p->key) != 1)
        return false;
    for (const extension *e = list; e->value != NULL; e++)
        if (!add_extension(p->cert, by->cert, e))
            return false;
    return X509_sign(p->cert, by->key, EVP_sha256()) > 0;
}

static void drop(pair *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
}

static bool hash_of(const X509 *cert, char hash[RG__CERTS_HASH])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (X509_digest(cert, EVP_sha256(), bytes, &n) != 1)
        return false;
    rg__hex(hash, bytes, n);
    return true;
}

/* ------------------------------------------------------------------ writing */

/* Each may be NULL: a first line, a certificate with its key, a CA. */
static bool write_file(const char *dir, const char *name, const char *line,
                       const pair *p, const pair *ca)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool ok = line == NULL || fprintf(out, "%s\n", line) > 0;
    if (p != NULL)
        ok = ok && PEM_write_X509(out, p->cert) == 1 &&
             PEM_write_PrivateKey(out, p->key, NULL, NULL, 0, NULL, NULL) == 1;
    if (ca != NULL)
        ok = ok && PEM_write_X509(out, ca->cert) == 1;
    return fclose(out) == 0 && ok;
}

static bool make_all(pair *ca, pair *server, pair *client, const char *address)
{
    char names[128];
    snprintf(names, sizeof names, "IP:%s", address);
    const extension of_ca[] = {{NID_basic_constraints, "critical,CA:TRUE"},
                               {NID_key_usage, "critical,keyCertSign"},
                               {NID_subject_key_identifier, "hash"},
                               {0, NULL}};
    const extension of_server[] = {
        {NID_subject_alt_name, names},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth,clientAuth"}, /* its gateway asks it */
        {NID_authority_key_identifier, "keyid"},
        {0, NULL}};
    const extension of_client[] = {{NID_key_usage, "critical,digitalSignature"},
                                   {NID_ext_key_usage, "clientAuth"},
                                   {NID_authority_key_identifier, "keyid"},
                                   {0, NULL}};
    return make(ca, "CA", NULL, of_ca) && make(server, "etcd", ca, of_server) &&
           make(client, "host", ca, of_client);
}

rg_status rg__certs_make(const char *dir, const char *address,
                         const char *password, char hash[RG__CERTS_HASH])
{
    pair ca = {0}, server = {0}, client = {0};
    const bool are_made =
        make_all(&ca, &server, &client, address) && hash_of(ca.cert, hash);
    errno = 0;
    const bool ok =
        are_made && write_file(dir, RG__CERTS_CA, NULL, NULL, &ca) &&
        write_file(dir, RG__CERTS_SERVER, NULL, &server, NULL) &&
        write_file(dir, RG__CERTS_INVITATION, password, &client, &ca);
    const char *why =
        are_made ? strerror(errno) : ERR_reason_error_string(ERR_get_error());
    drop(&ca);
    drop(&server);
    drop(&client);
    return ok ? RG_OK
              : rg__fail(RG_ERR_SYSTEM,
                         "the certificates for etcd can't be %s in %s: %s",
                         are_made ? "written" : "made", dir,
                         why != NULL ? why : "no memory");
}

/* ----------------------------------------------------------------- checking */

static bool holds(FILE *file, const char *hash)
{
    char found[RG__CERTS_HASH];
    bool is_there = false;
    for (X509 *cert = NULL; !is_there; X509_free(cert)) {
        cert = PEM_read_X509(file, NULL, NULL, NULL);
        if (cert == NULL)
            break;
        is_there = hash_of(cert, found) && strcasecmp(found, hash) == 0;
    }
    ERR_clear_error(); /* its end is one */
    return is_there;
}

rg_status rg__certs_check(const char *path, const char *hash)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return rg__fail(RG_ERR_INVALID, "the file %s can't be read: %s", path,
                        strerror(errno));
    const bool ok = holds(file, hash);
    fclose(file);
    return ok ? RG_OK
              : rg__fail(RG_ERR_INVALID,
                         "%s holds no certificate with the SHA-256 %s, so it "
                         "is from another job or start; copy the file of this "
                         "one (--etcd-ca-hash)",
                         path, hash);
}
