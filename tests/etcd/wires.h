/* Buffers and sockets of the fake server and the proxy. */
#ifndef TESTS_ETCD_WIRES_H
#define TESTS_ETCD_WIRES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bytes_buffer {
    char *bytes; /* a NUL behind n of them */
    size_t n;
} bytes_buffer;

void buffer_add(bytes_buffer *buffer, const char *bytes, size_t n);
char *buffer_take(bytes_buffer *buffer, size_t n); /* the first n, malloc'd */
/* As much as goes without waiting; false: the other side is gone. */
bool buffer_send(bytes_buffer *buffer, int sock);
bool buffer_receive(bytes_buffer *buffer, int sock);
/* Of the HTTP request at the beginning; 0: it isn't whole yet. */
size_t request_bytes(const bytes_buffer *buffer);

/* A listening socket on a free port, and its URL. */
int listen_somewhere(char *url, size_t bytes);
/* A socket that is being connected to such a URL. */
int connect_to(const char *url);

#endif
