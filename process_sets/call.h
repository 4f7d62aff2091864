/* The arguments of a collective, while they are checked: a mistake in them is
 * ERR_INVALID on the rank that made it. The call counts as an operation,
 * though: the others learn of it in place of their own (rg__channel_refuse).
 *
 * Threads: a call belongs to one thread. Ownership: the arrays that it makes
 * belong to the start, and are freed with it. */
#ifndef RG_PROCESS_SETS_CALL_H
#define RG_PROCESS_SETS_CALL_H

#include "process_sets/sets_parts.h"

typedef struct rg__call {
    const char *what;
    rg_set *set;
    int n, rank; /* of the set, once known */
    size_t element;
    rg_op_params params;
    rg__start start;
} rg__call;

/* ------------------------------------------------------------ begin and end */

/* The place for the request of a call that returns when its operation has
 * ended, and so has none. */
extern rg_req *rg__call_waits;
#define RG__WAITS (&rg__call_waits)

rg_status rg__call_begin(rg__call *c, const char *what, rg_set *set,
                         rg__kind kind, const rg_op_params *params,
                         rg_req **req_p);

/* The same of kinds whose arguments depend on the set: its size and my rank are
 * known then; and of those that have a root. */
rg_status rg__call_begin_typed(rg__call *c, const char *what, rg_set *set,
                               rg__kind kind, rg_type type,
                               const rg_op_params *params, rg_req **req_p);
rg_status rg__call_begin_rooted(rg__call *c, const char *what, rg_set *set,
                                rg__kind kind, rg_type type,
                                const rg_op_params *params, rg_req **req_p);

/* Enough to check a root. */
rg_status rg__call_know_size(rg__call *c);

rg_status rg__call_set_type(rg__call *c, rg_type type);
rg_status rg__call_set_op(rg__call *c, rg_op op);
rg_status rg__call_set_root(rg__call *c);

/* Start it, if st is RG_OK. A failure is one of the open group as well. */
rg_status rg__call_end(rg__call *c, rg_status st, rg_req **req_p);

/* ------------------------------------------------------------------ buffers */

/* Memory of a device would end the process at the first access. */
rg_status rg__call_check_host(const char *what, const void *p);

/* Elements at p, `copies` times `count` of them, which this rank sends or gets.
 */
rg_status rg__call_check_buffer(const rg__call *c, const void *p,
                                uint64_t count, int copies);

/* Two buffers, equal or apart. */
rg_status rg__call_check_equal(const rg__call *c, const void *send,
                               const void *recv, uint64_t count);

/* `part` may be this rank's part of whole, else they are apart; whole has
 * `count` elements for each member. */
rg_status rg__call_check_part(const rg__call *c, const char *part,
                              const char *whole, uint64_t count);

/* -------------------------------------------------------- counts and places */

/* The arrays of one side of an operation. */
typedef struct rg__parts {
    const uint64_t *counts, *places; /* copies, or computed */
    uint64_t end;                    /* of the part that ends last */
    uint64_t sum;
} rg__parts;

/* Room for so many arrays of the set's size. */
rg_status rg__call_make_arrays(rg__call *c, size_t n);

/* Copy counts and places into the i-th pair of arrays. */
rg_status rg__call_copy_parts(rg__call *c, int i, const uint64_t *counts,
                              const uint64_t *places, rg__parts *p);

/* Does anything at `p` overlap with the parts of `all`, except for the own one
 * at its own place? */
rg_status rg__call_check_apart(const rg__call *c, const char *p, uint64_t count,
                               const void *whole, const rg__parts *all);

rg_status rg__call_check_own_count(const rg__call *c, const rg__parts *all,
                                   uint64_t count);

/* The root's, of a gather or scatter: parts in `whole`, and its own besides. */
rg_status rg__call_take_parts(rg__call *c, const uint64_t *counts,
                              const uint64_t *places, const void *whole,
                              const void *own, uint64_t count, rg__parts *all);

/* In place counts and places are the same on both sides. */
rg_status rg__call_check_pairs(const rg__call *c, const void *send,
                               const rg__parts *out, const void *recv,
                               const rg__parts *in);

#endif
