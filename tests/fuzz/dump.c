/* What a dump reads: 'j' and the parts of other hosts, as their agents send
 * them; or the record of a worker, which can write anything there: the number
 * of lanes, a length for each of them, and bytes that fill the rest again and
 * again. Notes in rings get the serial number that makes them count, half of
 * the time. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/agent/dump/dump_parts.h"
#include "tests/fuzz/fuzz.h"

/* A terminal gets lines and nothing else, whatever a worker has written. */
static void check_text(const char *text)
{
    FUZZ_CLAIM(text != NULL);
    for (const char *c = text; *c != '\0'; c++)
        FUZZ_CLAIM(*c == '\n' || (unsigned char)*c >= ' ');
}

static void show(json_t *hosts, bool is_ours)
{
    json_t *document =
        json_pack("{s:s,s:i,s:o}", "job", "j", "generation", 1, "hosts", hosts);
    FUZZ_CLAIM(document != NULL);
    rg__dump_compare(document);
    char *text = rg__dump_text(document);
    if (is_ours)
        check_text(text);
    free(text);
    json_decref(document);
}

static void take_part(const fuzz_input *in)
{
    json_t *part = rg__host_part_read((const char *)in->at, in->left);
    json_t *hosts = json_array();
    if (json_is_object(part)) {
        json_array_append(hosts, part);
        json_array_append(hosts, part);
    }
    json_decref(part);
    show(hosts, false);
}

#define LANES 64 /* that have anything */

static void fill(void *to, size_t bytes, const fuzz_input *in)
{
    for (size_t at = 0; at < bytes; at += in->left) {
        const size_t left = bytes - at;
        memcpy((char *)to + at, in->at, left < in->left ? left : in->left);
    }
}

static json_t *records_of(const rg__agent *a, uint64_t generation)
{
    rg__dump_copies *copies = rg__dump_copy_records(a, generation);
    FUZZ_CLAIM(copies != NULL);
    json_t *records = rg__dump_records(a, copies);
    rg__dump_free_copies(copies);
    return records;
}

static void take_record(fuzz_input *in)
{
    static rg__record record;
    static rg__page page;
    const uint8_t lanes = fuzz_byte(in), notes = fuzz_byte(in);
    const bool is_honest = (fuzz_byte(in) & 1) != 0;
    if (in->left == 0)
        return;
    for (int i = 0; i < 2; i++)
        fill(&record.generation[i], offsetof(rg__half, lane[LANES]), in);
    fill(&page, sizeof page, in);
    rg__half *h = &record.generation[0];
    for (unsigned i = 0; is_honest && i < LANES; i++) {
        h->lane[i].notes = notes;
        for (unsigned k = 0; k < RG__LANE_OPS && k < notes; k++)
            h->lane[i].note[(notes - k - 1) % RG__LANE_OPS].serial = notes - k;
    }
    if (is_honest) {
        h->lanes = lanes;
        h->generation = 1;
    }
    rg__agent_params params = {.slots = 1, .host = "h1", .job = "j"};
    rg__agent *a = calloc(1, sizeof *a);
    rg__slot *slot = calloc(1, sizeof *slot);
    FUZZ_CLAIM(a != NULL && slot != NULL);
    a->params = &params;
    a->slot = slot;
    slot->w.record = slot->fallen.record = &record;
    slot->w.page = &page;
    slot->saved.state = SLOT_MET;
    show(json_pack("[o,o,o]", records_of(a, 0), rg__dump_times(a),
                   records_of(a, 1)),
         true);
    free(slot);
    free(a);
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    if (n > 0 && bytes[0] == 'j') {
        fuzz_byte(&in);
        take_part(&in);
    } else {
        take_record(&in);
    }
}
