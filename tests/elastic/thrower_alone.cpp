// What leaves the function of run, or of on_commit, passes through run, the
// latter from the commit that called it; alone, but for "doubted": there the
// next generation has called it, and another step must not come.
#include <cstdio>
#include <string>

#include "regroup/regroup.hpp"

static int doubted()
{
    regroup::context ctx(regroup::elastic);
    regroup::state state(ctx);
    int step = 0;
    bool has_thrown = false;
    state.add("step", step);
    state.on_commit([&](std::uint64_t now) {
        has_thrown = now == 8 && ctx.slot() == 1;
        if (has_thrown)
            throw std::string("doubted");
    });
    try {
        state.run([&] {
            if (has_thrown)
                std::puts("another step");
            while (step < 12) {
                step++;
                state.commit();
            }
        });
    } catch (const std::string &found) {
        std::printf("caught %s\n", found.c_str());
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && std::string(argv[1]) == "doubted")
        return doubted();
    const bool is_told = argc > 1 && std::string(argv[1]) == "told";
    regroup::context ctx(regroup::elastic);
    regroup::state state(ctx);
    int step = 0;
    state.add("step", step);
    if (is_told)
        state.on_commit([](std::uint64_t) { throw std::string("told"); });
    try {
        state.run([&] {
            state.commit();
            throw std::string(is_told ? "behind the commit" : "mine");
        });
    } catch (const std::string &found) {
        std::printf("caught %s\n", found.c_str());
        return 0;
    }
    return 1;
}
