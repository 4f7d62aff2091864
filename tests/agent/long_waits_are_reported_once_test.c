/* A wait that is longer than the budget is reported once and shown until it
 * ends; one that ends before is neither. Beginning it again keeps its start.
 *
 * Covers: waits.c log.c */
#include "tests/agent/agents.h"

#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sdk/base/clock.h"

static int log_fd;

static int said(const char *what)
{
    static char text[8192];
    const ssize_t n = pread(log_fd, text, sizeof text - 1, 0);
    CHECK(n >= 0);
    text[n] = '\0';
    int found = 0;
    for (const char *at = strstr(text, what); at != NULL;
         at = strstr(at + 1, what))
        found++;
    return found;
}

static bool is_said(void *arg)
{
    rg__agent *a = arg;
    /* again and again, as polling code does */
    rg__wait_begin(a, RG__WAIT_FENCE, 1, "process 12 of slot 1 to end");
    return rg__waits_said(a) == 1;
}

static const char *text_of(const json_t *waits, const char *name)
{
    return json_string_value(json_object_get(json_array_get(waits, 0), name));
}

int main(void)
{
    rg__loop *loop = NULL;
    log_fd = memfd_create("log", MFD_CLOEXEC);
    CHECK(log_fd >= 0 && dup2(log_fd, STDERR_FILENO) == STDERR_FILENO);
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    rg__wait_end(a, RG__WAIT_FENCE, 1); /* there is none */

    const uint64_t begun_ns = rg__now_ns();
    rg__wait_begin(a, RG__WAIT_FENCE, 0, "process 11 of slot 0 to end");
    rg__wait_begin(a, RG__WAIT_FENCE, 1, "process 12 of slot 1 to end");
    CHECK_EQ(rg__waits_said(a), 0);
    rg__wait_end(a, RG__WAIT_FENCE, 0);
    loop_until(loop, is_said, a);
    CHECK(rg__now_ns() - begun_ns >= DETECT_MS * RG__MS);
    CHECK_EQ(said("waits for process 12 of slot 1 to end, for "), 1);
    CHECK_EQ(said("process 11"), 0);

    rg__wait_begin(a, RG__WAIT_FENCE, 1, "process 12 to end: state D");
    json_t *waits = rg__waits_json(a);
    CHECK_EQ(json_array_size(waits), 1);
    CHECK(strcmp(text_of(waits, "host"), "h1") == 0);
    CHECK(strcmp(text_of(waits, "kind"), "fence") == 0);
    CHECK(strcmp(text_of(waits, "what"), "process 12 to end: state D") == 0);
    CHECK(text_of(waits, "until") != NULL);
    CHECK(json_number_value(json_object_get(json_array_get(waits, 0),
                                            "seconds")) >= DETECT_MS / 1000.0);
    json_decref(waits);

    rg__wait_end(a, RG__WAIT_FENCE, 1);
    CHECK_EQ(said(" s for process 12 to end: state D; it goes on"), 1);
    waits = rg__waits_json(a);
    CHECK_EQ(json_array_size(waits), 0);
    json_decref(waits);
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
