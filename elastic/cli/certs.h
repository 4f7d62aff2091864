/* Certificates of a job's own, for a private etcd that other hosts reach: a CA,
 * a server's and one that all hosts of the job show. The CA's key is forgotten
 * at once, so it signs no further one. They never expire: clocks of hosts may
 * be wrong, and they are worth nothing without their job.
 *
 * Threads:   any.
 * Ownership: texts are borrowed until the call returns. */
#ifndef RG_ELASTIC_CERTS_H
#define RG_ELASTIC_CERTS_H

#include "regroup/regroup.h"

/* In the run directory, mode 0600. */
#define RG__CERTS_CA         "etcd.ca"     /* for etcd: the CA that it trusts */
#define RG__CERTS_SERVER     "etcd.server" /* its certificate and key */
#define RG__CERTS_INVITATION "etcd.invitation"

#define RG__CERTS_HASH 65 /* bytes of a SHA-256 in hexadecimal, and the NUL */

/* Make all, for an etcd at that address in numbers, and write the files. The
 * invitation is all that a client needs: the password in its first line, a
 * certificate with its key, and the CA, whose SHA-256 is told. ERR_SYSTEM. */
rg_status rg__certs_make(const char *dir, const char *address,
                         const char *password, char hash[RG__CERTS_HASH]);

/* Check that a PEM file holds the certificate of that SHA-256. ERR_INVALID. */
rg_status rg__certs_check(const char *path, const char *hash);

#endif
