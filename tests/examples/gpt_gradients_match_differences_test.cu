/* The gradients of the GPT example are what its loss changes by: every
 * fifth weight is moved a little up and down. On the stand-in for CUDA.
 *
 * Covers: gpt_net.cuh */
#include "gpt_net.cuh"

#include <math.h>

enum { SEQUENCES = 3, LENGTH = 24 };
static const shape SMALL = {.L = 2, .C = 8, .H = 2, .T = 6, .V = 5};
static const float MOVED = 5e-3f;

static double total_loss(const gpt *g, const unsigned char *text,
                         const uint64_t *index, float *model)
{
    int64_t sum = 0;
    must(cudaMemcpy(g->model, model, model_bytes(g), cudaMemcpyHostToDevice),
         "model");
    gpt_forward(g, text, index, SEQUENCES);
    gpt_backward(g, text, index, SEQUENCES);
    must(cudaStreamSynchronize(g->stream), "loss");
    read_device(&sum, g->sums + g->count, sizeof sum);
    return (double)sum / SCALE;
}

static double slope(const gpt *g, const unsigned char *text,
                    const uint64_t *index, float *model, uint64_t i)
{
    const float was = model[i];
    model[i] = was + MOVED;
    const double above = total_loss(g, text, index, model);
    model[i] = was - MOVED;
    const double below = total_loss(g, text, index, model);
    model[i] = was;
    return (above - below) / (2 * (double)MOVED);
}

int main(void)
{
    static gpt g;
    unsigned char letters[LENGTH];
    const uint64_t places[SEQUENCES] = {0, 5, 17};
    int wrong = 0, moving = 0, looked_at = 0;
    cudaSetDevice(0);
    for (int i = 0; i < LENGTH; i++)
        letters[i] = (unsigned char)(i * i % 11 % SMALL.V);
    gpt_create(&g, SMALL, SEQUENCES);
    unsigned char *text = (unsigned char *)device_memory(LENGTH);
    uint64_t *index = (uint64_t *)device_memory(sizeof places);
    must(cudaMemcpy(text, letters, LENGTH, cudaMemcpyHostToDevice), "text");
    must(cudaMemcpy(index, places, sizeof places, cudaMemcpyHostToDevice),
         "places");
    float *model = (float *)malloc(model_bytes(&g));
    int64_t *sums = (int64_t *)malloc((g.count + 1) * sizeof *sums);
    read_device(model, g.model, model_bytes(&g));
    total_loss(&g, text, index, model);
    read_device(sums, g.sums, (g.count + 1) * sizeof *sums);
    for (uint64_t i = 0; i < g.count; i += 5, looked_at++) {
        const double mine = (double)sums[i] / SCALE;
        const double theirs = slope(&g, text, index, model, i);
        moving += fabs(theirs) > 1e-3;
        if (fabs(mine - theirs) > 1e-3 + 5e-3 * fabs(theirs) && ++wrong < 20)
            printf("weight %d: gradient %g, slope %g\n", (int)i, mine, theirs);
    }
    printf("%d of %d weights move the loss, %d gradients are wrong\n", moving,
           looked_at, wrong);
    return wrong > 0 || moving < looked_at / 2;
}
