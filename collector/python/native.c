/* trainglass._native: the calls that are made at every step, each a function of the
 * library's table. _library.py makes the others.
 *
 * Limited API of Python 3.10: one file for every later version. The one rule: no
 * function raises for what is wrong with us; before use() all do nothing.
 *
 *     annotate("name")  context manager and decorator
 *     step(samples)     mark(kind, id)   range_push(name)   range_pop()   metric(n, v)
 */
#include "native.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "probe/steps/steps.h"
#include "probe/torch/python.h"

static const struct trainglass_python *table;
static PyObject *wake; /* called once before the first record of a sleeping process */

/* A newer library has more than we know, an older one less. */
#define HAS(member)                                                                    \
    (table != NULL &&                                                                  \
     table->bytes >= offsetof(struct trainglass_python, member) + sizeof(void *) &&    \
     table->member != NULL)

void native_forget_error(void)
{
    bool interrupted =
        PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);

    PyErr_Clear();
    if (interrupted)
        PyErr_SetInterrupt();
}

/* The process sleeps: a worker, a forked child. Who records something wakes it; `mark` is
 * what is recorded, -1 for what is none. */
static void awaken(long mark)
{
    PyObject *call = wake;

    wake = NULL;
    PyObject *result = PyObject_CallFunction(call, "l", mark);

    if (result == NULL)
        native_forget_error();
    Py_XDECREF(result);
    Py_DECREF(call);
}

static void wake_for(long mark)
{
    if (wake != NULL)
        awaken(mark);
}

/* Valid as long as `text`, "" for what is no text. */
static const char *utf8(PyObject *text)
{
    const char *bytes =
        PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

    if (bytes == NULL)
        PyErr_Clear();
    return bytes != NULL ? bytes : "";
}

/* Python's own whole numbers, and NumPy's. False for anything else. Never raises. */
static bool whole(PyObject *value, long *number)
{
    PyObject *index = PyNumber_Index(value);

    *number = index != NULL ? PyLong_AsLong(index) : -1;
    Py_XDECREF(index);
    if (*number != -1 || !PyErr_Occurred())
        return true;
    PyErr_Clear();
    return false;
}

static long integer(PyObject *value)
{
    long number;

    return whole(value, &number) ? number : 0;
}

static bool real(PyObject *value, double *number)
{
    *number = PyFloat_AsDouble(value);
    if (*number != -1 || !PyErr_Occurred()) /* exactly -1 is the sign of an error */
        return true;
    PyErr_Clear();
    return false;
}

static PyObject *arguments_missing(void)
{
    PyErr_SetString(PyExc_TypeError, "too few arguments");
    return NULL;
}

/* use(address, functions): of the table; the functions are for who has no other way. */
static PyObject *use(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    table = count > 0 ? PyLong_AsVoidPtr(arguments[0]) : NULL;
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *set_wake(PyObject *module, PyObject *callable)
{
    PyObject *old = wake;

    (void)module;
    Py_INCREF(callable);
    wake = callable;
    if (callable == Py_None)
        Py_CLEAR(wake);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* ---- step boundaries
 * ------------------------------------------------------------------- */

/* A deep window's calls of Python. A boundary lies in C, perhaps without the GIL. On the
 * main thread the interpreter makes the call as soon as it runs again; on another one, whose
 * pending calls nobody makes, the next mark of ours on that thread does. The one rule: only
 * that thread calls. */
static PyObject *listener;
static const char *_Atomic due; /* the thread that has to call; NULL none */
static _Thread_local char here; /* whose address is a thread's name */

/* 0, or -1 with KeyboardInterrupt or the like: the listener keeps the rest. */
static int call_listener(void)
{
    PyObject *result;

    atomic_store_explicit(&due, NULL, memory_order_relaxed);
    result = listener != NULL ? PyObject_CallFunctionObjArgs(listener, NULL) : NULL;
    if (result == NULL)
        return listener != NULL ? -1 : 0;
    Py_DECREF(result);
    return 0;
}

static int pending(void *none)
{
    (void)none;
    return atomic_load_explicit(&due, memory_order_relaxed) == &here ? call_listener()
                                                                     : 0;
}

/* On the training thread, inside a boundary. Relaxed: only this thread asks whether it
 * is the one. */
static int schedule(int (*call)(void *), void *argument)
{
    int error = Py_AddPendingCall(call, argument);

    if (error == 0)
        atomic_store_explicit(&due, &here, memory_order_relaxed);
    return error;
}

static void call_if_due(void)
{
    if (atomic_load_explicit(&due, memory_order_relaxed) != &here || PyErr_Occurred())
        return;
    if (call_listener() != 0) { /* raised again where Python looks for signals */
        PyErr_Clear();
        PyErr_SetInterrupt();
    }
}

static PyObject *window_listen(PyObject *module, PyObject *function)
{
    (void)module;
    if (!HAS(window_state))
        Py_RETURN_FALSE;
    Py_INCREF(function);
    Py_XDECREF(listener);
    listener = function;
    table->window_listen(schedule, pending);
    Py_RETURN_TRUE;
}

/* ---- marks and ranges
 * ------------------------------------------------------------------ */

static PyObject *mark(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 1)
        return arguments_missing();
    long kind = integer(arguments[0]);

    wake_for(kind);
    if (HAS(mark))
        table->mark((uint32_t)kind, count > 1 ? (uint32_t)integer(arguments[1]) : 0);
    call_if_due();
    Py_RETURN_NONE;
}

void native_mark(uint32_t kind, uint32_t id)
{
    if (wake != NULL) {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        awaken((long)kind);
        PyErr_Restore(type, value, trace);
    }
    if (HAS(mark))
        table->mark(kind, id);
    call_if_due();
}

static PyObject *step(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *words)
{
    Py_ssize_t named = words != NULL ? PyTuple_Size(words) : 0;
    long samples;

    (void)module;
    if (count + named > 1 ||
        (named == 1 && strcmp(utf8(PyTuple_GetItem(words, 0)), "samples") != 0)) {
        PyErr_SetString(PyExc_TypeError, "step() takes samples and nothing else");
        return NULL;
    }
    wake_for(STEPS_STEP);
    if (count + named > 0 && arguments[0] != Py_None && HAS(samples) &&
        whole(arguments[0], &samples) && samples >= 0)
        table->samples((uint64_t)samples);
    if (HAS(mark))
        table->mark(STEPS_STEP, 0);
    call_if_due();
    Py_RETURN_NONE;
}

static PyObject *range_push(PyObject *module, PyObject *name)
{
    (void)module;
    wake_for(-1);
    if (HAS(range_push))
        table->range_push(utf8(name));
    Py_RETURN_NONE;
}

static PyObject *range_pop(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (HAS(range_pop))
        table->range_pop();
    Py_RETURN_NONE;
}

static PyObject *metric(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    double value;

    (void)module;
    if (count < 2)
        return arguments_missing();
    wake_for(-1);
    if (HAS(metric) && real(arguments[1], &value))
        table->metric(utf8(arguments[0]), value);
    Py_RETURN_NONE;
}

/* An entry of gc.callbacks: ("start" or "stop", {"generation": n, ...}). */
static PyObject *collecting(PyObject *module, PyObject *const *arguments,
                            Py_ssize_t count)
{
    (void)module;
    if (count < 2 || !HAS(gc_end))
        Py_RETURN_NONE;
    if (utf8(arguments[0])[0] == 's' && utf8(arguments[0])[2] == 'a') {
        table->gc_begin();
        Py_RETURN_NONE;
    }
    PyObject *generation = PyDict_Check(arguments[1])
                               ? PyDict_GetItemString(arguments[1], "generation")
                               : NULL;

    table->gc_end(generation != NULL ? (uint32_t)integer(generation) : 0);
    Py_RETURN_NONE;
}

static PyObject *waited(PyObject *module, PyObject *ns)
{
    (void)module;
    if (HAS(waited))
        table->waited((uint64_t)integer(ns));
    Py_RETURN_NONE;
}

/* ---- annotate
 * -------------------------------------------------------------------------- */

/* A range around a block, as a type, for `with` finds its methods faster than a function
 * finds its arguments. Around functions the package wraps it. */
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
    (void)none;
    wake_for(-1);
    if (HAS(range_push))
        table->range_push(utf8(((struct annotation *)object)->name));
    Py_INCREF(object);
    return object;
}

static PyObject *annotate_exit(PyObject *object, PyObject *const *arguments,
                               Py_ssize_t count)
{
    (void)object, (void)arguments, (void)count;
    if (HAS(range_pop))
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

static PyMethodDef annotate_methods[] = {
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
    {Py_tp_methods, annotate_methods},
    {Py_tp_doc, (void *)(uintptr_t)annotate_text},
    {0, NULL},
};

static PyType_Spec annotate_spec = {
    .name = "trainglass.annotate",
    .basicsize = sizeof(struct annotation),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = annotate_slots,
};

static PyMethodDef methods[] = {
    NATIVE_FAST("use", use, NULL),
    {"set_decorate", set_decorate, METH_O, NULL},
    {"window_listen", window_listen, METH_O,
     "window_listen(function): called on the training thread, after a boundary."},
    {"set_wake", set_wake, METH_O, NULL},
    NATIVE_FAST("mark", mark, NULL),
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL | METH_KEYWORDS,
     "step(samples=None)\n--\n\nEnds the running step and begins the next. "
     "`samples`: how many it saw."},
    {"range_push", range_push, METH_O, NULL},
    {"range_pop", range_pop, METH_NOARGS, NULL},
    NATIVE_FAST(
        "metric", metric,
        "metric(name, value, /)\n--\n\nA number of the running step, shown beside it."),
    NATIVE_FAST("collecting", collecting, NULL),
    {"waited", waited, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "trainglass._native",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module != NULL ? PyType_FromSpec(&annotate_spec) : NULL;

    if (type != NULL && wraps_add(module) == 0 &&
        PyModule_AddObject(module, "annotate", type) == 0)
        return module;
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
}
