/* GET /metrics HTTP/1.1, then unread header lines up to an empty line. */
#include "elastic/agent/control/scrape_request.h"

#include <string.h>

/* Bytes after the head, NULL: it is not whole. Lines may end without \r. */
static const char *find_end(const char *bytes, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (bytes[i] != '\n')
            continue;
        if (bytes[i + 1] == '\n')
            return bytes + i + 2;
        if (i + 2 < n && bytes[i + 1] == '\r' && bytes[i + 2] == '\n')
            return bytes + i + 3;
    }
    return NULL;
}

/* Printable ASCII, tabs and line ends; values of headers may have more. */
static bool is_text(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c == 0x7f || (c < ' ' && c != '\t' && c != '\r' && c != '\n'))
            return false;
    }
    return true;
}

/* Up to the next space or the end; false: there is none. */
static bool take_word(const char **at, const char *end, const char **word_p,
                      size_t *n_p)
{
    const char *begin = *at;
    while (*at < end && **at != ' ')
        ++*at;
    *word_p = begin;
    *n_p = (size_t)(*at - begin);
    if (*at < end)
        ++*at;
    return *n_p > 0;
}

static bool is_word(const char *word, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(word, text, n) == 0;
}

static bool is_version(const char *word, size_t n)
{
    return n == 8 && memcmp(word, "HTTP/1.", 7) == 0 && word[7] >= '0' &&
           word[7] <= '9';
}

static void copy_path(const char *target, size_t n, char *path)
{
    const char *query = memchr(target, '?', n);
    if (query != NULL)
        n = (size_t)(query - target);
    path[0] = '\0';
    if (n >= RG__SCRAPE_PATH_MAX)
        return;
    memcpy(path, target, n);
    path[n] = '\0';
}

static rg__scrape_verdict read_line(const char *at, const char *end,
                                    rg__scrape_request *request)
{
    const char *method, *target, *version;
    size_t method_n, target_n, version_n;
    if (at == end || end[-1] == ' ' ||
        !take_word(&at, end, &method, &method_n) ||
        !take_word(&at, end, &target, &target_n) ||
        !take_word(&at, end, &version, &version_n) || at != end ||
        !is_version(version, version_n) || target[0] != '/')
        return RG__SCRAPE_BAD;
    request->is_head = is_word(method, method_n, "HEAD");
    copy_path(target, target_n, request->path);
    if (!request->is_head && !is_word(method, method_n, "GET"))
        return RG__SCRAPE_METHOD;
    return RG__SCRAPE_OK;
}

rg__scrape_verdict rg__scrape_read(const char *bytes, size_t n,
                                   rg__scrape_request *request_p)
{
    const char *head_end = find_end(bytes, n);
    if (!is_text(bytes, head_end != NULL ? (size_t)(head_end - bytes) : n))
        return RG__SCRAPE_BAD;
    if (head_end == NULL)
        return RG__SCRAPE_MORE;
    const char *end = memchr(bytes, '\n', n);
    if (end > bytes && end[-1] == '\r')
        end--;
    rg__scrape_request request;
    const rg__scrape_verdict verdict = read_line(bytes, end, &request);
    if (verdict == RG__SCRAPE_OK)
        *request_p = request;
    return verdict;
}
