/* Each tensor of the GPT in C: the largest element of its gradient is what the
 * loss changes by when that weight does. Tensors become ready from the last to
 * the first, each once, and not before their gradients are whole.
 *
 * Covers: gpt_net.h */
#include <stdio.h>

#include "examples/gpt_net.h"
#include "tests/check.h"

#define STEP 0.001f

static unsigned char text[T + 1];
static model net;
static gpt g;
static double sums[TENSORS][4 * C * C + V * C], whole[TENSORS], loss;
static int next = TENSORS;

static double checksum(int k)
{
    double sum = 0;
    for (int i = 0; i < size_of(k); i++)
        sum += sums[k][i] * (i % 7 + 1);
    return sum;
}

static void on_ready(void *arg, int tensor)
{
    CHECK_EQ(tensor, --next);
    CHECK(arg == &g);
    whole[tensor] = checksum(tensor);
}

static double loss_now(void)
{
    loss = 0;
    gpt_forward(&g, text);
    return loss;
}

static double loss_at(float *weight, float value)
{
    const float was = *weight;
    *weight = value;
    const double found = loss_now();
    *weight = was;
    return found;
}

static int largest(int k)
{
    int at = 0;
    for (int i = 1; i < size_of(k); i++)
        if (fabs(sums[k][i]) > fabs(sums[k][at]))
            at = i;
    return at;
}

int main(void)
{
    for (int i = 0; i <= T; i++)
        text[i] = (unsigned char)(37 * i % V);
    gpt_init(&g, &net);
    g.loss = &loss;
    for (int k = 0; k < TENSORS; k++)
        g.grad[k] = sums[k];
    const double first = loss_now();
    CHECK(fabs(first - log(V)) < 0.5);
    gpt_backward(&g, text, on_ready, &g);
    CHECK_EQ(next, 0);
    for (int k = 0; k < TENSORS; k++) {
        const int i = largest(k);
        float *w = &g.w[k][i];
        const double slope =
            (loss_at(w, *w + STEP) - loss_at(w, *w - STEP)) / (2 * STEP);
        printf("tensor %d: gradient %g, difference %g\n", k, sums[k][i], slope);
        CHECK(fabs(sums[k][i]) > 1e-3);
        CHECK(fabs(slope - sums[k][i]) < 5e-4 + 0.005 * fabs(sums[k][i]));
        CHECK(whole[k] == checksum(k));
    }
    gpt_move(&g, 1, 1);
    CHECK(net.loss == loss && loss_now() < first - 0.01);
    return 0;
}
