/* The GPT of the CUDA example, with its gradients; nothing here knows about
 * Regroup. A step is: gpt_forward and gpt_backward with this rank's sequences,
 * then gpt_move with the sums of all sequences.
 *
 * The kernels are as simple as possible, with a thread for each result: they
 * are made to be read, and a library's would be faster.
 *
 * The sums are integers, fixed point at a scale of 2^32, and within a sequence
 * each kernel adds in a fixed order. So the model does not depend on how
 * sequences are shared out. */
#ifndef EXAMPLES_GPT_NET_CUH
#define EXAMPLES_GPT_NET_CUH

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#define THREADS 128          /* in a block */
#define SCALE   4294967296.0 /* of the fixed point */
#define RATE    2e-3f        /* of Adam */
#define BETA1   0.9f
#define BETA2   0.99f
#define TINY    1e-5f /* keeps divisors away from 0 */

enum { LAYERS_MAX = 16, POSITIONS_MAX = 1024, CHARACTERS = 256 };

/* L layers of C channels and H heads, over T positions; V different characters
 * in the text, which are numbered. */
typedef struct shape {
    int L, C, H, T, V;
} shape;

/* In device memory: its weights, and what forward leaves for backward. */
typedef struct layer {
    float *qkv, *join, *up, *down;
    float *x, *size1, *norm1, *heads, *look, *mix;
    float *middle, *size2, *norm2, *wide, *bent;
} layer;

typedef struct gpt {
    shape s;
    int batch;      /* room for so many sequences */
    uint64_t count; /* of weights */
    cudaStream_t stream;
    /* In device memory: */
    float *model;  /* weights, both moments of Adam, loss */
    int64_t *sums; /* of the sequences' gradients, and of their losses */
    float *token, *position, *head; /* weights beside the layers' */
    layer layers[LAYERS_MAX];
    float *x, *size, *norm, *logits, *losses; /* after the last layer */
    float *dx, *dnarrow, *dwide, *dlook;      /* on the way back */
} gpt;

/* After a GPU failure this process can't go on. The others see its exit, and
 * the agent starts the slot again. */
static void must(cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess)
        return;
    fprintf(stderr, "gpt_cuda: %s: %s\n", what, cudaGetErrorString(rc));
    exit(1);
}

static int blocks(int threads)
{
    return threads / THREADS + 1; /* none is no launch */
}

static __device__ int thread_number(void)
{
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

/* ------------------------------------------------------- kernels: forward */
/* A row is a position of a sequence: row b * T + t. */

/* x[row] = what its character is + where it stands */
__global__ void embed(float *x, const float *token, const float *position,
                      const unsigned char *text, const uint64_t *index,
                      int rows, shape s)
{
    const int i = thread_number(), row = i / s.C, c = i % s.C;
    if (row >= rows)
        return;
    const int t = row % s.T, is = text[index[row / s.T] + (uint64_t)t];
    x[i] = token[is * s.C + c] + position[t * s.C + c];
}

/* A row's mean square becomes 1. */
__global__ void normalize(float *out, float *size, const float *x, int rows,
                          int C)
{
    const int row = thread_number();
    if (row >= rows)
        return;
    float sum = 0;
    for (int c = 0; c < C; c++)
        sum += x[row * C + c] * x[row * C + c];
    size[row] = 1 / sqrtf(sum / (float)C + TINY);
    for (int c = 0; c < C; c++)
        out[row * C + c] = x[row * C + c] * size[row];
}

/* out[row][o] = base[row][o] + sum over k of in[row][k] * w[o][k] */
__global__ void multiply(float *out, const float *base, const float *in,
                         const float *w, int rows, int ins, int outs)
{
    const int i = thread_number(), row = i / outs, o = i % outs;
    if (row >= rows)
        return;
    float sum = base != NULL ? base[i] : 0;
    for (int k = 0; k < ins; k++)
        sum += in[row * ins + k] * w[o * ins + k];
    out[i] = sum;
}

static __device__ float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* A thread for each position of each head: how much it looks at each position
 * up to its own, and the mixture of their values. A row of heads holds the
 * queries of all heads, then the keys, then the values. */
__global__ void attend(float *mix, float *look, const float *heads,
                       int sequences, shape s)
{
    const int i = thread_number(), t = i % s.T, h = i / s.T % s.H;
    const int b = i / (s.T * s.H), width = s.C / s.H;
    if (b >= sequences)
        return;
    const float *first = heads + b * s.T * 3 * s.C + h * width;
    const float *query = first + t * 3 * s.C;
    float *p = look + i * s.T, top = -INFINITY, total = 0;
    for (int u = 0; u <= t; u++) {
        const float *key = first + u * 3 * s.C + s.C;
        p[u] = dot(query, key, width) / sqrtf((float)width);
        top = fmaxf(top, p[u]);
    }
    for (int u = 0; u <= t; u++) {
        p[u] = expf(p[u] - top);
        total += p[u];
    }
    for (int u = 0; u <= t; u++)
        p[u] /= total;
    for (int c = 0; c < width; c++) {
        float sum = 0;
        for (int u = 0; u <= t; u++)
            sum += p[u] * first[u * 3 * s.C + 2 * s.C + c];
        mix[(b * s.T + t) * s.C + h * width + c] = sum;
    }
}

static __device__ float gate(float x)
{
    return 1 / (1 + expf(-1.702f * x));
}

/* The nonlinearity between the layer's two wide products, about GELU. */
__global__ void bend(float *out, const float *in, int n)
{
    const int i = thread_number();
    if (i < n)
        out[i] = in[i] * gate(in[i]);
}

/* A thread for each row computes the loss from the logits and replaces these by
 * the loss's gradient: each character's chance, less 1 for the real one. */
__global__ void compare(float *logits, float *losses, const unsigned char *text,
                        const uint64_t *index, int rows, shape s)
{
    const int row = thread_number();
    if (row >= rows)
        return;
    float *p = logits + row * s.V, top = -INFINITY, total = 0;
    const int next = text[index[row / s.T] + (uint64_t)(row % s.T) + 1];
    for (int v = 0; v < s.V; v++)
        top = fmaxf(top, p[v]);
    for (int v = 0; v < s.V; v++)
        total += expf(p[v] - top);
    losses[row] = logf(total) + top - p[next];
    for (int v = 0; v < s.V; v++)
        p[v] =
            (expf(p[v] - top) / total - (v == next ? 1.0f : 0.0f)) / (float)s.T;
}

/* ------------------------------------------------------ kernels: backward */
/* d... is the gradient of what it is named after. Weights' gradients are
 * int64_t: a sequence's part is rounded to fixed point before it is added. */

static __device__ int64_t fixed(float value)
{
    return llrint((double)value * SCALE);
}

/* A sequence's loss is the mean over its positions. */
__global__ void add_losses(int64_t *sum, const float *losses, int sequences,
                           int T)
{
    if (thread_number() > 0)
        return;
    *sum = 0;
    for (int b = 0; b < sequences; b++) {
        float loss = 0;
        for (int t = 0; t < T; t++)
            loss += losses[b * T + t];
        *sum += fixed(loss / (float)T);
    }
}

__global__ void multiply_back(float *din, const float *dout, const float *w,
                              int rows, int ins, int outs)
{
    const int i = thread_number(), row = i / ins, k = i % ins;
    if (row >= rows)
        return;
    float sum = 0;
    for (int o = 0; o < outs; o++)
        sum += dout[row * outs + o] * w[o * ins + k];
    din[i] = sum;
}

__global__ void multiply_grad(int64_t *dw, const float *dout, const float *in,
                              int sequences, int T, int ins, int outs)
{
    const int i = thread_number(), o = i / ins, k = i % ins;
    if (o >= outs)
        return;
    dw[i] = 0;
    for (int b = 0; b < sequences; b++) {
        float sum = 0;
        for (int row = b * T; row < (b + 1) * T; row++)
            sum += dout[row * outs + o] * in[row * ins + k];
        dw[i] += fixed(sum);
    }
}

__global__ void bend_back(float *d, const float *in, int n)
{
    const int i = thread_number();
    if (i >= n)
        return;
    const float g = gate(in[i]);
    d[i] *= g + in[i] * 1.702f * g * (1 - g);
}

/* A thread for each position of each head: the gradients of what it looks at,
 * and of its query. */
__global__ void attend_back(float *dheads, float *dlook, const float *dmix,
                            const float *look, const float *heads,
                            int sequences, shape s)
{
    const int i = thread_number(), t = i % s.T, h = i / s.T % s.H;
    const int b = i / (s.T * s.H), width = s.C / s.H;
    if (b >= sequences)
        return;
    const int at = b * s.T * 3 * s.C + h * width;
    const float *dm = dmix + (b * s.T + t) * s.C + h * width;
    const float *p = look + i * s.T;
    float *dp = dlook + i * s.T, mean = 0;
    for (int u = 0; u <= t; u++) {
        dp[u] = dot(dm, heads + at + u * 3 * s.C + 2 * s.C, width);
        mean += p[u] * dp[u];
    }
    for (int u = 0; u <= t; u++)
        dp[u] = p[u] * (dp[u] - mean) / sqrtf((float)width);
    for (int c = 0; c < width; c++) {
        float sum = 0;
        for (int u = 0; u <= t; u++)
            sum += dp[u] * heads[at + u * 3 * s.C + s.C + c];
        dheads[at + t * 3 * s.C + c] = sum;
    }
}

/* A thread for each position of each head: the gradients of its key and of its
 * value, from all positions that look at it. */
__global__ void attend_back_to(float *dheads, const float *dlook,
                               const float *dmix, const float *look,
                               const float *heads, int sequences, shape s)
{
    const int i = thread_number(), u = i % s.T, h = i / s.T % s.H;
    const int b = i / (s.T * s.H), width = s.C / s.H;
    if (b >= sequences)
        return;
    const int at = b * s.T * 3 * s.C + h * width;
    const int square = (b * s.H + h) * s.T * s.T;
    for (int c = 0; c < width; c++) {
        float key = 0, value = 0;
        for (int t = u; t < s.T; t++) {
            key += dlook[square + t * s.T + u] * heads[at + t * 3 * s.C + c];
            value += look[square + t * s.T + u] *
                     dmix[(b * s.T + t) * s.C + h * width + c];
        }
        dheads[at + u * 3 * s.C + s.C + c] = key;
        dheads[at + u * 3 * s.C + 2 * s.C + c] = value;
    }
}

/* Added to dx, which already has the gradient that bypasses the layer. */
__global__ void normalize_back(float *dx, const float *dout, const float *x,
                               const float *size, int rows, int C)
{
    const int row = thread_number();
    if (row >= rows)
        return;
    float sum = 0;
    for (int c = 0; c < C; c++)
        sum += dout[row * C + c] * x[row * C + c];
    const float r = size[row], along = r * r * r * sum / (float)C;
    for (int c = 0; c < C; c++)
        dx[row * C + c] += r * dout[row * C + c] - along * x[row * C + c];
}

/* A thread for each channel of each character: the sum over its places. */
__global__ void token_grad(int64_t *dtoken, const float *dx,
                           const unsigned char *text, const uint64_t *index,
                           int sequences, shape s)
{
    const int i = thread_number(), v = i / s.C, c = i % s.C;
    if (v >= s.V)
        return;
    dtoken[i] = 0;
    for (int b = 0; b < sequences; b++) {
        float sum = 0;
        for (int t = 0; t < s.T; t++)
            if (text[index[b] + (uint64_t)t] == v)
                sum += dx[(b * s.T + t) * s.C + c];
        dtoken[i] += fixed(sum);
    }
}

__global__ void position_grad(int64_t *dposition, const float *dx,
                              int sequences, shape s)
{
    const int i = thread_number();
    if (i >= s.T * s.C)
        return;
    dposition[i] = 0;
    for (int b = 0; b < sequences; b++)
        dposition[i] += fixed(dx[b * s.T * s.C + i]);
}

/* A thread for each weight moves it by the whole batch's gradient. The loss
 * comes after the weights and their moments. bias: corrects the moments, which
 * begin at 0. */
__global__ void adam(float *model, const int64_t *sums, uint64_t count,
                     uint64_t batch, float bias1, float bias2)
{
    const uint64_t i = (uint64_t)thread_number();
    if (i > count)
        return;
    const float mean = (float)((double)sums[i] / SCALE / (double)batch);
    if (i == count) {
        model[3 * count] = mean;
        return;
    }
    float *first = model + count + i, *second = model + 2 * count + i;
    *first = BETA1 * *first + (1 - BETA1) * mean;
    *second = BETA2 * *second + (1 - BETA2) * mean * mean;
    model[i] -= RATE * (*first / bias1) / (sqrtf(*second / bias2) + TINY);
}

/* ---------------------------------------------------------------- forward */

static void forward_layer(const gpt *g, const layer *l, float *out, int n)
{
    const shape s = g->s;
    const int rows = n * s.T, narrow = rows * s.C, wide = 4 * narrow;
    const cudaStream_t q = g->stream;
    normalize<<<blocks(rows), THREADS, 0, q>>>(l->norm1, l->size1, l->x, rows,
                                               s.C);
    multiply<<<blocks(3 * narrow), THREADS, 0, q>>>(l->heads, NULL, l->norm1,
                                                    l->qkv, rows, s.C, 3 * s.C);
    attend<<<blocks(rows * s.H), THREADS, 0, q>>>(l->mix, l->look, l->heads, n,
                                                  s);
    multiply<<<blocks(narrow), THREADS, 0, q>>>(l->middle, l->x, l->mix,
                                                l->join, rows, s.C, s.C);
    normalize<<<blocks(rows), THREADS, 0, q>>>(l->norm2, l->size2, l->middle,
                                               rows, s.C);
    multiply<<<blocks(wide), THREADS, 0, q>>>(l->wide, NULL, l->norm2, l->up,
                                              rows, s.C, 4 * s.C);
    bend<<<blocks(wide), THREADS, 0, q>>>(l->bent, l->wide, wide);
    multiply<<<blocks(narrow), THREADS, 0, q>>>(out, l->middle, l->bent,
                                                l->down, rows, 4 * s.C, s.C);
}

/* From n sequences of the text, which begin at these places, to the logits. */
static inline void gpt_forward(const gpt *g, const unsigned char *text,
                               const uint64_t *index, int n)
{
    const shape s = g->s;
    const int rows = n * s.T;
    const cudaStream_t q = g->stream;
    embed<<<blocks(rows * s.C), THREADS, 0, q>>>(
        g->layers[0].x, g->token, g->position, text, index, rows, s);
    for (int l = 0; l < s.L; l++)
        forward_layer(g, &g->layers[l], l + 1 < s.L ? g->layers[l + 1].x : g->x,
                      n);
    normalize<<<blocks(rows), THREADS, 0, q>>>(g->norm, g->size, g->x, rows,
                                               s.C);
    multiply<<<blocks(rows * s.V), THREADS, 0, q>>>(g->logits, NULL, g->norm,
                                                    g->head, rows, s.C, s.V);
}

/* --------------------------------------------------------------- backward */

/* Where the gradient of these weights is added up. */
static int64_t *grad_of(const gpt *g, const float *weights)
{
    return g->sums + (weights - g->model);
}

/* For out = in * w: the gradients of in and of w. */
static void product_back(const gpt *g, float *din, const float *dout,
                         const float *in, const float *w, int n, int ins,
                         int outs)
{
    const int rows = n * g->s.T;
    const cudaStream_t q = g->stream;
    multiply_grad<<<blocks(ins * outs), THREADS, 0, q>>>(
        grad_of(g, w), dout, in, n, g->s.T, ins, outs);
    multiply_back<<<blocks(rows * ins), THREADS, 0, q>>>(din, dout, w, rows,
                                                         ins, outs);
}

/* dx is the gradient of the layer's output, and becomes that of its input: it
 * bypasses both halves, and each adds its own part. */
static void backward_layer(const gpt *g, const layer *l, int n)
{
    const shape s = g->s;
    const int rows = n * s.T, wide = 4 * rows * s.C;
    const cudaStream_t q = g->stream;
    product_back(g, g->dwide, g->dx, l->bent, l->down, n, 4 * s.C, s.C);
    bend_back<<<blocks(wide), THREADS, 0, q>>>(g->dwide, l->wide, wide);
    product_back(g, g->dnarrow, g->dwide, l->norm2, l->up, n, s.C, 4 * s.C);
    normalize_back<<<blocks(rows), THREADS, 0, q>>>(
        g->dx, g->dnarrow, l->middle, l->size2, rows, s.C);

    product_back(g, g->dnarrow, g->dx, l->mix, l->join, n, s.C, s.C);
    attend_back<<<blocks(rows * s.H), THREADS, 0, q>>>(
        g->dwide, g->dlook, g->dnarrow, l->look, l->heads, n, s);
    attend_back_to<<<blocks(rows * s.H), THREADS, 0, q>>>(
        g->dwide, g->dlook, g->dnarrow, l->look, l->heads, n, s);
    product_back(g, g->dnarrow, g->dwide, l->norm1, l->qkv, n, s.C, 3 * s.C);
    normalize_back<<<blocks(rows), THREADS, 0, q>>>(g->dx, g->dnarrow, l->x,
                                                    l->size1, rows, s.C);
}

/* The same sequences: their gradients and losses, in sums. */
static inline void gpt_backward(const gpt *g, const unsigned char *text,
                                const uint64_t *index, int n)
{
    const shape s = g->s;
    const int rows = n * s.T;
    const cudaStream_t q = g->stream;
    compare<<<blocks(rows), THREADS, 0, q>>>(g->logits, g->losses, text, index,
                                             rows, s);
    add_losses<<<1, 1, 0, q>>>(g->sums + g->count, g->losses, n, s.T);
    product_back(g, g->dnarrow, g->logits, g->norm, g->head, n, s.C, s.V);
    must(cudaMemsetAsync(g->dx, 0, sizeof(float) * (size_t)(rows * s.C), q),
         "clearing a gradient");
    normalize_back<<<blocks(rows), THREADS, 0, q>>>(g->dx, g->dnarrow, g->x,
                                                    g->size, rows, s.C);
    for (int l = s.L - 1; l >= 0; l--)
        backward_layer(g, &g->layers[l], n);
    token_grad<<<blocks(s.V * s.C), THREADS, 0, q>>>(grad_of(g, g->token),
                                                     g->dx, text, index, n, s);
    position_grad<<<blocks(s.T * s.C), THREADS, 0, q>>>(grad_of(g, g->position),
                                                        g->dx, n, s);
}

/* The sums of a whole batch become a step of the model, the step-th from 1. */
static inline void gpt_move(const gpt *g, uint64_t step, uint64_t batch)
{
    adam<<<blocks((int)g->count + 1), THREADS, 0, g->stream>>>(
        g->model, g->sums, g->count, batch, 1 - powf(BETA1, (float)step),
        1 - powf(BETA2, (float)step));
    must(cudaGetLastError(), "launching kernels");
}

/* ------------------------------------------------------------ its beginning */

static uint64_t model_bytes(const gpt *g)
{
    return (3 * g->count + 1) * sizeof(float);
}

static void *device_memory(uint64_t bytes)
{
    void *at = NULL;
    must(cudaMalloc(&at, bytes), "taking device memory");
    return at;
}

static float *floats(int n)
{
    return (float *)device_memory((uint64_t)n * sizeof(float));
}

/* The next n weights. */
static float *cut(gpt *g, int n)
{
    float *at = g->model + g->count;
    g->count += (uint64_t)n;
    return at;
}

/* Give every weight its place. */
static void lay_out(gpt *g)
{
    const shape s = g->s;
    g->token = cut(g, s.V * s.C);
    g->position = cut(g, s.T * s.C);
    for (layer *l = g->layers; l < g->layers + s.L; l++) {
        l->qkv = cut(g, 3 * s.C * s.C);
        l->join = cut(g, s.C * s.C);
        l->up = cut(g, 4 * s.C * s.C);
        l->down = cut(g, 4 * s.C * s.C);
    }
    g->head = cut(g, s.V * s.C);
}

/* Pseudo-random weights, the same everywhere; all else is 0. */
static void fill_model(const gpt *g)
{
    float *model = (float *)calloc(1, model_bytes(g));
    uint64_t x = 1;
    for (uint64_t i = 0; i < g->count; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const float unit = (float)(x >> 40) / 8388608.0f - 1; /* -1 .. 1 */
        model[i] = unit / sqrtf((float)g->s.C);
    }
    must(cudaMemcpy(g->model, model, model_bytes(g), cudaMemcpyHostToDevice),
         "filling device memory");
    free(model);
}

static void make_room_in_layer(layer *l, int rows, shape s)
{
    l->x = floats(rows * s.C);
    l->size1 = floats(rows);
    l->norm1 = floats(rows * s.C);
    l->heads = floats(rows * 3 * s.C);
    l->look = floats(rows * s.H * s.T);
    l->mix = floats(rows * s.C);
    l->middle = floats(rows * s.C);
    l->size2 = floats(rows);
    l->norm2 = floats(rows * s.C);
    l->wide = floats(rows * 4 * s.C);
    l->bent = floats(rows * 4 * s.C);
}

static void make_room(gpt *g)
{
    const shape s = g->s;
    const int rows = g->batch * s.T;
    for (layer *l = g->layers; l < g->layers + s.L; l++)
        make_room_in_layer(l, rows, s);
    g->x = floats(rows * s.C);
    g->size = floats(rows);
    g->norm = floats(rows * s.C);
    g->logits = floats(rows * s.V);
    g->losses = floats(rows);
    g->dx = floats(rows * s.C);
    g->dnarrow = floats(rows * s.C);
    g->dwide = floats(rows * 4 * s.C);
    g->dlook = floats(rows * s.H * s.T);
}

/* A new model of this shape, on the current device. */
static inline void gpt_create(gpt *g, shape s, int batch)
{
    const int weights = (2 * s.V + s.T + 12 * s.L * s.C) * s.C;
    g->s = s;
    g->batch = batch;
    g->model = floats(3 * weights + 1);
    g->sums = (int64_t *)device_memory(((uint64_t)weights + 1) * 8);
    must(cudaStreamCreate(&g->stream), "making a stream");
    lay_out(g);
    fill_model(g);
    make_room(g);
}

/* ------------------------------------------------------------ what it knows */

static void read_device(void *to, const void *from, uint64_t bytes)
{
    must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost),
         "copying from the device");
}

/* The last step's loss. */
static inline double gpt_loss(const gpt *g)
{
    float loss = 0;
    read_device(&loss, g->model + 3 * g->count, sizeof loss);
    return (double)loss;
}

/* FNV-1a of the whole model. */
static inline uint64_t gpt_hash(const gpt *g)
{
    const uint64_t bytes = model_bytes(g);
    unsigned char *model = (unsigned char *)malloc(bytes);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    read_device(model, g->model, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        hash = (hash ^ model[i]) * UINT64_C(0x100000001b3);
    free(model);
    return hash;
}

/* A character, drawn with the model's probabilities. */
static unsigned char draw(const float *logits, int V, uint64_t *dice)
{
    float top = -INFINITY, total = 0;
    for (int v = 0; v < V; v++)
        top = fmaxf(top, logits[v]);
    for (int v = 0; v < V; v++)
        total += expf(logits[v] - top);
    *dice = *dice * UINT64_C(6364136223846793005) + 1;
    float left = (float)(*dice >> 40) / 16777216.0f * total;
    int v = 0;
    while (v < V - 1 && (left -= expf(logits[v] - top)) >= 0)
        v++;
    return (unsigned char)v;
}

/* Write n characters after the first T of a text. */
static inline void gpt_write(const gpt *g, const unsigned char *begin,
                             unsigned char *written, int n)
{
    const size_t T = (size_t)g->s.T, V = (size_t)g->s.V;
    unsigned char window[POSITIONS_MAX];
    float logits[CHARACTERS];
    uint64_t dice = 1;
    unsigned char *text = (unsigned char *)device_memory(T);
    uint64_t *index = (uint64_t *)device_memory(sizeof *index);
    must(cudaMemsetAsync(index, 0, sizeof *index, g->stream), "a place");
    memcpy(window, begin, T);
    for (int i = 0; i < n; i++) {
        must(
            cudaMemcpyAsync(text, window, T, cudaMemcpyHostToDevice, g->stream),
            "copying the window");
        gpt_forward(g, text, index, 1);
        must(cudaStreamSynchronize(g->stream), "writing");
        read_device(logits, g->logits + (T - 1) * V, V * sizeof *logits);
        written[i] = draw(logits, g->s.V, &dice);
        memmove(window, window + 1, T - 1);
        window[T - 1] = written[i];
    }
    must(cudaFree(text), "giving back memory");
    must(cudaFree(index), "giving back memory");
}

#endif
