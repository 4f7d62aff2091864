#include "tests/bench/models.h"

static void add(model *m, uint64_t count)
{
    m->count[m->tensors++] = count;
    m->total += count;
}

static void add_convolution(model *m, uint64_t in, uint64_t out, uint64_t side)
{
    add(m, in * out * side * side);
    add(m, out);
    add(m, out);
}

void model_resnet50(model *m)
{
    static const int blocks[] = {3, 4, 6, 3};
    uint64_t in = 64, width = 64;
    add_convolution(m, 3, 64, 7);
    for (int stage = 0; stage < 4; stage++, width *= 2)
        for (int b = 0; b < blocks[stage]; b++) {
            add_convolution(m, in, width, 1);
            add_convolution(m, width, width, 3);
            add_convolution(m, width, 4 * width, 1);
            if (b == 0)
                add_convolution(m, in, 4 * width, 1);
            in = 4 * width;
        }
    add(m, 2048 * 1000);
    add(m, 1000);
}

void model_gpt2(model *m)
{
    const uint64_t d = 768;
    add(m, 50257 * d);
    add(m, 1024 * d);
    for (int layer = 0; layer < 12; layer++) {
        const uint64_t matrix[] = {d * 3 * d, d * d, d * 4 * d, 4 * d * d};
        const uint64_t bias[] = {3 * d, d, 4 * d, d};
        for (int i = 0; i < 4; i++) {
            if (i % 2 == 0) {
                add(m, d);
                add(m, d);
            }
            add(m, matrix[i]);
            add(m, bias[i]);
        }
    }
    add(m, d);
    add(m, d);
}
