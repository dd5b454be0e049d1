/* What runs around torch's own functions at every step, without a frame of Python: there
 * a cold frame costs a microsecond, and a step of tiny operators is not much longer.
 *
 *     around(function, begin, end)    calls function between two marks; binds as a method
 *     update(optimizer, arguments, words)
 *                                     a pre-hook of optimizers: says which one steps
 *     updated(optimizer, arguments, words)
 *                                     the post-hook: its step has ended
 *     updates_over()                  those that raised have ended too
 *     update_slowly(function, due)    function(optimizer, updates) is asked for its number
 *                                     at update `due`, and whenever it has none
 *
 * The one rule: arguments, results and exceptions of what is hidden pass unchanged.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "native.h"
#include "probe/steps/steps.h"

/* ---- around
 * -------------------------------------------------------------------------- */

/* Vectorcall (PEP 590) and its flags, which the limited API has from 3.12 on, and CPython
 * from 3.9. Without it each call packs its arguments and makes a method of its own. */
typedef PyObject *vectorcall(PyObject *callable, PyObject *const *arguments,
                             size_t count, PyObject *names);
#define HAVE_VECTORCALL   (1UL << 11)
#define METHOD_DESCRIPTOR (1UL << 17)

static vectorcall *call_vector; /* PyObject_Vectorcall; NULL: this Python has none */

struct around {
    PyObject_HEAD PyObject *function;
    PyObject *dict; /* what functools.wraps() writes */
    vectorcall *call;
    uint32_t begin, end;
};

static PyObject *around_vector(PyObject *object, PyObject *const *arguments,
                               size_t count, PyObject *names)
{
    const struct around *self = (const struct around *)object;

    native_mark(self->begin, 0);
    PyObject *result = call_vector(self->function, arguments, count, names);

    native_mark(self->end, 0);
    return result;
}

static PyObject *around_new(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
    PyObject *function;
    unsigned begin, end;

    (void)words;
    if (!PyArg_ParseTuple(arguments, "OII:around", &function, &begin, &end))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct around *self = (struct around *)allocate(type, 0);

    if (self != NULL) {
        Py_INCREF(function);
        self->function = function;
        self->call = around_vector;
        self->begin = begin;
        self->end = end;
    }
    return (PyObject *)self;
}

static void around_free(PyObject *object)
{
    struct around *self = (struct around *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    Py_XDECREF(self->function);
    Py_XDECREF(self->dict);
    release(object);
    Py_DECREF(type);
}

static PyObject *around_call(PyObject *object, PyObject *arguments, PyObject *words)
{
    const struct around *self = (const struct around *)object;

    native_mark(self->begin, 0);
    PyObject *result = PyObject_Call(self->function, arguments, words);

    native_mark(self->end, 0);
    return result;
}

static PyObject *method_type; /* types.MethodType */

/* As a function in a class: read from an instance it is a method of that. */
static PyObject *around_bind(PyObject *object, PyObject *instance, PyObject *type)
{
    (void)type;
    if (instance != NULL && instance != Py_None)
        return PyObject_CallFunctionObjArgs(method_type, object, instance, NULL);
    Py_INCREF(object);
    return object;
}

/* Pickled by its name, as the function that it hides. */
static PyObject *around_reduce(PyObject *object, PyObject *none)
{
    (void)none;
    return PyObject_GetAttrString(object, "__qualname__");
}

static PyMethodDef around_methods[] = {
    {"__reduce__", around_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef around_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(struct around, dict), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct around, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef around_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot around_slots[] = {
    {Py_tp_new, around_new},         {Py_tp_dealloc, around_free},
    {Py_tp_call, around_call},       {Py_tp_members, around_members},
    {Py_tp_getset, around_getset},   {Py_tp_descr_get, around_bind},
    {Py_tp_methods, around_methods}, {0, NULL},
};

static const PyType_Spec around_spec = {
    .name = "trainglass._native.around",
    .basicsize = sizeof(struct around),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = around_slots,
};

/* ---- updates
 * ------------------------------------------------------------------------- */

static PyObject *attribute;        /* of an optimizer: its number, and its depth */
static PyObject *slowly;           /* slowly(optimizer, updates): the same */
static unsigned long updates, due; /* so far; when it is asked again */

/* Steps of optimizers that have begun on this thread and not ended, innermost last: some
 * call others'. A step that raises has no post-hook. */
#define STEPPING_MAX 8
static _Thread_local uint32_t stepping[STEPPING_MAX];
static _Thread_local int stepping_count;

/* The number that the optimizer carries, or is given now, in bits 0..15, and how deep its
 * step() may nest in itself (super().step()) in the rest; 0 when there is none. */
static uint32_t number_of(PyObject *optimizer)
{
    PyObject *number = NULL;

    if (++updates < due) {
        number = PyObject_GetAttr(optimizer, attribute);
        if (number == NULL)
            PyErr_Clear();
    }
    if (number == NULL && slowly != NULL)
        number = PyObject_CallFunction(slowly, "Ok", optimizer, updates);

    long value = number != NULL && PyLong_Check(number) ? PyLong_AsLong(number) : 0;

    Py_XDECREF(number);
    native_forget_error();
    return value > 0 ? (uint32_t)value : 0;
}

static int open_steps_of(uint32_t id)
{
    int open = 0;

    for (int i = 0; i < stepping_count; i++)
        open += stepping[i] == id;
    return open;
}

static PyObject *update(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    uint32_t number = count > 0 ? number_of(arguments[0]) : 0, id = number & 0xffff;

    (void)module;
    /* It raised the last time: that update is over. */
    while (stepping_count > 0 &&
           (stepping_count == STEPPING_MAX || open_steps_of(id) >= (int)(number >> 16)))
        native_mark(STEPS_OPTIMIZER_END, stepping[--stepping_count]);
    stepping[stepping_count++] = id;
    native_mark(STEPS_OPTIMIZER_BEGIN, id);
    Py_RETURN_NONE;
}

/* A new optimizer is built, or an iterator: no step of one is open any more that has not
 * raised. */
static PyObject *updates_over(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    while (stepping_count > 0)
        native_mark(STEPS_OPTIMIZER_END, stepping[--stepping_count]);
    Py_RETURN_NONE;
}

static PyObject *updated(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module, (void)arguments, (void)count;
    if (stepping_count > 0)
        native_mark(STEPS_OPTIMIZER_END, stepping[--stepping_count]);
    Py_RETURN_NONE;
}

static PyObject *update_slowly(PyObject *module, PyObject *arguments)
{
    PyObject *function;
    unsigned long update_due;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "Ok:update_slowly", &function, &update_due))
        return NULL;
    Py_INCREF(function);
    Py_XDECREF(slowly);
    slowly = function;
    due = update_due;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    NATIVE_FAST("update", update, NULL),
    NATIVE_FAST("updated", updated, NULL),
    {"updates_over", updates_over, METH_NOARGS, NULL},
    {"update_slowly", update_slowly, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int wraps_add(PyObject *module)
{
    PyType_Spec spec = around_spec;
    void *symbol = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");

    memcpy(&call_vector, &symbol, sizeof(call_vector));
    if (call_vector != NULL)
        spec.flags |= HAVE_VECTORCALL | METHOD_DESCRIPTOR;
    PyObject *type = PyType_FromSpec(&spec), *types = PyImport_ImportModule("types");

    attribute = PyUnicode_InternFromString("_trainglass_number");
    method_type = types != NULL ? PyObject_GetAttrString(types, "MethodType") : NULL;
    Py_XDECREF(types);
    if (type == NULL || attribute == NULL || method_type == NULL ||
        PyModule_AddObject(module, "around", type) != 0) {
        Py_XDECREF(type);
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
