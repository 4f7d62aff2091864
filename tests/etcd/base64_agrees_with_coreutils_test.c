/* Base64 as etcd wants it (trap 3): the same text as coreutils makes, and
 * only that text is decoded.
 *
 * Covers: base64.c */
#include <unistd.h>

#include "elastic/etcd/base64.h"
#include "tests/check.h"

#define MAX 70

static unsigned char byte_at(size_t n, size_t i)
{
    return (unsigned char)(n * 37 + i * 101 + i * i * 7);
}

static void coreutils_text(const unsigned char *bytes, size_t n, char *text,
                           size_t max)
{
    char path[] = "/tmp/rg-base64-XXXXXX", command[64];
    const int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_EQ(write(file, bytes, n), n);
    close(file);
    snprintf(command, sizeof command, "base64 -w0 %s", path);
    FILE *out = popen(command, "r");
    CHECK(out != NULL);
    text[fread(text, 1, max - 1, out)] = '\0';
    const int rc = pclose(out);
    unlink(path);
    CHECK_EQ(rc, 0);
}

static void both_ways_agree(size_t n)
{
    unsigned char bytes[MAX], back[MAX];
    char text[2 * MAX] = "", theirs[2 * MAX];
    size_t got = 0;
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(n, i);
    rg__base64_encode(bytes, n, text);
    coreutils_text(bytes, n, theirs, sizeof theirs);
    CHECK_STR(text, theirs);
    CHECK_EQ(strlen(text), rg__base64_chars(n));
    CHECK(rg__base64_decode(text, strlen(text), back, &got));
    CHECK_EQ(got, n);
    CHECK(memcmp(back, bytes, n) == 0);
}

static bool is_taken(const char *text)
{
    unsigned char bytes[MAX];
    size_t n = 0;
    return rg__base64_decode(text, strlen(text), bytes, &n);
}

static void junk_is_refused(void)
{
    static const char *const junk[] = {
        "A",    "AA",   "AAA",  "AAAAA", "AA=",      "A===",     "====",
        "=AAA", "A=AA", "AA=A", "AAA\n", "AA==AA==", "AAA=AAAA", "AA==\n",
        " AAA", "AA-_", "AB==", "AAB=",  "AAAA=",    "AA\302=",
    };
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
        if (is_taken(junk[i]))
            CHECK_FAIL("\"%s\" was taken for base64", junk[i]);
    CHECK(is_taken(""));
    CHECK(is_taken("AA=="));
    CHECK(is_taken("AAA="));
    CHECK(is_taken("+/+/"));
}

/* Whatever is taken is what its bytes are written as. */
static void every_text_of_four_has_one_meaning(void)
{
    static const char some[] = "AQgw+/=-\n09";
    char text[5] = "", again[5] = "";
    unsigned char bytes[4];
    size_t n = 0, taken = 0;
    const size_t m = sizeof some - 1;
    for (size_t i = 0; i < m * m * m * m; i++) {
        for (size_t k = 0, rest = i; k < 4; k++, rest /= m)
            text[k] = some[rest % m];
        if (!rg__base64_decode(text, 4, bytes, &n))
            continue;
        rg__base64_encode(bytes, n, again);
        CHECK_STR(again, text);
        taken++;
    }
    CHECK(taken > 1000);
}

int main(void)
{
    for (size_t n = 0; n <= MAX - 4; n += n < 8 ? 1 : 19)
        both_ways_agree(n);
    junk_is_refused();
    every_text_of_four_has_one_meaning();
    return 0;
}
