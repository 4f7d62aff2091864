/* Sources of notices against servers that say anything. The input is steps with
 * a byte 0x1e between them; a step is a letter and what belongs to it:
 *
 *   rNNN text   the oldest request is answered with code NNN   R  the newest
 *   f F         its connection breaks
 *   t           the next timer fires
 *   a           the host has left: sources that want to know are told
 *   d text      a file or a command says so (no round)
 *   l text      a list of --notice, which is only checked
 */
#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "elastic/notice/notice_parts.h"
#include "tests/fuzz/sim.h"

#define SOURCES "aws,gcp,azure,url:http://site/notice"
#define KINDS   6 /* of questions that they ask */

static void on_changed(void *arg)
{
    ++*(int *)arg;
}

/* What people read, and what is sent back. */
static void check_text(const char *text, size_t room)
{
    FUZZ_CLAIM(memchr(text, 0, room) != NULL);
    for (; *text != '\0'; text++)
        FUZZ_CLAIM(isprint((unsigned char)*text));
}

static void check_notice(const rg__notice *n)
{
    FUZZ_CLAIM((n->kind == RG__NOTICE_NONE) == (n->what[0] == '\0'));
    check_text(n->what, sizeof n->what);
    check_text(n->id, sizeof n->id);
    FUZZ_CLAIM(n->at_ms < UINT64_C(1) << 50 && n->in_ms < UINT64_C(1) << 50);
}

static void check_all(const rg__notices *all)
{
    FUZZ_CLAIM(rg__notices_count(all) == KINDS);
    for (int i = 0; i < KINDS; i++) {
        const rg__source_view v = rg__notices_at(all, i);
        check_notice(v.notice);
        FUZZ_CLAIM((v.state == RG__SOURCE_FAILS) == (v.why[0] != '\0'));
        FUZZ_CLAIM((v.seen_ns != 0) >= (v.notice->kind != RG__NOTICE_NONE));
    }
    for (sim_request *r = sim_request_first(SIM_UNARY); r != NULL;
         r = sim_request_next(r, SIM_UNARY)) {
        const char *body = sim_request_body(r);
        json_t *j = json_loads(body, 0, NULL);
        FUZZ_CLAIM(body[0] == '\0' || j != NULL);
        json_decref(j);
        FUZZ_CLAIM(strncmp(sim_request_path(r), "http://", 7) == 0);
        for (const char *c = sim_request_path(r); *c != '\0'; c++)
            FUZZ_CLAIM(isgraph((unsigned char)*c));
    }
}

static void take_document(fuzz_input *in)
{
    char *text = fuzz_line(in);
    rg__notice n;
    if (rg__site_read_any(text, strlen(text), &n))
        check_notice(&n);
    free(text);
}

static void take_list(fuzz_input *in)
{
    char *text = fuzz_line(in);
    if (rg__notices_check(text, text) != RG_OK)
        FUZZ_CLAIM(rg_last_error()[0] != '\0');
    rg__notices_check(text, NULL);
    free(text);
}

static void answer(fuzz_input *in, bool is_newest)
{
    const int code = (int)(fuzz_decimal(in) % 1000);
    sim_request *r =
        is_newest ? sim_request_last(SIM_UNARY) : sim_request_first(SIM_UNARY);
    if (in->left > 0 && *in->at == ' ')
        fuzz_byte(in);
    if (r != NULL)
        sim_answer(r, code, (const char *)in->at, in->left);
}

static void take(rg__loop *loop, rg__notices *all, fuzz_input *in)
{
    const uint8_t letter = fuzz_byte(in);
    sim_request *r = letter == 'f' ? sim_request_first(SIM_UNARY)
                                   : sim_request_last(SIM_UNARY);
    switch (letter) {
    case 'r':
    case 'R':
        answer(in, letter == 'R');
        break;
    case 'f':
    case 'F':
        if (r != NULL)
            sim_break(r, "cut");
        break;
    case 't':
        sim_fire(loop);
        break;
    case 'a':
        rg__notices_acknowledge(all);
        break;
    case 'd':
        take_document(in);
        break;
    case 'l':
        take_list(in);
        break;
    default:
        break;
    }
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    int changes = 0;
    rg__loop *loop = NULL;
    rg__notices *all = NULL;
    const rg__notices_params params = {.list = SOURCES,
                                       .every_ms = 1000,
                                       .changed = on_changed,
                                       .arg = &changes};
    sim_begin();
    FUZZ_CLAIM(rg__loop_create(&loop) == RG_OK);
    FUZZ_CLAIM(rg__notices_create(loop, &params, &all) == RG_OK);
    while (in.left > 0) {
        fuzz_input step = fuzz_step(&in);
        take(loop, all, &step);
        check_all(all);
    }
    rg__notices_destroy(all);
    FUZZ_CLAIM(sim_request_first(SIM_UNARY) == NULL);
    rg__loop_destroy(loop);
}
