/* A mirror's copy of a range: keys in order, each with what it was last. */
#ifndef RG_ELASTIC_ETCD_MIRRORED_H
#define RG_ELASTIC_ETCD_MIRRORED_H

#include "elastic/etcd/json.h"

/* Replace the copy by a list in key order, whose keys become the copy's; the
 * list is empty then. false: the list is not in order, and stays. */
bool rg__copy_set(rg__kvs *copy, rg__kvs *list);
/* Same keys at the same revisions? */
bool rg__copy_equal(const rg__kvs *a, const rg__kvs *b);
/* kv's texts become the copy's. false: no memory, and kv stays. */
bool rg__copy_put(rg__kvs *copy, rg__kv *kv);
void rg__copy_remove(rg__kvs *copy, const char *key);

#endif
