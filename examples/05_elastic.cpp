// An elastic program in C++: owners give back what they own, and errors are
// exceptions. Kill any worker while it runs.
//
//   c++ -std=c++17 -o elastic 05_elastic.cpp $(pkg-config --cflags --libs regroup)
//   regroup run --min 1 --max 4 ./elastic
//
// It prints, from rank 0:
//
//   step 200: w is 0.00 1.00 2.00 3.00
#include <cstdint>
#include <cstdio>
#include <vector>

#include <regroup/regroup.hpp>

static void train(regroup::context &ctx, regroup::state &state,
                  std::int64_t &step, std::vector<float> &w)
{
    while (step < 200) {
        std::vector<float> g(w.size()); // your gradient; it pulls w to 0, 1, 2
        for (std::size_t i = 0; i < g.size(); i++)
            g[i] = w[i] - static_cast<float>(i);
        ctx.world().allreduce(g, RG_AVG); // a loss is thrown here
        for (std::size_t i = 0; i < g.size(); i++)
            w[i] -= 0.1F * g[i];
        step++;
        state.commit(); // from here on this step can't be lost
    }
}

int main()
try {
    regroup::context ctx(regroup::elastic);
    regroup::state state(ctx);
    std::int64_t step = 0;
    std::vector<float> w(4);
    state.add("step", step);
    state.add("w", w);
    state.run([&] { train(ctx, state, step, w); });
    if (ctx.rank() == 0)
        std::printf("step %d: w is %.2f %.2f %.2f %.2f\n",
                    static_cast<int>(step), static_cast<double>(w[0]),
                    static_cast<double>(w[1]), static_cast<double>(w[2]),
                    static_cast<double>(w[3]));
    return 0;
} catch (const regroup::error &caught) {
    std::fprintf(stderr, "elastic: %s\n", caught.what());
    return regroup::exit_code(caught);
}
