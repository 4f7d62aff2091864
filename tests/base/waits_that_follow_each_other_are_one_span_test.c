/* Waits of a step that follow each other closely are one span of a timeline,
 * from the begin of the first to the end of the last. It stands in the ring
 * once another wait, another step or a commit follows; operations between them
 * change nothing. Until then its reader finds it beside the ring.
 *
 * Covers: record.c */
#include "sdk/base/record.h"
#include "tests/check.h"

#define US ((uint64_t)1000)

static rg__record record;

static void put(rg__span_kind kind, uint32_t step, uint64_t begun_us,
                uint64_t ended_us)
{
    const rg__span span = {.span = (uint8_t)kind,
                           .number = step,
                           .begun_ns = begun_us * US,
                           .ended_ns = ended_us * US};
    rg__record_span(&record, &span);
}

static void check_span(uint64_t at, rg__span_kind kind, uint64_t begun_us,
                       uint64_t ended_us)
{
    const rg__span *span = &record.span[at];
    CHECK_EQ(span->span, kind);
    CHECK_EQ(span->begun_ns, begun_us * US);
    CHECK_EQ(span->ended_ns, ended_us * US);
}

int main(void)
{
    rg__span wait;
    CHECK(!rg__record_wait(&record, &wait));
    put(RG__SPAN_WAIT, 1, 100, 110);
    put(RG__SPAN_OP, 1, 105, 112);
    put(RG__SPAN_WAIT, 1, 112, 130);
    put(RG__SPAN_WAIT, 1, 120, 125); /* of another thread */
    CHECK_EQ(record.written, 1);
    check_span(0, RG__SPAN_OP, 105, 112);
    CHECK(rg__record_wait(&record, &wait));
    CHECK_EQ(wait.begun_ns, 100 * US);
    CHECK_EQ(wait.ended_ns, 130 * US);

    put(RG__SPAN_WAIT, 1, 141, 150); /* not closely */
    CHECK_EQ(record.written, 2);
    check_span(1, RG__SPAN_WAIT, 100, 130);
    put(RG__SPAN_WAIT, 2, 151, 160); /* of another step */
    CHECK_EQ(record.written, 3);
    check_span(2, RG__SPAN_WAIT, 141, 150);
    put(RG__SPAN_COMMIT, 2, 161, 170);
    CHECK_EQ(record.written, 5);
    check_span(3, RG__SPAN_WAIT, 151, 160);
    check_span(4, RG__SPAN_COMMIT, 161, 170);
    CHECK(!rg__record_wait(&record, &wait));
    return 0;
}
