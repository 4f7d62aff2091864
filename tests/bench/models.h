/* The gradients of two well-known models: how many elements each tensor has. */
#ifndef BENCH_MODELS_H
#define BENCH_MODELS_H

#include <stdint.h>

#define MODEL_TENSORS_MAX 256

typedef struct model {
    int tensors;
    uint64_t count[MODEL_TENSORS_MAX], total;
} model;

/* Into a zeroed one. */
void model_resnet50(model *m);
void model_gpt2(model *m); /* small */

#endif
