/* Memory belongs to a segment that holds all of it, in the owner's
 * addresses: others map the segment somewhere else.
 *
 * Covers: mapping.c */
#include "sdk/transport/transport.h"
#include "tests/check.h"

/* The buffer has 10 bytes of a page, a whole page, 20 of the next: the segment
 * has the same in three pages. What is around the buffer is not in it. */
static void in_a_registered_buffer(rg__member_id me)
{
    enum { PAGE = 4096 };
    static _Alignas(PAGE) char own[3 * PAGE], segment[3 * PAGE];
    char *p = own + PAGE - 10;
    rg__mapping item[] = {{.owner = me,
                           .id = 8,
                           .at = segment,
                           .bytes = sizeof segment,
                           .home = {.at = p,
                                    .bytes = 10 + PAGE + 20,
                                    .pages = own + PAGE,
                                    .pages_bytes = PAGE,
                                    .pages_at = PAGE}}};
    const rg__mappings all = {.item = item, .count = 1};
    CHECK(rg__mapping_of(&all, me, p, 10 + PAGE + 20) == item);
    CHECK(rg__mapping_of(&all, me, p + 1, 10 + PAGE + 20) == NULL);
    CHECK(rg__mapping_of(&all, me, p - 1, 1) == NULL);
    CHECK_EQ(rg__mapping_place(item, p), PAGE - 10);
    CHECK_EQ(rg__mapping_place(item, p + 30), PAGE + 20);
    memset(own, 1, sizeof own);
    rg__mapping_give_edges(item, p + 4, PAGE);
    CHECK_BYTES(segment, 0, PAGE - 6);
    CHECK_BYTES(segment + PAGE - 6, 1, 6);
    CHECK_BYTES(segment + PAGE, 0, 2 * PAGE);
    rg__mapping_give_edges(item, p + 10 + PAGE + 15, 5);
    CHECK_BYTES(segment + 2 * PAGE, 0, 15);
    CHECK_BYTES(segment + 2 * PAGE + 15, 1, 5);
    memset(segment, 2, sizeof segment);
    rg__mapping_take_edges(item, p, 10 + PAGE + 20);
    CHECK_BYTES(own, 1, PAGE - 10);
    CHECK_BYTES(p, 2, 10);
    CHECK_BYTES(own + PAGE, 1, PAGE);
    CHECK_BYTES(own + 2 * PAGE, 2, 20);
    CHECK_BYTES(own + 2 * PAGE + 20, 1, PAGE - 20);
}

int main(void)
{
    static char memory[100];
    const rg__member_id me = {.host = 1, .slot = 2, .start = 3};
    const rg__member_id next = {.host = 1, .slot = 2, .start = 4};
    char *room = memory + 10;
    rg__mapping item[] = {{.owner = me, .id = 7, .at = room, .bytes = 80}};
    const rg__mappings all = {.item = item, .count = 1};
    CHECK(rg__mapping_of(&all, me, room, 80) == item);
    CHECK(rg__mapping_of(&all, me, room + 80, 0) == item);
    CHECK(rg__mapping_of(&all, me, room + 1, 80) == NULL);
    CHECK(rg__mapping_of(&all, me, room, 81) == NULL);
    CHECK(rg__mapping_of(&all, me, room + 79, UINT64_MAX) == NULL);
    CHECK(rg__mapping_of(&all, me, room - 1, 1) == NULL);
    CHECK(rg__mapping_of(&all, next, room, 1) == NULL);
    CHECK(rg__mapping_of(NULL, me, room, 1) == NULL);
    CHECK_EQ(rg__mapping_place(item, room + 5), 5);
    in_a_registered_buffer(me);
    return 0;
}
