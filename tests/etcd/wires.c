/* Buffers and sockets. */
#include "tests/etcd/wires.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/check.h"

void buffer_add(bytes_buffer *buffer, const char *bytes, size_t n)
{
    buffer->bytes = realloc(buffer->bytes, buffer->n + n + 1);
    CHECK(buffer->bytes != NULL);
    memcpy(buffer->bytes + buffer->n, bytes, n);
    buffer->n += n;
    buffer->bytes[buffer->n] = '\0';
}

static void drop_first(bytes_buffer *buffer, size_t n)
{
    memmove(buffer->bytes, buffer->bytes + n, buffer->n - n + 1);
    buffer->n -= n;
}

char *buffer_take(bytes_buffer *buffer, size_t n)
{
    char *taken = strndup(buffer->bytes, n);
    CHECK(taken != NULL);
    drop_first(buffer, n);
    return taken;
}

static bool may_continue(void)
{
    return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ||
           errno == EINPROGRESS;
}

bool buffer_send(bytes_buffer *buffer, int sock)
{
    if (buffer->n == 0)
        return true;
    const ssize_t sent =
        send(sock, buffer->bytes, buffer->n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return may_continue();
    drop_first(buffer, (size_t)sent);
    return true;
}

bool buffer_receive(bytes_buffer *buffer, int sock)
{
    char bytes[65536];
    const ssize_t got = recv(sock, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && may_continue();
    buffer_add(buffer, bytes, (size_t)got);
    return true;
}

size_t request_bytes(const bytes_buffer *buffer)
{
    if (buffer->n == 0)
        return 0;
    const char *end = strstr(buffer->bytes, "\r\n\r\n");
    const char *length = strcasestr(buffer->bytes, "\r\nContent-Length:");
    if (end == NULL)
        return 0;
    const size_t head = (size_t)(end + 4 - buffer->bytes);
    const size_t body =
        length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return buffer->n >= head + body ? head + body : 0;
}

int listen_somewhere(char *url, size_t bytes)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int sock =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(sock >= 0);
    CHECK_EQ(bind(sock, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(listen(sock, 64), 0);
    CHECK_EQ(getsockname(sock, (struct sockaddr *)&at, &n), 0);
    snprintf(url, bytes, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return sock;
}

int connect_to(const char *url)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    int port = 0;
    CHECK_EQ(sscanf(url, "http://127.0.0.1:%d", &port), 1);
    at.sin_port = htons((uint16_t)port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int sock =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(sock >= 0);
    if (connect(sock, (struct sockaddr *)&at, sizeof at) != 0)
        CHECK_EQ(errno, EINPROGRESS);
    return sock;
}
