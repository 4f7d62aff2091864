// regroup.hpp in a job: what it throws, what it moves, what it gives back. Of
// rank 1 the first process dies while the others wait for it in an allreduce.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include "regroup/regroup.hpp"

static_assert(std::is_nothrow_move_constructible_v<regroup::set>);
static_assert(std::is_nothrow_move_assignable_v<regroup::request>);
static_assert(!std::is_copy_constructible_v<regroup::request>);
static_assert(!std::is_copy_constructible_v<regroup::context>);
static_assert(!std::is_copy_assignable_v<regroup::state>);
static_assert(regroup::type_of<long>() == RG_I64 &&
              regroup::type_of<bool>() == RG_BOOL &&
              regroup::type_of<unsigned char>() == RG_U8 &&
              regroup::type_of<float>() == RG_F32);

static void need(bool holds, const char *what)
{
    if (holds)
        return;
    std::fprintf(stderr, "%s does not hold\n", what);
    std::abort();
}

static void check_calls(const regroup::context &ctx)
{
    const regroup::set world = ctx.world();
    int one = 1, several[3] = {1, 2, 3};
    std::vector<double> many(1000, 2.0);
    world.allreduce(one);
    world.allreduce(several, RG_MAX);
    regroup::request first = world.start_allreduce(many, RG_AVG);
    regroup::request second = std::move(first);
    need(!first.in_flight(), "a request that was moved holds nothing");
    second.wait();
    need(one == world.size() && several[2] == 3 && many[999] == 2.0,
         "the results are right");
    const std::vector<int> ranks = world.allgather(ctx.rank());
    need(ranks.size() == static_cast<std::size_t>(ctx.size()) &&
             ranks.back() == ctx.size() - 1,
         "allgather has each rank");
    auto shared = ctx.alloc<float>(64);
    shared[63] = 1;
    world.allreduce(regroup::span<float>(shared.get(), 64));
    need(shared[63] == static_cast<float>(ctx.size()), "shared memory is");
}

static void check_mistakes(const regroup::context &ctx)
{
    try {
        std::vector<int> uneven(ctx.rank() == 0 ? 2 : 1);
        ctx.world().allreduce(uneven);
        need(ctx.size() == 1, "a mismatch throws");
    } catch (const regroup::mismatch &found) {
        need(found.advice() == RG_ADVICE_FIX, "its advice is to fix it");
    }
    {
        regroup::group spoiled(ctx); // none of it starts
        std::vector<regroup::request> requests;
        static int data;
        requests.push_back(ctx.world().start_allreduce(data));
    }
    regroup::group good(ctx);
    std::vector<regroup::request> requests;
    int a = 1, b = 2;
    requests.push_back(ctx.world().start_allreduce(a));
    requests.push_back(ctx.world().start_allreduce(b));
    good.commit();
    regroup::wait_all(requests);
    need(b == 2 * ctx.size(), "a group gives its results");
}

static std::int64_t parts[3];

/* A plain object, though what it calls data is a part of it. */
static struct grid {
    std::int64_t cells[3], steps;
    std::int64_t *data()
    {
        return cells;
    }
} grid;

/* Once the others have made the commit, and are on their way to wait. */
static void die_before(const regroup::context &ctx)
{
    int token = 7;
    if (ctx.rank() != 1)
        return ctx.world().send(token, 1);
    for (int peer : {0, 2})
        ctx.world().recv(token, peer);
    std::raise(SIGKILL);
}

static void train(const regroup::context &ctx, regroup::state &state,
                  std::int64_t &step)
{
    const regroup::set even = ctx.split(ctx.rank() % 2, 0, "even");
    need(parts[2] == step, "what a span shows is registered, not the span");
    need(grid.steps == step, "a plain object is registered as a whole");
    while (step < 60) {
        std::vector<std::int64_t> one(20000, 1);
        if (step == 20 && ctx.generation() == 1)
            die_before(ctx);
        try {
            ctx.world().allreduce(one);
        } catch (const regroup::peer_lost &lost) {
            std::printf("slot %d caught %s\n", ctx.slot(),
                        rg_status_name(lost.status()));
            std::fflush(stdout);
            throw;
        }
        need(one[19999] == ctx.size(), "the sum is the world's size");
        parts[2] = grid.steps = ++step;
        state.metric("ranks", ctx.size());
        state.commit();
    }
    check_calls(ctx);
    check_mistakes(ctx);
}

int main()
try {
    regroup::context made(regroup::elastic);
    const regroup::context ctx(std::move(made));
    regroup::state state(ctx);
    std::int64_t step = 0;
    std::uint64_t told = 0;
    state.add("step", step);
    regroup::span<std::int64_t> view(parts);
    state.add("view", view);
    state.add("grid", grid);
    state.on_commit([&](std::uint64_t now) { told = now; });
    state.run([&] { train(ctx, state, step); });
    need(step == 60 && told >= 60, "each step counts");
    std::printf("slot %d is done\n", ctx.slot());
    try {
        state.run([] { throw 1; });
    } catch (const regroup::error &found) {
        std::printf("again: %s\n", found.what());
    }
    return 0;
} catch (const regroup::error &caught) {
    std::fprintf(stderr, "owner: %s\n", caught.what());
    return regroup::exit_code(caught);
}
