/* Operations: allreduces, one or a group of them, that are started and waited
 * for in one call. An operation holds its arrays from before its start until it
 * has completed, and the context holds the operation as long; one that passed
 * its deadline is held until finalize. */
#include "sdk/python/fast/fast.h"

#define CALLS(X)                                                               \
    X(rg_allreduce_start)                                                      \
    X(rg_group_start)                                                          \
    X(rg_group_end)                                                            \
    X(rg_wait_all)                                                             \
    X(rg_last_error)
static struct {
#define X(call) __typeof__(&(call)) call;
    CALLS(X)
#undef X
} lib;

static PyObject *error_of; /* a function of a status and its sentence */
static PyTypeObject *operation_type;

typedef struct pair {
    rg__fast_array sent;
    rg__fast_array got; /* nothing in it: sent, too */
} pair;

typedef struct operation {
    PyObject_HEAD PyObject *members; /* the Set; owned, as what follows */
    PyObject *held;                  /* the context's set of operations */
    PyObject *result;
    PyObject *sentence;
    rg_status st;
    int n;
    rg_req **reqs;
    pair *pairs;
    rg_req *one_req; /* where reqs and pairs of a single one are */
    pair one_pair;
} operation;

/* What all of them have in common. */
typedef struct order {
    PyObject *members;
    rg_set *set;
    rg_ctx *ctx; /* of a group */
    PyObject *held;
    rg_op op;
    rg_op_params params;
    bool is_tagged; /* by the caller, and not by shapes */
    int wait_ms;    /* 0: it is only started */
} order;

/* -------------------------------------------------------------- arguments */

enum { MEMBERS, SET, CTX, HELD, OP, PRE, POST, TIMEOUT, TAG, WAIT, DATA, OUT };

static bool read_order(PyObject *const *args, order *o)
{
    *o = (order){.members = args[MEMBERS],
                 .set = PyLong_AsVoidPtr(args[SET]),
                 .ctx = PyLong_AsVoidPtr(args[CTX]),
                 .held = args[HELD],
                 .op = (rg_op)PyLong_AsLong(args[OP]),
                 .params = {.size = sizeof o->params},
                 .is_tagged = args[TAG] != Py_None,
                 .wait_ms = (int)PyLong_AsLong(args[WAIT])};
    o->params.prescale = PyFloat_AsDouble(args[PRE]);
    o->params.postscale = PyFloat_AsDouble(args[POST]);
    o->params.timeout_ms = (int)PyLong_AsLong(args[TIMEOUT]);
    if (o->is_tagged)
        o->params.tag = PyLong_AsUnsignedLongLong(args[TAG]);
    if (PyErr_Occurred() == NULL)
        return true;
    PyErr_Clear();
    return false;
}

/* 1 is none, as 0 is, and is not sent to those that have none. */
static void leave_ones_out(rg_op_params *params)
{
    params->prescale = params->prescale == 1.0 ? 0 : params->prescale;
    params->postscale = params->postscale == 1.0 ? 0 : params->postscale;
}

/* ---------------------------------------------------------------- objects */

static bool is_in_flight(const operation *o)
{
    for (int i = 0; i < o->n; i++)
        if (o->reqs[i] != NULL)
            return true;
    return false;
}

static void let_arrays_go(operation *o)
{
    for (int i = 0; i < o->n; i++) {
        rg__fast_array_let_go(&o->pairs[i].sent);
        rg__fast_array_let_go(&o->pairs[i].got);
    }
}

static operation *create(const order *with, int n)
{
    operation *o = PyObject_New(operation, operation_type);
    if (o == NULL)
        return NULL;
    o->members = Py_NewRef(with->members);
    o->held = Py_NewRef(with->held);
    o->result = o->sentence = NULL;
    o->st = RG_OK;
    o->n = n;
    o->one_req = NULL;
    o->one_pair = (pair){0};
    o->reqs =
        n == 1 ? &o->one_req : PyMem_Calloc((size_t)n + 1, sizeof *o->reqs);
    o->pairs =
        n == 1 ? &o->one_pair : PyMem_Calloc((size_t)n + 1, sizeof *o->pairs);
    if (o->reqs == NULL || o->pairs == NULL)
        o->n = 0;
    return o;
}

/* One in flight would be dropped only with its context: its arrays stay. */
static void destroy(PyObject *self)
{
    operation *o = (operation *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (!is_in_flight(o))
        let_arrays_go(o);
    if (o->reqs != &o->one_req)
        PyMem_Free(o->reqs);
    if (o->pairs != &o->one_pair)
        PyMem_Free(o->pairs);
    Py_XDECREF(o->members);
    Py_XDECREF(o->held);
    Py_XDECREF(o->result);
    Py_XDECREF(o->sentence);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ----------------------------------------------------------- what is sent */

static bool fits(const rg__fast_array *sent, const rg__fast_array *got)
{
    return sent->type == got->type && sent->count == got->count;
}

/* out is None, the array itself or another one. Returns what has the result;
 * NULL: it is not taken here. */
static PyObject *look_at_pair(pair *p, PyObject *data, PyObject *out)
{
    if (!rg__fast_array_look(data, out == data, &p->sent))
        return NULL;
    if (out == data)
        return Py_NewRef(data);
    PyObject *made =
        out == Py_None ? rg__fast_array_new(&p->sent) : Py_NewRef(out);
    if (made != NULL && rg__fast_array_look(made, true, &p->got) &&
        fits(&p->sent, &p->got))
        return made;
    Py_XDECREF(made);
    return NULL;
}

static bool look_at_all(operation *o, PyObject *data, PyObject *outs)
{
    o->result = PyList_New(o->n);
    for (Py_ssize_t i = 0; o->result != NULL && i < o->n; i++) {
        PyObject *out = outs == Py_None ? outs : PyList_GetItem(outs, i);
        PyObject *made =
            look_at_pair(&o->pairs[i], PyList_GetItem(data, i), out);
        if (made == NULL)
            return false;
        PyList_SetItem(o->result, i, made);
    }
    return o->result != NULL;
}

/* --------------------------------------------------------- start and wait */

static rg_status start(operation *o, const order *with, int i)
{
    const pair *p = &o->pairs[i];
    const rg__fast_array *got = p->got.array == NULL ? &p->sent : &p->got;
    rg_op_params params = with->params;
    if (!with->is_tagged)
        params.tag = p->sent.tag;
    return lib.rg_allreduce_start(with->set, p->sent.address, got->address,
                                  p->sent.count, p->sent.type, with->op,
                                  &params, &o->reqs[i]);
}

static rg_status start_group(operation *o, const order *with)
{
    rg_status st = lib.rg_group_start(with->ctx);
    if (st != RG_OK)
        return st;
    for (int i = 0; i < o->n && st == RG_OK; i++)
        st = start(o, with, i);
    const rg_status ended = lib.rg_group_end(with->ctx);
    if (st == RG_OK)
        st = ended;
    if (st != RG_OK) /* none runs: those that were noted are given back */
        (void)lib.rg_wait_all(o->reqs, o->n, 0);
    return st;
}

static rg_status start_and_wait(operation *o, const order *with)
{
    const rg_status st =
        with->ctx == NULL ? start(o, with, 0) : start_group(o, with);
    if (st != RG_OK || with->wait_ms == 0)
        return st;
    return lib.rg_wait_all(o->reqs, o->n, with->wait_ms);
}

/* Interpreter's lock held: the sentence lasts until this thread's next call. */
static void note(operation *o, rg_status st)
{
    o->st = st;
    if (st != RG_OK && st != RG_IN_PROGRESS)
        o->sentence = PyBytes_FromString(lib.rg_last_error());
}

static void let_go(operation *o)
{
    if (o->st == RG_ERR_TIMEOUT)
        return;
    PySet_Discard(o->held, (PyObject *)o);
    let_arrays_go(o);
}

static void keep_arrays(operation *o)
{
    for (int i = 0; i < o->n; i++) {
        rg__fast_array_keep(&o->pairs[i].sent);
        rg__fast_array_keep(&o->pairs[i].got);
    }
}

/* Returns the operation, or its result if it has completed well here. */
static PyObject *begin(operation *o, const order *with)
{
    if (PySet_Add(with->held, (PyObject *)o) != 0) {
        Py_DECREF(o);
        return NULL;
    }
    if (with->wait_ms == 0)
        keep_arrays(o);
    rg_status st;
    Py_BEGIN_ALLOW_THREADS st = start_and_wait(o, with);
    Py_END_ALLOW_THREADS note(o, st);
    if (is_in_flight(o))
        keep_arrays(o);
    else
        let_go(o);
    if (with->wait_ms == 0 || st != RG_OK)
        return (PyObject *)o;
    PyObject *result = Py_NewRef(o->result);
    Py_DECREF(o);
    return result;
}

static PyObject *decline(operation *o)
{
    PyErr_Clear();
    Py_XDECREF((PyObject *)o);
    Py_RETURN_NONE;
}

static PyObject *run_one(const order *with, PyObject *data, PyObject *out)
{
    operation *o = create(with, 1);
    if (o == NULL || (o->result = look_at_pair(o->pairs, data, out)) == NULL)
        return decline(o);
    return begin(o, with);
}

static PyObject *run_group(const order *with, PyObject *data, PyObject *outs)
{
    if (!PyList_Check(data) ||
        (outs != Py_None &&
         (!PyList_Check(outs) || PyList_Size(outs) != PyList_Size(data))))
        return decline(NULL);
    operation *o = create(with, (int)PyList_Size(data));
    if (o == NULL || o->n == 0 || !look_at_all(o, data, outs))
        return decline(o);
    return begin(o, with);
}

/* allreduce(members, set, ctx, held, op, prescale, postscale, timeout_ms, tag,
 * wait_ms, data, out): with a ctx, data is a list whose arrays are a group.
 * Returns None if it is left to the package, an Operation that has not
 * completed or has failed, else the result. */
static PyObject *allreduce(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    order with;
    if (n != OUT + 1 || !read_order(args, &with))
        Py_RETURN_NONE;
    leave_ones_out(&with.params);
    return with.ctx == NULL ? run_one(&with, args[DATA], args[OUT])
                            : run_group(&with, args[DATA], args[OUT]);
}

/* ------------------------------------------- what a Request asks for then */

static PyObject *operation_wait(PyObject *self, PyObject *timeout)
{
    operation *o = (operation *)self;
    const int ms = (int)PyLong_AsLong(timeout);
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (is_in_flight(o)) {
        rg_status st;
        Py_BEGIN_ALLOW_THREADS st = lib.rg_wait_all(o->reqs, o->n, ms);
        Py_END_ALLOW_THREADS note(o, st);
    }
    if (is_in_flight(o))
        Py_RETURN_FALSE;
    let_go(o);
    Py_RETURN_TRUE;
}

static PyObject *operation_let_go(PyObject *self, PyObject *unused)
{
    (void)unused;
    let_go((operation *)self);
    Py_RETURN_NONE;
}

static PyObject *operation_error(PyObject *self, PyObject *unused)
{
    (void)unused;
    const operation *o = (const operation *)self;
    if (o->st == RG_OK)
        Py_RETURN_NONE;
    return PyObject_CallFunction(error_of, "iO", (int)o->st, o->sentence);
}

static PyObject *operation_handle(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_in_flight((const operation *)self));
}

static void hold_one(PyObject *list, const rg__fast_array *array)
{
    PyObject *kept = array->kept;
    if (array->view.obj != NULL)
        kept = PyMemoryView_FromObject(array->array);
    if (kept != NULL)
        PyList_Append(list, kept);
    if (array->view.obj != NULL)
        Py_XDECREF(kept);
}

static PyObject *operation_hold(PyObject *self, void *unused)
{
    (void)unused;
    const operation *o = (const operation *)self;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < o->n; i++) {
        hold_one(list, &o->pairs[i].sent);
        hold_one(list, &o->pairs[i].got);
    }
    return list;
}

static PyObject *operation_result(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((operation *)self)->result);
}

static PyMethodDef operation_methods[] = {
    {"wait", operation_wait, METH_O, "Has it completed by then?"},
    {"let_go", operation_let_go, METH_NOARGS, "Give its arrays back."},
    {"error", operation_error, METH_NOARGS, "What ended it, or None."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef operation_values[] = {
    {"handle", operation_handle, NULL, "Whether it is in flight.", NULL},
    {"hold", operation_hold, NULL, "What keeps its arrays in place.", NULL},
    {"result", operation_result, NULL, "Where its result comes.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot operation_slots[] = {{Py_tp_dealloc, (void *)destroy},
                                        {Py_tp_methods, operation_methods},
                                        {Py_tp_getset, operation_values},
                                        {0, NULL}};

static PyType_Spec operation_spec = {.name = "regroup_fast.Operation",
                                     .basicsize = sizeof(operation),
                                     .flags = Py_TPFLAGS_DEFAULT |
                                              Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     .slots = operation_slots};

/* ----------------------------------------------------------------- module */

static bool find_call(PyObject *calls, const char *name, void *place)
{
    PyObject *address = PyDict_GetItemString(calls, name);
    if (address == NULL) {
        PyErr_SetString(PyExc_KeyError, name);
        return false;
    }
    *(void **)place = PyLong_AsVoidPtr(address);
    return PyErr_Occurred() == NULL;
}

/* bind(calls, error_of, tag_of_shape, torch_types): before anything else; calls
 * is a dict of the addresses of CALLS. */
static PyObject *bind(PyObject *self, PyObject *args)
{
    PyObject *calls, *errors, *tags, *types;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &calls, &errors, &tags, &types))
        return NULL;
#define X(call)                                                                \
    if (!find_call(calls, #call, &lib.call))                                   \
        return NULL;
    CALLS(X)
#undef X
    error_of = Py_NewRef(errors);
    rg__fast_arrays_bind(tags, types);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "What it calls."},
    {"allreduce", (PyCFunction)(void (*)(void))allreduce, METH_FASTCALL,
     "Reduce arrays over all members, and wait, if all of it is plain."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "regroup_fast",
    .m_doc = "The compiled part of regroup.", .m_size = -1,
    .m_methods = functions};

PyMODINIT_FUNC PyInit_regroup_fast(void);

PyMODINIT_FUNC PyInit_regroup_fast(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    PyObject *type = PyType_FromSpec(&operation_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "Operation", type) != 0 ||
        PyModule_AddStringConstant(module, "VERSION", RG_VERSION) != 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    operation_type = (PyTypeObject *)type;
    return module;
}
