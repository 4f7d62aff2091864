// Alone: what leaves the function of run, or of on_commit, passes through run,
// the latter from the commit that called it.
#include <cstdio>
#include <string>

#include "regroup/regroup.hpp"

int main(int argc, char **argv)
{
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
