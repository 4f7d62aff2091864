/* Addresses to listen at, from text to URL. */
#include "elastic/cli/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"

#define ADDRESS_MAX 64 /* as text, with port and brackets */

/* ----------------------------------------------------------------- reading */

static bool is_any(const rg__inet *at)
{
    if (at->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&at->v6.sin6_addr);
    return at->v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

rg_status rg__listen_read(const char *text, rg__inet *at_p)
{
    rg__inet at;
    char copy[ADDRESS_MAX];
    const char *host = NULL, *port = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    if (strlen(text) >= sizeof copy || !rg__inet_split(copy, &host, &port) ||
        (port[0] != '\0' && rg__inet_port_read(port) < 1) ||
        strchr(host, '%') != NULL || /* a zone is local */
        rg__inet_find(host, port[0] != '\0' ? port : NULL,
                      AI_NUMERICHOST | AI_NUMERICSERV, &at) != 0)
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-listen \"%s\" is not an address; one looks "
                        "like 10.0.0.1, 10.0.0.1:2379 or [fd00::1]:2379",
                        text);
    if (is_any(&at))
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-listen %s is every address of this host; name "
                        "the one at which the other hosts reach it",
                        text);
    *at_p = at;
    return RG_OK;
}

/* ----------------------------------------------------------------- the URL */

static bool take_port(rg__inet *at)
{
    const int one = 1;
    const int sock = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return false;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const bool ok = bind(sock, &at->any, rg__inet_bytes(at)) == 0 &&
                    listen(sock, 1) == 0 && rg__inet_of(sock, at);
    const int cause = errno;
    close(sock);
    errno = cause;
    return ok;
}

rg_status rg__listen_url(const rg__inet *given, char url[RG__LISTEN_URL_MAX])
{
    rg__inet at = *given;
    rg__address host;
    const bool ok = take_port(&at);
    const int cause = errno;
    const uint32_t port = rg__inet_port(&at);
    rg__inet_show(&at.any, &host);
    snprintf(url, RG__LISTEN_URL_MAX,
             at.any.sa_family == AF_INET6 ? "https://[%s]:%u" : "https://%s:%u",
             host.text, port);
    if (ok)
        return RG_OK;
    if (cause == EADDRNOTAVAIL)
        return rg__fail(RG_ERR_INVALID,
                        "%s is not an address of this host; `ip address` lists "
                        "them (--etcd-listen)",
                        host.text);
    if (cause == EADDRINUSE)
        return rg__fail(RG_ERR_INVALID,
                        "port %u of %s is taken by another program; name "
                        "another, or none (--etcd-listen)",
                        port, host.text);
    return rg__fail(RG_ERR_SYSTEM, "etcd can't listen at %s: %s", host.text,
                    strerror(cause));
}
