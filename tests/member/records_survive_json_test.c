/* A record is read as it was written; keys that are not ours are left out.
 *
 * Covers: records.c values.c checkpoint_records.c */
#include "tests/member/job.h"

static rg__kv kv(const char *key, const char *value)
{
    return (rg__kv){.key = key,
                    .value = value,
                    .value_bytes = strlen(value),
                    .create_revision = 7,
                    .mod_revision = 9};
}

static void a_job_is_read_back(void)
{
    rg__member_id members[] = {{UINT64_MAX, 3, 2}, {UINT64_MAX, 0, 1}};
    rg__slot_record slots[] = {{3, 2, 4711, 40001, true, false, true}};
    const rg__host_record host = {.id = UINT64_MAX,
                                  .seq = 5,
                                  .slots = 4,
                                  .address = {"10.0.0.7"},
                                  .port = 40002,
                                  .failed = "exit 3",
                                  .vault_bytes = UINT64_C(1) << 40,
                                  .notice_ms = 1500,
                                  .elastic = 1,
                                  .slot = slots,
                                  .slot_count = 1};
    rg__proposal p = {
        .from = 1, .cause = "h.3 \"died\"", .op = "x", .is_awaited = true};
    uint32_t ports[] = {40001, 0};
    uint32_t shards[] = {0, 7};
    rg__fetch_plan copy = {1, 2, {"::1"}, 5, true, {shards, 2}};
    p.member = members;
    p.port = ports;
    p.size = 2;
    p.host = calloc(1, sizeof *p.host);
    strcpy(p.host[0].name, "h");
    p.host[0].id = UINT64_MAX;
    p.host_count = 1;
    const rg__line line = {
        .prev = 1,
        .resume = {1, 1234567890123},
        .source = -1,
        .copy = &copy,
        .copies = 1,
        .steps_lost = -1,
        .cause = "host k leaves",
        .kind = RG__KIND_DRAIN,
        .total = {.changes = {[RG__KIND_FIRST] = 1, [RG__KIND_DRAIN] = 300},
                  .steps_lost = 17,
                  .lost_unknown = 3}};
    const rg__ack ack = {
        .held = {{{1, 5}, true, 8, {shards, 2}}, {{1, 4}, false, 0, {0}}},
        .count = 2,
        .id = UINT64_C(0xfedcba9876543210),
        .loaded = UINT64_C(0xabcdef9876543210),
        .source = 7};
    const rg__drain leave = {.code = 75, .why = "h1 is awaited"};
    const rg__reason reason = {.is_death = true,
                               .text = "died",
                               .at_ms = INT64_C(1700000000123),
                               .by = "h",
                               .link = "k"};
    char *texts[] = {
        rg__host_text(&host),  rg__proposal_difference(&p, NULL),
        rg__line_text(&line),  rg__reason_text(&reason),
        rg__ack_text(&ack),    rg__begun_text(UINT64_C(0xa000000000000001)),
        rg__drain_text(&leave)};
    const rg__kv all[] = {kv("/j/all/begun", texts[5]),
                          kv("/j/all/drain/h", texts[6]),
                          kv("/j/all/gen/0000000000000002", texts[1]),
                          kv("/j/lead/host/h", texts[0]),
                          kv("/j/all/line/0000000000000002", texts[2]),
                          kv("/j/all/ev/0000000000000001/h.3", texts[3])};
    rg__snapshot s;
    CHECK_OK(rg__snapshot_read(&s, "/j/", all, 6));
    rg__ack heard;
    CHECK(rg__ack_parse(texts[4], strlen(texts[4]), &heard));
    CHECK(rg__snapshot_add_ack(&s, &heard));
    CHECK_EQ(s.begun, UINT64_C(0xa000000000000001));
    CHECK_EQ(s.drains, 1);
    CHECK_EQ(s.drain[0].code, 75);
    CHECK_STR(s.drain[0].why, "h1 is awaited");
    CHECK_EQ(s.line[0].steps_lost, -1);
    CHECK_EQ(s.gens, 1);
    CHECK_EQ(s.hosts, 1);
    CHECK_EQ(s.lines, 1);
    CHECK(rg__same_member(s.gen[0].member[0], members[0]));
    CHECK_STR(s.gen[0].cause, "h.3 \"died\"");
    CHECK_EQ(s.host[0].slot[0].pid, 4711);
    CHECK(s.host[0].slot[0].waits && s.gen[0].is_awaited);
    CHECK_EQ(s.host[0].mod_revision, 9);
    CHECK_EQ(s.host[0].slot[0].port, 40001);
    CHECK_STR(s.host[0].address.text, "10.0.0.7");
    CHECK_EQ(s.host[0].port, 40002);
    CHECK_STR(s.host[0].failed, "exit 3");
    CHECK_EQ(s.host[0].vault_bytes, UINT64_C(1) << 40);
    CHECK_EQ(s.host[0].notice_ms, 1500);
    CHECK_EQ(s.reasons, 1);
    CHECK_STR(s.reason[0].member, "h.3");
    CHECK_EQ(s.reason[0].at_ms, INT64_C(1700000000123));
    CHECK(s.reason[0].is_death);
    CHECK_EQ(s.gen[0].port[0], 40001);
    CHECK_EQ(s.acks, 1);
    CHECK_EQ(s.ack[0].id, UINT64_C(0xfedcba9876543210));
    CHECK_EQ(s.ack[0].loaded, UINT64_C(0xabcdef9876543210));
    CHECK_EQ(s.ack[0].source, 7);
    CHECK_EQ(s.ack[0].count, 2);
    CHECK(s.ack[0].held[0].is_whole && !s.ack[0].held[1].is_whole);
    CHECK_EQ(s.ack[0].held[0].shards, 8);
    CHECK(rg__shards_have(&s.ack[0].held[0].here, 7));
    CHECK_EQ(s.ack[0].held[1].here.count, 0);
    CHECK_EQ(s.line[0].kind, RG__KIND_DRAIN);
    CHECK_EQ(s.line[0].copies, 1);
    CHECK(s.line[0].copy[0].is_whole);
    CHECK_EQ(s.line[0].copy[0].shards.count, 2);
    CHECK_EQ(s.line[0].copy[0].shards.index[1], 7);
    CHECK_STR(s.line[0].copy[0].address.text, "::1");
    CHECK_EQ(s.line[0].resume.step, 1234567890123);
    const rg__total total = rg__snapshot_total(&s);
    CHECK_EQ(total.steps_lost, 17);
    CHECK_EQ(total.lost_unknown, 3);
    CHECK_EQ(total.changes[RG__KIND_DRAIN], 300);
    CHECK_EQ(rg__total_changes(&total), 301);
    CHECK(rg__snapshot_decided(&s) == &s.gen[0]);
    rg__snapshot_free(&s);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    free(p.host);
}

static void checkpoints_are_read_back(void)
{
    const rg__claim claim = {.serial = UINT64_MAX,
                             .op = "01234567",
                             .commit = {4, 5},
                             .hash = UINT64_MAX - 2};
    const rg__saved saved = {.serial = 12,
                             .commit = {3, 1234567890123},
                             .file = "/shared/\"checkpoints\"/x",
                             .host = "h1",
                             .hash = UINT64_MAX - 1,
                             .at_ms = INT64_C(1700000000123),
                             .error = "the disk is full"};
    char *texts[] = {rg__claim_text(&claim), rg__saved_text(&saved)};
    const rg__kv all[] = {kv("/j/all/checkpoint", texts[1]),
                          kv("/j/all/claim/00000000000000ab", texts[0])};
    rg__snapshot s;
    CHECK_OK(rg__snapshot_read(&s, "/j/", all, 2));
    const rg__claim *c = rg__snapshot_claim(&s, 0xab);
    CHECK(c != NULL && rg__snapshot_claim(&s, 0) == NULL);
    CHECK(c->serial == UINT64_MAX);
    CHECK_STR(c->op, "01234567");
    CHECK_EQ(c->commit.generation, 4);
    CHECK_EQ(c->commit.step, 5);
    CHECK(c->hash == UINT64_MAX - 2);
    CHECK_EQ(c->mod_revision, 9);
    CHECK_EQ(s.saved.serial, 12);
    CHECK_EQ(s.saved.commit.generation, 3);
    CHECK_EQ(s.saved.commit.step, 1234567890123);
    CHECK_STR(s.saved.file, saved.file);
    CHECK_STR(s.saved.host, "h1");
    CHECK(s.saved.hash == UINT64_MAX - 1);
    CHECK_EQ(s.saved.at_ms, INT64_C(1700000000123));
    CHECK_STR(s.saved.error, "the disk is full");
    CHECK_EQ(s.saved.mod_revision, 9);
    rg__snapshot_free(&s);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
}

static void shares_are_read_back(void)
{
    const rg__order order = {
        .serial = 13, .op = "89abcdef", .commit = {4, 5}, .host = UINT64_MAX};
    const rg__share share = {.op = "89abcdef", .error = "no"};
    char *texts[] = {rg__order_text(&order), rg__share_text(&share)};
    const rg__kv all[] = {kv("/j/all/order", texts[0]),
                          kv("/j/all/share/h2", texts[1])};
    rg__snapshot s;
    CHECK_OK(rg__snapshot_read(&s, "/j/", all, 2));
    CHECK_EQ(s.order.serial, 13);
    CHECK_STR(s.order.op, "89abcdef");
    CHECK_EQ(s.order.commit.step, 5);
    CHECK(s.order.host == UINT64_MAX);
    CHECK_EQ(s.order.mod_revision, 9);
    CHECK_EQ(s.shares, 1);
    CHECK_STR(s.share[0].host, "h2");
    CHECK_STR(s.share[0].error, "no");
    CHECK_STR(s.share[0].op, "89abcdef");
    rg__snapshot_free(&s);
    for (size_t i = 0; i < 2; i++)
        free(texts[i]);
}

/* However many shards a host holds, its ack fits into a packet. */
static void runs_of_shards_are_short(void)
{
    uint32_t many[256] = {0, 2, 3, 5, 6, 7};
    rg__shards here = {many, 6};
    for (uint32_t i = 8000; i < 8250; i++)
        many[here.count++] = i;
    const rg__ack ack = {.held = {{{1, 5}, true, 9000, here},
                                  {{1, 4}, true, 9000, here},
                                  {{1, 3}, true, 9000, here}},
                         .count = 3,
                         .id = UINT64_MAX};
    char *text = rg__ack_text(&ack);
    CHECK(text != NULL && strlen(text) < 512);
    CHECK(strstr(text, "[0,2,3,[5,7],[8000,8249]]") != NULL);
    rg__ack back;
    CHECK(rg__ack_parse(text, strlen(text), &back));
    CHECK_EQ(back.held[2].here.count, here.count);
    CHECK(memcmp(back.held[2].here.index, many, sizeof many) == 0);
    rg__ack_free(&back);
    free(text);
}

static void runs_that_are_none_are_refused(void)
{
    const char *const bad[] = {"[3,1]",   "[0,16384]", "16384", "-1",  "[]",
                               "[[0,2]]", "[0,3],3",   "\"0\"", "4,4", "[1]"};
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"id\":\"00000000000000ab\",\"op\":\"\",\"held\":[[1,5,true,"
                 "8,[%s]]],"
                 "\"step\":1,\"loaded\":\"0000000000000000\",\"source\":0}",
                 i == 0 ? "0,7" : bad[i - 1]);
        rg__ack back;
        CHECK_EQ(rg__ack_parse(text, strlen(text), &back), i == 0);
        rg__ack_free(&back);
    }
}

/* Before the first one is durable there is nothing but its error. */
static void a_failed_first_checkpoint_is_read_back(void)
{
    const rg__saved saved = {.error = "the disk is full"};
    char *text = rg__saved_text(&saved);
    const rg__kv all[] = {kv("/j/all/checkpoint", text)};
    rg__snapshot s;
    CHECK_OK(rg__snapshot_read(&s, "/j/", all, 1));
    CHECK_STR(s.saved.error, "the disk is full");
    CHECK_EQ(s.saved.serial, 0);
    rg__snapshot_free(&s);
    free(text);
}

static void what_is_not_ours_is_left_out(void)
{
    const rg__kv all[] = {
        kv("/j/lead/ack/xyz/h", "{}"),
        kv("/j/all/cur", "{\"g\":0,\"phase\":\"decided\"}"),
        kv("/j/all/gen/0000000000000001", "{\"members\":[],\"hosts\":[]}"),
        kv("/j/all/gen/0000000000000002", "not json"),
        kv("/j/all/gen/0000000000000003", /* a member of no host */
           "{\"op\":\"x\",\"cause\":\"x\",\"members\":"
           "[[\"0000000000000001\",0,1,0]],\"hosts\":"
           "[[\"h\",\"0000000000000002\",\"\",0]]}"),
        kv("/j/all/gen/0000000000000004", /* two in one slot */
           "{\"op\":\"x\",\"cause\":\"x\",\"members\":"
           "[[\"0000000000000001\",0,1,0],[\"0000000000000001\",0,2,0]],"
           "\"hosts\":[[\"h\",\"0000000000000001\",\"\",0]]}"),
        kv("/j/all/gen/0000000000000005", /* a host without members */
           "{\"op\":\"x\",\"cause\":\"x\",\"members\":"
           "[[\"0000000000000001\",0,1,0]],\"hosts\":"
           "[[\"h\",\"0000000000000001\",\"\",0],"
           "[\"k\",\"0000000000000002\",\"\",0]]}"),
        kv("/j/lead/ack/0000000000000000/h", "{\"held\":[]}"),
        kv("/j/lead/ack/0x00000000000001/h", "{\"held\":[]}"),
        kv("/j/lead/ack/0000000000000001/h\xff", "{\"held\":[]}"),
        kv("/j/lead/host/h", "{\"id\":\"12\",\"workers\":[]}"),
        kv("/j/lead/host/o",
           "{\"id\":\"0000000000000001\",\"address\":\"\",\"port\":1,"
           "\"failed\":\"\",\"open\":2147483647,\"workers\":[]}"),
        kv("/j/lead/host/k",
           "{\"id\":\"0000000000000001\",\"address\":\"\",\"port\":1,"
           "\"failed\":\"\",\"workers\":[[99,1,1,true,true,1]]}"),
        kv("/j/all/line/0000000000000001",
           "{\"resume\":[0,1],\"cause\":\"x\"}"),
        kv("/j/meta", "{\"format\":99}"),
        kv("/j/all/end", "{\"code\":1}"),
        kv("/j/all/end", "{\"code\":0,\"why\":\"as if it were done\"}"),
        kv("/j/all/end", "{\"code\":256,\"why\":\"the same\"}"),
        kv("/j/all/leader", "{\"id\":\"0000000000000001\"}"),
        kv("/j/all/claim/1", "{\"serial\":\"0000000000000001\",\"op\":\"x\"}"),
        kv("/j/all/claim/0000000000000001", "{\"serial\":1}"),
        kv("/j/all/order", "{\"serial\":1}"),
        kv("/j/all/share/h", "{\"op\":\"1\",\"error\":7}"),
        kv("/j/all/checkpoint", "{\"serial\":\"0000000000000007\"}"),
        kv("/other/all/cur", "{\"g\":3,\"phase\":\"decided\"}")};
    rg__snapshot s;
    CHECK_OK(rg__snapshot_read(&s, "/j/", all, sizeof all / sizeof *all));
    CHECK_EQ(s.acks + s.gens + s.hosts + s.lines + s.claims + s.shares, 0);
    CHECK_EQ(s.order.serial, 0);
    CHECK_EQ(s.saved.serial, 0);
    CHECK_EQ(s.cur.generation, 0);
    CHECK_EQ(s.meta.create_revision, 0);
    CHECK_EQ(s.leader, 0);
    CHECK(!s.end.is_set);
    rg__snapshot_free(&s);
}

int main(void)
{
    a_job_is_read_back();
    checkpoints_are_read_back();
    runs_of_shards_are_short();
    runs_that_are_none_are_refused();
    shares_are_read_back();
    a_failed_first_checkpoint_is_read_back();
    what_is_not_ours_is_left_out();
    return 0;
}
