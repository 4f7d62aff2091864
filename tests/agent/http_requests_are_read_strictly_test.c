/* A head is whole at its empty line, however it arrives; text that is not a
 * request is refused before the head is whole; only the path counts, and a long
 * one is unknown.
 *
 * Covers: scrape_request.c */
#include <string.h>

#include "elastic/agent/control/scrape_request.h"
#include "tests/check.h"

static rg__scrape_request request;

static rg__scrape_verdict read_text(const char *text)
{
    request = (rg__scrape_request){.path = "untouched"};
    return rg__scrape_read(text, strlen(text), &request);
}

static void check_path(const char *text, const char *path, bool is_head)
{
    CHECK_EQ(read_text(text), RG__SCRAPE_OK);
    CHECK_STR(request.path, path);
    CHECK_EQ(request.is_head, is_head);
}

static void check_refused(const char *text, rg__scrape_verdict verdict)
{
    CHECK_EQ(read_text(text), verdict);
    CHECK_STR(request.path, "untouched");
}

static void check_good(void)
{
    check_path("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "/metrics", false);
    check_path("GET /metrics HTTP/1.0\n\n", "/metrics", false);
    check_path("HEAD /healthz?full=1 HTTP/1.1\r\n\r\nmore", "/healthz", true);
    check_path("GET / HTTP/1.1\r\nX: \xc3\xa4\tb\r\n\r\n\x01", "/", false);
    check_path("GET /012345678901234567890123456789 HTTP/1.1\n\n",
               "/012345678901234567890123456789", false);
    check_path("GET /0123456789012345678901234567890 HTTP/1.1\n\n", "", false);
}

static void check_bad(void)
{
    static const char *const bad[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /metrics\r\n\r\n", /* HTTP/0.9 */
        "GET  /metrics HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.1 \r\n\r\n",
        "GET /metrics HTTP/1.1 x\r\n\r\n",
        "GET /metrics HTTP/2.0\r\n\r\n",
        "GET /metrics HTTP/1.x\r\n\r\n",
        "GET metrics HTTP/1.1\r\n\r\n",
        "GET http://a/metrics HTTP/1.1\r\n\r\n",
        " GET /metrics HTTP/1.1\r\n\r\n",
        "GET /me\x01trics HTTP/1.1\r\n\r\n",
        "\x16\x03\x01", /* TLS, at its first bytes */
        "GET /metrics HTTP/1.1\r\nA: \x7f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_refused(bad[i], RG__SCRAPE_BAD);
    check_refused("POST /metrics HTTP/1.1\r\n\r\n", RG__SCRAPE_METHOD);
    check_refused("get /metrics HTTP/1.1\r\n\r\n", RG__SCRAPE_METHOD);
    CHECK_EQ(rg__scrape_read("GET /\0 HTTP/1.1\n\n", 17, &request),
             RG__SCRAPE_BAD);
}

static void check_pieces(void)
{
    const char *text = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(rg__scrape_read(text, i, &request), RG__SCRAPE_MORE);
    CHECK_EQ(rg__scrape_read(text, n, &request), RG__SCRAPE_OK);
}

int main(void)
{
    check_good();
    check_bad();
    check_pieces();
    return 0;
}
