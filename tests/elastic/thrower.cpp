// fn throws in the first process of slot 1, when three steps are made; main
// catches that behind rg_run.
#include <cstdio>
#include <stdexcept>
#include <unistd.h>

#include "regroup/regroup.h"

static rg_ctx *ctx;
static uint64_t counter;

struct guard {
    ~guard() { std::printf("unwound\n"); }
};

static rg_status train(rg_state *state, void *is_first)
{
    guard here;
    while (counter < 20) {
        counter++;
        const rg_status st = rg_state_commit(state);
        if (st != RG_OK)
            return st;
        if (counter == 3 && is_first != nullptr && rg_slot(ctx) == 1)
            throw std::runtime_error("no luck");
    }
    return RG_OK;
}

int main()
{
    rg_params params = {sizeof params, 1};
    rg_state *state = nullptr;
    if (rg_init(&params, &ctx) != RG_OK ||
        rg_state_create(ctx, nullptr, &state) != RG_OK ||
        rg_state_add(state, "counter", &counter, sizeof counter, nullptr) !=
            RG_OK)
        return 2;
    static bool is_first = access("slot-1-has-thrown", F_OK) != 0;
    rg_status st = RG_ERR_SYSTEM;
    try {
        st = rg_run(state, train, is_first ? &is_first : nullptr);
        std::printf("run %s\n", rg_status_name(st));
    } catch (const std::runtime_error &error) {
        std::FILE *file = std::fopen("slot-1-has-thrown", "w");
        if (file != nullptr)
            std::fclose(file);
        std::printf("caught %s, rank %d, again %s: %s\n", error.what(),
                    rg_rank(ctx),
                    rg_status_name(rg_run(state, train, nullptr)),
                    rg_last_error());
    }
    rg_state_destroy(state);
    rg_finalize(ctx);
    return rg_exit_code(st);
}
