/* Addresses to listen at, from text to URL. */
#include "elastic/cli/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/fail.h"

#define ADDRESS_MAX 64 /* as text, with port and brackets */

/* ----------------------------------------------------------------- reading */

/* Cut "host:port" or "[host]:port" in two; port "" when there is none. */
static bool split(char *text, const char **host_p, const char **port_p)
{
    char *end = NULL;
    *host_p = text;
    *port_p = "";
    if (text[0] == '[') {
        *host_p = text + 1;
        end = strchr(text, ']');
        if (end == NULL)
            return false;
        *end++ = '\0';
    } else {
        end = strchr(text, ':');
        if (end == NULL || strchr(end + 1, ':') != NULL)
            return true; /* a bare IPv6 address */
    }
    if (*end == '\0')
        return true;
    *port_p = end + 1;
    const bool has_port = *end == ':' && end[1] != '\0';
    *end = '\0';
    return has_port;
}

static bool is_port(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return text[digits] == '\0' && digits <= 5 &&
           (digits == 0 || (atoi(text) > 0 && atoi(text) <= 65535));
}

static bool resolve(const char *host, const char *port, rg__listen *listen)
{
    const struct addrinfo want = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                  .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!is_port(port) || strchr(host, '%') != NULL || /* a zone is local */
        getaddrinfo(host, port[0] != '\0' ? port : NULL, &want, &found) != 0)
        return false;
    memcpy(&listen->at, found->ai_addr, found->ai_addrlen);
    listen->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool is_any(const rg__listen *listen)
{
    if (listen->at.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(
            &((const struct sockaddr_in6 *)&listen->at)->sin6_addr);
    return ((const struct sockaddr_in *)&listen->at)->sin_addr.s_addr ==
           htonl(INADDR_ANY);
}

rg_status rg__listen_read(const char *text, rg__listen *listen_p)
{
    rg__listen listen = {0};
    char copy[ADDRESS_MAX];
    const char *host = NULL, *port = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    if (strlen(text) >= sizeof copy || !split(copy, &host, &port) ||
        !resolve(host, port, &listen))
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-listen \"%s\" is not an address; one looks "
                        "like 10.0.0.1, 10.0.0.1:2379 or [fd00::1]:2379",
                        text);
    if (is_any(&listen))
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-listen %s is every address of this host; name "
                        "the one at which the other hosts reach it",
                        text);
    *listen_p = listen;
    return RG_OK;
}

/* ----------------------------------------------------------------- the URL */

static in_port_t *port_of(struct sockaddr_storage *at)
{
    return at->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)at)->sin6_port
                                     : &((struct sockaddr_in *)at)->sin_port;
}

void rg__listen_host(const rg__listen *listen, char host[INET6_ADDRSTRLEN])
{
    const struct sockaddr_storage *at = &listen->at;
    const void *bytes =
        at->ss_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)at)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)at)->sin_addr;
    inet_ntop(at->ss_family, bytes, host, INET6_ADDRSTRLEN);
}

static bool take_port(struct sockaddr_storage *at, socklen_t bytes)
{
    const int one = 1;
    const int sock = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return false;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const bool ok = bind(sock, (struct sockaddr *)at, bytes) == 0 &&
                    listen(sock, 1) == 0 &&
                    getsockname(sock, (struct sockaddr *)at, &bytes) == 0;
    const int cause = errno;
    close(sock);
    errno = cause;
    return ok;
}

rg_status rg__listen_url(const rg__listen *listen, char url[RG__LISTEN_URL_MAX])
{
    struct sockaddr_storage at = listen->at;
    char host[INET6_ADDRSTRLEN];
    const bool ok = take_port(&at, listen->bytes);
    const int cause = errno, port = ntohs(*port_of(&at));
    rg__listen_host(listen, host);
    snprintf(url, RG__LISTEN_URL_MAX,
             at.ss_family == AF_INET6 ? "https://[%s]:%d" : "https://%s:%d",
             host, port);
    if (ok)
        return RG_OK;
    if (cause == EADDRNOTAVAIL)
        return rg__fail(RG_ERR_INVALID,
                        "%s is not an address of this host; `ip address` lists "
                        "them (--etcd-listen)",
                        host);
    if (cause == EADDRINUSE)
        return rg__fail(RG_ERR_INVALID,
                        "port %d of %s is taken by another program; name "
                        "another, or none (--etcd-listen)",
                        port, host);
    return rg__fail(RG_ERR_SYSTEM, "etcd can't listen at %s: %s", host,
                    strerror(cause));
}
