/* A sorted array: a job has tens of keys in a range, and reading in order is
 * what its owner does most. strcmp orders bytes as etcd does. */
#include "elastic/etcd/mirrored.h"

#include <string.h>

#include "sdk/base/grow.h"

/* The place of a key, or where it would stand. */
static size_t place_of(const rg__kvs *copy, const char *key, bool *is_there_p)
{
    size_t low = 0, high = copy->n;
    *is_there_p = false;
    while (low < high && !*is_there_p) {
        const size_t mid = low + (high - low) / 2;
        const int order = strcmp(copy->kv[mid].key, key);
        *is_there_p = order == 0;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return high;
}

bool rg__copy_set(rg__kvs *copy, rg__kvs *list)
{
    for (size_t i = 1; i < list->n; i++)
        if (strcmp(list->kv[i - 1].key, list->kv[i].key) >= 0)
            return false;
    rg__kvs_free(copy);
    *copy = *list;
    *list = (rg__kvs){0};
    return true;
}

bool rg__copy_equal(const rg__kvs *a, const rg__kvs *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->kv[i].key, b->kv[i].key) != 0 ||
            a->kv[i].create_revision != b->kv[i].create_revision ||
            a->kv[i].mod_revision != b->kv[i].mod_revision)
            return false;
    return true;
}

bool rg__copy_put(rg__kvs *copy, rg__kv *kv)
{
    bool is_there = false;
    const size_t at = place_of(copy, kv->key, &is_there);
    if (is_there) {
        rg__kv_free(&copy->kv[at]);
    } else {
        if (rg__grow(&copy->kv, copy->n, sizeof *copy->kv) == NULL)
            return false;
        memmove(&copy->kv[at + 1], &copy->kv[at],
                (copy->n - at) * sizeof *copy->kv);
        copy->n++;
    }
    copy->kv[at] = *kv;
    *kv = (rg__kv){0};
    return true;
}

void rg__copy_remove(rg__kvs *copy, const char *key)
{
    bool is_there = false;
    const size_t at = place_of(copy, key, &is_there);
    if (!is_there)
        return;
    rg__kv_free(&copy->kv[at]);
    copy->n--;
    memmove(&copy->kv[at], &copy->kv[at + 1],
            (copy->n - at) * sizeof *copy->kv);
}
