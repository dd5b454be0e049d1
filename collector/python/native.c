/* trainglass._native: the library's table as Python functions, for the hot calls.
 *
 * Limited API of Python 3.10: one file for every later version. The one rule: no
 * function raises for what is wrong with us; before load() all do nothing.
 *
 *     annotate("name")  context manager and decorator
 *     step(samples)     mark(kind, id)   range_push(name)   range_pop()   metric(n, v)
 */
#include "native.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "probe/steps/steps.h"
#include "probe/torch/python.h"

static const struct trainglass_python *table;
static PyObject *wake; /* called once before the first record of a sleeping process */

#define HAS(member) NATIVE_HAS(table, member)

const struct trainglass_python *native_table(void)
{
    return table;
}

void native_forget_error(void)
{
    bool interrupted =
        PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);

    PyErr_Clear();
    if (interrupted)
        PyErr_SetInterrupt();
}

/* The process sleeps: a worker, a forked child. Who records something wakes it. */
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

void native_wake_for(long mark)
{
    if (wake != NULL)
        awaken(mark);
}

const char *native_utf8(PyObject *text)
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

/* ---- the session
 * --------------------------------------------------------------------- */

static PyObject *load(PyObject *module, PyObject *path)
{
    const struct trainglass_python *(*entry)(void);
    void *library = dlopen(native_utf8(path), RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "trainglass_python") : NULL;

    (void)module;
    if (symbol == NULL) {
        const char *why = dlerror();

        PyErr_SetString(PyExc_OSError, why != NULL ? why : "no such library");
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof(symbol));
    if (entry()->major != TRAINGLASS_PYTHON_MAJOR) {
        PyErr_SetString(PyExc_OSError, "library and package have different versions");
        return NULL;
    }
    table = entry();
    Py_RETURN_TRUE;
}

static PyObject *start(PyObject *module, PyObject *role)
{
    (void)module;
    return PyLong_FromLong(HAS(start) ? table->start((uint32_t)integer(role)) : -1);
}

static PyObject *is_open(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(HAS(is_open) && table->is_open());
}

static PyObject *text(const char *(*get)(void))
{
    const char *bytes = get != NULL ? get() : "";

    return PyUnicode_DecodeFSDefault(bytes != NULL ? bytes : "");
}

static PyObject *reason(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return text(HAS(reason) ? table->reason : NULL);
}

static PyObject *session(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return text(HAS(session) ? table->session : NULL);
}

static PyObject *path(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return text(HAS(path) ? table->path : NULL);
}

static PyObject *role(PyObject *module, PyObject *value)
{
    (void)module;
    if (HAS(role))
        table->role((uint32_t)integer(value));
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *code)
{
    (void)module;
    if (HAS(end))
        table->end((int)integer(code));
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

/* ---- marks and ranges
 * ------------------------------------------------------------------ */

static PyObject *mark(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 1)
        return arguments_missing();
    long kind = integer(arguments[0]);

    native_wake_for(kind);
    if (HAS(mark))
        table->mark((uint32_t)kind, count > 1 ? (uint32_t)integer(arguments[1]) : 0);
    native_boundary();
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
    native_boundary();
}

static PyObject *step(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *words)
{
    Py_ssize_t named = words != NULL ? PyTuple_Size(words) : 0;
    long samples;

    (void)module;
    if (count + named > 1 ||
        (named == 1 &&
         strcmp(native_utf8(PyTuple_GetItem(words, 0)), "samples") != 0)) {
        PyErr_SetString(PyExc_TypeError, "step() takes samples and nothing else");
        return NULL;
    }
    native_wake_for(STEPS_STEP);
    if (count + named > 0 && arguments[0] != Py_None && HAS(samples) &&
        whole(arguments[0], &samples) && samples >= 0)
        table->samples((uint64_t)samples);
    if (HAS(mark))
        table->mark(STEPS_STEP, 0);
    native_boundary();
    Py_RETURN_NONE;
}

static PyObject *range_push(PyObject *module, PyObject *name)
{
    (void)module;
    native_wake_for(-1);
    if (HAS(range_push))
        table->range_push(native_utf8(name));
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
    native_wake_for(-1);
    if (HAS(metric) && real(arguments[1], &value))
        table->metric(native_utf8(arguments[0]), value);
    Py_RETURN_NONE;
}

static PyObject *ask(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 3)
        return arguments_missing();
    if (HAS(ask))
        table->ask((int32_t)integer(arguments[0]), (int32_t)integer(arguments[1]),
                   (uint32_t)integer(arguments[2]));
    Py_RETURN_NONE;
}

static PyObject *rank(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 3)
        return arguments_missing();
    if (HAS(rank))
        table->rank((int32_t)integer(arguments[0]), (int32_t)integer(arguments[1]),
                    (int32_t)integer(arguments[2]));
    Py_RETURN_NONE;
}

static PyObject *parent(PyObject *module, PyObject *pid)
{
    (void)module;
    if (HAS(parent))
        table->parent((uint32_t)integer(pid));
    Py_RETURN_NONE;
}

/* May wait: see cupti_yield(). Others need not. */
static PyObject *gpu_yield(PyObject *module, PyObject *begins)
{
    int begin = (int)integer(begins);

    (void)module;
    if (!HAS(gpu_yield))
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS;
    table->gpu_yield(begin);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *happened(PyObject *module, PyObject *const *arguments,
                          Py_ssize_t count)
{
    (void)module;
    if (count < 3)
        return arguments_missing();
    if (HAS(happened))
        table->happened((uint32_t)integer(arguments[0]), native_utf8(arguments[1]),
                        (uint64_t)integer(arguments[2]));
    Py_RETURN_NONE;
}

/* An entry of gc.callbacks: ("start" or "stop", {"generation": n, ...}). */
static PyObject *collecting(PyObject *module, PyObject *const *arguments,
                            Py_ssize_t count)
{
    (void)module;
    if (count < 2 || !HAS(gc_end))
        Py_RETURN_NONE;
    if (native_utf8(arguments[0])[0] == 's' && native_utf8(arguments[0])[2] == 'a') {
        table->gc_begin();
        Py_RETURN_NONE;
    }
    PyObject *generation = PyDict_Check(arguments[1])
                               ? PyDict_GetItemString(arguments[1], "generation")
                               : NULL;

    table->gc_end(generation != NULL ? (uint32_t)integer(generation) : 0);
    Py_RETURN_NONE;
}

/* ---- facts
 * --------------------------------------------------------------------------- */

static PyObject *fact(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 2)
        return arguments_missing();
    const char *key = native_utf8(arguments[0]);
    PyObject *value = arguments[1];
    long number;
    double fraction;

    if (PyBool_Check(value) && HAS(fact_bool))
        table->fact_bool(key, value == Py_True);
    else if (PyLong_Check(value) && HAS(fact_number) && whole(value, &number))
        table->fact_number(key, number);
    else if (PyFloat_Check(value) && HAS(fact_real) && real(value, &fraction))
        table->fact_real(key, fraction);
    else if (PyUnicode_Check(value) && HAS(fact_text))
        table->fact_text(key, native_utf8(value));
    Py_RETURN_NONE;
}

static PyObject *capability(PyObject *module, PyObject *const *arguments,
                            Py_ssize_t count)
{
    (void)module;
    if (count < 4)
        return arguments_missing();
    if (HAS(capability))
        table->capability((uint32_t)integer(arguments[0]),
                          (uint32_t)integer(arguments[1]),
                          arguments[2] != Py_None ? native_utf8(arguments[2]) : NULL,
                          arguments[3] != Py_None ? native_utf8(arguments[3]) : NULL);
    Py_RETURN_NONE;
}

/* ---- torch
 * --------------------------------------------------------------------------- */

static PyObject *torch_begin(PyObject *module, PyObject *scopes)
{
    (void)module;
    return PyLong_FromLong(
        HAS(torch_begin) ? table->torch_begin((uint32_t)integer(scopes)) : -1);
}

static PyObject *torch_end(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLong(HAS(torch_end) ? table->torch_end() : -1);
}

static PyObject *waited(PyObject *module, PyObject *ns)
{
    (void)module;
    if (HAS(waited))
        table->waited((uint64_t)integer(ns));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"load", load, METH_O, "Loads libtrainglass.so from a path; raises OSError."},
    {"start", start, METH_O, NULL},
    {"is_open", is_open, METH_NOARGS, NULL},
    {"reason", reason, METH_NOARGS, NULL},
    {"session", session, METH_NOARGS, NULL},
    {"path", path, METH_NOARGS, NULL},
    {"role", role, METH_O, NULL},
    {"end", end, METH_O, NULL},
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
    NATIVE_FAST("ask", ask, NULL),
    NATIVE_FAST("rank", rank, NULL),
    {"parent", parent, METH_O, NULL},
    {"gpu_yield", gpu_yield, METH_O, NULL},
    NATIVE_FAST("happened", happened, NULL),
    NATIVE_FAST("collecting", collecting, NULL),
    NATIVE_FAST("fact", fact, NULL),
    NATIVE_FAST("capability", capability, NULL),
    {"torch_begin", torch_begin, METH_O, NULL},
    {"torch_end", torch_end, METH_NOARGS, NULL},
    {"waited", waited, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "trainglass._native",
    .m_doc = "The library's table as Python functions.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (module != NULL && wraps_add(module) == 0 && boundary_add(module) == 0 &&
        annotate_add(module) == 0)
        return module;
    Py_XDECREF(module);
    return NULL;
}
