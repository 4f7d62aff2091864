/* The whole client against an etcd that says anything, in any order and cut
 * anywhere, while its owner may give up any part of it in any callback.
 *
 * The input is steps with a byte 0x1e between them; a step is a letter and what
 * belongs to it:
 *
 *   rNNN text   the oldest request is answered with code NNN   R  the newest
 *   d text      the oldest watch brings bytes                  D  the newest
 *   eNNN        it ends with a code                            E  the newest
 *   f           the oldest request's connection breaks         F  the newest
 *   t           the next timer fires         pN   N ms pass
 *   x X         a transaction is begun, or given up
 *   l L         a lease; m M  a mirror; a  authentication is turned on
 *   k           in the next callback all is given up
 */
#include <string.h>

#include "elastic/etcd/client.h"
#include "tests/fuzz/sim.h"

typedef struct owner {
    rg__loop *loop;
    rg__etcd *etcd; /* NULL: given up */
    rg__lease *lease;
    rg__mirror *mirror;
    rg__etcd_req *txn;
    bool gives_up_next;
    bool was_asked_to_enable;
} owner;

static void give_up(owner *o)
{
    rg__etcd_destroy(o->etcd);
    *o = (owner){.loop = o->loop};
}

/* What every callback does last. */
static void maybe_give_up(owner *o)
{
    if (o->gives_up_next)
        give_up(o);
}

/* --------------------------------------------------------------- callbacks */

static void check_kv(const rg__kv *kv)
{
    FUZZ_CLAIM(kv->key[0] != '\0' && kv->value[kv->value_bytes] == '\0');
}

static void on_txn(void *arg, rg_status st, const rg__txn_reply *reply)
{
    owner *o = arg;
    o->txn = NULL;
    FUZZ_CLAIM((st == RG_OK) == (reply != NULL));
    FUZZ_CLAIM(st == RG_OK || st == RG_ERR_STORE);
    for (size_t i = 0; reply != NULL && i < reply->kv_count; i++)
        check_kv(&reply->kv[i]);
    maybe_give_up(o);
}

static void on_lease(void *arg, rg__lease_event event)
{
    owner *o = arg;
    FUZZ_CLAIM(event == RG__LEASE_HELD || event == RG__LEASE_LOST);
    maybe_give_up(o);
}

static void on_mirror(void *arg, int64_t revision, bool wiped)
{
    owner *o = arg;
    (void)wiped;
    FUZZ_CLAIM(rg__mirror_is_listed(o->mirror));
    FUZZ_CLAIM(revision == rg__mirror_revision(o->mirror) && revision > 0);
    for (size_t i = 0; i < rg__mirror_count(o->mirror); i++) {
        const rg__kv *kv = rg__mirror_at(o->mirror, i);
        check_kv(kv);
        FUZZ_CLAIM(i == 0 ||
                   strcmp(rg__mirror_at(o->mirror, i - 1)->key, kv->key) < 0);
    }
    maybe_give_up(o);
}

static void on_state(void *arg, bool up, const char *why)
{
    owner *o = arg;
    FUZZ_CLAIM(up == rg__etcd_is_up(o->etcd) && why != NULL);
    maybe_give_up(o);
}

static void on_enabled(void *arg, rg_status st)
{
    owner *o = arg;
    (void)st;
    maybe_give_up(o);
}

/* ------------------------------------------------------------------- steps */

static void begin_txn(owner *o)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_if_create(txn, "j/meta", 0);
    rg__txn_if_mod(txn, "j/cur", 3);
    rg__txn_put(txn, "j/meta", "{}", 7);
    rg__txn_get(txn, RG__ELSE, "j/", "j0");
    if (o->txn == NULL)
        o->txn = rg__etcd_txn(o->etcd, txn, on_txn, o);
    else
        rg__txn_destroy(txn);
}

static void begin_mirror(owner *o)
{
    if (o->mirror == NULL)
        rg__mirror_create(o->etcd, "j/", "j0", "j/meta", on_mirror, o,
                          &o->mirror);
}

static void begin_lease(owner *o)
{
    if (o->lease == NULL)
        rg__lease_create(o->etcd, 10, on_lease, o, &o->lease);
}

/* Once: it has no handle by which it could be given up alone. */
static void enable_auth(owner *o)
{
    if (!o->was_asked_to_enable)
        rg__etcd_enable_auth(o->etcd, "secret", on_enabled, o);
    if (o->etcd != NULL)
        o->was_asked_to_enable = true;
}

static sim_request *chosen(char letter, sim_kind kind)
{
    return letter >= 'a' ? sim_request_first(kind) : sim_request_last(kind);
}

/* Up to three digits; 200 when there is none. */
static int take_code(fuzz_input *in)
{
    int code = 0, digits = 0;
    while (digits < 3 && in->left > 0 && *in->at >= '0' && *in->at <= '9') {
        code = 10 * code + fuzz_byte(in) - '0';
        digits++;
    }
    return digits > 0 ? code : 200;
}

static void answer(char letter, fuzz_input *in)
{
    sim_request *r = chosen(letter, SIM_UNARY);
    const int code = take_code(in);
    if (r != NULL)
        sim_answer(r, code, (const char *)in->at, in->left);
}

static void bring(char letter, const fuzz_input *in)
{
    sim_request *r = chosen(letter, SIM_STREAM);
    if (r != NULL)
        sim_data(r, (const char *)in->at, in->left);
}

static void end_stream(char letter, fuzz_input *in)
{
    sim_request *r = chosen(letter, SIM_STREAM);
    if (r != NULL)
        sim_answer(r, take_code(in), "", 0);
}

static void break_off(char letter)
{
    sim_request *r = chosen(letter, SIM_UNARY);
    if (r != NULL)
        sim_break(r, "connection refused");
}

static void take_ownership_step(owner *o, char letter)
{
    switch (letter) {
    case 'x':
        begin_txn(o);
        break;
    case 'X':
        rg__etcd_cancel(o->txn);
        o->txn = NULL;
        break;
    case 'l':
        begin_lease(o);
        break;
    case 'L':
        rg__lease_destroy(o->lease);
        o->lease = NULL;
        break;
    case 'm':
        begin_mirror(o);
        break;
    case 'M':
        rg__mirror_destroy(o->mirror);
        o->mirror = NULL;
        break;
    case 'a':
        enable_auth(o);
        break;
    case 'k':
        o->gives_up_next = true;
        break;
    default:
        break;
    }
}

static void take_step(owner *o, fuzz_input step)
{
    const char letter = (char)fuzz_byte(&step);
    switch (letter) {
    case 'r':
    case 'R':
        answer(letter, &step);
        break;
    case 'd':
    case 'D':
        bring(letter, &step);
        break;
    case 'e':
    case 'E':
        end_stream(letter, &step);
        break;
    case 'f':
    case 'F':
        break_off(letter);
        break;
    case 't':
        sim_fire(o->loop);
        break;
    case 'p':
        sim_pass(o->loop, (uint64_t)take_code(&step) * SIM_MS);
        break;
    default:
        take_ownership_step(o, letter);
    }
}

void fuzz_one(const uint8_t *bytes, size_t n)
{
    fuzz_input in = {bytes, n};
    owner o = {0};
    sim_begin();
    FUZZ_CLAIM(rg__loop_create(&o.loop) == RG_OK);
    const rg__etcd_params params = {
        .endpoints = "http://10.0.0.1:2379,http://10.0.0.2:2379",
        .user = fuzz_byte(&in) == 'u' ? "root" : NULL,
        .password = "secret",
        .on_state = on_state,
        .arg = &o};
    FUZZ_CLAIM(rg__etcd_create(o.loop, &params, &o.etcd) == RG_OK);
    while (in.left > 0 && o.etcd != NULL)
        take_step(&o, fuzz_step(&in));
    give_up(&o);
    FUZZ_CLAIM(sim_request_first(SIM_UNARY) == NULL &&
               sim_request_first(SIM_STREAM) == NULL);
    rg__loop_destroy(o.loop);
}
