/* Heads of HTTP requests, in pieces, and texts of --metrics: 'a' and a text, or
 * anything else and a head. */
#include <string.h>

#include "elastic/agent/control/scrape.h"
#include "elastic/agent/control/scrape_request.h"
#include "tests/fuzz/fuzz.h"

static void take_address(fuzz_input *in)
{
    char *text = fuzz_line(in);
    rg__inet at;
    if (rg__scrape_address(text, &at) == RG_OK)
        FUZZ_CLAIM(at.any.sa_family != 0 &&
                   strpbrk(text, "0123456789") != NULL);
    free(text);
}

/* However the bytes come, the first verdict is the last. */
static void take_head(const fuzz_input *in)
{
    const char *bytes = (const char *)in->at;
    rg__scrape_request request = {.path = ""}, later = {.path = ""};
    rg__scrape_verdict verdict = RG__SCRAPE_MORE;
    size_t n = 0;
    while (n < in->left && verdict == RG__SCRAPE_MORE)
        verdict = rg__scrape_read(bytes, ++n, &request);
    if (verdict == RG__SCRAPE_MORE)
        return;
    if (verdict != RG__SCRAPE_BAD) /* bytes behind a head are none of it */
        FUZZ_CLAIM(rg__scrape_read(bytes, in->left, &later) == verdict);
    FUZZ_CLAIM(strcmp(request.path, later.path) == 0);
    if (verdict == RG__SCRAPE_OK)
        FUZZ_CLAIM(memchr(request.path, 0, sizeof request.path) != NULL &&
                   (request.path[0] == '/' || request.path[0] == '\0'));
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    if (n > 0 && bytes[0] == 'a') {
        fuzz_byte(&in);
        take_address(&in);
    } else {
        take_head(&in);
    }
}
