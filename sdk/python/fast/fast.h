/* What Python's calls do often, compiled: look at arrays, start, wait. All of
 * it is also in the package, in Python, and whatever is unusual here is left to
 * that: another kind of array, a mistake, an option of few. So errors have one
 * place, and both ways give the same results.
 *
 * Threads: the interpreter's lock is held, but for the calls into libregroup.
 * Ownership: references are the caller's unless a comment says otherwise.
 */
#ifndef REGROUP_PYTHON_FAST_H
#define REGROUP_PYTHON_FAST_H

/* Python 3.11: the first whose stable ABI has the buffer protocol. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "regroup/regroup.h"

/* An array as libregroup sees it. */
typedef struct rg__fast_array {
    void *address;
    uint64_t count;
    rg_type type;
    uint64_t tag;    /* what its shape must be compared by; 0: the count does */
    PyObject *array; /* owned, as what follows */
    PyObject *kept;  /* a tensor's memory, whatever becomes of the tensor */
    Py_buffer view;  /* of the buffer protocol; no obj: it is a tensor */
} rg__fast_array;

/* What the package knows: a function of a shape for its tag, and one for a dict
 * of torch's types. */
void rg__fast_arrays_bind(PyObject *tag_of_shape, PyObject *torch_types);

/* Look at an array, exactly of a type that is known here. False: it is not
 * taken, and nothing is owned. */
bool rg__fast_array_look(PyObject *array, bool is_written,
                         rg__fast_array *found);

/* A new one of the same kind, type and shape; NULL: not here. */
PyObject *rg__fast_array_new(const rg__fast_array *like);

/* The memory stays, even if a tensor is given other memory. */
void rg__fast_array_keep(rg__fast_array *array);

/* Give back what is owned. A zeroed one has nothing. */
void rg__fast_array_let_go(rg__fast_array *array);

#endif
