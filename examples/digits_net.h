/* The digits and the 64-32-10 network of the examples; nothing here knows about
 * Regroup. A step is: digits_clear, digits_add for every sample of the batch,
 * then digits_apply with the sums of all samples. What the CUDA example's
 * kernels also use is marked ON_DEVICE.
 *
 * Exact sums are integers, fixed point at a scale of 2^32: the order of adding
 * makes no difference, so neither does the number of workers. Sums of floats
 * are faster, but depend on it. Compile with -ffp-contract=off, which equal
 * results need. */
#ifndef EXAMPLES_DIGITS_NET_H
#define EXAMPLES_DIGITS_NET_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 64, HIDDEN = 32, OUT = 10, MAX_LINES = 2000 };
enum { W1 = 0, B1 = IN * HIDDEN, W2 = B1 + HIDDEN, B2 = W2 + HIDDEN * OUT };
enum { WEIGHTS = B2 + OUT, LOSS = WEIGHTS, SUMS };

#define SCALE    4294967296.0 /* of the fixed point */
#define RATE     0.2f
#define MOMENTUM 0.9f

#ifdef __CUDACC__
#define ON_DEVICE static inline __host__ __device__
#else
#define ON_DEVICE static inline
#endif

typedef struct digit {
    float pixel[IN];
    int is; /* 0 .. 9 */
} digit;

typedef struct digits {
    digit train[MAX_LINES], test[MAX_LINES];
    uint64_t train_count, test_count;
} digits;

/* What a step changes; it has no padding. */
typedef struct model {
    uint64_t step;
    double loss; /* mean of the last batch */
    float weight[WEIGHTS], speed[WEIGHTS];
} model;

/* The gradient of a number of samples, and after it their loss. */
typedef struct sums {
    int is_float;
    void *data; /* SUMS int64_t, or float */
} sums;

/* ------------------------------------------------------------------- data */

static inline int digits_read_line(char *line, digit *d)
{
    for (int i = 0; i <= IN; i++) {
        char *end = NULL;
        const long value = strtol(line, &end, 10);
        if (end == line || value < 0 || value > (i < IN ? 16 : OUT - 1))
            return -1;
        if (i < IN)
            d->pixel[i] = (float)value / 16;
        else
            d->is = (int)value;
        line = *end == ',' ? end + 1 : end;
    }
    return 0;
}

/* Every fifth line is for testing. -1: the file is not of this kind. */
static inline int digits_read(const char *path, digits *all)
{
    FILE *file = fopen(path, "r");
    char line[512];
    int bad = file == NULL;
    for (int n = 0; !bad && n < MAX_LINES && fgets(line, sizeof line, file);
         n++)
        bad = digits_read_line(line, n % 5 == 4
                                         ? &all->test[all->test_count++]
                                         : &all->train[all->train_count++]);
    if (file != NULL)
        fclose(file);
    return bad || all->test_count == 0 ? -1 : 0;
}

/* ---------------------------------------------------------------- network */

static inline void digits_init(model *m)
{
    uint64_t x = 1;
    memset(m, 0, sizeof *m);
    for (int i = 0; i < WEIGHTS; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const float unit = (float)(x >> 40) / 8388608.0f - 1; /* -1 .. 1 */
        const int is_bias = (i >= B1 && i < W2) || i >= B2;
        m->weight[i] = is_bias ? 0 : unit * (i < B1 ? 0.2f : 0.3f);
    }
}

/* Forward: hidden units, then the probability of each digit. */
ON_DEVICE void digits_predict(const model *m, const digit *d,
                              float hidden[HIDDEN], float p[OUT])
{
    for (int h = 0; h < HIDDEN; h++) {
        float sum = m->weight[B1 + h];
        for (int i = 0; i < IN; i++)
            sum += m->weight[W1 + h * IN + i] * d->pixel[i];
        hidden[h] = sum > 0 ? sum : 0;
    }
    float top = -INFINITY, total = 0;
    for (int o = 0; o < OUT; o++) {
        p[o] = m->weight[B2 + o];
        for (int h = 0; h < HIDDEN; h++)
            p[o] += m->weight[W2 + o * HIDDEN + h] * hidden[h];
        top = p[o] > top ? p[o] : top;
    }
    for (int o = 0; o < OUT; o++)
        total += p[o] = expf(p[o] - top);
    for (int o = 0; o < OUT; o++)
        p[o] /= total;
}

static inline void digits_clear(const sums *s)
{
    memset(s->data, 0, SUMS * (s->is_float ? sizeof(float) : sizeof(int64_t)));
}

ON_DEVICE int64_t digits_fixed(float value)
{
    return llrint((double)value * SCALE);
}

ON_DEVICE double digits_fixed_mean(int64_t sum, uint64_t n)
{
    return (double)sum / SCALE / (double)n;
}

static inline void digits_put(const sums *s, int k, float value)
{
    if (s->is_float)
        ((float *)s->data)[k] += value;
    else
        ((int64_t *)s->data)[k] += digits_fixed(value);
}

static inline double digits_mean(const sums *s, int k, uint64_t n)
{
    return s->is_float ? (double)((const float *)s->data)[k] / (double)n
                       : digits_fixed_mean(((const int64_t *)s->data)[k], n);
}

/* Backward: add one sample's gradient and loss. */
static inline void digits_add(const sums *s, const model *m, const digit *d)
{
    float hidden[HIDDEN], p[OUT], back[HIDDEN] = {0};
    digits_predict(m, d, hidden, p);
    digits_put(s, LOSS, -logf(fmaxf(p[d->is], 1e-30f)));
    for (int o = 0; o < OUT; o++) {
        const float off = p[o] - (o == d->is ? 1.0f : 0.0f);
        digits_put(s, B2 + o, off);
        for (int h = 0; h < HIDDEN; h++) {
            digits_put(s, W2 + o * HIDDEN + h, off * hidden[h]);
            back[h] += off * m->weight[W2 + o * HIDDEN + h];
        }
    }
    for (int h = 0; h < HIDDEN; h++) {
        if (hidden[h] <= 0)
            continue;
        digits_put(s, B1 + h, back[h]);
        for (int i = 0; i < IN; i++)
            digits_put(s, W1 + h * IN + i, back[h] * d->pixel[i]);
    }
}

/* The mean gradient of weight k moves it. */
ON_DEVICE void digits_move(model *m, int k, double mean)
{
    m->speed[k] = MOMENTUM * m->speed[k] + (float)mean;
    m->weight[k] -= RATE * m->speed[k];
}

ON_DEVICE void digits_count(model *m, double loss)
{
    m->loss = loss;
    m->step++;
}

/* The sums of a whole batch of n become one step of the model. */
static inline void digits_apply(model *m, const sums *s, uint64_t n)
{
    for (int i = 0; i < WEIGHTS; i++)
        digits_move(m, i, digits_mean(s, i, n));
    digits_count(m, digits_mean(s, LOSS, n));
}

static inline int digits_guess(const model *m, const digit *d)
{
    float hidden[HIDDEN], p[OUT];
    int best = 0;
    digits_predict(m, d, hidden, p);
    for (int o = 1; o < OUT; o++)
        best = p[o] > p[best] ? o : best;
    return best;
}

/* The part of the test digits that the model gets right. */
static inline double digits_accuracy(const model *m, const digits *all)
{
    uint64_t right = 0;
    for (uint64_t i = 0; i < all->test_count; i++)
        right += digits_guess(m, &all->test[i]) == all->test[i].is;
    return (double)right / (double)all->test_count;
}

/* FNV-1a of the whole model. */
static inline uint64_t digits_hash(const model *m)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *m; i++)
        hash = (hash ^ ((const unsigned char *)m)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
