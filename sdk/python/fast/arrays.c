/* Arrays: numpy's, torch's on the host, bytearray, memoryview and array.array.
 * Only exact types are taken: a subclass may have other elements (masked). */
#include "sdk/python/fast/fast.h"

#include <string.h>

#define SIZES 4 /* of elements: 1, 2, 4 and 8 bytes */

/* Made once, since they are looked up for each tensor. */
#define NAMES(X)                                                               \
    X(data_ptr)                                                                \
    X(detach)                                                                  \
    X(dtype)                                                                   \
    X(is_contiguous)                                                           \
    X(is_cpu)                                                                  \
    X(is_neg)                                                                  \
    X(layout)                                                                  \
    X(new_empty)                                                               \
    X(shape)
static struct {
#define X(word) PyObject *word;
    NAMES(X)
#undef X
} names;

static PyObject *tag_of_shape; /* functions of the package */
static PyObject *torch_types;

static PyObject *ndarray, *numpy_empty; /* NULL: not imported so far */
static PyObject *array_array;
static PyObject *tensor, *parameter, *strided, *types; /* torch's */

void rg__fast_arrays_bind(PyObject *tag, PyObject *of_torch)
{
#define X(word) names.word = PyUnicode_InternFromString(#word);
    NAMES(X)
#undef X
    tag_of_shape = Py_NewRef(tag);
    torch_types = Py_NewRef(of_torch);
}

/* --------------------------------------------------------- known types */

/* Borrowed; NULL: not imported. */
static PyObject *module(const char *name)
{
    PyObject *all = PyImport_GetModuleDict();
    return all == NULL ? NULL : PyDict_GetItemString(all, name);
}

static PyObject *take(const char *from, const char *name)
{
    PyObject *home = module(from);
    return home == NULL ? NULL : PyObject_GetAttrString(home, name);
}

static void learn_numpy(void)
{
    if (ndarray != NULL || module("numpy") == NULL)
        return;
    numpy_empty = take("numpy", "empty");
    if (numpy_empty != NULL)
        ndarray = take("numpy", "ndarray");
}

static void learn_torch(void)
{
    if (tensor != NULL || module("torch.nn.parameter") == NULL)
        return; /* a later part of torch: the earlier ones are complete */
    types = PyObject_CallNoArgs(torch_types);
    strided = take("torch", "strided");
    parameter = take("torch.nn.parameter", "Parameter");
    if (types != NULL && strided != NULL && parameter != NULL)
        tensor = take("torch", "Tensor");
}

static void learn(void)
{
    learn_numpy();
    learn_torch();
    if (array_array == NULL)
        array_array = take("array", "array");
    PyErr_Clear();
}

static bool is_buffer(const PyObject *type)
{
    return type == ndarray || type == array_array ||
           type == (PyObject *)&PyByteArray_Type ||
           type == (PyObject *)&PyMemoryView_Type;
}

static bool is_tensor(const PyObject *type)
{
    return tensor != NULL && (type == tensor || type == parameter);
}

/* ------------------------------------------------------------- buffers */

/* By a letter of the struct module's; -1: none. */
static int type_of(const char *format, Py_ssize_t item)
{
    static const int integers[SIZES] = {RG_I8, -1, RG_I32, RG_I64};
    static const int naturals[SIZES] = {RG_U8, -1, RG_U32, RG_U64};
    static const int floats[SIZES] = {-1, RG_F16, RG_F32, RG_F64};
    static const int booleans[SIZES] = {RG_BOOL, -1, -1, -1};
    const int size = item == 1 ? 0 : item == 2 ? 1 : item == 4 ? 2 : 3;
    if (format == NULL || (item != 8 && size == 3))
        return -1;
    if (*format == '@' || *format == '=')
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return -1;
    if (strchr("bilqn", *format) != NULL)
        return integers[size];
    if (strchr("BILQNc", *format) != NULL)
        return naturals[size];
    if (strchr("efd", *format) != NULL)
        return floats[size];
    return *format == '?' ? booleans[size] : -1;
}

static bool set_tag(PyObject *shape, uint64_t *tag_p)
{
    PyObject *tag =
        shape == NULL ? NULL
                      : PyObject_CallFunctionObjArgs(tag_of_shape, shape, NULL);
    if (tag == NULL)
        return false;
    *tag_p = PyLong_AsUnsignedLongLong(tag);
    Py_DECREF(tag);
    return PyErr_Occurred() == NULL;
}

static PyObject *shape_of(const Py_buffer *view)
{
    PyObject *shape = PyTuple_New(view->ndim);
    for (int i = 0; shape != NULL && i < view->ndim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromSsize_t(view->shape[i]));
    return shape;
}

static bool tag_view(const Py_buffer *view, uint64_t *tag_p)
{
    *tag_p = 0;
    if (view->ndim < 2)
        return true;
    PyObject *shape = shape_of(view);
    const bool is_tagged = set_tag(shape, tag_p);
    Py_XDECREF(shape);
    return is_tagged;
}

static bool look_at_buffer(PyObject *array, bool is_written,
                           rg__fast_array *found)
{
    const int flags =
        PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (is_written ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(array, &found->view, flags) != 0)
        return false;
    const Py_buffer *view = &found->view;
    const int type = type_of(view->format, view->itemsize);
    if (type < 0 || !tag_view(view, &found->tag)) {
        PyBuffer_Release(&found->view);
        return false;
    }
    found->address = view->buf;
    found->count = (uint64_t)(view->len / view->itemsize);
    found->type = (rg_type)type;
    return true;
}

/* ------------------------------------------------------------- tensors */

/* Is an attribute, or what a method returns, this object? */
static bool is(PyObject *found, const PyObject *expected)
{
    Py_XDECREF(found);
    return found == expected;
}

static PyObject *call(PyObject *of, PyObject *method)
{
    return PyObject_CallMethodObjArgs(of, method, NULL);
}

static bool is_plain(PyObject *array)
{
    return is(PyObject_GetAttr(array, names.is_cpu), Py_True) &&
           is(PyObject_GetAttr(array, names.layout), strided) &&
           is(call(array, names.is_contiguous), Py_True) &&
           is(call(array, names.is_neg), Py_False);
}

static bool type_tensor(PyObject *array, rg__fast_array *found)
{
    PyObject *dtype = PyObject_GetAttr(array, names.dtype);
    PyObject *pair =
        dtype == NULL ? NULL : PyDict_GetItemWithError(types, dtype);
    Py_XDECREF(dtype);
    if (pair == NULL)
        return false;
    found->type = (rg_type)PyLong_AsLong(PyTuple_GetItem(pair, 0));
    return PyErr_Occurred() == NULL;
}

static bool count_tensor(PyObject *array, rg__fast_array *found)
{
    PyObject *shape = PyObject_GetAttr(array, names.shape);
    if (shape == NULL)
        return false;
    const Py_ssize_t axes = PyTuple_Size(shape);
    found->count = 1;
    found->tag = 0;
    for (Py_ssize_t i = 0; i < axes; i++)
        found->count *= PyLong_AsUnsignedLongLong(PyTuple_GetItem(shape, i));
    const bool is_tagged = axes < 2 || set_tag(shape, &found->tag);
    Py_DECREF(shape);
    return is_tagged && PyErr_Occurred() == NULL;
}

static bool look_at_tensor(PyObject *array, rg__fast_array *found)
{
    if (!is_plain(array) || !type_tensor(array, found) ||
        !count_tensor(array, found))
        return false;
    PyObject *address = call(array, names.data_ptr);
    if (address == NULL)
        return false;
    found->address = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return PyErr_Occurred() == NULL;
}

/* ----------------------------------------------------------- all kinds */

static bool look(PyObject *array, bool is_written, rg__fast_array *found)
{
    const PyObject *type = (PyObject *)Py_TYPE(array);
    if (!is_buffer(type) && !is_tensor(type))
        learn();
    if (is_buffer(type))
        return look_at_buffer(array, is_written, found);
    return is_tensor(type) && look_at_tensor(array, found);
}

bool rg__fast_array_look(PyObject *array, bool is_written,
                         rg__fast_array *found)
{
    *found = (rg__fast_array){0};
    if (!look(array, is_written, found)) {
        PyErr_Clear(); /* the package says it */
        *found = (rg__fast_array){0};
        return false;
    }
    found->array = Py_NewRef(array);
    return true;
}

static PyObject *new_ndarray(const rg__fast_array *like)
{
    PyObject *shape = shape_of(&like->view);
    PyObject *dtype = PyObject_GetAttr(like->array, names.dtype);
    PyObject *made =
        shape == NULL || dtype == NULL
            ? NULL
            : PyObject_CallFunctionObjArgs(numpy_empty, shape, dtype, NULL);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return made;
}

static PyObject *new_tensor(const rg__fast_array *like)
{
    PyObject *shape = PyObject_GetAttr(like->array, names.shape);
    PyObject *made =
        shape == NULL ? NULL
                      : PyObject_CallMethodObjArgs(like->array, names.new_empty,
                                                   shape, NULL);
    Py_XDECREF(shape);
    return made;
}

PyObject *rg__fast_array_new(const rg__fast_array *like)
{
    PyObject *made = NULL;
    if (like->view.obj == NULL)
        made = new_tensor(like);
    else if ((PyObject *)Py_TYPE(like->array) == ndarray)
        made = new_ndarray(like);
    PyErr_Clear();
    return made;
}

void rg__fast_array_keep(rg__fast_array *array)
{
    if (array->array == NULL || array->view.obj != NULL || array->kept != NULL)
        return;
    array->kept = call(array->array, names.detach);
    PyErr_Clear();
}

void rg__fast_array_let_go(rg__fast_array *array)
{
    if (array->view.obj != NULL)
        PyBuffer_Release(&array->view);
    Py_CLEAR(array->kept);
    Py_CLEAR(array->array);
}
