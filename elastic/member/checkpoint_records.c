/* The records about checkpoints: a struct to JSON and back. */
#include "elastic/member/records_parts.h"

char *rg__claim_text(const rg__claim *claim)
{
    return rg__json_text(json_pack("{s:o,s:s,s:o,s:o}", "serial",
                                   rg__hex_json(claim->serial), "op", claim->op,
                                   "commit", rg__commit_json(claim->commit),
                                   "hash", rg__hex_json(claim->hash)));
}

bool rg__claim_read(const json_t *j, rg__claim *claim)
{
    return rg__hex_read(json_object_get(j, "serial"), &claim->serial) &&
           rg__text_field(j, "op", claim->op, sizeof claim->op) &&
           rg__commit_read(json_object_get(j, "commit"), &claim->commit) &&
           rg__hex_read(json_object_get(j, "hash"), &claim->hash);
}

char *rg__saved_text(const rg__saved *saved)
{
    return rg__json_text(json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:I,s:o,s:b}", "serial",
        rg__hex_json(saved->serial), "commit", rg__commit_json(saved->commit),
        "file", rg__text_json(saved->file), "host", rg__text_json(saved->host),
        "hash", rg__hex_json(saved->hash), "at_ms", (json_int_t)saved->at_ms,
        "error", rg__text_json(saved->error), "last", saved->is_last));
}

bool rg__saved_read(const json_t *j, rg__saved *saved)
{
    saved->is_last = json_is_true(json_object_get(j, "last"));
    saved->at_ms = json_integer_value(json_object_get(j, "at_ms"));
    return rg__hex_read(json_object_get(j, "serial"), &saved->serial) &&
           rg__commit_read(json_object_get(j, "commit"), &saved->commit) &&
           rg__text_field(j, "file", saved->file, sizeof saved->file) &&
           rg__text_field(j, "host", saved->host, sizeof saved->host) &&
           rg__hex_read(json_object_get(j, "hash"), &saved->hash) &&
           rg__text_field(j, "error", saved->error, sizeof saved->error);
}

char *rg__order_text(const rg__order *order)
{
    return rg__json_text(json_pack("{s:o,s:s,s:o,s:o}", "serial",
                                   rg__hex_json(order->serial), "op", order->op,
                                   "commit", rg__commit_json(order->commit),
                                   "host", rg__hex_json(order->host)));
}

bool rg__order_read(const json_t *j, rg__order *order)
{
    return rg__hex_read(json_object_get(j, "serial"), &order->serial) &&
           rg__text_field(j, "op", order->op, sizeof order->op) &&
           rg__commit_read(json_object_get(j, "commit"), &order->commit) &&
           rg__hex_read(json_object_get(j, "host"), &order->host);
}

char *rg__share_text(const rg__share *share)
{
    return rg__json_text(json_pack("{s:s,s:o}", "op", share->op, "error",
                                   rg__text_json(share->error)));
}

bool rg__share_read(const json_t *j, rg__share *share)
{
    return rg__text_field(j, "op", share->op, sizeof share->op) &&
           rg__text_field(j, "error", share->error, sizeof share->error);
}
