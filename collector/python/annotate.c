/* trainglass.annotate: a range around a block, as a type, for `with` finds its methods
 * faster than a function finds its arguments. Around functions the package wraps it. */
#include "native.h"
#include "probe/torch/python.h"

static PyObject *decorate; /* decorate(annotation, function): see _annotate.py */

struct annotation {
    PyObject_HEAD PyObject *name; /* text; its UTF-8 lives as long */
};

static PyObject *annotate_new(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
    static char name_word[] = "name", *names[] = {name_word, NULL};
    PyObject *name;

    if (!PyArg_ParseTupleAndKeywords(arguments, words, "U:annotate", names, &name))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct annotation *self = (struct annotation *)allocate(type, 0);

    if (self != NULL) {
        Py_INCREF(name);
        self->name = name;
    }
    return (PyObject *)self;
}

static void annotate_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    Py_XDECREF(((struct annotation *)object)->name);
    release(object);
    Py_DECREF(type);
}

static PyObject *annotate_enter(PyObject *object, PyObject *none)
{
    const struct trainglass_python *table;

    (void)none;
    native_wake_for(-1);
    table = native_table();
    if (NATIVE_HAS(table, range_push))
        table->range_push(native_utf8(((struct annotation *)object)->name));
    Py_INCREF(object);
    return object;
}

static PyObject *annotate_exit(PyObject *object, PyObject *const *arguments,
                               Py_ssize_t count)
{
    const struct trainglass_python *table = native_table();

    (void)object, (void)arguments, (void)count;
    if (NATIVE_HAS(table, range_pop))
        table->range_pop();
    Py_RETURN_NONE;
}

static PyObject *annotate_call(PyObject *object, PyObject *arguments, PyObject *words)
{
    PyObject *function;

    (void)words;
    if (!PyArg_ParseTuple(arguments, "O:annotate", &function))
        return NULL;
    return PyObject_CallFunctionObjArgs(decorate, object, function, NULL);
}

static PyObject *set_decorate(PyObject *module, PyObject *callable)
{
    (void)module;
    Py_XDECREF(decorate);
    Py_INCREF(callable);
    decorate = callable;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"__enter__", annotate_enter, METH_NOARGS, NULL},
    NATIVE_FAST("__exit__", annotate_exit, NULL),
    {NULL, NULL, 0, NULL},
};

static const char annotate_text[] =
    "annotate(name)\n--\n\nA named range around a block, or around every call of a "
    "function, each\nresumption of a generator or coroutine.";

static PyType_Slot annotate_slots[] = {
    {Py_tp_new, annotate_new},
    {Py_tp_dealloc, annotate_free},
    {Py_tp_call, annotate_call},
    {Py_tp_methods, methods},
    {Py_tp_doc, (void *)(uintptr_t)annotate_text},
    {0, NULL},
};

static PyType_Spec annotate_spec = {
    .name = "trainglass.annotate",
    .basicsize = sizeof(struct annotation),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = annotate_slots,
};

static PyMethodDef functions[] = {
    {"set_decorate", set_decorate, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int annotate_add(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&annotate_spec);

    if (type != NULL && PyModule_AddObject(module, "annotate", type) == 0)
        return PyModule_AddFunctions(module, functions);
    Py_XDECREF(type);
    return -1;
}
