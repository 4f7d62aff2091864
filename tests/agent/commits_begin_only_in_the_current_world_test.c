/* The record that a commit is begun is written once all ranks have agreed on
 * commit 0, and only while their generation is the decided one, or the next one
 * is only announced: a leader that has ended it may have seen that nothing is
 * begun. Workers learn of the record when etcd has it.
 *
 * Covers: generation.c */
#include "tests/agent/keys.h"

#include <stdlib.h>

#define BEGUN KEYS "all/begun"

static const rg__member_id member = {1, 0, 1};

static void put_generation(etcd_server *server, uint64_t g, bool is_announced)
{
    char key[64];
    rg__member_id members[] = {member};
    uint32_t ports[] = {0};
    rg__proposal_host host = {
        .name = "h1", .id = 1, .address = {"127.0.0.1"}, .port = 9};
    const rg__proposal p = {.generation = g,
                            .from = g - 1,
                            .op = "x",
                            .is_announced = is_announced,
                            .member = members,
                            .port = ports,
                            .size = 1,
                            .host = &host,
                            .host_count = 1};
    snprintf(key, sizeof key, "all/gen/%016llx", (unsigned long long)g);
    keys_put(server, key, rg__proposal_difference(&p, NULL));
}

static void put_cur(etcd_server *server, uint64_t g, rg__gen_phase phase)
{
    const rg__cur cur = {.generation = g, .phase = phase};
    keys_put(server, "all/cur", rg__cur_text(&cur));
}

/* Generation 1 is decided, and its only worker is here. */
static void put_world(etcd_server *server)
{
    const rg__line line = {.generation = 1, .source = 0, .to_size = 1};
    etcd_server_delete(server, BEGUN);
    etcd_server_delete(server, KEYS "all/gen/0000000000000002");
    keys_put_meta(server, 1);
    keys_put_host(server, 1);
    put_generation(server, 1, false);
    keys_put(server, "all/line/0000000000000001", rg__line_text(&line));
    put_cur(server, 1, RG__GEN_DECIDED);
}

static void nothing(etcd_server *server)
{
    (void)server;
}

static void propose(etcd_server *server)
{
    put_generation(server, 2, false);
    put_cur(server, 2, RG__GEN_PROPOSED);
}

static void announce(etcd_server *server)
{
    put_generation(server, 2, true);
    put_cur(server, 2, RG__GEN_PROPOSED);
}

/* The agent reads the keys after `before`, has a worker that has agreed on
 * commit 0 of that generation, and acts after `meanwhile`. Is it written? */
static bool is_begun(etcd_server *server, void (*before)(etcd_server *),
                     void (*meanwhile)(etcd_server *), uint64_t agreed)
{
    scene s;
    rg__slot one = {.saved = {.state = SLOT_DOOR, .start = 1},
                    .w = {.pid = 100, .sock = -1}};
    rg__page *page = aligned_alloc(RG__LINE, RG__PAGE_BYTES);
    CHECK(page != NULL);
    memset(page, 0, RG__PAGE_BYTES);
    put_world(server);
    before(server);
    scene_open(&s, etcd_server_url(server));
    rg__agent *a = keys_open_agent(&s, 1);
    a->own.slots = 1;
    a->slot = &one;
    a->mirror = a->leader->whole;
    one.a = a;
    one.w.page = page;
    atomic_store(&page->zero, agreed);
    meanwhile(server);
    rg__generation_try_begin(a);
    WAIT_FOR(&s, a->generation->beginning == NULL);
    CHECK(atomic_load(&page->begun) == 0); /* not before the view has it */
    const bool is_written = scene_get(&s, BEGUN).kv_count == 1;
    a->view.begun = is_written;
    rg__generation_show_begun(&one);
    CHECK(atomic_load(&page->begun) == is_written);
    a->mirror = NULL;
    a->slot = NULL;
    keys_close_agent(a);
    scene_close(&s);
    free(page);
    return is_written;
}

int main(void)
{
    etcd_server *server = etcd_server_start();
    CHECK(is_begun(server, nothing, nothing, 1));
    CHECK(!is_begun(server, nothing, nothing, 0)); /* not agreed on */
    CHECK(!is_begun(server, nothing, propose, 1)); /* the view is behind */
    CHECK(!is_begun(server, propose, nothing, 1));
    CHECK(is_begun(server, announce, nothing, 1));
    CHECK(!is_begun(server, nothing, announce, 1)); /* and again, later */
    etcd_server_stop(server);
    return 0;
}
