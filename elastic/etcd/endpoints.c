/* Endpoints: what one looks like, and where it leads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "elastic/etcd/client.h"
#include "sdk/base/fail.h"

static bool has_tls(const char *url)
{
    return strncmp(url, "https://", 8) == 0;
}

const char *rg__etcd_socket(const char *endpoint)
{
    static const char scheme[] = "unix://";
    const size_t n = sizeof scheme - 1;
    return strncmp(endpoint, scheme, n) == 0 ? endpoint + n : NULL;
}

void rg__etcd_url(const char *endpoint, const char *path,
                  char url[RG__ETCD_URL_MAX])
{
    const bool is_socket = rg__etcd_socket(endpoint) != NULL;
    snprintf(url, RG__ETCD_URL_MAX, "%s%s",
             is_socket ? "http://localhost" : endpoint, path);
}

/* "http://host:port" or "[::1]:2379" into host and port. */
bool rg__etcd_split(const char *endpoints, char *host, size_t host_bytes,
                    char *port, size_t port_bytes)
{
    const char *scheme = strstr(endpoints, "://");
    const char *at = scheme != NULL ? scheme + 3 : endpoints;
    if (rg__etcd_socket(endpoints) != NULL)
        at = "127.0.0.1";
    const char *begin = at, *end = at + strcspn(at, ":/,");
    if (*at == '[') {
        begin = at + 1;
        end = begin + strcspn(begin, "]");
        at = *end == ']' ? end + 1 : end;
    } else {
        at = end;
    }
    const size_t n = (size_t)(end - begin);
    if (n == 0 || n >= host_bytes)
        return false;
    snprintf(host, host_bytes, "%.*s", (int)n, begin);
    snprintf(port, port_bytes, "%.*s",
             *at == ':' ? (int)strcspn(at + 1, "/,") : 4,
             *at == ':' ? at + 1 : "2379");
    return true;
}

static rg_status check_socket(const char *url, const char *path)
{
    const struct sockaddr_un *const address = NULL;
    if (path[0] == '/' && strlen(path) < sizeof address->sun_path)
        return RG_OK;
    return rg__fail(
        RG_ERR_INVALID,
        "\"%s\" is not an etcd endpoint; that of a socket looks like "
        "unix:///run/etcd/socket, and its path has at most %zu characters",
        url, sizeof address->sun_path - 1);
}

static rg_status check_endpoint(const char *url)
{
    const size_t n = strlen(has_tls(url) ? "https://" : "http://");
    const char *socket = rg__etcd_socket(url);
    if (socket != NULL)
        return check_socket(url, socket);
    if (strlen(url) > RG__ETCD_ENDPOINT_MAX)
        return rg__fail(RG_ERR_INVALID, "an etcd endpoint of %zu characters",
                        strlen(url));
    if ((!has_tls(url) && strncmp(url, "http://", n) != 0) || url[n] == '\0' ||
        url[n] == ':' || strpbrk(url + n, "/?#@ ") != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "\"%s\" is not an etcd endpoint; one looks like "
                        "http://127.0.0.1:2379 or https://etcd.example:2379",
                        url);
    return RG_OK;
}

static rg_status add_endpoint(rg__etcd *etcd, const char *url, size_t n)
{
    char **list = realloc(etcd->endpoints,
                          ((size_t)etcd->endpoint_count + 1) * sizeof *list);
    if (list == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for etcd's endpoints");
    etcd->endpoints = list;
    while (n > 0 && url[n - 1] == '/') /* http://a:2379/ is the same place */
        n--;
    char *copy = strndup(url, n);
    if (copy == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for etcd's endpoints");
    list[etcd->endpoint_count++] = copy;
    return check_endpoint(copy);
}

rg_status rg__endpoints_read(rg__etcd *etcd, const char *text)
{
    rg_status st = RG_OK;
    if (text == NULL || text[0] == '\0')
        return rg__fail(RG_ERR_INVALID, "no etcd endpoint is given");
    while (st == RG_OK) {
        const size_t n = strcspn(text, ",");
        st = add_endpoint(etcd, text, n);
        if (text[n] == '\0')
            break;
        text += n + 1;
    }
    return st;
}

/* With files for TLS, the password is not meant to travel unencrypted. */
rg_status rg__endpoints_check_tls(const rg__etcd *etcd,
                                  const rg__etcd_params *params)
{
    if (params->key != NULL && params->cert == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-key %s has no certificate; give its "
                        "certificate with --etcd-cert",
                        params->key);
    if (params->cacert == NULL && params->cert == NULL)
        return RG_OK;
    for (int i = 0; i < etcd->endpoint_count; i++)
        if (!has_tls(etcd->endpoints[i]))
            return rg__fail(
                RG_ERR_INVALID,
                "etcd endpoint %s is not encrypted, so --etcd-%s "
                "%s can't be used there; write https://",
                etcd->endpoints[i], params->cacert != NULL ? "cacert" : "cert",
                params->cacert != NULL ? params->cacert : params->cert);
    return RG_OK;
}
