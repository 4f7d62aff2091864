/* Memory belongs to a segment that holds all of it, in the owner's
 * addresses: others map the segment somewhere else.
 *
 * Covers: mapping.c */
#include "sdk/transport/transport.h"
#include "tests/check.h"

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
    return 0;
}
