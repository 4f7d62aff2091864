/* A small decoder in plain C: it reads characters, and learns which one comes
 * next. A sample is T + 1 characters, numbers below V. It knows nothing about
 * Regroup.
 *
 * A sample's gradients are rounded to multiples of 2^-32 before they are added:
 * doubles hold such sums exactly, so they don't depend on the order. */
#ifndef GPT_NET_H
#define GPT_NET_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    T = 32,    /* characters that it looks back on */
    C = 32,    /* channels: numbers by which it knows a character there */
    HEADS = 4, /* each looks back for something else, with */
    D = C / HEADS,
    LAYERS = 2,
    V = 96 /* characters: a new line, and blank to tilde */
};

/* ---------------------------------------------------------- the parameters */

/* A tensor of each layer, in the order of forward. */
enum { NORM1, QKV, OUT, NORM2, UP, DOWN, IN_LAYER };
/* All of them; layer l has those from LAYER + l * IN_LAYER on. */
enum { EMBED, PLACE, LAYER, END = LAYER + LAYERS * IN_LAYER, HEAD, TENSORS };

static const int in_layer[IN_LAYER] = {C, 3 * C *C, C *C,
                                       C, 4 * C *C, 4 * C *C};

static int size_of(int tensor)
{
    if (tensor >= LAYER && tensor < END)
        return in_layer[(tensor - LAYER) % IN_LAYER];
    return tensor == EMBED || tensor == HEAD ? V * C
           : tensor == PLACE                 ? T * C
                                             : C;
}

enum { WEIGHTS = 2 * V * C + T * C + C + LAYERS * (2 * C + 12 * C * C) };

/* What a step changes. */
typedef struct model {
    float w[WEIGHTS], m[WEIGHTS], v[WEIGHTS]; /* weights; Adam's averages */
    double loss;                              /* of the newest step's batch */
} model;

/* What forward leaves for backward. */
typedef struct layer {
    float in[T * C], norm1[T * C], qkv[T * 3 * C], att[HEADS * T * T];
    float mixed[T * C], mid[T * C], norm2[T * C], up[T * 4 * C];
} layer;

/* The gradient of this tensor has all of its sums. */
typedef void (*gpt_ready)(void *arg, int tensor);

typedef struct gpt {
    model *model;
    float *w[TENSORS];     /* in the model */
    double *grad[TENSORS]; /* sums over samples, wherever they are; */
    double *loss;          /* the same */
    layer layer[LAYERS];
    float end[T * C], norm[T * C], chance[T * V];
} gpt;

/* ------------------------------------------------------------- the network */

static void add(double *sum, float x)
{
    *sum += rint((double)x * 0x1p32) * 0x1p-32;
}

/* y[t] = w x[t], from `in` numbers to `out`. */
static void linear(float *y, const float *x, const float *w, int in, int out)
{
    for (int t = 0; t < T; t++)
        for (int o = 0; o < out; o++) {
            float sum = 0;
            for (int i = 0; i < in; i++)
                sum += w[o * in + i] * x[t * in + i];
            y[t * out + o] = sum;
        }
}

static void linear_back(float *dx, double *dw, const float *dy, const float *x,
                        const float *w, int in, int out)
{
    memset(dx, 0, sizeof *dx * (size_t)(T * in));
    for (int t = 0; t < T; t++)
        for (int o = 0; o < out; o++)
            for (int i = 0; i < in; i++)
                dx[t * in + i] += dy[t * out + o] * w[o * in + i];
    for (int o = 0; o < out; o++) {
        float row[4 * C] = {0};
        for (int t = 0; t < T; t++)
            for (int i = 0; i < in; i++)
                row[i] += dy[t * out + o] * x[t * in + i];
        for (int i = 0; i < in; i++)
            add(&dw[o * in + i], row[i]);
    }
}

static float length_of(const float *x)
{
    float sum = 1e-5f;
    for (int i = 0; i < C; i++)
        sum += x[i] * x[i] / C;
    return sqrtf(sum);
}

/* Each place's channels, of length one, times w. */
static void normalize(float *y, const float *x, const float *w)
{
    for (int t = 0; t < T; t++, x += C, y += C) {
        const float length = length_of(x);
        for (int i = 0; i < C; i++)
            y[i] = w[i] * x[i] / length;
    }
}

/* Adds to dx. */
static void normalize_back(float *dx, double *dw, const float *dy,
                           const float *x, const float *w)
{
    for (int t = 0; t < T; t++, x += C, dx += C, dy += C) {
        const float length = length_of(x);
        float along = 0;
        for (int i = 0; i < C; i++) {
            along += w[i] * dy[i] * x[i] / C;
            add(&dw[i], dy[i] * x[i] / length);
        }
        for (int i = 0; i < C; i++)
            dx[i] += w[i] * dy[i] / length -
                     x[i] * along / (length * length * length);
    }
}

/* Chances that add up to one. */
static void softmax(float *p, int n)
{
    float most = p[0], sum = 0;
    for (int i = 1; i < n; i++)
        most = fmaxf(most, p[i]);
    for (int i = 0; i < n; i++)
        sum += p[i] = expf(p[i] - most);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

static float dot(const float *a, const float *b)
{
    float sum = 0;
    for (int i = 0; i < D; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Each head's query of a place meets the keys of that and earlier ones, and
 * takes their values, more of those that it likes better. */
static void attend(layer *l)
{
    memset(l->mixed, 0, sizeof l->mixed);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < T; t++) {
            const float *query = l->qkv + t * 3 * C + h * D;
            float *att = l->att + (h * T + t) * T,
                  *to = l->mixed + t * C + h * D;
            for (int s = 0; s <= t; s++)
                att[s] = dot(query, l->qkv + s * 3 * C + C + h * D) / sqrtf(D);
            softmax(att, t + 1);
            for (int s = 0; s <= t; s++)
                for (int i = 0; i < D; i++)
                    to[i] += att[s] * l->qkv[s * 3 * C + 2 * C + h * D + i];
        }
}

static void attend_back(float *dqkv, const float *dmixed, const layer *l)
{
    memset(dqkv, 0, sizeof l->qkv);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < T; t++) {
            const float *att = l->att + (h * T + t) * T;
            const float *dto = dmixed + t * C + h * D;
            float datt[T], mean = 0;
            for (int s = 0; s <= t; s++) {
                const int value = s * 3 * C + 2 * C + h * D;
                datt[s] = dot(dto, l->qkv + value);
                mean += att[s] * datt[s];
                for (int i = 0; i < D; i++)
                    dqkv[value + i] += att[s] * dto[i];
            }
            for (int s = 0; s <= t; s++) {
                const int query = t * 3 * C + h * D,
                          key = s * 3 * C + C + h * D;
                const float d = att[s] * (datt[s] - mean) / sqrtf(D);
                for (int i = 0; i < D; i++) {
                    dqkv[query + i] += d * l->qkv[key + i];
                    dqkv[key + i] += d * l->qkv[query + i];
                }
            }
        }
}

static void add_up(float *y, const float *a, const float *b)
{
    for (int i = 0; i < T * C; i++)
        y[i] = a[i] + b[i];
}

/* Chances of each place's next character; adds to the loss. */
static void gpt_forward(gpt *g, const unsigned char *text)
{
    float x[T * C], more[T * C];
    for (int i = 0; i < T * C; i++)
        x[i] = g->w[EMBED][text[i / C] * C + i % C] + g->w[PLACE][i];
    for (int k = 0; k < LAYERS; k++) {
        layer *l = &g->layer[k];
        float *const *w = &g->w[LAYER + k * IN_LAYER];
        memcpy(l->in, x, sizeof x);
        normalize(l->norm1, l->in, w[NORM1]);
        linear(l->qkv, l->norm1, w[QKV], C, 3 * C);
        attend(l);
        linear(more, l->mixed, w[OUT], C, C);
        add_up(l->mid, l->in, more);
        normalize(l->norm2, l->mid, w[NORM2]);
        linear(l->up, l->norm2, w[UP], C, 4 * C);
        for (int i = 0; i < T * 4 * C; i++)
            l->up[i] = fmaxf(l->up[i], 0);
        linear(more, l->up, w[DOWN], 4 * C, C);
        add_up(x, l->mid, more);
    }
    memcpy(g->end, x, sizeof x);
    normalize(g->norm, x, g->w[END]);
    linear(g->chance, g->norm, g->w[HEAD], C, V);
    for (int t = 0; t < T; t++) {
        softmax(g->chance + t * V, V);
        add(g->loss, -logf(g->chance[t * V + text[t + 1]]) / T);
    }
}

static void tell_ready(gpt_ready ready, void *arg, int from, int to)
{
    for (int tensor = from; ready != NULL && tensor >= to; tensor--)
        ready(arg, tensor);
}

/* dx: of the layer's output; then of its input. */
static void layer_back(gpt *g, int k, float *dx)
{
    static float dup[T * 4 * C], dqkv[T * 3 * C], d[T * C];
    const int at = LAYER + k * IN_LAYER;
    const layer *l = &g->layer[k];
    float *const *w = &g->w[at];
    double *const *dw = &g->grad[at];
    linear_back(dup, dw[DOWN], dx, l->up, w[DOWN], 4 * C, C);
    for (int i = 0; i < T * 4 * C; i++)
        dup[i] = l->up[i] > 0 ? dup[i] : 0;
    linear_back(d, dw[UP], dup, l->norm2, w[UP], C, 4 * C);
    normalize_back(dx, dw[NORM2], d, l->mid, w[NORM2]);
    linear_back(d, dw[OUT], dx, l->mixed, w[OUT], C, C);
    attend_back(dqkv, d, l);
    linear_back(d, dw[QKV], dqkv, l->norm1, w[QKV], C, 3 * C);
    normalize_back(dx, dw[NORM1], d, l->in, w[NORM1]);
}

/* After gpt_forward: add to the gradients, from the last tensor to the first.
 * ready may be NULL. */
static void gpt_backward(gpt *g, const unsigned char *text, gpt_ready ready,
                         void *arg)
{
    static float dchance[T * V], d[T * C], dx[T * C];
    for (int i = 0; i < T * V; i++)
        dchance[i] = (g->chance[i] - (text[i / V + 1] == i % V)) / T;
    memset(dx, 0, sizeof dx);
    linear_back(d, g->grad[HEAD], dchance, g->norm, g->w[HEAD], C, V);
    normalize_back(dx, g->grad[END], d, g->end, g->w[END]);
    tell_ready(ready, arg, HEAD, END);
    for (int k = LAYERS - 1; k >= 0; k--) {
        layer_back(g, k, dx);
        tell_ready(ready, arg, LAYER + (k + 1) * IN_LAYER - 1,
                   LAYER + k * IN_LAYER);
    }
    for (int i = 0; i < T * C; i++) {
        add(&g->grad[EMBED][text[i / C] * C + i % C], dx[i]);
        add(&g->grad[PLACE][i], dx[i]);
    }
    tell_ready(ready, arg, PLACE, EMBED);
}

/* Adam, with the mean gradient of n samples. */
static void gpt_move(gpt *g, uint64_t step, uint64_t n)
{
    const float first = 1 - powf(0.9f, (float)step);
    const float second = 1 - powf(0.99f, (float)step);
    model *to = g->model;
    for (int k = 0; k < TENSORS; k++)
        for (int i = 0; i < size_of(k); i++) {
            const float d = (float)(g->grad[k][i] / (double)n);
            const long at = &g->w[k][i] - to->w;
            to->m[at] += 0.1f * (d - to->m[at]);
            to->v[at] += 0.01f * (d * d - to->v[at]);
            to->w[at] -= 3e-3f * (to->m[at] / first) /
                         (sqrtf(to->v[at] / second) + 1e-8f);
        }
    to->loss = *g->loss / (double)n;
}

/* The same on every worker. */
static void gpt_init(gpt *g, model *to)
{
    uint32_t dice = 1;
    float *at = to->w;
    g->model = to;
    for (int k = 0; k < TENSORS; at += size_of(k++)) {
        g->w[k] = at;
        for (int i = 0; i < size_of(k); i++) {
            dice = dice * 1664525u + 1013904223u;
            at[i] =
                size_of(k) == C ? 1 : ((float)(dice >> 8) / 0x1p23f - 1) / 8;
        }
    }
}

#endif
